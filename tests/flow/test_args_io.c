/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad input to queue pairs, buffers and I/O: nothing is sent, and all works as before. */
#include "refused.h"

#include <sys/mman.h>

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void queue_refused(const struct nvmfr_qpair_opts *opts, const char *word)
{
	struct nvmfr_qpair *qp = (struct nvmfr_qpair *)(uintptr_t)1;
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_qpair_create(f.ctrl, opts, &qp), -EINVAL, word);
	cr_expect_null(qp);
	flow_works(&f);
	flow_down(&f);
}

Test(args, queue_depth_of_0)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(0);

	queue_refused(&opts, "depth 0");
}

Test(args, queue_depth_of_4096)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(4096);

	queue_refused(&opts, "depth 4096");
}

Test(args, queue_descriptors_of_0)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	opts.max_descriptors = 0;
	queue_refused(&opts, "max_descriptors 0");
}

Test(args, queue_descriptors_of_17)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	opts.max_descriptors = 17;
	queue_refused(&opts, "max_descriptors 17");
}

Test(args, queue_flags)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	opts.flags = 0x100;
	queue_refused(&opts, "flags");
}

Test(args, queue_retry)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	opts.retry = NVMFR_RETRY_ALL + 1;
	queue_refused(&opts, "retry 3");
	opts.retry = NVMFR_RETRY_READS;
	queue_refused(&opts, "ctrl_loss_timeout_ms");
}

Test(args, queue_nulls)
{
	struct nvmfr_completion done;
	struct nvmfr_io io = { .op = NVMFR_OP_FLUSH, .nsid = 1 };
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_qpair_wait(NULL, 0), -EINVAL, "NULL");
	REFUSED(nvmfr_qpair_info(NULL, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_qpair_info(f.qp, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_qpair_fd(NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_qpair_arm(NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_read(NULL, 1, 0, 1, NULL, 0, 0), -EINVAL, "NULL");
	REFUSED(nvmfr_write(NULL, 1, 0, 1, NULL, 0, 0), -EINVAL, "NULL");
	REFUSED(nvmfr_submit(NULL, &io, 1), -EINVAL, "NULL");
	REFUSED(nvmfr_submit(f.qp, NULL, 1), -EINVAL, "NULL");
	REFUSED(nvmfr_submit(f.qp, &io, 0), -EINVAL, "n is 0");
	REFUSED(nvmfr_poll(NULL, &done, 1), -EINVAL, "NULL");
	REFUSED(nvmfr_poll(f.qp, NULL, 1), -EINVAL, "NULL");
	REFUSED(nvmfr_poll(f.qp, &done, 0), -EINVAL, "max is 0");
	REFUSED(nvmfr_wait(NULL, &done, 1, 1, 0), -EINVAL, "NULL");
	REFUSED(nvmfr_wait(f.qp, NULL, 1, 1, 0), -EINVAL, "NULL");
	REFUSED(nvmfr_wait(f.qp, &done, 0, 1, 0), -EINVAL, "min 0");
	REFUSED(nvmfr_wait(f.qp, &done, 2, 1, 0), -EINVAL, "min 2 and max 1");
	REFUSED(nvmfr_pread(NULL, 1, 0, NULL, 0, 0, 0), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

/* ---- memory ---------------------------------------------------------------------------------- */

#define BUFFER_REFUSED(Call, Err, Word) \
	do { \
		buf = (struct nvmfr_buffer *)(uintptr_t)1; \
		REFUSED(Call, Err, Word); \
		cr_expect_null(buf); \
	} while (0)

Test(args, buffers)
{
	static unsigned char mem[4096];
	struct nvmfr_buffer *buf;
	struct flow f;

	small_up(&f);
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, NULL, 4096, NVMFR_ACCESS_BOTH, &buf), -EINVAL,
		       "buffer");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 0, NVMFR_ACCESS_BOTH, &buf), -EINVAL,
		       "0 bytes");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 4096, 0, &buf), -EINVAL, "access 0x0");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 4096, 4, &buf), -EINVAL, "access 0x4");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, SIZE_MAX, NVMFR_ACCESS_BOTH, &buf),
		       -EINVAL, "cannot be");
	BUFFER_REFUSED(nvmfr_buffer_alloc(f.host, 0, -1, &buf), -EINVAL, "0 bytes");
	BUFFER_REFUSED(nvmfr_buffer_alloc(f.host, 4096, 1000000, &buf), -EINVAL, "1000000");
	BUFFER_REFUSED(nvmfr_buffer_register_dmabuf(f.host, -1, 0, 4096, NVMFR_ACCESS_BOTH, &buf),
		       -EBADF, "-1");
	REFUSED(nvmfr_buffer_register(NULL, mem, 4096, NVMFR_ACCESS_BOTH, &buf), -EINVAL, "NULL");
	REFUSED(nvmfr_buffer_register(f.host, mem, 4096, NVMFR_ACCESS_BOTH, NULL), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

Test(args, buffer_of_more_memory_than_there_is)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	small_up(&f);
	BUFFER_REFUSED(nvmfr_buffer_alloc(f.host, SIZE_MAX / 2, -1, &buf), -ENOMEM, "bytes");
	flow_works(&f);
	flow_down(&f);
}

Test(args, buffer_with_a_hole)
{
	unsigned char *mem =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nvmfr_buffer *buf;
	struct flow f;

	small_up(&f);
	cr_assert(mem != MAP_FAILED && munmap(mem + 4096, 4096) == 0);
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 3 * 4096, NVMFR_ACCESS_BOTH, &buf),
		       -EFAULT, "mapped");
	munmap(mem, 4096);
	munmap(mem + 8192, 4096);
	flow_down(&f);
}

Test(args, read_only_memory_is_a_source_only)
{
	unsigned char *mem = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	small_up(&f);
	cr_assert(mem != MAP_FAILED);
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 4096, NVMFR_ACCESS_TARGET, &buf), -EFAULT,
		       "writable");
	cr_assert_eq(nvmfr_buffer_register(f.host, mem, 4096, NVMFR_ACCESS_SOURCE, &buf), 0);
	io = flow_io(&f, NVMFR_OP_WRITE, 0, 8, buf, 0);
	flow_must(f.qp, &io);
	REFUSED(nvmfr_read(f.qp, 1, 0, 1, buf, 0, 0), -EINVAL, "target of reads");
	flow_release(buf);
	munmap(mem, 4096);
	flow_down(&f);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

struct bench {
	struct flow f;
	struct nvmfr_buffer *buf, *source, *target;
	unsigned char *mem;
};

static void bench_up(struct bench *b)
{
	small_up(&b->f);
	b->buf = flow_alloc(&b->f, 8 * BLOCK);
	b->mem = malloc(8 * BLOCK);
	cr_assert_eq(nvmfr_buffer_register(b->f.host, b->mem, 8 * BLOCK, NVMFR_ACCESS_SOURCE,
					   &b->source),
		     0);
	cr_assert_eq(nvmfr_buffer_register(b->f.host, b->mem, 8 * BLOCK, NVMFR_ACCESS_TARGET,
					   &b->target),
		     0);
}

/* Nothing was sent, nothing is in flight, and all works as before. */
static void bench_down(struct bench *b)
{
	struct nvmfr_soft_counters counters = flow_counters(&b->f);
	struct nvmfr_completion done;

	cr_expect_eq(counters.reads + counters.writes, 0, "something was sent");
	cr_expect_eq(nvmfr_poll(b->f.qp, &done, 1), 0);
	cr_expect_eq(flow_qpair_info(b->f.qp).in_flight, 0);
	flow_works(&b->f);
	flow_release(b->buf);
	flow_release(b->source);
	flow_release(b->target);
	free(b->mem);
	flow_down(&b->f);
}

Test(args, blocks)
{
	struct nvmfr_qpair *qp;
	struct bench b;

	bench_up(&b);
	qp = b.f.qp;
	for (int warm = 0; warm < 2; warm++) {
		/* The second time the namespace is remembered, and the fast path must not be fooled. */
		REFUSED(nvmfr_read(qp, 0, 0, 1, b.buf, 0, 0), -EINVAL, "nsid is 0");
		REFUSED(nvmfr_read(qp, 2, 0, 1, b.buf, 0, 0), -ENOENT, "namespace 2");
		REFUSED(nvmfr_read(qp, UINT32_MAX, 0, 1, b.buf, 0, 0), -ENOENT,
			"namespace 4294967295");
		REFUSED(nvmfr_read(qp, 1, 0, 0, b.buf, 0, 0), -EINVAL, "nblocks is 0");
		REFUSED(nvmfr_read(qp, 1, BLOCKS, 1, b.buf, 0, 0), -ERANGE, "LBA 2048");
		REFUSED(nvmfr_read(qp, 1, BLOCKS - 1, 2, b.buf, 0, 0), -ERANGE, "LBA 2047");
		REFUSED(nvmfr_read(qp, 1, UINT64_MAX, 1, b.buf, 0, 0), -ERANGE,
			"LBA 18446744073709551615");
		REFUSED(nvmfr_read(qp, 1, UINT64_MAX, 2, b.buf, 0, 0), -ERANGE, "LBA");
		REFUSED(nvmfr_read(qp, 1, 1, UINT64_MAX, b.buf, 0, 0), -ERANGE,
			"18446744073709551615 blocks");
		REFUSED(nvmfr_write(qp, 1, BLOCKS, 1, b.buf, 0, 0), -ERANGE, "2048 blocks");
	}
	bench_down(&b);
}

Test(args, places_in_buffers)
{
	struct nvmfr_qpair *qp;
	struct bench b;

	bench_up(&b);
	qp = b.f.qp;
	REFUSED(nvmfr_read(qp, 1, 0, 1, NULL, 0, 0), -EINVAL, "buf is NULL");
	REFUSED(nvmfr_read(qp, 1, 0, 9, b.buf, 0, 0), -ERANGE, "4096 bytes");
	REFUSED(nvmfr_read(qp, 1, 0, 8, b.buf, 1, 0), -ERANGE, "offset 1");
	REFUSED(nvmfr_read(qp, 1, 0, 1, b.buf, 8 * BLOCK, 0), -ERANGE, "offset 4096");
	REFUSED(nvmfr_read(qp, 1, 0, 1, b.buf, UINT64_MAX, 0), -ERANGE,
		"offset 18446744073709551615");
	REFUSED(nvmfr_read(qp, 1, 0, 1, b.buf, UINT64_MAX - BLOCK + 1, 0), -ERANGE, "offset");
	REFUSED(nvmfr_write(qp, 1, 0, 9, b.buf, 0, 0), -ERANGE, "4096 bytes");
	REFUSED(nvmfr_write(qp, 1, 0, BLOCKS, b.buf, 0, 0), -ERANGE, "4096 bytes");
	REFUSED(nvmfr_read(qp, 1, 0, 1, b.source, 0, 0), -EINVAL, "target of reads");
	REFUSED(nvmfr_write(qp, 1, 0, 1, b.target, 0, 0), -EINVAL, "source of writes");
	bench_down(&b);
}

static void io_refused(struct bench *b, const struct nvmfr_io *io, int err, const char *word)
{
	REFUSED(nvmfr_submit(b->f.qp, io, 1), err, word);
}

Test(args, io_fields)
{
	struct nvmfr_io good, io;
	struct bench b;

	bench_up(&b);
	good = flow_io(&b.f, NVMFR_OP_READ, 0, 1, b.buf, 0);
	io = good;
	io.op = 3;
	io_refused(&b, &io, -EINVAL, "op 3");
	io = good;
	io.op = 0x7f;
	io_refused(&b, &io, -EINVAL, "op 127");
	io = good;
	io.flags = 4;
	io_refused(&b, &io, -EINVAL, "0x4");
	io = good;
	io.reserved0 = 1;
	io_refused(&b, &io, -EINVAL, "reserved");
	io = good;
	io.reserved1[0] = 1;
	io_refused(&b, &io, -EINVAL, "reserved");
	io = flow_io(&b.f, NVMFR_OP_FLUSH, 1, 0, NULL, 0);
	io_refused(&b, &io, -EINVAL, "flush");
	io = flow_io(&b.f, NVMFR_OP_FLUSH, 0, 1, NULL, 0);
	io_refused(&b, &io, -EINVAL, "flush");
	io = flow_io(&b.f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	io.nsid = 0;
	io_refused(&b, &io, -EINVAL, "nsid is 0");
	io = flow_io(&b.f, NVMFR_OP_WRITE_ZEROES, 0, 0, NULL, 0);
	io_refused(&b, &io, -EINVAL, "nblocks is 0");
	io = flow_io(&b.f, NVMFR_OP_WRITE_ZEROES, BLOCKS, 1, NULL, 0);
	io_refused(&b, &io, -ERANGE, "LBA 2048");
	io = flow_io(&b.f, NVMFR_OP_WRITE_ZEROES, 0, 1, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io_refused(&b, &io, -EINVAL, "NVMFR_IO_VEC");
	bench_down(&b);
}

static void vector_refused(struct bench *b, const struct nvmfr_iov *iov, uint64_t niov, int err,
			   const char *word)
{
	struct nvmfr_io io = flow_io(&b->f, NVMFR_OP_READ, 0, 2, NULL, 0);

	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = niov;
	io_refused(b, &io, err, word);
}

Test(args, vectors)
{
	struct nvmfr_iov iov[3];
	struct bench b;

	bench_up(&b);
	iov[0] = (struct nvmfr_iov){ b.buf, 0, BLOCK };
	iov[1] = (struct nvmfr_iov){ b.buf, BLOCK, BLOCK };
	iov[2] = (struct nvmfr_iov){ b.buf, 0, BLOCK };
	vector_refused(&b, NULL, 1, -EINVAL, "iov");
	vector_refused(&b, iov, 0, -EINVAL, "iov");
	vector_refused(&b, iov, 1, -EINVAL, "add up");
	vector_refused(&b, iov, 3, -EINVAL, "add up");
	iov[1].len_bytes = 0;
	vector_refused(&b, iov, 2, -ERANGE, "iov[1]");
	iov[1].len_bytes = UINT64_MAX;
	vector_refused(&b, iov, 2, -ERANGE, "iov[1]");
	iov[1].len_bytes = BLOCK;
	iov[1].offset_bytes = 8 * BLOCK - 1;
	vector_refused(&b, iov, 2, -ERANGE, "iov[1]");
	iov[1].offset_bytes = UINT64_MAX;
	vector_refused(&b, iov, 2, -ERANGE, "iov[1]");
	iov[1] = (struct nvmfr_iov){ NULL, 0, BLOCK };
	vector_refused(&b, iov, 2, -EINVAL, "iov[1]");
	iov[1] = (struct nvmfr_iov){ b.source, 0, BLOCK };
	vector_refused(&b, iov, 2, -EINVAL, "iov[1]");
	bench_down(&b);
}

/* max_descriptors of the queue pair is 4: a block in five pieces cannot be said. */
Test(args, vector_of_too_many_pieces_in_a_block)
{
	struct nvmfr_iov iov[6];
	struct bench b;

	bench_up(&b);
	for (unsigned int i = 0; i < 6; i++)
		iov[i] = (struct nvmfr_iov){ b.buf, i * BLOCK, i < 5 ? 100 : 2 * BLOCK - 500 };
	vector_refused(&b, iov, 6, -EINVAL, "4");
	flow_says("MSDBD");
	bench_down(&b);
}

Test(args, write_protected_namespace)
{
	struct nvmfr_soft_ns_opts opts;
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_SOFT_NS_READ_ONLY;
	cr_assert_eq(nvmfr_soft_ns_add(f.target, &opts), 1);
	f.nsid = 1;
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	buf = flow_alloc(&f, BLOCK);
	for (int warm = 0; warm < 2; warm++) {
		REFUSED(nvmfr_write(f.qp, 1, 0, 1, buf, 0, 0), -EROFS, "write protected");
		io = flow_io(&f, NVMFR_OP_WRITE_ZEROES, 0, 1, NULL, 0);
		REFUSED(nvmfr_submit(f.qp, &io, 1), -EROFS, "write protected");
		io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
		flow_must(f.qp, &io);
	}
	cr_expect_eq(flow_counters(&f).writes, 0);
	flow_release(buf);
	flow_down(&f);
}

/* ---- pread ----------------------------------------------------------------------------------- */

Test(args, pread)
{
	struct nvmfr_qpair *qp;
	struct bench b;

	bench_up(&b);
	qp = b.f.qp;
	REFUSED(nvmfr_pread(qp, 0, 0, b.buf, 0, 1, -1), -ENOENT, "namespace 0");
	REFUSED(nvmfr_pread(qp, 2, 0, b.buf, 0, 1, -1), -ENOENT, "namespace 2");
	REFUSED(nvmfr_pread(qp, 1, 0, NULL, 0, 1, -1), -EINVAL, "buf is NULL");
	REFUSED(nvmfr_pread(qp, 1, BLOCKS * BLOCK, b.buf, 0, 1, -1), -ERANGE, "namespace 1");
	REFUSED(nvmfr_pread(qp, 1, UINT64_MAX, b.buf, 0, 1, -1), -ERANGE, "namespace 1");
	REFUSED(nvmfr_pread(qp, 1, 0, b.buf, 8 * BLOCK, 1, -1), -ERANGE, "4096 bytes");
	REFUSED(nvmfr_pread(qp, 1, 0, b.buf, UINT64_MAX, 2, -1), -ERANGE, "4096 bytes");
	REFUSED(nvmfr_pread(qp, 1, 5, b.source, 0, 100, -1), -EINVAL, "target of reads");
	REFUSED(nvmfr_pread(qp, 1, 0, b.source, 0, BLOCK, -1), -EINVAL, "target of reads");
	cr_expect_eq(nvmfr_pread(qp, 1, 0, b.buf, 0, 0, -1), 0, "nothing is no error");
	bench_down(&b);
}
