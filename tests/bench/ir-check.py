#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ir-check.py [--record] BUILD_DIR: instructions per I/O of the main rows against recorded.json, so that they cannot
creep: 5 up or down fail. --record writes what is measured there, for the compiler that BUILD_DIR was built with.
Compilers that have no record are skipped, as is a machine without valgrind."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

from measure import AGAIN, COMMANDS_OF_64_MIB, HERE, IRIO, LEAN

RECORD = os.path.join(HERE, "recorded.json")
ROWS = ["qd32", "qd128", "single", "qd1", "128k", "icd", "icd-mixed", "vec4", "split", "prepared"]
TOLERANCE = 5.0
COUNTS = (2000, 12000)


def compiler_of(library):
    """As "gcc 12", from what compilers note in an object; clang's comes beside gcc's of the C library."""
    text = subprocess.run(["readelf", "-p", ".comment", library], capture_output=True, text=True, check=True).stdout
    clang = re.search(r"clang version (\d+)", text)
    gcc = re.search(r"GCC: \(.*\) (\d+)", text)
    return f"clang {clang.group(1)}" if clang else f"gcc {gcc.group(1)}" if gcc else "unknown"


def program_of(build, row):
    if row in AGAIN:
        return [os.path.join(build, "tests/bench/again"), *AGAIN[row].split()]
    return [os.path.join(build, "tests/lean"), *LEAN[row].split()]


def instructions(build, row):
    share = COMMANDS_OF_64_MIB if row.startswith("split") else 1
    low, high = (n // share for n in COUNTS)
    run = subprocess.run([IRIO, "-L", os.path.join(build, "tests/standin"), "-n", f"{low},{high}", "--rest-only", "--",
                          *program_of(build, row), "-n", "%N"],
                         stdout=subprocess.PIPE, text=True, check=True)
    return round(float(run.stdout) / share, 1)


def record(compiler, found, known):
    known[compiler] = found
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1, sort_keys=True)
        file.write("\n")
    print(f"recorded for {compiler}")


def compare(found, known):
    """TAP lines; whether all are as recorded."""
    good = True
    print(f"1..{len(ROWS)}")
    for number, row in enumerate(ROWS, 1):
        off = found[row] - known[row] if row in known else None
        fine = off is not None and abs(off) <= TOLERANCE
        good = good and fine
        print(f"{'ok' if fine else 'not ok'} {number} - {row}: {found[row]:.1f} Ir, recorded {known.get(row)}")
        if off is not None and off < -TOLERANCE:
            print("# better than recorded: record it, with ir-check.py --record BUILD_DIR")
    return good


def main():
    arguments = sys.argv[1:]
    recording = "--record" in arguments
    if recording:
        arguments.remove("--record")
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    compiler = compiler_of(os.path.join(build, "lib/libnvmfr.so"))
    with open(RECORD, encoding="utf-8") as file:
        known = json.load(file)
    if not shutil.which("valgrind") or (compiler not in known and not recording):
        print(f"1..0 # SKIP nothing is recorded for {compiler}, or there is no valgrind")
        sys.exit(0)
    found = {row: instructions(build, row) for row in ROWS}
    if recording:
        record(compiler, found, known)
    elif not compare(found, known[compiler]):
        sys.exit(1)


main()
