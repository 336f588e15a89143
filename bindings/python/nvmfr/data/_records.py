# SPDX-License-Identifier: BSD-3-Clause
"""RecordDataset: records of one size. FileDataset: whole files of a packed namespace."""
from __future__ import annotations

import fnmatch
import math
from typing import Any, List, Optional, Sequence, Tuple, Union

from .._controller import Controller
from .._source import Source
from .._volume import Volume
from ._dataset import ExtentDataset, Pending
from ._plan import Extent, Plan, rows


def matching(volume: Volume, names: Union[str, Sequence[str]]) -> List[str]:
    """The names of a directory that are named or match a pattern, each once, patterns in order of
    the names. Raises NotFoundError."""
    found: List[str] = []
    for name in [names] if isinstance(names, str) else names:
        alike = sorted(fnmatch.filter(volume.entries, name)) if name not in volume.entries else [name]
        found += alike or [volume.entry(name).name]
    return list(dict.fromkeys(found))


class RecordDataset(ExtentDataset):
    """Records of record_bytes bytes, one after the other.

    name          the packed file that they are in
    extent        or (offset, size) in bytes of a namespace without a directory
    header_bytes  before the first record
    dtype, shape  of a record; else it is uint8, 1-D
    options       see ExtentDataset

    batch() returns one array, a row for each record. Records of whole blocks go straight to their
    row; others that are not neighbours in order are copied there, which source.copied_bytes counts.
    """

    def __init__(self, source: Union[str, Source, Controller], name: Optional[str] = None, *,
                 record_bytes: Optional[int] = None, extent: Optional[Extent] = None,
                 header_bytes: int = 0, dtype: str = "uint8",
                 shape: Optional[Sequence[int]] = None, **options: Any) -> None:
        super().__init__(source, **options)
        item = self._arrays.item_bytes(dtype)
        if shape is None and record_bytes is None:
            raise ValueError("give record_bytes, or the shape (and dtype) of a record")
        size = math.prod(shape) * item if shape is not None else record_bytes or 0
        if size < 1 or size % item or record_bytes not in (None, size):
            raise ValueError(f"record_bytes {record_bytes} with {dtype} and shape {shape}: a record "
                             "is whole elements, 1 or more")
        self.record_bytes = size
        self.dtype, self.shape = dtype, tuple(shape if shape is not None else (size // item,))
        self._what = name if name is not None else "extent"
        self._first, total = self._find(name, extent)
        self._first += header_bytes
        self._count, rest = divmod(total - header_bytes, size)
        if rest or header_bytes < 0 or total < header_bytes:
            raise ValueError(f"{self._what}: {total} bytes without a header of {header_bytes} are "
                             f"not whole records of {size}")

    def _find(self, name: Optional[str], extent: Optional[Extent]) -> Tuple[int, int]:
        if (name is None) == (extent is None):
            raise ValueError("give either the name of a packed file or an extent")
        if name is not None:
            entry = Volume(self.source).entry(name)
            return entry.offset_bytes, entry.size_bytes
        offset, size = extent or (0, 0)
        if offset < 0 or size < 0 or offset + size > self.source.capacity_bytes:
            raise ValueError(f"{size} bytes from {offset} on are not within the namespace's "
                             f"{self.source.capacity_bytes}")
        return offset, size

    def __len__(self) -> int:
        return self._count

    def extent(self, index: int) -> Extent:
        return self._first + index * self.record_bytes, self.record_bytes

    def name(self, index: int) -> str:
        return f"record {index} of {self._what}"

    def make(self, index: int, memory: Any, place: int) -> Any:
        return self._arrays.view(memory, place, self.dtype, self.shape)

    def start_batch(self, indices: Sequence[Any]) -> Pending:
        numbers = self._checked(indices)
        if self.transform is not None or not numbers:
            return self._start(numbers, self._samples)
        with self.source.lock:
            block = self.source.block_bytes
            if self._first % block or self.record_bytes % block:
                return self._start(numbers, self._gather)
            plan = rows(self._first // block, self.record_bytes // block, numbers, block,
                        self.max_command_bytes)
            return Pending(self, numbers, plan, self._rows)

    def _rows(self, memory: Any, plan: Plan, indices: Sequence[int]) -> Any:
        return self._arrays.view(memory, plan.places[0], self.dtype, (len(indices), *self.shape))

    def _gather(self, memory: Any, plan: Plan, indices: Sequence[int]) -> Any:
        size, first = self.record_bytes, plan.places[0]
        if all(place == first + row * size for row, place in enumerate(plan.places)):
            return self._rows(memory, plan, indices)
        found = self._arrays.empty(self.dtype, (len(indices), *self.shape))
        for row, place in enumerate(plan.places):
            self._arrays.put(found, row, self.make(indices[row], memory, place))
        self.source.link().copied_bytes += len(indices) * size
        return found


class FileDataset(ExtentDataset):
    """Each packed file that is named, or matches a pattern like "train/*.jpg", is a sample: its
    bytes as uint8, 1-D. names[index] is its name. options: see ExtentDataset."""

    def __init__(self, source: Union[str, Source, Controller],
                 names: Union[str, Sequence[str]] = "*", **options: Any) -> None:
        super().__init__(source, **options)
        volume = Volume(self.source)
        self.names = matching(volume, names)
        self._extents: List[Extent] = [(entry.offset_bytes, entry.size_bytes)
                                       for entry in map(volume.entry, self.names)]

    def __len__(self) -> int:
        return len(self.names)

    def extent(self, index: int) -> Extent:
        return self._extents[index]

    def name(self, index: int) -> str:
        return f"file {self.names[index]}"

    def make(self, index: int, memory: Any, place: int) -> Any:
        return self._arrays.view(memory, place, "uint8", (self._extents[index][1],))
