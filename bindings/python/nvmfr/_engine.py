# SPDX-License-Identifier: BSD-3-Clause
"""Keeps a queue pair full with the commands of many tickets, and sends again what a loss ended."""
from __future__ import annotations

import ctypes
import errno
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence

from . import _abi
from ._abi import Op
from ._arrays import Batch, Completions
from ._buffer import Buffer
from ._errors import BusyError, Error, LostError, RoomError, TimeOutError, make_error
from ._lib import completion_error
from ._queue import QueuePair

_TRIES = 5  # of one command, each ended by a loss of the association
_LOSSES = (-errno.ECONNABORTED, -errno.ETIMEDOUT)
_KEY_SHIFT = 32  # user_data: the ticket's key above the command's index


def _one_command(index: int) -> str:
    return f"command {index}"


class Ticket:
    """Commands with one buffer that are waited for together.

    lbas, nblocks and offsets have one number for each command; name(index) says in errors what
    the command is for. again: a command that a loss of the association ended is sent anew, which
    is right for reads.
    """
    __slots__ = ("buffer", "lbas", "nblocks", "offsets", "op", "name", "again", "left", "error",
                 "failed", "todo", "sent", "queued", "dropped", "key", "tries")

    def __init__(self, buffer: Optional[Buffer], lbas: Sequence[int], nblocks: Sequence[int],
                 offsets: Sequence[int], *, op: Op = Op.READ, again: bool = True,
                 name: Callable[[int], str] = _one_command) -> None:
        self.buffer, self.lbas, self.nblocks, self.offsets = buffer, lbas, nblocks, offsets
        self.op, self.again, self.name = op, again, name
        self.left = len(lbas)  # commands without an end
        self.error: Optional[Exception] = None  # the first
        self.failed: List[int] = []  # commands that the controller refused
        self.todo: Sequence[int] = range(len(lbas))
        self.sent = 0  # of todo
        self.queued = self.dropped = False
        self.key = -1
        self.tries: Dict[int, int] = {}

    def fail(self, index: int, error: Exception) -> None:
        """Command index has ended so."""
        self.failed.append(index)
        self.error = self.error or error
        self.left -= 1


class Engine:
    """Tickets in the order in which they came; nothing moves but in a call. Threads: the owner of
    the queue pair."""

    def __init__(self, qpair: QueuePair, nsid: int) -> None:
        self.qpair = qpair
        self.nsid = nsid
        self.depth: int = qpair.info.depth
        self.commands = 0  # submitted
        self.losses = 0  # commands that were sent again
        self._batch = Batch(self.depth)
        self._done = Completions(self.depth)
        words = ctypes.sizeof(_abi.Completion) // 8
        self._keys = memoryview(self._done.entries).cast("B").cast("Q")[
            _abi.Completion.user_data.offset // 8::words]
        self._tickets: Dict[int, Ticket] = {}
        self._queue: Deque[Ticket] = deque()
        self._next = 0
        self._in_flight = 0

    def start(self, ticket: Ticket) -> Ticket:
        """Queues a ticket and sends what there is room for."""
        self._next += 1
        ticket.key = self._next
        if ticket.left:
            self._tickets[ticket.key] = ticket
            self._enqueue(ticket)
            self.pump()
        return ticket

    def _enqueue(self, ticket: Ticket) -> None:
        if not ticket.queued:
            ticket.queued = True
            self._queue.append(ticket)

    def pump(self) -> None:
        """Collects what has come and sends what there is room for, without waiting. Its errors are
        finish()'s to tell."""
        try:
            if self._in_flight:
                self._collect(self.qpair.poll(self._done))
            self._send()
        except Error:
            pass

    def finish(self, ticket: Ticket) -> None:
        """Waits until a ticket's commands have ended. Raises the first failure, by its name.

        Raises LostError where the connection is lost for good; the library's timeouts bound every
        wait (io_timeout_ms, ctrl_loss_timeout_ms).
        """
        while ticket.left:
            try:
                room = self._send()
                if not ticket.left:
                    break  # what was left was refused here
                if self._in_flight:
                    self._collect(self.qpair.wait(self._done))
                elif not room:
                    self._await_live()
            except LostError as why:
                raise make_error(why.errno or errno.ENOTCONN, f"{self._waiting(ticket)}: "
                                 f"{why.strerror}") from why
        if ticket.error is not None:
            raise ticket.error

    @staticmethod
    def _waiting(ticket: Ticket) -> str:
        index = ticket.todo[ticket.sent] if ticket.sent < len(ticket.todo) else 0
        return ticket.name(index)

    def drop(self, ticket: Ticket) -> None:
        """Nobody waits for it any more; what is in flight ends by itself."""
        ticket.dropped = True
        ticket.left -= len(ticket.todo) - ticket.sent
        ticket.sent = len(ticket.todo)
        if not ticket.left:
            self._tickets.pop(ticket.key, None)

    def drain(self) -> None:
        """Waits until nothing is in flight, whatever it is."""
        self._queue.clear()
        while self._in_flight:
            self._collect(self.qpair.wait(self._done))

    # ---- sending

    def _send(self) -> bool:
        """Sends as much as fits. False: the queue pair took nothing at all."""
        while self._queue:
            ticket = self._queue[0]
            count = min(len(ticket.todo) - ticket.sent, self.depth - self._in_flight)
            if ticket.sent < len(ticket.todo):
                if count == 0:
                    return True
                try:
                    taken = self._submit(ticket, count)
                except RoomError:
                    return self._in_flight > 0
                except LostError:
                    raise
                except Error as why:
                    self._refuse(ticket, why)
                    continue
                ticket.sent += taken
                self._in_flight += taken
                self.commands += taken
            if ticket.sent == len(ticket.todo):
                ticket.queued = False
                ticket.todo, ticket.sent = (), 0
                self._queue.popleft()
        return True

    def _submit(self, ticket: Ticket, count: int) -> int:
        part = ticket.todo[ticket.sent:ticket.sent + count]
        if isinstance(part, range):
            lbas, nblocks, offsets = (column[part.start:part.stop] for column in
                                      (ticket.lbas, ticket.nblocks, ticket.offsets))
        else:
            lbas, nblocks, offsets = ([column[index] for index in part] for column in
                                      (ticket.lbas, ticket.nblocks, ticket.offsets))
        base = ticket.key << _KEY_SHIFT
        self._batch.clear()
        self._batch.fill(ticket.op, self.nsid, lbas, nblocks, ticket.buffer, offsets,
                         [base + index for index in part], count=count)
        try:
            return self.qpair.submit(self._batch, count)
        finally:
            self._batch.clear()  # it must not keep the buffer

    def _refuse(self, ticket: Ticket, why: Error) -> None:
        """Its next command is a bad one, and was not sent; nor is what follows it."""
        index = ticket.todo[ticket.sent]
        rest = len(ticket.todo) - ticket.sent - 1
        ticket.todo, ticket.sent = (), 0
        ticket.left -= rest
        ticket.fail(index, make_error(why.errno or errno.EINVAL,
                                      f"{ticket.name(index)}: {why.strerror}", why.status))
        self._end(ticket)

    def _await_live(self) -> None:
        """While the association is made anew; the library ends that in its time."""
        try:
            self.qpair.wait_live(0.2)
        except BusyError:
            self._collect(self.qpair.poll(self._done))
        except TimeOutError:
            pass

    # ---- collecting

    def _collect(self, count: int) -> None:
        self._in_flight -= count
        if self._done.failures(count):
            for index in range(count):
                self._one(self._done.entries[index])
            return
        tickets = self._tickets
        for key in self._keys[:count]:
            ticket = tickets[key >> _KEY_SHIFT]
            ticket.left -= 1
            if not ticket.left:
                self._end(ticket)

    def _one(self, done: Any) -> None:
        ticket = self._tickets[done.user_data >> _KEY_SHIFT]
        index = done.user_data & (1 << _KEY_SHIFT) - 1
        if done.result == 0:
            ticket.left -= 1
        elif done.result in _LOSSES and self._again(ticket, index):
            return
        else:
            ticket.fail(index, completion_error(done.result, done.status, ticket.name(index)))
        if not ticket.left:
            self._end(ticket)

    def _again(self, ticket: Ticket, index: int) -> bool:
        tries = ticket.tries.get(index, 0) + 1
        if not ticket.again or ticket.dropped or tries >= _TRIES:
            return False
        ticket.tries[index] = tries
        self.losses += 1
        ticket.todo, ticket.sent = [*ticket.todo[ticket.sent:], index], 0
        self._enqueue(ticket)
        return True

    def _end(self, ticket: Ticket) -> None:
        if not ticket.left:
            self._tickets.pop(ticket.key, None)
