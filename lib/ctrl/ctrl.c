/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/ctrl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/ana.h"
#include "ctrl/notice.h"
#include "ctrl/nsscan.h"
#include "ctrl/passthrough.h"
#include "ctrl/soft_lookup.h"

/* ---- life ------------------------------------------------------------------------------------ */

static int check_opts(const struct nvmfr_ctrl_opts *opts)
{
	if (opts->admin_depth < 2 || opts->admin_depth > 1024)
		return nvmfr__fail(-EINVAL, "admin_depth %u is not from 2 to 1024",
				   opts->admin_depth);
	if (opts->num_io_queues == 0)
		return nvmfr__fail(-EINVAL, "num_io_queues is 0");
	if (opts->connect_timeout_ms == 0 || opts->admin_timeout_ms == 0)
		return nvmfr__fail(-EINVAL,
				   "connect_timeout_ms and admin_timeout_ms must not be 0");
	if (opts->retry_count > 7 || opts->rnr_retry_count > 7)
		return nvmfr__fail(-EINVAL,
				   "retry_count %u and rnr_retry_count %u must be from 0 to 7",
				   opts->retry_count, opts->rnr_retry_count);
	if (opts->ack_timeout > 31)
		return nvmfr__fail(-EINVAL, "ack_timeout %u is not from 0 to 31",
				   opts->ack_timeout);
	if (opts->ctrl_loss_timeout_ms && !opts->reconnect_delay_ms)
		return nvmfr__fail(-EINVAL, "reconnect_delay_ms must not be 0 with a ctrl_loss_timeout_ms");
	if (opts->fast_io_fail_ms && !opts->ctrl_loss_timeout_ms)
		return nvmfr__fail(-EINVAL, "fast_io_fail_ms without a ctrl_loss_timeout_ms: there is no recovery "
					    "that I/O could wait for");
	return 0;
}

static struct nvmfr_ctrl *alloc_ctrl(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *opts)
{
	struct nvmfr_ctrl *ctrl = calloc(1, sizeof(*ctrl));

	if (!ctrl)
		return NULL;
	ctrl->host = host;
	ctrl->opts = *opts;
	ctrl->state = NVMFR_STATE_CONNECTING;
	ctrl->keep_alive_ns = UINT64_MAX;
	ctrl->numa_node = -1;
	return ctrl;
}

int nvmfr__ctrl_create(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *opts,
		       struct nvmfr_ctrl **out)
{
	int err = check_opts(opts);
	struct nvmfr_ctrl *ctrl;

	if (err)
		return err;
	ctrl = alloc_ctrl(host, opts);
	if (!ctrl)
		return nvmfr__fail(-ENOMEM, "no memory for a controller");
	err = nvmfr__target_parse(opts, &ctrl->target);
	if (!err && ctrl->target.soft)
		err = nvmfr__soft_lookup(ctrl);
	if (!err)
		err = nvmfr__host_fab(host, ctrl->target.soft, &ctrl->ops, &ctrl->fab);
	if (err) {
		nvmfr__soft_let_go(ctrl);
		free(ctrl);
		return err;
	}
	nvmfr__sequence_start(ctrl, nvmfr__connect_steps, nvmfr__connect_step_count,
			      ctrl_now(ctrl) + MS_NS(opts->connect_timeout_ms));
	nvmfr__log(&host->log, NVMFR_LOG_INFO, "%s: connecting to %s", ctrl->target.subnqn,
		   ctrl->target.soft ? "an embedded target" : ctrl->target.traddr);
	ctrl->next = host->ctrls;
	host->ctrls = ctrl;
	*out = ctrl;
	return 0;
}

static void unlink_ctrl(struct nvmfr_ctrl *ctrl)
{
	struct nvmfr_ctrl **at = &ctrl->host->ctrls;

	while (*at != ctrl)
		at = &(*at)->next;
	*at = ctrl->next;
}

void nvmfr__ctrl_forget(struct nvmfr_ctrl *ctrl)
{
	nvmfr__qpair_free(ctrl->admin);
	nvmfr__ns_scan_end(ctrl);
	nvmfr__ns_table_put(ctrl->ns);
	nvmfr__ns_table_put(ctrl->ns_gone);
	nvmfr__passthrough_free(ctrl);
	free(ctrl->page);
	free(ctrl);
}

void nvmfr__ctrl_free(struct nvmfr_ctrl *ctrl)
{
	unlink_ctrl(ctrl);
	nvmfr__events_forget(&ctrl->host->events, ctrl);
	nvmfr__resolve_end(&ctrl->resolve);
	nvmfr__admin_close(ctrl);
	nvmfr__soft_let_go(ctrl);
	nvmfr__ctrl_forget(ctrl);
}

/* ---- state ----------------------------------------------------------------------------------- */

/* A quarter more or less, so that hosts which lost a target together do not all come back together. */
static uint64_t vary(uint64_t ns, uint64_t now)
{
	uint64_t mixed = (now ^ now >> 17) * UINT64_C(0x9e3779b97f4a7c15);

	return ns - ns / 4 + (mixed >> 40) % (ns / 2 + 1);
}

/* Whether a loss is the beginning, or one more try, of a recovery; then when it goes on is set. */
static bool recovers(struct nvmfr_ctrl *ctrl)
{
	uint64_t now = ctrl_now(ctrl), delay = MS_NS(ctrl->opts.reconnect_delay_ms);
	uint32_t most = ctrl->opts.ctrl_loss_timeout_ms;

	if (!most || ctrl->ending || ctrl->state == NVMFR_STATE_CONNECTING)
		return false;
	if (ctrl->state == NVMFR_STATE_LIVE) {
		ctrl->recoveries = 0;
		ctrl->give_up_ns = most == UINT32_MAX ? UINT64_MAX : now + MS_NS(most);
	}
	ctrl->recover_ns = now + vary(delay << nvmfr__min_u32(ctrl->recoveries, 3), now);
	return ctrl->recover_ns < ctrl->give_up_ns;
}

static void tell_loss(const struct nvmfr_ctrl *ctrl, bool was_live)
{
	if (ctrl->state == NVMFR_STATE_RECOVERING)
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN, "%s%s; connects anew in %llu ms",
			   was_live ? "association lost: " : "", ctrl->sentence,
			   (unsigned long long)((ctrl->recover_ns - ctrl_now(ctrl)) / MS_NS(1)));
	else
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_ERROR, "%s%s",
			   was_live ? "association lost: " : "", ctrl->sentence);
}

void nvmfr__ctrl_lose(struct nvmfr_ctrl *ctrl, int err, const char *fmt, ...)
{
	va_list args;
	const enum nvmfr_state before = ctrl->state;
	bool was_live = before == NVMFR_STATE_LIVE, again;

	if (before == NVMFR_STATE_LOST)
		return;
	va_start(args, fmt);
	vsnprintf(ctrl->sentence, sizeof(ctrl->sentence), fmt, args);
	va_end(args);
	again = recovers(ctrl);
	ctrl->err = ctrl->state == NVMFR_STATE_CONNECTING ? err : -ENOTCONN;
	ctrl->state = again ? NVMFR_STATE_RECOVERING : NVMFR_STATE_LOST;
	ctrl->steps = NULL;
	ctrl->shut_down = !again;
	nvmfr__history_lost(ctrl, before, err);
	if (ctrl->state != before)
		nvmfr__event_state(ctrl);
	tell_loss(ctrl, was_live);
	nvmfr__resolve_end(&ctrl->resolve);
	nvmfr__ns_scan_end(ctrl);
	nvmfr__admin_close(ctrl);
	nvmfr__ioqueue_lose_all(ctrl);
	nvmfr__service_changed(ctrl->host);
}

static void admin_connected(struct nvmfr_ctrl *ctrl)
{
	int err = nvmfr__admin_open(ctrl, ctrl->ep);

	memcpy(ctrl->device, ctrl->ep->dev->name, sizeof(ctrl->ep->dev->name));
	ctrl->numa_node = ctrl->ep->dev->numa_node;
	nvmfr__sequence_event(ctrl, err ? err : STEP_NEXT);
}

static void admin_failed(struct nvmfr_ctrl *ctrl, const struct fab_event *ev)
{
	bool again = nvmfr__attempt_again(ctrl, &ctrl->attempt, ev, ctrl->deadline_ns);

	if (!again) {
		nvmfr__sequence_event(ctrl, nvmfr__fail(ev->err, "%s", ev->text));
		return;
	}
	nvmfr__admin_close(ctrl);
	ctrl->pause_ms = (uint32_t)((ctrl->attempt.retry_ns - ctrl_now(ctrl)) / MS_NS(1));
	nvmfr__sequence_event(ctrl, STEP_LATER);
}

static void admin_event(struct nvmfr_ctrl *ctrl, const struct fab_event *ev)
{
	if (ev->ep != ctrl->ep || ctrl->state == NVMFR_STATE_LOST)
		return;
	switch (ev->type) {
	case FAB_EV_CONNECTED: admin_connected(ctrl); break;
	case FAB_EV_FAILED: admin_failed(ctrl, ev); break;
	case FAB_EV_DISCONNECTED:
	case FAB_EV_DEVICE_GONE:
		/* What it answered before it went is looked at first: it may say why. */
		nvmfr__admin_take(ctrl);
		nvmfr__ctrl_lose(ctrl, ev->err ? ev->err : -ECONNABORTED, "%s: %s%s%s",
				 ctrl->target.subnqn, nvmfr__sequence_step(ctrl),
				 ctrl->steps ? ": " : "", ev->text);
		break;
	default: break;
	}
}

void nvmfr__ctrl_event(struct nvmfr_host *host, const struct fab_event *ev)
{
	for (struct nvmfr_ctrl *ctrl = host->ctrls; ctrl; ctrl = ctrl->next) {
		if (ev->owner == ctrl) {
			admin_event(ctrl, ev);
			return;
		}
		for (struct entry *entry = ctrl->entries; entry; entry = entry->next) {
			if (ev->owner == entry) {
				nvmfr__ioqueue_event(entry, ev);
				return;
			}
		}
	}
}

/* The next attempt, when it is due. The same steps as the first time. */
static uint64_t recover_pass(struct nvmfr_ctrl *ctrl)
{
	uint64_t now = ctrl_now(ctrl);

	if (ctrl->state != NVMFR_STATE_RECOVERING || ctrl->steps)
		return UINT64_MAX;
	if (now < ctrl->recover_ns)
		return ctrl->recover_ns;
	ctrl->recoveries++;
	ctrl->history.attempts++;
	ctrl->attempt = (struct attempt){ 0 };
	nvmfr__sequence_start(ctrl, nvmfr__connect_steps, nvmfr__connect_step_count,
			      nvmfr__min_u64(now + MS_NS(ctrl->opts.connect_timeout_ms),
					     ctrl->give_up_ns));
	return now;
}

uint64_t nvmfr__ctrl_pass(struct nvmfr_ctrl *ctrl)
{
	enum nvmfr_state before = ctrl->state;
	bool ending = ctrl->shut_down;
	uint64_t due = nvmfr__admin_pass(ctrl);

	due = nvmfr__min_u64(due, recover_pass(ctrl));
	due = nvmfr__min_u64(due, nvmfr__ana_pass(ctrl));
	nvmfr__notice_start(ctrl);
	due = nvmfr__min_u64(due, nvmfr__sequence_pass(ctrl));
	due = nvmfr__min_u64(due, nvmfr__notice_due(ctrl));
	due = nvmfr__min_u64(due, nvmfr__ioqueue_pass(ctrl));
	due = nvmfr__min_u64(due, nvmfr__admin_arm(ctrl));
	if (ctrl->state != before || ctrl->shut_down != ending)
		nvmfr__service_changed(ctrl->host);
	return due;
}

void nvmfr__ctrl_shut_down(struct nvmfr_ctrl *ctrl, uint64_t deadline_ns)
{
	ctrl->ending = true;
	if (ctrl->state != NVMFR_STATE_LIVE || (ctrl->steps && !ctrl->working)) {
		ctrl->shut_down = true;
		return;
	}
	/* What is out of a work's commands is answered first: its answer would be taken for another's. */
	if (ctrl->steps) {
		ctrl->end_ns = deadline_ns;
		return;
	}
	nvmfr__sequence_start(ctrl, nvmfr__shutdown_steps, nvmfr__shutdown_step_count, deadline_ns);
}
