# SPDX-License-Identifier: BSD-3-Clause
"""The same bytes as torch tensors, numpy arrays or memoryviews, whichever are there."""
from __future__ import annotations

import functools
import importlib
import math
from typing import Any, Optional, Sequence, Tuple

from .._errors import UnsupportedError

# name: bytes of an element, and memoryview's format where it has one (for halves from 3.12 on)
_TYPES = {
    "uint8": (1, "B"), "int8": (1, "b"), "bool": (1, "?"), "int16": (2, "h"), "uint16": (2, "H"),
    "int32": (4, "i"), "uint32": (4, "I"), "int64": (8, "q"), "uint64": (8, "Q"),
    "float16": (2, ""), "bfloat16": (2, ""), "float32": (4, "f"), "float64": (8, "d"),
    "float8_e5m2": (1, ""), "float8_e4m3fn": (1, ""), "complex64": (8, ""),
}


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Arrays:
    """What makes arrays. kind: torch, numpy or bytes."""
    kind = "bytes"

    def __reduce__(self) -> Any:
        return arrays, (self.kind,)

    def item_bytes(self, dtype: str) -> int:
        """Bytes of an element. Raises ValueError for a dtype that nobody knows."""
        if dtype not in _TYPES:
            raise ValueError(f"dtype {dtype!r} is unknown; known are {', '.join(sorted(_TYPES))}")
        return _TYPES[dtype][0]

    def _lacks(self, dtype: str) -> UnsupportedError:
        return UnsupportedError(95, f"{self.kind} as installed has no {dtype}: choose another out= "
                                "(torch, numpy, bytes) or dtype")

    def view(self, memory: Any, offset: int, dtype: str, shape: Sequence[int]) -> Any:
        """The bytes of memory, a ctypes array, from offset on; no copy. It keeps memory alive."""
        size = math.prod(shape) * self.item_bytes(dtype)
        part = memoryview(memory).cast("B")[offset:offset + size]
        code = _TYPES[dtype][1]
        if not code:
            raise self._lacks(dtype)
        if 0 in shape:
            return part
        return part.cast(code, list(shape)) if shape else part.cast(code)

    def empty(self, dtype: str, shape: Sequence[int]) -> Any:
        """A new array, which can be registered unless it is empty."""
        size = math.prod(shape) * self.item_bytes(dtype)
        return self.view((_ctypes().c_ubyte * size)(), 0, dtype, shape)

    def put(self, rows: Any, index: int, row: Any) -> None:
        """Copies a row into an array of rows."""
        size = row.nbytes
        memoryview(rows).cast("B")[index * size:(index + 1) * size] = row.cast("B")


def _ctypes() -> Any:
    return importlib.import_module("ctypes")


class _Numpy(Arrays):
    kind = "numpy"

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def _dtype(self, dtype: str) -> Any:
        self.item_bytes(dtype)
        try:
            return self._numpy.dtype(dtype)
        except TypeError:
            raise self._lacks(dtype) from None

    def view(self, memory: Any, offset: int, dtype: str, shape: Sequence[int]) -> Any:
        kind, count = self._dtype(dtype), math.prod(shape)
        if not count:
            return self._numpy.empty(shape, kind)
        return self._numpy.frombuffer(memory, kind, count, offset).reshape(shape)

    def empty(self, dtype: str, shape: Sequence[int]) -> Any:
        return self._numpy.empty(shape, self._dtype(dtype))

    def put(self, rows: Any, index: int, row: Any) -> None:
        rows[index] = row


class _Torch(Arrays):
    kind = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def _dtype(self, dtype: str) -> Any:
        self.item_bytes(dtype)
        found = getattr(self._torch, dtype, None)
        if found is None:
            raise self._lacks(dtype)
        return found

    def view(self, memory: Any, offset: int, dtype: str, shape: Sequence[int]) -> Any:
        kind, count = self._dtype(dtype), math.prod(shape)
        if not count:
            return self._torch.empty(tuple(shape), dtype=kind)
        flat = self._torch.frombuffer(memory, dtype=kind, count=count, offset=offset)
        return flat.view(tuple(shape))

    def empty(self, dtype: str, shape: Sequence[int]) -> Any:
        return self._torch.empty(tuple(shape), dtype=self._dtype(dtype))

    def put(self, rows: Any, index: int, row: Any) -> None:
        rows[index] = row


@functools.lru_cache(maxsize=None)
def arrays(kind: Optional[str] = None) -> Arrays:
    """None: torch if it is installed, else numpy, else bytes (memoryviews). Raises ImportError for
    one that is asked for and is not there."""
    makers: Tuple[Tuple[str, Any], ...] = (("torch", _Torch), ("numpy", _Numpy))
    for name, make in makers:
        if kind not in (None, name):
            continue
        module = _module(name)
        if module is not None:
            made: Arrays = make(module)
            return made
        if kind:
            raise ImportError(f"out={name!r}, but {name} is not installed")
    if kind not in (None, "bytes"):
        raise ValueError(f"out is torch, numpy or bytes, not {kind!r}")
    return Arrays()
