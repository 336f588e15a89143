/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/notice.h"
#include "wire/status.h"

const char *nvmfr__sequence_step(const struct nvmfr_ctrl *ctrl)
{
	return ctrl->steps && ctrl->step < ctrl->step_count ? ctrl->steps[ctrl->step].name : "";
}

void nvmfr__sequence_start(struct nvmfr_ctrl *ctrl, const struct step *steps, unsigned int count,
			   uint64_t deadline_ns)
{
	ctrl->steps = steps;
	ctrl->step_count = count;
	ctrl->step = 0;
	ctrl->step_waits = false;
	ctrl->resume_ns = 0;
	ctrl->deadline_ns = deadline_ns;
	ctrl->command_deadline_ns = UINT64_MAX;
}

/* Some of them; a target may have thousands. */
static void tell_namespaces(const struct nvmfr_ctrl *ctrl)
{
	enum { TOLD = 8 };

	for (uint32_t i = 0; ctrl->ns && i < ctrl->ns->count && i < TOLD; i++) {
		const struct ns_entry *entry = &ctrl->ns->entries[i];

		nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO,
			   "%s: namespace %u: %llu blocks of %llu bytes%s%s", ctrl->target.subnqn,
			   entry->nsid, (unsigned long long)entry->blocks, 1ull << entry->shift,
			   entry->refusal ? ", no I/O: " : "", entry->refusal ? entry->refusal : "");
	}
}

static void ended(struct nvmfr_ctrl *ctrl)
{
	ctrl->steps = NULL;
	if (ctrl->working) {
		nvmfr__notice_ended(ctrl, 0);
		return;
	}
	if (ctrl->state == NVMFR_STATE_LIVE) {
		ctrl->shut_down = true;
		return;
	}
	nvmfr__history_live(ctrl);
	ctrl->state = NVMFR_STATE_LIVE;
	nvmfr__event_state(ctrl);
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO,
		   "%s: connected, controller %u, %u namespaces, %u I/O queues",
		   ctrl->target.subnqn, ctrl->cntlid, ctrl->ns ? ctrl->ns->count : 0,
		   ctrl->granted);
	tell_namespaces(ctrl);
}

/* A command without an answer may still write to the page: nothing else can be read into it. */
static void work_failed(struct nvmfr_ctrl *ctrl, int err)
{
	const char *step = nvmfr__sequence_step(ctrl);

	if (err == -ETIMEDOUT && ctrl->step_waits) {
		nvmfr__ctrl_lose(ctrl, err, "%s: %s: %s", ctrl->target.subnqn, step,
				 nvmfr__err_get());
		return;
	}
	nvmfr__fail_wrap(err, "%s", step);
	nvmfr__notice_ended(ctrl, err);
}

/* The present sentence, with the step's name before it, ends the sequence. */
static void failed(struct nvmfr_ctrl *ctrl, int err)
{
	const char *step = nvmfr__sequence_step(ctrl);

	if (ctrl->working) {
		work_failed(ctrl, err);
		return;
	}
	if (ctrl->state == NVMFR_STATE_LIVE) {
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN, "%s: %s: %s", ctrl->target.subnqn,
			   step, nvmfr__err_get());
		ctrl->steps = NULL;
		ctrl->shut_down = true;
		return;
	}
	nvmfr__ctrl_lose(ctrl, err, "connect to %s: %s: %s",
			 ctrl->ep && ctrl->ep->peer[0] ? ctrl->ep->peer
			 : ctrl->target.soft	       ? "soft target"
						       : ctrl->target.traddr,
			 step, nvmfr__err_get());
}

static void settle(struct nvmfr_ctrl *ctrl, int result)
{
	ctrl->step_waits = result == STEP_SENT;
	ctrl->resume_ns = 0;
	if (result < 0)
		failed(ctrl, result);
	else if (result == STEP_NEXT && ++ctrl->step == ctrl->step_count)
		ended(ctrl);
	else if (result == STEP_LATER)
		ctrl->resume_ns = ctrl_now(ctrl) + MS_NS(ctrl->pause_ms);
}

static int over_time(struct nvmfr_ctrl *ctrl, uint64_t now)
{
	if (now >= ctrl->deadline_ns)
		return nvmfr__fail(-ETIMEDOUT, "timed out (%s)",
				   ctrl->state == NVMFR_STATE_LIVE
					   ? "the time that nvmfr_disconnect was given"
					   : "connect_timeout_ms");
	if (ctrl->step_waits && now >= ctrl->command_deadline_ns)
		return nvmfr__fail(-ETIMEDOUT, "no answer within admin_timeout_ms (%u ms)",
				   ctrl->opts.admin_timeout_ms);
	return 0;
}

uint64_t nvmfr__sequence_pass(struct nvmfr_ctrl *ctrl)
{
	/* Bounded: a step that says AGAIN makes progress each time, a pass need not see its end. */
	for (unsigned int i = 0; ctrl->steps && i < 64; i++) {
		uint64_t now = ctrl_now(ctrl);
		int err = over_time(ctrl, now);

		if (err) {
			failed(ctrl, err);
			return now;
		}
		if (ctrl->step_waits)
			return nvmfr__min_u64(ctrl->deadline_ns, ctrl->command_deadline_ns);
		if (now < ctrl->resume_ns)
			return nvmfr__min_u64(ctrl->deadline_ns, ctrl->resume_ns);
		ctrl->command_deadline_ns = UINT64_MAX;
		settle(ctrl, ctrl->steps[ctrl->step].start(ctrl));
	}
	return ctrl->steps ? 0 : UINT64_MAX;
}

int nvmfr__sequence_send(struct nvmfr_ctrl *ctrl, const struct nvme_sqe *sqe)
{
	int err = nvmfr__qpair_post_raw(ctrl->admin, sqe, TAG_STEP);

	if (err)
		return nvmfr__fail(err, "the admin queue is full");
	ctrl->history.admin_commands++;
	ctrl->command_deadline_ns = ctrl_now(ctrl) + MS_NS(ctrl->opts.admin_timeout_ms);
	return STEP_SENT;
}

void nvmfr__sequence_answer(struct nvmfr_ctrl *ctrl, const struct nvmfr_completion *cpl)
{
	const struct step *step;
	int result;

	if (!ctrl->steps || !ctrl->step_waits)
		return;
	step = &ctrl->steps[ctrl->step];
	/* The peer may write to the page at any time: what is looked at must not change under the
	 * eyes. */
	memcpy(ctrl->data, ctrl->page, sizeof(ctrl->data));
	if (cpl->result == 0)
		result = step->answer(ctrl, cpl->cqe_result);
	else if (cpl->result == -EREMOTEIO && step->refused)
		result = step->refused(ctrl, cpl->status);
	else if (cpl->result == -EREMOTEIO)
		result = nvmfr__fail(-EIO, "refused with status 0x%04x, %s", cpl->status,
				     nvme_status_name(cpl->status));
	else
		result = nvmfr__fail(cpl->result, "%s", nvmfr__strerror(cpl->result));
	settle(ctrl, result);
}

void nvmfr__sequence_event(struct nvmfr_ctrl *ctrl, int result)
{
	if (ctrl->steps && ctrl->step_waits)
		settle(ctrl, result);
}
