# SPDX-License-Identifier: BSD-3-Clause
"""Controller: one association, what is known of it, and what is made of it."""
from __future__ import annotations

import ctypes
import errno
import functools
import json
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Set

from . import _abi
from ._abi import State
from ._commands import AdminCommands
from ._core import Closing, Handle, inherited
from ._errors import BusyError, NotFoundError
from ._lib import check, fail, grown_text, lib
from ._namespace import Namespace
from ._options import set_options
from ._queue import Group, QpairHandle, QueuePair, until_live

if TYPE_CHECKING:
    from ._aio import AsyncQueue
    from ._host import Host, HostHandle
    from ._paths import MpathHandle


class CtrlHandle(Handle):
    """A controller and its queue pairs."""
    __slots__ = ("host", "qpairs", "mpaths")

    def __init__(self, host: "HostHandle", pointer: int) -> None:
        super().__init__("this controller", pointer)
        self.host = host
        self.qpairs: Set[QpairHandle] = set()
        self.mpaths: "Set[MpathHandle]" = set()  # that it is a path of
        host.controllers.add(self)

    def anything_in_use(self) -> bool:
        """Whether another thread is in a call on it or on a queue pair of it."""
        return self.in_use() or any(qpair.in_use() for qpair in list(self.qpairs))

    def end(self, timeout_ms: int) -> None:
        """Ends its queue pairs, then the association."""
        if self.closed:
            return
        if inherited(self.generation):
            self.take()
            return
        if self.mpaths:
            raise self.busy("is a path: MultiPath.remove() it first")
        for qpair in list(self.qpairs):
            qpair.destroy()
        self.qpairs.clear()
        self._disconnect(timeout_ms)

    def _disconnect(self, timeout_ms: int) -> None:
        pointer = self.take()
        if pointer:
            result = lib().nvmfr_disconnect(pointer, timeout_ms)
            if result < 0:
                error = fail(result)
                self.put_back(pointer)
                raise error
        self.host.controllers.discard(self)


class Controller(AdminCommands, Closing):
    """One association with one controller. Made by Host.connect(). Threads: any."""

    def __init__(self, host: "Host", handle: CtrlHandle) -> None:
        self.host = host
        self._handle: CtrlHandle = handle

    def wait_live(self, timeout: Optional[float] = None) -> None:
        """Waits, without the GIL, until it is live. Raises what ended it, or TimeOutError."""
        with self._handle as pointer:
            until_live(lambda slice_ms: lib().nvmfr_ctrl_wait(pointer, slice_ms),
                       lambda: lib().nvmfr_ctrl_state(pointer) == State.LOST, timeout)

    @property
    def state(self) -> State:
        """As now."""
        with self._handle as pointer:
            return State(check(lib().nvmfr_ctrl_state(pointer)))

    @property
    def info(self) -> _abi.CtrlInfo:
        """What is known: model, serial, subnqn, max_xfer_bytes, max_queue_depth, ..."""
        info = _abi.CtrlInfo(size=ctypes.sizeof(_abi.CtrlInfo))
        with self._handle as pointer:
            check(lib().nvmfr_ctrl_info(pointer, ctypes.byref(info)))
        return info

    def dump(self) -> Dict[str, Any]:
        """All that the library knows of it, in any state: target, state with its step or reason,
        limits, queue pairs, namespaces. Names stay, new ones may come. For logs: json.dumps()."""
        with self._handle as pointer:
            text = grown_text(functools.partial(lib().nvmfr_ctrl_dump, pointer))
        known: Dict[str, Any] = json.loads(text)
        return known

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed

    def nsids(self) -> Iterator[int]:
        """The IDs of the active namespaces."""
        nsid = 0
        while True:
            with self._handle as pointer:
                nsid = lib().nvmfr_ns_next(pointer, nsid)
            if nsid == 0:
                return
            yield nsid

    def first_nsid(self) -> int:
        """The first active namespace. Raises NotFoundError if there is none."""
        with self._handle as pointer:
            nsid: int = lib().nvmfr_ns_next(pointer, 0)
        if not nsid:
            raise NotFoundError(errno.ENOENT, "the controller has no active namespace")
        return nsid

    def ns_info(self, nsid: int) -> _abi.NsInfo:
        """What is known of a namespace: capacity_blocks, block_bytes, read_only, nguid, ..."""
        info = _abi.NsInfo(size=ctypes.sizeof(_abi.NsInfo))
        with self._handle as pointer:
            check(lib().nvmfr_ns_info(pointer, nsid, ctypes.byref(info)))
        return info

    def namespace(self, nsid: int = 0, qpair: Optional[QueuePair] = None) -> Namespace:
        """A namespace for simple reads and writes; 0: the first. Without qpair it makes a queue
        pair of its own at the first, and any thread may call it, one after the other."""
        return Namespace(self, nsid or self.first_nsid(), qpair)

    def queue_pair(self, depth: int = 128, *, group: Optional[Group] = None, wait: bool = True,
                   **options: Any) -> QueuePair:
        """A queue pair for up to depth commands in flight, of the calling thread.

        group    to be polled with others
        wait     False: returns at once; QueuePair.wait_live() tells how it ended
        options  fields of nvmfr_qpair_opts: io_timeout_ms, qpair_data, max_descriptors
        """
        opts = _abi.QpairOpts()
        lib().nvmfr_qpair_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        set_options(opts, dict(options, depth=depth))
        out = ctypes.c_void_p()
        with self._handle as pointer:
            if group is not None:
                with group._handle as opts.group:
                    check(lib().nvmfr_qpair_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
            else:
                check(lib().nvmfr_qpair_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
            handle = QpairHandle(out.value or 0, group._handle if group is not None else None)
            self._handle.qpairs.add(handle)
        qpair = QueuePair(self, handle)
        if wait:
            try:
                qpair.wait_live()
            except BaseException:
                qpair.close()
                raise
        return qpair

    def async_queue(self, depth: int = 128, **options: Any) -> "AsyncQueue":
        """A queue pair for `await`, in the running event loop; see AsyncQueue."""
        from ._aio import AsyncQueue
        return AsyncQueue(self.queue_pair(depth, **options))

    def close(self, timeout_ms: int = 1000) -> None:
        """Ends its queue pairs and the association: orderly within timeout_ms, else abruptly."""
        if self._handle.anything_in_use() and not inherited(self._handle.generation):
            raise self._handle.busy("or a queue pair of it is in a call of another thread")
        self._handle.end(timeout_ms)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed:
            try:
                handle.end(0)
            except BusyError:
                pass
