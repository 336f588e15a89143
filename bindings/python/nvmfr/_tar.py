# SPDX-License-Identifier: BSD-3-Clause
"""What is in a tar, from its headers alone, and which members make a sample. No I/O here."""
from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import Dict, Generator, List, Tuple

from ._errors import FormatError

BLOCK = 512
_MAX_META_BYTES = 1 << 20  # of a pax header or a long name
_ZEROS = bytes(BLOCK)
Scan = Generator[Tuple[int, int], bytes, List["Member"]]


@dataclass(frozen=True)
class Member:
    """A regular file of a tar; offset_bytes counts from the tar's start."""
    name: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class TarSample:
    """Members of one key: extension, offset, size, in the order of the tar."""
    key: str
    shard: int
    members: Tuple[Tuple[str, int, int], ...]


def _pax(raw: bytes, where: str) -> Dict[str, str]:
    """The records "LENGTH KEY=VALUE\\n"."""
    found: Dict[str, str] = {}
    at = 0
    while at < len(raw) and raw[at]:
        blank = raw.find(b" ", at, at + 20)
        digits = raw[at:blank] if blank > 0 else b""
        size = int(digits) if digits.isdigit() else 0
        record = raw[at:at + size]
        key, equals, value = record[blank + 1 - at:].partition(b"=")
        if size < 5 or at + size > len(raw) or not equals or not value.endswith(b"\n"):
            raise FormatError(f"{where}: a damaged pax header")
        found[key.decode("utf-8", "replace")] = value[:-1].decode("utf-8", "surrogateescape")
        at += size
    return found


def _size_of(overrides: Dict[str, str], header: tarfile.TarInfo, where: str) -> int:
    text = overrides.get("size")
    if text is None:
        return header.size
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise FormatError(f"{where}: a pax header says the size is {text[:40]!r}")
    return int(text)


def _header(raw: bytes, where: str) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(raw, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError) as why:
        raise FormatError(f"{where}: no tar header: {why}") from None


def scan(size_bytes: int, what: str) -> Scan:
    """Yields (offset, size) of what it must see, is sent those bytes, returns the members.

    Raises FormatError, which says at which byte, for a damaged header, a member that goes beyond
    the end, a tar without its end mark, a sparse member.
    """
    members: List[Member] = []
    overrides: Dict[str, str] = {}
    at = 0
    while True:
        where = f"{what}: byte {at}"
        if at + BLOCK > size_bytes:
            raise FormatError(f"{where}: the tar ends without its end mark: truncated")
        raw = yield at, BLOCK
        if raw == _ZEROS:
            return members
        header = _header(raw, where)
        size = _size_of(overrides, header, where)
        kind, data = header.type, at + BLOCK
        if kind not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, b"x", b"g", b"L", b"K"):
            if kind == tarfile.GNUTYPE_SPARSE:
                raise FormatError(f"{where}: {header.name!r} is sparse: not for a data set")
            size = 0 if kind in (b"1", b"2", b"3", b"4", b"5", b"6") else size
        if size < 0 or data + size > size_bytes:
            raise FormatError(f"{where}: {header.name[:200]!r} has {size} bytes and goes beyond the "
                              f"tar's end at {size_bytes}: truncated or damaged")
        at = data + -(-size // BLOCK) * BLOCK
        if kind in (b"x", b"g", b"L", b"K"):
            if size > _MAX_META_BYTES:
                raise FormatError(f"{where}: a header of {size} bytes for a name")
            text = (yield data, size) if size else b""
            if kind == b"x":
                overrides.update(_pax(text, where))
                if any(key.startswith("GNU.sparse") for key in overrides):
                    raise FormatError(f"{where}: a sparse member: not for a data set")
            elif kind == b"L":
                overrides["path"] = text.rstrip(b"\0").decode("utf-8", "surrogateescape")
            continue
        if header.isreg() and not header.name.endswith("/"):
            members.append(Member(overrides.get("path", header.name), data, size))
        overrides = {}


def split_name(name: str) -> Tuple[str, str]:
    """WebDataset's rule: the key goes to the first dot of the last part of the path."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension


def samples(members: List[Member], shard: int, what: str) -> List[TarSample]:
    """Neighbours of one key make a sample. Raises FormatError for an extension that is there
    twice."""
    found: List[TarSample] = []
    group: Dict[str, Tuple[str, int, int]] = {}
    last = None
    for member in members:
        key, extension = split_name(member.name)
        if not extension:
            continue  # no part of a sample
        if key != last and group:
            found.append(TarSample(last or "", shard, tuple(group.values())))
            group = {}
        if extension in group:
            raise FormatError(f"{what}: {member.name!r} is there twice")
        group[extension] = (extension, member.offset_bytes, member.size_bytes)
        last = key
    if group:
        found.append(TarSample(last or "", shard, tuple(group.values())))
    return found
