/* SPDX-License-Identifier: BSD-3-Clause */
#include "flow.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what was said --------------------------------------------------------------------------- */

static void take_line(void *arg, enum nvmfr_log_level level, const char *msg)
{
	struct flow_log *log = arg;
	int n;

	pthread_mutex_lock(&log->lock);
	n = snprintf(log->text + log->used, sizeof(log->text) - log->used, "%d %s\n", (int)level,
		     msg);
	if (n > 0 && (size_t)n < sizeof(log->text) - log->used)
		log->used += (size_t)n;
	pthread_mutex_unlock(&log->lock);
}

bool flow_logged(const struct flow *f, const char *word)
{
	bool found;

	pthread_mutex_lock(&f->log->lock);
	found = strstr(f->log->text, word);
	pthread_mutex_unlock(&f->log->lock);
	return found;
}

void flow_says(const char *word)
{
	const char *text = nvmfr_last_error();

	cr_expect(text[0] && !strchr(text, '\n'), "'%s' is not one sentence", text);
	cr_expect(strstr(text, word), "'%s' does not say '%s'", text, word);
}

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t flow_seed(uint64_t own)
{
	const char *given = getenv("NVMFR_TEST_SEED");

	return given ? strtoull(given, NULL, 0) | 1 : own;
}

/* xorshift64*: the state must not be 0. */
uint64_t flow_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

uint64_t flow_below(uint64_t *state, uint64_t below)
{
	return (flow_random(state) >> 11) % below;
}

void flow_fill(uint64_t *state, void *bytes, size_t n)
{
	unsigned char *at = bytes;

	while (n) {
		uint64_t word = flow_random(state);
		size_t part = n < sizeof(word) ? n : sizeof(word);

		memcpy(at, &word, part);
		at += part;
		n -= part;
	}
}

/* ---- up -------------------------------------------------------------------------------------- */

static void open_host(struct flow *f, uint32_t flags)
{
	struct nvmfr_host_opts opts;

	*f = (struct flow){ .log = calloc(1, sizeof(*f->log)) };
	cr_assert_not_null(f->log);
	pthread_mutex_init(&f->log->lock, NULL);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = flags;
	opts.log_level = NVMFR_LOG_INFO;
	opts.log_fn = take_line;
	opts.log_arg = f->log;
	cr_assert_eq(nvmfr_host_create(&opts, &f->host), 0, "host: %s", nvmfr_last_error());
	nvmfr_ctrl_opts_init(&f->opts, sizeof(f->opts));
	f->opts.uri = "nvmf+soft://t";
}

void flow_host(struct flow *f)
{
	open_host(f, NVMFR_HOST_MANUAL);
	cr_assert_eq(nvmfr_soft_clock_freeze(f->host), 0, "freeze: %s", nvmfr_last_error());
	f->frozen = true;
}

void flow_host_unfrozen(struct flow *f)
{
	open_host(f, NVMFR_HOST_MANUAL);
}

void flow_host_thread(struct flow *f)
{
	open_host(f, 0);
}

void flow_target(struct flow *f, const struct nvmfr_soft_opts *opts)
{
	cr_assert_eq(nvmfr_soft_target_create(f->host, "t", opts, &f->target), 0, "target: %s",
		     nvmfr_last_error());
}

uint32_t flow_ns(struct flow *f, uint64_t bytes, uint32_t block_bytes)
{
	struct nvmfr_soft_ns_opts opts;
	int nsid;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.size_bytes = bytes;
	opts.block_bytes = block_bytes;
	nsid = nvmfr_soft_ns_add(f->target, &opts);
	cr_assert_gt(nsid, 0, "namespace: %s", nvmfr_last_error());
	f->nsid = (uint32_t)nsid;
	return f->nsid;
}

int flow_try_connect(struct flow *f)
{
	int err = nvmfr_connect(f->host, &f->opts, &f->ctrl);

	if (err) {
		cr_expect_null(f->ctrl, "a controller in spite of %d", err);
		return err;
	}
	err = nvmfr_ctrl_wait(f->ctrl, -1);
	cr_expect_eq(nvmfr_ctrl_state(f->ctrl), err ? NVMFR_STATE_LOST : NVMFR_STATE_LIVE,
		     "state after %d", err);
	if (err) {
		cr_expect_eq(nvmfr_disconnect(f->ctrl, 1000), 0, "disconnect");
		f->ctrl = NULL;
	}
	return err;
}

void flow_connect(struct flow *f)
{
	cr_assert_eq(flow_try_connect(f), 0, "connect: %s", nvmfr_last_error());
}

int flow_try_qpair(struct flow *f, const struct nvmfr_qpair_opts *opts, struct nvmfr_qpair **out)
{
	int err = nvmfr_qpair_create(f->ctrl, opts, out);

	if (err) {
		cr_expect_null(*out, "a queue pair in spite of %d", err);
		return err;
	}
	err = nvmfr_qpair_wait(*out, -1);
	if (err) {
		nvmfr_qpair_destroy(*out);
		*out = NULL;
	}
	return err;
}

struct nvmfr_qpair *flow_qpair(struct flow *f, unsigned int depth)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(depth);
	struct nvmfr_qpair *qp;

	cr_assert_eq(flow_try_qpair(f, &opts, &qp), 0, "queue pair: %s", nvmfr_last_error());
	return qp;
}

static void bring_up(struct flow *f, const struct nvmfr_soft_opts *opts)
{
	flow_target(f, opts);
	flow_ns(f, 64 * MIB, 512);
	flow_connect(f);
	f->qp = flow_qpair(f, FLOW_DEPTH);
}

void flow_up(struct flow *f, const struct nvmfr_soft_opts *opts)
{
	flow_host(f);
	bring_up(f, opts);
}

void flow_up_thread(struct flow *f, const struct nvmfr_soft_opts *opts)
{
	flow_host_thread(f);
	bring_up(f, opts);
}

struct flow flow_recovering(uint32_t loss_ms, uint32_t delay_ms)
{
	struct flow f = { 0 };

	flow_host(&f);
	flow_target(&f, NULL);
	f.opts.ctrl_loss_timeout_ms = loss_ms;
	f.opts.reconnect_delay_ms = delay_ms;
	f.nsid = flow_ns(&f, 64 * MIB, 512);
	flow_connect(&f);
	f.qp = flow_qpair(&f, FLOW_DEPTH);
	return f;
}

/* ---- down ------------------------------------------------------------------------------------ */

static void check_target(struct flow *f)
{
	struct nvmfr_soft_counters counters = flow_counters(f);
	char text[256];

	nvmfr_soft_last_violation(f->target, text, sizeof(text));
	cr_expect(f->violates || counters.violations == 0, "the initiator broke a rule: %s", text);
	cr_expect_eq(counters.open_connections, 0, "%llu connections were left open",
		     (unsigned long long)counters.open_connections);
}

void flow_down(struct flow *f)
{
	nvmfr_qpair_destroy(f->qp);
	cr_expect_eq(nvmfr_disconnect(f->ctrl, 1000), 0, "disconnect: %s", nvmfr_last_error());
	if (f->target)
		check_target(f);
	nvmfr_soft_target_destroy(f->target);
	nvmfr_host_destroy(f->host);
	cr_expect(!flow_logged(f, "the host ends"), "left behind: %s", f->log->text);
	pthread_mutex_destroy(&f->log->lock);
	free(f->log);
	*f = (struct flow){ .log = NULL };
}

/* ---- options --------------------------------------------------------------------------------- */

struct nvmfr_soft_opts flow_soft_opts(void)
{
	struct nvmfr_soft_opts opts;

	nvmfr_soft_opts_init(&opts, sizeof(opts));
	return opts;
}

struct nvmfr_qpair_opts flow_qpair_opts(unsigned int depth)
{
	struct nvmfr_qpair_opts opts;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = (uint16_t)depth;
	return opts;
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct nvmfr_buffer *flow_buffer(struct flow *f, void *addr, size_t bytes)
{
	struct nvmfr_buffer *buf;

	cr_assert_eq(nvmfr_buffer_register(f->host, addr, bytes, NVMFR_ACCESS_BOTH, &buf), 0,
		     "register: %s", nvmfr_last_error());
	return buf;
}

struct nvmfr_buffer *flow_alloc(struct flow *f, size_t bytes)
{
	struct nvmfr_buffer *buf;

	cr_assert_eq(nvmfr_buffer_alloc(f->host, bytes, -1, &buf), 0, "alloc: %s",
		     nvmfr_last_error());
	return buf;
}

void flow_release(struct nvmfr_buffer *buf)
{
	cr_expect_eq(nvmfr_buffer_release(buf), 0, "release: %s", nvmfr_last_error());
}

/* ---- I/O ------------------------------------------------------------------------------------- */

struct nvmfr_io flow_io(const struct flow *f, uint8_t op, uint64_t lba, uint64_t nblocks,
			struct nvmfr_buffer *buf, uint64_t offset)
{
	return (struct nvmfr_io){
		.op = op,
		.nsid = f->nsid,
		.lba = lba,
		.nblocks = nblocks,
		.buf = buf,
		.offset_bytes = offset,
	};
}

void flow_reads(struct flow *f, struct nvmfr_buffer *buf, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		cr_assert_eq(nvmfr_read(f->qp, f->nsid, i, 1, buf, i * UINT64_C(512), i), 0,
			     "read %u: %s", i, nvmfr_last_error());
}

void flow_wait(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int n)
{
	int got = n ? nvmfr_wait(qp, out, n, n, FLOW_WAIT_MS) : 0;

	cr_assert_eq(got, (int)n, "%u completions awaited, %d came: %s", n, got,
		     got < 0 ? nvmfr_last_error() : "");
}

struct nvmfr_completion flow_do(struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	struct nvmfr_completion done = { .result = -1 };
	int taken = nvmfr_submit(qp, io, 1);

	cr_assert_eq(taken, 1, "submit: %d, %s", taken, nvmfr_last_error());
	flow_wait(qp, &done, 1);
	cr_assert_eq(done.user_data, io->user_data, "somebody else's completion");
	return done;
}

void flow_must(struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	struct nvmfr_completion done = flow_do(qp, io);

	cr_assert_eq(done.result, 0, "op %u at LBA %llu: %s, status %04x", io->op,
		     (unsigned long long)io->lba, nvmfr_strerror(done.result), done.status);
}

void flow_works(struct flow *f)
{
	static const char words[] = "what was written is what is read";
	struct nvmfr_buffer *buf = flow_alloc(f, 8192);
	struct nvmfr_io io = flow_io(f, NVMFR_OP_WRITE, 1, 1, buf, 0);
	char *bytes = nvmfr_buffer_addr(buf);

	memcpy(bytes, words, sizeof(words));
	flow_must(f->qp, &io);
	io = flow_io(f, NVMFR_OP_READ, 1, 1, buf, 4096);
	flow_must(f->qp, &io);
	cr_assert_arr_eq(bytes + 4096, words, sizeof(words), "read back");
	flow_release(buf);
}

unsigned int flow_drain(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max)
{
	unsigned int n = 0;
	int got = 0;

	while (n < max && got >= 0) {
		got = nvmfr_wait(qp, out + n, 1, max - n, FLOW_WAIT_MS);
		cr_assert_neq(got, 0, "neither a completion nor the end within %d ms",
			      FLOW_WAIT_MS);
		n += got > 0 ? (unsigned int)got : 0;
	}
	if (n == max) {
		struct nvmfr_completion more;

		got = nvmfr_wait(qp, &more, 1, 1, FLOW_WAIT_MS);
	}
	cr_assert_eq(got, -ENOTCONN, "after %u completions: %d, %s", n, got, nvmfr_last_error());
	return n;
}

struct nvmfr_qpair_info flow_qpair_info(struct nvmfr_qpair *qp)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };

	cr_assert_eq(nvmfr_qpair_info(qp, &info), 0, "info: %s", nvmfr_last_error());
	return info;
}

struct nvmfr_ctrl_info flow_ctrl_info(const struct flow *f)
{
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };

	cr_assert_eq(nvmfr_ctrl_info(f->ctrl, &info), 0, "info: %s", nvmfr_last_error());
	return info;
}

/* ---- many I/Os and the end of an association ------------------------------------------------- */

void flow_note(struct flow_outcome *o, const struct nvmfr_completion *done, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		cr_assert_lt(done[i].user_data, o->n, "completion of an I/O that never was");
		o->times[done[i].user_data]++;
		o->last[done[i].user_data] = done[i];
	}
}

void flow_each_once(const struct flow_outcome *o)
{
	for (unsigned int i = 0; i < o->n; i++)
		cr_expect_eq(o->times[i], 1, "I/O %u completed %u times", i, o->times[i]);
}

unsigned int flow_count(const struct flow_outcome *o, int32_t result)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < o->n; i++)
		n += o->times[i] && o->last[i].result == result;
	return n;
}

void flow_synthesized(const struct nvmfr_completion *done, int32_t result)
{
	cr_expect_eq(done->result, result, "%llu: result %d, not %d",
		     (unsigned long long)done->user_data, done->result, result);
	cr_expect_eq(done->status, 0);
	cr_expect_eq(done->flags, 0);
	cr_expect_eq(done->cqe_result, 0);
}

void flow_drain_all(struct flow *f, struct flow_outcome *o)
{
	struct nvmfr_completion done[FLOW_DEPTH];
	unsigned int n = flow_drain(f->qp, done, FLOW_DEPTH);

	flow_note(o, done, n);
	flow_each_once(o);
	cr_expect_eq(flow_qpair_info(f->qp).in_flight, 0);
	cr_expect_eq(flow_qpair_info(f->qp).state, NVMFR_STATE_LOST);
	cr_expect_eq(nvmfr_ctrl_state(f->ctrl), NVMFR_STATE_LOST);
}

void flow_anew_then_down(struct flow *f)
{
	struct nvmfr_completion done;

	cr_expect_eq(nvmfr_poll(f->qp, &done, 1), -ENOTCONN);
	cr_expect_eq(nvmfr_read(f->qp, f->nsid, 0, 1, NULL, 0, 0), -ENOTCONN);
	nvmfr_qpair_destroy(f->qp);
	cr_expect_eq(nvmfr_disconnect(f->ctrl, 1000), 0);
	nvmfr_soft_fault_clear(f->target);
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
	flow_works(f);
	flow_down(f);
}

/* ---- the target ------------------------------------------------------------------------------ */

struct nvmfr_soft_counters flow_counters(const struct flow *f)
{
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };

	cr_assert_eq(nvmfr_soft_read_counters(f->target, &counters), 0, "counters: %s",
		     nvmfr_last_error());
	return counters;
}

struct nvmfr_soft_fault flow_fault(uint32_t kind, uint32_t qid, uint32_t opcode, uint32_t detail,
				   uint64_t value)
{
	struct nvmfr_soft_fault fault;

	nvmfr_soft_fault_init(&fault, sizeof(fault));
	fault.kind = kind;
	fault.qid = qid;
	fault.opcode = opcode;
	fault.detail = detail;
	fault.value = value;
	return fault;
}

void flow_plan(const struct flow *f, const struct nvmfr_soft_fault *fault)
{
	cr_assert_eq(nvmfr_soft_fault_add(f->target, fault), 0, "fault: %s", nvmfr_last_error());
}

void flow_plan_io(const struct flow *f, uint32_t kind, uint32_t opcode, uint64_t value)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 1, opcode, NVMFR_SOFT_ANY, value);

	flow_plan(f, &fault);
}

void flow_patch(const struct flow *f, uint32_t cns, uint32_t nsid, uint32_t offset,
		const void *bytes, uint32_t len)
{
	cr_assert_eq(nvmfr_soft_patch_identify(f->target, cns, nsid, offset, bytes, len), 0,
		     "patch: %s", nvmfr_last_error());
}

void flow_patch8(const struct flow *f, uint32_t cns, uint32_t offset, uint8_t value)
{
	flow_patch(f, cns, NVMFR_SOFT_ANY, offset, &value, 1);
}

void flow_advance_ms(const struct flow *f, uint32_t ms)
{
	cr_assert_eq(nvmfr_soft_clock_advance_us(f->host, ms * UINT64_C(1000)), 0, "advance: %s",
		     nvmfr_last_error());
}

void flow_settle(const struct flow *f)
{
	struct pollfd host = { .fd = nvmfr_host_fd(f->host), .events = POLLIN };

	do {
		cr_assert_eq(nvmfr_host_poll(f->host), 0, "poll: %s", nvmfr_last_error());
	} while (poll(&host, 1, 0) > 0);
}

void flow_idle_ms(const struct flow *f, uint32_t ms)
{
	for (uint32_t passed = 0; passed < ms;) {
		int due = nvmfr_host_timeout_ms(f->host);
		uint32_t step =
			due < 0 || (uint32_t)due > ms - passed ? ms - passed : (uint32_t)due;

		flow_advance_ms(f, step);
		passed += step;
		flow_settle(f);
	}
}
