# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions by errno, with the library's sentence and, where there is one, the NVMe status."""
from __future__ import annotations

import errno
from typing import Dict, Type


class LibraryError(ImportError):
    """The C library cannot be found or is another version's."""


class Error(OSError):
    """A call failed. errno is positive; strerror is the library's sentence.

    status is the NVMe status (completion queue entry, dword 3 bits 31:17) where a controller
    refused a command, else 0.
    """

    def __init__(self, err: int, sentence: str, status: int = 0) -> None:
        super().__init__(err, sentence)
        self.status = status

    def __str__(self) -> str:
        return f"{self.strerror} [{errno.errorcode.get(self.errno or 0, self.errno)}]"

    def __reduce__(self) -> tuple[type, tuple[int | None, str, int]]:
        return type(self), (self.errno, self.strerror or "", self.status)


class ArgumentError(Error, ValueError):
    """A bad argument, option or range; nothing was sent."""


class RoomError(Error, BlockingIOError):
    """No room for another command: poll first. Also: still connecting."""


class BusyError(Error):
    """Still in use, and left as it was."""


class ForkError(Error):
    """The object was made by the parent before fork(); make the child's own."""


class StatusError(Error):
    """The controller refused a command; status says why."""


class TimeOutError(Error, TimeoutError):
    """A bound was reached."""


class LostError(Error, ConnectionError):
    """The connection failed or is lost; it stays lost: connect anew."""


class DeniedError(Error, PermissionError):
    """The target does not let this host in, the namespace is write protected, or the command is the
    library's to send."""


class NotFoundError(Error, FileNotFoundError):
    """No such namespace, subsystem, soft target, file or device."""


class UnsupportedError(Error, NotImplementedError):
    """The controller, the device or this version cannot do that."""


class FormatError(ValueError):
    """What was read is not what it should be: a directory, a safetensors header, a tar."""


class NoMemoryError(Error, MemoryError):
    """No memory, or the limit of locked memory (ulimit -l)."""


_CLASSES: Dict[int, Type[Error]] = {
    errno.EINVAL: ArgumentError, errno.ERANGE: ArgumentError, errno.E2BIG: ArgumentError,
    errno.EAGAIN: RoomError, errno.EBUSY: BusyError, errno.EOWNERDEAD: ForkError,
    errno.EREMOTEIO: StatusError, errno.ETIMEDOUT: TimeOutError, errno.ENOTCONN: LostError,
    errno.ECONNABORTED: LostError, errno.ECONNRESET: LostError, errno.ECONNREFUSED: LostError,
    errno.EHOSTUNREACH: LostError, errno.EACCES: DeniedError, errno.EROFS: DeniedError,
    errno.EPERM: DeniedError,
    errno.ENOENT: NotFoundError, errno.ENODEV: NotFoundError,
    errno.EOPNOTSUPP: UnsupportedError, errno.ENOMEM: NoMemoryError,
}


def make_error(err: int, sentence: str, status: int = 0) -> Error:
    """The exception for a (positive or negative) errno."""
    return _CLASSES.get(abs(err), Error)(abs(err), sentence, status)
