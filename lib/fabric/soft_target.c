/* SPDX-License-Identifier: BSD-3-Clause */
/* The target: its life, connection requests, and what happens when an endpoint goes. */
#include "fabric/soft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/admin.h"
#include "wire/cm.h"

enum { ADMIN_ENTRIES = 4096 };    /* most an admin queue can have */

/* ---- lock ------------------------------------------------------------------------------------- */

void nvmfr__soft_lock(struct nvmfr_soft_target *target)
{
	/* A thread that serves without a pause would take the lock again before we got it. */
	atomic_fetch_add(&target->waiting, 1);
	pthread_mutex_lock(&target->lock);
	atomic_fetch_sub(&target->waiting, 1);
}

void nvmfr__soft_unlock(struct nvmfr_soft_target *target)
{
	pthread_mutex_unlock(&target->lock);
}

/* ---- life ------------------------------------------------------------------------------------- */

static void target_delete(struct nvmfr_soft_target *target)
{
	nvmfr__soft_ns_remove_all(target);
	free(target->plan);
	free(target->entries);
	pthread_mutex_destroy(&target->lock);
	pthread_mutex_destroy(&target->plan_lock);
	pthread_mutex_destroy(&target->reserve_lock);
	pthread_mutex_destroy(&target->fused_lock);
	pthread_cond_destroy(&target->wake);
	free(target);
}

struct nvmfr_soft_target *nvmfr__soft_target_get(struct nvmfr_soft_target *target)
{
	atomic_fetch_add(&target->refs, 1);
	return target;
}

void nvmfr__soft_target_put(struct nvmfr_soft_target *target)
{
	if (target && atomic_fetch_sub(&target->refs, 1) == 1)
		target_delete(target);
}

void nvmfr__soft_opts_default(struct nvmfr_soft_opts *opts)
{
	*opts = (struct nvmfr_soft_opts){
		.size = sizeof(*opts),
		.sgls = 1 | NVME_SGLS_KEYED | NVME_SGLS_OFFSET,
		.ioccsz = (FAB_CAPSULE_BYTES + 8192) / 16,
		.iorcsz = 1,
		.nn = 1024,
		.queue_entries = 1024,
		.num_io_queues = 64,
		.oncs = NVME_ONCS_COMPARE | NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES | NVME_ONCS_TIMESTAMP |
			NVME_ONCS_VERIFY | NVME_ONCS_COPY | NVME_ONCS_RESERVATIONS,
		.kas = 1,
		.mdts = 8,
		.msdbd = 16,
		.ready_timeout = 20,
		.oaes = NVME_AEC_NS_ATTR,
	};
}

static int check_opts(const struct nvmfr_soft_opts *opts)
{
	if (opts->flags & ~(uint32_t)(NVMFR_SOFT_THREAD | NVMFR_SOFT_DENY_HOSTS | NVMFR_SOFT_TBKAS))
		return nvmfr__fail(-EINVAL, "soft target: unknown flags %xh", opts->flags);
	for (size_t i = 0; i < sizeof(opts->reserved); i++)
		if (opts->reserved[i])
			return nvmfr__fail(-EINVAL, "soft target: reserved bytes are not zero");
	if (opts->ana_groups > SOFT_ANA_GROUPS)
		return nvmfr__fail(-EINVAL, "soft target: %u ANA groups, at most %d can be",
				   opts->ana_groups, SOFT_ANA_GROUPS);
	return opts->subnqn ? nvme_nqn_check("soft target: subnqn", opts->subnqn) : 0;
}

static void init_sync(struct nvmfr_soft_target *target)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&target->lock, NULL);
	pthread_mutex_init(&target->plan_lock, NULL);
	pthread_mutex_init(&target->reserve_lock, NULL);
	pthread_mutex_init(&target->fused_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&target->wake, &attr);
	pthread_condattr_destroy(&attr);
}

int nvmfr__soft_target_new(struct fab_host *fh, const char *name, const struct nvmfr_soft_opts *opts,
			   struct nvmfr_soft_target **out)
{
	struct nvmfr_soft_target *target;
	struct soft_ns_table *none;
	int err = check_opts(opts);

	*out = NULL;
	if (err)
		return err;
	target = calloc(1, sizeof(*target));
	none = calloc(1, sizeof(*none));
	if (!target || !none) {
		free(target);
		free(none);
		return nvmfr__fail(-ENOMEM, "soft target '%s': no memory", name);
	}
	snprintf(target->name, sizeof(target->name), "%s", name);
	snprintf(target->subnqn, sizeof(target->subnqn), "%s",
		 opts->subnqn ? opts->subnqn : NVMFR_SOFT_SUBNQN);
	target->fh = fh;
	target->opts = *opts;
	target->opts.subnqn = target->subnqn;
	target->refs = 1;
	target->namespaces = none;
	memset(target->ana, NVMFR_ANA_OPTIMIZED, sizeof(target->ana));
	target->threaded = opts->flags & NVMFR_SOFT_THREAD;
	init_sync(target);
	if (target->threaded)
		err = nvmfr__soft_thread_start(target);
	if (err)
		nvmfr__soft_target_put(target);
	else
		*out = target;
	return err;
}

static void drop_all(struct nvmfr_soft_target *target, const char *why)
{
	for (struct soft_ctrl *ctrl = target->ctrls; ctrl; ctrl = ctrl->next)
		nvmfr__soft_ctrl_drop(target, ctrl, why);
	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next)
		nvmfr__soft_ep_fail(ep, true, "the target closed the connection: %s", why);
}

void nvmfr__soft_drop(struct nvmfr_soft_target *target)
{
	nvmfr__soft_lock(target);
	drop_all(target, "all were dropped");
	nvmfr__soft_unlock(target);
}

void nvmfr__soft_target_free(struct nvmfr_soft_target *target)
{
	if (!target)
		return;
	nvmfr__soft_lock(target);
	target->dead = true;
	drop_all(target, "it is gone");
	nvmfr__soft_quiesce(target);
	nvmfr__soft_unlock(target);
	nvmfr__soft_thread_join(target);
	nvmfr__soft_target_put(target);
}

/* ---- counters --------------------------------------------------------------------------------- */

static void add_counts(struct soft_counts *sum, const struct soft_counts *more)
{
	nvmfr__soft_count(&sum->commands, atomic_load(&more->commands));
	nvmfr__soft_count(&sum->reads, atomic_load(&more->reads));
	nvmfr__soft_count(&sum->writes, atomic_load(&more->writes));
	nvmfr__soft_count(&sum->in_capsule_writes, atomic_load(&more->in_capsule_writes));
	nvmfr__soft_count(&sum->bytes_moved, atomic_load(&more->bytes_moved));
	nvmfr__soft_count(&sum->violations, atomic_load(&more->violations));
	nvmfr__soft_count(&sum->keep_alives, atomic_load(&more->keep_alives));
	if (atomic_load(&sum->max_outstanding) < atomic_load(&more->max_outstanding))
		atomic_store(&sum->max_outstanding, atomic_load(&more->max_outstanding));
}

void nvmfr__soft_counters(struct nvmfr_soft_target *target, struct nvmfr_soft_counters *out)
{
	struct soft_counts sum = { .commands = 0 };
	uint64_t open = 0;

	nvmfr__soft_lock(target);
	add_counts(&sum, &target->retired);
	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next) {
		add_counts(&sum, &ep->counts);
		open += !nvmfr__soft_failed(ep);
	}
	*out = (struct nvmfr_soft_counters){
		.size = sizeof(*out),
		.commands = atomic_load(&sum.commands),
		.reads = atomic_load(&sum.reads),
		.writes = atomic_load(&sum.writes),
		.in_capsule_writes = atomic_load(&sum.in_capsule_writes),
		.bytes_moved = atomic_load(&sum.bytes_moved),
		.violations = atomic_load(&sum.violations),
		.connections = target->connections,
		.open_connections = open,
		.max_outstanding = atomic_load(&sum.max_outstanding),
		.keep_alives = atomic_load(&sum.keep_alives),
	};
	nvmfr__soft_unlock(target);
}

/* ---- connection requests ---------------------------------------------------------------------- */

static void attach(struct soft_ep *ep)
{
	struct nvmfr_soft_target *target = ep->target;

	ep->attached = true;
	ep->target_next = target->eps;
	ep->target_prev = &target->eps;
	if (target->eps)
		target->eps->target_prev = &ep->target_next;
	target->eps = ep;
	target->connections++;
}

void nvmfr__soft_detach(struct soft_ep *ep)
{
	if (!ep->attached)
		return;
	nvmfr__soft_ctrl_leave(ep->target, ep);
	add_counts(&ep->target->retired, &ep->counts);
	*ep->target_prev = ep->target_next;
	if (ep->target_next)
		ep->target_next->target_prev = ep->target_prev;
	ep->attached = false;
}

static void accept_ep(struct soft_ep *ep, const struct cm_request *request)
{
	ep->sqsize = request->hsqsize;
	ep->cm_cntlid = request->cntlid;
	atomic_store(&ep->recv_posted, ep->ep.recv_positions);
	attach(ep);
	ep->answer.event = (struct fab_event){ .type = FAB_EV_CONNECTED,
					       .crqsize = (uint16_t)(request->hsqsize + 1) };
	nvmfr__soft_push(ep, &ep->answer);
}

static void refuse(struct soft_ep *ep, int err, bool retryable, const char *text)
{
	struct fab_event *event = &ep->answer.event;

	event->type = FAB_EV_FAILED;
	event->err = err;
	event->retryable = retryable;
	snprintf(event->text, sizeof(event->text), "%s", text);
	nvmfr__soft_push(ep, &ep->answer);
}

static void reject(struct soft_ep *ep, uint16_t status)
{
	char text[FAB_ERROR_TEXT];

	if (status == 0) {
		refuse(ep, -ECONNREFUSED, false, "connection refused: nobody listens there");
		return;
	}
	snprintf(text, sizeof(text), "connection rejected by the target: %s (status %u)",
		 nvme_cm_status_name(status), status);
	ep->answer.event.reject_status = status;
	refuse(ep, -ECONNREFUSED, nvme_cm_status_retryable(status), text);
}

/* 0, or the reject status of the first rule that the request breaks. */
static uint16_t check_request(struct soft_ep *ep, const void *req, size_t bytes,
			      struct cm_request *request)
{
	const struct nvmfr_soft_opts *opts = &ep->target->opts;
	uint32_t entries;
	int err = nvme_parse_cm_request(req, bytes, request);

	if (err)
		return err == -EOPNOTSUPP ? NVME_CM_INVALID_RECFMT : NVME_CM_INVALID_LENGTH;
	entries = request->qid ? opts->queue_entries : ADMIN_ENTRIES;
	if (request->qid != ep->qid || request->qid > opts->num_io_queues)
		return NVME_CM_INVALID_QID;
	if (request->hsqsize == 0 || request->hsqsize >= entries)
		return NVME_CM_INVALID_HSQSIZE;
	if (request->hrqsize < request->hsqsize + 1)
		return NVME_CM_INVALID_HRQSIZE;
	if (request->qid && !nvmfr__soft_ctrl_find(ep->target, request->cntlid))
		return NVME_CM_INVALID_CNTLID;
	return 0;
}

/* True: the fault decided. */
static bool connect_fault(struct soft_ep *ep, const struct nvmfr_soft_fault *fault)
{
	switch (fault->kind) {
	case NVMFR_SOFT_FAULT_CM_REJECT:
		reject(ep, (uint16_t)fault->value);
		return true;
	case NVMFR_SOFT_FAULT_CM_STALE:
		refuse(ep, -ECONNREFUSED, true, "connection refused: stale connection");
		return true;
	case NVMFR_SOFT_FAULT_CM_UNREACHABLE:
		refuse(ep, -EHOSTUNREACH, false, "the address does not answer");
		return true;
	default:
		return fault->kind == NVMFR_SOFT_FAULT_CM_SILENCE;
	}
}

static void answer_request(struct soft_ep *ep, const void *req, size_t bytes)
{
	struct nvmfr_soft_fault fault = nvmfr__soft_fault_match(ep->target, ep->qid, NULL);
	struct cm_request request;
	uint16_t status;

	if (connect_fault(ep, &fault))
		return;
	if (ep->target->dead) {
		reject(ep, 0);
		return;
	}
	if (ep->target->shut[ep->port]) {
		refuse(ep, -EHOSTUNREACH, false, "the address does not answer: its port is shut");
		return;
	}
	status = check_request(ep, req, bytes, &request);
	if (status) {
		/* An association may have ended meanwhile; all else the host could know. */
		if (status != NVME_CM_INVALID_CNTLID)
			nvmfr__soft_violation(ep, "connection request: %s",
					      nvme_cm_status_name(status));
		reject(ep, status);
		return;
	}
	accept_ep(ep, &request);
	if (fault.kind == NVMFR_SOFT_FAULT_CM_DISCONNECT)
		nvmfr__soft_ep_fail(ep, true, "the target closed the connection");
}

void nvmfr__soft_connect(struct soft_ep *ep, const void *req, size_t bytes)
{
	struct nvmfr_soft_target *target = ep->target;

	nvmfr__soft_lock(target);
	answer_request(ep, req, bytes);
	nvmfr__soft_unlock(target);
	nvmfr__soft_log_violation(target);
}

/* ---- endings ---------------------------------------------------------------------------------- */

void nvmfr__soft_settle(struct soft_ep *ep)
{
	struct soft_ctrl *ctrl = ep->ctrl;

	if (!ctrl || (ctrl->admin != ep && !ep->drop_all))
		return;
	nvmfr__soft_ctrl_drop(ep->target, ctrl,
			      ctrl->admin == ep ? "its admin queue failed" : "one of its queues failed");
}

static void kato_over(struct nvmfr_soft_target *target, struct soft_ctrl *ctrl)
{
	bool traffic = atomic_exchange(&ctrl->traffic, false);

	if (traffic && target->opts.flags & NVMFR_SOFT_TBKAS)
		nvmfr__soft_kato_restart(target, ctrl);
	else
		nvmfr__soft_ctrl_drop(target, ctrl, "keep-alive timeout");
}

void nvmfr__soft_expire(struct nvmfr_soft_target *target, uint64_t now)
{
	for (struct soft_ctrl *ctrl = target->ctrls; ctrl; ctrl = ctrl->next)
		if (!ctrl->dead && ctrl->admin && atomic_load(&ctrl->admin->kato_due_ns) <= now)
			kato_over(target, ctrl);
}
