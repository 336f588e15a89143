# SPDX-License-Identifier: BSD-3-Clause
"""Controllers of all that a discovery controller lists, as long as it does."""
from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ._controller import Controller, CtrlHandle
from ._core import Ending, Handle, OwnedHandle, inherited
from ._lib import check, fail, lib
from ._options import ctrl_opts

if TYPE_CHECKING:
    from ._host import Host, HostHandle


class PooledHandle(CtrlHandle):
    """A controller that the pool connects and disconnects."""
    __slots__ = ()

    def _disconnect(self, timeout_ms: int) -> None:
        """Its queue pairs went; the association is not this handle's to end."""

    def forget(self) -> None:
        """The pool may end it from here on."""
        self.take()
        self.host.controllers.discard(self)


class PoolHandle(OwnedHandle):
    """A pool and the controllers of it that Python has seen, by C pointer."""
    __slots__ = ("host", "known", "leaving")

    def __init__(self, host: "HostHandle", pointer: int) -> None:
        super().__init__("this pool", pointer, threading.Lock())
        self.host = host
        self.known: Dict[int, Controller] = {}
        self.leaving: Dict[int, Controller] = {}  # the next update may end it
        host.pools.add(self)

    def all(self) -> List[Controller]:
        """Those that are there and those that leave."""
        return [*self.known.values(), *self.leaving.values()]

    def release_leaving(self) -> None:
        """Before an update: those that it may end are closed here first. Raises BusyError while
        another thread is in a call on one."""
        for pointer, controller in list(self.leaving.items()):
            handle = controller._handle
            if not handle.qpairs and not handle.mpaths:
                assert isinstance(handle, PooledHandle)
                handle.forget()
                del self.leaving[pointer]

    def end(self) -> None:
        """Ends its controllers' queue pairs, its controllers and itself."""
        if self.closed:
            return
        if inherited(self.generation):
            self.take()
            return
        for controller in self.all():
            if controller._handle.mpaths:
                raise self.busy("has a controller that is a path: MultiPath.remove() it first")
            if controller._handle.anything_in_use():
                raise self.busy("has a controller or queue pair in a call of another thread")
        for controller in self.all():
            controller._handle.end(0)
        self._release()
        for controller in self.all():
            self.host.controllers.discard(controller._handle)
        self.known.clear()
        self.leaving.clear()
        self.host.pools.discard(self)

    def _release(self) -> None:
        """In C; nobody can use it or its controllers meanwhile, and they are back if that fails."""
        taken: List[Tuple[Handle, int]] = []
        try:
            for handle in [self, *(controller._handle for controller in self.all())]:
                pointer = handle.take()
                if pointer:
                    taken.append((handle, pointer))
            check(lib().nvmfr_pool_release(taken[0][1]))
        except BaseException:
            for handle, pointer in taken:
                handle.put_back(pointer)
            raise


def make_pool(host: "Host", handle: "HostHandle", uri: str, each: Mapping[str, Any],
              options: Dict[str, Any]) -> "Pool":
    """Creates one on a host."""
    origin, others = ctrl_opts(uri, options), ctrl_opts(None, dict(each))
    out = ctypes.c_void_p()
    with handle as pointer:
        check(lib().nvmfr_pool_create(pointer, ctypes.byref(origin), ctypes.byref(others),
                                      ctypes.byref(out)))
        return Pool(host, PoolHandle(handle, out.value or 0))


class Pool(Ending):
    """A controller for each subsystem that a discovery controller lists, as long as it does. Made by
    Host.pool(). Threads: one at a time.

    Call update() when the host had events and when timeout() is over. The events CTRL_ADDED and
    CTRL_LEAVES, with the controller as their source, tell who came and who goes; close the queue
    pairs of one that leaves, and by the next update() it is closed. A controller of a pool is the
    pool's: its close() ends its queue pairs only.
    """

    def __init__(self, host: "Host", handle: PoolHandle) -> None:
        self.host = host
        self._handle = handle

    def update(self) -> None:
        """Does what is to be done, without the GIL; cheap when nothing is. It waits while a log is
        read or a discovery controller connected anew. Raises why the log cannot be read now: what
        there is stays, and it is tried again. Raises BusyError while another thread is in a call on a
        controller that leaves."""
        with self._handle as pointer, self.host._sources.lock:
            self._handle.release_leaving()
            result = lib().nvmfr_pool_update(pointer)
            why = fail(result) if result < 0 else None
            self._look(pointer)
        if why:
            raise why

    def _look(self, pointer: int) -> None:
        """Controllers that came get an object; those that go are remembered."""
        handle, now = self._handle, set()
        index = 0
        while True:
            ctrl = lib().nvmfr_pool_ctrl(pointer, index)
            if not ctrl:
                break
            index += 1
            now.add(ctrl)
            if ctrl in handle.known:
                continue
            # One that was about to leave may have come back.
            controller = handle.leaving.pop(ctrl, None) or Controller(
                self.host, PooledHandle(handle.host, ctrl))
            handle.known[ctrl] = controller
            self.host._sources.add(ctrl, controller)
        for gone in set(handle.known) - now:
            handle.leaving[gone] = handle.known.pop(gone)

    def timeout(self) -> Optional[float]:
        """Seconds until update() is due even if no event comes; None: events will tell."""
        with self._handle as pointer:
            left = lib().nvmfr_pool_timeout_ms(pointer)
        if left < -1:
            raise fail(left)
        return None if left == -1 else left / 1000

    @property
    def controllers(self) -> List[Controller]:
        """Those that are there and live, as of the last update()."""
        return list(self._handle.known.values())

    def __iter__(self) -> Iterator[Controller]:
        return iter(self.controllers)

    def __len__(self) -> int:
        return len(self._handle.known)

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed

    def close(self) -> None:
        """Ends it, its controllers and their queue pairs. Raises BusyError while one of them is a
        path, or in a call of another thread."""
        self._handle.end()
