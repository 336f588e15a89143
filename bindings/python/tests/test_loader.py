# SPDX-License-Identifier: BSD-3-Clause
"""Worker processes: of PyTorch's DataLoader, and without it. Each has an association of its own."""
import functools
import multiprocessing
import shutil
import tempfile
import unittest
import warnings

from nvmfr.data import RecordDataset, SafetensorsFile, Stream, TarDataset
from nvmfr.pack import Item, Volume

import workers
from files import noise, safetensors, tar
from test_stream import RECORD, RECORDS, ids, numbered

try:
    import torch
    from torch.utils import data as torch_data
except ImportError:
    torch = None
needs_torch = unittest.skipIf(torch is None, "torch is not installed for this Python (Debian: python3-torch)")


class LoaderCase(unittest.TestCase):
    """self.uri: a packed namespace that any process can reach."""

    def setUp(self):
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads, Python 3.12
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        with open(f"{self.folder}/disk", "wb") as file:
            file.truncate(16 << 20)
        self.uri = f"nvmf+soft://{self.folder}/disk"
        tensor = ("F32", [256, 4], noise(4096))
        shards = {f"{number}.tar": tar([(f"{number}{index:02}.txt", b"%d %d" % (number, index))
                                        for index in range(10)]) for number in range(4)}
        with Volume(self.uri, create=True) as volume:
            volume.write(Item(name, self.file(name, data)) for name, data in
                         {"r": numbered(), "m.safetensors": safetensors({"w": tensor}), **shards}.items())

    def file(self, name, data):
        with open(f"{self.folder}/{name}", "wb") as file:
            file.write(data)
        return file.name

    def records(self, **options):
        return RecordDataset(self.uri, "r", record_bytes=RECORD, **options)


class Processes(LoaderCase):
    """Without torch."""

    def start(self, method):
        dataset = self.records(out="bytes", transform=bytes)
        streams = [Stream(dataset, 16, rank=rank, world_size=2) for rank in range(2)]
        with multiprocessing.get_context(method).Pool(2) as pool:
            results = pool.map(workers.take, streams)
        for rank, (samples, commands) in enumerate(results):
            self.assertEqual(ids(samples), list(range(rank, RECORDS, 2)))
            self.assertGreater(commands, 0)

    def test_spawn(self):
        self.start("spawn")

    def test_forkserver(self):
        self.start("forkserver")

    def test_fork(self):
        self.start("fork")


@needs_torch
class Loader(LoaderCase):

    def loader(self, dataset, method=None, **options):
        if method:
            options.update(num_workers=2, multiprocessing_context=method)
        return torch_data.DataLoader(dataset, **options)

    def test_stream(self):
        """The same order for any number of workers, by any start method."""
        stream = Stream(self.records(), 16, shuffle=True, seed=1)
        whole = [ids(batch) for batch in stream]
        for method in (None, "spawn", "fork"):
            with self.subTest(method=method):
                loader = self.loader(stream, method, batch_size=None)
                self.assertEqual(len(loader), len(whole))
                batches = list(loader)
                self.assertIsInstance(batches[0], torch.Tensor)
                self.assertEqual([ids(batch) for batch in batches], whole)
                if method == "spawn":
                    continue
                stream.load_state_dict(stream.state_dict(batches=7))
                self.assertEqual([ids(batch) for batch in self.loader(stream, method, batch_size=None)],
                                 whole[7:])
                stream.set_epoch(0)

    def test_map_style(self):
        """With torch's samplers: whole batches by a BatchSampler, ranks by a DistributedSampler."""
        dataset = self.records()
        seen = []
        for rank in range(2):
            sampler = torch_data.DistributedSampler(dataset, 2, rank, seed=1)
            batches = torch_data.BatchSampler(sampler, 32, drop_last=False)
            for batch in self.loader(dataset, "fork", batch_size=None,
                                     sampler=batches):
                self.assertEqual(batch.shape[1:], (RECORD,))
                seen += ids(batch)
        self.assertEqual(sorted(seen), list(range(RECORDS)))
        loader = self.loader(dataset, "fork", batch_size=50, shuffle=True)
        self.assertEqual(sorted(sum(map(ids, loader), [])), list(range(RECORDS)))

    def test_tar(self):
        stream = Stream(TarDataset(self.uri, "*.tar"), 7)
        for method in (None, "fork"):
            with self.subTest(method=method):
                texts = [bytes(sample["txt"].numpy()) for batch in self.loader(stream, method, batch_size=None)
                         for sample in batch]
                self.assertEqual(texts, [b"%d %d" % (number, index) for number in range(4)
                                         for index in range(10)])

    def test_error_names_the_sample(self):
        dataset = self.records(transform=workers.mean)
        with self.assertRaisesRegex(Exception, "record 77 of r: ArithmeticError: 77 is not liked"):
            list(self.loader(Stream(dataset, 16), "fork", batch_size=None))

    def test_sampler_that_differs(self):
        """A RandomSampler would give each worker other indices."""
        dataset = self.records()
        stream = Stream(dataset, 16, sampler=torch_data.RandomSampler(dataset))
        self.assertEqual(sorted(sum(map(ids, stream), [])), list(range(RECORDS)))
        with self.assertRaisesRegex(Exception, "RandomSampler without a generator"):
            list(self.loader(stream, "fork", batch_size=None))

    def test_training_step(self):
        """Tensors as they come go into a model."""
        with SafetensorsFile(self.uri, "m.safetensors") as file:
            weight = torch.nan_to_num(file["w"]).clamp(-1, 1)
        images = self.records(transform=functools.partial(torch.Tensor.to, dtype=torch.float32))
        for batch in self.loader(Stream(images, 40, collate=torch.stack), batch_size=None):
            self.assertEqual((batch[:, :256] @ weight).shape, (40, 4))
