#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Makes memory images of real Linux guests, as data for the demonstration and the benchmarks.
#
#   make-guests.sh [-n GUESTS] [-m MIB] [-k KERNEL] OUTDIR
#   make-guests.sh [-n GUESTS] [-m MIB] --generated [--tool MAKE_IMAGE] OUTDIR
#
# Boots GUESTS (4) guests of MIB (256) MiB, two at a time, about three seconds each: Debian's
# cloud kernel and an initramfs with busybox, in QEMU without hardware acceleration, so that
# /dev/kvm is not needed. Each guest copies files to a tmpfs, makes and sorts text, and reports
# on its serial console. Then QEMU is stopped, and its RAM stays as OUTDIR/guest-1.ram and so on:
# raw, page by page, exactly MIB MiB. OUTDIR/guest-1.log is what the guest said.
#
# What exists is used again: the kernel, and images made in the same way in the same size. An
# image has its final name only when it is complete. Delete OUTDIR to begin anew.
#
# The kernel package is downloaded and unpacked in OUTDIR, never installed. That needs no root,
# only its package lists do if there are none (apt-get update, by sudo where there is sudo).
# -k uses a kernel image that is here already; it needs a serial console and devtmpfs built in.
#
# --generated boots nothing: it writes images of the same nature with tests/tools/make_image.c,
# the same ones everywhere. The program is MAKE_IMAGE, or $PDD_BUILD_DIR/tests/tools/make_image.
set -eu
export LC_ALL=C

guests=4
mib=256
kernel=
generated=
tool=
out=
boot_limit_s=180
qemu_pids=
tmp=

say() { printf '%s\n' "make-guests: $*" >&2; }
die() { say "$@"; exit 1; }

usage() {
	sed -n 's/^#   \(make-guests.sh\)/usage: \1/p' "$0" >&2
	exit 2
}

# Only what this script started: QEMU by its process ids, and files with unfinished content.
clean_up() {
	trap '' HUP INT TERM
	for pid in $qemu_pids; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	if [ -n "$tmp" ]; then
		rm -rf "$tmp"
	fi
}

is_number() {
	case $1 in
	'' | 0* | *[!0-9]*) return 1 ;;
	esac
}

parse_arguments() {
	while [ $# -gt 0 ]; do
		case $1 in
		-n | -m | -k | --tool)
			[ $# -ge 2 ] || usage
			case $1 in
			-n) guests=$2 ;;
			-m) mib=$2 ;;
			-k) kernel=$2 ;;
			--tool) tool=$2 ;;
			esac
			shift
			;;
		--generated) generated=yes ;;
		-*) usage ;;
		*)
			[ -z "$out" ] || usage
			out=$1
			;;
		esac
		shift
	done
	if [ -z "$out" ] || ! is_number "$guests" || ! is_number "$mib"; then
		usage
	fi
}

# need PROGRAM PACKAGE
need() {
	command -v "$1" >/dev/null 2>&1 || die "$1 is missing: apt-get install $2"
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo -n "$@"
	else
		return 1
	fi
}

# The package that Debian's metapackage for the cloud kernel depends on at present.
kernel_package() {
	apt-cache depends linux-image-cloud-amd64 2>/dev/null |
		sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)$/\1/p' | sed -n 1p
}

fetch_kernel() {
	kernel=$out/vmlinuz
	[ ! -s "$kernel" ] || return 0
	need apt-get apt
	need dpkg-deb dpkg
	package=$(kernel_package)
	if [ -z "$package" ]; then
		as_root apt-get update >&2 ||
			die "no package lists: run apt-get update as root"
		package=$(kernel_package)
	fi
	[ -n "$package" ] ||
		die "no package linux-image-cloud-amd64 here (Debian has it): use -k KERNEL"
	say "downloading $package"
	(cd "$tmp" && apt-get -qq -o APT::Sandbox::User=root download "$package") >&2 ||
		die "cannot download $package: run apt-get update as root, or use -k KERNEL"
	dpkg-deb -x "$tmp/$package"_*.deb "$tmp/package"
	mv "$tmp/package/boot/vmlinuz-"* "$kernel"
	rm -rf "$tmp/package" "$tmp/$package"_*.deb
}

# What runs in a guest. Some of the text is the same everywhere, some is each guest's own.
write_init() {
	cat <<-'INIT'
		#!/bin/busybox sh
		/bin/busybox mkdir -p /proc /dev /ram
		/bin/busybox mount -t proc proc /proc
		/bin/busybox mount -t devtmpfs dev /dev
		/bin/busybox mount -t tmpfs -o size=60% ram /ram
		exec >/dev/ttyS0 2>&1
		/bin/busybox --install -s /bin
		for word in $(cat /proc/cmdline); do
			case $word in pdd.guest=*) guest=${word#*=} ;; esac
		done
		echo "guest $guest at work"
		cp -r /data /ram/data
		for i in $(seq $((guest % 3 + 1))); do cp /bin/busybox /ram/busybox-$i; done
		seq 1 60000 | sed 's/$/ is a number that every guest knows/' >/ram/common
		seq $guest 7 300000 | sed "s/^/guest $guest counts /" >/ram/own
		sort -r /ram/own >/ram/own.sorted && sort /ram/common >/ram/common.sorted
		head -n $((guest * 1000)) /ram/own | gzip >/ram/own.gz
		find / -xdev -type f | xargs md5sum >/ram/sums
		rm /ram/own
		echo pdd-guest-done
		exec sleep 1000000
	INIT
}

make_initramfs() {
	root=$tmp/root
	mkdir -p "$root/bin" "$root/data"
	cp "$(command -v busybox)" "$root/bin/busybox"
	cp "$kernel" "$root/data/kernel"
	seq 100000 | sed 's/$/ was here before the guest was/' >"$root/data/text"
	write_init >"$root/init"
	chmod 755 "$root/init" "$root/bin/busybox"
	"$root/bin/busybox" sh -c true || die "busybox has no shell: apt-get install busybox-static"
	(cd "$root" && find . | sort | cpio -o -H newc --quiet | gzip -1) >"$tmp/initramfs"
	rm -rf "$root"
}

# is_made I HOW: guest I's image is here, complete, and made in this way.
is_made() {
	image=$out/guest-$1.ram
	[ -f "$image" ] && [ "$(stat -c %s "$image")" -eq $((mib * 1048576)) ] &&
		[ "$(cat "$out/guest-$1.how" 2>/dev/null)" = "$2" ]
}

# publish I HOW: the order makes a later run trust a complete image only.
publish() {
	[ "$(stat -c %s "$tmp/guest-$1")" -eq $((mib * 1048576)) ] || die "image $1: wrong size"
	rm -f "$out/guest-$1.how"
	mv -f "$tmp/guest-$1" "$out/guest-$1.ram"
	printf '%s\n' "$2" >"$tmp/how"
	mv -f "$tmp/how" "$out/guest-$1.how"
	say "$out/guest-$1.ram"
}

# start_guest I: sets pid, which is QEMU's. The kernel ends QEMU if this script is killed.
start_guest() {
	rm -f "$out/guest-$1.log"
	setpriv --pdeathsig TERM qemu-system-x86_64 -accel tcg -machine pc,memory-backend=ram \
		-m "$mib" \
		-object "memory-backend-file,id=ram,mem-path=$tmp/guest-$1,size=${mib}M,share=on" \
		-smp 1 -nodefaults -display none -no-reboot -serial "file:$out/guest-$1.log" \
		-kernel "$kernel" -initrd "$tmp/initramfs" \
		-append "console=ttyS0 quiet panic=-1 pdd.guest=$1" \
		</dev/null >"$tmp/errors-$1" 2>&1 &
	pid=$!
	qemu_pids="$qemu_pids $pid"
}

# await_guest I PID: until it has done its work; QEMU has ended when this returns.
await_guest() {
	tenths=0
	until grep -q '^pdd-guest-done' "$out/guest-$1.log" 2>/dev/null; do
		tenths=$((tenths + 1))
		if ! kill -0 "$2" 2>/dev/null || [ $tenths -gt $((boot_limit_s * 10)) ]; then
			cat "$tmp/errors-$1" "$out/guest-$1.log" 2>/dev/null | tail -n 20 >&2
			die "guest $1 did not finish (memory too small? see $out/guest-$1.log)"
		fi
		sleep 0.1
	done
	kill "$2" 2>/dev/null || :
	wait "$2" 2>/dev/null || :
}

boot_guests() {
	how="booted $mib MiB"
	todo=
	for i in $(seq "$guests"); do
		is_made "$i" "$how" || todo="$todo $i"
	done
	[ -n "$todo" ] || return 0
	need qemu-system-x86_64 qemu-system-x86
	need busybox busybox-static
	need cpio cpio
	need gzip gzip
	need setpriv util-linux
	if [ -z "$kernel" ]; then
		fetch_kernel
	fi
	[ -r "$kernel" ] || die "cannot read the kernel $kernel"
	make_initramfs
	# shellcheck disable=SC2086 # a list of numbers
	set -- $todo
	while [ $# -gt 0 ]; do
		start_guest "$1"
		first=$pid
		if [ $# -ge 2 ]; then
			start_guest "$2"
		fi
		await_guest "$1" "$first"
		publish "$1" "$how"
		if [ $# -ge 2 ]; then
			await_guest "$2" "$pid"
			publish "$2" "$how"
			shift
		fi
		shift
		qemu_pids=
	done
}

generate_guests() {
	how="generated $mib MiB"
	tool=${tool:-${PDD_BUILD_DIR:-.}/tests/tools/make_image}
	for i in $(seq "$guests"); do
		if is_made "$i" "$how"; then
			continue
		fi
		[ -x "$tool" ] || die "$tool is missing: build it, or give it by --tool"
		"$tool" guestlike $((mib * 256)) "$i" "$tmp/guest-$i"
		publish "$i" "$how"
	done
}

parse_arguments "$@"
mkdir -p "$out" || die "cannot make the directory $out"
out=$(cd "$out" && pwd)
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# One run at a time per directory. QEMU inherits the lock, and holds it while it writes.
need flock util-linux
exec 9>"$out/.lock"
flock -n 9 || { say "waiting for another run in $out" && flock 9; }
tmp=$out/.unfinished
rm -rf "$tmp"
mkdir "$tmp"

if [ -n "$generated" ]; then
	generate_guests
else
	boot_guests
fi
