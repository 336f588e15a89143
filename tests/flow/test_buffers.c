/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers: busy while something in flight names them, good for every controller of their host. */
#include "flow.h"

enum { BLOCK = 512 };

/* ---- buffers in flight ----------------------------------------------------------------------- */

/* Not released while in flight, released after; io->buf or its iov's pieces are among bufs. */
static void busy_until_done(struct flow *f, const struct nvmfr_io *io, struct nvmfr_buffer **bufs,
			    unsigned int n)
{
	struct nvmfr_completion done;

	cr_assert_eq(nvmfr_submit(f->qp, io, 1), 1, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < n; i++) {
		cr_expect_eq(nvmfr_buffer_release(bufs[i]), -EBUSY, "buffer %u of %u", i, n);
		flow_says("in flight");
	}
	flow_wait(f->qp, &done, 1);
	cr_expect_eq(done.result, 0);
	for (unsigned int i = 0; i < n; i++)
		flow_release(bufs[i]);
}

static void one_is_busy(uint8_t op, uint64_t bytes)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, bytes);
	io = flow_io(&f, op, 0, bytes / BLOCK, buf, 0);
	busy_until_done(&f, &io, &buf, 1);
	flow_down(&f);
}

Test(buffers, buffer_of_a_read_is_busy)
{
	one_is_busy(NVMFR_OP_READ, BLOCK);
}

Test(buffers, buffer_of_an_in_capsule_write_is_busy)
{
	one_is_busy(NVMFR_OP_WRITE, BLOCK);
}

Test(buffers, buffer_of_a_write_by_key_is_busy)
{
	one_is_busy(NVMFR_OP_WRITE, 64 * KIB);
}

Test(buffers, every_buffer_of_a_vector_is_busy)
{
	struct nvmfr_buffer *bufs[3];
	struct nvmfr_iov iov[3];
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		bufs[i] = flow_alloc(&f, 4096);
		iov[i] = (struct nvmfr_iov){ bufs[i], 0, BLOCK };
	}
	io = flow_io(&f, NVMFR_OP_READ, 0, 3, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = 3;
	busy_until_done(&f, &io, bufs, 3);
	flow_down(&f);
}

/* The buffer that only the part which waits for room names. */
Test(buffers, buffers_of_a_backlog_are_busy)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_buffer *bufs[2];
	struct nvmfr_iov iov[2];
	struct nvmfr_io io;
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 16 * MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 2);
	for (unsigned int i = 0; i < 2; i++) {
		bufs[i] = flow_alloc(&f, 128 * KIB);
		iov[i] = (struct nvmfr_iov){ bufs[i], 0, 128 * KIB };
	}
	io = flow_io(&f, NVMFR_OP_READ, 0, 256 * KIB / BLOCK, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = 2;
	busy_until_done(&f, &io, bufs, 2);
	flow_down(&f);
}

Test(buffers, buffer_is_free_when_its_queue_pair_is_gone)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	flow_reads(&f, buf, 1);
	cr_expect_eq(nvmfr_buffer_release(buf), -EBUSY);
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	flow_release(buf);
	flow_down(&f);
}

Test(buffers, other_buffers_are_not_busy)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf, *other;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	other = flow_alloc(&f, 4096);
	flow_reads(&f, buf, 1);
	flow_release(other);
	flow_wait(f.qp, &done, 1);
	flow_release(buf);
	flow_down(&f);
}

/* ---- buffers and controllers ----------------------------------------------------------------- */

static void through(struct flow *f, struct nvmfr_buffer *buf)
{
	unsigned char *mem = nvmfr_buffer_addr(buf);
	struct nvmfr_io io = flow_io(f, NVMFR_OP_WRITE, 3, 1, buf, 0);

	memset(mem, 0x3c, BLOCK);
	flow_must(f->qp, &io);
	memset(mem, 0, BLOCK);
	io = flow_io(f, NVMFR_OP_READ, 3, 1, buf, 0);
	flow_must(f->qp, &io);
	cr_expect_eq(mem[BLOCK - 1], 0x3c);
}

static void serve_from_before_connect(unsigned int n)
{
	struct nvmfr_buffer *bufs[500];
	struct flow f;

	cr_assert_leq(n, ARRAY_SIZE(bufs));
	flow_host(&f);
	for (unsigned int i = 0; i < n; i++)
		bufs[i] = flow_alloc(&f, 4096);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	for (unsigned int i = 0; i < n; i++) {
		through(&f, bufs[i]);
		flow_release(bufs[i]);
	}
	flow_down(&f);
}

Test(buffers, buffer_from_before_connect_serves)
{
	serve_from_before_connect(1);
}

Test(buffers, many_buffers_from_before_connect_serve)
{
	serve_from_before_connect(500);
}

Test(buffers, buffer_serves_controllers_that_come_and_go)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_qpair *first_qp;
	struct nvmfr_ctrl *first;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, 4096);
	first = f.ctrl;
	first_qp = f.qp;
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	through(&f, buf);
	nvmfr_qpair_destroy(first_qp);
	cr_expect_eq(nvmfr_disconnect(first, 1000), 0);
	through(&f, buf);
	nvmfr_qpair_destroy(f.qp);
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	through(&f, buf);
	flow_release(buf);
	flow_down(&f);
}

Test(buffers, buffer_of_another_host_is_refused)
{
	struct nvmfr_buffer *buf;
	struct flow f, other;

	flow_up(&f, NULL);
	flow_host(&other);
	buf = flow_alloc(&other, 4096);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), -EINVAL);
	flow_says("another host");
	flow_release(buf);
	flow_down(&other);
	flow_down(&f);
}
