/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: queue pairs of one thread, and of several controllers, polled together. */
#include "flow.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BLOCK = 512,
	QPAIRS = 8, /* the first half is of f.ctrl, the rest of second */
	DEPTH = 16,
	PER_QPAIR = 8, /* I/Os in flight */
	IOS = QPAIRS * PER_QPAIR,
	MANY = 64,
};

struct scene {
	struct flow f;
	struct nvmfr_ctrl *second;
	struct nvmfr_group *group;
	struct nvmfr_qpair *qps[QPAIRS];
	struct nvmfr_buffer *buf; /* a block for each I/O */
};

/* ---- up and down ----------------------------------------------------------------------------- */

static void add_qpairs(struct scene *s, uint32_t timeout_ms)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(DEPTH);

	opts.group = s->group;
	opts.io_timeout_ms = timeout_ms;
	for (unsigned int i = 0; i < QPAIRS; i++) {
		struct nvmfr_ctrl *ctrl = i < QPAIRS / 2 ? s->f.ctrl : s->second;

		opts.qpair_data = i;
		cr_assert_eq(nvmfr_qpair_create(ctrl, &opts, &s->qps[i]), 0, "queue pair: %s",
			     nvmfr_last_error());
	}
	for (unsigned int i = 0; i < QPAIRS; i++)
		cr_assert_eq(nvmfr_qpair_wait(s->qps[i], FLOW_WAIT_MS), 0, "queue pair: %s",
			     nvmfr_last_error());
}

static void add_group(struct scene *s, const struct nvmfr_soft_opts *opts, uint32_t timeout_ms)
{
	flow_target(&s->f, opts);
	flow_ns(&s->f, MIB, BLOCK);
	flow_connect(&s->f);
	cr_assert_eq(nvmfr_connect(s->f.host, &s->f.opts, &s->second), 0, "connect: %s",
		     nvmfr_last_error());
	cr_assert_eq(nvmfr_ctrl_wait(s->second, -1), 0, "connect: %s", nvmfr_last_error());
	cr_assert_eq(nvmfr_group_create(s->f.host, NULL, &s->group), 0, "group: %s",
		     nvmfr_last_error());
	add_qpairs(s, timeout_ms);
	s->buf = flow_alloc(&s->f, (size_t)IOS * BLOCK);
}

static void scene_up(struct scene *s)
{
	flow_host(&s->f);
	add_group(s, NULL, 30000);
}

/* With a service thread, and a target of which every answer takes a while. */
static void scene_up_slow(struct scene *s)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.latency_us = 2000;
	flow_host_thread(&s->f);
	add_group(s, &opts, 30000);
}

static void scene_down(struct scene *s)
{
	for (unsigned int i = 0; i < QPAIRS; i++)
		nvmfr_qpair_destroy(s->qps[i]);
	cr_expect_eq(nvmfr_group_destroy(s->group), 0, "group: %s", nvmfr_last_error());
	flow_release(s->buf);
	cr_expect_eq(nvmfr_disconnect(s->second, 1000), 0, "disconnect: %s", nvmfr_last_error());
	flow_down(&s->f);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

/* I/O i of queue pair q has this block, in the namespace and in the buffer. */
static unsigned int place(unsigned int q, unsigned int i)
{
	return q * PER_QPAIR + i;
}

static void start_one(struct scene *s, uint8_t op, unsigned int q, unsigned int i)
{
	unsigned int at = place(q, i);
	struct nvmfr_io io = flow_io(&s->f, op, at, 1, s->buf, at * UINT64_C(512));

	io.user_data = at;
	cr_assert_eq(nvmfr_submit(s->qps[q], &io, 1), 1, "submit: %s", nvmfr_last_error());
}

static void start_all(struct scene *s, uint8_t op)
{
	for (unsigned int q = 0; q < QPAIRS; q++)
		for (unsigned int i = 0; i < PER_QPAIR; i++)
			start_one(s, op, q, i);
}

static void fill(const struct scene *s, unsigned char seed)
{
	unsigned char *mem = nvmfr_buffer_addr(s->buf);

	for (unsigned int i = 0; i < IOS; i++)
		memset(mem + (size_t)i * BLOCK, (int)(unsigned char)(i + seed), BLOCK);
}

static void expect_filled(const struct scene *s, unsigned char seed)
{
	const unsigned char *mem = nvmfr_buffer_addr(s->buf);

	for (unsigned int i = 0; i < IOS * BLOCK; i++)
		cr_assert_eq(mem[i], (unsigned char)(i / BLOCK + seed), "byte %u", i);
}

/* Each once, and with the name of its queue pair. */
static void note(struct flow_outcome *o, const struct nvmfr_completion *done, int n)
{
	cr_assert_geq(n, 0, "poll: %s", nvmfr_last_error());
	flow_note(o, done, (unsigned int)n);
	for (int i = 0; i < n; i++)
		cr_assert_eq(done[i].qpair_data, done[i].user_data / PER_QPAIR, "whose?");
}

static void take_all(struct scene *s, struct flow_outcome *o, unsigned int max)
{
	struct nvmfr_completion done[MANY];
	int n;

	*o = (struct flow_outcome){ .n = IOS };
	do {
		n = nvmfr_group_poll(s->group, done, max);
		cr_assert_leq(n, (int)max);
		note(o, done, n);
	} while (n > 0);
	flow_each_once(o);
}

static void works(struct scene *s, unsigned int max, unsigned char seed)
{
	struct flow_outcome o;

	fill(s, seed);
	start_all(s, NVMFR_OP_WRITE);
	take_all(s, &o, max);
	cr_expect_eq(flow_count(&o, 0), IOS);
	fill(s, 99);
	start_all(s, NVMFR_OP_READ);
	take_all(s, &o, max);
	cr_expect_eq(flow_count(&o, 0), IOS);
	expect_filled(s, seed);
}

Test(group, data_of_all_members)
{
	struct scene s;

	scene_up(&s);
	works(&s, MANY, 1);
	works(&s, 3, 2);
	works(&s, 1, 3);
	scene_down(&s);
}

Test(group, a_group_of_one_and_an_empty_one)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_group *group, *empty;
	struct nvmfr_completion done;
	struct flow f;

	flow_up(&f, NULL);
	nvmfr_qpair_destroy(f.qp);
	cr_assert_eq(nvmfr_group_create(f.host, NULL, &group), 0);
	cr_assert_eq(nvmfr_group_create(f.host, NULL, &empty), 0);
	opts.group = group;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	flow_works(&f);
	cr_expect_eq(nvmfr_group_poll(group, &done, 1), 0);
	cr_expect_eq(nvmfr_group_poll(empty, &done, 1), 0);
	cr_expect_eq(nvmfr_group_wait(empty, &done, 1, 1, 10), 0);
	cr_expect_eq(nvmfr_group_arm(empty), 0);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	cr_expect_eq(nvmfr_group_destroy(group), 0);
	cr_expect_eq(nvmfr_group_destroy(empty), 0);
	flow_down(&f);
}

/* One that is busy all the time, an array that it fills alone, and another one with one I/O. */
static void is_heard(struct scene *s, unsigned int other, unsigned int max)
{
	struct nvmfr_completion done[PER_QPAIR];
	bool heard = false;

	start_one(s, NVMFR_OP_READ, other, 0);
	for (unsigned int polls = 0; !heard; polls++) {
		int n = nvmfr_group_poll(s->group, done, max);

		cr_assert_lt(polls, 100, "arrays of %u: the busy one is all that is served", max);
		cr_assert_gt(n, 0);
		for (int i = 0; i < n; i++) {
			if (done[i].qpair_data == other)
				heard = true;
			else
				start_one(s, NVMFR_OP_READ, 3, (unsigned int)done[i].user_data % PER_QPAIR);
		}
	}
}

Test(group, nobody_starves)
{
	struct scene s;

	scene_up(&s);
	for (unsigned int i = 0; i < PER_QPAIR; i++)
		start_one(&s, NVMFR_OP_READ, 3, i);
	for (unsigned int max = 1; max <= PER_QPAIR; max++) {
		is_heard(&s, 0, max);
		is_heard(&s, QPAIRS - 1, max);
	}
	scene_down(&s);
}

/* Polled by itself with an array that is too small: the group has what is left. */
Test(group, a_member_polled_by_itself)
{
	struct nvmfr_completion done[MANY];
	struct flow_outcome o = { .n = IOS };
	struct scene s;

	scene_up(&s);
	start_all(&s, NVMFR_OP_READ);
	for (unsigned int q = 0; q < QPAIRS; q++)
		note(&o, done, nvmfr_poll(s.qps[q], done, 1));
	note(&o, done, nvmfr_wait(s.qps[2], done, PER_QPAIR - 1, MANY, FLOW_WAIT_MS));
	(void)nvmfr_qpair_arm(s.qps[2]); /* news of the connects */
	cr_expect_eq(nvmfr_qpair_arm(s.qps[2]), 0, "all of its own are in");
	cr_expect_eq(nvmfr_qpair_arm(s.qps[3]), 1);
	note(&o, done, nvmfr_group_poll(s.group, done, MANY));
	flow_each_once(&o);
	cr_expect_eq(nvmfr_group_poll(s.group, done, MANY), 0);
	scene_down(&s);
}

Test(group, pread_on_a_member)
{
	struct scene s;

	scene_up(&s);
	works(&s, MANY, 7);
	cr_assert_eq(nvmfr_pread(s.qps[5], s.f.nsid, 100, s.buf, 0, 1000, FLOW_WAIT_MS), 0, "%s",
		     nvmfr_last_error());
	cr_expect_eq(((unsigned char *)nvmfr_buffer_addr(s.buf))[0], 7);
	scene_down(&s);
}

/* ---- the end of members ---------------------------------------------------------------------- */

/* The controllers' first writes: the second's connection ends at its. */
Test(group, one_association_is_lost_the_other_goes_on)
{
	struct nvmfr_soft_fault fault;
	struct nvmfr_completion done[MANY];
	struct flow_outcome o = { .n = IOS };
	struct nvmfr_qpair_info info;
	struct scene s;

	scene_up(&s);
	start_all(&s, NVMFR_OP_READ);
	fault = flow_fault(NVMFR_SOFT_FAULT_QP_ERROR, NVMFR_SOFT_ANY, OPC_FLUSH, NVMFR_SOFT_ANY, 0);
	flow_plan(&s.f, &fault);
	cr_assert_eq(nvmfr_submit(s.qps[QPAIRS - 1],
				  &(struct nvmfr_io){ .op = NVMFR_OP_FLUSH,
						      .nsid = s.f.nsid,
						      .user_data = place(QPAIRS - 1, 0) },
				  1),
		     1);
	while (nvmfr_ctrl_state(s.second) == NVMFR_STATE_LIVE || o.times[IOS - 1] == 0) {
		int n = nvmfr_group_wait(s.group, done, 1, 1, 100);

		note(&o, done, n);
	}
	note(&o, done, nvmfr_group_poll(s.group, done, MANY));
	cr_expect_eq(nvmfr_group_poll(s.group, done, MANY), 0, "then they are silent");
	o.times[place(QPAIRS - 1, 0)]--;
	flow_each_once(&o);
	cr_expect_eq(nvmfr_read(s.qps[QPAIRS - 1], s.f.nsid, 0, 1, s.buf, 0, 0), -ENOTCONN);
	info = flow_qpair_info(s.qps[QPAIRS - 1]);
	cr_expect_eq(info.state, NVMFR_STATE_LOST);
	for (unsigned int q = 0; q < QPAIRS / 2; q++)
		start_one(&s, NVMFR_OP_READ, q, 0);
	cr_expect_eq(nvmfr_group_wait(s.group, done, QPAIRS / 2, MANY, FLOW_WAIT_MS), QPAIRS / 2);
	scene_down(&s);
}

/* In flight, with completions not fetched, and with some held back: in any order. */
Test(group, members_go_in_any_order)
{
	static const unsigned int order[QPAIRS] = { 3, 0, 7, 1, 6, 2, 5, 4 };
	struct nvmfr_completion done[2];
	struct scene s;

	scene_up(&s);
	start_all(&s, NVMFR_OP_READ);
	for (unsigned int i = 0; i < QPAIRS; i++) {
		cr_expect_eq(nvmfr_group_poll(s.group, done, 2), 2);
		nvmfr_qpair_destroy(s.qps[order[i]]);
		s.qps[order[i]] = NULL;
	}
	cr_expect_eq(nvmfr_group_poll(s.group, done, 2), 0);
	add_qpairs(&s, 30000);
	works(&s, MANY, 5);
	scene_down(&s);
}

Test(group, a_member_that_still_connects_goes)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_qpair *qp;
	struct scene s;

	scene_up(&s);
	opts.group = s.group;
	cr_assert_eq(nvmfr_qpair_create(s.f.ctrl, &opts, &qp), 0);
	nvmfr_qpair_destroy(qp);
	works(&s, MANY, 1);
	scene_down(&s);
}

/* One command of one member is never answered: it and its association end, nothing else. */
Test(group, a_command_timeout)
{
	struct nvmfr_soft_fault fault;
	struct nvmfr_completion done;
	struct scene s;
	int n;

	flow_host(&s.f);
	add_group(&s, NULL, 1000);
	fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, NVMFR_SOFT_ANY, OPC_READ, NVMFR_SOFT_ANY, 0);
	flow_plan(&s.f, &fault);
	start_one(&s, NVMFR_OP_READ, QPAIRS - 1, 3);
	n = nvmfr_group_wait(s.group, &done, 1, 1, FLOW_WAIT_MS);
	cr_assert_eq(n, 1, "%d", n);
	flow_synthesized(&done, -ETIMEDOUT);
	cr_expect_eq(done.user_data, place(QPAIRS - 1, 3));
	nvmfr_soft_fault_clear(s.f.target);
	start_one(&s, NVMFR_OP_READ, 0, 0);
	cr_expect_eq(nvmfr_group_wait(s.group, &done, 1, 1, FLOW_WAIT_MS), 1);
	cr_expect_eq(done.result, 0);
	scene_down(&s);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

Test(group, wait_in_virtual_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done[MANY];
	struct flow_outcome o = { .n = IOS };
	struct scene s;

	opts.latency_us = 300000;
	flow_host(&s.f);
	add_group(&s, &opts, 0);
	start_all(&s, NVMFR_OP_READ);
	cr_expect_eq(nvmfr_group_wait(s.group, done, 1, MANY, 100), 0, "nothing is due yet");
	note(&o, done, nvmfr_group_wait(s.group, done, IOS, MANY, FLOW_WAIT_MS));
	flow_each_once(&o);
	scene_down(&s);
}

Test(group, wait_sleeps_until_an_answer_is_due)
{
	struct nvmfr_completion done[MANY];
	struct flow_outcome o = { .n = IOS };
	struct scene s;

	scene_up_slow(&s);
	start_all(&s, NVMFR_OP_READ);
	note(&o, done, nvmfr_group_wait(s.group, done, IOS, MANY, FLOW_WAIT_MS));
	flow_each_once(&o);
	for (unsigned int q = 0; q < QPAIRS; q++) {
		start_one(&s, NVMFR_OP_READ, q, 0);
		while (nvmfr_group_poll(s.group, done, 1) == 0) {
			struct pollfd fd = { .fd = nvmfr_group_fd(s.group), .events = POLLIN };

			if (nvmfr_group_arm(s.group) == 0)
				cr_assert_eq(poll(&fd, 1, 20000), 1, "nobody rang");
		}
	}
	scene_down(&s);
}

/* What others have does not keep awake who waits for one, and stays. */
Test(group, wait_for_one_member)
{
	struct nvmfr_completion done[MANY];
	struct flow_outcome o = { .n = IOS };
	struct scene s;

	scene_up_slow(&s);
	start_all(&s, NVMFR_OP_READ);
	note(&o, done, nvmfr_wait(s.qps[4], done, PER_QPAIR, MANY, FLOW_WAIT_MS));
	cr_expect_eq(nvmfr_qpair_fd(s.qps[4]), nvmfr_group_fd(s.group));
	note(&o, done,
	     nvmfr_group_wait(s.group, done, IOS - PER_QPAIR, MANY, FLOW_WAIT_MS));
	flow_each_once(&o);
	scene_down(&s);
}

static void *drop_soon(void *arg)
{
	const struct scene *s = arg;

	usleep(50000);
	nvmfr_soft_drop(s->f.target);
	return NULL;
}

Test(group, wait_hears_of_a_loss)
{
	struct nvmfr_soft_fault fault;
	struct nvmfr_completion done;
	struct scene s;
	pthread_t thread;

	flow_host_thread(&s.f);
	add_group(&s, NULL, 0);
	fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, NVMFR_SOFT_ANY, OPC_READ, NVMFR_SOFT_ANY, 0);
	flow_plan(&s.f, &fault);
	start_one(&s, NVMFR_OP_READ, 2, 2);
	cr_assert_eq(pthread_create(&thread, NULL, drop_soon, &s), 0);
	cr_expect_eq(nvmfr_group_wait(s.group, &done, 1, 1, FLOW_WAIT_MS), 1);
	cr_expect_eq(done.result, -ECONNABORTED);
	cr_expect_eq(done.user_data, place(2, 2));
	pthread_join(thread, NULL);
	scene_down(&s);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *run_group(void *arg)
{
	struct scene *s = arg;

	for (unsigned int i = 0; i < 20; i++) {
		struct nvmfr_completion done[MANY];
		struct flow_outcome o = { .n = IOS };

		start_all(s, NVMFR_OP_READ);
		note(&o, done, nvmfr_group_wait(s->group, done, IOS, MANY, FLOW_WAIT_MS));
		flow_each_once(&o);
	}
	return NULL;
}

Test(group, two_threads_a_group_each)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct scene one, two;
	pthread_t thread;

	opts.flags = NVMFR_SOFT_THREAD;
	flow_host_thread(&one.f);
	add_group(&one, &opts, 30000);
	two = one;
	cr_assert_eq(nvmfr_group_create(two.f.host, NULL, &two.group), 0);
	add_qpairs(&two, 30000);
	two.buf = flow_alloc(&two.f, (size_t)IOS * BLOCK);
	cr_assert_eq(pthread_create(&thread, NULL, run_group, &two), 0);
	run_group(&one);
	pthread_join(thread, NULL);
	for (unsigned int i = 0; i < QPAIRS; i++)
		nvmfr_qpair_destroy(two.qps[i]);
	cr_expect_eq(nvmfr_group_destroy(two.group), 0);
	flow_release(two.buf);
	scene_down(&one);
}

/* ---- arguments and fork ---------------------------------------------------------------------- */

Test(group, bad_arguments)
{
	struct nvmfr_group_opts opts;
	struct nvmfr_group *group = (void *)&opts;
	struct nvmfr_completion done;
	struct flow f;

	flow_host(&f);
	nvmfr_group_opts_init(&opts, sizeof(opts));
	cr_expect_eq(opts.max_qpairs, 64);
	cr_expect_eq(nvmfr_group_create(NULL, NULL, &group), -EINVAL);
	cr_expect_null(group);
	cr_expect_eq(nvmfr_group_create(f.host, NULL, NULL), -EINVAL);
	opts.max_qpairs = 0;
	cr_expect_eq(nvmfr_group_create(f.host, &opts, &group), -EINVAL);
	opts.max_qpairs = 65536;
	cr_expect_eq(nvmfr_group_create(f.host, &opts, &group), -EINVAL);
	opts.max_qpairs = 1;
	opts.flags = 1;
	cr_expect_eq(nvmfr_group_create(f.host, &opts, &group), -EINVAL);
	opts.flags = 0;
	cr_assert_eq(nvmfr_group_create(f.host, &opts, &group), 0);
	cr_expect_eq(nvmfr_group_poll(NULL, &done, 1), -EINVAL);
	cr_expect_eq(nvmfr_group_poll(group, NULL, 1), -EINVAL);
	cr_expect_eq(nvmfr_group_poll(group, &done, 0), -EINVAL);
	cr_expect_eq(nvmfr_group_wait(NULL, &done, 1, 1, 0), -EINVAL);
	cr_expect_eq(nvmfr_group_wait(group, NULL, 1, 1, 0), -EINVAL);
	cr_expect_eq(nvmfr_group_wait(group, &done, 2, 1, 0), -EINVAL);
	cr_expect_eq(nvmfr_group_wait(group, &done, 0, 1, 0), -EINVAL);
	cr_expect_eq(nvmfr_group_arm(NULL), -EINVAL);
	cr_expect_eq(nvmfr_group_fd(NULL), -EINVAL);
	cr_expect_eq(nvmfr_group_destroy(NULL), 0);
	cr_expect_eq(nvmfr_group_destroy(group), 0);
	flow_down(&f);
}

Test(group, of_another_host_and_still_in_use)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_group *foreign;
	struct nvmfr_qpair *qp;
	struct nvmfr_host *other;
	struct scene s;

	scene_up(&s);
	cr_assert_eq(nvmfr_host_create(NULL, &other), 0);
	cr_assert_eq(nvmfr_group_create(other, NULL, &foreign), 0);
	opts.group = foreign;
	cr_expect_eq(nvmfr_qpair_create(s.f.ctrl, &opts, &qp), -EINVAL);
	cr_expect_not_null(strstr(nvmfr_last_error(), "another host"));
	cr_expect_eq(nvmfr_group_destroy(foreign), 0);
	nvmfr_host_destroy(other);
	cr_expect_eq(nvmfr_group_destroy(s.group), -EBUSY);
	works(&s, MANY, 1);
	scene_down(&s);
}

static int dead_in_child(struct scene *s)
{
	struct nvmfr_completion done;
	const int answers[] = {
		nvmfr_group_poll(s->group, &done, 1),
		nvmfr_group_wait(s->group, &done, 1, 1, -1),
		nvmfr_group_arm(s->group),
		nvmfr_group_fd(s->group),
		nvmfr_poll(s->qps[0], &done, 1),
		nvmfr_qpair_arm(s->qps[0]),
		nvmfr_qpair_fd(s->qps[0]),
		nvmfr_qpair_wait(s->qps[0], -1),
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(answers); i++)
		if (answers[i] != -EOWNERDEAD)
			return (int)i + 1;
	nvmfr_qpair_destroy(s->qps[0]);
	if (nvmfr_group_destroy(s->group))
		return 100;
	nvmfr_qpair_destroy(s->qps[1]);
	return 0;
}

Test(group, fork_leaves_it_to_the_parent)
{
	struct scene s;
	int status;
	pid_t pid;

	scene_up(&s);
	start_all(&s, NVMFR_OP_READ);
	pid = fork();
	if (pid == 0) {
		alarm(10);
		_exit(dead_in_child(&s));
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: %x", (unsigned int)status);
	take_all(&s, &(struct flow_outcome){ .n = 0 }, MANY);
	works(&s, MANY, 4);
	scene_down(&s);
}

/* A child has copies of all descriptors: one of a member that is gone shall not keep its group awake. */
Test(group, a_forked_child_keeps_nobody_awake)
{
	struct nvmfr_completion done[MANY];
	struct pollfd fd = { .events = POLLIN };
	struct scene s;
	pid_t pid;

	scene_up(&s);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		pause();
		_exit(0);
	}
	for (unsigned int q = 0; q < QPAIRS / 2; q++) {
		nvmfr_qpair_destroy(s.qps[q]);
		s.qps[q] = NULL;
	}
	while (nvmfr_group_arm(s.group))
		cr_assert_eq(nvmfr_group_poll(s.group, done, MANY), 0);
	fd.fd = nvmfr_group_fd(s.group);
	cr_expect_eq(poll(&fd, 1, 100), 0, "nothing is there");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	scene_down(&s);
}

/* Left to the host's end. */
Test(group, the_host_ends_first)
{
	struct nvmfr_group *group;
	struct nvmfr_host *host;

	cr_assert_eq(nvmfr_host_create(NULL, &host), 0);
	cr_assert_eq(nvmfr_group_create(host, NULL, &group), 0);
	nvmfr_host_destroy(host);
}
