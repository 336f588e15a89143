# SPDX-License-Identifier: BSD-3-Clause
"""Namespace: each call is one I/O or command, from submit to completion."""
from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Tuple, Union

from . import _abi
from ._abi import Access, IoFlag, Op, ReserveAction
from ._arrays import Batch, Completions
from ._buffer import Buffer
from ._commands import PAGE_BYTES, Reservations, parse_reservations
from ._errors import ArgumentError, BusyError, StatusError, TimeOutError, UnsupportedError
from ._lib import completion_error
from ._queue import IoQueue, QueuePair

if TYPE_CHECKING:
    from ._controller import Controller
    from ._paths import MultiPath

_LIST_BYTES = 8192  # the longest list of ranges of a command
_REPORT_ENTRY = 64
_COMPARE_FAILURE = 0x285
_STATUS_CODE = 0x7ff  # of a status: without "more" and "do not retry"


def _copied(source: Any) -> Any:
    """Something writable: Python gives no address of what is read-only."""
    try:
        return bytearray(source) if memoryview(source).readonly else source
    except TypeError:
        return source  # a tensor


class Namespace:
    """A namespace in the simple forms: each call waits for its I/O. For many at once, use batches.
    Made by Controller.namespace(), or for several paths by MultiPath.namespace().

    Any object with a writable buffer is registered for the call, which pins its pages: for more
    than a few calls give a Buffer. Nothing is copied but what pread() says.
    """

    def __init__(self, controller: "Union[Controller, MultiPath]", nsid: int,
                 qpair: Optional[IoQueue]) -> None:
        self.controller = controller
        self.nsid = nsid
        info = controller.ns_info(nsid)
        self.block_bytes: int = info.block_bytes
        self.capacity_blocks: int = info.capacity_blocks
        self.read_only = bool(info.read_only)
        self._given = qpair
        self._own: Optional[IoQueue] = None
        self._lock = threading.Lock()
        self._batch = Batch(1)
        self._done = Completions(2)
        self._list: Optional[Buffer] = None  # what goes along with a command

    def __repr__(self) -> str:
        return (f"<nvmfr.Namespace {self.nsid}: {self.capacity_blocks} blocks of "
                f"{self.block_bytes} bytes>")

    @property
    def info(self) -> _abi.NsInfo:
        """What is known of it (nvmfr_ns_info), as now."""
        return self.controller.ns_info(self.nsid)

    @property
    def queue_pair(self) -> IoQueue:
        """The one that it uses."""
        if self._given is not None:
            return self._given
        if self._own is None or self._own.closed:
            self._own = self.controller.queue_pair(16)
        return self._own

    def read(self, lba: int, nblocks: int, timeout: Optional[float] = None) -> bytearray:
        """nblocks blocks from lba on, in a new bytearray where the target put them."""
        if nblocks < 1:
            raise ValueError("1 block or more")
        if nblocks > self.capacity_blocks and nblocks > self.info.capacity_blocks:
            # before memory is taken for them
            raise ArgumentError(errno.ERANGE, f"{nblocks} blocks are more than namespace {self.nsid} has "
                                f"({self.info.capacity_blocks})")
        data = bytearray(nblocks * self.block_bytes)
        self.readinto(data, lba, timeout)
        return data

    def readinto(self, target: Any, lba: int, timeout: Optional[float] = None) -> int:
        """Fills target, a Buffer or a writable buffer of whole blocks, from lba on. Returns bytes."""
        return self._move(Op.READ, target, lba, 0, timeout)

    def write(self, source: Any, lba: int, fua: bool = False,
              timeout: Optional[float] = None) -> int:
        """Writes whole blocks from lba on. Read-only sources (bytes) are copied. Returns bytes.

        fua: durable at completion, past any volatile cache.
        """
        return self._move(Op.WRITE, _copied(source), lba, int(IoFlag.FUA) if fua else 0, timeout)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Makes the writes that completed durable."""
        with self._lock:
            self._batch.fill(Op.FLUSH, self.nsid, 0, 0, None)
            self._run(timeout)

    def compare(self, data: Any, lba: int, timeout: Optional[float] = None) -> bool:
        """Whether the blocks from lba on are those of data, by the controller's word."""
        try:
            self._move(Op.COMPARE, _copied(data), lba, 0, timeout)
        except StatusError as why:
            if why.status & _STATUS_CODE != _COMPARE_FAILURE:
                raise
            return False
        return True

    def verify(self, lba: int, nblocks: int, timeout: Optional[float] = None) -> None:
        """Checks that blocks can be read, without their data. Raises StatusError where not."""
        self._without_data(Op.VERIFY, lba, nblocks, timeout)

    def write_zeroes(self, lba: int, nblocks: int, timeout: Optional[float] = None) -> None:
        """Zeroes blocks, without data."""
        self._without_data(Op.WRITE_ZEROES, lba, nblocks, timeout)

    def _without_data(self, op: Op, lba: int, nblocks: int, timeout: Optional[float]) -> None:
        if lba < 0 or nblocks < 1:
            raise ValueError("lba is 0 or more, and there is 1 block or more")
        with self._lock:
            self._batch.fill(op, self.nsid, lba, nblocks, None)
            self._run(timeout)

    def pread(self, target: Any, size_bytes: int, offset_bytes: int,
              timeout: Optional[float] = None) -> int:
        """Fills target with size_bytes from byte offset_bytes of the namespace on, any of each.

        Whole blocks go straight to their place; an unaligned head and tail are copied, which
        queue_pair.info.bounced_bytes counts. Returns size_bytes.
        """
        if offset_bytes < 0 or size_bytes < 0:
            raise ValueError("offset and size are 0 bytes or more")
        with self._lock:
            buffer = self._buffer(target, Access.TARGET)
            try:
                self.queue_pair.pread(buffer, size_bytes, offset_bytes, nsid=self.nsid,
                                      timeout=timeout)
            finally:
                self._let_go(buffer, target)
        return size_bytes

    def _buffer(self, memory: Any, access: int) -> Buffer:
        if isinstance(memory, Buffer):
            return memory
        return self.controller.host.register(memory, access)

    @staticmethod
    def _let_go(buffer: Buffer, memory: Any) -> None:
        if buffer is not memory:
            try:
                buffer.release()
            except BusyError:
                pass  # the wait ended before its I/O: the host releases it later

    # ---- commands

    def command(self, opcode: int, data: Any = None, *, timeout: Optional[float] = None,
                **words: int) -> int:
        """Any I/O command to this namespace. data: a Buffer or a writable buffer, or for a command
        that sends anything with bytes; words: cdw2, cdw3, cdw10 to cdw15. Returns dwords 0 and 1 of
        the answer."""
        access = opcode & Access.BOTH
        with self._lock:
            queue = self._commands()
            memory = data if data is None or access & Access.TARGET else _copied(data)
            buffer = None if memory is None else self._buffer(memory, access or Access.BOTH)
            try:
                self._finish(lambda: queue.command(
                    opcode, buffer, len(buffer) if buffer is not None else 0, nsid=self.nsid,
                    **words), 1, timeout)
                return int(self._done[0].cqe_result)
            finally:
                if buffer is not None:
                    self._let_go(buffer, memory)

    def deallocate(self, ranges: Iterable[Tuple[int, int]],
                   timeout: Optional[float] = None) -> None:
        """Tells that ranges, (lba, nblocks) each, are not needed any more."""
        self._with_list(lambda queue, memory: queue.deallocate(ranges, memory, nsid=self.nsid), timeout)

    def copy(self, lba: int, ranges: Iterable[Tuple[int, int]],
             timeout: Optional[float] = None) -> None:
        """Copies ranges, one behind the other, to lba on, within the controller."""
        self._with_list(lambda queue, memory: queue.copy(lba, ranges, memory, nsid=self.nsid), timeout)

    def compare_and_write(self, expected: Any, new: Any, lba: int,
                          timeout: Optional[float] = None) -> bool:
        """Writes new from lba on if expected is what is there, nobody else's command in between.
        False: it is not, and nothing was written. How much goes as one is in Identify Controller,
        ACWU."""
        with self._lock:
            queue = self._commands()
            memories = [_copied(expected), _copied(new)]
            buffers = [self._buffer(memory, Access.SOURCE) for memory in memories]
            try:
                nblocks = self._blocks(buffers[0], lba)
                if len(buffers[1]) != len(buffers[0]):
                    raise ValueError("what is expected and what is new are of the same length")
                self._finish(lambda: queue.compare_and_write(buffers[0], buffers[1], lba, nblocks,
                                                             nsid=self.nsid), 2, timeout)
            except StatusError as why:
                if why.status & _STATUS_CODE != _COMPARE_FAILURE:
                    raise
                return False
            finally:
                for buffer, memory in zip(buffers, memories):
                    self._let_go(buffer, memory)
        return True

    def reserve(self, action: ReserveAction, *, key: int = 0, other_key: int = 0, kind: int = 0,
                flags: int = 0, timeout: Optional[float] = None) -> None:
        """Changes this host's registration or the reservation: kind is a ReserveType, flags are
        ReserveFlags, as nvmfr_reserve has them. What a reservation forbids raises StatusError,
        status 0083h."""
        self._with_list(lambda queue, memory: queue.reserve(
            action, memory, key=key, other_key=other_key, kind=kind, flags=flags, nsid=self.nsid),
            timeout)

    def reservations(self, timeout: Optional[float] = None) -> Reservations:
        """Who is registered, and what is reserved."""
        size = PAGE_BYTES
        while True:
            page = self.controller.host.alloc(size)
            with self._lock:
                queue = self._commands()
                self._finish(lambda: queue.report_reservations(page, size, nsid=self.nsid), 1, timeout)
            found = parse_reservations(page.view)
            if found.present <= len(found.registrants):
                return found
            size = _REPORT_ENTRY * (found.present + 1)

    def _commands(self) -> QueuePair:
        queue = self.queue_pair
        if not isinstance(queue, QueuePair):
            raise UnsupportedError(errno.EOPNOTSUPP, "several paths take reads, writes and the like, and "
                                   "this command not: use a namespace of one controller")
        return queue

    def _with_list(self, submit: Callable[[QueuePair, Buffer], None],
                   timeout: Optional[float]) -> None:
        with self._lock:
            queue = self._commands()
            if self._list is None or self._list.released:
                self._list = self.controller.host.alloc(_LIST_BYTES)
            memory = self._list
            self._finish(lambda: submit(queue, memory), 1, timeout)

    # ---- one after the other

    def _move(self, op: Op, memory: Any, lba: int, flags: int, timeout: Optional[float]) -> int:
        with self._lock:
            access = Access.TARGET if op == Op.READ else Access.SOURCE
            buffer = self._buffer(memory, access)
            try:
                self._batch.fill(op, self.nsid, lba, self._blocks(buffer, lba), buffer, flags=flags)
                self._run(timeout)
                return len(buffer)
            finally:
                self._batch.clear()
                self._let_go(buffer, memory)

    def _blocks(self, buffer: Buffer, lba: int) -> int:
        """How many a buffer is."""
        if len(buffer) % self.block_bytes:
            raise ValueError(f"{len(buffer)} bytes are not whole blocks of {self.block_bytes}: only "
                             "pread() takes other sizes")
        if lba < 0:
            raise ValueError("lba is 0 or more")
        return len(buffer) // self.block_bytes

    def _run(self, timeout: Optional[float]) -> None:
        self._finish(lambda: self.queue_pair.submit(self._batch), 1, timeout)

    def _finish(self, submit: Callable[[], object], count: int, timeout: Optional[float]) -> None:
        """Submits what has so many completions, and waits for them."""
        queue = self.queue_pair
        if queue.in_flight:
            raise BusyError(errno.EBUSY, "the simple forms need a queue pair with no I/O in flight")
        submit()
        if queue.wait(self._done, count, timeout) < count:
            if queue is self._own:
                queue.close()  # the answer must not be taken for a later one's
            raise TimeOutError(errno.ETIMEDOUT, f"the I/O has not ended within {timeout} s")
        for done in sorted(self._done[:count], key=lambda done: int(done.user_data)):
            if done.result:
                raise completion_error(done.result, done.status)
