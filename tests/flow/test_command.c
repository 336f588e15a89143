/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O commands of the application's, as given. */
#include "refused.h"

#include <nvmfr/cmd.h>

static int submit(struct flow *f, const struct nvmfr_cmd *cmd, struct nvmfr_buffer *buf,
		  uint64_t offset, uint64_t bytes)
{
	return nvmfr_submit_cmd(f->qp, cmd, buf, offset, bytes, 4711);
}

/* From submit to completion. */
static struct nvmfr_completion run(struct flow *f, const struct nvmfr_cmd *cmd,
				   struct nvmfr_buffer *buf, uint64_t offset, uint64_t bytes)
{
	struct nvmfr_completion done = { .result = 1 };

	cr_assert_eq(submit(f, cmd, buf, offset, bytes), 0, "%s", nvmfr_last_error());
	flow_wait(f->qp, &done, 1);
	cr_expect_eq(done.user_data, 4711u);
	return done;
}

Test(command, write_and_read_as_given)
{
	struct nvmfr_cmd write = { .opcode = OPC_WRITE, .nsid = 1, .cdw10 = 9, .cdw12 = 7 };
	struct nvmfr_cmd read = write;
	struct nvmfr_buffer *buf;
	unsigned char *mem;
	struct flow f;

	small_up(&f);
	buf = flow_alloc(&f, 16 * BLOCK);
	mem = nvmfr_buffer_addr(buf);
	memset(mem, 0xa5, 8 * BLOCK);
	cr_expect_eq(run(&f, &write, buf, 0, 8 * BLOCK).result, 0);
	read.opcode = OPC_READ;
	cr_expect_eq(run(&f, &read, buf, 8 * BLOCK, 8 * BLOCK).result, 0);
	cr_expect_arr_eq(mem, mem + 8 * BLOCK, 8 * BLOCK);
	flow_release(buf);
	flow_down(&f);
}

/* Words that reads leave alone are set, in between reads and writes by the thousand. */
Test(command, among_reads_and_writes)
{
	struct nvmfr_cmd flush = {
		.opcode = OPC_FLUSH, .nsid = 1, .cdw2 = ~0u, .cdw3 = ~0u, .cdw14 = ~0u, .cdw15 = ~0u
	};
	struct flow f;

	small_up(&f);
	for (unsigned int i = 0; i < 300; i++) {
		cr_assert_eq(run(&f, &flush, NULL, 0, 0).result, 0);
		flow_works(&f);
	}
	flow_down(&f);
}

Test(command, the_controller_refuses)
{
	struct nvmfr_cmd cmd = { .opcode = 0x80, .nsid = 1 };
	struct nvmfr_completion done;
	struct flow f;

	small_up(&f);
	done = run(&f, &cmd, NULL, 0, 0);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status & 0x7ff, 0x001, "Invalid Command Opcode");
	cmd = (struct nvmfr_cmd){ .opcode = OPC_FLUSH, .nsid = 17 };
	cr_expect_eq(run(&f, &cmd, NULL, 0, 0).status & 0x7ff, STATUS_INVALID_NAMESPACE);
	flow_works(&f);
	flow_down(&f);
}

Test(command, refused_here)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_READ, .nsid = 1 };
	struct nvmfr_buffer *buf;
	struct flow f;

	small_up(&f);
	buf = flow_alloc(&f, 4 * BLOCK);
	REFUSED(nvmfr_submit_cmd(NULL, &cmd, buf, 0, BLOCK, 0), -EINVAL, "qp");
	REFUSED(submit(&f, NULL, buf, 0, BLOCK), -EINVAL, "cmd");
	REFUSED(submit(&f, &cmd, buf, BLOCK, 4 * BLOCK), -ERANGE, "beyond");
	REFUSED(submit(&f, &cmd, NULL, 0, BLOCK), -EINVAL, "buf");
	cmd.opcode = OPC_FABRICS;
	REFUSED(submit(&f, &cmd, NULL, 0, 0), -EPERM, "Fabrics");
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 0);
	flow_release(buf);
	flow_down(&f);
}

Test(command, holds_its_buffer)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_READ, .nsid = 1 };
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	small_up(&f);
	buf = flow_alloc(&f, BLOCK);
	cr_assert_eq(submit(&f, &cmd, buf, 0, BLOCK), 0, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_buffer_release(buf), -EBUSY);
	flow_wait(f.qp, &done, 1);
	flow_release(buf);
	flow_down(&f);
}

Test(command, lost)
{
	struct nvmfr_cmd cmd = { .opcode = OPC_FLUSH, .nsid = 1 };
	struct nvmfr_completion done;
	struct flow f;

	small_up(&f);
	cr_assert_eq(submit(&f, &cmd, NULL, 0, 0), 0);
	nvmfr_soft_drop(f.target);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 1u);
	flow_synthesized(&done, -ECONNABORTED);
	cr_expect_eq(submit(&f, &cmd, NULL, 0, 0), -ENOTCONN);
	flow_down(&f);
}
