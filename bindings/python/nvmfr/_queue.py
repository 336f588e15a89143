# SPDX-License-Identifier: BSD-3-Clause
"""Queue pairs and groups: one C call for many commands."""
from __future__ import annotations

import ctypes
import errno
import threading
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Set, Tuple

from . import _abi, _core
from ._abi import Op
from ._arrays import Batch, Completions, Pieces
from ._buffer import Buffer, BufferHandle
from ._commands import QueueCommands
from ._core import Closing, Handle, OwnedHandle, inherited, milliseconds
from ._errors import BusyError
from ._lib import check, fail, lib

if TYPE_CHECKING:
    from ._controller import Controller
    from ._host import Host
    from ._namespace import Namespace

_SLICE_MS = 200  # of a long wait: between slices Python looks at its signals


def until_live(wait: Callable[[int], Any], is_lost: Callable[[], Any], timeout: Optional[float]) -> None:
    """wait(milliseconds), again and again, until it is 0. Raises what ended it, or TimeOutError."""
    left = milliseconds(timeout)
    while True:
        slice_ms = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
        result = wait(slice_ms)
        if result == 0:
            return
        error = fail(result)
        left = left if left < 0 else left - slice_ms
        # It may be live since the wait ended: then the next one says so.
        if result != -errno.ETIMEDOUT or left == 0 or is_lost():
            raise error


class _Poller(Closing):
    """What queue pairs, groups and paths have in common: a poll, a wait and a sleep."""
    _handle: OwnedHandle
    _poll: Any
    _wait: Any
    _fd: Any
    _arm: Any

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed

    def fileno(self) -> int:
        """A descriptor to sleep on after arm() returned True."""
        with self._handle as pointer:
            return check(self._fd(pointer))

    def arm(self) -> bool:
        """Asks for a wake-up at the next completion. True: sleep; False: poll again first."""
        with self._handle as pointer:
            return check(self._arm(pointer)) == 0

    def poll(self, out: Completions, first: int = 0) -> int:
        """Collects completions into out, from entry first on, without waiting. Returns how many.

        Raises LostError when the connection is lost and every I/O has had its completion.
        Threads: the owner.
        """
        room = out._count - first
        if first < 0 or room < 1:
            raise IndexError(f"no room from entry {first} on")
        handle = self._handle
        # `with handle`, by hand: a third of the price of a poll.
        if handle.generation != _core.generation or not handle.acquire(False):
            raise handle.refusal()
        try:
            count: int = self._poll(handle.pointer or handle.closed_error(),
                                    out._address + first * 32, room)
            return count if count >= 0 else check(count)
        finally:
            handle.release()

    def wait(self, out: Completions, min_count: int = 1, timeout: Optional[float] = None,
             first: int = 0) -> int:
        """Sleeps, without the GIL, until min_count completions are there. Returns how many: fewer
        when timeout (seconds) is over or nothing is left in flight.

        Raises ArgumentError where there is no timeout and nothing in flight. Threads: the owner.
        """
        room = len(out) - first
        if first < 0 or not 1 <= min_count <= room:
            raise IndexError(f"{min_count} completions from entry {first} on of {len(out)}")
        left, have = milliseconds(timeout), 0
        with self._handle as pointer:
            while True:
                slice_ms = self._slice(pointer, left)
                got = self._wait(pointer, out._address + (first + have) * 32, min_count - have,
                                 room - have, slice_ms)
                if got < 0:
                    return have or check(got)
                have += got
                if have >= min_count or slice_ms == left:
                    return have
                if have and not self._busy(pointer):
                    return have
                left = left if left < 0 else left - slice_ms

    def _slice(self, pointer: int, left_ms: int) -> int:
        if 0 <= left_ms <= _SLICE_MS:
            return left_ms
        # Nothing in flight and no bound: the library has the sentence for that.
        return left_ms if left_ms < 0 and not self._busy(pointer) else _SLICE_MS

    def _busy(self, pointer: int) -> bool:
        raise NotImplementedError


def _info(pointer: int) -> _abi.QpairInfo:
    info = _abi.QpairInfo(size=ctypes.sizeof(_abi.QpairInfo))
    check(lib().nvmfr_qpair_info(pointer, ctypes.byref(info)))
    return info


class QueueHandle(OwnedHandle):
    """Takes I/O, and holds what its commands may touch."""
    __slots__ = ("held", "limit")

    def __init__(self, what: str, pointer: int, owner: Any) -> None:
        super().__init__(what, pointer, owner)
        self.held: Set[Pieces] = set()  # the library reads them until completion
        self.limit = 64

    def in_flight(self, pointer: int) -> int:
        """How many I/Os are, now."""
        raise NotImplementedError

    def hold(self, pieces: List[Pieces], pointer: int) -> None:
        """Keeps pieces alive; lets go of the others where nothing is in flight."""
        if len(self.held) >= self.limit:
            if self.in_flight(pointer) == 0:
                self.held.clear()
            self.limit = max(64, 2 * len(self.held))
        self.held.update(pieces)


class IoQueue(_Poller):
    """What takes I/O: a queue pair, or the paths of a thread."""
    _handle: QueueHandle
    _submit: Any

    def __init__(self) -> None:
        self._io = _abi.Io()
        self._io_pointer = ctypes.byref(self._io)

    @property
    def in_flight(self) -> int:
        """I/Os that have had no completion yet."""
        with self._handle as pointer:
            return self._handle.in_flight(pointer)

    def submit(self, batch: Batch, count: Optional[int] = None, first: int = 0) -> int:
        """Submits count I/Os of batch from first on in one call. Returns how many were taken: fewer
        when room runs out or the next one is bad. The batch may be filled again at once.

        Raises RoomError (poll first) or the next one's error if none was taken. Threads: the owner.
        """
        count = batch._part(first, count)
        handle = self._handle
        if handle.generation != _core.generation or not handle.acquire(False):
            raise handle.refusal()
        try:
            pointer = handle.pointer or handle.closed_error()
            if batch._pieces:
                handle.hold(batch._pieces, pointer)
            taken: int = self._submit(pointer, batch._address + first * 64, count)
            return taken if taken >= 0 else check(taken)
        finally:
            handle.release()

    def read(self, buffer: Buffer, lba: int, nblocks: int, *, nsid: int = 0, offset_bytes: int = 0,
             user_data: int = 0) -> None:
        """Submits one read of nblocks from lba on into buffer. Raises RoomError without room.
        nsid 0: the first namespace. For many, use a Batch."""
        self._one(Op.READ, buffer, lba, nblocks, nsid, offset_bytes, user_data)

    def write(self, buffer: Buffer, lba: int, nblocks: int, *, nsid: int = 0, offset_bytes: int = 0,
              user_data: int = 0) -> None:
        """Submits one write of nblocks from buffer to lba on; the bytes may not change meanwhile."""
        self._one(Op.WRITE, buffer, lba, nblocks, nsid, offset_bytes, user_data)

    def compare(self, buffer: Buffer, lba: int, nblocks: int, *, nsid: int = 0,
                offset_bytes: int = 0, user_data: int = 0) -> None:
        """Submits one compare of nblocks from lba on with buffer: it ends with status 0285h where
        they differ."""
        self._one(Op.COMPARE, buffer, lba, nblocks, nsid, offset_bytes, user_data)

    def verify(self, lba: int, nblocks: int, *, nsid: int = 0, user_data: int = 0) -> None:
        """Submits one check that nblocks from lba on can be read; no data moves."""
        self._one(Op.VERIFY, None, lba, nblocks, nsid, 0, user_data)

    def write_zeroes(self, lba: int, nblocks: int, *, nsid: int = 0, user_data: int = 0) -> None:
        """Submits one Write Zeroes of nblocks from lba on; no data moves."""
        self._one(Op.WRITE_ZEROES, None, lba, nblocks, nsid, 0, user_data)

    def _one(self, op: Op, buffer: Optional[Buffer], lba: int, nblocks: int, nsid: int,
             offset_bytes: int, user_data: int) -> None:
        nsid = self._nsid(nsid)
        pointer_to_buffer = buffer.handle if buffer is not None else None
        with self._handle as pointer:
            io = self._io
            io.op, io.nsid, io.lba, io.nblocks = op, nsid, lba, nblocks
            io.buf, io.offset_bytes, io.user_data = pointer_to_buffer, offset_bytes, user_data
            check(self._submit(pointer, self._io_pointer, 1))

    def pread(self, buffer: Buffer, size_bytes: int, offset_bytes: int, *, nsid: int = 0,
              buffer_offset_bytes: int = 0, timeout: Optional[float] = None) -> None:
        """Reads size_bytes from byte offset_bytes of the namespace on, any of each, and waits.

        Whole blocks go straight to their place; an unaligned head and tail are copied, which
        info.bounced_bytes counts. Raises BusyError while I/O is in flight on it.
        """
        raise NotImplementedError

    def _nsid(self, nsid: int) -> int:
        raise NotImplementedError

    def _busy(self, pointer: int) -> bool:
        return self._handle.in_flight(pointer) != 0


class QpairHandle(QueueHandle):
    """A queue pair."""
    __slots__ = ("group", "prepared")

    def __init__(self, pointer: int, group: Optional["GroupHandle"]) -> None:
        super().__init__("this queue pair", pointer, group.owner if group else threading.Lock())
        self.group = group
        self.prepared: Set[PreparedHandle] = set()
        if group:
            group.qpairs.add(self)

    def in_flight(self, pointer: int) -> int:
        return int(_info(pointer).in_flight)

    def destroy(self) -> None:
        """Ends it; its lists first, which hold buffers."""
        if self.closed:
            return
        pointer = self.take()
        for prepared in list(self.prepared):
            prepared.destroy()
        if pointer:
            lib().nvmfr_qpair_destroy(pointer)
        self.held.clear()
        if self.group:
            self.group.qpairs.discard(self)


class QueuePair(QueueCommands, IoQueue):
    """An I/O queue pair; belongs to one thread at a time, and a call from a second raises
    BusyError. Made by Controller.queue_pair()."""

    def __init__(self, controller: "Controller", handle: QpairHandle) -> None:
        super().__init__()
        self.controller = controller
        self._handle: QpairHandle = handle
        self._poll = lib().nvmfr_poll
        self._wait = lib().nvmfr_wait
        self._fd = lib().nvmfr_qpair_fd
        self._arm = lib().nvmfr_qpair_arm
        self._submit = lib().nvmfr_submit
        self._submit_and_wait = lib().nvmfr_submit_and_wait
        self._taken = ctypes.c_uint()
        self._taken_pointer = ctypes.byref(self._taken)

    # ---- state

    def wait_live(self, timeout: Optional[float] = None) -> None:
        """Waits until it is live. Raises what ended it, or TimeOutError."""
        with self._handle as pointer:
            until_live(lambda slice_ms: lib().nvmfr_qpair_wait(pointer, slice_ms),
                       lambda: _info(pointer).state == _abi.State.LOST, timeout)

    @property
    def info(self) -> _abi.QpairInfo:
        """qid, depth, state, in_flight, commands and bounced_bytes (copied by the CPU), as now."""
        with self._handle as pointer:
            return _info(pointer)

    # ---- batches

    def submit_and_wait(self, batch: Batch, out: Completions, min_count: int = 1, *,
                        count: Optional[int] = None, first: int = 0, out_first: int = 0,
                        timeout: Optional[float] = None) -> Tuple[int, int]:
        """Submits count I/Os of batch from first on, more than fit at once if need be, and collects
        completions into out, from entry out_first on, until min_count are there: in C, without the
        GIL. Returns (how many were submitted, how many completed).

        It ends with the queue pair full, so that it is busy until the next call, which goes on from
        first + submitted (count=0 only collects). Fewer completions than min_count: timeout (seconds) is
        over, nothing is left in flight, or an I/O is bad, which the next call raises. Threads: the owner.
        """
        count = 0 if count == 0 else batch._part(first, count)  # 0: only collects
        room = out._count - out_first
        if out_first < 0 or not 1 <= min_count <= room:
            raise IndexError(f"{min_count} completions from entry {out_first} on of {out._count}")
        left, taken, have = milliseconds(timeout), 0, 0
        with self._handle as pointer:
            if batch._pieces:
                self._handle.hold(batch._pieces, pointer)
            while True:
                slice_ms = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
                got = self._submit_and_wait(
                    pointer, batch._address + (first + taken) * 64, count - taken,
                    self._taken_pointer, out._address + (out_first + have) * 32, min_count - have,
                    room - have, slice_ms)
                taken += self._taken.value
                if got < 0:
                    return (taken, have) if taken or have else (0, check(got))
                have += got
                if have >= min_count or slice_ms == left or not self._busy(pointer):
                    return taken, have
                left = left if left < 0 else left - slice_ms

    def prepare(self, batch: Batch, count: Optional[int] = None, first: int = 0) -> "Prepared":
        """Checks I/Os of batch and builds their commands once, to be posted again and again."""
        count = batch._part(first, count)
        out = ctypes.c_void_p()
        with self._handle as pointer:
            check(lib().nvmfr_prepare(pointer, batch._address + first * 64, count,
                                      ctypes.byref(out)))
            self._handle.hold(batch._pieces, pointer)
        buffers = [buffer._handle for buffer in batch._buffers.values()]
        return Prepared(self, PreparedHandle(out.value or 0, self._handle, buffers,
                                             list(batch._pieces)), count)

    def pread(self, buffer: Buffer, size_bytes: int, offset_bytes: int, *, nsid: int = 0,
              buffer_offset_bytes: int = 0, timeout: Optional[float] = None) -> None:
        nsid = self._nsid(nsid)
        with self._handle as pointer:
            check(lib().nvmfr_pread(pointer, nsid, offset_bytes, buffer.handle, buffer_offset_bytes,
                                    size_bytes, milliseconds(timeout)))

    def _nsid(self, nsid: int) -> int:
        return nsid or self.controller.first_nsid()

    def namespace(self, nsid: int = 0) -> "Namespace":
        """A namespace read and written through this queue pair, by its thread. 0: the first."""
        return self.controller.namespace(nsid, self)

    def close(self) -> None:
        """Ends it. I/O in flight gets no completion; no peer touches its memory any more."""
        self._handle.destroy()
        self.controller._handle.qpairs.discard(self._handle)

    def _busy(self, pointer: int) -> bool:
        info = _info(pointer)
        return bool(info.in_flight != 0 or info.state != _abi.State.LIVE)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed and not inherited(handle.generation):
            try:
                self.close()
            except BusyError:
                pass  # its group is in a call; the controller's end comes back to it


class PreparedHandle(Handle):
    """A prepared list; counted by the buffers that it holds."""
    __slots__ = ("qpair", "buffers", "pieces")

    def __init__(self, pointer: int, qpair: QpairHandle, buffers: List[BufferHandle],
                 pieces: List[Pieces]) -> None:
        super().__init__("this prepared list", pointer)
        self.qpair = qpair
        self.buffers = buffers
        self.pieces = pieces
        qpair.prepared.add(self)
        for buffer in buffers:
            buffer.prepared += 1

    def destroy(self) -> None:
        """Releases the list."""
        pointer = self.take()
        self.qpair.prepared.discard(self)
        if pointer:
            lib().nvmfr_prepared_release(pointer)
            for buffer in self.buffers:
                buffer.prepared -= 1


class Prepared(Closing):
    """I/Os that are checked and built once and posted often. Made by QueuePair.prepare(). Its
    buffers cannot be released before it is closed."""

    def __init__(self, qpair: QueuePair, handle: PreparedHandle, count: int) -> None:
        self._qpair = qpair
        self._handle = handle
        self._count = count

    def __len__(self) -> int:
        return self._count

    def post(self, first: int = 0, count: Optional[int] = None) -> int:
        """Submits count I/Os from first on in one call. Returns how many were taken."""
        count = self._count - first if count is None else count
        if first < 0 or count < 1 or first + count > self._count:
            raise IndexError(f"{count} I/Os from {first} on of {self._count}")
        with self._qpair._handle, self._handle as pointer:
            return check(lib().nvmfr_post(pointer, first, count))

    def close(self) -> None:
        """Releases the list; its I/O in flight ends as it would have."""
        self._handle.destroy()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed and not inherited(handle.generation):
            handle.destroy()


class GroupHandle(OwnedHandle):
    """A group; its lock is the lock of all its queue pairs."""
    __slots__ = ("qpairs",)

    def __init__(self, pointer: int) -> None:
        super().__init__("this group", pointer, threading.Lock())
        self.qpairs: Set[QpairHandle] = set()

    def destroy(self) -> None:
        """Ends it, unless queue pairs of it exist."""
        pointer = self.take()
        if pointer:
            result = lib().nvmfr_group_destroy(pointer)
            if result < 0:
                error = fail(result)
                self.put_back(pointer)
                raise error


class Group(_Poller):
    """Queue pairs of one thread, of any controllers of one host, polled together; completions tell
    by qpair_data whose they are. Made by Host.group()."""

    def __init__(self, host: "Host", handle: GroupHandle) -> None:
        self.host = host
        self._handle: GroupHandle = handle
        self._poll = lib().nvmfr_group_poll
        self._wait = lib().nvmfr_group_wait
        self._fd = lib().nvmfr_group_fd
        self._arm = lib().nvmfr_group_arm

    def close(self) -> None:
        """Ends it. Raises BusyError while queue pairs of it exist."""
        self._handle.destroy()
        self.host._handle.groups.discard(self._handle)

    def _busy(self, pointer: int) -> bool:
        for qpair in self._handle.qpairs:
            if qpair.pointer:
                info = _info(qpair.pointer)
                if info.in_flight or info.state == _abi.State.CONNECTING:
                    return True
        return False

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed and not inherited(handle.generation):
            if not handle.qpairs:
                self.close()
