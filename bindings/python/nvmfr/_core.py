# SPDX-License-Identifier: BSD-3-Clause
"""Handles: a C pointer with who may use it. What must never happen is a call on memory that is gone."""
from __future__ import annotations

import errno
import os
import threading
from types import TracebackType
from typing import Any, Optional, Type, TypeVar

from ._errors import BusyError, ForkError

_generation = 0  # of this process; a fork makes a new one


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


def inherited(generation: int) -> bool:
    """Whether something made in that generation came over a fork."""
    return generation != _generation


class Handle:
    """A C object. `with handle as pointer:` for each call; close() is refused meanwhile.

    exclusive: one thread at a time, a second is told so. Else any number.
    """
    __slots__ = ("what", "pointer", "generation", "_guard", "_owner", "_users", "__weakref__")

    def __init__(self, what: str, pointer: Optional[int], owner: Optional[Any] = None) -> None:
        self.what = what
        self.pointer = pointer
        self.generation = _generation
        self._guard = threading.RLock()  # a finalizer may come in between
        self._owner = owner
        self._users = 0

    def __enter__(self) -> int:
        if self.generation != _generation:
            raise self.fork_error()
        if self._owner is not None:
            if not self._owner.acquire(False):
                raise self.busy("is in a call of another thread; it belongs to one at a time")
        else:
            with self._guard:
                self._users += 1
        pointer = self.pointer
        if not pointer:
            self.__exit__(None, None, None)
            raise ValueError(f"{self.what} is closed")
        return pointer

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._owner is not None:
            self._owner.release()
        else:
            with self._guard:
                self._users -= 1

    def take(self) -> Optional[int]:
        """The pointer, for its release: nobody can use it from here on. None: it is gone already."""
        if self.generation != _generation:
            # The parent's: its memory here is a copy, and what it stands for is the parent's to end.
            self.pointer = None
            return None
        if self._owner is not None:
            if not self._owner.acquire(False):
                raise self.busy("is in a call of another thread")
            pointer, self.pointer = self.pointer, None
            self._owner.release()
            return pointer
        with self._guard:
            if self._users:
                raise self.busy("is in a call of another thread")
            pointer, self.pointer = self.pointer, None
            return pointer

    def put_back(self, pointer: int) -> None:
        """After a take whose release was refused."""
        self.pointer = pointer

    def busy(self, why: str) -> BusyError:
        """An error that says what it is that is in use."""
        return BusyError(errno.EBUSY, f"{self.what} {why}")

    def fork_error(self) -> ForkError:
        """The error of an inherited handle."""
        return ForkError(errno.EOWNERDEAD,
                         f"{self.what} was made before fork(): it works in the parent only; make "
                         "the child's own, or start workers with 'spawn' or 'forkserver'")

    @property
    def closed(self) -> bool:
        """Whether it was taken."""
        return not self.pointer


_Self = TypeVar("_Self", bound="Closing")


class Closing:
    """`with object:` closes it."""

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled: it lives in one process. Give a "
                        "worker the URI and let it connect by itself")


def milliseconds(timeout: Optional[float]) -> int:
    """Seconds as the library's milliseconds, rounded up; None: -1."""
    if timeout is None:
        return -1
    if timeout < 0:
        raise ValueError("a timeout is None or 0 and more seconds")
    return min(int(timeout * 1000 + 0.999), 0x7fffffff)
