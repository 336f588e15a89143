# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads the C library, and turns its return values into exceptions."""
from __future__ import annotations

import ctypes
import os
import re
import threading
from typing import Any, Callable, Optional, Tuple

from . import _abi
from ._errors import LibraryError, make_error

_SONAME = f"libnvmfr.so.{_abi.VERSION_MAJOR}"
_load_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def _open() -> Tuple[str, ctypes.CDLL]:
    path = os.environ.get("NVMFR_LIBRARY")
    try:
        return path or _SONAME, ctypes.CDLL(path or _SONAME)
    except OSError as why:
        if path:
            raise LibraryError(f"NVMFR_LIBRARY names {path}, which cannot be loaded: {why}",
                               name="nvmfr", path=path) from why
        raise LibraryError(
            f"the C library {_SONAME} cannot be loaded: {why}. Set NVMFR_LIBRARY to its path "
            "(build/lib/libnvmfr.so of a build tree), or install it where the loader looks "
            "(ldconfig, LD_LIBRARY_PATH)", name="nvmfr") from why


def _load() -> ctypes.CDLL:
    path, library = _open()
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError as why:
            raise LibraryError(f"{path} has no {name}: it is another version, or not libnvmfr",
                               name="nvmfr", path=path) from why
        function.restype, function.argtypes = result, arguments
    version = library.nvmfr_version()
    # While the major version is 0 a new minor version may change the interface.
    if version >> 8 != _abi.VERSION_MAJOR << 8 | _abi.VERSION_MINOR:
        raise LibraryError(
            f"{path} is version {version >> 16}.{version >> 8 & 255}.{version & 255}; this package "
            f"goes with {_abi.VERSION_MAJOR}.{_abi.VERSION_MINOR}", name="nvmfr", path=path)
    return library


def lib() -> Any:
    """The library, loaded at the first call. Raises LibraryError, which says where it looked.

    Every function goes through ctypes.CDLL, which lets go of the GIL for the call. Holding it in
    the short ones would be faster by a hair and wrong: a log function in Python runs with a lock of
    the library's held, and would wait for the GIL of a caller that waits for that lock.
    """
    global _loaded
    if _loaded is None:
        with _load_lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def last_error() -> str:
    """This thread's last sentence of failure."""
    return _text(lib().nvmfr_last_error())


def _text(raw: Optional[bytes]) -> str:
    return (raw or b"").decode("utf-8", "replace")


def check(result: int) -> int:
    """Returns a count as it is, raises what a negative errno means."""
    if result < 0:
        raise fail(result)
    return result


def fail(err: int) -> Exception:
    """The exception of a call of this thread that has just answered err."""
    sentence = last_error()
    # Where a helper waited for the command itself, the status is in its sentence only.
    found = re.search(r"status 0x([0-9a-f]{4})", sentence)
    return make_error(err, sentence or strerror(err), int(found.group(1), 16) if found else 0)


def completion_error(result: int, status: int, what: str = "the I/O") -> Exception:
    """The exception for a completion with that result (a negative errno) and NVMe status."""
    why = status_string(status) if status else strerror(result)
    return make_error(result, f"{what} failed: {why}" + (f" (0x{status:04x})" if status else ""),
                      status)


def strerror(err: int) -> str:
    """An errno in the library's words."""
    return _text(lib().nvmfr_strerror(err))


def status_string(status: int) -> str:
    """An NVMe status in words."""
    return _text(lib().nvmfr_status_string(status))


def version() -> Tuple[int, int, int]:
    """The version of the C library in use."""
    value = lib().nvmfr_version()
    return value >> 16, value >> 8 & 255, value & 255


def grown_text(call: Callable[[Any, int], int]) -> str:
    """The text of a function that takes room and says how much it needs."""
    need = check(call(None, 0))
    while True:
        text = ctypes.create_string_buffer(need)
        again = check(call(text, need))
        if again <= need:
            return _text(text.value)
        need = again


def probe() -> str:
    """What this machine offers and lacks, as JSON text."""
    return grown_text(lib().nvmfr_probe)
