/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare, Verify, deallocate and Copy: what they do to the data, and what is refused. */
#include "refused.h"

#include <stdio.h>
#include <unistd.h>

#include <nvmfr/cmd.h>

enum {
	STATUS_COMPARE_FAILURE = 0x4285, /* do not retry */
	ONCS_WRITE_ZEROES = 1 << 3,
	ID_NS_MSRC = 80,
	NVM_VSL = 0,
	NVM_DMRL = 3,
};

struct scene {
	struct flow f;
	struct nvmfr_buffer *buf; /* of the namespace's size */
	unsigned char *mem;
	struct nvmfr_buffer *list;
};

static void begin(struct scene *s)
{
	s->buf = flow_alloc(&s->f, BLOCKS * BLOCK);
	s->mem = nvmfr_buffer_addr(s->buf);
	s->list = flow_alloc(&s->f, 8192);
}

static void up(struct scene *s)
{
	small_up(&s->f);
	begin(s);
}

static void down(struct scene *s)
{
	flow_release(s->buf);
	flow_release(s->list);
	flow_down(&s->f);
}

static void must(struct scene *s, uint8_t op, uint64_t lba, uint64_t nblocks)
{
	struct nvmfr_io io =
		flow_io(&s->f, op, lba, nblocks, op & 3 ? s->buf : NULL, op & 3 ? lba * BLOCK : 0);

	flow_must(s->f.qp, &io);
}

/* Random bytes in all of the buffer and of the namespace. */
static void fill(struct scene *s)
{
	uint64_t seed = flow_seed(4711);

	flow_fill(&seed, s->mem, BLOCKS * BLOCK);
	must(s, NVMFR_OP_WRITE, 0, BLOCKS);
}

static struct nvmfr_completion compare(struct scene *s, uint64_t lba, uint64_t nblocks)
{
	struct nvmfr_io io = flow_io(&s->f, NVMFR_OP_COMPARE, lba, nblocks, s->buf, lba * BLOCK);

	return flow_do(s->f.qp, &io);
}

static struct nvmfr_completion finish(struct scene *s, int submitted)
{
	struct nvmfr_completion done;

	cr_assert_eq(submitted, 0, "%s", nvmfr_last_error());
	flow_wait(s->f.qp, &done, 1);
	cr_expect_eq(done.user_data, 99u);
	return done;
}

static int deallocate(struct scene *s, const struct nvmfr_range *ranges, unsigned int n)
{
	return nvmfr_deallocate(s->f.qp, s->f.nsid, ranges, n, s->list, 4, 99);
}

static int copy(struct scene *s, uint64_t lba, const struct nvmfr_range *ranges, unsigned int n)
{
	return nvmfr_copy(s->f.qp, s->f.nsid, lba, ranges, n, s->list, 4, 99);
}

/* ---- Compare --------------------------------------------------------------------------------- */

Test(optional, compare_says_whether_they_differ)
{
	struct scene s;

	up(&s);
	fill(&s);
	cr_expect_eq(compare(&s, 17, 9).result, 0);
	s.mem[25 * BLOCK + 511] ^= 1; /* the last byte */
	cr_expect_eq(compare(&s, 17, 8).result, 0);
	cr_expect_eq(compare(&s, 17, 9).result, -EREMOTEIO);
	cr_expect_eq(compare(&s, 17, 9).status, STATUS_COMPARE_FAILURE);
	down(&s);
}

/* Of several commands; where they differ in two of them one failure is told. */
Test(optional, compare_of_any_length)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct scene s;

	opts.mdts = 1; /* 16 blocks */
	flow_host(&s.f);
	flow_target(&s.f, &opts);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	fill(&s);
	cr_expect_eq(compare(&s, 0, BLOCKS).result, 0);
	s.mem[1000 * BLOCK] ^= 1;
	s.mem[1500 * BLOCK] ^= 1;
	cr_expect_eq(compare(&s, 0, BLOCKS).status, STATUS_COMPARE_FAILURE);
	cr_expect_eq(compare(&s, 0, 1000).result, 0);
	down(&s);
}

Test(optional, compare_with_pieces)
{
	struct nvmfr_iov iov[3];
	struct nvmfr_io io;
	struct scene s;

	up(&s);
	fill(&s);
	for (unsigned int i = 0; i < 3; i++)
		iov[i] = (struct nvmfr_iov){ .buf = s.buf,
					     .offset_bytes = i * BLOCK,
					     .len_bytes = BLOCK };
	io = flow_io(&s.f, NVMFR_OP_COMPARE, 0, 3, NULL, 3);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	flow_must(s.f.qp, &io);
	iov[2].offset_bytes += BLOCK;
	cr_expect_eq(flow_do(s.f.qp, &io).status, STATUS_COMPARE_FAILURE);
	down(&s);
}

/* In a list of prepared I/Os it holds its buffer like any other. */
Test(optional, compare_prepared)
{
	struct nvmfr_completion done;
	struct nvmfr_prepared *list;
	struct nvmfr_io io;
	struct scene s;

	up(&s);
	fill(&s);
	io = flow_io(&s.f, NVMFR_OP_COMPARE, 5, 3, s.buf, 5 * BLOCK);
	cr_assert_eq(nvmfr_prepare(s.f.qp, &io, 1, &list), 0, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_buffer_release(s.buf), -EBUSY);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(nvmfr_post(list, 0, 1), 1, "%s", nvmfr_last_error());
		flow_wait(s.f.qp, &done, 1);
		cr_expect_eq(done.result, 0);
	}
	nvmfr_prepared_release(list);
	down(&s);
}

/* ---- Verify ---------------------------------------------------------------------------------- */

Test(optional, verify)
{
	struct scene s;

	up(&s);
	must(&s, NVMFR_OP_VERIFY, 0, BLOCKS);
	flow_plan_io(&s.f, NVMFR_SOFT_FAULT_STATUS, 0x0c, STATUS_UNRECOVERED_READ);
	cr_expect_eq(flow_do(s.f.qp,
			     &(struct nvmfr_io){ .op = NVMFR_OP_VERIFY, .nsid = 1, .nblocks = 1 })
			     .status,
		     STATUS_UNRECOVERED_READ);
	down(&s);
}

Test(optional, verify_keeps_to_vsl)
{
	uint64_t before;
	struct scene s;

	flow_host(&s.f);
	flow_target(&s.f, NULL);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_patch8(&s.f, CNS_IO_SET_CTRL, NVM_VSL, 2);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	before = flow_counters(&s.f).commands;
	must(&s, NVMFR_OP_VERIFY, 0, 320);
	cr_expect_eq(flow_counters(&s.f).commands, before + 10, "16 KiB at a time");
	down(&s);
}

/* ---- deallocate ------------------------------------------------------------------------------ */

static void check_deallocated(struct scene *s)
{
	static unsigned char want[BLOCKS * BLOCK];
	const struct nvmfr_range ranges[] = { { 3, 2 }, { 100, 1000 }, { BLOCKS - 1, 1 } };

	fill(s);
	memcpy(want, s->mem, sizeof(want));
	for (unsigned int i = 0; i < ARRAY_SIZE(ranges); i++)
		memset(want + ranges[i].lba * BLOCK, 0, ranges[i].nblocks * BLOCK);
	cr_expect_eq(finish(s, deallocate(s, ranges, 3)).result, 0);
	must(s, NVMFR_OP_READ, 0, BLOCKS);
	cr_expect(memcmp(s->mem, want, sizeof(want)) == 0,
		  "zeroes there, and nothing else changed");
}

Test(optional, deallocated_blocks_read_as_zero)
{
	struct scene s;

	up(&s);
	check_deallocated(&s);
	down(&s);
}

/* The file's last block is not all there. */
Test(optional, deallocate_in_a_file)
{
	char path[] = "/tmp/nvmfr-optional-XXXXXX";
	struct nvmfr_soft_ns_opts opts;
	int fd = mkstemp(path);
	struct scene s;

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, BLOCKS * BLOCK), 0);
	close(fd);
	flow_host(&s.f);
	flow_target(&s.f, NULL);
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.path = path;
	cr_assert_eq(nvmfr_soft_ns_add(s.f.target, &opts), 1, "%s", nvmfr_last_error());
	s.f.nsid = 1;
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	check_deallocated(&s);
	down(&s);
	unlink(path);
}

Test(optional, deallocate_limits_of_the_controller)
{
	const struct nvmfr_range ranges[] = { { 0, 1 }, { 2, 1 }, { 4, 1 } };
	struct scene s;

	flow_host(&s.f);
	flow_target(&s.f, NULL);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_patch8(&s.f, CNS_IO_SET_CTRL, NVM_DMRL, 2);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	REFUSED(deallocate(&s, ranges, 3), -EINVAL, "DMRL");
	cr_expect_eq(finish(&s, deallocate(&s, ranges, 2)).result, 0);
	down(&s);
}

/* ---- Copy ------------------------------------------------------------------------------------ */

Test(optional, copy_gathers_ranges)
{
	const struct nvmfr_range ranges[] = { { 10, 3 }, { 500, 1 }, { 7, 2 } };
	unsigned char want[6 * BLOCK];
	struct nvmfr_completion done;
	struct scene s;

	up(&s);
	fill(&s);
	memcpy(want, s.mem + 10 * BLOCK, 3 * BLOCK);
	memcpy(want + 3 * BLOCK, s.mem + 500 * BLOCK, BLOCK);
	memcpy(want + 4 * BLOCK, s.mem + 7 * BLOCK, 2 * BLOCK);
	memcpy(s.mem + 1000 * BLOCK, want, sizeof(want));
	done = finish(&s, copy(&s, 1000, ranges, 3));
	cr_expect_eq(done.result, 0);
	cr_expect_eq(compare(&s, 0, BLOCKS).result, 0, "these six blocks, and no others");
	down(&s);
}

Test(optional, copy_limits_of_the_namespace)
{
	const struct nvmfr_range ranges[] = { { 0, 1 }, { 2, 1 }, { 4, 1 } };
	struct scene s;

	flow_host(&s.f);
	flow_target(&s.f, NULL);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_patch8(&s.f, CNS_NS, ID_NS_MSRC, 1);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	REFUSED(copy(&s, 100, ranges, 3), -EINVAL, "MSRC");
	cr_expect_eq(finish(&s, copy(&s, 100, ranges, 2)).result, 0);
	REFUSED(copy(&s, BLOCKS - 1, ranges, 2), -ERANGE, "to write");
	down(&s);
}

/* ---- refused --------------------------------------------------------------------------------- */

Test(optional, only_where_oncs_has_it)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	const struct nvmfr_range range = { 0, 1 };
	struct nvmfr_cmd cmd = { .nsid = 1 };
	struct nvmfr_io io;
	struct scene s;

	opts.oncs = ONCS_WRITE_ZEROES;
	flow_host(&s.f);
	flow_target(&s.f, &opts);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	io = flow_io(&s.f, NVMFR_OP_COMPARE, 0, 1, s.buf, 0);
	REFUSED(nvmfr_submit(s.f.qp, &io, 1), -EOPNOTSUPP, "ONCS bit 0");
	io = flow_io(&s.f, NVMFR_OP_VERIFY, 0, 1, NULL, 0);
	REFUSED(nvmfr_submit(s.f.qp, &io, 1), -EOPNOTSUPP, "ONCS bit 7");
	REFUSED(deallocate(&s, &range, 1), -EOPNOTSUPP, "ONCS bit 2");
	REFUSED(copy(&s, 5, &range, 1), -EOPNOTSUPP, "ONCS bit 8");
	cmd.opcode = 0x0c;
	cr_expect_eq(finish(&s, nvmfr_submit_cmd(s.f.qp, &cmd, NULL, 0, 0, 99)).status, 0x4001,
		     "the controller, too");
	must(&s, NVMFR_OP_WRITE_ZEROES, 0, 1);
	down(&s);
}

Test(optional, bad_arguments)
{
	const struct nvmfr_range range = { 0, 1 };
	struct scene s;

	up(&s);
	REFUSED(nvmfr_deallocate(NULL, 1, &range, 1, s.list, 0, 0), -EINVAL, "qp");
	REFUSED(nvmfr_deallocate(s.f.qp, 1, NULL, 1, s.list, 0, 0), -EINVAL, "ranges");
	REFUSED(nvmfr_copy(NULL, 1, 0, &range, 1, s.list, 0, 0), -EINVAL, "qp");
	REFUSED(nvmfr_copy(s.f.qp, 1, 0, NULL, 1, s.list, 0, 0), -EINVAL, "ranges");
	REFUSED(nvmfr_copy(s.f.qp, 1, 0, &range, 1, s.list, 8192 - 31, 0), -ERANGE, "beyond");
	REFUSED(nvmfr_copy(s.f.qp, 2, 0, &range, 1, s.list, 0, 0), -ENOENT, "namespace 2");
	down(&s);
}

/* What the target finds itself, when it is told as given. */
Test(optional, the_target_looks_too)
{
	struct nvmfr_cmd dsm = { .opcode = 0x09, .nsid = 1, .cdw11 = 4 };
	struct nvmfr_cmd copies = { .opcode = 0x19, .nsid = 1 };
	unsigned char *list;
	struct scene s;

	up(&s);
	fill(&s);
	s.f.violates = true;
	list = nvmfr_buffer_addr(s.list);
	memset(list, 0, 8192);
	list[4] = 9; /* nine blocks, */
	list[8] = (BLOCKS - 8) & 0xff; /* from the last but seven on */
	list[9] = (BLOCKS - 8) >> 8;
	cr_expect_eq(finish(&s, nvmfr_submit_cmd(s.f.qp, &dsm, s.list, 0, 16, 99)).status & 0x7ff,
		     STATUS_LBA_RANGE);
	list[17] = 0xff; /* a source range of more than MSSRL */
	cr_expect_eq(finish(&s, nvmfr_submit_cmd(s.f.qp, &copies, s.list, 0, 32, 99)).status &
			     0x7ff,
		     0x183);
	copies.cdw12 = 1 << 8; /* another descriptor format */
	cr_expect_eq(finish(&s, nvmfr_submit_cmd(s.f.qp, &copies, s.list, 0, 32, 99)).status &
			     0x7ff,
		     0x002);
	copies.cdw12 = 200; /* more than MSRC */
	cr_expect_eq(finish(&s, nvmfr_submit_cmd(s.f.qp, &copies, s.list, 0, 201 * 32, 99)).status &
			     0x7ff,
		     0x183);
	cr_expect_eq(compare(&s, 0, BLOCKS).result, 0, "nothing was changed");
	down(&s);
}

Test(optional, read_only)
{
	const struct nvmfr_range range = { 0, 1 };
	struct nvmfr_cmd dsm = { .opcode = 0x09, .nsid = 1, .cdw11 = 4 };
	struct nvmfr_soft_ns_opts opts;
	struct scene s;

	flow_host(&s.f);
	flow_target(&s.f, NULL);
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.size_bytes = BLOCKS * BLOCK;
	opts.flags = NVMFR_SOFT_NS_READ_ONLY;
	cr_assert_eq(nvmfr_soft_ns_add(s.f.target, &opts), 1);
	s.f.nsid = 1;
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	begin(&s);
	memset(s.mem, 0, BLOCKS * BLOCK);
	cr_expect_eq(compare(&s, 0, 4).result, 0, "it changes nothing");
	must(&s, NVMFR_OP_VERIFY, 0, 4);
	REFUSED(deallocate(&s, &range, 1), -EROFS, "write protected");
	REFUSED(copy(&s, 5, &range, 1), -EROFS, "write protected");
	memset(nvmfr_buffer_addr(s.list), 0, 16);
	cr_expect_eq(finish(&s, nvmfr_submit_cmd(s.f.qp, &dsm, s.list, 0, 16, 99)).status & 0x7ff,
		     0x020);
	down(&s);
}
