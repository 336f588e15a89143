/* SPDX-License-Identifier: BSD-3-Clause */
/* What the controller itself says of a command: status, result, and which of a split I/O counts. */
#include "flow.h"

enum { BLOCK = 512 };

Test(status, status_of_a_read)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_READ, 0x4000 | STATUS_UNRECOVERED_READ);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, 0x4000 | STATUS_UNRECOVERED_READ, "with DNR as it came: %04x",
		     done.status);
	cr_expect(strcasestr(nvmfr_status_string(done.status), "unrecovered read"), "%s",
		  nvmfr_status_string(done.status));
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

Test(status, status_of_a_flush)
{
	struct nvmfr_completion done;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_FLUSH, STATUS_INTERNAL_ERROR);
	io = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_INTERNAL_ERROR);
	flow_works(&f);
	flow_down(&f);
}

Test(status, result_dwords_come_through)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_RESULT, OPC_READ, UINT64_C(0x1122334455667788));
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, 0);
	cr_expect_eq(done.cqe_result, UINT64_C(0x1122334455667788));
	flow_release(buf);
	flow_down(&f);
}

Test(status, namespace_removed_meanwhile)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BLOCK);
	cr_assert_eq(nvmfr_soft_ns_remove(f.target, f.nsid), 0);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status & 0x3fff, STATUS_INVALID_NAMESPACE);
	flow_release(buf);
	flow_down(&f);
}

/* A read of 8 commands, 16 blocks each, that fails in some of them. */
static struct nvmfr_completion split_fails(const uint32_t *skips, const uint16_t *statuses,
					   unsigned int n)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_up(&f, &opts);
	buf = flow_alloc(&f, 64 * KIB);
	for (unsigned int i = 0; i < n; i++) {
		struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ,
							   NVMFR_SOFT_ANY, statuses[i]);

		/* A plan's entries count what they see: an earlier one takes its command away. */
		fault.skip = skips[i];
		flow_plan(&f, &fault);
	}
	io = flow_io(&f, NVMFR_OP_READ, 0, 128, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 0);
	nvmfr_soft_fault_clear(f.target);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
	return done;
}

Test(status, status_of_the_only_part_that_fails)
{
	const uint32_t skip = 5;
	const uint16_t status = STATUS_UNRECOVERED_READ;
	struct nvmfr_completion done = split_fails(&skip, &status, 1);

	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_UNRECOVERED_READ);
	cr_expect_eq(done.cqe_result, 0);
}

Test(status, status_of_the_lowest_part_that_fails)
{
	/* The second entry lets 3 others pass, the first of which is the second's own. */
	const uint32_t skips[] = { 6, 2 };
	const uint16_t statuses[] = { STATUS_INTERNAL_ERROR, STATUS_UNRECOVERED_READ };
	struct nvmfr_completion done = split_fails(skips, statuses, 2);

	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_UNRECOVERED_READ);
}

/* Lower blocks answer last: it is the address that counts, not the time. */
Test(status, status_of_the_lowest_part_although_it_comes_last)
{
	struct nvmfr_soft_fault late =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 1, OPC_READ, NVMFR_SOFT_ANY, 1000);
	struct nvmfr_soft_fault fail = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ,
						  NVMFR_SOFT_ANY, STATUS_INTERNAL_ERROR);
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 64 * KIB, 512);
	/* The library believes in twice as many blocks: the second half fails at the target. */
	flow_patch(&f, CNS_NS, 1, 0, "\0\1\0\0\0\0\0\0", 8);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 64);
	buf = flow_alloc(&f, 256 * 512);
	late.count = 4; /* 64 to 127 answer late, well */
	flow_plan(&f, &late);
	late.count = 1; /* 128 to 143: late, LBA Out of Range */
	flow_plan(&f, &late);
	flow_plan(&f, &fail); /* 144 to 159: at once, Internal Error */
	io = flow_io(&f, NVMFR_OP_READ, 64, 128, buf, 0);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status & 0x3fff, STATUS_LBA_RANGE, "%04x", done.status);
	flow_release(buf);
	flow_down(&f);
}

/* After a failure nothing more of the I/O is sent. */
Test(status, split_io_stops_at_a_failure)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 16 * MIB, 512);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 4);
	buf = flow_alloc(&f, 8 * MIB);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_STATUS, OPC_READ, STATUS_INTERNAL_ERROR);
	io = flow_io(&f, NVMFR_OP_READ, 0, 8 * MIB / 512, buf, 0);
	cr_expect_eq(flow_do(f.qp, &io).result, -EREMOTEIO);
	cr_expect_leq(flow_counters(&f).reads, 4);
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}
