# SPDX-License-Identifier: BSD-3-Clause
"""loader.py URI DEVICE [--rounds N] [--records N] [--bytes N] [--json FILE]: the data loader of nvmfr.data from
URI, next to the usual way, O_DIRECT reads of the kernel's DEVICE for the same namespace in a Dataset of PyTorch's: shuffled
records, batches of 32, with and without worker processes, in turn. Ratios; nothing is asserted but that both read
the same bytes. What it writes to the namespace is lost to whoever had something there."""
import argparse
import json
import mmap
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import zlib

BATCH = 32
WAYS = [("ours", 0), ("usual", 0), ("ours", 2), ("usual", 2)]


class Direct:
    """Map-style, as people write it: each sample is one read past the page cache."""

    def __init__(self, path, record_bytes, count):
        self.path, self.record_bytes, self.count = path, record_bytes, count
        self.fd, self.page = None, None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch
        if self.fd is None:  # each worker its own
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
            self.page = mmap.mmap(-1, self.record_bytes)
        if os.preadv(self.fd, [self.page], index * self.record_bytes) != self.record_bytes:
            raise OSError(f"a short read of record {index}")
        # The default collate copies samples into the batch: their memory must be their own until then.
        return torch.frombuffer(bytearray(self.page), dtype=torch.uint8)


def batches(way, workers, given):
    """What a training loop iterates."""
    import torch
    from torch.utils.data import DataLoader
    # Not fork: librdmacm keeps the device that this process opened, and a child cannot use it.
    context = "forkserver" if workers else None
    multiprocessing.set_forkserver_preload(["torch", "nvmfr.data"])
    if way == "usual":
        order = torch.Generator()
        order.manual_seed(1)
        return DataLoader(Direct(given.device, given.bytes, given.records), batch_size=BATCH, shuffle=True,
                          num_workers=workers, multiprocessing_context=context, generator=order)
    from nvmfr.data import RecordDataset, Source, Stream
    source = Source(given.uri, connect_timeout_ms=120000, admin_timeout_ms=60000)
    records = RecordDataset(source, extent=(0, given.records * given.bytes), record_bytes=given.bytes, out="torch")
    return DataLoader(Stream(records, BATCH, shuffle=True, seed=1), batch_size=None, num_workers=workers,
                      multiprocessing_context=context)


def busy_seconds():
    """Of all processors, whoever used them: the kernel's own threads, too."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # without idle and iowait


def one(way, workers, given):
    """One epoch; figures and what was read as JSON."""
    loader = batches(way, workers, given)
    iterator = iter(loader)  # workers start here
    first = next(iterator)
    seen, check = len(first), sum(zlib.crc32(row.numpy()) for row in first)
    wall, busy = time.monotonic(), busy_seconds()
    for batch in iterator:
        seen += len(batch)
        check += sum(zlib.crc32(row.numpy()) for row in batch[::8])  # a look at some: training is not measured
    wall, busy = time.monotonic() - wall, busy_seconds() - busy
    gib = (seen - BATCH) * given.bytes / 2**30
    print(json.dumps({"samples": seen, "samples_per_s": (seen - BATCH) / wall, "cpu_s_per_gib": busy / gib}))


def fill(given):
    """Records that differ, and a record of each way that is the same."""
    import nvmfr
    with nvmfr.Host() as host, host.connect(given.uri, connect_timeout_ms=120000) as controller:
        disk = controller.namespace()
        blocks = given.bytes // disk.block_bytes
        data = bytearray(os.urandom(given.bytes))
        for index in range(given.records):
            data[:8] = index.to_bytes(8, "little")
            disk.write(data, index * blocks)
        got = disk.read(7 * blocks, blocks)
    if bytes(Direct(given.device, given.bytes, given.records)[7].numpy()) != got:
        sys.exit("loader.py: the device and the URI are not the same namespace")


def compare(given):
    fill(given)
    runs = {way: [] for way in WAYS}
    for _ in range(given.rounds):
        for way, workers in WAYS:
            done = subprocess.run([sys.executable, *sys.argv, "--way", way, "--workers", str(workers)], check=True,
                                  stdout=subprocess.PIPE, text=True)
            runs[way, workers].append(json.loads(done.stdout.splitlines()[-1]))
            if runs[way, workers][-1]["samples"] != given.records:
                sys.exit(f"loader.py: {way} gave {runs[way, workers][-1]['samples']} of {given.records} samples")
    print(f"{given.records} records of {given.bytes} bytes, {given.rounds} rounds in turn; medians, ours by usual")
    titles = ["samples/s: ours", "usual", "ratio", "CPU s/GiB: ours", "usual", "ratio"]
    print(f"{'workers':8}" + "".join(f"{title:>17}" for title in titles))
    for workers in (0, 2):
        cells = []
        for key in ("samples_per_s", "cpu_s_per_gib"):
            ours, usual = (statistics.median(run[key] for run in runs[way, workers]) for way in ("ours", "usual"))
            cells += [ours, usual, ours / usual]
        print(f"{workers:<8}" + "".join(f"{cell:17.2f}" for cell in cells))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump([{"way": way, "workers": workers, "runs": found} for (way, workers), found in runs.items()], file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("uri")
    parser.add_argument("device")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--records", type=int, default=1024)
    parser.add_argument("--bytes", type=int, default=131072)
    parser.add_argument("--json")
    parser.add_argument("--way", choices=["ours", "usual"])
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    if given.way:
        one(given.way, given.workers, given)
    else:
        compare(given)


if __name__ == "__main__":
    main()
