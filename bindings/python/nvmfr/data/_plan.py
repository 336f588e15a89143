# SPDX-License-Identifier: BSD-3-Clause
"""Which commands bring a set of extents: sorted, and merged where they are near each other."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence, Tuple

Extent = Tuple[int, int]  # offset and size in bytes
_ALIGN = 4096  # of what lands at one place of the memory


@dataclass
class Plan:
    """Commands: lbas, nblocks, and where in the memory each lands; members: the extents that each
    brings. places: where in the memory each extent lies."""
    lbas: List[int]
    nblocks: List[int]
    offsets: List[int]
    members: List[Sequence[int]]
    places: Sequence[int]
    size_bytes: int


def covering(extents: Sequence[Extent], block: int, gap_bytes: int, limit_bytes: int) -> Plan:
    """Whole blocks around the extents, wherever they begin: nothing has to be copied to be seen.

    Neighbours share a command where at most gap_bytes that nobody wants lie between them and the
    command does not grow beyond limit_bytes.
    """
    places = [0] * len(extents)
    plan = Plan([], [], [], [], places, 0)
    gap, limit = gap_bytes // block, max(1, limit_bytes // block)
    first = end = 0
    members: List[int] = []
    for index in sorted(range(len(extents)), key=extents.__getitem__):
        offset, size = extents[index]
        begin, until = offset // block, -(-(offset + size) // block)
        if size == 0:
            continue
        if not members or begin > end + gap or max(end, until) - first > limit:
            if members:
                plan.size_bytes = _close(plan, first, end, block, members)
            first, end, members = begin, until, []
        end = max(end, until)
        members.append(index)
        places[index] = plan.size_bytes + offset - first * block
    if members:
        plan.size_bytes = _close(plan, first, end, block, members)
    return plan


def _close(plan: Plan, first: int, end: int, block: int, members: List[int]) -> int:
    plan.lbas.append(first)
    plan.nblocks.append(end - first)
    plan.offsets.append(plan.size_bytes)
    plan.members.append(members)
    return -(-(plan.size_bytes + (end - first) * block) // _ALIGN) * _ALIGN


def rows(first_lba: int, nblocks: int, numbers: Sequence[int], block: int,
         limit_bytes: int) -> Plan:
    """Records of nblocks whole blocks, each straight to its row; rows that follow each other on the
    namespace, too, share a command."""
    size, count = nblocks * block, len(numbers)
    starts = [row for row in range(count) if row == 0 or numbers[row] != numbers[row - 1] + 1]
    ends = [*starts[1:], count]
    most = max(1, limit_bytes // size)
    if any(end - start > most for start, end in zip(starts, ends)):
        starts = [row for start, end in zip(starts, ends) for row in range(start, end, most)]
        ends = [*starts[1:], count]
    return Plan([first_lba + numbers[row] * nblocks for row in starts],
                [(end - start) * nblocks for start, end in zip(starts, ends)],
                [row * size for row in starts], list(map(range, starts, ends)),
                range(0, count * size, size), count * size)
