# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: a host with an embedded target, and data that tells where it belongs."""
import importlib.util
import os
import struct
import unittest
from unittest import mock

import nvmfr

BLOCK = 512
READ = 2  # opcodes
WRITE = 1
HAVE_NUMPY = importlib.util.find_spec("numpy") is not None
needs_numpy = unittest.skipUnless(HAVE_NUMPY, "numpy is not installed for this Python")


def pattern(first_lba, nblocks):
    """Each 8 bytes say where on the namespace they are."""
    start = first_lba * BLOCK
    return struct.pack(f"<{nblocks * BLOCK // 8}Q", *range(start, start + nblocks * BLOCK, 8))


def without_numpy():
    """As if numpy were not installed."""
    return mock.patch("nvmfr._arrays._numpy", return_value=None)


class SoftCase(unittest.TestCase):
    """self.host, self.target with a namespace of 8 MiB, self.controller."""
    target_options = {}
    size_bytes = 8 << 20

    def setUp(self):
        self.host = nvmfr.Host()
        self.addCleanup(self.close_host)
        self.target = self.host.soft_target("disks", **self.target_options)
        self.nsid = self.target.add_namespace(size_bytes=self.size_bytes, block_bytes=BLOCK)
        self.controller = self.host.connect(self.target.uri)

    def close_host(self):
        """No test breaks a rule of the fabric's."""
        if not self.host.closed and not self.target._handle.closed:
            self.assertIsNone(self.target.last_violation)
        self.host.close()

    def fill(self, nblocks):
        """Writes the pattern to the first blocks."""
        self.controller.namespace().write(pattern(0, nblocks), 0)

    def silence(self, opcode=READ, **options):
        """The next such command gets no answer."""
        self.target.add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=opcode, **options)


def environment():
    """For another process with this package and this library."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(nvmfr.__file__)))
    return dict(os.environ, PYTHONPATH=package)
