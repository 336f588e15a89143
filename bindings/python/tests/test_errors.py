# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: class, errno, sentence, NVMe status; and what is closed or used twice."""
import errno
import json
import os
import pickle
import subprocess
import sys
import threading
import unittest

import nvmfr
from nvmfr import SoftFaultKind

from support import READ, SoftCase, environment


class Errors(SoftCase):

    def test_status(self):
        self.target.add_fault(SoftFaultKind.STATUS, opcode=READ, value=0x2281)  # unrecovered read error
        with self.assertRaises(nvmfr.StatusError) as caught:
            self.controller.namespace().read(0, 1)
        self.assertEqual((caught.exception.errno, caught.exception.status), (errno.EREMOTEIO, 0x2281))
        self.assertIn(nvmfr.status_string(0x2281), str(caught.exception))
        self.assertIn("EREMOTEIO", str(caught.exception))

    def test_status_of_pread(self):
        self.target.add_fault(SoftFaultKind.STATUS, opcode=READ, value=0x2281)
        with self.assertRaises(nvmfr.StatusError) as caught:
            self.controller.namespace().pread(bytearray(100), 100, 7)
        self.assertEqual(caught.exception.status, 0x2281)

    def test_arguments(self):
        with self.assertRaises(nvmfr.ArgumentError) as caught:
            self.host.connect("nvmf+nonsense://x")
        self.assertIsInstance(caught.exception, ValueError)
        self.assertIn("nonsense", str(caught.exception))
        with self.assertRaisesRegex(nvmfr.ArgumentError, "1099511627776 blocks are more than namespace 1"):
            self.controller.namespace().read(0, 1 << 40)
        with self.assertRaisesRegex(TypeError, "no option 'katoms'.*kato_ms"):
            self.host.connect(self.target.uri, katoms=5)
        with self.assertRaisesRegex(ValueError, "tos is 256: it has 8 bits"):
            self.host.connect(self.target.uri, tos=256)
        with self.assertRaisesRegex(ValueError, "NUL"):
            self.host.connect("nvmf+soft:?size=8M\0")
        with self.assertRaisesRegex(ValueError, "hostnqn"):
            nvmfr.Host("not an NQN")

    def test_not_found(self):
        with self.assertRaises(nvmfr.NotFoundError) as caught:
            self.host.connect("nvmf+soft://nobody")
        self.assertIsInstance(caught.exception, FileNotFoundError)
        with self.assertRaises(nvmfr.NotFoundError):
            self.controller.namespace(77)

    def test_refused_and_denied(self):
        self.target.add_fault(SoftFaultKind.CM_REJECT, count=0)
        with self.assertRaises(nvmfr.LostError) as caught:
            self.host.connect(self.target.uri, connect_timeout_ms=200)  # it tries again meanwhile
        self.assertEqual(caught.exception.errno, errno.ECONNREFUSED)
        self.target.clear_faults()
        with self.host.soft_target("closed", flags=nvmfr.SoftFlag.DENY_HOSTS) as target:
            target.add_namespace()
            with self.assertRaises(PermissionError):
                self.host.connect(target.uri)

    def test_time_out(self):
        self.target.add_fault(SoftFaultKind.CM_SILENCE, count=0)
        with self.assertRaises(TimeoutError):
            self.host.connect(self.target.uri, timeout=0.05)
        with self.assertRaises(nvmfr.TimeOutError):
            self.host.connect(self.target.uri, connect_timeout_ms=300)  # longer than a slice

    def test_no_room_then_lost(self):
        qpair = self.controller.queue_pair(4)
        self.silence(count=0)
        buffer = self.host.alloc(4096)
        for index in range(4):
            qpair.read(buffer, 0, 1, user_data=index)
        with self.assertRaises(nvmfr.RoomError) as caught:
            qpair.read(buffer, 0, 1)
        self.assertIsInstance(caught.exception, BlockingIOError)
        self.target.drop()
        done = nvmfr.Completions(8)
        self.assertEqual(qpair.wait(done, 4), 4)
        self.assertEqual(done.failures(4), 4)
        with self.assertRaises(nvmfr.LostError) as caught:
            done.check(4)
        self.assertEqual(caught.exception.errno, errno.ECONNABORTED)
        with self.assertRaises(ConnectionError):
            qpair.poll(done)
        with self.assertRaises(nvmfr.LostError):
            self.controller.wait_live()
        self.assertEqual(self.controller.state, nvmfr.State.LOST)

    def test_wait_for_nothing(self):
        with self.assertRaisesRegex(nvmfr.ArgumentError, "nothing is in flight"):
            self.controller.queue_pair(4).wait(nvmfr.Completions(1))

    def test_pickle(self):
        error = pickle.loads(pickle.dumps(nvmfr.StatusError(errno.EREMOTEIO, "words", 0x81)))
        self.assertEqual((type(error), error.errno, error.strerror, error.status),
                         (nvmfr.StatusError, errno.EREMOTEIO, "words", 0x81))
        with self.assertRaisesRegex(TypeError, "URI"):
            pickle.dumps(self.host)

    def test_closed(self):
        qpair = self.controller.queue_pair(4)
        namespace = self.controller.namespace()
        buffer = self.host.alloc(4096)
        qpair.close()
        qpair.close()
        with self.assertRaisesRegex(ValueError, "queue pair is closed"):
            qpair.read(buffer, 0, 1)
        self.controller.close()
        with self.assertRaisesRegex(ValueError, "controller is closed"):
            namespace.read(0, 1)
        buffer.release()
        with self.assertRaisesRegex(ValueError, "released"):
            buffer.view
        self.host.close()
        self.host.close()
        with self.assertRaisesRegex(ValueError, "host is closed"):
            self.host.alloc(1)

    def test_used_twice(self):
        qpair = self.controller.queue_pair(4)
        self.silence()
        buffer = self.host.alloc(4096)
        qpair.read(buffer, 0, 1)
        begun, done = threading.Event(), nvmfr.Completions(1)

        def wait():
            begun.set()
            qpair.wait(done)
        thread = threading.Thread(target=wait)
        thread.start()
        begun.wait()
        while not qpair._handle.in_use():
            pass
        for call in (qpair.close, self.controller.close, self.host.close,
                     lambda: qpair.read(buffer, 0, 1)):
            with self.assertRaisesRegex(nvmfr.BusyError, "another thread"):
                call()
        self.target.drop()
        thread.join()
        self.assertEqual(done[0].result, -errno.ECONNABORTED)

    def test_log(self):
        heard = []
        with nvmfr.Host(log=lambda level, text: heard.append((level, text)),
                        log_level=nvmfr.LogLevel.DEBUG) as host:
            host.connect("nvmf+soft:?size=1M").close()
        self.assertTrue(heard)
        self.assertTrue(all(isinstance(level, nvmfr.LogLevel) for level, _ in heard))

    def test_probe(self):
        self.assertIn("devices", json.loads(nvmfr.probe()))


class Library(unittest.TestCase):
    """How the library is found, in a process of its own."""

    def refused(self, **variables):
        env = environment()
        env.pop("NVMFR_LIBRARY")
        env.pop("LD_LIBRARY_PATH", None)
        env.update(variables)
        code = "import nvmfr\ntry:\n nvmfr.Host()\nexcept nvmfr.LibraryError as why:\n print(why)"
        return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True,
                              text=True).stdout

    def test_nowhere(self):
        said = self.refused()
        if not said:
            self.skipTest("libnvmfr is installed here")
        self.assertRegex(said, "libnvmfr.so.0 cannot be loaded.*NVMFR_LIBRARY")

    def test_wrong_path(self):
        self.assertRegex(self.refused(NVMFR_LIBRARY="/nowhere/lib.so"), "NVMFR_LIBRARY names /nowhere")

    def test_another_library(self):
        self.assertRegex(self.refused(NVMFR_LIBRARY="libc.so.6"), "has no nvmfr_version")

    def test_by_the_loader(self):
        env = environment()
        folder = os.path.dirname(env.pop("NVMFR_LIBRARY"))
        env["LD_LIBRARY_PATH"] = folder
        said = subprocess.run([sys.executable, "-c", "import nvmfr; print(nvmfr.version())"], env=env,
                              check=True, capture_output=True, text=True).stdout
        self.assertEqual(said.strip(), str(nvmfr.version()))
