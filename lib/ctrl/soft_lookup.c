/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/soft_lookup.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/ctrl.h"
#include "fabric/soft.h"

static struct nvmfr_soft_target *find(const struct nvmfr_host *host, const char *name)
{
	struct nvmfr_soft_target *target = host->soft_targets;

	while (target && strcmp(target->name, name) != 0)
		target = target->next;
	return target;
}

/* One namespace over what the URI says: a file, or RAM. */
static int make_own(struct nvmfr_ctrl *ctrl)
{
	const struct target *what = &ctrl->target;
	struct nvmfr_soft_ns_opts ns;
	struct nvmfr_soft_opts opts;
	int err;

	nvmfr__soft_opts_default(&opts);
	nvmfr__soft_ns_opts_default(&ns);
	if (what->subnqn[0])
		opts.subnqn = what->subnqn;
	opts.latency_us = what->latency_us;
	ns.path = what->path[0] ? what->path : NULL;
	ns.block_bytes = what->block_bytes;
	ns.flags = what->read_only ? NVMFR_SOFT_NS_READ_ONLY : 0;
	ns.size_bytes = what->size_bytes;
	if (!ns.size_bytes && !ns.path)
		ns.size_bytes = TARGET_SOFT_BYTES;
	err = nvmfr__soft_target_new(&ctrl->host->fab, "", &opts, &ctrl->own_soft);
	if (err)
		return err;
	err = nvmfr__soft_ns_add(ctrl->own_soft, &ns);
	ctrl->soft = nvmfr__soft_target_get(ctrl->own_soft);
	return err < 0 ? err : 0;
}

int nvmfr__soft_lookup(struct nvmfr_ctrl *ctrl)
{
	struct nvmfr_soft_target *found;

	if (!ctrl->target.name[0]) {
		int err = make_own(ctrl);

		if (err)
			return err;
	} else {
		found = find(ctrl->host, ctrl->target.name);
		if (!found)
			return nvmfr__fail(
				-ENOENT,
				"this host has no soft target named '%s': nvmfr_soft_target_create() makes one",
				ctrl->target.name);
		ctrl->soft = nvmfr__soft_target_get(found);
	}
	if (!ctrl->target.subnqn[0])
		memcpy(ctrl->target.subnqn, ctrl->soft->subnqn, sizeof(ctrl->target.subnqn));
	return 0;
}

void nvmfr__soft_let_go(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->soft)
		nvmfr__soft_target_put(ctrl->soft);
	if (ctrl->own_soft)
		nvmfr__soft_target_free(ctrl->own_soft);
	ctrl->soft = NULL;
	ctrl->own_soft = NULL;
}
