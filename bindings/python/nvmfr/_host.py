# SPDX-License-Identifier: BSD-3-Clause
"""Host: who we are, and everything that lives on it."""
from __future__ import annotations

import atexit
import ctypes
import weakref
from typing import Any, Callable, List, Mapping, Optional, Set

from . import _abi, _buffer, _dlpack, _events
from ._abi import Access, DiscoverFlag, HostFlag, LogLevel
from ._buffer import Buffer, BufferHandle
from ._controller import Controller, CtrlHandle
from ._core import Closing, Handle, inherited
from ._ctrlpool import Pool, PoolHandle, make_pool
from ._errors import BusyError
from ._events import Discovery, DiscoveryHandle, Event
from ._lib import check, fail, lib
from ._options import ctrl_opts
from ._paths import MpathHandle, MultiPath, make_multipath
from ._queue import Group, GroupHandle, QueueHandle
from ._soft import SoftTarget, TargetHandle, make_target

LogFunction = Callable[[LogLevel, str], None]
_live: "weakref.WeakSet[HostHandle]" = weakref.WeakSet()


class HostHandle(Handle):
    """A host and everything that lives on it. Its end ends all of that, in the right order."""
    __slots__ = ("controllers", "groups", "targets", "discoveries", "mpaths", "pools", "buffers",
                 "log", "ending", "_sweeping")

    def __init__(self, pointer: int, log: Any) -> None:
        super().__init__("this host", pointer)
        self.controllers: Set[CtrlHandle] = set()
        self.groups: Set[GroupHandle] = set()
        self.targets: Set[TargetHandle] = set()
        self.discoveries: Set[DiscoveryHandle] = set()
        self.mpaths: Set[MpathHandle] = set()
        self.pools: Set[PoolHandle] = set()
        self.buffers: Set[BufferHandle] = set()
        self.log = log  # the C function must outlive the host
        self.ending = False
        self._sweeping = False
        _live.add(self)

    def add_buffer(self, buffer: BufferHandle) -> None:
        """From now on this host knows it."""
        self.buffers.add(buffer)

    def drop_buffer(self, buffer: BufferHandle) -> None:
        """It was released."""
        self.buffers.discard(buffer)

    def _queues(self) -> List[QueueHandle]:
        queues: List[QueueHandle] = []
        for controller in list(self.controllers):
            queues += controller.qpairs
        for mpath in list(self.mpaths):
            queues += mpath.queues
        return queues

    def anything_in_flight(self) -> bool:
        """Whether a queue pair has I/O in flight, or is in a call, which may be about to."""
        for queue in self._queues():
            try:
                with queue as pointer:
                    if queue.in_flight(pointer):
                        return True
            except BusyError:
                return True
            except ValueError:
                continue
        return False

    def sweep(self) -> None:
        """Releases buffers that nobody has any more, and ends the host when they were the last."""
        if self._sweeping or inherited(self.generation):
            return
        self._sweeping = True
        try:
            _dlpack.sweep()
            for buffer in list(self.buffers):
                if buffer.released and not (buffer.memory and buffer.memory()):
                    try:
                        buffer.finish()
                    except BusyError:
                        pass  # in a call of another thread: next time
        finally:
            self._sweeping = False
        if self.ending and not self.buffers:
            self._destroy()

    def _check_idle(self) -> None:
        if self.in_use():
            raise self.busy("is in a call of another thread")
        for controller in self.controllers:
            if controller.anything_in_use():
                raise self.busy("has a controller or queue pair in a call of another thread")
        if any(mpath.anything_in_use() for mpath in self.mpaths):
            raise self.busy("has a multipath or a queue of one in a call of another thread")
        if any(handle.in_use() for handle in (*self.discoveries, *self.pools)):
            raise self.busy("has a discovery or pool in a call of another thread")

    def end(self, timeout_ms: int) -> None:
        """Ends queue pairs, paths, groups, controllers, targets, buffers, then the host."""
        if self.closed or self.ending:
            return
        if inherited(self.generation):
            self.take()
            return
        self._check_idle()
        for mpath in list(self.mpaths):
            mpath.end()
        for pool in list(self.pools):
            pool.end()
        for controller in list(self.controllers):
            controller.end(timeout_ms)
        for group in list(self.groups):
            group.destroy()
        for discovery in list(self.discoveries):
            discovery.destroy()
        for target in list(self.targets):
            target.destroy()
        self.groups.clear()
        self.controllers.clear()
        self.discoveries.clear()
        self.targets.clear()
        for buffer in self.buffers:
            buffer.released = True
            for batch in list(buffer.batches):
                batch._lose(buffer)
        self.ending = True
        self.sweep()

    def _destroy(self) -> None:
        pointer = self.take()
        _live.discard(self)
        if pointer:
            lib().nvmfr_host_destroy(pointer)


@atexit.register
def _end_hosts() -> None:
    """While Python still runs: a service thread must not call a log function after it."""
    for host in list(_live):
        try:
            host.end(0)
            host.sweep()
        except BusyError:
            pass  # a daemon thread is in a call: the system ends both


def _log_function(log: LogFunction) -> Any:
    def call(_: Any, level: int, message: bytes) -> None:
        log(LogLevel(level), message.decode("utf-8", "replace"))
    return _abi.LOG_FN(call)


class Host(Closing):
    """Who we are: host NQN, devices, buffers and, unless manual, a service thread of the library's.

    hostnqn    None: /etc/nvme/hostnqn, else made from the machine id
    hostid     16 bytes; None: from the same place or derived
    log        called as log(level, message) from any thread, with a lock of the library's held: it
               must not call into this package, nor take long
    manual     no service thread: call poll() whenever fileno() is readable or timeout() is over

    Threads: any.
    """

    def __init__(self, hostnqn: Optional[str] = None, *, hostid: Optional[bytes] = None,
                 log: Optional[LogFunction] = None, log_level: LogLevel = LogLevel.WARN,
                 manual: bool = False) -> None:
        for ended in list(_live):
            ended.sweep()  # a tensor's end is seen only by looking
        opts = _abi.HostOpts()
        lib().nvmfr_host_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        if hostnqn is not None:
            opts.hostnqn = hostnqn.encode()
        if hostid is not None:
            opts.hostid[:] = list(hostid)
        opts.flags = int(HostFlag.MANUAL) if manual else 0
        opts.log_level = int(log_level)
        function = _log_function(log) if log else None
        if function:
            opts.log_fn = function
        out = ctypes.c_void_p()
        check(lib().nvmfr_host_create(ctypes.byref(opts), ctypes.byref(out)))
        self.manual = manual
        self._sources = _events.Sources()
        self._handle = HostHandle(out.value or 0, function)

    @property
    def nqn(self) -> str:
        """The host NQN in use."""
        with self._handle as pointer:
            return (lib().nvmfr_host_nqn(pointer) or b"").decode()

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed or self._handle.ending

    def _open(self) -> HostHandle:
        if self._handle.ending:
            raise ValueError("this host is closed")
        return self._handle

    # ---- memory

    def alloc(self, size_bytes: int, numa_node: int = -1) -> Buffer:
        """A buffer of zeroed, locked memory, on huge pages where there are any, near the device."""
        return self._kept(_buffer.alloc(self._open(), size_bytes, numa_node))

    def register(self, obj: Any, access: int = Access.BOTH) -> Buffer:
        """A buffer over the memory of obj: a bytearray, mmap, array, numpy array, CPU tensor,
        ctypes object, or anything else with a writable, contiguous buffer. Nothing is copied.

        Raises NoMemoryError at the memlock limit, UnsupportedError for a tensor of another device.
        """
        return self._kept(_buffer.register(self._open(), obj, int(access)))

    def register_dmabuf(self, fd: int, size_bytes: int, offset_bytes: int = 0,
                        access: int = Access.BOTH) -> Buffer:
        """A buffer over what a dma-buf stands for; fd stays the caller's. It has no views."""
        return self._kept(
            _buffer.register_dmabuf(self._open(), fd, offset_bytes, size_bytes, int(access)))

    def register_cuda(self, tensor: Any, access: int = Access.BOTH) -> Buffer:
        """A buffer over a contiguous CUDA tensor, by way of a dma-buf. Raises UnsupportedError
        where the driver, the device or the NIC cannot."""
        return self._kept(_buffer.register_cuda(self._open(), tensor, int(access)))

    def _kept(self, buffer: Buffer) -> Buffer:
        buffer.host = self
        return buffer

    # ---- others

    def connect(self, uri: Optional[str] = None, *, timeout: Optional[float] = None,
                wait: bool = True, **options: Any) -> Controller:
        """A controller: nvmf+rdma://ADDRESS[:PORT]/SUBNQN, nvmf+soft:?size=64M and others.

        timeout  seconds; None: as long as connect_timeout_ms
        wait     False: returns at once; Controller.wait_live() tells how it ended
        options  fields of nvmfr_ctrl_opts: traddr, subnqn, kato_ms, num_io_queues, ...

        Raises what ended the connect: NotFoundError, LostError, DeniedError, TimeOutError, ...
        """
        opts = ctrl_opts(uri, options)
        out = ctypes.c_void_p()
        with self._open() as pointer, self._sources.lock:
            check(lib().nvmfr_connect(pointer, ctypes.byref(opts), ctypes.byref(out)))
            controller = Controller(self, CtrlHandle(self._handle, out.value or 0))
            self._sources.add(out.value, controller)
        if wait:
            try:
                controller.wait_live(timeout)
            except BaseException:
                controller.close(0)
                raise
        return controller

    def discover(self, uri: Optional[str] = None, *, persistent: bool = False,
                 referrals: bool = True, **options: Any) -> Discovery:
        """Asks a discovery controller what there is, and waits for it, without the GIL, for as long
        as connect_timeout_ms for each log. A URI may lack the subsystem: nvmf+rdma://ADDRESS[:PORT].

        persistent  stays connected: an event DISCOVERY_CHANGED of it comes when the log changes, or
                    one that it refers to
        referrals   False: reads the one log only
        options     fields of nvmfr_ctrl_opts
        """
        opts = ctrl_opts(uri, options)
        flags = DiscoverFlag.PERSISTENT if persistent else DiscoverFlag(0)
        flags |= DiscoverFlag(0) if referrals else DiscoverFlag.NO_REFERRALS
        out = ctypes.c_void_p()
        with self._open() as pointer:
            check(lib().nvmfr_discover(pointer, ctypes.byref(opts), int(flags), ctypes.byref(out)))
            handle = DiscoveryHandle(out.value or 0)
            self._handle.discoveries.add(handle)
            discovery = Discovery(self, handle)
            with self._sources.lock:
                self._sources.add(lib().nvmfr_discovery_ctrl(out), discovery)
        return discovery

    def events(self, timeout: Optional[float] = 0) -> List[Event]:
        """What happened to controllers and namespaces, oldest first; each event comes once. [] if
        there is nothing after timeout seconds (None: no bound). The queue holds 256: what does not
        fit is lost, and an OVERFLOW stands in its place.

        With manual they arise in poll(): a timeout is refused.
        """
        if timeout != 0:
            if self.manual:
                raise ValueError("a manual host's events come of its poll(): wait for fileno()")
            _events.sleep(self.event_fileno(), timeout)
        return _events.fetch(self._handle, self._sources)

    def event_fileno(self) -> int:
        """A descriptor that is readable as long as events() has something, for any event loop."""
        with self._handle as pointer:
            return check(lib().nvmfr_host_event_fd(pointer))

    def group(self, max_qpairs: int = 64) -> Group:
        """A group, for queue pairs that one thread polls together."""
        opts = _abi.GroupOpts()
        lib().nvmfr_group_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        opts.max_qpairs = max_qpairs
        out = ctypes.c_void_p()
        with self._open() as pointer:
            check(lib().nvmfr_group_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
            handle = GroupHandle(out.value or 0)
            self._handle.groups.add(handle)
        return Group(self, handle)

    def multipath(self, *controllers: Controller, **options: Any) -> MultiPath:
        """Controllers of one subsystem as ways to the same namespaces; more can be added.

        options  fields of nvmfr_mpath_opts: policy (MpathPolicy), retry (Retry), no_path_timeout_ms
        """
        paths = make_multipath(self, self._open(), options)
        try:
            for controller in controllers:
                paths.add(controller)
        except BaseException:
            paths.close()
            raise
        return paths

    def pool(self, uri: str, each: Optional[Mapping[str, Any]] = None, **options: Any) -> Pool:
        """Connects to everything that a discovery controller lists, and stays so: see Pool. The
        controllers connect from then on.

        each     fields of nvmfr_ctrl_opts for them
        options  fields of nvmfr_ctrl_opts for the discovery controller
        """
        return make_pool(self, self._open(), uri, each or {}, options)

    def soft_target(self, name: str, **options: Any) -> SoftTarget:
        """An embedded target without namespaces, reached as nvmf+soft://NAME. options are fields of
        nvmfr_soft_opts."""
        handle = make_target(self._open(), name, options)
        self._handle.targets.add(handle)
        return SoftTarget(self, name, handle)

    # ---- manual mode

    def poll(self) -> None:
        """With manual: does what the service thread would do now."""
        with self._handle as pointer:
            check(lib().nvmfr_host_poll(pointer))

    def fileno(self) -> int:
        """With manual: readable when poll() has something to do."""
        with self._handle as pointer:
            return check(lib().nvmfr_host_fd(pointer))

    def timeout(self) -> Optional[float]:
        """Seconds until poll() is due even if the descriptor stays silent; None: no timer runs."""
        with self._handle as pointer:
            left = lib().nvmfr_host_timeout_ms(pointer)
        if left < -1:
            raise fail(left)
        return None if left == -1 else left / 1000

    def freeze_clock(self) -> None:
        """With manual, for tests: time passes by advance_clock() and in waits only."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_clock_freeze(pointer))

    def advance_clock(self, seconds: float) -> None:
        """Lets frozen time pass."""
        with self._handle as pointer:
            check(lib().nvmfr_soft_clock_advance_us(pointer, int(seconds * 1e6)))

    def close(self) -> None:
        """Ends it with all that is on it: queue pairs, groups, controllers (orderly, for up to a
        second), targets, buffers. Raises BusyError while another thread is in a call on one.
        Allocated memory that still has views lives until they end."""
        self._handle.end(1000)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            try:
                handle.end(0)
            except BusyError:
                pass
