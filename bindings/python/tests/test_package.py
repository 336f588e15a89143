# SPDX-License-Identifier: BSD-3-Clause
"""What is shipped: pip without a network, wheel, sdist, types, the example."""
import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

from support import environment, needs_numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(os.path.dirname(ROOT))
EXAMPLES = os.path.join(TOP, "examples", "python")
USE = ("import nvmfr\nwith nvmfr.Host() as h, h.connect('nvmf+soft:?size=1M') as c:\n"
       " assert c.namespace().read(0, 1) == bytes(512)\nprint(nvmfr.__file__)")


def run(*command, **options):
    """Its output; an AssertionError with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Package(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def backend(self, call):
        """As a frontend calls it. Returns the file that it made."""
        code = f"import sys; sys.path.insert(0, 'backend'); import nvmfr_build; print(nvmfr_build.{call})"
        name = run(sys.executable, "-B", "-c", code, self.folder, cwd=ROOT).strip()
        return os.path.join(self.folder, name)

    def test_wheel(self):
        with zipfile.ZipFile(self.backend("build_wheel(sys.argv[1])")) as wheel:
            names = set(wheel.namelist())
            info = "nvmfr-0.1.0.dist-info"
            self.assertLessEqual({"nvmfr/__init__.py", "nvmfr/py.typed", f"{info}/METADATA",
                                  f"{info}/WHEEL", f"{info}/RECORD"}, names)
            rows = list(csv.reader(wheel.read(f"{info}/RECORD").decode().splitlines()))
            self.assertEqual({row[0] for row in rows}, names)
            for name, digest, size in rows:
                if name.endswith("RECORD"):
                    continue
                data = wheel.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, size), ("sha256=" + want, str(len(data))))

    @classmethod
    def setUpClass(cls):
        """A stock environment."""
        cls.environment = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.environment)
        try:
            venv.create(cls.environment, with_pip=True)
            cls.has_pip = True
        except (subprocess.CalledProcessError, ImportError):
            cls.has_pip = False

    def install(self, *what):
        if not self.has_pip:
            self.skipTest("this Python makes no environment with pip (Debian: install python3-venv)")
        python = os.path.join(self.environment, "bin", "python")
        env = environment()
        del env["PYTHONPATH"]
        run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", *what, env=env)
        where = run(python, "-c", USE, env=env, cwd=self.folder).strip()
        run(python, "-m", "pip", "uninstall", "-y", "nvmfr", env=env)
        return where

    def test_pip_install(self):
        self.assertTrue(self.install(ROOT).startswith(self.environment))

    def test_pip_install_editable(self):
        self.assertTrue(self.install("-e", ROOT).startswith(ROOT))

    def test_pip_install_sdist(self):
        sdist = self.backend("build_sdist(sys.argv[1])")
        self.assertTrue(self.install(sdist).startswith(self.environment))

    def test_types(self):
        mypy = shutil.which("mypy")
        if not mypy:
            self.skipTest("mypy is not installed")
        cache = ["--strict", "--cache-dir", self.folder]
        self.assertIn("no issues", run(mypy, *cache, "-p", "nvmfr", cwd=ROOT))
        examples = [os.path.join(EXAMPLES, name) for name in sorted(os.listdir(EXAMPLES))
                    if name.endswith(".py")]
        for example in examples:  # each a program, so not all at once
            run(mypy, *cache, "--config-file", os.path.join(ROOT, "pyproject.toml"), example,
                env=dict(os.environ, MYPYPATH=ROOT))

    @needs_numpy
    def test_bench(self):
        """What tests/bench/python.py runs: every read of both ways, none of it copied."""
        for way in ("one", "two"):
            out = run(sys.executable, os.path.join(TOP, "tests", "bench", "reader.py"),
                      "nvmf+soft:?size=8M", "4096", "32", "9000", way, env=environment())
            self.assertEqual(json.loads(out)["bounced_bytes"], 0)

    def test_readme(self):
        """Its three lines of set-up are other tests'; its lines of Python are run."""
        with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
            code, = re.findall(r"^```python\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        self.assertEqual(run(sys.executable, "-c", code, env=environment()), f"{bytes(16)} 0\n")

    def test_info(self):
        out = run(sys.executable, "-m", "nvmfr.info", "nvmf+soft:?size=64M", env=environment())
        self.assertIn("namespace   1: 131072 blocks of 512 bytes, 64 MiB", out)

    def test_reader_left(self):
        """`... | head` is no error to speak of."""
        for command in ("info", "pack list"):
            module, *rest = command.split()
            reader, writer = os.pipe()
            os.close(reader)
            with tempfile.NamedTemporaryFile() as disk, os.fdopen(writer, "wb") as out, self.subTest(command):
                disk.truncate(1 << 20)
                uri = "nvmf+soft://" + disk.name
                if rest:
                    run(sys.executable, "-m", "nvmfr.pack", "write", uri, __file__, env=environment())
                done = subprocess.run([sys.executable, "-m", "nvmfr." + module, *rest, uri], stdout=out,
                                      stderr=subprocess.PIPE, text=True, env=environment(), check=False)
                self.assertEqual((done.returncode, done.stderr), (141, ""))

    @needs_numpy
    def test_document(self):
        """The code of doc/python.md, run as one program."""
        with open(os.path.join(TOP, "doc", "python.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        self.assertEqual(len(blocks), 9)
        code = ("import asyncio, numpy\nlbas, offsets = range(0, 256, 8), range(0, 32 * 4096, 4096)\n"
                + "".join(blocks) + "with nvmfr.Host() as host, host.connect('nvmf+soft:?size=1M') as c:\n"
                "    asyncio.run(main(c, host.alloc(256 * 512)))\nprint(taken, count)\n"
                "print(failed_over, *states, celsius, cache, errors, keys)")
        said = run(sys.executable, "-c", code, env=environment())
        self.assertRegex(said, r"^STATE <nvmfr.*> 0\nlive\n32 32\n"
                               r"\d+ recovering live 40 1 \[\] \[7\]\n$")
