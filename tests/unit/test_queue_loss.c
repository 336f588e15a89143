/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue floor on the scripted fabric: what a peer may answer, and how a connection ends. */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define SECONDS 30 /* a loop that does not end is a failure, not a hang */

/* ---- responses ------------------------------------------------------------------------------- */

Test(queue_answer, success_and_its_fields)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 0, 1, 0x1122334455667788), 0);
	scripted_answer(rig.s, 0x1000, 0, 0x99aabbccddeeff00);
	memset(&cpl, 0xff, sizeof(cpl));
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(cpl.user_data, 0x1122334455667788u);
	cr_expect_eq(cpl.qpair_data, RIG_TAG);
	cr_expect(cpl.result == 0 && cpl.status == 0 && cpl.flags == 0);
	cr_expect_eq(cpl.cqe_result, 0x99aabbccddeeff00u);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	rig_down(&rig);
}

/*
 * NVMe Base, CQE dword 3: bits 31:17 are the status, bit 16 the phase tag, reserved over fabrics.
 */
Test(queue_answer, status_is_fifteen_bits_beside_the_phase_tag)
{
	static const uint16_t statuses[] = { 0x0001, 0x0080, 0x0281, 0x4002, 0x7fff };

	for (unsigned int phase = 0; phase < 2; phase++) {
		for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
			struct nvmfr_completion cpl;
			struct rig rig;

			rig_up(&rig, NULL);
			cr_assert_eq(rig_read(&rig, 0, 1, 7), 0);
			scripted_answer_dword(
				rig.s, (uint32_t)statuses[i] << 17 | phase << 16 | 0x1000, 3);
			cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
			cr_expect(cpl.result == -EREMOTEIO && cpl.status == statuses[i],
				  "0x%04x phase %u", statuses[i], phase);
			cr_expect(cpl.user_data == 7 && cpl.cqe_result == 3);
			cr_expect_eq(rig_read(&rig, 0, 1, 8), 0, "the queue goes on");
			rig_down(&rig);
		}
	}
}

Test(queue_answer, a_set_phase_tag_alone_is_a_success)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 40; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, i), 0);
		scripted_answer_dword(rig.s,
				      UINT32_C(0x10000) | scripted_cid(scripted_last(rig.s, 0)), 0);
		scripted_sends_signaled(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
		cr_expect(cpl.user_data == i && cpl.result == 0 && cpl.status == 0);
	}
	rig_down(&rig);
}

Test(queue_answer, out_of_order)
{
	static const uint16_t order[] = { 5, 0, 7, 2, 6, 1, 3, 4 };
	struct nvmfr_completion cpls[8];
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		scripted_answer(rig.s, (uint16_t)(0x1000 + order[i]), order[i] & 1, 0);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 8);
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		cr_expect(cpls[i].user_data == order[i] && cpls[i].status == (order[i] & 1), "%zu",
			  i);
	rig_down(&rig);
}

/* ---- poll ------------------------------------------------------------------------------------ */

Test(queue_poll, max_is_kept_and_nothing_is_lost)
{
	struct nvmfr_completion cpls[9];
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	scripted_answer_all(rig.s);
	memset(cpls, 0x77, sizeof(cpls));
	for (uint32_t i = 0; i < 8; i++) {
		cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpls[i], 1), 1, "with max 1 the %u. time",
			     i + 1);
		cr_expect(cpls[i].user_data == i && cpls[i + 1].user_data == 0x7777777777777777);
	}
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 1), 0);
	rig_down(&rig);
}

/* MORE: the fabric has not seen its CQ empty, so 0 would be a lie. */
Test(queue_poll, goes_on_while_the_fabric_has_more)
{
	struct nvmfr_completion cpls[8];
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	scripted_answer_all(rig.s);
	rig.s->per_poll = 1;
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 5), 5);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 3);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 0);
	rig.s->idle_more = 3;
	rig.s->polls = 0;
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 0);
	cr_expect_eq(rig.s->polls, 4u, "three times only SENDs, then empty");
	rig_down(&rig);
}

/* ---- a peer that breaks the rules ------------------------------------------------------------ */

struct cid_case {
	const char *name;
	uint16_t cid;
	const char *sentence;
};

/*
 * Depth 5, so a table of 8. Slot 0 is free after three rounds, slot 1 is in flight in its third,
 * slot 2 in its first, slots 3 and 4 were never used.
 */
/* clang-format off */
static const struct cid_case bad_cids[] = {
	{ "the same answer twice", 0x3000, "duplicate" },
	{ "an older generation of a free slot", 0x2000, "stale" },
	{ "an older generation of a slot in flight", 0x2001, "stale" },
	{ "a generation to come, free slot", 0x4000, "0x4000" },
	{ "a generation to come, slot in flight", 0x4001, "0x4001" },
	{ "a slot never used", 0x1003, "never issued" },
	{ "the other one", 0x1004, "never issued" },
	{ "a slot between depth and table", 0x1005, "never issued" },
	{ "what a slot expects before its first use", 0x0005, "never issued" },
	{ "a slot behind the table, right in its low bits", 0x3009, "never issued" },
	{ "the last slot of all", 0x3fff, "never issued" },
	{ "ffff", 0xffff, "never issued" },
	{ "zero", 0x0000, "0x0000" },
};
/* clang-format on */

static void prepare(struct rig *rig)
{
	struct nvmfr_completion cpls[4];

	rig_up(rig, &(struct rig_opts){ .depth = 5 });
	for (uint16_t round = 0x1000; round <= 0x2000; round = (uint16_t)(round + 0x1000)) {
		cr_assert_eq(rig_read(rig, 0, 1, 0), 0);
		cr_assert_eq(rig_read(rig, 0, 1, 0), 0);
		scripted_answer(rig->s, round | 1, 0, 0);
		scripted_answer(rig->s, round, 0, 0);
		cr_assert_eq(nvmfr__qpair_poll(rig->qp, cpls, 4), 2);
	}
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(rig_read(rig, 0, 1, 20 + i), 0);
	scripted_answer(rig->s, 0x3000, 0, 0);
	cr_assert_eq(nvmfr__qpair_poll(rig->qp, cpls, 4), 1);
}

static void expect_broken(struct rig *rig, const struct cid_case *c)
{
	const struct qpair_link *link = &rig->qp->link;
	char hex[8];

	snprintf(hex, sizeof(hex), "0x%04x", c->cid);
	cr_expect(rig->qp->broken && rig->qp->err == -EPROTO, "%s", c->name);
	cr_expect(rig_service_rung(rig) && link->fault == -EPROTO, "%s: the service must know",
		  c->name);
	cr_expect_not_null(strstr(link->fault_text, hex), "%s: %s", c->name, link->fault_text);
	cr_expect_not_null(strstr(link->fault_text, c->sentence), "%s: %s", c->name,
			   link->fault_text);
	cr_expect_eq(rig_read(rig, 0, 1, 0), -ENOTCONN, "%s", c->name);
	cr_expect_not_null(strstr(nvmfr__err_get(), hex), "%s: %s", c->name, nvmfr__err_get());
}

/* Good answers before the bad one count, those behind it do not. */
static void bad_answer(const struct cid_case *c, uint32_t status, unsigned int max)
{
	struct nvmfr_completion cpls[6];
	unsigned int n;
	struct rig rig;

	prepare(&rig);
	scripted_answer(rig.s, 0x1002, 0, 0);
	scripted_answer_dword(rig.s, status << 17 | c->cid, 0);
	scripted_answer(rig.s, 0x3001, 0, 0);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, max), 1, "%s", c->name);
	cr_expect(cpls[0].user_data == 22 && cpls[0].result == 0, "%s", c->name);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, max), 0, "%s", c->name);
	expect_broken(&rig, c);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, max), 0, "%s: not before the service let go",
		     c->name);
	rig_lose(&rig, -ENOTCONN, "later and less telling");
	cr_expect_eq(rig_drain(&rig, cpls, 6, max, &n), -ENOTCONN, "%s", c->name);
	cr_expect(n == 1 && cpls[0].user_data == 21 && cpls[0].result == -ECONNABORTED, "%s: %u",
		  c->name, n);
	cr_expect(cpls[0].status == 0 && cpls[0].cqe_result == 0 && cpls[0].qpair_data == RIG_TAG);
	cr_expect_not_null(strstr(nvmfr__err_get(), "CID"), "the first reason stays: %s",
			   nvmfr__err_get());
	cr_expect_eq(rig.s->stops, 1u);
	rig_down(&rig);
}

Test(queue_peer, a_cid_that_is_not_outstanding_ends_it, .timeout = SECONDS)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_cids); i++) {
		bad_answer(&bad_cids[i], 0, 6);
		bad_answer(&bad_cids[i], 0, 1);
		bad_answer(&bad_cids[i], 0x0002, 6);
	}
}

/* Status and CID of a good answer, but for one bit of the CID. */
Test(queue_peer, one_flipped_bit_is_enough, .timeout = SECONDS)
{
	for (unsigned int bit = 0; bit < 16; bit++) {
		struct nvmfr_completion cpl;
		struct rig rig;

		rig_up(&rig, &(struct rig_opts){ .depth = 4095 });
		cr_assert_eq(rig_read(&rig, 0, 1, 1), 0);
		scripted_answer(rig.s, (uint16_t)(0x1000 ^ 1u << bit), 0, 0);
		cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0, "bit %u", bit);
		cr_expect(rig.qp->broken, "bit %u", bit);
		rig_down(&rig);
	}
}

/* ---- the fabric fails ------------------------------------------------------------------------ */

/* Depth 8: five answers of which one is an error, then the end. */
static void fabric_fails(unsigned int max)
{
	static const int32_t results[] = {
		0, 0, -EREMOTEIO, 0, 0, -ECONNABORTED, -ECONNABORTED, -ECONNABORTED
	};
	bool seen[8] = { false };
	struct nvmfr_completion cpls[20];
	unsigned int n = 0;
	int got, rest;
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	for (uint16_t i = 0; i < 5; i++)
		scripted_answer(rig.s, 0x1000 + i, i == 2 ? 0x80 : 0, 0);
	rig.s->bad = true;
	for (got = 1; got > 0; n += got > 0 ? (unsigned int)got : 0)
		got = nvmfr__qpair_poll(rig.qp, cpls + n, max);
	cr_expect_eq(got, 0);
	rig_lose(&rig, -ECONNABORTED, "gone");
	rest = rig_drain(&rig, cpls + n, 20 - n, max, &n);
	cr_expect_eq(rest, -ENOTCONN, "max %u", max);
	for (unsigned int i = 0; i < 8; i++) {
		uint64_t id = cpls[i].user_data;

		cr_assert(id < 8 && !seen[id], "max %u: completion %u", max, i);
		seen[id] = true;
		cr_expect_eq(cpls[i].result, results[id], "max %u: I/O %u", max, (unsigned int)id);
	}
	cr_expect_eq(qpair_commands(rig.qp), 8u);
	rig_down(&rig);
}

Test(queue_loss, answers_before_the_end_count, .timeout = SECONDS)
{
	fabric_fails(20);
	fabric_fails(8);
	fabric_fails(3);
	fabric_fails(1);
}

Test(queue_loss, the_fabric_s_reason_is_told, .timeout = SECONDS)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	rig.s->bad = true;
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect_eq(rig.qp->link.fault, -ECONNABORTED);
	cr_expect_str_eq(rig.qp->link.fault_text, "qpair 1: scripted: the connection failed");
	cr_expect(rig_service_rung(&rig));
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -ENOTCONN);
	rig_down(&rig);
}

/* A post that fails in the middle: what was accepted ends, once, whichever part of it went out. */
static void post_fails(uint32_t room, uint32_t answers, bool split)
{
	struct nvmfr_io ios[8];
	struct nvmfr_completion cpls[16];
	bool seen[8] = { false };
	unsigned int n, accepted;
	struct rig rig;
	int got;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 1024 });
	for (size_t i = 0; i < 8; i++)
		ios[i] = (struct nvmfr_io){
			.op = NVMFR_OP_READ,
			.nsid = RIG_NS,
			.nblocks = split && i == 2 ? 7 : 1,
			.buf = &rig.buf,
			.user_data = i,
		};
	rig.s->send_room = room;
	got = nvmfr__qpair_submit(rig.qp, ios, 8);
	cr_assert(got > 0);
	accepted = (unsigned int)got;
	for (uint32_t i = 0; i < answers && i < rig.s->sent; i++)
		scripted_answer(rig.s, scripted_cid(scripted_cmd(rig.s, i)), 0, 0);
	got = nvmfr__qpair_poll(rig.qp, cpls, 8);
	cr_assert(got >= 0);
	cr_expect(rig.qp->link.fault == -ECONNABORTED, "room %u", room);
	rig_lose(&rig, -ECONNABORTED, "gone");
	cr_expect_eq(rig_drain(&rig, cpls + got, 9, 8, &n), -ENOTCONN);
	cr_expect_eq(n + (unsigned int)got, accepted, "room %u", room);
	for (unsigned int i = 0; i < accepted; i++) {
		cr_assert(cpls[i].user_data < accepted && !seen[cpls[i].user_data]);
		seen[cpls[i].user_data] = true;
		cr_expect(cpls[i].result == (i < (unsigned int)got ? 0 : -ECONNABORTED),
			  "room %u: %u", room, i);
	}
	rig_down(&rig);
}

Test(queue_loss, a_post_fails_in_the_middle, .timeout = SECONDS)
{
	for (uint32_t room = 0; room < 8; room++)
		for (uint32_t answers = 0; answers <= room; answers++) {
			post_fails(room, answers, false);
			post_fails(room, answers, true);
		}
}

Test(queue_loss, receives_are_refused, .timeout = SECONDS)
{
	struct nvmfr_completion cpl;
	unsigned int done = 0, n;
	struct rig rig;

	rig_up(&rig, NULL);
	rig.s->recv_room = 1;
	for (int got = 1; got > 0; done += got > 0) {
		if (rig_read(&rig, 0, 1, done))
			break;
		scripted_answer_all(rig.s);
		scripted_sends_signaled(rig.s);
		got = nvmfr__qpair_poll(rig.qp, &cpl, 1);
	}
	cr_expect(rig.qp->broken && done >= 32, "%u", done);
	rig_lose(&rig, -ECONNABORTED, "gone");
	cr_expect_eq(rig_drain(&rig, &cpl, 1, 1, &n), n ? 1 : -ENOTCONN);
	rig_down(&rig);
}

Test(queue_loss, the_service_says_so)
{
	struct nvmfr_completion cpls[8];
	unsigned int n;
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 6; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	scripted_answer(rig.s, 0x1004, 0, 5);
	scripted_answer(rig.s, 0x1001, 0x2, 6);
	rig_lose(&rig, -ENOTCONN, "the service's sentence");
	cr_expect_eq(rig_read(&rig, 0, 1, 9), -ENOTCONN);
	cr_expect_str_eq(nvmfr__err_get(), "the service's sentence");
	cr_expect_eq(rig_drain(&rig, cpls, 8, 8, &n), -ENOTCONN);
	cr_expect_eq(n, 6u);
	cr_expect(cpls[0].user_data == 4 && cpls[0].result == 0 && cpls[0].cqe_result == 5);
	cr_expect(cpls[1].user_data == 1 && cpls[1].result == -EREMOTEIO && cpls[1].status == 2);
	for (unsigned int i = 2; i < 6; i++)
		cr_expect_eq(cpls[i].result, -ECONNABORTED);
	cr_expect_str_eq(nvmfr__err_get(), "the service's sentence");
	cr_expect(rig.s->stops == 1 && rig.qp->link.state == LINK_CLOSED,
		  "the endpoint is the service's again");
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 1), -ENOTCONN, "for good");
	rig_down(&rig);
}

/* A bad CID among the last answers: what is known so far stays known. */
Test(queue_loss, the_peer_s_last_words_are_checked_too, .timeout = SECONDS)
{
	struct nvmfr_completion cpls[8];
	unsigned int n;
	struct rig rig;

	rig_up(&rig, NULL);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	scripted_answer(rig.s, 0x1003, 0, 0);
	scripted_answer(rig.s, 0x7003, 0, 0);
	scripted_answer(rig.s, 0x1000, 0, 0);
	rig_lose(&rig, -ENOTCONN, "gone");
	cr_expect_eq(rig_drain(&rig, cpls, 8, 8, &n), -ENOTCONN);
	cr_expect_eq(n, 4u);
	cr_expect(cpls[0].user_data == 3 && cpls[0].result == 0);
	for (unsigned int i = 1; i < n && i < 4; i++)
		cr_expect_eq(cpls[i].result, -ECONNABORTED);
	rig_down(&rig);
}

/* ---- time ------------------------------------------------------------------------------------ */

Test(queue_timeout, a_command_over_its_time_ends_it, .timeout = SECONDS)
{
	struct nvmfr_completion cpls[4];
	unsigned int n;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .timeout_ticks = 5 });
	cr_assert_eq(rig_read(&rig, 0, 1, 1), 0);
	atomic_store(&rig.tick, 4);
	cr_assert_eq(rig_read(&rig, 0, 1, 2), 0);
	atomic_store(&rig.tick, 6);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 4), 0);
	cr_expect(!rig.qp->broken, "5 ticks are not over 5 ticks");
	atomic_store(&rig.tick, 7);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 4), 0);
	cr_expect(!rig.qp->broken, "first it is to be aborted");
	cr_expect(rig.qp->link.aborts == 1 && rig.qp->link.abort[0] == 0x1000, "%u", rig.qp->link.aborts);
	atomic_store(&rig.tick, 8);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 4), 0);
	cr_expect_eq(rig.qp->link.aborts, 1u, "once");
	cr_expect_eq(rig.qp->link.fault, -ETIMEDOUT);
	cr_expect_not_null(strstr(rig.qp->link.fault_text, "1 command unanswered"), "%s",
			   rig.qp->link.fault_text);
	rig_lose(&rig, -ETIMEDOUT, "gone");
	cr_expect_eq(rig_drain(&rig, cpls, 4, 4, &n), -ENOTCONN);
	cr_assert_eq(n, 2u);
	for (unsigned int i = 0; i < 2; i++)
		cr_expect_eq(cpls[i].result, cpls[i].user_data == 1 ? -ETIMEDOUT : -ECONNABORTED);
	rig_down(&rig);
}

/* Its answer came before the queue was gone: then that is its result. */
Test(queue_timeout, an_answer_after_all_counts, .timeout = SECONDS)
{
	struct nvmfr_completion cpls[4];
	unsigned int n;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .timeout_ticks = 5 });
	cr_assert_eq(rig_read(&rig, 0, 1, 1), 0);
	cr_assert_eq(rig_read(&rig, 0, 1, 2), 0);
	for (unsigned int tick = 7; tick <= 8; tick++) {
		atomic_store(&rig.tick, tick);
		cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 4), 0);
	}
	cr_expect_not_null(strstr(rig.qp->link.fault_text, "2 commands unanswered"), "%s",
			   rig.qp->link.fault_text);
	scripted_answer(rig.s, 0x1001, 0x80, 0);
	rig_lose(&rig, -ETIMEDOUT, "gone");
	cr_expect_eq(rig_drain(&rig, cpls, 4, 4, &n), -ENOTCONN);
	cr_assert_eq(n, 2u);
	cr_expect(cpls[0].user_data == 2 && cpls[0].result == -EREMOTEIO && cpls[0].status == 0x80);
	cr_expect(cpls[1].user_data == 1 && cpls[1].result == -ETIMEDOUT);
	rig_down(&rig);
}

Test(queue_timeout, never_without_one_and_never_when_idle)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig_read(&rig, 0, 1, 1), 0);
	atomic_store(&rig.tick, 1000000);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect(!rig.qp->broken);
	rig_down(&rig);
	rig_up(&rig, &(struct rig_opts){ .timeout_ticks = 5 });
	cr_assert_eq(rig_read(&rig, 0, 1, 1), 0);
	scripted_answer_all(rig.s);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	atomic_store(&rig.tick, 1000000);
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect(!rig.qp->broken);
	rig_down(&rig);
}
