# SPDX-License-Identifier: BSD-3-Clause
"""Files, tar shards and safetensors on a namespace, under names: python -m nvmfr.pack --help.

    from nvmfr.pack import Volume
    with Volume("nvmf+rdma://192.168.1.2/NQN") as volume:
        print(volume.entries["model.safetensors"].offset_bytes)

What lies where on the namespace is in doc/pack-format.md.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Iterator, List, Optional

from ._errors import Error, LibraryError
from ._packformat import Entry, Kind
from ._progress import Progress, human, reader_left
from ._source import Source
from ._volume import Item, Volume

__all__ = ["Entry", "Item", "Kind", "Volume", "find_items", "main"]


def find_items(paths: List[str], prefix: str = "", kind: Optional[Kind] = None) -> List[Item]:
    """The files that paths name; a folder stands for all that is below it, under its own name."""
    items: List[Item] = []
    for path in paths:
        base = os.path.basename(os.path.normpath(os.path.abspath(path)))
        if not os.path.isdir(path):
            items.append(Item(prefix + base, path, kind))
            continue
        for folder, folders, names in os.walk(path):
            folders.sort()
            inside = os.path.relpath(folder, path)
            parts = [base] if inside == "." else [base, *inside.split(os.sep)]
            items += [Item(prefix + "/".join([*parts, name]), os.path.join(folder, name), kind)
                      for name in sorted(names)]
    return items


def _rows(volume: Volume, as_json: bool) -> Iterator[str]:
    for name, entry in sorted(volume.entries.items()):
        if as_json:
            yield json.dumps({"name": name, "kind": entry.kind.name.lower(),
                              "offset_bytes": entry.offset_bytes, "size_bytes": entry.size_bytes,
                              "sha256": entry.sha256.hex()})
        else:
            yield (f"{entry.kind.name.lower():12} {entry.offset_bytes:>16} {entry.size_bytes:>16} "
                   f"{entry.sha256.hex()[:16]}  {name}")


def _list(volume: Volume, args: argparse.Namespace) -> int:
    for row in _rows(volume, args.json):
        print(row)
    if not args.json:
        total = sum(entry.size_bytes for entry in volume.entries.values())
        print(f"{len(volume.entries)} files, {human(total)}; generation {volume.generation}")
    return 0


def _total(volume: Volume, names: List[str]) -> int:
    return sum(volume.entry(name).size_bytes for name in names or volume.entries)


def _verify(volume: Volume, args: argparse.Namespace) -> int:
    with Progress(_total(volume, args.name), "verify", enabled=args.progress) as progress:
        bad = volume.verify(args.name, progress.update)
    for name in bad:
        print(f"differs from its checksum: {name}")
    print(f"{len(args.name or volume.entries) - len(bad)} files as they were written, "
          f"{len(bad)} damaged")
    return 1 if bad else 0


def _extract(volume: Volume, args: argparse.Namespace) -> int:
    with Progress(_total(volume, args.name), "extract", enabled=args.progress) as progress:
        made = volume.extract(args.folder, args.name, replace=args.replace, tick=progress.update)
    print(f"{len(made)} files written below {args.folder}")
    return 0


def _write(volume: Volume, args: argparse.Namespace) -> int:
    items = find_items(args.file, args.prefix, args.kind and Kind[args.kind.upper()])
    total = sum(os.path.getsize(item.path) for item in items)
    with Progress(total, "write", enabled=args.progress) as progress:
        written = volume.write(items, replace=args.replace, tick=progress.update)
    print(f"{len(written)} files, {human(total)} written; generation {volume.generation}")
    return 0


def _remove(volume: Volume, args: argparse.Namespace) -> int:
    volume.remove(args.name)
    print(f"{len(args.name)} names removed; generation {volume.generation}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nvmfr.pack", description=__doc__.split(": ")[0] + ".",
                                     epilog="COMMAND --help tells its options; doc/python.md has examples.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function, create=False, overwrite=False)
        command.add_argument("uri", metavar="URI", help="nvmf+rdma://ADDRESS/SUBNQN, ...")
        command.add_argument("--nsid", type=int, default=0, help="namespace; the first")
        command.add_argument("--progress", action=argparse.BooleanOptionalAction, default=None,
                             help="a bar; where the output is a terminal")
        return command

    write = add("write", _write, "write files; folders with all that is below them")
    write.add_argument("file", nargs="+", metavar="FILE")
    write.add_argument("--prefix", default="", help="put before each name")
    write.add_argument("--kind", choices=[kind.name.lower() for kind in Kind],
                       help="instead of by the name's end: .tar, .safetensors")
    write.add_argument("--replace", action="store_true", help="names that are there already")
    write.add_argument("--overwrite", action="store_true",
                       help="a namespace with something else on it, which is lost")
    write.set_defaults(create=True)
    add("list", _list, "what is there").add_argument("--json", action="store_true",
                                                     help="an object a line")
    verify = add("verify", _verify, "compare with the checksums")
    verify.add_argument("name", nargs="*", metavar="NAME")
    extract = add("extract", _extract, "write to files here")
    extract.add_argument("name", nargs="*", metavar="NAME")
    extract.add_argument("-C", "--folder", default=".", help="below this folder")
    extract.add_argument("--replace", action="store_true", help="files that are here already")
    add("remove", _remove, "take names out").add_argument("name", nargs="+", metavar="NAME")
    return parser


def main(arguments: Optional[List[str]] = None) -> int:
    """The command. Returns its exit status."""
    args = _parser().parse_args(arguments)
    # What a lost target had in its cache may be gone: a write is not to go on after that.
    source = Source(args.uri, nsid=args.nsid, ctrl_loss_timeout_ms=0)
    try:
        with Volume(source, create=args.create, overwrite=args.overwrite) as volume:
            if volume.remark:
                print(f"pack: {volume.remark}; generation {volume.generation} is in use",
                      file=sys.stderr)
            result: int = args.function(volume, args)
            sys.stdout.flush()
            return result
    except BrokenPipeError:
        return reader_left()
    except (Error, LibraryError, OSError, ValueError) as why:
        print(f"pack: {why}", file=sys.stderr)
        return 1
    finally:
        source.close()


if __name__ == "__main__":
    sys.exit(main())
