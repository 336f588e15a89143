/* SPDX-License-Identifier: BSD-3-Clause */
/* What can go wrong while an I/O queue connects, and what becomes of controller and the other queues. */
#include "flow.h"

static void ctrl_up(struct flow *f)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, 4 * MIB, 512);
	flow_connect(f);
}

/* Two connections: the controller's and the new queue's. */
static void usable_then_down(struct flow *f)
{
	cr_expect_eq(flow_counters(f).open_connections, 1,
		     "a failed queue leaves a connection open");
	nvmfr_soft_fault_clear(f->target);
	cr_expect_eq(nvmfr_ctrl_state(f->ctrl), NVMFR_STATE_LIVE);
	f->qp = flow_qpair(f, 8);
	flow_works(f);
	flow_down(f);
}

static void queue_fails(const struct nvmfr_soft_fault *fault, int err, const char *why)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_qpair *qp;
	struct flow f;
	int got;

	ctrl_up(&f);
	flow_plan(&f, fault);
	got = flow_try_qpair(&f, &opts, &qp);
	cr_expect_eq(got, err, "%d, not %d", got, err);
	flow_says("queue 1");
	flow_says(why);
	usable_then_down(&f);
}

/* ---- the connection manager ------------------------------------------------------------------ */

static void cm_fails(uint32_t kind, uint64_t value, int err, const char *why)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 1, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, value);

	fault.count = 0;
	queue_fails(&fault, err, why);
}

#define REJECT_TEST(Name, Status, Words) \
	Test(ioqueue, rejected_##Name) \
	{ \
		cm_fails(NVMFR_SOFT_FAULT_CM_REJECT, Status, -ECONNREFUSED, Words); \
	}

REJECT_TEST(without_private_data, 0, "nobody listens")
REJECT_TEST(length, 1, "invalid private data length")
REJECT_TEST(record_format, 2, "invalid record format")
REJECT_TEST(queue_id, 3, "invalid queue ID")
REJECT_TEST(send_queue_size_whatever_it_is, 4, "invalid host send queue size")
REJECT_TEST(receive_queue_size_whatever_it_is, 5, "invalid host receive queue size")
REJECT_TEST(for_lack_of_resources_for_ever, 6, "no resources")
REJECT_TEST(inbound_depth, 7, "invalid inbound read depth")
REJECT_TEST(outbound_depth, 8, "invalid outbound read depth")
REJECT_TEST(controller_id, 9, "invalid controller ID")

Test(ioqueue, unreachable)
{
	cm_fails(NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, -EHOSTUNREACH, "does not answer");
}

Test(ioqueue, request_never_answered)
{
	cm_fails(NVMFR_SOFT_FAULT_CM_SILENCE, 0, -ETIMEDOUT, "RDMA connection");
}

Test(ioqueue, disconnected_when_just_established)
{
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_CM_DISCONNECT, 1, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);

	queue_fails(&fault, -ECONNRESET, "closed the connection");
}

static void retried_well(uint32_t kind, uint64_t value, unsigned int wanted, unsigned int depth)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 1, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, value);
	struct flow f;

	ctrl_up(&f);
	fault.count = 2;
	flow_plan(&f, &fault);
	f.qp = flow_qpair(&f, wanted);
	cr_expect_eq(flow_qpair_info(f.qp).depth, depth);
	flow_works(&f);
	flow_down(&f);
}

#define RETRIED_TEST(Name, Kind, Value, Wanted, Depth) \
	Test(ioqueue, Name) \
	{ \
		retried_well(Kind, Value, Wanted, Depth); \
	}

RETRIED_TEST(no_resources_twice_then_well, NVMFR_SOFT_FAULT_CM_REJECT, 6, 64, 64)
RETRIED_TEST(stale_connection_twice_then_well, NVMFR_SOFT_FAULT_CM_STALE, 0, 64, 64)
RETRIED_TEST(send_queue_too_large_twice_then_a_quarter, NVMFR_SOFT_FAULT_CM_REJECT, 4, 64, 16)
RETRIED_TEST(receive_queue_too_large_twice_then_a_quarter, NVMFR_SOFT_FAULT_CM_REJECT, 5, 64, 16)

/* ---- Fabrics Connect ------------------------------------------------------------------------- */

static void connect_fails(uint32_t kind, uint64_t value, int err, const char *why)
{
	struct nvmfr_soft_fault fault = flow_fault(kind, 1, OPC_FABRICS, FCTYPE_CONNECT, value);

	queue_fails(&fault, err, why);
}

#define CONNECT_TEST(Name, Kind, Value, Err, Why) \
	Test(ioqueue, Name) \
	{ \
		connect_fails(Kind, Value, Err, Why); \
	}

CONNECT_TEST(connect_refused, NVMFR_SOFT_FAULT_STATUS, STATUS_INTERNAL_ERROR, -ECONNREFUSED, "0x0006")
CONNECT_TEST(connect_refused_for_a_parameter, NVMFR_SOFT_FAULT_STATUS, 0x0182, -EPROTO, "parameter")
CONNECT_TEST(connect_refused_as_busy, NVMFR_SOFT_FAULT_STATUS, 0x0181, -EBUSY, "busy")
CONNECT_TEST(connect_unanswered, NVMFR_SOFT_FAULT_SILENCE, 0, -ETIMEDOUT, "Fabrics Connect")
CONNECT_TEST(connect_dropped, NVMFR_SOFT_FAULT_DISCONNECT, 0, -ECONNRESET, "closed the connection")
CONNECT_TEST(connect_broken, NVMFR_SOFT_FAULT_QP_ERROR, 0, -ECONNABORTED, "a SEND failed")
CONNECT_TEST(connect_answered_with_a_wrong_cid, NVMFR_SOFT_FAULT_WRONG_CID, 0x0777, -EPROTO, "CID 0x")
CONNECT_TEST(connect_answered_shortly, NVMFR_SOFT_FAULT_SHORT, 15, -ECONNABORTED, "15 bytes")

Test(ioqueue, connect_answered_twice_takes_the_association)
{
	struct nvmfr_completion done;
	struct flow f;

	ctrl_up(&f);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_DUPLICATE, OPC_FABRICS, 0);
	f.qp = flow_qpair(&f, 8);
	cr_expect_eq(flow_drain(f.qp, &done, 1), 0);
	flow_says("duplicate");
	flow_down(&f);
}

/* ---- others ---------------------------------------------------------------------------------- */

Test(ioqueue, one_that_fails_leaves_the_others)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);
	struct nvmfr_soft_fault fault =
		flow_fault(NVMFR_SOFT_FAULT_DISCONNECT, 2, OPC_FABRICS, NVMFR_SOFT_ANY, 0);
	struct nvmfr_qpair *second;
	struct flow f;

	ctrl_up(&f);
	f.qp = flow_qpair(&f, 8);
	flow_plan(&f, &fault);
	cr_expect_eq(flow_try_qpair(&f, &opts, &second), -ECONNRESET);
	flow_works(&f);
	flow_down(&f);
}

Test(ioqueue, controller_lost_while_one_connects)
{
	struct nvmfr_qpair *another;
	struct flow f;

	ctrl_up(&f);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_FABRICS, 0);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &f.qp), 0);
	flow_settle(&f);
	nvmfr_soft_drop(f.target);
	cr_expect_lt(nvmfr_qpair_wait(f.qp, -1), 0);
	flow_says("dropped");
	flow_settle(&f);
	cr_expect_eq(nvmfr_ctrl_state(f.ctrl), NVMFR_STATE_LOST);
	cr_expect_eq(nvmfr_ctrl_wait(f.ctrl, 0), -ENOTCONN);
	cr_expect_eq(nvmfr_qpair_create(f.ctrl, NULL, &another), -ENOTCONN);
	flow_says("dropped");
	flow_down(&f);
}

Test(ioqueue, destroyed_while_connecting)
{
	struct nvmfr_soft_fault fault = flow_fault(NVMFR_SOFT_FAULT_SILENCE, NVMFR_SOFT_ANY,
						   OPC_FABRICS, NVMFR_SOFT_ANY, 0);
	struct flow f;

	ctrl_up(&f);
	fault.count = 0;
	flow_plan(&f, &fault);
	for (unsigned int passes = 0; passes < 6; passes++) {
		struct nvmfr_qpair *qp;

		cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &qp), 0);
		for (unsigned int i = 0; i < passes; i++)
			cr_assert_eq(nvmfr_host_poll(f.host), 0);
		nvmfr_qpair_destroy(qp);
	}
	usable_then_down(&f);
}

Test(ioqueue, not_usable_before_it_is_live)
{
	struct nvmfr_completion done;
	struct nvmfr_qpair_info info;
	struct flow f;

	ctrl_up(&f);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &f.qp), 0);
	cr_expect_eq(nvmfr_poll(f.qp, &done, 1), 0);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, NULL, 0, 0), -EAGAIN);
	info = flow_qpair_info(f.qp);
	cr_expect_eq(info.state, NVMFR_STATE_CONNECTING);
	cr_expect_eq(info.in_flight, 0);
	cr_expect_eq(nvmfr_qpair_wait(f.qp, -1), 0, "%s", nvmfr_last_error());
	cr_expect_eq(flow_qpair_info(f.qp).state, NVMFR_STATE_LIVE);
	flow_works(&f);
	flow_down(&f);
}

Test(ioqueue, becomes_live_by_polling_alone)
{
	struct nvmfr_completion done;
	struct flow f;

	ctrl_up(&f);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &f.qp), 0);
	for (unsigned int i = 0; i < 1000 && flow_qpair_info(f.qp).state == NVMFR_STATE_CONNECTING;
	     i++) {
		cr_assert_eq(nvmfr_host_poll(f.host), 0);
		cr_assert_eq(nvmfr_poll(f.qp, &done, 1), 0);
	}
	cr_expect_eq(flow_qpair_info(f.qp).state, NVMFR_STATE_LIVE);
	flow_works(&f);
	flow_down(&f);
}

Test(ioqueue, all_that_were_granted_and_no_more)
{
	struct nvmfr_soft_opts soft = flow_soft_opts();
	struct nvmfr_qpair *qps[20], *one_more;
	struct flow f;

	soft.num_io_queues = ARRAY_SIZE(qps);
	flow_host(&f);
	flow_target(&f, &soft);
	flow_connect(&f);
	cr_assert_eq(flow_ctrl_info(&f).num_io_queues, ARRAY_SIZE(qps));
	/* All at once: more than the service connects in parallel. */
	for (unsigned int i = 0; i < ARRAY_SIZE(qps); i++)
		cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &qps[i]), 0);
	cr_expect_eq(nvmfr_qpair_create(f.ctrl, NULL, &one_more), -ENOSPC);
	flow_says("20");
	for (unsigned int i = 0; i < ARRAY_SIZE(qps); i++)
		cr_expect_eq(nvmfr_qpair_wait(qps[i], -1), 0, "%u: %s", i, nvmfr_last_error());
	for (unsigned int i = 0; i < ARRAY_SIZE(qps); i++)
		cr_expect_eq(flow_qpair_info(qps[i]).qid, i + 1);
	nvmfr_qpair_destroy(qps[4]);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &qps[4]), 0, "a queue ID is free again");
	cr_expect_eq(nvmfr_qpair_wait(qps[4], -1), 0, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < ARRAY_SIZE(qps); i++)
		nvmfr_qpair_destroy(qps[i]);
	flow_down(&f);
}

Test(ioqueue, wait_without_time_says_that_it_still_connects)
{
	struct flow f;

	ctrl_up(&f);
	flow_plan_io(&f, NVMFR_SOFT_FAULT_SILENCE, OPC_FABRICS, 0);
	cr_assert_eq(nvmfr_qpair_create(f.ctrl, NULL, &f.qp), 0);
	cr_expect_eq(nvmfr_qpair_wait(f.qp, 50), -ETIMEDOUT);
	flow_says("queue 1");
	flow_says("connecting");
	flow_down(&f);
}
