# SPDX-License-Identifier: BSD-3-Clause
"""What all data sets share: samples that are extents of a namespace, read many at a time."""
from __future__ import annotations

import operator
from typing import Any, Callable, List, Optional, Sequence, Union

from .._engine import Ticket
from .._errors import LostError, StatusError
from .._controller import Controller
from .._source import Source, as_source
from ._arrays import arrays
from ._plan import Extent, Plan, covering

MERGE_GAP_BYTES = 16 << 10
MAX_COMMAND_BYTES = 1 << 20


class SampleError(ValueError):
    """A sample could not be made of its bytes; says which, and __cause__ says why."""


class Pending:
    """Samples on their way."""

    def __init__(self, dataset: "ExtentDataset", indices: Sequence[int], plan: Plan,
                 finish: Callable[[Any, Plan, Sequence[int]], Any]) -> None:
        self._dataset, self._indices, self._plan, self._finish = dataset, indices, plan, finish
        self._link = dataset.source.link()
        self._buffer = self._link.pool.take(max(1, plan.size_bytes))
        self._ticket = Ticket(self._buffer, plan.lbas, plan.nblocks, plan.offsets, name=self._name)
        self._link.engine.start(self._ticket)

    def _name(self, command: int) -> str:
        members = self._plan.members[command]
        first = self._dataset.name(self._indices[members[0]])
        return first if len(members) == 1 else f"{first} and {len(members) - 1} more"

    def result(self) -> Any:
        """Waits. Raises what went wrong with which sample; LostError where the connection is lost
        for good, and the data set's next use connects anew."""
        with self._dataset.source.lock:
            try:
                self._wait()
                made = self._finish(self._buffer.memory, self._plan, self._indices)
            except LostError:
                self._dataset.source.forget(self._link)
                raise
            self._link.pool.give_back(self._buffer)
            return made

    def _wait(self) -> None:
        try:
            self._link.engine.finish(self._ticket)
        except StatusError:
            # The command of several samples failed: each by itself tells which of them it is.
            for command in self._ticket.failed:
                if len(self._plan.members[command]) == 1:
                    raise
                self._one_by_one(command)

    def _one_by_one(self, command: int) -> None:
        plan, block = self._plan, self._link.block_bytes
        for member in plan.members[command]:
            index = self._indices[member]
            offset, size = self._dataset.extent(index)
            first = offset // block
            ticket = Ticket(self._buffer, [first], [-(-(offset + size) // block) - first],
                            [plan.offsets[command] + (first - plan.lbas[command]) * block],
                            name=lambda _, index=index: self._dataset.name(index))  # type: ignore[misc]
            self._link.engine.finish(self._link.engine.start(ticket))

    def drop(self) -> None:
        """Nobody wants them any more."""
        with self._dataset.source.lock:
            self._link.engine.drop(self._ticket)


class ExtentDataset:
    """A map-style data set: sample index is an extent of the namespace.

    dataset[3]            one sample
    dataset[[3, 1, 7]]    a batch, see batch(): what a DataLoader with batch_size=None and a
                          BatchSampler as its sampler asks for
    dataset.__getitems__  a list of samples, read together: what a DataLoader since torch 2.0 asks for

    Reads are sorted, and neighbours with little between them share a command. Arrays are views of
    the memory that the target wrote into; it is used again when they are gone.

    source               a URI, a Source (to say more about the connection) or a controller
    out                  "torch", "numpy" or "bytes"; None: the first of these that is installed
    transform            called with each sample, its result is the sample
    merge_gap_bytes      read and not used, at most, to save a command
    max_command_bytes    that merging makes

    Threads: any, one after the other. Processes: pickled or forked, it connects anew.
    """

    def __init__(self, source: Union[str, Source, Controller], *, out: Optional[str] = None,
                 transform: Optional[Callable[[Any], Any]] = None,
                 merge_gap_bytes: int = MERGE_GAP_BYTES,
                 max_command_bytes: int = MAX_COMMAND_BYTES) -> None:
        self.source = as_source(source)
        self.transform = transform
        self.merge_gap_bytes = merge_gap_bytes
        self.max_command_bytes = max_command_bytes
        self._arrays = arrays(out)

    # ---- what a data set says of itself

    def __len__(self) -> int:
        raise NotImplementedError

    def extent(self, index: int) -> Extent:
        """Where sample index lies on the namespace: offset and size in bytes."""
        raise NotImplementedError

    def name(self, index: int) -> str:
        """What errors call it."""
        raise NotImplementedError

    def make(self, index: int, memory: Any, place: int) -> Any:
        """The sample of the bytes at place of memory."""
        raise NotImplementedError

    # ---- reading

    def _checked(self, indices: Sequence[Any]) -> List[int]:
        """As list indices: from -len on. Raises IndexError."""
        numbers, length = list(map(operator.index, indices)), len(self)
        if not numbers:
            return numbers
        least, most = min(numbers), max(numbers)
        if least < -length or most >= length:
            raise IndexError(f"sample {least if least < -length else most} of {length}")
        return numbers if least >= 0 else [number % length for number in numbers]

    def _start(self, indices: Sequence[int],
               finish: Callable[[Any, Plan, Sequence[int]], Any]) -> Pending:
        with self.source.lock:
            plan = covering([self.extent(index) for index in indices], self.source.block_bytes,
                            self.merge_gap_bytes, self.max_command_bytes)
            return Pending(self, indices, plan, finish)

    def start(self, indices: Sequence[Any]) -> Pending:
        """Begins to read samples; result() is their list."""
        return self._start(self._checked(indices), self._samples)

    def start_batch(self, indices: Sequence[Any]) -> Pending:
        """Begins to read a batch; result() is what batch() returns."""
        return self.start(indices)

    def _samples(self, memory: Any, plan: Plan, indices: Sequence[int]) -> List[Any]:
        return [self._sample(index, memory, place) for index, place in zip(indices, plan.places)]

    def _sample(self, index: int, memory: Any, place: int) -> Any:
        try:
            sample = self.make(index, memory, place)
            return sample if self.transform is None else self.transform(sample)
        except Exception as why:
            raise SampleError(f"{self.name(index)}: {type(why).__name__}: {why}") from why

    def __getitems__(self, indices: Sequence[Any]) -> List[Any]:
        found: List[Any] = self.start(indices).result()
        return found

    def batch(self, indices: Sequence[Any]) -> Any:
        """The samples in the order of indices; here a list."""
        return self.start_batch(indices).result()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.batch(range(*index.indices(len(self))))
        if hasattr(index, "__index__"):
            return self.__getitems__([index])[0]
        return self.batch(index)

    def close(self) -> None:
        """Ends the connection of this process; arrays stay as they are."""
        self.source.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
