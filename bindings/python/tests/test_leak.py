# SPDX-License-Identifier: BSD-3-Clause
"""10,000 batches and what comes with them: memory and registrations stay as they are."""
import gc
import os
import unittest

import nvmfr
from nvmfr import Op

from support import BLOCK, SoftCase, pattern

ROUNDS, WARM = 10000, 2000
DEPTH = 16
ALLOWANCE = 1 << 20  # of the resident memory: a leak of 128 bytes a round is above it


def resident():
    """Bytes of this process in memory."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@unittest.skipIf("asan" in os.environ.get("LD_PRELOAD", ""), "a sanitizer keeps what was freed")
class Leak(SoftCase):

    def setUp(self):
        super().setUp()
        self.fill(1024)
        self.qpair = self.controller.queue_pair(DEPTH)
        self.done = nvmfr.Completions(DEPTH)

    def stable(self, one_round):
        for index in range(WARM):
            one_round(index)
        before, registered = resident(), len(self.host._handle.buffers)
        for index in range(WARM, WARM + ROUNDS):
            one_round(index)
        self.assertLess(resident() - before, ALLOWANCE)
        self.assertEqual(len(self.host._handle.buffers), registered)
        self.assertEqual(self.qpair.info.bounced_bytes, 0)

    def test_batches(self):
        buffer, batch = self.host.alloc(DEPTH * BLOCK), nvmfr.Batch(DEPTH)

        def one_round(index):
            batch.fill(Op.READ, self.nsid, range(index % 512, index % 512 + DEPTH), 1, buffer,
                       range(0, DEPTH * BLOCK, BLOCK))
            self.assertEqual(self.qpair.submit(batch), DEPTH)
            self.assertEqual(self.qpair.wait(self.done, DEPTH), DEPTH)
            self.done.check(DEPTH)

        self.stable(one_round)
        self.assertEqual(buffer.view, pattern((WARM + ROUNDS - 1) % 512, DEPTH))

    def test_buffers(self):
        """Registered, allocated, seen as a tensor, in a batch of their own, prepared, let go."""
        def one_round(index):
            buffer = (self.host.register(bytearray(2 * BLOCK)) if index % 2 else
                      self.host.alloc(2 * BLOCK))
            buffer.__dlpack__()
            batch = nvmfr.Batch(2)
            batch.fill(Op.READ, self.nsid, [index % 512, 7], 1, buffer, [0, BLOCK])
            with self.qpair.prepare(batch) as prepared:
                prepared.post()
                self.assertEqual(self.qpair.wait(self.done, 2), 2)
            if index % 3:
                buffer.release()

        self.stable(one_round)
