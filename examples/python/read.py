#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""read.py URI [LBA] [NBLOCKS]: the shortest zero-copy read. The target writes straight into buffer.

    read.py nvmf+soft:?size=64M
"""
import sys

import nvmfr


def main(uri: str, lba: int = 0, nblocks: int = 1) -> None:
    with nvmfr.Host() as host, host.connect(uri) as controller, controller.queue_pair() as qpair:
        block = qpair.namespace().block_bytes
        with host.alloc(nblocks * block) as buffer:
            done = nvmfr.Completions(1)
            qpair.read(buffer, lba, nblocks)
            qpair.wait(done)
            done.check(1)
            print(bytes(buffer.view[:64]).hex(" "))
            print(f"{nblocks} blocks of {block} bytes from LBA {lba},",
                  f"bounced {qpair.info.bounced_bytes} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: read.py URI [LBA] [NBLOCKS]")
    try:
        main(sys.argv[1], *(int(word, 0) for word in sys.argv[2:4]))
    except (nvmfr.Error, nvmfr.LibraryError) as why:
        sys.exit(f"read.py: {why}")
