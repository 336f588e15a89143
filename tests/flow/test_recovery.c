/* SPDX-License-Identifier: BSD-3-Clause */
/* A lost association is made anew, and its queue pairs with it: the same handles, each I/O told once. */
#include "flow.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512,
       MANY = 100,
       ROUNDS = 20 };

static uint16_t state_of(const struct flow *f)
{
	return flow_qpair_info(f->qp).state;
}

/* Until it says 0: how many ended so. */
static unsigned int drain(struct flow *f, int32_t result)
{
	struct nvmfr_completion done[7];
	unsigned int n = 0;
	int got;

	while ((got = nvmfr_poll(f->qp, done, ARRAY_SIZE(done))) > 0)
		for (int i = 0; i < got; i++, n++)
			cr_expect_eq(done[i].result, result, "%d", done[i].result);
	cr_expect_eq(got, 0, "%d: %s", got, nvmfr_last_error());
	return n;
}

Test(recovery, same_handles_after_a_drop, .timeout = 60)
{
	struct flow f = flow_recovering(60000, 100);
	struct nvmfr_buffer *buf = flow_alloc(&f, MANY * BLOCK);

	flow_works(&f);
	flow_reads(&f, buf, MANY);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_expect_eq(drain(&f, -ECONNABORTED), MANY);
	cr_expect_eq(state_of(&f), NVMFR_STATE_RECOVERING);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_RECOVERING);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EAGAIN);
	cr_expect(strstr(nvmfr_last_error(), "anew"), "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_expect_eq(state_of(&f), NVMFR_STATE_LIVE);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* Whoever only submits, polls and waits needs to know of none of it but -EAGAIN. */
Test(recovery, again_and_again_under_load, .timeout = 60)
{
	struct flow f = flow_recovering(UINT32_MAX, 10);
	struct nvmfr_buffer *buf = flow_alloc(&f, MANY * BLOCK);

	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct nvmfr_completion done[FLOW_DEPTH];
		unsigned int told[MANY] = { 0 }, sent = 0, ended = 0;

		for (; sent < MANY; sent++) {
			if (sent == round * 5)
				nvmfr_soft_drop(f.target);
			while (nvmfr_read(f.qp, f.nsid, sent, 1, buf, sent * BLOCK, sent) == -EAGAIN) {
				int got = nvmfr_wait(f.qp, done, 1, FLOW_DEPTH, 1000);

				cr_assert_geq(got, 0, "%s", nvmfr_last_error());
				for (int i = 0; i < got; i++, ended++)
					told[done[i].user_data]++;
			}
		}
		while (ended < MANY) {
			int got = nvmfr_wait(f.qp, done, 1, FLOW_DEPTH, FLOW_WAIT_MS);

			cr_assert_gt(got, 0, "%s", nvmfr_last_error());
			for (int i = 0; i < got; i++, ended++)
				told[done[i].user_data]++;
		}
		for (unsigned int i = 0; i < MANY; i++)
			cr_expect_eq(told[i], 1u, "round %u: I/O %u was told %u times", round, i, told[i]);
	}
	flow_release(buf);
	flow_down(&f);
}

/* The new connection is there before the end of the old one was told: one at a time, each once. */
Test(recovery, an_owner_that_takes_its_time, .timeout = 60)
{
	struct flow f = flow_recovering(60000, 10);
	struct nvmfr_buffer *buf = flow_alloc(&f, MANY * BLOCK);
	unsigned int told[MANY] = { 0 };
	struct nvmfr_completion done;

	flow_reads(&f, buf, MANY);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 1);
	told[done.user_data]++;
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), -EBUSY);
	for (unsigned int i = 1; i < MANY; i++) {
		cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 1, "%u: %s", i, nvmfr_last_error());
		cr_expect_eq(done.result, -ECONNABORTED);
		told[done.user_data]++;
		flow_settle(&f);
	}
	for (unsigned int i = 0; i < MANY; i++)
		cr_expect_eq(told[i], 1u, "%u", i);
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

/* Dropped, and back in spite of that fault. */
static void comes_back(struct flow *f, const struct nvmfr_soft_fault *fault)
{
	flow_plan(f, fault);
	nvmfr_soft_drop(f->target);
	flow_settle(f);
	cr_assert_eq(nvmfr_ctrl_wait(f->ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_qpair_wait(f->qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	flow_works(f);
	flow_down(f);
}

Test(recovery, attempts_that_fail_are_followed_by_others, .timeout = 60)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct flow f = flow_recovering(600000, 100);

	fault.count = 6;
	comes_back(&f, &fault);
}

Test(recovery, ends_with_its_time, .timeout = 60)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct flow f = flow_recovering(5000, 100);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_completion done;

	fault.count = 0;
	flow_plan(&f, &fault);
	cr_assert_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 3), 0);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_expect_eq(drain(&f, -ECONNABORTED), 1u);
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), -ENOTCONN);
	cr_expect(strstr(nvmfr_last_error(), "RDMA connection"), "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), -ENOTCONN);
	cr_expect(strstr(nvmfr_last_error(), "RDMA connection"), "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), -ENOTCONN);
	cr_expect_eq(state_of(&f), NVMFR_STATE_LOST);
	flow_release(buf);
	flow_down(&f);
}

Test(recovery, other_ends_meanwhile, .timeout = 60)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_CM_SILENCE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct flow f = flow_recovering(60000, 100);
	struct nvmfr_qpair *qp;

	fault.count = 0;
	flow_plan(&f, &fault);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_expect_eq(nvmfr_qpair_create(f.ctrl, NULL, &qp), -EAGAIN);
	cr_expect(strstr(nvmfr_last_error(), "anew"), "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 1000), -ETIMEDOUT);
	cr_expect_eq(nvmfr_qpair_wait(f.qp, 1000), -ETIMEDOUT);
	/* Queue pair and controller can be put away in the middle of it. */
	flow_down(&f);
}

Test(recovery, members_of_a_group, .timeout = 60)
{
	struct flow f = flow_recovering(60000, 100);
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_completion done[16];
	struct nvmfr_buffer *buf = flow_alloc(&f, 4 * BLOCK);
	struct nvmfr_qpair *qps[4];
	struct nvmfr_group *group;
	unsigned int aborted = 0;
	int got;

	cr_assert_eq(nvmfr_group_create(f.host, NULL, &group), 0);
	opts.group = group;
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert_eq(nvmfr_qpair_create(f.ctrl, &opts, &qps[i]), 0);
		cr_assert_eq(nvmfr_qpair_wait(qps[i], FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
		cr_assert_eq(nvmfr_read(qps[i], f.nsid, i, 1, buf, i * BLOCK, i), 0);
	}
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	while ((got = nvmfr_group_poll(group, done, 16)) > 0)
		for (int i = 0; i < got; i++)
			aborted += done[i].result == -ECONNABORTED;
	cr_expect(got == 0 && aborted == 4, "%d, %u", got, aborted);
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert_eq(nvmfr_qpair_wait(qps[i], FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
		cr_assert_eq(nvmfr_read(qps[i], f.nsid, i, 1, buf, i * BLOCK, i), 0, "%s", nvmfr_last_error());
	}
	for (unsigned int n = 0; n < 4; n += (unsigned int)got) {
		got = nvmfr_group_wait(group, done, 1, 16, FLOW_WAIT_MS);
		cr_assert_gt(got, 0, "%s", nvmfr_last_error());
		for (int i = 0; i < got; i++)
			cr_expect_eq(done[i].result, 0);
	}
	for (unsigned int i = 0; i < 4; i++)
		nvmfr_qpair_destroy(qps[i]);
	cr_assert_eq(nvmfr_group_destroy(group), 0);
	flow_release(buf);
	flow_down(&f);
}

/* The controller is live again, its I/O queue is not yet: an attempt that fails is followed by others. */
Test(recovery, a_queue_that_fails_to_come_back_is_tried_again, .timeout = 60)
{
	const uint32_t kinds[] = { NVMFR_SOFT_FAULT_DISCONNECT, NVMFR_SOFT_FAULT_STATUS };

	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(kinds[i], 1, OPC_FABRICS, FCTYPE_CONNECT, STATUS_INTERNAL_ERROR);
		struct flow f = flow_recovering(60000, 100);

		fault.count = 3;
		comes_back(&f, &fault);
	}
}

/* One that never succeeds ends with the time that the loss has; the controller stays. */
Test(recovery, a_queue_that_never_comes_back, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_FABRICS, FCTYPE_CONNECT, STATUS_INTERNAL_ERROR);
	struct flow f = flow_recovering(5000, 100);

	fault.count = 0;
	flow_plan(&f, &fault);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_expect_lt(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0);
	cr_expect_eq(state_of(&f), NVMFR_STATE_LOST, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	flow_down(&f);
}

/* ---- queues that are not granted ---------------------------------------------------------------- */

enum { GRANTED = 8 };

static void take_down(struct flow *f, struct nvmfr_qpair *qps[GRANTED], uint64_t grants)
{
	/* As Set Features answers it: both numbers 0's based. */
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_RESULT, 0, OPC_SET_FEATURES, FID_NUM_QUEUES,
						   (grants - 1) << 16 | (grants - 1));
	struct nvmfr_completion done;

	flow_plan(f, &fault);
	nvmfr_soft_drop(f->target);
	flow_settle(f);
	for (unsigned int i = 0; i < GRANTED; i++)
		cr_expect_eq(nvmfr_poll(qps[i], &done, 1), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_ctrl_wait(f->ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
}

/* The first n come back, under their handles; the others wait. */
static void expect_back(struct flow *f, struct nvmfr_qpair *qps[GRANTED], unsigned int n)
{
	for (unsigned int i = 0; i < GRANTED; i++) {
		int want = i < n ? 0 : -ETIMEDOUT, got = nvmfr_qpair_wait(qps[i], 100);

		cr_expect_eq(got, want, "queue pair %u of %u: %d", i, n, got);
		cr_expect_eq(flow_qpair_info(qps[i]).state, i < n ? NVMFR_STATE_LIVE : NVMFR_STATE_RECOVERING);
		f->qp = qps[i];
		if (i < n)
			flow_works(f);
		else
			cr_expect_eq(nvmfr_read(qps[i], f->nsid, 0, 1, NULL, 0, 0), -EAGAIN);
	}
	f->qp = NULL;
}

static struct flow granted(struct nvmfr_qpair *qps[GRANTED], uint32_t loss_ms)
{
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.num_io_queues = GRANTED;
	f.opts.ctrl_loss_timeout_ms = loss_ms;
	f.opts.reconnect_delay_ms = 100;
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	for (unsigned int i = 0; i < GRANTED; i++)
		qps[i] = flow_qpair(&f, 8);
	return f;
}

static void granted_down(struct flow *f, struct nvmfr_qpair *qps[GRANTED])
{
	for (unsigned int i = 0; i < GRANTED; i++)
		nvmfr_qpair_destroy(qps[i]);
	flow_down(f);
}

Test(recovery, queues_that_are_not_granted_come_back_later, .timeout = 60)
{
	struct nvmfr_qpair *qps[GRANTED], *more;
	struct flow f = granted(qps, UINT32_MAX);

	take_down(&f, qps, 1);
	expect_back(&f, qps, 1);
	cr_expect(flow_logged(&f, "queue 8: the controller grants 1 queues now"));
	cr_expect_eq(nvmfr_qpair_create(f.ctrl, NULL, &more), -ENOSPC);
	flow_idle_ms(&f, 600000);
	take_down(&f, qps, 2);
	expect_back(&f, qps, 2);
	take_down(&f, qps, 65536);
	cr_expect_eq(flow_ctrl_info(&f).num_io_queues, GRANTED, "no more than was asked for");
	expect_back(&f, qps, GRANTED);
	granted_down(&f, qps);
}

/* None comes within the time that the loss has: lost, and the controller and those that it granted are not. */
Test(recovery, queues_that_are_never_granted_end, .timeout = 60)
{
	struct nvmfr_qpair *qps[GRANTED];
	struct nvmfr_completion done;
	struct flow f = granted(qps, 5000);

	take_down(&f, qps, 3);
	expect_back(&f, qps, 3);
	flow_idle_ms(&f, 5000);
	for (unsigned int i = 3; i < GRANTED; i++) {
		cr_expect_eq(nvmfr_qpair_wait(qps[i], FLOW_WAIT_MS), -ENOSPC);
		flow_says("grants 3 queues now");
		cr_expect_eq(nvmfr_poll(qps[i], &done, 1), -ENOTCONN);
		cr_expect_eq(flow_qpair_info(qps[i]).state, NVMFR_STATE_LOST);
	}
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	f.qp = qps[0];
	flow_works(&f);
	f.qp = NULL;
	granted_down(&f, qps);
}

/* The number of queues is never answered: that is a failed attempt, and not an association without queues. */
Test(recovery, number_of_queues_unanswered, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_SET_FEATURES, FID_NUM_QUEUES, 0);
	struct nvmfr_qpair *qps[GRANTED];
	struct flow f = granted(qps, UINT32_MAX);

	fault.count = 2;
	flow_plan(&f, &fault);
	take_down(&f, qps, GRANTED);
	cr_expect(flow_logged(&f, "number of queues: no answer within admin_timeout_ms"), "%s", f.log->text);
	expect_back(&f, qps, GRANTED);
	granted_down(&f, qps);
}

/* ---- many at once ------------------------------------------------------------------------------- */

enum { MANY_QUEUES = 64,
       AT_A_TIME = 8,
       SLOW_MS = 3000 };

/*
 * All come up together: eight of them connect at a time, each in as long as its Connect takes, and the
 * controller hears Keep Alives meanwhile. KATO is 10 s.
 */
static void come_up(struct flow *f, struct nvmfr_qpair *qps[MANY_QUEUES])
{
	uint64_t before = flow_counters(f).keep_alives, most = 0;
	unsigned int live = 0, ms = 0;

	for (; live < MANY_QUEUES && ms < 30000; ms += 100) {
		struct nvmfr_completion done;
		uint64_t open;

		flow_idle_ms(f, 100);
		live = 0;
		for (unsigned int i = 0; i < MANY_QUEUES; i++) {
			cr_assert_eq(nvmfr_poll(qps[i], &done, 1), 0, "%s", nvmfr_last_error());
			live += flow_qpair_info(qps[i]).state == NVMFR_STATE_LIVE;
		}
		open = flow_counters(f).open_connections;
		cr_expect_leq(open, live + 1 + AT_A_TIME, "%lu connections, %u live", (unsigned long)open, live);
		most = open > live && open - live > most ? open - live : most;
	}
	cr_expect_eq(live, (unsigned int)MANY_QUEUES, "%u are live", live);
	cr_expect_eq(most, 1u + AT_A_TIME);
	cr_expect(ms >= MANY_QUEUES / AT_A_TIME * SLOW_MS && ms < MANY_QUEUES / AT_A_TIME * SLOW_MS + 4000, "%u ms",
		  ms);
	cr_expect_geq(flow_counters(f).keep_alives - before, 3u);
	cr_expect_eq(nvmfr_ctrl_state(f->ctrl), NVMFR_STATE_LIVE);
}

Test(recovery, many_come_up_eight_at_a_time, .timeout = 60)
{
	struct nvmfr_soft_fault slow = flow_fault(NVMFR_SOFT_FAULT_DELAY, NVMFR_SOFT_ANY, OPC_FABRICS,
						  FCTYPE_CONNECT, SLOW_MS * 1000);
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_qpair *qps[MANY_QUEUES];
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.num_io_queues = MANY_QUEUES;
	f.opts.ctrl_loss_timeout_ms = UINT32_MAX;
	f.opts.reconnect_delay_ms = 100;
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	slow.count = 0;
	flow_plan(&f, &slow);
	for (unsigned int i = 0; i < MANY_QUEUES; i++)
		cr_assert_eq(nvmfr_qpair_create(f.ctrl, &opts, &qps[i]), 0, "%s", nvmfr_last_error());
	come_up(&f, qps);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	come_up(&f, qps);
	for (unsigned int i = 0; i < MANY_QUEUES; i++)
		nvmfr_qpair_destroy(qps[i]);
	flow_down(&f);
}

/* ---- fast_io_fail_ms --------------------------------------------------------------------------- */

enum { FAST_MS = 3000 };

/* How many events of fast_io_fail_ms are there, each of so many queue pairs; all others are fetched, too. */
static unsigned int failed_fast(const struct flow *f, uint64_t qpairs)
{
	struct nvmfr_event event;
	unsigned int n = 0;

	while (nvmfr_host_events(f->host, &event, 1) == 1) {
		if (event.type != NVMFR_EVENT_FAST_IO_FAIL)
			continue;
		n++;
		cr_expect(event.ctrl == f->ctrl && event.value == qpairs && !event.nsid && !event.result,
			  "of %llu queue pairs", (unsigned long long)event.value);
	}
	return n;
}

static struct flow failing_fast(struct nvmfr_qpair *more[2], uint32_t loss_ms)
{
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.ctrl_loss_timeout_ms = loss_ms;
	f.opts.reconnect_delay_ms = 100;
	f.opts.fast_io_fail_ms = FAST_MS;
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	for (unsigned int i = 0; i < 2; i++)
		more[i] = flow_qpair(&f, 8);
	cr_expect_eq(failed_fast(&f, 0), 0u);
	return f;
}

static void fast_down(struct flow *f, struct nvmfr_qpair *more[2])
{
	for (unsigned int i = 0; i < 2; i++)
		nvmfr_qpair_destroy(more[i]);
	flow_down(f);
}

/* So many of the controller's queue pairs are over their time: told once, when it is, for all of them. */
static void told_once(struct flow *f, struct nvmfr_qpair *more[2], uint64_t qpairs)
{
	struct nvmfr_completion done;

	nvmfr_soft_drop(f->target);
	flow_settle(f);
	for (unsigned int i = 0; i < 2; i++)
		cr_expect_eq(nvmfr_poll(more[i], &done, 1), 0);
	cr_expect_eq(nvmfr_poll(f->qp, &done, 1), 0);
	flow_idle_ms(f, FAST_MS - 100);
	cr_expect_eq(failed_fast(f, qpairs), 0u);
	flow_idle_ms(f, 200);
	cr_expect_eq(failed_fast(f, qpairs), 1u);
	cr_expect_eq(nvmfr_read(f->qp, f->nsid, 0, 1, NULL, 0, 0), -ENOTCONN);
	flow_says("fast_io_fail_ms");
	flow_idle_ms(f, 60000);
	cr_expect_eq(failed_fast(f, qpairs), 0u);
	nvmfr_soft_fault_clear(f->target);
	cr_assert_eq(nvmfr_ctrl_wait(f->ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_qpair_wait(f->qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	flow_works(f);
}

Test(recovery, fast_io_fail_is_told_once_a_loss, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_CM_UNREACHABLE, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_qpair *more[2];
	struct flow f = failing_fast(more, UINT32_MAX);

	fault.count = 0;
	flow_plan(&f, &fault);
	told_once(&f, more, 3);
	flow_plan(&f, &fault);
	told_once(&f, more, 3);
	/* Its connection alone does not come back: its controller is live. */
	fault.qid = 1;
	flow_plan(&f, &fault);
	told_once(&f, more, 1);
	fast_down(&f, more);
}

/* As an application's loop does, for more than that time. */
static void poll_on(struct flow *f, struct nvmfr_qpair *more[2])
{
	struct nvmfr_completion done;

	nvmfr_soft_drop(f->target);
	for (unsigned int i = 0; i < 100; i++) {
		flow_idle_ms(f, FAST_MS / 50);
		cr_expect_leq(nvmfr_poll(f->qp, &done, 1), 0);
		cr_expect_leq(nvmfr_poll(more[0], &done, 1), 0);
		cr_expect_leq(nvmfr_poll(more[1], &done, 1), 0);
	}
	cr_expect_eq(failed_fast(f, 0), 0u);
}

/* In real time, in which no two moments are the same, while owners wake the service: all of them are over together. */
Test(recovery, fast_io_fail_is_one_event_for_many, .timeout = 60)
{
	enum { QUEUES = 64,
	       LOSSES = 20 };
	struct nvmfr_qpair *qps[QUEUES];
	struct nvmfr_completion done;
	struct nvmfr_event event;
	struct flow f = { 0 };

	flow_host_thread(&f);
	flow_target(&f, NULL);
	f.opts.ctrl_loss_timeout_ms = 60000;
	f.opts.reconnect_delay_ms = 60;
	f.opts.fast_io_fail_ms = 30;
	flow_connect(&f);
	for (unsigned int i = 0; i < QUEUES; i++)
		qps[i] = flow_qpair(&f, 8);
	for (unsigned int n = 0; n < LOSSES; n++) {
		nvmfr_soft_drop(f.target);
		for (unsigned int i = 0; i < QUEUES * 50; i++) {
			cr_expect_geq(nvmfr_poll(qps[i % QUEUES], &done, 1), 0);
			if (i % QUEUES == 0)
				usleep(1000);
		}
		for (unsigned int i = 0; i < QUEUES; i++)
			while (nvmfr_qpair_wait(qps[i], 100))
				(void)!nvmfr_poll(qps[i], &done, 1);
		while (nvmfr_host_events(f.host, &event, 1) == 1)
			if (event.type == NVMFR_EVENT_FAST_IO_FAIL)
				cr_expect_eq(event.value, QUEUES, "%u of them", (unsigned int)event.value);
	}
	for (unsigned int i = 0; i < QUEUES; i++)
		nvmfr_qpair_destroy(qps[i]);
	flow_down(&f);
}

Test(recovery, fast_io_fail_is_not_told_of_what_is_back_or_gone, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_CM_UNREACHABLE, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_qpair *more[2];
	struct flow f = failing_fast(more, FAST_MS - 1000);

	fault.count = 0;
	poll_on(&f, more);
	cr_expect_eq(state_of(&f), NVMFR_STATE_LIVE);
	flow_plan(&f, &fault);
	poll_on(&f, more);
	cr_expect_eq(state_of(&f), NVMFR_STATE_LOST);
	fast_down(&f, more);
}

/* ---- in real time, from two threads ----------------------------------------------------------- */

struct reader {
	struct flow *f;
	pthread_barrier_t *start;
	unsigned int good, lost;
	bool failed;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	struct nvmfr_buffer *buf = NULL;
	struct nvmfr_qpair *qp = NULL;

	r->failed = nvmfr_qpair_create(r->f->ctrl, NULL, &qp) || nvmfr_qpair_wait(qp, -1) ||
		    nvmfr_buffer_alloc(r->f->host, BLOCK, -1, &buf);
	pthread_barrier_wait(r->start);
	while (!r->failed && r->good < 2000) {
		struct nvmfr_completion done;
		int err = nvmfr_read(qp, r->f->nsid, r->good, 1, buf, 0, 0);

		r->failed = err && err != -EAGAIN;
		/* Refused, there is nothing to wait for: a connection made meanwhile would not end it. */
		err = err ? nvmfr_poll(qp, &done, 1) : nvmfr_wait(qp, &done, 1, 1, 20000);
		r->failed = r->failed || err < 0;
		if (err == 1 && done.result == 0)
			r->good++;
		else if (err == 1)
			r->lost++;
	}
	nvmfr_qpair_destroy(qp);
	r->failed = nvmfr_buffer_release(buf) || r->failed;
	return NULL;
}

Test(recovery, two_threads_read_on, .timeout = 120)
{
	struct flow f = { 0 };
	pthread_barrier_t start;
	struct reader readers[2] = { { .f = &f, .start = &start }, { .f = &f, .start = &start } };
	pthread_t threads[2];

	pthread_barrier_init(&start, NULL, 3);
	flow_host_thread(&f);
	flow_target(&f, NULL);
	f.opts.ctrl_loss_timeout_ms = UINT32_MAX;
	f.opts.reconnect_delay_ms = 1;
	f.nsid = flow_ns(&f, 64 * MIB, BLOCK);
	flow_connect(&f);
	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
	pthread_barrier_wait(&start);
	for (unsigned int i = 0; i < 10; i++) {
		nvmfr_soft_drop(f.target);
		cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 20000), 0, "%s", nvmfr_last_error());
	}
	for (unsigned int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		cr_expect(!readers[i].failed && readers[i].good == 2000, "%u good, %u lost", readers[i].good,
			  readers[i].lost);
	}
	flow_down(&f);
}

static _Atomic bool dropped_all;

static void *wait_on(void *arg)
{
	struct reader *r = arg;
	struct nvmfr_qpair *qp = NULL;

	r->failed = nvmfr_qpair_create(r->f->ctrl, NULL, &qp);
	pthread_barrier_wait(r->start);
	for (; !r->failed && !atomic_load(&dropped_all); r->good++)
		r->failed = nvmfr_qpair_wait(qp, 60000);
	nvmfr_qpair_destroy(qp);
	return NULL;
}

/* A queue pair that is live, and lost again before who waits for it has looked: the wait goes on. */
Test(recovery, lost_again_while_waited_for, .timeout = 120)
{
	struct flow f = { 0 };
	pthread_barrier_t start;
	struct reader waiter = { .f = &f, .start = &start };
	pthread_t thread;

	pthread_barrier_init(&start, NULL, 2);
	flow_host_thread(&f);
	flow_target(&f, NULL);
	f.opts.ctrl_loss_timeout_ms = UINT32_MAX;
	f.opts.reconnect_delay_ms = 1;
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	cr_assert_eq(pthread_create(&thread, NULL, wait_on, &waiter), 0);
	pthread_barrier_wait(&start);
	for (unsigned int i = 0; i < 300; i++) {
		nvmfr_soft_drop(f.target);
		cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 20000), 0, "%s", nvmfr_last_error());
	}
	atomic_store(&dropped_all, true);
	pthread_join(thread, NULL);
	cr_expect(!waiter.failed, "after %u", waiter.good);
	flow_down(&f);
}

static bool moves(const struct flow *f, unsigned int looks)
{
	uint64_t before = flow_counters(f).bytes_moved;
	bool moved = false;

	for (unsigned int i = 0; i < looks && !moved; i++) {
		sched_yield();
		moved = flow_counters(f).bytes_moved != before;
	}
	return moved;
}

/* The old connection still brings data while it is known to be lost; not any more when the I/O is told. */
Test(recovery, memory_is_the_callers_again, .timeout = 60)
{
	struct nvmfr_soft_opts soft = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f = { 0 };

	flow_host_unfrozen(&f);
	soft.flags = NVMFR_SOFT_THREAD;
	flow_target(&f, &soft);
	f.opts.ctrl_loss_timeout_ms = 60000;
	f.nsid = flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, FLOW_DEPTH);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_LINGER, OPC_READ, UINT32_MAX);
	flow_reads(&f, buf, 1);
	cr_expect(moves(&f, UINT32_MAX));
	nvmfr_soft_drop(f.target);
	while (state_of(&f) == NVMFR_STATE_LIVE)
		(void)nvmfr_host_poll(f.host);
	cr_expect(moves(&f, UINT32_MAX), "lost, and not told");
	cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.result, -ECONNABORTED, "%d", done.result);
	cr_expect(!moves(&f, 1000), "told");
	flow_release(buf);
	flow_down(&f);
}

/* Who waits meanwhile sleeps: what it used of its processor would show a loop. */
Test(recovery, a_sleeper_sleeps, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct flow f = flow_recovering(60000, 100);
	struct nvmfr_completion done;

	fault.count = 0;
	flow_plan(&f, &fault);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_expect_eq(drain(&f, -ECONNABORTED), 0u);
	(void)nvmfr_qpair_arm(f.qp); /* news that were there before */
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0, "nothing to poll for until the service says more");
	flow_down(&f);
}
