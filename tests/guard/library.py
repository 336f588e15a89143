#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""library.py symbols|needed|size|probes LIBRARY [MAP HEADER...|NAME...]: what the built shared library shows."""
import os
import re
import subprocess
import sys
import tempfile

ALLOWED_NEEDED = re.compile(r"lib(ibverbs|rdmacm|numa|c)\.so\.\d+|ld-linux[\w.-]*\.so\.\d+")
MAX_STRIPPED_BYTES = 256 * 1024
NODE = "NVMFR_0"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def exported(library):
    lines = output("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines()
    names = [line.split()[-1] for line in lines]
    return {name for name in names if name != f"{NODE}@@{NODE}" and name != NODE}


def mapped(path):
    text = re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)
    body = re.search(rf"{NODE}\s*\{{\s*global:(.*?)local:\s*\*;", text, re.S)
    return set(re.findall(r"\w+", body.group(1))) if body else set()


def declared(headers):
    text = " ".join(re.sub(r"/\*.*?\*/", "", read(path), flags=re.S) for path in headers)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return set(re.findall(r"\bNVMFR_API\b[^;{]*?\b(nvmfr_\w+)\s*\(", text))


def differ(left_name, left, right_name, right):
    """One line for each name that stands on one side only."""
    return [f"{name}: in {left_name}, not in {right_name}" for name in sorted(left - right)] + \
           [f"{name}: in {right_name}, not in {left_name}" for name in sorted(right - left)]


def symbols(library, map_path, *headers):
    names = mapped(map_path)
    found = exported(library)
    print(f"{len(found)} symbols")
    if not names:
        return [f"{map_path} names no symbols"]
    return differ("the map", {f"{name}@@{NODE}" for name in names}, "the library", found) + \
        differ("the map", names, "the headers", declared(headers))


def needed(library):
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", library))
    print("needs", *names)
    return [f"needs {name}" for name in names if not ALLOWED_NEEDED.fullmatch(name)]


def size(library):
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "stripped.so")
        output("strip", "--strip-unneeded", "-o", stripped, library)
        found = os.path.getsize(stripped)
    print(f"{found} bytes stripped, {MAX_STRIPPED_BYTES} allowed")
    return ["too big"] if found >= MAX_STRIPPED_BYTES else []


def probes(library, *wanted):
    """Static probes of provider nvmfr: these, and without names none at all."""
    text = output("readelf", "-nW", library)
    found = set(re.findall(r"Provider: nvmfr\s+Name: (\w+)", text))
    print(f"{len(found)} probes")
    return differ("the list", set(wanted), "the library", found)


def main():
    checks = {"symbols": symbols, "needed": needed, "size": size, "probes": probes}
    if len(sys.argv) < 3 or sys.argv[1] not in checks:
        sys.exit(__doc__)
    problems = checks[sys.argv[1]](*sys.argv[2:])
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
