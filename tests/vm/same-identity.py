#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""same-identity.py OURS.json ID_CTRL.json [NSID ID_NS.json NS_DESCS.json]...

Compares what `identify --json` says with what nvme-cli read through the kernel's initiator, and
says every difference. Exit status 0: none."""
import json
import sys

differences = 0


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def same(what, ours, theirs):
    global differences
    if ours != theirs:
        print(f"{what}: ours {ours!r}, the kernel's {theirs!r}")
        differences += 1


def plain_hex(text):
    return str(text).replace("-", "").lower()


def compare_controller(ours, kernel):
    same("serial", ours["serial"], kernel["sn"].strip())
    same("model", ours["model"], kernel["mn"].strip())
    same("firmware", ours["firmware"], kernel["fr"].strip())
    same("max_xfer_bytes", ours["max_xfer_bytes"], 4096 << kernel["mdts"])
    # The capsule size counts 16-byte units and includes the 64-byte command.
    in_capsule = (kernel["ioccsz"] * 16 - 64) if kernel["sgls"] & 1 << 20 else 0
    same("max_icd_bytes", ours["max_icd_bytes"], in_capsule)
    same("max_sgl_descriptors", ours["max_sgl_descriptors"], kernel["msdbd"])
    # Both are connected now, so the target cannot have given them one controller ID.
    same("cntlid is another one", ours["cntlid"] != kernel["cntlid"], True)


def compare_namespace(nsid, ours, id_ns, descriptors):
    name = f"namespace {nsid}"
    block = id_ns["lbafs"][id_ns["flbas"] & 0xf]
    ids = {}
    for descriptor in descriptors["ns-descs"]:
        ids.update(descriptor)
    same(f"{name} capacity_blocks", ours["capacity_blocks"], id_ns["nsze"])
    same(f"{name} block_bytes", ours["block_bytes"], 1 << block["ds"])
    same(f"{name} metadata_bytes", ours["metadata_bytes"], block["ms"])
    same(f"{name} nguid", plain_hex(ours["nguid"]), plain_hex(id_ns["nguid"]))
    same(f"{name} uuid", plain_hex(ours["uuid"]), plain_hex(ids["uuid"]))


def main():
    ours = load(sys.argv[1])
    rest = sys.argv[3:]
    compare_controller(ours["controller"], load(sys.argv[2]))
    namespaces = {ns["nsid"]: ns for ns in ours["namespaces"]}
    wanted = [int(nsid) for nsid in rest[::3]]
    same("list of namespaces", sorted(namespaces), wanted)
    for nsid, id_ns, descriptors in zip(wanted, rest[1::3], rest[2::3]):
        if nsid in namespaces:
            compare_namespace(nsid, namespaces[nsid], load(id_ns), load(descriptors))
    return 1 if differences else 0


sys.exit(main())
