# SPDX-License-Identifier: BSD-3-Clause
"""Files for the tests: safetensors and tar by hand, and packed onto a namespace."""
import io
import json
import os
import random
import shutil
import tarfile
import tempfile

from nvmfr.pack import Item, Volume

from support import SoftCase


def noise(size, seed=1):
    """Bytes that are the same each time."""
    return random.Random(seed).randbytes(size)


def safetensors(tensors, metadata=None, length=None):
    """A file of {name: (dtype, shape, bytes)}; length: what its first 8 bytes say instead."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return safetensors_raw(json.dumps(header).encode(), data, length)


def safetensors_raw(text, data=b"", length=None):
    """A file of a header's text and data."""
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def tar(members, form=tarfile.PAX_FORMAT):
    """A tar of [(name, bytes)]."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as file:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return raw.getvalue()


class PackCase(SoftCase):
    """self.folder for files; pack() puts contents onto the namespace."""
    size_bytes = 32 << 20

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def file(self, name, data):
        """A file below the folder. Returns its path."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def items(self, contents):
        return [Item(name, self.file(name, data)) for name, data in contents.items()]

    def volume(self, **options):
        return Volume(self.controller, **options)

    def pack(self, contents, **options):
        """Writes {name: bytes}."""
        with self.volume(create=True) as volume:
            volume.write(self.items(contents), **options)

    def contents(self):
        """{name: bytes} of what is on the namespace, checked."""
        with self.volume() as volume:
            self.assertEqual(volume.verify(), [])
            return {name: b"".join(map(bytes, volume.chunks(entry)))
                    for name, entry in volume.entries.items()}
