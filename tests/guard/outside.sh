#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# outside.sh ROOT pkgconfig|subproject    a program outside the project builds with it and runs
set -eu
root=$(cd "$1" && pwd)
here=$root/tests/guard/outside
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc=${CC:-cc}

with_pkgconfig() {
	local prefix=$tmp/prefix flags
	meson setup "$tmp/build" "$root" --prefix "$prefix" --libdir lib --buildtype release \
		-Dtests=disabled -Dexamples=disabled -Ddocs=disabled
	meson install -C "$tmp/build"
	flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs nvmfr)
	case " $flags " in *" -libverbs "* | *" -lrdmacm "* | *" -lnuma "*)
		echo "private requirements leak into: $flags"
		return 1
		;;
	esac
	# shellcheck disable=SC2086
	$cc -std=c11 -Wall -Wextra -Werror "$here/main.c" -o "$tmp/outside" $flags
	LD_LIBRARY_PATH=$prefix/lib "$tmp/outside"
}

with_subproject() {
	mkdir -p "$tmp/source/subprojects"
	ln -s "$root" "$tmp/source/subprojects/nvmfr"
	cp "$here/main.c" "$tmp/source/"
	cp "$here/project.build" "$tmp/source/meson.build"
	meson setup "$tmp/build" "$tmp/source" --wrap-mode=forcefallback
	ninja -C "$tmp/build"
	"$tmp/build/outside"
}

"with_$2"
