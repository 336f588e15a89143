# SPDX-License-Identifier: BSD-3-Clause
"""A pool follows what a discovery controller lists: what comes is connected, what goes is closed."""
import gc
import struct
import threading
import unittest

import nvmfr
from nvmfr import EventType, State

from support import BLOCK, pattern

LONG = 20  # seconds; nothing waits for it to pass
LOOP, NVM = 254, 2
NQN = "nqn.2014-08.org.example:"


def entry(name):
    """A Discovery Log Page Entry of an embedded target."""
    head = struct.pack("<BBBBHHH", LOOP, LOOP, NVM, 0, 1, 0xffff, 32)
    return (head.ljust(32, b"\0") + bytes(32) + bytes(192) + (NQN + name).encode().ljust(256, b"\0")
            + name.encode().ljust(256)).ljust(1024, b"\0")


class PoolCase(unittest.TestCase):
    """The log is the target "log"'s, which lists itself, too; "a" and "b" are what comes and goes."""

    def setUp(self):
        self.host = nvmfr.Host()
        self.addCleanup(self.host.close)
        self.log = self.host.soft_target("log", oaes=1 << 31)
        self.targets = {}
        for name in ("a", "b"):
            self.targets[name] = self.host.soft_target(name, subnqn=NQN + name)
            self.targets[name].add_namespace(size_bytes=1 << 20, block_bytes=BLOCK)
        self.seen = []  # added or leaves, and whose

    def list(self, *names):
        self.log.set_discovery(b"".join(map(entry, names)))

    def follow(self, pool, until):
        """As a program's loop does."""
        while not until():
            for event in self.host.events(min(LONG, LONG if pool.timeout() is None else pool.timeout())):
                if event.type in (EventType.CTRL_ADDED, EventType.CTRL_LEAVES):
                    self.seen.append((event.type.name[5:].lower(), event.source))
            pool.update()

    @staticmethod
    def names(pool):
        return sorted(controller.info.subnqn.decode()[-1] for controller in pool
                      if controller.info.subnqn.decode().startswith(NQN))

    @staticmethod
    def member(pool, name):
        found, = [one for one in pool if one.info.subnqn.decode() == NQN + name]
        return found

    def pool(self, *names, **options):
        self.list(*names)
        pool = self.host.pool(self.log.uri, **options)
        self.follow(pool, lambda: self.names(pool) == sorted(names) and len(pool) == len(names) + 1)
        return pool


class Following(PoolCase):

    def test_gains_and_loses(self):
        pool = self.pool("a", each={"num_io_queues": 3})
        first = self.member(pool, "a")
        self.assertEqual(first.info.num_io_queues, 3)
        first.namespace().write(pattern(0, 4), 0)
        self.list("a", "b")
        self.follow(pool, lambda: self.names(pool) == ["a", "b"])
        second = self.member(pool, "b")
        self.follow(pool, lambda: ("added", second) in self.seen)
        self.assertEqual(first.namespace().read(0, 4), pattern(0, 4))
        self.assertEqual(second.state, State.LIVE)
        self.list("b")
        self.follow(pool, lambda: self.names(pool) == ["b"])
        self.follow(pool, lambda: ("leaves", first) in self.seen)
        gc.collect()  # the namespaces' queue pairs
        self.follow(pool, lambda: first.closed)
        with self.assertRaisesRegex(ValueError, "closed"):
            first.info
        self.assertEqual(second.namespace().read(0, 1), bytes(BLOCK))
        self.list("a", "b")  # and once more
        self.follow(pool, lambda: self.names(pool) == ["a", "b"])
        pool.close()
        self.assertTrue(second.closed and pool.closed)

    def test_waits_for_queue_pairs(self):
        """Who is told that it leaves goes on until its queue pairs are closed."""
        pool = self.pool("a")
        controller = self.member(pool, "a")
        qpair = controller.queue_pair(4)
        self.list()
        self.follow(pool, lambda: ("leaves", controller) in self.seen)
        for _ in range(3):
            pool.update()
        self.assertEqual(qpair.namespace().read(0, 1), bytes(BLOCK))
        self.assertFalse(controller.closed)
        self.assertEqual(self.names(pool), [])
        qpair.close()
        self.follow(pool, lambda: controller.closed)
        pool.update()
        self.assertEqual(self.targets["a"].counters.open_connections, 0)

    def test_one_that_comes_back_while_it_leaves(self):
        pool = self.pool("a")
        controller = self.member(pool, "a")
        qpair = controller.queue_pair(4)
        self.list()
        self.follow(pool, lambda: ("leaves", controller) in self.seen)
        self.list("a")
        self.follow(pool, lambda: self.names(pool) == ["a"])
        self.assertIn(controller, pool.controllers)
        self.assertEqual(qpair.namespace().read(0, 1), bytes(BLOCK))

    def test_the_pool_s(self):
        """close() of a controller ends its queue pairs and leaves the association."""
        pool = self.pool("a")
        controller = self.member(pool, "a")
        qpair = controller.queue_pair(4)
        controller.close()
        self.assertTrue(qpair.closed)
        self.assertFalse(controller.closed)
        self.assertEqual(controller.namespace().read(0, 1), bytes(BLOCK))

    def test_one_of_the_program_s_own(self):
        own = self.host.connect(self.targets["a"].uri)
        self.list("a", "b")
        pool = self.host.pool(self.log.uri)
        self.follow(pool, lambda: self.names(pool) == ["b"])
        self.list()
        self.follow(pool, lambda: self.names(pool) == [])
        self.assertEqual(own.namespace().read(0, 1), bytes(BLOCK))
        self.assertNotIn(own, pool.controllers)

    def test_as_a_path(self):
        pool = self.pool("a")
        controller = self.member(pool, "a")
        with self.host.multipath(controller) as paths:
            self.assertEqual(paths.namespace().read(0, 1), bytes(BLOCK))
            with self.assertRaisesRegex(nvmfr.BusyError, "path"):
                pool.close()
            self.assertFalse(controller.closed)
            self.list()
            self.follow(pool, lambda: ("leaves", controller) in self.seen)
            pool.update()
            self.assertFalse(controller.closed)
        self.follow(pool, lambda: controller.closed)

    def test_in_a_call_of_another_thread(self):
        pool = self.pool("a")
        controller = self.member(pool, "a")
        qpair, done = controller.queue_pair(4), nvmfr.Completions(1)
        self.targets["a"].add_fault(nvmfr.SoftFaultKind.SILENCE, opcode=2)
        qpair.read(self.host.alloc(BLOCK), 0, 1)
        waiter = threading.Thread(target=lambda: qpair.wait(done, 1, LONG))
        waiter.start()
        while not qpair._handle.in_use():
            pass
        for close in (pool.close, self.host.close):
            with self.assertRaisesRegex(nvmfr.BusyError, "another thread"):
                close()
        self.targets["a"].drop()
        waiter.join()
        self.assertLess(done[0].result, 0)
        qpair.close()
        self.list()
        with controller._handle:  # as a call does
            with self.assertRaisesRegex(nvmfr.BusyError, "another thread"):
                self.follow(pool, lambda: False)
        self.follow(pool, lambda: controller.closed)

    def test_the_log_is_gone(self):
        """What there is stays; why is raised; and it is tried again."""
        pool = self.pool("a", connect_timeout_ms=300)
        self.log.add_fault(nvmfr.SoftFaultKind.CM_REJECT, count=0)
        self.log.drop()
        with self.assertRaises(nvmfr.LostError):
            self.follow(pool, lambda: False)
        self.assertEqual(self.names(pool), ["a"])
        self.assertIsNotNone(pool.timeout())
        self.log.clear_faults()
        self.list("a", "b")
        self.follow(pool, lambda: self.names(pool) == ["a", "b"])

    def test_refused(self):
        with self.assertRaises(nvmfr.NotFoundError):
            self.host.pool("nvmf+soft://nobody")
        with self.assertRaisesRegex(nvmfr.ArgumentError, "name a target"):
            self.host.pool(self.log.uri, each={"uri": "nvmf+soft://a"})
        with self.assertRaises(TypeError):
            self.host.pool(self.log.uri, each={"depth": 4})
        pool = self.host.pool(self.log.uri)
        pool.close()
        for call in (pool.update, pool.timeout):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()

    def test_ends_with_its_host(self):
        pool = self.pool("a")
        controller = self.member(pool, "a")
        qpair = controller.queue_pair(2)
        qpair.read(self.host.alloc(BLOCK), 0, 1)
        self.host.close()
        self.assertTrue(pool.closed and controller.closed and qpair.closed)

    def test_garbage(self):
        pool = self.pool("a")
        kept = pool.controllers
        del pool
        gc.collect()
        self.assertTrue(all(controller.closed for controller in kept))
        self.assertEqual(self.targets["a"].counters.open_connections, 0)
