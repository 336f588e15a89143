# SPDX-License-Identifier: BSD-3-Clause
"""Volume: a namespace with a directory, its files read, checked, written and removed."""
from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections import deque
from dataclasses import dataclass, replace
from typing import IO, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _packformat as form
from . import _safetensors, _tar
from ._abi import Op
from ._buffer import Buffer
from ._engine import Ticket
from ._errors import FormatError, NotFoundError
from ._controller import Controller
from ._packformat import Entry, Header, Kind
from ._source import Source, as_source

_CHUNK = 4 << 20
_AHEAD = 4  # chunks in flight
_BLANK_LOOK = 1 << 20  # looked at from both ends before a first directory is written


@dataclass(frozen=True)
class Item:
    """A file of this machine that is to be packed. kind None: by its name."""
    name: str
    path: str
    kind: Optional[Kind] = None


def kind_of(name: str) -> Kind:
    """By the name's end."""
    if name.endswith(".safetensors"):
        return Kind.SAFETENSORS
    return Kind.TAR if name.endswith(".tar") else Kind.FILE


def _check_tar(file: IO[bytes], size: int, name: str) -> None:
    scan = _tar.scan(size, name)
    try:
        offset, count = next(scan)
        while True:
            file.seek(offset)
            offset, count = scan.send(file.read(count))
    except StopIteration:
        pass


def _check_safetensors(file: IO[bytes], size: int, name: str) -> int:
    """Returns where the tensors' data begin."""
    length = _safetensors.header_bytes(file.read(_safetensors.LENGTH_BYTES), size, name)
    _safetensors.parse_header(file.read(length), size, name)
    return _safetensors.LENGTH_BYTES + length


class Volume:
    """The directory of a packed namespace, and its files.

    where      a URI, a Source or a controller
    create     no directory yet is no error: the first write() makes one on an empty namespace
    overwrite  and on one that has something else on it, which is lost

    Raises FormatError where there is no directory, or none that is whole.
    """

    def __init__(self, where: Union[str, Source, Controller], *, create: bool = False,
                 overwrite: bool = False) -> None:
        self.source = as_source(where)
        self._overwrite = overwrite
        self.remark = ""  # on a copy of the header that is not in order
        self._header: Optional[Header] = None
        self._slot = 0
        self.entries: Dict[str, Entry] = {}
        self._load(create, overwrite)

    # ---- the directory

    def _load(self, create: bool, overwrite: bool) -> None:
        capacity = self.source.capacity_bytes
        headers: List[Tuple[int, int, Header]] = []
        problems: List[str] = []
        for slot, place in enumerate(form.SLOTS):
            try:
                raw = self.source.read(place, form.HEADER_BYTES, "the directory's header")
                header = form.decode_header(raw, capacity)
                headers.append((header.generation, slot, header))
            except ValueError as why:  # FormatError, or a namespace too small for one
                problems.append(f"copy {slot}: {why}")
        for _, slot, header in sorted(headers, key=lambda one: one[0], reverse=True):
            try:
                raw = self.source.read(header.body_offset, header.body_bytes, "the directory")
                entries = form.decode_body(raw, header, capacity)
            except FormatError as why:
                problems.append(f"copy {slot}, generation {header.generation}: {why}")
                continue
            self._header, self._slot = header, slot
            self.entries = {entry.name: entry for entry in entries}
            self.remark = "; ".join(problems) if header.generation > 1 else ""
            return
        if not overwrite and (headers or not create):
            raise FormatError(f"{self.source.uri or 'the namespace'} has no readable directory: "
                              + "; ".join(problems) + ("" if headers else
                              ". `python -m nvmfr.pack write` makes one"))

    @property
    def generation(self) -> int:
        """Of the directory; each change makes a new one. 0: there is none yet."""
        return self._header.generation if self._header else 0

    def entry(self, name: str) -> Entry:
        """Raises NotFoundError, with the names that are alike."""
        found = self.entries.get(name)
        if found is None:
            some = sorted(self.entries)
            raise NotFoundError(errno.ENOENT, f"{name!r} is not in the directory; it has "
                                f"{len(some)} names: {', '.join(some[:5])}"
                                + (", ..." if len(some) > 5 else ""))
        return found

    def _select(self, names: Optional[Sequence[str]]) -> List[Entry]:
        if not names:
            return list(self.entries.values())
        return [self.entry(name) for name in names]

    # ---- reading

    def chunks(self, entry: Entry) -> Iterator[memoryview]:
        """The bytes of a file, part by part, with several reads in flight. Each part is good until
        the next is asked for."""
        link, block = self.source.link(), self.source.block_bytes
        at, end = entry.offset_bytes, entry.offset_bytes + entry.size_bytes
        ahead: Deque[Tuple[Ticket, Buffer, int, int]] = deque()
        while at < end or ahead:
            while at < end and len(ahead) < _AHEAD:
                first = at // block
                until = min(end, first * block + _CHUNK)
                count = -(-until // block) - first
                buffer = link.pool.take(_CHUNK)
                ticket = Ticket(buffer, [first], [count], [0],
                                name=lambda _, at=at: f"{entry.name!r} at byte "  # type: ignore[misc]
                                                      f"{at - entry.offset_bytes}")
                ahead.append((link.engine.start(ticket), buffer, at - first * block, until - at))
                at = until
            ticket, buffer, head, size = ahead.popleft()
            link.engine.finish(ticket)
            yield buffer.view[head:head + size]
            link.pool.give_back(buffer)

    def verify(self, names: Optional[Sequence[str]] = None,
               tick: Callable[[int], None] = lambda _: None) -> List[str]:
        """Compares with the checksums. Returns the names of the files that differ.

        tick is told the bytes that are done.
        """
        bad = []
        for entry in self._select(names):
            digest = hashlib.sha256()
            for part in self.chunks(entry):
                digest.update(part)
                tick(len(part))
            if digest.digest() != entry.sha256:
                bad.append(entry.name)
        return bad

    def extract(self, folder: str, names: Optional[Sequence[str]] = None, *, replace: bool = False,
                tick: Callable[[int], None] = lambda _: None) -> List[str]:
        """Writes files below folder and checks them. Returns their paths.

        Raises FileExistsError where one is there and replace is not set, FormatError where a
        checksum differs (that file is removed again).
        """
        made = []
        for entry in self._select(names):
            path = os.path.join(folder, *form.check_name(entry.name).split("/"))
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            digest = hashlib.sha256()
            if not replace and os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, "is here already: --replace (replace=True) overwrites it", path)
            with open(path, "wb" if replace else "xb") as file:
                for part in self.chunks(entry):
                    digest.update(part)
                    file.write(part)
                    tick(len(part))
            if digest.digest() != entry.sha256:
                os.unlink(path)
                raise FormatError(f"{entry.name!r} differs from its checksum: damaged on the "
                                  "namespace; nothing was extracted of it")
            made.append(path)
        return made

    # ---- changing

    def write(self, items: Iterable[Item], *, replace: bool = False,
              tick: Callable[[int], None] = lambda _: None) -> List[Entry]:
        """Writes files to free space, then a directory that names them: until that is whole, the
        one before it holds, and what it names is untouched.

        replace: names that are there already get the new contents. A loss of the target ends it.

        Raises ValueError for a name that is there and for a namespace that has something else on
        it, FormatError for a safetensors or tar file that is none, OSError for a file that cannot
        be read and (ENOSPC) where there is no room.
        """
        items = [Item(form.check_name(item.name), item.path,
                      kind_of(item.name) if item.kind is None else item.kind) for item in items]
        names = [item.name for item in items]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{twice!r} is to be written twice")
        there = [name for name in names if name in self.entries]
        if there and not replace:
            raise ValueError(f"{there[0]!r} is in the directory already: --replace (replace=True) "
                             "gives it the new contents")
        self._check_writable()
        space = self._space()
        placed = [self._place(item, space) for item in items]
        written = [self._write_file(entry, item, tick) for entry, item in zip(placed, items)]
        entries = {**self.entries, **{entry.name: entry for entry in written}}
        self._commit(entries, space)
        return written

    def remove(self, names: Sequence[str]) -> None:
        """Takes names out of the directory. Their space is free for the next write."""
        gone = {entry.name for entry in self._select(list(names))} if names else set()
        self._check_writable()
        self._commit({name: entry for name, entry in self.entries.items() if name not in gone},
                     self._space())

    def _space(self) -> form.Space:
        used = [(entry.offset_bytes, entry.size_bytes) for entry in self.entries.values()]
        if self._header is not None:
            used.append((self._header.body_offset, self._header.body_bytes))
        return form.Space(used, self.source.capacity_bytes,
                          max(form.ALIGN, self.source.block_bytes))

    def _check_writable(self) -> None:
        capacity = self.source.capacity_bytes
        if capacity < form.DATA_START + 2 * form.ALIGN or self.source.block_bytes > form.SLOTS[1]:
            raise ValueError(f"a namespace of {capacity} bytes in blocks of "
                             f"{self.source.block_bytes} has no room for a directory")
        if self._header is not None:
            self._check_alone()
            return
        if self._overwrite:
            return
        look = min(_BLANK_LOOK, capacity)
        for place in (0, capacity - look):
            data = self.source.read(place, look)
            if data.count(0) != len(data):
                at = place + next(index for index, byte in enumerate(data) if byte)
                raise ValueError(f"the namespace is not empty (byte {at} is not zero) and has no "
                                 "directory of this tool's: --overwrite (overwrite=True) writes "
                                 "over what is there")

    def _place(self, item: Item, space: form.Space) -> Entry:
        with open(item.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            lead = 0
            if item.kind == Kind.TAR:
                _check_tar(file, size, item.path)
            elif item.kind == Kind.SAFETENSORS:
                # The tensors' data begin on a block, not the file: so most are read in place.
                lead = -_check_safetensors(file, size, item.path) % form.ALIGN
        offset = space.take(lead + size) if size else form.DATA_START
        if offset is None:
            raise OSError(errno.ENOSPC, f"no room for {size} bytes in one piece; "
                          f"{space.free_bytes} bytes are free", item.path)
        return Entry(item.name, offset + (lead if size else 0), size, Kind(item.kind or 0), b"")

    def _write_file(self, entry: Entry, item: Item, tick: Callable[[int], None]) -> Entry:
        digest = hashlib.sha256()
        count = 0

        def parts(file: IO[bytes]) -> Iterator[bytes]:
            nonlocal count
            while True:
                part = file.read(_CHUNK // 2)
                if not part:
                    return
                count += len(part)
                if count > entry.size_bytes:
                    break
                digest.update(part)
                tick(len(part))
                yield part

        with open(item.path, "rb") as file:
            self._write_range(entry.offset_bytes, parts(file), entry.name)
        if count != entry.size_bytes:
            raise ValueError(f"{item.path} changed while it was read; nothing was changed on the "
                             "namespace")
        return replace(entry, sha256=digest.digest())

    def _write_range(self, offset: int, parts: Iterable[bytes], what: str) -> None:
        """Writes whole blocks from the one of offset on; what is before and behind is zeroed."""
        link, block = self.source.link(), self.source.block_bytes
        lba, fill = divmod(offset, block)
        ahead: Deque[Tuple[Ticket, Buffer]] = deque()
        buffer = link.pool.take(_CHUNK)
        view = buffer.view
        view[:fill] = bytes(fill)

        def send() -> None:
            nonlocal lba, fill, buffer, view
            count = -(-fill // block)
            view[fill:count * block] = bytes(count * block - fill)
            ticket = Ticket(buffer, [lba], [count], [0], op=Op.WRITE, again=False,
                            name=lambda _: f"the write of {what!r}")
            ahead.append((link.engine.start(ticket), buffer))
            while len(ahead) >= _AHEAD:
                self._written(ahead)
            lba, fill, buffer = lba + count, 0, link.pool.take(_CHUNK)
            view = buffer.view

        for part in parts:
            at = 0
            while at < len(part):
                count = min(len(part) - at, len(view) - fill)
                view[fill:fill + count] = part[at:at + count]
                at, fill = at + count, fill + count
                if fill == len(view):
                    send()
        if fill:
            send()
        while ahead:
            self._written(ahead)
        del view
        link.pool.give_back(buffer)

    def _written(self, ahead: Deque[Tuple[Ticket, Buffer]]) -> None:
        link = self.source.link()
        ticket, buffer = ahead.popleft()
        link.engine.finish(ticket)
        link.pool.give_back(buffer)

    def _flush(self) -> None:
        engine = self.source.link().engine
        engine.finish(engine.start(Ticket(None, [0], [0], [0], op=Op.FLUSH, again=False,
                                          name=lambda _: "the flush")))

    def _commit(self, entries: Dict[str, Entry], space: form.Space) -> None:
        """The list of entries to free space, and only then the older header."""
        body = form.encode_body(entries.values())
        if len(body) > form.MAX_BODY_BYTES:
            raise ValueError(f"{len(entries)} names are too many for one directory")
        place = space.take(len(body)) if body else form.DATA_START
        if place is None:
            raise OSError(errno.ENOSPC, f"no room for a directory of {len(body)} bytes")
        before = self._header
        header = Header(before.generation + 1 if before else 1,
                        before.volume if before else secrets.token_bytes(16), place, len(body),
                        len(entries), hashlib.sha256(body).digest())
        form.check_extents(list(entries.values()), header, self.source.capacity_bytes)
        if body:
            self._write_range(place, [body], "the directory")
        self._flush()
        self._check_alone()
        slot = 1 - self._slot if before else 0
        raw = form.encode_header(header)
        if not before:  # whatever is in the other place is not of this volume
            self._write_range(form.SLOTS[1], [bytes(form.HEADER_BYTES)], "the directory's header")
        self._write_range(form.SLOTS[slot], [raw], "the directory's header")
        self._flush()
        self._header, self._slot, self.entries = header, slot, entries

    def _check_alone(self) -> None:
        """Two that write would each think the other's space free. This is a net, not a lock."""
        if self._header is None:
            return
        raw = self.source.read(form.SLOTS[self._slot], form.HEADER_BYTES, "the directory's header")
        other = self.source.read(form.SLOTS[1 - self._slot], form.HEADER_BYTES,
                                 "the directory's header")
        try:
            newer = form.decode_header(other, self.source.capacity_bytes).generation
        except FormatError:
            newer = 0
        if raw != form.encode_header(self._header) or newer > self._header.generation:
            raise ValueError("somebody else changed the directory meanwhile: nothing was changed; "
                             "open it anew and try again")

    # ---- its end

    def close(self) -> None:
        """Ends the connection of this process."""
        self.source.close()

    def __enter__(self) -> "Volume":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
