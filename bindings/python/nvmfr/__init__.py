# SPDX-License-Identifier: BSD-3-Clause
"""NVMe over Fabrics from user space: libnvmfr in Python, without a compiler and without copies.

    import nvmfr
    with nvmfr.Host() as host, host.connect("nvmf+soft:?size=64M") as controller:
        data = controller.namespace().read(0, 8)

Objects: Host, Controller, QueuePair, Group, Buffer, Namespace, Discovery, Batch, Completions,
Prepared, and AsyncQueue for asyncio. Each ends with close() or `with`. Every call lets go of the GIL. What fails
raises nvmfr.Error or a subclass by errno, with the library's sentence. Handles work in the process
that made them: a forked child gets ForkError.
"""
from ._abi import (Access, EventType, Io, IoFlag, LogLevel, NsChange, Op, SOFT_ANY, SoftFaultKind,
                   SoftFlag, SoftNotice, SoftNsFlag, State, VERSION_MAJOR, VERSION_MINOR,
                   VERSION_PATCH)
from ._aio import AsyncQueue
from ._buffer import Buffer
from ._errors import (ArgumentError, BusyError, DeniedError, Error, ForkError, FormatError,
                      LibraryError, LostError, NoMemoryError, NotFoundError, RoomError,
                      StatusError, TimeOutError, UnsupportedError)
from ._events import Discovery, Event
from ._host import Controller, Host, Namespace
from ._lib import probe, status_string, strerror, version
from ._queue import Batch, Completions, Group, Pieces, Prepared, QueuePair
from ._soft import SoftTarget

__version__ = f"{VERSION_MAJOR}.{VERSION_MINOR}.{VERSION_PATCH}"

__all__ = [
    "Access", "ArgumentError", "AsyncQueue", "Batch", "Buffer", "BusyError", "Completions",
    "Controller", "DeniedError", "Discovery", "Error", "Event", "EventType", "ForkError",
    "FormatError", "Group", "Host", "Io", "IoFlag", "LibraryError", "LogLevel", "LostError",
    "Namespace", "NoMemoryError", "NotFoundError", "NsChange", "Op", "Pieces", "Prepared",
    "probe", "QueuePair", "RoomError", "SOFT_ANY", "SoftFaultKind", "SoftFlag", "SoftNotice",
    "SoftNsFlag", "SoftTarget", "State", "status_string", "StatusError", "strerror",
    "TimeOutError", "UnsupportedError", "version",
]
