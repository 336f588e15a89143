/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O of a lost association that the library issues again: each told once, and a write not too early. */
#include "flow.h"

#include <string.h>

#include <nvmfr/cmd.h>

enum {
	BLOCK = 512,
	N = 100,
	LONG = 2 * 1024 * 1024 / BLOCK, /* two commands */
	KATO_MS = 2000,
	CQT_MS = 700,
	CQT_OFFSET = 386,
	CTRATT_OFFSET = 96
};

static struct flow retrying(uint32_t mode, struct nvmfr_group *group)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);
	const uint8_t cqt[2] = { CQT_MS & 0xff, CQT_MS >> 8 };
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	flow_patch(&f, CNS_CTRL, NVMFR_SOFT_ANY, CQT_OFFSET, cqt, sizeof(cqt));
	f.opts.ctrl_loss_timeout_ms = 60000;
	f.opts.reconnect_delay_ms = 10;
	f.opts.kato_ms = KATO_MS;
	f.nsid = flow_ns(&f, 64 * MIB, BLOCK);
	flow_connect(&f);
	opts.retry = mode;
	opts.group = group;
	opts.qpair_data = 77;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	return f;
}

/* Whoever waits for all of them: how long it took, in virtual ms by steps, each once and with this result. */
static unsigned int await_by(struct flow *f, unsigned int n, int32_t result, unsigned int step)
{
	struct nvmfr_completion done[FLOW_DEPTH];
	unsigned int ms = 0, told[N] = { 0 };

	for (unsigned int got = 0; got < n;) {
		int more = nvmfr_wait(f->qp, done, 1, FLOW_DEPTH, (int)step);

		cr_assert_geq(more, 0, "%s", nvmfr_last_error());
		ms += more ? 0 : step;
		cr_assert_lt(ms, (unsigned int)FLOW_WAIT_MS, "%u of %u", got, n);
		for (int i = 0; i < more; i++, got++) {
			cr_expect_eq(done[i].result, result, "%d: %d", (int)done[i].user_data,
				     done[i].result);
			cr_expect(done[i].result || !done[i].status);
			cr_expect_eq(done[i].qpair_data, 77u);
			cr_expect_eq(++told[done[i].user_data], 1u);
		}
	}
	cr_expect_leq(nvmfr_poll(f->qp, done, FLOW_DEPTH), 0);
	cr_expect_eq(flow_qpair_info(f->qp).in_flight, 0);
	return ms;
}

static unsigned int await(struct flow *f, unsigned int n, int32_t result)
{
	return await_by(f, n, result, 1);
}

static void lose(struct flow *f)
{
	nvmfr_soft_drop(f->target);
	flow_settle(f);
}

/* ---- every kind of I/O ------------------------------------------------------------------------- */

enum { VEC = 1,
       PREPARED = 2 };

static const struct shape {
	uint8_t op;
	unsigned int nblocks, n, how;
} shapes[] = {
	{ NVMFR_OP_READ, 1, N, 0 },
	{ NVMFR_OP_READ, 4, 30, VEC },
	{ NVMFR_OP_READ, 1, N, PREPARED },
	{ NVMFR_OP_READ, LONG, 8, 0 },
	{ NVMFR_OP_READ, LONG, 8, VEC },
	{ NVMFR_OP_WRITE, 1, N, 0 }, /* in the capsule, if it could be kept */
	{ NVMFR_OP_WRITE, 64, N, 0 },
	{ NVMFR_OP_WRITE, 4, 30, VEC },
	{ NVMFR_OP_WRITE, 1, N, PREPARED },
	{ NVMFR_OP_WRITE, LONG, 8, 0 },
	{ NVMFR_OP_WRITE_ZEROES, 8, N, 0 },
	{ NVMFR_OP_FLUSH, 0, N, 0 },
};

struct run {
	struct flow f;
	struct nvmfr_buffer *buf;
	struct nvmfr_iov iovs[N][4];
	struct nvmfr_io ios[N];
	struct nvmfr_prepared *list;
};

static void build(struct run *r, const struct shape *shape)
{
	const uint64_t bytes = shape->nblocks * (uint64_t)BLOCK;

	r->buf = flow_alloc(&r->f, 64 * MIB);
	memset(nvmfr_buffer_addr(r->buf), 0x5a, 64 * MIB);
	for (unsigned int i = 0; i < shape->n; i++) {
		bool data = shape->op == NVMFR_OP_READ || shape->op == NVMFR_OP_WRITE;
		struct nvmfr_buffer *buf = data ? r->buf : NULL;

		r->ios[i] = flow_io(&r->f, shape->op, shape->nblocks * (uint64_t)i, shape->nblocks,
				    buf, buf ? i * bytes : 0);
		r->ios[i].user_data = i;
		if (!shape->op)
			r->ios[i].lba = 0;
		if (!(shape->how & VEC))
			continue;
		for (unsigned int k = 0; k < 4; k++)
			r->iovs[i][k] =
				(struct nvmfr_iov){ .buf = r->buf,
						    .offset_bytes = i * bytes + (3 - k) * bytes / 4,
						    .len_bytes = bytes / 4 };
		r->ios[i].flags = NVMFR_IO_VEC;
		r->ios[i].iov = r->iovs[i];
		r->ios[i].niov = 4;
	}
}

static void submit(struct run *r, const struct shape *shape)
{
	int n;

	if (shape->how & PREPARED)
		cr_assert_eq(nvmfr_prepare(r->f.qp, r->ios, shape->n, &r->list), 0, "%s",
			     nvmfr_last_error());
	n = r->list ? nvmfr_post(r->list, 0, shape->n) : nvmfr_submit(r->f.qp, r->ios, shape->n);
	cr_assert_eq(n, (int)shape->n, "%d: %s", n, nvmfr_last_error());
}

/* What went to the namespace or came from it. */
static void check_data(struct run *r, const struct shape *shape)
{
	const unsigned char *mem = nvmfr_buffer_addr(r->buf);
	const uint64_t bytes = shape->n * shape->nblocks * (uint64_t)BLOCK;
	unsigned char want = shape->op == NVMFR_OP_WRITE ? 0x5a : 0;
	struct nvmfr_io io = flow_io(&r->f, NVMFR_OP_READ, 0, bytes / BLOCK, r->buf, 0);

	if (shape->op != NVMFR_OP_READ && bytes) {
		memset(nvmfr_buffer_addr(r->buf), 0x77, bytes);
		flow_must(r->f.qp, &io);
	}
	for (uint64_t i = 0; i < bytes; i++)
		if (mem[i] != want)
			cr_assert_fail("byte %u is %02x", (unsigned int)i, mem[i]);
}

static bool waits(const struct shape *shape)
{
	return shape->op == NVMFR_OP_WRITE || shape->op == NVMFR_OP_WRITE_ZEROES;
}

Test(retry, each_kind_is_issued_again, .timeout = 120)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(shapes); i++) {
		const struct shape *shape = &shapes[i];
		static struct run r;
		unsigned int ms;

		r = (struct run){ .f = retrying(NVMFR_RETRY_ALL, NULL) };
		build(&r, shape);
		submit(&r, shape);
		lose(&r.f);
		ms = await(&r.f, shape->n, 0);
		if (waits(shape))
			cr_expect(ms >= 2 * KATO_MS + CQT_MS && ms < 2 * KATO_MS + CQT_MS + 100,
				  "shape %u: %u ms", i, ms);
		else
			cr_expect_lt(ms, 100u, "shape %u: %u ms", i, ms);
		nvmfr_prepared_release(r.list);
		check_data(&r, shape);
		flow_release(r.buf);
		flow_down(&r.f);
	}
}

/* An I/O without data may name a buffer: it is nobody's, before and behind the loss. */
Test(retry, what_has_no_data_holds_no_buffer, .timeout = 60)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f = retrying(NVMFR_RETRY_ALL, NULL);

	buf = flow_alloc(&f, BLOCK);
	io = flow_io(&f, NVMFR_OP_WRITE_ZEROES, 0, 64 * MIB / BLOCK, buf, 0);
	io.user_data = 0;
	cr_assert_eq(nvmfr_submit(f.qp, &io, 1), 1, "%s", nvmfr_last_error());
	lose(&f);
	(void)await(&f, 1, 0);
	flow_release(buf);
	flow_down(&f);
}

/* The sum of what was in flight, held and waiting never exceeds the depth; a second loss while writes wait. */
Test(retry, writes_wait_and_reads_go_on, .timeout = 60)
{
	static struct run r;
	struct nvmfr_completion done[FLOW_DEPTH];
	unsigned int reads = 0, writes = 0;

	r = (struct run){ .f = retrying(NVMFR_RETRY_ALL, NULL) };
	build(&r, &shapes[6]);
	submit(&r, &shapes[6]);
	lose(&r.f);
	for (unsigned int i = 0; i < 500; i++) {
		struct nvmfr_io io = flow_io(&r.f, NVMFR_OP_READ, 100000, 1, r.buf, 63 * MIB);
		int got;

		if (i == 250)
			lose(&r.f);
		io.user_data = N;
		while (nvmfr_submit(r.f.qp, &io, 1) == 1)
			reads++;
		cr_expect_leq(flow_qpair_info(r.f.qp).in_flight, FLOW_DEPTH);
		got = nvmfr_wait(r.f.qp, done, 1, FLOW_DEPTH, 1);
		for (int k = 0; k < got; k++) {
			cr_expect_eq(done[k].result, 0);
			cr_expect_eq(done[k].user_data, (uint64_t)N, "a write, early");
			reads -= done[k].user_data == N;
		}
	}
	while (reads + N - writes > 0) {
		int got = nvmfr_wait(r.f.qp, done, 1, FLOW_DEPTH, FLOW_WAIT_MS);

		cr_assert_gt(got, 0, "%s", nvmfr_last_error());
		for (int k = 0; k < got; k++) {
			reads -= done[k].user_data == N;
			writes += done[k].user_data < N;
		}
	}
	check_data(&r, &shapes[6]);
	flow_release(r.buf);
	flow_down(&r.f);
}

/* With traffic for keep-alive the old controller may notice a timeout later. */
Test(retry, traffic_based_keep_alive_takes_longer, .timeout = 60)
{
	static struct run r;
	struct flow *f = &r.f;
	unsigned int ms;

	r = (struct run){ .f = retrying(NVMFR_RETRY_ALL, NULL) };
	flow_patch8(f, CNS_CTRL, CTRATT_OFFSET, 0x41);
	lose(f);
	cr_assert_eq(nvmfr_qpair_wait(f->qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	build(&r, &shapes[6]);
	submit(&r, &shapes[6]);
	lose(f);
	ms = await(f, N, 0);
	cr_expect(ms >= 3 * KATO_MS + CQT_MS && ms < 3 * KATO_MS + CQT_MS + 100, "%u ms", ms);
	flow_release(r.buf);
	flow_down(f);
}

/* ---- what is not issued again ------------------------------------------------------------------- */

static void all_end(uint32_t mode, const struct shape *shape, uint32_t kato_ms)
{
	static struct run r;

	r = (struct run){ .f = { 0 } };
	r.f = retrying(mode, NULL);
	if (!kato_ms) {
		const uint8_t none[2] = { 0 };

		flow_patch(&r.f, CNS_CTRL, NVMFR_SOFT_ANY, 320, none, sizeof(none)); /* KAS */
		lose(&r.f);
		cr_assert_eq(nvmfr_qpair_wait(r.f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	}
	build(&r, shape);
	submit(&r, shape);
	lose(&r.f);
	cr_expect_lt(await(&r.f, shape->n, -ECONNABORTED), 100u);
	cr_assert_eq(nvmfr_qpair_wait(r.f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	nvmfr_prepared_release(r.list);
	flow_release(r.buf);
	flow_works(&r.f);
	flow_down(&r.f);
}

Test(retry, not_what_the_mode_leaves_out, .timeout = 60)
{
	all_end(NVMFR_RETRY_NONE, &shapes[0], KATO_MS);
	for (unsigned int i = 5; i < ARRAY_SIZE(shapes); i++)
		all_end(NVMFR_RETRY_READS, &shapes[i], KATO_MS);
}

/* Without a keep-alive nobody can say when the old controller gives up. */
Test(retry, not_a_write_without_keep_alive, .timeout = 60)
{
	all_end(NVMFR_RETRY_ALL, &shapes[6], 0);
}

/* An I/O that takes every connection down with it. */
Test(retry, not_for_ever, .timeout = 60)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_DISCONNECT_ALL, NVMFR_SOFT_ANY,
						   OPC_READ, NVMFR_SOFT_ANY, 0);
	static struct run r;

	fault.count = 0;
	r = (struct run){ .f = retrying(NVMFR_RETRY_READS, NULL) };
	flow_plan(&r.f, &fault);
	build(&r, &shapes[3]);
	submit(&r, &shapes[3]);
	(void)await(&r.f, shapes[3].n, -ECONNABORTED);
	flow_release(r.buf);
	flow_down(&r.f);
}

/* A command of the application's, whatever it looks like: as an I/O, and with words set that an I/O has not and that
 * the ring's next round clears. */
Test(retry, not_a_command, .timeout = 60)
{
	static const struct nvmfr_cmd cmds[] = { { .opcode = OPC_READ },
						 { .opcode = OPC_WRITE },
						 { .opcode = OPC_READ, .cdw14 = 5 },
						 { .opcode = OPC_WRITE, .cdw14 = 5 } };

	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(cmds); i++) {
		struct nvmfr_cmd cmd = cmds[i / 2];
		struct nvmfr_completion done;
		struct nvmfr_buffer *buf;
		struct flow f = retrying(NVMFR_RETRY_ALL, NULL);

		buf = flow_alloc(&f, 2 * BLOCK);
		cmd.nsid = f.nsid;
		flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, cmd.opcode, 0);
		cr_assert_eq(nvmfr_submit_cmd(f.qp, &cmd, buf, 0, BLOCK, N), 0, "%s", nvmfr_last_error());
		for (unsigned int k = 0; i % 2 && k < 3 * FLOW_DEPTH; k++) {
			struct nvmfr_io io = flow_io(&f, NVMFR_OP_READ, 8, 1, buf, BLOCK);

			flow_must(f.qp, &io);
		}
		lose(&f);
		cr_assert_eq(nvmfr_wait(f.qp, &done, 1, 1, 20000), 1, "%u: %s", i, nvmfr_last_error());
		cr_expect_eq(done.user_data, (uint64_t)N);
		cr_expect_eq(done.result, -ECONNABORTED, "%u: %d", i, done.result);
		flow_release(buf);
		flow_down(&f);
	}
}

/* The namespace has another block size now: the same numbers would be another I/O. */
Test(retry, not_to_another_format, .timeout = 60)
{
	static struct run r;

	r = (struct run){ .f = retrying(NVMFR_RETRY_READS, NULL) };
	build(&r, &shapes[0]);
	submit(&r, &shapes[0]);
	cr_assert_eq(nvmfr_soft_ns_remove(r.f.target, r.f.nsid), 0);
	cr_assert_eq(flow_ns(&r.f, 64 * MIB, 4096), r.f.nsid);
	lose(&r.f);
	(void)await(&r.f, N, -ECONNABORTED);
	flow_release(r.buf);
	flow_down(&r.f);
}

/* ---- the end ------------------------------------------------------------------------------------ */

static void never_again(struct flow *f)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);

	fault.count = 0;
	flow_plan(f, &fault);
	lose(f);
}

Test(retry, told_once_when_the_recovery_fails, .timeout = 60)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct nvmfr_completion done;
		static struct run r;

		r = (struct run){ .f = retrying(NVMFR_RETRY_ALL, NULL) };
		build(&r, &shapes[i]);
		submit(&r, &shapes[i]);
		never_again(&r.f);
		/* Kept, and its buffers with it. */
		cr_expect_eq(nvmfr_poll(r.f.qp, &done, 1), 0);
		cr_expect_eq(flow_qpair_info(r.f.qp).in_flight, shapes[i].n);
		if (r.ios[0].buf)
			cr_expect_eq(nvmfr_buffer_release(r.buf), -EBUSY);
		cr_expect_geq(await_by(&r.f, shapes[i].n, -ECONNABORTED, 1000), 50000u);
		cr_expect_eq(nvmfr_poll(r.f.qp, &done, 1), -ENOTCONN);
		nvmfr_prepared_release(r.list);
		flow_release(r.buf);
		flow_down(&r.f);
	}
}

/* Destroyed with what it keeps: no completion, and the buffers are free. */
Test(retry, destroyed_meanwhile, .timeout = 60)
{
	struct nvmfr_completion done;
	static struct run r;

	r = (struct run){ .f = retrying(NVMFR_RETRY_ALL, NULL) };
	build(&r, &shapes[2]);
	submit(&r, &shapes[2]);
	never_again(&r.f);
	cr_expect_eq(nvmfr_poll(r.f.qp, &done, 1), 0);
	nvmfr_prepared_release(r.list);
	nvmfr_qpair_destroy(r.f.qp);
	r.f.qp = NULL;
	flow_release(r.buf);
	flow_down(&r.f);
}

/* fast_io_fail_ms: what waits ends early, new I/O is refused, and the recovery goes on. */
Test(retry, fails_fast, .timeout = 60)
{
	static struct run r;
	struct flow *f = &r.f;
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);
	unsigned int ms;

	r = (struct run){ .f = { 0 } };
	flow_host(f);
	flow_target(f, NULL);
	f->opts.ctrl_loss_timeout_ms = 60000;
	f->opts.reconnect_delay_ms = 10;
	f->opts.fast_io_fail_ms = 3000;
	f->nsid = flow_ns(f, 64 * MIB, BLOCK);
	flow_connect(f);
	opts.retry = NVMFR_RETRY_ALL;
	opts.qpair_data = 77;
	cr_assert_eq(flow_try_qpair(f, &opts, &f->qp), 0, "%s", nvmfr_last_error());
	build(&r, &shapes[0]);
	submit(&r, &shapes[0]);
	never_again(f);
	cr_expect_eq(nvmfr_submit(f->qp, r.ios, 1), -EAGAIN);
	ms = await(f, N, -ECONNABORTED);
	cr_expect(ms >= 2900 && ms < 3100, "%u ms", ms);
	cr_expect_eq(nvmfr_submit(f->qp, r.ios, 1), -ENOTCONN);
	flow_says("fast_io_fail_ms");
	cr_expect_eq(flow_qpair_info(f->qp).state, NVMFR_STATE_RECOVERING);
	nvmfr_soft_fault_clear(f->target);
	cr_assert_eq(nvmfr_qpair_wait(f->qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	flow_works(f);
	flow_release(r.buf);
	flow_down(f);
}

/* ---- by chance ---------------------------------------------------------------------------------- */

/* Losses at any moment, any kind of I/O, more commands than the ring has places: each told once, and well. */
Test(retry, by_chance, .timeout = 120)
{
	uint64_t state = flow_seed(20261201);
	static struct run r;
	unsigned int sent = 0, told = 0, out = 0;
	bool busy[N] = { false };

	r = (struct run){ .f = retrying(NVMFR_RETRY_ALL, NULL) };
	r.buf = flow_alloc(&r.f, N * 64 * KIB);
	while (told < 5000) {
		struct nvmfr_completion done[16];
		unsigned int i = (unsigned int)flow_below(&state, N);
		bool write = flow_below(&state, 50) == 0;
		int got;

		if (!busy[i] && sent < 5000) {
			struct nvmfr_io io =
				flow_io(&r.f, write ? NVMFR_OP_WRITE : NVMFR_OP_READ, i * 128,
					1 + flow_below(&state, 128), r.buf, i * 64 * KIB);

			io.user_data = i;
			if (nvmfr_submit(r.f.qp, &io, 1) == 1) {
				busy[i] = true;
				sent++;
				out++;
			}
		}
		if (flow_below(&state, 500) == 0)
			lose(&r.f);
		if (flow_below(&state, 4) && sent < 5000)
			continue;
		got = nvmfr_wait(r.f.qp, done, 1, 1 + (unsigned int)flow_below(&state, 16), 50);
		cr_assert_geq(got, 0, "%s", nvmfr_last_error());
		for (int k = 0; k < got; k++) {
			cr_assert(busy[done[k].user_data], "told twice");
			cr_assert_eq(done[k].result, 0, "%d", done[k].result);
			busy[done[k].user_data] = false;
			told++;
			out--;
		}
	}
	cr_expect_eq(out, 0u);
	flow_release(r.buf);
	flow_down(&r.f);
}

Test(retry, members_of_a_group, .timeout = 60)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_completion done[16];
	struct nvmfr_buffer *buf;
	struct nvmfr_qpair *qps[4];
	struct nvmfr_group *group;
	struct flow f = retrying(NVMFR_RETRY_NONE, NULL);

	buf = flow_alloc(&f, 4 * BLOCK);
	cr_assert_eq(nvmfr_group_create(f.host, NULL, &group), 0);
	opts.group = group;
	opts.retry = NVMFR_RETRY_ALL;
	for (unsigned int i = 0; i < 4; i++) {
		struct nvmfr_io io =
			flow_io(&f, i % 2 ? NVMFR_OP_WRITE : NVMFR_OP_READ, i, 1, buf, i * BLOCK);

		io.user_data = i;
		cr_assert_eq(nvmfr_qpair_create(f.ctrl, &opts, &qps[i]), 0, "%s",
			     nvmfr_last_error());
		cr_assert_eq(nvmfr_qpair_wait(qps[i], FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
		cr_assert_eq(nvmfr_submit(qps[i], &io, 1), 1);
	}
	lose(&f);
	for (int n = 0; n < 4;) {
		int got = nvmfr_group_wait(group, done, 1, 16, -1);

		cr_assert_gt(got, 0, "%s", nvmfr_last_error());
		for (int i = 0; i < got; i++, n++)
			cr_expect_eq(done[i].result, 0);
	}
	for (unsigned int i = 0; i < 4; i++)
		nvmfr_qpair_destroy(qps[i]);
	cr_assert_eq(nvmfr_group_destroy(group), 0);
	flow_release(buf);
	flow_down(&f);
}
