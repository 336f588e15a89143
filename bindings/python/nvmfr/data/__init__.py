# SPDX-License-Identifier: BSD-3-Clause
"""Data sets and checkpoints on a namespace, read straight into tensors; doc/python.md.

    from nvmfr.data import RecordDataset, SafetensorsFile, Stream
    images = RecordDataset(URI, "train.bin", shape=(3, 64, 64))
    for batch in Stream(images, 256, shuffle=True):
        ...
    model.load_state_dict(SafetensorsFile(URI, "model.safetensors").load())

torch is used where it is installed, else numpy, else memoryviews.
"""
from typing import TYPE_CHECKING, Any

from .._errors import FormatError
from .._safetensors import TensorInfo
from .._source import Source
from ._checkpoint import SafetensorsFile
from ._dataset import ExtentDataset, Pending, SampleError
from ._records import FileDataset, RecordDataset
from ._tars import TarDataset, TarIndex

if TYPE_CHECKING:
    from ._stream import Stream


def __getattr__(name: str) -> Any:
    """Stream is a torch IterableDataset: its import is torch's, for those who use it."""
    if name == "Stream":
        from ._stream import Stream
        return Stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ExtentDataset", "FileDataset", "FormatError", "Pending", "RecordDataset",
           "SafetensorsFile", "SampleError", "Source", "Stream", "TarDataset", "TarIndex",
           "TensorInfo"]
