# SPDX-License-Identifier: BSD-3-Clause
"""Batches, with numpy and without; groups, prepared lists, vectored I/O."""
import errno
import gc
import unittest

import nvmfr
from nvmfr import Op

from support import BLOCK, HAVE_NUMPY, SoftCase, needs_numpy, pattern, without_numpy

COUNT = 64


class WithoutNumpy(SoftCase):
    numpy = False

    def setUp(self):
        if not self.numpy:
            patch = without_numpy()
            patch.start()
            self.addCleanup(patch.stop)
        elif not HAVE_NUMPY:
            self.skipTest("numpy is not installed for this Python")
        super().setUp()
        self.fill(1024)
        self.qpair = self.controller.queue_pair(COUNT)
        self.buffer = self.host.alloc(COUNT * BLOCK)
        self.batch = nvmfr.Batch(COUNT)
        self.done = nvmfr.Completions(COUNT)

    def lbas(self):
        """Not in order."""
        return [index * 7 % 1024 for index in range(COUNT)]

    def fill_batch(self, batch=None):
        (batch or self.batch).fill(Op.READ, self.nsid, self.lbas(), 1, self.buffer,
                                   range(0, COUNT * BLOCK, BLOCK))

    def collect(self, poller, count):
        self.assertEqual(poller.wait(self.done, count), count)
        self.done.check(count)
        return [self.done[index].user_data for index in range(count)]

    def check_data(self):
        for index, lba in enumerate(self.lbas()):
            self.assertEqual(bytes(self.buffer.view[index * BLOCK:(index + 1) * BLOCK]), pattern(lba, 1))

    def test_submit_and_wait(self):
        self.fill_batch()
        self.assertEqual(self.qpair.submit(self.batch), COUNT)
        self.assertEqual(sorted(self.collect(self.qpair, COUNT)), list(range(COUNT)))
        self.check_data()

    def test_submit_and_wait(self):
        """More than the queue pair is deep, one call; then with a full queue between two calls."""
        with self.controller.queue_pair(8) as qpair:
            self.fill_batch()
            self.assertEqual(qpair.submit_and_wait(self.batch, self.done, COUNT), (COUNT, COUNT))
            self.done.check(COUNT)
            self.check_data()
            self.buffer.view[:] = bytes(len(self.buffer))
            taken, have = 0, 0
            while have < COUNT:
                step = qpair.submit_and_wait(self.batch, self.done, min(10, COUNT - have), first=taken,
                                             count=COUNT - taken, out_first=have)
                taken, have = taken + step[0], have + step[1]
                if taken < COUNT:
                    self.assertEqual(qpair.info.in_flight, 8)
            self.done.check(COUNT)
            self.assertEqual(sorted(self.done[i].user_data for i in range(COUNT)), list(range(COUNT)))
            self.check_data()

    def test_submit_and_wait_for_something_bad(self):
        self.fill_batch()
        self.batch[5].nsid = 77
        self.assertEqual(self.qpair.submit_and_wait(self.batch, self.done, COUNT), (5, 5))
        with self.assertRaises(nvmfr.NotFoundError):
            self.qpair.submit_and_wait(self.batch, self.done, COUNT, first=5)
        for arguments in ({"min_count": COUNT + 1}, {"first": COUNT}, {"out_first": -1}):
            with self.assertRaises(IndexError):
                self.qpair.submit_and_wait(self.batch, self.done, **arguments)
        self.silence(count=0)
        self.assertEqual(self.qpair.submit_and_wait(self.batch, self.done, count=2, timeout=0.3), (2, 0))

    def test_poll_in_parts(self):
        self.fill_batch()
        self.assertEqual(self.qpair.submit(self.batch, 10), 10)
        self.assertEqual(self.qpair.submit(self.batch, COUNT - 10, 10), COUNT - 10)
        have = 0
        while have < COUNT:
            have += self.qpair.poll(self.done, have)
        self.assertEqual(sorted(self.done[i].user_data for i in range(COUNT)), list(range(COUNT)))
        self.assertEqual(self.done.failures(COUNT), 0)
        self.check_data()

    def test_write(self):
        self.buffer.view[:] = bytes(range(256)) * (COUNT * BLOCK // 256)
        self.batch.fill(Op.WRITE, self.nsid, range(COUNT), 1, self.buffer, range(0, COUNT * BLOCK, BLOCK))
        self.qpair.submit(self.batch)
        self.collect(self.qpair, COUNT)
        self.assertEqual(self.controller.namespace().read(0, COUNT), self.buffer.view)

    def test_part_is_filled(self):
        self.fill_batch()
        self.batch.fill(Op.READ, self.nsid, 900, 1, self.buffer, 0, user_data=[7, 8], first=3, count=2)
        self.assertEqual([self.batch[i].lba for i in (2, 3, 4, 5)], [14, 900, 900, 35])
        self.assertEqual([self.batch[i].user_data for i in (2, 3, 4, 5)], [2, 7, 8, 5])

    def test_fewer_are_taken(self):
        self.fill_batch()
        self.batch[5].nsid = 77
        self.assertEqual(self.qpair.submit(self.batch), 5)
        with self.assertRaises(nvmfr.NotFoundError):
            self.qpair.submit(self.batch, first=5)
        self.collect(self.qpair, 5)

    def test_failures(self):
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, value=0x2281, skip=3, opcode=Op.READ)
        self.fill_batch()
        self.qpair.submit(self.batch, 8)
        self.assertEqual(self.qpair.wait(self.done, 8), 8)
        self.assertEqual(self.done.failures(8), 1)
        self.assertEqual(sum(self.done[i].result == -errno.EREMOTEIO for i in range(8)), 1)
        with self.assertRaisesRegex(nvmfr.StatusError, "the I/O 3 failed"):
            self.done.check(8)

    def test_timeout(self):
        self.silence(count=0)
        self.fill_batch()
        self.qpair.submit(self.batch, 2)
        self.assertEqual(self.qpair.wait(self.done, 1, 0), 0)
        self.assertEqual(self.qpair.wait(self.done, 1, 0.3), 0)  # longer than a slice

    def test_fewer_are_in_flight(self):
        self.fill_batch()
        self.qpair.submit(self.batch, 3)
        self.assertEqual(self.qpair.wait(self.done, 10), 3)

    def test_arguments(self):
        self.fill_batch()
        with self.assertRaises(IndexError):
            self.qpair.submit(self.batch, COUNT + 1)
        with self.assertRaises(IndexError):
            self.qpair.wait(self.done, COUNT + 1)
        with self.assertRaises(IndexError):
            self.qpair.poll(self.done, COUNT)
        with self.assertRaises(IndexError):
            self.batch.fill(Op.READ, 1, 0, 1, self.buffer, first=COUNT - 1, count=2)
        with self.assertRaises(ValueError):
            self.batch.fill(Op.READ, 1, [1, 2, 3], 1, self.buffer)
        for size in (0, -1):
            with self.assertRaises(ValueError):
                nvmfr.Batch(size)

    def test_prepared(self):
        self.fill_batch()
        with self.qpair.prepare(self.batch) as prepared:
            self.assertEqual(len(prepared), COUNT)
            for _ in range(3):
                self.buffer.view[:] = bytes(COUNT * BLOCK)
                self.assertEqual(prepared.post(), COUNT)
                self.collect(self.qpair, COUNT)
                self.check_data()
            self.assertEqual(prepared.post(3, 1), 1)
            self.assertEqual(self.collect(self.qpair, 1), [3])
            with self.assertRaises(nvmfr.BusyError):
                self.buffer.release()
            with self.assertRaises(IndexError):
                prepared.post(1, COUNT)
        self.buffer.release()
        with self.assertRaisesRegex(ValueError, "closed"):
            prepared.post()

    def test_prepared_outlived_by_nothing(self):
        self.fill_batch()
        prepared = self.qpair.prepare(self.batch)
        self.qpair.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            prepared.post()
        self.buffer.release()

    def test_pieces(self):
        pieces = nvmfr.Pieces(3)
        for index, (offset, blocks) in enumerate(((9 * BLOCK, 1), (0, 2), (5 * BLOCK, 1))):
            pieces.set(index, self.buffer, offset, blocks * BLOCK)
        self.batch.fill(Op.READ, self.nsid, 100, 4, None, count=1, user_data=5)
        self.batch.set_pieces(0, pieces)
        del pieces
        self.qpair.submit(self.batch, 1)
        self.batch.clear()
        gc.collect()
        self.assertEqual(self.collect(self.qpair, 1), [5])
        want, view = pattern(100, 4), self.buffer.view
        self.assertEqual(bytes(view[9 * BLOCK:10 * BLOCK]), want[:BLOCK])
        self.assertEqual(bytes(view[:2 * BLOCK]), want[BLOCK:3 * BLOCK])
        self.assertEqual(bytes(view[5 * BLOCK:6 * BLOCK]), want[3 * BLOCK:])

    def test_group(self):
        group = self.host.group(8)
        qpairs = [self.controller.queue_pair(8, group=group, qpair_data=100 + i) for i in range(4)]
        self.fill_batch()
        for index, qpair in enumerate(qpairs):
            self.assertEqual(qpair.submit(self.batch, 8, index * 8), 8)
        self.assertEqual(group.wait(self.done, 32), 32)
        self.done.check(32)
        whose = {self.done[i].user_data: self.done[i].qpair_data for i in range(32)}
        self.assertEqual(whose, {i: 100 + i // 8 for i in range(32)})
        self.assertEqual(group.poll(self.done), 0)
        self.assertGreaterEqual(group.fileno(), 0)
        while not group.arm():
            self.assertEqual(group.poll(self.done), 0)
        with self.assertRaises(nvmfr.BusyError):
            group.close()
        with self.assertRaisesRegex(nvmfr.ArgumentError, "nothing is in flight"):
            group.wait(self.done)
        for qpair in qpairs:
            qpair.close()
        group.close()
        with self.assertRaises(ValueError):
            group.poll(self.done)


class WithNumpy(WithoutNumpy):
    numpy = True

    @needs_numpy
    def test_arrays(self):
        import numpy
        self.assertEqual(self.batch.array.dtype.itemsize, 64)
        self.assertEqual(self.done.array.dtype.itemsize, 32)
        self.batch.array["op"] = Op.READ
        self.batch.array["nsid"] = self.nsid
        self.batch.array["lba"] = numpy.array(self.lbas())
        self.batch.array["nblocks"] = 1
        self.batch.array["buf"] = self.batch.attach(self.buffer)
        self.batch.array["offset_bytes"] = numpy.arange(COUNT) * BLOCK
        self.batch.array["user_data"] = numpy.arange(COUNT)
        self.assertEqual(self.batch[9].lba, 63)
        self.qpair.submit(self.batch)
        self.collect(self.qpair, COUNT)
        self.assertEqual(sorted(self.done.array["user_data"]), list(range(COUNT)))
        self.assertFalse(self.done.array["result"].any())
        self.check_data()

    @needs_numpy
    def test_dtypes(self):
        """A fraction is not cut off: the LBA would be another."""
        import numpy
        for lba in (numpy.linspace(0, 100, COUNT), 0.5, [0.5] * COUNT, "text"):
            with self.subTest(lba), self.assertRaisesRegex(TypeError, "lba is .* whole numbers"):
                self.batch.fill(Op.READ, self.nsid, lba, 1, self.buffer)
        for lba in (numpy.arange(COUNT, dtype="u2"), numpy.uint64(7), [2 ** 64 - 1] + [0] * (COUNT - 1)):
            with self.subTest(lba):
                self.batch.fill(Op.READ, self.nsid, lba, 1, self.buffer)
        self.assertEqual((self.batch[0].lba, self.batch[1].lba), (2 ** 64 - 1, 0))


class NoNumpy(unittest.TestCase):

    def test_array_says_so(self):
        with without_numpy(), self.assertRaisesRegex(ImportError, "entries"):
            nvmfr.Batch(1).array
