/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue floor on the scripted fabric: I/Os that several commands carry, and I/Os of several
 * pieces.
 */
#include "decode.h"
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "queue/group.h"

#define SECONDS 60
#define KIB	UINT64_C(1024)
#define MIB	(KIB * KIB)

static struct decoded decode_at(const struct rig *rig, uint32_t i)
{
	struct decoded d = decode(scripted_cmd(rig->s, i));

	cr_assert(d.good, "command %u", i);
	return d;
}

static void answer(struct rig *rig, uint32_t i, uint16_t status)
{
	scripted_answer(rig->s, scripted_cid(scripted_cmd(rig->s, i)), status, 0xabc);
}

static int poll_all(struct rig *rig, struct nvmfr_completion *cpls, unsigned int max)
{
	int n = nvmfr__qpair_poll(rig->qp, cpls, max);

	cr_assert(n >= 0);
	return n;
}

static struct nvmfr_io io_of(struct rig *rig, uint8_t op, uint64_t lba, uint64_t nblocks,
			     uint64_t user_data)
{
	return (struct nvmfr_io){
		.op = op,
		.nsid = RIG_NS,
		.lba = lba,
		.nblocks = nblocks,
		.buf = op & 3 ? &rig->buf : NULL,
		.user_data = user_data,
	};
}

/* ---- limits ---------------------------------------------------------------------------------- */

struct split_case {
	const char *name;
	uint8_t op;
	uint64_t max_xfer_bytes, zeroes_bytes, nblocks; /* zeroes_bytes: VSL, too */
	uint32_t commands, first, last; /* blocks of the first and the last command */
};

/* clang-format off */
static const struct split_case splits[] = {
	{ "as much as one takes", NVMFR_OP_READ, 4096, 0, 8, 1, 8, 8 },
	{ "a block more", NVMFR_OP_READ, 4096, 0, 9, 2, 8, 1 },
	{ "a block less than two", NVMFR_OP_WRITE, 4096, 0, 15, 2, 8, 7 },
	{ "two", NVMFR_OP_WRITE, 4096, 0, 16, 2, 8, 8 },
	{ "a block a command", NVMFR_OP_READ, 512, 0, 3, 3, 1, 1 },
	{ "the largest transfer, 8 MiB", NVMFR_OP_READ, 8 * MIB, 0, 16385, 2, 16384, 1 },
	{ "zeroes: 65,536 blocks", NVMFR_OP_WRITE_ZEROES, 4096, 0, 65536, 1, 65536, 65536 },
	{ "zeroes: a block more", NVMFR_OP_WRITE_ZEROES, 4096, 0, 65537, 2, 65536, 1 },
	{ "zeroes: WZSL of 8 KiB, not MDTS", NVMFR_OP_WRITE_ZEROES, 4096, 8192, 40, 3, 16, 8 },
	{ "zeroes: WZSL beyond NLB", NVMFR_OP_WRITE_ZEROES, 4096, 64 * MIB, 131072, 2, 65536,
	  65536 },
	{ "compare: a block more", NVMFR_OP_COMPARE, 4096, 0, 9, 2, 8, 1 },
	{ "compare: one command", NVMFR_OP_COMPARE, 4096, 0, 8, 1, 8, 8 },
	{ "verify: 65,536 blocks", NVMFR_OP_VERIFY, 4096, 0, 65536, 1, 65536, 65536 },
	{ "verify: VSL of 8 KiB, not MDTS", NVMFR_OP_VERIFY, 4096, 8192, 40, 3, 16, 8 },
};
/* clang-format on */

static void check_split(const struct split_case *c, bool fua)
{
	struct nvmfr_completion cpls[2];
	uint64_t lba = 1000;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = c->max_xfer_bytes,
					 .zeroes_bytes = c->zeroes_bytes,
					 .verify_bytes = c->zeroes_bytes });
	io = io_of(&rig, c->op, lba, c->nblocks, 42);
	io.flags = fua ? NVMFR_IO_FUA : 0;
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s: %s", c->name, nvmfr__err_get());
	cr_assert_eq(rig.s->sent, c->commands, "%s: %u", c->name, rig.s->sent);
	for (uint32_t i = 0; i < c->commands; i++) {
		struct decoded d = decode_at(&rig, i);

		cr_expect(d.opcode == c->op && d.lba == lba && d.fua == fua, "%s: command %u",
			  c->name, i);
		if (!(c->op & 3))
			cr_expect(d.bytes == 0 && d.count == 1, "%s: no data", c->name);
		else
			cr_expect(d.count == 1 && d.bytes == 512 * d.blocks &&
					  d.pieces[0].rkey == SCRIPTED_RKEY &&
					  d.pieces[0].addr == RIG_ADDR + (lba - 1000) * 512,
				  "%s: command %u", c->name, i);
		lba += d.blocks;
		cr_expect_eq(poll_all(&rig, cpls, 2), 0, "%s", c->name);
		answer(&rig, i, 0);
	}
	cr_expect_eq(lba, 1000 + c->nblocks, "%s", c->name);
	cr_expect_eq(decode_at(&rig, 0).blocks, c->first, "%s", c->name);
	cr_expect_eq(decode_at(&rig, c->commands - 1).blocks, c->last, "%s", c->name);
	cr_assert_eq(poll_all(&rig, cpls, 2), 1, "%s: one completion", c->name);
	cr_expect(cpls[0].user_data == 42 && cpls[0].result == 0 && cpls[0].status == 0 &&
		  cpls[0].qpair_data == RIG_TAG);
	cr_expect_eq(cpls[0].cqe_result, c->commands == 1 ? 0xabcu : 0u, "%s", c->name);
	rig_down(&rig);
}

Test(queue_split, limits)
{
	for (size_t i = 0; i < ARRAY_SIZE(splits); i++) {
		check_split(&splits[i], false);
		check_split(&splits[i], true);
	}
}

/*
 * 64 KiB blocks exist, and so does MDTS 1. One command's limit must never be turned into NLB FFFFh.
 */
Test(queue_split, blocks_larger_than_a_command, .timeout = 10)
{
	struct nvmfr_iov iov = { .len_bytes = 4096 };
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 2048, .zeroes_bytes = 2048 });
	iov.buf = &rig.buf;
	for (unsigned int i = 0; i < 3; i++) {
		struct nvmfr_io io =
			io_of(&rig, i == 2 ? NVMFR_OP_WRITE_ZEROES : NVMFR_OP_READ, 0, 1, 1);

		io.nsid = RIG_NS_4K;
		if (i == 1) {
			io.flags = NVMFR_IO_VEC;
			io.iov = &iov;
			io.niov = 1;
		}
		cr_expect_lt(nvmfr__qpair_submit(rig.qp, &io, 1), 0, "case %u", i);
		cr_expect_eq(rig.s->sent, 0u, "case %u", i);
	}
	rig_down(&rig);
}

/* ---- order and backlog ----------------------------------------------------------------------- */

/* Depth 4 and 6 + 3 commands: what does not fit is issued from poll, one I/O after the other. */
Test(queue_split, the_backlog_keeps_its_order)
{
	struct nvmfr_io ios[3];
	struct nvmfr_completion cpls[4];
	uint32_t next = 0, taken_at = 0;
	int done = 0;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 4, .max_xfer_bytes = 1024 });
	ios[0] = io_of(&rig, NVMFR_OP_READ, 0, 12, 1);
	ios[1] = io_of(&rig, NVMFR_OP_WRITE, 100, 6, 2);
	ios[2] = io_of(&rig, NVMFR_OP_READ, 200, 1, 3);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, ios, 3), 1, "behind a backlog nothing is taken");
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, ios + 1, 2), -EAGAIN);
	while (done < 2) {
		answer(&rig, next++, 0);
		scripted_sends_signaled(rig.s);
		done += poll_all(&rig, cpls, 4);
		cr_assert(next <= 9);
		if (!taken_at && nvmfr__qpair_submit(rig.qp, ios + 1, 2) == 1)
			taken_at = next;
	}
	cr_expect_eq(taken_at, 3u, "once the first one's last command is out and a slot is free");
	cr_assert_eq(rig.s->sent, 9u);
	for (uint32_t i = 0; i < 9; i++)
		cr_expect_eq(decode_at(&rig, i).lba, i < 6 ? 2 * i : 100 + 2 * (i - 6),
			     "command %u", i);
	rig_down(&rig);
}

/* All in one doorbell, as far as the ring goes on. */
Test(queue_split, one_doorbell)
{
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512 });
	io = io_of(&rig, NVMFR_OP_READ, 0, 8, 1);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	cr_expect(rig.s->sent == 8 && rig.s->doorbells == 1, "%u", rig.s->doorbells);
	rig_down(&rig);
}

/*
 * poll with max = 1: a child's answer alone is no completion, and 0 would say that nothing is
 * there.
 */
Test(queue_split, poll_with_max_1_looks_behind_children)
{
	struct nvmfr_completion cpl;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512 });
	io = io_of(&rig, NVMFR_OP_READ, 0, 5, 1);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	cr_assert_eq(rig_read(&rig, 50, 1, 2), 0);
	for (uint32_t i = 0; i < 4; i++)
		answer(&rig, i, 0);
	answer(&rig, 5, 0);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 1, "the read behind four children");
	cr_expect_eq(cpl.user_data, 2u);
	answer(&rig, 4, 0);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 1);
	cr_expect_eq(cpl.user_data, 1u);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0);
	rig_down(&rig);
}

/* A sleeper whose backlog waits for nothing but ring positions. */
Test(queue_split, arm_says_poll_again_when_the_backlog_can_go_on)
{
	struct nvmfr_completion cpl;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512 });
	io = io_of(&rig, NVMFR_OP_READ, 0, 40, 1);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	while (rig.s->sent < 32) {
		scripted_answer_all(rig.s);
		cr_assert_eq(poll_all(&rig, &cpl, 1), 0);
	}
	scripted_answer_all(rig.s);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 0);
	cr_expect(rig.s->outstanding == 0 && rig.s->sent == 32,
		  "no SEND is done, no position is free");
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	scripted_sends_signaled(rig.s);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1);
	cr_expect_eq(rig_read(&rig, 0, 1, 2), -EAGAIN, "the room is the backlog's");
	cr_assert_eq(poll_all(&rig, &cpl, 1), 0);
	cr_expect_eq(rig.s->outstanding, 8u);
	scripted_answer_all(rig.s);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 1);
	rig_down(&rig);
}

/* The same of a group's member that was armed by itself: then the group's poll is as good as its own. */
Test(queue_split, the_group_s_poll_goes_on_with_a_backlog)
{
	struct fab_group_params params = { .service_fd = -1, .epoll_fd = -1, .max_endpoints = 1 };
	struct nvmfr_completion cpl;
	struct nvmfr_group *group;
	_Atomic uint32_t word = 1;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512 });
	group = nvmfr__group_new(&rig, &rig.tick, &params);
	cr_assert_not_null(group);
	group->word = &word;
	nvmfr__group_join(group, rig.qp);
	io = io_of(&rig, NVMFR_OP_READ, 0, 40, 1);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	do {
		scripted_answer_all(rig.s);
		cr_assert_eq(poll_all(&rig, &cpl, 1), 0);
	} while (rig.s->outstanding);
	cr_expect_eq(rig.s->sent, 32u, "no position is free");
	scripted_sends_signaled(rig.s);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1);
	cr_assert_eq(nvmfr__group_poll(group, &cpl, 1), 0);
	cr_expect_eq(rig.s->outstanding, 8u);
	nvmfr__group_leave(rig.qp);
	rig.qp->group = NULL;
	nvmfr__group_free(group);
	rig_down(&rig);
}

/* ---- failures -------------------------------------------------------------------------------- */

/*
 * Five commands, statuses by command, answered in the order given: the lowest failing LBA is
 * reported.
 */
struct fail_case {
	uint16_t status[5];
	uint32_t order[5];
	uint16_t want;
};

/* clang-format off */
static const struct fail_case fails[] = {
	{ { 0, 0, 0, 0, 0 }, { 4, 3, 2, 1, 0 }, 0 },
	{ { 0, 0, 0x80, 0, 0 }, { 0, 1, 2, 3, 4 }, 0x80 },
	{ { 0, 0x81, 0x82, 0, 0x84 }, { 0, 1, 2, 3, 4 }, 0x81 },
	{ { 0, 0x81, 0x82, 0, 0x84 }, { 4, 3, 2, 1, 0 }, 0x81 },
	{ { 0x80, 0x81, 0x82, 0x83, 0x84 }, { 2, 4, 0, 3, 1 }, 0x80 },
	{ { 0, 0, 0, 0, 0x84 }, { 4, 0, 1, 2, 3 }, 0x84 },
};
/* clang-format on */

Test(queue_split, the_lowest_failing_lba_is_told)
{
	for (size_t i = 0; i < ARRAY_SIZE(fails); i++) {
		struct nvmfr_completion cpl;
		struct nvmfr_io io;
		struct rig rig;

		rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 1024 });
		io = io_of(&rig, NVMFR_OP_READ, 0, 10, i);
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
		for (uint32_t k = 0; k < 5; k++) {
			cr_expect_eq(poll_all(&rig, &cpl, 1), 0,
				     "case %zu: not before the last answer", i);
			answer(&rig, fails[i].order[k], fails[i].status[fails[i].order[k]]);
		}
		cr_assert_eq(poll_all(&rig, &cpl, 1), 1, "case %zu", i);
		cr_expect(cpl.user_data == i && cpl.status == fails[i].want, "case %zu: 0x%x", i,
			  cpl.status);
		cr_expect_eq(cpl.result, fails[i].want ? -EREMOTEIO : 0, "case %zu", i);
		cr_expect_eq(cpl.cqe_result, 0u);
		rig_down(&rig);
	}
}

Test(queue_split, after_a_failure_nothing_more_is_issued)
{
	struct nvmfr_completion cpls[4];
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 4, .max_xfer_bytes = 512 });
	io = io_of(&rig, NVMFR_OP_WRITE, 0, 100, 1);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	answer(&rig, 2, 0x80);
	cr_expect_eq(poll_all(&rig, cpls, 4), 0);
	cr_expect_eq(rig.s->sent, 4u);
	cr_expect_eq(rig_read(&rig, 0, 1, 2), 0, "the backlog is empty, the queue takes others");
	scripted_answer_all(rig.s);
	cr_assert_eq(poll_all(&rig, cpls, 4), 2);
	cr_expect_eq(cpls[0].user_data == 1 ? cpls[0].status : cpls[1].status, 0x80);
	rig_down(&rig);
}

/* Backlog, commands out, and one failed below: each I/O ends once, by its lowest failing LBA. */
Test(queue_split, loss_with_a_backlog, .timeout = SECONDS)
{
	for (unsigned int max = 1; max < 5; max++) {
		struct nvmfr_completion cpls[4];
		unsigned int n;
		struct nvmfr_io io;
		struct rig rig;

		rig_up(&rig, &(struct rig_opts){ .depth = 4, .max_xfer_bytes = 512 });
		cr_assert_eq(rig_read(&rig, 0, 1, 7), 0);
		io = io_of(&rig, NVMFR_OP_READ, 0, 10, 8);
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
		answer(&rig, 1, 0);
		answer(&rig, 2, 0);
		rig.s->bad = true;
		cr_assert_eq(poll_all(&rig, cpls, max), 0);
		rig_lose(&rig, -ECONNABORTED, "gone");
		cr_expect_eq(rig_drain(&rig, cpls, 4, max, &n), -ENOTCONN);
		cr_assert_eq(n, 2u, "max %u", max);
		cr_expect(cpls[0].result == -ECONNABORTED && cpls[1].result == -ECONNABORTED);
		cr_expect_eq(cpls[0].user_data + cpls[1].user_data, 15u);
		rig_down(&rig);
	}
}

Test(queue_split, last_answers_finish_it, .timeout = SECONDS)
{
	struct nvmfr_completion cpls[4];
	unsigned int n;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512 });
	for (unsigned int i = 0; i < 2; i++) {
		io = io_of(&rig, NVMFR_OP_READ, 0, 4, i);
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	}
	for (uint32_t i = 0; i < 6; i++)
		answer(&rig, i, i == 5 ? 0x80 : 0);
	rig_lose(&rig, -ECONNABORTED, "gone");
	cr_expect_eq(rig_drain(&rig, cpls, 4, 4, &n), -ENOTCONN);
	cr_assert_eq(n, 2u);
	cr_expect(cpls[0].user_data == 0 && cpls[0].result == 0);
	cr_expect(cpls[1].user_data == 1 && cpls[1].result == -EREMOTEIO && cpls[1].status == 0x80,
		  "the two unknown ones lie behind the one that failed");
	rig_down(&rig);
}

/* Where no data moves the library has no business with what may stand in buf. */
Test(queue_split, zeroes_do_not_look_at_a_buffer)
{
	struct nvmfr_completion cpl;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .zeroes_bytes = 4096 });
	io = io_of(&rig, NVMFR_OP_WRITE_ZEROES, 0, 9, 1);
	io.buf = (void *)UINTPTR_MAX;
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s", nvmfr__err_get());
	cr_expect_eq(rig.s->sent, 2u);
	scripted_answer_all(rig.s);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 1);
	rig_down(&rig);
}

/* ---- memory in several MRs ------------------------------------------------------------------- */

/* Each descriptor lies in the MR of its key, together they are the I/O's bytes in order. */
static uint64_t check_mrs(const struct rig *rig, const struct decoded *d, uint64_t addr)
{
	for (uint32_t i = 0; i < d->count; i++) {
		const struct piece *p = &d->pieces[i];
		const struct scripted_mr *mr = scripted_mr_of(rig->s, p->rkey);

		cr_assert_not_null(mr);
		cr_expect_eq(p->addr, addr);
		cr_expect(p->addr >= mr->start && p->addr + p->bytes <= mr->start + mr->bytes);
		addr += p->bytes;
	}
	cr_expect_eq(d->bytes, (uint64_t)d->blocks * 512);
	return addr;
}

static void across_seams(uint64_t offset, uint32_t max_descriptors, uint64_t max_xfer)
{
	struct nvmfr_buffer buf;
	struct nvmfr_completion cpl;
	uint64_t addr = RIG_ADDR + offset, nblocks = (9 * MIB - offset) / 512;
	struct nvmfr_io io;
	uint32_t seen = 0;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_mr_bytes = 3 * MIB,
					 .max_xfer_bytes = max_xfer,
					 .max_descriptors = max_descriptors });
	buf = rig_buffer(&rig, RIG_ADDR, 9 * MIB, FAB_ACCESS_TARGET);
	io = (struct nvmfr_io){ .op = NVMFR_OP_READ,
				.nsid = RIG_NS,
				.nblocks = nblocks,
				.buf = &buf,
				.offset_bytes = offset };
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s", nvmfr__err_get());
	do {
		for (; seen < rig.s->sent; seen++) {
			struct decoded d = decode_at(&rig, seen);

			cr_expect_leq(d.count, max_descriptors);
			cr_expect_leq(d.bytes, max_xfer);
			addr = check_mrs(&rig, &d, addr);
			answer(&rig, seen, 0);
		}
		scripted_sends_signaled(rig.s);
	} while (poll_all(&rig, &cpl, 1) == 0);
	cr_expect_eq(addr, RIG_ADDR + offset + nblocks * 512);
	cr_expect_eq(cpl.result, 0);
	rig_unbuffer(&rig, &buf);
	rig_down(&rig);
}

Test(queue_split, seams)
{
	static const uint64_t offsets[] = { 0, 1, 511, 2 * MIB - 3,
					    2 * MIB + 5, 3 * MIB - 1, 6 * MIB + 77 };

	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		across_seams(offsets[i], 1, 512);
		across_seams(offsets[i], 1, MIB);
		across_seams(offsets[i], 1, 8 * MIB);
		across_seams(offsets[i], 4, 8 * MIB);
	}
}

/* A list at a seam has its place for itself, whether the caller's memory came in pieces or not. */
Test(queue_split, lists_at_seams_wait_for_their_places)
{
	struct nvmfr_completion cpls[FAB_TAILS + 1];
	struct nvmfr_buffer buf;
	struct nvmfr_io io;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .depth = 5 * FAB_TAILS,
					 .max_mr_bytes = 3 * MIB,
					 .max_xfer_bytes = 8 * MIB,
					 .max_descriptors = 4 });
	buf = rig_buffer(&rig, RIG_ADDR, 9 * MIB, FAB_ACCESS_TARGET);
	for (unsigned int i = 0; i <= FAB_TAILS; i++) {
		io = (struct nvmfr_io){ .op = NVMFR_OP_READ,
					.nsid = RIG_NS,
					.nblocks = 4 * MIB / 512,
					.buf = &buf,
					.offset_bytes = i * 512 };
		cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s", nvmfr__err_get());
	}
	cr_expect_eq(rig.s->sent, FAB_TAILS, "the last one waits");
	cr_expect_eq(decode_at(&rig, 0).count, 2u);
	scripted_sends_signaled(rig.s);
	cr_expect_eq(poll_all(&rig, cpls, 1), 0);
	cr_expect_eq(rig.s->sent, FAB_TAILS + 1u);
	scripted_answer_all(rig.s);
	cr_expect_eq(poll_all(&rig, cpls, ARRAY_SIZE(cpls)), (int)FAB_TAILS + 1);
	rig_unbuffer(&rig, &buf);
	rig_down(&rig);
}
