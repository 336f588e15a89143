# SPDX-License-Identifier: BSD-3-Clause
"""Progress: tqdm's bar where tqdm is installed, else a line of our own."""
from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from typing import Any, Optional, TextIO

_STEP_S = 0.2  # between two states of our own line


def human(count: float) -> str:
    """A number of bytes in a few characters."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def reader_left() -> int:
    """After a BrokenPipeError of the output (`... | head`): ends it without another. Returns the status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _tqdm() -> Any:
    try:
        return importlib.import_module("tqdm").tqdm
    except (ImportError, AttributeError):
        return None


class _Line:
    """NAME: 37 %, 1.2 GiB of 3.3 GiB, 410.0 MiB/s; rewritten in place on a terminal."""

    def __init__(self, total: int, unit: str, name: str, out: TextIO) -> None:
        self._total, self._unit, self._name, self._out = total, unit, name, out
        self._count, self._begun, self._shown = 0, time.monotonic(), 0.0

    def _amount(self, count: float) -> str:
        return human(count) if self._unit == "B" else f"{count:.0f} {self._unit}"

    def _show(self, end: str) -> None:
        rate = self._count / max(time.monotonic() - self._begun, 1e-6)
        share = 100 * self._count // self._total if self._total else 100
        self._out.write(f"\r{self._name}: {share} %, {self._amount(self._count)} of "
                        f"{self._amount(self._total)}, {self._amount(rate)}/s   {end}")
        self._out.flush()

    def update(self, count: int) -> None:
        """So much more is done."""
        self._count += count
        now = time.monotonic()
        if now - self._shown >= _STEP_S:
            self._shown = now
            self._show("")

    def close(self) -> None:
        """The last state stays."""
        self._show("\n")


class Progress:
    """A bar for total units of work ("B": bytes). enabled None: only where out is a terminal."""

    def __init__(self, total: int, name: str, unit: str = "B", enabled: Optional[bool] = None,
                 out: Optional[TextIO] = None) -> None:
        out = out or sys.stderr
        self._bar: Any = None
        if not (out.isatty() if enabled is None else enabled):
            return
        tqdm = _tqdm()
        if tqdm is None:
            self._bar = _Line(total, unit, name, out)
        else:
            self._bar = tqdm(total=total, desc=name, unit=unit, unit_scale=unit == "B",
                             unit_divisor=1024, file=out)

    def update(self, count: int) -> None:
        """So much more is done."""
        if self._bar is not None:
            self._bar.update(count)

    def close(self) -> None:
        """No more will come."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
