# SPDX-License-Identifier: BSD-3-Clause
"""DLPack without a compiler: a capsule around a DLManagedTensor of bytes.

The consumer calls the tensor's deleter from any thread, perhaps without the GIL, perhaps with an
exception under way, perhaps when the interpreter is going: no place for Python code. So the deleter
is a function of libc whose whole work is one store to where its argument points,
pthread_spin_unlock(), and there lies the tensor's data pointer, which nobody reads any more by
then. A look at it tells whether the memory is in use. Likewise no destructor in Python hangs on the
capsule: a reference of ours keeps it, and its name and its count tell what became of it.
"""
from __future__ import annotations

import ctypes
import functools
import sys
import threading
from typing import Any, List, Optional, Tuple

_CPU = 1
_UINT = 1


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_NAME = ctypes.c_char_p(b"dltensor")  # the capsule keeps this pointer


@functools.lru_cache(maxsize=None)
def _mark() -> Tuple[Optional[int], int]:
    """The deleter's address, and what it stores: 0 or 1, as the machine's lock wants it."""
    function = ctypes.CDLL(None).pthread_spin_unlock
    word = ctypes.c_uint32(2)
    function(ctypes.byref(word))
    return ctypes.cast(function, ctypes.c_void_p).value, word.value


class _Record:
    """One export: what the consumer reads, and what it keeps alive."""
    __slots__ = ("managed", "extent", "address", "memory", "capsule")

    def __init__(self, address: int, size_bytes: int, memory: Any) -> None:
        self.extent = (ctypes.c_int64 * 2)(size_bytes, 1)
        where = ctypes.addressof(self.extent)
        tensor = _Tensor(address, _CPU, 0, 1, _UINT, 8, 1, where, where + 8, 0)
        deleter, stored = _mark()
        # Where the store would change nothing there is no deleter, and the memory stays for good.
        self.managed = _Managed(tensor, None, None if address & 0xffffffff == stored else deleter)
        self.address = address
        self.memory = memory
        self.capsule: Any = _new(ctypes.addressof(self.managed), _NAME, None)

    def idle(self) -> bool:
        """Whether nobody can reach the tensor any more."""
        if self.capsule is not None:
            if not _is_valid(self.capsule, _NAME):
                self.capsule = None  # taken: from now on the deleter tells
            elif sys.getrefcount(self.capsule) <= 2:  # ours and this call's: never taken
                return True
        return bool(self.managed.tensor.data != self.address)


_records: List[_Record] = []
_lock = threading.Lock()


def sweep() -> None:
    """Lets go of what consumers have let go of."""
    if not _records or not _lock.acquire(False):  # held: a finalizer came in the midst of a sweep
        return
    try:
        for record in [record for record in _records if record.idle()]:
            _records.remove(record)
    finally:
        _lock.release()


def export(address: int, size_bytes: int, memory: Any) -> Any:
    """A capsule "dltensor" of uint8; memory stays alive until the consumer's deleter ran."""
    sweep()
    record = _Record(address, size_bytes, memory)
    capsule = record.capsule  # before another thread's sweep counts
    _records.append(record)
    return capsule


DEVICE = (_CPU, 0)
