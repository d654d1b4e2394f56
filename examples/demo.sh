#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# demo.sh: the main job, from a fresh machine. Installs the Debian packages that are missing,
# builds, boots four small Linux guests for their RAM images, and shares their equal pages with
# every byte verified. What it makes stays in build/ and is used again by the next run.
#
# Needs root or sudo, for packages and for userfaultfd. Changes no setting of the system.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/packages.sh

build=build/release
guests=build/guests

say() {
	printf '\n== %s\n' "$*"
}

pdd_install_packages cmake:cmake ninja-build:ninja gcc:cc libc6-dev pkg-config:pkg-config \
	libxxhash-dev libcmocka-dev || exit 1

say "building"
mkdir -p build
cmake --preset release >build/demo.log 2>&1 && cmake --build --preset release >>build/demo.log 2>&1 || {
	tail -n 30 build/demo.log
	exit 1
}

say "four guests of 256 MiB"
images=()
if pdd_install_packages qemu-system-x86:qemu-system-x86_64 busybox-static:busybox cpio:cpio &&
	bash examples/make-guests.sh -n 4 -m 256 "$guests"; then
	images=("$guests"/guest-{1..4}.ram)
else
	echo "No real guests can be booted here (see above): going on with generated ones."
	bash examples/make-guests.sh --generated --tool "$build/tests/tools/make_image" \
		-n 4 -m 256 "$guests-generated"
	images=("$guests-generated"/guest-{1..4}.ram)
fi

say "sharing their pages"
root=()
if [ "$(id -u)" -ne 0 ]; then
	root=(sudo) # userfaultfd for accesses by the kernel is for the privileged by default
fi
"${root[@]}" "$build/examples/guest-dedup" "${images[@]}"

say "the same pages, counted by sorting their contents"
"$build/tests/tools/count_pages" "${images[@]}"
