# SPDX-License-Identifier: BSD-3-Clause
"""RecordDataset and FileDataset: which commands they make, where the bytes land, whose error it is."""
import ctypes
import gc
import pickle
import random
import unittest
from unittest import mock

import nvmfr
from nvmfr._buffer import memory_of
from nvmfr.data import FileDataset, RecordDataset, SampleError, Source
from nvmfr.data._arrays import arrays
from nvmfr.data._plan import covering, rows

from files import PackCase, noise
from support import BLOCK, HAVE_NUMPY, READ

RECORDS = 500
ODD = 700  # bytes: no whole blocks
WHOLE = 1024


def kinds():
    """What is installed."""
    found = ["bytes"] + ["numpy"] * HAVE_NUMPY
    try:
        arrays("torch")
        return found + ["torch"]
    except ImportError:
        return found


def raw(array):
    """The bytes of a tensor, an array or a memoryview."""
    return bytes(array.numpy().tobytes() if hasattr(array, "numpy") else memoryview(array).cast("B"))


class Records(PackCase):

    def setUp(self):
        super().setUp()
        self.odd, self.whole = noise(RECORDS * ODD, 1), noise(RECORDS * WHOLE, 2)
        self.pack({"odd": self.odd, "whole": self.whole})
        self.source = Source.over(self.controller)

    def record(self, size, index):
        data = self.odd if size == ODD else self.whole
        return data[index * size:(index + 1) * size]

    def dataset(self, size, **options):
        options.setdefault("out", "bytes")
        return RecordDataset(self.source, "odd" if size == ODD else "whole", record_bytes=size, **options)

    def test_samples(self):
        chance = random.Random(3)
        for out in kinds():
            for size in (ODD, WHOLE):
                with self.subTest(out=out, size=size):
                    dataset = self.dataset(size, out=out)
                    self.assertEqual(len(dataset), RECORDS)
                    indices = [chance.randrange(RECORDS) for _ in range(64)] + [0, RECORDS - 1, 0]
                    copied = self.source.copied_bytes
                    for index, sample in zip(indices, dataset.__getitems__(indices)):
                        self.assertEqual(raw(sample), self.record(size, index))
                    self.assertEqual(raw(dataset[7]), self.record(size, 7))
                    self.assertEqual(raw(dataset[-1]), self.record(size, RECORDS - 1))
                    self.assertEqual(self.source.copied_bytes, copied)  # views, also of odd sizes

    def test_batches(self):
        indices = [5, 6, 7, 3, 499, 0]
        for out in kinds():
            for size in (ODD, WHOLE):
                with self.subTest(out=out, size=size):
                    dataset = self.dataset(size, out=out)
                    want = b"".join(self.record(size, index) for index in indices)
                    copied = self.source.copied_bytes
                    batch = dataset[indices]
                    self.assertEqual((raw(batch), tuple(batch.shape)), (want, (len(indices), size)))
                    self.assertEqual(self.source.copied_bytes - copied,
                                     len(want) if size == ODD else 0)
                    copied = self.source.copied_bytes
                    self.assertEqual(raw(dataset[10:20]),
                                     b"".join(self.record(size, index) for index in range(10, 20)))
                    self.assertEqual(self.source.copied_bytes, copied)  # neighbours in order

    def test_types(self):
        for out in kinds():
            dataset = RecordDataset(self.source, "whole", dtype="float32", shape=(4, 8, 8), out=out)
            with self.subTest(out=out):
                self.assertEqual(tuple(dataset[3].shape), (4, 8, 8))
                self.assertEqual(raw(dataset[3]), self.record(WHOLE, 3))
                self.assertEqual(tuple(dataset[[1, 2]].shape), (2, 4, 8, 8))

    def commands(self, dataset, indices):
        before = self.target.counters.reads
        dataset.__getitems__(indices)
        return self.target.counters.reads - before

    def test_few_commands(self):
        """Sorted and merged; a gap is read where that saves a command, and not where it does not."""
        shuffled = random.Random(4).sample(range(100), 100)
        dataset = self.dataset(WHOLE)
        self.assertEqual(self.commands(dataset, shuffled), 1)
        self.assertEqual(self.commands(dataset, [0, 10, 20]), 1)
        self.assertEqual(self.commands(dataset, [0, 100, 200]), 3)
        self.assertEqual(self.commands(self.dataset(WHOLE, merge_gap_bytes=0), [0, 2, 4, 5]), 3)
        limited = self.dataset(WHOLE, max_command_bytes=10 * WHOLE)
        self.assertEqual(self.commands(limited, shuffled), 10)

    def test_by_address(self):
        """A sample is where the target wrote it: the command's place in the pool's buffer."""
        for out in kinds():
            with self.subTest(out=out):
                pending = self.dataset(WHOLE, out=out).start_batch([9, 4])
                address = pending._buffer.address
                batch = pending.result()
                self.assertEqual(ctypes.addressof(memory_of(batch)), address)

    def test_memory_is_used_again(self):
        dataset = self.dataset(WHOLE)
        pool = self.source.link().pool
        kept = dataset[[1]]
        with mock.patch.object(self.host, "alloc", wraps=self.host.alloc) as alloc:
            for index in range(300):
                dataset[[index]]
        self.assertLess(alloc.call_count, 4)
        self.assertLess(len(pool), 4)
        self.assertEqual(raw(kept), self.record(WHOLE, 1))
        held = [dataset[[index]] for index in range(100)]
        self.assertEqual([raw(one) for one in held], [self.record(WHOLE, i) for i in range(100)])
        del held, kept
        gc.collect()
        for index in range(200):
            dataset[[index]]
        self.assertLess(len(pool), 40)

    def test_errors_name_the_sample(self):
        """Also where one command was for many."""
        dataset = self.dataset(WHOLE)
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281)
        self.assertEqual([raw(one) for one in dataset.__getitems__([30, 31, 32])],
                         [self.record(WHOLE, index) for index in (30, 31, 32)])  # it was a passing one
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281)
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281, skip=1)
        with self.assertRaisesRegex(nvmfr.StatusError, "^record 31 of whole failed: .*0x2281"):
            dataset.__getitems__([32, 31, 30])
        self.assertEqual(raw(dataset[31]), self.record(WHOLE, 31))

    def test_transform(self):
        dataset = self.dataset(ODD, transform=lambda sample: sample[0])
        self.assertEqual(dataset[[1, 2]], [self.odd[ODD], self.odd[2 * ODD]])
        with self.assertRaisesRegex(SampleError, "record 3 of odd: IndexError") as caught:
            self.dataset(ODD, transform=lambda sample: sample[ODD])[3]
        self.assertIsInstance(caught.exception.__cause__, IndexError)

    def test_arguments(self):
        cases = {
            "give record_bytes": {"name": "odd"},
            "not whole records of 701": {"name": "odd", "record_bytes": 701},
            "whole elements": {"name": "odd", "record_bytes": 7, "dtype": "float32"},
            "whole elements,": {"name": "odd", "record_bytes": 8, "shape": (3,)},
            "dtype 'float31' is unknown": {"name": "odd", "record_bytes": 700, "dtype": "float31"},
            "either the name": {"record_bytes": 700},
            "either the name.*extent": {"name": "odd", "extent": (0, 700), "record_bytes": 700},
            "not within the namespace": {"extent": (self.size_bytes, 700), "record_bytes": 700},
            "out is torch, numpy or bytes": {"name": "odd", "record_bytes": 700, "out": "jax"},
        }
        for words, options in cases.items():
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                RecordDataset(self.source, **options)
        with self.assertRaisesRegex(nvmfr.NotFoundError, "nobody"):
            RecordDataset(self.source, "nobody", record_bytes=1)
        dataset = self.dataset(ODD)
        for index in (RECORDS, -RECORDS - 1):
            with self.assertRaises(IndexError):
                dataset[index]
        self.assertEqual(dataset[[]], [])

    def test_without_a_directory(self):
        entry = self.volume().entries["odd"]
        dataset = RecordDataset(self.source, extent=(entry.offset_bytes, entry.size_bytes),
                                header_bytes=ODD, record_bytes=ODD, out="bytes")
        self.assertEqual((len(dataset), raw(dataset[0])), (RECORDS - 1, self.record(ODD, 1)))

    def test_files(self):
        self.pack({"d/a.txt": b"aa", "d/b.txt": b"", "e": b"e"})
        dataset = FileDataset(self.source, "d/*", out="bytes")
        self.assertEqual(dataset.names, ["d/a.txt", "d/b.txt"])
        self.assertEqual([raw(one) for one in dataset[[1, 0, 0]]], [b"", b"aa", b"aa"])
        self.assertEqual(FileDataset(self.source, ["e", "d/*", "e"]).names, ["e", "d/a.txt", "d/b.txt"])
        with self.assertRaises(nvmfr.NotFoundError):
            FileDataset(self.source, "x*")

    def test_pickle(self):
        with self.assertRaisesRegex(TypeError, "make it of the URI"):
            pickle.dumps(self.dataset(ODD))
        path = self.file("disk", bytes(4 << 20))
        dataset = RecordDataset(f"nvmf+soft://{path}", extent=(0, ODD), record_bytes=ODD)
        again = pickle.loads(pickle.dumps(dataset))
        self.assertEqual(raw(again[0]), bytes(ODD))
        self.assertIsNot(again.source.link().controller, dataset.source.link().controller)
        dataset.close()
        self.assertEqual(raw(dataset[0]), bytes(ODD))  # it connects anew

    def test_not_installed(self):
        with mock.patch("nvmfr.data._arrays._module", return_value=None):
            self.assertEqual(arrays.__wrapped__().kind, "bytes")
            with self.assertRaisesRegex(ImportError, "torch is not installed"):
                arrays.__wrapped__("torch")


class Plans(unittest.TestCase):
    """Against a reading of the commands into memory, byte by byte."""

    def check(self, plan, extents, disk):
        memory = bytearray(plan.size_bytes)
        for lba, count, offset in zip(plan.lbas, plan.nblocks, plan.offsets):
            part = disk[lba * BLOCK:(lba + count) * BLOCK]
            memory[offset:offset + len(part)] = part
            self.assertLessEqual(offset + count * BLOCK, plan.size_bytes)
        for (offset, size), place in zip(extents, plan.places):
            self.assertEqual(memory[place:place + size], disk[offset:offset + size])
        members = sorted(index for part in plan.members for index in part)
        self.assertEqual(members, [index for index, extent in enumerate(extents) if extent[1]])

    def test_random(self):
        chance, disk = random.Random(6), noise(200 * BLOCK)
        for _ in range(300):
            extents = [(chance.randrange(100 * BLOCK), chance.randrange(0, 3 * BLOCK))
                       for _ in range(chance.randrange(1, 30))]
            self.check(covering(extents, BLOCK, chance.choice([0, 512, 4096]),
                                chance.choice([512, 4096, 1 << 20])), extents, disk)
            count, first = chance.randrange(1, 4), chance.randrange(3)
            numbers = [0]
            while chance.random() < 0.97:
                numbers.append(numbers[-1] + 1 if numbers[-1] < 60 and chance.random() < 0.5
                               else chance.randrange(60))
            self.check(rows(first, count, numbers, BLOCK, chance.choice([512, 2048, 1 << 20])),
                       [((first + number * count) * BLOCK, count * BLOCK) for number in numbers], disk)
