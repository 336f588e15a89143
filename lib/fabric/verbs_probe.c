/* SPDX-License-Identifier: BSD-3-Clause */
/* What this machine offers for RDMA, as JSON: for people, and for the reports that they send. */
#include "fabric/verbs.h"

#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "fabric/pages.h"

enum { MAX_GIDS = 256, MIN_MEMLOCK = 64 << 20 };

/* ---- GIDs ------------------------------------------------------------------------------------- */

static const char *gid_type(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB: return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
	default: return "unknown";
	}
}

static bool is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* ::ffff:10.0.0.1 is how RoCE writes an IPv4 address. */
static void put_gid(struct json *j, const struct ibv_gid_entry *entry)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool ipv4 = !memcmp(entry->gid.raw, mapped, sizeof(mapped));
	char address[INET6_ADDRSTRLEN] = "", netdev[IF_NAMESIZE] = "";

	inet_ntop(ipv4 ? AF_INET : AF_INET6, entry->gid.raw + (ipv4 ? 12 : 0), address,
		  sizeof(address));
	if (entry->ndev_ifindex)
		(void)if_indextoname(entry->ndev_ifindex, netdev);
	nvmfr__json_open(j, NULL, '{');
	nvmfr__json_int(j, "index", entry->gid_index);
	nvmfr__json_text(j, "type", gid_type(entry->gid_type));
	nvmfr__json_text(j, "address", address);
	if (netdev[0])
		nvmfr__json_text(j, "netdev", netdev);
	nvmfr__json_close(j, '}');
}

static bool put_gids(struct json *j, struct ibv_context *ctx, uint8_t port, int entries)
{
	struct ibv_gid_entry entry;
	bool any = false;

	nvmfr__json_open(j, "gids", '[');
	for (int i = 0; i < MIN(entries, (int)MAX_GIDS); i++) {
		if (ibv_query_gid_ex(ctx, port, (uint32_t)i, &entry, 0) || is_zero(&entry.gid))
			continue;
		put_gid(j, &entry);
		any = true;
	}
	nvmfr__json_close(j, ']');
	return any;
}

/* ---- ports and devices ------------------------------------------------------------------------ */

struct findings {
	int devices, active_ports, active_with_gid;
};

static const char *link_layer(uint8_t layer)
{
	return layer == IBV_LINK_LAYER_ETHERNET	    ? "Ethernet"
	       : layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand"
						    : "unspecified";
}

static void put_port(struct json *j, struct ibv_context *ctx, uint8_t port, struct findings *found)
{
	struct ibv_port_attr attr;
	bool active, gid;

	if (ibv_query_port(ctx, port, &attr))
		return;
	active = attr.state == IBV_PORT_ACTIVE;
	nvmfr__json_open(j, NULL, '{');
	nvmfr__json_int(j, "port", port);
	nvmfr__json_text(j, "state", ibv_port_state_str(attr.state));
	nvmfr__json_text(j, "link_layer", link_layer(attr.link_layer));
	nvmfr__json_int(j, "lid", attr.lid);
	nvmfr__json_int(j, "active_mtu", 128 << attr.active_mtu);
	nvmfr__json_int(j, "max_mtu", 128 << attr.max_mtu);
	gid = put_gids(j, ctx, port, attr.gid_tbl_len);
	nvmfr__json_close(j, '}');
	found->active_ports += active;
	found->active_with_gid += active && gid;
}

static const char *transport(enum ibv_transport_type type)
{
	return type == IBV_TRANSPORT_IB	     ? "InfiniBand or RoCE"
	       : type == IBV_TRANSPORT_IWARP ? "iWARP"
					     : "other";
}

static void put_size(struct json *j, const char *name, uint64_t bytes, bool unlimited)
{
	if (unlimited)
		nvmfr__json_text(j, name, "unlimited");
	else
		nvmfr__json_uint(j, name, bytes);
}

static void put_attr(struct json *j, const struct ibv_device_attr *attr)
{
	nvmfr__json_text(j, "firmware", attr->fw_ver);
	nvmfr__json_open(j, "limits", '{');
	nvmfr__json_int(j, "max_qp_wr", attr->max_qp_wr);
	nvmfr__json_int(j, "max_cqe", attr->max_cqe);
	nvmfr__json_int(j, "max_sge", attr->max_sge);
	nvmfr__json_int(j, "max_mr", attr->max_mr);
	put_size(j, "max_mr_bytes", attr->max_mr_size, attr->max_mr_size >= INT64_MAX);
	nvmfr__json_close(j, '}');
}

static void put_device(struct json *j, struct ibv_device *device, struct findings *found)
{
	uint64_t guid = be64toh(ibv_get_device_guid(device));
	struct ibv_context *ctx = ibv_open_device(device);
	struct ibv_device_attr attr = { 0 };
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, guid);
	nvmfr__json_open(j, NULL, '{');
	nvmfr__json_text(j, "name", ibv_get_device_name(device));
	nvmfr__json_text(j, "node_guid", text);
	nvmfr__json_text(j, "transport", transport(device->transport_type));
	nvmfr__json_int(j, "numa_node", nvmfr__verbs_numa_node(device));
	nvmfr__json_bool(j, "opens", ctx != NULL);
	if (ctx && !ibv_query_device(ctx, &attr))
		put_attr(j, &attr);
	nvmfr__json_open(j, "ports", '[');
	for (uint8_t port = 1; ctx && port && port <= attr.phys_port_cnt; port++)
		put_port(j, ctx, port, found);
	nvmfr__json_close(j, ']');
	nvmfr__json_close(j, '}');
	found->devices += ctx != NULL;
	if (ctx)
		ibv_close_device(ctx);
}

static void put_devices(struct json *j, struct findings *found)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	nvmfr__json_open(j, "devices", '[');
	for (int i = 0; list && i < count; i++)
		put_device(j, list[i], found);
	nvmfr__json_close(j, ']');
	if (list)
		ibv_free_device_list(list);
}

/* ---- the system around them ------------------------------------------------------------------- */

struct system_state {
	bool dev_infiniband, cm_device, cm_usable, rdma_ucm, ib_uverbs;
	uint64_t memlock;
};

static struct system_state look_around(void)
{
	return (struct system_state){
		.dev_infiniband = !access("/dev/infiniband", F_OK),
		.cm_device = !access("/dev/infiniband/rdma_cm", F_OK),
		.cm_usable = !access("/dev/infiniband/rdma_cm", R_OK | W_OK),
		.rdma_ucm = !access("/sys/module/rdma_ucm", F_OK),
		.ib_uverbs = !access("/sys/module/ib_uverbs", F_OK),
		.memlock = nvmfr__pages_lock_limit(),
	};
}

static void put_system(struct json *j, const struct system_state *s)
{
	nvmfr__json_open(j, "system", '{');
	put_size(j, "memlock_bytes", s->memlock, s->memlock == UINT64_MAX);
	nvmfr__json_bool(j, "dev_infiniband", s->dev_infiniband);
	nvmfr__json_bool(j, "rdma_cm_device", s->cm_device);
	nvmfr__json_bool(j, "rdma_ucm_loaded", s->rdma_ucm);
	nvmfr__json_bool(j, "ib_uverbs_loaded", s->ib_uverbs);
	nvmfr__json_close(j, '}');
}

static void put_missing(struct json *j, const char *what, const char *how)
{
	nvmfr__json_open(j, NULL, '{');
	nvmfr__json_text(j, "what", what);
	nvmfr__json_text(j, "how", how);
	nvmfr__json_close(j, '}');
}

/* In the order in which a person would mend them. */
static void put_all_missing(struct json *j, const struct system_state *s,
			    const struct findings *found)
{
	nvmfr__json_open(j, "missing", '[');
	if (!s->ib_uverbs && !found->devices)
		put_missing(j, "kernel module ib_uverbs",
			    "modprobe ib_uverbs; Debian: it is in the kernel package");
	if (!s->rdma_ucm && !s->cm_device)
		put_missing(j, "kernel module rdma_ucm", "modprobe rdma_ucm");
	if (!found->devices)
		put_missing(
			j, "an RDMA device",
			"an RDMA NIC with its driver, its provider library (Debian: ibverbs-providers) and"
			" access to /dev/infiniband; to try without one: modprobe rdma_rxe; rdma link add rxe0"
			" type rxe netdev eth0");
	if (s->cm_device && !s->cm_usable)
		put_missing(
			j, "access to /dev/infiniband/rdma_cm",
			"udev rules of rdma-core make it world accessible; in a container pass /dev/infiniband");
	if (found->devices && !found->active_ports)
		put_missing(j, "an active port",
			    "plug the cable, or: ip link set dev INTERFACE up");
	else if (found->devices && !found->active_with_gid)
		put_missing(j, "a GID on an active port",
			    "give the interface an address: ip addr add ...");
	if (s->memlock < MIN_MEMLOCK)
		put_missing(
			j, "locked memory",
			"registered buffers are locked: ulimit -l unlimited, memlock in"
			" /etc/security/limits.conf, LimitMEMLOCK=infinity of a service, --ulimit memlock=-1"
			" of a container");
	nvmfr__json_close(j, ']');
}

int nvmfr__verbs_probe(char *text, size_t bytes)
{
	struct json j = nvmfr__json_begin(text, bytes);
	struct system_state state = look_around();
	struct findings found = { 0 };

	nvmfr__json_open(&j, NULL, '{');
	put_devices(&j, &found);
	put_system(&j, &state);
	put_all_missing(&j, &state, &found);
	nvmfr__json_close(&j, '}');
	return nvmfr__json_end(&j);
}
