/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports, and the ANA states that namespaces have by way of them. */
#include "fabric/soft.h"

#include <string.h>

#include "wire/ana.h"

/* Announced where it is another state than before, and where nobody can know: a controller that never read it. */
static void set_state(struct nvmfr_soft_target *target, uint8_t port, uint32_t group, uint8_t state)
{
	for (uint32_t i = 0; i < SOFT_ANA_GROUPS; i++)
		if (group == NVMFR_SOFT_ANY || group == i + 1)
			atomic_store(&target->ana[port][i], state);
	for (struct soft_ctrl *ctrl = target->ctrls; ctrl; ctrl = ctrl->next)
		if (ctrl->admin && ctrl->admin->port == port)
			nvmfr__soft_tell_one(ctrl, NVMFR_SOFT_NOTICE_ANA);
}

void nvmfr__soft_ana_set(struct nvmfr_soft_target *target, uint32_t port, uint32_t group, uint8_t state)
{
	nvmfr__soft_lock(target);
	target->log_changes++;
	for (uint8_t i = 0; i < NVMFR_SOFT_PORTS; i++)
		if (port == NVMFR_SOFT_ANY || port == i + 1u)
			set_state(target, i, group, state);
	nvmfr__soft_unlock(target);
}

void nvmfr__soft_port_set(struct nvmfr_soft_target *target, uint32_t port, bool up)
{
	nvmfr__soft_lock(target);
	target->shut[port - 1] = !up;
	for (struct soft_ctrl *ctrl = target->ctrls; !up && ctrl; ctrl = ctrl->next)
		if (ctrl->admin && ctrl->admin->port == port - 1)
			nvmfr__soft_ctrl_drop(target, ctrl, "its port was shut");
	for (struct soft_ep *ep = target->eps; !up && ep; ep = ep->target_next)
		if (ep->port == port - 1)
			nvmfr__soft_ep_fail(ep, true, "the target closed the connection: its port was shut");
	nvmfr__soft_unlock(target);
}

uint16_t nvmfr__soft_ana_status(const struct soft_ep *ep, const struct soft_ns *ns)
{
	switch (atomic_load_explicit(&ep->target->ana[ep->port][ns->ana_group - 1], memory_order_relaxed)) {
	case NVMFR_ANA_INACCESSIBLE: return NVME_ST_ANA_INACCESSIBLE;
	case NVMFR_ANA_PERSISTENT_LOSS: return NVME_ST_ANA_PERSISTENT_LOSS;
	case NVMFR_ANA_CHANGE: return NVME_ST_ANA_TRANSITION;
	default: return 0;
	}
}

/* ---- the log ---------------------------------------------------------------------------------- */

/* The part of a log that was asked for. */
struct window {
	uint64_t at, offset;
	unsigned char *out;
	size_t room;
};

static void put(struct window *w, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++, w->at++)
		if (w->at >= w->offset && w->at - w->offset < w->room)
			w->out[w->at - w->offset] = ((const unsigned char *)bytes)[i];
}

static void put_group(const struct nvmfr_soft_target *target, struct window *w, uint32_t number, uint8_t state)
{
	const struct soft_ns_table *table = atomic_load(&target->namespaces);
	struct nvme_ana_group group = { .anagrpid = to_le32(number),
					.chgcnt = to_le64(target->log_changes),
					.state = state };
	uint32_t n = 0;

	for (uint32_t i = 0; i < table->count; i++)
		n += table->ns[i]->ana_group == number;
	group.nnsids = to_le32(n);
	put(w, &group, sizeof(group));
	for (uint32_t i = 0; i < table->count; i++) {
		le32 nsid = to_le32(table->ns[i]->nsid);

		if (table->ns[i]->ana_group == number)
			put(w, &nsid, sizeof(nsid));
	}
}

uint64_t nvmfr__soft_ana_log(const struct nvmfr_soft_target *target, uint8_t port, uint64_t offset, unsigned char *out,
			     size_t room)
{
	struct window w = { .offset = offset, .out = out, .room = room };
	struct nvme_ana_header header = { .chgcnt = to_le64(target->log_changes),
					  .ngrps = to_le16(target->opts.ana_groups) };

	put(&w, &header, sizeof(header));
	for (uint32_t i = 0; i < target->opts.ana_groups; i++)
		put_group(target, &w, i + 1, atomic_load(&target->ana[port][i]));
	return w.at;
}
