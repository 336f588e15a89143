# SPDX-License-Identifier: BSD-3-Clause
"""Stream: a data set as an iterable of batches, read ahead, sharded, resumable."""
from __future__ import annotations

import importlib
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, Optional, Sequence, Tuple

from .._errors import LostError
from .._progress import Progress
from ._dataset import ExtentDataset, Pending
from ._order import placing, rank_indices, worker

try:
    # A DataLoader asks what it is an instance of.
    _Base: Any = importlib.import_module("torch.utils.data").IterableDataset
except ImportError:
    _Base = object


class Stream(_Base):  # type: ignore[misc]
    """Batches of a data set, one after the other: `for batch in stream`, or
    DataLoader(stream, batch_size=None, num_workers=...).

    shuffle      anew each epoch, by seed + epoch; see set_epoch()
    drop_last    no short last batch, nor samples that are not enough for every rank; else ranks
                 are padded with samples from the start, as DistributedSampler does
    rank,        of this process among those that train; None: torch.distributed's where it is
    world_size   in use, else one
    sampler      indices instead of all that: a DistributedSampler, a list. It must give the same
                 in every worker
    prefetch     batches that are read ahead
    collate      called with a batch, its result is the batch
    progress     True: a bar of samples; None: on a terminal

    With workers, batch b is read by worker b % num_workers, and the loader takes them in turn: the
    order is the same for any number of workers, and each worker has an association of its own.
    """

    def __init__(self, dataset: ExtentDataset, batch_size: int, *, shuffle: bool = False,
                 seed: int = 0, drop_last: bool = False, rank: Optional[int] = None,
                 world_size: Optional[int] = None, sampler: Optional[Iterable[int]] = None,
                 prefetch: int = 4, collate: Optional[Callable[[Any], Any]] = None,
                 progress: Optional[bool] = False) -> None:
        if batch_size < 1 or prefetch < 0:
            raise ValueError("batch_size is 1 or more, prefetch 0 or more")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.rank, self.world_size = placing(rank, world_size)
        self.sampler = sampler
        self.prefetch = prefetch
        self.collate = collate
        self.progress = progress
        self.epoch = 0
        self._from = 0  # the batch that the next iteration begins with
        self._walk: Optional[_Walk] = None
        self._kept: Tuple[Any, Sequence[int]] = (None, ())

    def set_epoch(self, epoch: int) -> None:
        """Call it before each epoch, also where workers iterate: it sets the shuffle, and that the
        epoch begins with its first batch."""
        self.epoch, self._from = epoch, 0
        set_epoch = getattr(self.sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)

    # ---- the order

    def indices(self) -> Sequence[int]:
        """The samples of this rank in this epoch."""
        if self.sampler is not None:
            if getattr(self.sampler, "generator", self) is None and worker()[1] > 1:
                raise ValueError(f"a {type(self.sampler).__name__} without a generator gives other "
                                 "indices in each worker: give it one with a seed")
            return list(self.sampler)
        key = (self.epoch, self.seed, self.shuffle, self.drop_last, self.rank, self.world_size)
        if self._kept[0] != key:
            self._kept = (key, rank_indices(
                len(self.dataset), self.rank, self.world_size, shuffle=self.shuffle, seed=self.seed,
                epoch=self.epoch, drop_last=self.drop_last))
        return self._kept[1]

    def count(self, samples: int) -> int:
        """Batches of so many samples."""
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __len__(self) -> int:
        """Batches of this rank in an epoch, of all workers together."""
        sampler: Any = self.sampler
        return self.count(len(self.indices() if sampler is None else sampler))

    def __iter__(self) -> Iterator[Any]:
        if self._walk is not None:
            self._walk.close()
        self._walk = _Walk(self, self._from)
        self._from = 0
        return self._walk

    # ---- the position

    def state_dict(self, batches: Optional[int] = None) -> Dict[str, Any]:
        """Where it is: what was handed out, not what was read ahead.

        batches: how many a program has taken this epoch from a DataLoader with workers, since its
        start or its load_state_dict(); this process then does not know by itself.
        """
        if batches is not None:
            place = {"begin": self._from + batches, "taken": 0, "worker": 0, "workers": 1}
        elif self._walk is None:
            place = {"begin": self._from, "taken": 0, "worker": 0, "workers": 1}
        else:
            place = self._walk.place()
        return {"epoch": self.epoch, **place, **self._must_be()}

    def _must_be(self) -> Dict[str, Any]:
        """What a position means something with only."""
        return {"samples": len(self.dataset), "batch_size": self.batch_size,
                "shuffle": self.shuffle, "seed": self.seed, "drop_last": self.drop_last,
                "rank": self.rank, "world_size": self.world_size}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on there. Raises ValueError for a state of another order, or of
        one worker of several (see batches of state_dict())."""
        for name, value in self._must_be().items():
            if state.get(name) != value:
                raise ValueError(f"the state is of {name} {state.get(name)!r}, this is {value!r}")
        workers = state["workers"]
        if workers > 1 and (state["worker"], workers) != worker():
            raise ValueError(f"the state is of worker {state['worker']} of {workers}: save "
                             "state_dict(batches=...) in the process that takes the batches")
        self.set_epoch(state["epoch"])
        self._from = state["begin"] + state["taken"] * workers
        self._walk = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_walk": None, "_kept": (None, ())}


class _Walk:
    """One pass over the batches of this worker: a ring of those that are on their way."""

    def __init__(self, stream: Stream, begin: int) -> None:
        self._ring: Deque[Pending] = deque()
        self._stream = stream
        self._indices = stream.indices()
        self._count = stream.count(len(self._indices))
        self._begin = begin
        self._worker, self._workers = worker()
        self._taken = 0  # batches of this worker that were handed out
        self._bar = Progress(len(self._indices), "samples", "samples", enabled=stream.progress)

    def place(self) -> Dict[str, int]:
        """For state_dict()."""
        return {"begin": self._begin, "taken": self._taken, "worker": self._worker,
                "workers": self._workers}

    def _batch(self, number: int) -> Sequence[int]:
        """The indices of this worker's batch of that number; empty: there is none."""
        batch = self._begin + self._worker + number * self._workers
        if batch >= self._count:
            return ()
        size = self._stream.batch_size
        return self._indices[batch * size:(batch + 1) * size]

    def __iter__(self) -> "_Walk":
        return self

    def __next__(self) -> Any:
        while len(self._ring) <= self._stream.prefetch:
            indices = self._batch(self._taken + len(self._ring))
            if not indices:
                break
            self._ring.append(self._stream.dataset.start_batch(indices))
        if not self._ring:
            self._bar.close()
            raise StopIteration
        pending = self._ring.popleft()
        try:
            made = pending.result()
        except LostError:
            self.close()  # the next call reads this batch anew
            raise
        except BaseException:
            self._taken += 1  # the next call goes on behind it
            raise
        self._bar.update(len(self._batch(self._taken)))
        self._taken += 1
        return made if self._stream.collate is None else self._stream.collate(made)

    def close(self) -> None:
        """What is on its way is not wanted any more."""
        while self._ring:
            self._ring.popleft().drop()

    def __del__(self) -> None:
        self.close()
