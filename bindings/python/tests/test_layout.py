# SPDX-License-Identifier: BSD-3-Clause
"""The mirrors against the headers: every field, constant and prototype, both ways."""
import ctypes
import json
import os
import re
import subprocess
import unittest

import layout
import nvmfr
from nvmfr import _abi

HEADERS = os.environ["NVMFR_HEADERS"].split(os.pathsep)
MAP = os.environ["NVMFR_MAP"]
SCALARS = {"int": ctypes.c_int, "unsigned int": ctypes.c_uint, "size_t": ctypes.c_size_t,
           "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32,
           "uint64_t": ctypes.c_uint64, "double": ctypes.c_double, "void": None}


def fields_of(struct):
    """Name: [offset, size] of a ctypes struct, those of anonymous unions as its own."""
    names = []
    for name, kind in struct._fields_:
        names += [n for n, _ in kind._fields_] if name in getattr(struct, "_anonymous_", ()) else [name]
    return {name: [getattr(struct, name).offset, getattr(struct, name).size] for name in names}


class Layout(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.c = json.loads(subprocess.run([os.environ["NVMFR_LAYOUT"]], check=True,
                                          capture_output=True, text=True).stdout)

    def test_structs(self):
        self.assertEqual(set(self.c["structs"]), set(_abi.STRUCTS))
        for name, struct in _abi.STRUCTS.items():
            with self.subTest(name):
                self.assertEqual(self.c["structs"][name]["fields"], fields_of(struct))
                self.assertEqual(self.c["structs"][name]["size"], ctypes.sizeof(struct))

    def test_no_field_was_overlooked(self):
        for name, struct in self.c["structs"].items():
            end = 0
            for field, (offset, size) in sorted(struct["fields"].items(), key=lambda item: item[1]):
                self.assertLess(offset - end, min(size, 8), f"{name}: a hole before {field}")
                end = max(end, offset + size)
            self.assertLess(struct["size"] - end, struct["align"], f"{name}: a hole at the end")

    def test_constants(self):
        self.assertEqual(set(self.c["enums"]), set(_abi.ENUMS))
        for name, (prefix, python) in _abi.ENUMS.items():
            mirrored = {prefix + k: int(v) for k, v in python.__members__.items()}
            self.assertEqual(self.c["enums"][name], mirrored, name)
        self.assertEqual(self.c["macros"], _abi.MACROS)

    def test_functions(self):
        with open(MAP, encoding="utf-8") as file:
            exported = set(re.findall(r"nvmfr_\w+", file.read()))
        prototypes = layout.declared(HEADERS)[3]
        self.assertEqual(set(prototypes), exported)
        self.assertEqual(set(prototypes), set(_abi.FUNCTIONS))
        for name, (result, arguments) in prototypes.items():
            with self.subTest(name):
                python_result, python_arguments = _abi.FUNCTIONS[name]
                self.check_type(result, python_result)
                self.assertEqual(len(arguments), len(python_arguments))
                for text, kind in zip(arguments, python_arguments):
                    self.check_type(text, kind)

    def check_type(self, text, kind):
        if "*" in text:
            self.assertEqual(ctypes.sizeof(kind), ctypes.sizeof(ctypes.c_void_p), text)
            self.assertTrue(kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents"), text)
            if "struct" in text and hasattr(kind, "contents") and issubclass(kind._type_, ctypes.Structure):
                self.assertIs(_abi.STRUCTS[re.search(r"struct (\w+)", text).group(1)], kind._type_)
            return
        words = [word for word in re.findall(r"\w+", text) if word != "const"]
        known = SCALARS.get(" ".join(words), SCALARS.get(" ".join(words[:-1]), self))
        self.assertIs(known, kind, text)

    def test_version(self):
        major, minor, patch = nvmfr.version()
        self.assertEqual(nvmfr.__version__, f"{major}.{minor}.{patch}")

    def test_defaults_are_the_library_s(self):
        opts = _abi.QpairOpts()
        nvmfr._lib.lib().nvmfr_qpair_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        self.assertEqual((opts.size, opts.depth, opts.max_descriptors, opts.io_timeout_ms),
                         (ctypes.sizeof(opts), 128, 4, 30000))
