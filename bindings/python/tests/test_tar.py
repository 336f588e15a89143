# SPDX-License-Identifier: BSD-3-Clause
"""TarDataset: shards as WebDataset has them, and shards that are corrupt."""
import io
import pickle
import random
import tarfile
import unittest

import nvmfr
from nvmfr import _tar
from nvmfr.data import FormatError, SampleError, Source, Stream, TarDataset

from files import PackCase, noise, tar
from support import READ
from test_records import kinds, raw


def scan(contents, what="x.tar"):
    """The members of a tar in memory."""
    walk = _tar.scan(len(contents), what)
    try:
        offset, size = next(walk)
        while True:
            offset, size = walk.send(contents[offset:offset + size])
    except StopIteration as end:
        return end.value


def shard(number, count):
    """Samples of two members each, sizes odd and even and 0."""
    members = []
    for index in range(count):
        key = f"d/{number:02}-{index:03}"
        members += [(key + ".jpg", noise(index * 37, index)), (key + ".cls.txt", str(index).encode())]
    return members


class Tars(PackCase):

    def setUp(self):
        super().setUp()
        self.shards = {f"train-{number}.tar": tar(shard(number, 20 + number)) for number in range(3)}
        self.pack({**self.shards, "other.tar": tar([("a.x", b"a")])})
        self.source = Source.over(self.controller)

    def test_samples(self):
        for out in kinds():
            with self.subTest(out=out):
                dataset = TarDataset(self.source, "train-*.tar", out=out)
                self.assertEqual(len(dataset), 20 + 21 + 22)
                indices = random.Random(1).sample(range(63), 63)
                copied = self.source.copied_bytes
                for index, sample in zip(indices, dataset[indices]):
                    number, index = [(n, i) for n in range(3) for i in range(20 + n)][index]
                    self.assertEqual(sample["__key__"], f"d/{number:02}-{index:03}")
                    self.assertEqual(sample["__shard__"], f"train-{number}.tar")
                    self.assertEqual(raw(sample["jpg"]), noise(index * 37, index))
                    self.assertEqual(raw(sample["cls.txt"]), str(index).encode())
                self.assertEqual(self.source.copied_bytes, copied)

    def test_index_is_built_once(self):
        dataset = TarDataset(self.source, "train-*.tar", out="bytes")
        reads = self.target.counters.reads
        again = TarDataset(self.source, "train-*.tar", out="bytes",
                           index=pickle.loads(pickle.dumps(dataset.index)))
        self.assertLessEqual(self.target.counters.reads - reads, 4)  # the directory
        self.assertEqual(again.index, dataset.index)
        with self.assertRaisesRegex(ValueError, "other shards"):
            TarDataset(self.source, "other.tar", index=dataset.index)

    def test_streamed(self):
        """In order, in large commands."""
        dataset = TarDataset(self.source, "train-*.tar", out="bytes")
        reads = self.target.counters.reads
        keys = [sample["__key__"] for batch in Stream(dataset, 21) for sample in batch]
        self.assertEqual(len(keys), 63)
        self.assertEqual(keys, sorted(keys))
        self.assertLessEqual(self.target.counters.reads - reads, 6)

    def test_many_shards(self):
        self.pack({f"many/{i:03}.tar": tar([(f"{i}.txt", str(i).encode())]) for i in range(100)})
        dataset = TarDataset(self.source, "many/*", out="bytes")
        self.assertEqual([raw(dataset[i]["txt"]) for i in (0, 57, 99)], [b"0", b"57", b"99"])

    def test_errors_name_the_sample(self):
        dataset = TarDataset(self.source, "train-1.tar", out="bytes", transform=lambda sample: sample["png"])
        with self.assertRaisesRegex(SampleError, "sample d/01-004 of train-1.tar: KeyError: 'png'"):
            dataset[4]
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281)
        with self.assertRaisesRegex(nvmfr.StatusError, "sample d/01-004 of train-1.tar failed"):
            dataset[4]

    def test_corrupt_on_the_namespace(self):
        """Packed well, damaged later: the index says which shard, and where."""
        entry = self.volume().entries["train-1.tar"]
        lba = (entry.offset_bytes + 5 * 512) // 512
        self.controller.namespace().write(noise(512), lba)
        with self.assertRaisesRegex(FormatError, "train-1.tar: byte 2560: no tar header"):
            TarDataset(self.source, "train-*.tar")
        self.assertEqual(len(TarDataset(self.source, "train-0.tar")), 20)


class Scan(unittest.TestCase):

    def test_forms(self):
        """As Python's own module reads them."""
        members = [("short", b"1"), ("d" * 90 + "/" + "n" * 90 + ".long", noise(1000)),
                   ("x" * 300 + ".longer", noise(513)), ("\u00fcml\u00e4ut.txt", b""), ("end", noise(512))]
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            with self.subTest(form=form):
                some = [m for m in members if form != tarfile.USTAR_FORMAT or len(m[0]) < 200]
                contents = tar(some, form)
                found = scan(contents)
                self.assertEqual([(member.name, contents[member.offset_bytes:][:member.size_bytes])
                                  for member in found], some)

    def test_others_than_files(self):
        raw_tar = io.BytesIO()
        with tarfile.open(fileobj=raw_tar, mode="w") as file:
            for name, kind in (("d", tarfile.DIRTYPE), ("l", tarfile.SYMTYPE), ("f", tarfile.FIFOTYPE)):
                info = tarfile.TarInfo(name)
                info.type = kind
                file.addfile(info)
            file.addfile(tarfile.TarInfo("file.x"))
        self.assertEqual([member.name for member in scan(raw_tar.getvalue())], ["file.x"])

    def test_corrupt(self):
        good = tar([("a.txt", noise(700)), ("b.txt", noise(10))])

        def patched(at, new):
            header = bytearray(good)
            header[at:at + len(new)] = new
            block = at // 512 * 512
            header[block + 148:block + 156] = b" " * 8
            header[block + 148:block + 156] = b"%06o\0 " % sum(header[block:block + 512])
            return bytes(header)

        cases = {
            "byte 0: the tar ends without its end mark": b"",
            "byte 1536: no tar header": good[:1536] + noise(512) + good[2048:],
            "byte 0: 'a.txt' has 700 bytes and goes beyond": good[:1000],
            "byte 2560: the tar ends without": good[:2560],
            "byte 0: 'a.txt' has 8589934591": patched(124, b"77777777777\0"),
            "byte 0: 'a.txt' has -": patched(124, b"\xff" * 12),
            "no tar header.": patched(124, b"xxxxxxxxxxx\0"),
            "is sparse": patched(156, b"S"),
        }
        for words, contents in cases.items():
            with self.subTest(words), self.assertRaisesRegex(FormatError, words):
                scan(contents)

    def test_corrupt_pax(self):
        for text in (b"999 size=1\n", b"9 size=x1\n", b"x", b"12 size=-1234\n", b"0 a=\n", b"16 size=99999\n\n",
                     b"29 GNU.sparse.major=1234567\n\n"[:28] + b"\n"):
            info = tarfile.TarInfo("p")
            info.type, info.size = b"x", len(text)
            contents = (info.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0")
                        + tar([("a", b"1")], tarfile.USTAR_FORMAT))
            with self.subTest(text=text), self.assertRaises(FormatError):
                scan(contents)
        info.size = 1 << 30
        with self.assertRaises(FormatError):
            scan(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 21))

    def test_any_byte(self):
        good, chance = tar(shard(0, 5)), random.Random(2)
        for _ in range(2000):
            bad = bytearray(good)
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
            try:
                scan(bytes(bad))
            except FormatError:
                pass

    def test_truncated(self):
        good = tar(shard(0, 3))
        end = max(member.offset_bytes + member.size_bytes for member in scan(good))
        for size in range(0, end, 100):
            with self.assertRaises(FormatError):
                scan(good[:size])

    def test_keys(self):
        self.assertEqual(_tar.split_name("a.b/c.d.e"), ("a.b/c", "d.e"))
        members = [_tar.Member(name, 0, 1) for name in ("x/1.a", "x/1.b", "README", "x/2.a", "y/2.a")]
        self.assertEqual([(sample.key, [one[0] for one in sample.members])
                          for sample in _tar.samples(members, 0, "t")],
                         [("x/1", ["a", "b"]), ("x/2", ["a"]), ("y/2", ["a"])])
        with self.assertRaisesRegex(FormatError, "'1.a' is there twice"):
            _tar.samples([_tar.Member("1.a", 0, 1)] * 2, 0, "t")
