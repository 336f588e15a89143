/* SPDX-License-Identifier: BSD-3-Clause */
/* The soft fabric's controller: connection requests, Fabrics, admin and I/O commands. */
#include "soft_rig.h"

#include "base/util.h"
#include "wire/discovery.h"
#include "wire/logpage.h"

/* ---- connection requests ---------------------------------------------------------------------- */

struct request_case {
	const char *name;
	uint16_t qid, hrqsize, hsqsize, cntlid, recfmt;
	uint16_t want;
};

Test(soft_cm, rejects)
{
	static const struct request_case cases[] = {
		{ "fine", 3, 33, 32, 1, 0, 0 },
		{ "record format", 3, 33, 32, 1, 1, NVME_CM_INVALID_RECFMT },
		{ "other queue", 4, 33, 32, 1, 0, NVME_CM_INVALID_QID },
		{ "send queue empty", 3, 33, 0, 1, 0, NVME_CM_INVALID_HSQSIZE },
		{ "send queue too long", 3, 1025, 1024, 1, 0, NVME_CM_INVALID_HSQSIZE },
		{ "longest send queue", 3, 1024, 1023, 1, 0, 0 },
		{ "receive queue short", 3, 32, 32, 1, 0, NVME_CM_INVALID_HRQSIZE },
		{ "unknown controller", 3, 33, 32, 77, 0, NVME_CM_INVALID_CNTLID },
	};
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct request_case *c = &cases[i];
		struct nvme_cm_request request = {
			.recfmt = to_le16(c->recfmt),
			.qid = to_le16(c->qid),
			.hrqsize = to_le16(c->hrqsize),
			.hsqsize = to_le16(c->hsqsize),
			.cntlid = to_le16(c->cntlid),
		};
		struct fab_ep *ep = rig_ep(&rig, 3, 32);
		struct fab_event ev = rig_request(&rig, ep, request);

		cr_expect_eq(ev.type, c->want ? FAB_EV_FAILED : FAB_EV_CONNECTED, "%s: type", c->name);
		cr_expect_eq(ev.reject_status, c->want, "%s: status %u", c->name, ev.reject_status);
		if (c->want)
			cr_expect_not_null(strstr(ev.text, nvme_cm_status_name(c->want)), "%s: %s", c->name,
					   ev.text);
		ops->ep_destroy(ep);
	}
	rig_down(&rig);
}

struct cm_fault_case {
	uint32_t kind;
	uint64_t value;
	enum fab_event_type type;
	int err;
	uint16_t reject_status;
	bool retryable;
};

Test(soft_cm, faults)
{
	static const struct cm_fault_case cases[] = {
		{ NVMFR_SOFT_FAULT_CM_REJECT, 6, FAB_EV_FAILED, -ECONNREFUSED, 6, true },
		{ NVMFR_SOFT_FAULT_CM_REJECT, 4, FAB_EV_FAILED, -ECONNREFUSED, 4, false },
		{ NVMFR_SOFT_FAULT_CM_REJECT, 0, FAB_EV_FAILED, -ECONNREFUSED, 0, false },
		{ NVMFR_SOFT_FAULT_CM_STALE, 0, FAB_EV_FAILED, -ECONNREFUSED, 0, true },
		{ NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, FAB_EV_FAILED, -EHOSTUNREACH, 0, false },
		{ NVMFR_SOFT_FAULT_CM_DISCONNECT, 0, FAB_EV_CONNECTED, 0, 0, false },
	};
	struct rig rig;

	rig_open(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct cm_fault_case *c = &cases[i];
		struct fab_ep *ep = rig_ep(&rig, 0, 32);
		struct fab_event ev;

		rig_plan(&rig, c->kind, c->value);
		ev = rig_request(&rig, ep, nvme_cm_request(0, 32, 0));
		cr_expect(ev.type == c->type && ev.err == c->err && ev.reject_status == c->reject_status &&
				  ev.retryable == c->retryable,
			  "kind %u: type %d err %d status %u", c->kind, ev.type, ev.err, ev.reject_status);
		cr_expect(ev.type == FAB_EV_CONNECTED || ev.text[0], "kind %u: a sentence", c->kind);
		if (ev.type == FAB_EV_CONNECTED)
			cr_expect_eq(rig_event(&rig).type, FAB_EV_DISCONNECTED, "right after it");
		ops->ep_destroy(ep);
	}
	rig_plan(&rig, NVMFR_SOFT_FAULT_CM_SILENCE, 0);
	struct fab_ep *ep = rig_ep(&rig, 0, 32);
	struct nvme_cm_request request = nvme_cm_request(0, 32, 0);
	struct fab_event ev;

	cr_expect_eq(ops->ep_connect(ep, &request, sizeof(request)), 0, "starts");
	cr_expect_eq(ops->next_event(rig.fab, &ev), 0, "no answer");
	ops->ep_destroy(ep);
	rig_down(&rig);
}

/* ---- Connect ---------------------------------------------------------------------------------- */

struct connect_case {
	const char *name;
	size_t offset; /* of a byte of the data that is set */
	uint8_t byte;
	uint16_t sqsize;
	uint32_t flags;
	uint16_t want;
	uint64_t result;
};

Test(soft_connect, refusals)
{
	static const struct connect_case cases[] = {
		{ "fine", 0, 1, 32, 0, 0, 1 },
		{ "zero host ID", 0, 0, 32, 0, NVME_ST_CONNECT_INVALID_PARAM, 0x10000 },
		{ "host ID of one bit", 15, 0x80, 32, 0, 0, 1 },
		{ "wrong subnqn", 256, 'X', 32, 0, NVME_ST_CONNECT_INVALID_PARAM, 0x10100 },
		{ "dirt right behind subnqn", 256 + sizeof(NVMFR_SOFT_SUBNQN), 'X', 32, 0,
		  NVME_ST_CONNECT_INVALID_PARAM, 0x10100 },
		{ "dirt behind subnqn", 511, 'X', 32, 0, NVME_ST_CONNECT_INVALID_PARAM, 0x10100 },
		{ "dirt right behind hostnqn", 512 + sizeof(RIG_HOSTNQN), 'X', 32, 0,
		  NVME_ST_CONNECT_INVALID_PARAM, 0x10200 },
		{ "dirt behind hostnqn", 767, 'X', 32, 0, NVME_ST_CONNECT_INVALID_PARAM, 0x10200 },
		{ "no hostnqn", 512, 0, 32, 0, NVME_ST_CONNECT_INVALID_PARAM, 0x10200 },
		{ "fixed controller", 16, 0, 32, 0, NVME_ST_CONNECT_INVALID_PARAM, 0x10010 },
		{ "other SQSIZE", 0, 1, 31, 0, NVME_ST_CONNECT_INVALID_PARAM, 44 },
		{ "host refused", 0, 1, 32, NVMFR_SOFT_DENY_HOSTS, NVME_ST_CONNECT_INVALID_HOST, 0x10200 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct connect_case *c = &cases[i];
		struct nvmfr_soft_opts opts;
		struct nvme_connect_data data;
		struct nvme_cqe cqe;
		struct rig rig;

		nvmfr__soft_opts_default(&opts);
		opts.flags = c->flags;
		rig_open(&rig, &opts);
		data = rig_connect_data(&rig, NVME_CNTLID_DYNAMIC);
		((unsigned char *)&data)[c->offset] = c->byte;
		rig.admin = (struct queue){ .ep = rig_ep(&rig, 0, 32) };
		rig_request(&rig, rig.admin.ep, nvme_cm_request(0, 32, 0));
		cqe = rig_fabrics_connect(&rig, &rig.admin, 0, c->sqsize, &data);
		cr_expect_eq(rig_status(cqe), c->want, "%s: %x", c->name, rig_status(cqe));
		cr_expect_eq(nvme_status_dnr(nvme_cqe_status(&cqe)), c->want != 0, "%s: DNR", c->name);
		cr_expect_eq(from_le64(cqe.result), c->result, "%s: result %llx", c->name,
			     (unsigned long long)from_le64(cqe.result));
		rig_down(&rig);
	}
}

Test(soft_connect, no_in_capsule_data_on_the_admin_queue)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct fab_carry tail;

	rig_open(&rig, NULL);
	rig.admin = (struct queue){ .ep = rig_ep(&rig, 0, 32) };
	nvmfr__soft_ep(rig.admin.ep)->in_capsule = true;
	rig_request(&rig, rig.admin.ep, nvme_cm_request(0, 32, 0));
	nvme_sqe_connect(&sqe, 0, 32, 0, 0);
	sqe.dptr = nvme_sgl_icd(0, 1024);
	tail = (struct fab_carry){ .addr = (uintptr_t)rig.data, .bytes = 1024, .lkey = rig.mr.lkey };
	rig_post(&rig.admin, &sqe, &tail);
	rig_answer(&rig.admin);
	cr_expect(rig.admin.bad, "the connection is gone");
	cr_expect_eq(rig_event(&rig).type, FAB_EV_DISCONNECTED, "event");
	rig_down(&rig);
}

Test(soft_connect, queue_that_exists)
{
	struct rig rig;
	struct queue q;
	struct nvme_connect_data data;

	rig_up(&rig, NULL);
	q = (struct queue){ .ep = rig_ep(&rig, 1, 8) };
	rig_request(&rig, q.ep, nvme_cm_request(1, 8, rig.cntlid));
	data = rig_connect_data(&rig, rig.cntlid);
	cr_expect_eq(rig_status(rig_fabrics_connect(&rig, &q, 1, 8, &data)), NVME_ST_SEQUENCE_ERROR);
	ops->ep_destroy(q.ep);
	rig_down(&rig);
}

struct identity_case {
	const char *name;
	size_t offset; /* of bytes of the data that are set */
	const char *bytes;
	uint64_t result; /* 0: fine */
};

/* What the admin queue said holds for its association: an I/O queue that says otherwise is refused. */
Test(soft_connect, io_queue_of_another)
{
	static const struct identity_case cases[] = {
		{ "other host ID", 0, "\x09", 0x10000 },
		{ "host ID, last byte", 15, "\x01", 0x10000 },
		{ "no host ID", 0, "", 0x10000 },
		{ "other hostnqn", 512, "nqn.2026-12.org.example:x", 0x10200 },
		{ "longer hostnqn", 512 + sizeof(RIG_HOSTNQN) - 1, "2", 0x10200 },
		{ "dirt behind hostnqn", 512 + sizeof(RIG_HOSTNQN), "2", 0x10200 },
		{ "other subnqn", 256, "nqn.2026-12.org.example:x", 0x10100 },
		{ "dirt behind subnqn", 256 + sizeof(NVMFR_SOFT_SUBNQN), "2", 0x10100 },
		{ "discovery", 256, NVME_DISCOVERY_NQN, 0x10100 },
		{ "other controller", 16, "\x4d", 0x10010 },
		{ "the same", 0, "\x01", 0 },
	};
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct identity_case *c = &cases[i];
		struct nvme_connect_data data = rig_connect_data(&rig, rig.cntlid);
		size_t bytes = c->offset == 256 || c->offset == 512 ? NVME_NQN_FIELD_BYTES : 1;
		struct queue q = { .ep = rig_ep(&rig, 2, 8) };
		struct nvme_cqe cqe;

		strncpy((char *)&data + c->offset, c->bytes, bytes);
		rig_request(&rig, q.ep, nvme_cm_request(2, 8, rig.cntlid));
		cqe = rig_fabrics_connect(&rig, &q, 2, 8, &data);
		cr_expect_eq(rig_status(cqe), c->result ? NVME_ST_CONNECT_INVALID_PARAM : 0, "%s: %x",
			     c->name, rig_status(cqe));
		cr_expect_eq(from_le64(cqe.result), c->result ? c->result : rig.cntlid, "%s: %llx",
			     c->name, (unsigned long long)from_le64(cqe.result));
		ops->ep_destroy(q.ep);
	}
	rig_down(&rig);
}

static uint16_t second_host(struct rig *rig, uint8_t hostid, char in_hostnqn)
{
	struct nvme_connect_data data = rig_connect_data(rig, NVME_CNTLID_DYNAMIC);
	struct queue q = { .ep = rig_ep(rig, 0, 32) };
	uint16_t status;

	data.hostid[0] = hostid;
	data.hostnqn[sizeof(RIG_HOSTNQN) - 2] = in_hostnqn;
	rig_request(rig, q.ep, nvme_cm_request(0, 32, 0));
	status = rig_status(rig_fabrics_connect(rig, &q, 0, 32, &data));
	ops->ep_destroy(q.ep);
	return status;
}

Test(soft_connect, a_host_id_belongs_to_one_host_nqn)
{
	struct rig rig;

	rig_up(&rig, NULL);
	cr_expect_eq(second_host(&rig, 1, '2'), NVME_ST_CONNECT_INVALID_HOST, "taken");
	cr_expect_eq(second_host(&rig, 1, '1'), 0, "the same host again");
	cr_expect_eq(second_host(&rig, 2, '2'), 0, "another host");
	cr_expect_eq(second_host(&rig, 2, '3'), 0, "the ID is free when its host has left");
	cr_expect_eq(second_host(&rig, 3, '1'), 0, "one host NQN, several IDs");
	rig_down(&rig);
}

Test(soft_connect, commands_before_connect)
{
	struct rig rig;
	struct nvme_sqe sqe;

	rig_open(&rig, NULL);
	rig.admin = (struct queue){ .ep = rig_ep(&rig, 0, 32) };
	rig_request(&rig, rig.admin.ep, nvme_cm_request(0, 32, 0));
	nvme_sqe_property_get(&sqe, NVME_PROP_VS, false);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), NVME_ST_SEQUENCE_ERROR, "property");
	nvme_sqe_identify(&sqe, NVME_CNS_CTRL, 0, 0);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), NVME_ST_SEQUENCE_ERROR, "identify");
	rig_down(&rig);
}

/* ---- controller ------------------------------------------------------------------------------- */

static uint32_t read_csts(struct rig *rig)
{
	struct nvme_sqe sqe;

	nvme_sqe_property_get(&sqe, NVME_PROP_CSTS, false);
	return (uint32_t)from_le64(rig_do(&rig->admin, &sqe).result);
}

Test(soft_ctrl, ready_and_shutdown)
{
	struct nvmfr_soft_opts opts;
	struct nvme_sqe sqe;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.ready_after_us = 100;
	rig_open(&rig, &opts);
	nvmfr__clock_freeze(&rig.clock);
	rig_up_admin(&rig);
	cr_expect_eq(read_csts(&rig), 0, "not ready yet");
	nvmfr__clock_advance_ns(&rig.clock, 100000);
	cr_expect_eq(read_csts(&rig), NVME_CSTS_RDY, "ready");
	nvme_sqe_property_set(&sqe, NVME_PROP_CC, false,
			      NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16 | NVME_CC_SHN_NORMAL);
	rig_do(&rig.admin, &sqe);
	cr_expect_eq(read_csts(&rig) & NVME_CSTS_SHST_MASK, NVME_CSTS_SHST_COMPLETE, "shut down");
	rig_down(&rig);
}

Test(soft_ctrl, identify)
{
	struct rig rig;
	struct ctrl_data ctrl;
	struct ns_data ns;
	struct ns_ids ids;
	uint32_t nsids[4];
	const uint8_t odd[] = { 0xff, 0xfe };

	rig_up(&rig, NULL);
	cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_CTRL, 0)), 0, "controller");
	cr_assert_eq(nvme_parse_ctrl(rig.data, &ctrl), 0, "%s", nvmfr__err_get());
	cr_expect_str_eq(ctrl.subnqn, NVMFR_SOFT_SUBNQN, "subnqn");
	cr_expect(ctrl.mdts == 8 && ctrl.ioccsz == 516 && ctrl.msdbd == 16, "limits");
	cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_NS, 1)), 0, "namespace");
	cr_assert_eq(nvme_parse_ns(rig.data, &ns), 0, "%s", nvmfr__err_get());
	cr_expect(ns.block_bytes == 512 && ns.nsze == 131072, "64 MiB of 512");
	cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_NS_DESCS, 1)), 0, "descriptors");
	cr_assert_eq(nvme_parse_ns_descs(rig.data, 4096, &ids), 0, "%s", nvmfr__err_get());
	cr_expect(ids.has_uuid && ids.has_nguid, "names");
	cr_expect_eq(rig_status(rig_identify(&rig, NVME_CNS_ACTIVE_LIST, 0)), 0, "list");
	cr_expect_eq(nvme_parse_active_list(rig.data, 0, nsids, 4), 1, "one");
	cr_expect_eq(rig_status(rig_identify(&rig, 0x55, 0)), NVME_ST_INVALID_FIELD, "unknown CNS");
	cr_assert_eq(nvmfr__soft_patch_identify(rig.target, NVME_CNS_CTRL, NVMFR_SOFT_ANY, 1803, odd, 2), 0,
		     "patch");
	rig_identify(&rig, NVME_CNS_CTRL, 0);
	cr_expect(rig.data[1803] == 0xff && rig.data[1804] == 0xfe, "patched");
	rig_down(&rig);
}

Test(soft_ctrl, features)
{
	struct rig rig;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	rig_up(&rig, NULL);
	nvme_sqe_set_num_queues(&sqe, 100);
	cqe = rig_do(&rig.admin, &sqe);
	cr_expect_eq(nvme_num_queues_granted(from_le64(cqe.result)), 64, "what there are");
	nvme_sqe_set_num_queues(&sqe, 3);
	cqe = rig_do(&rig.admin, &sqe);
	cr_expect_eq(nvme_num_queues_granted(from_le64(cqe.result)), 3, "what was asked for");
	nvme_sqe_get_features(&sqe, 0x77);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), NVME_ST_INVALID_FIELD, "unknown");
	rig_down(&rig);
}

static void arm_events(struct rig *rig)
{
	struct nvme_sqe sqe;

	nvme_sqe_set_features(&sqe, NVME_FEAT_ASYNC_EVENT_CONFIG, NVME_AEC_NS_ATTR);
	cr_assert_eq(rig_status(rig_do(&rig->admin, &sqe)), 0, "enable");
	nvme_sqe_async_event(&sqe);
	rig_post(&rig->admin, &sqe, NULL);
}

Test(soft_ctrl, namespace_events)
{
	struct nvmfr_soft_ns_opts ns;
	struct nvme_cqe cqe;
	struct nvme_sqe sqe;
	struct rig rig;

	rig_up(&rig, NULL);
	arm_events(&rig);
	cr_expect_eq(rig_poll(&rig.admin, &cqe), 0, "nothing happened");
	nvmfr__soft_ns_opts_default(&ns);
	ns.nsid = 9;
	cr_assert_eq(nvmfr__soft_ns_add(rig.target, &ns), 9, "add");
	cr_assert_eq(rig_poll(&rig.admin, &cqe), 1, "an event");
	cr_expect_eq(nvme_parse_aer(from_le64(cqe.result)).type, NVME_AER_NOTICE, "notice");
	cr_expect_eq(nvme_parse_aer(from_le64(cqe.result)).lid, NVME_LID_CHANGED_NS, "page");
	nvme_sqe_async_event(&sqe);
	rig_post(&rig.admin, &sqe, NULL);
	cr_assert_eq(nvmfr__soft_ns_remove(rig.target, 1), 0, "remove");
	cr_expect_eq(rig_poll(&rig.admin, &cqe), 0, "masked until the page is read");
	nvme_sqe_get_log(&sqe, NVME_LID_CHANGED_NS, NVME_NSID_ALL, 4096, 0, false);
	sqe.dptr = rig_sgl(&rig, 0, 4096);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), 0, "read the page");
	cr_expect(rig.data[0] == 1 && rig.data[4] == 9 && rig.data[8] == 0, "both, in order");
	cr_assert_eq(nvmfr__soft_ns_remove(rig.target, 9), 0, "remove");
	cr_expect_eq(rig_poll(&rig.admin, &cqe), 1, "announced again");
	cr_expect_eq(nvmfr__soft_ns_remove(rig.target, 9), -ENOENT, "it is gone");
	rig_down(&rig);
}

Test(soft_ctrl, event_requests_are_limited_and_aborted)
{
	struct nvme_sqe sqe;
	struct rig rig;
	uint16_t cid;

	rig_up(&rig, NULL);
	arm_events(&rig);
	cid = (uint16_t)(rig.admin.cid - 1);
	for (int i = 1; i < SOFT_AERS; i++)
		rig_post(&rig.admin, &sqe, (nvme_sqe_async_event(&sqe), NULL));
	nvme_sqe_async_event(&sqe);
	cr_expect_eq(rig_status(rig_do(&rig.admin, &sqe)), NVME_ST_AER_LIMIT, "one too many");
	nvme_sqe_abort(&sqe, 0, cid);
	rig_post(&rig.admin, &sqe, NULL);
	struct nvme_cqe cqe = { .status = to_le16(0) };

	cr_expect_eq(rig_poll(&rig.admin, &cqe), 2, "the request and the Abort");
	cr_expect(nvme_abort_done(from_le64(cqe.result)), "done");
	nvme_sqe_abort(&sqe, 1, 5);
	cr_expect(!nvme_abort_done(from_le64(rig_do(&rig.admin, &sqe).result)), "not done");
	rig_down(&rig);
}

Test(soft_ctrl, discovery)
{
	struct discovery_header header;
	struct discovery_record record;
	struct nvme_connect_data data;
	struct nvme_sqe sqe;
	struct rig rig;

	rig_open(&rig, NULL);
	data = rig_connect_data(&rig, NVME_CNTLID_DYNAMIC);
	memset(data.subnqn, 0, sizeof(data.subnqn));
	memcpy(data.subnqn, NVME_DISCOVERY_NQN, sizeof(NVME_DISCOVERY_NQN));
	rig.admin = (struct queue){ .ep = rig_ep(&rig, 0, 32) };
	rig_request(&rig, rig.admin.ep, nvme_cm_request(0, 32, 0));
	cr_assert_eq(rig_status(rig_fabrics_connect(&rig, &rig.admin, 0, 32, &data)), 0, "Connect");
	nvme_sqe_property_set(&sqe, NVME_PROP_CC, false, NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16);
	rig_do(&rig.admin, &sqe);
	nvme_sqe_get_log(&sqe, NVME_LID_DISCOVERY, 0, 2048, 0, false);
	sqe.dptr = rig_sgl(&rig, 0, 2048);
	cr_assert_eq(rig_status(rig_do(&rig.admin, &sqe)), 0, "log");
	cr_assert_eq(nvme_parse_discovery_header(rig.data, 1024, &header), 0, "%s", nvmfr__err_get());
	cr_expect_eq(header.numrec, 1, "one entry");
	cr_assert_eq(nvme_parse_discovery_record(rig.data + 1024, 1024, &record), 0, "%s", nvmfr__err_get());
	cr_expect_str_eq(record.subnqn, NVMFR_SOFT_SUBNQN, "itself");
	rig_down(&rig);
}

/* ---- I/O rules -------------------------------------------------------------------------------- */

struct io_case {
	const char *name;
	uint8_t opcode;
	uint32_t nsid;
	uint64_t lba;
	uint32_t blocks;
	uint32_t sgl_bytes;
	uint16_t want;
	uint64_t violations;
};

Test(soft_io, statuses)
{
	static const struct io_case cases[] = {
		{ "read", NVME_IO_READ, 1, 0, 1, 512, 0, 0 },
		{ "last block", NVME_IO_READ, 1, 131071, 1, 512, 0, 0 },
		{ "behind the end", NVME_IO_READ, 1, 131072, 1, 512, NVME_ST_LBA_RANGE, 0 },
		{ "over the end", NVME_IO_WRITE, 1, 131071, 2, 1024, NVME_ST_LBA_RANGE, 0 },
		{ "far", NVME_IO_READ, 1, UINT64_MAX, 2, 1024, NVME_ST_LBA_RANGE, 0 },
		{ "namespace 0", NVME_IO_READ, 0, 0, 1, 512, NVME_ST_INVALID_NAMESPACE, 0 },
		{ "namespace 2", NVME_IO_WRITE, 2, 0, 1, 512, NVME_ST_INVALID_NAMESPACE, 0 },
		{ "all namespaces", NVME_IO_READ, UINT32_MAX, 0, 1, 512, NVME_ST_INVALID_NAMESPACE, 0 },
		{ "opcode", 0x33, 1, 0, 1, 512, NVME_ST_INVALID_OPCODE, 0 },
		{ "flush", NVME_IO_FLUSH, 1, 0, 1, 0, 0, 0 },
		{ "flush all", NVME_IO_FLUSH, UINT32_MAX, 0, 1, 0, 0, 0 },
		{ "zeroes", NVME_IO_WRITE_ZEROES, 1, 0, 65536, 0, 0, 0 },
		{ "longest", NVME_IO_READ, 1, 0, 2048, 1 << 20, 0, 0 },
		{ "above MDTS", NVME_IO_READ, 1, 0, 2049, 512, NVME_ST_INVALID_FIELD, 1 },
		{ "short SGL", NVME_IO_READ, 1, 0, 2, 512, NVME_ST_SGL_DATA_LENGTH, 1 },
		{ "long SGL", NVME_IO_WRITE, 1, 0, 1, 1024, NVME_ST_SGL_DATA_LENGTH, 1 },
	};
	struct rig rig;
	uint64_t violations = 0;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct io_case *c = &cases[i];
		struct nvme_sqe sqe = rig_rw(&rig, c->opcode, c->lba, c->blocks);

		sqe.nsid = to_le32(c->nsid);
		sqe.dptr = rig_sgl(&rig, 0, c->sgl_bytes);
		cr_expect_eq(rig_status(rig_do(&rig.io, &sqe)), c->want, "%s", c->name);
		violations += c->violations;
		cr_expect_eq(rig_counters(&rig).violations, violations, "%s: violations", c->name);
	}
	rig_down(&rig);
}

Test(soft_io, queue_overrun_kills_the_association)
{
	struct rig rig;
	struct queue q;
	struct nvme_cqe cqe;
	char text[SOFT_VIOLATION_TEXT];

	rig_up(&rig, NULL);
	q = rig.io;
	for (int i = 0; i < RIG_DEPTH + 1; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);

		rig_post(&q, &sqe, NULL);
	}
	rig_poll(&q, &cqe);
	cr_expect(q.bad, "bad");
	nvmfr__soft_last_violation(rig.target, text, sizeof(text));
	cr_expect_not_null(strstr(text, "SQSIZE 32"), "%s", text);
	cr_expect_eq(ops->poll(rig.admin.ep), FAB_POLL_BAD, "the admin queue too");
	cr_expect_eq(rig_counters(&rig).max_outstanding, RIG_DEPTH + 1, "counted");
	rig_down(&rig);
}

Test(soft_io, duplicate_cid_kills_the_association)
{
	struct rig rig;
	struct nvme_cqe cqe;

	rig_up(&rig, NULL);
	for (int i = 0; i < 2; i++) {
		struct nvme_sqe sqe = rig_rw(&rig, NVME_IO_READ, 0, 1);

		rig.io.cid = 77;
		rig_post(&rig.io, &sqe, NULL);
	}
	rig_poll(&rig.io, &cqe);
	cr_expect(rig.io.bad, "bad");
	cr_expect_eq(rig_counters(&rig).violations, 1, "counted");
	rig_down(&rig);
}

Test(soft_io, capsule_longer_than_ioccsz)
{
	struct nvmfr_soft_opts opts;
	struct nvme_sqe sqe;
	struct fab_carry tail;
	struct rig rig;

	nvmfr__soft_opts_default(&opts);
	opts.ioccsz = 4 + 31;
	rig_up(&rig, &opts);
	tail = (struct fab_carry){ .addr = (uintptr_t)rig.data, .bytes = 512, .lkey = rig.mr.lkey };
	sqe = rig_rw(&rig, NVME_IO_WRITE, 0, 1);
	sqe.dptr = nvme_sgl_icd(0, 512);
	rig_post(&rig.io, &sqe, &tail);
	rig_answer(&rig.io);
	cr_expect(rig.io.bad, "the SEND fails");
	rig_down(&rig);
}
