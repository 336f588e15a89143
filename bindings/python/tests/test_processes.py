# SPDX-License-Identifier: BSD-3-Clause
"""Workers: spawn and forkserver work, fork gets a clear error and no crash; processes end cleanly."""
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

import nvmfr
import workers

from support import BLOCK, SoftCase, environment, pattern


def run_python(code, *arguments):
    """A process of its own; its output, or an AssertionError with what it said."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments], env=environment(),
                          capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Workers(SoftCase):

    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads, Python 3.12
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        file.write(pattern(0, 64))
        file.flush()
        self.uri = f"nvmf+soft://{file.name}"

    def start(self, method):
        """As a program does that has a connection itself."""
        with multiprocessing.get_context(method).Pool(2) as pool:
            results = pool.starmap(workers.read_blocks, [(self.uri, lba, 4) for lba in range(0, 64, 4)])
        self.assertEqual(b"".join(results), pattern(0, 64))

    def test_spawn(self):
        self.start("spawn")

    def test_forkserver(self):
        self.start("forkserver")

    def test_fork_with_hosts_of_their_own(self):
        self.start("fork")

    def test_fork_error(self):
        qpair = self.controller.queue_pair(4)
        group = self.host.group()
        buffer = self.host.alloc(BLOCK)
        batch, done = nvmfr.Batch(1), nvmfr.Completions(1)
        batch.fill(nvmfr.Op.READ, self.nsid, 0, 1, buffer)
        prepared = qpair.prepare(batch)
        namespace = self.controller.namespace()
        found = self.host.discover(self.target.uri)
        paths = self.host.multipath(self.controller)
        ways = paths.queue_pair(4)
        pool = self.host.pool(self.target.uri)
        calls = {
            "alloc": lambda: self.host.alloc(8), "register": lambda: self.host.register(bytearray(8)),
            "connect": lambda: self.host.connect(self.uri), "nqn": lambda: self.host.nqn,
            "info": lambda: self.controller.info, "queue_pair": self.controller.queue_pair,
            "read": lambda: qpair.read(buffer, 0, 1), "submit": lambda: qpair.submit(batch),
            "submit_and_wait": lambda: qpair.submit_and_wait(batch, done),
            "poll": lambda: qpair.poll(done), "wait": lambda: qpair.wait(done, 1, 1),
            "pread": lambda: qpair.pread(buffer, 1, 1), "post": prepared.post,
            "group": lambda: group.poll(done), "namespace": lambda: namespace.read(0, 1),
            "events": self.host.events, "discover": lambda: self.host.discover(self.target.uri),
            "records": lambda: len(found), "dump": self.controller.dump,
            "identify": lambda: self.controller.identify(1), "copy": lambda: qpair.copy(0, [(1, 1)], buffer),
            "add a path": lambda: paths.add(self.controller), "paths": paths.dump,
            "submit by paths": lambda: ways.submit(batch), "poll paths": lambda: ways.poll(done),
            "ways": ways.ways, "update": pool.update, "pool": lambda: self.host.pool(self.target.uri),
            "view": lambda: buffer.view, "target": self.target.drop,
        }
        workers.inherited.update(calls)
        self.addCleanup(workers.inherited.clear)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            for name in calls:
                with self.subTest(name), self.assertRaisesRegex(nvmfr.ForkError, "before fork"):
                    pool.apply(workers.use_inherited, (name,))
        self.assertEqual(qpair.submit(batch), 1)
        self.assertEqual(qpair.wait(done), 1)
        done.check(1)

    def test_fork_in_a_call(self):
        """Locks that another thread of the parent holds do not stop the child."""
        run_python("""
            import nvmfr, os, sys, threading
            host = nvmfr.Host()
            target = host.soft_target("t")
            target.add_namespace()
            controller = host.connect(target.uri)
            target.add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=2, count=0)
            qpair, done = controller.queue_pair(4), nvmfr.Completions(1)
            qpair.read(host.alloc(4096), 0, 1)
            thread = threading.Thread(target=qpair.wait, args=(done,))
            thread.start()
            while not qpair._handle.in_use():
                pass
            child = os.fork()
            if child == 0:
                try:
                    qpair.poll(done)
                except nvmfr.ForkError:
                    sys.exit(0)
                sys.exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            target.drop()
            thread.join()
            """)

    def test_forked_child_ends_as_programs_do(self):
        """With finalizers and atexit; and releases what it inherited, without effect."""
        said = run_python("""
            import nvmfr, os, sys
            host = nvmfr.Host()
            controller = host.connect("nvmf+soft:?size=1M")
            qpair, buffer = controller.queue_pair(4), host.alloc(4096)
            paths = host.multipath(controller)
            ways, pool = paths.queue_pair(4), host.pool(host.soft_target("log").uri)
            child = os.fork()
            if child == 0:
                with nvmfr.Host() as own, own.connect("nvmf+soft:?size=1M") as mine:
                    assert mine.namespace().read(0, 1) == bytes(512)
                if sys.argv[1] == "close":
                    for inherited in (qpair, ways, pool, paths, controller, buffer, host):
                        inherited.close()
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            qpair.pread(buffer, 4096, 0)
            host.close()
            """, "close" if os.getpid() % 2 else "leave")
        self.assertEqual([line for line in said.splitlines() if "Deprecat" not in line
                          and "os.fork()" not in line], [])


class Ends(unittest.TestCase):
    """Whatever is open when a program ends."""

    def test_nothing_closed(self):
        said = run_python("""
            import nvmfr
            host = nvmfr.Host(log=lambda level, text: None, log_level=nvmfr.LogLevel.DEBUG)
            target = host.soft_target("t")
            target.add_namespace()
            target.add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=2, count=0)
            controller = host.connect(target.uri)
            qpair, buffer = controller.queue_pair(4), host.alloc(4096)
            view, capsule = buffer.view, buffer.__dlpack__()
            group = host.group()
            qpair.read(buffer, 0, 1)
            """)
        self.assertEqual(said, "")

    def test_a_daemon_thread_waits(self):
        run_python("""
            import nvmfr, threading
            host = nvmfr.Host()
            target = host.soft_target("t")
            target.add_namespace()
            target.add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=2, count=0)
            controller = host.connect(target.uri)
            qpair, done = controller.queue_pair(4), nvmfr.Completions(1)
            qpair.read(host.alloc(4096), 0, 1)
            threading.Thread(target=qpair.wait, args=(done,), daemon=True).start()
            while not qpair._handle.in_use():
                pass
            """)

    def test_interrupted(self):
        """Ctrl-C ends a wait that has no bound."""
        run_python("""
            import nvmfr, os, signal, threading
            host = nvmfr.Host()
            target = host.soft_target("t")
            target.add_namespace()
            target.add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=2, count=0)
            controller = host.connect(target.uri)
            qpair, done = controller.queue_pair(4), nvmfr.Completions(1)
            qpair.read(host.alloc(4096), 0, 1)
            def interrupt():
                while not qpair._handle.in_use():
                    pass
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=interrupt).start()
            try:
                qpair.wait(done)
            except KeyboardInterrupt:
                host.close()
            """)
