/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets that break off at any point of a connect or of a recovery, or come back as another: what was in flight is
 * told once, nothing is left behind, and the next attempt is as good as any.
 */
#include "flow.h"

enum { BLOCK = 512,
       READS = FLOW_DEPTH };

/* ---- where it breaks off ------------------------------------------------------------------------ */

#define ANY			       NVMFR_SOFT_ANY
#define CM(Kind, Qid)		       NVMFR_SOFT_FAULT_CM_##Kind, Qid, ANY, ANY, 0
#define CUT(Qid, Opcode, Detail, Skip) NVMFR_SOFT_FAULT_DISCONNECT, Qid, Opcode, Detail, Skip

static const struct point {
	const char *name;
	uint32_t kind, qid, opcode, detail, skip;
} points[] = {
	{ "unreachable", CM(UNREACHABLE, 0) },
	{ "rejected", CM(REJECT, 0) },
	{ "request never answered", CM(SILENCE, 0) },
	{ "established, then cut off", CM(DISCONNECT, 0) },
	{ "Fabrics Connect", CUT(0, OPC_FABRICS, FCTYPE_CONNECT, 0) },
	{ "read CAP", CUT(0, OPC_FABRICS, FCTYPE_PROPERTY_GET, 0) },
	{ "enable", CUT(0, OPC_FABRICS, FCTYPE_PROPERTY_SET, 0) },
	{ "wait for CSTS.RDY", CUT(0, OPC_FABRICS, FCTYPE_PROPERTY_GET, 2) },
	{ "identify controller", CUT(0, OPC_IDENTIFY, CNS_CTRL, 0) },
	{ "number of queues", CUT(0, OPC_SET_FEATURES, FID_NUM_QUEUES, 0) },
	{ "configure events", CUT(0, OPC_SET_FEATURES, FID_EVENT_CONFIG, 0) },
	{ "active namespaces", CUT(0, OPC_IDENTIFY, CNS_ACTIVE_LIST, 0) },
	{ "identify the second namespace", CUT(0, OPC_IDENTIFY, CNS_NS, 1) },
	{ "namespace descriptors", CUT(0, OPC_IDENTIFY, CNS_NS_DESCS, 0) },
	{ "queue 1 unreachable", CM(UNREACHABLE, 1) },
	{ "queue 1 rejected", CM(REJECT, 1) },
	{ "queue 1, request never answered", CM(SILENCE, 1) },
	{ "queue 1 established, then cut off", CM(DISCONNECT, 1) },
	{ "queue 1, Fabrics Connect", CUT(1, OPC_FABRICS, FCTYPE_CONNECT, 0) },
};

static void plan(const struct flow *f, const struct point *point, uint32_t count)
{
	struct nvmfr_soft_fault fault = flow_fault(point->kind, point->qid, point->opcode, point->detail, 0);

	fault.skip = point->skip;
	fault.count = count;
	flow_plan(f, &fault);
}

static void target_up(struct flow *f, uint32_t loss_ms)
{
	flow_host(f);
	flow_target(f, NULL);
	flow_ns(f, 4 * MIB, BLOCK);
	flow_ns(f, 4 * MIB, BLOCK);
	f->opts.ctrl_loss_timeout_ms = loss_ms;
	f->opts.reconnect_delay_ms = 100;
}

Test(anew, a_first_connect_cut_off_at_each_point, .timeout = 60)
{
	struct nvmfr_qpair_opts opts = flow_qpair_opts(8);

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		struct flow f;
		int err;

		target_up(&f, 0);
		plan(&f, &points[i], 1);
		err = flow_try_connect(&f);
		cr_expect_eq(!err, points[i].qid != 0, "%s: %d", points[i].name, err);
		if (!err)
			err = flow_try_qpair(&f, &opts, &f.qp);
		cr_expect_lt(err, 0, "%s", points[i].name);
		cr_expect_eq(flow_counters(&f).open_connections, points[i].qid, "%s", points[i].name);
		if (!f.ctrl)
			flow_connect(&f);
		f.qp = flow_qpair(&f, 8);
		flow_works(&f);
		flow_down(&f);
	}
}

/* The attempt that it hits fails, and the one after it; the handles come back. */
Test(anew, a_recovery_cut_off_at_each_point, .timeout = 60)
{
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		struct flow f;

		target_up(&f, UINT32_MAX);
		flow_connect(&f);
		f.qp = flow_qpair(&f, 8);
		plan(&f, &points[i], 2);
		nvmfr_soft_drop(f.target);
		flow_settle(&f);
		cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s: %s", points[i].name, nvmfr_last_error());
		cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s: %s", points[i].name, nvmfr_last_error());
		cr_expect_eq(flow_counters(&f).open_connections, 2, "%s", points[i].name);
		flow_works(&f);
		flow_down(&f);
	}
}

/* Of the reads in flight those before the cut are answered, and each is told once; so it is on the next connection. */
Test(anew, cut_off_in_the_middle_of_reads, .timeout = 60)
{
	static const uint32_t kinds[] = { NVMFR_SOFT_FAULT_DISCONNECT, NVMFR_SOFT_FAULT_DISCONNECT_ALL,
					  NVMFR_SOFT_FAULT_QP_ERROR };
	static const uint32_t skips[] = { 0, 1, 64, READS - 1 };

	for (size_t i = 0; i < ARRAY_SIZE(kinds) * ARRAY_SIZE(skips); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(kinds[i % ARRAY_SIZE(kinds)], 1, OPC_READ, ANY, 0);
		struct nvmfr_buffer *buf;
		struct flow f;

		fault.skip = skips[i / ARRAY_SIZE(kinds)];
		target_up(&f, UINT32_MAX);
		flow_connect(&f);
		f.qp = flow_qpair(&f, READS);
		buf = flow_alloc(&f, READS * BLOCK);
		for (unsigned int turn = 0; turn < 2; turn++) {
			struct nvmfr_completion done[READS];
			struct flow_outcome o = { .n = READS };

			flow_plan(&f, &fault);
			flow_reads(&f, buf, READS);
			flow_wait(f.qp, done, READS);
			flow_note(&o, done, READS);
			flow_each_once(&o);
			cr_expect_eq(flow_count(&o, 0), fault.skip, "%u ended well", flow_count(&o, 0));
			cr_expect_eq(flow_count(&o, -ECONNABORTED), READS - fault.skip);
			cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
			cr_expect_eq(flow_counters(&f).open_connections, 2);
			flow_works(&f);
		}
		flow_release(buf);
		flow_down(&f);
	}
}

/* ---- it comes back as another ------------------------------------------------------------------- */

enum { SPACES = 3 };

static const uint8_t other_identity[16] = { 0x6f, 0x74, 0x68, 0x65, 0x72 };

/* Namespace 1 shrinks to half of it, 2 goes, 3 is another. The association that follows has another CNTLID. */
static void replace(struct flow *f)
{
	cr_assert_eq(nvmfr_soft_port_set(f->target, 1, 0), 0);
	flow_settle(f);
	cr_assert_eq(nvmfr_soft_ns_resize(f->target, 1, READS * BLOCK / 2), 0);
	cr_assert_eq(nvmfr_soft_ns_remove(f->target, 2), 0);
	flow_patch(f, CNS_NS_DESCS, 3, 4, other_identity, sizeof(other_identity));
}

static void expect_replaced(struct flow *f, uint16_t old_cntlid)
{
	static const uint64_t changes[] = { NVMFR_NS_CHANGE_SIZE, 0, NVMFR_NS_CHANGE_IDENTITY };
	struct nvmfr_ns_info info = { .size = sizeof(info) };
	unsigned int told[SPACES] = { 0 };
	struct nvmfr_event event;

	cr_expect_neq(flow_ctrl_info(f).cntlid, old_cntlid);
	cr_expect_eq(flow_ctrl_info(f).ns_count, SPACES - 1);
	cr_assert_eq(nvmfr_ns_info(f->ctrl, 1, &info), 0);
	cr_expect_eq(info.capacity_blocks, READS / 2);
	cr_expect_eq(nvmfr_ns_info(f->ctrl, 2, &info), -ENOENT);
	while (nvmfr_host_events(f->host, &event, 1) == 1) {
		if (!event.nsid)
			continue;
		told[event.nsid - 1]++;
		cr_expect_eq(event.type, event.nsid == 2 ? NVMFR_EVENT_NS_REMOVED : NVMFR_EVENT_NS_CHANGED);
		cr_expect_eq(event.value, changes[event.nsid - 1], "namespace %u", event.nsid);
	}
	for (unsigned int i = 0; i < SPACES; i++)
		cr_expect_eq(told[i], 1u, "namespace %u was told %u times", i + 1, told[i]);
}

static void expect_revalidated(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_io io = flow_io(f, NVMFR_OP_READ, READS / 2 - 1, 1, buf, 0);

	io.nsid = 1;
	flow_must(f->qp, &io);
	cr_expect_eq(nvmfr_read(f->qp, 1, READS / 2, 1, buf, 0, 0), -ERANGE);
	cr_expect_eq(nvmfr_read(f->qp, 2, 0, 1, buf, 0, 0), -ENOENT);
	cr_expect_eq(nvmfr_read(f->qp, 3, 0, 1, buf, 0, 0), -ESTALE);
}

/* Read i is of namespace i % 3. Well ends what is issued again and is there still. */
static bool ends_well(unsigned int i, uint32_t retry)
{
	return retry && i % SPACES == 0 && i < READS / 2;
}

static void removed_under_reads(uint32_t retry)
{
	struct nvmfr_soft_fault held = flow_fault(NVMFR_SOFT_FAULT_SILENCE, 1, OPC_READ, ANY, 0);
	struct nvmfr_qpair_opts opts = flow_qpair_opts(READS);
	struct nvmfr_completion done[READS];
	struct flow_outcome o = { .n = READS };
	struct nvmfr_buffer *buf;
	uint16_t old_cntlid;
	struct flow f;

	target_up(&f, UINT32_MAX);
	flow_ns(&f, 4 * MIB, BLOCK);
	flow_connect(&f);
	opts.retry = retry;
	cr_assert_eq(flow_try_qpair(&f, &opts, &f.qp), 0, "%s", nvmfr_last_error());
	buf = flow_alloc(&f, READS * BLOCK);
	old_cntlid = flow_ctrl_info(&f).cntlid;
	held.count = READS;
	flow_plan(&f, &held);
	for (unsigned int i = 0; i < READS; i++)
		cr_assert_eq(nvmfr_read(f.qp, i % SPACES + 1, i, 1, buf, i * (uint64_t)BLOCK, i), 0);
	cr_expect_eq(nvmfr_poll(f.qp, done, READS), 0);
	replace(&f);
	/* For longer than its keep-alive timeout. */
	flow_idle_ms(&f, 20000);
	cr_assert_eq(nvmfr_soft_port_set(f.target, 1, 1), 0);
	flow_wait(f.qp, done, READS);
	flow_note(&o, done, READS);
	flow_each_once(&o);
	for (unsigned int i = 0; i < READS; i++)
		cr_expect_eq(o.last[i].result, ends_well(i, retry) ? 0 : -ECONNABORTED, "read %u: %d, status %x", i,
			     o.last[i].result, o.last[i].status);
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	expect_replaced(&f, old_cntlid);
	expect_revalidated(&f, buf);
	f.nsid = 1;
	flow_works(&f);
	flow_release(buf);
	flow_down(&f);
}

Test(anew, removed_under_reads_and_back_as_another, .timeout = 60)
{
	removed_under_reads(NVMFR_RETRY_NONE);
	removed_under_reads(NVMFR_RETRY_READS);
}
