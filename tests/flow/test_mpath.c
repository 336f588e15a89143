/* SPDX-License-Identifier: BSD-3-Clause */
/* Several paths to one target: two ports of it, each with a controller. Time is virtual. */
#include "paths.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct nvmfr_mqpair_info info_of(struct rig *r)
{
	struct nvmfr_mqpair_info info = { .size = sizeof(info) };

	cr_assert_eq(nvmfr_mqpair_info(r->mq, &info), 0, "%s", nvmfr_last_error());
	return info;
}

static struct nvmfr_mqpair_path path_of(struct rig *r, uint32_t index)
{
	struct nvmfr_mqpair_path path = { .size = sizeof(path) };

	cr_assert_eq(nvmfr_mqpair_path(r->mq, index, &path), 0, "%s", nvmfr_last_error());
	return path;
}

/* I/Os sent by each path since the last call. */
static void sent(struct rig *r, unsigned int out[2])
{
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t now = path_of(r, i).ios;

		out[i] = (unsigned int)(now - r->before[i]);
		r->before[i] = now;
	}
}

static void submit(struct rig *r, uint8_t op, uint64_t lba, uint64_t user_data)
{
	bool data = op == NVMFR_OP_READ || op == NVMFR_OP_WRITE;
	struct nvmfr_io io = flow_io(&r->f, op, op == NVMFR_OP_FLUSH ? 0 : lba, op != NVMFR_OP_FLUSH,
				     data ? r->buf : NULL, data ? lba * BLOCK : 0);

	io.user_data = user_data;
	cr_assert_eq(nvmfr_mqpair_submit(r->mq, &io, 1), 1, "%s", nvmfr_last_error());
}

static struct nvmfr_completion wait_one(struct rig *r)
{
	struct nvmfr_completion done = { .result = 0 };

	cr_assert_eq(nvmfr_mqpair_wait(r->mq, &done, 1, 1, FLOW_WAIT_MS), 1, "%s", nvmfr_last_error());
	cr_expect_eq(done.qpair_data, 77u);
	return done;
}

static void good(struct rig *r, uint8_t op, uint64_t lba)
{
	struct nvmfr_completion done;

	submit(r, op, lba, lba);
	done = wait_one(r);
	cr_expect_eq(done.result, 0, "%d, status 0x%x", done.result, done.status);
	cr_expect_eq(done.user_data, lba);
}

static void shut(struct rig *r, uint32_t port)
{
	cr_assert_eq(nvmfr_soft_port_set(r->f.target, port, 0), 0);
	flow_settle(&r->f);
}

static void set(struct rig *r, uint32_t port, uint32_t state)
{
	cr_assert_eq(nvmfr_soft_ana_set(r->f.target, port, 1, state), 0);
	flow_idle_ms(&r->f, 20); /* event requests go out again after a pause */
}

static uint64_t now_ms(const struct rig *r)
{
	/* The host's next timer is relative; the keep-alives counted tell how much time went by. */
	return flow_counters(&r->f).keep_alives * KATO_MS / 2;
}

/* ---- where I/Os go --------------------------------------------------------------------------- */

/* NUMA does so, too: where an embedded target is nobody knows. */
Test(mpath, round_robin, .timeout = 60)
{
	for (uint32_t policy = 0; policy <= NVMFR_MPATH_NUMA; policy += NVMFR_MPATH_NUMA) {
		struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
		unsigned int n[2];
		struct rig r;

		opts.policy = policy;
		up(&r, &opts, 0);
		cr_expect_eq(info_of(&r).paths, 2u);
		for (unsigned int i = 0; i < 40; i++)
			good(&r, i % 2 ? NVMFR_OP_READ : NVMFR_OP_WRITE, i / 2);
		good(&r, NVMFR_OP_FLUSH, 0);
		sent(&r, n);
		cr_expect(n[0] >= 20 && n[1] >= 20 && n[0] + n[1] == 41, "%u and %u", n[0], n[1]);
		cr_expect_eq(path_of(&r, 0).bytes_in_flight + path_of(&r, 1).bytes_in_flight, 0u);
		down(&r);
	}
}

Test(mpath, least_bytes, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_io io;
	unsigned int n[2];
	struct rig r;

	opts.policy = NVMFR_MPATH_LEAST_BYTES;
	up(&r, &opts, 0);
	/* One long one, then as many short ones as it is long go the other way. */
	io = flow_io(&r.f, NVMFR_OP_READ, 0, 16, r.buf, 0);
	cr_assert_eq(nvmfr_mqpair_submit(r.mq, &io, 1), 1);
	for (unsigned int i = 0; i < 16; i++)
		submit(&r, NVMFR_OP_READ, i, i);
	sent(&r, n);
	cr_expect(n[0] + n[1] == 17 && (n[0] == 1 || n[1] == 1), "%u and %u", n[0], n[1]);
	cr_expect_eq(path_of(&r, 0).bytes_in_flight, 16u * BLOCK);
	cr_expect_eq(path_of(&r, 1).bytes_in_flight, 16u * BLOCK);
	for (unsigned int i = 0; i < 17; i++)
		cr_expect_eq(wait_one(&r).result, 0);
	cr_expect_eq(path_of(&r, 0).bytes_in_flight, 0u);
	down(&r);
}

/* What ANA says of port 1, and then of port 2: where the I/Os go. */
Test(mpath, only_the_best_state_is_used, .timeout = 60)
{
	static const struct {
		uint8_t states[2];
		bool used[2];
	} rows[] = {
		{ { NVMFR_ANA_OPTIMIZED, NVMFR_ANA_NON_OPTIMIZED }, { true, false } },
		{ { NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_OPTIMIZED }, { false, true } },
		{ { NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_NON_OPTIMIZED }, { true, true } },
		{ { NVMFR_ANA_INACCESSIBLE, NVMFR_ANA_NON_OPTIMIZED }, { false, true } },
		{ { NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_PERSISTENT_LOSS }, { true, false } },
		{ { NVMFR_ANA_CHANGE, NVMFR_ANA_NON_OPTIMIZED }, { false, true } },
		{ { 7, NVMFR_ANA_OPTIMIZED }, { false, true } }, /* reserved */
	};
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	unsigned int n[2];
	struct rig r;

	up(&r, &opts, 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		set(&r, 1, rows[i].states[0]);
		set(&r, 2, rows[i].states[1]);
		for (unsigned int k = 0; k < 10; k++)
			good(&r, NVMFR_OP_READ, k);
		sent(&r, n);
		for (unsigned int k = 0; k < 2; k++)
			cr_expect_eq(n[k] != 0, rows[i].used[k], "row %u, path %u: %u", i, k, n[k]);
	}
	cr_expect_eq(info_of(&r).reissued, 0u);
	down(&r);
}

/* ---- what happens when a path goes ------------------------------------------------------------ */

/* The state of a verified load: each block holds its number and how often it was written. */
struct load {
	uint32_t version[BLOCKS];
	bool busy[BLOCKS], reading[BLOCKS];
	unsigned int in_flight, done;
	uint64_t seed;
};

static void put_pattern(uint8_t *block, uint32_t lba, uint32_t version)
{
	for (uint32_t i = 0; i < BLOCK; i += 8) {
		memcpy(block + i, &lba, 4);
		memcpy(block + i + 4, &version, 4);
	}
}

static void load_more(struct rig *r, struct load *l)
{
	while (l->in_flight < DEPTH / 2) {
		uint32_t lba = (uint32_t)flow_below(&l->seed, BLOCKS);
		bool reading = l->version[lba] && flow_below(&l->seed, 2);

		if (l->busy[lba])
			continue;
		l->busy[lba] = true;
		l->reading[lba] = reading;
		if (reading)
			memset(r->mem + lba * BLOCK, 0xee, BLOCK);
		else
			put_pattern(r->mem + lba * BLOCK, lba, ++l->version[lba]);
		submit(r, reading ? NVMFR_OP_READ : NVMFR_OP_WRITE, lba, lba);
		l->in_flight++;
	}
}

static void load_take(struct rig *r, struct load *l, unsigned int min)
{
	struct nvmfr_completion done[DEPTH];
	uint8_t want[BLOCK];
	int n = nvmfr_mqpair_wait(r->mq, done, min, DEPTH, FLOW_WAIT_MS);

	cr_assert_geq(n, (int)min, "%s", nvmfr_last_error());
	for (int i = 0; i < n; i++) {
		uint32_t lba = (uint32_t)done[i].user_data;

		cr_assert(l->busy[lba], "block %u was told twice", lba);
		cr_expect_eq(done[i].result, 0, "block %u: %d, status 0x%x", lba, done[i].result, done[i].status);
		put_pattern(want, lba, l->version[lba]);
		if (l->reading[lba])
			cr_expect_arr_eq(r->mem + lba * BLOCK, want, BLOCK, "block %u", lba);
		l->busy[lba] = false;
		l->in_flight--;
		l->done++;
	}
}

static void load_run(struct rig *r, struct load *l, unsigned int n)
{
	for (unsigned int until = l->done + n; l->done < until;) {
		load_more(r, l);
		load_take(r, l, 1);
	}
}

static void load_end(struct rig *r, struct load *l)
{
	while (l->in_flight)
		load_take(r, l, l->in_flight);
}

/* A port shut under a verified load, opened again; then the other one. No I/O fails, none is told twice. */
Test(mpath, a_path_lost_under_load, .timeout = 120)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_ALL);
	struct load l = { .seed = flow_seed(11) };
	unsigned int n[2];
	uint64_t before;
	struct rig r;

	up(&r, &opts, UINT32_MAX);
	load_run(&r, &l, 2000);
	for (unsigned int port = 1; port <= 2; port++) {
		load_more(&r, &l);
		before = now_ms(&r);
		cr_assert_eq(nvmfr_soft_port_set(r.f.target, port, 0), 0);
		sent(&r, n);
		load_run(&r, &l, 200);
		sent(&r, n);
		cr_expect_gt(n[2 - port], 0u);
		load_run(&r, &l, 4000);
		load_end(&r, &l);
		printf("# port %u shut: its I/Os ended within some %" PRIu64 " ms of virtual time\n", port,
		       now_ms(&r) - before);
		cr_assert_eq(nvmfr_soft_port_set(r.f.target, port, 1), 0);
		cr_assert_eq(nvmfr_ctrl_wait(r.ctrls[port - 1], FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
		flow_settle(&r.f);
		sent(&r, n);
		load_run(&r, &l, 200);
		sent(&r, n);
		cr_expect(n[0] && n[1], "both again: %u and %u", n[0], n[1]);
	}
	load_end(&r, &l);
	cr_expect_gt(info_of(&r).reissued, 0u);
	down(&r);
}

Test(mpath, a_group_switched_under_load, .timeout = 120)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_ALL);
	struct load l = { .seed = flow_seed(12) };
	unsigned int n[2];
	struct rig r;

	up(&r, &opts, 0);
	set(&r, 2, NVMFR_ANA_INACCESSIBLE);
	for (unsigned int i = 0; i < 20; i++) {
		uint32_t on = 1 + (i + 1) % 2, off = 1 + i % 2;

		/* The commands are under way, and the controllers' word of it is not. */
		load_run(&r, &l, 50);
		load_more(&r, &l);
		cr_assert_eq(nvmfr_soft_ana_set(r.f.target, off, 1, NVMFR_ANA_INACCESSIBLE), 0);
		cr_assert_eq(nvmfr_soft_ana_set(r.f.target, on, 1, NVMFR_ANA_OPTIMIZED), 0);
		load_run(&r, &l, 100);
		sent(&r, n);
		load_run(&r, &l, 100);
		sent(&r, n);
		cr_expect(n[on - 1] && !n[off - 1], "round %u: %u and %u", i, n[0], n[1]);
	}
	load_end(&r, &l);
	cr_expect_gt(info_of(&r).reissued, 0u);
	down(&r);
}

/* What a lost path's I/Os end with, by policy. */
Test(mpath, what_is_issued_again, .timeout = 60)
{
	static const struct {
		uint32_t retry;
		uint8_t op;
		int32_t result;
	} rows[] = {
		{ NVMFR_RETRY_NONE, NVMFR_OP_READ, -ECONNABORTED },
		{ NVMFR_RETRY_NONE, NVMFR_OP_WRITE, -ECONNABORTED },
		{ NVMFR_RETRY_READS, NVMFR_OP_READ, 0 },
		{ NVMFR_RETRY_READS, NVMFR_OP_FLUSH, 0 },
		{ NVMFR_RETRY_READS, NVMFR_OP_WRITE, -ECONNABORTED },
		{ NVMFR_RETRY_ALL, NVMFR_OP_READ, 0 },
		{ NVMFR_RETRY_ALL, NVMFR_OP_WRITE, 0 },
		{ NVMFR_RETRY_ALL, NVMFR_OP_WRITE_ZEROES, 0 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nvmfr_mpath_opts opts = defaults(rows[i].retry);
		struct nvmfr_completion done;
		struct rig r;

		up(&r, &opts, 0);
		flow_plan_io(&r.f, NVMFR_SOFT_FAULT_DISCONNECT_ALL, rows[i].op, 0);
		submit(&r, rows[i].op, 0, 0);
		done = wait_one(&r);
		cr_expect_eq(done.result, rows[i].result, "row %u: %d", i, done.result);
		cr_expect_eq(info_of(&r).reissued, rows[i].result == 0, "row %u", i);
		down(&r);
	}
}

/* Not before its old controller cannot do it any more: twice KATO. A read goes at once. */
Test(mpath, a_write_in_doubt_waits, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_ALL);
	struct nvmfr_completion done;
	struct rig r;

	up(&r, &opts, 0);
	flow_plan_io(&r.f, NVMFR_SOFT_FAULT_DISCONNECT_ALL, OPC_WRITE, 0);
	submit(&r, NVMFR_OP_WRITE, 1, 1);
	submit(&r, NVMFR_OP_READ, 2, 2);
	cr_expect_eq(wait_one(&r).user_data, 2u);
	flow_idle_ms(&r.f, 2 * KATO_MS - 100);
	cr_expect_eq(nvmfr_mqpair_poll(r.mq, &done, 1), 0);
	cr_expect_eq(flow_counters(&r.f).writes, 0u);
	flow_idle_ms(&r.f, 200);
	done = wait_one(&r);
	cr_expect_eq(done.result, 0);
	cr_expect_eq(flow_counters(&r.f).writes, 1u);
	down(&r);
}

/* ---- no path ---------------------------------------------------------------------------------- */

Test(mpath, both_gone, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_ALL);
	unsigned int aborted = 0, unreachable = 0;
	struct nvmfr_completion done;
	struct rig r;

	up(&r, &opts, 0);
	for (unsigned int i = 0; i < 20; i++)
		submit(&r, i % 2 ? NVMFR_OP_READ : NVMFR_OP_WRITE, i, i);
	shut(&r, 1);
	shut(&r, 2);
	submit(&r, NVMFR_OP_WRITE, 20, 20);
	cr_expect_eq(nvmfr_mqpair_poll(r.mq, &done, 1), 0);
	cr_expect_eq(info_of(&r).waiting, 21u);
	for (unsigned int i = 0; i < 21; i++) {
		done = wait_one(&r);
		aborted += done.result == -ECONNABORTED;
		unreachable += done.result == -EHOSTUNREACH;
		cr_expect_eq(done.status, 0);
	}
	/* Of what was sent nobody knows; what only reads, or never was sent, was not done. */
	cr_expect_eq(aborted, 10u);
	cr_expect_eq(unreachable, 11u);
	cr_expect_eq(info_of(&r).in_flight, 0u);
	cr_expect_eq(nvmfr_mqpair_wait(r.mq, &done, 1, 1, -1), -EINVAL);
	flow_says("nothing is in flight");
	down(&r);
}

/* Memory that something waits to be read into is in use, in whatever way it came to wait; then it is not. */
Test(mpath, buffers_of_what_waits, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);

	for (unsigned int way = 0; way < 6; way++) {
		struct nvmfr_iov iov[2];
		struct nvmfr_io io;
		bool sent = way & 1, ends = way >= 4;
		struct rig r;

		up(&r, &opts, UINT32_MAX);
		iov[0] = (struct nvmfr_iov){ r.buf, 0, BLOCK };
		iov[1] = (struct nvmfr_iov){ r.buf, 4096, BLOCK };
		io = flow_io(&r.f, NVMFR_OP_READ, 0, 2, r.buf, 0);
		if (way >= 2) {
			io.flags = NVMFR_IO_VEC;
			io.iov = iov;
			io.niov = 2;
		}
		if (!sent) {
			shut(&r, 1);
			shut(&r, 2);
		}
		cr_assert_eq(nvmfr_mqpair_submit(r.mq, &io, 1), 1, "%s", nvmfr_last_error());
		cr_expect_eq(nvmfr_buffer_release(r.buf), -EBUSY, "way %u", way);
		if (sent) {
			struct nvmfr_completion done;

			shut(&r, 1);
			shut(&r, 2);
			cr_expect_eq(nvmfr_mqpair_poll(r.mq, &done, 1), 0);
		}
		cr_expect_eq(info_of(&r).waiting, 1u);
		cr_expect_eq(nvmfr_buffer_release(r.buf), -EBUSY, "way %u", way);
		if (ends) {
			nvmfr_mqpair_destroy(r.mq);
			r.mq = NULL;
		} else {
			cr_assert_eq(nvmfr_soft_port_set(r.f.target, 1 + sent, 1), 0);
			cr_expect_eq(wait_one(&r).result, 0, "way %u", way);
		}
		down(&r);
	}
}

Test(mpath, all_inaccessible_then_one_comes_back, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_completion done;
	struct rig r;

	up(&r, &opts, 0);
	set(&r, NVMFR_SOFT_ANY, NVMFR_ANA_INACCESSIBLE);
	submit(&r, NVMFR_OP_WRITE, 1, 1); /* was not sent: that is no retry */
	flow_idle_ms(&r.f, NO_PATH_MS / 2);
	cr_expect_eq(nvmfr_mqpair_poll(r.mq, &done, 1), 0);
	set(&r, 2, NVMFR_ANA_OPTIMIZED);
	cr_expect_eq(wait_one(&r).result, 0);
	set(&r, 2, NVMFR_ANA_INACCESSIBLE);
	submit(&r, NVMFR_OP_WRITE, 1, 1);
	cr_expect_eq(wait_one(&r).result, -EHOSTUNREACH);
	down(&r);
}

/* The time without a path is over, and the transition is not: ANATT counts, then that is over, too. */
Test(mpath, a_transition_is_waited_for, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_completion done;
	struct rig r;

	opts.no_path_timeout_ms = 1000;
	up(&r, &opts, 0);
	for (unsigned int i = 0; i < 2; i++) {
		set(&r, NVMFR_SOFT_ANY, NVMFR_ANA_CHANGE);
		submit(&r, NVMFR_OP_READ, 1, 1);
		for (unsigned int k = 0; k < 8; k++) {
			flow_idle_ms(&r.f, 1000);
			cr_expect_eq(nvmfr_mqpair_poll(r.mq, &done, 1), 0, "%u", k);
		}
		if (i == 0)
			set(&r, 1, NVMFR_ANA_OPTIMIZED);
		cr_expect_eq(wait_one(&r).result, i ? -EHOSTUNREACH : 0);
	}
	down(&r);
}

/* Statuses of a path without an ANA state that explains them; two paths, so two tries and a pause. */
Test(mpath, path_statuses, .timeout = 60)
{
	static const struct {
		uint16_t status;
		int32_t result;
	} rows[] = {
		{ 0x300, 0 },
		{ 0x301, 0 },
		{ 0x302, 0 },
		{ 0x303, 0 },
		{ 0x360, 0 },
		{ 0x370, 0 },
		{ 0x4302, -EREMOTEIO }, /* DNR */
		{ STATUS_UNRECOVERED_READ, -EREMOTEIO },
	};
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_ALL);

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(NVMFR_SOFT_FAULT_STATUS, NVMFR_SOFT_ANY, OPC_WRITE, NVMFR_SOFT_ANY, rows[i].status);
		struct nvmfr_completion done;
		struct rig r;

		up(&r, &opts, 0);
		fault.count = rows[i].result ? 1 : 5;
		flow_plan(&r.f, &fault);
		submit(&r, NVMFR_OP_WRITE, 0, 0);
		done = wait_one(&r);
		cr_expect_eq(done.result, rows[i].result, "0x%x: %d", rows[i].status, done.result);
		cr_expect_eq(info_of(&r).reissued, rows[i].result ? 0u : 5u, "0x%x", rows[i].status);
		down(&r);
	}
}

/* A controller that refuses for ever ends within the time. */
Test(mpath, refused_for_ever, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_ALL);
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_STATUS, NVMFR_SOFT_ANY, OPC_WRITE, NVMFR_SOFT_ANY, 0x302);
	struct rig r;

	up(&r, &opts, 0);
	fault.count = 0;
	flow_plan(&r.f, &fault);
	submit(&r, NVMFR_OP_WRITE, 0, 0);
	cr_expect_eq(wait_one(&r).result, -EHOSTUNREACH);
	down(&r);
}

/* ---- paths that come and go -------------------------------------------------------------------- */

Test(mpath, added_and_removed, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	unsigned int n[2];
	struct rig r;

	up(&r, &opts, 0);
	cr_expect_eq(nvmfr_mpath_add(r.mpath, r.ctrls[0]), -EEXIST);
	cr_expect_eq(nvmfr_mpath_destroy(r.mpath), -EBUSY);
	cr_expect_eq(nvmfr_disconnect(r.ctrls[0], 1000), -EBUSY);
	flow_says("nvmfr_mpath_remove");
	submit(&r, NVMFR_OP_READ, 0, 0);
	submit(&r, NVMFR_OP_READ, 1, 1);
	cr_assert_eq(nvmfr_mpath_remove(r.mpath, r.ctrls[0]), 0);
	cr_expect_eq(nvmfr_mpath_remove(r.mpath, r.ctrls[0]), -ENOENT);
	cr_expect_eq(nvmfr_disconnect(r.ctrls[0], 1000), -EBUSY, "what is in flight");
	cr_expect_eq(wait_one(&r).result, 0);
	cr_expect_eq(wait_one(&r).result, 0);
	flow_advance_ms(&r.f, 200);
	good(&r, NVMFR_OP_READ, 2);
	cr_expect_eq(info_of(&r).paths, 1u);
	cr_assert_eq(nvmfr_disconnect(r.ctrls[0], 1000), 0, "%s", nvmfr_last_error());
	r.ctrls[0] = connect_to(&r, 1, 0);
	cr_assert_eq(nvmfr_mpath_add(r.mpath, r.ctrls[0]), 0, "%s", nvmfr_last_error());
	good(&r, NVMFR_OP_READ, 3);
	flow_settle(&r.f);
	sent(&r, n);
	for (unsigned int i = 0; i < 10; i++)
		good(&r, NVMFR_OP_READ, 4);
	sent(&r, n);
	cr_expect(n[0] == 5 && n[1] == 5, "%u and %u", n[0], n[1]);
	down(&r);
}

/* Handles before there is a path, and a controller that connects still. */
Test(mpath, io_before_the_first_path, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct rig r = { .mem = NULL };

	flow_host(&r.f);
	target_up(&r);
	r.buf = flow_alloc(&r.f, BLOCKS * BLOCK);
	cr_assert_eq(nvmfr_mpath_create(r.f.host, &opts, &r.mpath), 0);
	cr_assert_eq(nvmfr_mqpair_create(r.mpath, NULL, &r.mq), 0);
	r.f.opts.uri = "nvmf+soft://t";
	cr_assert_eq(nvmfr_connect(r.f.host, &r.f.opts, &r.ctrls[0]), 0);
	cr_assert_eq(nvmfr_mpath_add(r.mpath, r.ctrls[0]), 0, "%s", nvmfr_last_error());
	submit(&r, NVMFR_OP_READ, 0, 5);
	{
		struct nvmfr_completion done;

		cr_assert_eq(nvmfr_mqpair_wait(r.mq, &done, 1, 1, FLOW_WAIT_MS), 1, "%s", nvmfr_last_error());
		cr_expect(done.result == 0 && done.user_data == 5);
	}
	r.ctrls[1] = NULL;
	down(&r);
}

/* ---- what is refused -------------------------------------------------------------------------- */

/* Another subsystem; a namespace of another identity under the same NSID, found when it is added or later. */
Test(mpath, what_is_no_path, .timeout = 60)
{
	static const uint8_t other[16] = { 1, 2, 3 };
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_ctrl *third;
	unsigned int n[2];
	struct rig r;

	up(&r, &opts, UINT32_MAX);
	for (unsigned int i = 0; i < 4; i++)
		good(&r, NVMFR_OP_READ, i);
	flow_patch(&r.f, CNS_NS_DESCS, 1, 4, other, sizeof(other));
	flow_patch(&r.f, CNS_NS, 1, 104, other, sizeof(other));
	third = connect_to(&r, 1, 0);
	cr_expect_eq(nvmfr_mpath_add(r.mpath, third), -EINVAL);
	flow_says("namespace 1");
	cr_expect_eq(nvmfr_disconnect(third, 1000), 0);
	/* One that was good comes back with another namespace. */
	shut(&r, 1);
	cr_assert_eq(nvmfr_soft_port_set(r.f.target, 1, 1), 0);
	cr_assert_eq(nvmfr_ctrl_wait(r.ctrls[0], FLOW_WAIT_MS), 0);
	good(&r, NVMFR_OP_READ, 0);
	flow_idle_ms(&r.f, 1000);
	sent(&r, n);
	for (unsigned int i = 0; i < 10; i++)
		good(&r, NVMFR_OP_READ, i);
	sent(&r, n);
	cr_expect(n[0] == 0 && n[1] == 10, "%u and %u", n[0], n[1]);
	cr_expect(flow_logged(&r.f, "namespace 1 is another one on this path"));
	nvmfr_soft_fault_clear(r.f.target);
	down(&r);
}

Test(mpath, another_subsystem, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_soft_target *target;
	struct nvmfr_soft_opts soft = flow_soft_opts();
	struct nvmfr_ctrl *third;
	struct rig r;

	up(&r, &opts, 0);
	soft.subnqn = "nqn.2026-12.test:another";
	cr_assert_eq(nvmfr_soft_target_create(r.f.host, "u", &soft, &target), 0);
	r.f.opts.uri = "nvmf+soft://u";
	cr_assert_eq(nvmfr_connect(r.f.host, &r.f.opts, &third), 0);
	cr_expect_eq(nvmfr_mpath_add(r.mpath, third), -EINVAL);
	flow_says("another");
	cr_expect_eq(nvmfr_disconnect(third, 0), 0);
	nvmfr_soft_target_destroy(target);
	down(&r);
}

/* Out of descriptors at any moment: an error, and what was half made closes none of the process's own. */
Test(mpath, out_of_descriptors, .timeout = 60)
{
	struct rlimit before, tight;
	int err = -EMFILE, in = dup(0);
	struct rig r;

	up(&r, NULL, 0);
	nvmfr_mqpair_destroy(r.mq);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	/* 0 is what a field has that nobody filled in; it may be closed where tests run. */
	if (in < 0)
		cr_assert_eq(open("/dev/null", O_RDONLY), 0);
	tight = before;
	tight.rlim_cur = (rlim_t)dup(0);
	close((int)tight.rlim_cur);
	for (; err; tight.rlim_cur++) {
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
		err = nvmfr_mqpair_create(r.mpath, NULL, &r.mq);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
		cr_assert(err == 0 || err == -EMFILE, "%d: %s", err, nvmfr_last_error());
		cr_assert_geq(fcntl(0, F_GETFD), 0, "the process's own was closed");
	}
	close(in < 0 ? 0 : in);
	down(&r);
}

Test(mpath, bad_arguments, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_mqpair_path path = { .size = sizeof(path) };
	struct nvmfr_completion done;
	struct nvmfr_mpath *mpath;
	struct nvmfr_io ios[2];
	struct rig r;

	up(&r, &opts, 0);
	opts.policy = 3;
	cr_expect_eq(nvmfr_mpath_create(r.f.host, &opts, &mpath), -EINVAL);
	cr_expect_null(mpath);
	cr_expect_eq(nvmfr_mpath_add(r.mpath, NULL), -EINVAL);
	cr_expect_eq(nvmfr_mqpair_poll(NULL, &done, 1), -EINVAL);
	cr_expect_eq(nvmfr_mqpair_poll(r.mq, &done, 0), -EINVAL);
	cr_expect_eq(nvmfr_mqpair_submit(r.mq, NULL, 1), -EINVAL);
	cr_expect_eq(nvmfr_mqpair_path(r.mq, 2, &path), -ENOENT);
	/* As on a queue pair: what is bad is refused at once and has no completion. */
	ios[0] = flow_io(&r.f, NVMFR_OP_READ, 0, 1, r.buf, 0);
	ios[1] = flow_io(&r.f, NVMFR_OP_READ, MIB / BLOCK, 1, r.buf, 0);
	cr_expect_eq(nvmfr_mqpair_submit(r.mq, ios, 2), 1);
	cr_expect_eq(nvmfr_mqpair_submit(r.mq, &ios[1], 1), -ERANGE);
	ios[1] = flow_io(&r.f, NVMFR_OP_READ, 0, 1, r.buf, 0);
	ios[1].nsid = 9;
	cr_expect_eq(nvmfr_mqpair_submit(r.mq, &ios[1], 1), -ENOENT);
	cr_expect_eq(wait_one(&r).result, 0);
	for (unsigned int i = 0; i < DEPTH; i++)
		submit(&r, NVMFR_OP_READ, i, i);
	cr_expect_eq(nvmfr_mqpair_submit(r.mq, ios, 1), -EAGAIN);
	for (unsigned int i = 0; i < DEPTH; i++)
		cr_expect_eq(wait_one(&r).result, 0);
	down(&r);
}
