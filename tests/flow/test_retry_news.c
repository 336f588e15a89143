/* SPDX-License-Identifier: BSD-3-Clause */
/* News of the service that come while what a loss left is being issued again: a service thread's moment. */
#include "flow.h"

#include "queue/retry.h"

enum { BLOCK = 512,
       N = 8 };

static struct fab_ops ops;
static const struct fab_ops *below;
static struct nvmfr_qpair *told;

/* Between a poll's look at the word and its end. */
static uint64_t poll_and_publish(struct fab_ep *ep)
{
	if (nvmfr__retry_held(told)) {
		pthread_mutex_lock(told->link.lock);
		nvmfr__link_publish(&told->link);
		pthread_mutex_unlock(told->link.lock);
	}
	return below->poll(ep);
}

static void retrying(struct flow *f)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(N);

	flow_host(f);
	flow_target(f, NULL);
	f->opts.ctrl_loss_timeout_ms = 60000;
	f->opts.reconnect_delay_ms = 10;
	f->nsid = flow_ns(f, MIB, BLOCK);
	flow_connect(f);
	opts.retry = NVMFR_RETRY_READS;
	cr_assert_eq(flow_try_qpair(f, &opts, &f->qp), 0, "%s", nvmfr_last_error());
}

Test(retry_news, in_the_middle_of_issuing)
{
	struct nvmfr_completion done[N];
	struct nvmfr_buffer *buf;
	struct flow f = { 0 };

	retrying(&f);
	buf = flow_alloc(&f, N * BLOCK);
	flow_reads(&f, buf, N);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	/* Kept; then live again, and nothing is issued yet. */
	cr_assert_eq(nvmfr_poll(f.qp, done, N), 0);
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr__retry_held(f.qp), (uint32_t)N);
	told = f.qp;
	below = f.qp->ops;
	ops = *below;
	ops.poll = poll_and_publish;
	f.qp->ops = &ops;
	flow_wait(f.qp, done, N);
	for (unsigned int i = 0; i < N; i++)
		cr_expect_eq(done[i].result, 0, "%d", done[i].result);
	cr_expect_eq(free_slots(f.qp), (uint32_t)N, "a slot is lost");
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 0);
	f.qp->ops = below;
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}
