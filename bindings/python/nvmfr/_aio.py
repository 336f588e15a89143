# SPDX-License-Identifier: BSD-3-Clause
"""A queue pair in an asyncio event loop: it sleeps on the completion descriptor."""
from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Deque, Dict, Optional, Tuple, Type

from ._arrays import Completions
from ._buffer import Buffer
from ._errors import RoomError
from ._lib import completion_error
from ._queue import IoQueue

_Waiting = Tuple["asyncio.Future[None]", Buffer]


class AsyncQueue:
    """`await queue.read(buffer, lba, nblocks)`: as many at once as tasks do it. Made by
    Controller.async_queue() or MultiPath.async_queue() in the event loop's thread, which owns it.

    An await that is cancelled leaves its I/O to end by itself; the buffer stays in use until then.
    A host that is manual must have its poll() called as well. For the highest rates use batches.
    """

    def __init__(self, queue_pair: IoQueue) -> None:
        self.queue_pair = queue_pair
        self._loop = asyncio.get_running_loop()
        self._done = Completions(64)
        self._pending: Dict[int, _Waiting] = {}
        self._room: Deque["asyncio.Future[None]"] = deque()
        self._next = 0
        self._scheduled = False
        self._fd = queue_pair.fileno()
        self._loop.add_reader(self._fd, self._pump)

    async def read(self, buffer: Buffer, lba: int, nblocks: int, *, nsid: int = 0,
                   offset_bytes: int = 0) -> None:
        """Reads nblocks from lba on into buffer. Raises StatusError, LostError, ..."""
        await self._run(self.queue_pair.read, buffer, lba, nblocks, nsid, offset_bytes)

    async def write(self, buffer: Buffer, lba: int, nblocks: int, *, nsid: int = 0,
                    offset_bytes: int = 0) -> None:
        """Writes nblocks from buffer to lba on; the bytes must not change meanwhile."""
        await self._run(self.queue_pair.write, buffer, lba, nblocks, nsid, offset_bytes)

    async def _run(self, submit: Any, buffer: Buffer, lba: int, nblocks: int, nsid: int,
                   offset_bytes: int) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this queue belongs to another event loop")
        while True:
            self._next += 1
            try:
                submit(buffer, lba, nblocks, nsid=nsid, offset_bytes=offset_bytes,
                       user_data=self._next)
                break
            except RoomError:
                if not self._pending:
                    raise
                room = self._loop.create_future()
                self._room.append(room)
                await room
        future: "asyncio.Future[None]" = self._loop.create_future()
        self._pending[self._next] = (future, buffer)
        self._schedule()
        await future

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Poll until nothing is there, arm, and sleep only if that finds nothing either."""
        self._scheduled = False
        if self.queue_pair.closed:
            return
        try:
            count = self.queue_pair.poll(self._done)
            self._finish(count)
            if count == len(self._done) or not self.queue_pair.arm():
                self._schedule()  # after the other tasks' turn
        except OSError as why:
            self._fail(why)

    def _finish(self, count: int) -> None:
        for index in range(count):
            done = self._done[index]
            future, _ = self._pending.pop(done.user_data)
            if future.done():
                continue  # cancelled
            if done.result:
                future.set_exception(completion_error(done.result, done.status))
            else:
                future.set_result(None)
        self._wake(count)

    def _wake(self, count: int) -> None:
        """Up to so many of those that wait for room try again."""
        while count and self._room:
            room = self._room.popleft()
            if not room.done():  # else it was cancelled
                room.set_result(None)
                count -= 1

    def _fail(self, why: BaseException) -> None:
        """Nothing more will come: the connection is lost, or this queue is closed."""
        self._loop.remove_reader(self._fd)
        for future, _ in self._pending.values():
            if not future.done():
                future.set_exception(why)
        self._pending.clear()
        self._wake(len(self._room))

    def close(self) -> None:
        """Ends the queue pair; awaits that are under way are cancelled."""
        self._loop.remove_reader(self._fd)
        self.queue_pair.close()
        for future, _ in self._pending.values():
            future.cancel()
        self._pending.clear()
        while self._room:
            self._room.popleft().cancel()

    async def __aenter__(self) -> "AsyncQueue":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.close()
