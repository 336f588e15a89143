/* SPDX-License-Identifier: BSD-3-Clause */
/* What is counted of each path, and what a dump tells of all. Time is virtual. */
#include "paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dumped[32768];

static void dump(const struct rig *r)
{
	int need = nvmfr_mpath_dump(r->mpath, dumped, sizeof(dumped));

	cr_assert(need > 0 && need <= (int)sizeof(dumped), "%d: %s", need, nvmfr_last_error());
	cr_expect_eq((int)strlen(dumped) + 1, need);
}

/* In the dump's part of a path. */
static const char *value_of(unsigned int path, const char *name)
{
	const char *at = dumped;
	char quoted[32];

	for (unsigned int i = 0; i <= path; i++) {
		at = strstr(at, "{\"cntlid\": ");
		cr_assert(at, "path %u is not in %s", path, dumped);
		at++;
	}
	snprintf(quoted, sizeof(quoted), "\"%s\": ", name);
	at = strstr(at, quoted);
	cr_assert(at, "%s is not in %s", name, dumped);
	return at + strlen(quoted);
}

static bool says(unsigned int path, const char *name, const char *value)
{
	return strncmp(value_of(path, name), value, strlen(value)) == 0;
}

static uint64_t dumped_sum(const char *name)
{
	return strtoull(value_of(0, name), NULL, 10) + strtoull(value_of(1, name), NULL, 10);
}

static struct nvmfr_mqpair_path path_of(struct nvmfr_mqpair *mq, uint32_t index)
{
	struct nvmfr_mqpair_path path = { .size = sizeof(path) };

	cr_assert_eq(nvmfr_mqpair_path(mq, index, &path), 0, "%s", nvmfr_last_error());
	return path;
}

static void submit(struct rig *r, struct nvmfr_mqpair *mq, uint8_t op, uint64_t lba, uint64_t nblocks)
{
	struct nvmfr_io io = flow_io(&r->f, op, lba, nblocks, r->buf, lba * BLOCK);

	cr_assert_eq(nvmfr_mqpair_submit(mq, &io, 1), 1, "%s", nvmfr_last_error());
}

static int32_t wait_one(struct nvmfr_mqpair *mq)
{
	struct nvmfr_completion done;

	cr_assert_eq(nvmfr_mqpair_wait(mq, &done, 1, 1, FLOW_WAIT_MS), 1, "%s", nvmfr_last_error());
	return done.result;
}

/* What one fault leaves in the counts of the path that met it, and of no other. */
Test(mpath_counts, failures_by_kind, .timeout = 60)
{
	static const struct {
		uint32_t kind;
		uint8_t op;
		uint16_t value;
		int32_t result;
		struct {
			uint64_t refused, aborted, timed_out, reissued;
		} want;
	} rows[] = {
		{ NVMFR_SOFT_FAULT_STATUS, NVMFR_OP_READ, 0x302, 0, { 1, 0, 0, 1 } },
		{ NVMFR_SOFT_FAULT_STATUS, NVMFR_OP_READ, STATUS_UNRECOVERED_READ, -EREMOTEIO, { 1, 0, 0, 0 } },
		{ NVMFR_SOFT_FAULT_STATUS, NVMFR_OP_WRITE, 0x302, -EREMOTEIO, { 1, 0, 0, 0 } },
		{ NVMFR_SOFT_FAULT_DISCONNECT_ALL, NVMFR_OP_READ, 0, 0, { 0, 1, 0, 1 } },
		{ NVMFR_SOFT_FAULT_DISCONNECT_ALL, NVMFR_OP_WRITE, 0, -ECONNABORTED, { 0, 1, 0, 0 } },
		{ NVMFR_SOFT_FAULT_SILENCE, NVMFR_OP_READ, 0, 0, { 0, 0, 1, 1 } },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
		struct nvmfr_mqpair_path hit, other;
		int32_t result;
		struct rig r;

		up(&r, &opts, UINT32_MAX);
		flow_plan_io(&r.f, rows[i].kind, rows[i].op, rows[i].value);
		submit(&r, r.mq, rows[i].op, 0, 3);
		result = wait_one(r.mq);
		cr_expect_eq(result, rows[i].result, "row %u: %d", i, result);
		hit = path_of(r.mq, 0);
		other = path_of(r.mq, 1);
		cr_expect(memcmp(&hit.refused, &rows[i].want, sizeof(rows[i].want)) == 0,
			  "row %u: %lu refused, %lu aborted, %lu timed out, %lu again", i, hit.refused, hit.aborted,
			  hit.timed_out, hit.reissued);
		cr_expect_eq(other.refused + other.aborted + other.timed_out + other.reissued, 0u, "row %u", i);
		cr_expect_eq(hit.bytes + other.bytes, (1 + rows[i].want.reissued) * 3 * BLOCK, "row %u", i);
		dump(&r);
		cr_expect_eq(dumped_sum("refused"), rows[i].want.refused, "row %u: %s", i, dumped);
		cr_expect_eq(dumped_sum("aborted"), rows[i].want.aborted, "row %u: %s", i, dumped);
		cr_expect_eq(dumped_sum("timed_out"), rows[i].want.timed_out, "row %u: %s", i, dumped);
		cr_expect_eq(dumped_sum("reissued"), rows[i].want.reissued, "row %u: %s", i, dumped);
		down(&r);
	}
}

/* All threads' I/Os, also of those that ended; what is in flight is the present's. */
Test(mpath_counts, all_threads, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct nvmfr_mqpair *second;
	struct rig r;

	up(&r, &opts, 0);
	cr_assert_eq(nvmfr_mqpair_create(r.mpath, NULL, &second), 0, "%s", nvmfr_last_error());
	flow_settle(&r.f);
	for (unsigned int i = 0; i < 10; i++) {
		submit(&r, i % 2 ? r.mq : second, NVMFR_OP_READ, i, 2);
		cr_expect_eq(wait_one(i % 2 ? r.mq : second), 0);
	}
	submit(&r, r.mq, NVMFR_OP_READ, 0, 1);
	submit(&r, second, NVMFR_OP_READ, 1, 4);
	dump(&r);
	cr_expect(strstr(dumped, "\"threads\": 2, \"waiting\": 0, "), "%s", dumped);
	cr_expect_eq(dumped_sum("ios"), 12u, "%s", dumped);
	cr_expect_eq(dumped_sum("bytes"), (20 + 5) * BLOCK, "%s", dumped);
	cr_expect_eq(dumped_sum("in_flight"), 2u, "%s", dumped);
	cr_expect_eq(dumped_sum("bytes_in_flight"), 5 * BLOCK, "%s", dumped);
	nvmfr_mqpair_destroy(second);
	dump(&r);
	cr_expect(strstr(dumped, "\"threads\": 1, "), "%s", dumped);
	cr_expect_eq(dumped_sum("ios"), 12u, "%s", dumped);
	cr_expect_eq(dumped_sum("in_flight"), 1u, "%s", dumped);
	cr_expect_eq(dumped_sum("bytes_in_flight"), BLOCK, "%s", dumped);
	cr_expect_eq(wait_one(r.mq), 0);
	/* A path that is added again begins anew. */
	cr_assert_eq(nvmfr_mpath_remove(r.mpath, r.ctrls[0]), 0);
	cr_assert_eq(nvmfr_mpath_add(r.mpath, r.ctrls[0]), 0);
	dump(&r);
	cr_expect_eq(strtoull(value_of(0, "ios"), NULL, 10), 0u, "%s", dumped);
	cr_expect_gt(strtoull(value_of(1, "ios"), NULL, 10), 0u, "%s", dumped);
	down(&r);
}

Test(mpath_counts, states_and_what_waits, .timeout = 60)
{
	struct nvmfr_mpath_opts opts = defaults(NVMFR_RETRY_READS);
	struct rig r;

	up(&r, &opts, UINT32_MAX);
	cr_assert_eq(nvmfr_soft_ana_set(r.f.target, 2, 1, NVMFR_ANA_INACCESSIBLE), 0);
	cr_assert_eq(nvmfr_soft_port_set(r.f.target, 1, 0), 0);
	flow_idle_ms(&r.f, 20);
	for (unsigned int i = 0; i < 3; i++)
		submit(&r, r.mq, NVMFR_OP_READ, i, 1);
	dump(&r);
	cr_expect(strstr(dumped, "\"subnqn\": \"" NVMFR_SOFT_SUBNQN "\", \"threads\": 1, \"waiting\": 3, "), "%s",
		  dumped);
	cr_expect(says(0, "state", "\"recovering\""), "%s", dumped);
	cr_expect(says(1, "state", "\"live\""), "%s", dumped);
	cr_expect(says(1, "namespaces", "[{\"nsid\": 1, \"ana_state\": 3, \"ana_group\": 1}]"), "%s", dumped);
	cr_assert_eq(nvmfr_soft_port_set(r.f.target, 1, 1), 0);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_eq(wait_one(r.mq), 0);
	dump(&r);
	cr_expect(strstr(dumped, "\"waiting\": 0, "), "%s", dumped);
	down(&r);
}

Test(mpath_counts, little_room_and_bad_arguments, .timeout = 60)
{
	char text[8] = "xxxxxxx";
	struct rig r;
	int need;

	up(&r, NULL, 0);
	need = nvmfr_mpath_dump(r.mpath, NULL, 0);
	cr_expect_gt(need, 8);
	cr_expect_eq(nvmfr_mpath_dump(r.mpath, text, 4), need);
	cr_expect(strlen(text) == 3 && text[0] == '{' && text[4] == 'x', "cut, terminated, nothing behind");
	cr_expect_eq(nvmfr_mpath_dump(r.mpath, NULL, 4), -EINVAL);
	cr_expect_eq(nvmfr_mpath_dump(NULL, text, 4), -EINVAL);
	flow_says("mpath");
	down(&r);
}
