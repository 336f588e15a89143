/* SPDX-License-Identifier: BSD-3-Clause */
/* The soft fabric in time: latency, sleepers, keep-alive. */
#include "soft_rig.h"

#include <stdatomic.h>

Test(soft_time, latency_in_virtual_time)
{
	struct nvmfr_soft_opts opts;
	struct nvme_cqe cqe;
	struct nvme_sqe sqe;
	struct rig rig;
	uint64_t start;

	nvmfr__soft_opts_default(&opts);
	opts.latency_us = 50;
	rig_up(&rig, &opts);
	nvmfr__clock_freeze(&rig.clock);
	start = nvmfr__clock_now_ns(&rig.clock);
	cr_expect_eq(ops->ep_due_ns(rig.io.ep), SOFT_NEVER, "nothing is due");
	sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
	rig_post(&rig.io, &sqe, NULL);
	cr_expect_eq(ops->ep_due_ns(rig.io.ep), start + 50000, "due after the latency");
	nvmfr__clock_advance_ns(&rig.clock, 49999);
	cr_expect_eq(rig_poll(&rig.io, &cqe), 0, "not yet");
	cr_expect_eq(ops->arm(rig.io.ep), 0, "sleep");
	nvmfr__clock_advance_ns(&rig.clock, 1);
	cr_expect_eq(ops->arm(rig.io.ep), 1, "something is due");
	cr_expect_eq(rig_poll(&rig.io, &cqe), 1, "now");
	rig_down(&rig);
}

static void sleep_for_answer(uint32_t flags, uint32_t latency_us)
{
	struct nvmfr_soft_opts opts;
	struct nvme_cqe cqe;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.latency_us = latency_us;
	opts.flags = flags;
	rig_up(&rig, &opts);
	for (int i = 0; i < 20; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);
		struct pollfd fd = { .fd = ops->ep_fd(rig.io.ep), .events = POLLIN };

		rig_post(&rig.io, &sqe, NULL);
		while (rig_poll(&rig.io, &cqe) == 0)
			if (ops->arm(rig.io.ep) == 0)
				cr_assert_eq(poll(&fd, 1, RIG_WAIT_MS), 1, "the descriptor gets readable");
	}
	rig_down(&rig);
}

Test(soft_time, sleep_inline)
{
	sleep_for_answer(0, 300);
}

Test(soft_time, sleep_in_thread)
{
	sleep_for_answer(NVMFR_SOFT_THREAD, 0);
	sleep_for_answer(NVMFR_SOFT_THREAD, 300);
}

Test(soft_time, a_post_wakes_the_thread)
{
	struct nvmfr_soft_opts opts;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.flags = NVMFR_SOFT_THREAD;
	rig_up(&rig, &opts);
	for (int i = 0; i < 20; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);

		while (!atomic_load(&rig.target->sleeping))
			sched_yield();
		rig_counters(&rig); /* takes the lock, which the thread lets go in its sleep only */
		cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), 0, "read");
	}
	rig_down(&rig);
}

Test(soft_time, the_keep_alive_runs_out_exactly)
{
	struct nvme_sqe sqe;
	struct fab_event ev;
	struct rig rig;
	uint64_t start;

	rig_up(&rig, NULL);
	nvmfr__clock_freeze(&rig.clock);
	cr_expect_eq(ops->due_ns(rig.fab), SOFT_NEVER, "no keep-alive");
	start = nvmfr__clock_now_ns(&rig.clock);
	nvme_sqe_set_features(&sqe, NVME_FEAT_KATO, 1000);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), 0, "Set Features");
	cr_expect_eq(ops->due_ns(rig.fab), start + 1000000000, "one second from now");
	nvmfr__clock_advance_ns(&rig.clock, 999999999);
	nvme_sqe_keep_alive(&sqe);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), 0, "Keep Alive");
	nvmfr__clock_advance_ns(&rig.clock, 999999999);
	cr_expect_eq(ops->next_event(rig.fab, &ev), 0, "still there");
	nvmfr__clock_advance_ns(&rig.clock, 1);
	cr_expect_eq(ops->next_event(rig.fab, &ev), 1, "the end");
	cr_expect_eq(ev.type, FAB_EV_DISCONNECTED, "as an event");
	cr_expect_not_null(strstr(ev.text, "keep-alive"), "%s", ev.text);
	cr_expect_eq(ops->next_event(rig.fab, &ev), 1, "of both queues");
	cr_expect_eq(rig_counters(&rig).keep_alives, 1, "counted");
	rig_down(&rig);
}
