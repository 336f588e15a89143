# SPDX-License-Identifier: BSD-3-Clause
"""Source: the namespace that data lie on. It travels to worker processes and connects there."""
from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Union

from . import _core
from ._controller import Controller
from ._engine import Engine, Ticket
from ._errors import BusyError
from ._host import Host
from ._pool import Pool

_DEFAULTS = {"ctrl_loss_timeout_ms": 60000, "reconnect_delay_ms": 200}


class _Link:
    """What belongs to one process."""

    def __init__(self, controller: Controller, own: Optional[Host], nsid: int, depth: int) -> None:
        self.generation = _core.generation
        self.own = own
        self.controller = controller
        self.nsid = nsid or controller.first_nsid()
        info = controller.ns_info(self.nsid)
        self.block_bytes: int = info.block_bytes
        self.capacity_bytes: int = info.capacity_blocks * info.block_bytes
        self.read_only = bool(info.read_only)
        most: int = controller.info.max_queue_depth
        self.engine = Engine(controller.queue_pair(min(depth, most) if most else depth), self.nsid)
        self.pool = Pool(controller.host)
        self.copied_bytes = 0

    def close(self) -> None:
        """Ends what it made itself."""
        if self.own is not None:
            self.own.close()
        elif not self.engine.qpair.closed:
            self.engine.qpair.close()


class Source:
    """A namespace of a target. Connects at its first use in a process, with a host and an
    association of that process's own; so it can be pickled, and used under spawn and forkserver,
    and under fork if the parent has not connected over RDMA before (doc/threading.md).

    uri      as for Host.connect()
    nsid     0: the first namespace
    depth    commands in flight
    options  fields of nvmfr_ctrl_opts. Unless they say otherwise a lost target is connected anew
             for 60 s (ctrl_loss_timeout_ms), and reads that the loss ended are sent again.

    Threads: any, one after the other.
    """

    def __init__(self, uri: str, *, nsid: int = 0, depth: int = 128, hostnqn: Optional[str] = None,
                 **options: Any) -> None:
        self.uri: Optional[str] = uri
        self.nsid = nsid
        self.depth = depth
        self.hostnqn = hostnqn
        self.options: Dict[str, Any] = {**_DEFAULTS, **options}
        self._given: Optional[Controller] = None
        self._open: Optional[_Link] = None
        self.lock = threading.RLock()

    @classmethod
    def over(cls, controller: Controller, *, nsid: int = 0, depth: int = 128) -> "Source":
        """Over a controller that is connected already. It stays in this process."""
        source = cls("", nsid=nsid, depth=depth)
        source.uri, source._given = None, controller
        return source

    def link(self) -> _Link:
        """The connection of this process; made now if there is none."""
        with self.lock:
            if self._open is None or _core.inherited(self._open.generation):
                self._open = self._connect()
            return self._open

    def _connect(self) -> _Link:
        if self._given is not None:
            return _Link(self._given, None, self.nsid, self.depth)
        assert self.uri is not None
        host = Host(self.hostnqn)
        try:
            return _Link(host.connect(self.uri, **self.options), host, self.nsid, self.depth)
        except BaseException:
            host.close()
            raise

    def forget(self, link: _Link) -> None:
        """It is lost for good: the next use connects anew. What waits on it hears of that first."""
        with self.lock:
            if self._open is link and self._given is None:
                self._open = None

    # ---- what is there

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.link().block_bytes

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the namespace."""
        return self.link().capacity_bytes

    @property
    def commands(self) -> int:
        """Commands submitted by this process."""
        return self.link().engine.commands

    @property
    def copied_bytes(self) -> int:
        """Bytes that the CPU of this process copied: by the library, and by the data sets."""
        with self.lock:
            link = self.link()
            bounced: int = link.engine.qpair.info.bounced_bytes
            return link.copied_bytes + bounced

    def read(self, offset_bytes: int, size_bytes: int, what: str = "the read") -> bytes:
        """Any range, waited for, as bytes. Raises ValueError outside of the namespace."""
        with self.lock:
            link, block = self.link(), self.block_bytes
            if offset_bytes < 0 or size_bytes < 0 or offset_bytes + size_bytes > link.capacity_bytes:
                raise ValueError(f"{what}: {size_bytes} bytes from {offset_bytes} on are not within "
                                 f"the namespace's {link.capacity_bytes}")
            if size_bytes == 0:
                return b""
            first, head = divmod(offset_bytes, block)
            count = -(-(head + size_bytes) // block)
            buffer = link.pool.take(count * block)
            ticket = Ticket(buffer, [first], [count], [0], name=lambda _: what)
            link.engine.finish(link.engine.start(ticket))
            link.copied_bytes += size_bytes
            data = bytes(buffer.view[head:head + size_bytes])
            link.pool.give_back(buffer)
            return data

    # ---- its end

    def close(self) -> None:
        """Ends the connection of this process; the next use connects anew. Arrays that were read
        stay as they are."""
        with self.lock:
            link, self._open = self._open, None
            if link is not None and not _core.inherited(link.generation):
                link.close()

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except (AttributeError, BusyError):
            pass  # half made, or in a call of another thread

    def __getstate__(self) -> Dict[str, Any]:
        if self._given is not None:
            raise TypeError("this source is over a controller, which lives in one process: make it "
                            "of the URI, and each worker connects by itself")
        return {"uri": self.uri, "nsid": self.nsid, "depth": self.depth, "hostnqn": self.hostnqn,
                "options": self.options}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _given=None, _open=None, lock=threading.RLock())

    def __repr__(self) -> str:
        return f"<nvmfr.data.Source {self.uri or 'over a controller'}>"


def as_source(where: Union[str, Source, Controller]) -> Source:
    """A source of a URI, a controller or a source."""
    if isinstance(where, Source):
        return where
    return Source.over(where) if isinstance(where, Controller) else Source(where)


__all__: List[str] = ["Source", "as_source"]
