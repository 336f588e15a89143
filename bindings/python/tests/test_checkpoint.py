# SPDX-License-Identifier: BSD-3-Clause
"""SafetensorsFile: tensors in their own memory, and headers that lie."""
import ctypes
import json
import random
import unittest

import nvmfr
from nvmfr import _safetensors as form
from nvmfr._buffer import memory_of
from nvmfr.data import FormatError, SafetensorsFile, Source
from nvmfr.data._arrays import arrays

from files import PackCase, noise, safetensors, safetensors_raw
from support import READ
from test_records import kinds, raw

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def header(tensors):
    return json.dumps(tensors).encode()


class Checkpoint(PackCase):

    def setUp(self):
        super().setUp()
        self.source = Source.over(self.controller)

    def open(self, contents, out="bytes"):
        """A file with those bytes; they need not be safetensors."""
        self.place = 4 << 20
        self.controller.namespace().write(contents.ljust(-(-len(contents) // 512) * 512, b"\0"),
                                          self.place // 512)
        return SafetensorsFile(self.source, extent=(self.place, len(contents)), out=out)

    def whole(self, count=20):
        """Tensors of whole blocks."""
        return {f"layer.{i}": ("F32", [i + 1, 1024], noise(4096 * (i + 1), i)) for i in range(count)}

    def test_straight_into_its_own_memory(self):
        """By address: each command names the tensor's memory. By the counter: nothing was copied."""
        tensors = self.whole()
        self.pack({"m.safetensors": safetensors(tensors, {"format": "pt"})})
        for out in kinds():
            with self.subTest(out=out):
                file = SafetensorsFile(self.source, "m.safetensors", out=out)
                self.assertEqual(file.metadata, {"format": "pt"})
                before = self.source.copied_bytes
                seen = set()
                start = self.source.link().engine.start
                self.source.link().engine.start = lambda ticket: (
                    seen.add(ticket.buffer.address) if ticket.lbas else None, start(ticket))[1]
                loaded = file.load()
                del self.source.link().engine.start
                self.assertEqual(self.source.copied_bytes - before, 0)
                self.assertEqual({ctypes.addressof(memory_of(tensor)) for tensor in loaded.values()}, seen)
                for name, (_, shape, data) in tensors.items():
                    self.assertEqual((raw(loaded[name]), list(loaded[name].shape)), (data, shape))
        self.assertEqual(file.keys(), list(tensors))
        self.assertEqual(raw(file["layer.3"]), tensors["layer.3"][2])
        with self.assertRaisesRegex(KeyError, "no tensor 'nobody'"):
            file["nobody"]

    def test_data_ptr(self):
        """What a torch user looks at."""
        if "torch" not in kinds():
            self.skipTest("torch is not installed for this Python (Debian: python3-torch)")
        torch = __import__("torch")
        tensors = self.whole(4)
        self.pack({"m.safetensors": safetensors(tensors)})
        model = torch.nn.ParameterDict({str(i): torch.nn.Parameter(torch.zeros(i + 1, 1024))
                                        for i in range(4)})
        targets = {f"layer.{name}": tensor for name, tensor in model.state_dict().items()}
        where = {name: tensor.data_ptr() for name, tensor in targets.items()}
        file = SafetensorsFile(self.source, "m.safetensors")
        self.assertEqual(file.load(["layer.0"])["layer.0"].dtype, torch.float32)
        before = self.source.copied_bytes
        file.load_into(targets)
        self.assertEqual(self.source.copied_bytes, before)
        for name, tensor in model.state_dict().items():
            self.assertEqual(tensor.data_ptr(), where[f"layer.{name}"])
            self.assertEqual(raw(tensor), tensors[f"layer.{name}"][2])

    def test_odd_tensors(self):
        """Edges within a block are copied, the blocks between them are not."""
        chance = random.Random(8)
        tensors = {f"t{i}": ("U8", [size], noise(size, i))
                   for i, size in enumerate([0, 1, 511, 512, 513, 5000]
                                            + [chance.randrange(3000) for _ in range(30)])}
        tensors["scalar"] = ("F64", [], noise(8))
        for out in kinds():
            file = self.open(safetensors(tensors), out)
            before = self.source.copied_bytes
            loaded = file.load()
            for name, (_, shape, data) in tensors.items():
                self.assertEqual(raw(loaded[name]), data, name)
            copied = self.source.copied_bytes - before
            self.assertGreater(copied, 0)
            self.assertLess(copied, 2 * 512 * len(tensors))

    def test_types(self):
        for out in kinds():
            for dtype, size in form.ELEMENT_BYTES.items():
                with self.subTest(out=out, dtype=dtype):
                    file = self.open(safetensors({"t": (dtype, [2, 3], noise(6 * size))}), out)
                    try:
                        tensor = file["t"]
                    except nvmfr.UnsupportedError as why:
                        self.assertRegex(str(why), f"{out} as installed has no ")
                        continue
                    self.assertEqual(tuple(tensor.shape), (2, 3))
                    if dtype not in ("BOOL", "BF16") or out == "bytes":
                        self.assertEqual(raw(tensor), noise(6 * size))

    def test_into(self):
        file = self.open(safetensors({"t": ("U8", [600], noise(600))}))
        target = bytearray(600)
        file.load_into({"t": target})
        self.assertEqual(target, noise(600))
        with self.assertRaisesRegex(ValueError, "shape .600,., 600 bytes; its target .*599 bytes"):
            file.load_into({"t": bytearray(599)})
        if "numpy" in kinds():
            numpy = __import__("numpy")
            for target in (numpy.zeros(600, "i1"), numpy.zeros((2, 300), "u1")):
                with self.assertRaisesRegex(ValueError, "its target"):
                    file.load_into({"t": target})

    def test_hostile_headers(self):
        data = bytes(8)
        deep = b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"
        cases = {
            "of 18446744073709551615 bytes; the format allows": safetensors_raw(b"{}", b"", (1 << 64) - 1),
            "header of 100000000 bytes in a file of 10": safetensors_raw(b"{}", b"", 100_000_000),
            "header of 0 bytes": safetensors_raw(b""),
            "header of 3 bytes in a file": safetensors_raw(b"{}", b"", 3),
            "7 bytes are no safetensors": bytes(7),
            "does not begin with": safetensors_raw(b'  {"t": 1}', data),
            "no JSON": safetensors_raw(b'{"t": ', data),
            "no JSON as": safetensors_raw(b'{"t": "\xff"}', data),
            "NaN": safetensors_raw(b'{"t": NaN}', data),
            "recursion|no JSON as it should be": safetensors_raw(deep, data),
            "twice": safetensors_raw(b'{"t": 1, "t": 2}', data),
            "__metadata__": safetensors_raw(header({"__metadata__": {"a": 1}})),
            "not exactly dtype": safetensors_raw(header({"t": {**F32, "more": 1}}), data),
            "not exactly": safetensors_raw(header({"t": [1]}), data),
            "tensor 't': dtype 'F33' is unknown": safetensors_raw(header({"t": {**F32, "dtype": "F33"}}), data),
            "dtype .* is unknown": safetensors_raw(header({"t": {**F32, "dtype": {}}}), data),
            "shape is not": safetensors_raw(header({"t": {**F32, "shape": [-2]}}), data),
            "shape is not a": safetensors_raw(header({"t": {**F32, "shape": [True, 2]}}), data),
            "shape is not a list": safetensors_raw(header({"t": {**F32, "shape": [1] * 65}}), data),
            "data_offsets is not": safetensors_raw(header({"t": {**F32, "data_offsets": [0, 8.0]}}), data),
            "data_offsets is not a": safetensors_raw(header({"t": {**F32, "data_offsets": [8]}}), data),
            "bytes 8 to 0 are not": safetensors_raw(header({"t": {**F32, "data_offsets": [8, 0]}}), data),
            "bytes 0 to 8 are not within the 7": safetensors_raw(header({"t": F32}), data[:7]),
            "bytes 9223372036854775800": safetensors_raw(
                header({"t": {**F32, "data_offsets": [(1 << 63) - 8, (1 << 63) - 1]}}), data),
            "are 12 bytes; data_offsets name 8": safetensors_raw(header({"t": {**F32, "shape": [3]}}), data),
            "bytes; data_offsets": safetensors_raw(
                header({"t": {**F32, "shape": [(1 << 62)] * 60}}), data),
            "tensor 'u' overlaps 't'": safetensors_raw(header(
                {"t": F32, "u": {**F32, "data_offsets": [4, 12]}}), bytes(12)),
            "tensor 'u' leaves a hole": safetensors_raw(header(
                {"t": F32, "u": {**F32, "data_offsets": [12, 20]}}), bytes(20)),
            "1 bytes follow": safetensors_raw(header({"t": F32}), bytes(9)),
        }
        for words, contents in cases.items():
            with self.subTest(words), self.assertRaisesRegex(FormatError, words):
                self.open(contents)

    def test_empty(self):
        with self.assertRaisesRegex(FormatError, "0 bytes are no safetensors"):
            SafetensorsFile(self.source, extent=(0, 0))
        self.assertEqual(self.open(safetensors({})).load(), {})

    def test_truncated(self):
        """At whatever byte."""
        contents = safetensors({"a": ("F32", [3], noise(12)), "b": ("U8", [5], noise(5))})
        for size in range(1, len(contents), 7):
            with self.subTest(size=size), self.assertRaises(FormatError):
                self.open(contents[:size])

    def test_any_byte(self):
        """A damaged header is an error of the format or another header, never anything else."""
        contents = safetensors({"a": ("F32", [3], noise(12)), "b": ("U8", [5], noise(5))})
        for at in range(len(contents) - 17):
            for change in (0x01, 0x40):
                bad = bytearray(contents)
                bad[at] ^= change
                try:
                    self.open(bytes(bad))
                except FormatError:
                    pass

    def test_errors(self):
        self.pack({"m.safetensors": safetensors(self.whole())})
        file = SafetensorsFile(self.source, "m.safetensors", out="bytes")
        buffers = len(self.host._handle.buffers)
        self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281, skip=5)
        with self.assertRaisesRegex(nvmfr.StatusError, "tensor 'layer.5' of m.safetensors failed"):
            file.load()
        self.assertLessEqual(len(self.host._handle.buffers), buffers + 1)
        self.assertEqual(len(file.load()), 20)

    def test_no_registration_is_left(self):
        self.pack({"m.safetensors": safetensors(self.whole(30))})
        file = SafetensorsFile(self.source, "m.safetensors", out="bytes")
        before = len(self.host._handle.buffers)
        file.load()
        self.assertEqual(len(self.host._handle.buffers), before)


class Deep(PackCase):
    """A target that takes its time has many commands at once."""
    target_options = {"latency_us": 50000}

    def test_deep_queue(self):
        tensors = {f"t{i}": ("U8", [4096], noise(4096, i)) for i in range(40)}
        self.pack({"m.safetensors": safetensors(tensors)})
        loaded = SafetensorsFile(self.controller, "m.safetensors", out="bytes").load()
        self.assertGreater(self.target.counters.max_outstanding, 30)
        self.assertEqual([raw(one) for one in loaded.values()], [one[2] for one in tensors.values()])


class Lost(PackCase):
    """The association is lost while a checkpoint is read, and made anew by the library."""

    def test_resumes(self):
        tensors = {f"t{i}": ("U8", [50000 + i], noise(50000 + i, i)) for i in range(40)}
        self.pack({"m.safetensors": safetensors(tensors)})
        with self.host.connect(self.target.uri, ctrl_loss_timeout_ms=20000,
                               reconnect_delay_ms=20) as controller:
            source = Source.over(controller)
            file = SafetensorsFile(source, "m.safetensors", out="bytes")
            self.target.add_fault(nvmfr.SoftFaultKind.DISCONNECT_ALL, opcode=READ, skip=50)
            loaded = file.load()
            self.assertGreater(source.link().engine.losses, 0)
            for name, (_, _, data) in tensors.items():
                self.assertEqual(raw(loaded[name]), data, name)


class Parser(unittest.TestCase):

    def test_random_text(self):
        chance = random.Random(9)
        words = [b"{", b"}", b"[", b"]", b":", b",", b'"t"', b'"dtype"', b'"F32"', b'"shape"', b"1",
                 b'"data_offsets"', b"-1", b"1e400", b"null", b"true", b" "]
        for _ in range(3000):
            text = b"{" + b"".join(chance.choices(words, k=chance.randrange(20)))
            try:
                form.parse_header(text, chance.randrange(100), "x")
            except FormatError:
                pass

    def test_out(self):
        with self.assertRaisesRegex(ValueError, "is unknown"):
            arrays("bytes").view(bytearray(8), 0, "float31", (1,))
