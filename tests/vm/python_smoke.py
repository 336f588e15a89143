# SPDX-License-Identifier: BSD-3-Clause
"""python_smoke.py URI FILE: reads what the kernel's initiator wrote from FILE to the namespace's first bytes, in every
way that the Python package has, and writes a part back. In the guest, against the kernel's target."""
import asyncio
import sys
import time

import nvmfr
from nvmfr import Op

uri, path = sys.argv[1:]
with open(path, "rb") as file:
    want = file.read()


def simple(disk, block):
    nblocks = len(want) // block
    assert disk.read(0, nblocks) == want, "read()"
    part = bytearray(3 * block)
    assert disk.pread(part, 2 * block + 7, block // 2) == 2 * block + 7
    assert part[:2 * block + 7] == want[block // 2:block // 2 + 2 * block + 7], "pread()"


def batches(host, controller, disk, block):
    count = min(512, len(want) // block)
    with host.register(bytearray(count * block)) as buffer, controller.queue_pair(32) as qpair:
        batch, done = nvmfr.Batch(count), nvmfr.Completions(count)
        batch.fill(Op.READ, disk.nsid, range(count), 1, buffer, range(0, count * block, block))
        assert qpair.submit_and_wait(batch, done, count) == (count, count)
        done.check(count)
        assert buffer.view == want[:count * block], "batch"
        assert qpair.info.bounced_bytes == 0
        with qpair.prepare(batch, 16) as prepared:
            assert prepared.post() == 16 and qpair.wait(done, 16) == 16
            done.check(16)


async def awaits(host, controller, block):
    with host.alloc(16 * block) as buffer:
        async with controller.async_queue(8) as queue:
            await asyncio.gather(*(queue.read(buffer, lba, 1, offset_bytes=lba * block) for lba in range(16)))
        assert buffer.view == want[:16 * block], "await"


def refused(disk):
    try:
        disk.read(disk.capacity_blocks, 1)
    except nvmfr.ArgumentError:
        return
    raise AssertionError("a read behind the end was not refused")


def step(name, function, *arguments):
    """Says how far it came: a hang ends without another word."""
    start = time.monotonic()
    function(*arguments)
    print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)


with nvmfr.Host() as host, host.connect(uri) as controller:
    disk = controller.namespace()
    block = disk.block_bytes
    step("read, pread", simple, disk, block)
    step("batches", batches, host, controller, disk, block)
    step("asyncio", asyncio.run, awaits(host, controller, block))
    step("refused", refused, disk)
    disk.write(want[::-1], 0)
    disk.flush()
    assert disk.read(0, len(want) // block) == want[::-1], "write()"
    assert [event.type for event in host.events()] == [nvmfr.EventType.STATE]
    assert controller.dump()["state"] == "live"
print(f"{len(want)} bytes, every way")
