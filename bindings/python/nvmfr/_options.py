# SPDX-License-Identifier: BSD-3-Clause
"""Options structs of C, filled from keyword arguments."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Optional

from . import _abi
from ._lib import lib


def ctrl_opts(uri: Optional[str], options: Dict[str, Any]) -> _abi.CtrlOpts:
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
