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

#include "fabric/pages.h"

enum { MAX_GIDS = 256, MIN_MEMLOCK = 64 << 20 };

/* Text that counts on where it no longer fits. */
struct json {
	char *text;
	size_t room, used;
	bool comma; /* a value stands before the next one */
};

/* ---- writing JSON ----------------------------------------------------------------------------- */

static void put(struct json *j, char c)
{
	if (j->used + 1 < j->room)
		j->text[j->used] = c;
	j->used++;
}

static void put_raw(struct json *j, const char *text)
{
	while (*text)
		put(j, *text++);
}

/* Bytes that are no ASCII come from sysfs or a driver: each is shown as a character of Latin-1. */
static void put_quoted(struct json *j, const char *text)
{
	char escape[8];

	put(j, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			put(j, '\\');
			put(j, *text);
		} else if (c < 0x20 || c > 0x7e) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			put_raw(j, escape);
		} else {
			put(j, *text);
		}
	}
	put(j, '"');
}

static void next_value(struct json *j, const char *name)
{
	if (j->comma)
		put_raw(j, ", ");
	j->comma = true;
	if (!name)
		return;
	put_quoted(j, name);
	put_raw(j, ": ");
}

static void put_text(struct json *j, const char *name, const char *value)
{
	next_value(j, name);
	put_quoted(j, value);
}

static void put_int(struct json *j, const char *name, int64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRId64, value);
	next_value(j, name);
	put_raw(j, digits);
}

static void put_bytes(struct json *j, const char *name, uint64_t bytes, bool unlimited)
{
	if (unlimited)
		put_text(j, name, "unlimited");
	else
		put_int(j, name, (int64_t)bytes);
}

static void put_bool(struct json *j, const char *name, bool value)
{
	next_value(j, name);
	put_raw(j, value ? "true" : "false");
}

static void open_group(struct json *j, const char *name, char bracket)
{
	next_value(j, name);
	put(j, bracket);
	j->comma = false;
}

static void close_group(struct json *j, char bracket)
{
	put(j, bracket);
	j->comma = true;
}

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
	open_group(j, NULL, '{');
	put_int(j, "index", entry->gid_index);
	put_text(j, "type", gid_type(entry->gid_type));
	put_text(j, "address", address);
	if (netdev[0])
		put_text(j, "netdev", netdev);
	close_group(j, '}');
}

static bool put_gids(struct json *j, struct ibv_context *ctx, uint8_t port, int entries)
{
	struct ibv_gid_entry entry;
	bool any = false;

	open_group(j, "gids", '[');
	for (int i = 0; i < MIN(entries, (int)MAX_GIDS); i++) {
		if (ibv_query_gid_ex(ctx, port, (uint32_t)i, &entry, 0) || is_zero(&entry.gid))
			continue;
		put_gid(j, &entry);
		any = true;
	}
	close_group(j, ']');
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
	open_group(j, NULL, '{');
	put_int(j, "port", port);
	put_text(j, "state", ibv_port_state_str(attr.state));
	put_text(j, "link_layer", link_layer(attr.link_layer));
	put_int(j, "lid", attr.lid);
	put_int(j, "active_mtu", 128 << attr.active_mtu);
	put_int(j, "max_mtu", 128 << attr.max_mtu);
	gid = put_gids(j, ctx, port, attr.gid_tbl_len);
	close_group(j, '}');
	found->active_ports += active;
	found->active_with_gid += active && gid;
}

static const char *transport(enum ibv_transport_type type)
{
	return type == IBV_TRANSPORT_IB	     ? "InfiniBand or RoCE"
	       : type == IBV_TRANSPORT_IWARP ? "iWARP"
					     : "other";
}

static void put_attr(struct json *j, const struct ibv_device_attr *attr)
{
	put_text(j, "firmware", attr->fw_ver);
	open_group(j, "limits", '{');
	put_int(j, "max_qp_wr", attr->max_qp_wr);
	put_int(j, "max_cqe", attr->max_cqe);
	put_int(j, "max_sge", attr->max_sge);
	put_int(j, "max_mr", attr->max_mr);
	put_bytes(j, "max_mr_bytes", attr->max_mr_size, attr->max_mr_size >= INT64_MAX);
	close_group(j, '}');
}

static void put_device(struct json *j, struct ibv_device *device, struct findings *found)
{
	uint64_t guid = be64toh(ibv_get_device_guid(device));
	struct ibv_context *ctx = ibv_open_device(device);
	struct ibv_device_attr attr = { 0 };
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, guid);
	open_group(j, NULL, '{');
	put_text(j, "name", ibv_get_device_name(device));
	put_text(j, "node_guid", text);
	put_text(j, "transport", transport(device->transport_type));
	put_int(j, "numa_node", nvmfr__verbs_numa_node(device));
	put_bool(j, "opens", ctx != NULL);
	if (ctx && !ibv_query_device(ctx, &attr))
		put_attr(j, &attr);
	open_group(j, "ports", '[');
	for (uint8_t port = 1; ctx && port && port <= attr.phys_port_cnt; port++)
		put_port(j, ctx, port, found);
	close_group(j, ']');
	close_group(j, '}');
	found->devices += ctx != NULL;
	if (ctx)
		ibv_close_device(ctx);
}

static void put_devices(struct json *j, struct findings *found)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	open_group(j, "devices", '[');
	for (int i = 0; list && i < count; i++)
		put_device(j, list[i], found);
	close_group(j, ']');
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
	open_group(j, "system", '{');
	put_bytes(j, "memlock_bytes", s->memlock, s->memlock == UINT64_MAX);
	put_bool(j, "dev_infiniband", s->dev_infiniband);
	put_bool(j, "rdma_cm_device", s->cm_device);
	put_bool(j, "rdma_ucm_loaded", s->rdma_ucm);
	put_bool(j, "ib_uverbs_loaded", s->ib_uverbs);
	close_group(j, '}');
}

static void put_missing(struct json *j, const char *what, const char *how)
{
	open_group(j, NULL, '{');
	put_text(j, "what", what);
	put_text(j, "how", how);
	close_group(j, '}');
}

/* In the order in which a person would mend them. */
static void put_all_missing(struct json *j, const struct system_state *s,
			    const struct findings *found)
{
	open_group(j, "missing", '[');
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
	close_group(j, ']');
}

int nvmfr__verbs_probe(char *text, size_t bytes)
{
	struct json j = { .text = text, .room = text ? bytes : 0 };
	struct system_state state = look_around();
	struct findings found = { 0 };

	open_group(&j, NULL, '{');
	put_devices(&j, &found);
	put_system(&j, &state);
	put_all_missing(&j, &state, &found);
	close_group(&j, '}');
	if (j.room)
		text[MIN(j.used, j.room - 1)] = '\0';
	return (int)j.used + 1;
}
