# SPDX-License-Identifier: BSD-3-Clause
"""python -m nvmfr.pack: what is written is read; what goes wrong leaves the directory as it was."""
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import types
import unittest
from unittest import mock

import nvmfr
from nvmfr import _packformat as form
from nvmfr import pack
from nvmfr._progress import Progress

from files import PackCase, noise, safetensors, tar
from support import BLOCK, WRITE, environment

FIRST = {"a": noise(10000, 1), "sub/b.bin": noise(9 << 20, 2), "empty": b""}
SECOND = {"c": noise(70000, 3), "a": noise(5000, 4)}


class Pack(PackCase):

    def test_round_trip(self):
        tensors = safetensors({"w": ("F32", [1024], noise(4096))})
        contents = {**FIRST, "m.safetensors": tensors, "s.tar": tar([("k.txt", b"x")])}
        self.pack(contents)
        self.assertEqual(self.contents(), contents)
        with self.volume() as volume:
            kinds = {name: entry.kind.name for name, entry in volume.entries.items()}
            self.assertEqual(kinds, {"a": "FILE", "sub/b.bin": "FILE", "empty": "FILE",
                                     "m.safetensors": "SAFETENSORS", "s.tar": "TAR"})
            entry = volume.entries["m.safetensors"]
            self.assertEqual((entry.offset_bytes + len(tensors) - 4096) % form.ALIGN, 0)
            self.assertEqual(volume.extract(os.path.join(self.folder, "out"), ["sub/b.bin"]),
                             [os.path.join(self.folder, "out", "sub", "b.bin")])
        with open(os.path.join(self.folder, "out", "sub", "b.bin"), "rb") as file:
            self.assertEqual(file.read(), FIRST["sub/b.bin"])

    def test_generations(self):
        """Each change is a generation; the space of what is gone is used again."""
        self.pack(FIRST)
        big = {"big": noise(12 << 20, 5)}
        for number in range(6):
            self.pack(big, replace=True)
            with self.volume() as volume:
                self.assertEqual(volume.generation, 2 + 2 * number)
                volume.remove(["big"])
        self.assertEqual(self.contents(), FIRST)

    def test_names_that_are_there(self):
        self.pack(FIRST)
        with self.assertRaisesRegex(ValueError, "'a' is in the directory already"):
            self.pack(SECOND)
        self.assertEqual(self.contents(), FIRST)
        self.pack(SECOND, replace=True)
        self.assertEqual(self.contents(), {**FIRST, **SECOND})
        with self.volume() as volume, self.assertRaisesRegex(nvmfr.NotFoundError, "4 names"):
            volume.entry("nobody")

    def test_what_it_did_not_write(self):
        namespace = self.controller.namespace()
        for lba in (1, self.size_bytes // BLOCK - 1):
            with self.subTest(lba=lba):
                namespace.write(b"x" * BLOCK, lba)
                with self.assertRaisesRegex(ValueError, f"not empty .byte {lba * BLOCK} .*--overwrite"):
                    self.pack(FIRST)
                self.assertEqual(namespace.read(lba, 1), b"x" * BLOCK)
                namespace.write(bytes(BLOCK), lba)
        namespace.write(b"x" * 2 * form.DATA_START, 0)
        with self.volume(overwrite=True) as volume:
            volume.write(self.items(FIRST))
        self.assertEqual(self.contents(), FIRST)
        with self.volume(overwrite=True) as volume:  # what has a directory keeps it
            self.assertEqual(set(volume.entries), set(FIRST))

    def test_refused_items(self):
        cases = {
            "no room": ({"big": bytes(40 << 20)}, OSError, "no room for"),
            "no tar": ({"x.tar": noise(2000)}, nvmfr.FormatError, "x.tar: byte 0: no tar header"),
            "cut tar": ({"x.tar": tar([("a", noise(5000))])[:3000]}, nvmfr.FormatError, "truncated"),
            "no safetensors": ({"x.safetensors": noise(99)}, nvmfr.FormatError, "header of"),
            "name": ({}, nvmfr.FormatError, "relative path"),
            "terminal": ({}, nvmfr.FormatError, "printable"),
            "twice": ({}, ValueError, "twice"),
        }
        self.pack(FIRST)
        path = self.file("y", b"y")
        odd = {"name": [pack.Item("../y", path)], "terminal": [pack.Item("\033[2J", path)],
               "twice": [pack.Item("y", path)] * 2}
        for name, (contents, error, words) in cases.items():
            with self.subTest(name), self.volume() as volume:
                with self.assertRaisesRegex(error, words):
                    volume.write(odd.get(name) or self.items(contents))
        self.assertEqual(self.contents(), FIRST)

    def test_small_namespace(self):
        nsid = self.target.add_namespace(size_bytes=form.DATA_START)
        with self.host.connect(self.target.uri) as controller:
            source = nvmfr._source.Source.over(controller, nsid=nsid)
            with self.assertRaisesRegex(ValueError, "no room for a directory"):
                pack.Volume(source, create=True).write(self.items({"a": b"a"}))

    def test_large_blocks(self):
        nsid = self.target.add_namespace(size_bytes=4 << 20, block_bytes=4096)
        with self.host.connect(self.target.uri) as controller:
            volume = pack.Volume(nvmfr._source.Source.over(controller, nsid=nsid), create=True)
            volume.write(self.items({"a": noise(5000), "b": noise(1)}))
            self.assertEqual(volume.verify(), [])

    def test_damage(self):
        self.pack(FIRST)
        with self.volume() as volume:
            entry = volume.entries["a"]
            self.controller.namespace().write(bytes(BLOCK), entry.offset_bytes // BLOCK)
            self.assertEqual(volume.verify(), ["a"])
            out = os.path.join(self.folder, "out")
            with self.assertRaisesRegex(nvmfr.FormatError, "'a' differs from its checksum"):
                volume.extract(out, ["a"])
            self.assertEqual(os.listdir(out), [])
            volume.extract(out, ["sub/b.bin"])
            with self.assertRaisesRegex(FileExistsError, "--replace"):
                volume.extract(out, ["sub/b.bin"])
            volume.extract(out, ["sub/b.bin"], replace=True)


class Interrupted(PackCase):
    """Whatever ends a write: the directory before it is there, and all it names."""

    def test_at_each_write(self):
        self.pack(FIRST)
        before = self.target.counters.writes
        self.pack(SECOND, replace=True)
        writes = self.target.counters.writes - before
        self.assertGreaterEqual(writes, 4)  # two files, the list, the header
        for skip in range(writes):
            with self.subTest(skip=skip):
                with self.volume() as volume:
                    generation = volume.generation
                self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=WRITE, value=0x2280, skip=skip)
                with self.assertRaisesRegex(nvmfr.StatusError, "the write of ['\"]"):
                    self.pack(SECOND, replace=True)
                self.target.clear_faults()
                self.assertEqual(self.contents(), {**FIRST, **SECOND})
                with self.volume() as volume:
                    self.assertEqual(volume.generation, generation)

    def test_lost_target(self):
        self.pack(FIRST)
        self.target.add_fault(nvmfr.SoftFaultKind.DISCONNECT_ALL, opcode=WRITE, skip=1)
        with self.assertRaises(nvmfr.LostError):
            self.pack(SECOND, replace=True)
        self.controller = self.host.connect(self.target.uri)
        self.assertEqual(self.contents(), FIRST)

    def test_torn_header(self):
        """The copy in use is damaged: the one before it holds, and is told so."""
        self.pack(FIRST)
        self.pack({"c": b"c"})
        namespace = self.controller.namespace()
        namespace.write(bytes(BLOCK), (form.SLOTS[1] + form.HEADER_BYTES) // BLOCK - 1)
        with self.volume() as volume:
            self.assertEqual(volume.generation, 1)
            self.assertEqual(volume.verify(), [])
        self.pack({"d": b"d"})
        self.assertEqual(self.contents(), {**FIRST, "d": b"d"})

    def test_killed(self):
        path = self.file("disk", bytes(16 << 20))
        uri = f"nvmf+soft://{path}"
        with pack.Volume(uri, create=True) as volume:
            volume.write(self.items({"a": FIRST["a"]}))
        self.file("big", noise(8 << 20))
        code = ("import os, sys; from nvmfr.pack import Item, Volume\n"
                "Volume(sys.argv[1]).write([Item('big', sys.argv[2])], tick=lambda _: os._exit(9))")
        done = subprocess.run([sys.executable, "-c", code, uri, os.path.join(self.folder, "big")],
                              env=environment(), check=False, timeout=60)
        self.assertEqual(done.returncode, 9)
        with pack.Volume(uri) as volume:
            self.assertEqual((list(volume.entries), volume.verify()), (["a"], []))

    def test_two_that_write(self):
        self.pack(FIRST)
        with self.volume() as slow:
            self.pack({"c": b"c"})
            with self.assertRaisesRegex(ValueError, "somebody else changed the directory"):
                slow.write(self.items({"d": b"d"}))
        with self.volume() as volume:
            self.assertIn("c", volume.entries)


class Hostile(PackCase):
    """Directories whose checksums are right and whose contents are not."""

    def plant(self, body, **fields):
        """A namespace with that list of entries, and a header with such fields."""
        header = form.Header(2, bytes(16), 1 << 20, len(body), 0, hashlib.sha256(body).digest())
        header = dataclasses.replace(header, **fields)
        namespace = self.controller.namespace()
        namespace.write(body.ljust(-(-len(body) // BLOCK) * BLOCK or BLOCK, b"\0"), (1 << 20) // BLOCK)
        namespace.write(form.encode_header(header), 0)

    @staticmethod
    def entry(offset=form.DATA_START, size=4096, kind=0, name=b"n", name_bytes=None, reserved=0):
        return struct.pack("<QQBBH32s", offset, size, kind, reserved,
                           len(name) if name_bytes is None else name_bytes, bytes(32)) + name

    def test_entries(self):
        entry, end = self.entry, self.size_bytes
        cases = {
            "overlaps 'n'": [entry(), entry(form.DATA_START + 4095, name=b"o")],
            "overlaps 'the headers'": [entry(0)],
            "entries', 53 .* overlaps 'n'": [entry(size=1 << 20)],  # the list of entries lies there
            "ends beyond": [entry(end - 4095)],
            "ends beyond the": [entry((1 << 64) - 1, (1 << 64) - 1)],
            "name of entry 1 .* cut off": [entry(), entry(1 << 19, name=b"o", name_bytes=60000)],
            "twice": [entry(), entry(1 << 19)],
            "9 is not a valid Kind": [entry(kind=9)],
            "relative path": [entry(name=b"../../etc/passwd")],
            "relative path.": [entry(name=b"/etc/passwd")],
            "printable": [entry(name=b"a\nb")],
            "codec|utf-8": [entry(name=b"\xff\xfe")],
            "reserved": [entry(reserved=1)],
        }
        for words, entries in cases.items():
            with self.subTest(words):
                self.plant(b"".join(entries), count=len(entries))
                with self.assertRaisesRegex(nvmfr.FormatError, words):
                    self.volume()
                with self.assertRaises(nvmfr.FormatError):
                    self.volume(create=True)  # damaged is not empty

    def test_headers(self):
        body = self.entry()
        cases = {
            "4294967295 entries": {"count": 0xffffffff},
            "bytes follow": {"count": 0},
            "entry 1 .*cut off|2 entries": {"count": 2},
            "at most": {"count": 1, "body_bytes": 1 << 60},
            "not within": {"count": 1, "body_offset": 1 << 62},
            "not within 131072": {"count": 1, "body_offset": 4096},
            "checksum of the list": {"count": 1, "body_sha256": bytes(32)},
        }
        for words, fields in cases.items():
            with self.subTest(words):
                self.plant(body, **fields)
                with self.assertRaisesRegex(nvmfr.FormatError, words):
                    self.volume()
        self.plant(body, count=1)
        self.assertEqual(list(self.volume().entries), ["n"])
        raw = bytearray(self.controller.namespace().read(0, 8))
        raw[40] ^= 1
        self.controller.namespace().write(raw, 0)
        with self.assertRaisesRegex(nvmfr.FormatError, "header's checksum"):
            self.volume()

    def test_any_byte(self):
        """No damage to the directory goes unseen or ends in another error."""
        self.plant(self.entry() + self.entry(1 << 19, name=b"other"), count=2)
        namespace = self.controller.namespace()
        for place, size in ((0, 128), (1 << 20, 110)):
            good = bytes(namespace.read(place // BLOCK, 1))
            for at in range(0, size, 3):
                bad = bytearray(good)
                bad[at] ^= 0x41
                namespace.write(bad, place // BLOCK)
                with self.assertRaises(nvmfr.FormatError):
                    self.volume()
            namespace.write(good, place // BLOCK)
        self.assertEqual(len(self.volume().entries), 2)


class Command(PackCase):

    def setUp(self):
        super().setUp()
        self.uri = "nvmf+soft://" + self.file("disk", bytes(16 << 20))

    def run_main(self, *arguments, status=0):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(pack.main(list(arguments)), status, err.getvalue())
        return out.getvalue() + err.getvalue()

    def test_command(self):
        self.file("data/x/one", noise(5000))
        self.file("data/two", b"2")
        data = os.path.join(self.folder, "data")
        said = self.run_main("list", self.uri, status=1)
        self.assertIn("no readable directory", said)
        self.assertIn("pack write` makes", said)
        said = self.run_main("write", self.uri, data, "--progress", "--prefix", "set/")
        self.assertIn("2 files, 4.9 KiB written; generation 1", said)
        self.assertIn("write: 100 %", said)
        rows = [json.loads(line) for line in self.run_main("list", "--json", self.uri).splitlines()]
        self.assertEqual([row["name"] for row in rows], ["set/data/two", "set/data/x/one"])
        self.assertEqual(rows[0]["sha256"], hashlib.sha256(b"2").hexdigest())
        self.assertIn("2 files, 4.9 KiB; generation 1", self.run_main("list", self.uri))
        self.assertIn("already: --replace", self.run_main("write", self.uri, data, "--prefix", "set/",
                                                          status=1))
        self.assertIn("2 files as they were", self.run_main("verify", self.uri))
        out = os.path.join(self.folder, "out")
        self.assertIn("1 files written", self.run_main("extract", self.uri, "set/data/two", "-C", out))
        with open(os.path.join(out, "set", "data", "two"), "rb") as file:
            self.assertEqual(file.read(), b"2")
        self.assertIn("nobody", self.run_main("verify", self.uri, "nobody", status=1))
        self.assertIn("generation 2", self.run_main("remove", self.uri, "set/data/two"))
        with open(self.uri[len("nvmf+soft://"):], "r+b") as disk:
            disk.seek(form.DATA_START)
            disk.write(b"damaged" * 1000)
        self.assertIn("1 damaged", self.run_main("verify", self.uri, status=1))

    def test_as_a_module(self):
        done = subprocess.run([sys.executable, "-m", "nvmfr.pack", "list", "nvmf+soft:///nowhere"],
                              env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("pack: "), done.stderr)


class Bar(unittest.TestCase):

    def test_tqdm_when_present(self):
        made = mock.Mock()
        with mock.patch.dict(sys.modules, tqdm=types.SimpleNamespace(tqdm=made)):
            with Progress(10, "name", enabled=True) as progress:
                progress.update(7)
        self.assertEqual(made.call_args.kwargs["total"], 10)
        made.return_value.update.assert_called_once_with(7)
        made.return_value.close.assert_called_once_with()

    def test_own_line(self):
        out = io.StringIO()
        with mock.patch.dict(sys.modules, tqdm=None), Progress(4096, "n", enabled=True, out=out) as bar:
            bar.update(1024)
        self.assertIn("n: 25 %, 1.0 KiB of 4.0 KiB", out.getvalue())
        self.assertTrue(out.getvalue().endswith("\n"))

    def test_not_on_a_file(self):
        out = io.StringIO()
        with Progress(4096, "n", out=out) as bar:
            bar.update(1)
        self.assertEqual(out.getvalue(), "")
