#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""reader.py URI IO_BYTES DEPTH COUNT [WAY]: COUNT random reads from Python as nvmfr-perf does them from C, figures as
JSON. Every read goes to a place of its own choice: numpy draws the LBAs of a part while another is in flight.
WAY: one (default), nvmfr_submit_and_wait(), a call for half a part; two, submit and poll, a call each for 32."""
import json
import sys
import time

import numpy

import nvmfr

PART = 4096


class Reader:
    """A queue pair, a part of the reads, and room for what completes."""

    def __init__(self, controller, io_bytes, depth):
        namespace = controller.namespace()
        self.blocks = io_bytes // namespace.block_bytes
        self.places = namespace.capacity_blocks // self.blocks
        self.depth = depth
        self.random = numpy.random.default_rng(1)
        self.qpair = controller.queue_pair(depth)
        self.buffer = controller.host.alloc(depth * io_bytes)
        numpy.frombuffer(self.buffer.view, dtype="u1")[:] = 0xa5  # as nvmfr-perf: the loop must not fault
        self.batch = nvmfr.Batch(PART)
        self.batch.fill(nvmfr.Op.READ, namespace.nsid, 0, self.blocks, self.buffer,
                        numpy.arange(PART) % depth * io_bytes)
        self.lbas = self.batch.array["lba"]
        self.done = nvmfr.Completions(PART)
        self.first = PART

    def left(self, wanted):
        """How many of the part can be submitted, never more than wanted; a new part where it is over."""
        if self.first == PART:
            self.lbas[:] = self.random.integers(self.places, size=PART, dtype="u8") * numpy.uint64(self.blocks)
            self.first = 0
        return min(PART - self.first, wanted)

    def one(self, count):
        """A call submits and collects."""
        submitted = ended = 0
        while ended < count:
            part = self.left(count - submitted)
            taken, got = self.qpair.submit_and_wait(self.batch, self.done, min(PART // 2, count - ended),
                                                    first=self.first if part else 0, count=part)
            self.done.check(got)
            self.first += taken
            submitted += taken
            ended += got

    def two(self, count):
        """A call submits, another collects."""
        group = max(1, min(32, self.depth // 4))
        submitted = ended = 0
        while ended < count:
            while submitted < count and submitted - ended + group <= self.depth:
                taken = self.qpair.submit(self.batch, min(group, self.left(count - submitted)), self.first)
                self.first += taken
                submitted += taken
            got = self.qpair.poll(self.done)
            self.done.check(got)
            ended += got


def main():
    uri, io_bytes, depth, count = sys.argv[1], *map(int, sys.argv[2:5])
    with nvmfr.Host() as host, host.connect(uri) as controller:
        reader = Reader(controller, io_bytes, depth)
        run = getattr(reader, sys.argv[5] if len(sys.argv) > 5 else "one")
        # No warm-up, as nvmfr-perf has none: the first touch of the target's pages is in both.
        wall, cpu = time.perf_counter(), time.thread_time()
        run(count)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        print(json.dumps({"iops": count / wall, "cpu_us_per_io": cpu / count * 1e6, "io_bytes": io_bytes,
                          "bounced_bytes": reader.qpair.info.bounced_bytes}))


if __name__ == "__main__":
    main()
