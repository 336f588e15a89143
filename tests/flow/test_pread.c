/* SPDX-License-Identifier: BSD-3-Clause */
/* Byte ranges, files behind namespaces, durability: what the shortest programs use. */
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

/* A file of chance, named by a descriptor so that nothing is left behind; its bytes in want. */
struct scene {
	struct flow f;
	char uri[64];
	int fd;
	unsigned char *want;
	struct nvmfr_buffer *buf;
};

static void write_file(struct scene *s, size_t bytes)
{
	uint64_t rng = flow_seed(0xa1);

	s->fd = memfd_create("namespace", MFD_CLOEXEC);
	cr_assert_geq(s->fd, 0);
	s->want = calloc(1, bytes + 8192);
	flow_fill(&rng, s->want, bytes);
	cr_assert_eq(write(s->fd, s->want, bytes), (ssize_t)bytes);
}

/* With max_descriptors 1 a command has one piece, and what is not whole blocks must be copied. */
static void scene_of(struct scene *s, size_t bytes, unsigned int block, uint16_t max_descriptors)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	flow_host(&s->f);
	write_file(s, bytes);
	snprintf(s->uri, sizeof(s->uri), "nvmf+soft:///proc/self/fd/%d?block=%u", s->fd, block);
	s->f.opts.uri = s->uri;
	flow_connect(&s->f);
	s->f.nsid = nvmfr_ns_next(s->f.ctrl, 0);
	opts.max_descriptors = max_descriptors;
	cr_assert_eq(flow_try_qpair(&s->f, &opts, &s->f.qp), 0, "%s", nvmfr_last_error());
	s->buf = flow_alloc(&s->f, 2 * BYTES);
}

static void scene_up(struct scene *s, size_t bytes, unsigned int block)
{
	scene_of(s, bytes, block, 1);
}

static void scene_down(struct scene *s)
{
	flow_release(s->buf);
	close(s->fd);
	free(s->want);
	flow_down(&s->f);
}

static void range_is(struct scene *s, uint64_t offset, uint64_t to, uint64_t bytes)
{
	unsigned char *mem = nvmfr_buffer_addr(s->buf);

	memset(mem + to, 0xee, bytes + 1);
	cr_assert_eq(nvmfr_pread(s->f.qp, s->f.nsid, offset, s->buf, to, bytes, -1), 0, "%s",
		     nvmfr_last_error());
	cr_expect(memcmp(mem + to, s->want + offset, bytes) == 0, "%llu bytes at %llu",
		  (unsigned long long)bytes, (unsigned long long)offset);
	cr_expect_eq(mem[to + bytes], 0xee, "one byte too many");
}

Test(pread, whole_blocks_are_not_copied)
{
	struct scene s;

	scene_up(&s, BYTES, 4096);
	range_is(&s, 8192, 1, 16384);
	cr_expect_eq(flow_qpair_info(s.f.qp).bounced_bytes, 0);
	scene_down(&s);
}

Test(pread, head_and_tail_are_copied)
{
	struct scene s;

	scene_up(&s, BYTES, 512);
	range_is(&s, 500, 3, 12 + 1024 + 7);
	cr_expect_eq(flow_qpair_info(s.f.qp).bounced_bytes, 12 + 7);
	scene_down(&s);
}

Test(pread, with_several_descriptors_nothing_is_copied)
{
	struct scene s;

	scene_of(&s, BYTES, 512, 4);
	range_is(&s, 500, 3, 12 + 1024 + 7); /* head, tail */
	range_is(&s, 512, 1, 7);
	range_is(&s, 511, 0, 1 + 512);
	range_is(&s, 5, BYTES, BYTES - 6); /* several commands */
	cr_expect_eq(flow_qpair_info(s.f.qp).bounced_bytes, 0);
	scene_down(&s);
}

Test(pread, a_byte)
{
	static const uint16_t descriptors[] = { 1, 4 };
	struct scene s;

	for (size_t i = 0; i < ARRAY_SIZE(descriptors); i++) {
		scene_of(&s, BYTES, 4096, descriptors[i]);
		range_is(&s, 4095, 0, 1);
		range_is(&s, 0, 77, 1);
		range_is(&s, BYTES - 1, 0, 1);
		scene_down(&s);
	}
}

static void any_range(uint16_t max_descriptors)
{
	uint64_t rng = flow_seed(0xb2);
	struct scene s;

	scene_of(&s, BYTES, 512, max_descriptors);
	for (unsigned int i = 0; i < 500; i++) {
		uint64_t offset = flow_below(&rng, BYTES);
		uint64_t bytes = flow_below(&rng, BYTES - offset + 1);

		if (i % 2)
			bytes = bytes < 3000 ? bytes : flow_below(&rng, 3000);
		range_is(&s, offset, flow_below(&rng, BYTES / 2), bytes);
	}
	scene_down(&s);
}

Test(pread, any_range_copied)
{
	any_range(1);
}

Test(pread, any_range_gathered)
{
	any_range(4);
}

Test(pread, end_of_a_file_that_is_not_whole_blocks)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct scene s;

	scene_up(&s, 10000, 4096);
	cr_assert_eq(nvmfr_ns_info(s.f.ctrl, s.f.nsid, &info), 0);
	cr_expect_eq(info.capacity_blocks, 3);
	range_is(&s, 0, 0, 3 * 4096); /* the rest reads as zero */
	scene_down(&s);
}

Test(pread, with_io_in_flight_is_busy)
{
	struct nvmfr_completion done;
	struct scene s;

	scene_up(&s, BYTES, 512);
	flow_reads(&s.f, s.buf, 1);
	cr_expect_eq(nvmfr_pread(s.f.qp, s.f.nsid, 0, s.buf, 0, 1, -1), -EBUSY);
	flow_says("in flight");
	flow_wait(s.f.qp, &done, 1);
	range_is(&s, 0, 0, 1);
	scene_down(&s);
}

static void fails(const struct nvmfr_soft_fault *fault, uint64_t offset, uint64_t bytes, int err,
		  const char *word)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BYTES);
	flow_plan(&f, fault);
	cr_expect_eq(nvmfr_pread(f.qp, f.nsid, offset, buf, 0, bytes, -1), err);
	flow_says(word);
	flow_release(buf);
	flow_down(&f);
}

Test(pread, status_has_a_sentence)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ,
						   NVMFR_SOFT_ANY, STATUS_UNRECOVERED_READ);

	fails(&fault, 512, 512, -EREMOTEIO, "0x0281");
}

Test(pread, status_of_a_copied_part_has_a_sentence)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 1, OPC_READ,
						   NVMFR_SOFT_ANY, STATUS_UNRECOVERED_READ);

	fails(&fault, 513, 1, -EREMOTEIO, "LBA 1");
}

Test(pread, lost_connection)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT, 1, OPC_READ, NVMFR_SOFT_ANY, 0);

	fails(&fault, 0, 512, -ECONNABORTED, "LBA 0");
}

Test(pread, silence)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, NVMFR_SOFT_ANY, 0);

	fails(&fault, 0, 512, -ETIMEDOUT, "LBA 0");
}

/* The time is over, the read is not: its completion comes by polling. */
Test(pread, time_over_before_the_read)
{
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	struct flow f;

	flow_up(&f, NULL);
	buf = flow_alloc(&f, BYTES);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DELAY, OPC_READ, 50000);
	cr_expect_eq(nvmfr_pread(f.qp, f.nsid, 0, buf, 0, 512, 10), -ETIMEDOUT);
	flow_says("10 ms");
	cr_expect_eq(nvmfr_pread(f.qp, f.nsid, 0, buf, 0, 512, 10), -EBUSY);
	flow_wait(f.qp, &done, 1);
	cr_expect_eq(done.result, 0);
	cr_expect_eq(nvmfr_pread(f.qp, f.nsid, 0, buf, 0, 512, 10), 0);
	flow_release(buf);
	flow_down(&f);
}

/* ---- files ----------------------------------------------------------------------------------- */

Test(pread, write_reaches_the_file)
{
	unsigned char back[4096];
	struct nvmfr_io io;
	struct scene s;

	scene_up(&s, BYTES, 4096);
	memset(nvmfr_buffer_addr(s.buf), 0x77, 4096);
	io = flow_io(&s.f, NVMFR_OP_WRITE, 2, 1, s.buf, 0);
	io.flags = NVMFR_IO_FUA;
	flow_must(s.f.qp, &io);
	cr_assert_eq(pread(s.fd, back, sizeof(back), 8192), (ssize_t)sizeof(back));
	cr_expect_arr_eq(back, nvmfr_buffer_addr(s.buf), sizeof(back));
	io = flow_io(&s.f, NVMFR_OP_WRITE_ZEROES, 2, 1, NULL, 0);
	flow_must(s.f.qp, &io);
	io = flow_io(&s.f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	flow_must(s.f.qp, &io);
	cr_assert_eq(pread(s.fd, back, sizeof(back), 8192), (ssize_t)sizeof(back));
	cr_expect_eq(back[0], 0);
	cr_expect_eq(back[4095], 0);
	scene_down(&s);
}

Test(pread, flush_of_every_namespace)
{
	struct nvmfr_io io;
	struct flow f;

	flow_up(&f, NULL);
	io = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);
	io.nsid = UINT32_MAX;
	flow_must(f.qp, &io);
	flow_down(&f);
}

Test(pread, read_only_by_the_uri)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct scene s;

	flow_host(&s.f);
	write_file(&s, BYTES);
	snprintf(s.uri, sizeof(s.uri), "nvmf+soft:///proc/self/fd/%d?ro=1", s.fd);
	s.f.opts.uri = s.uri;
	flow_connect(&s.f);
	s.f.nsid = nvmfr_ns_next(s.f.ctrl, 0);
	s.f.qp = flow_qpair(&s.f, 8);
	s.buf = flow_alloc(&s.f, 2 * BYTES);
	cr_assert_eq(nvmfr_ns_info(s.f.ctrl, s.f.nsid, &info), 0);
	cr_expect_eq(info.read_only, 1);
	cr_expect_eq(nvmfr_write(s.f.qp, s.f.nsid, 0, 1, s.buf, 0, 0), -EROFS);
	range_is(&s, 0, 0, BYTES);
	scene_down(&s);
}

Test(pread, memory_by_the_uri)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct flow f;

	flow_host(&f);
	f.opts.uri = "nvmf+soft:?size=3M&block=4096";
	flow_connect(&f);
	f.nsid = nvmfr_ns_next(f.ctrl, 0);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, f.nsid, &info), 0);
	cr_expect_eq(info.capacity_blocks, 768);
	cr_expect_eq(info.block_bytes, 4096);
	f.qp = flow_qpair(&f, 8);
	flow_works(&f);
	flow_down(&f);
}

Test(pread, two_associations_of_memory_by_the_uri_share_nothing)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_ctrl *first;
	struct nvmfr_qpair *qp;
	struct nvmfr_io io;
	struct flow f;

	flow_host(&f);
	f.opts.uri = "nvmf+soft:?size=1M";
	flow_connect(&f);
	f.nsid = 1;
	f.qp = flow_qpair(&f, 8);
	flow_works(&f); /* writes to LBA 1 */
	first = f.ctrl;
	qp = f.qp;
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	buf = flow_alloc(&f, 4096);
	memset(nvmfr_buffer_addr(buf), 1, 4096);
	io = flow_io(&f, NVMFR_OP_READ, 1, 1, buf, 0);
	flow_must(f.qp, &io);
	cr_expect_eq(*(unsigned char *)nvmfr_buffer_addr(buf), 0);
	nvmfr_qpair_destroy(qp);
	cr_expect_eq(nvmfr_disconnect(first, 1000), 0);
	flow_release(buf);
	flow_down(&f);
}
