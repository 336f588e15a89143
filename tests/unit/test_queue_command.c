/* SPDX-License-Identifier: BSD-3-Clause */
/* Any I/O command through the queue floor: its capsule, what it leaves behind, what is refused. */
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "queue/command.h"

/* Vendor specific, bits 1:0 of the opcode: 0 no data, 1 to the controller, 2 from it, 3 both. */
enum { OPC_NONE = 0xc0,
       OPC_TO = 0xc1,
       OPC_FROM = 0xc2,
       OPC_BOTH = 0xc3 };

static const struct nvmfr_cmd full = {
	.opcode = OPC_FROM,
	.nsid = 0x04030201,
	.cdw2 = 0x14131211,
	.cdw3 = 0x24232221,
	.cdw10 = 0x34333231,
	.cdw11 = 0x44434241,
	.cdw12 = 0x54535251,
	.cdw13 = 0x64636261,
	.cdw14 = 0x74737271,
	.cdw15 = 0x84838281,
};

/* NVM Express Base Specification, Common Command Format; RIG_ADDR is 0x123456789abc. */
static const unsigned char full_capsule[FAB_CAPSULE_BYTES] = {
	/* clang-format off */
	0xc2, 0x40, 0x00, 0x10, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
	0, 0, 0, 0, 0, 0, 0, 0, 0xcc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0,
	0x00, 0x10, 0x00, 0x00, 0xc3, 0xb2, 0xa1, 0x40, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44,
	0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63, 0x64, 0x71, 0x72, 0x73, 0x74, 0x81, 0x82, 0x83, 0x84,
	/* clang-format on */
};

static int command(struct rig *rig, uint8_t opcode, uint64_t offset, uint64_t bytes)
{
	struct nvmfr_cmd cmd = { .opcode = opcode, .nsid = 1 };

	return nvmfr__qpair_command(rig->qp, &cmd, bytes ? &rig->buf : NULL, offset, bytes, 0);
}

static void finish(struct rig *rig)
{
	struct nvmfr_completion cpl;

	scripted_answer_all(rig->s);
	scripted_sends_signaled(rig->s);
	cr_assert_eq(nvmfr__qpair_poll(rig->qp, &cpl, 1), 1);
}

Test(queue_command, every_byte)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 16, 4096, 77), 0, "%s",
		     nvmfr__err_get());
	cr_expect_arr_eq(scripted_last(rig.s, 0)->capsule, full_capsule, FAB_CAPSULE_BYTES);
	scripted_answer(rig.s, 0x1000, 0, UINT64_C(0x8877665544332211));
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(cpl.user_data, 77u);
	cr_expect_eq(cpl.result, 0);
	cr_expect_eq(cpl.cqe_result, UINT64_C(0x8877665544332211));
	rig_down(&rig);
}

Test(queue_command, a_refusal_is_a_completion)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(command(&rig, OPC_NONE, 0, 0), 0);
	scripted_answer(rig.s, 0x1000, 0x4001, 0);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(cpl.result, -EREMOTEIO);
	cr_expect_eq(cpl.status, 0x4001);
	rig_down(&rig);
}

Test(queue_command, no_data_is_an_empty_keyed_descriptor)
{
	static const unsigned char none[16] = { [15] = 0x40 };
	static const uint8_t opcodes[] = { OPC_NONE, OPC_TO, OPC_FROM, OPC_BOTH };
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		cr_assert_eq(command(&rig, opcodes[i], 0, 0), 0);
		cr_expect_arr_eq(scripted_last(rig.s, 0)->capsule + 24, none, sizeof(none));
	}
	rig_down(&rig);
}

/* Whatever words it set: reads of the next laps have them zero, and no SEND's capsule is changed. */
Test(queue_command, leaves_nothing_behind)
{
	const uint32_t lap = 32; /* send positions at depth 8 */
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(rig.s->ep.send_positions, lap);
	for (uint32_t i = 0; i < 5 * lap; i++) {
		const unsigned char *got;

		if (i % 37 == 0) {
			cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 16, 4096, 0), 0);
			finish(&rig);
			continue;
		}
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0, "%u: %s", i, nvmfr__err_get());
		got = scripted_last(rig.s, 0)->capsule;
		for (unsigned int at = 8; at < 24; at++)
			cr_expect_eq(got[at], 0, "command %u, byte %u", i, at);
		for (unsigned int at = 56; at < 64; at++)
			cr_expect_eq(got[at], 0, "command %u, byte %u", i, at);
		finish(&rig);
	}
	rig_down(&rig);
}

/* The last place of the ring: its SEND must be done before the ring is written again. */
Test(queue_command, waits_at_the_end_of_the_ring)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	for (unsigned int i = 0; i < 31; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
		finish(&rig);
	}
	cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 0, 4096, 0), 0);
	scripted_answer_all(rig.s);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), -EAGAIN);
	scripted_sends_signaled(rig.s);
	cr_expect_eq(rig_read(&rig, 0, 1, 0), 0, "there is nothing to poll for: %s",
		     nvmfr__err_get());
	cr_expect_eq(scripted_last(rig.s, 0)->capsule[8], 0);
	finish(&rig);
	rig_down(&rig);
}

/* The look at the ring's end may find answers, which the next poll has. */
Test(queue_command, a_look_at_the_end_of_the_ring_loses_nothing)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	for (unsigned int i = 0; i < 30; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
		finish(&rig);
	}
	cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 0, 4096, 5), 0);
	cr_assert_eq(rig_read(&rig, 0, 1, 6), 0);
	scripted_answer_all(rig.s);
	scripted_sends_signaled(rig.s);
	cr_assert_eq(rig_read(&rig, 0, 1, 7), 0, "%s", nvmfr__err_get());
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(cpl.user_data, 5u);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect_eq(cpl.user_data, 6u);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	finish(&rig);
	rig_down(&rig);
}

/* The connection broke meanwhile: the next poll says so. */
Test(queue_command, a_look_at_the_end_of_the_ring_finds_it_broken)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	for (unsigned int i = 0; i < 31; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
		finish(&rig);
	}
	cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 0, 4096, 0), 0);
	scripted_answer_all(rig.s);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	rig.s->bad = true;
	cr_expect_lt(rig_read(&rig, 0, 1, 0), 0);
	cr_expect(rig.qp->broken);
	cr_expect_lt(rig_read(&rig, 0, 1, 0), 0);
	rig_down(&rig);
}

Test(queue_command, its_buffer_is_in_use)
{
	struct rig rig;

	rig_up(&rig, NULL);
	cr_assert_eq(command(&rig, OPC_TO, 0, 512), 0);
	cr_expect(nvmfr__qpair_names(rig.qp, &rig.buf));
	finish(&rig);
	cr_expect(!nvmfr__qpair_names(rig.qp, &rig.buf));
	rig_down(&rig);
}

/* ---- refused --------------------------------------------------------------------------------- */

#define REFUSED(Call, Err, Word) \
	do { \
		cr_expect_eq(Call, Err, "%s", #Call); \
		cr_expect(strstr(nvmfr__err_get(), Word), "'%s'", nvmfr__err_get()); \
	} while (0)

Test(queue_command, bad_form)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_FROM, .nsid = 1 }, bad = cmd;
	struct rig rig;

	rig_up(&rig, NULL);
	bad.timeout_ms = 1;
	REFUSED(nvmfr__qpair_command(rig.qp, &bad, NULL, 0, 0, 0), -EINVAL, "timeout_ms");
	bad = cmd;
	bad.reserved0[0] = 1;
	REFUSED(nvmfr__qpair_command(rig.qp, &bad, NULL, 0, 0, 0), -EINVAL, "reserved");
	bad = (struct nvmfr_cmd){ .opcode = 0x7f };
	REFUSED(nvmfr__qpair_command(rig.qp, &bad, NULL, 0, 0, 0), -EPERM, "Fabrics");
	REFUSED(nvmfr__qpair_command(rig.qp, &cmd, NULL, 0, 512, 0), -EINVAL, "buf");
	REFUSED(nvmfr__qpair_command(rig.qp, &cmd, &rig.buf, 0, 0, 0), -EINVAL, "buf");
	REFUSED(command(&rig, OPC_NONE, 0, 512), -EINVAL, "no data");
	cr_expect_eq(rig.s->posted, 0u);
	rig_down(&rig);
}

Test(queue_command, bad_data)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_BOTH, .nsid = 1 };
	struct nvmfr_buffer source, other;
	struct rig rig;

	rig_up(&rig, NULL);
	source = rig_buffer(&rig, RIG_ADDR * 2, 4096, FAB_ACCESS_SOURCE);
	REFUSED(command(&rig, OPC_FROM, 0, (128 << 10) + 4), -ERANGE, "MDTS");
	REFUSED(command(&rig, OPC_FROM, RIG_BYTES - 4, 8), -ERANGE, "beyond");
	REFUSED(command(&rig, OPC_FROM, UINT64_MAX - 4, 8), -ERANGE, "beyond");
	cr_expect_eq(nvmfr__qpair_command(rig.qp, &cmd, &source, 0, 512, 0), -EINVAL);
	cmd.opcode = OPC_FROM;
	cr_expect_eq(nvmfr__qpair_command(rig.qp, &cmd, &source, 0, 512, 0), -EINVAL);
	cmd.opcode = OPC_TO;
	cr_expect_eq(nvmfr__qpair_command(rig.qp, &cmd, &source, 0, 512, 0), 0, "%s",
		     nvmfr__err_get());
	other = rig.buf;
	other.host = &other;
	REFUSED(nvmfr__qpair_command(rig.qp, &cmd, &other, 0, 512, 0), -EINVAL, "another host");
	cr_expect_eq(rig.s->posted, 1u);
	rig_unbuffer(&rig, &source);
	rig_down(&rig);
}

/* Two MRs overlap by a seam; what does not lie in one of them is refused, not split. */
Test(queue_command, data_in_two_regions)
{
	struct rig_opts opts = { .max_xfer_bytes = 8 << 20, .max_mr_bytes = 16 << 20 };
	struct nvmfr_cmd cmd = { .opcode = OPC_FROM, .nsid = 1 };
	struct nvmfr_buffer buf;
	struct rig rig;

	rig_up(&rig, &opts);
	buf = rig_buffer(&rig, RIG_ADDR, 64 << 20, FAB_ACCESS_TARGET);
	REFUSED(nvmfr__qpair_command(rig.qp, &cmd, &buf, 13 << 20, 8 << 20, 0), -EINVAL,
		"two memory regions");
	cr_expect_eq(nvmfr__qpair_command(rig.qp, &cmd, &buf, 4 << 20, 8 << 20, 0), 0, "%s",
		     nvmfr__err_get());
	rig_unbuffer(&rig, &buf);
	rig_down(&rig);
}

/* An I/O of several commands goes on behind the ring's end as soon as it may. */
Test(queue_command, a_long_one_waits_at_the_end_of_the_ring)
{
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, NULL);
	for (unsigned int i = 0; i < 28; i++) {
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
		finish(&rig);
	}
	cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 0, 4096, 0), 0);
	cr_assert_eq(rig_read(&rig, 0, 6 * 256, 1), 0);
	cr_expect_eq(rig.s->posted, 32u);
	scripted_answer_all(rig.s);
	scripted_sends_signaled(rig.s);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 0);
	cr_expect_eq(rig.s->posted, 35u, "the other three of six");
	cr_expect_eq(scripted_last(rig.s, 0)->capsule[8], 0);
	finish(&rig);
	rig_down(&rig);
}

Test(queue_command, no_room)
{
	struct rig rig;

	rig_up(&rig, NULL);
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(command(&rig, OPC_NONE, 0, 0), 0);
	cr_expect_eq(command(&rig, OPC_NONE, 0, 0), -EAGAIN);
	rig_down(&rig);
}

/* ---- a fused pair ---------------------------------------------------------------------------- */

static int fused(struct rig *rig)
{
	struct nvmfr_io pair[2] = {
		/* clang-format off */
		{ .op = NVMFR_OP_COMPARE, .nsid = RIG_NS, .lba = 0x060504030201, .nblocks = 2, .buf = &rig->buf,
		  .offset_bytes = 16, .user_data = 1 },
		{ .op = NVMFR_OP_WRITE, .nsid = RIG_NS, .lba = 0x060504030201, .nblocks = 2, .buf = &rig->buf,
		  .flags = NVMFR_IO_FUA, .user_data = 2 },
		/* clang-format on */
	};

	return nvmfr__qpair_fused(rig->qp, pair);
}

/* NVM Express Base Specification, CDW0: FUSE in bits 9:8. Two blocks are one descriptor's. */
static void expect_pair(const struct rig *rig)
{
	static const unsigned char first[2] = { 0x05, 0x41 }, second[2] = { 0x01, 0x42 };
	const struct scripted_cmd *compare = scripted_last(rig->s, 1);
	const struct scripted_cmd *write = scripted_last(rig->s, 0);

	cr_expect_arr_eq(compare->capsule, first, 2);
	cr_expect_arr_eq(write->capsule, second, 2);
	cr_expect_eq(scripted_le(compare->capsule + 24, 8), RIG_ADDR + 16);
	cr_expect_eq(scripted_le(write->capsule + 24, 8), RIG_ADDR);
	cr_expect_eq(scripted_le(compare->capsule + 40, 8), 0x060504030201u);
	cr_expect_eq(scripted_le(compare->capsule + 48, 4), 1u);
	cr_expect_eq(scripted_le(write->capsule + 48, 4), 1u | 1u << 30, "FUA");
	cr_expect_arr_eq(compare->capsule + 4, write->capsule + 4, 20);
}

static void finish_pair(struct rig *rig)
{
	struct nvmfr_completion cpl[2];

	scripted_answer_all(rig->s);
	scripted_sends_signaled(rig->s);
	cr_assert_eq(nvmfr__qpair_poll(rig->qp, cpl, 2), 2);
	cr_expect(cpl[0].user_data == 1 && cpl[1].user_data == 2);
}

/* From each place of the ring on, with a stain just before it or not. */
Test(queue_command, fused_pair_at_every_place)
{
	for (unsigned int i = 0; i < 2 * 33; i++) {
		struct rig rig;

		rig_up(&rig, NULL);
		for (unsigned int at = 0; at < i / 2; at++) {
			if (i % 2 && at + 1 == i / 2)
				cr_assert_eq(nvmfr__qpair_command(rig.qp, &full, &rig.buf, 0, 4096, 0), 0);
			else
				cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
			finish(&rig);
		}
		cr_assert_eq(fused(&rig), 0, "%u: %s", i, nvmfr__err_get());
		expect_pair(&rig);
		finish_pair(&rig);
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0, "%u: %s", i, nvmfr__err_get());
		cr_expect_eq(scripted_last(rig.s, 0)->capsule[8], 0);
		finish(&rig);
		rig_down(&rig);
	}
}

Test(queue_command, no_fused_pair_without_fuses)
{
	struct rig_opts opts = { .no_optional = true };
	struct rig rig;

	rig_up(&rig, &opts);
	cr_expect_eq(fused(&rig), -EOPNOTSUPP);
	cr_expect_eq(rig.s->posted, 0u);
	rig_down(&rig);
}
