#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch_loader.py [--epochs N] [--workers N] URI: trains a tiny model to tell kinds of files by their first bytes, from
a namespace that `python -m nvmfr.pack` wrote. The folder that a file was packed from is its kind.

    python3 -m nvmfr.pack write nvmf+soft:///var/tmp/disk headers/ scripts/ libraries/
    python3 torch_loader.py nvmf+soft:///var/tmp/disk
"""
import argparse
import sys
import time
from typing import Any, List, Tuple

import torch
from torch.utils.data import DataLoader

import nvmfr
from nvmfr.data import FileDataset, Stream

FIRST = 4096  # bytes of a file that are looked at
BATCH = 64


class Histogram:
    """Of a file's first bytes: how often each value comes. A class, since it travels to workers."""

    def __call__(self, data: Any) -> Any:
        counts = torch.bincount(data[:FIRST].int(), minlength=256).float()
        return counts / counts.sum().clamp(min=1)


def open_files(uri: str, names: List[str], transform: Any = None) -> FileDataset:
    return FileDataset(uri, names, transform=transform, out="torch")


def split(uri: str) -> Tuple[List[str], List[str], List[str]]:
    """The kinds, names to train with, and one in five to test with."""
    with open_files(uri, ["*/*"]) as files:
        # An empty file has no first byte.
        names = [name for index, name in enumerate(files.names) if files.extent(index)[1]]
    kinds = sorted({name.split("/")[0] for name in names})
    if len(kinds) < 2:
        sys.exit("torch_loader.py: pack two folders or more: each is a kind of file")
    return kinds, [n for i, n in enumerate(names) if i % 5], names[::5]


def labels(kinds: List[str], names: List[str]) -> Any:
    return torch.tensor([kinds.index(name.split("/")[0]) for name in names])


def train(uri: str, epochs: int, workers: int) -> float:
    kinds, seen, unseen = split(uri)
    print(f"{len(seen)} files to train, {len(unseen)} to test, kinds: {', '.join(kinds)}")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 32), torch.nn.ReLU(),
                                torch.nn.Linear(32, len(kinds)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    files = open_files(uri, seen, Histogram())
    stream = Stream(files, BATCH, shuffle=True, collate=torch.stack)
    # Each worker connects by itself: none of them needs anything of this process.
    loader: Any = DataLoader(stream, batch_size=None, num_workers=workers,
                             multiprocessing_context="spawn" if workers else None)
    truth = labels(kinds, seen)
    for epoch in range(epochs):
        stream.set_epoch(epoch)
        start, order, total = time.perf_counter(), torch.as_tensor(list(stream.indices())), 0.0
        for number, batch in enumerate(loader):
            wanted = truth[order[number * BATCH:number * BATCH + len(batch)]]
            loss = torch.nn.functional.cross_entropy(model(batch), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        took = time.perf_counter() - start
        print(f"epoch {epoch}: loss {total / len(seen):.3f}, {len(seen) / took:.0f} files a second")
    files.close()
    with open_files(uri, unseen, Histogram()) as files, torch.no_grad():
        found = model(torch.stack(files[:])).argmax(1)
    return float((found == labels(kinds, unseen)).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a tiny model from a packed namespace.")
    parser.add_argument("uri")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="processes that load (0: this one)")
    given = parser.parse_args()
    print(f"{100 * train(given.uri, given.epochs, given.workers):.0f} % of the test files are told right")


if __name__ == "__main__":
    try:
        main()
    except (nvmfr.Error, nvmfr.LibraryError, nvmfr.FormatError) as why:
        sys.exit(f"torch_loader.py: {why}")
