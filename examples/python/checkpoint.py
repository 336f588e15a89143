#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""checkpoint.py URI NAME: loads a packed safetensors file, each tensor read straight into its own memory.

    python3 -m nvmfr.pack write --overwrite nvmf+soft:///var/tmp/disk model.safetensors
    python3 checkpoint.py nvmf+soft:///var/tmp/disk model.safetensors
"""
import sys
import time

import nvmfr
from nvmfr.data import SafetensorsFile


def main(uri: str, name: str) -> None:
    with SafetensorsFile(uri, name) as file:
        start, copied = time.perf_counter(), file.source.copied_bytes  # so far: directory and header
        state = file.load()  # or file.load_into(model.state_dict()), or file["encoder.weight"]
        took = time.perf_counter() - start
        for key, info in file.tensors.items():
            print(f"{info.dtype:5} {str(tuple(info.shape)):20} {key}")
        total = sum(info.size_bytes for info in file.tensors.values())
        print(f"{len(state)} tensors, {total} bytes in {took:.3f} s, {total / took / 1e9:.2f} GB/s,",
              f"copied {file.source.copied_bytes - copied} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: checkpoint.py URI NAME")
    try:
        main(*sys.argv[1:])
    except (nvmfr.Error, nvmfr.LibraryError, nvmfr.FormatError) as why:
        sys.exit(f"checkpoint.py: {why}")
