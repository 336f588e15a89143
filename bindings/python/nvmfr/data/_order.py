# SPDX-License-Identifier: BSD-3-Clause
"""Which samples a rank and a worker get, and in which order: as PyTorch's samplers do it."""
from __future__ import annotations

import random
import sys
from array import array
from typing import Any, Optional, Sequence, Tuple


def rank_indices(length: int, rank: int, world_size: int, *, shuffle: bool, seed: int, epoch: int,
                 drop_last: bool) -> Sequence[int]:
    """As torch's DistributedSampler: every world_size-th index, padded with indices from the
    start so that all ranks have as many, or, with drop_last, without the tail that is not enough
    for all. Shuffled by seed + epoch, the same way on every rank."""
    order: Sequence[int] = range(length)
    if shuffle:
        mixed = array("Q", order)
        random.Random(seed + epoch).shuffle(mixed)
        order = mixed
    each = length // world_size if drop_last else -(-length // world_size)
    mine = order[rank::world_size][:each]
    if len(mine) == each:
        return mine
    return array("Q", [*mine, order[(rank + len(mine) * world_size) % length]])


def placing(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """Rank and number of ranks; None: torch.distributed's where that is in use, else one."""
    if rank is None or world_size is None:
        if rank is not None or world_size is not None:
            raise ValueError("give rank and world_size both, or neither")
        torch = sys.modules.get("torch")
        distributed = getattr(torch, "distributed", None)
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return 0, 1
        return int(distributed.get_rank()), int(distributed.get_world_size())
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}")
    return rank, world_size


def worker() -> Tuple[int, int]:
    """This process among the workers of a DataLoader: its number, and how many there are."""
    data = sys.modules.get("torch.utils.data")
    info: Any = data.get_worker_info() if data is not None else None
    return (info.id, info.num_workers) if info is not None else (0, 1)
