/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that can go wrong while connecting the admin queue. I/O queues: test_ioqueue.c. */
#include "flow.h"

enum { PROMPTLY_MS = 1000 };

/* ---- a step fails ---------------------------------------------------------------------------- */

/* A command of the sequence, and how it is named in sentences. */
struct step {
	const char *name;
	uint32_t opcode, detail, skip;
};

static const struct step fabrics_connect = { "Fabrics Connect", OPC_FABRICS, FCTYPE_CONNECT, 0 };
static const struct step read_cap = { "read CAP", OPC_FABRICS, FCTYPE_PROPERTY_GET, 0 };
static const struct step read_vs = { "read VS", OPC_FABRICS, FCTYPE_PROPERTY_GET, 1 };
static const struct step enable = { "enable (CC.EN)", OPC_FABRICS, FCTYPE_PROPERTY_SET, 0 };
static const struct step ready = { "wait for CSTS.RDY", OPC_FABRICS, FCTYPE_PROPERTY_GET, 2 };
static const struct step id_ctrl = { "identify controller", OPC_IDENTIFY, CNS_CTRL, 0 };
static const struct step id_nvm = { "identify NVM command set", OPC_IDENTIFY, CNS_IO_SET_CTRL, 0 };
static const struct step num_queues = { "number of queues", OPC_SET_FEATURES, FID_NUM_QUEUES, 0 };
static const struct step ns_list = { "active namespaces", OPC_IDENTIFY, CNS_ACTIVE_LIST, 0 };
static const struct step id_ns = { "identify namespace", OPC_IDENTIFY, CNS_NS, 0 };
static const struct step ns_descs = { "namespace descriptors", OPC_IDENTIFY, CNS_NS_DESCS, 0 };
static const struct step events = { "configure events", OPC_SET_FEATURES, FID_EVENT_CONFIG, 0 };

static void target_up(struct flow *f)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, 4 * MIB, 512);
}

/* Nothing is left of a failed attempt, and the host is as good as new. */
static void usable_then_down(struct flow *f)
{
	cr_expect_eq(flow_counters(f).open_connections, 0,
		     "a failed connect leaves a connection open");
	nvmfr_soft_fault_clear(f->target);
	flow_connect(f);
	f->qp = flow_qpair(f, 8);
	flow_works(f);
	flow_down(f);
}

static void plan_step(struct flow *f, const struct step *step, uint32_t kind, uint64_t value)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 0, step->opcode, step->detail, value);

	fault.skip = step->skip;
	flow_plan(f, &fault);
}

static void step_fails(const struct step *step, uint32_t kind, uint64_t value, int err,
		       const char *why)
{
	struct flow f;
	int got;

	target_up(&f);
	f.opts.kato_ms = 0; /* no other clock runs than that of the step */
	plan_step(&f, step, kind, value);
	got = flow_try_connect(&f);
	cr_expect_eq(got, err, "%s, fault %u: %d, not %d", step->name, kind, got, err);
	flow_says(step->name);
	flow_says(why);
	usable_then_down(&f);
}

/* A refusal that is no reason to give up. */
static void step_refused_well(const struct step *step)
{
	struct flow f;

	target_up(&f);
	plan_step(&f, step, NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR);
	flow_connect(&f);
	flow_down(&f);
}

#define REFUSED(Step) \
	step_fails(&Step, NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR, -EIO, "0x0006")
#define UNANSWERED(Step) \
	step_fails(&Step, NVMFR_SOFT_FAULT_SILENCE, 0, -ETIMEDOUT, "admin_timeout_ms")
#define DROPPED(Step) \
	step_fails(&Step, NVMFR_SOFT_FAULT_DISCONNECT, 0, -ECONNRESET, "closed the connection")
#define BROKEN(Step)	step_fails(&Step, NVMFR_SOFT_FAULT_QP_ERROR, 0, -ECONNABORTED, "a SEND failed")
#define WRONG_CID(Step) step_fails(&Step, NVMFR_SOFT_FAULT_WRONG_CID, 0x0777, -EPROTO, "CID 0x")

#define STEP_TESTS(Step) \
	Test(connect, Step##_unanswered) \
	{ \
		UNANSWERED(Step); \
	} \
	Test(connect, Step##_dropped) \
	{ \
		DROPPED(Step); \
	} \
	Test(connect, Step##_broken) \
	{ \
		BROKEN(Step); \
	} \
	Test(connect, Step##_wrong_cid) \
	{ \
		WRONG_CID(Step); \
	}
#define REFUSED_TEST(Step) \
	Test(connect, Step##_refused) \
	{ \
		REFUSED(Step); \
	}
#define OPTIONAL_TEST(Step) \
	Test(connect, Step##_refused_is_no_loss) \
	{ \
		step_refused_well(&Step); \
	}

STEP_TESTS(fabrics_connect)
STEP_TESTS(read_cap)
STEP_TESTS(read_vs)
STEP_TESTS(enable)
STEP_TESTS(ready)
STEP_TESTS(id_ctrl)
STEP_TESTS(id_nvm)
STEP_TESTS(num_queues)
STEP_TESTS(ns_list)
STEP_TESTS(id_ns)
STEP_TESTS(ns_descs)
STEP_TESTS(events)

REFUSED_TEST(read_cap)
REFUSED_TEST(read_vs)
REFUSED_TEST(enable)
REFUSED_TEST(ready)
REFUSED_TEST(id_ctrl)
REFUSED_TEST(num_queues)
REFUSED_TEST(ns_list)

OPTIONAL_TEST(id_nvm)
OPTIONAL_TEST(ns_descs)
OPTIONAL_TEST(events)

Test(connect, refused_by_connect_with_another_status)
{
	step_fails(&fabrics_connect, NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR, -ECONNREFUSED,
		   "0x0006");
}

Test(connect, short_response)
{
	step_fails(&id_ctrl, NVMFR_SOFT_FAULT_SHORT, 8, -ECONNABORTED, "8 bytes");
}

Test(connect, duplicate_response)
{
	struct flow f;

	/* The first of the two ends the step: the next one may be named. */
	target_up(&f);
	plan_step(&f, &id_ctrl, NVMFR_SOFT_FAULT_DUPLICATE, 0);
	cr_expect_eq(flow_try_connect(&f), -EPROTO);
	flow_says("duplicate");
	usable_then_down(&f);
}

Test(connect, one_namespace_refused_leaves_the_others)
{
	struct flow f;

	target_up(&f);
	flow_ns(&f, 4 * MIB, 4096);
	plan_step(&f, &id_ns, NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR);
	flow_connect(&f);
	cr_expect_eq(nvmfr_ns_next(f.ctrl, 0), 2,
		     "the second namespace is the first that is known");
	cr_expect_eq(flow_ctrl_info(&f).ns_count, 1);
	cr_expect(flow_logged(&f, "namespace 1 is left out"), "%s", f.log->text);
	flow_down(&f);
}

Test(connect, association_dropped_while_connecting)
{
	step_fails(&ns_list, NVMFR_SOFT_FAULT_DISCONNECT_ALL, 0, -ECONNRESET,
		   "closed every connection");
}

/* ---- the connection manager ------------------------------------------------------------------ */

static void cm_fails(uint32_t kind, uint64_t value, int err, const char *why)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, value);
	struct flow f;
	int got;

	target_up(&f);
	flow_plan(&f, &fault);
	got = flow_try_connect(&f);
	cr_expect_eq(got, err, "%d, not %d", got, err);
	flow_says(why);
	usable_then_down(&f);
}

#define REJECT_TEST(Name, Status, Words) \
	Test(connect, rejected_##Name) \
	{ \
		cm_fails(NVMFR_SOFT_FAULT_CM_REJECT, Status, -ECONNREFUSED, Words); \
	}

REJECT_TEST(without_private_data, 0, "nobody listens")
REJECT_TEST(length, 1, "invalid private data length")
REJECT_TEST(record_format, 2, "invalid record format")
REJECT_TEST(queue_id, 3, "invalid queue ID")
REJECT_TEST(send_queue_size, 4, "invalid host send queue size")
REJECT_TEST(receive_queue_size, 5, "invalid host receive queue size")
REJECT_TEST(inbound_depth, 7, "invalid inbound read depth")
REJECT_TEST(outbound_depth, 8, "invalid outbound read depth")
REJECT_TEST(controller_id, 9, "invalid controller ID")
REJECT_TEST(unknown_status, 77, "status 77")

Test(connect, unreachable)
{
	cm_fails(NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, -EHOSTUNREACH, "does not answer");
}

Test(connect, request_never_answered)
{
	cm_fails(NVMFR_SOFT_FAULT_CM_SILENCE, 0, -ETIMEDOUT, "RDMA connection");
}

Test(connect, disconnected_when_just_established)
{
	cm_fails(NVMFR_SOFT_FAULT_CM_DISCONNECT, 0, -ECONNRESET, "Fabrics Connect");
}

static void plan_cm(struct flow *f, uint32_t kind, uint64_t value, uint32_t count)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, value);

	fault.count = count;
	flow_plan(f, &fault);
}

static void retried_well(uint32_t kind, uint64_t value)
{
	struct flow f;

	target_up(&f);
	plan_cm(&f, kind, value, 3);
	flow_connect(&f);
	flow_down(&f);
}

Test(connect, no_resources_three_times_then_well)
{
	retried_well(NVMFR_SOFT_FAULT_CM_REJECT, 6);
}

Test(connect, stale_connection_three_times_then_well)
{
	retried_well(NVMFR_SOFT_FAULT_CM_STALE, 0);
}

/* The pause before the next attempt, as the host tells it. */
static int next_pause(struct flow *f)
{
	int pause;

	flow_settle(f);
	pause = nvmfr_host_timeout_ms(f->host);
	cr_assert_gt(pause, 0, "no pause between two attempts");
	flow_advance_ms(f, (uint32_t)pause);
	return pause;
}

Test(connect, pauses_between_attempts_grow)
{
	struct flow f;
	int pauses[3];

	target_up(&f);
	plan_cm(&f, NVMFR_SOFT_FAULT_CM_STALE, 0, 3);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(pauses); i++)
		pauses[i] = next_pause(&f);
	cr_expect_geq(pauses[1], 2 * pauses[0], "%d, %d, %d ms", pauses[0], pauses[1], pauses[2]);
	cr_expect_geq(pauses[2], 2 * pauses[1], "%d, %d, %d ms", pauses[0], pauses[1], pauses[2]);
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, -1), 0, "%s", nvmfr_last_error());
	flow_down(&f);
}

Test(connect, no_resources_for_ever)
{
	struct flow f;
	int got;

	target_up(&f);
	plan_cm(&f, NVMFR_SOFT_FAULT_CM_REJECT, 6, 0);
	got = flow_try_connect(&f);
	cr_expect(got == -ECONNREFUSED || got == -ETIMEDOUT, "%d", got);
	flow_says("no resources");
	usable_then_down(&f);
}

/* ---- who may, and whom ----------------------------------------------------------------------- */

Test(connect, unknown_subsystem)
{
	struct flow f;

	target_up(&f);
	f.opts.uri = "nvmf+soft://t/nqn.2026-12.org.example:nobody";
	cr_expect_eq(flow_try_connect(&f), -ENOENT);
	flow_says("nqn.2026-12.org.example:nobody");
	flow_says("Fabrics Connect");
	f.opts.uri = "nvmf+soft://t/" NVMFR_SOFT_SUBNQN;
	usable_then_down(&f);
}

Test(connect, host_not_allowed)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.flags = NVMFR_SOFT_DENY_HOSTS;
	flow_host(&f);
	flow_target(&f, &opts);
	cr_expect_eq(flow_try_connect(&f), -EACCES);
	flow_says(nvmfr_host_nqn(f.host));
	flow_says(NVMFR_SOFT_SUBNQN);
	flow_down(&f);
}

Test(connect, keep_alive_timeout_too_short_for_the_target)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct flow f;

	opts.kato_min_ms = 20000;
	flow_host(&f);
	flow_target(&f, &opts);
	cr_expect_eq(flow_try_connect(&f), -ECONNREFUSED);
	flow_says("Fabrics Connect");
	f.opts.kato_ms = 20000;
	flow_connect(&f);
	flow_down(&f);
}

Test(connect, authentication_demanded)
{
	/* Connect's answer: AUTHREQ (ATR) in the upper half of dword 0. */
	step_fails(&fabrics_connect, NVMFR_SOFT_FAULT_RESULT, UINT64_C(1) << 17 | 1, -EACCES,
		   "authentication");
}

Test(connect, reserved_controller_id)
{
	step_fails(&fabrics_connect, NVMFR_SOFT_FAULT_RESULT, 0xfff0, -EPROTO, "0xfff0");
}

/* ---- ready, or not --------------------------------------------------------------------------- */

Test(connect, fatal_status)
{
	step_fails(&ready, NVMFR_SOFT_FAULT_RESULT, 2, -EPROTO, "CSTS.CFS");
}

static int connect_with_delay(struct flow *f, uint8_t ready_timeout, uint32_t ready_after_ms)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.ready_timeout = ready_timeout;
	opts.ready_after_us = ready_after_ms * 1000;
	flow_host(f);
	flow_target(f, &opts);
	flow_ns(f, 4 * MIB, 512);
	f->opts.kato_ms = 0;
	return flow_try_connect(f);
}

Test(connect, ready_late_but_within_cap_to)
{
	struct flow f;

	cr_expect_eq(connect_with_delay(&f, 4, 1900), 0, "%s", nvmfr_last_error());
	flow_down(&f);
}

Test(connect, ready_beyond_cap_to)
{
	struct flow f;

	cr_expect_eq(connect_with_delay(&f, 4, 2100), -ETIMEDOUT);
	flow_says("wait for CSTS.RDY");
	flow_says("2000 ms");
	flow_down(&f);
}

Test(connect, cap_to_of_zero_still_waits_a_little)
{
	struct flow f;

	cr_expect_eq(connect_with_delay(&f, 0, 400), 0, "%s", nvmfr_last_error());
	flow_down(&f);
}

Test(connect, never_ready_ends_with_connect_timeout)
{
	struct flow f;

	/* CAP.TO allows 127.5 s, the connect has 30. */
	cr_expect_eq(connect_with_delay(&f, 255, 100000), -ETIMEDOUT);
	flow_says("wait for CSTS.RDY");
	flow_says("connect_timeout_ms");
	flow_down(&f);
}

/* ---- time ------------------------------------------------------------------------------------ */

Test(connect, slow_answers_add_up_to_connect_timeout)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 9000000);
	struct flow f;

	target_up(&f);
	f.opts.kato_ms = 0;
	fault.count = 0;
	flow_plan(&f, &fault);
	cr_expect_eq(flow_try_connect(&f), -ETIMEDOUT);
	flow_says("connect_timeout_ms");
	usable_then_down(&f);
}

Test(connect, slow_answers_within_the_limits)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 900000);
	struct flow f;

	target_up(&f);
	fault.count = 0;
	flow_plan(&f, &fault);
	flow_connect(&f);
	flow_down(&f);
}

Test(connect, wait_without_time_names_the_step)
{
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };
	struct flow f;

	target_up(&f);
	plan_step(&f, &id_ctrl, NVMFR_SOFT_FAULT_SILENCE, 0);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 100), -ETIMEDOUT);
	flow_says("identify controller");
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_CONNECTING);
	cr_expect_eq(nvmfr_ctrl_info(f.ctrl, &info), -EAGAIN);
	flow_says("still connecting");
	flow_down(&f);
}

Test(connect, given_up_at_any_step)
{
	struct flow f;

	target_up(&f);
	for (unsigned int passes = 0; passes < 20; passes++) {
		struct nvmfr_ctrl *ctrl;

		cr_assert_eq(nvmfr_connect(f.host, &f.opts, &ctrl), 0);
		for (unsigned int i = 0; i < passes; i++)
			cr_assert_eq(nvmfr_host_poll(f.host), 0);
		cr_expect_eq(nvmfr_disconnect(ctrl, (int)passes % 2 * PROMPTLY_MS), 0);
		cr_expect_eq(flow_counters(&f).open_connections, 0, "after %u passes", passes);
	}
	flow_down(&f);
}

Test(connect, target_gone_before_connect_ends)
{
	struct flow f;
	int got;

	target_up(&f);
	cr_assert_eq(nvmfr_connect(f.host, &f.opts, &f.ctrl), 0);
	nvmfr_soft_target_destroy(f.target);
	f.target = NULL;
	got = nvmfr_ctrl_wait(f.ctrl, -1);
	cr_expect(got == -ECONNREFUSED || got == -ECONNRESET, "%d", got);
	flow_says("RDMA connection");
	flow_down(&f);
}

Test(connect, service_thread_tells_the_same)
{
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	flow_ns(&f, 4 * MIB, 512);
	plan_step(&f, &id_ctrl, NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR);
	cr_expect_eq(flow_try_connect(&f), -EIO);
	flow_says("identify controller");
	usable_then_down(&f);
}
