/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue floor on the scripted fabric: what a peer may answer, and how a connection ends. */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define SECONDS 30           /* a loop that does not end is a failure, not a hang */

/* ---- responses -------------------------------------------------------------------------------- */

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

/* NVMe Base, CQE dword 3: bits 31:17 are the status, bit 16 the phase tag, reserved over fabrics. */
Test(queue_answer, status_is_fifteen_bits_beside_the_phase_tag)
{
	static const uint16_t statuses[] = { 0x0001, 0x0080, 0x0281, 0x4002, 0x7fff };

	for (unsigned int phase = 0; phase < 2; phase++) {
		for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
			struct nvmfr_completion cpl;
			struct rig rig;

			rig_up(&rig, NULL);
			cr_assert_eq(rig_read(&rig, 0, 1, 7), 0);
			scripted_answer_dword(rig.s, (uint32_t)statuses[i] << 17 | phase << 16 | 0x1000, 3);
			cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
			cr_expect(cpl.result == -EREMOTEIO && cpl.status == statuses[i], "0x%04x phase %u", statuses[i],
				  phase);
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
		scripted_answer_dword(rig.s, UINT32_C(0x10000) | scripted_cid(scripted_last(rig.s, 0)), 0);
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
		cr_expect(cpls[i].user_data == order[i] && cpls[i].status == (order[i] & 1), "%zu", i);
	rig_down(&rig);
}

/* ---- poll ------------------------------------------------------------------------------------- */

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
		cr_expect_eq(nvmfr__qpair_poll(rig.qp, &cpls[i], 1), 1, "with max 1 the %u. time", i + 1);
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
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rig_read(&rig, i, 1, i), 0);
	scripted_answer_all(rig.s);
	rig.s->idle_more = 3;
	rig.s->per_poll = 0;
	rig.s->before_poll = NULL;
	rig.s->polls = 0;
	rig.s->per_poll = 8;
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 8);
	rig.s->idle_more = 3;
	rig.s->polls = 0;
	cr_expect_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 0);
	cr_expect_eq(rig.s->polls, 4u, "three times only SENDs, then empty");
	rig_down(&rig);
}

/* ---- a peer that breaks the rules ------------------------------------------------------------------ */

struct cid_case {
	const char *name;
	uint16_t cid;
	const char *sentence;
};

/* Depth 5 has 8 entries in its table. Slot 0 has done two rounds and is free, slot 1 is in flight in its second. */
static const struct cid_case bad_cids[] = {
	{ "the same answer twice", 0x2000, "duplicate" },
	{ "an older generation of a free slot", 0x1000, "stale" },
	{ "an older generation of a slot in flight", 0x1001, "stale" },
	{ "a generation to come, free slot", 0x3000, "" },
	{ "a generation to come, slot in flight", 0x3001, "" },
	{ "a slot never used", 0x1004, "never issued" },
	{ "a slot between depth and table", 0x1005, "never issued" },
	{ "its first value, as set at connect", 0x0006, "never issued" },
	{ "a slot behind the table", 0x1009, "never issued" },
	{ "the last slot of the CID space", 0x1fff, "never issued" },
	{ "ffff", 0xffff, "never issued" },
	{ "zero", 0x0000, "" },
};

static void prepare(struct rig *rig)
{
	struct nvmfr_completion cpls[4];

	rig_up(rig, &(struct rig_opts){ .depth = 5 });
	for (uint32_t round = 0; round < 2; round++) {
		cr_assert_eq(rig_read(rig, 0, 1, 10), 0);
		cr_assert_eq(rig_read(rig, 0, 1, 11), 0);
		scripted_answer(rig->s, (uint16_t)(0x1001 + 0x1000 * round), 0, 0);
		scripted_answer(rig->s, (uint16_t)(0x1000 + 0x1000 * round), 0, 0);
		if (round == 0)
			cr_assert_eq(nvmfr__qpair_poll(rig->qp, cpls, 4), 2);
	}
	cr_assert_eq(nvmfr__qpair_poll(rig->qp, cpls, 4), 2);
}

static void expect_broken(struct rig *rig, const struct cid_case *c)
{
	char hex[8];

	snprintf(hex, sizeof(hex), "0x%04x", c->cid);
	cr_expect(rig->qp->broken && rig->qp->err == -EPROTO, "%s", c->name);
	cr_expect(rig_service_rung(rig) && rig->qp->link.fault == -EPROTO, "%s: the service must know", c->name);
	cr_expect_not_null(strstr(rig->qp->link.fault_text, hex), "%s: %s", c->name, rig->qp->link.fault_text);
	cr_expect_not_null(strstr(rig->qp->link.fault_text, c->sentence), "%s: %s", c->name, rig->qp->link.fault_text);
	cr_expect_eq(rig_read(rig, 0, 1, 0), -ENOTCONN, "%s", c->name);
	cr_expect_not_null(strstr(nvmfr__err_get(), hex), "%s: %s", c->name, nvmfr__err_get());
}

/* What comes with the bad one: good ones before it count, those after it do not. */
Test(queue_peer, a_cid_that_is_not_outstanding_ends_it, .timeout = SECONDS)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_cids); i++) {
		struct nvmfr_completion cpls[6];
		unsigned int n;
		struct rig rig;

		prepare(&rig);
		cr_assert_eq(rig_read(&rig, 0, 1, 20), 0);
		cr_assert_eq(rig_read(&rig, 0, 1, 21), 0);
		cr_assert_eq(rig_read(&rig, 0, 1, 22), 0);
		scripted_answer(rig.s, 0x3000, 0, 0);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 6), 1);
		scripted_answer(rig.s, 0x1002, 0, 0);
		scripted_answer(rig.s, (uint16_t)(bad_cids[i].cid == 0x2000 ? 0x3000 : bad_cids[i].cid), 0, 0);
		(void)n;
		rig_down(&rig);
	}
}
