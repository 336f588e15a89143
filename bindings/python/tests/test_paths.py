# SPDX-License-Identifier: BSD-3-Clause
"""Several paths: two ports of one target. What one fails goes by the other, with the right bytes."""
import asyncio
import errno
import gc
import random
import threading
import weakref

import nvmfr
from nvmfr import AnaState, EventType, MpathPolicy, Op, Retry, State

from support import BLOCK, SoftCase, pattern, without_numpy

BLOCKS = 256
LONG = 20  # seconds; nothing waits for it to pass


class PathsCase(SoftCase):
    """self.controllers by ports 1 and 2, self.paths over both."""
    target_options = {"oaes": 1 << 8 | 1 << 11, "ana_groups": 2, "anatt": 10}

    def setUp(self):
        super().setUp()
        self.fill(BLOCKS)
        self.controllers = [self.connect(port) for port in (1, 2)]
        self.paths = self.host.multipath(*self.controllers)

    def connect(self, port):
        return self.host.connect(self.target.port_uri(port), ctrl_loss_timeout_ms=60000,
                                 reconnect_delay_ms=50)

    def set_ana(self, port, state):
        """And waits until the library knows."""
        self.host.events()
        self.target.set_ana(port, 1, state)
        controller = self.controllers[port - 1]
        while controller.ns_info(self.nsid).ana_state != state:
            self.host.events(LONG)

    def shut(self, port):
        """And waits until the library knows."""
        self.host.events()
        self.target.set_port(port, False)
        while self.controllers[port - 1].state == State.LIVE:
            self.host.events(LONG)

    def up(self, queue):
        """Until both ways are live."""
        done = nvmfr.Completions(8)
        while [way.state for way in queue.ways()] != [State.LIVE] * 2:
            queue.wait(done, 1, 0.01)


class Failover(PathsCase):

    def batches(self, queue, rounds, upset):
        """Random reads, 32 at a time, each into its own place and checked; upset(i) comes while those of
        round i are in flight."""
        batch, done = nvmfr.Batch(32), nvmfr.Completions(32)
        buffer = self.host.alloc(32 * 2 * BLOCK)
        want, draw = pattern(0, BLOCKS), random.Random(5)
        for number in range(rounds):
            lbas = [draw.randrange(BLOCKS - 1) for _ in range(32)]
            buffer.view[:] = bytes(len(buffer))
            batch.fill(Op.READ, self.nsid, lbas, 2, buffer, range(0, len(buffer), 2 * BLOCK))
            self.assertEqual(queue.submit(batch), 32)
            upset(number)
            self.assertEqual(queue.wait(done, 32, LONG), 32)
            done.check(32)
            self.assertEqual(sorted(done[i].user_data for i in range(32)), list(range(32)))
            for i, lba in enumerate(lbas):
                self.assertEqual(buffer.view[2 * i * BLOCK:2 * (i + 1) * BLOCK],
                                 want[lba * BLOCK:(lba + 2) * BLOCK], f"round {number}, LBA {lba}")

    def test_ports(self):
        """One is shut with reads in flight, then opened, then the other."""
        with self.paths.queue_pair(64) as queue:
            self.up(queue)

            def upset(number):
                if number % 10 == 5:
                    self.target.set_port(1 + number // 10 % 2, False)
                elif number % 10 == 9:
                    self.target.set_port(1 + number // 10 % 2, True)
                    self.controllers[number // 10 % 2].wait_live(LONG)
            self.batches(queue, 40, upset)
            self.up(queue)
            self.assertGreater(queue.info.reissued, 0)
            for way, controller in zip(queue.ways(), self.controllers):
                self.assertIs(way.controller, controller)
                self.assertGreater(way.aborted, 0)
                self.assertEqual((way.reissued, way.refused, way.in_flight), (way.aborted, 0, 0))
                self.assertEqual(way.bytes, way.ios * 2 * BLOCK)
            known = self.paths.dump()
            self.assertEqual(sum(path["ios"] for path in known["paths"]),
                             40 * 32 + queue.info.reissued)
        self.assertEqual(self.paths.dump()["threads"], 0)

    def test_without_numpy(self):
        with without_numpy(), self.paths.queue_pair(64) as queue:
            self.up(queue)
            self.batches(queue, 3, lambda number: self.target.set_port(1, number != 1))

    def test_ana(self):
        """Only the best state is used, and what is refused meanwhile goes the other way."""
        with self.paths.queue_pair(64) as queue:
            self.up(queue)
            self.set_ana(1, AnaState.NON_OPTIMIZED)
            before = queue.ways()[0].ios
            self.batches(queue, 3, lambda number: None)
            self.assertEqual(queue.ways()[0].ios, before)
            self.assertEqual(self.controllers[0].ana_log()[0].state, AnaState.NON_OPTIMIZED)
            self.batches(queue, 1, lambda number: self.target.set_ana(2, 1, AnaState.INACCESSIBLE))
            self.assertGreater(queue.ways()[0].ios, before)
            states = [path["namespaces"][0]["ana_state"] for path in self.paths.dump()["paths"]]
            self.assertEqual(states[0], AnaState.NON_OPTIMIZED)

    def test_events(self):
        self.host.events()
        self.target.set_ana(2, 1, AnaState.INACCESSIBLE)
        sources = []
        while not sources:
            sources = [event.source for event in self.host.events(LONG)
                       if event.type == EventType.ANA_CHANGED]
        self.assertEqual(sources, [self.controllers[1]])

    def test_asyncio(self):
        buffer = self.host.alloc(BLOCKS * BLOCK)

        async def main():
            async with self.paths.async_queue(16) as queue:
                reads = [queue.read(buffer, lba, 1, offset_bytes=lba * BLOCK) for lba in range(BLOCKS)]
                first = asyncio.gather(*reads[:100])
                await asyncio.sleep(0)
                self.target.set_port(1, False)
                await asyncio.gather(first, *reads[100:])
        asyncio.run(main())
        self.assertEqual(buffer.view, pattern(0, BLOCKS))

    def test_writes_and_retry(self):
        """retry says what goes again; a write that was refused with a path's status goes at once."""
        with self.host.multipath(*self.controllers, retry=Retry.ALL, policy=MpathPolicy.LEAST_BYTES) as paths:
            self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=1, value=0x302)
            paths.namespace().write(pattern(7, 2), 100)
            self.assertEqual(paths.namespace().read(100, 2), pattern(7, 2))
        with self.host.multipath(*self.controllers, retry=Retry.NONE) as paths:
            self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=2, value=0x302)
            with self.assertRaises(nvmfr.StatusError):
                paths.namespace().read(0, 1)


class Simple(PathsCase):

    def test_namespace(self):
        disk = self.paths.namespace()
        self.assertEqual(disk.read(3, 9), pattern(3, 9))
        self.shut(2)
        disk.write(pattern(0, 2), 40)
        disk.flush()
        self.assertTrue(disk.compare(pattern(0, 2), 40))
        self.assertFalse(disk.compare(pattern(1, 2), 40))
        disk.write_zeroes(40, 1)
        self.assertEqual(disk.read(40, 2), bytes(BLOCK) + pattern(1, 1))
        for command in (lambda: disk.copy(0, [(1, 1)]), lambda: disk.command(0), disk.reservations,
                        lambda: disk.compare_and_write(pattern(0, 1), pattern(0, 1), 0)):
            with self.assertRaisesRegex(nvmfr.UnsupportedError, "one controller"):
                command()

    def test_pread(self):
        """Any range into any place."""
        want = pattern(0, BLOCKS)
        with self.paths.queue_pair(8) as queue:
            buffer = self.host.alloc(8 * BLOCK)
            for offset in (0, 1, 511, 512, 700):
                for size in (0, 1, 11, 511, 512, 513, 1024, 1500, 3000):
                    for place in (0, 3):
                        with self.subTest(offset=offset, size=size, place=place):
                            buffer.view[:] = b"\xee" * len(buffer)
                            queue.pread(buffer, size, offset, buffer_offset_bytes=place)
                            self.assertEqual(buffer.view[place:place + size], want[offset:offset + size])
                            self.assertEqual(buffer.view[:place], b"\xee" * place)
                            rest = buffer.view[place + size:]
                            self.assertEqual(rest, b"\xee" * len(rest))
            self.assertEqual(self.paths.namespace().pread(buffer, 100, 77), 100)
            self.assertEqual(buffer.view[:100], want[77:177])
            for wrong in ((9 * BLOCK, 0), (1, -1)):
                with self.assertRaises(ValueError):
                    queue.pread(buffer, *wrong)
            with self.assertRaises(nvmfr.ArgumentError):
                queue.pread(buffer, 1000, self.size_bytes - 100)
            queue.read(buffer, 0, 1)
            with self.assertRaisesRegex(nvmfr.BusyError, "in flight"):
                queue.pread(buffer, 1, 0)
            self.assertEqual(queue.wait(nvmfr.Completions(1), 1, LONG), 1)

    def test_one_at_a_time(self):
        with self.paths.queue_pair(2, qpair_data=9) as queue:
            buffer, done = self.host.alloc(4 * BLOCK), nvmfr.Completions(2)
            queue.read(buffer, 5, 1, user_data=77)
            queue.verify(0, 9, user_data=78)
            with self.assertRaises(nvmfr.RoomError):
                queue.read(buffer, 5, 1)
            self.assertEqual(queue.wait(done, 2, LONG), 2)
            self.assertEqual({(one.user_data, one.qpair_data) for one in done[:2]}, {(77, 9), (78, 9)})
            self.assertEqual(buffer.view[:BLOCK], pattern(5, 1))
            with self.assertRaises(nvmfr.ArgumentError):
                queue.wait(done)  # nothing is in flight
            with self.assertRaises(nvmfr.ArgumentError):
                queue.read(buffer, self.size_bytes // BLOCK, 1)
            with self.assertRaises(nvmfr.NotFoundError):
                queue.read(buffer, 0, 1, nsid=99)
            self.assertEqual(queue.namespace().read(0, 1), pattern(0, 1))

    def test_pieces(self):
        pieces = nvmfr.Pieces(2)
        buffer = self.host.alloc(4096)
        pieces.set(0, buffer, 0, BLOCK)
        pieces.set(1, buffer, 2048, BLOCK)
        batch, done = nvmfr.Batch(1), nvmfr.Completions(1)
        batch.fill(Op.READ, self.nsid, 8, 2, None)
        batch.set_pieces(0, pieces)
        with self.paths.queue_pair(8) as queue:
            self.up(queue)
            queue.submit(batch)
            batch.clear()
            kept = weakref.ref(pieces)
            del pieces
            gc.collect()
            self.assertIsNotNone(kept())
            self.target.set_port(1, False)
            self.assertEqual(queue.wait(done, 1, LONG), 1)
            done.check(1)
            self.assertEqual(buffer.view[2048:2048 + BLOCK], pattern(9, 1))


class Life(PathsCase):

    def test_added_and_removed(self):
        first, second = self.controllers
        with self.assertRaises(nvmfr.Error) as caught:
            self.paths.add(first)
        self.assertEqual(caught.exception.errno, errno.EEXIST)
        with self.assertRaisesRegex(nvmfr.BusyError, "MultiPath.remove"):
            first.close()
        self.assertEqual(self.paths.controllers, [first, second])
        queue = self.paths.queue_pair(8)
        self.up(queue)
        self.paths.remove(first)
        with self.assertRaises(nvmfr.NotFoundError):
            self.paths.remove(first)
        with self.assertRaises(nvmfr.BusyError):
            first.close()  # the queue has not let go of it
        queue.poll(nvmfr.Completions(1))
        first.close()
        self.assertEqual([way.controller for way in queue.ways()], [second])
        self.assertEqual(queue.namespace().read(0, 1), pattern(0, 1))
        self.controllers[0] = self.connect(1)
        self.paths.add(self.controllers[0])
        self.up(queue)

    def test_what_is_no_path(self):
        with self.host.soft_target("other", subnqn="nqn.2026-12.test:other") as target:
            other = self.host.connect(target.uri)
            with self.assertRaisesRegex(nvmfr.ArgumentError, "other"):
                self.paths.add(other)
            with self.assertRaisesRegex(nvmfr.ArgumentError, "other"):
                self.host.multipath(self.controllers[0], other)
        with self.assertRaisesRegex(TypeError, "no option 'polcy'"):
            self.host.multipath(polcy=1)
        with self.assertRaises(nvmfr.ArgumentError):
            self.host.multipath(policy=9)
        with self.host.multipath() as empty, self.assertRaisesRegex(nvmfr.NotFoundError, "add"):
            empty.namespace()

    def test_a_path_that_is_nobody_s_stays(self):
        """The multipath keeps its controllers."""
        self.controllers.clear()
        gc.collect()
        self.assertEqual(self.paths.namespace().read(0, 1), pattern(0, 1))

    def test_what_waits_keeps_its_buffer(self):
        queue, done = self.paths.queue_pair(8), nvmfr.Completions(1)
        for port in (1, 2):
            self.shut(port)
        buffer = self.host.alloc(BLOCK)
        queue.read(buffer, 9, 1)
        self.assertEqual((queue.poll(done), queue.info.waiting), (0, 1))
        with self.assertRaises(nvmfr.BusyError):
            buffer.release()
        seen = buffer.view
        with self.assertRaises(nvmfr.BusyError):
            buffer.release()  # nor with views
        del buffer
        gc.collect()
        self.target.set_port(2, True)
        self.assertEqual(queue.wait(done, 1, LONG), 1)
        done.check(1)
        self.assertEqual(seen, pattern(9, 1))

    def test_closed(self):
        queue = self.paths.queue_pair(8)
        done = nvmfr.Completions(1)
        self.paths.close()
        for call in (lambda: queue.poll(done), lambda: queue.info, self.paths.dump,
                     lambda: self.paths.add(self.controllers[0]), self.paths.queue_pair):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()
        self.assertTrue(queue.closed and self.paths.closed)
        self.controllers[0].close()

    def test_ends_with_its_host(self):
        queue = self.paths.queue_pair(8)
        queue.read(self.host.alloc(BLOCK), 0, 1)
        self.host.close()
        self.assertTrue(queue.closed and self.paths.closed and self.controllers[0].closed)

    def test_garbage(self):
        queue = self.paths.queue_pair(8)
        buffer = self.host.alloc(BLOCK)
        queue.read(buffer, 0, 1)
        self.paths = None
        del queue
        gc.collect()
        buffer.release()  # nothing is in flight any more
        for controller in self.controllers:
            controller.close()

    def test_one_thread_at_a_time(self):
        """The GIL is let go of while a wait waits, a second call is told, and nothing ends under it."""
        for state in (1, 2):
            self.set_ana(state, AnaState.INACCESSIBLE)
        queue, done = self.paths.queue_pair(8), nvmfr.Completions(1)
        queue.read(self.host.alloc(BLOCK), 0, 1)
        waiter = threading.Thread(target=queue.wait, args=(done, 1, LONG))
        waiter.start()
        while not queue._handle.in_use():
            pass
        for call in (lambda: queue.poll(nvmfr.Completions(1)), queue.close, self.paths.close, self.host.close):
            with self.assertRaisesRegex(nvmfr.BusyError, "another thread"):
                call()
        self.target.set_ana(nvmfr.SOFT_ANY, 1, AnaState.OPTIMIZED)
        waiter.join()
        done.check(1)


class NoPath(PathsCase):

    def setUp(self):
        """In virtual time."""
        self.host = nvmfr.Host(manual=True)
        self.addCleanup(self.host.close)
        self.host.freeze_clock()
        self.target = self.host.soft_target("disks", **self.target_options)
        self.nsid = self.target.add_namespace(size_bytes=self.size_bytes, block_bytes=BLOCK)
        self.paths = self.host.multipath(self.connect(1), no_path_timeout_ms=5000)

    def test_ends(self):
        self.target.set_ana(1, 1, AnaState.INACCESSIBLE)
        with self.paths.queue_pair(4) as queue:
            queue.read(self.host.alloc(BLOCK), 0, 1)
            done = nvmfr.Completions(1)
            self.assertEqual(queue.wait(done, 1, 60), 1)
            with self.assertRaises(nvmfr.LostError) as caught:
                done.check(1)
            self.assertEqual(caught.exception.errno, errno.EHOSTUNREACH)
