# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# To be sourced.

# pdd_install_packages <package>[:<command>]... installs the Debian packages that are missing; one
# whose command is there already is not, wherever that command came from. Asks nothing and needs no
# terminal. Returns 0 when all are there, otherwise 1 after saying what to do.
pdd_install_packages() {
	local spec package missing=() absent=() as_root=()
	for spec in "$@"; do
		pdd_has_package "$spec" || missing+=("${spec%%:*}")
	done
	[ ${#missing[@]} -eq 0 ] && return 0

	echo "Missing packages: ${missing[*]}"
	if ! command -v apt-get >/dev/null; then
		echo "There is no apt-get here: install what your system calls these, then try again." >&2
		return 1
	fi
	if [ "$(id -u)" -ne 0 ]; then
		if ! sudo -n true 2>/dev/null; then
			echo "Installing them needs root. Run: sudo apt-get install ${missing[*]}" >&2
			return 1
		fi
		as_root=(sudo -n)
	fi
	# An update that fails is no reason to stop: the lists that are there may do.
	pdd_apt_get update || echo "apt-get update failed; trying with the package lists at hand" >&2
	pdd_apt_get install --yes --no-install-recommends "${missing[@]}" && return 0

	# All at once failed, so find out which: those that can be had are wanted all the same.
	for package in "${missing[@]}"; do
		pdd_apt_get install --yes --no-install-recommends "$package" || absent+=("$package")
	done
	[ ${#absent[@]} -eq 0 ] && return 0
	echo "These packages could not be installed: ${absent[*]}" >&2
	echo "See apt's messages above; check the network and /etc/apt/sources.list, install them" \
		"by hand, then try again." >&2
	return 1
}

# Uses as_root of pdd_install_packages.
pdd_apt_get() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get --quiet --option Dpkg::Use-Pty=0 --option DPkg::Lock::Timeout=120 \
		"$@" </dev/null
}

pdd_has_package() {
	case $1 in
	*:*) command -v "${1#*:}" >/dev/null ;;
	*) [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
	esac
}
