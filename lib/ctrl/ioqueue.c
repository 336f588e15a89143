/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O queues between creation and the hand-over to their owner, and after the owner's last word.
 *
 * The service connects a queue in a nvmfr_qpair of its own (boot); the owner moves it in when it
 * sees the news. So nothing of the owner's is touched while it may already be polling.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/probe.h"
#include "ctrl/ctrl.h"
#include "queue/group.h"
#include "queue/retry.h"
#include "wire/cm.h"

static uint32_t ms_to_ticks(uint32_t ms)
{
	/* One more: a command's tick is up to one old when it is submitted. Late by one, never early. */
	return ms ? (ms + HOST_TICK_MS - 1) / HOST_TICK_MS + 1 : 0;
}

/* 0: all are in use. */
static uint16_t free_qid(const struct nvmfr_ctrl *ctrl)
{
	for (uint32_t i = 0; i <= ctrl->granted / 64u; i++) {
		/* QID 0 is the admin queue's. */
		uint64_t used = ctrl->qids[i] | (i == 0);
		uint32_t qid = i * 64 + (uint32_t)__builtin_ctzll(~used | UINT64_C(1) << 63);

		if (used != UINT64_MAX)
			return qid <= ctrl->granted ? (uint16_t)qid : 0;
	}
	return 0;
}

static void flip_qid(struct nvmfr_ctrl *ctrl, uint16_t qid)
{
	ctrl->qids[qid / 64] ^= UINT64_C(1) << qid % 64;
}

static bool is_connecting(enum entry_phase phase)
{
	return phase == ENTRY_FABRIC || phase == ENTRY_CONNECT;
}

/* 0: it is not there yet, or no more. */
static void set_phase(struct entry *entry, enum entry_phase phase)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;

	ctrl->connecting += is_connecting(phase);
	ctrl->connecting -= is_connecting(entry->phase);
	ctrl->waiting += phase == ENTRY_WAITING;
	ctrl->waiting -= entry->phase == ENTRY_WAITING;
	entry->phase = phase;
}

static int check_create(struct nvmfr_ctrl *ctrl, const struct nvmfr_qpair_opts *opts)
{
	if (ctrl->state == NVMFR_STATE_LOST) {
		nvmfr__err_set(ctrl->sentence);
		return -ENOTCONN;
	}
	if (ctrl->state == NVMFR_STATE_RECOVERING)
		return nvmfr__fail(-EAGAIN, "the controller was lost and is being connected anew: "
					    "nvmfr_ctrl_wait() first");
	if (ctrl->state != NVMFR_STATE_LIVE)
		return nvmfr__fail(-ENOTCONN,
				   "the controller is still connecting: nvmfr_ctrl_wait() first");
	if (opts->depth == 0 || opts->depth > NVME_MAX_DEPTH)
		return nvmfr__fail(-EINVAL, "depth %u is not from 1 to %d", opts->depth,
				   NVME_MAX_DEPTH);
	if (opts->max_descriptors == 0 || opts->max_descriptors > FAB_MAX_DESCRIPTORS)
		return nvmfr__fail(-EINVAL, "max_descriptors %u is not from 1 to %d",
				   opts->max_descriptors, FAB_MAX_DESCRIPTORS);
	if (opts->flags & ~(uint32_t)NVMFR_QPAIR_STATS)
		return nvmfr__fail(-EINVAL, "flags of nvmfr_qpair_opts has unknown bits");
	if (opts->retry > NVMFR_RETRY_ALL)
		return nvmfr__fail(-EINVAL, "retry %u is not one of enum nvmfr_retry", opts->retry);
	if (opts->retry && !ctrl->opts.ctrl_loss_timeout_ms)
		return nvmfr__fail(-EINVAL, "retry without a ctrl_loss_timeout_ms: a lost controller would not "
					    "come back");
	if (opts->group && opts->group->host != ctrl->host)
		return nvmfr__fail(-EINVAL, "the group belongs to another host");
	if (!nvme_clamp_depth(opts->depth, nvme_cap_mqes(ctrl->cap), ctrl->id.maxcmd))
		return nvmfr__fail(
			-EPROTO, "the controller's queues have no room for a command (CAP.MQES 0)");
	if (ctrl_is_discovery(ctrl))
		return nvmfr__fail(-EOPNOTSUPP, "a discovery controller has no I/O queues");
	return 0;
}

static void link_entry(struct entry *entry)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;

	entry->next = ctrl->entries;
	entry->prev = &ctrl->entries;
	if (entry->next)
		entry->next->prev = &entry->next;
	ctrl->entries = entry;
	flip_qid(ctrl, entry->qid);
	set_phase(entry, ENTRY_WAITING);
}

static void unlink_entry(struct entry *entry)
{
	*entry->prev = entry->next;
	if (entry->next)
		entry->next->prev = entry->prev;
	flip_qid(entry->ctrl, entry->qid);
	set_phase(entry, 0);
}

static void join_group(struct nvmfr_qpair *qp, struct nvmfr_group *group)
{
	nvmfr__group_join(group, qp);
	qp->link.owner_fd = group->owner_fd;
	qp->link.group_word = (_Atomic uint32_t *)group->word;
}

static void init_qpair(struct nvmfr_qpair *qp, struct nvmfr_ctrl *ctrl,
		       const struct nvmfr_qpair_opts *opts)
{
	struct nvmfr_host *host = ctrl->host;

	qp->host = host;
	qp->tick = &host->tick;
	qp->qpair_data = opts->qpair_data;
	qp->max_descriptors = opts->max_descriptors;
	qp->timeout_ticks = ms_to_ticks(opts->io_timeout_ms);
	qp->abort_ticks = ms_to_ticks(ctrl->opts.admin_timeout_ms);
	qp->link.lock = &host->lock;
	qp->link.service_fd = host->wake_fd;
	qp->recovers = ctrl->opts.ctrl_loss_timeout_ms != 0;
	qp->link.limits = ctrl->limits;
	qp->link.ns = nvmfr__ns_table_get(ctrl->ns);
	qp->ns_known = ctrl->ns_generation;
	atomic_init(&qp->link.wake_tick, 0);
}

/* false: it was asked for, and there is no memory. A tracer's probes are in it. */
static bool add_meter(struct nvmfr_qpair *qp, const struct nvmfr_ctrl *ctrl,
		      const struct nvmfr_qpair_opts *opts)
{
	if (!PROBES && !(opts->flags & NVMFR_QPAIR_STATS))
		return true;
	qp->meter = nvmfr__meter_new(qp, &ctrl->host->clock, opts->depth);
	return qp->meter;
}

int nvmfr__ioqueue_create(struct nvmfr_ctrl *ctrl, const struct nvmfr_qpair_opts *opts,
			  struct nvmfr_qpair **out)
{
	int err = check_create(ctrl, opts);
	struct fab_group *group = NULL;
	struct entry *entry;
	struct nvmfr_qpair *qp;
	uint16_t qid = err ? 0 : free_qid(ctrl);
	uint32_t depth;

	if (err)
		return err;
	if (!qid)
		return nvmfr__fail(-ENOSPC,
				   "all %u I/O queues that the controller granted are in use",
				   ctrl->granted);
	if (opts->group)
		err = nvmfr__group_fab(opts->group, ctrl->ops, ctrl->fab, &group);
	if (err)
		return err;
	entry = calloc(1, sizeof(*entry));
	qp = nvmfr__qpair_new(qid);
	if (!entry || !qp || !add_meter(qp, ctrl, opts))
		goto no_memory;
	depth = nvme_clamp_depth(opts->depth, nvme_cap_mqes(ctrl->cap), ctrl->id.maxcmd);
	if (ctrl->ep->dev->max_depth)
		depth = nvmfr__min_u32(depth, ctrl->ep->dev->max_depth);
	if (opts->retry && !(qp->retry = nvmfr__retry_new(opts->retry, depth)))
		goto no_memory;
	qp->word = nvmfr__wipe_get(&ctrl->host->wipe_pages);
	if (!qp->word)
		goto no_memory;
	init_qpair(qp, ctrl, opts);
	qp->link.word = (_Atomic uint32_t *)qp->word;
	qp->link.entry = entry;
	*entry = (struct entry){
		.ctrl = ctrl,
		.qp = qp,
		.group = group,
		.qid = qid,
		.depth = (uint16_t)depth,
		.max_descriptors = (uint16_t)nvmfr__min_u32(opts->max_descriptors,
							    ctrl->limits.max_descriptors),
		.deadline_ns = ctrl_now(ctrl) + MS_NS(ctrl->opts.connect_timeout_ms),
	};
	link_entry(entry);
	if (opts->group)
		join_group(qp, opts->group);
	*out = qp;
	return 0;
no_memory:
	free(entry);
	nvmfr__qpair_free(qp);
	return nvmfr__fail(-ENOMEM, "no memory for a queue pair");
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* Of a group: its owner polls it, and wakes the service. */
static int watch(const struct entry *entry)
{
	int fd = entry->ctrl->ops->ep_fd(entry->ep);

	return fd < 0 && entry->group ? 0 : nvmfr__host_watch(entry->ctrl->host, fd);
}

static void unwatch(const struct entry *entry)
{
	int fd = entry->ctrl->ops->ep_fd(entry->ep);

	if (fd >= 0)
		nvmfr__host_unwatch(entry->ctrl->host, fd);
}

static void drop_boot(struct entry *entry)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;

	if (entry->boot)
		unwatch(entry);
	if (entry->ep)
		ctrl->ops->ep_destroy(entry->ep);
	entry->ep = NULL;
	nvmfr__qpair_free(entry->boot);
	entry->boot = NULL;
	entry->boot_failed = false;
}

/*
 * The old controller need not notice the loss before its
 * keep-alive timer is over, which it may look at once a timeout only (with traffic for keep-alive: twice as late).
 * Then it has CQT to end what is in work (NVMe Base 2.1, Keep Alive and Communication Loss Handling).
 */
uint64_t nvmfr__ioqueue_doubt_ends(const struct nvmfr_ctrl *ctrl, uint64_t now)
{
	uint64_t unit = ctrl->id.kas * UINT64_C(100), kato = ctrl->kato_ms;
	unsigned int times = ctrl->id.ctratt & NVME_CTRATT_TBKAS ? 3 : 2;

	if (!kato || !unit)
		return UINT64_MAX;
	kato = (kato + unit - 1) / unit * unit;
	return now + MS_NS(times * kato + ctrl->id.cqt);
}

/* A live queue has lost its connection: from now on its timers run. */
static void start_timers(struct entry *entry, bool recovering)
{
	const struct nvmfr_ctrl *ctrl = entry->ctrl;
	uint64_t fast_ns = MS_NS(ctrl->opts.fast_io_fail_ms);

	entry->qp->link.doubt_ns = nvmfr__ioqueue_doubt_ends(ctrl, ctrl_now(ctrl));
	entry->fast_fail_ns = recovering && fast_ns ? ctrl->lost_ns + fast_ns : 0;
}

/* This queue is over, for good or until it is made anew; its sentence is the present one. */
static void end_entry(struct entry *entry, int err, bool recovering)
{
	struct qpair_link *link = &entry->qp->link;

	if (entry->phase == ENTRY_LOST && link->recovering == recovering)
		return;
	link->recovering = recovering;
	link->err = err;
	snprintf(link->sentence, sizeof(link->sentence), "%.*s", (int)sizeof(link->sentence) - 1,
		 nvmfr__err_get());
	if (entry->phase == ENTRY_LIVE) {
		start_timers(entry, recovering);
		entry->ctrl->ops->ep_disconnect(link->ep);
		link->state = LINK_LOST;
	} else if (entry->phase != ENTRY_LOST) {
		drop_boot(entry);
		link->state = LINK_CLOSED;
	}
	set_phase(entry, ENTRY_LOST);
	nvmfr__link_publish(link);
	nvmfr__service_changed(entry->ctrl->host);
}

/*
 * Of a queue that is being made anew, one attempt that fails is not the end, also where its controller is live
 * already: the next one comes after a pause, within the time that the loss has.
 */
static void lose(struct entry *entry, int err)
{
	const struct nvmfr_ctrl *ctrl = entry->ctrl;
	uint64_t now = ctrl_now(ctrl), pause = MS_NS(ctrl->opts.reconnect_delay_ms);
	bool again = ctrl->state == NVMFR_STATE_LIVE && entry->qp->link.recovering &&
		     pause < ctrl->give_up_ns && now < ctrl->give_up_ns - pause;

	entry->recover_ns = again ? now + pause : 0;
	end_entry(entry, err, again || ctrl->state == NVMFR_STATE_RECOVERING);
}

void nvmfr__ioqueue_lose_all(struct nvmfr_ctrl *ctrl)
{
	ctrl->lost_ns = ctrl_now(ctrl);
	for (struct entry *entry = ctrl->entries; entry; entry = entry->next) {
		nvmfr__err_set(ctrl->sentence);
		lose(entry, ctrl->err);
	}
}

/* Only another association can grant it a queue: it waits for one, as long as the loss may last. */
static void not_granted(struct entry *entry, uint32_t depth)
{
	const struct nvmfr_ctrl *ctrl = entry->ctrl;

	lose(entry, nvmfr__fail(-ENOSPC, "queue %u: the controller grants %u queues now, of %u commands",
				entry->qid, ctrl->granted, depth));
	if (!entry->recover_ns)
		return;
	entry->recover_ns = ctrl->give_up_ns;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN, "%s: %s: not made anew until there are more",
		   ctrl->target.subnqn, nvmfr__err_get());
}

/* The owner has let go of the old endpoint: another one, as the controller has it now. */
static void start_over(struct entry *entry)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;
	struct qpair_link *link = &entry->qp->link;
	uint32_t depth = nvme_clamp_depth(entry->depth, nvme_cap_mqes(ctrl->cap), ctrl->id.maxcmd);

	if (!depth || entry->qid > ctrl->granted) {
		not_granted(entry, depth);
		return;
	}
	entry->depth = (uint16_t)depth;
	entry->max_descriptors = (uint16_t)nvmfr__min_u32(entry->max_descriptors,
							  ctrl->limits.max_descriptors);
	entry->attempt = (struct attempt){ 0 };
	entry->deadline_ns = ctrl_now(ctrl) + MS_NS(ctrl->opts.connect_timeout_ms);
	link->limits = ctrl->limits;
	nvmfr__ns_table_put(link->ns);
	link->ns = nvmfr__ns_table_get(ctrl->ns);
	link->fault = 0;
	link->aborts = 0;
	link->state = LINK_CONNECTING;
	set_phase(entry, ENTRY_WAITING);
	nvmfr__link_publish(link);
}

void nvmfr__ioqueue_publish_ns(struct nvmfr_ctrl *ctrl)
{
	for (struct entry *entry = ctrl->entries; entry; entry = entry->next) {
		struct qpair_link *link = &entry->qp->link;

		nvmfr__ns_table_put(link->ns);
		link->ns = nvmfr__ns_table_get(ctrl->ns);
		nvmfr__link_publish(link);
	}
}

static void start(struct entry *entry)
{
	int err = nvmfr__attempt_start(entry->ctrl, entry->qid, entry->depth,
				       entry->max_descriptors, entry, entry->group, &entry->ep);

	set_phase(entry, ENTRY_FABRIC);
	if (err) {
		nvmfr__fail_wrap(err, "queue %u", entry->qid);
		lose(entry, err);
	}
}

static int send_connect(struct entry *entry)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;
	struct nvme_sqe sqe;

	nvme_sqe_connect(&sqe, entry->qid, entry->depth, 0, 0);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)ctrl->page + CTRL_PAGE_BYTES,
				  sizeof(struct nvme_connect_data), ctrl->page_mr.rkey);
	return nvmfr__qpair_post_raw(entry->boot, &sqe, TAG_STEP);
}

static void connected(struct entry *entry)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;
	struct nvmfr_qpair *boot = nvmfr__qpair_new(entry->qid);
	int err = boot ? 0 : nvmfr__fail(-ENOMEM, "queue %u: no memory", entry->qid);

	if (boot) {
		boot->word = ctrl->host->alive;
		boot->adopted = 1;
		boot->tick = &ctrl->host->tick;
		boot->many_parents = entry->qp->retry;
		err = nvmfr__qpair_attach(boot, entry->ep, entry->depth);
	}
	if (!err)
		err = watch(entry);
	if (err) {
		nvmfr__qpair_free(boot);
		lose(entry, err);
		return;
	}
	entry->boot = boot;
	set_phase(entry, ENTRY_CONNECT);
	err = send_connect(entry);
	if (err)
		lose(entry, nvmfr__fail(err, "queue %u: Connect could not be sent", entry->qid));
}

static void fabric_failed(struct entry *entry, const struct fab_event *ev)
{
	struct nvmfr_ctrl *ctrl = entry->ctrl;
	bool smaller = nvme_cm_status_retry_smaller(ev->reject_status) && entry->depth > 1;
	struct fab_event again = *ev;

	again.retryable = ev->retryable || smaller;
	ctrl->ops->ep_destroy(entry->ep);
	entry->ep = NULL;
	if (nvmfr__attempt_again(ctrl, &entry->attempt, &again, entry->deadline_ns)) {
		if (smaller)
			entry->depth /= 2;
		set_phase(entry, ENTRY_WAITING);
		return;
	}
	lose(entry, nvmfr__fail(ev->err, "queue %u: %s", entry->qid, ev->text));
}

static void hand_over(struct entry *entry)
{
	struct qpair_link *link = &entry->qp->link;

	unwatch(entry);
	link->ep = entry->ep;
	link->boot = entry->boot;
	link->state = LINK_LIVE;
	link->recovering = false;
	entry->connects++;
	link->fast_failed = false;
	entry->fast_fail_ns = 0;
	entry->ep = NULL;
	entry->boot = NULL;
	set_phase(entry, ENTRY_LIVE);
	nvmfr__link_publish(link);
	nvmfr__service_changed(entry->ctrl->host);
}

/* The answer to Connect, if it is there. */
static void take_answer(struct entry *entry)
{
	struct nvmfr_completion cpl;

	if (nvmfr__qpair_poll(entry->boot, &cpl, 1) != 1)
		return;
	if (cpl.result == 0)
		hand_over(entry);
	else
		lose(entry, nvmfr__connect_refused(entry->ctrl, entry->qid, cpl.status));
}

/* As with the admin queue: the fabric's event tells more, if it is on its way. */
static uint64_t boot_broke(struct entry *entry)
{
	int err = entry->boot->err;

	if (err == -ECONNABORTED && !entry->boot_failed) {
		entry->boot_failed = true;
		return 0;
	}
	lose(entry,
	     nvmfr__fail(err, "queue %u: Fabrics Connect: %s", entry->qid, entry->boot->sentence));
	return UINT64_MAX;
}

static uint64_t connect_pass(struct entry *entry)
{
	int armed;

	take_answer(entry);
	if (entry->phase != ENTRY_CONNECT)
		return UINT64_MAX;
	if (entry->boot->broken)
		return boot_broke(entry);
	armed = nvmfr__qpair_arm(entry->boot);
	if (armed < 0) {
		lose(entry, nvmfr__fail_wrap(armed, "queue %u", entry->qid));
		return UINT64_MAX;
	}
	if (armed)
		return 0;
	return nvmfr__min_u64(entry->deadline_ns, entry->ctrl->ops->ep_due_ns(entry->ep));
}

static void disconnected(struct entry *entry, const struct fab_event *ev)
{
	int err = ev->err ? ev->err : -ECONNABORTED;

	/* What it answered before it went is looked at first: it may say why. */
	if (entry->phase == ENTRY_CONNECT)
		take_answer(entry);
	if (entry->phase == ENTRY_LIVE)
		nvmfr__ctrl_lose(entry->ctrl, err, "%s: queue %u: %s", entry->ctrl->target.subnqn,
				 entry->qid, ev->text);
	else
		lose(entry, nvmfr__fail(err, "queue %u: %s: %s", entry->qid,
					entry->phase == ENTRY_CONNECT ? "Fabrics Connect"
								      : "RDMA connection",
					ev->text));
}

void nvmfr__ioqueue_event(struct entry *entry, const struct fab_event *ev)
{
	if (ev->type == FAB_EV_CONNECTED && entry->phase == ENTRY_FABRIC)
		connected(entry);
	else if (ev->type == FAB_EV_FAILED && entry->phase == ENTRY_FABRIC)
		fabric_failed(entry, ev);
	else if (ev->type == FAB_EV_DISCONNECTED || ev->type == FAB_EV_DEVICE_GONE)
		disconnected(entry, ev);
}

/* ---- in service ------------------------------------------------------------------------------ */

static void tell_far(struct entry *entry)
{
	struct qpair_link *link = &entry->qp->link;
	int node = atomic_exchange_explicit(&link->far_node, -1, memory_order_relaxed);

	nvmfr__log(&entry->ctrl->host->log, NVMFR_LOG_WARN,
		   "%s: queue %u is polled from NUMA node %d, device %s is on node %d: I/O pays for the way "
		   "between. Run its thread there (numactl --cpunodebind=%d, or taskset to that node's CPUs)",
		   entry->ctrl->target.subnqn, entry->qid, node, link->ep->dev->name,
		   link->ep->dev->numa_node, link->ep->dev->numa_node);
}

/* The oldest first: those that find no room wait for the next pass. */
static void send_aborts(struct entry *entry)
{
	struct qpair_link *link = &entry->qp->link;
	uint32_t sent = 0;

	for (; sent < link->aborts; sent++) {
		uint16_t cid = link->abort[sent];

		/* If it had to wait, that command may have been answered, and the CID may be a younger one's. */
		if (nvmfr__qpair_over_time(entry->qp, cid) &&
		    !nvmfr__admin_abort(entry->ctrl, entry->qid, cid))
			break;
	}
	link->aborts -= sent;
	memmove(link->abort, link->abort + sent, link->aborts * sizeof(link->abort[0]));
}

void nvmfr__ioqueue_not_aborted(struct nvmfr_ctrl *ctrl, uint16_t qid, uint16_t cid)
{
	for (struct entry *entry = ctrl->entries; entry; entry = entry->next) {
		struct qpair_link *link = &entry->qp->link;

		if (entry->qid != qid || entry->phase != ENTRY_LIVE)
			continue;
		/* Without room the owner is as patient as for an Abort without an answer. */
		if (link->not_aborted_count < QPAIR_ABORTS)
			link->not_aborted[link->not_aborted_count++] = cid;
		nvmfr__link_publish(link);
	}
}

bool nvmfr__ioqueue_sent_since(const struct nvmfr_ctrl *ctrl, uint32_t tick)
{
	bool found = false;

	for (const struct entry *entry = ctrl->entries; entry && !found; entry = entry->next)
		found = entry->phase == ENTRY_LIVE && nvmfr__qpair_sent_since(entry->qp, tick);
	return found;
}

/* What the owner of a live queue has told, and a sleeper whose time is over. */
static void live_pass(struct entry *entry)
{
	struct qpair_link *link = &entry->qp->link;
	uint32_t wake = atomic_load_explicit(&link->wake_tick, memory_order_relaxed);
	uint32_t now = atomic_load_explicit(&entry->ctrl->host->tick, memory_order_relaxed);

	if (link->fault && entry->phase == ENTRY_LIVE) {
		nvmfr__ctrl_lose(entry->ctrl, link->fault, "%s: %s", entry->ctrl->target.subnqn,
				 link->fault_text);
		return;
	}
	if (link->aborts)
		send_aborts(entry);
	if (wake && (int32_t)(now - wake) >= 0) {
		atomic_store_explicit(&link->wake_tick, 0, memory_order_relaxed);
		nvmfr__link_publish(link);
	}
	if (atomic_load_explicit(&link->far_node, memory_order_relaxed) >= 0)
		tell_far(entry);
}

/* What is over is told once, with the news; returns when the next is. */
static uint64_t timers_pass(struct entry *entry, uint64_t now, unsigned int *fast_failed)
{
	struct qpair_link *link = &entry->qp->link;
	bool failed = entry->fast_fail_ns && now >= entry->fast_fail_ns;
	bool certain = link->doubt_until_ns && now >= link->doubt_until_ns;

	if (failed) {
		entry->fast_fail_ns = 0;
		link->fast_failed = link->recovering;
		*fast_failed += link->recovering;
	}
	if (certain)
		link->doubt_until_ns = 0;
	if (failed || certain)
		nvmfr__link_publish(link);
	now = entry->fast_fail_ns ? entry->fast_fail_ns : UINT64_MAX;
	return link->doubt_until_ns ? nvmfr__min_u64(now, link->doubt_until_ns) : now;
}

/* Behind its owner's last word; where it recovers, the beginning of another one. */
static uint64_t lost_pass(struct entry *entry, uint64_t now)
{
	struct qpair_link *link = &entry->qp->link;

	if (link->state != LINK_CLOSED)
		return UINT64_MAX;
	if (link->ep)
		entry->ctrl->ops->ep_destroy(link->ep);
	link->ep = NULL;
	if (!link->recovering || entry->ctrl->state != NVMFR_STATE_LIVE)
		return UINT64_MAX;
	if (now < entry->recover_ns)
		return entry->recover_ns;
	start_over(entry);
	return 0;
}

static uint64_t waiting_pass(struct entry *entry, uint64_t now)
{
	if (now < entry->attempt.retry_ns)
		return entry->attempt.retry_ns;
	if (entry->ctrl->connecting >= CTRL_PARALLEL_QUEUES)
		return entry->deadline_ns;
	start(entry);
	return 0;
}

static uint64_t entry_pass(struct entry *entry, uint64_t now)
{
	if (entry->phase < ENTRY_LIVE && now >= entry->deadline_ns)
		lose(entry, nvmfr__fail(-ETIMEDOUT, "queue %u: %s: timed out (connect_timeout_ms)",
					entry->qid,
					entry->phase == ENTRY_CONNECT ? "Fabrics Connect"
								      : "RDMA connection"));
	switch (entry->phase) {
	case ENTRY_WAITING: return waiting_pass(entry, now);
	case ENTRY_FABRIC: return entry->deadline_ns;
	case ENTRY_CONNECT: return connect_pass(entry);
	case ENTRY_LIVE: live_pass(entry); return UINT64_MAX;
	default: return lost_pass(entry, now);
	}
}

/* A place that became free in this pass, and a queue that waits for one. */
static bool next_may_start(const struct nvmfr_ctrl *ctrl)
{
	uint64_t now = ctrl_now(ctrl);

	if (!ctrl->waiting || ctrl->connecting >= CTRL_PARALLEL_QUEUES)
		return false;
	for (const struct entry *entry = ctrl->entries; entry; entry = entry->next)
		if (entry->phase == ENTRY_WAITING && now >= entry->attempt.retry_ns)
			return true;
	return false;
}

/* Queues that were lost together are over their time together: one event for all of them. */
static void tell_fast_failed(struct nvmfr_ctrl *ctrl, unsigned int count)
{
	const struct nvmfr_event event = { .ctrl = ctrl, .type = NVMFR_EVENT_FAST_IO_FAIL, .value = count };

	nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
		   "%s: %u queue pairs were not made anew within fast_io_fail_ms (%u ms): until then they refuse I/O",
		   ctrl->target.subnqn, count, ctrl->opts.fast_io_fail_ms);
	nvmfr__events_push(&ctrl->host->events, &event);
}

uint64_t nvmfr__ioqueue_pass(struct nvmfr_ctrl *ctrl)
{
	uint64_t due = UINT64_MAX, now = ctrl_now(ctrl);
	unsigned int fast_failed = 0;

	for (struct entry *entry = ctrl->entries; entry; entry = entry->next) {
		due = nvmfr__min_u64(due, entry_pass(entry, now));
		due = nvmfr__min_u64(due, timers_pass(entry, now, &fast_failed));
	}
	if (fast_failed)
		tell_fast_failed(ctrl, fast_failed);
	return next_may_start(ctrl) ? 0 : due;
}

/* ---- the owner's last word ------------------------------------------------------------------- */

void nvmfr__ioqueue_destroy(struct nvmfr_qpair *qp)
{
	struct entry *entry = qp->link.entry;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_host *host;

	/* In a forked child the controller may be gone before its queues. */
	if (nvmfr__qpair_forked(qp)) {
		nvmfr__qpair_free(qp);
		free(entry);
		return;
	}
	ctrl = entry->ctrl;
	host = ctrl->host;
	if (qp->group)
		nvmfr__group_leave(qp);
	pthread_mutex_lock(&host->lock);
	unlink_entry(entry);
	drop_boot(entry);
	if (qp->link.ep)
		ctrl->ops->ep_destroy(qp->link.ep);
	nvmfr__wipe_put(host->wipe_pages, qp->link.word);
	pthread_mutex_unlock(&host->lock);
	nvmfr__service_wake(host);
	nvmfr__qpair_free(qp);
	free(entry);
}

void nvmfr__group_end(struct nvmfr_host *host, struct nvmfr_group *group)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)group->word;

	*group->prev = group->next;
	if (group->next)
		group->next->prev = group->prev;
	nvmfr__group_free(group);
	nvmfr__wipe_put(host->wipe_pages, word);
}
