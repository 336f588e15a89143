# SPDX-License-Identifier: BSD-3-Clause
"""NVMe over Fabrics from user space: libnvmfr in Python, without a compiler and without copies.

    import nvmfr
    with nvmfr.Host() as host, host.connect("nvmf+soft:?size=64M") as controller:
        data = controller.namespace().read(0, 8)

Objects: Host, Controller, QueuePair, Group, Buffer, Namespace, Discovery, Pool, MultiPath,
MultiPathQueuePair, Batch, Completions, Prepared, and AsyncQueue for asyncio. Each ends with close() or
`with`. Every call lets go of the GIL. What fails raises nvmfr.Error or a subclass by errno, with the
library's sentence. Handles work in the process that made them: a forked child gets ForkError.
"""
from ._abi import (Access, AnaState, EventType, FeatureSelect, Io, IoFlag, LogLevel, LogPage,
                   MpathPolicy, NsChange, Op, ReserveAction, ReserveFlag, ReserveType, Retry, SOFT_ANY,
                   SoftFaultKind, SoftFlag, SoftNotice, SoftNsFlag, State, VERSION_MAJOR,
                   VERSION_MINOR, VERSION_PATCH)
from ._aio import AsyncQueue
from ._arrays import Batch, Completions, Pieces
from ._buffer import Buffer
from ._commands import Feature, Registrant, Reservations, parse_reservations
from ._controller import Controller
from ._ctrlpool import Pool
from ._errors import (ArgumentError, BusyError, DeniedError, Error, ForkError, FormatError,
                      LibraryError, LostError, NoMemoryError, NotFoundError, RoomError,
                      StatusError, TimeOutError, UnsupportedError)
from ._events import Discovery, Event
from ._host import Host
from ._lib import probe, status_string, strerror, version
from ._logpages import AnaGroup, Effects, ErrorEntry, Smart
from ._namespace import Namespace
from ._paths import MultiPath, MultiPathQueuePair, Way
from ._queue import Group, Prepared, QueuePair
from ._soft import SoftTarget

__version__ = f"{VERSION_MAJOR}.{VERSION_MINOR}.{VERSION_PATCH}"

__all__ = [
    "Access", "AnaGroup", "AnaState", "ArgumentError", "AsyncQueue", "Batch", "Buffer", "BusyError",
    "Completions", "Controller", "DeniedError", "Discovery", "Effects", "Error", "ErrorEntry",
    "Event", "EventType", "Feature", "FeatureSelect", "ForkError", "FormatError", "Group", "Host",
    "Io", "IoFlag", "LibraryError", "LogLevel", "LogPage", "LostError", "MpathPolicy", "MultiPath",
    "MultiPathQueuePair", "Namespace", "NoMemoryError", "NotFoundError", "NsChange", "Op",
    "parse_reservations", "Pieces", "Pool", "Prepared", "probe", "QueuePair", "Registrant",
    "Reservations", "ReserveAction", "ReserveFlag", "ReserveType", "Retry", "RoomError", "Smart",
    "SOFT_ANY", "SoftFaultKind", "SoftFlag", "SoftNotice", "SoftNsFlag", "SoftTarget", "State",
    "status_string", "StatusError", "strerror", "TimeOutError", "UnsupportedError", "version", "Way",
]
