# SPDX-License-Identifier: BSD-3-Clause
"""Which commands bring a set of extents: sorted, and merged where they are near each other."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Sequence, Tuple

Extent = Tuple[int, int]  # offset and size in bytes
_ALIGN = 4096  # of what lands at one place of the memory


@dataclass
class Plan:
    """Commands: lbas, nblocks, and where in the memory each lands; members: the extents that each
    brings. places: where in the memory each extent lies."""
    lbas: List[int] = field(default_factory=list)
    nblocks: List[int] = field(default_factory=list)
    offsets: List[int] = field(default_factory=list)
    members: List[List[int]] = field(default_factory=list)
    places: List[int] = field(default_factory=list)
    size_bytes: int = 0

    def _add(self, lba: int, nblocks: int, offset: int, members: List[int]) -> None:
        self.lbas.append(lba)
        self.nblocks.append(nblocks)
        self.offsets.append(offset)
        self.members.append(members)


def covering(extents: Sequence[Extent], block: int, gap_bytes: int, limit_bytes: int) -> Plan:
    """Whole blocks around the extents, wherever they begin: nothing has to be copied to be seen.

    Neighbours share a command where at most gap_bytes that nobody wants lie between them and the
    command does not grow beyond limit_bytes.
    """
    plan = Plan(places=[0] * len(extents))
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
        plan.places[index] = plan.size_bytes + offset - first * block
    if members:
        plan.size_bytes = _close(plan, first, end, block, members)
    return plan


def _close(plan: Plan, first: int, end: int, block: int, members: List[int]) -> int:
    plan._add(first, end - first, plan.size_bytes, members)
    return -(-(plan.size_bytes + (end - first) * block) // _ALIGN) * _ALIGN


def rows(extents: Sequence[Extent], block: int, limit_bytes: int) -> Plan:
    """Extents of one size that begin and end on blocks, each straight to its row; neighbours on
    the namespace that are neighbours in the memory share a command."""
    size = extents[0][1]
    plan = Plan(places=[index * size for index in range(len(extents))],
                size_bytes=size * len(extents))
    limit, count = limit_bytes // block, size // block
    for index in sorted(range(len(extents)), key=extents.__getitem__):
        lba, place = extents[index][0] // block, index * size
        if plan.lbas and lba == plan.lbas[-1] + plan.nblocks[-1] \
                and place == plan.offsets[-1] + plan.nblocks[-1] * block \
                and plan.nblocks[-1] + count <= limit:
            plan.nblocks[-1] += count
            plan.members[-1].append(index)
        else:
            plan._add(lba, count, place, [index])
    return plan
