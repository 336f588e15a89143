# SPDX-License-Identifier: BSD-3-Clause
"""python -m nvmfr.info [--json] URI...: what is there: a controller with its namespaces and their ANA
states; of several URIs of one subsystem each controller, and all as paths; of a URI without a subsystem
(nvmf+rdma://ADDRESS[:PORT]) what a discovery controller knows."""
from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from ._abi import AnaState
from ._controller import Controller
from ._errors import Error, LibraryError
from ._events import Discovery
from ._host import Host
from ._logpages import ana_state
from ._paths import MultiPath
from ._progress import reader_left


def _size(size_bytes: int) -> str:
    scaled, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if scaled < 1024 or unit == "TiB":
            break
        scaled /= 1024
    return f"{scaled:.4g} {unit}"


def _state_name(state: int) -> str:
    known = ana_state(state)
    return known.name.lower().replace("_", " ") if isinstance(known, AnaState) else f"state {state}"


def describe(controller: Controller) -> List[str]:
    """A controller and its namespaces, in lines."""
    info = controller.info
    lines = [
        f"subsystem   {info.subnqn.decode()}",
        f"controller  {info.cntlid}: {info.model.decode()}, serial {info.serial.decode()}, "
        f"firmware {info.firmware.decode()}",
        f"version     NVMe {info.version >> 16}.{info.version >> 8 & 255}",
        f"device      {info.device.decode()}",
        f"limits      {info.num_io_queues} I/O queues of {info.max_queue_depth} commands, "
        f"{_size(info.max_xfer_bytes)} a command",
    ]
    for nsid in controller.nsids():
        known = controller.ns_info(nsid)
        lines.append(
            f"namespace   {nsid}: {known.capacity_blocks} blocks of {known.block_bytes} bytes, "
            f"{_size(known.capacity_blocks * known.block_bytes)}"
            + (", read-only" if known.read_only else "")
            + (f", {_state_name(known.ana_state)} (ANA group {known.ana_group})" if known.ana_state
               else ""))
    return lines


def ways(paths: MultiPath) -> List[str]:
    """All ways to a subsystem, in lines."""
    return [f"path        by controller {path['cntlid']}: {path['state']}"
            + "".join(f"; namespace {space['nsid']} {_state_name(space['ana_state'])}"
                      for space in path["namespaces"] if space["ana_state"])
            for path in paths.dump()["paths"]]


def _connected(host: Host, uris: List[str], as_json: bool) -> str:
    controllers = [host.connect(uri) for uri in uris]
    if len(controllers) == 1:
        return json.dumps(controllers[0].dump(), indent=1) if as_json \
            else "\n".join(describe(controllers[0]))
    with host.multipath(*controllers) as paths:
        if as_json:
            return json.dumps(paths.dump(), indent=1)
        return "\n".join(sum(map(describe, controllers), []) + ways(paths))


def records(found: Discovery) -> List[Dict[str, Any]]:
    """A discovery log as plain values."""
    kinds = {1: "referral", 2: "subsystem", 3: "discovery"}
    return [{"subtype": kinds.get(record.subtype, str(record.subtype)), "trtype": record.trtype,
             "traddr": record.traddr.decode("utf-8", "replace"),
             "trsvcid": record.trsvcid.decode("utf-8", "replace"),
             "subnqn": record.subnqn.decode("utf-8", "replace"),
             "uri": record.uri.decode("utf-8", "replace")} for record in found]


def _discovered(host: Host, uri: str, as_json: bool) -> str:
    with host.discover(uri) as found:
        rows = records(found)
        if as_json:
            return json.dumps(rows, indent=1)
        return "\n".join(
            [f"{row['subtype']:10}  {row['uri'] or row['traddr'] + ' (not by this library)'}"
             + ("" if row["uri"] else f"  {row['subnqn']}") for row in rows]
            + [f"{len(rows)} records of {found.info.logs} discovery logs"])


def main(arguments: Optional[List[str]] = None) -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m nvmfr.info", description="What is behind a URI.")
    parser.add_argument("uri", nargs="+", help="nvmf+rdma://ADDRESS[:PORT][/SUBNQN], nvmf+soft:?size=64M, ...")
    parser.add_argument("--json", action="store_true", help="all that is known, as JSON")
    given = parser.parse_args(arguments)
    try:
        with Host() as host:
            parts = urlsplit(given.uri[0])
            if len(given.uri) == 1 and parts.scheme == "nvmf+rdma" and not parts.path.strip("/"):
                print(_discovered(host, given.uri[0], given.json))
            else:
                print(_connected(host, given.uri, given.json))
        sys.stdout.flush()
        return 0
    except BrokenPipeError:
        return reader_left()
    except (Error, LibraryError) as why:
        print(f"nvmfr.info: {why}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
