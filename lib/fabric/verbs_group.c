/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints that share CQs. A WC names its endpoint by the tag in its wr_id, which also a failed WC has:
 * 16 bits of slot under 15 bits of generation, so that what is left of an endpoint that went names nobody.
 *
 * The service makes a CQ where no other has room, and tells the owner by the count. They go with the group;
 * those of a device that went, when nobody uses them: the service marks the count, and the owner, who is the only
 * one that looks at a CQ, destroys them. Each is of the size that the group was made for, the next one twice that.
 *
 * The owner finds its endpoints in a table of its own, without a lock. What is not there is an endpoint
 * that still connects (the service is told) or none at all; both are rare.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/verbs_wc.h"

enum {
	GROUP_CQS = 32,
	SLOT_BITS = 16,
	SLOT_MASK = (1 << SLOT_BITS) - 1,
	GENERATIONS = 1 << 15,
	FIRST_SLOTS = 16,
};

#define CQS_GONE (UINT32_C(1) << 31) /* in the count: one or more are of a device that went */

struct verbs_cq {
	struct ibv_cq *cq;
	struct ibv_comp_channel *comp; /* of its device in this group */
	struct verbs_dev *dev;
	uint32_t entries, used; /* used: the host's lock */
};

struct verbs_slot {
	uint32_t tag; /* 0: none */
	struct verbs_ep *ep;
};

struct verbs_group {
	struct fab_group base;

	/* the owner's; the CQs up to the count it has seen */
	struct verbs_slot *owned;
	uint32_t owned_mask;
	_Atomic uint32_t cq_count;
	struct verbs_cq cqs[GROUP_CQS];

	/* the host's lock */
	struct verbs_group *next, **prev; /* of the fab */
	struct fab_group_params params;
	struct ibv_comp_channel *comps[FAB_MAX_DEVICES]; /* by the device's index */
	struct verbs_slot *slots;
	uint32_t slot_count, first_free;
};

static struct verbs_group *to_group(struct fab_group *base)
{
	return container_of(base, struct verbs_group, base);
}

/* Under the host's lock, or of a group that ends. */
static uint32_t cqs_of(const struct verbs_group *group)
{
	return atomic_load_explicit(&group->cq_count, memory_order_relaxed) & ~CQS_GONE;
}

static void ring(int fd)
{
	uint64_t one = 1;

	/* Full means that it is readable already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static uint32_t tag_of(const struct ibv_wc *wc)
{
	return (uint32_t)(wc->wr_id >> 32) & ~(UINT32_C(1) << 31);
}

/* ---- life ------------------------------------------------------------------------------------- */

int nvmfr__verbs_group_create(struct fab *opaque, const struct fab_group_params *params,
			      struct fab_group **out)
{
	struct verbs_fab *fab = nvmfr__to_verbs_fab(opaque);
	struct verbs_group *group = calloc(1, sizeof(*group));
	struct verbs_slot *owned = calloc(FIRST_SLOTS, sizeof(*owned));

	if (!group || !owned) {
		free(group);
		free(owned);
		return nvmfr__fail(-ENOMEM, "no memory for a group of queue pairs");
	}
	nvmfr__fab_group_init(&group->base, &nvmfr__fab_verbs);
	group->params = *params;
	group->owned = owned;
	group->owned_mask = FIRST_SLOTS - 1;
	group->next = fab->groups;
	group->prev = &fab->groups;
	if (group->next)
		group->next->prev = &group->next;
	fab->groups = group;
	*out = &group->base;
	return 0;
}

static void take_events(const struct verbs_cq *shared)
{
	struct ibv_cq *cq;
	void *context;

	/* Of whichever CQ: the channel is the device's. */
	while (!ibv_get_cq_event(shared->comp, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

void nvmfr__verbs_group_destroy(struct fab_group *base)
{
	struct verbs_group *group = to_group(base);

	for (uint32_t i = 0; i < cqs_of(group); i++)
		take_events(&group->cqs[i]);
	for (uint32_t i = 0; i < cqs_of(group); i++) {
		ibv_destroy_cq(group->cqs[i].cq);
		group->cqs[i].dev->base.users--;
	}
	for (uint32_t i = 0; i < FAB_MAX_DEVICES; i++)
		if (group->comps[i])
			ibv_destroy_comp_channel(group->comps[i]);
	*group->prev = group->next;
	if (group->next)
		group->next->prev = group->prev;
	free(group->owned);
	free(group->slots);
	free(group);
}

/* ---- joining: the service, the host's lock held ----------------------------------------------- */

static int open_comp(struct verbs_group *group, struct verbs_dev *dev)
{
	struct ibv_comp_channel **comp = &group->comps[dev->base.index];
	struct epoll_event event = { .events = EPOLLIN };

	if (*comp)
		return 0;
	*comp = ibv_create_comp_channel(dev->ctx);
	if (*comp && !fcntl((*comp)->fd, F_SETFL, O_NONBLOCK) &&
	    !epoll_ctl(group->params.epoll_fd, EPOLL_CTL_ADD, (*comp)->fd, &event))
		return 0;
	nvmfr__fail(-errno, "device %s gives a group no completion channel: %s", dev->base.name,
		    nvmfr__strerror(errno));
	if (*comp)
		ibv_destroy_comp_channel(*comp);
	*comp = NULL;
	return -EIO;
}

/* As large as wanted; a device or a system short of memory gives less, down to what one needs. */
static uint32_t make_cq(struct verbs_cq *shared, uint64_t wanted, uint32_t need, int vector)
{
	const struct ibv_device_attr *attr = &shared->dev->attr;
	uint64_t most = attr->max_cqe > 0 ? (uint64_t)attr->max_cqe : INT32_MAX;
	uint32_t entries = (uint32_t)nvmfr__min_u64(wanted, most);

	for (;; entries = nvmfr__max_u32(entries / 2, need)) {
		shared->cq = ibv_create_cq(shared->dev->ctx, (int)entries, shared, shared->comp,
					   vector);
		if (shared->cq || entries == need)
			return shared->cq ? entries : 0;
	}
}

static struct verbs_cq *open_cq(struct verbs_group *group, struct verbs_ep *ep, uint32_t need)
{
	uint32_t count = cqs_of(group), nth = 0;
	struct verbs_cq *shared = &group->cqs[count];
	int vector = ep->params.qid % MAX(ep->dev->ctx->num_comp_vectors, 1);

	if (count == GROUP_CQS) {
		nvmfr__fail(-ENOSPC,
			    "%s: the group has %d completion queues, and none has room: make it"
			    " with a larger max_qpairs",
			    ep->base.peer, GROUP_CQS);
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++)
		nth += group->cqs[i].dev == ep->dev;
	if (open_comp(group, ep->dev))
		return NULL;
	*shared = (struct verbs_cq){ .dev = ep->dev, .comp = group->comps[ep->dev->base.index] };
	shared->entries = make_cq(shared, ((uint64_t)need * group->params.max_endpoints) << MIN(nth, 16u),
				  need, vector);
	if (!shared->entries) {
		nvmfr__fail(-errno,
			    "%s: device %s gives no completion queue of %u entries to the group: %s",
			    ep->base.peer, ep->base.dev->name, need, nvmfr__strerror(errno));
		return NULL;
	}
	/* Armed from the start: its owner may be asleep, and does not know of it. */
	(void)ibv_req_notify_cq(shared->cq, 0);
	ep->base.dev->users++;
	atomic_fetch_add_explicit(&group->cq_count, 1, memory_order_release);
	return shared;
}

static struct verbs_cq *find_cq(struct verbs_group *group, struct verbs_ep *ep, uint32_t need)
{
	uint32_t count = cqs_of(group);

	for (uint32_t i = 0; i < count; i++) {
		struct verbs_cq *shared = &group->cqs[i];

		if (shared->dev == ep->dev && shared->entries - shared->used >= need)
			return shared;
	}
	return open_cq(group, ep, need);
}

static int grow_slots(struct verbs_group *group)
{
	uint32_t count = group->slot_count ? 2 * group->slot_count : FIRST_SLOTS;
	struct verbs_slot *slots = NULL;

	if (count <= SLOT_MASK + 1u)
		slots = realloc(group->slots, count * sizeof(*slots));
	if (!slots)
		return nvmfr__fail(-ENOMEM, "no room for more than %u queue pairs in a group",
				   group->slot_count);
	for (uint32_t i = group->slot_count; i < count; i++)
		slots[i] = (struct verbs_slot){ .tag = 1u << SLOT_BITS | i };
	group->slots = slots;
	group->slot_count = count;
	return 0;
}

static uint32_t entries_of(const struct verbs_ep *ep)
{
	return ep->base.send_positions + ep->base.recv_positions;
}

int nvmfr__verbs_group_join(struct verbs_ep *ep)
{
	struct verbs_group *group = to_group(ep->base.group);
	uint32_t at = group->first_free, need = entries_of(ep);

	while (at < group->slot_count && group->slots[at].ep)
		at++;
	if (at == group->slot_count && grow_slots(group))
		return -ENOMEM;
	ep->shared = find_cq(group, ep, need);
	if (!ep->shared)
		return -ENOSPC;
	ep->shared->used += need;
	ep->cq = ep->shared->cq;
	ep->tag = group->slots[at].tag;
	group->slots[at].ep = ep;
	group->first_free = at + 1;
	return 0;
}

static bool has_gone(const struct verbs_group *group)
{
	for (uint32_t i = 0; i < cqs_of(group); i++)
		if (group->cqs[i].dev->base.gone && !group->cqs[i].used)
			return true;
	return false;
}

static void mark_gone(struct verbs_group *group)
{
	if (!has_gone(group))
		return;
	atomic_fetch_or_explicit(&group->cq_count, CQS_GONE, memory_order_relaxed);
	ring(group->params.owner_fd);
}

void nvmfr__verbs_groups_gone(struct verbs_fab *fab)
{
	for (struct verbs_group *group = fab->groups; group; group = group->next)
		mark_gone(group);
}

void nvmfr__verbs_group_leave(struct verbs_ep *ep)
{
	struct verbs_group *group = to_group(ep->base.group);
	uint32_t at = ep->tag & SLOT_MASK, generation = (ep->tag >> SLOT_BITS) + 1;

	if (!ep->shared)
		return;
	ep->shared->used -= entries_of(ep);
	ep->shared = NULL;
	ep->cq = NULL;
	generation = generation == GENERATIONS ? 1 : generation;
	group->slots[at] = (struct verbs_slot){ .tag = generation << SLOT_BITS | at };
	group->first_free = nvmfr__min_u32(group->first_free, at);
	mark_gone(group);
}

/* ---- the owner takes an endpoint over, and ends it -------------------------------------------- */

static int grow_owned(struct verbs_group *group, uint32_t at)
{
	uint32_t count = group->owned_mask + 1;
	struct verbs_slot *owned;

	if (at < count)
		return 0;
	while (count <= at)
		count *= 2;
	owned = calloc(count, sizeof(*owned));
	if (!owned)
		return nvmfr__fail(-ENOMEM, "no memory for %u queue pairs in a group", count);
	for (uint32_t i = 0; i <= group->owned_mask; i++)
		owned[i] = group->owned[i];
	free(group->owned);
	group->owned = owned;
	group->owned_mask = count - 1;
	return 0;
}

/* The last takes the place of one that goes. */
static void drop_cq(struct verbs_group *group, struct verbs_cq *shared, uint32_t count)
{
	struct verbs_cq *last = &group->cqs[count - 1], old = *shared;

	take_events(&old);
	ibv_destroy_cq(old.cq);
	for (uint32_t i = 0; i < group->slot_count; i++)
		if (group->slots[i].ep && group->slots[i].ep->shared == last)
			group->slots[i].ep->shared = shared;
	*shared = *last;
	*last = (struct verbs_cq){ 0 };
	atomic_store_explicit(&group->cq_count, --count, memory_order_relaxed);
	old.dev->base.users--;
	while (count--)
		if (group->cqs[count].comp == old.comp)
			return;
	ibv_destroy_comp_channel(old.comp);
	group->comps[old.dev->base.index] = NULL;
}

/* By the owner; returns how many are left. */
static __attribute__((noinline, cold)) uint32_t drop_gone(struct verbs_group *group)
{
	uint32_t count;

	pthread_mutex_lock(group->params.lock);
	count = cqs_of(group);
	atomic_store_explicit(&group->cq_count, count, memory_order_relaxed);
	for (uint32_t i = count; i-- > 0;)
		if (group->cqs[i].dev->base.gone && !group->cqs[i].used)
			drop_cq(group, &group->cqs[i], count--);
	pthread_mutex_unlock(group->params.lock);
	ring(group->params.service_fd);
	return count;
}

int nvmfr__verbs_group_adopt(struct fab_ep *fep, void *member)
{
	struct verbs_group *group = to_group(fep->group);
	struct verbs_ep *ep = nvmfr__to_verbs_ep(fep);
	uint32_t at = ep->tag & SLOT_MASK;
	int err = grow_owned(group, at);

	if (err)
		return err;
	group->owned[at] = (struct verbs_slot){ ep->tag, ep };
	fep->member = member;
	if (fep->mail)
		fab_group_add_ready(&group->base, fep);
	return 0;
}

void nvmfr__verbs_group_disown(struct verbs_ep *ep)
{
	struct verbs_group *group = to_group(ep->base.group);

	group->owned[ep->tag & SLOT_MASK].tag = 0;
	nvmfr__fab_group_drop_ready(&group->base, &ep->base);
	ep->base.member = NULL;
}

/* ---- completions ------------------------------------------------------------------------------ */

void nvmfr__verbs_group_failed(struct verbs_ep *ep)
{
	ep->base.mail |= FAB_POLL_BAD;
	if (ep->base.member)
		fab_group_add_ready(ep->base.group, &ep->base);
}

/* What one WC, good or bad, adds to the mail. */
static void count_wc(struct verbs_ep *ep, const struct ibv_wc *wc)
{
	if (is_response(wc))
		ep->base.mail++;
	else if (is_send(wc))
		ep->base.mail += take_sends(ep, (uint32_t)wc->wr_id);
	else
		nvmfr__verbs_bad_wc(ep, wc);
	ep->base.mail |= ep->sticky;
}

/* Of an endpoint that the owner does not have: one that connects still, or is no more. */
static __attribute__((noinline, cold)) void take_stray(struct verbs_group *group,
						       const struct ibv_wc *wc)
{
	uint32_t tag = tag_of(wc), at = tag & SLOT_MASK;
	const struct verbs_slot *slot;

	pthread_mutex_lock(group->params.lock);
	slot = at < group->slot_count ? &group->slots[at] : NULL;
	if (slot && slot->tag == tag && slot->ep) {
		count_wc(slot->ep, wc);
		ring(group->params.service_fd);
	}
	pthread_mutex_unlock(group->params.lock);
}

/* Everyone on this CQ has failed. */
static __attribute__((noinline, cold)) bool pump_failed(struct verbs_group *group,
							const struct verbs_cq *shared)
{
	bool news = false;

	pthread_mutex_lock(group->params.lock);
	for (uint32_t i = 0; i < group->slot_count; i++) {
		struct verbs_ep *ep = group->slots[i].ep;

		if (!ep || ep->shared != shared || ep->sticky)
			continue;
		news = true;
		ep->sticky = FAB_POLL_BAD;
		snprintf(ep->base.error, sizeof(ep->base.error), "%s: device %s cannot be polled",
			 ep->base.peer, ep->base.dev->name);
		nvmfr__verbs_group_failed(ep);
	}
	if (news)
		ring(group->params.service_fd);
	pthread_mutex_unlock(group->params.lock);
	return news;
}

static inline bool is_of(const struct ibv_wc *wc, uint32_t upper)
{
	return (uint32_t)(wc->wr_id >> 32) == upper;
}

/*
 * Good WCs of one endpoint that lie one behind the other, into its mail; returns the first that is not. The
 * loop makes no call, so that it keeps to registers that nobody must save.
 */
static inline const struct ibv_wc *take_run(struct verbs_ep *ep, const struct ibv_wc *wc,
					    uint32_t tag)
{
	const uint32_t recv = tag | UINT32_C(1) << 31;
	uint32_t responses = 0, sends = 0, newest = 0;

	for (;; wc++) {
		for (; is_response(wc) && is_of(wc, recv); wc++)
			responses++;
		if (!is_send(wc) || !is_of(wc, tag))
			break;
		newest = (uint32_t)wc->wr_id;
		sends++;
	}
	ep->base.mail += responses;
	if (sends)
		ep->base.mail += take_sends(ep, newest);
	return wc;
}

/* From wc on, whoever they are of. */
static __attribute__((noinline)) void sort_out(struct verbs_group *group, const struct ibv_wc *wc,
					       const struct ibv_wc *end)
{
	while (wc < end) {
		uint32_t tag = tag_of(wc);
		const struct verbs_slot *slot = &group->owned[tag & group->owned_mask];
		const struct ibv_wc *first = wc;

		if (unlikely(slot->tag != tag)) {
			take_stray(group, wc++);
			continue;
		}
		wc = take_run(slot->ep, wc, tag);
		if (unlikely(wc == first))
			count_wc(slot->ep, wc++);
		fab_group_add_ready(&group->base, &slot->ep->base);
	}
}

/* Several CQs, none, or of a device that went. */
static __attribute__((noinline)) struct fab_ep *pump_all(struct verbs_group *group, uint32_t count)
{
	struct ibv_wc wcs[VERBS_POLL_BATCH + 1];

	group->base.more = false;
	if (count & CQS_GONE)
		count = drop_gone(group);
	for (uint32_t i = 0; i < count; i++) {
		int n = ibv_poll_cq(group->cqs[i].cq, VERBS_POLL_BATCH, wcs);

		if (unlikely(n < 0))
			pump_failed(group, &group->cqs[i]);
		if (n <= 0)
			continue;
		wcs[n].status = IBV_WC_GENERAL_ERR; /* ends a run */
		sort_out(group, wcs, &wcs[n]);
		group->base.more |= n == VERBS_POLL_BATCH;
	}
	return NULL;
}

/* In line: one CQ, and all of one endpoint. */
struct fab_ep *nvmfr__verbs_group_pump(struct fab_group *base)
{
	struct verbs_group *group = to_group(base);
	uint32_t count = atomic_load_explicit(&group->cq_count, memory_order_acquire), tag;
	struct ibv_wc wcs[VERBS_POLL_BATCH + 1];
	const struct ibv_wc *wc = wcs;
	const struct verbs_slot *slot;
	int n;

	if (unlikely(count != 1))
		return pump_all(group, count);
	n = ibv_poll_cq(group->cqs[0].cq, VERBS_POLL_BATCH, wcs);
	if (n <= 0) {
		base->more = false;
		if (unlikely(n < 0))
			pump_failed(group, &group->cqs[0]);
		return NULL;
	}
	tag = tag_of(wc);
	slot = &group->owned[tag & group->owned_mask];
	if (n == 1 && is_response(wc) && likely(slot->tag == tag)) {
		slot->ep->base.mail++;
		return &slot->ep->base;
	}
	wcs[n].status = IBV_WC_GENERAL_ERR; /* ends a run */
	if (likely(slot->tag == tag)) {
		wc = take_run(slot->ep, wc, tag);
		if (likely(wc == &wcs[n]) && likely(n < VERBS_POLL_BATCH))
			return &slot->ep->base;
		if (wc != wcs)
			fab_group_add_ready(base, &slot->ep->base);
	}
	base->more = n == VERBS_POLL_BATCH;
	sort_out(group, wc, &wcs[n]);
	return NULL;
}

static __attribute__((noinline)) uint64_t poll_pump(struct fab_ep *fep)
{
	struct fab_group *group = fep->group;
	struct fab_ep *found = NULL;
	uint64_t word = nvmfr__to_verbs_ep(fep)->sticky;

	/* The service's: only the owner polls the CQ. */
	if (fep->member) {
		found = nvmfr__verbs_group_pump(group);
		if (found && found != fep)
			fab_group_add_ready(group, found);
		if (!found && group->more)
			word |= FAB_POLL_MORE;
	}
	word |= fep->mail;
	fep->mail = 0;
	return word;
}

uint64_t nvmfr__verbs_group_poll(struct fab_ep *fep)
{
	uint64_t word = fep->mail;

	if (unlikely(!word))
		return poll_pump(fep);
	fep->mail = 0;
	return word;
}

/* ---- sleeping --------------------------------------------------------------------------------- */

int nvmfr__verbs_group_arm(struct fab_group *base)
{
	struct verbs_group *group = to_group(base);
	uint32_t count = atomic_load_explicit(&group->cq_count, memory_order_acquire);
	bool news = false;

	if (count & CQS_GONE)
		count = drop_gone(group);

	for (uint32_t i = 0; i < count; i++) {
		const struct verbs_cq *shared = &group->cqs[i];

		take_events(shared);
		if (ibv_req_notify_cq(shared->cq, 0))
			news |= pump_failed(group, shared);
	}
	return news;
}

int nvmfr__verbs_group_arm_ep(struct fab_ep *fep)
{
	/* The service's is told by its mail, for which the owner wakes the service. */
	if (!fep->member)
		return fep->mail ? 1 : 0;
	return nvmfr__verbs_group_arm(fep->group);
}
