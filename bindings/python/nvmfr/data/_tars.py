# SPDX-License-Identifier: BSD-3-Clause
"""TarDataset: WebDataset-style shards on a packed namespace."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .. import _tar
from .._buffer import Buffer
from .._engine import Ticket
from .._controller import Controller
from .._progress import Progress
from .._source import Source
from .._volume import Volume
from ._dataset import ExtentDataset
from ._plan import Extent
from ._records import matching

_WINDOW = 64 << 10  # read at once while headers are looked for
_SHARDS = 32  # scanned at a time


@dataclass(frozen=True)
class TarIndex:
    """Where each sample of some shards lies. It can be pickled, kept, and given to TarDataset."""
    shards: Tuple[Tuple[str, int, int], ...]  # name, offset, size
    samples: Tuple[_tar.TarSample, ...]


class _Scanner:
    """One shard on its way: a read in flight, or done."""

    def __init__(self, source: Source, shard: Tuple[str, int, int]) -> None:
        self._link = source.link()
        self.name, self._offset, self._size = shard
        self._scan = _tar.scan(self._size, self.name)
        self.members: Optional[List[_tar.Member]] = None
        self._seen: Tuple[int, bytes] = (0, b"")
        self._want = next(self._scan)
        self._begin()

    def _begin(self) -> None:
        offset, size = self._want
        until = min(self._size, offset + max(size, _WINDOW))
        block, first = self._link.block_bytes, self._offset + offset
        lba, self._head = divmod(first, block)
        count = -(-(self._offset + until) // block) - lba
        self._bytes = until - offset
        self._buffer: Buffer = self._link.pool.take(count * block)
        self._ticket = self._link.engine.start(
            Ticket(self._buffer, [lba], [count], [0], name=lambda _: f"{self.name} at byte {offset}"))

    def step(self) -> bool:
        """Takes what the read brought, as far as it goes. False: done."""
        self._link.engine.finish(self._ticket)
        start = self._want[0]
        data = bytes(self._buffer.view[self._head:self._head + self._bytes])
        self._link.pool.give_back(self._buffer)
        try:
            while self._want[0] >= start and sum(self._want) <= start + len(data):
                at = self._want[0] - start
                self._want = self._scan.send(data[at:at + self._want[1]])
        except StopIteration as end:
            self.members = end.value
            return False
        self._begin()
        return True


def build_index(source: Source, volume: Volume, names: Sequence[str],
                progress: Optional[bool] = None) -> TarIndex:
    """Reads the headers of shards, many shards at a time. Raises FormatError for a corrupt one."""
    shards = tuple((name, volume.entry(name).offset_bytes, volume.entry(name).size_bytes)
                   for name in names)
    samples: List[_tar.TarSample] = []
    with source.lock, Progress(len(shards), "index", "shards", enabled=progress) as bar:
        for number, members in enumerate(_scan_all(source, shards)):
            samples += _tar.samples(members, number, shards[number][0])
            bar.update(1)
    return TarIndex(shards, tuple(samples))


def _scan_all(source: Source, shards: Sequence[Tuple[str, int, int]]
              ) -> Iterator[List[_tar.Member]]:
    """The members of each shard, in order."""
    waiting: List[_Scanner] = []
    rest = iter(shards)
    while True:
        for shard in rest:
            waiting.append(_Scanner(source, shard))
            if len(waiting) >= _SHARDS:
                break
        if not waiting:
            return
        for scanner in waiting:
            if scanner.members is None:
                scanner.step()
        while waiting and waiting[0].members is not None:
            yield waiting.pop(0).members or []


class TarDataset(ExtentDataset):
    """Samples of tar shards: neighbouring members whose names are alike up to the first dot.

    names    shards, or patterns like "train-*.tar"
    index    of an earlier TarDataset over the same shards; else the headers are read, once: what
             is pickled to worker processes has it
    progress of that; None: on a terminal
    options  see ExtentDataset

    A sample is a dict: "__key__", "__shard__", and for each extension its bytes as uint8, 1-D.
    """

    def __init__(self, source: Union[str, Source, Controller],
                 names: Union[str, Sequence[str]] = "*.tar", *, index: Optional[TarIndex] = None,
                 progress: Optional[bool] = None, **options: Any) -> None:
        super().__init__(source, **options)
        volume = Volume(self.source)
        found = matching(volume, names)
        if index is not None:
            there = [(entry.name, entry.offset_bytes, entry.size_bytes)
                     for entry in map(volume.entry, found)]
            if list(index.shards) != there:
                raise ValueError("the index is of other shards than those on the namespace now: "
                                 "leave it out, and it is made anew")
        self.index = index or build_index(self.source, volume, found, progress)

    def __len__(self) -> int:
        return len(self.index.samples)

    def extent(self, index: int) -> Extent:
        sample = self.index.samples[index]
        first = sample.members[0][1]
        end = max(offset + size for _, offset, size in sample.members)
        return self.index.shards[sample.shard][1] + first, end - first

    def name(self, index: int) -> str:
        sample = self.index.samples[index]
        return f"sample {sample.key} of {self.index.shards[sample.shard][0]}"

    def make(self, index: int, memory: Any, place: int) -> Any:
        sample = self.index.samples[index]
        first = sample.members[0][1]
        found: Dict[str, Any] = {"__key__": sample.key,
                                 "__shard__": self.index.shards[sample.shard][0]}
        for extension, offset, size in sample.members:
            found[extension] = self._arrays.view(memory, place + offset - first, "uint8", (size,))
        return found
