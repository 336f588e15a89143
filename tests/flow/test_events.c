/* SPDX-License-Identifier: BSD-3-Clause */
/* What controllers tell of themselves: events, their queue and descriptor, namespaces that change under I/O. */
#include "flow.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BLOCK = 512,
	QUEUE = 256, /* events that the host keeps */
	OPC_GET_LOG = 0x02,
	LID_CHANGED_NS = 0x04,
	NGUID_DESC = 4, /* the first descriptor's identifier */
	OAES_ALL = 1 << 8 | 1 << 9 | 1 << 11,
	ROUNDS = 100,
};

/* ---- fetching -------------------------------------------------------------------------------- */

static bool is_readable(const struct flow *f, int timeout_ms)
{
	struct pollfd fd = { .fd = nvmfr_host_event_fd(f->host), .events = POLLIN };

	cr_assert_geq(fd.fd, 0, "%s", nvmfr_last_error());
	return poll(&fd, 1, timeout_ms) > 0;
}

/* The next one: time passes until it comes. */
static struct nvmfr_event next(const struct flow *f)
{
	struct nvmfr_event event = { .type = 0 };
	int n = nvmfr_host_events(f->host, &event, 1);

	for (int i = 0; i < 1000 && n == 0; i++) {
		if (f->frozen)
			flow_idle_ms(f, 10);
		else
			(void)is_readable(f, 20);
		n = nvmfr_host_events(f->host, &event, 1);
	}
	cr_assert_eq(n, 1, "no event came: %d", n);
	return event;
}

static void expect(const struct flow *f, uint32_t type, uint32_t nsid, uint64_t value)
{
	struct nvmfr_event event = next(f);

	cr_expect(event.type == type && event.nsid == nsid && event.value == value,
		  "type %u, namespace %u, value %llu instead of %u, %u, %llu", event.type,
		  event.nsid, (unsigned long long)event.value, type, nsid,
		  (unsigned long long)value);
	cr_expect(event.ctrl == f->ctrl && event.reserved == 0);
}

static void expect_none(const struct flow *f)
{
	struct nvmfr_event event = { .type = 0 };

	if (f->frozen)
		flow_idle_ms(f, 200);
	cr_expect_eq(nvmfr_host_events(f->host, &event, 1), 0, "type %u", event.type);
	cr_expect(!is_readable(f, 0));
}

/* Live, with the event of that fetched. */
static void up(struct flow *f, uint32_t oaes)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.oaes = oaes;
	opts.nn = 4096;
	flow_up(f, &opts);
	expect(f, NVMFR_EVENT_STATE, 0, NVMFR_STATE_LIVE);
	expect_none(f);
}

static void add(const struct flow *f, uint32_t nsid, uint64_t bytes, uint32_t block_bytes)
{
	struct nvmfr_soft_ns_opts opts;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = nsid;
	opts.size_bytes = bytes;
	opts.block_bytes = block_bytes;
	cr_assert_eq(nvmfr_soft_ns_add(f->target, &opts), (int)nsid, "%s", nvmfr_last_error());
}

static void take_away(const struct flow *f, uint32_t nsid)
{
	cr_assert_eq(nvmfr_soft_ns_remove(f->target, nsid), 0, "%s", nvmfr_last_error());
}

static void notify(const struct flow *f, uint32_t notice)
{
	cr_assert_eq(nvmfr_soft_notify(f->target, notice), 0, "%s", nvmfr_last_error());
}

/* Until all but what a fault delays has been done, the event request that goes out again with a pause, too. */
static void until_it_waits(const struct flow *f)
{
	flow_idle_ms(f, 1);
	flow_idle_ms(f, 30);
}

/* ---- states ---------------------------------------------------------------------------------- */

Test(events, live_and_lost)
{
	struct nvmfr_event event;
	struct flow f;

	up(&f, OAES_ALL);
	nvmfr_soft_drop(f.target);
	event = next(&f);
	cr_expect(event.type == NVMFR_EVENT_STATE && event.ctrl == f.ctrl &&
		  event.value == NVMFR_STATE_LOST);
	cr_expect_eq(event.result, nvmfr_ctrl_wait(f.ctrl, 0));
	cr_expect_eq(event.result, -ENOTCONN);
	expect_none(&f);
	flow_down(&f);
}

Test(events, a_connect_that_fails)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, NVMFR_SOFT_ANY,
						   NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_event event;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	fault.count = 0;
	flow_plan(&f, &fault);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	cr_assert_lt(nvmfr_ctrl_wait(f.ctrl, -1), 0);
	event = next(&f);
	cr_expect(event.type == NVMFR_EVENT_STATE && event.value == NVMFR_STATE_LOST);
	cr_expect_eq(event.result, nvmfr_ctrl_wait(f.ctrl, 0));
	flow_down(&f);
}

/* The handle in it is dead then. */
Test(events, nothing_comes_of_a_controller_that_was_disconnected)
{
	struct nvmfr_ctrl *other;
	struct nvmfr_event event;
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_connect(&f);
	other = f.ctrl;
	flow_connect(&f);
	cr_expect(is_readable(&f, 0));
	cr_assert_eq(nvmfr_disconnect(other, 1000), 0);
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 1);
	cr_expect_eq(event.ctrl, f.ctrl);
	add(&f, 1, MIB, BLOCK);
	flow_idle_ms(&f, 100);
	cr_expect(is_readable(&f, 0));
	cr_assert_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	f.ctrl = NULL;
	expect_none(&f);
	flow_down(&f);
}

/* ---- namespaces ------------------------------------------------------------------------------ */

Test(events, a_namespace_comes_and_goes)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, OAES_ALL);
	buf = flow_alloc(&f, 4096);
	cr_expect_eq(nvmfr_read(f.qp, 7, 0, 1, buf, 0, 0), -ENOENT);
	add(&f, 7, MIB, 4096);
	expect(&f, NVMFR_EVENT_NS_ADDED, 7, 0);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 7, &info), 0);
	cr_expect(info.capacity_blocks == MIB / 4096 && info.block_bytes == 4096);
	f.nsid = 7;
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 1), 7);
	struct nvmfr_io io = flow_io(&f, NVMFR_OP_READ, 255, 1, buf, 0);

	flow_must(f.qp, &io);
	take_away(&f, 7);
	expect(&f, NVMFR_EVENT_NS_REMOVED, 7, 0);
	cr_expect_eq(nvmfr_read(f.qp, 7, 0, 1, buf, 0, 0), -ENOENT);
	flow_says("namespace 7 is not active");
	cr_expect_eq(nvmfr_ns_info(f.ctrl, 7, &info), -ENOENT);
	expect_none(&f);
	flow_release(buf);
	f.nsid = 1;
	flow_works(&f);
	flow_down(&f);
}

Test(events, a_namespace_grows_and_shrinks)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct flow f;

	up(&f, OAES_ALL);
	buf = flow_alloc(&f, BLOCK);
	io = flow_io(&f, NVMFR_OP_WRITE, 128 * MIB / BLOCK - 1, 1, buf, 0);
	cr_expect_eq(nvmfr_submit(f.qp, &io, 1), -ERANGE);
	cr_assert_eq(nvmfr_soft_ns_resize(f.target, 1, 128 * MIB), 0, "%s", nvmfr_last_error());
	expect(&f, NVMFR_EVENT_NS_CHANGED, 1, NVMFR_NS_CHANGE_SIZE);
	flow_must(f.qp, &io);
	flow_works(&f);
	cr_assert_eq(nvmfr_soft_ns_resize(f.target, 1, BLOCK), 0, "%s", nvmfr_last_error());
	expect(&f, NVMFR_EVENT_NS_CHANGED, 1, NVMFR_NS_CHANGE_SIZE);
	cr_expect_eq(nvmfr_submit(f.qp, &io, 1), -ERANGE);
	/* What was cut off does not come back. */
	cr_assert_eq(nvmfr_soft_ns_resize(f.target, 1, 256 * MIB), 0, "%s", nvmfr_last_error());
	expect(&f, NVMFR_EVENT_NS_CHANGED, 1, NVMFR_NS_CHANGE_SIZE);
	memset(nvmfr_buffer_addr(buf), 0x55, BLOCK);
	flow_must(f.qp, &io);
	io.lba = 1;
	io.op = NVMFR_OP_READ;
	flow_must(f.qp, &io);
	cr_expect_eq(*(unsigned char *)nvmfr_buffer_addr(buf), 0, "zeroes");
	flow_release(buf);
	flow_down(&f);
}

Test(events, another_namespace_under_the_same_id)
{
	static const uint8_t nguid[16] = { 0x6e, 0x65, 0x77 };
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	struct flow f;

	up(&f, OAES_ALL);
	take_away(&f, 1);
	flow_patch(&f, CNS_NS_DESCS, 1, NGUID_DESC, nguid, sizeof(nguid));
	add(&f, 1, MIB, 4096);
	expect(&f, NVMFR_EVENT_NS_CHANGED, 1,
	       NVMFR_NS_CHANGE_SIZE | NVMFR_NS_CHANGE_FORMAT | NVMFR_NS_CHANGE_IDENTITY);
	cr_assert_eq(nvmfr_ns_info(f.ctrl, 1, &info), 0);
	cr_expect(memcmp(info.nguid, nguid, 16) == 0 || memcmp(info.uuid, nguid, 16) == 0);
	/* Gone and back, and nothing shows it: still it was told. */
	take_away(&f, 1);
	add(&f, 1, MIB, 4096);
	expect(&f, NVMFR_EVENT_NS_CHANGED, 1, 0);
	expect_none(&f);
	flow_down(&f);
}

Test(events, write_protection)
{
	struct nvmfr_soft_ns_opts opts;
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, OAES_ALL);
	buf = flow_alloc(&f, BLOCK);
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_SOFT_NS_READ_ONLY;
	take_away(&f, 1);
	cr_assert_eq(nvmfr_soft_ns_add(f.target, &opts), 1);
	expect(&f, NVMFR_EVENT_NS_CHANGED, 1, NVMFR_NS_CHANGE_PROTECTION);
	cr_expect_eq(nvmfr_write(f.qp, 1, 0, 1, buf, 0, 0), -EROFS);
	flow_release(buf);
	flow_down(&f);
}

/* What is in flight while its namespace goes ends once, and the others' I/O goes on. */
Test(events, io_goes_on_while_namespaces_change)
{
	struct nvmfr_completion done[FLOW_DEPTH];
	struct nvmfr_buffer *buf;
	struct flow f;

	up(&f, OAES_ALL);
	add(&f, 2, MIB, BLOCK);
	expect(&f, NVMFR_EVENT_NS_ADDED, 2, 0);
	buf = flow_alloc(&f, 64 * BLOCK);
	for (unsigned int round = 0; round < 20; round++) {
		unsigned int sent = 0;

		if (round % 2)
			add(&f, 2, MIB, BLOCK);
		for (unsigned int i = 0; i < 32; i++) {
			uint32_t nsid = i % 2 + 1;
			int err = nvmfr_read(f.qp, nsid, i, 1, buf, i * BLOCK, i);

			cr_assert(err == 0 || (nsid == 2 && err == -ENOENT), "%d %s", err,
				  nvmfr_last_error());
			sent += err == 0;
		}
		if (round % 2 == 0)
			take_away(&f, 2);
		flow_wait(f.qp, done, sent);
		for (unsigned int i = 0; i < sent; i++)
			cr_expect(done[i].result == 0 ||
				  (done[i].user_data % 2 &&
				   (done[i].status & 0x7ff) == STATUS_INVALID_NAMESPACE));
		expect(&f, round % 2 ? NVMFR_EVENT_NS_ADDED : NVMFR_EVENT_NS_REMOVED, 2, 0);
	}
	flow_release(buf);
	flow_down(&f);
}

/* The page has room for 1,024; then it says so, and all are looked at. The queue has room for fewer. */
Test(events, more_than_fit_the_page_and_the_queue)
{
	enum { MANY = 1100 };
	struct nvmfr_event *events = calloc(QUEUE + 1, sizeof(*events));
	unsigned int listed = 0;
	struct flow f;

	up(&f, OAES_ALL);
	cr_assert_not_null(events);
	for (uint32_t nsid = 2; nsid < MANY + 2; nsid++)
		add(&f, nsid, BLOCK, BLOCK);
	flow_idle_ms(&f, 1000);
	cr_assert_eq(nvmfr_host_events(f.host, events, QUEUE + 1), QUEUE + 1);
	for (uint32_t i = 0; i < QUEUE; i++)
		cr_expect(events[i].type == NVMFR_EVENT_NS_ADDED && events[i].nsid == i + 2);
	cr_expect(events[QUEUE].type == NVMFR_EVENT_OVERFLOW &&
		  events[QUEUE].value == MANY - QUEUE && !events[QUEUE].ctrl);
	expect_none(&f);
	for (uint32_t nsid = nvmfr_ns_next(f.ctrl, 0); nsid; nsid = nvmfr_ns_next(f.ctrl, nsid))
		cr_expect_eq(nsid, ++listed);
	cr_expect_eq(listed, (unsigned int)MANY + 1);
	f.nsid = MANY + 1;
	struct nvmfr_io io = flow_io(&f, NVMFR_OP_FLUSH, 0, 0, NULL, 0);

	flow_must(f.qp, &io);
	free(events);
	flow_down(&f);
}

/* ---- what goes wrong meanwhile --------------------------------------------------------------- */

Test(events, a_refused_list_means_all)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_GET_LOG,
						   LID_CHANGED_NS, STATUS_INTERNAL_ERROR);
	struct flow f;

	up(&f, OAES_ALL);
	flow_plan(&f, &fault);
	add(&f, 3, MIB, BLOCK);
	expect(&f, NVMFR_EVENT_NS_ADDED, 3, 0);
	flow_down(&f);
}

Test(events, a_scan_that_fails_is_done_again)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_IDENTIFY,
						   CNS_ACTIVE_LIST, STATUS_INTERNAL_ERROR);
	struct nvmfr_event event;
	struct flow f;

	up(&f, OAES_ALL);
	fault.count = 2;
	flow_plan(&f, &fault);
	add(&f, 3, MIB, BLOCK);
	flow_idle_ms(&f, 900);
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 0);
	cr_expect(flow_logged(&f, "tried again later"));
	expect(&f, NVMFR_EVENT_NS_ADDED, 3, 0);
	flow_works(&f);
	flow_down(&f);
}

/* An admin command over its time may write to its page at any time: the association ends. */
Test(events, a_page_that_never_comes)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_SILENCE, 0, OPC_GET_LOG, LID_CHANGED_NS, 0);
	struct nvmfr_event event;
	struct flow f;

	up(&f, OAES_ALL);
	flow_plan(&f, &fault);
	add(&f, 3, MIB, BLOCK);
	flow_idle_ms(&f, f.opts.admin_timeout_ms + 1000);
	event = next(&f);
	cr_expect(event.type == NVMFR_EVENT_STATE && event.value == NVMFR_STATE_LOST);
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 0), -ENOTCONN);
	flow_says("changed namespace list");
	flow_down(&f);
}

/* The end waits for the command that is out, then is as orderly as ever. */
Test(events, a_disconnect_while_a_scan_is_going_on)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_GET_LOG, LID_CHANGED_NS, 100000);
	uint64_t before;
	struct flow f;

	up(&f, OAES_ALL);
	flow_plan(&f, &fault);
	add(&f, 3, MIB, BLOCK);
	until_it_waits(&f);
	before = flow_counters(&f).commands;
	nvmfr_qpair_destroy(f.qp);
	f.qp = NULL;
	cr_expect_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
	f.ctrl = NULL;
	cr_expect_eq(flow_counters(&f).commands, before + 2, "CC.SHN and CSTS.SHST, and no scan");
	flow_down(&f);
}

/* ---- what is not about namespaces ------------------------------------------------------------ */

Test(events, ana_changes_are_told_each_time)
{
	struct flow f;

	up(&f, OAES_ALL);
	for (unsigned int i = 1; i <= 3; i++) {
		notify(&f, NVMFR_SOFT_NOTICE_ANA);
		expect(&f, NVMFR_EVENT_ANA_CHANGED, 0, i);
	}
	expect_none(&f);
	flow_down(&f);
}

Test(events, discovery_log_changes_are_told_each_time)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	flow_host(&f);
	opts.oaes = UINT32_C(1) << 31;
	flow_target(&f, &opts);
	f.opts.uri = "nvmf+soft://t/nqn.2014-08.org.nvmexpress.discovery";
	flow_connect(&f);
	expect(&f, NVMFR_EVENT_STATE, 0, NVMFR_STATE_LIVE);
	for (unsigned int i = 1; i <= 3; i++) {
		notify(&f, NVMFR_SOFT_NOTICE_DISCOVERY);
		expect(&f, NVMFR_EVENT_DISCOVERY_CHANGED, 0, i + 1);
	}
	notify(&f, NVMFR_SOFT_NOTICE_ANA);
	expect_none(&f);
	flow_down(&f);
}

static void expect_passed(const struct flow *f, uint32_t notice, uint32_t type)
{
	struct nvmfr_event event;

	notify(f, notice);
	event = next(f);
	cr_expect_eq(event.type, type, "%u", event.type);
	cr_expect_eq(event.aer_type, (notice & 7));
	cr_expect_eq(event.aer_info, (notice >> 8 & 0xff));
	cr_expect_eq(event.log_page, (notice >> 16));
	cr_expect(event.ctrl == f->ctrl && event.nsid == 0 && event.value == 0 &&
		  event.result == 0);
	/* The page is the application's to read: until then the controller keeps silent. */
	notify(f, notice);
	expect_none(f);
}

Test(events, passed_on_as_they_came)
{
	static const struct {
		uint32_t notice;
		enum nvmfr_event_type type;
	} cases[] = {
		{ NVMFR_SOFT_NOTICE_ERROR, NVMFR_EVENT_ERROR },
		{ NVMFR_SOFT_NOTICE_HEALTH, NVMFR_EVENT_HEALTH },
		{ NVMFR_SOFT_NOTICE_FIRMWARE, NVMFR_EVENT_FIRMWARE },
		{ NVMFR_SOFT_NOTICE_VENDOR, NVMFR_EVENT_VENDOR },
		{ 0x020006, NVMFR_EVENT_OTHER },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct flow f;

		up(&f, OAES_ALL);
		expect_passed(&f, cases[i].notice, cases[i].type);
		flow_down(&f);
	}
}

/* All event requests that are out are completed at once, by as many events and one more: none is lost. */
Test(events, all_requests_answered_at_once)
{
	static const uint32_t notices[] = { NVMFR_SOFT_NOTICE_ANA, NVMFR_SOFT_NOTICE_ERROR, NVMFR_SOFT_NOTICE_HEALTH,
					    NVMFR_SOFT_NOTICE_VENDOR };
	static const uint32_t types[] = { NVMFR_EVENT_NS_ADDED, NVMFR_EVENT_ANA_CHANGED, NVMFR_EVENT_ERROR,
					  NVMFR_EVENT_HEALTH, NVMFR_EVENT_VENDOR };
	uint64_t before;
	struct flow f;

	up(&f, OAES_ALL);
	for (unsigned int round = 1; round <= 3; round++) {
		unsigned int seen[NVMFR_EVENT_FAST_IO_FAIL + 1] = { 0 };
		struct nvmfr_event event;

		/* Another controller of this one's: its pages are not read yet. */
		if (round > 1) {
			nvmfr_qpair_destroy(f.qp);
			cr_assert_eq(nvmfr_disconnect(f.ctrl, 1000), 0);
			flow_connect(&f);
			f.qp = flow_qpair(&f, 8);
			expect(&f, NVMFR_EVENT_STATE, 0, NVMFR_STATE_LIVE);
		}
		add(&f, 1 + round, MIB, BLOCK);
		for (size_t i = 0; i < ARRAY_SIZE(notices); i++)
			notify(&f, notices[i]);
		flow_idle_ms(&f, 1000);
		while (nvmfr_host_events(f.host, &event, 1) == 1) {
			seen[event.type]++;
			cr_expect(event.ctrl == f.ctrl);
		}
		for (size_t i = 0; i < ARRAY_SIZE(types); i++)
			cr_expect_eq(seen[types[i]], 1u, "round %u: %u of type %u", round, seen[types[i]], types[i]);
		/* And no more work comes of it. */
		before = flow_counters(&f).commands;
		flow_idle_ms(&f, 1000);
		cr_expect_eq(flow_counters(&f).commands, before);
		flow_works(&f);
	}
	flow_down(&f);
}

/* A target that does not know the bits of health still tells of namespaces. */
Test(events, health_refused)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_SET_FEATURES, FID_EVENT_CONFIG, 2);
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	flow_plan(&f, &fault);
	flow_connect(&f);
	expect(&f, NVMFR_EVENT_STATE, 0, NVMFR_STATE_LIVE);
	notify(&f, NVMFR_SOFT_NOTICE_HEALTH);
	add(&f, 1, MIB, BLOCK);
	expect(&f, NVMFR_EVENT_NS_ADDED, 1, 0);
	expect_none(&f);
	flow_down(&f);
}

/* Nothing happens between the scan of a connect and the first notice that it does not see. */
Test(events, a_namespace_that_comes_while_a_connect_goes_on)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_IDENTIFY, CNS_NS_DESCS, 100000);
	struct flow f;

	flow_host(&f);
	flow_target(&f, NULL);
	add(&f, 1, MIB, BLOCK);
	flow_plan(&f, &fault);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	until_it_waits(&f);
	cr_assert_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_CONNECTING);
	add(&f, 2, MIB, BLOCK);
	expect(&f, NVMFR_EVENT_STATE, 0, NVMFR_STATE_LIVE);
	expect(&f, NVMFR_EVENT_NS_ADDED, 2, 0);
	flow_down(&f);
}

/* ---- the descriptor, threads, fork ----------------------------------------------------------- */

Test(events, the_descriptor_stays_readable_until_all_are_fetched)
{
	struct nvmfr_event event;
	struct flow f;

	up(&f, OAES_ALL);
	add(&f, 2, MIB, BLOCK);
	add(&f, 3, MIB, BLOCK);
	cr_expect(!is_readable(&f, 0), "nobody drove the host");
	flow_idle_ms(&f, 100);
	cr_expect(is_readable(&f, 0));
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 1);
	cr_expect(is_readable(&f, 0), "one is left");
	cr_expect_eq(nvmfr_host_events(f.host, &event, 1), 1);
	cr_expect(!is_readable(&f, 0));
	cr_expect_eq(nvmfr_host_event_fd(f.host), nvmfr_host_event_fd(f.host));
	flow_down(&f);
}

Test(events, bad_arguments)
{
	struct nvmfr_event event;
	struct flow f;

	flow_host(&f);
	cr_expect_eq(nvmfr_host_events(NULL, &event, 1), -EINVAL);
	cr_expect_eq(nvmfr_host_events(f.host, NULL, 1), -EINVAL);
	cr_expect_eq(nvmfr_host_events(f.host, &event, 0), -EINVAL);
	cr_expect_eq(nvmfr_host_event_fd(NULL), -EINVAL);
	flow_target(&f, NULL);
	cr_expect_eq(nvmfr_soft_notify(NULL, 0), -EINVAL);
	cr_expect_eq(nvmfr_soft_notify(f.target, 8), -EINVAL);
	cr_expect_eq(nvmfr_soft_notify(f.target, 0x1000000), -EINVAL);
	cr_expect_eq(nvmfr_soft_ns_resize(NULL, 1, BLOCK), -EINVAL);
	cr_expect_eq(nvmfr_soft_ns_resize(f.target, 1, BLOCK), -ENOENT);
	add(&f, 1, MIB, BLOCK);
	cr_expect_eq(nvmfr_soft_ns_resize(f.target, 1, 0), -EINVAL);
	cr_expect_eq(nvmfr_soft_ns_resize(f.target, 1, BLOCK + 1), -EINVAL);
	cr_expect_eq(nvmfr_soft_ns_resize(f.target, 1, 4 * MIB + BLOCK), -EINVAL);
	cr_expect_eq(nvmfr_soft_ns_resize(f.target, 1, 4 * MIB), 0);
	flow_down(&f);
}

struct reader {
	struct flow *f;
	_Atomic unsigned int *total;
	_Atomic bool *stop;
	unsigned int count[NVMFR_EVENT_OVERFLOW + 1];
};

static void *reads_events(void *arg)
{
	struct reader *r = arg;
	struct nvmfr_event events[4];

	while (!*r->stop) {
		int n;

		if (!is_readable(r->f, 10))
			continue;
		n = nvmfr_host_events(r->f->host, events, ARRAY_SIZE(events));
		for (int i = 0; i < n; i++)
			r->count[events[i].type]++;
		if (n > 0)
			*r->total += (unsigned int)n;
	}
	return NULL;
}

/* Each event reaches one of them, once. */
static void two_readers(uint32_t flags)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	_Atomic unsigned int total = 0;
	_Atomic bool stop = false;
	struct reader readers[2];
	pthread_t threads[2];
	struct flow f;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	for (int i = 0; i < 2; i++) {
		readers[i] = (struct reader){ .f = &f, .total = &total, .stop = &stop };
		cr_assert_eq(pthread_create(&threads[i], NULL, reads_events, &readers[i]), 0);
	}
	/* One at a time: two changes at once may be one, or none. */
	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (i % 2)
			take_away(&f, 2);
		else
			add(&f, 2, MIB, BLOCK);
		for (int ms = 0; total < i + 2 && ms < 20000; ms++)
			usleep(1000);
		cr_assert_eq(total, i + 2, "change %u was not told", i);
		flow_works(&f);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(readers[0].count[NVMFR_EVENT_STATE] + readers[1].count[NVMFR_EVENT_STATE], 1u);
	cr_expect_eq(readers[0].count[NVMFR_EVENT_NS_ADDED] +
			     readers[1].count[NVMFR_EVENT_NS_ADDED],
		     ROUNDS / 2u);
	cr_expect_eq(readers[0].count[NVMFR_EVENT_NS_REMOVED] +
			     readers[1].count[NVMFR_EVENT_NS_REMOVED],
		     ROUNDS / 2u);
	flow_down(&f);
}

Test(events, two_threads_fetch, .timeout = 60)
{
	two_readers(0);
}

Test(events, two_threads_fetch_from_a_target_thread, .timeout = 60)
{
	two_readers(NVMFR_SOFT_THREAD);
}

Test(events, in_a_forked_child)
{
	struct nvmfr_event event;
	int status = 0;
	struct flow f;
	pid_t pid;

	up(&f, OAES_ALL);
	add(&f, 2, MIB, BLOCK);
	flow_idle_ms(&f, 100);
	cr_assert(is_readable(&f, 0));
	pid = fork();
	if (pid == 0) {
		bool dead = nvmfr_host_events(f.host, &event, 1) == -EOWNERDEAD &&
			    nvmfr_host_event_fd(f.host) == -EOWNERDEAD;

		_exit(!dead || nvmfr_soft_notify(f.target, NVMFR_SOFT_NOTICE_ANA) != -EOWNERDEAD ||
		      nvmfr_soft_ns_resize(f.target, 1, MIB) != -EOWNERDEAD);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect(&f, NVMFR_EVENT_NS_ADDED, 2, 0);
	flow_down(&f);
}
