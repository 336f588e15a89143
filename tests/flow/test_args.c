/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad input: the right errno, one clear sentence that names what and why, and no effect. */
#include "refused.h"

/* ---- host ------------------------------------------------------------------------------------ */

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
	char *nqn = name_of(224);
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

/* ---- options of other sizes ------------------------------------------------------------------ */

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
	struct {
		struct nvmfr_ctrl_opts known;
		uint64_t later;
	} ctrl = { .later = 0 };
	struct {
		struct nvmfr_qpair_opts known;
		uint64_t later;
	} qpair = { .later = 0 };
	struct {
		struct nvmfr_soft_opts known;
		uint64_t later;
	} soft = { .later = 0 };
	struct {
		struct nvmfr_soft_ns_opts known;
		uint64_t later;
	} ns = { .later = 0 };
	struct {
		struct nvmfr_soft_fault known;
		uint64_t later;
	} fault = { .later = 0 };
	struct nvmfr_soft_target *target;
	struct nvmfr_ctrl *other;
	struct nvmfr_qpair *qp;
	struct flow f;

	small_up(&f);
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
	struct {
		struct nvmfr_ctrl_info known;
		uint64_t later;
	} large;
	struct nvmfr_ctrl_info small;
	struct flow f;

	small_up(&f);
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

/* ---- connect --------------------------------------------------------------------------------- */

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

#define URI_TEST(Name, Uri, Err, Word) \
	Test(args, uri_##Name) \
	{ \
		uri_refused(Uri, Err, Word); \
	}

URI_TEST(empty, "", -EINVAL, "URI")
URI_TEST(scheme_unknown, "nvme+tcp://10.0.0.1/nqn.x", -EINVAL, "nvme+tcp://10.0.0.1/nqn.x")
URI_TEST(scheme_alone, "nvmf+rdma://", -EINVAL, "SUBNQN")
URI_TEST(without_subsystem, "nvmf+rdma://10.0.0.1", -EINVAL, "SUBNQN")
URI_TEST(with_empty_subsystem, "nvmf+rdma://10.0.0.1/", -EINVAL, "SUBNQN")
URI_TEST(without_address, "nvmf+rdma:///nqn.2026-12.org.example:s", -EINVAL, "address")
URI_TEST(port_of_zero, "nvmf+rdma://10.0.0.1:0/nqn.2026-12.org.example:s", -EINVAL, "port '0'")
URI_TEST(port_too_large, "nvmf+rdma://10.0.0.1:65536/nqn.2026-12.org.example:s", -EINVAL, "65536")
URI_TEST(port_of_letters, "nvmf+rdma://10.0.0.1:nvme/nqn.2026-12.org.example:s", -EINVAL,
	 "port 'nvme'")
URI_TEST(port_negative, "nvmf+rdma://10.0.0.1:-1/nqn.2026-12.org.example:s", -EINVAL, "port '-1'")
URI_TEST(ipv6_without_brackets, "nvmf+rdma://fe80::1/nqn.2026-12.org.example:s", -EINVAL,
	 "brackets")
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
	char *nqn = name_of(224), uri[300] = "nvmf+rdma://10.0.0.1/";

	strcat(uri, nqn);
	uri_refused(uri, -EINVAL, "223");
	free(nqn);
}

Test(args, uri_longer_than_anything)
{
	char *uri = name_of(100000);

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
	cr_expect(got == -ENODEV || got == -ETIMEDOUT || got == -ECONNREFUSED ||
			  got == -EHOSTUNREACH,
		  "%d", got);
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

static void recovery_without_delay(struct nvmfr_ctrl_opts *opts)
{
	opts->ctrl_loss_timeout_ms = 1000;
	opts->reconnect_delay_ms = 0;
}

#define OPTIONS_TEST(Spoil, Word) \
	Test(args, connect_with_##Spoil) \
	{ \
		options_refused(Spoil, Word); \
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
OPTIONS_TEST(recovery_without_delay, "reconnect_delay_ms")

Test(args, connect_nulls)
{
	struct nvmfr_qpair *qp;
	struct nvmfr_ctrl *ctrl;
	struct flow f;

	small_up(&f);
	REFUSED(nvmfr_connect(NULL, &f.opts, &ctrl), -EINVAL, "host is NULL");
	REFUSED(nvmfr_connect(f.host, NULL, &ctrl), -EINVAL, "opts is NULL");
	REFUSED(nvmfr_connect(f.host, &f.opts, NULL), -EINVAL, "out is NULL");
	REFUSED(nvmfr_ctrl_wait(NULL, 0), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_ctrl_state(NULL), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_ctrl_info(NULL, NULL), -EINVAL, "ctrl is NULL");
	REFUSED(nvmfr_ctrl_info(f.ctrl, NULL), -EINVAL, "nvmfr_ctrl_info");
	REFUSED(nvmfr_ns_info(f.ctrl, 1, NULL), -EINVAL, "nvmfr_ns_info");
	REFUSED(nvmfr_qpair_create(NULL, NULL, &qp), -EINVAL, "ctrl is NULL");
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

	small_up(&f);
	REFUSED(nvmfr_ctrl_info(f.ctrl, &ctrl), -EINVAL, "size");
	REFUSED(nvmfr_ns_info(f.ctrl, 1, &ns), -EINVAL, "size");
	REFUSED(nvmfr_qpair_info(f.qp, &qpair), -EINVAL, "size");
	flow_down(&f);
}

/* ---- words ----------------------------------------------------------------------------------- */

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

	small_up(&f);
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
