/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedded target's public calls: check, import, one call down. */
#include <nvmfr/cmd.h>
#include <nvmfr/soft.h>

#include <errno.h>
#include <string.h>

#include "api/check.h"
#include "base/opts.h"
#include "fabric/soft.h"
#include "queue/reserve.h"

enum { NAME_ROOM = sizeof(((struct nvmfr_soft_target *)0)->name) };

/* ---- options ------------------------------------------------------------------------------- */

void nvmfr_soft_opts_init(struct nvmfr_soft_opts *opts, size_t size)
{
	struct nvmfr_soft_opts defaults;

	if (!opts || size < sizeof(opts->size))
		return;
	nvmfr__soft_opts_default(&defaults);
	nvmfr__opts_export(opts, size, &defaults, sizeof(defaults));
	opts->size = size;
}

void nvmfr_soft_ns_opts_init(struct nvmfr_soft_ns_opts *opts, size_t size)
{
	struct nvmfr_soft_ns_opts defaults;

	if (!opts || size < sizeof(opts->size))
		return;
	nvmfr__soft_ns_opts_default(&defaults);
	nvmfr__opts_export(opts, size, &defaults, sizeof(defaults));
	opts->size = size;
}

void nvmfr_soft_fault_init(struct nvmfr_soft_fault *fault, size_t size)
{
	const struct nvmfr_soft_fault defaults = {
		.size = sizeof(defaults),
		.kind = NVMFR_SOFT_FAULT_STATUS,
		.qid = NVMFR_SOFT_ANY,
		.opcode = NVMFR_SOFT_ANY,
		.detail = NVMFR_SOFT_ANY,
		.count = 1,
		.value = NVME_ST_INTERNAL_ERROR,
	};

	if (!fault || size < sizeof(fault->size))
		return;
	nvmfr__opts_export(fault, size, &defaults, sizeof(defaults));
	fault->size = size;
}

/* ---- targets ------------------------------------------------------------------------------- */

static int check_name(const char *name)
{
	size_t len = name ? strnlen(name, NAME_ROOM) : 0;

	if (len == 0 || len == NAME_ROOM)
		return nvmfr__fail(-EINVAL, "soft target: a name has 1 to %d characters",
				   NAME_ROOM - 1);
	if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
	    len)
		return nvmfr__fail(-EINVAL,
				   "soft target '%s': a name has A-Z, a-z, 0-9 and ._- only", name);
	return 0;
}

/* host->lock is held. */
static bool is_taken(const struct nvmfr_host *host, const char *name)
{
	for (const struct nvmfr_soft_target *t = host->soft_targets; t; t = t->next)
		if (strcmp(t->name, name) == 0)
			return true;
	return false;
}

static int create(struct nvmfr_host *host, const char *name, const struct nvmfr_soft_opts *opts,
		  struct nvmfr_soft_target **out)
{
	struct nvmfr_soft_target *target;
	int err = -EEXIST;

	pthread_mutex_lock(&host->lock);
	if (is_taken(host, name))
		nvmfr__fail(err, "soft target '%s': the name is taken", name);
	else
		err = nvmfr__soft_target_new(&host->fab, name, opts, &target);
	if (!err) {
		target->owner = host;
		target->next = host->soft_targets;
		host->soft_targets = target;
		*out = target;
	}
	pthread_mutex_unlock(&host->lock);
	return err;
}

int nvmfr_soft_target_create(struct nvmfr_host *host, const char *name,
			     const struct nvmfr_soft_opts *opts, struct nvmfr_soft_target **out)
{
	struct nvmfr_soft_opts own;
	int err;

	if (!out)
		return nvmfr__fail(-EINVAL, "soft target: out is NULL");
	*out = NULL;
	err = check_host(host);
	if (!err)
		err = check_name(name);
	if (err)
		return err;
	nvmfr_soft_opts_init(&own, sizeof(own));
	if (opts)
		err = nvmfr__opts_import(&own, sizeof(own), opts, opts->size);
	return err ? err : create(host, name, &own, out);
}

void nvmfr_soft_target_destroy(struct nvmfr_soft_target *target)
{
	struct nvmfr_soft_target **link;
	struct nvmfr_host *host;

	if (!target)
		return;
	host = target->owner;
	/* A forked child has neither the target's thread nor a right to its lock. */
	if (!nvmfr__host_alive(host))
		return;
	pthread_mutex_lock(&host->lock);
	for (link = &host->soft_targets; *link; link = &(*link)->next) {
		if (*link == target) {
			*link = target->next;
			break;
		}
	}
	pthread_mutex_unlock(&host->lock);
	nvmfr__soft_target_free(target);
}

static int check_target(const struct nvmfr_soft_target *target)
{
	return target ? check_host(target->owner) : nvmfr__fail(-EINVAL, "soft target is NULL");
}

/* ---- namespaces ---------------------------------------------------------------------------- */

int nvmfr_soft_ns_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_ns_opts *opts)
{
	struct nvmfr_soft_ns_opts own;
	int err = check_target(target);

	if (err)
		return err;
	nvmfr_soft_ns_opts_init(&own, sizeof(own));
	if (opts)
		err = nvmfr__opts_import(&own, sizeof(own), opts, opts->size);
	return err ? err : nvmfr__soft_ns_add(target, &own);
}

int nvmfr_soft_ns_remove(struct nvmfr_soft_target *target, uint32_t nsid)
{
	int err = check_target(target);

	return err ? err : nvmfr__soft_ns_remove(target, nsid);
}

int nvmfr_soft_ns_resize(struct nvmfr_soft_target *target, uint32_t nsid, uint64_t size_bytes)
{
	int err = check_target(target);

	return err ? err : nvmfr__soft_ns_resize(target, nsid, size_bytes);
}

int nvmfr_soft_reserve(struct nvmfr_soft_target *target, const struct nvmfr_reserve *what,
		       const uint8_t *hostid)
{
	struct nvme_sqe sqe;
	int err = check_target(target);

	if (!err && (!what || !hostid))
		err = nvmfr__fail(-EINVAL, "what or hostid is NULL");
	if (!err)
		err = nvmfr__reserve_sqe(what, &sqe);
	return err < 0 ? err
		       : nvmfr__soft_reserve_as(target, &sqe, hostid, what->key, what->other_key);
}

int nvmfr_soft_notify(struct nvmfr_soft_target *target, uint32_t notice)
{
	int err = check_target(target);

	if (!err && (notice & ~UINT32_C(0xffff07)))
		err = nvmfr__fail(-EINVAL,
				  "soft notice %xh has bits beyond type, information and log page",
				  notice);
	if (!err)
		nvmfr__soft_notify(target, notice);
	return err;
}

static int check_port(uint32_t port)
{
	return port - 1 < NVMFR_SOFT_PORTS
		       ? 0
		       : nvmfr__fail(-EINVAL, "soft target: port %u is not from 1 to %d", port,
				     NVMFR_SOFT_PORTS);
}

int nvmfr_soft_port_set(struct nvmfr_soft_target *target, uint32_t port, uint32_t up)
{
	int err = check_target(target);

	if (!err)
		err = check_port(port);
	if (!err)
		nvmfr__soft_port_set(target, port, up);
	return err;
}

int nvmfr_soft_ana_set(struct nvmfr_soft_target *target, uint32_t port, uint32_t group,
		       uint32_t state)
{
	int err = check_target(target);

	if (!err && port != NVMFR_SOFT_ANY)
		err = check_port(port);
	if (!err && group != NVMFR_SOFT_ANY && group - 1 >= target->opts.ana_groups)
		err = nvmfr__fail(-EINVAL, "soft target: ANA group %u is not from 1 to %u", group,
				  target->opts.ana_groups);
	if (!err && state > 15)
		err = nvmfr__fail(-EINVAL, "soft target: ANA state %u is not from 0 to 15", state);
	if (!err)
		nvmfr__soft_ana_set(target, port, group, (uint8_t)state);
	return err;
}

int nvmfr_soft_discovery_set(struct nvmfr_soft_target *target, const void *entries, uint32_t count)
{
	int err = check_target(target);

	if (!err && count && !entries)
		err = nvmfr__fail(-EINVAL, "soft discovery log: entries is NULL");
	if (!err && count > 65536)
		err = nvmfr__fail(-EINVAL, "soft discovery log: %u entries, at most 65536 can be",
				  count);
	return err ? err : nvmfr__soft_discovery_set(target, entries, count);
}

/* ---- faults and counters ------------------------------------------------------------------- */

int nvmfr_soft_fault_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_fault *fault)
{
	struct nvmfr_soft_fault own;
	int err = check_target(target);

	if (!err && !fault)
		err = nvmfr__fail(-EINVAL, "soft fault: fault is NULL");
	if (err)
		return err;
	nvmfr_soft_fault_init(&own, sizeof(own));
	err = nvmfr__opts_import(&own, sizeof(own), fault, fault->size);
	return err ? err : nvmfr__soft_fault_add(target, &own);
}

void nvmfr_soft_fault_clear(struct nvmfr_soft_target *target)
{
	if (!check_target(target))
		nvmfr__soft_fault_clear(target);
}

int nvmfr_soft_patch_identify(struct nvmfr_soft_target *target, uint32_t cns, uint32_t nsid,
			      uint32_t offset, const void *bytes, uint32_t len)
{
	int err = check_target(target);

	if (!err && !bytes)
		err = nvmfr__fail(-EINVAL, "soft identify patch: bytes is NULL");
	return err ? err : nvmfr__soft_patch_identify(target, cns, nsid, offset, bytes, len);
}

void nvmfr_soft_drop(struct nvmfr_soft_target *target)
{
	if (!check_target(target))
		nvmfr__soft_drop(target);
}

int nvmfr_soft_read_counters(struct nvmfr_soft_target *target, struct nvmfr_soft_counters *counters)
{
	struct nvmfr_soft_counters all;
	int err = check_target(target);

	if (!err)
		err = check_info(counters, counters ? counters->size : 0, "nvmfr_soft_counters");
	if (err)
		return err;
	nvmfr__soft_counters(target, &all);
	nvmfr__opts_export(counters, counters->size, &all, sizeof(all));
	return 0;
}

void nvmfr_soft_last_violation(struct nvmfr_soft_target *target, char *text, size_t bytes)
{
	if (text && bytes)
		text[0] = '\0';
	if (text && !check_target(target))
		nvmfr__soft_last_violation(target, text, bytes);
}
