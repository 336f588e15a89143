/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A notice that is answered here has its log page read first, which lets the controller tell of the next
 * change: what changes after that is told again, so nothing falls between the page and what is read after
 * it. The pages of what is only passed on stay unread; they are the application's.
 */
#include "ctrl/notice.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/probe.h"
#include "ctrl/ana.h"
#include "ctrl/dlog.h"
#include "ctrl/nsscan.h"
#include "wire/discovery.h"
#include "wire/status.h"

/* ---- events ---------------------------------------------------------------------------------- */

/* Of a log referred to it is the first log's reader who is told; the counter is none of his. */
static void tell_generation(struct nvmfr_ctrl *ctrl, uint64_t counter)
{
	struct nvmfr_ctrl *first = ctrl->told_as;
	const struct nvmfr_event event = { .ctrl = first ? first : ctrl,
					   .type = NVMFR_EVENT_DISCOVERY_CHANGED,
					   .value = first ? 0 : counter };

	/* Of one that is gone nothing can be read: it is not news, but there is something to be done. */
	if (first)
		first->referred_news += ctrl->state == NVMFR_STATE_LIVE;
	nvmfr__events_push(&ctrl->host->events, &event);
}

void nvmfr__event_state(struct nvmfr_ctrl *ctrl)
{
	const struct nvmfr_event event = {
		.ctrl = ctrl,
		.type = NVMFR_EVENT_STATE,
		.value = ctrl->state,
		.result = ctrl->state == NVMFR_STATE_LOST ? ctrl->err : 0,
	};

	PROBE3(state, ctrl->target.subnqn, event.value, event.result);
	if (!ctrl->quiet)
		nvmfr__events_push(&ctrl->host->events, &event);
	/* Gone for good, or back: nobody has told what changed meanwhile. */
	else if (ctrl->told_as && ctrl->stays && ctrl->state != NVMFR_STATE_RECOVERING)
		tell_generation(ctrl, 0);
}

void nvmfr__event_ns(struct nvmfr_ctrl *ctrl, enum nvmfr_event_type type, uint32_t nsid,
		     uint64_t value)
{
	const struct nvmfr_event event = {
		.ctrl = ctrl, .type = type, .nsid = nsid, .value = value
	};

	nvmfr__events_push(&ctrl->host->events, &event);
}

static enum nvmfr_event_type type_of(const struct aer_result *aer)
{
	switch (aer->type) {
	case NVME_AER_ERROR: return NVMFR_EVENT_ERROR;
	case NVME_AER_SMART: return NVMFR_EVENT_HEALTH;
	case NVME_AER_VENDOR: return NVMFR_EVENT_VENDOR;
	case NVME_AER_NOTICE:
		return aer->info == NVME_NOTICE_FW_ACTIVATION ? NVMFR_EVENT_FIRMWARE
							      : NVMFR_EVENT_OTHER;
	default: return NVMFR_EVENT_OTHER;
	}
}

static void pass_on(struct nvmfr_ctrl *ctrl, const struct aer_result *aer)
{
	const struct nvmfr_event event = {
		.ctrl = ctrl,
		.type = type_of(aer),
		.value = aer->parameter,
		.aer_type = aer->type,
		.aer_info = aer->info,
		.log_page = aer->lid,
	};

	nvmfr__events_push(&ctrl->host->events, &event);
}

/* 0: nothing is done about it here. */
static unsigned int work_of(const struct nvmfr_ctrl *ctrl, const struct aer_result *aer)
{
	if (aer->type != NVME_AER_NOTICE)
		return 0;
	if (ctrl_is_discovery(ctrl))
		return aer->info == NVME_NOTICE_DISCOVERY_CHANGE ? NOTICE_DISCOVERY : 0;
	switch (aer->info) {
	case NVME_NOTICE_NS_ATTR: return NOTICE_NAMESPACES;
	case NVME_NOTICE_ANA_CHANGE: return NOTICE_ANA;
	default: return 0;
	}
}

void nvmfr__notice_take(struct nvmfr_ctrl *ctrl, const struct aer_result *aer)
{
	unsigned int work = work_of(ctrl, aer);

	ctrl->notices |= work;
	if (!work && !ctrl->told_as)
		pass_on(ctrl, aer);
}

/* ---- log pages ------------------------------------------------------------------------------- */

int nvmfr__send_get_log(struct nvmfr_ctrl *ctrl, uint8_t lid, uint32_t bytes, uint64_t offset,
			bool retain)
{
	struct nvme_sqe sqe;

	memset(ctrl->page, 0, CTRL_PAGE_BYTES);
	nvme_sqe_get_log(&sqe, lid, NVME_NSID_ALL, bytes, offset, retain);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)ctrl->page, bytes, ctrl->page_mr.rkey);
	return nvmfr__sequence_send(ctrl, &sqe);
}

static int start_changed(struct nvmfr_ctrl *ctrl)
{
	return nvmfr__send_get_log(ctrl, NVME_LID_CHANGED_NS, NVME_CHANGED_NS_BYTES, 0, false);
}

static int answer_changed(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	(void)result;
	nvmfr__ns_changed_list(ctrl, ctrl->data, sizeof(ctrl->data));
	return STEP_NEXT;
}

/* Not knowing which, all are looked at. */
static int refused_changed(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO,
		   "%s: the changed namespace list was refused, %s: all are read",
		   ctrl->target.subnqn, nvme_status_name(status));
	return STEP_NEXT;
}

static int start_discovery(struct nvmfr_ctrl *ctrl)
{
	return nvmfr__send_get_log(ctrl, NVME_LID_DISCOVERY, sizeof(struct nvme_discovery_header),
				   0, false);
}

static int answer_discovery(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	le64 counter;

	(void)result;
	memcpy(&counter, ctrl->data, sizeof(counter));
	tell_generation(ctrl, from_le64(counter));
	return STEP_NEXT;
}

static int refused_discovery(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	(void)status;
	tell_generation(ctrl, 0);
	return STEP_NEXT;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* clang-format off */
static const struct step namespace_steps[] = {
	{ "changed namespace list",      start_changed,          answer_changed,       refused_changed },
	{ "active namespaces",           nvmfr__start_ns_list,   nvmfr__answer_ns_list, NULL },
	{ "identify namespace",          nvmfr__start_ns,        nvmfr__answer_ns,     nvmfr__refused_ns },
	{ "namespace descriptors",       nvmfr__start_ns_descs,  nvmfr__answer_ns_descs, nvmfr__refused_ns_descs },
	{ "ANA log",                     nvmfr__start_ana_scan,  nvmfr__answer_ana,    nvmfr__refused_ana },
	{ "publish namespaces",          nvmfr__publish_ns,      NULL,                 NULL },
};
static const struct step ana_steps[] = {
	{ "ANA log",                     nvmfr__start_ana,       nvmfr__answer_ana,    nvmfr__refused_ana },
	{ "publish ANA states",          nvmfr__publish_ana,     NULL,                 NULL },
};
static const struct step discovery_steps[] = {
	{ "discovery log",               start_discovery,        answer_discovery,     refused_discovery },
};

static const struct {
	unsigned int notice;
	const struct step *steps;
	unsigned int count;
} works[] = {
	{ NOTICE_NAMESPACES, namespace_steps, ARRAY_SIZE(namespace_steps) },
	{ NOTICE_ANA,        ana_steps,       ARRAY_SIZE(ana_steps) },
	{ NOTICE_ANA_LOOK,   ana_steps,       ARRAY_SIZE(ana_steps) },
	{ NOTICE_DISCOVERY,  discovery_steps, ARRAY_SIZE(discovery_steps) },
	{ NOTICE_LOG_READ,   nvmfr__dlog_steps, DLOG_STEPS },
};
/* clang-format on */

/* nvmfr_disconnect() came while work was going on: now that nothing of it is out, the end begins. */
static void start_end(struct nvmfr_ctrl *ctrl)
{
	nvmfr__ns_scan_end(ctrl);
	ctrl->working = 0;
	ctrl->notices = 0;
	nvmfr__sequence_start(ctrl, nvmfr__shutdown_steps, nvmfr__shutdown_step_count,
			      ctrl->end_ns);
	ctrl->end_ns = 0;
}

void nvmfr__notice_start(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->state == NVMFR_STATE_LIVE && ctrl->end_ns && !(ctrl->steps && ctrl->step_waits)) {
		start_end(ctrl);
		return;
	}
	if (nvmfr__notice_due(ctrl) > ctrl_now(ctrl))
		return;
	for (unsigned int i = 0; i < ARRAY_SIZE(works); i++) {
		if (!(ctrl->notices & works[i].notice))
			continue;
		/* Told again while the work runs, it is done again. */
		ctrl->notices &= ~works[i].notice;
		ctrl->working = works[i].notice;
		nvmfr__sequence_start(ctrl, works[i].steps, works[i].count, UINT64_MAX);
		return;
	}
}

uint64_t nvmfr__notice_due(const struct nvmfr_ctrl *ctrl)
{
	if (ctrl->state != NVMFR_STATE_LIVE || ctrl->steps || ctrl->shut_down)
		return UINT64_MAX;
	if (ctrl->end_ns)
		return 0;
	return ctrl->notices ? ctrl->notice_ns : UINT64_MAX;
}

/*
 * What failed is tried again, later each time: the page that told what changed has been read and will not
 * tell it twice.
 */
void nvmfr__notice_ended(struct nvmfr_ctrl *ctrl, int err)
{
	unsigned int work = ctrl->working;

	ctrl->working = 0;
	ctrl->steps = NULL;
	nvmfr__ns_scan_end(ctrl);
	if (work == NOTICE_LOG_READ) {
		nvmfr__dlog_ended(ctrl, err);
		return;
	}
	if (!err) {
		ctrl->notice_ns = 0;
		ctrl->notice_pause_ms = 0;
		if (work == NOTICE_NAMESPACES)
			ctrl->scan_all = false;
		return;
	}
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN, "%s: %s; tried again later",
		   ctrl->target.subnqn, nvmfr__err_get());
	if (work == NOTICE_NAMESPACES)
		ctrl->scan_all = true;
	ctrl->notices |= work;
	ctrl->notice_pause_ms = nvmfr__min_u32(ctrl->notice_pause_ms * 2, NOTICE_RETRY_MAX_MS);
	ctrl->notice_pause_ms = nvmfr__max_u32(ctrl->notice_pause_ms, NOTICE_RETRY_FIRST_MS);
	ctrl->notice_ns = ctrl_now(ctrl) + MS_NS(ctrl->notice_pause_ms);
}
