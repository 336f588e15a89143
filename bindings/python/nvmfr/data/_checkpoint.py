# SPDX-License-Identifier: BSD-3-Clause
"""SafetensorsFile: each tensor of a packed checkpoint read straight into its own memory."""
from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _safetensors as form
from .._buffer import Buffer
from .._engine import Ticket
from .._errors import LostError
from .._controller import Controller
from .._progress import Progress
from .._safetensors import TensorInfo
from .._source import Source, as_source, _Link
from .._volume import Volume
from ._arrays import arrays
from ._plan import Extent

_CHUNK = 4 << 20  # of one command; the library cuts it by what the controller takes
_AHEAD_BYTES = 256 << 20  # tensors that are on their way
_AHEAD = 64
_DTYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2",
           "F8_E4M3": "float8_e4m3fn", "I16": "int16", "U16": "uint16", "F16": "float16",
           "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "I64": "int64",
           "U64": "uint64", "F64": "float64", "C64": "complex64"}


class _Load:
    """One tensor on its way: whole blocks to their place, a head and a tail by way of scratch."""

    def __init__(self, link: _Link, info: TensorInfo, offset: int, target: Any, what: str) -> None:
        self.info, self.target = info, target
        self._link, self._tickets = link, []  # type: Tuple[_Link, List[Ticket]]
        self._buffer: Optional[Buffer] = None
        self._edges: List[Tuple[Buffer, int, int, int]] = []
        if not info.size_bytes:
            return
        buffer = self._buffer = link.controller.host.register(target)
        block, end = link.block_bytes, offset + info.size_bytes
        first, last = -(-offset // block), end // block  # whole blocks
        if first > last:  # all of it within one
            self._edge(offset, end, offset, what)
            return
        if first * block > offset:
            self._edge(offset, first * block, offset, what)
        step = _CHUNK // block
        lbas = range(first, last, step)
        self._start(buffer, lbas, [min(step, last - lba) for lba in lbas],
                    [lba * block - offset for lba in lbas], what)
        if end > last * block:
            self._edge(last * block, end, offset, what)

    def _start(self, buffer: Buffer, lbas: Sequence[int], nblocks: Sequence[int],
               offsets: Sequence[int], what: str) -> None:
        self._tickets.append(self._link.engine.start(
            Ticket(buffer, lbas, nblocks, offsets, name=lambda _: what)))

    def _edge(self, begin: int, end: int, offset: int, what: str) -> None:
        block = self._link.block_bytes
        scratch = self._link.pool.take(block)
        self._start(scratch, [begin // block], [1], [0], what)
        self._edges.append((scratch, begin % block, end - begin, begin - offset))

    def finish(self) -> None:
        """Waits, and puts the edges in place. The registration ends in any case."""
        try:
            for ticket in self._tickets:
                self._link.engine.finish(ticket)
            assert self._buffer is not None or not self._edges
            for scratch, head, size, place in self._edges:
                if self._buffer is not None:
                    self._buffer.view[place:place + size] = scratch.view[head:head + size]
                self._link.copied_bytes += size
                self._link.pool.give_back(scratch)
        except BaseException:
            self.abandon()
            raise
        self._release()

    def abandon(self) -> None:
        """After a failure: waits for what is in flight, whatever it brings."""
        for ticket in self._tickets:
            self._link.engine.drop(ticket)
            try:
                self._link.engine.finish(ticket)
            except (OSError, ValueError):
                pass
        self._release()

    def _release(self) -> None:
        if self._buffer is not None:
            self._buffer.release()
            self._buffer = None


class SafetensorsFile:
    """A safetensors file on a namespace. The header is read and checked at once.

    source   a URI, a Source or a controller
    name     the packed file
    extent   or (offset, size) in bytes of a namespace without a directory
    out      "torch", "numpy" or "bytes"; None: the first of these that is installed

    Raises FormatError, which says what is wrong with which tensor, for a header that breaks the
    format in any way. Threads: any, one after the other.
    """

    def __init__(self, source: Union[str, Source, Controller], name: Optional[str] = None, *,
                 extent: Optional[Extent] = None, out: Optional[str] = None) -> None:
        if (name is None) == (extent is None):
            raise ValueError("give either the name of a packed file or an extent")
        self.source = as_source(source)
        self._arrays = arrays(out)
        self._what = name if name is not None else "extent"
        if name is not None:
            entry = Volume(self.source).entry(name)
            extent = entry.offset_bytes, entry.size_bytes
        assert extent is not None
        self._first, size = extent
        if size < form.LENGTH_BYTES:
            form.header_bytes(b"", size, self._what)
        raw = self.source.read(self._first, form.LENGTH_BYTES, self._what)
        length = form.header_bytes(raw, size, self._what)
        text = self.source.read(self._first + form.LENGTH_BYTES, length, self._what)
        self.tensors, self.metadata = form.parse_header(text, size, self._what)

    def keys(self) -> List[str]:
        """The tensors' names, in the file's order."""
        return list(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __getitem__(self, name: str) -> Any:
        return self.load([name])[name]

    def _info(self, name: str) -> TensorInfo:
        found = self.tensors.get(name)
        if found is None:
            raise KeyError(f"{self._what} has no tensor {name!r}")
        return found

    def load(self, names: Optional[Sequence[str]] = None, *, progress: Optional[bool] = False
             ) -> Dict[str, Any]:
        """Tensors by name; None: all. Each in memory of its own, where the target put it.

        progress: True: a bar; None: on a terminal.
        """
        infos = [self._info(name) for name in (self.tensors if names is None else names)]
        made = {info.name: self._arrays.empty(_DTYPES[info.dtype], info.shape) for info in infos}
        self._load_all([(info, made[info.name]) for info in infos], progress)
        return made

    def load_into(self, targets: Mapping[str, Any], *, progress: Optional[bool] = False) -> None:
        """Fills tensors that are there, a model's state_dict() say: no memory is allocated.

        Raises KeyError for a name that the file has not, ValueError for another size or dtype.
        A failed read leaves the tensors it was for undefined.
        """
        work = [(self._info(name), target) for name, target in targets.items()]
        for info, target in work:
            self._check_target(info, target)
        self._load_all(work, progress)

    @staticmethod
    def _check_target(info: TensorInfo, target: Any) -> None:
        if hasattr(target, "element_size"):
            size = target.numel() * target.element_size()
        else:
            size = memoryview(target).nbytes
        dtype = str(getattr(target, "dtype", "")).rpartition(".")[2]
        if dtype and dtype != _DTYPES[info.dtype]:
            raise ValueError(f"tensor {info.name!r} is {_DTYPES[info.dtype]}, its target {dtype}")
        shape = tuple(getattr(target, "shape", info.shape)) if dtype else info.shape
        if size != info.size_bytes or shape != info.shape:
            raise ValueError(f"tensor {info.name!r} has shape {info.shape}, {info.size_bytes} bytes; "
                             f"its target {shape}, {size} bytes")

    def _load_all(self, work: Sequence[Tuple[TensorInfo, Any]], progress: Optional[bool]) -> None:
        total = sum(info.size_bytes for info, _ in work)
        ahead: Deque[_Load] = deque()
        size = 0
        with self.source.lock, Progress(total, self._what, enabled=progress) as bar:
            link = self.source.link()

            def finish() -> int:
                load = ahead.popleft()
                load.finish()
                bar.update(load.info.size_bytes)
                return load.info.size_bytes

            try:
                for info, target in sorted(work, key=lambda one: one[0].offset_bytes):
                    while ahead and (len(ahead) >= _AHEAD or size + info.size_bytes > _AHEAD_BYTES):
                        size -= finish()
                    ahead.append(_Load(link, info, self._first + info.offset_bytes, target,
                                       f"tensor {info.name!r} of {self._what}"))
                    size += info.size_bytes
                while ahead:
                    finish()
            except BaseException as why:
                while ahead:
                    ahead.popleft().abandon()
                if isinstance(why, LostError):
                    self.source.forget(link)
                raise

    def close(self) -> None:
        """Ends the connection of this process; tensors stay as they are."""
        self.source.close()

    def __enter__(self) -> "SafetensorsFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
