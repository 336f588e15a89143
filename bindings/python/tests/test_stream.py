# SPDX-License-Identifier: BSD-3-Clause
"""Stream: order, sharding, position, read-ahead; and what a lost target does to it."""
import gc
import io
import os
import pickle
import random
import sys
import unittest
from contextlib import redirect_stderr
from unittest import mock

import nvmfr
from nvmfr.data import RecordDataset, Source, Stream
from nvmfr.data._order import placing, rank_indices

from files import PackCase
from support import READ

RECORD = 512
RECORDS = 400
BATCHES = 10000


def numbered(count=RECORDS, size=RECORD):
    """Records that say which they are."""
    return b"".join(index.to_bytes(8, "little") * (size // 8) for index in range(count))


def ids(batch):
    """Which records they are; each is checked as a whole."""
    found = []
    for row in batch:
        data = bytes(row.numpy().tobytes() if hasattr(row, "numpy") else row)
        found.append(int.from_bytes(data[:8], "little"))
        if data != data[:8] * (len(data) // 8):
            raise AssertionError(f"record {found[-1]} is mixed")
    return found


def rows(batch):
    """A memoryview of two dimensions has no rows."""
    if isinstance(batch, memoryview) and batch.ndim == 2:
        flat, size = batch.cast("B"), batch.shape[1]
        return [flat[at:at + size] for at in range(0, len(flat), size)]
    return batch


class StreamCase(PackCase):

    def setUp(self):
        super().setUp()
        self.pack({"r": numbered()})
        self.dataset = RecordDataset(self.controller, "r", record_bytes=RECORD, out="bytes")

    def stream(self, size=16, **options):
        return Stream(self.dataset, size, **options)

    @staticmethod
    def take(stream, count=None):
        """The ids of the next batches."""
        found = []
        for batch in stream:
            found.append(ids(rows(batch)))
            if count is not None and len(found) == count:
                break
        return found


class Order(StreamCase):

    def test_in_order(self):
        batches = self.take(self.stream())
        self.assertEqual([len(batch) for batch in batches], [16] * 25)
        self.assertEqual(sum(batches, []), list(range(RECORDS)))
        self.assertEqual(len(self.stream()), 25)

    def test_shuffled_by_epoch(self):
        stream = self.stream(shuffle=True, seed=5)
        epochs = []
        for epoch in (0, 1, 0):
            stream.set_epoch(epoch)
            epochs.append(sum(self.take(stream), []))
        self.assertEqual([sorted(epoch) for epoch in epochs], [list(range(RECORDS))] * 3)
        self.assertEqual(epochs[0], epochs[2])
        self.assertNotEqual(epochs[0], epochs[1])
        self.assertNotEqual(epochs[0], list(range(RECORDS)))

    def test_last_batch(self):
        self.assertEqual([len(batch) for batch in self.take(self.stream(150))], [150, 150, 100])
        self.assertEqual([len(batch) for batch in self.take(self.stream(150, drop_last=True))], [150] * 2)
        self.assertEqual(len(self.stream(150, drop_last=True)), 2)

    def test_collate_and_sampler(self):
        stream = self.stream(4, sampler=[7, 3, 3, 9, 1], collate=lambda batch: sum(ids(rows(batch))))
        self.assertEqual((list(stream), len(stream)), ([22, 1], 2))

    def test_ranks(self):
        for drop_last in (False, True):
            with self.subTest(drop_last=drop_last):
                seen = [sum(self.take(self.stream(8, rank=rank, world_size=3, shuffle=True,
                                                  drop_last=drop_last)), []) for rank in range(3)]
                self.assertEqual(len({len(one) for one in seen}), 1)
                if drop_last:
                    self.assertEqual(len(set(sum(seen, []))), 3 * len(seen[0]))
                else:
                    self.assertEqual(set(sum(seen, [])), set(range(RECORDS)))

    def test_arguments(self):
        for options in ({"rank": 1}, {"rank": 2, "world_size": 2}, {"prefetch": -1}):
            with self.subTest(options), self.assertRaises(ValueError):
                self.stream(**options)
        with self.assertRaises(ValueError):
            self.stream(0)

    def test_progress(self):
        out = io.StringIO()
        with mock.patch.dict(sys.modules, tqdm=None), redirect_stderr(out):
            self.take(self.stream(progress=True))
        self.assertIn("samples: 100 %, 400 samples of 400 samples", out.getvalue())

    def test_as_distributed_sampler(self):
        """The same indices for each rank, of any number."""
        try:
            from torch.utils.data import DistributedSampler
        except ImportError:
            self.skipTest("torch is not installed for this Python (Debian: python3-torch)")
        for length in (0, 1, 3, 10, 11, 12):
            for world_size in (1, 2, 4, 5):
                for drop_last in (False, True):
                    if drop_last and length < world_size:
                        continue  # torch's own fails there
                    for rank in range(world_size):
                        sampler = DistributedSampler(range(length), world_size, rank, shuffle=False,
                                                     drop_last=drop_last)
                        got = rank_indices(length, rank, world_size, shuffle=False, seed=0, epoch=0,
                                           drop_last=drop_last)
                        self.assertEqual(list(got), list(sampler), (length, world_size, rank))

    def test_distributed_sampler(self):
        """Torch's own, whose epoch is set with the stream's."""
        try:
            from torch.utils.data import DistributedSampler
        except ImportError:
            self.skipTest("torch is not installed for this Python (Debian: python3-torch)")
        sampler = DistributedSampler(self.dataset, 2, 1, seed=3)
        stream = self.stream(sampler=sampler)
        stream.set_epoch(4)
        self.assertEqual(sampler.epoch, 4)
        self.assertEqual(sum(self.take(stream), []), list(sampler))

    def test_placing(self):
        distributed = mock.Mock(**{"is_available.return_value": True, "is_initialized.return_value": True,
                                   "get_rank.return_value": 3, "get_world_size.return_value": 7})
        with mock.patch.dict(sys.modules, torch=mock.Mock(distributed=distributed)):
            self.assertEqual(placing(None, None), (3, 7))
            self.assertEqual(placing(0, 2), (0, 2))
        with mock.patch.dict(sys.modules, torch=None):
            self.assertEqual(placing(None, None), (0, 1))


class Position(StreamCase):

    def test_resumes_anywhere(self):
        options = {"shuffle": True, "seed": 2}
        whole = self.take(self.stream(**options))
        for taken in (0, 1, 13, 24, 25):
            with self.subTest(taken=taken):
                first = self.stream(**options)
                walk = iter(first)
                begun = [ids(rows(next(walk))) for _ in range(taken)]
                second = self.stream(**options)
                second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
                state = second.state_dict()
                self.assertEqual(begun + self.take(second), whole)
                third = self.stream(**options)
                third.load_state_dict(state)  # before it was used
                self.assertEqual(self.take(third), whole[taken:])
                self.assertEqual(self.take(third), whole)  # the next pass is a whole one

    def test_resumed_twice(self):
        whole = self.take(self.stream())
        stream, got = self.stream(), []
        for count in (4, 1, 7, 100):
            again = self.stream()
            again.load_state_dict(stream.state_dict())
            stream = again
            got += self.take(stream, count)
        self.assertEqual(got, whole)

    def test_of_another_order(self):
        state = self.stream(shuffle=True).state_dict()
        for options in ({}, {"shuffle": True, "seed": 1}, {"shuffle": True, "rank": 0, "world_size": 2}):
            with self.subTest(options), self.assertRaisesRegex(ValueError, "the state is of"):
                self.stream(**options).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "worker 1 of 4.*batches="):
            self.stream(shuffle=True).load_state_dict({**state, "workers": 4, "worker": 1})

    def test_workers(self):
        """Each takes its share, and resumes, where the loader that takes them in turn stopped."""
        whole = self.take(self.stream())

        def run(workers, state, count):
            walks, streams = [], []
            for number in range(workers):
                streams.append(self.stream())
                with mock.patch("nvmfr.data._stream.worker", return_value=(number, workers)):
                    if state is not None:
                        streams[-1].load_state_dict(state)
                    walks.append(iter(streams[-1]))
            got = [ids(rows(next(walks[number % workers]))) for number in range(count)]
            return got, streams

        for workers in (1, 2, 3):
            got, streams = run(workers, None, 11)
            self.assertEqual(got, whole[:11])
            state = self.stream().state_dict(batches=11)
            for others in (1, 2, 5):
                self.assertEqual(run(others, state, 14)[0], whole[11:])
        with mock.patch("nvmfr.data._stream.worker", return_value=(1, 3)):
            state = streams[1].state_dict()  # what a loader that asks each worker keeps
            again = self.stream()
            again.load_state_dict(state)
            self.assertEqual(self.take(again), whole[1 + 3 * state["taken"]::3])


class Ahead(StreamCase):

    def test_read_ahead(self):
        for prefetch in (0, 3):
            with self.subTest(prefetch=prefetch):
                before = self.dataset.source.commands
                walk = iter(self.stream(4, prefetch=prefetch))
                next(walk)
                self.assertEqual(self.dataset.source.commands - before, prefetch + 1)

    def test_left_in_the_middle(self):
        """What was on its way ends by itself, and the next pass is whole."""
        stream = self.stream(8, shuffle=True)
        whole = self.take(stream)
        for _ in range(20):
            self.take(stream, 2)
        self.assertEqual(self.take(stream), whole)

    def test_errors(self):
        """Of one sample: its batch fails by its name, the next ones come."""
        stream = self.stream(8, shuffle=True, prefetch=2)
        whole = self.take(stream)
        walk = iter(stream)
        self.assertEqual(ids(rows(next(walk))), whole[0])
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281, skip=2)
        got, errors = [whole[0]], []
        while True:
            try:
                got.append(ids(rows(next(walk))))
            except StopIteration:
                break
            except nvmfr.StatusError as why:
                errors.append(str(why))
        self.assertEqual(len(errors), 1)
        lost = [batch for batch in whole if batch not in got]
        self.assertEqual(len(lost), 1)
        self.assertRegex(errors[0], rf"^record ({'|'.join(map(str, lost[0]))}) of r failed")

    def test_does_not_leak(self):
        """10,000 batches: registrations and memory stay as they are."""
        stream = self.stream(20, shuffle=True)

        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        def pass_by(count):
            while count:
                for batch in stream:
                    count -= 1
                    if not count:
                        return batch
            return None

        pass_by(1000)
        gc.collect()
        registered, memory = len(self.host._handle.buffers), resident()
        pass_by(BATCHES)
        gc.collect()
        self.assertLessEqual(len(self.host._handle.buffers), registered + 2)
        self.assertLess(resident() - memory, 2 << 20)
        self.assertLess(len(self.dataset.source.link().engine._tickets), 10)


class Lost(PackCase):
    """A target that goes away and comes back: no sample twice, none left out."""

    def setUp(self):
        super().setUp()
        self.pack({"r": numbered()})
        self.lossy = self.host.connect(self.target.uri, ctrl_loss_timeout_ms=30000,
                                       reconnect_delay_ms=10)
        self.addCleanup(self.lossy.close)
        self.source = Source.over(self.lossy, depth=16)
        self.dataset = RecordDataset(self.source, "r", record_bytes=RECORD, out="bytes")

    def test_comes_back(self):
        chance = random.Random(1)
        stream = Stream(self.dataset, 10, shuffle=True, prefetch=6)
        whole = StreamCase.take(stream)
        losses = 0
        for _ in range(5):
            got = []
            for batch in stream:
                got.append(ids(rows(batch)))
                if chance.random() < 0.2:
                    losses += 1
                    if losses % 2:
                        self.target.drop()
                    else:
                        self.target.add_fault(nvmfr.SoftFaultKind.DISCONNECT_ALL, opcode=READ,
                                              skip=chance.randrange(20))
            self.assertEqual(got, whole)
        self.assertGreater(losses, 3)
        self.assertGreater(self.source.link().engine.losses, 0)

    def test_silent(self):
        """A command that is never answered takes the association down at its time, and is sent again."""
        self.source.close()
        self.target.add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=READ, skip=3)
        make = self.lossy.queue_pair
        with mock.patch.object(self.lossy, "queue_pair",
                               lambda depth: make(depth, io_timeout_ms=300)):
            got = StreamCase.take(Stream(self.dataset, 10, shuffle=True))
        self.assertEqual(sorted(sum(got, [])), list(range(RECORDS)))
        self.assertGreater(self.source.link().engine.losses, 0)

    def test_poison(self):
        """A command that always takes the target down is given up, by its name."""
        self.target.add_fault(nvmfr.SoftFaultKind.DISCONNECT_ALL, opcode=READ, count=0)
        with self.assertRaisesRegex(nvmfr.LostError, "^record 5 of r failed"):
            self.dataset[5]
        self.target.clear_faults()
        self.assertEqual(ids([self.dataset[5]]), [5])

    def test_gone_for_good(self):
        """Beyond the time for that: an error with the sample's name; and when the target is there again,
        the same pass goes on where it was."""
        with mock.patch("nvmfr._source.Host", return_value=self.host):
            dataset = RecordDataset(Source(self.target.uri, ctrl_loss_timeout_ms=0), "r", out="bytes",
                                    record_bytes=RECORD)
            got, errors, drops = [], 0, [70, 200]
            walk = iter(Stream(dataset, 10, prefetch=3))
            while len(got) < RECORDS:
                if len(got) in drops:
                    drops.remove(len(got))
                    self.target.drop()
                try:
                    got += ids(rows(next(walk)))
                except nvmfr.LostError as why:
                    self.assertRegex(str(why), "^record [0-9]+ .*of r")
                    errors += 1
            self.assertEqual((got, errors), (list(range(RECORDS)), 2))
