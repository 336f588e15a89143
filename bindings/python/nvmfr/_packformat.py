# SPDX-License-Identifier: BSD-3-Clause
"""The directory of a packed namespace as bytes, and its checks: doc/pack-format.md. No I/O here."""
from __future__ import annotations

import enum
import hashlib
import struct
from dataclasses import dataclass
from typing import Iterable, List, Optional, Sequence, Tuple

from ._errors import FormatError

MAGIC = b"NVMFRPK1"
VERSION = 1
HEADER_BYTES = 4096
SLOTS = (0, 65536)  # where the two copies of the header lie
DATA_START = 131072
ALIGN = 4096
MAX_BODY_BYTES = 256 << 20
MAX_NAME_BYTES = 1024
_DIGEST_BYTES = 32
_HEADER = struct.Struct("<8sIIQ16sQQII32s")
_ENTRY = struct.Struct("<QQBBH32s")


class Kind(enum.IntEnum):
    """What a file is."""
    FILE = 0
    TAR = 1
    SAFETENSORS = 2


@dataclass(frozen=True)
class Entry:
    """A name and where its bytes lie."""
    name: str
    offset_bytes: int
    size_bytes: int
    kind: Kind
    sha256: bytes


@dataclass(frozen=True)
class Header:
    """One copy of the header: which generation, and where its list of entries lies."""
    generation: int
    volume: bytes
    body_offset: int
    body_bytes: int
    count: int
    body_sha256: bytes


def check_name(name: str) -> str:
    """Returns name. Raises FormatError where it could lead out of a folder or spoil a terminal."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MAX_NAME_BYTES or not name.isprintable():
        raise FormatError(f"the name {name[:80]!r} is not 1 to {MAX_NAME_BYTES} bytes of printable "
                          "UTF-8")
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise FormatError(f"the name {name!r} is not a relative path without '.' and '..'")
    return name


def encode_header(header: Header) -> bytes:
    """HEADER_BYTES bytes, the last 32 of them the checksum of those before."""
    raw = _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, header.generation, header.volume,
                       header.body_offset, header.body_bytes, header.count, 0, header.body_sha256)
    raw = raw.ljust(HEADER_BYTES - _DIGEST_BYTES, b"\0")
    return raw + hashlib.sha256(raw).digest()


def decode_header(raw: bytes, capacity_bytes: int) -> Header:
    """Raises FormatError for what is not a header, or one that cannot be of this namespace."""
    if not raw.startswith(MAGIC):
        raise FormatError("there is no directory (no NVMFRPK1 at its start)")
    body, digest = raw[:HEADER_BYTES - _DIGEST_BYTES], raw[HEADER_BYTES - _DIGEST_BYTES:HEADER_BYTES]
    if hashlib.sha256(body).digest() != digest:
        raise FormatError("the header's checksum is wrong: torn or damaged")
    (_, version, size, generation, volume, offset, count_bytes, count, _,
     body_digest) = _HEADER.unpack_from(raw)
    if version != VERSION or size != HEADER_BYTES:
        raise FormatError(f"the header is of version {version} with {size} bytes; this is for "
                          f"version {VERSION} with {HEADER_BYTES}")
    if count_bytes > MAX_BODY_BYTES or count * (_ENTRY.size + 1) > count_bytes:
        raise FormatError(f"{count} entries in {count_bytes} bytes: at most {MAX_BODY_BYTES} bytes, "
                          f"and more than {_ENTRY.size} for each entry")
    if offset < DATA_START or offset + count_bytes > capacity_bytes:
        raise FormatError(f"the list of entries, {count_bytes} bytes from {offset} on, is not within "
                          f"{DATA_START} and the namespace's end, {capacity_bytes}")
    return Header(generation, volume, offset, count_bytes, count, body_digest)


def encode_body(entries: Iterable[Entry]) -> bytes:
    """The list of entries."""
    parts: List[bytes] = []
    for entry in entries:
        name = check_name(entry.name).encode()
        parts += [_ENTRY.pack(entry.offset_bytes, entry.size_bytes, entry.kind, 0, len(name),
                              entry.sha256), name]
    return b"".join(parts)


def _decode_entry(raw: bytes, at: int, index: int) -> Tuple[Entry, int]:
    if at + _ENTRY.size > len(raw):
        raise FormatError(f"entry {index} of the directory is cut off")
    offset, size, kind, reserved, name_bytes, digest = _ENTRY.unpack_from(raw, at)
    at += _ENTRY.size
    if at + name_bytes > len(raw):
        raise FormatError(f"the name of entry {index} of the directory is cut off")
    try:
        name = check_name(raw[at:at + name_bytes].decode())
        entry = Entry(name, offset, size, Kind(kind), digest)
    except FormatError as why:
        raise FormatError(f"entry {index} of the directory: {why}") from why
    except ValueError as why:  # no UTF-8, or no such kind
        raise FormatError(f"entry {index} of the directory: {why}") from None
    if reserved:
        raise FormatError(f"entry {index} of the directory: its reserved byte is {reserved}")
    return entry, at + name_bytes


def decode_body(raw: bytes, header: Header, capacity_bytes: int) -> List[Entry]:
    """The entries. Raises FormatError for a wrong checksum, extents that overlap or are out of
    range, and names that are there twice."""
    if hashlib.sha256(raw).digest() != header.body_sha256:
        raise FormatError("the checksum of the list of entries is wrong: damaged")
    entries: List[Entry] = []
    at = 0
    for index in range(header.count):
        entry, at = _decode_entry(raw, at, index)
        entries.append(entry)
    if at != len(raw):
        raise FormatError(f"{len(raw) - at} bytes follow the last entry of the directory")
    names = {entry.name for entry in entries}
    if len(names) != len(entries):
        raise FormatError(f"{len(entries) - len(names)} names are in the directory twice")
    check_extents(entries, header, capacity_bytes)
    return entries


def check_extents(entries: Sequence[Entry], header: Header, capacity_bytes: int) -> None:
    """Raises FormatError where extents overlap each other or the directory, or go too far."""
    end, last = DATA_START, "the headers"
    extents = [(entry.offset_bytes, entry.size_bytes, entry.name) for entry in entries
               if entry.size_bytes]
    extents.append((header.body_offset, header.body_bytes, "the list of entries"))
    for offset, size, name in sorted(extents):
        if offset < end:
            raise FormatError(f"{name!r}, {size} bytes from {offset} on, overlaps {last!r}")
        end, last = offset + size, name
        if end > capacity_bytes:
            raise FormatError(f"{name!r}, {size} bytes from {offset} on, ends beyond the "
                              f"namespace's {capacity_bytes} bytes")


class Space:
    """What is free between the extents in use; whole units of align."""

    def __init__(self, used: Iterable[Tuple[int, int]], capacity_bytes: int, align: int) -> None:
        self._align = align
        self._free: List[Tuple[int, int]] = []
        at = -(-DATA_START // align) * align
        for offset, size in sorted(used):
            first = offset // align * align
            if first > at:
                self._free.append((at, first))
            at = max(at, -(-(offset + size) // align) * align)
        end = capacity_bytes // align * align
        if end > at:
            self._free.append((at, end))

    def take(self, size_bytes: int) -> Optional[int]:
        """The offset of so many bytes, from now on in use; None: no free range is that long."""
        size = -(-size_bytes // self._align) * self._align
        for index, (first, end) in enumerate(self._free):
            if end - first >= size:
                self._free[index:index + 1] = [(first + size, end)] if end - first > size else []
                return first
        return None

    @property
    def free_bytes(self) -> int:
        """All together."""
        return sum(end - first for first, end in self._free)
