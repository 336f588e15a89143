/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens between nvmfr_connect() and a live controller, in order; read the table at the end.
 * A step that does not apply answers STEP_NEXT from its start.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/ana.h"
#include "ctrl/ctrl.h"
#include "ctrl/nsscan.h"
#include "wire/admin.h"
#include "wire/ranges.h"
#include "wire/status.h"

static int answer_next(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	(void)ctrl;
	(void)result;
	return STEP_NEXT;
}

/* ---- address, RC connection ------------------------------------------------------------------ */

static int start_resolve(struct nvmfr_ctrl *ctrl)
{
	int done, err = 0;

	if (ctrl->target.soft)
		return STEP_NEXT;
	ctrl->src.ss_family = AF_UNSPEC;
	if (ctrl->target.host_traddr[0])
		err = nvmfr__resolve_numeric(ctrl->target.host_traddr, &ctrl->src);
	if (!err && !ctrl->resolve)
		err = nvmfr__resolve_start(ctrl->target.traddr, ctrl->target.trsvcid,
					   &ctrl->resolve);
	if (err)
		return err;
	done = nvmfr__resolve_poll(&ctrl->resolve, &ctrl->dst);
	ctrl->pause_ms = CTRL_POLL_RDY_MS;
	if (done < 0)
		return done;
	return done ? STEP_NEXT : STEP_LATER;
}

/* Ends in an event: ctrl.c calls nvmfr__sequence_event(). */
static int start_fabric(struct nvmfr_ctrl *ctrl)
{
	int err = nvmfr__attempt_start(ctrl, 0, ctrl->opts.admin_depth, 0, ctrl, NULL, &ctrl->ep);

	return err ? err : STEP_SENT;
}

/* ---- Connect and properties ------------------------------------------------------------------ */

static int start_connect(struct nvmfr_ctrl *ctrl)
{
	struct nvme_connect_data data;
	struct nvme_sqe sqe;
	int err = nvme_connect_data_init(&data, ctrl->host->hostid, NVME_CNTLID_DYNAMIC,
					 ctrl->target.subnqn, ctrl->host->hostnqn);

	if (err)
		return err;
	memcpy(ctrl->page, &data, sizeof(data));
	ctrl->kato_ms = ctrl->opts.kato_ms;
	ctrl->connect_sent_ns = ctrl_now(ctrl);
	nvme_sqe_connect(&sqe, 0, ctrl->opts.admin_depth, 0, ctrl->kato_ms);
	/* Keyed, not in the capsule: Linux's target drops an admin queue that carries data. */
	sqe.dptr = nvme_sgl_keyed((uintptr_t)ctrl->page, sizeof(data), ctrl->page_mr.rkey);
	return nvmfr__sequence_send(ctrl, &sqe);
}

static int answer_connect(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	struct nvme_connect_data data;
	int err;

	if (nvme_connect_authreq(result))
		return nvmfr__fail(
			-EACCES,
			"the target demands authentication (AUTHREQ 0x%x), which this version cannot do",
			nvme_connect_authreq(result));
	ctrl->cntlid = nvme_connect_cntlid(result);
	if (ctrl->cntlid >= 0xfff0)
		return nvmfr__fail(-EPROTO,
				   "the target gave controller ID 0x%04x, which is reserved",
				   ctrl->cntlid);
	err = nvme_connect_data_init(&data, ctrl->host->hostid, ctrl->cntlid, ctrl->target.subnqn,
				     ctrl->host->hostnqn);
	if (err)
		return err;
	memcpy(ctrl->page + CTRL_PAGE_BYTES, &data, sizeof(data));
	return STEP_NEXT;
}

static int refused_connect(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	return nvmfr__connect_refused(ctrl, 0, status);
}

static int get_property(struct nvmfr_ctrl *ctrl, uint32_t offset, bool eight)
{
	struct nvme_sqe sqe;

	nvme_sqe_property_get(&sqe, offset, eight);
	return nvmfr__sequence_send(ctrl, &sqe);
}

static int set_cc(struct nvmfr_ctrl *ctrl, uint32_t value)
{
	struct nvme_sqe sqe;

	nvme_sqe_property_set(&sqe, NVME_PROP_CC, false, value);
	return nvmfr__sequence_send(ctrl, &sqe);
}

static int start_cap(struct nvmfr_ctrl *ctrl)
{
	return get_property(ctrl, NVME_PROP_CAP, true);
}

static int answer_cap(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	ctrl->cap = result;
	/* MPS is what we set CC to: pages of 4 KiB must be among what it offers. */
	if (nvme_cap_mpsmin(result) > 4)
		return nvmfr__fail(-EOPNOTSUPP,
				   "the controller's smallest page is %u KiB (CAP.MPSMIN %u)",
				   4u << nvme_cap_mpsmin(result), nvme_cap_mpsmin(result));
	return STEP_NEXT;
}

static int start_vs(struct nvmfr_ctrl *ctrl)
{
	return get_property(ctrl, NVME_PROP_VS, false);
}

static int answer_vs(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	ctrl->vs = (uint32_t)result;
	return STEP_NEXT;
}

static int start_enable(struct nvmfr_ctrl *ctrl)
{
	/* CAP.TO 0 says nothing; half a second then, its unit. */
	uint32_t ms = nvmfr__max_u32(nvme_cap_timeout_ms(ctrl->cap), 500);

	ctrl->ready_deadline_ns = ctrl_now(ctrl) + MS_NS(ms);
	return set_cc(ctrl, nvme_cc_enable(ctrl->cap));
}

static int start_ready(struct nvmfr_ctrl *ctrl)
{
	return get_property(ctrl, NVME_PROP_CSTS, false);
}

static int answer_ready(struct nvmfr_ctrl *ctrl, uint64_t csts)
{
	if (csts & NVME_CSTS_CFS)
		return nvmfr__fail(-EPROTO, "the controller reports a fatal status (CSTS.CFS)");
	if (csts & NVME_CSTS_RDY)
		return STEP_NEXT;
	if (ctrl_now(ctrl) >= ctrl->ready_deadline_ns)
		return nvmfr__fail(-ETIMEDOUT,
				   "CSTS.RDY is not set after the %u ms that CAP.TO allows",
				   nvmfr__max_u32(nvme_cap_timeout_ms(ctrl->cap), 500));
	ctrl->pause_ms = CTRL_POLL_RDY_MS;
	return STEP_LATER;
}

/* ---- identify controller --------------------------------------------------------------------- */

static int start_id_ctrl(struct nvmfr_ctrl *ctrl)
{
	return nvmfr__send_identify(ctrl, NVME_CNS_CTRL, 0);
}

static int take_limits(struct nvmfr_ctrl *ctrl)
{
	struct capsule_limits capsule = { .max_descriptors = 1 };
	int err = 0;

	if (!ctrl_is_discovery(ctrl))
		err = nvme_capsule_limits(&ctrl->id, FAB_MAX_DESCRIPTORS, &capsule);
	ctrl->limits = (struct queue_limits){
		.max_xfer_bytes = nvme_max_xfer(ctrl->id.mdts, nvme_cap_mpsmin(ctrl->cap)),
		.zeroes_bytes = UINT64_MAX,
		.icd_bytes = capsule.icd_bytes,
		.max_descriptors = capsule.max_descriptors,
		.any_bytes = capsule.any_bytes,
		.verify_bytes = UINT64_MAX,
		.dsm_blocks = UINT64_MAX,
		.dsm_range_blocks = UINT32_MAX,
		.dsm_ranges = NVME_MAX_RANGES,
		.write_zeroes = ctrl->id.oncs & NVME_ONCS_WRITE_ZEROES,
		.compare = ctrl->id.oncs & NVME_ONCS_COMPARE,
		.verify = ctrl->id.oncs & NVME_ONCS_VERIFY,
		.dsm = ctrl->id.oncs & NVME_ONCS_DSM,
		.copy = ctrl->id.oncs & NVME_ONCS_COPY,
		.reservations = ctrl->id.oncs & NVME_ONCS_RESERVATIONS,
		.fused = ctrl->id.fuses & NVME_FUSES_COMPARE_AND_WRITE,
	};
	/* One SGE is the SQE's: nothing can travel behind it. */
	if (ctrl->ep->dev->max_sge == 1) {
		ctrl->limits.icd_bytes = 0;
		ctrl->limits.max_descriptors = 1;
	}
	return err;
}

static int answer_id_ctrl(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	int err = nvme_parse_ctrl(ctrl->data, &ctrl->id);

	(void)result;
	if (err)
		return err;
	if (ctrl->id.cntlid != ctrl->cntlid)
		nvmfr__log(
			&ctrl->host->log, NVMFR_LOG_WARN,
			"%s: Identify names controller 0x%04x, Connect 0x%04x; the latter is used",
			ctrl->target.subnqn, ctrl->id.cntlid, ctrl->cntlid);
	if (ctrl->id.kas == 0 && ctrl->kato_ms) {
		nvmfr__log(
			&ctrl->host->log, NVMFR_LOG_WARN,
			"%s: the controller has no keep-alive (KAS 0); a dead peer will be noticed late",
			ctrl->target.subnqn);
		ctrl->kato_ms = 0;
	}
	err = take_limits(ctrl);
	if (!err)
		nvmfr__admin_start_keep_alive(ctrl);
	return err ? err : STEP_NEXT;
}

/* The NVM command set's own limits came with NVMe 2.0; without them there is no limit to know. */
static int start_id_nvm(struct nvmfr_ctrl *ctrl)
{
	const struct queue_limits *limits = &ctrl->limits;

	if (ctrl_is_discovery(ctrl) || !(limits->write_zeroes || limits->verify || limits->dsm))
		return STEP_NEXT;
	return nvmfr__send_identify(ctrl, NVME_CNS_IO_SET_CTRL, 0);
}

static int answer_id_nvm(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	const struct nvme_id_nvm_ctrl *page = (const void *)ctrl->data;
	struct queue_limits *limits = &ctrl->limits;

	(void)result;
	if (page->wzsl)
		limits->zeroes_bytes = nvme_max_xfer(page->wzsl, nvme_cap_mpsmin(ctrl->cap));
	if (page->vsl)
		limits->verify_bytes = nvme_max_xfer(page->vsl, nvme_cap_mpsmin(ctrl->cap));
	if (page->dmrl)
		limits->dsm_ranges = page->dmrl;
	if (from_le32(page->dmrsl))
		limits->dsm_range_blocks = from_le32(page->dmrsl);
	if (from_le64(page->dmsl))
		limits->dsm_blocks = from_le64(page->dmsl);
	return STEP_NEXT;
}

static int refused_optional(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_DEBUG, "%s: %s: %s; going on without",
		   ctrl->target.subnqn, nvmfr__sequence_step(ctrl), nvme_status_name(status));
	return STEP_NEXT;
}

/* ---- queues, events, buffers ----------------------------------------------------------------- */

static int start_num_queues(struct nvmfr_ctrl *ctrl)
{
	struct nvme_sqe sqe;

	if (ctrl_is_discovery(ctrl))
		return STEP_NEXT;
	nvme_sqe_set_num_queues(&sqe, ctrl->opts.num_io_queues);
	return nvmfr__sequence_send(ctrl, &sqe);
}

static int answer_num_queues(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	/* More than asked for is the peer's business; fewer is normal life. */
	ctrl->granted =
		(uint16_t)nvmfr__min_u32(nvme_num_queues_granted(result), ctrl->opts.num_io_queues);
	return STEP_NEXT;
}

static int start_events(struct nvmfr_ctrl *ctrl)
{
	uint32_t wanted = ctrl->id.oaes & (NVME_AEC_NS_ATTR | NVME_AEC_FW_ACTIVATION |
					   NVME_AEC_ANA_CHANGE | NVME_AEC_DISCOVERY_CHANGE);
	struct nvme_sqe sqe;

	if (!ctrl_is_discovery(ctrl) && !ctrl->no_health)
		wanted |= NVME_AEC_HEALTH;
	if (!wanted)
		return STEP_NEXT;
	nvme_sqe_set_features(&sqe, NVME_FEAT_ASYNC_EVENT_CONFIG, wanted);
	return nvmfr__sequence_send(ctrl, &sqe);
}

/* Health is what OAES says nothing of: without it the others may be had. */
static int refused_events(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	if (ctrl->no_health || ctrl_is_discovery(ctrl))
		return refused_optional(ctrl, status);
	ctrl->no_health = true;
	return STEP_AGAIN;
}

static int start_aers(struct nvmfr_ctrl *ctrl)
{
	if (!ctrl_is_discovery(ctrl) || (ctrl->id.oaes & NVME_AEC_DISCOVERY_CHANGE))
		nvmfr__admin_arm_aers(ctrl);
	return STEP_NEXT;
}

static int start_buffers(struct nvmfr_ctrl *ctrl)
{
	int err = nvmfr__host_attach_buffers(ctrl->host, ctrl->ep->dev);

	/* The end of the registrar starts a pass; an application's own registration does not. */
	ctrl->pause_ms = CTRL_POLL_RDY_MS;
	if (err == -EAGAIN)
		return STEP_LATER;
	return err ? err : STEP_NEXT;
}

/* clang-format off */
const struct step nvmfr__connect_steps[] = {
	{ "resolve the address",         start_resolve,          NULL,                 NULL },
	{ "RDMA connection",             start_fabric,           NULL,                 NULL },
	{ "Fabrics Connect",             start_connect,          answer_connect,       refused_connect },
	{ "read CAP",                    start_cap,              answer_cap,           NULL },
	{ "read VS",                     start_vs,               answer_vs,            NULL },
	{ "enable (CC.EN)",              start_enable,           answer_next,          NULL },
	{ "wait for CSTS.RDY",           start_ready,            answer_ready,         NULL },
	{ "identify controller",         start_id_ctrl,          answer_id_ctrl,       NULL },
	{ "identify NVM command set",    start_id_nvm,           answer_id_nvm,        refused_optional },
	{ "number of queues",            start_num_queues,       answer_num_queues,    NULL },
	{ "configure events",            start_events,           answer_next,          refused_events },
	{ "active namespaces",           nvmfr__start_ns_list,   nvmfr__answer_ns_list, NULL },
	{ "identify namespace",          nvmfr__start_ns,        nvmfr__answer_ns,     nvmfr__refused_ns },
	{ "namespace descriptors",       nvmfr__start_ns_descs,  nvmfr__answer_ns_descs, nvmfr__refused_ns_descs },
	{ "ANA log",                     nvmfr__start_ana_scan,  nvmfr__answer_ana,    nvmfr__refused_ana },
	{ "publish namespaces",          nvmfr__publish_ns,      NULL,                 NULL },
	{ "arm event requests",          start_aers,             NULL,                 NULL },
	{ "register buffers",            start_buffers,          NULL,                 NULL },
};
/* clang-format on */
const unsigned int nvmfr__connect_step_count = ARRAY_SIZE(nvmfr__connect_steps);

/* ---- the orderly end ------------------------------------------------------------------------- */

static int start_shutdown(struct nvmfr_ctrl *ctrl)
{
	return set_cc(ctrl, nvme_cc_enable(ctrl->cap) | NVME_CC_SHN_NORMAL);
}

static int answer_shutdown_status(struct nvmfr_ctrl *ctrl, uint64_t csts)
{
	if ((csts & NVME_CSTS_SHST_MASK) == NVME_CSTS_SHST_COMPLETE || (csts & NVME_CSTS_CFS))
		return STEP_NEXT;
	ctrl->pause_ms = CTRL_POLL_RDY_MS;
	return STEP_LATER;
}

/* clang-format off */
const struct step nvmfr__shutdown_steps[] = {
	{ "shutdown notification",       start_shutdown,         answer_next,          NULL },
	{ "wait for CSTS.SHST",          start_ready,            answer_shutdown_status, NULL },
};
/* clang-format on */
const unsigned int nvmfr__shutdown_step_count = ARRAY_SIZE(nvmfr__shutdown_steps);
