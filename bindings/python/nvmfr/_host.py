# SPDX-License-Identifier: BSD-3-Clause
"""Host, controller, namespace: who we are, whom we talk to, what is there."""
from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import json
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Set

from . import _abi, _buffer, _dlpack, _events
from ._abi import Access, DiscoverFlag, HostFlag, IoFlag, LogLevel, Op, State
from ._buffer import Buffer, BufferHandle
from ._core import Closing, Handle, inherited, milliseconds
from ._errors import BusyError, TimeOutError
from ._events import Discovery, DiscoveryHandle, Event
from ._lib import check, completion_error, fail, grown_text, lib
from ._queue import (_SLICE_MS, Batch, Completions, Group, GroupHandle, QpairHandle, QueuePair)
from ._soft import SoftTarget, TargetHandle, make_target

if TYPE_CHECKING:
    from ._aio import AsyncQueue

LogFunction = Callable[[LogLevel, str], None]
_live: "weakref.WeakSet[HostHandle]" = weakref.WeakSet()


class HostHandle(Handle):
    """A host and everything that lives on it. Its end ends all of that, in the right order."""
    __slots__ = ("controllers", "groups", "targets", "discoveries", "buffers", "log", "ending",
                 "_sweeping")

    def __init__(self, pointer: int, log: Any) -> None:
        super().__init__("this host", pointer)
        self.controllers: Set[CtrlHandle] = set()
        self.groups: Set[GroupHandle] = set()
        self.targets: Set[TargetHandle] = set()
        self.discoveries: Set[DiscoveryHandle] = set()
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

    def anything_in_flight(self) -> bool:
        """Whether a queue pair has I/O in flight, or is in a call, which may be about to."""
        for controller in list(self.controllers):
            for qpair in list(controller.qpairs):
                try:
                    with qpair as pointer:
                        info = _abi.QpairInfo(size=ctypes.sizeof(_abi.QpairInfo))
                        check(lib().nvmfr_qpair_info(pointer, ctypes.byref(info)))
                        if info.in_flight:
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
        if any(discovery.in_use() for discovery in self.discoveries):
            raise self.busy("has a discovery in a call of another thread")

    def end(self, timeout_ms: int) -> None:
        """Ends queue pairs, groups, controllers, targets, buffers, then the host."""
        if self.closed or self.ending:
            return
        if inherited(self.generation):
            self.take()
            return
        self._check_idle()
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


class CtrlHandle(Handle):
    """A controller and its queue pairs."""
    __slots__ = ("host", "qpairs")

    def __init__(self, host: HostHandle, pointer: int) -> None:
        super().__init__("this controller", pointer)
        self.host = host
        self.qpairs: Set[QpairHandle] = set()
        host.controllers.add(self)

    def anything_in_use(self) -> bool:
        """Whether another thread is in a call on it or on a queue pair of it."""
        return self.in_use() or any(qpair.in_use() for qpair in list(self.qpairs))

    def end(self, timeout_ms: int) -> None:
        """Ends its queue pairs, then the association."""
        if self.closed:
            return
        if inherited(self.generation):
            self.take()
            return
        for qpair in list(self.qpairs):
            qpair.destroy()
        self.qpairs.clear()
        pointer = self.take()
        if pointer:
            result = lib().nvmfr_disconnect(pointer, timeout_ms)
            if result < 0:
                error = fail(result)
                self.put_back(pointer)
                raise error
        self.host.controllers.discard(self)


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
                wait: bool = True, **options: Any) -> "Controller":
        """A controller: nvmf+rdma://ADDRESS[:PORT]/SUBNQN, nvmf+soft:?size=64M and others.

        timeout  seconds; None: as long as connect_timeout_ms
        wait     False: returns at once; Controller.wait_live() tells how it ended
        options  fields of nvmfr_ctrl_opts: traddr, subnqn, kato_ms, num_io_queues, ...

        Raises what ended the connect: NotFoundError, LostError, DeniedError, TimeOutError, ...
        """
        opts = _ctrl_opts(uri, options)
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

        persistent  stays connected: an event DISCOVERY_CHANGED of it comes when the log changes
        referrals   False: reads the one log only
        options     fields of nvmfr_ctrl_opts
        """
        opts = _ctrl_opts(uri, options)
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


def _ctrl_opts(uri: Optional[str], options: Dict[str, Any]) -> _abi.CtrlOpts:
    opts = _abi.CtrlOpts()
    lib().nvmfr_ctrl_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
    set_options(opts, dict(options, uri=uri) if uri is not None else options)
    return opts


def set_options(opts: Any, options: Any) -> None:
    """Fills the fields of an options struct by name. Raises TypeError for one that it has not."""
    fields = dict(type(opts)._fields_)
    for name, value in options.items():
        if name not in fields or name in ("size", "reserved"):
            raise TypeError(f"no option {name!r}; there are: "
                            + ", ".join(sorted(set(fields) - {"size", "reserved"})))
        if value is None:
            continue
        bits = 8 * ctypes.sizeof(fields[name])
        if hasattr(value, "__fspath__"):
            value = os.fspath(value)
        if isinstance(value, str):
            value = os.fsencode(value)
        if isinstance(value, bytes) and b"\0" in value:
            raise ValueError(f"{name} has a NUL byte in it")
        if isinstance(value, int) and not 0 <= value < 1 << bits:
            raise ValueError(f"{name} is {value}: it has {bits} bits")
        setattr(opts, name, value)


class Controller(Closing):
    """One association with one controller. Made by Host.connect(). Threads: any."""

    def __init__(self, host: Host, handle: CtrlHandle) -> None:
        self.host = host
        self._handle = handle

    def wait_live(self, timeout: Optional[float] = None) -> None:
        """Waits, without the GIL, until it is live. Raises what ended it, or TimeOutError."""
        left = milliseconds(timeout)
        with self._handle as pointer:
            while True:
                slice_ms = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
                result = lib().nvmfr_ctrl_wait(pointer, slice_ms)
                if result == 0:
                    return
                error = fail(result)
                left = left if left < 0 else left - slice_ms
                connecting = lib().nvmfr_ctrl_state(pointer) == State.CONNECTING
                if result != -errno.ETIMEDOUT or left == 0 or not connecting:
                    raise error

    @property
    def state(self) -> State:
        """As now."""
        with self._handle as pointer:
            return State(check(lib().nvmfr_ctrl_state(pointer)))

    @property
    def info(self) -> _abi.CtrlInfo:
        """What is known: model, serial, subnqn, max_xfer_bytes, max_queue_depth, ..."""
        info = _abi.CtrlInfo(size=ctypes.sizeof(_abi.CtrlInfo))
        with self._handle as pointer:
            check(lib().nvmfr_ctrl_info(pointer, ctypes.byref(info)))
        return info

    def dump(self) -> Dict[str, Any]:
        """All that the library knows of it, in any state: target, state with its step or reason,
        limits, queue pairs, namespaces. Names stay, new ones may come. For logs: json.dumps()."""
        with self._handle as pointer:
            text = grown_text(functools.partial(lib().nvmfr_ctrl_dump, pointer))
        known: Dict[str, Any] = json.loads(text)
        return known

    @property
    def closed(self) -> bool:
        """Whether close() was done."""
        return self._handle.closed

    def nsids(self) -> Iterator[int]:
        """The IDs of the active namespaces."""
        nsid = 0
        while True:
            with self._handle as pointer:
                nsid = lib().nvmfr_ns_next(pointer, nsid)
            if nsid == 0:
                return
            yield nsid

    def first_nsid(self) -> int:
        """The first active namespace. Raises NotFoundError if there is none."""
        with self._handle as pointer:
            nsid: int = lib().nvmfr_ns_next(pointer, 0)
        if not nsid:
            raise _no_namespace()
        return nsid

    def ns_info(self, nsid: int) -> _abi.NsInfo:
        """What is known of a namespace: capacity_blocks, block_bytes, read_only, nguid, ..."""
        info = _abi.NsInfo(size=ctypes.sizeof(_abi.NsInfo))
        with self._handle as pointer:
            check(lib().nvmfr_ns_info(pointer, nsid, ctypes.byref(info)))
        return info

    def namespace(self, nsid: int = 0, qpair: Optional[QueuePair] = None) -> "Namespace":
        """A namespace for simple reads and writes; 0: the first. Without qpair it makes a queue
        pair of its own at the first, and any thread may call it, one after the other."""
        return Namespace(self, nsid or self.first_nsid(), qpair)

    def queue_pair(self, depth: int = 128, *, group: Optional[Group] = None, wait: bool = True,
                   **options: Any) -> QueuePair:
        """A queue pair for up to depth commands in flight, of the calling thread.

        group    to be polled with others
        wait     False: returns at once; QueuePair.wait_live() tells how it ended
        options  fields of nvmfr_qpair_opts: io_timeout_ms, qpair_data, max_descriptors
        """
        opts = _abi.QpairOpts()
        lib().nvmfr_qpair_opts_init(ctypes.byref(opts), ctypes.sizeof(opts))
        set_options(opts, dict(options, depth=depth))
        out = ctypes.c_void_p()
        with self._handle as pointer:
            if group is not None:
                with group._handle as opts.group:
                    check(lib().nvmfr_qpair_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
            else:
                check(lib().nvmfr_qpair_create(pointer, ctypes.byref(opts), ctypes.byref(out)))
            handle = QpairHandle(out.value or 0, group._handle if group is not None else None)
            self._handle.qpairs.add(handle)
        qpair = QueuePair(self, handle)
        if wait:
            try:
                qpair.wait_live()
            except BaseException:
                qpair.close()
                raise
        return qpair

    def async_queue(self, depth: int = 128, **options: Any) -> "AsyncQueue":
        """A queue pair for `await`, in the running event loop; see AsyncQueue."""
        from ._aio import AsyncQueue
        return AsyncQueue(self.queue_pair(depth, **options))

    def close(self, timeout_ms: int = 1000) -> None:
        """Ends its queue pairs and the association: orderly within timeout_ms, else abruptly."""
        if self._handle.anything_in_use() and not inherited(self._handle.generation):
            raise self._handle.busy("or a queue pair of it is in a call of another thread")
        self._handle.end(timeout_ms)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed:
            try:
                handle.end(0)
            except BusyError:
                pass


def _no_namespace() -> Exception:
    from ._errors import NotFoundError
    return NotFoundError(errno.ENOENT, "the controller has no active namespace")


class Namespace:
    """A namespace in the simple forms: each call waits for its I/O. For many at once, use batches.

    Any object with a writable buffer is registered for the call, which pins its pages: for more
    than a few calls give a Buffer. Nothing is copied but what pread() says.
    """

    def __init__(self, controller: Controller, nsid: int, qpair: Optional[QueuePair]) -> None:
        self.controller = controller
        self.nsid = nsid
        info = controller.ns_info(nsid)
        self.block_bytes: int = info.block_bytes
        self.capacity_blocks: int = info.capacity_blocks
        self.read_only = bool(info.read_only)
        self._given = qpair
        self._own: Optional[QueuePair] = None
        self._lock = threading.Lock()
        self._batch = Batch(1)
        self._done = Completions(1)

    def __repr__(self) -> str:
        return (f"<nvmfr.Namespace {self.nsid}: {self.capacity_blocks} blocks of "
                f"{self.block_bytes} bytes>")

    @property
    def info(self) -> _abi.NsInfo:
        """What is known of it (nvmfr_ns_info), as now."""
        return self.controller.ns_info(self.nsid)

    @property
    def queue_pair(self) -> QueuePair:
        """The one that it uses."""
        if self._given is not None:
            return self._given
        if self._own is None or self._own.closed:
            self._own = self.controller.queue_pair(16)
        return self._own

    def read(self, lba: int, nblocks: int, timeout: Optional[float] = None) -> bytearray:
        """nblocks blocks from lba on, in a new bytearray where the target put them."""
        if nblocks < 1:
            raise ValueError("1 block or more")
        data = bytearray(nblocks * self.block_bytes)
        self.readinto(data, lba, timeout)
        return data

    def readinto(self, target: Any, lba: int, timeout: Optional[float] = None) -> int:
        """Fills target, a Buffer or a writable buffer of whole blocks, from lba on. Returns bytes."""
        return self._move(Op.READ, target, lba, 0, timeout)

    def write(self, source: Any, lba: int, fua: bool = False,
              timeout: Optional[float] = None) -> int:
        """Writes whole blocks from lba on. Read-only sources (bytes) are copied. Returns bytes.

        fua: durable at completion, past any volatile cache.
        """
        if not isinstance(source, Buffer):
            try:
                if memoryview(source).readonly:
                    source = bytearray(source)
            except TypeError:
                pass  # a tensor
        return self._move(Op.WRITE, source, lba, int(IoFlag.FUA) if fua else 0, timeout)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Makes the writes that completed durable."""
        with self._lock:
            self._batch.fill(Op.FLUSH, self.nsid, 0, 0, None)
            self._run(timeout)

    def pread(self, target: Any, size_bytes: int, offset_bytes: int,
              timeout: Optional[float] = None) -> int:
        """Fills target with size_bytes from byte offset_bytes of the namespace on, any of each.

        Whole blocks go straight to their place; an unaligned head and tail are copied, which
        queue_pair.info.bounced_bytes counts. Returns size_bytes.
        """
        if offset_bytes < 0 or size_bytes < 0:
            raise ValueError("offset and size are 0 bytes or more")
        with self._lock:
            buffer = self._buffer(target, Access.TARGET)
            try:
                self.queue_pair.pread(buffer, size_bytes, offset_bytes, nsid=self.nsid,
                                      timeout=timeout)
            finally:
                self._let_go(buffer, target)
        return size_bytes

    def _buffer(self, memory: Any, access: int) -> Buffer:
        if isinstance(memory, Buffer):
            return memory
        return self.controller.host.register(memory, access)

    @staticmethod
    def _let_go(buffer: Buffer, memory: Any) -> None:
        if buffer is not memory:
            try:
                buffer.release()
            except BusyError:
                pass  # the wait ended before its I/O: the host releases it later

    def _move(self, op: Op, memory: Any, lba: int, flags: int, timeout: Optional[float]) -> int:
        with self._lock:
            access = Access.TARGET if op == Op.READ else Access.SOURCE
            buffer = self._buffer(memory, access)
            try:
                if len(buffer) % self.block_bytes:
                    raise ValueError(f"{len(buffer)} bytes are not whole blocks of "
                                     f"{self.block_bytes}: pread() takes any range")
                if lba < 0:
                    raise ValueError("lba is 0 or more")
                self._batch.fill(op, self.nsid, lba, len(buffer) // self.block_bytes, buffer,
                                 flags=flags)
                self._run(timeout)
                return len(buffer)
            finally:
                self._batch.clear()
                self._let_go(buffer, memory)

    def _run(self, timeout: Optional[float]) -> None:
        qpair = self.queue_pair
        if qpair.info.in_flight:
            raise BusyError(errno.EBUSY, "the simple forms need a queue pair with no I/O in flight")
        qpair.submit(self._batch)
        if not qpair.wait(self._done, 1, timeout):
            if qpair is self._own:
                qpair.close()  # the answer must not be taken for a later one's
            raise TimeOutError(errno.ETIMEDOUT, f"the I/O has not ended within {timeout} s")
        done = self._done[0]
        if done.result:
            raise completion_error(done.result, done.status)


__all__: List[str] = ["Controller", "Host", "Namespace"]
