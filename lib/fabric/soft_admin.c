/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands and asynchronous events. */
#include "fabric/soft.h"

#include <string.h>

#include "wire/admin.h"
#include "wire/discovery.h"

/* ---- asynchronous events ---------------------------------------------------------------------- */

#define NOTICE(info, lid) \
	((uint32_t)NVME_AER_NOTICE | (uint32_t)(info) << 8 | (uint32_t)(lid) << 16)
#define NS_NOTICE NOTICE(NVME_NOTICE_NS_ATTR, NVME_LID_CHANGED_NS)

static uint64_t *mask_of(struct soft_ctrl *ctrl, uint8_t lid)
{
	return &ctrl->masked[lid / 64];
}

static bool is_masked(const struct soft_ctrl *ctrl, uint8_t lid)
{
	return lid && ctrl->masked[lid / 64] >> lid % 64 & 1;
}

/* One announcement until its log page is read. False: none can be made. */
static bool announce_one(struct soft_ctrl *ctrl)
{
	uint32_t i = 0, notice;
	uint8_t lid;

	while (i < ctrl->n_notices && is_masked(ctrl, (uint8_t)(ctrl->notices[i] >> 16)))
		i++;
	if (i == ctrl->n_notices || !ctrl->n_aers)
		return false;
	notice = ctrl->notices[i];
	lid = (uint8_t)(notice >> 16);
	memmove(&ctrl->notices[i], &ctrl->notices[i + 1], (--ctrl->n_notices - i) * sizeof(notice));
	if (lid)
		*mask_of(ctrl, lid) |= UINT64_C(1) << lid % 64;
	nvmfr__soft_respond(ctrl->admin, ctrl->aers[--ctrl->n_aers], notice, NVME_ST_SUCCESS);
	nvmfr__soft_ep_wake(ctrl->admin);
	return true;
}

static void announce(struct soft_ctrl *ctrl)
{
	while (announce_one(ctrl))
		;
}

/* As nvmet: what happened while nobody asked for it is not announced later. */
static bool is_wanted(const struct soft_ctrl *ctrl, uint32_t notice)
{
	uint8_t info = (uint8_t)(notice >> 8);

	if (ctrl->discovery != (notice == NOTICE(NVME_NOTICE_DISCOVERY_CHANGE, NVME_LID_DISCOVERY)))
		return false;
	if ((notice & 7) == NVME_AER_SMART)
		return ctrl->event_config & 0xff;
	if ((notice & 7) != NVME_AER_NOTICE)
		return true;
	/* Bits 8 and up, in the order of the notices; the discovery log's is the last one. */
	return ctrl->event_config >> (info == NVME_NOTICE_DISCOVERY_CHANGE ? 31 : 8 + info % 16) &
	       1;
}

static void add_notice(struct soft_ctrl *ctrl, uint32_t notice)
{
	if (!is_wanted(ctrl, notice) || ctrl->n_notices == SOFT_NOTICES)
		return;
	for (uint32_t i = 0; i < ctrl->n_notices; i++)
		if (ctrl->notices[i] == notice)
			return;
	ctrl->notices[ctrl->n_notices++] = notice;
}

static void drop_notice(struct soft_ctrl *ctrl, uint32_t notice)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ctrl->n_notices; i++)
		if (ctrl->notices[i] != notice)
			ctrl->notices[kept++] = ctrl->notices[i];
	ctrl->n_notices = kept;
}

static bool is_up(const struct soft_ctrl *ctrl)
{
	return !ctrl->dead && ctrl->admin;
}

void nvmfr__soft_tell_one(struct soft_ctrl *ctrl, uint32_t notice)
{
	if (!is_up(ctrl))
		return;
	add_notice(ctrl, notice);
	announce(ctrl);
}

void nvmfr__soft_tell(struct nvmfr_soft_target *target, uint32_t notice)
{
	target->log_changes++;
	for (struct soft_ctrl *ctrl = target->ctrls; ctrl; ctrl = ctrl->next)
		nvmfr__soft_tell_one(ctrl, notice);
}

void nvmfr__soft_notify(struct nvmfr_soft_target *target, uint32_t notice)
{
	nvmfr__soft_lock(target);
	nvmfr__soft_tell(target, notice);
	nvmfr__soft_unlock(target);
}

static void note_changed(struct soft_ctrl *ctrl, uint32_t nsid)
{
	uint32_t at = 0;

	add_notice(ctrl, NS_NOTICE);
	if (ctrl->n_changed > NVME_CHANGED_NS_MAX)
		return;
	while (at < ctrl->n_changed && ctrl->changed[at] < nsid)
		at++;
	if (at < ctrl->n_changed && ctrl->changed[at] == nsid)
		return;
	/* One more than fit: from now on the page says so. */
	if (ctrl->n_changed++ == NVME_CHANGED_NS_MAX)
		return;
	memmove(&ctrl->changed[at + 1], &ctrl->changed[at],
		(ctrl->n_changed - 1 - at) * sizeof(ctrl->changed[0]));
	ctrl->changed[at] = nsid;
}

void nvmfr__soft_ns_changed(struct nvmfr_soft_target *target, uint32_t nsid)
{
	for (struct soft_ctrl *ctrl = target->ctrls; ctrl; ctrl = ctrl->next) {
		if (!is_up(ctrl) || ctrl->discovery)
			continue;
		note_changed(ctrl, nsid);
		announce(ctrl);
	}
}

static void do_aer(struct soft_cmd *cmd)
{
	struct soft_ctrl *ctrl = cmd->ep->ctrl;

	if (ctrl->n_aers == SOFT_AERS) {
		nvmfr__soft_violation(cmd->ep, "more than %d Asynchronous Event Requests", SOFT_AERS);
		nvmfr__soft_refuse(cmd, NVME_ST_AER_LIMIT);
		return;
	}
	cmd->held = true;
	ctrl->aers[ctrl->n_aers++] = cmd->cid;
	announce(ctrl);
}

/* Carried out in the queue's next pass, which may be another thread's. */
static bool abort_stuck(struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl, uint16_t qid, uint16_t cid)
{
	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next) {
		uint32_t expected = SOFT_STUCK | cid;

		if (ep->ctrl != ctrl || ep->qid != qid || qid == 0)
			continue;
		if (!atomic_compare_exchange_strong(&ep->stuck, &expected, SOFT_ABORTED | cid))
			return false;
		nvmfr__soft_ep_wake(ep);
		return true;
	}
	return false;
}

/* What can be aborted is a waiting Asynchronous Event Request, and what a fault holds for that. */
static void do_abort(struct soft_cmd *cmd)
{
	struct soft_ctrl *ctrl = cmd->ep->ctrl;
	uint32_t cdw10 = from_le32(cmd->sqe->cdw10);
	uint16_t cid = (uint16_t)(cdw10 >> 16);

	cmd->result = abort_stuck(cmd->ep->target, ctrl, (uint16_t)cdw10, cid) ? 0 : 1; /* 1: not aborted */
	for (uint32_t i = 0; (uint16_t)cdw10 == 0 && i < ctrl->n_aers; i++) {
		if (ctrl->aers[i] != cid)
			continue;
		ctrl->aers[i] = ctrl->aers[--ctrl->n_aers];
		nvmfr__soft_respond(cmd->ep, cid, 0, NVME_ST_ABORT_REQUESTED);
		cmd->result = 0;
		return;
	}
}

/* ---- features --------------------------------------------------------------------------------- */

#define TIMESTAMP_MASK	    (UINT64_MAX >> 16)
#define TIMESTAMP_FROM_HOST (UINT64_C(2) << 48)

static void set_num_queues(struct soft_cmd *cmd, uint32_t value)
{
	uint32_t most = cmd->ep->target->opts.num_io_queues;
	uint32_t sqs = (value & 0xffff) + 1, cqs = (value >> 16) + 1;

	if (sqs > 65535 || cqs > 65535 || most == 0) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	sqs = nvmfr__min_u32(sqs, most);
	cqs = nvmfr__min_u32(cqs, most);
	cmd->result = (cqs - 1) << 16 | (sqs - 1);
}

static void set_event_config(struct soft_cmd *cmd, uint32_t value)
{
	/* Bits 7:0 are SMART's, which every controller has. */
	if (value & ~(cmd->ep->target->opts.oaes | 0xff)) {
		nvmfr__soft_violation(cmd->ep, "events %08xh enabled, OAES is %08xh", value,
				      cmd->ep->target->opts.oaes);
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	cmd->ep->ctrl->event_config = value;
}

static void set_kato(struct soft_cmd *cmd, uint32_t value)
{
	struct nvmfr_soft_target *target = cmd->ep->target;

	if (value && value < target->opts.kato_min_ms) {
		nvmfr__soft_refuse(cmd, NVME_ST_KATO_INVALID);
		return;
	}
	cmd->ep->ctrl->kato_ms = value;
	nvmfr__soft_kato_restart(target, cmd->ep->ctrl);
}

/* Eight bytes: milliseconds since 1970 in six, then whence they are (bit 1 set: from a host). */
static void set_timestamp(struct soft_cmd *cmd)
{
	struct soft_ctrl *ctrl = cmd->ep->ctrl;
	le64 data;

	if (!nvmfr__soft_transfer(cmd, &data, sizeof(data), false))
		return;
	ctrl->timestamp_ms = from_le64(data) & TIMESTAMP_MASK;
	ctrl->timestamp_set_ns = nvmfr__soft_now(cmd->ep->target);
}

static void get_timestamp(struct soft_cmd *cmd)
{
	struct soft_ctrl *ctrl = cmd->ep->ctrl;
	uint64_t passed = nvmfr__soft_now(cmd->ep->target) - ctrl->timestamp_set_ns;
	uint64_t ms = ctrl->timestamp_set_ns ? ctrl->timestamp_ms + passed / 1000000 : 0;
	le64 data = to_le64((ms & TIMESTAMP_MASK) | (ctrl->timestamp_set_ns ? TIMESTAMP_FROM_HOST : 0));

	nvmfr__soft_transfer(cmd, &data, sizeof(data), true);
}

static void set_features(struct soft_cmd *cmd)
{
	uint32_t value = from_le32(cmd->sqe->cdw11);

	switch (from_le32(cmd->sqe->cdw10) & 0xff) {
	case NVME_FEAT_NUM_QUEUES:
		set_num_queues(cmd, value);
		return;
	case NVME_FEAT_ASYNC_EVENT_CONFIG:
		set_event_config(cmd, value);
		return;
	case NVME_FEAT_KATO:
		set_kato(cmd, value);
		return;
	case NVME_FEAT_WRITE_CACHE:
		cmd->ep->ctrl->write_cache_off = !(value & 1);
		return;
	case NVME_FEAT_TIMESTAMP:
		set_timestamp(cmd);
		return;
	default:
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
	}
}

static void get_features(struct soft_cmd *cmd)
{
	const struct nvmfr_soft_opts *opts = &cmd->ep->target->opts;
	uint32_t queues = opts->num_io_queues ? opts->num_io_queues - 1u : 0;

	switch (from_le32(cmd->sqe->cdw10) & 0xff) {
	case NVME_FEAT_NUM_QUEUES:
		cmd->result = queues << 16 | queues;
		return;
	case NVME_FEAT_ASYNC_EVENT_CONFIG:
		cmd->result = cmd->ep->ctrl->event_config;
		return;
	case NVME_FEAT_KATO:
		cmd->result = cmd->ep->ctrl->kato_ms;
		return;
	case NVME_FEAT_WRITE_CACHE:
		cmd->result = !cmd->ep->ctrl->write_cache_off;
		return;
	case NVME_FEAT_TIMESTAMP:
		get_timestamp(cmd);
		return;
	default:
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
	}
}

/* ---- log pages -------------------------------------------------------------------------------- */

enum { LOG_ROOM = 4096,
       SOFT_KELVIN = 313 };

static size_t changed_log(struct soft_ctrl *ctrl, unsigned char *log)
{
	uint32_t count = ctrl->n_changed;

	if (count > NVME_CHANGED_NS_MAX) {
		memset(log, 0xff, sizeof(le32));
		return NVME_CHANGED_NS_BYTES;
	}
	for (uint32_t i = 0; i < count; i++) {
		le32 nsid = to_le32(ctrl->changed[i]);

		memcpy(log + i * sizeof(nsid), &nsid, sizeof(nsid));
	}
	return NVME_CHANGED_NS_BYTES;
}

/* target.lock is held: no endpoint comes or goes. */
static size_t smart_log(const struct nvmfr_soft_target *target, unsigned char *log)
{
	uint64_t reads = atomic_load(&target->retired.reads), writes = atomic_load(&target->retired.writes);
	struct nvme_smart_log smart = {
		.temperature = to_le16(SOFT_KELVIN),
		.spare = 100,
		.spare_threshold = 10,
		.power_cycles = { to_le64(1) },
	};

	for (const struct soft_ep *ep = target->eps; ep; ep = ep->target_next) {
		reads += atomic_load(&ep->counts.reads);
		writes += atomic_load(&ep->counts.writes);
	}
	smart.sensors[0] = to_le16(SOFT_KELVIN);
	smart.host_reads[0] = to_le64(reads);
	smart.host_writes[0] = to_le64(writes);
	memcpy(log, &smart, sizeof(smart));
	return sizeof(smart);
}

struct effect {
	uint16_t offset; /* of its opcode */
	uint16_t oncs; /* where this bit is set; 0: always */
	uint32_t effect;
};

#define ADMIN_EFFECT(Opcode) \
	{ \
		(Opcode) * 4, 0, NVME_EFFECT_SUPPORTED \
	}
#define IO_EFFECT(Opcode, Oncs, Effect) \
	{ \
		NVME_EFFECTS_IO + (Opcode)*4, Oncs, NVME_EFFECT_SUPPORTED | (Effect) \
	}

static size_t effects_log(const struct nvmfr_soft_target *target, unsigned char *log)
{
	static const struct effect effects[] = {
		ADMIN_EFFECT(NVME_ADMIN_GET_LOG_PAGE),
		ADMIN_EFFECT(NVME_ADMIN_IDENTIFY),
		ADMIN_EFFECT(NVME_ADMIN_ABORT),
		ADMIN_EFFECT(NVME_ADMIN_SET_FEATURES),
		ADMIN_EFFECT(NVME_ADMIN_GET_FEATURES),
		ADMIN_EFFECT(NVME_ADMIN_ASYNC_EVENT_REQUEST),
		ADMIN_EFFECT(NVME_ADMIN_KEEP_ALIVE),
		IO_EFFECT(NVME_IO_FLUSH, 0, 0),
		IO_EFFECT(NVME_IO_WRITE, 0, NVME_EFFECT_CONTENT),
		IO_EFFECT(NVME_IO_READ, 0, 0),
		IO_EFFECT(NVME_IO_COMPARE, NVME_ONCS_COMPARE, 0),
		IO_EFFECT(NVME_IO_WRITE_ZEROES, NVME_ONCS_WRITE_ZEROES, NVME_EFFECT_CONTENT),
		IO_EFFECT(NVME_IO_DSM, NVME_ONCS_DSM, NVME_EFFECT_CONTENT),
		IO_EFFECT(NVME_IO_VERIFY, NVME_ONCS_VERIFY, 0),
		IO_EFFECT(NVME_IO_COPY, NVME_ONCS_COPY, NVME_EFFECT_CONTENT),
		IO_EFFECT(NVME_IO_RESV_REGISTER, NVME_ONCS_RESERVATIONS, 0),
		IO_EFFECT(NVME_IO_RESV_REPORT, NVME_ONCS_RESERVATIONS, 0),
		IO_EFFECT(NVME_IO_RESV_ACQUIRE, NVME_ONCS_RESERVATIONS, 0),
		IO_EFFECT(NVME_IO_RESV_RELEASE, NVME_ONCS_RESERVATIONS, 0),
	};

	for (size_t i = 0; i < ARRAY_SIZE(effects); i++) {
		le32 effect = to_le32(effects[i].effect);

		if (!effects[i].oncs || (target->opts.oncs & effects[i].oncs))
			memcpy(log + effects[i].offset, &effect, sizeof(effect));
	}
	return NVME_EFFECTS_BYTES;
}

/* The page in log, which is zeroed, from offset on if it is longer than that. Its bytes; 0: there is no such page. */
static uint64_t build_log(struct soft_cmd *cmd, uint8_t lid, uint64_t offset, unsigned char *log)
{
	struct soft_ctrl *ctrl = cmd->ep->ctrl;

	switch (lid) {
	case NVME_LID_ERROR:
		return NVME_ERROR_LOG_ENTRY_BYTES;
	case NVME_LID_SMART:
		return smart_log(cmd->ep->target, log);
	case NVME_LID_EFFECTS:
		return ctrl->discovery ? 0 : effects_log(cmd->ep->target, log);
	case NVME_LID_CHANGED_NS:
		return ctrl->discovery ? 0 : changed_log(ctrl, log);
	case NVME_LID_ANA:
		return cmd->ep->target->opts.oaes & NVME_AEC_ANA_CHANGE ||
				       cmd->ep->target->opts.ana_groups
			       ? nvmfr__soft_ana_log(cmd->ep->target, cmd->ep->port, offset, log, LOG_ROOM)
			       : 0;
	case NVME_LID_DISCOVERY:
		return ctrl->discovery
			       ? nvmfr__soft_discovery_log(cmd->ep->target, offset, log, LOG_ROOM)
			       : 0;
	default:
		return 0;
	}
}

/* Its event is told again from now on. */
static void was_read(struct soft_ctrl *ctrl, uint8_t lid)
{
	if (lid == NVME_LID_CHANGED_NS) {
		ctrl->n_changed = 0;
		drop_notice(ctrl, NS_NOTICE); /* what it would tell is what was read */
	}
	*mask_of(ctrl, lid) &= ~(UINT64_C(1) << lid % 64);
	announce(ctrl);
}

/* Its place is counted from the page's start; log begins at offset. */
static void patch_word(const struct nvmfr_soft_fault *fault, uint64_t offset, unsigned char *log)
{
	uint64_t at = fault->value >> 32;
	le32 word = to_le32((uint32_t)fault->value);

	if (at >= offset && at - offset <= LOG_ROOM - sizeof(word))
		memcpy(log + (at - offset), &word, sizeof(word));
}

static bool is_built_from_offset(uint8_t lid)
{
	return lid == NVME_LID_DISCOVERY || lid == NVME_LID_ANA;
}

static void get_log(struct soft_cmd *cmd)
{
	uint32_t cdw10 = from_le32(cmd->sqe->cdw10), cdw11 = from_le32(cmd->sqe->cdw11);
	uint64_t dwords = (cdw10 >> 16 | (uint64_t)(cdw11 & 0xffff) << 16) + 1;
	uint64_t offset = from_le32(cmd->sqe->cdw12) | (uint64_t)from_le32(cmd->sqe->cdw13) << 32;
	bool retain = cdw10 >> 15 & 1;
	uint8_t lid = (uint8_t)cdw10;
	uint32_t fault = cmd->fault ? cmd->fault->kind : 0;
	unsigned char log[LOG_ROOM + LOG_ROOM] = { 0 }; /* what lies behind a page reads as zero */
	uint64_t bytes;

	if (fault == NVMFR_SOFT_FAULT_LOG_START)
		offset = 0;
	cmd->ep->target->log_changes += fault == NVMFR_SOFT_FAULT_LOG_CHANGE;
	bytes = build_log(cmd, lid, offset, log);
	if (bytes == 0) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_LOG_PAGE);
		return;
	}
	if (offset % 4 || offset > bytes || dwords > LOG_ROOM / 4) {
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
		return;
	}
	if (fault == NVMFR_SOFT_FAULT_LOG_WORD)
		patch_word(cmd->fault, is_built_from_offset(lid) ? offset : 0, log);
	if (is_built_from_offset(lid))
		offset = 0;
	if (!nvmfr__soft_transfer(cmd, log + offset, (uint32_t)dwords * 4, true))
		return;
	if (!retain)
		was_read(cmd->ep->ctrl, lid);
}

/* ---- the rest --------------------------------------------------------------------------------- */

static void identify(struct soft_cmd *cmd)
{
	_Alignas(8) unsigned char page[NVME_IDENTIFY_BYTES] = { 0 };
	uint32_t cns = from_le32(cmd->sqe->cdw10) & 0xff;
	uint16_t status;

	status = nvmfr__soft_identify(cmd->ep->target, cmd->ep->ctrl, cns, from_le32(cmd->sqe->nsid),
				      page);
	if (status)
		nvmfr__soft_refuse(cmd, status);
	else
		nvmfr__soft_transfer(cmd, page, sizeof(page), true);
}

static void keep_alive(struct soft_cmd *cmd)
{
	if (cmd->ep->target->opts.kas == 0) {
		nvmfr__soft_violation(cmd->ep, "Keep Alive, which KAS does not offer");
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_OPCODE);
		return;
	}
	nvmfr__soft_count(&cmd->ep->counts.keep_alives, 1);
	nvmfr__soft_kato_restart(cmd->ep->target, cmd->ep->ctrl);
}

void nvmfr__soft_admin(struct soft_cmd *cmd)
{
	/* What else is allowed while CC.EN is 0 are Fabrics commands, which do not come here. */
	if (!(cmd->ep->ctrl->cc & NVME_CC_EN) && cmd->sqe->opcode != NVME_ADMIN_KEEP_ALIVE) {
		nvmfr__soft_violation(cmd->ep, "admin command %02xh while CC.EN is 0", cmd->sqe->opcode);
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
		return;
	}
	switch (cmd->sqe->opcode) {
	case NVME_ADMIN_GET_LOG_PAGE:
		get_log(cmd);
		return;
	case NVME_ADMIN_IDENTIFY:
		identify(cmd);
		return;
	case NVME_ADMIN_ABORT:
		do_abort(cmd);
		return;
	case NVME_ADMIN_SET_FEATURES:
		set_features(cmd);
		return;
	case NVME_ADMIN_GET_FEATURES:
		get_features(cmd);
		return;
	case NVME_ADMIN_ASYNC_EVENT_REQUEST:
		do_aer(cmd);
		return;
	case NVME_ADMIN_KEEP_ALIVE:
		keep_alive(cmd);
		return;
	default:
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_OPCODE);
	}
}
