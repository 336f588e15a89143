#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""sizes.py ROOT: lengths of functions and files, reported, and a failure where one is too long."""
import json
import os
import subprocess
import sys

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 800
FOLDERS = ["lib", "examples", "tests"]
STANDIN = "standin"  # a NIC and a target in one, a tool of its own that comes as it is


def sources(root, folder):
    for path, folders, names in os.walk(os.path.join(root, folder)):
        folders[:] = sorted(set(folders) - {STANDIN})
        yield from (os.path.join(path, name) for name in sorted(names) if name.endswith((".c", ".h")))


def functions(paths):
    """(lines, path, name) of every function, its signature and braces counted."""
    text = subprocess.run(["ctags", "--output-format=json", "--fields=+ne", "--languages=C",
                           "--langmap=C:.c.h", "--kinds-C=f", "-L", "-", "-f", "-"],
                          input="\n".join(paths), check=True, capture_output=True, text=True).stdout
    for tag in map(json.loads, text.splitlines()):
        yield tag.get("end", tag["line"]) - tag["line"] + 1, tag["path"], tag["name"]


def file_lines(path):
    with open(path, encoding="utf-8") as file:
        return sum(1 for _ in file)


def share(ordered, percent):
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)][0]


def report(root, folder):
    paths = list(sources(root, folder))
    found = sorted(functions(paths)) if paths else []
    if not found:
        return []
    files = sorted((file_lines(path), path) for path in paths)
    longest = found[-1]
    print(f"{folder}: {len(found)} functions, median {share(found, 50)}, p90 {share(found, 90)}, "
          f"longest {longest[0]} ({longest[2]}); {len(files)} files, longest {files[-1][0]} "
          f"({os.path.relpath(files[-1][1], root)})")
    return [f"{os.path.relpath(path, root)}: {name}: {lines} lines, {MAX_FUNCTION_LINES} allowed"
            for lines, path, name in found if lines > MAX_FUNCTION_LINES] + \
           [f"{os.path.relpath(path, root)}: {lines} lines, {MAX_FILE_LINES} allowed"
            for lines, path in files if lines > MAX_FILE_LINES]


def main():
    root = os.path.abspath(sys.argv[1])
    problems = [problem for folder in FOLDERS for problem in report(root, folder)]
    print(*problems, sep="\n")
    sys.exit(1 if problems else 0)


main()
