/* SPDX-License-Identifier: BSD-3-Clause */
/* What a controller says of itself, odd values too, and what the library makes of it. */
#include "flow.h"

#include <sys/mman.h>

enum {
	NVM_WZSL = 1, /* Identify, CNS 06h */
	SGLS_BASIC = 1,
	SGLS_KEYED = 1 << 2,
};

static void limits_up(struct flow *f, const struct nvmfr_soft_opts *opts)
{
	flow_host(f);
	flow_target(f, opts);
	flow_ns(f, 64 * MIB, 512);
	flow_connect(f);
	f->qp = flow_qpair(f, FLOW_DEPTH);
}

static void refused(const struct nvmfr_soft_opts *opts, int err, const char *why)
{
	struct flow f;

	flow_host(&f);
	flow_target(&f, opts);
	cr_expect_eq(flow_try_connect(&f), err);
	flow_says("identify controller");
	flow_says(why);
	flow_down(&f);
}

/* A pattern written in one I/O, read back in one, compared; the Read commands that took. */
static uint64_t round_trip(struct flow *f, uint64_t lba, uint64_t bytes, uint32_t block)
{
	struct nvmfr_buffer *buf = flow_alloc(f, 2 * bytes);
	struct nvmfr_io io = flow_io(f, NVMFR_OP_WRITE, lba, bytes / block, buf, 0);
	unsigned char *mem = nvmfr_buffer_addr(buf);
	uint64_t rng = 0x1234567, before = flow_counters(f).reads;

	flow_fill(&rng, mem, bytes);
	flow_must(f->qp, &io);
	io = flow_io(f, NVMFR_OP_READ, lba, bytes / block, buf, bytes);
	flow_must(f->qp, &io);
	cr_expect_arr_eq(mem + bytes, mem, bytes, "data");
	flow_release(buf);
	return flow_counters(f).reads - before;
}

/* ---- capsules (C1, C2, C4, C5) --------------------------------------------------------------- */

static struct nvmfr_soft_opts bare_opts(void)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.ioccsz = 4;
	opts.msdbd = 1;
	opts.sgls = SGLS_BASIC | SGLS_KEYED;
	return opts;
}

Test(limits, bare_capsule_carries_no_data)
{
	struct nvmfr_soft_opts opts = bare_opts();
	struct flow f;

	limits_up(&f, &opts);
	cr_expect_eq(flow_ctrl_info(&f).max_icd_bytes, 0);
	cr_expect_eq(flow_ctrl_info(&f).max_sgl_descriptors, 1);
	round_trip(&f, 3, 512, 512);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 0);
	flow_down(&f);
}

Test(limits, bare_capsule_splits_vectors)
{
	struct nvmfr_soft_opts opts = bare_opts();
	struct nvmfr_buffer *buf;
	struct nvmfr_iov iov[3];
	struct nvmfr_io io;
	struct flow f;

	limits_up(&f, &opts);
	buf = flow_alloc(&f, 65536);
	iov[0] = (struct nvmfr_iov){ buf, 1, 1024 };
	iov[1] = (struct nvmfr_iov){ buf, 20000, 512 };
	iov[2] = (struct nvmfr_iov){ buf, 3000, 4096 };
	io = flow_io(&f, NVMFR_OP_READ, 0, 11, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = ARRAY_SIZE(iov);
	flow_must(f.qp, &io);
	cr_expect_eq(flow_counters(&f).reads, 3, "a command a piece");
	flow_release(buf);
	flow_down(&f);
}

Test(limits, bare_capsule_refuses_a_block_in_two_pieces)
{
	struct nvmfr_soft_opts opts = bare_opts();
	struct nvmfr_buffer *buf;
	struct nvmfr_iov iov[2];
	struct nvmfr_io io;
	struct flow f;

	limits_up(&f, &opts);
	buf = flow_alloc(&f, 4096);
	iov[0] = (struct nvmfr_iov){ buf, 0, 700 };
	iov[1] = (struct nvmfr_iov){ buf, 1000, 324 };
	io = flow_io(&f, NVMFR_OP_WRITE, 0, 2, NULL, 0);
	io.flags = NVMFR_IO_VEC;
	io.iov = iov;
	io.niov = ARRAY_SIZE(iov);
	cr_expect_eq(nvmfr_submit(f.qp, &io, 1), -EINVAL);
	flow_says("MSDBD");
	cr_expect_eq(flow_qpair_info(f.qp).in_flight, 0);
	cr_expect_eq(flow_counters(&f).writes, 0, "no part of it was sent");
	flow_release(buf);
	flow_down(&f);
}

#define REFUSED_TEST(Name, Field, Value, Err, Why) \
	Test(limits, Name) \
	{ \
		struct nvmfr_soft_opts opts = flow_soft_opts(); \
		opts.Field = Value; \
		refused(&opts, Err, Why); \
	}

REFUSED_TEST(command_capsule_too_small, ioccsz, 3, -EPROTO, "IOCCSZ is 3")
REFUSED_TEST(command_capsule_of_nothing, ioccsz, 0, -EPROTO, "IOCCSZ is 0")
REFUSED_TEST(response_capsule_of_nothing, iorcsz, 0, -EPROTO, "IORCSZ is 0")
REFUSED_TEST(no_keyed_descriptors, sgls, SGLS_BASIC, -EOPNOTSUPP, "keyed")

Test(limits, command_capsule_of_four_gigabytes)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.ioccsz = UINT32_MAX;
	limits_up(&f, &opts);
	round_trip(&f, 0, 64 * KIB, 512);
	flow_down(&f);
}

Test(limits, msdbd_of_zero_is_no_limit)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.msdbd = 0;
	limits_up(&f, &opts);
	cr_expect_eq(flow_ctrl_info(&f).max_sgl_descriptors, 16);
	round_trip(&f, 0, 4 * MIB, 512);
	flow_down(&f);
}

Test(limits, gap_before_in_capsule_data)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.icdoff = 1;
	opts.ioccsz = 260;
	limits_up(&f, &opts);
	cr_expect_eq(flow_ctrl_info(&f).max_icd_bytes, 0);
	round_trip(&f, 0, 512, 512);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 0);
	flow_down(&f);
}

Test(limits, in_capsule_data_up_to_the_last_byte)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.ioccsz = 4 + 1024 / 16;
	limits_up(&f, &opts);
	cr_expect_eq(flow_ctrl_info(&f).max_icd_bytes, 1024);
	round_trip(&f, 0, 1024, 512);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 1);
	round_trip(&f, 0, 1536, 512);
	cr_expect_eq(flow_counters(&f).in_capsule_writes, 1, "one block more goes by a key");
	flow_down(&f);
}

/* ---- transfer size (C6, C31) ----------------------------------------------------------------- */

static void mdts_gives(uint8_t mdts, uint8_t mpsmin, uint64_t max_bytes)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.mdts = mdts;
	opts.mpsmin = mpsmin;
	limits_up(&f, &opts);
	cr_expect_eq(flow_ctrl_info(&f).max_xfer_bytes, max_bytes, "%u",
		     flow_ctrl_info(&f).max_xfer_bytes);
	cr_expect_eq(round_trip(&f, 1, 16 * MIB, 512), 16 * MIB / max_bytes, "commands");
	flow_down(&f);
}

#define MDTS_TEST(Name, Mdts, Mpsmin, MaxBytes) \
	Test(limits, Name) \
	{ \
		mdts_gives(Mdts, Mpsmin, MaxBytes); \
	}

MDTS_TEST(mdts_0_is_a_mebibyte, 0, 0, MIB)
MDTS_TEST(mdts_1_is_two_pages, 1, 0, 8 * KIB)
MDTS_TEST(mdts_5_is_32_pages, 5, 0, 128 * KIB)
MDTS_TEST(mdts_counts_in_pages_of_mpsmin, 3, 4, 512 * KIB)
MDTS_TEST(mdts_31_does_not_overflow, 31, 0, MIB)
MDTS_TEST(mdts_255_does_not_overflow, 255, 0, MIB)
MDTS_TEST(mdts_19_meets_the_24_bits_of_a_descriptor, 19, 0, 8 * MIB)

Test(limits, lengths_beside_whole_commands)
{
	struct flow f;

	limits_up(&f, NULL);
	cr_expect_eq(round_trip(&f, 5, 16 * MIB - 512, 512), 16);
	cr_expect_eq(round_trip(&f, 5, MIB + 512, 512), 2);
	flow_down(&f);
}

Test(limits, read_longer_than_the_queue_is_deep)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.mdts = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 64 * MIB, 4096);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 7);
	cr_expect_eq(round_trip(&f, 7, 8 * MIB, 4096), 1024);
	cr_expect_eq(flow_counters(&f).max_outstanding, 7);
	flow_down(&f);
}

/* The target answers all but the last command without moving anything: the rest is counting. */
static void read_four_gibibytes(struct flow *f)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_RESULT, 1, OPC_READ, NVMFR_SOFT_ANY, 0);
	const uint64_t bytes = 4 * GIB + 8 * MIB, first = GIB / 4096;
	struct nvmfr_buffer *small = flow_alloc(f, 4096), *big;
	struct nvmfr_io io = flow_io(f, NVMFR_OP_WRITE, first + bytes / 4096 - 1, 1, small, 0);
	unsigned char *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t rng = 99, commands;

	cr_assert(mem != MAP_FAILED, "no addresses for 4 GiB");
	flow_fill(&rng, nvmfr_buffer_addr(small), 4096);
	flow_must(f->qp, &io);
	big = flow_buffer(f, mem, bytes);
	fault.count = 512;
	flow_plan(f, &fault);
	commands = flow_counters(f).commands;
	io = flow_io(f, NVMFR_OP_READ, first, bytes / 4096, big, 0);
	flow_must(f->qp, &io);
	cr_expect_eq(flow_counters(f).commands - commands, 513);
	cr_expect_arr_eq(mem + bytes - 4096, nvmfr_buffer_addr(small), 4096, "the last block");
	flow_release(big);
	flow_release(small);
	munmap(mem, bytes);
}

Test(limits, more_than_four_gibibytes_in_one_io)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.mdts = 11;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, 8 * GIB, 4096);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 16);
	read_four_gibibytes(&f);
	flow_down(&f);
}

#ifdef __SANITIZE_THREAD__
#define HAS_ADDRESSES false
#elif defined(__has_feature)
#define HAS_ADDRESSES !__has_feature(thread_sanitizer)
#else
#define HAS_ADDRESSES true
#endif

Test(limits, block_addresses_of_more_than_32_bits)
{
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	/* ThreadSanitizer leaves too few addresses for so large a mapping. */
	flow_ns(&f, HAS_ADDRESSES ? 4 * GIB * 1024 : 64 * GIB, 512);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	round_trip(&f, (HAS_ADDRESSES ? 4 * GIB * 1024 : 64 * GIB) / 512 - 6000, 6000 * 512, 512);
	round_trip(&f, 0, 512, 512);
	flow_down(&f);
}

/* ---- write zeroes ---------------------------------------------------------------------------- */

/* Bytes of ones, zeroed but for the first and the last block; the commands that took. */
static uint64_t zeroes(struct flow *f, uint64_t nblocks)
{
	struct nvmfr_buffer *buf = flow_alloc(f, (nblocks + 2) * 512);
	unsigned char *mem = nvmfr_buffer_addr(buf);
	struct nvmfr_io io = flow_io(f, NVMFR_OP_WRITE, 10, nblocks + 2, buf, 0);
	uint64_t commands, wrong = 0;

	memset(mem, 0xff, (nblocks + 2) * 512);
	flow_must(f->qp, &io);
	io = flow_io(f, NVMFR_OP_WRITE_ZEROES, 11, nblocks, NULL, 0);
	commands = flow_counters(f).commands;
	flow_must(f->qp, &io);
	commands = flow_counters(f).commands - commands;
	io = flow_io(f, NVMFR_OP_READ, 10, nblocks + 2, buf, 0);
	flow_must(f->qp, &io);
	for (uint64_t i = 0; i < (nblocks + 2) * 512; i++)
		wrong += mem[i] != (i < 512 || i >= (nblocks + 1) * 512 ? 0xff : 0);
	cr_expect_eq(wrong, 0, "%llu bytes are wrong", (unsigned long long)wrong);
	flow_release(buf);
	return commands;
}

Test(limits, write_zeroes_of_65536_blocks_is_one_command)
{
	struct flow f;

	limits_up(&f, NULL);
	cr_expect_eq(zeroes(&f, 65536), 1);
	cr_expect_eq(zeroes(&f, 65537), 2, "a block more");
	flow_down(&f);
}

Test(limits, write_zeroes_keeps_to_wzsl)
{
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, 64 * MIB, 512);
	flow_patch8(&f, CNS_IO_SET_CTRL, NVM_WZSL, 2);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	cr_expect_eq(zeroes(&f, 320), 10, "16 KiB at a time");
	flow_down(&f);
}

Test(limits, write_zeroes_not_offered)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_io io;
	struct flow f;

	opts.oncs = 0;
	limits_up(&f, &opts);
	io = flow_io(&f, NVMFR_OP_WRITE_ZEROES, 0, 1, NULL, 0);
	cr_expect_eq(nvmfr_submit(f.qp, &io, 1), -EOPNOTSUPP);
	flow_says("ONCS");
	flow_down(&f);
}

/* ---- depth (C9, C10, C11) -------------------------------------------------------------------- */

/* Twice as many reads as fit are offered; how many were outstanding at most. */
static uint64_t fill_up(struct flow *f, unsigned int depth)
{
	struct nvmfr_buffer *buf = flow_alloc(f, 512);
	struct nvmfr_io io = flow_io(f, NVMFR_OP_READ, 0, 1, buf, 0);
	struct nvmfr_completion done[FLOW_MAX];
	unsigned int sent = 0;

	while (sent < 2 * depth && nvmfr_submit(f->qp, &io, 1) == 1)
		sent++;
	cr_expect_eq(sent, depth, "%u were taken of a depth of %u", sent, depth);
	cr_expect_eq(nvmfr_submit(f->qp, &io, 1), -EAGAIN);
	cr_expect_eq(flow_qpair_info(f->qp).in_flight, depth);
	for (unsigned int n = 0, part; n < sent; n += part) {
		part = sent - n < FLOW_MAX ? sent - n : FLOW_MAX;
		flow_wait(f->qp, done, part);
	}
	flow_release(buf);
	return flow_counters(f).max_outstanding;
}

static void depth_becomes(uint16_t queue_entries, uint16_t maxcmd, unsigned int wanted,
			  unsigned int depth)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	uint64_t outstanding;
	struct flow f;

	opts.queue_entries = queue_entries;
	opts.maxcmd = maxcmd;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_ns(&f, MIB, 512);
	flow_connect(&f);
	f.qp = flow_qpair(&f, wanted);
	cr_expect_eq(flow_qpair_info(f.qp).depth, depth, "%u", flow_qpair_info(f.qp).depth);
	outstanding = fill_up(&f, depth);
	/* The admin queue, too, has 4 event requests and perhaps a keep-alive outstanding. */
	cr_expect(depth <= 5 || outstanding == depth, "%llu", (unsigned long long)outstanding);
	/* It can be filled again, and carries what is longer than itself. */
	fill_up(&f, depth);
	round_trip(&f, 0, MIB / 2, 512);
	flow_down(&f);
}

#define DEPTH_TEST(Name, QueueEntries, Maxcmd, Wanted, Depth) \
	Test(limits, Name) \
	{ \
		depth_becomes(QueueEntries, Maxcmd, Wanted, Depth); \
	}

/* One entry stays empty: 33 are 32 commands. */
DEPTH_TEST(depth_as_wanted, 1024, 0, 100, 100)
DEPTH_TEST(depth_of_one, 1024, 0, 1, 1)
DEPTH_TEST(depth_clamped_to_the_queue, 33, 0, 4095, 32)
DEPTH_TEST(depth_clamped_to_maxcmd, 129, 16, 128, 16)
DEPTH_TEST(maxcmd_of_zero_is_no_limit, 129, 0, 500, 128)
DEPTH_TEST(deepest_queue, 8192, 0, 4095, 4095)
DEPTH_TEST(queue_of_two_entries, 2, 0, 128, 1)

Test(limits, queue_without_room)
{
	struct nvmfr_qpair_opts qp_opts = flow_qpair_opts(8);
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_qpair *qp;
	struct flow f;

	opts.queue_entries = 1;
	flow_host(&f);
	flow_target(&f, &opts);
	flow_connect(&f);
	cr_expect_lt(flow_try_qpair(&f, &qp_opts, &qp), 0);
	flow_says("MQES");
	flow_down(&f);
}

/* ---- queues (C17) ---------------------------------------------------------------------------- */

static void granted(uint64_t answer, unsigned int wanted, unsigned int queues)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_RESULT, 0, OPC_SET_FEATURES, FID_NUM_QUEUES, answer);
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, 512);
	flow_plan(&f, &fault);
	f.opts.num_io_queues = (uint16_t)wanted;
	flow_connect(&f);
	cr_expect_eq(flow_ctrl_info(&f).num_io_queues, queues, "%u",
		     flow_ctrl_info(&f).num_io_queues);
	f.qp = flow_qpair(&f, 8);
	flow_works(&f);
	flow_down(&f);
}

#define GRANTED_TEST(Name, Answer, Wanted, Queues) \
	Test(limits, Name) \
	{ \
		granted(Answer, Wanted, Queues); \
	}

GRANTED_TEST(one_queue_granted_of_eight, 0, 8, 1)
GRANTED_TEST(fewer_completion_queues_than_submission_queues, 1u << 16 | 3, 8, 2)
GRANTED_TEST(fewer_submission_queues_than_completion_queues, 6u << 16 | 4, 8, 5)
GRANTED_TEST(more_queues_granted_than_asked, 0xffffffff, 8, 8)
GRANTED_TEST(more_queues_granted_than_can_be_counted, 0xffffffff, 65535, 65535)
