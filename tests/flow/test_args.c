/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad input: the right errno, one clear sentence that names what and why, and no effect. */
#include "flow.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { BLOCK = 512, BLOCKS = 2048 };

#define NQN_223 "nqn.2026-12.org.example:" /* made longer where it is used */

static void up(struct flow *f)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, BLOCKS * BLOCK, BLOCK);
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
}

/* This errno, this word; and all works as before. */
#define REFUSED(Call, Err, Word)                                                                   \
	do {                                                                                       \
		int refused_got = (Call);                                                          \
		cr_expect_eq(refused_got, Err, "%s: %d, not %d", #Call, refused_got, Err);         \
		flow_says(Word);                                                                   \
	} while (0)

static char *long_nqn(size_t bytes)
{
	char *nqn = malloc(bytes + 1);

	cr_assert_not_null(nqn);
	memset(nqn, 'x', bytes);
	memcpy(nqn, NQN_223, strlen(NQN_223));
	nqn[bytes] = '\0';
	return nqn;
}

/* ---- host ------------------------------------------------------------------------------------- */

static void host_refused(void (*spoil)(struct nvmfr_host_opts *opts), const char *word)
{
	struct nvmfr_host *host = (struct nvmfr_host *)(uintptr_t)1;
	struct nvmfr_host_opts opts;

	nvmfr_host_opts_init(&opts, sizeof(opts));
	spoil(&opts);
	REFUSED(nvmfr_host_create(&opts, &host), -EINVAL, word);
	cr_expect_null(host, "a host in spite of the error");
}

static void with_unknown_flag(struct nvmfr_host_opts *opts)
{
	opts->flags = 0x80;
}

static void with_unknown_level(struct nvmfr_host_opts *opts)
{
	opts->log_level = 9;
}

static void with_empty_nqn(struct nvmfr_host_opts *opts)
{
	opts->hostnqn = "";
}

static void with_blank_in_nqn(struct nvmfr_host_opts *opts)
{
	opts->hostnqn = "nqn.2026-12.org example:h";
}

static void without_size(struct nvmfr_host_opts *opts)
{
	opts->size = 0;
}

Test(args, host_flags)
{
	host_refused(with_unknown_flag, "0x80");
}

Test(args, host_log_level)
{
	host_refused(with_unknown_level, "log_level 9");
}

Test(args, host_nqn_empty)
{
	host_refused(with_empty_nqn, "hostnqn");
}

Test(args, host_nqn_with_a_blank)
{
	host_refused(with_blank_in_nqn, "hostnqn");
}

Test(args, host_options_without_size)
{
	host_refused(without_size, "size");
}

Test(args, host_nqn_too_long)
{
	char *nqn = long_nqn(224);
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;

	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.hostnqn = nqn;
	REFUSED(nvmfr_host_create(&opts, &host), -EINVAL, "223");
	cr_expect_null(host);
	free(nqn);
}

Test(args, host_nulls)
{
	REFUSED(nvmfr_host_create(NULL, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_host_poll(NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_host_fd(NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_host_timeout_ms(NULL), -EINVAL, "NULL");
	cr_expect_not_null(nvmfr_host_nqn(NULL));
	nvmfr_host_opts_init(NULL, 8);
}

Test(args, poll_of_a_host_with_a_thread)
{
	struct flow f;

	flow_host_thread(&f);
	REFUSED(nvmfr_host_poll(f.host), -EINVAL, "NVMFR_HOST_MANUAL");
	flow_down(&f);
}

/* ---- options of other sizes ------------------------------------------------------------------- */

/* As a later version's struct, 32 bytes longer. */
struct larger_host_opts {
	struct nvmfr_host_opts known;
	uint64_t later[4];
};

Test(args, larger_options_with_zeroes)
{
	struct larger_host_opts opts = { .later = { 0 } };
	struct nvmfr_host *host;

	nvmfr_host_opts_init(&opts.known, sizeof(opts));
	cr_expect_eq(opts.known.size, sizeof(opts));
	cr_assert_eq(nvmfr_host_create(&opts.known, &host), 0, "%s", nvmfr_last_error());
	nvmfr_host_destroy(host);
}

Test(args, larger_options_that_mean_something)
{
	struct larger_host_opts opts = { .later = { 0 } };
	struct nvmfr_host *host;

	nvmfr_host_opts_init(&opts.known, sizeof(opts));
	opts.later[3] = 1;
	REFUSED(nvmfr_host_create(&opts.known, &host), -E2BIG, "nvmfr_host_opts");
	cr_expect_null(host);
}

Test(args, init_clears_what_it_does_not_know)
{
	struct larger_host_opts opts;

	memset(&opts, 0xff, sizeof(opts));
	nvmfr_host_opts_init(&opts.known, sizeof(opts));
	for (unsigned int i = 0; i < ARRAY_SIZE(opts.later); i++)
		cr_expect_eq(opts.later[i], 0);
}

Test(args, smaller_options_keep_the_defaults)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(5);
	struct nvmfr_qpair *qp;
	struct flow f;

	flow_up(&f, NULL);
	/* As of a version that had only the depth. */
	opts.size = offsetof(struct nvmfr_qpair_opts, max_descriptors);
	opts.max_descriptors = 0;
	opts.flags = UINT32_MAX;
	cr_assert_eq(flow_try_qpair(&f, &opts, &qp), 0, "%s", nvmfr_last_error());
	cr_expect_eq(flow_qpair_info(qp).depth, 5);
	nvmfr_qpair_destroy(qp);
	flow_down(&f);
}

Test(args, larger_options_of_other_kinds)
{
	struct { struct nvmfr_ctrl_opts known; uint64_t later; } ctrl = { .later = 0 };
	struct { struct nvmfr_qpair_opts known; uint64_t later; } qpair = { .later = 0 };
	struct { struct nvmfr_soft_opts known; uint64_t later; } soft = { .later = 0 };
	struct { struct nvmfr_soft_ns_opts known; uint64_t later; } ns = { .later = 0 };
	struct { struct nvmfr_soft_fault known; uint64_t later; } fault = { .later = 0 };
	struct nvmfr_soft_target *target;
	struct nvmfr_ctrl *other;
	struct nvmfr_qpair *qp;
	struct flow f;

	up(&f);
	nvmfr_ctrl_opts_init(&ctrl.known, sizeof(ctrl));
	nvmfr_qpair_opts_init(&qpair.known, sizeof(qpair));
	nvmfr_soft_opts_init(&soft.known, sizeof(soft));
	nvmfr_soft_ns_opts_init(&ns.known, sizeof(ns));
	nvmfr_soft_fault_init(&fault.known, sizeof(fault));
	ctrl.known.uri = "nvmf+soft://t";
	ctrl.later = qpair.later = soft.later = ns.later = fault.later = 1;
	REFUSED(nvmfr_connect(f.host, &ctrl.known, &other), -E2BIG, "byte");
	REFUSED(nvmfr_qpair_create(f.ctrl, &qpair.known, &qp), -E2BIG, "byte");
	REFUSED(nvmfr_soft_target_create(f.host, "x", &soft.known, &target), -E2BIG, "byte");
	REFUSED(nvmfr_soft_ns_add(f.target, &ns.known), -E2BIG, "byte");
	REFUSED(nvmfr_soft_fault_add(f.target, &fault.known), -E2BIG, "byte");
	flow_works(&f);
	flow_down(&f);
}

Test(args, smaller_and_larger_infos)
{
	struct { struct nvmfr_ctrl_info known; uint64_t later; } large;
	struct nvmfr_ctrl_info small;
	struct flow f;

	up(&f);
	memset(&large, 0xff, sizeof(large));
	large.known.size = sizeof(large);
	cr_expect_eq(nvmfr_ctrl_info(f.ctrl, &large.known), 0);
	cr_expect_eq(large.later, 0);
	cr_expect_eq(large.known.size, sizeof(large));
	memset(&small, 0xff, sizeof(small));
	small.size = offsetof(struct nvmfr_ctrl_info, num_io_queues);
	cr_expect_eq(nvmfr_ctrl_info(f.ctrl, &small), 0);
	cr_expect_eq(small.cntlid, large.known.cntlid);
	cr_expect_eq(small.num_io_queues, 0xffff, "beyond the caller's struct");
	flow_down(&f);
}

/* ---- connect ---------------------------------------------------------------------------------- */

/* No controller, and no trace of one: the host can be ended, nothing is logged as left. */
static void connect_refused(const struct nvmfr_ctrl_opts *opts, int err, const char *word)
{
	struct nvmfr_ctrl *ctrl = (struct nvmfr_ctrl *)(uintptr_t)1;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	REFUSED(nvmfr_connect(f.host, opts, &ctrl), err, word);
	cr_expect_null(ctrl);
	flow_down(&f);
}

static void uri_refused(const char *uri, int err, const char *word)
{
	struct nvmfr_ctrl_opts opts;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	connect_refused(&opts, err, word);
}

#define URI_TEST(Name, Uri, Err, Word)                                                             \
	Test(args, uri_##Name)                                                                     \
	{                                                                                          \
		uri_refused(Uri, Err, Word);                                                       \
	}

URI_TEST(empty, "", -EINVAL, "URI")
URI_TEST(scheme_unknown, "nvme+tcp://10.0.0.1/nqn.x", -EINVAL, "nvme+tcp://10.0.0.1/nqn.x")
URI_TEST(scheme_alone, "nvmf+rdma://", -EINVAL, "SUBNQN")
URI_TEST(without_subsystem, "nvmf+rdma://10.0.0.1", -EINVAL, "SUBNQN")
URI_TEST(with_empty_subsystem, "nvmf+rdma://10.0.0.1/", -EINVAL, "SUBNQN")
URI_TEST(without_address, "nvmf+rdma:///nqn.2026-12.org.example:s", -EINVAL, "address")
URI_TEST(port_of_zero, "nvmf+rdma://10.0.0.1:0/nqn.2026-12.org.example:s", -EINVAL, "port '0'")
URI_TEST(port_too_large, "nvmf+rdma://10.0.0.1:65536/nqn.2026-12.org.example:s", -EINVAL, "65536")
URI_TEST(port_of_letters, "nvmf+rdma://10.0.0.1:nvme/nqn.2026-12.org.example:s", -EINVAL, "port 'nvme'")
URI_TEST(port_negative, "nvmf+rdma://10.0.0.1:-1/nqn.2026-12.org.example:s", -EINVAL, "port '-1'")
URI_TEST(ipv6_without_brackets, "nvmf+rdma://fe80::1/nqn.2026-12.org.example:s", -EINVAL, "brackets")
URI_TEST(ipv6_without_end, "nvmf+rdma://[fe80::1/nqn.2026-12.org.example:s", -EINVAL, "bracket")
URI_TEST(subsystem_with_blank, "nvmf+rdma://10.0.0.1/nqn.2026 12", -EINVAL, "subnqn")
URI_TEST(soft_name_unknown, "nvmf+soft://nobody", -ENOENT, "nobody")
URI_TEST(soft_file_unknown, "nvmf+soft:///nowhere/to/be/found", -ENOENT, "/nowhere/to/be/found")
URI_TEST(soft_file_is_a_folder, "nvmf+soft:///usr", -EISDIR, "/usr")
URI_TEST(soft_block_odd, "nvmf+soft:?block=1000", -EINVAL, "1000")
URI_TEST(soft_block_of_nothing, "nvmf+soft:?block=", -EINVAL, "block")
URI_TEST(soft_size_of_letters, "nvmf+soft:?size=much", -EINVAL, "much")
URI_TEST(soft_size_of_unknown_unit, "nvmf+soft:?size=5X", -EINVAL, "5X")
URI_TEST(soft_size_too_large, "nvmf+soft:?size=99999999999T", -EINVAL, "99999999999T")
URI_TEST(soft_size_not_whole_blocks, "nvmf+soft:?size=1000", -EINVAL, "1000")
URI_TEST(soft_option_unknown, "nvmf+soft:?colour=red", -EINVAL, "colour")
URI_TEST(soft_option_without_value, "nvmf+soft:?size", -EINVAL, "size")
URI_TEST(soft_name_with_options, "nvmf+soft://t?size=1M", -EINVAL, "size=1M")
URI_TEST(soft_percent_odd, "nvmf+soft:///a%2", -EINVAL, "%")

Test(args, uri_with_a_subsystem_too_long)
{
	char *nqn = long_nqn(224), uri[300] = "nvmf+rdma://10.0.0.1/";

	strcat(uri, nqn);
	uri_refused(uri, -EINVAL, "223");
	free(nqn);
}

Test(args, uri_longer_than_anything)
{
	char *uri = long_nqn(100000);

	memcpy(uri, "nvmf+soft:/", 11);
	uri_refused(uri, -EINVAL, "URI");
	free(uri);
}

/* A machine without RDMA devices says so, at once or when it connects; with devices the address fails. */
Test(args, no_rdma_device)
{
	struct flow f;
	int got;

	flow_host_thread(&f);
	f.opts.uri = "nvmf+rdma://127.0.0.1:4420/nqn.2026-12.org.example:s";
	f.opts.connect_timeout_ms = 3000;
	got = flow_try_connect(&f);
	cr_expect(got == -ENODEV || got == -ETIMEDOUT || got == -ECONNREFUSED || got == -EHOSTUNREACH, "%d", got);
	flow_says("RDMA");
	flow_down(&f);
}

Test(args, host_name_unknown)
{
	struct flow f;
	int got;

	flow_host_thread(&f);
	f.opts.uri = "nvmf+rdma://no-such-host.invalid/nqn.2026-12.org.example:s";
	f.opts.connect_timeout_ms = 10000;
	got = flow_try_connect(&f);
	cr_expect(got == -EHOSTUNREACH || got == -ENODEV || got == -ENOENT, "%d", got);
	if (got != -ENODEV)
		flow_says("no-such-host.invalid");
	flow_down(&f);
}

static void options_refused(void (*spoil)(struct nvmfr_ctrl_opts *opts), const char *word)
{
	struct nvmfr_ctrl_opts opts;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = "nvmf+soft://t";
	spoil(&opts);
	connect_refused(&opts, -EINVAL, word);
}

static void uri_and_fields(struct nvmfr_ctrl_opts *opts)
{
	opts->traddr = "10.0.0.1";
}

static void nothing_named(struct nvmfr_ctrl_opts *opts)
{
	opts->uri = NULL;
}

static void address_alone(struct nvmfr_ctrl_opts *opts)
{
	opts->uri = NULL;
	opts->traddr = "10.0.0.1";
}

static void port_wrong(struct nvmfr_ctrl_opts *opts)
{
	opts->uri = NULL;
	opts->traddr = "10.0.0.1";
	opts->subnqn = "nqn.2026-12.org.example:s";
	opts->trsvcid = "99999";
}

static void admin_depth_of_one(struct nvmfr_ctrl_opts *opts)
{
	opts->admin_depth = 1;
}

static void admin_depth_too_large(struct nvmfr_ctrl_opts *opts)
{
	opts->admin_depth = 5000;
}

static void no_queues(struct nvmfr_ctrl_opts *opts)
{
	opts->num_io_queues = 0;
}

static void no_connect_timeout(struct nvmfr_ctrl_opts *opts)
{
	opts->connect_timeout_ms = 0;
}

static void no_admin_timeout(struct nvmfr_ctrl_opts *opts)
{
	opts->admin_timeout_ms = 0;
}

static void retries_of_eight(struct nvmfr_ctrl_opts *opts)
{
	opts->retry_count = 8;
}

static void rnr_retries_of_eight(struct nvmfr_ctrl_opts *opts)
{
	opts->rnr_retry_count = 8;
}

static void ack_timeout_of_32(struct nvmfr_ctrl_opts *opts)
{
	opts->ack_timeout = 32;
}

static void reserved_not_zero(struct nvmfr_ctrl_opts *opts)
{
	opts->reserved[7] = 1;
}

#define OPTIONS_TEST(Spoil, Word)                                                                  \
	Test(args, connect_with_##Spoil)                                                           \
	{                                                                                          \
		options_refused(Spoil, Word);                                                      \
	}

OPTIONS_TEST(uri_and_fields, "uri")
OPTIONS_TEST(nothing_named, "uri")
OPTIONS_TEST(address_alone, "subnqn")
OPTIONS_TEST(port_wrong, "99999")
OPTIONS_TEST(admin_depth_of_one, "admin_depth 1")
OPTIONS_TEST(admin_depth_too_large, "admin_depth 5000")
OPTIONS_TEST(no_queues, "num_io_queues")
OPTIONS_TEST(no_connect_timeout, "connect_timeout_ms")
OPTIONS_TEST(no_admin_timeout, "admin_timeout_ms")
OPTIONS_TEST(retries_of_eight, "retry_count 8")
OPTIONS_TEST(rnr_retries_of_eight, "rnr_retry_count 8")
OPTIONS_TEST(ack_timeout_of_32, "ack_timeout 32")
OPTIONS_TEST(reserved_not_zero, "reserved")

Test(args, connect_nulls)
{
	struct nvmfr_ctrl *ctrl;
	struct flow f;

	up(&f);
	REFUSED(nvmfr_connect(NULL, &f.opts, &ctrl), -EINVAL, "host is NULL");
	REFUSED(nvmfr_connect(f.host, NULL, &ctrl), -EINVAL, "opts is NULL");
	REFUSED(nvmfr_connect(f.host, &f.opts, NULL), -EINVAL, "out is NULL");
	REFUSED(nvmfr_ctrl_wait(NULL, 0), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_ctrl_state(NULL), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_ctrl_info(NULL, NULL), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_ctrl_info(f.ctrl, NULL), -EINVAL, "nvmfr_ctrl_info");
	REFUSED(nvmfr_ns_info(f.ctrl, 1, NULL), -EINVAL, "nvmfr_ns_info");
	REFUSED(nvmfr_qpair_create(NULL, NULL, &f.qp), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_qpair_create(f.ctrl, NULL, NULL), -EINVAL, "out is NULL");
	cr_expect_eq(nvmfr_ns_next(NULL, 0), 0);
	flow_down(&f);
}

Test(args, infos_without_size)
{
	struct nvmfr_ctrl_info ctrl = { .size = 0 };
	struct nvmfr_ns_info ns = { .size = 4 };
	struct nvmfr_qpair_info qpair = { .size = 7 };
	struct flow f;

	up(&f);
	REFUSED(nvmfr_ctrl_info(f.ctrl, &ctrl), -EINVAL, "size");
	REFUSED(nvmfr_ns_info(f.ctrl, 1, &ns), -EINVAL, "size");
	REFUSED(nvmfr_qpair_info(f.qp, &qpair), -EINVAL, "size");
	flow_down(&f);
}

/* ---- queue pairs ------------------------------------------------------------------------------ */

static void queue_refused(const struct nvmfr_qpair_opts *opts, const char *word)
{
	struct nvmfr_qpair *qp = (struct nvmfr_qpair *)(uintptr_t)1;
	struct flow f;

	up(&f);
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

	opts.flags = 1;
	queue_refused(&opts, "flags");
}

Test(args, queue_reserved)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	opts.reserved = 1;
	queue_refused(&opts, "reserved");
}

Test(args, queue_nulls)
{
	struct nvmfr_completion done;
	struct nvmfr_io io = { .op = NVMFR_OP_FLUSH, .nsid = 1 };
	struct flow f;

	up(&f);
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

/* ---- memory ----------------------------------------------------------------------------------- */

#define BUFFER_REFUSED(Call, Err, Word)                                                            \
	do {                                                                                       \
		buf = (struct nvmfr_buffer *)(uintptr_t)1;                                         \
		REFUSED(Call, Err, Word);                                                          \
		cr_expect_null(buf);                                                               \
	} while (0)

Test(args, buffers)
{
	static unsigned char mem[4096];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f);
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, NULL, 4096, NVMFR_ACCESS_BOTH, &buf), -EINVAL, "buffer");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 0, NVMFR_ACCESS_BOTH, &buf), -EINVAL, "0 bytes");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 4096, 0, &buf), -EINVAL, "access 0x0");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 4096, 4, &buf), -EINVAL, "access 0x4");
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, SIZE_MAX, NVMFR_ACCESS_BOTH, &buf), -EINVAL, "cannot be");
	BUFFER_REFUSED(nvmfr_buffer_alloc(f.host, 0, -1, &buf), -EINVAL, "0 bytes");
	BUFFER_REFUSED(nvmfr_buffer_alloc(f.host, 4096, 1000000, &buf), -EINVAL, "1000000");
	BUFFER_REFUSED(nvmfr_buffer_register_dmabuf(f.host, -1, 0, 4096, NVMFR_ACCESS_BOTH, &buf), -EBADF, "-1");
	REFUSED(nvmfr_buffer_register(NULL, mem, 4096, NVMFR_ACCESS_BOTH, &buf), -EINVAL, "NULL");
	REFUSED(nvmfr_buffer_register(f.host, mem, 4096, NVMFR_ACCESS_BOTH, NULL), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

Test(args, buffer_of_more_memory_than_there_is)
{
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f);
	BUFFER_REFUSED(nvmfr_buffer_alloc(f.host, SIZE_MAX / 2, -1, &buf), -ENOMEM, "bytes");
	flow_works(&f);
	flow_down(&f);
}

Test(args, buffer_with_a_hole)
{
	unsigned char *mem = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f);
	cr_assert(mem != MAP_FAILED && munmap(mem + 4096, 4096) == 0);
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 3 * 4096, NVMFR_ACCESS_BOTH, &buf), -EFAULT, "mapped");
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

	up(&f);
	cr_assert(mem != MAP_FAILED);
	BUFFER_REFUSED(nvmfr_buffer_register(f.host, mem, 4096, NVMFR_ACCESS_TARGET, &buf), -EFAULT, "writable");
	cr_assert_eq(nvmfr_buffer_register(f.host, mem, 4096, NVMFR_ACCESS_SOURCE, &buf), 0);
	io = flow_io(&f, NVMFR_OP_WRITE, 0, 8, buf, 0);
	flow_must(f.qp, &io);
	REFUSED(nvmfr_read(f.qp, 1, 0, 1, buf, 0, 0), -EINVAL, "target of reads");
	flow_release(buf);
	munmap(mem, 4096);
	flow_down(&f);
}

/* ---- I/O -------------------------------------------------------------------------------------- */

struct bench {
	struct flow f;
	struct nvmfr_buffer *buf, *source, *target;
	unsigned char *mem;
};

static void bench_up(struct bench *b)
{
	up(&b->f);
	b->buf = flow_alloc(&b->f, 8 * BLOCK);
	b->mem = malloc(8 * BLOCK);
	cr_assert_eq(nvmfr_buffer_register(b->f.host, b->mem, 8 * BLOCK, NVMFR_ACCESS_SOURCE, &b->source), 0);
	cr_assert_eq(nvmfr_buffer_register(b->f.host, b->mem, 8 * BLOCK, NVMFR_ACCESS_TARGET, &b->target), 0);
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
		REFUSED(nvmfr_read(qp, UINT32_MAX, 0, 1, b.buf, 0, 0), -ENOENT, "namespace 4294967295");
		REFUSED(nvmfr_read(qp, 1, 0, 0, b.buf, 0, 0), -EINVAL, "nblocks is 0");
		REFUSED(nvmfr_read(qp, 1, BLOCKS, 1, b.buf, 0, 0), -ERANGE, "LBA 2048");
		REFUSED(nvmfr_read(qp, 1, BLOCKS - 1, 2, b.buf, 0, 0), -ERANGE, "LBA 2047");
		REFUSED(nvmfr_read(qp, 1, UINT64_MAX, 1, b.buf, 0, 0), -ERANGE, "LBA 18446744073709551615");
		REFUSED(nvmfr_read(qp, 1, UINT64_MAX, 2, b.buf, 0, 0), -ERANGE, "LBA");
		REFUSED(nvmfr_read(qp, 1, 1, UINT64_MAX, b.buf, 0, 0), -ERANGE, "18446744073709551615 blocks");
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
	REFUSED(nvmfr_read(qp, 1, 0, 1, b.buf, UINT64_MAX, 0), -ERANGE, "offset 18446744073709551615");
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

static void vector_refused(struct bench *b, const struct nvmfr_iov *iov, uint64_t niov, int err, const char *word)
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

/* ---- pread ------------------------------------------------------------------------------------ */

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

/* ---- the embedded target ---------------------------------------------------------------------- */

Test(args, soft_targets)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_soft_target *target;
	char *nqn = long_nqn(224);
	struct flow f;

	up(&f);
	REFUSED(nvmfr_soft_target_create(f.host, "t", NULL, &target), -EEXIST, "'t'");
	cr_expect_null(target);
	REFUSED(nvmfr_soft_target_create(f.host, "", NULL, &target), -EINVAL, "name");
	REFUSED(nvmfr_soft_target_create(f.host, NULL, NULL, &target), -EINVAL, "name");
	REFUSED(nvmfr_soft_target_create(f.host, "a/b", NULL, &target), -EINVAL, "a/b");
	REFUSED(nvmfr_soft_target_create(f.host, nqn, NULL, &target), -EINVAL, "63");
	REFUSED(nvmfr_soft_target_create(NULL, "x", NULL, &target), -EINVAL, "host is NULL");
	REFUSED(nvmfr_soft_target_create(f.host, "x", NULL, NULL), -EINVAL, "out is NULL");
	opts.flags = 0x100;
	REFUSED(nvmfr_soft_target_create(f.host, "x", &opts, &target), -EINVAL, "100");
	opts = flow_soft_opts();
	opts.reserved[0] = 1;
	REFUSED(nvmfr_soft_target_create(f.host, "x", &opts, &target), -EINVAL, "reserved");
	opts = flow_soft_opts();
	opts.subnqn = nqn;
	REFUSED(nvmfr_soft_target_create(f.host, "x", &opts, &target), -EINVAL, "223");
	free(nqn);
	flow_works(&f);
	flow_down(&f);
}

Test(args, soft_namespaces)
{
	struct nvmfr_soft_ns_opts good, opts;
	struct flow f;

	up(&f);
	nvmfr_soft_ns_opts_init(&good, sizeof(good));
	opts = good;
	opts.nsid = 1;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EEXIST, "namespace 1");
	opts = good;
	opts.nsid = 1025;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "NN");
	opts = good;
	opts.block_bytes = 520;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "520");
	opts = good;
	opts.size_bytes = 1000;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "1000");
	opts = good;
	opts.flags = 2;
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -EINVAL, "flags");
	opts = good;
	opts.path = "/nowhere/to/be/found";
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -ENOENT, "/nowhere/to/be/found");
	opts = good;
	opts.path = "/dev/null";
	REFUSED(nvmfr_soft_ns_add(f.target, &opts), -ENOTBLK, "/dev/null");
	REFUSED(nvmfr_soft_ns_add(NULL, &good), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_ns_remove(f.target, 7), -ENOENT, "namespace 7");
	REFUSED(nvmfr_soft_ns_remove(NULL, 1), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

Test(args, soft_faults)
{
	struct nvmfr_soft_fault fault = flow_fault(0, 0, 0, 0, 0);
	struct flow f;

	up(&f);
	REFUSED(nvmfr_soft_fault_add(f.target, &fault), -EINVAL, "kind 0");
	fault.kind = NVMFR_SOFT_FAULT_CM_DISCONNECT + 1;
	REFUSED(nvmfr_soft_fault_add(f.target, &fault), -EINVAL, "kind 17");
	fault.kind = NVMFR_SOFT_FAULT_SHORT;
	fault.value = 16;
	REFUSED(nvmfr_soft_fault_add(f.target, &fault), -EINVAL, "16");
	REFUSED(nvmfr_soft_fault_add(NULL, &fault), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_fault_add(f.target, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 0, "", 0), -EINVAL, "0 bytes");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 0, "0123456789abcdef", 17), -EINVAL, "17 bytes");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 4095, "01", 2), -EINVAL, "4095");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, UINT32_MAX, "01", 2), -EINVAL, "4294967295");
	REFUSED(nvmfr_soft_patch_identify(NULL, 0, 1, 0, "0", 1), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_patch_identify(f.target, 0, 1, 0, NULL, 1), -EINVAL, "NULL");
	flow_works(&f);
	flow_down(&f);
}

Test(args, soft_patches_run_out)
{
	struct flow f;
	int got = 0;

	up(&f);
	for (unsigned int i = 0; i < 1000 && got == 0; i++)
		got = nvmfr_soft_patch_identify(f.target, 0x99, 1, 0, "0", 1);
	cr_expect_eq(got, -ENOSPC);
	flow_says("64");
	flow_down(&f);
}

Test(args, soft_counters)
{
	struct nvmfr_soft_counters none = { .size = 0 };
	char text[8] = "xxxxxxx";
	struct flow f;

	up(&f);
	REFUSED(nvmfr_soft_read_counters(f.target, &none), -EINVAL, "size");
	REFUSED(nvmfr_soft_read_counters(f.target, NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_read_counters(NULL, &none), -EINVAL, "NULL");
	nvmfr_soft_last_violation(NULL, text, sizeof(text));
	cr_expect_str_eq(text, "");
	nvmfr_soft_last_violation(f.target, NULL, 0);
	flow_down(&f);
}

Test(args, soft_clock)
{
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;
	struct flow f;

	flow_host_thread(&f);
	REFUSED(nvmfr_soft_clock_freeze(f.host), -EINVAL, "thread");
	REFUSED(nvmfr_soft_clock_advance_us(f.host, 1), -EINVAL, "frozen");
	REFUSED(nvmfr_soft_clock_freeze(NULL), -EINVAL, "NULL");
	REFUSED(nvmfr_soft_clock_advance_us(NULL, 1), -EINVAL, "NULL");
	flow_down(&f);
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_HOST_MANUAL;
	cr_assert_eq(nvmfr_host_create(&opts, &host), 0);
	REFUSED(nvmfr_soft_clock_advance_us(host, 1), -EINVAL, "frozen");
	nvmfr_host_destroy(host);
}

/* ---- words ------------------------------------------------------------------------------------ */

Test(args, words_for_every_errno_and_status)
{
	for (int err = -5000; err < 5000; err++)
		cr_expect(nvmfr_strerror(err) && nvmfr_strerror(err)[0], "errno %d", err);
	for (unsigned int status = 0; status <= UINT16_MAX; status++)
		cr_expect(nvmfr_status_string((uint16_t)status)[0], "status %04x", status);
}

static void *says_nothing_yet(void *arg)
{
	const char **said = arg;

	*said = nvmfr_last_error();
	return *said && !(*said)[0] ? arg : NULL;
}

Test(args, sentence_is_each_thread_s_own)
{
	const char *said = NULL;
	pthread_t thread;
	void *empty;

	REFUSED(nvmfr_host_poll(NULL), -EINVAL, "host is NULL");
	cr_assert_eq(pthread_create(&thread, NULL, says_nothing_yet, &said), 0);
	pthread_join(thread, &empty);
	cr_expect_not_null(empty, "a new thread has no sentence");
	flow_says("host is NULL");
}

Test(args, sentence_stays_when_a_call_is_good)
{
	struct flow f;

	up(&f);
	REFUSED(nvmfr_host_poll(NULL), -EINVAL, "host is NULL");
	flow_works(&f);
	flow_says("host is NULL");
	flow_down(&f);
}

Test(args, probe_counts_what_it_needs)
{
	int bytes = nvmfr_probe(NULL, 0);
	char *text, cut[8];

	cr_assert_gt(bytes, 0, "%s", nvmfr_last_error());
	text = malloc((size_t)bytes + 1024);
	cr_assert_leq(nvmfr_probe(text, (size_t)bytes + 1024), bytes + 1024);
	cr_expect_eq(text[0], '{');
	cr_expect_gt(nvmfr_probe(cut, sizeof(cut)), (int)sizeof(cut));
	cr_expect_eq(strnlen(cut, sizeof(cut)), sizeof(cut) - 1);
	REFUSED(nvmfr_probe(NULL, 5), -EINVAL, "NULL");
	free(text);
}
