# SPDX-License-Identifier: BSD-3-Clause
"""Registered memory that is used again as soon as nobody sees it any more."""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Deque, Dict

from ._buffer import Buffer

if TYPE_CHECKING:
    from ._host import Host

_LEAST = 1 << 16
_LOOKS = 8  # buffers looked at for one that is free
_IDLE = 32  # kept of a size


def _seen(buffer: Buffer) -> bool:
    memory = buffer._handle.memory
    return memory is not None and memory() is not None


class Pool:
    """Buffers by size. What is handed out is not in the pool; what came back may still be seen by
    arrays, and is taken again only when they are gone."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._kept: Dict[int, Deque[Buffer]] = {}

    def take(self, size_bytes: int) -> Buffer:
        """A buffer of at least that size; its bytes are anything."""
        size = max(_LEAST, 1 << (size_bytes - 1).bit_length())
        kept = self._kept.setdefault(size, deque())
        for _ in range(min(_LOOKS, len(kept))):
            buffer = kept.popleft()
            if not _seen(buffer):
                return buffer
            kept.append(buffer)
        return self._host.alloc(size)

    def give_back(self, buffer: Buffer) -> None:
        """No command names it any more."""
        kept = self._kept[len(buffer)]
        kept.append(buffer)
        if len(kept) > _IDLE and not _seen(kept[0]):
            kept.popleft().release()

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))
