# SPDX-License-Identifier: BSD-3-Clause
"""Log pages decoded, as NVM Express has them: bytes in, plain values out."""
from __future__ import annotations

import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import _abi
from ._abi import AnaState
from ._errors import FormatError

ERROR_BYTES = 64
_ELPE_OFFSET = 262  # Identify Controller: error entries, 0's based
_CHANGED_OVERFLOW = 0xffffffff
_ANA_HEADER, _ANA_GROUP = 16, 32


class Smart(NamedTuple):
    """A controller's health (nvmfr_smart); counts of 128 bits are ints."""
    critical_warning: int
    spare_percent: int
    spare_threshold_percent: int
    used_percent: int
    endurance_warning: int
    temperature_kelvin: int
    sensor_kelvin: Tuple[int, ...]  # 0: there is none
    data_units_read: int  # 1000 blocks of 512 bytes each
    data_units_written: int
    host_reads: int
    host_writes: int
    busy_minutes: int
    power_cycles: int
    power_on_hours: int
    unsafe_shutdowns: int
    media_errors: int
    error_log_entries: int
    warning_minutes: int
    critical_minutes: int
    thermal_transitions: Tuple[int, ...]
    thermal_seconds: Tuple[int, ...]


_LISTS = ("sensor_kelvin", "thermal_transitions", "thermal_seconds")


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, int):
        return value
    return tuple(value) if name in _LISTS else value[0] | value[1] << 64


def smart_of(smart: _abi.Smart) -> Smart:
    """What the library decoded."""
    return Smart(*(_plain(name, getattr(smart, name)) for name in Smart._fields))


class ErrorEntry(NamedTuple):
    """An entry of the error log. status: as Error.status; where is byte and bit of the command
    that was wrong, as it came; FFFFh in sqid, cid or where: it has to do with none."""
    number: int  # since the first one
    sqid: int
    cid: int
    status: int
    where: int
    lba: int
    nsid: int


def error_entries(identify: bytes) -> int:
    """How many entries a controller keeps, by its Identify page."""
    return identify[_ELPE_OFFSET] + 1


def parse_errors(log: bytes) -> List[ErrorEntry]:
    """Those that are there; a number of 0 is none."""
    found = []
    for at in range(0, len(log) - ERROR_BYTES + 1, ERROR_BYTES):
        number, sqid, cid, status, where, lba, nsid = struct.unpack_from("<QHHHHQI", log, at)
        if number:
            found.append(ErrorEntry(number, sqid, cid, status >> 1, where, lba, nsid))
    return found


def parse_changed(log: bytes) -> Optional[List[int]]:
    """The Changed Namespace List; None: it overflowed."""
    nsids = struct.unpack(f"<{len(log) // 4}I", log)
    if nsids[0] == _CHANGED_OVERFLOW:
        return None
    return list(nsids[:nsids.index(0)] if 0 in nsids else nsids)


class Effects(NamedTuple):
    """Commands that are supported, by opcode, with the dword of what each does: bit 0 supported,
    1 changes data, 2 changes capabilities, 3 namespaces, 4 the list of them."""
    admin: Dict[int, int]
    io: Dict[int, int]


def parse_effects(log: bytes) -> Effects:
    """The Commands Supported and Effects log."""
    words = struct.unpack_from("<512I", log)
    admin, io = ({opcode: word for opcode, word in enumerate(half) if word & 1}
                 for half in (words[:256], words[256:]))
    return Effects(admin, io)


class AnaGroup(NamedTuple):
    """An ANA group. state is an int where it is none of AnaState."""
    group: int
    state: Union[AnaState, int]
    change_count: int
    nsids: List[int]


def ana_state(value: int) -> Union[AnaState, int]:
    """As an AnaState where it is one."""
    try:
        return AnaState(value)
    except ValueError:
        return value


def _groups(log: bytes) -> int:
    count: int = struct.unpack_from("<H", log, 8)[0]
    return count


def ana_bytes(log: bytes) -> int:
    """How much of an ANA log is needed at least, as far as this part of it tells."""
    at, count = _ANA_HEADER, _groups(log)
    for index in range(count):
        if at + _ANA_GROUP > len(log):
            return at + (count - index) * _ANA_GROUP
        at += _ANA_GROUP + 4 * int(struct.unpack_from("<I", log, at + 4)[0])
    return at


def parse_ana(log: bytes) -> List[AnaGroup]:
    """The Asymmetric Namespace Access log. Raises FormatError where it is cut."""
    found, at = [], _ANA_HEADER
    if ana_bytes(log) > len(log):
        raise FormatError(f"an ANA log that needs {ana_bytes(log)} bytes, of which {len(log)} are there")
    for _ in range(_groups(log)):
        group, count, changes, state = struct.unpack_from("<IIQB", log, at)
        nsids = struct.unpack_from(f"<{count}I", log, at + _ANA_GROUP)
        found.append(AnaGroup(group, ana_state(state & 15), changes, list(nsids)))
        at += _ANA_GROUP + 4 * count
    return found
