# SPDX-License-Identifier: BSD-3-Clause
"""The C interface as ctypes sees it: constants, structs, prototypes; a test compares them with C."""
from __future__ import annotations

import ctypes
import enum
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint,
                    c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, List, Tuple, Type

__all__ = ["Access", "HostFlag", "IoFlag", "LogLevel", "Op", "SoftFaultKind", "SoftFlag",
           "SoftNsFlag", "State"]

VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH = 0, 1, 0
SOFT_SUBNQN = "nqn.2026-12.io.github.nvmfr:soft"
SOFT_ANY = 0xffffffff
SOFT_PORTS = 8
LATENCY_BITS, LATENCY_VALUE_BITS, LATENCY_BUCKETS = 4, 42, 624
ADMIN_MAX_BYTES = 1 << 20
DEALLOCATE_RANGE_BYTES = 16
COPY_RANGE_BYTES = 32
RESERVE_KEY_BYTES = 16


class LogLevel(enum.IntEnum):
    """How much a log function hears."""
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4


class HostFlag(enum.IntFlag):
    """Flags of a host."""
    MANUAL = 1


class Access(enum.IntFlag):
    """What the peer may do with a buffer: SOURCE of namespace writes, TARGET of reads."""
    SOURCE = 1
    TARGET = 2
    BOTH = 3


class State(enum.IntEnum):
    """States of a controller or a queue pair."""
    CONNECTING = 1
    LIVE = 2
    LOST = 3
    RECOVERING = 4


class Retry(enum.IntEnum):
    """What becomes of I/O that a lost association leaves, where it is made anew."""

    NONE = 0
    READS = 1
    ALL = 2


class AnaState(enum.IntEnum):
    """How a namespace can be reached by way of a controller."""
    NONE = 0
    OPTIMIZED = 1
    NON_OPTIMIZED = 2
    INACCESSIBLE = 3
    PERSISTENT_LOSS = 4
    CHANGE = 15


class MpathPolicy(enum.IntEnum):
    """Which of the usable paths an I/O takes."""
    ROUND_ROBIN = 0
    LEAST_BYTES = 1
    NUMA = 2


class EventType(enum.IntEnum):
    """What an event tells."""
    STATE = 1
    NS_ADDED = 2
    NS_REMOVED = 3
    NS_CHANGED = 4
    ANA_CHANGED = 5
    DISCOVERY_CHANGED = 6
    ERROR = 7
    HEALTH = 8
    FIRMWARE = 9
    VENDOR = 10
    OTHER = 11
    OVERFLOW = 12
    CTRL_ADDED = 13
    CTRL_LEAVES = 14
    FAST_IO_FAIL = 15


class NsChange(enum.IntFlag):
    """What is another with a namespace."""
    SIZE = 1
    FORMAT = 2
    IDENTITY = 4
    PROTECTION = 8


class DiscoverFlag(enum.IntFlag):
    """How a discovery is made."""
    PERSISTENT = 1
    NO_REFERRALS = 2


class SoftNotice(enum.IntEnum):
    """Asynchronous events that a soft target can be made to send."""
    ERROR = 0x010000
    HEALTH = 0x020101
    FIRMWARE = 0x030102
    ANA = 0x0c0302
    DISCOVERY = 0x70f002
    VENDOR = 0xc00007


class Op(enum.IntEnum):
    """What an I/O does."""
    FLUSH = 0
    WRITE = 1
    READ = 2
    COMPARE = 5
    WRITE_ZEROES = 8
    VERIFY = 12


class QpairFlag(enum.IntFlag):
    """Flags of a queue pair."""
    STATS = 1


class IoFlag(enum.IntFlag):
    """Flags of an I/O: FUA durable at completion; VEC pieces instead of one range."""
    FUA = 1
    VEC = 2


class FeatureSelect(enum.IntEnum):
    """Which value of a feature."""
    CURRENT = 0
    DEFAULT = 1
    SAVED = 2
    SUPPORTED = 3


class LogPage(enum.IntEnum):
    """Log pages."""
    ERROR = 1
    SMART = 2
    FIRMWARE = 3
    CHANGED_NS = 4
    EFFECTS = 5
    ANA = 12


class ReserveAction(enum.IntEnum):
    """What a reservation command does."""
    REGISTER = 0
    UNREGISTER = 1
    REPLACE = 2
    ACQUIRE = 3
    PREEMPT = 4
    PREEMPT_ABORT = 5
    RELEASE = 6
    CLEAR = 7


class ReserveType(enum.IntEnum):
    """Types of a reservation."""
    WRITE_EXCLUSIVE = 1
    EXCLUSIVE = 2
    WRITE_EXCLUSIVE_REGISTRANTS = 3
    EXCLUSIVE_REGISTRANTS = 4
    WRITE_EXCLUSIVE_ALL = 5
    EXCLUSIVE_ALL = 6


class ReserveFlag(enum.IntFlag):
    """Flags of a reservation command."""
    IGNORE_KEY = 1
    PERSIST = 2
    NO_PERSIST = 4


class LogFlag(enum.IntFlag):
    """Flags of reading a log page."""
    RETAIN = 1


class SoftFlag(enum.IntFlag):
    """Flags of a soft target."""
    THREAD = 1
    DENY_HOSTS = 2
    TBKAS = 4


class SoftNsFlag(enum.IntFlag):
    """Flags of a soft target's namespace."""
    READ_ONLY = 1


class SoftFaultKind(enum.IntEnum):
    """What a planned fault does; nvmfr/soft.h says what each does with its value."""
    STATUS = 1
    SILENCE = 2
    DELAY = 3
    WRONG_CID = 4
    DUPLICATE = 5
    EARLY = 6
    SHORT = 7
    RESULT = 8
    DISCONNECT = 9
    DISCONNECT_ALL = 10
    QP_ERROR = 11
    CM_REJECT = 12
    CM_STALE = 13
    CM_SILENCE = 14
    CM_UNREACHABLE = 15
    CM_DISCONNECT = 16
    STUCK = 17
    NOT_READY = 18
    LOG_CHANGE = 19
    LOG_START = 20
    LOG_WORD = 21
    LINGER = 22


LOG_FN = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class HostOpts(ctypes.Structure):
    """struct nvmfr_host_opts"""
    _fields_ = [("size", c_size_t), ("hostnqn", c_char_p), ("hostid", c_uint8 * 16),
                ("flags", c_uint32), ("log_level", c_uint32), ("log_fn", LOG_FN),
                ("log_arg", c_void_p)]


class CtrlOpts(ctypes.Structure):
    """struct nvmfr_ctrl_opts"""
    _fields_ = [("size", c_size_t), ("uri", c_char_p), ("traddr", c_char_p),
                ("trsvcid", c_char_p), ("subnqn", c_char_p), ("host_traddr", c_char_p),
                ("kato_ms", c_uint32), ("connect_timeout_ms", c_uint32),
                ("admin_timeout_ms", c_uint32), ("num_io_queues", c_uint16),
                ("admin_depth", c_uint16), ("tos", c_uint8), ("ack_timeout", c_uint8),
                ("retry_count", c_uint8), ("rnr_retry_count", c_uint8),
                ("ctrl_loss_timeout_ms", c_uint32), ("reconnect_delay_ms", c_uint32),
                ("fast_io_fail_ms", c_uint32)]


class CtrlInfo(ctypes.Structure):
    """struct nvmfr_ctrl_info"""
    _fields_ = [("size", c_size_t), ("cntlid", c_uint16), ("num_io_queues", c_uint16),
                ("max_queue_depth", c_uint16), ("max_sgl_descriptors", c_uint16),
                ("max_xfer_bytes", c_uint32), ("max_icd_bytes", c_uint32), ("ns_count", c_uint32),
                ("kato_ms", c_uint32), ("version", c_uint32), ("vid", c_uint16),
                ("oncs", c_uint16), ("mdts", c_uint8), ("reserved", c_uint8 * 3),
                ("serial", c_char * 21), ("model", c_char * 41), ("firmware", c_char * 9),
                ("device", c_char * 65), ("subnqn", c_char * 224), ("numa_node", c_int32)]


class NsInfo(ctypes.Structure):
    """struct nvmfr_ns_info"""
    _fields_ = [("size", c_size_t), ("capacity_blocks", c_uint64), ("nsid", c_uint32),
                ("block_bytes", c_uint32), ("metadata_bytes", c_uint32), ("read_only", c_uint8),
                ("ana_state", c_uint8), ("reserved", c_uint8 * 2), ("nguid", c_uint8 * 16),
                ("uuid", c_uint8 * 16), ("eui64", c_uint8 * 8), ("ana_group", c_uint32),
                ("reserved1", c_uint32)]


class MpathOpts(ctypes.Structure):
    """struct nvmfr_mpath_opts"""
    _fields_ = [("size", c_size_t), ("policy", c_uint32), ("retry", c_uint32),
                ("no_path_timeout_ms", c_uint32), ("flags", c_uint32)]


class MqpairOpts(ctypes.Structure):
    """struct nvmfr_mqpair_opts"""
    _fields_ = [("size", c_size_t), ("depth", c_uint16), ("max_descriptors", c_uint16),
                ("io_timeout_ms", c_uint32), ("qpair_data", c_uint64)]


class MqpairInfo(ctypes.Structure):
    """struct nvmfr_mqpair_info"""
    _fields_ = [("size", c_size_t), ("in_flight", c_uint32), ("waiting", c_uint32),
                ("reissued", c_uint64), ("paths", c_uint32), ("reserved", c_uint32)]


class MqpairPath(ctypes.Structure):
    """struct nvmfr_mqpair_path"""
    _fields_ = [("size", c_size_t), ("ctrl", c_void_p), ("ios", c_uint64),
                ("bytes_in_flight", c_uint64), ("in_flight", c_uint32), ("state", c_uint32),
                ("bytes", c_uint64), ("refused", c_uint64), ("aborted", c_uint64),
                ("timed_out", c_uint64), ("reissued", c_uint64)]


class Event(ctypes.Structure):
    """struct nvmfr_event"""
    _fields_ = [("ctrl", c_void_p), ("type", c_uint32), ("nsid", c_uint32), ("value", c_uint64),
                ("result", c_int32), ("aer_type", c_uint8), ("aer_info", c_uint8),
                ("log_page", c_uint8), ("reserved", c_uint8)]


class DiscoveryRecord(ctypes.Structure):
    """struct nvmfr_discovery_record"""
    _fields_ = [("size", c_size_t), ("trtype", c_uint8), ("adrfam", c_uint8),
                ("subtype", c_uint8), ("treq", c_uint8), ("portid", c_uint16),
                ("cntlid", c_uint16), ("asqsz", c_uint16), ("eflags", c_uint16),
                ("log", c_uint32), ("traddr", c_char * 257), ("trsvcid", c_char * 33),
                ("subnqn", c_char * 224), ("uri", c_char * 542)]


class DiscoveryInfo(ctypes.Structure):
    """struct nvmfr_discovery_info"""
    _fields_ = [("size", c_size_t), ("generation", c_uint64), ("left_out", c_uint64),
                ("records", c_uint32), ("logs", c_uint32), ("skipped", c_uint32),
                ("unreached", c_uint32), ("unfollowed", c_uint32), ("reserved", c_uint32)]


class QpairOpts(ctypes.Structure):
    """struct nvmfr_qpair_opts"""
    _fields_ = [("size", c_size_t), ("depth", c_uint16), ("max_descriptors", c_uint16),
                ("io_timeout_ms", c_uint32), ("qpair_data", c_uint64), ("flags", c_uint32),
                ("retry", c_uint32), ("group", c_void_p)]


class QpairInfo(ctypes.Structure):
    """struct nvmfr_qpair_info"""
    _fields_ = [("size", c_size_t), ("qid", c_uint16), ("depth", c_uint16), ("state", c_uint16),
                ("in_flight", c_uint16), ("commands", c_uint64), ("bounced_bytes", c_uint64)]


class QpairStats(ctypes.Structure):
    """struct nvmfr_qpair_stats"""
    _fields_ = [("size", c_size_t), ("commands", c_uint64), ("refused", c_uint64),
                ("aborted", c_uint64), ("timed_out", c_uint64), ("reads", c_uint64),
                ("writes", c_uint64), ("others", c_uint64), ("read_bytes", c_uint64),
                ("write_bytes", c_uint64)]


class Latency(ctypes.Structure):
    """struct nvmfr_latency"""
    _fields_ = [("size", c_size_t), ("count", c_uint64), ("sum_ns", c_uint64),
                ("min_ns", c_uint64), ("max_ns", c_uint64),
                ("buckets", c_uint64 * LATENCY_BUCKETS)]


class CtrlStats(ctypes.Structure):
    """struct nvmfr_ctrl_stats"""
    _fields_ = [("size", c_size_t), ("admin_commands", c_uint64), ("keep_alives", c_uint64),
                ("aer_events", c_uint64), ("aborts", c_uint64), ("losses", c_uint64),
                ("attempts", c_uint64), ("recoveries", c_uint64)]


class Loss(ctypes.Structure):
    """struct nvmfr_loss"""
    _fields_ = [("size", c_size_t), ("ago_ms", c_uint64), ("duration_ms", c_uint64),
                ("attempts", c_uint32), ("state", c_uint32), ("err", c_int32),
                ("reserved", c_uint32), ("cause", c_char * 256)]


class GroupOpts(ctypes.Structure):
    """struct nvmfr_group_opts"""
    _fields_ = [("size", c_size_t), ("max_qpairs", c_uint32), ("flags", c_uint32)]


class Iov(ctypes.Structure):
    """struct nvmfr_iov"""
    _fields_ = [("buf", c_void_p), ("offset_bytes", c_uint64), ("len_bytes", c_uint64)]


class _IoWhere(ctypes.Union):
    _fields_ = [("buf", c_void_p), ("iov", c_void_p)]


class _IoWhat(ctypes.Union):
    _fields_ = [("offset_bytes", c_uint64), ("niov", c_uint64)]


class Io(ctypes.Structure):
    """struct nvmfr_io"""
    _anonymous_ = ("_where", "_what")
    _fields_ = [("op", c_uint8), ("reserved0", c_uint8), ("flags", c_uint16), ("nsid", c_uint32),
                ("lba", c_uint64), ("nblocks", c_uint64), ("_where", _IoWhere),
                ("_what", _IoWhat), ("user_data", c_uint64), ("reserved1", c_uint64 * 2)]


class Completion(ctypes.Structure):
    """struct nvmfr_completion"""
    _fields_ = [("user_data", c_uint64), ("qpair_data", c_uint64), ("result", c_int32),
                ("status", c_uint16), ("flags", c_uint16), ("cqe_result", c_uint64)]


class Cmd(ctypes.Structure):
    """struct nvmfr_cmd"""
    _fields_ = [("opcode", c_uint8), ("reserved0", c_uint8 * 3), ("nsid", c_uint32),
                ("cdw2", c_uint32), ("cdw3", c_uint32), ("cdw10", c_uint32), ("cdw11", c_uint32),
                ("cdw12", c_uint32), ("cdw13", c_uint32), ("cdw14", c_uint32),
                ("cdw15", c_uint32), ("timeout_ms", c_uint32), ("reserved1", c_uint32),
                ("reserved2", c_uint64 * 2)]


class Range(ctypes.Structure):
    """struct nvmfr_range"""
    _fields_ = [("lba", c_uint64), ("nblocks", c_uint64)]


class Reserve(ctypes.Structure):
    """struct nvmfr_reserve"""
    _fields_ = [("nsid", c_uint32), ("action", c_uint8), ("type", c_uint8), ("flags", c_uint16),
                ("key", c_uint64), ("other_key", c_uint64), ("reserved", c_uint64)]


class Reservation(ctypes.Structure):
    """struct nvmfr_reservation"""
    _fields_ = [("generation", c_uint32), ("registrants", c_uint16), ("type", c_uint8),
                ("persists", c_uint8)]


class Registrant(ctypes.Structure):
    """struct nvmfr_registrant"""
    _fields_ = [("key", c_uint64), ("hostid", c_uint8 * 16), ("cntlid", c_uint16),
                ("holds", c_uint8), ("reserved", c_uint8 * 5)]


class Smart(ctypes.Structure):
    """struct nvmfr_smart"""
    _fields_ = [("size", c_size_t), ("critical_warning", c_uint8), ("spare_percent", c_uint8),
                ("spare_threshold_percent", c_uint8), ("used_percent", c_uint8),
                ("endurance_warning", c_uint8), ("reserved", c_uint8),
                ("temperature_kelvin", c_uint16), ("sensor_kelvin", c_uint16 * 8),
                ("data_units_read", c_uint64 * 2), ("data_units_written", c_uint64 * 2),
                ("host_reads", c_uint64 * 2), ("host_writes", c_uint64 * 2),
                ("busy_minutes", c_uint64 * 2), ("power_cycles", c_uint64 * 2),
                ("power_on_hours", c_uint64 * 2), ("unsafe_shutdowns", c_uint64 * 2),
                ("media_errors", c_uint64 * 2), ("error_log_entries", c_uint64 * 2),
                ("warning_minutes", c_uint32), ("critical_minutes", c_uint32),
                ("thermal_transitions", c_uint32 * 2), ("thermal_seconds", c_uint32 * 2)]


class SoftOpts(ctypes.Structure):
    """struct nvmfr_soft_opts"""
    _fields_ = [("size", c_size_t), ("subnqn", c_char_p), ("flags", c_uint32),
                ("latency_us", c_uint32), ("sgls", c_uint32), ("ioccsz", c_uint32),
                ("iorcsz", c_uint32), ("nn", c_uint32), ("kato_min_ms", c_uint32),
                ("queue_entries", c_uint16), ("num_io_queues", c_uint16), ("maxcmd", c_uint16),
                ("icdoff", c_uint16), ("oncs", c_uint16), ("kas", c_uint16), ("mdts", c_uint8),
                ("mpsmin", c_uint8), ("msdbd", c_uint8), ("ready_timeout", c_uint8),
                ("ready_after_us", c_uint32), ("oaes", c_uint32), ("ana_groups", c_uint16),
                ("anatt", c_uint8), ("reserved", c_uint8 * 5)]


class SoftNsOpts(ctypes.Structure):
    """struct nvmfr_soft_ns_opts"""
    _fields_ = [("size", c_size_t), ("path", c_char_p), ("size_bytes", c_uint64),
                ("nsid", c_uint32), ("block_bytes", c_uint32), ("flags", c_uint32),
                ("ana_group", c_uint32)]


class SoftFault(ctypes.Structure):
    """struct nvmfr_soft_fault"""
    _fields_ = [("size", c_size_t), ("kind", c_uint32), ("qid", c_uint32), ("opcode", c_uint32),
                ("detail", c_uint32), ("skip", c_uint32), ("count", c_uint32), ("value", c_uint64)]


class SoftCounters(ctypes.Structure):
    """struct nvmfr_soft_counters"""
    _fields_ = [("size", c_size_t), ("commands", c_uint64), ("reads", c_uint64),
                ("writes", c_uint64), ("in_capsule_writes", c_uint64), ("bytes_moved", c_uint64),
                ("violations", c_uint64), ("connections", c_uint64), ("open_connections", c_uint64),
                ("max_outstanding", c_uint64), ("keep_alives", c_uint64)]


# What the test compares with the headers, both ways.
STRUCTS: Dict[str, Type[ctypes.Structure]] = {
    "nvmfr_host_opts": HostOpts, "nvmfr_ctrl_opts": CtrlOpts, "nvmfr_ctrl_info": CtrlInfo,
    "nvmfr_ns_info": NsInfo, "nvmfr_qpair_opts": QpairOpts, "nvmfr_qpair_info": QpairInfo,
    "nvmfr_qpair_stats": QpairStats, "nvmfr_latency": Latency, "nvmfr_ctrl_stats": CtrlStats,
    "nvmfr_loss": Loss, "nvmfr_group_opts": GroupOpts, "nvmfr_iov": Iov, "nvmfr_io": Io,
    "nvmfr_completion": Completion, "nvmfr_soft_opts": SoftOpts,
    "nvmfr_soft_ns_opts": SoftNsOpts, "nvmfr_soft_fault": SoftFault,
    "nvmfr_soft_counters": SoftCounters, "nvmfr_event": Event,
    "nvmfr_mpath_opts": MpathOpts, "nvmfr_mqpair_opts": MqpairOpts,
    "nvmfr_mqpair_info": MqpairInfo, "nvmfr_mqpair_path": MqpairPath,
    "nvmfr_discovery_record": DiscoveryRecord, "nvmfr_discovery_info": DiscoveryInfo,
    "nvmfr_cmd": Cmd, "nvmfr_range": Range, "nvmfr_smart": Smart,
    "nvmfr_reserve": Reserve, "nvmfr_reservation": Reservation, "nvmfr_registrant": Registrant,
}
ENUMS: Dict[str, Tuple[str, Type[enum.IntEnum]]] = {  # prefix in C, class here
    "nvmfr_log_level": ("NVMFR_LOG_", LogLevel),
    "nvmfr_host_flags": ("NVMFR_HOST_", HostFlag),  # type: ignore[dict-item]
    "nvmfr_access": ("NVMFR_ACCESS_", Access),  # type: ignore[dict-item]
    "nvmfr_state": ("NVMFR_STATE_", State),
    "nvmfr_retry": ("NVMFR_RETRY_", Retry),
    "nvmfr_ana_state": ("NVMFR_ANA_", AnaState),
    "nvmfr_mpath_policy": ("NVMFR_MPATH_", MpathPolicy),
    "nvmfr_op": ("NVMFR_OP_", Op),
    "nvmfr_qpair_flags": ("NVMFR_QPAIR_", QpairFlag),  # type: ignore[dict-item]
    "nvmfr_io_flags": ("NVMFR_IO_", IoFlag),  # type: ignore[dict-item]
    "nvmfr_soft_flags": ("NVMFR_SOFT_", SoftFlag),  # type: ignore[dict-item]
    "nvmfr_soft_ns_flags": ("NVMFR_SOFT_NS_", SoftNsFlag),  # type: ignore[dict-item]
    "nvmfr_soft_fault_kind": ("NVMFR_SOFT_FAULT_", SoftFaultKind),
    "nvmfr_event_type": ("NVMFR_EVENT_", EventType),
    "nvmfr_ns_change": ("NVMFR_NS_CHANGE_", NsChange),  # type: ignore[dict-item]
    "nvmfr_discover_flags": ("NVMFR_DISCOVER_", DiscoverFlag),  # type: ignore[dict-item]
    "nvmfr_soft_notice": ("NVMFR_SOFT_NOTICE_", SoftNotice),
    "nvmfr_feature_select": ("NVMFR_FEATURE_", FeatureSelect),
    "nvmfr_reserve_action": ("NVMFR_RESERVE_", ReserveAction),
    "nvmfr_reserve_type": ("NVMFR_RESERVE_", ReserveType),
    "nvmfr_reserve_flags": ("NVMFR_RESERVE_", ReserveFlag),  # type: ignore[dict-item]
    "nvmfr_log_page": ("NVMFR_LOG_PAGE_", LogPage),
    "nvmfr_log_flags": ("NVMFR_LOG_", LogFlag),  # type: ignore[dict-item]
}
MACROS: Dict[str, Any] = {
    "NVMFR_VERSION_MAJOR": VERSION_MAJOR, "NVMFR_VERSION_MINOR": VERSION_MINOR,
    "NVMFR_VERSION_PATCH": VERSION_PATCH, "NVMFR_SOFT_SUBNQN": SOFT_SUBNQN,
    "NVMFR_SOFT_PORTS": SOFT_PORTS, "NVMFR_SOFT_ANY": SOFT_ANY, "NVMFR_LATENCY_BITS": LATENCY_BITS,
    "NVMFR_LATENCY_VALUE_BITS": LATENCY_VALUE_BITS, "NVMFR_LATENCY_BUCKETS": LATENCY_BUCKETS,
    "NVMFR_ADMIN_MAX_BYTES": ADMIN_MAX_BYTES,
    "NVMFR_DEALLOCATE_RANGE_BYTES": DEALLOCATE_RANGE_BYTES,
    "NVMFR_COPY_RANGE_BYTES": COPY_RANGE_BYTES, "NVMFR_RESERVE_KEY_BYTES": RESERVE_KEY_BYTES,
}

_p = c_void_p
_out = POINTER(c_void_p)  # where a creator puts the new object

# Name: what it returns, what it takes.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "nvmfr_version": (c_uint32, []),
    "nvmfr_probe": (c_int, [c_char_p, c_size_t]),
    "nvmfr_strerror": (c_char_p, [c_int]),
    "nvmfr_status_string": (c_char_p, [c_uint16]),
    "nvmfr_last_error": (c_char_p, []),
    "nvmfr_host_opts_init": (None, [POINTER(HostOpts), c_size_t]),
    "nvmfr_host_create": (c_int, [POINTER(HostOpts), _out]),
    "nvmfr_host_poll": (c_int, [_p]),
    "nvmfr_host_fd": (c_int, [_p]),
    "nvmfr_host_timeout_ms": (c_int, [_p]),
    "nvmfr_host_nqn": (c_char_p, [_p]),
    "nvmfr_host_destroy": (None, [_p]),
    "nvmfr_buffer_register": (c_int, [_p, c_void_p, c_size_t, c_uint32, _out]),
    "nvmfr_buffer_register_dmabuf": (c_int, [_p, c_int, c_uint64, c_size_t, c_uint32, _out]),
    "nvmfr_buffer_alloc": (c_int, [_p, c_size_t, c_int, _out]),
    "nvmfr_buffer_addr": (c_void_p, [_p]),
    "nvmfr_buffer_size": (c_size_t, [_p]),
    "nvmfr_buffer_release": (c_int, [_p]),
    "nvmfr_ctrl_opts_init": (None, [POINTER(CtrlOpts), c_size_t]),
    "nvmfr_connect": (c_int, [_p, POINTER(CtrlOpts), _out]),
    "nvmfr_ctrl_wait": (c_int, [_p, c_int]),
    "nvmfr_ctrl_state": (c_int, [_p]),
    "nvmfr_ctrl_info": (c_int, [_p, POINTER(CtrlInfo)]),
    "nvmfr_ctrl_dump": (c_int, [_p, c_char_p, c_size_t]),
    "nvmfr_host_events": (c_int, [_p, POINTER(Event), c_uint]),
    "nvmfr_host_event_fd": (c_int, [_p]),
    "nvmfr_discover": (c_int, [_p, POINTER(CtrlOpts), c_uint32, _out]),
    "nvmfr_discovery_refresh": (c_int, [_p]),
    "nvmfr_discovery_ctrl": (c_void_p, [_p]),
    "nvmfr_discovery_info": (c_int, [_p, POINTER(DiscoveryInfo)]),
    "nvmfr_discovery_get": (c_int, [_p, c_uint32, POINTER(DiscoveryRecord)]),
    "nvmfr_discovery_release": (None, [_p]),
    "nvmfr_pool_create": (c_int, [_p, POINTER(CtrlOpts), POINTER(CtrlOpts), _out]),
    "nvmfr_pool_update": (c_int, [_p]),
    "nvmfr_pool_timeout_ms": (c_int, [_p]),
    "nvmfr_pool_ctrl": (c_void_p, [_p, c_uint32]),
    "nvmfr_pool_release": (c_int, [_p]),
    "nvmfr_soft_ns_resize": (c_int, [_p, c_uint32, c_uint64]),
    "nvmfr_soft_reserve": (c_int, [_p, POINTER(Reserve), POINTER(c_uint8)]),
    "nvmfr_soft_notify": (c_int, [_p, c_uint32]),
    "nvmfr_soft_port_set": (c_int, [_p, c_uint32, c_uint32]),
    "nvmfr_soft_ana_set": (c_int, [_p, c_uint32, c_uint32, c_uint32]),
    "nvmfr_soft_discovery_set": (c_int, [_p, c_void_p, c_uint32]),
    "nvmfr_ns_next": (c_uint32, [_p, c_uint32]),
    "nvmfr_ns_info": (c_int, [_p, c_uint32, POINTER(NsInfo)]),
    "nvmfr_disconnect": (c_int, [_p, c_int]),
    "nvmfr_qpair_opts_init": (None, [POINTER(QpairOpts), c_size_t]),
    "nvmfr_qpair_create": (c_int, [_p, POINTER(QpairOpts), _out]),
    "nvmfr_qpair_wait": (c_int, [_p, c_int]),
    "nvmfr_qpair_info": (c_int, [_p, POINTER(QpairInfo)]),
    "nvmfr_qpair_fd": (c_int, [_p]),
    "nvmfr_qpair_arm": (c_int, [_p]),
    "nvmfr_qpair_destroy": (None, [_p]),
    "nvmfr_qpair_stats": (c_int, [_p, POINTER(QpairStats)]),
    "nvmfr_qpair_latency": (c_int, [_p, c_uint32, POINTER(Latency)]),
    "nvmfr_latency_percentile": (c_uint64, [POINTER(Latency), c_double]),
    "nvmfr_ctrl_stats": (c_int, [_p, POINTER(CtrlStats)]),
    "nvmfr_ctrl_loss": (c_int, [_p, c_uint32, POINTER(Loss)]),
    "nvmfr_group_opts_init": (None, [POINTER(GroupOpts), c_size_t]),
    "nvmfr_group_create": (c_int, [_p, POINTER(GroupOpts), _out]),
    "nvmfr_group_fd": (c_int, [_p]),
    "nvmfr_group_arm": (c_int, [_p]),
    "nvmfr_group_destroy": (c_int, [_p]),
    "nvmfr_group_poll": (c_int, [_p, c_void_p, c_uint]),
    "nvmfr_group_wait": (c_int, [_p, c_void_p, c_uint, c_uint, c_int]),
    "nvmfr_read": (c_int, [_p, c_uint32, c_uint64, c_uint64, _p, c_uint64, c_uint64]),
    "nvmfr_write": (c_int, [_p, c_uint32, c_uint64, c_uint64, _p, c_uint64, c_uint64]),
    "nvmfr_submit": (c_int, [_p, c_void_p, c_uint]),
    "nvmfr_prepare": (c_int, [_p, c_void_p, c_uint, _out]),
    "nvmfr_post": (c_int, [_p, c_uint, c_uint]),
    "nvmfr_prepared_release": (None, [_p]),
    "nvmfr_poll": (c_int, [_p, c_void_p, c_uint]),
    "nvmfr_wait": (c_int, [_p, c_void_p, c_uint, c_uint, c_int]),
    "nvmfr_submit_and_wait": (c_int, [_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint, c_uint,
                                      c_int]),
    "nvmfr_pread": (c_int, [_p, c_uint32, c_uint64, _p, c_uint64, c_uint64, c_int]),
    "nvmfr_admin": (c_int, [_p, POINTER(Cmd), c_void_p, c_size_t, POINTER(c_uint64),
                            POINTER(c_uint16)]),
    "nvmfr_identify": (c_int, [_p, c_uint8, c_uint32, c_uint16, c_uint8, c_void_p]),
    "nvmfr_get_feature": (c_int, [_p, c_uint8, c_uint32, c_uint32, c_uint32, c_void_p, c_size_t,
                                  POINTER(c_uint32)]),
    "nvmfr_set_feature": (c_int, [_p, c_uint8, c_int, c_uint32, c_uint32, c_void_p, c_size_t,
                                  POINTER(c_uint32)]),
    "nvmfr_get_log": (c_int, [_p, c_uint8, c_uint32, c_uint32, c_uint64, c_void_p, c_size_t]),
    "nvmfr_read_smart": (c_int, [_p, c_uint32, POINTER(Smart)]),
    "nvmfr_submit_cmd": (c_int, [_p, POINTER(Cmd), _p, c_uint64, c_uint64, c_uint64]),
    "nvmfr_deallocate": (c_int, [_p, c_uint32, POINTER(Range), c_uint, _p, c_uint64, c_uint64]),
    "nvmfr_copy": (c_int, [_p, c_uint32, c_uint64, POINTER(Range), c_uint, _p, c_uint64,
                           c_uint64]),
    "nvmfr_compare_and_write": (c_int, [_p, c_void_p]),
    "nvmfr_reserve": (c_int, [_p, POINTER(Reserve), _p, c_uint64, c_uint64]),
    "nvmfr_report_reservations": (c_int, [_p, c_uint32, _p, c_uint64, c_uint64, c_uint64]),
    "nvmfr_parse_reservations": (c_int, [c_void_p, c_size_t, POINTER(Reservation),
                                         POINTER(Registrant), c_uint]),
    "nvmfr_mpath_opts_init": (None, [POINTER(MpathOpts), c_size_t]),
    "nvmfr_mpath_create": (c_int, [_p, POINTER(MpathOpts), _out]),
    "nvmfr_mpath_add": (c_int, [_p, _p]),
    "nvmfr_mpath_remove": (c_int, [_p, _p]),
    "nvmfr_mpath_dump": (c_int, [_p, c_char_p, c_size_t]),
    "nvmfr_mpath_destroy": (c_int, [_p]),
    "nvmfr_mqpair_opts_init": (None, [POINTER(MqpairOpts), c_size_t]),
    "nvmfr_mqpair_create": (c_int, [_p, POINTER(MqpairOpts), _out]),
    "nvmfr_mqpair_submit": (c_int, [_p, c_void_p, c_uint32]),
    "nvmfr_mqpair_poll": (c_int, [_p, c_void_p, c_uint32]),
    "nvmfr_mqpair_wait": (c_int, [_p, c_void_p, c_uint32, c_uint32, c_int]),
    "nvmfr_mqpair_fd": (c_int, [_p]),
    "nvmfr_mqpair_arm": (c_int, [_p]),
    "nvmfr_mqpair_info": (c_int, [_p, POINTER(MqpairInfo)]),
    "nvmfr_mqpair_path": (c_int, [_p, c_uint32, POINTER(MqpairPath)]),
    "nvmfr_mqpair_destroy": (None, [_p]),
    "nvmfr_soft_opts_init": (None, [POINTER(SoftOpts), c_size_t]),
    "nvmfr_soft_target_create": (c_int, [_p, c_char_p, POINTER(SoftOpts), _out]),
    "nvmfr_soft_target_destroy": (None, [_p]),
    "nvmfr_soft_ns_opts_init": (None, [POINTER(SoftNsOpts), c_size_t]),
    "nvmfr_soft_ns_add": (c_int, [_p, POINTER(SoftNsOpts)]),
    "nvmfr_soft_ns_remove": (c_int, [_p, c_uint32]),
    "nvmfr_soft_fault_init": (None, [POINTER(SoftFault), c_size_t]),
    "nvmfr_soft_fault_add": (c_int, [_p, POINTER(SoftFault)]),
    "nvmfr_soft_fault_clear": (None, [_p]),
    "nvmfr_soft_patch_identify": (c_int, [_p, c_uint32, c_uint32, c_uint32, c_void_p, c_uint32]),
    "nvmfr_soft_drop": (None, [_p]),
    "nvmfr_soft_read_counters": (c_int, [_p, POINTER(SoftCounters)]),
    "nvmfr_soft_last_violation": (None, [_p, c_char_p, c_size_t]),
    "nvmfr_soft_clock_freeze": (c_int, [_p]),
    "nvmfr_soft_clock_advance_us": (c_int, [_p, c_uint64]),
}
