# SPDX-License-Identifier: BSD-3-Clause
"""The simple forms: read, readinto, write, flush, and pread of any range."""
import random

import nvmfr

from support import BLOCK, SoftCase, pattern

BLOCKS = 64


class Simple(SoftCase):

    def setUp(self):
        super().setUp()
        self.fill(BLOCKS)
        self.disk = pattern(0, BLOCKS)
        self.namespace = self.controller.namespace()

    def test_read(self):
        data = self.namespace.read(5, 3)
        self.assertIsInstance(data, bytearray)
        self.assertEqual(data, pattern(5, 3))
        self.assertEqual(self.namespace.queue_pair.info.bounced_bytes, 0)

    def test_readinto(self):
        for target in (bytearray(2 * BLOCK), self.host.alloc(2 * BLOCK)):
            self.assertEqual(self.namespace.readinto(target, 9), 2 * BLOCK)
            view = target.view if isinstance(target, nvmfr.Buffer) else target
            self.assertEqual(bytes(view), pattern(9, 2))

    def test_write_and_flush(self):
        for lba, source in ((1, b"a" * BLOCK), (2, bytearray(b"b" * BLOCK)), (3, self.host.alloc(BLOCK))):
            self.assertEqual(self.namespace.write(source, lba, fua=True), BLOCK)
        self.namespace.flush()
        self.assertEqual(self.namespace.read(1, 3), b"a" * BLOCK + b"b" * BLOCK + bytes(BLOCK))

    def test_large(self):
        """More than one command carries."""
        blocks = self.namespace.capacity_blocks
        data = random.Random(5).randbytes(blocks * BLOCK)
        self.namespace.write(data, 0)
        self.assertEqual(self.namespace.read(0, blocks), data)

    def test_through_a_queue_pair(self):
        with self.controller.queue_pair(4) as qpair:
            namespace = qpair.namespace()
            self.assertIs(namespace.queue_pair, qpair)
            self.assertEqual(namespace.read(2, 1), pattern(2, 1))
            self.silence()
            qpair.read(self.host.alloc(BLOCK), 0, 1)
            for call in (lambda: namespace.read(0, 1), lambda: namespace.pread(bytearray(8), 8, 0)):
                with self.assertRaises(nvmfr.BusyError):
                    call()

    def test_arguments(self):
        with self.assertRaisesRegex(ValueError, "not whole blocks"):
            self.namespace.readinto(bytearray(BLOCK + 1), 0)
        with self.assertRaises(ValueError):
            self.namespace.read(0, 0)
        with self.assertRaises(nvmfr.ArgumentError):
            self.namespace.read(self.namespace.capacity_blocks, 1)
        with self.assertRaises(ValueError):
            self.namespace.read(-1, 1)
        self.assertEqual(self.namespace.read(0, 1), pattern(0, 1))

    def test_read_only(self):
        nsid = self.target.add_namespace(size_bytes=1 << 20, flags=nvmfr.SoftNsFlag.READ_ONLY)
        with self.host.connect(self.target.uri) as controller:
            self.assertEqual(list(controller.nsids()), [self.nsid, nsid])
            namespace = controller.namespace(nsid)
            self.assertTrue(namespace.read_only)
            with self.assertRaises(PermissionError):
                namespace.write(bytes(BLOCK), 0)

    def test_information(self):
        self.assertEqual((self.namespace.block_bytes, self.namespace.capacity_blocks),
                         (BLOCK, self.size_bytes // BLOCK))
        self.assertEqual(self.controller.info.device, b"soft")
        self.assertIn("blocks of 512", repr(self.namespace))


class Pread(SoftCase):

    def setUp(self):
        super().setUp()
        self.fill(BLOCKS)
        self.disk = pattern(0, BLOCKS)
        self.namespace = self.controller.namespace()

    def check(self, offset, size):
        """Into the middle of a target. With several descriptors in a command nothing is copied."""
        target = bytearray(b"\xee" * (size + 2))
        part = memoryview(target)[1:1 + size] if size else target
        self.assertEqual(self.namespace.pread(part, size, offset), size)
        self.assertEqual(target[1:1 + size], self.disk[offset:offset + size])
        self.assertEqual((target[0], target[-1]), (0xee, 0xee))
        self.assertEqual(self.namespace.queue_pair.info.bounced_bytes, 0)

    def copied(self, qpair, offset, size):
        """The same where a command has one: the bytes that had to be copied."""
        buffer, bounced = self.host.alloc(size or 1), qpair.info.bounced_bytes
        qpair.pread(buffer, size, offset)
        self.assertEqual(bytes(buffer.view[:size]), self.disk[offset:offset + size])
        buffer.release()
        return qpair.info.bounced_bytes - bounced

    def test_edges(self):
        with self.controller.queue_pair(4, max_descriptors=1) as qpair:
            for offset, size, copied in (
                    (3 * BLOCK, 5 * BLOCK, 0), (0, 0, 0), (1, 1, 1), (BLOCK - 1, 2, 2),
                    (BLOCK - 1, BLOCK + 2, 2), (7, BLOCK, BLOCK), (BLOCKS * BLOCK - 3, 3, 3)):
                self.check(offset, size)
                self.assertEqual(self.copied(qpair, offset, size), copied, (offset, size))

    def test_odd_ranges(self):
        chance = random.Random(7)
        with self.controller.queue_pair(4, max_descriptors=1) as qpair:
            for _ in range(300):
                offset = chance.randrange(BLOCKS * BLOCK)
                size = chance.randrange(1, min(5 * BLOCK, BLOCKS * BLOCK - offset) + 1)
                whole = max(0, (offset + size) // BLOCK - -(-offset // BLOCK)) * BLOCK
                self.check(offset, size)
                self.assertEqual(self.copied(qpair, offset, size), size - whole, (offset, size))

    def test_into_a_buffer(self):
        buffer = self.host.alloc(4096)
        with self.controller.queue_pair(4) as qpair:
            qpair.pread(buffer, 1000, 777, buffer_offset_bytes=33)
        self.assertEqual(bytes(buffer.view[33:1033]), self.disk[777:1777])
        self.assertEqual((buffer.view[32], buffer.view[1033]), (0, 0))

    def test_refused(self):
        buffer = self.host.alloc(100)
        for offset, size in ((0, 101), (self.size_bytes - 1, 2)):
            with self.assertRaises(nvmfr.ArgumentError):
                self.namespace.pread(buffer, size, offset)
        with self.assertRaises(ValueError):
            self.namespace.pread(buffer, 1, -1)
