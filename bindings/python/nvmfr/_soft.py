# SPDX-License-Identifier: BSD-3-Clause
"""The embedded target (nvmfr/soft.h): no network, no device, faults on demand, for tests."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import _abi
from ._core import Closing, Handle
from ._lib import check, lib
from ._options import set_options

if TYPE_CHECKING:
    from ._host import Host


class TargetHandle(Handle):
    """A soft target."""
    __slots__ = ()

    def destroy(self) -> None:
        """Ends it."""
        pointer = self.take()
        if pointer:
            lib().nvmfr_soft_target_destroy(pointer)


def make_target(host: Handle, name: str, options: Dict[str, Any]) -> TargetHandle:
    """Creates a target on a host."""
    opts = _abi.SoftOpts()
    lib().nvmfr_soft_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
    set_options(opts, options)
    out = ctypes.c_void_p()
    with host as pointer:
        check(lib().nvmfr_soft_target_create(pointer, name.encode(), ctypes.byref(opts),
                                             ctypes.byref(out)))
    return TargetHandle("this target", out.value or 0)


class SoftTarget(Closing):
    """An embedded target; made by Host.soft_target(). Lives until its host ends, or close().
    Threads: any."""

    def __init__(self, host: "Host", name: str, handle: TargetHandle) -> None:
        self.host = host
        self.name = name
        self._handle = handle

    @property
    def uri(self) -> str:
        """For Host.connect()."""
        return f"nvmf+soft://{self.name}"

    def add_namespace(self, **options: Any) -> int:
        """Adds a namespace; options are fields of nvmfr_soft_ns_opts: size_bytes, block_bytes,
        path, nsid, flags. Returns its ID."""
        opts = _abi.SoftNsOpts()
        lib().nvmfr_soft_ns_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        set_options(opts, options)
        with self._handle as pointer:
            return check(lib().nvmfr_soft_ns_add(pointer, ctypes.byref(opts)))

    def remove_namespace(self, nsid: int) -> None:
        """Removes one; commands to it fail from then on."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_ns_remove(pointer, nsid))

    def resize_namespace(self, nsid: int, size_bytes: int) -> None:
        """Makes it longer or shorter, and tells controllers that want to know."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_ns_resize(pointer, nsid, size_bytes))

    def port_uri(self, port: int) -> str:
        """For Host.connect(), by way of one of its ports, 1 to 8."""
        return f"{self.uri}?port={port}"

    def set_port(self, port: int, up: bool) -> None:
        """Shuts or opens a port; what is shut drops its connections."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_port_set(pointer, port, int(up)))

    def set_ana(self, port: int, group: int, state: int) -> None:
        """Sets the ANA state of a group by way of a port; SOFT_ANY: all. Of a target made with
        ana_groups."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_ana_set(pointer, port, group, int(state)))

    def reserve(self, nsid: int, action: int, hostid: bytes, *, key: int = 0, other_key: int = 0,
                kind: int = 0, flags: int = 0) -> int:
        """Does what a reservation command of another host would. Returns the command's status."""
        if len(hostid) != 16:
            raise ValueError("a host ID has 16 bytes")
        what = _abi.Reserve(nsid=nsid, action=int(action), type=int(kind), flags=int(flags), key=key,
                            other_key=other_key)
        with self._handle as pointer:
            return check(lib().nvmfr_soft_reserve(pointer, ctypes.byref(what),
                                                  (ctypes.c_uint8 * 16)(*hostid)))

    def notify(self, notice: int) -> None:
        """Sends an asynchronous event (SoftNotice) to every controller that wants it."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_notify(pointer, int(notice)))

    def set_discovery(self, entries: bytes) -> None:
        """Puts entries of 1024 bytes each into its discovery log, behind its own one."""
        if len(entries) % 1024:
            raise ValueError(f"{len(entries)} bytes are not entries of 1024 each")
        with self._handle as pointer:
            check(lib().nvmfr_soft_discovery_set(pointer, entries, len(entries) // 1024))

    def add_fault(self, kind: int, **options: Any) -> None:
        """Plants a fault; options are fields of nvmfr_soft_fault: qid, opcode, count, value, ..."""
        fault = _abi.SoftFault()
        lib().nvmfr_soft_fault_init(ctypes.byref(fault), ctypes.sizeof(fault))
        set_options(fault, dict(options, kind=int(kind)))
        with self._handle as pointer:
            check(lib().nvmfr_soft_fault_add(pointer, ctypes.byref(fault)))

    def clear_faults(self) -> None:
        """Empties the fault plan and the identify patches."""
        with self._handle as pointer:
            lib().nvmfr_soft_fault_clear(pointer)

    def patch_identify(self, cns: int, offset: int, data: bytes,
                       nsid: int = _abi.SOFT_ANY) -> None:
        """Overwrites 1 to 16 bytes of an Identify page before it goes out."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_patch_identify(pointer, cns, nsid, offset, data, len(data)))

    def drop(self) -> None:
        """Drops every connection, as a target that dies."""
        with self._handle as pointer:
            lib().nvmfr_soft_drop(pointer)

    @property
    def counters(self) -> _abi.SoftCounters:
        """What it counted."""
        counters = _abi.SoftCounters(size=ctypes.sizeof(_abi.SoftCounters))
        with self._handle as pointer:
            check(lib().nvmfr_soft_read_counters(pointer, ctypes.byref(counters)))
        return counters

    @property
    def last_violation(self) -> Optional[str]:
        """The last rule that the initiator broke, in words; None: it broke none."""
        text = ctypes.create_string_buffer(256)
        with self._handle as pointer:
            lib().nvmfr_soft_last_violation(pointer, text, len(text))
        return text.value.decode("utf-8", "replace") or None

    def close(self) -> None:
        """Ends it: connections are dropped, commands in flight are never answered."""
        self._handle.destroy()
        self.host._handle.targets.discard(self._handle)
