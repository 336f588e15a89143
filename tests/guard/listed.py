#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""listed.py ROOT: every source of the library and every test stands in its meson.build, so none is left out."""
import glob
import os
import re
import sys

# Where sources lie, where they are listed, and what stands for one there: its path or a test's name.
LISTS = [
    ("lib/*/*.c", "lib/meson.build", lambda path: path[len("lib/"):]),
    ("tests/unit/test_*.c", "tests/meson.build", lambda path: os.path.basename(path)[len("test_"):-2]),
    ("tests/flow/test_*.c", "tests/meson.build", lambda path: os.path.basename(path)[len("test_"):-2]),
    ("bindings/python/tests/test_*.py", "bindings/python/meson.build",
     lambda path: os.path.basename(path)[len("test_"):-3]),
    ("examples/*.c", "examples/meson.build", os.path.basename),
]


def main():
    os.chdir(sys.argv[1])
    seen, problems = 0, []
    for pattern, listing, entry in LISTS:
        with open(listing, encoding="utf-8") as file:
            words = set(re.findall(r"'([^']*)'", re.sub(r"#.*", "", file.read())))
        for path in sorted(glob.glob(pattern)):
            seen += 1
            # A loop over names adds the suffix itself.
            if not {entry(path), entry(path).removesuffix(".c")} & words:
                problems.append(f"{path}: not in {listing}")
    print(f"{seen} files")
    print(*problems, sep="\n")
    sys.exit(1 if problems or not seen else 0)


main()
