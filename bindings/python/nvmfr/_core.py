# SPDX-License-Identifier: BSD-3-Clause
"""Handles: a C pointer with who may use it. No call may meet memory that is gone."""
from __future__ import annotations

import errno
import os
import threading
from types import TracebackType
from typing import Any, Callable, NoReturn, Optional, Type, TypeVar

from ._errors import BusyError, ForkError

generation = 0  # of this process; a fork makes a new one


def _forked() -> None:
    global generation
    generation += 1


os.register_at_fork(after_in_child=_forked)


def inherited(then: int) -> bool:
    """Whether something made in that generation came over a fork."""
    return then != generation


class Handle:
    """A C object. `with handle as pointer:` for each call, from any number of threads; take(),
    before its release, is refused meanwhile."""
    __slots__ = ("what", "pointer", "generation", "_guard", "_users", "__weakref__")

    def __init__(self, what: str, pointer: Optional[int]) -> None:
        self.what = what
        self.pointer = pointer
        self.generation = generation
        self._guard = threading.RLock()  # a finalizer may come in between
        self._users = 0

    def __enter__(self) -> int:
        if self.generation != generation:
            raise self.fork_error()
        with self._guard:
            pointer = self.pointer or self.closed_error()
            self._users += 1
        return pointer

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        with self._guard:
            self._users -= 1

    def in_use(self) -> bool:
        """Whether a thread is in a call on it."""
        return self._users > 0

    def take(self) -> Optional[int]:
        """The pointer, for its release: nobody can use it from here on. None: gone already."""
        if self.generation != generation:
            # The parent's: memory here is a copy, and what it stands for is the parent's to end.
            self.pointer = None
            return None
        return self._take()

    def _take(self) -> Optional[int]:
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

    def closed_error(self) -> NoReturn:
        """Raises what a call on a closed one raises."""
        raise ValueError(f"{self.what} is closed")

    def fork_error(self) -> ForkError:
        """The error of an inherited handle."""
        return ForkError(errno.EOWNERDEAD,
                         f"{self.what} was made before fork(): it works in the parent only; make "
                         "the child's own, or start workers with 'spawn' or 'forkserver'")

    @property
    def closed(self) -> bool:
        """Whether it was taken."""
        return not self.pointer


class OwnedHandle(Handle):
    """One thread at a time; a second is told so. owner: the lock, which several may share."""
    __slots__ = ("owner", "acquire", "release")

    def __init__(self, what: str, pointer: Optional[int], owner: Any) -> None:
        super().__init__(what, pointer)
        self.owner = owner
        self.acquire: Callable[[bool], bool] = owner.acquire
        self.release: Callable[[], None] = owner.release

    def __enter__(self) -> int:
        if self.generation != generation or not self.acquire(False):
            raise self.refusal()
        if not self.pointer:
            self.release()
            self.closed_error()
        return self.pointer

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()

    def refusal(self) -> Exception:
        """Why it could not be acquired."""
        if self.generation != generation:
            return self.fork_error()
        return self.busy("is in a call of another thread; it belongs to one at a time")

    def in_use(self) -> bool:
        """Whether a thread is in a call on it."""
        return bool(self.owner.locked())

    def _take(self) -> Optional[int]:
        if not self.acquire(False):
            raise self.refusal()
        pointer, self.pointer = self.pointer, None
        self.release()
        return pointer


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


class Ending(Closing):
    """Ends, too, when nobody has it any more, unless something of it is in use: then with its host."""

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not handle.closed:
            try:
                handle.end()
            except BusyError:
                pass


def milliseconds(timeout: Optional[float]) -> int:
    """Seconds as the library's milliseconds, rounded up; None: -1."""
    if timeout is None:
        return -1
    if timeout < 0:
        raise ValueError("a timeout is None or 0 and more seconds")
    return min(int(timeout * 1000 + 0.999), 0x7fffffff)
