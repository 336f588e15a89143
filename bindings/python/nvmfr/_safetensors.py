# SPDX-License-Identifier: BSD-3-Clause
"""The header of a safetensors file, checked to the last byte. No I/O here."""
from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from ._errors import FormatError

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000  # the format's own limit
ELEMENT_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2,
                 "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
                 "C64": 8}


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: offset_bytes counts from the file's start."""
    name: str
    dtype: str
    shape: Tuple[int, ...]
    offset_bytes: int
    size_bytes: int


def header_bytes(raw: bytes, file_bytes: int, what: str) -> int:
    """The length of the JSON text, from the file's first 8 bytes. Raises FormatError for one that
    cannot be."""
    if len(raw) < LENGTH_BYTES:
        raise FormatError(f"{what}: {file_bytes} bytes are no safetensors file")
    length = int.from_bytes(raw[:LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        raise FormatError(f"{what}: a header of {length} bytes; the format allows "
                          f"{MAX_HEADER_BYTES}: not a safetensors file, or damaged")
    if length < 2 or LENGTH_BYTES + length > file_bytes:
        raise FormatError(f"{what}: a header of {length} bytes in a file of {file_bytes}: truncated "
                          "or damaged")
    return length


def _no_twins(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _tensor(name: str, value: Any, data_start: int, data_bytes: int) -> TensorInfo:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise FormatError("it has not exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ELEMENT_BYTES:
        raise FormatError(f"dtype {str(dtype)[:40]!r} is unknown; known are "
                          + ", ".join(sorted(ELEMENT_BYTES)))
    if not isinstance(shape, list) or not all(map(_count, shape)) or len(shape) > 64:
        raise FormatError("shape is not a list of up to 64 numbers from 0 on")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_count, offsets)):
        raise FormatError("data_offsets is not a pair of numbers from 0 on")
    begin, end = offsets
    if begin > end or end > data_bytes:
        raise FormatError(f"its bytes {begin} to {end} are not within the {data_bytes} bytes of "
                          "data: truncated or damaged")
    size = math.prod(shape) * ELEMENT_BYTES[dtype]
    if size != end - begin:
        raise FormatError(f"{dtype} {shape} are {str(size)[:40]} bytes; data_offsets name "
                          f"{end - begin}")
    return TensorInfo(name, dtype, tuple(shape), data_start + begin, size)


def _check_cover(tensors: List[TensorInfo], data_start: int, file_bytes: int, what: str) -> None:
    """The format wants every byte of the data to belong to one tensor."""
    at, last = data_start, "the header"
    for tensor in sorted(tensors, key=lambda one: (one.offset_bytes, one.size_bytes)):
        if tensor.offset_bytes != at:
            word = "overlaps" if tensor.offset_bytes < at else "leaves a hole behind"
            raise FormatError(f"{what}: tensor {tensor.name!r} {word} {last!r}")
        at, last = at + tensor.size_bytes, tensor.name
    if at != file_bytes:
        raise FormatError(f"{what}: {file_bytes - at} bytes follow the last tensor")


def parse_header(text: bytes, file_bytes: int, what: str
                 ) -> Tuple[Dict[str, TensorInfo], Dict[str, str]]:
    """The tensors by name, in the file's order, and the metadata.

    text is the JSON, file_bytes the size of the whole file. Raises FormatError for whatever breaks
    the format: what is wrong with which tensor.
    """
    if not text.startswith(b"{"):
        raise FormatError(f"{what}: the header does not begin with '{{'")
    try:
        found = json.loads(text.decode(), object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError) as why:
        raise FormatError(f"{what}: the header is no JSON as it should be: {why}") from None
    metadata = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(one, str) for one in metadata.values()):
        raise FormatError(f"{what}: __metadata__ is not a map of text to text")
    data_start = LENGTH_BYTES + len(text)
    tensors: List[TensorInfo] = []
    for name, value in found.items():
        try:
            tensors.append(_tensor(name, value, data_start, file_bytes - data_start))
        except FormatError as why:
            raise FormatError(f"{what}: tensor {name[:200]!r}: {why}") from None
    _check_cover(tensors, data_start, file_bytes, what)
    tensors.sort(key=lambda one: one.offset_bytes)
    return {tensor.name: tensor for tensor in tensors}, metadata
