/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue/qpair.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "queue/group.h"
#include "queue/retry.h"

/* ---- life ------------------------------------------------------------------------------------ */

struct nvmfr_qpair *nvmfr__qpair_new(uint16_t qid)
{
	struct nvmfr_qpair *qp = aligned_alloc(CACHE_LINE, sizeof(*qp));

	if (!qp)
		return NULL;
	memset(qp, 0, sizeof(*qp));
	qp->qid = qid;
	qp->state = LINK_CONNECTING;
	qp->seen = 1;
	qp->adopted = WORD_NEVER;
	qp->epoll_fd = -1;
	qp->link.state = LINK_CONNECTING;
	qp->link.owner_fd = -1;
	atomic_init(&qp->link.far_node, -1);
	return qp;
}

static void free_rings(struct nvmfr_qpair *qp)
{
	free(qp->slots);
	free(qp->free_base);
	free(qp->parents);
	free(qp->more);
	qp->slots = NULL;
	qp->free_base = NULL;
	qp->parents = NULL;
	qp->more = NULL;
}

void nvmfr__qpair_free(struct nvmfr_qpair *qp)
{
	if (!qp)
		return;
	nvmfr__split_forget(qp);
	nvmfr__retry_free(qp);
	free_rings(qp);
	free(qp->meter);
	nvmfr__ns_table_put(qp->ns);
	nvmfr__ns_table_put(qp->link.ns);
	nvmfr__qpair_free(qp->link.boot);
	if (qp->epoll_fd >= 0)
		close(qp->epoll_fd);
	if (qp->link.owner_fd >= 0 && !qp->group)
		close(qp->link.owner_fd);
	free(qp);
}

uint32_t nvmfr__qpair_table_size(uint32_t depth)
{
	uint32_t n = 2;

	while (n < depth)
		n *= 2;
	return n;
}

/* I/Os of several commands hold two slots at least, most of the time; few of them fill a queue. */
static uint32_t parents_for(uint32_t depth)
{
	return nvmfr__min_u32(depth, nvmfr__max_u32(16, depth / 4));
}

/* Descriptors in a list of this endpoint. */
static uint32_t list_room(const struct fab_ep *ep)
{
	return ep->tail_bytes / (uint32_t)sizeof(struct nvme_sgl);
}

static int alloc_rings(struct nvmfr_qpair *qp, const struct fab_ep *ep, uint32_t depth)
{
	uint32_t n = nvmfr__qpair_table_size(depth), pieces = list_room(ep);

	qp->more_stride = (uint8_t)nvmfr__max_u32(sizeof(struct held_cqe),
						   pieces * (uint32_t)sizeof(struct nvmfr_buffer *));
	qp->parent_count = qp->many_parents ? depth : parents_for(depth);
	qp->slots = aligned_alloc(CACHE_LINE, (n * sizeof(*qp->slots) + CACHE_LINE - 1) /
						      CACHE_LINE * CACHE_LINE);
	qp->free_base = calloc(depth, sizeof(struct qslot *));
	qp->parents = calloc(qp->parent_count, sizeof(*qp->parents));
	qp->more = calloc(n, qp->more_stride);
	if (!qp->slots || !qp->free_base || !qp->parents || !qp->more) {
		free_rings(qp);
		return nvmfr__fail(-ENOMEM, "qpair %u: no memory for %u commands", qp->qid, depth);
	}
	qp->mask = n - 1;
	return 0;
}

static void set_device(struct nvmfr_qpair *qp, uint32_t index)
{
	qp->dev_index = index;
	qp->key_offset =
		(uint32_t)(offsetof(struct nvmfr_buffer, keys) + index * sizeof(struct buffer_key));
}

int nvmfr__qpair_attach(struct nvmfr_qpair *qp, struct fab_ep *ep, uint32_t depth)
{
	int err = alloc_rings(qp, ep, depth);

	if (err)
		return err;
	memset(qp->slots, 0, (qp->mask + 1) * sizeof(*qp->slots));
	for (uint32_t i = 0; i <= qp->mask; i++)
		set_slot_state(&qp->slots[i], i ^ 1u);
	/* Popped from the end: slot 0 first. */
	qp->free_top = qp->free_base;
	for (uint32_t i = depth; i-- > 0;)
		*qp->free_top++ = &qp->slots[i];
	for (uint32_t i = qp->parent_count; i-- > 0;) {
		qp->parents[i].next = qp->parent_free;
		qp->parent_free = &qp->parents[i];
	}
	qp->depth = depth;
	qp->ep = ep;
	qp->ops = ep->ops;
	set_device(qp, ep->dev->index);
	qp->capsules = ep->capsules;
	qp->responses = ep->responses;
	qp->send_positions = ep->send_positions;
	qp->recv_positions = ep->recv_positions;
	qp->state = LINK_LIVE;
	qpair_credit(qp);
	return 0;
}

/* ---- news between service and owner ---------------------------------------------------------- */

static void ring(int fd)
{
	uint64_t one = 1;

	/* Full means that it is readable already. */
	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
		return;
}

void nvmfr__word_step(_Atomic uint32_t *word)
{
	uint32_t next = atomic_load_explicit(word, memory_order_relaxed) + 1;

	if (next == WORD_NEVER || next == 0)
		next = 1;
	atomic_store_explicit(word, next, memory_order_release);
}

void nvmfr__link_publish(struct qpair_link *link)
{
	nvmfr__word_step(link->word);
	if (link->group_word)
		nvmfr__word_step(link->group_word);
	ring(link->owner_fd);
}

/* The rings, slots and counts of a queue that the service connected become the owner's. */
static void move_in(struct nvmfr_qpair *qp, struct nvmfr_qpair *boot)
{
	free_rings(qp);
	qp->slots = boot->slots;
	qp->free_base = boot->free_base;
	qp->free_top = boot->free_top;
	qp->parents = boot->parents;
	qp->parent_free = boot->parent_free;
	qp->parent_count = boot->parent_count;
	qp->more = boot->more;
	qp->more_stride = boot->more_stride;
	qp->mask = boot->mask;
	qp->depth = boot->depth;
	qp->laps += qp->position - (uint64_t)boot->position; /* the service's do not count */
	qp->position = boot->position;
	qp->lap = boot->lap;
	qp->stained = false;
	qp->done_seq = boot->done_seq;
	qp->recv_pos = boot->recv_pos;
	qp->chores = boot->chores;
	qp->unposted = boot->unposted;
	qp->ep = boot->ep;
	qp->ops = boot->ops;
	set_device(qp, boot->dev_index);
	qp->capsules = boot->capsules;
	qp->responses = boot->responses;
	qp->send_positions = boot->send_positions;
	qp->recv_positions = boot->recv_positions;
	boot->slots = NULL;
	boot->free_base = NULL;
	boot->parents = NULL;
	boot->more = NULL;
	qp->drain_next = 0;
	qp->broken = false;
	qp->expired = 0;
	qp->aborts = 0;
	if (qp->meter)
		nvmfr__meter_attach(qp->meter, qp);
}

static int watch_endpoint(struct nvmfr_qpair *qp)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = qp->ops->ep_fd(qp->ep);

	if (epoll_ctl(qp->epoll_fd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST)
		return nvmfr__fail(-errno,
				   "qpair %u: its completion descriptor cannot be watched: %s",
				   qp->qid, nvmfr__strerror(errno));
	return 0;
}

static int take_over(struct nvmfr_qpair *qp)
{
	struct qpair_link *link = &qp->link;

	move_in(qp, link->boot);
	nvmfr__qpair_free(link->boot);
	link->boot = NULL;
	return qp->group ? qp->ops->group_adopt(qp->ep, qp) : 0;
}

static int adopt_state(struct nvmfr_qpair *qp)
{
	struct qpair_link *link = &qp->link;
	int err = link->boot ? take_over(qp) : 0;

	qp->state = link->state;
	return err;
}

/* What the owner saw itself is the better reason, until the service says more. */
static void adopt_reason(struct nvmfr_qpair *qp)
{
	if (qp->link.state < LINK_LOST || (qp->broken && qp->link.recovering == qp->recovers))
		return;
	qp->err = qp->link.err;
	memcpy(qp->sentence, qp->link.sentence, sizeof(qp->sentence));
}

bool nvmfr__qpair_drained(const struct nvmfr_qpair *qp)
{
	if (!qp->slots)
		return true;
	for (uint32_t i = 0; i < qp->parent_count; i++)
		if (qp->parents[i].busy)
			return false;
	return free_slots(qp) == qp->depth;
}

/* The end of one connection has not been told to its last I/O: news of another have to wait. */
static bool still_ending(const struct nvmfr_qpair *qp)
{
	return qp->state == LINK_CLOSED && qp->link.state != LINK_CLOSED && !nvmfr__qpair_drained(qp);
}

void nvmfr__qpair_adopt(struct nvmfr_qpair *qp)
{
	struct qpair_link *link = &qp->link;
	bool moved;
	int err = 0;

	if (nvmfr__qpair_forked(qp) || !link->lock)
		return;
	pthread_mutex_lock(link->lock);
	if (still_ending(qp)) {
		pthread_mutex_unlock(link->lock);
		return;
	}
	qp->seen = atomic_load_explicit(qp->word, memory_order_acquire);
	qp->recovering = link->recovering;
	qp->fast_failed = link->fast_failed;
	while (link->not_aborted_count)
		nvmfr__qpair_not_aborted(qp, link->not_aborted[--link->not_aborted_count]);
	if (link->ns != qp->ns) {
		nvmfr__ns_table_put(qp->ns);
		qp->ns = nvmfr__ns_table_get(link->ns);
	}
	qp->limits = link->limits;
	qp->limits.max_descriptors =
		nvmfr__min_u32(link->limits.max_descriptors, qp->max_descriptors);
	qp->icd_bytes = link->limits.icd_bytes;
	if (qp->retry)
		nvmfr__retry_limits(qp);
	qp->nsid = 0;
	qp->read_head = qp->write_head = 0;
	qp->ns_max_blocks = 0;
	moved = link->boot;
	adopt_reason(qp);
	if (qp->state != link->state)
		err = adopt_state(qp);
	qp->max_pieces = (uint8_t)nvmfr__max_u32(
		1, nvmfr__min_u32(qp->limits.max_descriptors, qp->ep ? list_room(qp->ep) : 1));
	qp->list_pieces = qp->retry ? 1 : qp->max_pieces;
	pthread_mutex_unlock(link->lock);
	/* Who sleeps on the descriptor would not hear of this endpoint. */
	if (!err && moved && qp->epoll_fd >= 0)
		err = watch_endpoint(qp);
	if (err)
		nvmfr__qpair_fault(qp, -EIO, "%s", nvmfr__err_get());
	qp->adopted = qp->state == LINK_LIVE && !qp->broken ? qp->seen : WORD_NEVER;
	if (qp->retry)
		nvmfr__retry_adopt(qp);
	qpair_credit(qp);
	/* A submit may be the first to hear of it: the group's poll has to tell the rest, and let go of it. */
	if (qp->group && qp->state == LINK_LOST)
		nvmfr__group_ask_again(qp);
}

void nvmfr__qpair_fault(struct nvmfr_qpair *qp, int err, const char *fmt, ...)
{
	struct qpair_link *link = &qp->link;
	va_list args;

	if (qp->broken)
		return;
	qp->broken = true;
	qp->adopted = WORD_NEVER;
	qp->credit = 0;
	qp->err = err;
	va_start(args, fmt);
	vsnprintf(qp->sentence, sizeof(qp->sentence), fmt, args);
	va_end(args);
	if (!link->lock)
		return;
	pthread_mutex_lock(link->lock);
	link->fault = err;
	snprintf(link->fault_text, sizeof(link->fault_text), "%.*s",
		 (int)sizeof(link->fault_text) - 1, qp->sentence);
	pthread_mutex_unlock(link->lock);
	ring(link->service_fd);
}

void nvmfr__link_abort(struct qpair_link *link, uint16_t cid)
{
	pthread_mutex_lock(link->lock);
	/* Those that the service has not taken leave no room: asked for so often, they are many. */
	if (link->aborts < QPAIR_ABORTS)
		link->abort[link->aborts++] = cid;
	pthread_mutex_unlock(link->lock);
	ring(link->service_fd);
}

void nvmfr__qpair_retire(struct nvmfr_qpair *qp)
{
	struct qpair_link *link = &qp->link;

	qp->ops->ep_stop(qp->ep);
	pthread_mutex_lock(link->lock);
	link->state = LINK_CLOSED;
	if (qp->retry && qp->retry->doubts)
		link->doubt_until_ns = link->doubt_ns;
	pthread_mutex_unlock(link->lock);
	ring(link->service_fd);
	qp->state = LINK_CLOSED;
	qp->ep = NULL;
}

static bool slot_names(const struct nvmfr_qpair *qp, const struct qslot *slot,
		       const struct nvmfr_buffer *buf)
{
	const struct nvmfr_buffer *_Atomic *bufs = slot_bufs(qp, slot);
	uint32_t ref = slot_ref(slot);
	bool pieces = state_kind(slot_state_foreign(slot)) == SLOT_PLAIN && (ref & REF_PIECES);
	uint32_t n = pieces ? ref >> REF_SHIFT : 0;

	for (uint32_t i = 0; i < n; i++)
		if (atomic_load_explicit(&bufs[i], memory_order_relaxed) == buf)
			return true;
	return atomic_load_explicit(&slot->buf, memory_order_relaxed) == buf;
}

bool nvmfr__qpair_names(const struct nvmfr_qpair *qp, const struct nvmfr_buffer *buf)
{
	for (uint32_t i = 0; qp->slots && i <= qp->mask; i++) {
		const struct qslot *slot = &qp->slots[i];

		if (state_in_flight(qp, slot, slot_state_foreign(slot)) && slot_names(qp, slot, buf))
			return true;
	}
	return false;
}

bool nvmfr__qpair_sent_since(const struct nvmfr_qpair *qp, uint32_t tick)
{
	bool found = false;

	/* 0: no command had this slot yet. */
	for (uint32_t i = 0; qp->slots && i <= qp->mask && !found; i++)
		found = slot_tick(&qp->slots[i]) && (int32_t)(slot_tick(&qp->slots[i]) - tick) >= 0;
	return found;
}

/* Normal life of a full queue: a constant sentence, nothing is formatted. */
int nvmfr__qpair_full(const struct nvmfr_qpair *qp)
{
	(void)qp;
	nvmfr__err_set("no room for another command: nvmfr_poll() first");
	return -EAGAIN;
}

int nvmfr__qpair_state_error(struct nvmfr_qpair *qp)
{
	if (nvmfr__qpair_forked(qp))
		return nvmfr__fail(
			-EOWNERDEAD,
			"qpair %u was made before fork(): it works in the parent only; connect anew in the child",
			qp->qid);
	if (qp->state == LINK_CONNECTING) {
		nvmfr__err_set("the queue pair is still connecting: nvmfr_qpair_wait() first");
		return -EAGAIN;
	}
	if (qp->fast_failed && qp->recovering) {
		nvmfr__err_set("the queue pair was lost, and not made anew within fast_io_fail_ms; that goes on");
		return -ENOTCONN;
	}
	if (qp->recovering || (qp->recovers && qp->state == LINK_LIVE)) {
		nvmfr__err_set("the queue pair was lost and is being connected anew: nvmfr_poll() meanwhile");
		return -EAGAIN;
	}
	nvmfr__err_set(qp->sentence);
	return -ENOTCONN;
}

void nvmfr__qpair_look_around(struct nvmfr_qpair *qp)
{
	int near = qp->ep->dev->numa_node;
	unsigned int cpu, node;

	atomic_store_explicit(&qp->link.commands, qpair_commands(qp), memory_order_relaxed);
	if (near < 0 || qp->far_looks == FAR_LOOKS || !qp->link.lock || getcpu(&cpu, &node))
		return;
	qp->far_looks = node == (unsigned int)near ? 0 : qp->far_looks + 1;
	if (qp->far_looks < FAR_LOOKS)
		return;
	atomic_store_explicit(&qp->link.far_node, (int)node, memory_order_relaxed);
	ring(qp->link.service_fd);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static int make_fds(struct nvmfr_qpair *qp)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int owner = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (owner < 0 || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, owner, &ev)) {
		int err = -errno;

		if (owner >= 0)
			close(owner);
		if (epoll >= 0)
			close(epoll);
		return nvmfr__fail(err, "qpair %u: no descriptor to sleep on: %s", qp->qid,
				   nvmfr__strerror(err));
	}
	qp->epoll_fd = epoll;
	pthread_mutex_lock(qp->link.lock);
	qp->link.owner_fd = owner;
	pthread_mutex_unlock(qp->link.lock);
	return 0;
}

static void drop_fds(struct nvmfr_qpair *qp)
{
	int owner = qp->link.owner_fd;

	if (qp->epoll_fd < 0)
		return;
	pthread_mutex_lock(qp->link.lock);
	qp->link.owner_fd = -1;
	pthread_mutex_unlock(qp->link.lock);
	close(owner);
	close(qp->epoll_fd);
	qp->epoll_fd = -1;
}

int nvmfr__qpair_fd(struct nvmfr_qpair *qp)
{
	int err;

	if (nvmfr__qpair_forked(qp))
		return nvmfr__qpair_state_error(qp);
	if (qp->group)
		return qp->group->epoll_fd;
	if (qp->epoll_fd >= 0)
		return qp->epoll_fd;
	err = make_fds(qp);
	if (!err && qp->state == LINK_LIVE)
		err = watch_endpoint(qp);
	if (err)
		drop_fds(qp);
	return err ? err : qp->epoll_fd;
}

void nvmfr__qpair_tell_deadline(struct nvmfr_qpair *qp)
{
	uint32_t now = atomic_load_explicit(qp->tick, memory_order_relaxed), oldest = 0, at = 0;
	bool idle = free_slots(qp) == qp->depth;

	if (!qp->timeout_ticks)
		return;
	for (uint32_t i = 0; !idle && i <= qp->mask; i++)
		if (slot_in_flight(qp, &qp->slots[i]))
			oldest = nvmfr__max_u32(oldest, now - slot_tick(&qp->slots[i]));
	if (!idle)
		at = now - oldest + qp->timeout_ticks + 1;
	atomic_store_explicit(&qp->link.wake_tick, at, memory_order_relaxed);
}

static int arm_live(struct nvmfr_qpair *qp)
{
	uint64_t word;
	int err;

	if (qp->chores.ready)
		return 1;
	nvmfr__qpair_tell_deadline(qp);
	err = qp->ops->arm(qp->ep);
	if (err)
		return err;
	/* What came before the arming rings no bell. */
	word = qp->ops->poll(qp->ep);
	qp->chores.ready += FAB_POLL_RESPONSES(word);
	qp->done_seq += FAB_POLL_SENDS(word);
	if (word & FAB_POLL_BAD)
		nvmfr__qpair_fault(qp, -ECONNABORTED, "qpair %u: %s", qp->qid, qp->ep->error);
	if (qp->chores.ready || (word & (FAB_POLL_MORE | FAB_POLL_BAD)))
		return 1;
	/* SENDs done may have made room, for who was told that there is none. */
	return FAB_POLL_SENDS(word) &&
	       (qp->chores.held || qp->chores.backlog || !qp->credit ||
		tail_taken(qp, qpair_seq(qp)));
}

int nvmfr__qpair_arm(struct nvmfr_qpair *qp)
{
	uint64_t count;
	ssize_t got = 0;

	if (nvmfr__qpair_forked(qp))
		return nvmfr__qpair_state_error(qp);
	/* Drained before the look at the word: news after it rings again. */
	if (qp->link.owner_fd >= 0)
		got = read(qp->link.owner_fd, &count, sizeof(count));
	if (got > 0 || qpair_has_news(qp))
		return 1;
	if (likely_live(qp)) {
		int result = arm_live(qp);

		/* What it found is in this queue pair now. */
		if (qp->group && result == 1)
			nvmfr__group_ask_again(qp);
		return result;
	}
	if (qp->group && qp->state == LINK_CONNECTING)
		return nvmfr__group_arm_fabs(qp->group);
	if (qp->recovering && qp->state == LINK_CLOSED && nvmfr__qpair_drained(qp))
		return 0; /* the service's word ends the sleep */
	return qp->state >= LINK_LOST ? 1 : 0;
}
