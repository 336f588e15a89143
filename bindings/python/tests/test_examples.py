# SPDX-License-Identifier: BSD-3-Clause
"""The examples run, and say what they should; those with torch on files that this machine has."""
import glob
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import unittest

from files import safetensors
from support import environment
from test_package import EXAMPLES, run

KINDS = {  # of real files: where they are, and what they end in
    "headers": ("/usr/include", ".h"),
    "scripts": (sysconfig.get_path("stdlib"), ".py"),
    "programs": ("/usr/bin", ""),
}
EACH, MOST_BYTES = 60, 100000


def installed(module):
    return importlib.util.find_spec(module) is not None


def real_files(folder, ending):
    """Some files of this machine, the same each time."""
    found = sorted(path for path in glob.glob(folder + "/**/*" + ending, recursive=True)
                   if os.path.isfile(path) and not os.path.islink(path)
                   and 0 < os.path.getsize(path) < MOST_BYTES)
    return found[::max(1, len(found) // EACH)][:EACH]


class Examples(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.disk = os.path.join(self.folder, "disk")
        self.uri = f"nvmf+soft://{self.disk}"

    def make_disk(self, data=b"", size=64 << 20):
        with open(self.disk, "wb") as file:
            file.write(data)
            file.truncate(size)

    def example(self, name, *arguments):
        return run(sys.executable, os.path.join(EXAMPLES, name), *arguments, env=environment())

    def pack(self, *paths):
        return run(sys.executable, "-m", "nvmfr.pack", "write", "--overwrite", self.uri, *paths,
                   env=environment())

    def test_read(self):
        self.make_disk(b"0123456789abcdef" * 256, 4096)
        out = self.example("read.py", self.uri, "1", "2")
        self.assertIn("30 31 32 33", out)
        self.assertIn("2 blocks of 512 bytes from LBA 1", out)
        self.assertIn("bounced 0 bytes", out)

    def test_read_is_short(self):
        """Twenty lines or so of work."""
        with open(os.path.join(EXAMPLES, "read.py"), encoding="utf-8") as file:
            code = file.read().split('"""')[2]
        self.assertLessEqual(len([line for line in code.splitlines() if line.strip()]), 26)

    def test_mistakes(self):
        arguments = {"read.py": [], "plot.py": [], "checkpoint.py": ["model"]}
        if installed("torch"):
            arguments["torch_loader.py"] = []
        for name, more in arguments.items():
            done = subprocess.run([sys.executable, os.path.join(EXAMPLES, name), "nvmf+soft:///nowhere",
                                   *more], env=environment(), capture_output=True, text=True, check=False)
            with self.subTest(name):
                self.assertEqual(done.returncode, 1)
                self.assertIn("nowhere", done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_batch(self):
        out = self.example("batch.py", "nvmf+soft:?size=8M", "0.2", "24")
        self.assertRegex(out, r"[1-9]\d* reads of 4096 bytes a second, up to 24 at a time")

    def test_plot(self):
        table, picture = (os.path.join(self.folder, name) for name in ("table.json", "picture.svg"))
        more = ["--save", picture] if installed("matplotlib") else []
        out = self.example("plot.py", "--seconds", "0.001", "--json", table, *more, "nvmf+soft:?size=8M")
        self.assertEqual(len(out.splitlines()), 5)
        with open(table, encoding="utf-8") as file:
            curves = json.load(file)["gb_s_by_depth_and_size"]
        self.assertEqual(len(curves), 4)
        self.assertTrue(all(rate > 0 for curve in curves.values() for rate in curve.values()))
        if more:
            with open(picture, encoding="utf-8") as file:
                self.assertIn("queue depth", file.read())

    def test_checkpoint(self):
        model = os.path.join(self.folder, "model.safetensors")
        with open(model, "wb") as file:
            file.write(safetensors({"weight": ("F32", [16, 128], struct.pack("<2048f", *range(2048))),
                                    "bias": ("F32", [128], bytes(512))}))
        self.make_disk()
        self.pack(model)
        out = self.example("checkpoint.py", self.uri, "model.safetensors")
        self.assertRegex(out, r"F32 +\(16, 128\) +weight\n")
        self.assertRegex(out, r"2 tensors, 8704 bytes in .*, copied 0 bytes")
        with self.assertRaisesRegex(AssertionError, "checkpoint.py: .*other"):
            self.example("checkpoint.py", self.uri, "other")

    @unittest.skipUnless(installed("torch"), "torch is not installed for this Python")
    def test_torch_loader(self):
        folders = []
        for kind, where in KINDS.items():
            folders.append(os.path.join(self.folder, kind))
            os.mkdir(folders[-1])
            for number, path in enumerate(real_files(*where)):
                shutil.copyfile(path, os.path.join(folders[-1], f"{number:03}{where[1]}"))
        self.make_disk()
        self.pack(*folders)
        out = self.example("torch_loader.py", "--epochs", "12", self.uri)
        self.assertIn("kinds: headers, programs, scripts", out)
        right = int(out.splitlines()[-1].split(" %")[0])
        self.assertGreaterEqual(right, 80, out)
        # The same through worker processes: the same batches in the same order.
        self.assertEqual(self.losses(self.example("torch_loader.py", "--epochs", "2", "--workers", "2",
                                                  self.uri)), self.losses(out)[:2])

    @staticmethod
    def losses(out):
        return [line.split(",")[0] for line in out.splitlines() if line.startswith("epoch")]
