#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""text.py ROOT: licence lines, line form, and words that have no place in the sources."""
import os
import re
import sys

LICENCE = "SPDX-License-Identifier: BSD-3-Clause"
MAX_COLUMNS = 120  # 100 is the aim; a comment beside a table may run over
SKIP_FOLDERS = {".git", "build", "__pycache__", "html"}
CODE = (".c", ".h", ".py", ".sh", ".build", ".map", ".options")
PROSE = (".md", ".txt")

# Spelled in pieces, so that this file does not find itself.
FORBIDDEN = re.compile("|".join([
    r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b",
    r"/wo" + r"rk/", r"/tm" + r"p/h/", r"/ro" + r"ot/", r"/ho" + r"me/\w",
]))


def sources(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIP_FOLDERS)
        for name in sorted(names):
            yield os.path.join(folder, name)


def kind(path, text):
    if path.endswith(CODE) or text.startswith("#!") or os.path.basename(path) == "meson_options.txt":
        return "code"
    return "prose" if path.endswith(PROSE) else "other"


def line_problems(is_c, line):
    if line != line.rstrip():
        yield "blanks at the end"
    if is_c and len(line.expandtabs(8)) > MAX_COLUMNS and "/**<" not in line:
        yield f"wider than {MAX_COLUMNS} columns"
    if is_c and re.match(r"\t* {8}", line):
        yield "indented with blanks"
    found = FORBIDDEN.search(line)
    if found:
        yield f"has '{found.group()}'"


def problems_of(path, text):
    what = kind(path, text)
    if what == "other":
        return
    if what == "code" and LICENCE not in "\n".join(text.split("\n", 2)[:2]):
        yield 1, "no licence line"
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"
    for number, line in enumerate(text.split("\n"), 1):
        is_c = path.endswith((".c", ".h")) and "/standin/" not in path
        for problem in line_problems(is_c, line):
            yield number, problem


def main():
    root = os.path.abspath(sys.argv[1])
    count, bad = 0, 0
    for path in sources(root):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            continue
        count += 1
        for number, problem in problems_of(path, text):
            bad += 1
            print(f"{os.path.relpath(path, root)}:{number}: {problem}")
    print(f"{count} files, {bad} problems")
    sys.exit(1 if bad else 0)


main()
