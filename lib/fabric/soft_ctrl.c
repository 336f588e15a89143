/* SPDX-License-Identifier: BSD-3-Clause */
/* Associations and the Fabrics commands (NVMe over Fabrics: Connect, Property Get/Set, Disconnect). */
#include "fabric/soft.h"

#include <stdlib.h>
#include <string.h>

#include "wire/admin.h"
#include "wire/discovery.h"

#define NS_PER_MS UINT64_C(1000000)

enum {
	CONNECT_IN_DATA = 1 << 16, /* IATTR: the parameter is in the data, not in the SQE */
	CONNECT_QID_OFFSET = 42,
	CONNECT_SQSIZE_OFFSET = 44,
};

/* ---- associations ----------------------------------------------------------------------------- */

struct soft_ctrl *nvmfr__soft_ctrl_find(struct nvmfr_soft_target *target, uint16_t cntlid)
{
	struct soft_ctrl *ctrl = target->ctrls;

	while (ctrl && (ctrl->dead || ctrl->cntlid != cntlid))
		ctrl = ctrl->next;
	return ctrl;
}

static uint16_t free_cntlid(struct nvmfr_soft_target *target)
{
	/* 0 and FFF0h up are reserved; the last one used comes again latest. */
	do {
		target->last_cntlid++;
		if (target->last_cntlid >= 0xfff0)
			target->last_cntlid = 1;
	} while (nvmfr__soft_ctrl_find(target, target->last_cntlid));
	return target->last_cntlid;
}

static struct soft_ctrl *ctrl_new(struct nvmfr_soft_target *target)
{
	struct soft_ctrl *ctrl = calloc(1, sizeof(*ctrl));

	if (!ctrl)
		return NULL;
	ctrl->cntlid = free_cntlid(target);
	ctrl->ready_at_ns = SOFT_NEVER;
	ctrl->next = target->ctrls;
	ctrl->prev = &target->ctrls;
	if (target->ctrls)
		target->ctrls->prev = &ctrl->next;
	target->ctrls = ctrl;
	return ctrl;
}

static void ctrl_join(struct soft_ctrl *ctrl, struct soft_ep *ep)
{
	ep->ctrl = ctrl;
	ctrl->refs++;
}

void nvmfr__soft_ctrl_drop(struct nvmfr_soft_target *target, struct soft_ctrl *ctrl, const char *why)
{
	if (ctrl->dead)
		return;
	ctrl->dead = true;
	if (ctrl->admin)
		atomic_store(&ctrl->admin->kato_due_ns, SOFT_NEVER);
	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next)
		if (ep->ctrl == ctrl)
			nvmfr__soft_ep_fail(ep, true, "the target ended the association: %s", why);
}

void nvmfr__soft_ctrl_leave(struct nvmfr_soft_target *target, struct soft_ep *ep)
{
	struct soft_ctrl *ctrl = ep->ctrl;

	if (!ctrl)
		return;
	if (ctrl->admin == ep) {
		nvmfr__soft_ctrl_drop(target, ctrl, "its admin queue is gone");
		ctrl->admin = NULL;
	}
	ep->ctrl = NULL;
	if (--ctrl->refs)
		return;
	*ctrl->prev = ctrl->next;
	if (ctrl->next)
		ctrl->next->prev = ctrl->prev;
	free(ctrl);
}

void nvmfr__soft_kato_restart(struct nvmfr_soft_target *target, struct soft_ctrl *ctrl)
{
	uint64_t due = SOFT_NEVER;

	/* KAS 0: there is no keep-alive, whatever KATO says. */
	if (ctrl->kato_ms && target->opts.kas)
		due = nvmfr__soft_now(target) + ctrl->kato_ms * NS_PER_MS;
	atomic_store(&ctrl->admin->kato_due_ns, due);
}

bool nvmfr__soft_ctrl_ready(struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl)
{
	uint64_t ready_at = atomic_load_explicit(&ctrl->ready_at_ns, memory_order_relaxed);

	return ready_at == 0 || (ready_at != SOFT_NEVER && nvmfr__soft_now(target) >= ready_at);
}

/* ---- Connect ---------------------------------------------------------------------------------- */

static void refuse_sqe(struct soft_cmd *cmd, uint32_t offset)
{
	cmd->result = offset;
	nvmfr__soft_refuse(cmd, NVME_ST_CONNECT_INVALID_PARAM);
}

static void refuse_data(struct soft_cmd *cmd, size_t offset)
{
	cmd->result = CONNECT_IN_DATA | offset;
	nvmfr__soft_refuse(cmd, NVME_ST_CONNECT_INVALID_PARAM);
}

static bool check_sqe(struct soft_cmd *cmd)
{
	struct soft_ep *ep = cmd->ep;
	uint32_t cdw10 = from_le32(cmd->sqe->cdw10);
	uint16_t sqsize = (uint16_t)from_le32(cmd->sqe->cdw11);

	if ((uint16_t)cdw10 != 0) {
		nvmfr__soft_refuse(cmd, NVME_ST_CONNECT_FORMAT);
		return false;
	}
	if (cdw10 >> 16 != ep->qid) {
		nvmfr__soft_violation(ep, "Connect names queue %u", cdw10 >> 16);
		refuse_sqe(cmd, CONNECT_QID_OFFSET);
		return false;
	}
	if (sqsize != ep->sqsize) {
		nvmfr__soft_violation(ep, "Connect: SQSIZE %u, the connection request had HSQSIZE %u",
				      sqsize, ep->sqsize);
		refuse_sqe(cmd, CONNECT_SQSIZE_OFFSET);
		return false;
	}
	if (ep->ctrl) {
		nvmfr__soft_violation(ep, "Connect on a connected queue");
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
		return false;
	}
	return true;
}

/* Terminated, and zero from there on to the end of the field. */
static bool is_padded(const char *field)
{
	const char *end = memchr(field, 0, NVME_NQN_FIELD_BYTES);
	size_t used = end ? (size_t)(end - field) : NVME_NQN_FIELD_BYTES;

	if (used == 0 || used > NVME_NQN_MAX)
		return false;
	while (used < NVME_NQN_FIELD_BYTES)
		if (field[used++])
			return false;
	return true;
}

static bool check_data(struct soft_cmd *cmd, const struct nvme_connect_data *data)
{
	struct nvmfr_soft_target *target = cmd->ep->target;
	bool found = strcmp(data->subnqn, target->subnqn) == 0 ||
		     strcmp(data->subnqn, NVME_DISCOVERY_NQN) == 0;

	if (!is_padded(data->subnqn) || !found) {
		refuse_data(cmd, offsetof(struct nvme_connect_data, subnqn));
	} else if (!is_padded(data->hostnqn)) {
		nvmfr__soft_violation(cmd->ep, "Connect: HOSTNQN is not zero padded");
		refuse_data(cmd, offsetof(struct nvme_connect_data, hostnqn));
	} else if (nvme_hostid_is_zero(data->hostid)) {
		nvmfr__soft_violation(cmd->ep, "Connect: HOSTID is zero");
		refuse_data(cmd, offsetof(struct nvme_connect_data, hostid));
	} else if (target->opts.flags & NVMFR_SOFT_DENY_HOSTS) {
		cmd->result = CONNECT_IN_DATA | offsetof(struct nvme_connect_data, hostnqn);
		nvmfr__soft_refuse(cmd, NVME_ST_CONNECT_INVALID_HOST);
	}
	return cmd->status == 0;
}

static bool same_hostid(const struct soft_ctrl *ctrl, const struct nvme_connect_data *data)
{
	return memcmp(ctrl->hostid, data->hostid, sizeof(ctrl->hostid)) == 0;
}

static bool same_hostnqn(const struct soft_ctrl *ctrl, const struct nvme_connect_data *data)
{
	return memcmp(ctrl->hostnqn, data->hostnqn, sizeof(ctrl->hostnqn)) == 0;
}

/* One host ID belongs to one host NQN. */
static bool is_impostor(struct nvmfr_soft_target *target, const struct nvme_connect_data *data)
{
	for (struct soft_ctrl *ctrl = target->ctrls; ctrl; ctrl = ctrl->next)
		if (!ctrl->dead && same_hostid(ctrl, data) && !same_hostnqn(ctrl, data))
			return true;
	return false;
}

static void connect_admin(struct soft_cmd *cmd, const struct nvme_connect_data *data)
{
	struct nvmfr_soft_target *target = cmd->ep->target;
	uint32_t kato_ms = from_le32(cmd->sqe->cdw12);
	struct soft_ctrl *ctrl;

	if (from_le16(data->cntlid) != NVME_CNTLID_DYNAMIC) {
		refuse_data(cmd, offsetof(struct nvme_connect_data, cntlid));
		return;
	}
	if (is_impostor(target, data)) {
		nvmfr__soft_violation(cmd->ep, "Connect: HOSTID is that of another HOSTNQN");
		nvmfr__soft_refuse(cmd, NVME_ST_CONNECT_INVALID_HOST);
		return;
	}
	if (kato_ms && kato_ms < target->opts.kato_min_ms) {
		nvmfr__soft_refuse(cmd, NVME_ST_KATO_INVALID);
		return;
	}
	ctrl = ctrl_new(target);
	if (!ctrl) {
		nvmfr__soft_refuse(cmd, NVME_ST_INTERNAL_ERROR);
		return;
	}
	memcpy(ctrl->hostid, data->hostid, sizeof(ctrl->hostid));
	memcpy(ctrl->hostnqn, data->hostnqn, sizeof(ctrl->hostnqn));
	ctrl->discovery = strcmp(data->subnqn, NVME_DISCOVERY_NQN) == 0;
	ctrl->kato_ms = kato_ms;
	ctrl->admin = cmd->ep;
	ctrl_join(ctrl, cmd->ep);
	nvmfr__soft_kato_restart(target, ctrl);
	cmd->result = ctrl->cntlid;
}

static bool is_taken(const struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl, uint16_t qid)
{
	for (const struct soft_ep *ep = target->eps; ep; ep = ep->target_next)
		if (ep->ctrl == ctrl && ep->qid == qid && !nvmfr__soft_failed(ep))
			return true;
	return false;
}

/* Host and subsystem are the association's; which of them is not is told. */
static bool check_association(struct soft_cmd *cmd, const struct soft_ctrl *ctrl,
			      const struct nvme_connect_data *data)
{
	const char *field;
	size_t offset;

	if (!same_hostid(ctrl, data)) {
		field = "HOSTID";
		offset = offsetof(struct nvme_connect_data, hostid);
	} else if (!same_hostnqn(ctrl, data)) {
		field = "HOSTNQN";
		offset = offsetof(struct nvme_connect_data, hostnqn);
	} else if (strcmp(data->subnqn, cmd->ep->target->subnqn) != 0) {
		field = "SUBNQN";
		offset = offsetof(struct nvme_connect_data, subnqn);
	} else {
		return true;
	}
	nvmfr__soft_violation(cmd->ep, "Connect: another %s than the admin queue's", field);
	refuse_data(cmd, offset);
	return false;
}

static void connect_io(struct soft_cmd *cmd, const struct nvme_connect_data *data)
{
	struct soft_ep *ep = cmd->ep;
	uint16_t cntlid = from_le16(data->cntlid);
	struct soft_ctrl *ctrl = nvmfr__soft_ctrl_find(ep->target, cntlid);

	if (cntlid != ep->cm_cntlid) {
		nvmfr__soft_violation(ep, "Connect: CNTLID %u, the connection request had %u", cntlid,
				      ep->cm_cntlid);
		refuse_data(cmd, offsetof(struct nvme_connect_data, cntlid));
	} else if (!ctrl || ctrl->discovery) {
		refuse_data(cmd, offsetof(struct nvme_connect_data, cntlid));
	} else if (!check_association(cmd, ctrl, data)) {
		return;
	} else if (!nvmfr__soft_ctrl_ready(ep->target, ctrl)) {
		nvmfr__soft_violation(ep, "Connect before the controller was ready");
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
	} else if (is_taken(ep->target, ctrl, ep->qid)) {
		nvmfr__soft_violation(ep, "Connect: the queue exists already");
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
	} else {
		ctrl_join(ctrl, ep);
		cmd->result = cntlid;
	}
}

static void do_connect(struct soft_cmd *cmd)
{
	struct nvme_connect_data data;

	if (!check_sqe(cmd))
		return;
	if (!nvmfr__soft_transfer(cmd, &data, sizeof(data), false))
		return;
	if (!check_data(cmd, &data))
		return;
	if (cmd->ep->qid)
		connect_io(cmd, &data);
	else
		connect_admin(cmd, &data);
	if (cmd->status == 0)
		cmd->ep->no_flow_control = from_le32(cmd->sqe->cdw11) >> 16 &
					   NVME_CATTR_NO_SQ_FLOW_CONTROL;
}

/* ---- properties ------------------------------------------------------------------------------- */

static uint64_t cap_value(const struct nvmfr_soft_opts *opts)
{
	return (uint64_t)(uint16_t)(opts->queue_entries - 1) | UINT64_C(1) << 16 /* CQR */ |
	       (uint64_t)opts->ready_timeout << 24 | (uint64_t)NVME_CAP_CSS_NVM << 37 |
	       (uint64_t)(opts->mpsmin & 0xf) << 48 | (uint64_t)(opts->mpsmin & 0xf) << 52;
}

static uint32_t csts_value(struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl)
{
	uint32_t csts = 0;

	if (ctrl->fatal)
		csts |= NVME_CSTS_CFS;
	if (nvmfr__soft_ctrl_ready(target, ctrl))
		csts |= NVME_CSTS_RDY;
	if (ctrl->cc & NVME_CC_SHN_MASK)
		csts |= NVME_CSTS_SHST_COMPLETE;
	return csts;
}

static void property_get(struct soft_cmd *cmd)
{
	struct nvmfr_soft_target *target = cmd->ep->target;
	bool eight_bytes = from_le32(cmd->sqe->cdw10) & 1;
	uint32_t offset = from_le32(cmd->sqe->cdw11);

	if (eight_bytes != (offset == NVME_PROP_CAP)) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	switch (offset) {
	case NVME_PROP_CAP:
		cmd->result = cap_value(&target->opts);
		return;
	case NVME_PROP_VS:
		cmd->result = SOFT_VERSION;
		return;
	case NVME_PROP_CC:
		cmd->result = cmd->ep->ctrl->cc;
		return;
	case NVME_PROP_CSTS:
		cmd->result = csts_value(target, cmd->ep->ctrl);
		return;
	default:
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
	}
}

/* Entry sizes, page size and command set must be what CAP offers, else the controller fails. */
static bool cc_possible(const struct nvmfr_soft_opts *opts, uint32_t cc)
{
	return (cc & 0xf << 16) == NVME_CC_IOSQES_64 && (cc & 0xf << 20) == NVME_CC_IOCQES_16 &&
	       (cc >> NVME_CC_MPS_SHIFT & 0xf) == (opts->mpsmin & 0xf) &&
	       (cc & 7 << 4) == NVME_CC_CSS_NVM;
}

static void cc_write(struct soft_cmd *cmd, uint32_t cc)
{
	const struct nvmfr_soft_opts *opts = &cmd->ep->target->opts;
	struct soft_ctrl *ctrl = cmd->ep->ctrl;
	bool enable = cc & NVME_CC_EN && !(ctrl->cc & NVME_CC_EN);
	uint64_t ready_at = atomic_load(&ctrl->ready_at_ns);

	if (enable && !cc_possible(opts, cc)) {
		nvmfr__soft_violation(cmd->ep, "CC %08xh enables what CAP does not offer", cc);
		ctrl->fatal = true;
	} else if (enable) {
		ready_at = opts->ready_after_us ? nvmfr__soft_now(cmd->ep->target) +
							  opts->ready_after_us * UINT64_C(1000)
						: 0;
	}
	if (!(cc & NVME_CC_EN) || cc & NVME_CC_SHN_MASK)
		ready_at = SOFT_NEVER;
	ctrl->cc = cc;
	atomic_store(&ctrl->ready_at_ns, ready_at);
}

static void property_set(struct soft_cmd *cmd)
{
	if (from_le32(cmd->sqe->cdw10) & 1 || from_le32(cmd->sqe->cdw11) != NVME_PROP_CC) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	cc_write(cmd, from_le32(cmd->sqe->cdw12));
}

/* ---- Disconnect ------------------------------------------------------------------------------- */

/* Whether Identify Controller offers it is looked up as the host saw it, patches included. */
static void do_disconnect(struct soft_cmd *cmd)
{
	struct nvmfr_soft_target *target = cmd->ep->target;
	struct nvme_id_ctrl page = { .vid = to_le16(0) };

	if (cmd->ep->qid == 0) {
		nvmfr__soft_violation(cmd->ep, "Disconnect on the admin queue");
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_QUEUE_TYPE);
		return;
	}
	nvmfr__soft_identify(target, cmd->ep->ctrl, NVME_CNS_CTRL, 0, (unsigned char *)&page);
	if (!(from_le16(page.ofcs) & NVME_OFCS_DISCONNECT)) {
		nvmfr__soft_violation(cmd->ep, "Disconnect, which OFCS does not offer");
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_OPCODE);
		return;
	}
	cmd->close = true;
}

void nvmfr__soft_fabrics(struct soft_cmd *cmd)
{
	uint8_t fctype = nvme_sqe_fctype(cmd->sqe);

	if (fctype == NVME_FCTYPE_CONNECT) {
		do_connect(cmd);
	} else if (!cmd->ep->ctrl) {
		nvmfr__soft_violation(cmd->ep, "Fabrics command %02xh before Connect", fctype);
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
	} else if (fctype == NVME_FCTYPE_DISCONNECT) {
		do_disconnect(cmd);
	} else if (cmd->ep->qid) {
		nvmfr__soft_violation(cmd->ep, "Fabrics command %02xh on an I/O queue", fctype);
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
	} else if (fctype == NVME_FCTYPE_PROPERTY_GET) {
		property_get(cmd);
	} else if (fctype == NVME_FCTYPE_PROPERTY_SET) {
		property_set(cmd);
	} else {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
	}
}
