#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tidy.sh BUILD_DIR    clang-tidy (.clang-tidy) over library and examples; BUILD_DIR was configured by meson
set -eu -o pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
# What it counts as suppressed (warnings in system headers) goes to stderr.
printf '%s\0' lib/*/*.c examples/*.c |
	xargs -0 -n 4 -P "$(nproc)" clang-tidy -p "$build" --quiet 2>/dev/null
