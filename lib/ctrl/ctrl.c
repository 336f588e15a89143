/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/ctrl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/nsscan.h"
#include "ctrl/passthrough.h"
#include "ctrl/soft_lookup.h"

/* ---- life ------------------------------------------------------------------------------------ */

static int check_opts(const struct nvmfr_ctrl_opts *opts)
{
	static const uint8_t zero[sizeof(opts->reserved)];

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
	if (memcmp(opts->reserved, zero, sizeof(zero)) != 0)
		return nvmfr__fail(-EINVAL, "reserved of nvmfr_ctrl_opts must be zero");
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
	nvmfr__passthrough_free(ctrl);
	free(ctrl->page);
	free(ctrl);
}

void nvmfr__ctrl_free(struct nvmfr_ctrl *ctrl)
{
	unlink_ctrl(ctrl);
	nvmfr__resolve_end(&ctrl->resolve);
	nvmfr__admin_close(ctrl);
	nvmfr__soft_let_go(ctrl);
	nvmfr__ctrl_forget(ctrl);
}

/* ---- state ----------------------------------------------------------------------------------- */

void nvmfr__ctrl_lose(struct nvmfr_ctrl *ctrl, int err, const char *fmt, ...)
{
	va_list args;
	bool was_live = ctrl->state == NVMFR_STATE_LIVE;

	if (ctrl->state == NVMFR_STATE_LOST)
		return;
	va_start(args, fmt);
	vsnprintf(ctrl->sentence, sizeof(ctrl->sentence), fmt, args);
	va_end(args);
	ctrl->state = NVMFR_STATE_LOST;
	ctrl->err = was_live ? -ENOTCONN : err;
	ctrl->steps = NULL;
	ctrl->shut_down = true;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_ERROR, "%s%s", was_live ? "association lost: " : "",
		   ctrl->sentence);
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

uint64_t nvmfr__ctrl_pass(struct nvmfr_ctrl *ctrl)
{
	enum nvmfr_state before = ctrl->state;
	bool ending = ctrl->shut_down;
	uint64_t due = nvmfr__admin_pass(ctrl);

	due = nvmfr__min_u64(due, nvmfr__sequence_pass(ctrl));
	due = nvmfr__min_u64(due, nvmfr__ioqueue_pass(ctrl));
	due = nvmfr__min_u64(due, nvmfr__admin_arm(ctrl));
	if (ctrl->state != before || ctrl->shut_down != ending)
		nvmfr__service_changed(ctrl->host);
	return due;
}

void nvmfr__ctrl_shut_down(struct nvmfr_ctrl *ctrl, uint64_t deadline_ns)
{
	if (ctrl->state != NVMFR_STATE_LIVE || ctrl->steps) {
		ctrl->shut_down = true;
		return;
	}
	nvmfr__sequence_start(ctrl, nvmfr__shutdown_steps, nvmfr__shutdown_step_count, deadline_ns);
}
