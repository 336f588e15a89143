# SPDX-License-Identifier: BSD-3-Clause
"""What worker processes run: importable, as spawn and forkserver demand."""
import nvmfr

inherited = {}  # what a forked child finds there


def read_blocks(uri, lba, nblocks):
    """With a host of the worker's own."""
    with nvmfr.Host() as host, host.connect(uri) as controller:
        return bytes(controller.namespace().read(lba, nblocks))


def use_inherited(name):
    """With what the parent made."""
    return inherited[name]()
