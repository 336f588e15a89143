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


def take(stream):
    """What a worker of no framework takes of a stream, and by which association."""
    return [bytes(sample) for batch in stream for sample in batch], stream.dataset.source.commands


def mean(sample):
    """A transform; fails for one record."""
    if sample[0] == 77:
        raise ArithmeticError("77 is not liked")
    return int(sample[0])
