/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare and Write as one: both done or neither, two completions, refused where it cannot be. */
#include "refused.h"

#include <nvmfr/cmd.h>

enum {
	COMPARE_TAG = 1,
	WRITE_TAG = 2,
	ID_FUSES = 522,
	LBA = 9,
	ST_COMPARE_FAILURE = 0x4285, /* do not retry */
	ST_FAILED_FUSED = 0x4009,
	ST_MISSING_FUSED = 0x400a,
	CALLERS = 4,
};

struct scene {
	struct flow f;
	struct nvmfr_buffer *buf; /* block 0 to compare with, block 1 to write, block 2 to read into */
	unsigned char *mem;
};

static void begin(struct scene *s)
{
	s->buf = flow_alloc(&s->f, 4 * BLOCK);
	s->mem = nvmfr_buffer_addr(s->buf);
	memset(s->mem + BLOCK, 0xa5, BLOCK);
}

static void down(struct scene *s)
{
	flow_release(s->buf);
	flow_down(&s->f);
}

static void fill_pair(const struct scene *s, struct nvmfr_io pair[2])
{
	pair[0] = flow_io(&s->f, NVMFR_OP_COMPARE, LBA, 1, s->buf, 0);
	pair[1] = flow_io(&s->f, NVMFR_OP_WRITE, LBA, 1, s->buf, BLOCK);
	pair[0].user_data = COMPARE_TAG;
	pair[1].user_data = WRITE_TAG;
}

/* How both ended, the Compare first. */
static void run(struct scene *s, struct nvmfr_completion done[2])
{
	struct nvmfr_io pair[2];

	fill_pair(s, pair);
	cr_assert_eq(nvmfr_compare_and_write(s->f.qp, pair), 0, "%s", nvmfr_last_error());
	flow_wait(s->f.qp, done, 2);
	cr_expect_eq(done[0].user_data, (uint64_t)COMPARE_TAG);
	cr_expect_eq(done[1].user_data, (uint64_t)WRITE_TAG);
}

static unsigned char first_byte(struct scene *s)
{
	struct nvmfr_io io = flow_io(&s->f, NVMFR_OP_READ, LBA, 1, s->buf, 2 * BLOCK);

	flow_must(s->f.qp, &io);
	return s->mem[2 * BLOCK];
}

/* More often than the ring is long, so that the pair lies across its end, too. */
Test(fused, written_where_equal)
{
	struct nvmfr_completion done[2];
	struct scene s;

	small_up(&s.f);
	begin(&s);
	for (unsigned int i = 0; i < 200; i++) {
		s.mem[BLOCK] = (unsigned char)(i + 1);
		run(&s, done);
		cr_assert(done[0].result == 0 && done[1].result == 0, "%u: %d, %d", i, done[0].result,
			  done[1].result);
		cr_assert_eq(first_byte(&s), (unsigned char)(i + 1));
		memcpy(s.mem, s.mem + BLOCK, BLOCK);
	}
	down(&s);
}

Test(fused, neither_where_they_differ)
{
	struct nvmfr_completion done[2];
	struct scene s;

	small_up(&s.f);
	begin(&s);
	s.mem[BLOCK - 1] = 1;
	run(&s, done);
	cr_expect_eq(done[0].result, -EREMOTEIO);
	cr_expect_eq(done[0].status, ST_COMPARE_FAILURE);
	cr_expect_eq(done[1].result, -EREMOTEIO);
	cr_expect_eq(done[1].status, ST_FAILED_FUSED);
	cr_expect_eq(first_byte(&s), 0, "not written");
	flow_works(&s.f);
	down(&s);
}

/* A controller that loses the first of them. */
Test(fused, the_second_alone)
{
	struct nvmfr_completion done[2];
	struct scene s;

	small_up(&s.f);
	begin(&s);
	flow_plan_io(&s.f, NVMFR_SOFT_FAULT_STATUS, 0x05, STATUS_INTERNAL_ERROR);
	run(&s, done);
	cr_expect_eq(done[0].status, STATUS_INTERNAL_ERROR);
	cr_expect_eq(done[1].status, ST_MISSING_FUSED);
	cr_expect_eq(first_byte(&s), 0);
	down(&s);
}

Test(fused, lost)
{
	struct nvmfr_completion done[2];
	struct nvmfr_io pair[2];
	struct scene s;

	small_up(&s.f);
	begin(&s);
	fill_pair(&s, pair);
	flow_plan_io(&s.f, NVMFR_SOFT_FAULT_DISCONNECT, OPC_WRITE, 0);
	cr_assert_eq(nvmfr_compare_and_write(s.f.qp, pair), 0, "%s", nvmfr_last_error());
	cr_expect_eq(flow_drain(s.f.qp, done, 2), 2u);
	flow_synthesized(&done[0], -ECONNABORTED);
	flow_synthesized(&done[1], -ECONNABORTED);
	down(&s);
}

Test(fused, refused_where_fuses_has_it_not)
{
	struct nvmfr_io pair[2];
	struct scene s;

	flow_host(&s.f);
	flow_target(&s.f, NULL);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_patch8(&s.f, CNS_CTRL, ID_FUSES, 0);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	fill_pair(&s, pair);
	REFUSED(nvmfr_compare_and_write(s.f.qp, pair), -EOPNOTSUPP, "FUSES");
	flow_works(&s.f);
	down(&s);
}

Test(fused, no_pair)
{
	struct nvmfr_io pair[2], bad[2];
	struct scene s;

	small_up(&s.f);
	begin(&s);
	fill_pair(&s, pair);
#define WITH(Field, Value, Err, Word) \
	do { \
		memcpy(bad, pair, sizeof(bad)); \
		bad[1].Field = (Value); \
		REFUSED(nvmfr_compare_and_write(s.f.qp, bad), Err, Word); \
	} while (0)
	WITH(op, NVMFR_OP_COMPARE, -EINVAL, "a Compare and a Write");
	WITH(lba, LBA + 1, -EINVAL, "same");
	WITH(nblocks, 2, -EINVAL, "same");
	WITH(nsid, 2, -EINVAL, "same");
	WITH(flags, NVMFR_IO_VEC, -EINVAL, "one buffer");
	WITH(flags, 0x80, -EINVAL, "unknown bits");
	WITH(buf, NULL, -EINVAL, "buf");
	WITH(offset_bytes, 4 * BLOCK, -ERANGE, "beyond");
	REFUSED(nvmfr_compare_and_write(s.f.qp, NULL), -EINVAL, "pair");
	REFUSED(nvmfr_compare_and_write(NULL, pair), -EINVAL, "qp");
	cr_expect_eq(flow_qpair_info(s.f.qp).in_flight, 0);
	down(&s);
}

Test(fused, room_for_one_only)
{
	struct nvmfr_completion done[8];
	struct nvmfr_io pair[2];
	struct nvmfr_qpair *one;
	struct scene s;

	small_up(&s.f);
	begin(&s);
	fill_pair(&s, pair);
	one = flow_qpair(&s.f, 1);
	REFUSED(nvmfr_compare_and_write(one, pair), -EINVAL, "depth");
	nvmfr_qpair_destroy(one);
	flow_reads(&s.f, s.buf, 1);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(nvmfr_compare_and_write(s.f.qp, pair), 0, "%s", nvmfr_last_error());
	REFUSED(nvmfr_compare_and_write(s.f.qp, pair), -EAGAIN, "poll");
	flow_wait(s.f.qp, done, 7);
	down(&s);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct caller {
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	uint32_t nsid;
	unsigned int won;
};

/*
 * Counts the first eight bytes of the block up, whenever nobody else did in between. It guesses the count, for a
 * read beside somebody's write is a race in the target's memory: a guess that is wrong is too low.
 */
static void *count_up(void *arg)
{
	struct caller *c = arg;
	uint64_t *mem = nvmfr_buffer_addr(c->buf);
	struct nvmfr_io pair[2] = {
		/* clang-format off */
		{ .op = NVMFR_OP_COMPARE, .nsid = c->nsid, .nblocks = 1, .buf = c->buf },
		{ .op = NVMFR_OP_WRITE, .nsid = c->nsid, .nblocks = 1, .buf = c->buf,
		  .offset_bytes = BLOCK, .user_data = 1 },
		/* clang-format on */
	};
	struct nvmfr_completion done[2];

	memset(mem, 0, 2 * BLOCK);
	for (; c->won < 200; mem[0]++) {
		bool good = true;

		mem[BLOCK / 8] = mem[0] + 1;
		if (nvmfr_compare_and_write(c->qp, pair) || nvmfr_wait(c->qp, done, 2, 2, -1) != 2)
			break;
		for (unsigned int i = 0; i < 2; i++)
			good &= done[i].result == 0;
		c->won += good;
	}
	return NULL;
}

/* Each queue pair is served by its owner: only the fused pairs keep them from losing a count. */
Test(fused, counted_by_many, .timeout = 60)
{
	struct caller callers[CALLERS];
	pthread_t threads[CALLERS];
	uint64_t *mem;
	struct flow f;

	flow_up_thread(&f, NULL);
	for (unsigned int i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){ .qp = flow_qpair(&f, 8),
					      .buf = flow_alloc(&f, 2 * BLOCK),
					      .nsid = f.nsid };
		cr_assert_eq(pthread_create(&threads[i], NULL, count_up, &callers[i]), 0);
	}
	for (unsigned int i = 0; i < CALLERS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(callers[i].won, 200u);
	}
	mem = nvmfr_buffer_addr(callers[0].buf);
	struct nvmfr_io io = flow_io(&f, NVMFR_OP_READ, 0, 1, callers[0].buf, 0);

	flow_must(callers[0].qp, &io);
	cr_expect_eq(mem[0], CALLERS * 200u);
	for (unsigned int i = 0; i < CALLERS; i++) {
		nvmfr_qpair_destroy(callers[i].qp);
		flow_release(callers[i].buf);
	}
	flow_down(&f);
}
