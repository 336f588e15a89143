#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plot.py [--seconds S] [--save OUT.svg] [--json OUT.json] URI: throughput of random reads over block size, a curve
for each queue depth, as a table and, with matplotlib, as a picture.

    plot.py --save throughput.svg nvmf+soft:?size=256M
"""
import argparse
import importlib.util
import json
import random
import sys
import time
from typing import Dict

import nvmfr

KIB = 1024
SIZES = [4 * KIB << step for step in range(9)]  # to 1 MiB
DEPTHS = [1, 4, 16, 64]
PART = 2048  # reads that are drawn at once
SPAN = 256 << 20  # bytes of the namespace that are read

Curves = Dict[int, Dict[int, float]]  # GB/s by depth, then by size


def rate(controller: nvmfr.Controller, size: int, depth: int, seconds: float) -> float:
    """Bytes a second of random reads of that size."""
    namespace = controller.namespace()
    blocks = max(1, size // namespace.block_bytes)
    size = blocks * namespace.block_bytes
    places = min(namespace.capacity_blocks, SPAN // namespace.block_bytes) // blocks
    part = max(depth, min(PART, (256 << 20) // size))
    batch, done = nvmfr.Batch(part), nvmfr.Completions(part)
    # The queue pair goes first: what is in flight then ends before its memory.
    with controller.host.alloc(depth * size) as buffer, controller.queue_pair(depth) as qpair:
        batch.fill(nvmfr.Op.READ, namespace.nsid,
                   [random.randrange(places) * blocks for _ in range(part)], blocks, buffer,
                   [index % depth * size for index in range(part)])
        reads, first, start = 0, 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            taken, ended = qpair.submit_and_wait(batch, done, max(1, part // 4), first=first)
            done.check(ended)
            first = (first + taken) % part
            reads += ended
        return reads * size / (time.perf_counter() - start)


def warm_up(namespace: nvmfr.Namespace) -> None:
    """All of it once: caches, and pages of a target in RAM."""
    step = (1 << 20) // namespace.block_bytes
    with namespace.controller.host.alloc(step * namespace.block_bytes) as buffer:
        for lba in range(0, min(namespace.capacity_blocks, SPAN // namespace.block_bytes) - step + 1, step):
            namespace.readinto(buffer, lba)


def draw(curves: Curves, uri: str, path: str) -> None:
    """The picture; the file's name says which kind."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    plot = importlib.import_module("matplotlib.pyplot")
    figure, axes = plot.subplots(figsize=(7, 4))
    for depth, curve in curves.items():
        axes.plot([size // KIB for size in curve], list(curve.values()), marker="o", label=f"{depth}")
    axes.set_xscale("log", base=2)
    axes.set_xticks([size // KIB for size in SIZES], [str(size // KIB) for size in SIZES])
    axes.set(xlabel="block size, KiB", ylabel="GB/s", title=f"random reads, {uri}", ylim=(0, None))
    axes.legend(title="queue depth")
    axes.grid(alpha=0.3)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.endswith("svg") else None)


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput over block size and queue depth.")
    parser.add_argument("uri")
    parser.add_argument("--seconds", type=float, default=1, help="for each point (1)")
    parser.add_argument("--save", metavar="FILE", help="picture: .svg, .png, .pdf; needs matplotlib")
    parser.add_argument("--json", metavar="FILE", help="what was measured")
    given = parser.parse_args()
    if given.save and not importlib.util.find_spec("matplotlib"):
        sys.exit("plot.py: --save needs matplotlib, which is not installed for this Python")
    curves: Curves = {depth: {} for depth in DEPTHS}
    print("GB/s     KiB " + "".join(f"{size // KIB:8}" for size in SIZES))
    with nvmfr.Host() as host, host.connect(given.uri) as controller:
        warm_up(controller.namespace())
        for depth, curve in curves.items():
            for size in SIZES:
                curve[size] = rate(controller, size, depth, given.seconds) / 1e9
            print(f"depth {depth:6} " + "".join(f"{gb:8.3f}" for gb in curve.values()), flush=True)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"uri": given.uri, "gb_s_by_depth_and_size": curves}, file, indent=1)
    if given.save:
        draw(curves, given.uri, given.save)


if __name__ == "__main__":
    try:
        main()
    except (nvmfr.Error, nvmfr.LibraryError) as why:
        sys.exit(f"plot.py: {why}")
