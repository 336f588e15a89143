# SPDX-License-Identifier: BSD-3-Clause
"""What controllers tell of themselves, and what a discovery controller knows of others."""
from __future__ import annotations

import ctypes
import select
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Union

from . import _abi
from ._abi import EventType
from ._core import Closing, Handle, OwnedHandle, milliseconds
from ._lib import check, lib

if TYPE_CHECKING:
    from ._controller import Controller

_ROOM = 64  # events fetched with one call


class Event(NamedTuple):
    """One event. type is an int where the library is newer than this package.

    source  the Controller or Discovery that it is of; None: the host's own (OVERFLOW), or of one
            that is being made, or that this process has no object of any more
    nsid    of NS_*; value, result and the rest: as in nvmfr_event
    """
    type: Union[EventType, int]
    source: "Union[Controller, Discovery, None]"
    nsid: int
    value: int
    result: int
    aer_type: int
    aer_info: int
    log_page: int


class Sources:
    """Whose events are whose, by the C pointer, of objects that are still there."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held from an object's birth in C to its place here
        self._known: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()

    def add(self, pointer: Optional[int], source: Any) -> None:
        """With the lock held, where the object may tell something already."""
        if pointer:
            self._known[pointer] = source

    def event(self, raw: Any) -> Event:
        """What C tells, as Python's."""
        kind: Union[EventType, int] = raw.type
        try:
            kind = EventType(raw.type)
        except ValueError:
            pass
        source = self._known.get(raw.ctrl) if raw.ctrl else None
        if source is not None and source.closed:
            source = None  # the pointer is another's by now
        return Event(kind, source, raw.nsid, raw.value, raw.result, raw.aer_type, raw.aer_info,
                     raw.log_page)


def fetch(host: Handle, sources: Sources) -> List[Event]:
    """The events that are there, oldest first, up to 64."""
    out = (_abi.Event * _ROOM)()
    with host as pointer:
        count = check(lib().nvmfr_host_events(pointer, out, _ROOM))
    with sources.lock:
        return [sources.event(raw) for raw in out[:count]]


def sleep(fd: int, timeout: Optional[float]) -> None:
    """Until the descriptor is readable or the time is over; signals are served meanwhile."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    left = milliseconds(timeout)
    poller.poll(None if left < 0 else left)


class DiscoveryHandle(OwnedHandle):
    """A discovery's records, and of a persistent one the association."""
    __slots__ = ()

    def __init__(self, pointer: int) -> None:
        super().__init__("this discovery", pointer, threading.Lock())

    def destroy(self) -> None:
        """Ends it."""
        pointer = self.take()
        if pointer:
            lib().nvmfr_discovery_release(pointer)


class Discovery(Closing):
    """What a discovery controller and those that it refers to know. Made by Host.discover().

    A sequence of records (nvmfr_discovery_record): traddr, trsvcid and subnqn are bytes; uri, for
    Host.connect(), is b"" where this library cannot connect. Threads: one at a time.
    """

    def __init__(self, host: Any, handle: DiscoveryHandle) -> None:
        self.host = host
        self._handle = handle

    @property
    def info(self) -> _abi.DiscoveryInfo:
        """generation, records, logs, and what was left out: left_out, skipped, unreached; of a
        persistent one the logs whose changes no event will tell: unfollowed."""
        info = _abi.DiscoveryInfo(size=ctypes.sizeof(_abi.DiscoveryInfo))
        with self._handle as pointer:
            check(lib().nvmfr_discovery_info(pointer, ctypes.byref(info)))
        return info

    def __len__(self) -> int:
        return int(self.info.records)

    def __getitem__(self, index: int) -> _abi.DiscoveryRecord:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"record {index} of {count}")
        record = _abi.DiscoveryRecord(size=ctypes.sizeof(_abi.DiscoveryRecord))
        with self._handle as pointer:
            check(lib().nvmfr_discovery_get(pointer, index % count, ctypes.byref(record)))
        return record

    def __iter__(self) -> Iterator[_abi.DiscoveryRecord]:
        return (self[index] for index in range(len(self)))

    def uris(self) -> List[str]:
        """Where this library can connect, for Host.connect()."""
        return [record.uri.decode() for record in self if record.uri]

    def refresh(self) -> None:
        """Asks again, without the GIL. On failure what was found before stays. Raises LostError
        where a persistent one has lost its controller: close it and discover anew."""
        with self._handle as pointer:
            check(lib().nvmfr_discovery_refresh(pointer))

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed

    def close(self) -> None:
        """Ends it, and the association of a persistent one."""
        self._handle.destroy()
        self.host._handle.discoveries.discard(self._handle)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed:
            self.close()
