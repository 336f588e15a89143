#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""floors.py ROOT: every #include of the library goes to its own floor or a lower one.

A backend's own headers (fabric/soft*.h, fabric/verbs*.h, rdma-core's) are for that backend alone,
but for the entry points that speak of nothing else.
"""
import os
import re
import sys

FLOORS = ["base", "wire", "fabric", "queue", "ctrl", "path", "api"]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.M)
BACKEND = re.compile(r"fabric/(soft|verbs)(_\w+)?\.h|(infiniband|rdma)/.*")
KNOWS = {"api/probe.c": "verbs", "api/soft.c": "soft", "ctrl/soft_lookup.c": "soft"}


def includes(path):
    with open(path, encoding="utf-8") as file:
        return INCLUDE.findall(file.read())


def backend_of(path):
    """Which backend a header belongs to, or a file may know; None: neither."""
    found = BACKEND.fullmatch(path)
    if found:
        return found.group(1) or "verbs"
    own = re.match(r"fabric/(soft|verbs)[_.]", path)
    return own.group(1) if own else KNOWS.get(path)


def breach(path, mark, target):
    """Why this #include is not allowed, or None."""
    floor, other = path.split("/")[0], target.split("/")[0]
    if BACKEND.fullmatch(target) and backend_of(target) != backend_of(path):
        return "that header is for its backend alone"
    if mark == "<":
        return None
    if target.startswith("nvmfr/"):
        return "write <nvmfr/...>: it is the public header"
    if "/" not in target or other not in FLOORS:
        return 'name the floor: "floor/file.h"'
    if FLOORS.index(other) > FLOORS.index(floor):
        return f"{floor} must not know {other}"
    return None


def main():
    lib = os.path.join(sys.argv[1], "lib")
    seen, problems = 0, []
    unknown = [d for d in os.listdir(lib) if os.path.isdir(os.path.join(lib, d)) and d not in FLOORS]
    problems += [f"lib/{name}: not a floor" for name in unknown]
    for floor in FLOORS:
        folder = os.path.join(lib, floor)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            for mark, target in includes(os.path.join(folder, name)):
                seen += 1
                why = breach(f"{floor}/{name}", mark, target)
                if why:
                    problems.append(f"lib/{floor}/{name}: #include {target}: {why}")
    print(f"{seen} includes")
    print(*problems, sep="\n")
    sys.exit(1 if problems or not seen else 0)


main()
