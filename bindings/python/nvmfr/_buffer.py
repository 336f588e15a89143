# SPDX-License-Identifier: BSD-3-Clause
"""Buffer: registered memory that Python, numpy and torch see without a copy."""
from __future__ import annotations

import ctypes
import errno
import functools
import os
import weakref
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from . import _dlpack
from ._core import Closing, Handle, inherited
from ._errors import UnsupportedError
from ._lib import check, fail, lib

if TYPE_CHECKING:
    from ._host import HostHandle


@functools.lru_cache(maxsize=64)
def _memory_type(size_bytes: int) -> Any:
    """A ctypes array type; as a subclass its objects take attributes and weak references."""
    return type("_Memory", (ctypes.c_ubyte * size_bytes,), {})


def _of_tensor(obj: Any) -> Any:
    """Memory of a torch tensor (or what has its methods); holds the tensor."""
    device = getattr(obj.device, "type", str(obj.device))
    if device != "cpu":
        raise UnsupportedError(
            errno.EOPNOTSUPP,
            f"a tensor on {obj.device}: its memory is not the CPU's. Export it as a dma-buf and "
            "give that to Host.register_dmabuf(), or use Host.register_cuda()")
    if not obj.is_contiguous():
        raise ValueError("a tensor that is not contiguous: register tensor.contiguous()")
    size = obj.numel() * obj.element_size()
    if size == 0:
        raise ValueError("an empty tensor cannot be registered")
    memory = _memory_type(size).from_address(obj.data_ptr())
    memory.keep = obj
    return memory


def memory_of(obj: Any) -> Any:
    """A ctypes array over the bytes of a writable, contiguous exporter, which it keeps alive."""
    if all(hasattr(obj, name) for name in ("data_ptr", "numel", "element_size", "is_contiguous")):
        return _of_tensor(obj)
    try:
        view = memoryview(obj)
    except TypeError:
        raise TypeError(f"a {type(obj).__name__} has no writable buffer: give a bytearray, mmap, "
                        "array, numpy array or CPU tensor") from None
    if view.readonly:
        raise ValueError(f"the buffer of the {type(obj).__name__} is read-only: reads could not "
                         "land in it, and Python gives no address of it; copy it into a bytearray")
    if not view.c_contiguous:
        raise ValueError(f"the {type(obj).__name__} is not contiguous: register a contiguous copy")
    if "O" in view.format:
        raise TypeError(f"the {type(obj).__name__} holds Python objects: reads would overwrite their addresses")
    if view.nbytes == 0:
        raise ValueError(f"an empty {type(obj).__name__} cannot be registered")
    return _memory_type(view.nbytes).from_buffer(obj)


class BufferHandle(Handle):
    """A registration, and what must live as long as it does."""
    __slots__ = ("host", "exporter", "allocated", "memory", "address", "size", "released",
                 "batches", "prepared")

    def __init__(self, host: "HostHandle", pointer: int, exporter: Any, allocated: bool) -> None:
        super().__init__("this buffer", pointer)
        self.host = host
        self.exporter = exporter  # a ctypes array over memory that is not the library's
        self.allocated = allocated
        self.memory: Optional["weakref.ref[Any]"] = None  # the library's, while it is seen
        self.address: int = lib().nvmfr_buffer_addr(pointer) or 0
        self.size: int = lib().nvmfr_buffer_size(pointer)
        self.released = False
        self.batches: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self.prepared = 0  # lists that name it
        host.add_buffer(self)

    def see(self) -> Any:
        """The ctypes array over the memory."""
        if inherited(self.generation):
            raise self.fork_error()
        if self.closed or self.released:
            raise ValueError("this buffer is released")
        if not self.address:
            raise UnsupportedError(errno.EOPNOTSUPP, "a dma-buf: the CPU has no address of it")
        if not self.allocated:
            return self.exporter
        memory = self.memory() if self.memory else None
        if memory is None:
            memory = _memory_type(self.size).from_address(self.address)
            memory.keep = self
            self.memory = weakref.ref(memory, lambda _: self._unseen())
        return memory

    def _unseen(self) -> None:
        """The last view of allocated memory went."""
        self.memory = None
        if self.released:
            self.finish()
            self.host.sweep()

    def release(self) -> None:
        """Ends the registration; allocated memory goes when nobody sees it any more."""
        if self.closed:
            return
        _dlpack.sweep()
        if self.allocated and self.memory is not None and self.memory() is not None:
            # Must be refused now, not when the last view goes: the library is asked for its word.
            self._refuse_in_flight()
            self.released = True
        elif not self.finish():
            raise fail(-errno.EBUSY)
        for batch in list(self.batches):
            batch._lose(self)

    def _refuse_in_flight(self) -> None:
        if self.prepared:
            raise self.busy("is named by a prepared list")
        if self.host.anything_in_flight():
            raise self.busy("has views, and I/O of its host is in flight: poll first, or end the "
                            "views")

    def finish(self) -> bool:
        """Releases it in C. False: a command in flight or a prepared list names it."""
        pointer = self.take()
        if not pointer:
            return True
        result = lib().nvmfr_buffer_release(pointer)
        if result == -errno.EBUSY:
            self.put_back(pointer)
            return False
        self.host.drop_buffer(self)
        self.exporter = None
        check(result)
        return True


class Buffer(Closing):
    """Registered memory, good for every controller of its host. Made by Host.alloc(),
    Host.register(), Host.register_dmabuf() and Host.register_cuda().

    What it was made of stays alive until release(). release() raises BusyError while a command in
    flight or a prepared list names it; call it in the thread that owns the queue pairs. Views of
    memory that was allocated keep that memory beyond the release.

    Threads: any.
    """

    def __init__(self, handle: BufferHandle) -> None:
        self._handle = handle
        self.host: Any = None  # the Host, which lives as long as its buffers

    def __len__(self) -> int:
        return self._handle.size

    def __repr__(self) -> str:
        state = " released" if self.released else ""
        return f"<nvmfr.Buffer of {len(self)} bytes at {self._handle.address:#x}{state}>"

    @property
    def released(self) -> bool:
        """Whether release() was done."""
        return self._handle.closed or self._handle.released

    @property
    def address(self) -> int:
        """Of the first byte; 0 for a dma-buf."""
        return self._handle.address

    @property
    def handle(self) -> int:
        """The C pointer, for nvmfr_io.buf. Batch.attach() returns the same and keeps it valid."""
        if self.released:
            raise ValueError("this buffer is released")
        with self._handle as pointer:
            return pointer

    @property
    def memory(self) -> Any:
        """The bytes as a ctypes array."""
        return self._handle.see()

    @property
    def view(self) -> memoryview:
        """The bytes as a writable memoryview: numpy.frombuffer(buffer.view), slices, struct."""
        return memoryview(self._handle.see()).cast("B")

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol, which Python asks from 3.12 on."""
        return self.view

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": (len(self),), "typestr": "|u1", "data": self.view}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _dlpack.DEVICE

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule of uint8 for torch.from_dlpack, numpy.from_dlpack and others."""
        if stream is not None:
            raise BufferError("memory of the CPU has no stream")
        if dl_device is not None and tuple(dl_device) != _dlpack.DEVICE:
            raise BufferError(f"the buffer is the CPU's; it is not copied to device {dl_device}")
        if copy:
            raise BufferError("the buffer is not copied: copy what from_dlpack() returns")
        return _dlpack.export(self._handle.address, len(self), self._handle.see())

    def release(self) -> None:
        """Ends the registration. Raises BusyError, and nothing happens, while it is in use."""
        self._handle.release()

    close = release

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is None or handle.closed or handle.released:
            return
        if inherited(handle.generation):
            return
        handle.released = True  # where it is in use, the host has it on its list and tries again
        handle.host.sweep()


def register(host: "HostHandle", obj: Any, access: int) -> Buffer:
    """Registers the memory of obj."""
    memory = memory_of(obj)
    out = ctypes.c_void_p()
    with host as pointer:
        check(lib().nvmfr_buffer_register(pointer, ctypes.addressof(memory), len(memory), access,
                                          ctypes.byref(out)))
        return Buffer(BufferHandle(host, out.value or 0, memory, False))


def alloc(host: "HostHandle", size_bytes: int, numa_node: int) -> Buffer:
    """Allocates registered memory."""
    if size_bytes < 1:
        raise ValueError("a buffer has 1 byte or more")
    out = ctypes.c_void_p()
    with host as pointer:
        check(lib().nvmfr_buffer_alloc(pointer, size_bytes, numa_node, ctypes.byref(out)))
        return Buffer(BufferHandle(host, out.value or 0, None, True))


def register_dmabuf(host: "HostHandle", fd: int, offset_bytes: int, size_bytes: int, access: int,
                    keep: Any = None) -> Buffer:
    """Registers what a dma-buf stands for."""
    if size_bytes < 1 or offset_bytes < 0:
        raise ValueError("a dma-buf's part has 1 byte or more, from offset 0 or more on")
    out = ctypes.c_void_p()
    with host as pointer:
        check(lib().nvmfr_buffer_register_dmabuf(pointer, fd, offset_bytes, size_bytes, access,
                                                 ctypes.byref(out)))
        return Buffer(BufferHandle(host, out.value or 0, keep, False))


def _cuda_range_fd(address: int, size_bytes: int) -> int:
    """A dma-buf of a range of CUDA memory (cuMemGetHandleForAddressRange, CUDA 11.7)."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        export = cuda.cuMemGetHandleForAddressRange
    except (OSError, AttributeError) as why:
        raise UnsupportedError(
            errno.EOPNOTSUPP, "CUDA memory needs the driver's libcuda.so.1 with "
            f"cuMemGetHandleForAddressRange (CUDA 11.7 or later): {why}") from why
    fd = ctypes.c_int(-1)
    export.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int,
                       ctypes.c_uint64]
    result = export(ctypes.byref(fd), address, size_bytes, 1, 0)
    if result:
        raise UnsupportedError(errno.EOPNOTSUPP, f"CUDA error {result} at the export of "
                               f"{size_bytes} bytes as a dma-buf: the device, its driver or this kind of "
                               "allocation cannot do that")
    return fd.value


def register_cuda(host: "HostHandle", tensor: Any, access: int) -> Buffer:
    """Registers the memory of a CUDA tensor by way of a dma-buf of the pages around it."""
    if getattr(getattr(tensor, "device", None), "type", None) != "cuda":
        raise TypeError("register_cuda() takes a tensor on a CUDA device; for the CPU's memory "
                        "there is register()")
    if not tensor.is_contiguous():
        raise ValueError("a tensor that is not contiguous: register tensor.contiguous()")
    address, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    page = os.sysconf("SC_PAGESIZE")
    first = address // page * page
    fd = _cuda_range_fd(first, -(-(address + size - first) // page) * page)
    try:
        return register_dmabuf(host, fd, address - first, size, access, keep=tensor)
    finally:
        os.close(fd)

