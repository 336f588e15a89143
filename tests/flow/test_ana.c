/* SPDX-License-Identifier: BSD-3-Clause */
/* Asymmetric Namespace Access: states are read at connect, followed, and bounded in time. */
#include "flow.h"

#include <string.h>

enum { BLOCK = 512,
       OAES = 1 << 8 | 1 << 11, /* namespace attributes, ANA change */
       ANATT_S = 10,
       STATUS_INACCESSIBLE = 0x0302,
       OPC_GET_LOG = 0x02,
       LID_ANA = 0x0c,
       LOG_HEADER = 16,
       GROUP_HEADER = 32,
       FIRST_NSID = LOG_HEADER + GROUP_HEADER };

static void up_with(struct flow *f, uint16_t groups, uint8_t mdts)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.oaes = OAES;
	opts.mdts = mdts;
	opts.ana_groups = groups;
	opts.anatt = ANATT_S;
	opts.nn = 4096;
	flow_host(f);
	flow_target(f, &opts);
}

static void up(struct flow *f, uint16_t groups)
{
	up_with(f, groups, 8);
}

static void add(struct flow *f, uint32_t nsid, uint32_t group)
{
	struct nvmfr_soft_ns_opts opts;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = nsid;
	opts.ana_group = group;
	opts.size_bytes = MIB;
	cr_assert_eq(nvmfr_soft_ns_add(f->target, &opts), (int)nsid, "%s", nvmfr_last_error());
	f->nsid = nsid;
}

static void set(struct flow *f, uint32_t port, uint32_t group, uint32_t state)
{
	cr_assert_eq(nvmfr_soft_ana_set(f->target, port, group, state), 0, "%s", nvmfr_last_error());
	flow_settle(f);
}

static void expect_state(const struct flow *f, uint32_t nsid, uint32_t group, uint32_t state)
{
	struct nvmfr_ns_info info = { .size = sizeof(info) };

	cr_assert_eq(nvmfr_ns_info(f->ctrl, nsid, &info), 0, "%s", nvmfr_last_error());
	cr_expect_eq(info.ana_group, group, "namespace %u: group %u", nsid, info.ana_group);
	cr_expect_eq(info.ana_state, state, "namespace %u: state %u", nsid, info.ana_state);
}

/* How many events of a change are there; all others are fetched, too. */
static unsigned int told(const struct flow *f)
{
	struct nvmfr_event event;
	unsigned int n = 0;

	while (nvmfr_host_events(f->host, &event, 1) == 1)
		n += event.type == NVMFR_EVENT_ANA_CHANGED;
	return n;
}

Test(ana, states_are_read_and_followed, .timeout = 60)
{
	struct flow f;

	up(&f, 3);
	for (uint32_t i = 1; i <= 3; i++)
		add(&f, i, i);
	set(&f, 1, 2, NVMFR_ANA_NON_OPTIMIZED);
	set(&f, 2, 1, NVMFR_ANA_PERSISTENT_LOSS); /* another port's */
	flow_connect(&f);
	expect_state(&f, 1, 1, NVMFR_ANA_OPTIMIZED);
	expect_state(&f, 2, 2, NVMFR_ANA_NON_OPTIMIZED);
	cr_expect_eq(told(&f), 0u);
	for (uint32_t state = NVMFR_ANA_OPTIMIZED; state <= NVMFR_ANA_PERSISTENT_LOSS; state++) {
		set(&f, 1, 3, state);
		expect_state(&f, 1, 1, NVMFR_ANA_OPTIMIZED);
		expect_state(&f, 3, 3, state);
		cr_expect_eq(told(&f), 1u, "state %u", state);
	}
	set(&f, 2, NVMFR_SOFT_ANY, NVMFR_ANA_INACCESSIBLE);
	cr_expect_eq(told(&f), 0u, "not this port's");
	flow_down(&f);
}

/* A log of several pieces, of which one group is cut. */
Test(ana, many_namespaces, .timeout = 120)
{
	struct flow f;

	up(&f, 2);
	for (uint32_t i = 1; i <= 2500; i++)
		add(&f, i, 1 + i % 2);
	set(&f, 1, 2, NVMFR_ANA_NON_OPTIMIZED);
	flow_connect(&f);
	for (uint32_t i = 1; i <= 2500; i++)
		expect_state(&f, i, 1 + i % 2, i % 2 ? NVMFR_ANA_NON_OPTIMIZED : NVMFR_ANA_OPTIMIZED);
	set(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
	expect_state(&f, 2500, 1, NVMFR_ANA_INACCESSIBLE);
	expect_state(&f, 2499, 2, NVMFR_ANA_NON_OPTIMIZED);
	flow_down(&f);
}

/* 16 + 32 + 4 * 2040: 8,208 bytes, where a command carries 8,192. */
Test(ana, a_log_longer_than_mdts, .timeout = 120)
{
	enum { MANY = (8208 - LOG_HEADER - GROUP_HEADER) / 4 };
	struct flow f;

	up_with(&f, 1, 1);
	for (uint32_t i = 1; i <= MANY; i++)
		add(&f, i, 1);
	set(&f, 1, 1, NVMFR_ANA_NON_OPTIMIZED);
	flow_connect(&f);
	cr_expect_eq(flow_ctrl_info(&f).max_xfer_bytes, 8192);
	for (uint32_t i = 1; i <= MANY; i++)
		expect_state(&f, i, 1, NVMFR_ANA_NON_OPTIMIZED);
	cr_expect_eq(told(&f), 0u);
	set(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
	cr_expect_eq(told(&f), 1u);
	for (uint32_t i = 1; i <= MANY; i++)
		expect_state(&f, i, 1, NVMFR_ANA_INACCESSIBLE);
	flow_down(&f);
}

/* While it connects anew, at each command of that: what the log says in the end is what is known. */
Test(ana, changes_while_it_is_connected_anew, .timeout = 60)
{
	uint32_t passes = 0;
	bool live = false;
	struct flow f;

	up(&f, 2);
	add(&f, 1, 1);
	add(&f, 2, 2);
	f.opts.ctrl_loss_timeout_ms = UINT32_MAX;
	f.opts.reconnect_delay_ms = 100;
	flow_connect(&f);
	for (; !live; passes++) {
		uint32_t before = passes % 2 ? NVMFR_ANA_OPTIMIZED : NVMFR_ANA_INACCESSIBLE,
			 after = passes % 2 ? NVMFR_ANA_INACCESSIBLE : NVMFR_ANA_OPTIMIZED;

		set(&f, 1, 1, before);
		expect_state(&f, 1, 1, before);
		nvmfr_soft_drop(f.target);
		flow_settle(&f);
		flow_advance_ms(&f, 200);
		for (uint32_t i = 0; i < passes; i++)
			cr_assert_eq(nvmfr_host_poll(f.host), 0);
		live = nvmfr_ctrl_state(f.ctrl) == NVMFR_STATE_LIVE;
		cr_assert_eq(nvmfr_soft_ana_set(f.target, 1, 1, after), 0);
		cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
		flow_settle(&f);
		expect_state(&f, 1, 1, after);
		expect_state(&f, 2, 2, NVMFR_ANA_OPTIMIZED);
	}
	cr_expect_gt(passes, 10u, "%u", passes);
	flow_down(&f);
}

#define WORD(Offset, Value) ((uint64_t)(Offset) << 32 | (Value))

/* Groups 1 and 2 with a namespace each; what the log says is another thing. No read leads beyond what it can mean. */
static const struct odd_case {
	const char *name;
	uint64_t word;
	uint32_t states[2]; /* NVMFR_ANA_NONE: not told */
} odd[] = {
	{ "as it should be", WORD(4, 0), { NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_OPTIMIZED } },
	{ "NSID that is not there", WORD(FIRST_NSID, 77), { NVMFR_ANA_INACCESSIBLE, NVMFR_ANA_OPTIMIZED } },
	{ "NSID 0", WORD(FIRST_NSID, 0), { NVMFR_ANA_INACCESSIBLE, NVMFR_ANA_OPTIMIZED } },
	{ "NSID of all", WORD(FIRST_NSID, 0xffffffff), { NVMFR_ANA_INACCESSIBLE, NVMFR_ANA_OPTIMIZED } },
	{ "no groups", WORD(8, 0), { NVMFR_ANA_INACCESSIBLE, NVMFR_ANA_INACCESSIBLE } },
	{ "fewer groups than there are", WORD(8, 1), { NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_INACCESSIBLE } },
	{ "one group too many", WORD(8, 3), { NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_OPTIMIZED } },
	{ "as many groups as can be said", WORD(8, 0xffff), { NVMFR_ANA_NONE, NVMFR_ANA_NONE } },
	{ "a group that is longer than the log", WORD(LOG_HEADER + 4, 100000), { NVMFR_ANA_NONE, NVMFR_ANA_NONE } },
	{ "more namespaces than can be", WORD(LOG_HEADER + 4, 0xffffffff), { NVMFR_ANA_NONE, NVMFR_ANA_NONE } },
	{ "reserved state", WORD(LOG_HEADER + 16, 7), { 7, NVMFR_ANA_OPTIMIZED } },
};

Test(ana, logs_of_nonsense, .timeout = 60)
{
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(NVMFR_SOFT_FAULT_LOG_WORD, 0, OPC_GET_LOG, LID_ANA, odd[i].word);
		struct nvmfr_ns_info info = { .size = sizeof(info) };
		uint64_t before;
		struct flow f;

		up(&f, 2);
		add(&f, 1, 1);
		add(&f, 2, 2);
		set(&f, 1, 1, NVMFR_ANA_NON_OPTIMIZED);
		fault.count = 0;
		flow_plan(&f, &fault);
		flow_connect(&f);
		/* At connect, and after an event. */
		for (unsigned int turn = 0; turn < 2; turn++) {
			for (uint32_t k = 0; k < 2; k++) {
				cr_assert_eq(nvmfr_ns_info(f.ctrl, k + 1, &info), 0, "%s", odd[i].name);
				cr_expect_eq(info.ana_state, odd[i].states[k], "%s: namespace %u is %u", odd[i].name,
					     k + 1, info.ana_state);
			}
			before = flow_counters(&f).commands;
			cr_assert_eq(nvmfr_soft_notify(f.target, NVMFR_SOFT_NOTICE_ANA), 0);
			flow_settle(&f);
			cr_expect_leq(flow_counters(&f).commands - before, 600u, "%s", odd[i].name);
		}
		/* Later it says what is so. */
		nvmfr_soft_fault_clear(f.target);
		set(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
		expect_state(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
		expect_state(&f, 2, 2, NVMFR_ANA_OPTIMIZED);
		flow_down(&f);
	}
}

Test(ana, a_namespace_that_comes_has_its_state, .timeout = 60)
{
	struct flow f;

	up(&f, 2);
	add(&f, 1, 1);
	set(&f, 1, 2, NVMFR_ANA_INACCESSIBLE);
	flow_connect(&f);
	add(&f, 2, 2);
	flow_settle(&f);
	expect_state(&f, 2, 2, NVMFR_ANA_INACCESSIBLE);
	expect_state(&f, 1, 1, NVMFR_ANA_OPTIMIZED);
	flow_down(&f);
}

Test(ana, a_transition_has_an_end, .timeout = 60)
{
	struct flow f;

	up(&f, 1);
	add(&f, 1, 1);
	flow_connect(&f);
	set(&f, 1, 1, NVMFR_ANA_CHANGE);
	flow_idle_ms(&f, ANATT_S * 1000 / 2);
	expect_state(&f, 1, 1, NVMFR_ANA_CHANGE);
	cr_expect_eq(told(&f), 1u);
	flow_idle_ms(&f, ANATT_S * 1000);
	expect_state(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
	cr_expect_eq(told(&f), 1u);
	cr_expect(flow_logged(&f, "longer than ANATT"));
	set(&f, 1, 1, NVMFR_ANA_OPTIMIZED);
	expect_state(&f, 1, 1, NVMFR_ANA_OPTIMIZED);
	/* And the next one has its own time. */
	set(&f, 1, 1, NVMFR_ANA_CHANGE);
	flow_idle_ms(&f, ANATT_S * 1000 / 2);
	expect_state(&f, 1, 1, NVMFR_ANA_CHANGE);
	flow_down(&f);
}

/* On one controller alone the status is the application's. */
Test(ana, refused_with_the_states_status, .timeout = 60)
{
	struct nvmfr_buffer *buf;
	struct nvmfr_io io;
	struct nvmfr_completion done;
	struct flow f;

	up(&f, 1);
	add(&f, 1, 1);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	buf = flow_alloc(&f, BLOCK);
	io = flow_io(&f, NVMFR_OP_READ, 0, 1, buf, 0);
	flow_must(f.qp, &io);
	set(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
	done = flow_do(f.qp, &io);
	cr_expect_eq(done.result, -EREMOTEIO);
	cr_expect_eq(done.status, STATUS_INACCESSIBLE, "0x%x", done.status);
	flow_release(buf);
	flow_down(&f);
}

/* No states: the namespaces are there all the same. */
Test(ana, a_log_that_is_refused, .timeout = 60)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_GET_LOG, LID_ANA, STATUS_INTERNAL_ERROR);
	struct flow f;

	up(&f, 1);
	add(&f, 1, 1);
	fault.count = 2;
	flow_plan(&f, &fault);
	flow_connect(&f);
	expect_state(&f, 1, 0, NVMFR_ANA_NONE);
	cr_expect(flow_logged(&f, "the ANA log could not be read"));
	set(&f, 1, 1, NVMFR_ANA_INACCESSIBLE);
	expect_state(&f, 1, 0, NVMFR_ANA_NONE);
	cr_expect_eq(told(&f), 1u);
	set(&f, 1, 1, NVMFR_ANA_NON_OPTIMIZED);
	set(&f, 1, 1, NVMFR_ANA_NON_OPTIMIZED);
	flow_down(&f);
}

Test(ana, ports_of_a_target, .timeout = 60)
{
	struct flow f;
	uint8_t bad[] = { 0, 9, 255 };

	up(&f, 1);
	add(&f, 1, 1);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(nvmfr_soft_port_set(f.target, bad[i], 1), -EINVAL);
	cr_expect_eq(nvmfr_soft_ana_set(f.target, 0, 1, 1), -EINVAL);
	cr_expect_eq(nvmfr_soft_ana_set(f.target, 1, 2, 1), -EINVAL);
	cr_expect_eq(nvmfr_soft_ana_set(f.target, 1, 1, 16), -EINVAL);
	f.opts.uri = "nvmf+soft://t?port=9";
	cr_expect_eq(flow_try_connect(&f), -EINVAL);
	flow_says("port=9");
	f.opts.uri = "nvmf+soft://t?size=1M";
	cr_expect_eq(flow_try_connect(&f), -EINVAL);
	flow_says("brings its own namespaces");
	f.opts.uri = "nvmf+soft://t?port=2";
	cr_assert_eq(nvmfr_soft_port_set(f.target, 2, 0), 0);
	cr_expect_eq(flow_try_connect(&f), -EHOSTUNREACH);
	flow_says("shut");
	cr_assert_eq(nvmfr_soft_port_set(f.target, 2, 1), 0);
	flow_connect(&f);
	cr_assert_eq(nvmfr_soft_port_set(f.target, 1, 0), 0);
	flow_settle(&f);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LIVE, "another port");
	cr_assert_eq(nvmfr_soft_port_set(f.target, 2, 0), 0);
	flow_settle(&f);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LOST);
	flow_down(&f);
}
