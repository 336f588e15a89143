#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""batch.py URI [SECONDS [DEPTH]]: random 4 KiB reads, many with one call, and how many a second.

The arrays are made once; with numpy they are filled and looked at as a whole, without by a loop.
"""
import random
import sys
import time

import nvmfr

SIZE = 4096
READS = 1 << 14  # filled before the clock runs, then submitted part by part, over and over


def read_for(controller: nvmfr.Controller, seconds: float, depth: int) -> None:
    namespace = controller.namespace()
    blocks = SIZE // namespace.block_bytes
    places = namespace.capacity_blocks // blocks
    with controller.queue_pair(depth) as qpair, controller.host.alloc(depth * SIZE) as buffer:
        batch = nvmfr.Batch(READS)
        # Nobody looks at the data here: who does gives a place again only after its completion.
        batch.fill(nvmfr.Op.READ, namespace.nsid,
                   [random.randrange(places) * blocks for _ in range(READS)], blocks, buffer,
                   [index % depth * SIZE for index in range(READS)])
        done = nvmfr.Completions(READS // 4 + depth)
        count = in_flight = first = 0
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            # Until a quarter of the batch has ended; the queue pair is full when this returns.
            taken, got = qpair.submit_and_wait(batch, done, READS // 4, first=first)
            done.check(got)
            first = (first + taken) % READS
            in_flight += taken - got
            count += got
        took = time.monotonic() - start
        while in_flight:
            in_flight -= qpair.wait(done, in_flight)
    print(f"{count / took:.0f} reads of {SIZE} bytes a second, up to {depth} at a time")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: batch.py URI [SECONDS [DEPTH]]")
    try:
        with nvmfr.Host() as host, host.connect(sys.argv[1]) as connected:
            seconds, depth = sys.argv[2:4] + ["5", "128"][len(sys.argv) - 2:]
            read_for(connected, float(seconds), int(depth))
    except (nvmfr.Error, nvmfr.LibraryError) as why:
        sys.exit(f"batch.py: {why}")
