/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfr_submit_and_wait(): lists longer than the queue pair is deep, what it answers when something ends. */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512,
       DEPTH = 8,
       MANY = 1000 };

struct list {
	struct flow f;
	struct nvmfr_buffer *buf;
	struct nvmfr_io ios[MANY];
	struct nvmfr_completion done[MANY];
	unsigned char seen[MANY]; /* how often each has ended */
	unsigned int ended;
};

/* Read i is of nblocks from LBA i * nblocks on. */
static struct list *list_up(uint64_t nblocks)
{
	struct list *l = calloc(1, sizeof(*l));

	cr_assert_not_null(l);
	flow_host(&l->f);
	flow_target(&l->f, NULL);
	flow_ns(&l->f, 64 * MIB, BLOCK);
	flow_connect(&l->f);
	l->f.qp = flow_qpair(&l->f, DEPTH);
	l->buf = flow_alloc(&l->f, 4 * MIB);
	for (unsigned int i = 0; i < MANY; i++) {
		l->ios[i] = flow_io(&l->f, OPC_READ, i * nblocks, nblocks, l->buf, 0);
		l->ios[i].user_data = i;
	}
	return l;
}

static void list_down(struct list *l)
{
	flow_release(l->buf);
	flow_down(&l->f);
	free(l);
}

/* One call; what ended is noted. Returns what the call did. */
static int turn(struct list *l, unsigned int *first, unsigned int n, unsigned int min,
		unsigned int max, int timeout_ms)
{
	unsigned int taken = 77;
	int got = nvmfr_submit_and_wait(l->f.qp, l->ios + *first, n - *first, &taken, l->done, min,
					max, timeout_ms);

	cr_assert_leq(taken, n - *first);
	*first += taken;
	for (int i = 0; i < got; i++) {
		cr_expect_eq(l->done[i].result, 0, "%s", nvmfr_strerror(l->done[i].result));
		l->seen[l->done[i].user_data]++;
		l->ended++;
	}
	return got;
}

static void all_once(const struct list *l, unsigned int n)
{
	cr_expect_eq(l->ended, n);
	for (unsigned int i = 0; i < n; i++)
		cr_expect_eq(l->seen[i], 1, "%u ended %u times", i, l->seen[i]);
}

Test(submit_wait, a_list_longer_than_the_queue_in_one_call)
{
	struct list *l = list_up(1);
	unsigned int first = 0;

	cr_expect_eq(turn(l, &first, MANY, MANY, MANY, -1), MANY);
	cr_expect_eq(first, MANY);
	all_once(l, MANY);
	list_down(l);
}

/* Between two calls the queue pair has work. */
Test(submit_wait, leaves_the_queue_full)
{
	struct list *l = list_up(1);
	unsigned int first = 0, calls = 0;

	while (l->ended < MANY) {
		unsigned int left = MANY - l->ended;

		cr_assert_geq(turn(l, &first, MANY, left < 50 ? left : 50, 60, -1), 1);
		if (first < MANY)
			cr_expect_eq(flow_qpair_info(l->f.qp).in_flight, DEPTH);
		calls++;
	}
	cr_expect_leq(calls, MANY / 50);
	all_once(l, MANY);
	list_down(l);
}

/* Each is carried by several commands; two of them fill the queue. */
Test(submit_wait, reads_of_several_commands)
{
	struct list *l = list_up(4096);
	unsigned int first = 0;
	enum { N = 30 };

	cr_expect_eq(turn(l, &first, N, N, MANY, -1), N);
	all_once(l, N);
	list_down(l);
}

Test(submit_wait, only_waits)
{
	struct nvmfr_completion done[2];
	struct list *l = list_up(1);
	unsigned int taken = 77;

	flow_reads(&l->f, l->buf, 2);
	cr_expect_eq(nvmfr_submit_and_wait(l->f.qp, NULL, 0, &taken, done, 2, 2, -1), 2);
	cr_expect_eq(taken, 0);
	cr_expect_eq(nvmfr_submit_and_wait(l->f.qp, NULL, 0, &taken, done, 1, 2, -1), -EINVAL);
	flow_says("nothing is in flight");
	list_down(l);
}

/* What went before it ends as ever; the next call tells why. */
Test(submit_wait, ends_at_a_bad_one)
{
	struct list *l = list_up(1);
	unsigned int first = 0;

	l->ios[20].nsid = 99;
	cr_expect_eq(turn(l, &first, MANY, MANY, MANY, -1), 20);
	cr_expect_eq(first, 20);
	all_once(l, 20);
	cr_expect_eq(turn(l, &first, MANY, 1, MANY, -1), -ENOENT);
	flow_says("99");
	cr_expect_eq(first, 20);
	list_down(l);
}

Test(submit_wait, ends_with_its_time)
{
	struct list *l = list_up(1);
	unsigned int first = 0;

	flow_plan_io(&l->f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 5000000);
	cr_expect_eq(turn(l, &first, 1, 1, 1, 0), 0);
	cr_expect_eq(first, 1);
	cr_expect_eq(turn(l, &first, 1, 1, 1, 100), 0);
	cr_expect_eq(turn(l, &first, 1, 1, 1, FLOW_WAIT_MS), 1);
	all_once(l, 1);
	list_down(l);
}

/* What was in flight is told first, then the loss. */
Test(submit_wait, loss)
{
	struct list *l = list_up(1);
	unsigned int taken, told = 0;
	int n;

	cr_assert_eq(nvmfr_submit(l->f.qp, l->ios, DEPTH), DEPTH);
	nvmfr_soft_drop(l->f.target);
	do {
		n = nvmfr_submit_and_wait(l->f.qp, l->ios, MANY, &taken, l->done, 2, 4, FLOW_WAIT_MS);
		for (int i = 0; i < n; i++)
			cr_expect_eq(l->done[i].result, -ECONNABORTED);
		told += n > 0 ? (unsigned int)n : 0;
	} while (n > 0);
	cr_expect_eq(n, -ENOTCONN);
	cr_expect_eq(taken, 0);
	cr_expect_geq(told, DEPTH);
	list_down(l);
}

Test(submit_wait, arguments)
{
	struct list *l = list_up(1);
	unsigned int taken = 5;
	const struct {
		struct nvmfr_qpair *qp;
		const struct nvmfr_io *ios;
		unsigned int n, *taken, min, max;
		const char *word;
	} rows[] = {
		{ NULL, l->ios, 1, &taken, 1, 1, "NULL" },
		{ l->f.qp, NULL, 1, &taken, 1, 1, "ios" },
		{ l->f.qp, l->ios, 1, NULL, 1, 1, "taken" },
		{ l->f.qp, l->ios, UINT32_MAX, &taken, 1, 1, "too large" },
		{ l->f.qp, l->ios, 1, &taken, 0, 1, "min" },
		{ l->f.qp, l->ios, 1, &taken, 2, 1, "min" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect_eq(nvmfr_submit_and_wait(rows[i].qp, rows[i].ios, rows[i].n, rows[i].taken,
						   l->done, rows[i].min, rows[i].max, -1),
			     -EINVAL, "row %zu", i);
		flow_says(rows[i].word);
	}
	cr_expect_eq(taken, 0);
	cr_expect_eq(flow_qpair_info(l->f.qp).in_flight, 0);
	list_down(l);
}
