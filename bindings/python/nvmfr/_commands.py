# SPDX-License-Identifier: BSD-3-Clause
"""Commands beyond read and write (nvmfr/cmd.h), on the admin queue and on queue pairs."""
from __future__ import annotations

import ctypes
import errno
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from . import _abi, _logpages
from ._abi import FeatureSelect, LogFlag, LogPage, Op, ReserveAction
from ._buffer import Buffer, memory_of
from ._core import Handle, OwnedHandle, milliseconds
from ._lib import check, last_error, lib
from ._errors import make_error
from ._logpages import AnaGroup, Effects, ErrorEntry, Smart

ALL_NAMESPACES = 0xffffffff
PAGE_BYTES = 4096
_WORDS = {"cdw2", "cdw3", "cdw10", "cdw11", "cdw12", "cdw13", "cdw14", "cdw15"}
_FROM_CONTROLLER = 2  # a bit of an opcode
_MOST_ANA_BYTES = 16 << 20
_TRIES = 5  # at a log that changes while it is read


def make_command(opcode: int, nsid: int, words: Dict[str, int]) -> _abi.Cmd:
    """A command, its dwords by name: cdw2, cdw3, cdw10 to cdw15."""
    wrong = set(words) - _WORDS
    if wrong:
        raise TypeError(f"no dword {min(wrong)!r}; there are: " + ", ".join(sorted(_WORDS)))
    values = {"opcode": (opcode, 8), "nsid": (nsid, 32), **{k: (v, 32) for k, v in words.items()}}
    for name, (value, bits) in values.items():
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name} is {value}: it has {bits} bits")
    return _abi.Cmd(opcode=opcode, nsid=nsid, **words)


class Feature(NamedTuple):
    """A feature: value is dword 0 of the answer, data what came with it."""
    value: int
    data: bytes


class AdminCommands:
    """What Controller has of them. Each waits for its answer, without the GIL, for as long as
    admin_timeout_ms. Threads: any, several at once. What a controller refuses raises StatusError."""
    _handle: Handle

    def admin(self, opcode: int, data: Any = None, *, nsid: int = 0,
              timeout: Optional[float] = None, **words: int) -> int:
        """Sends any admin command. Returns dwords 0 and 1 of its answer.

        data     bytes for a command that sends; for one that receives a writable buffer, filled
        timeout  seconds; None: admin_timeout_ms
        words    cdw2, cdw3, cdw10 to cdw15

        Raises DeniedError for what is the library's: Fabrics, Keep Alive, Abort, queues, ...
        """
        cmd = make_command(opcode, nsid, words)
        cmd.timeout_ms = 0 if timeout is None else max(1, milliseconds(timeout))
        memory: Any = None
        if data is not None:
            memory = memory_of(data) if opcode & _FROM_CONTROLLER \
                else ctypes.create_string_buffer(bytes(data), len(data))
        result, status = ctypes.c_uint64(), ctypes.c_uint16()
        with self._handle as pointer:
            err = lib().nvmfr_admin(pointer, ctypes.byref(cmd), memory,
                                    0 if memory is None else ctypes.sizeof(memory),
                                    ctypes.byref(result), ctypes.byref(status))
            if err < 0:
                raise make_error(err, last_error(), status.value)
        return result.value

    def identify(self, cns: int, *, nsid: int = 0, cntid: int = 0, csi: int = 0) -> bytes:
        """An Identify page, 4096 bytes as they came. nsid, cntid (controller) and csi (command
        set): where the page has to do with one."""
        page = ctypes.create_string_buffer(PAGE_BYTES)
        with self._handle as pointer:
            check(lib().nvmfr_identify(pointer, cns, nsid, cntid, csi, page))
        return page.raw

    def get_feature(self, fid: int, *, select: int = FeatureSelect.CURRENT, nsid: int = 0,
                    cdw11: int = 0, size_bytes: int = 0) -> Feature:
        """Reads a feature. size_bytes: of its data, where it has any."""
        value = ctypes.c_uint32()
        data = ctypes.create_string_buffer(size_bytes) if size_bytes else None
        with self._handle as pointer:
            check(lib().nvmfr_get_feature(pointer, fid, int(select), nsid, cdw11, data, size_bytes,
                                          ctypes.byref(value)))
        return Feature(value.value, data.raw if data else b"")

    def set_feature(self, fid: int, cdw11: int, *, save: bool = False, nsid: int = 0,
                    data: bytes = b"") -> int:
        """Sets a feature; save: also for the time after a reset. Returns dword 0 of the answer."""
        value = ctypes.c_uint32()
        memory = ctypes.create_string_buffer(data, len(data)) if data else None
        with self._handle as pointer:
            check(lib().nvmfr_set_feature(pointer, fid, int(save), nsid, cdw11, memory, len(data),
                                          ctypes.byref(value)))
        return value.value

    def log_page(self, lid: int, size_bytes: int, *, nsid: int = ALL_NAMESPACES,
                 offset_bytes: int = 0, retain: bool = False) -> bytes:
        """A log page or a part of one, as it came. retain: an event that told of it stays pending.

        Raises UnsupportedError where the controller does not have it.
        """
        if size_bytes < 1:
            raise ValueError("4 bytes or more")
        data = ctypes.create_string_buffer(size_bytes)
        with self._handle as pointer:
            check(lib().nvmfr_get_log(pointer, int(lid), nsid, int(LogFlag.RETAIN) if retain else 0,
                                      offset_bytes, data, size_bytes))
        return data.raw

    def smart(self, nsid: int = ALL_NAMESPACES) -> Smart:
        """Its health or, where it can, that of a namespace."""
        smart = _abi.Smart(size=ctypes.sizeof(_abi.Smart))
        with self._handle as pointer:
            check(lib().nvmfr_read_smart(pointer, nsid, ctypes.byref(smart)))
        return _logpages.smart_of(smart)

    def error_log(self, *, retain: bool = False) -> List[ErrorEntry]:
        """Its error entries, the newest first."""
        most = _logpages.error_entries(self.identify(1))
        return _logpages.parse_errors(
            self.log_page(LogPage.ERROR, most * _logpages.ERROR_BYTES, retain=retain))

    def changed_namespaces(self, *, retain: bool = False) -> Optional[List[int]]:
        """Those that changed since this was read; None: more than the 1024 that it has room for.
        The library reads this log itself for its events, and looks at all of them after this."""
        return _logpages.parse_changed(
            self.log_page(LogPage.CHANGED_NS, PAGE_BYTES, nsid=0, retain=retain))

    def effects(self) -> Effects:
        """The commands that it supports, and what each does."""
        return _logpages.parse_effects(self.log_page(LogPage.EFFECTS, PAGE_BYTES, nsid=0))

    def ana_log(self) -> List[AnaGroup]:
        """Its ANA groups, each with its state and namespaces, of one moment."""
        for _ in range(_TRIES):
            log = self.log_page(LogPage.ANA, PAGE_BYTES, nsid=0)
            need = _logpages.ana_bytes(log)
            while len(log) < need <= _MOST_ANA_BYTES:
                log = self.log_page(LogPage.ANA, need, nsid=0)
                need = _logpages.ana_bytes(log)
            # Pieces of a long one may be of different moments.
            if len(log) == PAGE_BYTES or self.log_page(LogPage.ANA, 16, nsid=0)[:8] == log[:8]:
                return _logpages.parse_ana(log)
        raise make_error(errno.EAGAIN, "the ANA log changed each time while it was read")


class Registrant(NamedTuple):
    """A controller of a registered host; cntlid FFFFh: none at the moment."""
    key: int
    hostid: bytes
    cntlid: int
    holds: bool


class Reservations(NamedTuple):
    """Who is registered with a namespace. kind: a ReserveType, 0 without a reservation.
    present: how many registrants there are, where the list had no room for all."""
    generation: int
    kind: int
    persists: bool
    present: int
    registrants: List[Registrant]


def parse_reservations(page: Any) -> Reservations:
    """Decodes a Reservation Report with host IDs of 128 bits."""
    data = bytes(page)
    out, most = _abi.Reservation(), max(0, len(data) // 64 - 1)
    entries = (_abi.Registrant * most)()
    got = check(lib().nvmfr_parse_reservations(data, len(data), ctypes.byref(out),
                                               entries if most else None, most))
    return Reservations(out.generation, out.type, bool(out.persists), out.registrants,
                        [Registrant(entry.key, bytes(entry.hostid), entry.cntlid, bool(entry.holds))
                         for entry in entries[:got]])


def _ranges(ranges: Iterable[Tuple[int, int]]) -> Any:
    pairs = list(ranges)
    if any(lba < 0 or nblocks < 1 for lba, nblocks in pairs):
        raise ValueError("a range is (lba, nblocks): 0 or more, 1 or more")
    return (_abi.Range * len(pairs))(*(_abi.Range(lba, nblocks) for lba, nblocks in pairs))


class QueueCommands:
    """What QueuePair has of them: each submits, and a poll or wait has its completion, with
    cqe_result. Threads: the owner. nsid 0: the first namespace.

    list and keys are memory for what goes along with the command: it must stay as it is until the
    completion.
    """
    _handle: OwnedHandle

    def _nsid(self, nsid: int) -> int:
        raise NotImplementedError

    def command(self, opcode: int, buffer: Optional[Buffer] = None, size_bytes: int = 0, *,
                nsid: int = 0, offset_bytes: int = 0, user_data: int = 0, **words: int) -> None:
        """Submits any I/O command as it is given: only its form is checked. nsid is what it says,
        words are cdw2, cdw3, cdw10 to cdw15."""
        cmd = make_command(opcode, nsid, words)
        with self._handle as pointer:
            check(lib().nvmfr_submit_cmd(pointer, ctypes.byref(cmd),
                                         buffer.handle if buffer is not None else None,
                                         offset_bytes, size_bytes, user_data))

    def deallocate(self, ranges: Iterable[Tuple[int, int]], list: Buffer, *, nsid: int = 0,
                   list_offset_bytes: int = 0, user_data: int = 0) -> None:
        """Submits a deallocate of ranges, (lba, nblocks) each: not needed any more. list: 16 bytes
        for each of them."""
        given, nsid = _ranges(ranges), self._nsid(nsid)
        with self._handle as pointer:
            check(lib().nvmfr_deallocate(pointer, nsid, given, len(given), list.handle,
                                         list_offset_bytes, user_data))

    def copy(self, lba: int, ranges: Iterable[Tuple[int, int]], list: Buffer, *, nsid: int = 0,
             list_offset_bytes: int = 0, user_data: int = 0) -> None:
        """Submits a copy of ranges, one behind the other, to lba on. list: 32 bytes for each."""
        given, nsid = _ranges(ranges), self._nsid(nsid)
        with self._handle as pointer:
            check(lib().nvmfr_copy(pointer, nsid, lba, given, len(given), list.handle,
                                   list_offset_bytes, user_data))

    def compare_and_write(self, expected: Buffer, new: Buffer, lba: int, nblocks: int, *,
                          nsid: int = 0, expected_offset_bytes: int = 0, new_offset_bytes: int = 0,
                          user_data: Tuple[int, int] = (0, 1)) -> None:
        """Submits a fused pair: new is written if expected is what is there. Two completions; where
        it is not, the first with status 0285h and the second with 0009h."""
        nsid = self._nsid(nsid)
        pair = (_abi.Io * 2)()
        for io, op, buffer, offset, data in (
                (pair[0], Op.COMPARE, expected, expected_offset_bytes, user_data[0]),
                (pair[1], Op.WRITE, new, new_offset_bytes, user_data[1])):
            io.op, io.nsid, io.lba, io.nblocks = int(op), nsid, lba, nblocks
            io.buf, io.offset_bytes, io.user_data = buffer.handle, offset, data
        with self._handle as pointer:
            check(lib().nvmfr_compare_and_write(pointer, pair))

    def reserve(self, action: ReserveAction, keys: Buffer, *, key: int = 0, other_key: int = 0,
                kind: int = 0, flags: int = 0, nsid: int = 0, keys_offset_bytes: int = 0,
                user_data: int = 0) -> None:
        """Submits a reservation command; kind is a ReserveType, flags are ReserveFlags. keys: 16
        bytes."""
        what = _abi.Reserve(nsid=self._nsid(nsid), action=int(action), type=int(kind),
                            flags=int(flags), key=key, other_key=other_key)
        with self._handle as pointer:
            check(lib().nvmfr_reserve(pointer, ctypes.byref(what), keys.handle, keys_offset_bytes,
                                      user_data))

    def report_reservations(self, buffer: Buffer, size_bytes: int, *, nsid: int = 0,
                            offset_bytes: int = 0, user_data: int = 0) -> None:
        """Submits a Reservation Report, for parse_reservations()."""
        nsid = self._nsid(nsid)
        with self._handle as pointer:
            check(lib().nvmfr_report_reservations(pointer, nsid, buffer.handle, offset_bytes,
                                                  size_bytes, user_data))
