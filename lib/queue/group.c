/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"

/* ---- life ------------------------------------------------------------------------------------ */

static int open_fds(struct nvmfr_group *group)
{
	struct epoll_event ev = { .events = EPOLLIN };

	group->owner_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	group->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (group->owner_fd < 0 || group->epoll_fd < 0 ||
	    epoll_ctl(group->epoll_fd, EPOLL_CTL_ADD, group->owner_fd, &ev))
		return nvmfr__fail(-errno, "no descriptor for a group to sleep on: %s",
				   nvmfr__strerror(errno));
	return 0;
}

struct nvmfr_group *nvmfr__group_new(const void *host, const _Atomic uint32_t *tick,
				     const struct fab_group_params *params)
{
	struct nvmfr_group *group = aligned_alloc(CACHE_LINE, sizeof(*group));

	if (!group) {
		nvmfr__fail(-ENOMEM, "no memory for a group");
		return NULL;
	}
	memset(group, 0, sizeof(*group));
	group->host = host;
	group->tick = tick;
	group->seen = 1;
	group->plain = WORD_NEVER;
	group->again_tail = &group->again;
	group->params = *params;
	group->epoll_fd = -1;
	group->owner_fd = -1;
	if (open_fds(group)) {
		nvmfr__group_free(group);
		return NULL;
	}
	group->params.epoll_fd = group->epoll_fd;
	group->params.owner_fd = group->owner_fd;
	return group;
}

void nvmfr__group_free(struct nvmfr_group *group)
{
	if (!group)
		return;
	for (unsigned int i = 0; i < group->fab_count && !nvmfr__group_forked(group); i++)
		group->fabs[i]->ops->group_destroy(group->fabs[i]);
	if (group->epoll_fd >= 0)
		close(group->epoll_fd);
	if (group->owner_fd >= 0)
		close(group->owner_fd);
	free(group);
}

int nvmfr__group_fab(struct nvmfr_group *group, const struct fab_ops *ops, struct fab *fab,
		     struct fab_group **out)
{
	int err;

	for (unsigned int i = 0; i < group->fab_count; i++) {
		*out = group->fabs[i];
		if ((*out)->ops == ops)
			return 0;
	}
	err = ops->group_create(fab, &group->params, out);
	if (!err)
		group->fabs[group->fab_count++] = *out;
	group->plain = WORD_NEVER;
	return err;
}

int nvmfr__group_state_error(void)
{
	return nvmfr__fail(-EOWNERDEAD, "this group was made before fork(): it works in the parent "
					"only; make one in the child");
}

/* ---- members --------------------------------------------------------------------------------- */

static void add_again(struct nvmfr_group *group, struct nvmfr_qpair *qp)
{
	if (qp->again)
		return;
	qp->again = true;
	qp->again_next = NULL;
	group->plain = WORD_NEVER;
	*group->again_tail = qp;
	group->again_tail = &qp->again_next;
}

static struct nvmfr_qpair *take_again(struct nvmfr_group *group)
{
	struct nvmfr_qpair *qp = group->again;

	group->again = qp->again_next;
	if (!group->again)
		group->again_tail = &group->again;
	qp->again = false;
	return qp;
}

void nvmfr__group_join(struct nvmfr_group *group, struct nvmfr_qpair *qp)
{
	qp->group = group;
	qp->member_next = group->members;
	qp->member_prev = &group->members;
	if (group->members)
		group->members->member_prev = &qp->member_next;
	group->members = qp;
}

void nvmfr__group_leave(struct nvmfr_qpair *qp)
{
	struct nvmfr_group *group = qp->group;
	struct nvmfr_qpair **at = &group->again;

	*qp->member_prev = qp->member_next;
	if (qp->member_next)
		qp->member_next->member_prev = qp->member_prev;
	while (qp->again && *at != qp)
		at = &(*at)->again_next;
	if (qp->again) {
		*at = qp->again_next;
		if (!*at)
			group->again_tail = at;
	}
	qp->again = false;
}

/* What has arrived, into the mail. */
static void pump_fab(struct fab_group *fab)
{
	struct fab_ep *found;

	do {
		found = fab->ops->group_pump(fab);
		if (found)
			fab_group_add_ready(fab, found);
	} while (!found && fab->more);
}

/*
 * Who is asked again queues behind all who have something now: with an array that is always too small
 * each has its turn all the same. One that is always busy would keep a poll from a look at those whom its
 * own polls do not find: they are looked for here.
 */
void nvmfr__group_ask_again(struct nvmfr_qpair *qp)
{
	struct nvmfr_group *group = qp->group;
	bool more = qp->chores.ready || qp->chores.held || qp->chores.backlog || (qp->ep && qp->ep->mail);

	/* Told while it connects anew: fast_io_fail_ms is over, and more may be to be told. */
	if (qp->state == LINK_CONNECTING)
		more = nvmfr__retry_held(qp);
	if (!more && qp->state < LINK_LOST)
		return;
	for (unsigned int i = 0; i < group->fab_count; i++) {
		struct fab_group *fab = group->fabs[i];

		if (fab->alone || !qp->ep || qp->ep->group != fab)
			pump_fab(fab);
		while (fab->ready)
			add_again(group, fab_group_take_ready(fab)->member);
	}
	add_again(group, qp);
}

/* ---- polling --------------------------------------------------------------------------------- */

/* The service has news for some, or time has passed for all. */
static __attribute__((noinline)) int look_at_all(struct nvmfr_group *group)
{
	uint32_t now = atomic_load_explicit(group->tick, memory_order_relaxed);
	bool ticked = now != group->seen_tick;

	if (nvmfr__group_forked(group))
		return nvmfr__group_state_error();
	group->seen = atomic_load_explicit(group->word, memory_order_acquire);
	group->seen_tick = now;
	for (struct nvmfr_qpair *qp = group->members; qp; qp = qp->member_next)
		if (qpair_has_news(qp) || (ticked && qp->timeout_ticks && qpair_is_busy(qp)))
			add_again(group, qp);
	return 0;
}

/* A member that is lost and drained says so: here it is silent. */
static inline unsigned int poll_member(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
				       unsigned int max)
{
	int n = nvmfr__qpair_poll(qp, out, max);

	return unlikely(n < 0) ? 0 : (unsigned int)n;
}

/* Ends: who is put back has filled the array. */
static unsigned int poll_again(struct nvmfr_group *group, struct nvmfr_completion *out,
			       unsigned int max)
{
	unsigned int n = 0;

	while (group->again && n < max)
		n += poll_member(take_again(group), out + n, max - n);
	return n;
}

/* Until the array is full or what this fabric's completions arrive in was seen empty. */
static unsigned int poll_fab(struct fab_group *fab, struct nvmfr_completion *out, unsigned int max)
{
	unsigned int n = 0;
	bool more = true;

	for (;;) {
		struct fab_ep *found;

		while (fab->ready) {
			if (n == max)
				return n;
			n += poll_member(fab_group_take_ready(fab)->member, out + n, max - n);
		}
		if (!more || n == max)
			return n;
		found = fab->ops->group_pump(fab);
		more = !found && fab->more;
		if (found)
			fab_group_add_ready(fab, found);
	}
}

static __attribute__((noinline)) int poll_slow(struct nvmfr_group *group,
					       struct nvmfr_completion *out, unsigned int max)
{
	unsigned int n;
	int err = 0;

	if (atomic_load_explicit(group->word, memory_order_relaxed) != group->seen)
		err = look_at_all(group);
	if (err)
		return err;
	n = poll_again(group, out, max);
	for (unsigned int i = 0; i < group->fab_count; i++)
		n += poll_fab(group->fabs[i], out + n, max - n);
	if (group->fab_count == 1 && !group->again)
		group->plain = group->seen;
	return (int)n;
}

/* The common case in line: one fabric, and one member that has something or none. */
int nvmfr__group_poll(struct nvmfr_group *group, struct nvmfr_completion *out, unsigned int max)
{
	struct fab_group *fab;
	struct fab_ep *found;

	if (unlikely(atomic_load_explicit(group->word, memory_order_relaxed) != group->plain))
		return poll_slow(group, out, max);
	fab = group->fabs[0];
	if (unlikely(fab->ready != NULL))
		return poll_slow(group, out, max);
	found = fab->ops->group_pump(fab);
	if (likely(found != NULL))
		return (int)poll_member(found->member, out, max);
	return fab->ready || fab->more ? poll_slow(group, out, max) : 0;
}

void nvmfr__group_tick(struct nvmfr_group *group)
{
	nvmfr__word_step((_Atomic uint32_t *)group->word);
}

void nvmfr__group_pump(struct nvmfr_group *group)
{
	for (unsigned int i = 0; i < group->fab_count; i++)
		pump_fab(group->fabs[i]);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

int nvmfr__group_arm_fabs(struct nvmfr_group *group)
{
	int result = 0;

	for (unsigned int i = 0; i < group->fab_count && result >= 0; i++) {
		int armed = group->fabs[i]->ops->group_arm(group->fabs[i]);

		result = armed < 0 ? armed : result | armed;
	}
	/* What came before the arming rings no bell. */
	if (result >= 0)
		nvmfr__group_pump(group);
	return result;
}

int nvmfr__group_arm(struct nvmfr_group *group)
{
	uint64_t count;
	int result;

	if (nvmfr__group_forked(group))
		return nvmfr__group_state_error();
	/* Drained before the look at the word: news after it rings again. */
	if (read(group->owner_fd, &count, sizeof(count)) > 0)
		return 1;
	if (group->again || atomic_load_explicit(group->word, memory_order_acquire) != group->seen)
		return 1;
	for (struct nvmfr_qpair *qp = group->members; qp; qp = qp->member_next)
		nvmfr__qpair_tell_deadline(qp);
	result = nvmfr__group_arm_fabs(group);
	for (unsigned int i = 0; i < group->fab_count && result == 0; i++)
		result = group->fabs[i]->ready != NULL;
	return result;
}

bool nvmfr__group_pending(const struct nvmfr_group *group)
{
	const struct nvmfr_qpair *qp = group->members;

	while (qp && qp->state != LINK_CONNECTING && !qpair_is_busy(qp))
		qp = qp->member_next;
	return qp;
}

uint64_t nvmfr__group_due_ns(const struct nvmfr_group *group)
{
	uint64_t due = UINT64_MAX;

	for (const struct nvmfr_qpair *qp = group->members; qp; qp = qp->member_next)
		if (likely_live(qp))
			due = nvmfr__min_u64(due, qp->ops->ep_due_ns(qp->ep));
	return due;
}
