/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue floor on the scripted fabric: writes whose data travels in the capsule. They are over
 * when the response is in and the SEND is done, in either order.
 */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define ICD 4096

static void up(struct rig *rig)
{
	rig_up(rig, &(struct rig_opts){ .icd_bytes = ICD, .max_descriptors = 4 });
}

static bool carried(const struct rig *rig)
{
	return scripted_last(rig->s, 0)->is_data;
}

static unsigned int poll_all(struct rig *rig, struct nvmfr_completion *cpls, unsigned int max)
{
	int n = nvmfr__qpair_poll(rig->qp, cpls, max);

	cr_assert(n >= 0);
	return (unsigned int)n;
}

/* ---- which writes ---------------------------------------------------------------------------- */

/*
 * NVMe over Fabrics: a data block descriptor with offset subtype (type 01h), address = offset 0,
 * 32-bit length.
 */
Test(queue_carried, capsule_and_tail)
{
	/* clang-format off */
	static const unsigned char want[FAB_CAPSULE_BYTES] = {
		0x01, 0x40, 0x00, 0x10, 1, [32] = 0x00, 0x10, [39] = 0x01, [40] = 0x21, 0x43,
		[48] = 7, [51] = 0x40,
	};
	/* clang-format on */
	struct nvmfr_io io = {
		.op = NVMFR_OP_WRITE,
		.flags = NVMFR_IO_FUA,
		.nsid = RIG_NS,
		.lba = 0x4321,
		.nblocks = 8,
		.offset_bytes = 0x1235,
	};
	const struct scripted_cmd *cmd;
	struct rig rig;

	up(&rig);
	io.buf = &rig.buf;
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	cmd = scripted_last(rig.s, 0);
	cr_expect_arr_eq(cmd->capsule, want, sizeof(want));
	cr_expect_eq(cmd->tail.addr, RIG_ADDR + 0x1235);
	cr_expect_eq(cmd->tail.bytes, 4096u);
	cr_expect_eq(cmd->tail.lkey, SCRIPTED_LKEY);
	rig_down(&rig);
}

Test(queue_carried, only_what_fits_and_only_writes)
{
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 8, 0), 0);
	cr_expect(carried(&rig), "IOCCSZ's data to the byte");
	cr_assert_eq(rig_write(&rig, 0, 9, 0), 0);
	cr_expect(!carried(&rig), "a block more");
	cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
	cr_expect(!carried(&rig), "a read");
	cr_assert_eq(nvmfr__qpair_write(rig.qp, RIG_NS_4K, 0, 1, &rig.buf, 0, 0), 0);
	cr_expect(carried(&rig), "one block of 4 KiB");
	rig_down(&rig);
	rig_up(&rig, NULL);
	cr_assert_eq(rig_write(&rig, 0, 1, 0), 0);
	cr_expect(!carried(&rig), "the controller takes none");
	rig_down(&rig);
}

/* The CPU, and so an inline or gathered copy, must not touch it. */
Test(queue_carried, never_from_device_memory)
{
	struct rig rig;

	up(&rig);
	rig.buf.flags |= BUFFER_DMABUF;
	cr_assert_eq(rig_write(&rig, 0, 1, 0), 0);
	cr_expect(!carried(&rig));
	rig.buf.flags &= ~(uint32_t)BUFFER_DMABUF;
	rig_down(&rig);
}

/* A position that carried data once must not carry it again. */
Test(queue_carried, positions_change_their_kind)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	for (uint32_t i = 0; i < 200; i++) {
		bool write = i / 3 % 2;

		cr_assert_eq(write ? rig_write(&rig, i, 1, i) : rig_read(&rig, i, 1, i), 0);
		cr_expect_eq(carried(&rig), write, "command %u", i);
		cr_expect_eq(scripted_last(rig.s, 0)->capsule[39], write ? 0x01 : 0x40,
			     "command %u", i);
		scripted_answer_all(rig.s);
		scripted_sends_done(rig.s, 1);
		cr_assert_eq(poll_all(&rig, &cpl, 1), 1u);
		cr_expect_eq(cpl.user_data, i);
	}
	rig_down(&rig);
}

/* ---- when it is over ------------------------------------------------------------------------- */

Test(queue_carried, response_before_send)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 77), 0);
	scripted_answer(rig.s, 0x1000, 0, 0x1234);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u, "the SEND still reads the caller's bytes");
	cr_expect(nvmfr__qpair_names(rig.qp, &rig.buf));
	scripted_sends_done(rig.s, 1);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 1u);
	cr_expect(cpl.user_data == 77 && cpl.result == 0 && cpl.cqe_result == 0x1234 &&
		  cpl.qpair_data == RIG_TAG);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	cr_expect(!nvmfr__qpair_names(rig.qp, &rig.buf));
	rig_down(&rig);
}

Test(queue_carried, send_before_response_and_both_at_once)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 1), 0);
	scripted_sends_done(rig.s, 1);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	scripted_answer(rig.s, 0x1000, 0, 0);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 1u);
	cr_assert_eq(rig_write(&rig, 0, 1, 2), 0);
	scripted_sends_done(rig.s, 1);
	scripted_answer(rig.s, 0x2000, 0, 0);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 1u);
	cr_expect_eq(cpl.user_data, 2u);
	rig_down(&rig);
}

Test(queue_carried, an_error_is_held_as_well)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 5), 0);
	scripted_answer(rig.s, 0x1000, 0x4280, 9);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	scripted_sends_done(rig.s, 1);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 1u);
	cr_expect(cpl.user_data == 5 && cpl.result == -EREMOTEIO && cpl.status == 0x4280 &&
		  cpl.cqe_result == 9);
	rig_down(&rig);
}

/* Nor is it forgotten that the Abort was ours. */
Test(queue_carried, an_aborted_one_is_held_as_well)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 5), 0);
	rig.qp->abort[rig.qp->aborts++] = (struct qpair_abort){ .cid = 0x1000 };
	scripted_answer(rig.s, 0x1000, 0x0007, 0);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	scripted_sends_done(rig.s, 1);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 1u);
	cr_expect(cpl.result == -ETIMEDOUT && cpl.status == 0x0007, "%d", cpl.result);
	rig_down(&rig);
}

/* The slot of a held response is not free: the CID is not used again before the end. */
Test(queue_carried, held_ones_keep_their_slot)
{
	struct nvmfr_completion cpls[8];
	struct rig rig;

	up(&rig);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rig_write(&rig, 0, 1, i), 0);
	scripted_answer_all(rig.s);
	cr_expect_eq(poll_all(&rig, cpls, 8), 0u);
	cr_expect_eq(rig_write(&rig, 0, 1, 9), -EAGAIN);
	scripted_sends_done(rig.s, 3);
	cr_expect_eq(poll_all(&rig, cpls, 8), 3u);
	cr_expect_eq(rig_read(&rig, 0, 1, 9), 0);
	rig_down(&rig);
}

/* Poll says 0 only when nothing that could be told is left inside. */
Test(queue_carried, poll_with_max_1_releases_all)
{
	struct nvmfr_completion cpl;
	bool seen[8] = { false };
	struct rig rig;

	up(&rig);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(i % 2 ? rig_read(&rig, 0, 1, i) : rig_write(&rig, 0, 1, i), 0);
	scripted_answer_all(rig.s);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(poll_all(&rig, &cpl, 1), 1u, "the reads, behind held writes: %u", i);
		cr_expect_eq(cpl.user_data, 2 * i + 1);
	}
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	scripted_sends_done(rig.s, 8);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(poll_all(&rig, &cpl, 1), 1u, "the writes: %u", i);
		cr_assert(cpl.user_data < 8 && !seen[cpl.user_data]);
		seen[cpl.user_data] = true;
	}
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	rig_down(&rig);
}

/* A sleeper must not sleep over what a SEND's end released. */
Test(queue_carried, arm_says_poll_again)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 1), 0);
	scripted_answer(rig.s, 0x1000, 0, 0);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 0u);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	scripted_sends_done(rig.s, 1);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 1);
	cr_assert_eq(poll_all(&rig, &cpl, 1), 1u);
	cr_expect_eq(nvmfr__qpair_arm(rig.qp), 0);
	rig_down(&rig);
}

/* ---- a hostile or dying peer ----------------------------------------------------------------- */

Test(queue_carried, a_second_answer_is_a_duplicate)
{
	static const bool sent_first[] = { false, true };

	for (size_t i = 0; i < ARRAY_SIZE(sent_first); i++) {
		struct nvmfr_completion cpl;
		struct rig rig;

		up(&rig);
		cr_assert_eq(rig_write(&rig, 0, 1, 1), 0);
		if (sent_first[i])
			scripted_sends_done(rig.s, 1);
		scripted_answer(rig.s, 0x1000, 0, 0);
		scripted_answer(rig.s, 0x1000, 0, 0);
		cr_expect_eq(poll_all(&rig, &cpl, 1), sent_first[i] ? 1u : 0u);
		poll_all(&rig, &cpl, 1);
		cr_expect(rig.qp->broken);
		cr_expect_not_null(strstr(rig.qp->sentence, "duplicate"), "%s", rig.qp->sentence);
		rig_down(&rig);
	}
}

Test(queue_carried, a_stale_answer)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 1), 0);
	scripted_answer(rig.s, 0x0000, 0, 0);
	cr_expect_eq(poll_all(&rig, &cpl, 1), 0u);
	cr_expect(rig.qp->broken && rig.qp->err == -EPROTO);
	rig_down(&rig);
}

/*
 * The answer is known, and a stopped endpoint reads no memory: no reason to call the outcome
 * unknown.
 */
Test(queue_carried, held_answers_survive_the_end)
{
	struct nvmfr_completion cpls[4];
	unsigned int n;
	struct rig rig;

	up(&rig);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(rig_write(&rig, 0, 1, i), 0);
	scripted_answer(rig.s, 0x1000, 0, 0x55);
	scripted_answer(rig.s, 0x1001, 0x81, 0);
	cr_assert_eq(poll_all(&rig, cpls, 4), 0u);
	rig_lose(&rig, -ECONNABORTED, "gone");
	cr_expect_eq(rig_drain(&rig, cpls, 4, 4, &n), -ENOTCONN);
	cr_assert_eq(n, 3u);
	for (unsigned int i = 0; i < n; i++) {
		static const int32_t results[] = { 0, -EREMOTEIO, -ECONNABORTED };
		static const uint16_t statuses[] = { 0, 0x81, 0 };

		cr_assert(cpls[i].user_data < 3);
		cr_expect_eq(cpls[i].result, results[cpls[i].user_data], "write %u",
			     (unsigned int)cpls[i].user_data);
		cr_expect_eq(cpls[i].status, statuses[cpls[i].user_data]);
	}
	rig_down(&rig);
}

/* SENDs flush in order: one reported done at the very end releases what was held for it. */
Test(queue_carried, a_send_done_with_the_last_poll, .timeout = 30)
{
	struct nvmfr_completion cpls[4];
	unsigned int n;
	struct rig rig;

	up(&rig);
	cr_assert_eq(rig_write(&rig, 0, 1, 1), 0);
	cr_assert_eq(rig_write(&rig, 0, 1, 2), 0);
	scripted_answer(rig.s, 0x1000, 0, 0);
	cr_assert_eq(poll_all(&rig, cpls, 4), 0u);
	scripted_sends_done(rig.s, 2);
	scripted_answer(rig.s, 0x1001, 0, 0);
	rig.s->bad = true;
	rig_lose(&rig, -ECONNABORTED, "gone");
	cr_expect_eq(rig_drain(&rig, cpls, 4, 1, &n), -ENOTCONN);
	cr_assert_eq(n, 2u);
	cr_expect(cpls[0].result == 0 && cpls[1].result == 0);
	rig_down(&rig);
}
