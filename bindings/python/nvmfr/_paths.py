# SPDX-License-Identifier: BSD-3-Clause
"""Several controllers of one subsystem as ways to the same namespaces."""
from __future__ import annotations

import ctypes
import errno
import functools
import json
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple, TypeVar

from . import _abi
from ._abi import Op, State
from ._arrays import Batch, Completions
from ._buffer import Buffer
from ._core import Ending, Handle, inherited
from ._errors import LostError, NotFoundError, TimeOutError
from ._lib import check, fail, grown_text, lib
from ._namespace import Namespace
from ._options import set_options
from ._queue import IoQueue, QueueHandle

if TYPE_CHECKING:
    from ._aio import AsyncQueue
    from ._controller import Controller
    from ._host import Host, HostHandle

_Known = TypeVar("_Known")


def _info(pointer: int) -> _abi.MqpairInfo:
    info = _abi.MqpairInfo(size=ctypes.sizeof(_abi.MqpairInfo))
    check(lib().nvmfr_mqpair_info(pointer, ctypes.byref(info)))
    return info


class MqpairHandle(QueueHandle):
    """A thread's queue pairs, one a path."""
    __slots__ = ("mpath",)

    def __init__(self, pointer: int, mpath: "MpathHandle") -> None:
        super().__init__("this queue of several paths", pointer, threading.Lock())
        self.mpath = mpath
        mpath.queues.add(self)

    def in_flight(self, pointer: int) -> int:
        return int(_info(pointer).in_flight)

    def destroy(self) -> None:
        """Ends it."""
        pointer = self.take()
        if pointer:
            lib().nvmfr_mqpair_destroy(pointer)
        self.held.clear()
        self.mpath.queues.discard(self)


class MpathHandle(Handle):
    """A multipath handle, its threads' queues and its controllers."""
    __slots__ = ("host", "queues", "controllers")

    def __init__(self, host: "HostHandle", pointer: int) -> None:
        super().__init__("this multipath", pointer)
        self.host = host
        self.queues: Set[MqpairHandle] = set()
        self.controllers: "Dict[int, Controller]" = {}  # by C pointer; they are kept alive
        host.mpaths.add(self)

    def anything_in_use(self) -> bool:
        """Whether another thread is in a call on it or on a queue of it."""
        return self.in_use() or any(queue.in_use() for queue in list(self.queues))

    def end(self) -> None:
        """Ends its queues, then itself; its controllers stay."""
        if self.closed:
            return
        if inherited(self.generation):
            self.take()
            return
        for queue in list(self.queues):
            queue.destroy()
        pointer = self.take()
        if pointer:
            result = lib().nvmfr_mpath_destroy(pointer)
            if result < 0:
                error = fail(result)
                self.put_back(pointer)
                raise error
        for controller in self.controllers.values():
            controller._handle.mpaths.discard(self)
        self.controllers.clear()
        self.host.mpaths.discard(self)


def make_multipath(host: "Host", handle: "HostHandle", options: Dict[str, Any]) -> "MultiPath":
    """Creates one on a host."""
    opts = _abi.MpathOpts()
    lib().nvmfr_mpath_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
    set_options(opts, options)
    out = ctypes.c_void_p()
    with handle as pointer:
        check(lib().nvmfr_mpath_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
        return MultiPath(host, MpathHandle(handle, out.value or 0))


class MultiPath(Ending):
    """Controllers of one subsystem as ways to the same namespaces: an I/O that one fails goes by
    another (doc/paths.md). Made by Host.multipath(). Threads: any."""

    def __init__(self, host: "Host", handle: MpathHandle) -> None:
        self.host = host
        self._handle = handle

    def add(self, controller: "Controller") -> None:
        """Adds a way: a controller that is live, connecting or recovering, of the same subsystem as
        those before. It cannot be closed until it is removed."""
        with self._handle as pointer, controller._handle as added:
            check(lib().nvmfr_mpath_add(pointer, added))
            self._handle.controllers[added] = controller
            controller._handle.mpaths.add(self._handle)

    def remove(self, controller: "Controller") -> None:
        """Takes one out: nothing new goes this way. Each queue lets go of it at a submit or poll
        once what was in flight there has ended; until then the controller's close() is refused."""
        with self._handle as pointer, controller._handle as removed:
            check(lib().nvmfr_mpath_remove(pointer, removed))
            del self._handle.controllers[removed]
            controller._handle.mpaths.discard(self._handle)

    @property
    def controllers(self) -> "List[Controller]":
        """The ways that there are."""
        return list(self._handle.controllers.values())

    def dump(self) -> Dict[str, Any]:
        """All that the library knows of the ways: states, ANA states, what all threads sent and met
        by each, how many I/Os wait. Names stay, new ones may come."""
        with self._handle as pointer:
            text = grown_text(functools.partial(lib().nvmfr_mpath_dump, pointer))
        known: Dict[str, Any] = json.loads(text)
        return known

    def first_nsid(self) -> int:
        """The first active namespace of any of them. Raises NotFoundError if there is none."""
        return self._any(lambda controller: controller.first_nsid())

    def ns_info(self, nsid: int) -> _abi.NsInfo:
        """What is known of a namespace, by the first of them that knows it."""
        return self._any(lambda controller: controller.ns_info(nsid))

    def _any(self, ask: "Callable[[Controller], _Known]") -> _Known:
        why: Exception = NotFoundError(errno.ENOENT, "there is no path yet: add() a controller")
        for controller in self.controllers:
            try:
                return ask(controller)
            except (NotFoundError, LostError) as error:
                why = error
        raise why

    def queue_pair(self, depth: int = 128, **options: Any) -> "MultiPathQueuePair":
        """Queue pairs by each of them, of the calling thread, as one, for up to depth I/Os. Returns
        at once: I/Os wait for the first way.

        options  fields of nvmfr_mqpair_opts: io_timeout_ms, qpair_data, max_descriptors
        """
        opts = _abi.MqpairOpts()
        lib().nvmfr_mqpair_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        set_options(opts, dict(options, depth=depth))
        out = ctypes.c_void_p()
        with self._handle as pointer:
            check(lib().nvmfr_mqpair_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
            handle = MqpairHandle(out.value or 0, self._handle)
        return MultiPathQueuePair(self, handle)

    def async_queue(self, depth: int = 128, **options: Any) -> "AsyncQueue":
        """The same for `await`, in the running event loop; see AsyncQueue."""
        from ._aio import AsyncQueue
        return AsyncQueue(self.queue_pair(depth, **options))

    def namespace(self, nsid: int = 0, queue: "Optional[MultiPathQueuePair]" = None) -> Namespace:
        """A namespace for simple reads and writes by any way; 0: the first. As
        Controller.namespace()."""
        return Namespace(self, nsid or self.first_nsid(), queue)

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed

    def close(self) -> None:
        """Ends it and its queues; the controllers stay. Raises BusyError while another thread is in
        a call on one."""
        if self._handle.anything_in_use() and not inherited(self._handle.generation):
            raise self._handle.busy("or a queue of it is in a call of another thread")
        self._handle.end()


class Way(NamedTuple):
    """What a queue did by way of a controller (nvmfr_mqpair_path). reissued: of what was refused,
    aborted or timed out, what was issued again. controller None: it was removed."""
    controller: "Optional[Controller]"
    state: State
    ios: int
    bytes: int
    in_flight: int
    bytes_in_flight: int
    refused: int
    aborted: int
    timed_out: int
    reissued: int


class MultiPathQueuePair(IoQueue):
    """A thread's queue pairs, one a path; belongs to one thread at a time. Takes reads, writes,
    compares, flushes and what else an Io names. Made by MultiPath.queue_pair().

    An I/O that finds no way ends after no_path_timeout_ms with LostError."""

    def __init__(self, multipath: MultiPath, handle: MqpairHandle) -> None:
        super().__init__()
        self.multipath = multipath
        self._handle: MqpairHandle = handle
        self._poll = lib().nvmfr_mqpair_poll
        self._wait = lib().nvmfr_mqpair_wait
        self._fd = lib().nvmfr_mqpair_fd
        self._arm = lib().nvmfr_mqpair_arm
        self._submit = lib().nvmfr_mqpair_submit

    @property
    def info(self) -> _abi.MqpairInfo:
        """in_flight, waiting (for a way), reissued and paths, as now."""
        with self._handle as pointer:
            return _info(pointer)

    def ways(self) -> List[Way]:
        """What was done by each of them."""
        found = []
        with self._handle as pointer:
            for index in range(_info(pointer).paths):
                path = _abi.MqpairPath(size=ctypes.sizeof(_abi.MqpairPath))
                check(lib().nvmfr_mqpair_path(pointer, index, ctypes.byref(path)))
                found.append(Way(self.multipath._handle.controllers.get(path.ctrl),
                                 State(path.state),
                                 *(getattr(path, name) for name in Way._fields[2:])))
        return found

    def _nsid(self, nsid: int) -> int:
        return nsid or self.multipath.first_nsid()

    def namespace(self, nsid: int = 0) -> Namespace:
        """A namespace read and written through this queue, by its thread. 0: the first."""
        return self.multipath.namespace(nsid, self)

    def pread(self, buffer: Buffer, size_bytes: int, offset_bytes: int, *, nsid: int = 0,
              buffer_offset_bytes: int = 0, timeout: Optional[float] = None) -> None:
        """Reads size_bytes from byte offset_bytes of the namespace on, any of each, and waits.

        Whole blocks go straight to their place; an unaligned head and tail are copied. Raises
        BusyError while I/O is in flight on it.
        """
        if self.in_flight:
            raise self._handle.busy("has I/O in flight: pread() needs one with none")
        if not 0 <= buffer_offset_bytes <= len(buffer) - size_bytes:
            raise ValueError(f"{size_bytes} bytes from {buffer_offset_bytes} on do not fit into "
                             f"{len(buffer)}")
        nsid = self._nsid(nsid)
        plan = _plan(size_bytes, offset_bytes, int(self.multipath.ns_info(nsid).block_bytes))
        view = buffer.view if plan.edges else None
        edges = self.multipath.host.alloc(plan.block * len(plan.edges)) if plan.edges else None
        reads = [(edge.lba, 1, edges, index * plan.block) for index, edge in enumerate(plan.edges)]
        if plan.nblocks:
            reads.append((plan.lba, plan.nblocks, buffer, buffer_offset_bytes + plan.to))
        self._run(nsid, reads, timeout)
        for index, edge in enumerate(plan.edges):
            assert view is not None and edges is not None
            at, to = index * plan.block + edge.skip, buffer_offset_bytes + edge.to
            view[to:to + edge.size] = edges.view[at:at + edge.size]

    def _run(self, nsid: int, reads: "List[Tuple[int, int, Optional[Buffer], int]]",
             timeout: Optional[float]) -> None:
        """Reads and waits for them: lba, nblocks, buffer, offset."""
        if not reads:
            return
        batch, done = Batch(len(reads)), Completions(len(reads))
        for index, (lba, nblocks, buffer, offset) in enumerate(reads):
            batch.fill(Op.READ, nsid, lba, nblocks, buffer, offset, first=index, count=1)
        taken = self.submit(batch)
        if self.wait(done, taken, timeout) < taken:
            raise TimeOutError(errno.ETIMEDOUT, f"the read has not ended within {timeout} s")
        done.check(taken)
        if taken < len(reads):
            self.submit(batch, len(reads) - taken, taken)  # raises why it was not taken

    def close(self) -> None:
        """Ends it. I/O in flight gets no completion; no peer touches its memory any more."""
        self._handle.destroy()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed and not inherited(handle.generation):
            self.close()


class _Edge(NamedTuple):
    """Part of a block: size bytes from its byte skip on, to byte `to` of the range."""
    lba: int
    skip: int
    size: int
    to: int


class _Plan(NamedTuple):
    """A range of bytes: whole blocks, which go to byte `to` of it, and up to two edges."""
    block: int
    lba: int
    nblocks: int
    to: int
    edges: List[_Edge]


def _plan(size_bytes: int, offset_bytes: int, block: int) -> _Plan:
    if offset_bytes < 0 or size_bytes < 0:
        raise ValueError("offset and size are 0 bytes or more")
    end = offset_bytes + size_bytes
    first, last = -(-offset_bytes // block), end // block  # of the whole blocks; behind them
    edges = []
    if size_bytes and offset_bytes % block:
        edges.append(_Edge(first - 1, offset_bytes % block,
                           min(size_bytes, first * block - offset_bytes), 0))
    if size_bytes and end % block and last >= first:
        edges.append(_Edge(last, 0, end % block, last * block - offset_bytes))
    return _Plan(block, first, max(0, last - first), first * block - offset_bytes, edges)
