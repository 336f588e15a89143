/* SPDX-License-Identifier: BSD-3-Clause */
/* A target that stops: no command is answered any more, no connection request either, and nobody tells. */
#include "flow.h"

#include <nvmfr/cmd.h>

enum {
	BLOCK = 512,
	N = 64,
	IO_MS = 2000,
	ADMIN_MS = 1000,
	CONNECT_MS = 1000,
	FID_TEMPERATURE = 0x04,
};

static void mute(const struct flow *f)
{
	struct nvmfr_soft_fault silence =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_fault no_way =
		flow_fault(NVMFR_SOFT_FAULT_CM_SILENCE, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);

	silence.count = no_way.count = 0;
	flow_plan(f, &silence);
	flow_plan(f, &no_way);
}

static void up(struct flow *f, uint32_t retry, uint32_t loss_ms, uint32_t fast_ms)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(FLOW_DEPTH);

	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, 64 * MIB, BLOCK);
	f->opts.admin_timeout_ms = ADMIN_MS;
	f->opts.connect_timeout_ms = CONNECT_MS;
	f->opts.reconnect_delay_ms = 100;
	f->opts.ctrl_loss_timeout_ms = loss_ms;
	f->opts.fast_io_fail_ms = fast_ms;
	flow_connect(f);
	opts.io_timeout_ms = IO_MS;
	opts.retry = retry;
	cr_assert_eq(flow_try_qpair(f, &opts, &f->qp), 0, "%s", nvmfr_last_error());
}

/* ---- commands end -------------------------------------------------------------------------------- */

/* A loss is seen when the first command is over its time and its Abort, too, got no answer. */
static const struct ending {
	uint32_t retry, loss_ms, fast_ms, most_ms;
} endings[] = {
	{ NVMFR_RETRY_NONE, 0, 0, 5000 },
	{ NVMFR_RETRY_NONE, 5000, 0, 5000 },
	{ NVMFR_RETRY_READS, 5000, 0, 10000 },
	{ NVMFR_RETRY_ALL, 5000, 0, 10000 },
	{ NVMFR_RETRY_ALL, 60000, 3000, 8000 },
	{ NVMFR_RETRY_ALL, UINT32_MAX, 3000, 8000 },
};

static void submit_all(struct flow *f, struct nvmfr_buffer *buf)
{
	static const uint8_t ops[] = { NVMFR_OP_READ, NVMFR_OP_WRITE, NVMFR_OP_WRITE_ZEROES, NVMFR_OP_FLUSH };

	for (unsigned int i = 0; i < N; i++) {
		uint8_t op = ops[i % ARRAY_SIZE(ops)];
		bool data = op == NVMFR_OP_READ || op == NVMFR_OP_WRITE;
		struct nvmfr_io io = flow_io(f, op, op == NVMFR_OP_FLUSH ? 0 : i, op == NVMFR_OP_FLUSH ? 0 : 1,
					     data ? buf : NULL, data ? i * (uint64_t)BLOCK : 0);

		io.user_data = i;
		cr_assert_eq(nvmfr_submit(f->qp, &io, 1), 1, "%s", nvmfr_last_error());
	}
}

static void all_end(const struct ending *e)
{
	struct flow_outcome o = { .n = N };
	struct nvmfr_completion done[N];
	struct nvmfr_buffer *buf;
	unsigned int ended = 0;
	uint32_t ms = 0;
	struct flow f;

	up(&f, e->retry, e->loss_ms, e->fast_ms);
	buf = flow_alloc(&f, N * (size_t)BLOCK);
	mute(&f);
	submit_all(&f, buf);
	for (; ended < N && ms < e->most_ms; ms += 100) {
		int n;

		flow_idle_ms(&f, 100);
		n = nvmfr_poll(f.qp, done, N);
		flow_note(&o, done, n < 0 ? 0 : (unsigned int)n);
		ended += n < 0 ? 0 : (unsigned int)n;
	}
	cr_assert_eq(ended, N, "retry %u, loss %u, fast %u: %u ended within %u ms", e->retry, e->loss_ms, e->fast_ms,
		     ended, ms);
	flow_each_once(&o);
	cr_expect_eq(flow_count(&o, -ETIMEDOUT) + flow_count(&o, -ECONNABORTED), N);
	/* free at once, for nothing can touch it any more */
	flow_release(buf);
	flow_down(&f);
}

Test(mute, every_command_ends_within_its_time, .timeout = 60)
{
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		all_end(&endings[i]);
}

/* ---- calls return -------------------------------------------------------------------------------- */

static int identify(struct flow *f, struct nvmfr_buffer *buf)
{
	(void)buf;
	unsigned char page[4096];

	return nvmfr_identify(f->ctrl, CNS_CTRL, 0, 0, 0, page);
}

static int get_feature(struct flow *f, struct nvmfr_buffer *buf)
{
	(void)buf;
	return nvmfr_get_feature(f->ctrl, FID_NUM_QUEUES, NVMFR_FEATURE_CURRENT, 0, 0, NULL, 0, NULL);
}

static int set_feature(struct flow *f, struct nvmfr_buffer *buf)
{
	(void)buf;
	return nvmfr_set_feature(f->ctrl, FID_TEMPERATURE, 0, 0, 0, NULL, 0, NULL);
}

static int get_log(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_smart smart = { .size = sizeof(smart) };

	(void)buf;
	return nvmfr_read_smart(f->ctrl, 0xffffffff, &smart);
}

static int pread_bytes(struct flow *f, struct nvmfr_buffer *buf)
{
	return nvmfr_pread(f->qp, f->nsid, 100, buf, 0, 3 * BLOCK, -1);
}

/* The completion, not the call, has the error. */
static int wait_for_one(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_completion done;
	int n;

	cr_assert_eq(nvmfr_read(f->qp, f->nsid, 0, 1, buf, 0, 0), 0);
	n = nvmfr_wait(f->qp, &done, 1, 1, -1);
	return n == 1 ? done.result : n;
}

static int submit_and_wait(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_io io = flow_io(f, NVMFR_OP_READ, 0, 1, buf, 0);
	struct nvmfr_completion done;
	unsigned int taken;
	int n = nvmfr_submit_and_wait(f->qp, &io, 1, &taken, &done, 1, 1, -1);

	return n == 1 ? done.result : n;
}

static int another_qpair(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_qpair *qp;

	(void)buf;
	return flow_try_qpair(f, &opts, &qp);
}

static int another_controller(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_ctrl_opts opts = f->opts;
	struct nvmfr_ctrl *ctrl;
	int err;

	(void)buf;
	opts.uri = "nvmf+soft://t";
	cr_assert_eq(nvmfr_connect(f->host, &opts, &ctrl), 0);
	err = nvmfr_ctrl_wait(ctrl, -1);
	cr_expect_leq(nvmfr_disconnect(ctrl, -1), 0);
	return err;
}

static int discover(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_ctrl_opts opts = f->opts;
	struct nvmfr_discovery *found;

	(void)buf;
	opts.uri = "nvmf+soft://t";
	return nvmfr_discover(f->host, &opts, 0, &found);
}

static int disconnect(struct flow *f, struct nvmfr_buffer *buf)
{
	int err;

	(void)buf;
	nvmfr_qpair_destroy(f->qp);
	f->qp = NULL;
	err = nvmfr_disconnect(f->ctrl, CONNECT_MS);
	f->ctrl = NULL;
	return err;
}

static const struct call {
	int (*call)(struct flow *f, struct nvmfr_buffer *buf);
	const char *name;
	int result;
} calls[] = {
	{ identify, "identify", -ETIMEDOUT },
	{ get_feature, "get feature", -ETIMEDOUT },
	{ set_feature, "set feature", -ETIMEDOUT },
	{ get_log, "get log", -ETIMEDOUT },
	{ pread_bytes, "pread", -ETIMEDOUT },
	{ wait_for_one, "wait", -ETIMEDOUT },
	{ submit_and_wait, "submit and wait", -ETIMEDOUT },
	{ another_qpair, "queue pair", -ETIMEDOUT },
	{ another_controller, "connect", -ETIMEDOUT },
	{ discover, "discover", -ETIMEDOUT },
	{ disconnect, "disconnect", 0 },
};

/* Also where the association would be made anew for ever. */
static void returns(const struct call *c, uint32_t loss_ms)
{
	struct nvmfr_buffer *buf;
	struct flow f;
	int err;

	up(&f, NVMFR_RETRY_NONE, loss_ms, 0);
	buf = flow_alloc(&f, 8 * (size_t)BLOCK);
	mute(&f);
	err = c->call(&f, buf);
	cr_expect_eq(err, c->result, "%s, loss %u ms: %d (%s)", c->name, loss_ms, err, nvmfr_last_error());
	flow_release(buf);
	flow_down(&f);
}

Test(mute, every_call_returns, .timeout = 60)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		returns(&calls[i], 0);
		returns(&calls[i], UINT32_MAX);
	}
}
