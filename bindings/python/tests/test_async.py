# SPDX-License-Identifier: BSD-3-Clause
"""asyncio: many at once, no room, errors, cancellation, loss; the loop goes on meanwhile."""
import asyncio
import errno

import nvmfr

from support import BLOCK, READ, SoftCase, pattern


class Async(SoftCase):

    def setUp(self):
        super().setUp()
        self.fill(256)
        self.buffer = self.host.alloc(256 * BLOCK)

    def run_in_loop(self, test, depth=8):
        async def main():
            async with self.controller.async_queue(depth) as queue:
                await asyncio.wait_for(test(queue), 60)
        asyncio.run(main())

    def test_many(self):
        """More than the queue has room for."""
        async def test(queue):
            await asyncio.gather(*(queue.read(self.buffer, i, 1, offset_bytes=i * BLOCK)
                                   for i in range(256)))
        self.run_in_loop(test)
        self.assertEqual(bytes(self.buffer.view), pattern(0, 256))

    def test_slow_target(self):
        """Sleeps on the descriptor, and other tasks run."""
        async def test(queue):
            self.target.add_fault(nvmfr.SoftFaultKind.DELAY, opcode=READ, value=50000)
            reading = asyncio.ensure_future(queue.read(self.buffer, 5, 1))
            turns = 0
            while not reading.done():
                turns += 1
                await asyncio.sleep(0.001)
            self.assertGreater(turns, 1)
            await reading
        self.run_in_loop(test)
        self.assertEqual(bytes(self.buffer.view[:BLOCK]), pattern(5, 1))

    def test_write(self):
        async def test(queue):
            self.buffer.view[:BLOCK] = b"w" * BLOCK
            await queue.write(self.buffer, 3, 1)
            await queue.read(self.buffer, 3, 1, offset_bytes=BLOCK)
        self.run_in_loop(test)
        self.assertEqual(bytes(self.buffer.view[BLOCK:2 * BLOCK]), b"w" * BLOCK)

    def test_errors(self):
        async def test(queue):
            self.target.add_fault(nvmfr.SoftFaultKind.STATUS, opcode=READ, value=0x2281)
            with self.assertRaises(nvmfr.StatusError) as caught:
                await queue.read(self.buffer, 0, 1)
            self.assertEqual(caught.exception.status, 0x2281)
            with self.assertRaises(nvmfr.ArgumentError):
                await queue.read(self.buffer, 1 << 40, 1)
            await queue.read(self.buffer, 0, 1)
        self.run_in_loop(test)

    def test_cancelled(self):
        async def test(queue):
            self.target.add_fault(nvmfr.SoftFaultKind.DELAY, opcode=READ, value=20000)
            reading = asyncio.ensure_future(queue.read(self.buffer, 0, 1))
            await asyncio.sleep(0)
            reading.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await reading
            with self.assertRaises(nvmfr.BusyError):
                self.buffer.release()  # its I/O goes on
            while queue._pending:
                await asyncio.sleep(0.001)
            await queue.read(self.buffer, 0, 1)
        self.run_in_loop(test)
        self.buffer.release()

    def test_lost(self):
        async def test(queue):
            self.silence(count=0)
            reads = [asyncio.ensure_future(queue.read(self.buffer, 0, 1)) for _ in range(20)]
            await asyncio.sleep(0.01)
            self.target.drop()
            for result in await asyncio.gather(*reads, return_exceptions=True):
                self.assertIsInstance(result, nvmfr.LostError)
                self.assertIn(result.errno, (errno.ECONNABORTED, errno.ENOTCONN))
            with self.assertRaises(nvmfr.LostError):
                await queue.read(self.buffer, 0, 1)
        self.run_in_loop(test)

    def test_closed_under_way(self):
        async def test(queue):
            self.silence(count=0)
            reads = [asyncio.ensure_future(queue.read(self.buffer, 0, 1)) for _ in range(20)]
            await asyncio.sleep(0.01)
            queue.close()
            for result in await asyncio.gather(*reads, return_exceptions=True):
                self.assertIsInstance(result, asyncio.CancelledError)
        self.run_in_loop(test)

    def test_host_closed_underneath(self):
        async def test(queue):
            self.silence()
            reading = asyncio.ensure_future(queue.read(self.buffer, 0, 1))
            await asyncio.sleep(0.01)
            self.host.close()
            queue.close()
            with self.assertRaises(asyncio.CancelledError):
                await reading
            with self.assertRaisesRegex(ValueError, "closed"):
                await queue.read(self.buffer, 0, 1)
        self.run_in_loop(test)

    def test_idle_loop_sleeps(self):
        """The descriptor is not readable for nothing."""
        async def test(queue):
            await queue.read(self.buffer, 0, 1)
            await asyncio.sleep(0.01)
            calls = []
            pump = queue._pump
            queue._loop.add_reader(queue._fd, lambda: (calls.append(1), pump()))
            await asyncio.sleep(0.05)
            self.assertLess(len(calls), 10)
        self.run_in_loop(test)
