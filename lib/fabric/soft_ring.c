/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner's side of the rings: post, poll, arm. No allocation and no system call before arm(). */
#include "fabric/soft.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/err.h"

#define NS_PER_S UINT64_C(1000000000)

/* Of a SEND of one piece that is signaled beside its turn. */
enum { PIECES_TOLD = 3 };

static bool is_signaled(const struct soft_ep *ep, uint32_t position)
{
	return (position + 1) % FAB_SIGNAL_EVERY == 0 || ep->sends[position].pieces > 1;
}

/* Told by the next poll: posts do not fail. */
static __attribute__((noinline)) int refuse_post(struct soft_ep *ep, uint32_t first, uint32_t n)
{
	nvmfr__soft_ep_fail(ep, true,
			    "send queue of %u: %u from position %u on cannot be posted, next is %u, %llu are free",
			    ep->ep.send_positions, n, first, ep->post_position,
			    (unsigned long long)(ep->ep.send_positions - (ep->posted - ep->done)));
	return 0;
}

static void stamp(struct soft_ep *ep, uint32_t first, uint32_t n)
{
	uint64_t due = nvmfr__soft_now(ep->target) + ep->latency_ns;

	for (uint32_t i = 0; i < n; i++)
		ep->due_ns[first + i] = due;
}

int nvmfr__soft_post_send(struct fab_ep *base, uint32_t first, uint32_t n)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);
	uint64_t posted = atomic_load_explicit(&ep->posted, memory_order_relaxed) + n;

	if (unlikely(first != ep->post_position || n - 1 >= base->send_positions - first ||
		     posted - ep->done > base->send_positions))
		return refuse_post(ep, first, n);
	if (ep->latency_ns)
		stamp(ep, first, n);
	ep->post_position = first + n == base->send_positions ? 0 : first + n;
	if (!ep->threaded) {
		atomic_store_explicit(&ep->posted, posted, memory_order_release);
		return 0;
	}
	/* The thread says that it sleeps, then looks for work; we post, then look whether it sleeps. */
	atomic_store(&ep->posted, posted);
	if (unlikely(atomic_load(&ep->target->sleeping)))
		nvmfr__soft_thread_wake(ep->target);
	return 0;
}

/* Here every SEND that carries something is signaled. */
int nvmfr__soft_post_carrying(struct fab_ep *base, uint32_t first, uint32_t n, uint32_t told)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	if (told != FAB_NO_POSITION && ep->sends[told].pieces < 2)
		ep->sends[told].pieces = PIECES_TOLD;
	return nvmfr__soft_post_send(base, first, n);
}

int nvmfr__soft_post_recv(struct fab_ep *base, uint32_t n)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);
	uint64_t posted = atomic_load_explicit(&ep->recv_posted, memory_order_relaxed) + n;

	if (unlikely(posted - ep->reported > base->recv_positions)) {
		nvmfr__soft_ep_fail(ep, true, "receive queue of %u: %u more do not fit",
				    base->recv_positions, n);
		return 0;
	}
	atomic_store_explicit(&ep->recv_posted, posted, memory_order_release);
	return 0;
}

/* Completions of SENDs are told like a NIC's: an unsignaled one only by a later signaled one. */
static uint32_t collect_sends(struct soft_ep *ep)
{
	uint64_t sent = atomic_load_explicit(&ep->sent, memory_order_acquire);
	uint64_t before = ep->done;

	while (ep->scanned != sent) {
		uint32_t position = ep->scan_position;

		ep->scanned++;
		if (is_signaled(ep, position))
			ep->done = ep->scanned;
		ep->sends[position].pieces = 1;
		ep->scan_position = position + 1 == ep->ep.send_positions ? 0 : position + 1;
	}
	return (uint32_t)(ep->done - before);
}

static uint64_t collect(struct soft_ep *ep, bool more)
{
	/* Before the counters: what was produced before the failure is still told. */
	bool failed = atomic_load_explicit(&ep->fail_state, memory_order_acquire) == SOFT_FAILED;
	uint64_t produced = atomic_load_explicit(&ep->produced, memory_order_acquire);
	uint64_t responses = produced - ep->reported;
	uint64_t word;

	ep->reported = produced;
	word = responses | (uint64_t)collect_sends(ep) << 16;
	if (more)
		word |= FAB_POLL_MORE;
	if (likely(!failed))
		return word;
	if (word & 0xffffffff)
		return word | FAB_POLL_MORE;
	memcpy(ep->ep.error, ep->fail_text, sizeof(ep->ep.error));
	return FAB_POLL_BAD;
}

static bool has_work(const struct soft_ep *ep)
{
	return atomic_load_explicit(&ep->posted, memory_order_relaxed) != ep->taken || ep->n_delayed ||
	       ep->holding || nvmfr__soft_aborts(ep);
}

/* Before Connect it may become anything: Connect changes the target's lists. */
static bool serve_inline(struct soft_ep *ep)
{
	bool locked = ep->qid == 0 || !ep->ctrl;
	bool more;

	if (!has_work(ep) || nvmfr__soft_failed(ep))
		return false;
	if (locked)
		nvmfr__soft_lock(ep->target);
	more = nvmfr__soft_pass(ep);
	if (unlikely(nvmfr__soft_failed(ep) || ep->drop_all)) {
		if (!locked)
			nvmfr__soft_lock(ep->target);
		nvmfr__soft_settle(ep);
		if (!locked)
			nvmfr__soft_unlock(ep->target);
	}
	if (locked)
		nvmfr__soft_unlock(ep->target);
	if (unlikely(atomic_load_explicit(&ep->target->violation_unlogged, memory_order_relaxed)))
		nvmfr__soft_log_violation(ep->target);
	return more;
}

bool nvmfr__soft_may_have_news(const struct soft_ep *ep)
{
	return (!ep->threaded && has_work(ep)) || nvmfr__soft_failed(ep) ||
	       atomic_load_explicit(&ep->produced, memory_order_relaxed) != ep->reported ||
	       atomic_load_explicit(&ep->sent, memory_order_relaxed) != ep->scanned;
}

uint64_t nvmfr__soft_poll(struct fab_ep *base)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	return collect(ep, !ep->threaded && serve_inline(ep));
}

uint64_t nvmfr__soft_ep_due_ns(const struct fab_ep *base)
{
	const struct soft_ep *ep = (const struct soft_ep *)(const void *)base;

	if (ep->threaded || nvmfr__soft_failed(ep))
		return SOFT_NEVER;
	if (atomic_load_explicit(&ep->produced, memory_order_acquire) != ep->reported)
		return 0;
	return nvmfr__soft_next_due(ep, atomic_load_explicit(&ep->posted, memory_order_relaxed));
}

static int set_due(const struct soft_ep *ep, uint64_t due_ns)
{
	struct itimerspec spec = { 0 };

	/* Virtual time comes by hand: the timer would ring for nothing. */
	if (due_ns != SOFT_NEVER && !nvmfr__clock_is_virtual(ep->target->fh->clock)) {
		spec.it_value.tv_sec = (time_t)(due_ns / NS_PER_S);
		spec.it_value.tv_nsec = (long)(due_ns % NS_PER_S);
	}
	if (timerfd_settime(ep->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL))
		return nvmfr__fail(-errno, "%s: timer: %s", ep->ep.peer, nvmfr__strerror(errno));
	return 0;
}

int nvmfr__soft_arm_alone(struct soft_ep *ep)
{
	uint64_t due_ns = nvmfr__soft_ep_due_ns(&ep->ep);
	int err;

	if (ep->timer_fd < 0)
		return nvmfr__fail(-EINVAL, "%s: the endpoint was made without a descriptor",
				   ep->ep.peer);
	if (due_ns != SOFT_NEVER && due_ns <= nvmfr__soft_now(ep->target))
		return 1;
	err = set_due(ep, due_ns);
	if (err)
		return err;
	/* Set, then look: whoever completes or fails something meanwhile does it the other way round. */
	atomic_store(&ep->armed, true);
	return atomic_load(&ep->produced) != ep->reported || atomic_load(&ep->sent) != ep->scanned ||
	       atomic_load(&ep->fail_state) != SOFT_OK;
}

void nvmfr__soft_disarm(struct soft_ep *ep)
{
	atomic_store(&ep->armed, false);
	(void)set_due(ep, SOFT_NEVER);
}

int nvmfr__soft_arm(struct fab_ep *base)
{
	struct soft_ep *ep = nvmfr__soft_ep(base);

	if (base->member)
		nvmfr__soft_group_hush(ep);
	return nvmfr__soft_arm_alone(ep);
}
