# SPDX-License-Identifier: BSD-3-Clause
"""The arrays that submits and polls work on: made once, the same memory in C and in numpy."""
from __future__ import annotations

import ctypes
import functools
import importlib
import operator
from typing import Any, Dict, List, Optional

from . import _abi
from ._abi import IoFlag
from ._buffer import Buffer, BufferHandle
from ._lib import completion_error

_MANY = 32  # completions from which on numpy looks at them faster


@functools.lru_cache(maxsize=None)  # a module that is not there is looked for each time
def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _structured(struct: Any, names: List[str]) -> Any:
    """The numpy dtype of a C struct, field by field at its offset."""
    formats = []
    for name in names:
        kind = "i" if name == "result" else "u"
        formats.append(f"{kind}{getattr(struct, name).size}")
    return _numpy().dtype({"names": names, "formats": formats, "itemsize": ctypes.sizeof(struct),
                           "offsets": [getattr(struct, name).offset for name in names]})


_IO_FIELDS = ["op", "flags", "nsid", "lba", "nblocks", "buf", "offset_bytes", "user_data"]
_DONE_FIELDS = ["user_data", "qpair_data", "result", "status", "flags", "cqe_result"]


def _as_array(entries: Any, names: List[str]) -> Any:
    numpy = _numpy()
    if numpy is None:
        raise ImportError("numpy is not installed: use entries, a ctypes array of the same memory")
    # By way of bytes: numpy does not take a ctypes struct's own description of a union.
    raw = memoryview(entries).cast("B")
    return numpy.frombuffer(raw, dtype=_structured(entries._type_, names))


def _numbers(name: str, value: Any, count: int) -> Any:
    """What numpy makes of one number, or of count of them. numpy alone would cut off fractions."""
    if isinstance(value, int):
        return value
    each = _numpy().asarray(value)
    if each.shape not in ((), (count,)):
        raise ValueError(f"{each.shape} values of {name} for {count} entries" if each.ndim != 1 else
                         f"{len(each)} values of {name} for {count} entries")
    if each.dtype.kind in "iub":
        return each
    try:  # whole numbers beyond 63 bits, or none
        return [operator.index(one) for one in value] if each.ndim else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {each.dtype}: it takes whole numbers, as int or numpy.uint64") from None


class _Entries:
    """A ctypes array, and the same memory as a structured numpy array of some of its fields."""

    def __init__(self, entries: Any, fields: List[str]) -> None:
        self.entries = entries
        self._fields = fields
        self._count = len(entries)
        self._array: Any = None
        self._address = ctypes.addressof(entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]

    @property
    def array(self) -> Any:
        """As a structured numpy array. Raises ImportError without numpy."""
        if self._array is None:
            self._array = _as_array(self.entries, self._fields)
        return self._array


class Completions(_Entries):
    """Room for completions, made once and filled by each poll and wait.

    entries is the ctypes array; array the same memory as a structured numpy array with the fields
    user_data, qpair_data, result (0 or a negative errno), status (NVMe), flags and cqe_result.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("room for 1 completion or more")
        super().__init__((_abi.Completion * capacity)(), _DONE_FIELDS)
        # The results as numbers: a look at many makes no object for each.
        words = ctypes.sizeof(_abi.Completion) // 4
        self._results = memoryview(self.entries).cast("B").cast("i")[
            _abi.Completion.result.offset // 4::words]

    def failures(self, count: int) -> int:
        """How many of the first count failed."""
        if count > _MANY and _numpy() is not None:
            return int((self.array["result"][:count] != 0).sum())
        return sum(map(bool, self._results[:count]))

    def check(self, count: int) -> None:
        """Raises the error of the first failure among the first count."""
        if self.failures(count):
            bad = next(done for done in self.entries[:count] if done.result)
            raise completion_error(bad.result, bad.status, f"the I/O {bad.user_data}")


class Pieces:
    """Pieces of memory for vectored I/O (nvmfr_iov). They must stay as they are until the
    completion; the queue pair keeps them alive."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError("1 piece or more")
        self.entries: Any = (_abi.Iov * count)()
        self._buffers: Dict[int, Buffer] = {}

    def set(self, index: int, buffer: Buffer, offset_bytes: int, size_bytes: int) -> None:
        """Makes piece index size_bytes of buffer from offset_bytes on."""
        handle = buffer.handle
        self._buffers[handle] = buffer
        entry = self.entries[index]
        entry.buf, entry.offset_bytes, entry.len_bytes = handle, offset_bytes, size_bytes


class Batch(_Entries):
    """I/Os to be submitted with one call: made once, filled, submitted, filled again.

    entries is the ctypes array of nvmfr_io; array the same memory as a structured numpy array with
    the fields op, flags, nsid, lba, nblocks, buf, offset_bytes and user_data. The field buf is a C
    pointer: write what attach() returns, or let fill() do it, and nothing else.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("room for 1 I/O or more")
        super().__init__((_abi.Io * capacity)(), _IO_FIELDS)
        self._buffers: Dict[int, Buffer] = {}
        self._pieces: List[Pieces] = []
        self._lost = False  # an attached buffer was released

    def attach(self, buffer: Buffer) -> int:
        """The value for the field buf; the batch keeps the buffer alive from here on."""
        handle = buffer.handle
        if handle not in self._buffers:
            self._buffers[handle] = buffer
            buffer._handle.batches.add(self)
        return handle

    def clear(self) -> None:
        """Zeroes all entries and forgets the buffers."""
        ctypes.memset(self._address, 0, ctypes.sizeof(self.entries))
        for buffer in self._buffers.values():
            buffer._handle.batches.discard(self)
        self._buffers.clear()
        self._pieces.clear()
        self._lost = False

    def fill(self, op: int, nsid: int, lba: Any, nblocks: Any, buffer: Optional[Buffer],
             offset_bytes: Any = 0, user_data: Any = None, flags: int = 0, first: int = 0,
             count: Optional[int] = None) -> None:
        """Fills count entries from first on.

        lba, nblocks, offset_bytes and user_data are each one number for all or a sequence with one
        for each (numpy arrays go over in one step); user_data is the entry's index if not given.
        """
        count = len(self) - first if count is None else count
        if first < 0 or count < 0 or first + count > len(self):
            raise IndexError(f"{count} entries from {first} on do not fit into {len(self)}")
        values: Dict[str, Any] = {
            "op": op, "flags": flags, "nsid": nsid, "lba": lba, "nblocks": nblocks,
            "buf": self.attach(buffer) if buffer is not None else 0, "offset_bytes": offset_bytes,
            "user_data": range(first, first + count) if user_data is None else user_data}
        if _numpy() is not None:
            part = self.array[first:first + count]
            for name, value in values.items():
                part[name] = _numbers(name, value, count)
            return
        entries = self.entries[first:first + count]
        for name, value in values.items():
            each = value if hasattr(value, "__getitem__") else [value] * count
            if len(each) != count:
                raise ValueError(f"{len(each)} values of {name} for {count} entries")
            for entry, one in zip(entries, each):
                setattr(entry, name, one)

    def set_pieces(self, index: int, pieces: Pieces, first: int = 0,
                   count: Optional[int] = None) -> None:
        """Makes entry index vectored: count of the pieces from first on."""
        count = len(pieces.entries) - first if count is None else count
        if first < 0 or count < 1 or first + count > len(pieces.entries):
            raise IndexError(f"{count} pieces from {first} on of {len(pieces.entries)}")
        for buffer in pieces._buffers.values():
            self.attach(buffer)
        entry = self.entries[index]
        entry.iov = ctypes.addressof(pieces.entries) + first * ctypes.sizeof(_abi.Iov)
        entry.niov = count
        entry.flags |= int(IoFlag.VEC)
        if pieces not in self._pieces:
            self._pieces.append(pieces)

    def _lose(self, handle: BufferHandle) -> None:
        self._lost = True

    def _part(self, first: int, count: Optional[int]) -> int:
        """Checks a part of the batch. Returns its count."""
        count = self._count - first if count is None else count
        if first < 0 or count < 1 or first + count > self._count:
            raise IndexError(f"{count} entries from {first} on of {self._count}")
        if self._lost:
            raise ValueError("a buffer of this batch was released: clear() it and fill it again")
        return count
