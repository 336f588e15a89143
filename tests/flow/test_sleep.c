/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on descriptors: nobody who sleeps misses what he waits for. */
#include "flow.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BLOCK = 512 };

static void small_up(struct flow *f)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, MIB, BLOCK);
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

/* ---- arming and sleeping --------------------------------------------------------------------- */

Test(sleep, arm_says_when_something_is_there)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	small_up(&f);
	buf = flow_alloc(&f, 8 * BLOCK);
	cr_expect_geq(nvmfr_qpair_fd(f.qp), 0);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0, "nothing is in flight");
	flow_reads(&f, buf, 2);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 1, "the target answers at once");
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 1);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 1, "the other one is there, too");
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 1);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0);
	flow_release(buf);
	flow_down(&f);
}

Test(sleep, fd_is_the_same_each_time_and_silent_at_first)
{
	struct flow f;
	int fd;

	small_up(&f);
	fd = nvmfr_qpair_fd(f.qp);
	cr_expect_geq(fd, 0);
	cr_expect_eq(nvmfr_qpair_fd(f.qp), fd);
	cr_expect_eq(nvmfr_qpair_arm(f.qp), 0);
	cr_expect(!readable(fd, 0));
	flow_down(&f);
}

/* Real time: the target serves inside poll, so the descriptor rings when the answer is due. */
Test(sleep, fd_rings_when_an_answer_is_due)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.latency_us = 2000;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 20; i++) {
		flow_reads(&f, buf, 1);
		while (nvmfr_poll(f.qp, &done, 1) == 0)
			if (nvmfr_qpair_arm(f.qp) == 0)
				cr_assert(readable(nvmfr_qpair_fd(f.qp), 20000), "nobody rang");
	}
	flow_release(buf);
	flow_down(&f);
}

/* What an application does: poll until nothing, arm, sleep. A lost wake-up is a bell that never rings. */
static unsigned int sleep_and_collect(struct flow *f)
{
	struct nvmfr_completion done[8];
	int n;

	for (;;) {
		n = nvmfr_poll(f->qp, done, 8);
		if (n != 0)
			break;
		n = nvmfr_qpair_arm(f->qp);
		cr_assert_geq(n, 0, "arm: %s", nvmfr_last_error());
		if (n == 0)
			cr_assert(readable(nvmfr_qpair_fd(f->qp), 20000), "a wake-up was lost");
	}
	cr_assert_gt(n, 0, "poll: %s", nvmfr_last_error());
	return (unsigned int)n;
}

static void sleeper_loses_nothing(uint32_t latency_us, unsigned int at_a_time, unsigned int rounds)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	opts.latency_us = latency_us;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, 8 * BLOCK);
	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int left = at_a_time;

		flow_reads(&f, buf, at_a_time);
		while (left)
			left -= sleep_and_collect(&f);
	}
	flow_release(buf);
	flow_down(&f);
}

Test(sleep, sleeper_of_one_loses_no_wake_up, .timeout = 60)
{
	sleeper_loses_nothing(0, 1, 5000);
}

Test(sleep, sleeper_of_three_loses_no_wake_up, .timeout = 60)
{
	sleeper_loses_nothing(0, 3, 3000);
}

Test(sleep, sleeper_with_latency_loses_no_wake_up, .timeout = 60)
{
	sleeper_loses_nothing(100, 2, 1000);
}

/* In-capsule writes: the response may come before the SEND is done, and both must wake. */
Test(sleep, sleeper_on_in_capsule_writes_loses_no_wake_up, .timeout = 60)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 3000; i++) {
		cr_assert_eq(nvmfr_write(f.qp, f.nsid, 0, 1, buf, 0, 0), 0);
		sleep_and_collect(&f);
	}
	flow_release(buf);
	flow_down(&f);
}

Test(sleep, waiter_loses_no_wake_up, .timeout = 60)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 3000; i++) {
		flow_reads(&f, buf, 1);
		cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, 20000), 1, "a wake-up was lost at %u",
			     i);
	}
	flow_release(buf);
	flow_down(&f);
}

/* ---- a sleeper and the end of the association ------------------------------------------------ */

static void *drop_soon(void *arg)
{
	struct flow *f = arg;
	struct pollfd nothing = { .fd = -1 };

	/* Not to be exact: both orders must work, this makes it likely that the other side sleeps. */
	poll(&nothing, 1, 20);
	nvmfr_soft_drop(f->target);
	return NULL;
}

static void sleep_until_dropped(uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	pthread_t thread;
	struct flow f;
	int n;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	cr_assert_geq(nvmfr_qpair_fd(f.qp), 0);
	cr_assert_eq(pthread_create(&thread, NULL, drop_soon, &f), 0);
	while ((n = nvmfr_poll(f.qp, &done, 1)) == 0)
		if (nvmfr_qpair_arm(f.qp) == 0)
			cr_assert(readable(nvmfr_qpair_fd(f.qp), 20000),
				  "the sleeper was not woken");
	cr_expect_eq(n, -ENOTCONN);
	pthread_join(thread, NULL);
	flow_down(&f);
}

Test(sleep, sleeper_is_woken_when_the_association_dies)
{
	sleep_until_dropped(0);
}

Test(sleep, sleeper_is_woken_when_the_association_dies_in_another_thread)
{
	sleep_until_dropped(NVMFR_SOFT_THREAD);
}

static void wait_until_dropped(uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done[4];
	struct nvmfr_buffer *buf;
	pthread_t thread;
	struct flow f;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	buf = flow_alloc(&f, BLOCK);
	flow_reads(&f, buf, 1);
	cr_assert_eq(pthread_create(&thread, NULL, drop_soon, &f), 0);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 4, 20000), 1);
	cr_expect_eq(done[0].result, -ECONNABORTED);
	cr_expect_eq(nvmfr_wait(f.qp, done, 1, 4, 20000), -ENOTCONN);
	pthread_join(thread, NULL);
	flow_release(buf);
	flow_down(&f);
}

Test(sleep, waiter_is_woken_when_the_association_dies)
{
	wait_until_dropped(0);
}

Test(sleep, waiter_is_woken_when_the_association_dies_in_another_thread)
{
	wait_until_dropped(NVMFR_SOFT_THREAD);
}

/* Nobody polls: the service tells the sleeper that a command is over its time. */
Test(sleep, sleeper_is_woken_when_a_command_is_late)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;
	int n;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	f.opts.kato_ms = 0; /* nothing else wakes the service */
	flow_connect(&f);
	opts.io_timeout_ms = 200;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_READ, 0);
	buf = flow_alloc(&f, BLOCK);
	flow_reads(&f, buf, 1);
	while ((n = nvmfr_poll(f.qp, &done, 1)) == 0)
		if (nvmfr_qpair_arm(f.qp) == 0)
			cr_assert(readable(nvmfr_qpair_fd(f.qp), 20000),
				  "the sleeper was not woken");
	cr_expect_eq(n, 1);
	cr_expect_eq(done.result, -ETIMEDOUT);
	flow_release(buf);
	flow_down(&f);
}

/* ---- the host's own descriptor --------------------------------------------------------------- */

/* A manual host in real time, driven by epoll on its descriptor alone. */
static void drive(struct flow *f)
{
	int timeout = nvmfr_host_timeout_ms(f->host);

	readable(nvmfr_host_fd(f->host), timeout < 0 ? 1000 : timeout);
	cr_assert_eq(nvmfr_host_poll(f->host), 0);
}

Test(sleep, manual_host_by_its_descriptor)
{
	struct nvmfr_host_opts opts;
	struct flow f;

	flow_host(&f);
	nvmfr_host_destroy(f.host);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &f.host), 0);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	while (nvmfr_ctrl_state(f.ctrl) == NVMFR_STATE_CONNECTING)
		drive(&f);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &f.qp), 0);
	while (flow_qpair_info(f.qp).state == NVMFR_STATE_CONNECTING)
		drive(&f);
	flow_works(&f);
	flow_down(&f);
}

Test(sleep, manual_host_in_real_time_does_not_dawdle, .timeout = 30)
{
	struct nvmfr_host_opts opts;
	struct flow f;

	flow_host(&f);
	nvmfr_host_destroy(f.host);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &f.host), 0);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	/* Each would cost a second if it waited behind what it waits for. */
	for (unsigned int i = 0; i < 20; i++) {
		flow_connect(&f);
		f.qp = flow_qpair(&f, 8);
		flow_works(&f);
		nvmfr_qpair_destroy(f.qp);
		cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	}
	f.qp = NULL;
	f.ctrl = NULL;
	flow_down(&f);
}

/* The descriptor may stand in an epoll set of the application. */
Test(sleep, fd_in_an_epoll_set)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	cr_assert_eq(epoll_ctl(set, EPOLL_CTL_ADD, nvmfr_qpair_fd(f.qp), &event), 0);
	buf = flow_alloc(&f, BLOCK);
	for (unsigned int i = 0; i < 100; i++) {
		flow_reads(&f, buf, 1);
		while (nvmfr_poll(f.qp, &done, 1) == 0)
			if (nvmfr_qpair_arm(f.qp) == 0)
				cr_assert_eq(epoll_wait(set, &event, 1, 20000), 1, "nobody rang");
	}
	close(set);
	flow_release(buf);
	flow_down(&f);
}
