/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue floor on the scripted fabric: capsules, CIDs, slots, rings, credit. */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* ---- capsules, byte by byte: NVM Command Set, Read, Write, Write Zeroes, Flush --------------- */

struct capsule_case {
	const char *name;
	struct nvmfr_io io;
	unsigned char want[FAB_CAPSULE_BYTES];
};

/* The first command of a queue: slot 0, generation 1. RIG_ADDR is 0x123456789abc. */
#define CID_1000 [2] = 0x00, 0x10
#define KEYED	 [35] = 0x00, 0xc3, 0xb2, 0xa1, 0x40
#define RIG_AT	 [24] = 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12
#define RIG_AT_44 [24] = 0x00, 0x9b, 0x78, 0x56, 0x34, 0x12
#define NO_DATA	 [39] = 0x40

/* clang-format off */
enum { ZEROES_FUA = 10 }; /* the last of them */

static const struct capsule_case capsules[] = {
	{ "read of one block",
	  { .op = NVMFR_OP_READ, .nsid = 1, .nblocks = 1 },
	  { 0x02, 0x40, CID_1000, 1, RIG_AT, [32] = 0x00, 0x02, 0x00, KEYED } },
	{ "write of eight blocks",
	  { .op = NVMFR_OP_WRITE, .nsid = 1, .nblocks = 8, .offset_bytes = 0x44 },
	  { 0x01, 0x40, CID_1000, 1, RIG_AT_44, [32] = 0x00, 0x10, 0x00, KEYED,
	    [48] = 7 } },
	{ "every byte of the LBA",
	  { .op = NVMFR_OP_READ, .nsid = 1, .lba = 0x0000f7e6d5c4b3a2, .nblocks = 256 },
	  { 0x02, 0x40, CID_1000, 1, RIG_AT, [32] = 0x00, 0x00, 0x02, KEYED,
	    [40] = 0xa2, 0xb3, 0xc4, 0xd5, 0xe6, 0xf7, [48] = 0xff } },
	{ "blocks of 4 KiB, write with FUA (CDW12 bit 30)",
	  { .op = NVMFR_OP_WRITE, .flags = NVMFR_IO_FUA, .nsid = 2, .lba = 1, .nblocks = 2 },
	  { 0x01, 0x40, CID_1000, 2, RIG_AT, [32] = 0x00, 0x20, 0x00, KEYED,
	    [40] = 1, [48] = 1, [51] = 0x40 } },
	{ "read with FUA",
	  { .op = NVMFR_OP_READ, .flags = NVMFR_IO_FUA, .nsid = 1, .nblocks = 1 },
	  { 0x02, 0x40, CID_1000, 1, RIG_AT, [32] = 0x00, 0x02, 0x00, KEYED,
	    [51] = 0x40 } },
	{ "flush", { .op = NVMFR_OP_FLUSH, .nsid = 1 }, { 0x00, 0x40, CID_1000, 1, NO_DATA } },
	{ "flush of all namespaces",
	  { .op = NVMFR_OP_FLUSH, .nsid = 0xffffffff },
	  { 0x00, 0x40, CID_1000, 0xff, 0xff, 0xff, 0xff, NO_DATA } },
	{ "write zeroes of 65,536 blocks (NLB is 0's based)",
	  { .op = NVMFR_OP_WRITE_ZEROES, .nsid = 1, .lba = 0x010203040506, .nblocks = 65536 },
	  { 0x08, 0x40, CID_1000, 1, NO_DATA, [40] = 6, 5, 4, 3, 2, 1, [48] = 0xff, 0xff } },
	{ "compare of two blocks",
	  { .op = NVMFR_OP_COMPARE, .nsid = 1, .lba = 0x0102, .nblocks = 2 },
	  { 0x05, 0x40, CID_1000, 1, RIG_AT, [32] = 0x00, 0x04, 0x00, KEYED,
	    [40] = 2, 1, [48] = 1 } },
	{ "verify of 65,536 blocks",
	  { .op = NVMFR_OP_VERIFY, .nsid = 1, .lba = 0x010203040506, .nblocks = 65536 },
	  { 0x0c, 0x40, CID_1000, 1, NO_DATA, [40] = 6, 5, 4, 3, 2, 1, [48] = 0xff, 0xff } },
	{ "write zeroes with FUA",
	  { .op = NVMFR_OP_WRITE_ZEROES, .flags = NVMFR_IO_FUA, .nsid = 1, .nblocks = 1 },
	  { 0x08, 0x40, CID_1000, 1, NO_DATA, [51] = 0x40 } },
};
/* clang-format on */

Test(queue_capsule, bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(capsules); i++) {
		struct nvmfr_io io = capsules[i].io;
		struct rig rig;

		rig_up(&rig, NULL);
		if (io.op & 3)
			io.buf = &rig.buf;
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s: %s", capsules[i].name,
			     nvmfr__err_get());
		cr_expect_arr_eq(scripted_last(rig.s, 0)->capsule, capsules[i].want,
				 FAB_CAPSULE_BYTES, "%s", capsules[i].name);
		cr_expect_eq(scripted_last(rig.s, 0)->tail.bytes, 0u, "%s", capsules[i].name);
		rig_down(&rig);
	}
}

/*
 * The fast path reuses a capsule's unwritten words: nothing of the command before may shine
 * through.
 */
Test(queue_capsule, nothing_is_left_from_the_lap_before)
{
	const uint32_t lap = 32; /* send positions at depth 8 */
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig.s->ep.send_positions, lap);
	for (uint32_t i = 0; i < 4 * lap; i++) {
		struct nvmfr_io io = capsules[i / lap % 2 ? 0 : ZEROES_FUA].io;
		unsigned char got[FAB_CAPSULE_BYTES];

		if (i / lap % 2)
			io.buf = &rig.buf;
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
		memcpy(got, scripted_last(rig.s, 0)->capsule, sizeof(got));
		memcpy(got + 2, "\x00\x10", 2);
		cr_expect_arr_eq(got, capsules[i / lap % 2 ? 0 : ZEROES_FUA].want, sizeof(got), "command %u",
				 i);
		scripted_answer_all(rig.s);
		scripted_sends_signaled(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	}
	rig_down(&rig);
}

Test(queue_capsule, raw_commands_get_a_cid_and_nothing_else)
{
	struct scripted *s = scripted_new(4, 0, 0);
	struct nvmfr_qpair *qp = nvmfr__qpair_new(0);
	_Atomic uint32_t word = 1, tick = 1;
	struct nvmfr_completion cpl;
	struct nvme_sqe sqe;
	unsigned char want[FAB_CAPSULE_BYTES];

	cr_assert_not_null(qp);
	qp->word = &word;
	qp->tick = &tick;
	qp->adopted = 1;
	cr_assert_eq(nvmfr__qpair_attach(qp, &s->ep, 4), 0);
	memset(&sqe, 0x77, sizeof(sqe));
	memset(want, 0x77, sizeof(want));
	for (uint32_t i = 0; i < 4; i++) {
		want[2] = (unsigned char)i;
		want[3] = 0x10;
		cr_assert_eq(nvmfr__qpair_post_raw(qp, &sqe, 100 + i), 0);
		cr_expect_arr_eq(scripted_last(s, 0)->capsule, want, sizeof(want), "command %u", i);
	}
	cr_expect_eq(nvmfr__qpair_post_raw(qp, &sqe, 0), -EAGAIN);
	scripted_answer(s, 0x1002, 0, 0x1122334455667788);
	cr_assert_eq(nvmfr__qpair_poll(qp, &cpl, 1), 1);
	cr_expect(cpl.user_data == 102 && cpl.cqe_result == 0x1122334455667788 && cpl.result == 0);
	scripted_answer(s, 0x1009, 0, 0);
	cr_expect_eq(nvmfr__qpair_poll(qp, &cpl, 1), 0,
		     "the service is the owner: it looks at broken");
	cr_expect(qp->broken && qp->err == -EPROTO);
	cr_expect_eq(nvmfr__qpair_post_raw(qp, &sqe, 0), -EAGAIN);
	nvmfr__qpair_free(qp);
	scripted_free(s);
}

/* ---- CIDs and slots -------------------------------------------------------------------------- */

static uint16_t last_cid(const struct rig *rig, uint32_t back)
{
	return scripted_cid(scripted_last(rig->s, back));
}

static void complete(struct rig *rig, uint16_t cid)
{
	struct nvmfr_completion cpl;

	scripted_answer(rig->s, cid, 0, 0);
	scripted_sends_signaled(rig->s);
	cr_assert_eq(nvmfr__qpair_poll(rig->qp, &cpl, 1), 1, "CID 0x%04x", cid);
}

Test(queue_cid, four_bits_of_generation_wrap)
{
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 1; i < 40; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, i), 0);
		cr_expect_eq(last_cid(&rig, 0), (i & 0xf) << 12, "command %u", i);
		complete(&rig, last_cid(&rig, 0));
	}
	rig_down(&rig);
}

Test(queue_cid, slots_are_a_stack)
{
	static const uint16_t answered[] = { 0x1002, 0x1000, 0x1003 },
			      reused[] = { 0x2003, 0x2000, 0x2002 };
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 4 });
	for (uint16_t i = 0; i < 4; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, i), 0);
		cr_expect_eq(last_cid(&rig, 0), 0x1000 + i, "fresh slots in order");
	}
	for (size_t i = 0; i < ARRAY_SIZE(answered); i++)
		complete(&rig, answered[i]);
	for (size_t i = 0; i < ARRAY_SIZE(reused); i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, i), 0);
		cr_expect_eq(last_cid(&rig, 0), reused[i], "the one freed last comes first");
	}
	rig_down(&rig);
}

/* The scripted fabric breaks off at 0xffff and at a CID that is outstanding. */
Test(queue_cid, ffff_is_never_sent)
{
	static struct nvmfr_completion cpls[4095];
	struct rig rig;
	int got = 0;

	rig_up(&rig, &(struct rig_opts){ .depth = 4095 });
	for (uint32_t round = 0; round < 17; round++) {
		uint32_t n = 0;

		while (rig_read(&rig, n, 1, n) == 0)
			n++;
		cr_assert_eq(n, 4095u, "round %u", round);
		scripted_answer_all(rig.s);
		scripted_sends_done(rig.s, rig.s->sent - rig.s->done);
		got = nvmfr__qpair_poll(rig.qp, cpls, 4095);
		cr_assert_eq(got, 4095);
	}
	rig_down(&rig);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/*
 * Batches of changing size for several laps, SENDs done as a NIC signals them: each I/O exactly
 * once.
 */
static void many_laps(uint32_t depth, uint32_t commands)
{
	static struct nvmfr_completion cpls[4096];
	static struct nvmfr_io ios[4096];
	uint32_t next = 0, in = 0, batch = 1, random = depth;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = depth });
	while (in < commands) {
		int n, got;

		for (uint32_t i = 0; i < batch; i++)
			ios[i] = (struct nvmfr_io){
				.op = NVMFR_OP_READ,
				.nsid = RIG_NS,
				.nblocks = 1,
				.buf = &rig.buf,
				.user_data = next + i,
			};
		n = nvmfr__qpair_submit(rig.qp, ios, batch);
		cr_assert(n > 0 || n == -EAGAIN, "%d", n);
		next += n > 0 ? (uint32_t)n : 0;
		random = random * 1664525 + 1013904223;
		batch = 1 + (random >> 16) % depth;
		/* Let it fill up: what stops a batch is the depth, or SENDs that are not done. */
		if (n > 0 && rig.s->outstanding < depth && random >> 30)
			continue;
		scripted_answer_all(rig.s);
		scripted_sends_signaled(rig.s);
		got = nvmfr__qpair_poll(rig.qp, cpls, 1 + next % 7 + depth / 2);
		cr_assert(got >= 0);
		for (int i = 0; i < got; i++)
			cr_assert_eq(cpls[i].user_data, in++, "answered in order, told in order");
	}
	cr_expect_eq(rig.s->most_outstanding, depth, "depth %u was not reached", depth);
	rig_down(&rig);
}

Test(queue_ring, wraps_at_any_depth)
{
	static const uint32_t depths[] = { 1, 2, 3, 15, 16, 17, 127, 128, 4095 };

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++)
		many_laps(depths[i], 10 * (depths[i] + 32));
}

Test(queue_ring, one_doorbell_a_batch)
{
	struct nvmfr_io ios[6];
	struct nvmfr_completion cpls[6];
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ios); i++)
		ios[i] = (struct nvmfr_io){
			.op = (uint8_t)(1 + i % 2), .nsid = RIG_NS, .nblocks = 1, .buf = &rig.buf
		};
	/* The first I/O of a namespace takes the slow path once. */
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	complete(&rig, last_cid(&rig, 0));
	rig.s->doorbells = 0;
	for (uint32_t round = 1; round < 100; round++) {
		bool wraps = rig.s->sent % 32 > 26;
		uint32_t before = rig.s->doorbells;

		cr_assert_eq(nvmfr__qpair_submit(rig.qp, ios, 6), 6);
		cr_expect_eq(rig.s->doorbells - before, wraps ? 2u : 1u, "round %u", round);
		scripted_answer_all(rig.s);
		scripted_sends_signaled(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 6), 6);
	}
	rig_down(&rig);
}

Test(queue_ring, receives_go_back_in_batches)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 1; i <= 160; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, i), 0);
		scripted_answer_all(rig.s);
		scripted_sends_signaled(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
		cr_expect_eq(rig.s->recv_posts, i / FAB_RECV_BATCH, "after %u", i);
	}
	rig_down(&rig);
}

/* ---- credit ---------------------------------------------------------------------------------- */

Test(queue_credit, a_position_is_not_used_before_its_send_is_done)
{
	struct nvmfr_completion cpl;
	uint32_t sent = 0;
	struct rig rig;

	/*
	 * Depth 8 has 32 positions: after 32 commands answered and no SEND done there is no room.
	 */
	rig_up(&rig, NULL);
	for (; rig_read(&rig, 0, 1, sent) == 0; sent++) {
		scripted_answer_all(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	}
	cr_expect_eq(sent, 32u);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -EAGAIN);
	scripted_sends_done(rig.s, 1);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -EAGAIN, "nobody has polled yet");
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), 0);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -EAGAIN);
	rig_down(&rig);
}

Test(queue_credit, never_more_than_depth)
{
	struct nvmfr_io ios[12];
	struct nvmfr_completion cpls[12];
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ios); i++)
		ios[i] = (struct nvmfr_io){ .op = NVMFR_OP_READ,
					    .nsid = RIG_NS,
					    .nblocks = 1,
					    .buf = &rig.buf,
					    .user_data = i };
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios, 12), 8, "as many as fit");
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios + 8, 4), -EAGAIN);
	cr_expect_eq(rig.s->outstanding, 8u);
	scripted_answer(rig.s, 0x1003, 0, 0);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios + 8, 4), -EAGAIN, "nobody has polled yet");
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 12), 1);
	cr_expect_eq(cpls[0].user_data, 3u);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios + 8, 4), 1);
	cr_expect_eq(last_cid(&rig, 0), 0x2003);
	rig_down(&rig);
}

Test(queue_credit, a_bad_one_stops_a_batch)
{
	struct nvmfr_io ios[5];
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ios); i++)
		ios[i] = (struct nvmfr_io){
			.op = NVMFR_OP_READ, .nsid = RIG_NS, .lba = i, .nblocks = 1, .buf = &rig.buf
		};
	ios[3].nblocks = 0;
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios, 5), 3);
	cr_expect_eq(rig.s->sent, 3u);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios + 3, 2), -EINVAL,
		     "submitted again it says why");
	cr_expect_not_null(strstr(nvmfr__err_get(), "nblocks is 0"), "%s", nvmfr__err_get());
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios + 4, 1), 1);
	cr_expect_eq(scripted_last(rig.s, 0)->capsule[40], 4);
	rig_down(&rig);
}

/* ---- what is refused, with its sentence and without effect ----------------------------------- */

struct refusal_case {
	const char *name;
	struct nvmfr_io io;
	int err;
	const char *sentence;
	char buf; /* r: the rig's, n: NULL, h: another host's, s: source only, t: target only */
};

#define BLOCKS_1 .nsid = RIG_NS, .nblocks = 1
/* clang-format off */
static const struct refusal_case refusals[] = {
	{ "unknown op", { .op = 3, BLOCKS_1 }, -EINVAL, "op 3", 'r' },
	{ "reserved byte", { .op = 2, BLOCKS_1, .reserved0 = 1 }, -EINVAL, "reserved", 'r' },
	{ "reserved word", { .op = 2, BLOCKS_1, .reserved1 = { 0, 1 } }, -EINVAL, "reserved", 'r' },
	{ "unknown flag", { .op = 2, BLOCKS_1, .flags = 4 }, -EINVAL, "flags 0x4", 'r' },
	{ "vectored flush", { .op = 0, .nsid = 1, .flags = NVMFR_IO_VEC }, -EINVAL, "NVMFR_IO_VEC",
	  'n' },
	{ "flush with blocks", { .op = 0, BLOCKS_1 }, -EINVAL, "flush", 'n' },
	{ "flush with an LBA", { .op = 0, .nsid = 1, .lba = 1 }, -EINVAL, "flush", 'n' },
	{ "nsid 0", { .op = 2, .nblocks = 1 }, -EINVAL, "nsid is 0", 'r' },
	{ "nsid 0, write", { .op = 1, .nblocks = 1 }, -EINVAL, "nsid is 0", 'r' },
	{ "no such namespace", { .op = 2, .nsid = 4, .nblocks = 1 }, -ENOENT, "namespace 4", 'r' },
	{ "all namespaces, read", { .op = 2, .nsid = 0xffffffff, .nblocks = 1 }, -ENOENT,
	  "4294967295", 'r' },
	{ "refused namespace", { .op = 2, .nsid = RIG_NS_REFUSED, .nblocks = 1 }, -EOPNOTSUPP,
	  "the test says so", 'r' },
	{ "no blocks", { .op = 2, .nsid = 1 }, -EINVAL, "nblocks is 0", 'r' },
	{ "LBA behind the end", { .op = 2, .nsid = 7, .lba = 100, .nblocks = 1 }, -ERANGE,
	  "100 blocks", 'r' },
	{ "blocks over the end", { .op = 2, .nsid = 7, .lba = 99, .nblocks = 2 }, -ERANGE, "LBA 99",
	  'r' },
	{ "LBA + blocks wrap", { .op = 2, .nsid = 7, .lba = 1, .nblocks = UINT64_MAX }, -ERANGE,
	  "LBA 1", 'r' },
	{ "write to a protected one", { .op = 1, .nsid = 3, .nblocks = 1 }, -EROFS,
	  "write protected", 'r' },
	{ "zeroes to a protected one", { .op = 8, .nsid = 3, .nblocks = 1 }, -EROFS,
	  "write protected", 'n' },
	{ "no buffer", { .op = 2, BLOCKS_1 }, -EINVAL, "buf is NULL", 'n' },
	{ "another host's buffer", { .op = 2, BLOCKS_1 }, -EINVAL, "another host", 'h' },
	{ "offset behind the buffer", { .op = 2, BLOCKS_1, .offset_bytes = RIG_BYTES + 1 }, -ERANGE,
	  "buffer's", 'r' },
	{ "buffer one byte short", { .op = 2, BLOCKS_1, .offset_bytes = RIG_BYTES - 511 }, -ERANGE,
	  "buffer's", 'r' },
	{ "offset wraps", { .op = 2, BLOCKS_1, .offset_bytes = UINT64_MAX - 255 }, -ERANGE,
	  "buffer's", 'r' },
	{ "bytes wrap", { .op = 2, .nsid = 1, .nblocks = UINT64_C(1) << 55 | 1 }, -ERANGE,
	  "namespace 1", 'r' },
	{ "read into a source", { .op = 2, BLOCKS_1 }, -EINVAL, "target of reads", 's' },
	{ "write from a target", { .op = 1, BLOCKS_1 }, -EINVAL, "source of writes", 't' },
	{ "compare with a target", { .op = 5, BLOCKS_1 }, -EINVAL, "source of writes", 't' },
	{ "compare without a buffer", { .op = 5, BLOCKS_1 }, -EINVAL, "buf is NULL", 'n' },
	{ "compare beyond the end", { .op = 5, .nsid = RIG_NS_SMALL, .nblocks = 101 }, -ERANGE,
	  "namespace 7", 'r' },
	{ "verify beyond the end", { .op = 12, .nsid = RIG_NS_SMALL, .nblocks = 101 }, -ERANGE,
	  "namespace 7", 'n' },
	{ "vectored verify", { .op = 12, BLOCKS_1, .flags = NVMFR_IO_VEC }, -EINVAL, "NVMFR_IO_VEC",
	  'n' },
};
/* clang-format on */

static void refused(struct rig *rig, const struct refusal_case *c, bool warm)
{
	struct nvmfr_buffer source = rig_buffer(rig, RIG_ADDR, 4096, FAB_ACCESS_SOURCE);
	struct nvmfr_buffer target = rig_buffer(rig, RIG_ADDR, 4096, FAB_ACCESS_TARGET);
	struct nvmfr_buffer other = rig->buf;
	uint32_t sent = rig->s->sent, slots = free_slots(rig->qp);
	struct nvmfr_io io = c->io;

	other.host = &other;
	if (c->buf == 'r')
		io.buf = &rig->buf;
	else if (c->buf == 'h')
		io.buf = &other;
	else if (c->buf != 'n')
		io.buf = c->buf == 's' ? &source : &target;
	nvmfr__err_clear();
	cr_expect_eq(nvmfr__qpair_submit(rig->qp, &io, 1), c->err, "%s (%s): %s", c->name,
		     warm ? "warm" : "cold", nvmfr__err_get());
	cr_expect_not_null(strstr(nvmfr__err_get(), c->sentence), "%s: %s", c->name,
			   nvmfr__err_get());
	if (io.op == NVMFR_OP_READ && !io.flags && !io.reserved0 && !io.reserved1[1])
		cr_expect_eq(nvmfr__qpair_read(rig->qp, io.nsid, io.lba, io.nblocks, io.buf,
					       io.offset_bytes, 0),
			     c->err, "%s", c->name);
	if (io.op == NVMFR_OP_WRITE)
		cr_expect_eq(nvmfr__qpair_write(rig->qp, io.nsid, io.lba, io.nblocks, io.buf,
						io.offset_bytes, 0),
			     c->err, "%s", c->name);
	cr_expect(rig->s->sent == sent && free_slots(rig->qp) == slots, "%s: it had an effect",
		  c->name);
	rig_unbuffer(rig, &source);
	rig_unbuffer(rig, &target);
}

/*
 * Cold and after each kind of namespace was used: the fast path must not let through what the slow
 * one refuses.
 */
Test(queue_refuses, bad_arguments)
{
	static const uint32_t warm[] = { 0, RIG_NS, RIG_NS_READ_ONLY, RIG_NS_SMALL };

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(warm); k++) {
			struct rig rig;

			rig_up(&rig, NULL);
			if (warm[k])
				cr_assert_eq(
					nvmfr__qpair_read(rig.qp, warm[k], 0, 1, &rig.buf, 0, 0),
					0);
			refused(&rig, &refusals[i], warm[k]);
			rig_down(&rig);
		}
	}
}

Test(queue_refuses, write_zeroes_without_oncs)
{
	struct nvmfr_io io = { .op = NVMFR_OP_WRITE_ZEROES, .nsid = RIG_NS, .nblocks = 1 };
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .no_write_zeroes = true });
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), -EOPNOTSUPP);
	cr_expect_not_null(strstr(nvmfr__err_get(), "ONCS"), "%s", nvmfr__err_get());
	rig_down(&rig);
}

Test(queue_refuses, compare_and_verify_without_oncs)
{
	struct nvmfr_io io = { .op = NVMFR_OP_COMPARE, .nsid = RIG_NS, .nblocks = 1 };
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .no_optional = true });
	io.buf = &rig.buf;
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), -EOPNOTSUPP);
	cr_expect_not_null(strstr(nvmfr__err_get(), "ONCS bit 0"), "%s", nvmfr__err_get());
	io.op = NVMFR_OP_VERIFY;
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), -EOPNOTSUPP);
	cr_expect_not_null(strstr(nvmfr__err_get(), "ONCS bit 7"), "%s", nvmfr__err_get());
	rig_down(&rig);
}

/* They change nothing. */
Test(queue_refuses, not_compare_and_verify_of_what_is_read_only)
{
	struct nvmfr_io io = { .op = NVMFR_OP_VERIFY, .nsid = RIG_NS_READ_ONLY, .nblocks = 1 };
	struct rig rig;

	rig_up(&rig, NULL);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s", nvmfr__err_get());
	io.op = NVMFR_OP_COMPARE;
	io.buf = &rig.buf;
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s", nvmfr__err_get());
	cr_expect_eq(scripted_last(rig.s, 0)->capsule[0], 5);
	rig_down(&rig);
}

Test(queue_refuses, the_last_block_and_the_last_byte_are_good)
{
	struct rig rig;

	rig_up(&rig, NULL);
	cr_expect_eq(nvmfr__qpair_read(rig.qp, RIG_NS_SMALL, 99, 1, &rig.buf, RIG_BYTES - 512, 0),
		     0);
	cr_expect_eq(
		nvmfr__qpair_read(rig.qp, RIG_NS_SMALL, 0, 100, &rig.buf, RIG_BYTES - 51200, 0), 0);
	cr_expect_eq(nvmfr__qpair_read(rig.qp, RIG_NS_READ_ONLY, 0, 1, &rig.buf, 1, 0), 0);
	rig_down(&rig);
}
