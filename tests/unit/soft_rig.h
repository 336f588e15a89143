/* SPDX-License-Identifier: BSD-3-Clause */
/* A host's backend, a target and connected queues, driven through fab_ops as the queue floor does. */
#ifndef TESTS_UNIT_SOFT_RIG_H
#define TESTS_UNIT_SOFT_RIG_H

#include "testing.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "carry.h"
#include "fabric/soft.h"
#include "wire/admin.h"
#include "wire/cm.h"
#include "wire/fabrics.h"

enum { RIG_BYTES = 1 << 20, RIG_DEPTH = 32, RIG_WAIT_MS = 20000, POISON = 0xa5 };

#define RIG_HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"

struct queue {
	struct fab_ep *ep;
	uint32_t send_position, recv_position;
	uint16_t cid;
	uint32_t sends_done;
	uint64_t bad;
};

struct rig {
	struct nvmfr__clock clock;
	struct nvmfr__log log;
	struct fab_host fh;
	struct fab *fab;
	struct nvmfr_soft_target *target;
	unsigned char *data;
	struct fab_mr mr;
	struct queue admin, io;
	uint16_t cntlid;
};

static const struct fab_ops *const ops = &nvmfr__fab_soft;

/* ---- endpoints -------------------------------------------------------------------------------- */

static inline struct fab_event rig_event(struct rig *rig)
{
	struct fab_event ev = { .type = FAB_EV_NONE };
	struct pollfd fd = { .fd = ops->fd(rig->fab), .events = POLLIN };

	if (ops->next_event(rig->fab, &ev) == 0 && poll(&fd, 1, RIG_WAIT_MS) == 1)
		ops->next_event(rig->fab, &ev);
	return ev;
}

static inline struct fab_ep *rig_ep(struct rig *rig, uint16_t qid, uint16_t depth)
{
	struct fab_ep_params params = {
		.owner = rig,
		.qid = qid,
		.depth = depth,
		.max_descriptors = qid ? 4 : 1,
		.in_capsule = qid != 0,
		.want_fd = true,
		.target = rig->target,
	};
	struct fab_ep *ep = NULL;

	cr_assert_eq(ops->ep_create(rig->fab, &params, &ep), 0, "create: %s", nvmfr__err_get());
	return ep;
}

static inline struct fab_event rig_request(struct rig *rig, struct fab_ep *ep,
					   struct nvme_cm_request request)
{
	cr_assert_eq(ops->ep_connect(ep, &request, sizeof(request)), 0, "connect starts");
	return rig_event(rig);
}

/* ---- commands --------------------------------------------------------------------------------- */

static inline uint32_t rig_post(struct queue *q, struct nvme_sqe *sqe, const struct fab_carry *carry)
{
	uint32_t position = q->send_position;

	sqe->cid = to_le16(q->cid++);
	memcpy(q->ep->capsules + (size_t)position * FAB_CAPSULE_BYTES, sqe, sizeof(*sqe));
	if (carry)
		put_carry(q->ep, position, carry);
	cr_assert_eq(ops->post_send(q->ep, position, 1), 0, "post: %s", q->ep->error);
	q->send_position = position + 1 == q->ep->send_positions ? 0 : position + 1;
	return position;
}

/* Polls once. The number of responses; the last of them in cqe. */
static inline uint32_t rig_poll(struct queue *q, struct nvme_cqe *cqe)
{
	uint64_t word = ops->poll(q->ep);
	uint32_t n = FAB_POLL_RESPONSES(word);

	q->sends_done += FAB_POLL_SENDS(word);
	q->bad = word & FAB_POLL_BAD;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(cqe, q->ep->responses + (size_t)q->recv_position * FAB_RESPONSE_BYTES,
		       sizeof(*cqe));
		q->recv_position++;
		if (q->recv_position == q->ep->recv_positions)
			q->recv_position = 0;
	}
	if (n)
		cr_assert_eq(ops->post_recv(q->ep, n), 0, "repost");
	return n;
}

/* One response; a status of FFFFh: the connection is bad instead. */
static inline struct nvme_cqe rig_answer(struct queue *q)
{
	struct nvme_cqe cqe = { .status = to_le16(0xffff) };
	time_t end = time(NULL) + RIG_WAIT_MS / 1000;

	while (!rig_poll(q, &cqe) && !q->bad) {
		cr_assert(time(NULL) <= end, "no answer came");
		sched_yield();
	}
	return cqe;
}

static inline struct nvme_cqe rig_do(struct queue *q, struct nvme_sqe *sqe)
{
	rig_post(q, sqe, NULL);
	return rig_answer(q);
}

static inline uint16_t rig_status(struct nvme_cqe cqe)
{
	return nvme_status_code(nvme_cqe_status(&cqe));
}

static inline struct nvme_sgl rig_sgl(const struct rig *rig, uint32_t offset, uint32_t bytes)
{
	return nvme_sgl_keyed((uint64_t)(uintptr_t)rig->data + offset, bytes, rig->mr.rkey);
}

static inline struct nvme_sqe rig_rw(const struct rig *rig, uint8_t opcode, uint64_t lba,
				     uint32_t blocks)
{
	struct nvme_sqe sqe;

	nvme_sqe_init(&sqe, opcode);
	sqe.nsid = to_le32(1);
	sqe.cdw10 = to_le32((uint32_t)lba);
	sqe.cdw11 = to_le32((uint32_t)(lba >> 32));
	sqe.cdw12 = to_le32(blocks - 1);
	sqe.dptr = rig_sgl(rig, 0, blocks * 512);
	return sqe;
}

static inline struct nvme_cqe rig_identify(struct rig *rig, uint8_t cns, uint32_t nsid)
{
	struct nvme_sqe sqe;

	memset(rig->data, 0xee, NVME_IDENTIFY_BYTES);
	nvme_sqe_identify(&sqe, cns, nsid, 0);
	sqe.dptr = rig_sgl(rig, 0, NVME_IDENTIFY_BYTES);
	return rig_do(&rig->admin, &sqe);
}

/* ---- bringing up ------------------------------------------------------------------------------ */

static inline struct nvme_cqe rig_fabrics_connect(struct rig *rig, struct queue *q, uint16_t qid,
						  uint16_t depth, const struct nvme_connect_data *data)
{
	struct nvme_sqe sqe;

	memcpy(rig->data, data, sizeof(*data));
	nvme_sqe_connect(&sqe, qid, depth, 0, 0);
	sqe.dptr = rig_sgl(rig, 0, sizeof(*data));
	return rig_do(q, &sqe);
}

static inline struct nvme_connect_data rig_connect_data(const struct rig *rig, uint16_t cntlid)
{
	static const uint8_t hostid[16] = { 1 };
	struct nvme_connect_data data;

	cr_assert_eq(nvme_connect_data_init(&data, hostid, cntlid, rig->target->subnqn, RIG_HOSTNQN), 0,
		     "connect data");
	return data;
}

static inline void rig_open(struct rig *rig, const struct nvmfr_soft_opts *opts)
{
	struct nvmfr_soft_opts defaults;

	memset(rig, 0, sizeof(*rig));
	nvmfr__clock_init(&rig->clock);
	rig->fh.clock = &rig->clock;
	rig->fh.log = &rig->log;
	nvmfr__soft_opts_default(&defaults);
	cr_assert_eq(nvmfr__soft_target_new(&rig->fh, "t", opts ? opts : &defaults, &rig->target), 0,
		     "target: %s", nvmfr__err_get());
	cr_assert_eq(ops->open(&rig->fh, &rig->fab), 0, "open");
	rig->data = malloc(RIG_BYTES);
	cr_assert_not_null(rig->data, "memory");
	memset(rig->data, 0, RIG_BYTES);
	cr_assert_eq(ops->mr_reg(rig->fh.devs[0], rig->data, RIG_BYTES,
				 FAB_ACCESS_SOURCE | FAB_ACCESS_TARGET, &rig->mr),
		     0, "register");
}

static inline void rig_up_admin(struct rig *rig)
{
	struct nvme_connect_data data = rig_connect_data(rig, NVME_CNTLID_DYNAMIC);
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	rig->admin = (struct queue){ .ep = rig_ep(rig, 0, RIG_DEPTH) };
	cr_assert_eq(rig_request(rig, rig->admin.ep, nvme_cm_request(0, RIG_DEPTH, 0)).type,
		     FAB_EV_CONNECTED, "admin queue");
	cqe = rig_fabrics_connect(rig, &rig->admin, 0, RIG_DEPTH, &data);
	cr_assert_eq(rig_status(cqe), 0, "Connect: %x", rig_status(cqe));
	rig->cntlid = nvme_connect_cntlid(from_le64(cqe.result));
	nvme_sqe_property_get(&sqe, NVME_PROP_CAP, true);
	cqe = rig_do(&rig->admin, &sqe);
	nvme_sqe_property_set(&sqe, NVME_PROP_CC, false, nvme_cc_enable(from_le64(cqe.result)));
	cr_assert_eq(rig_status(rig_do(&rig->admin, &sqe)), 0, "CC.EN");
}

static inline void rig_up_io(struct rig *rig, struct queue *q, uint16_t qid, uint16_t depth)
{
	struct nvme_connect_data data = rig_connect_data(rig, rig->cntlid);

	*q = (struct queue){ .ep = rig_ep(rig, qid, depth) };
	cr_assert_eq(rig_request(rig, q->ep, nvme_cm_request(qid, depth, rig->cntlid)).type,
		     FAB_EV_CONNECTED, "I/O queue");
	cr_assert_eq(rig_status(rig_fabrics_connect(rig, q, qid, depth, &data)), 0, "Connect");
}

/* Target, namespace 1 of RAM, admin queue, one I/O queue. */
static inline void rig_up(struct rig *rig, const struct nvmfr_soft_opts *opts)
{
	struct nvmfr_soft_ns_opts ns;

	rig_open(rig, opts);
	nvmfr__soft_ns_opts_default(&ns);
	cr_assert_eq(nvmfr__soft_ns_add(rig->target, &ns), 1, "namespace: %s", nvmfr__err_get());
	rig_up_admin(rig);
	rig_up_io(rig, &rig->io, 1, RIG_DEPTH);
}

static inline void rig_down(struct rig *rig)
{
	ops->ep_destroy(rig->io.ep);
	ops->ep_destroy(rig->admin.ep);
	ops->mr_dereg(rig->fh.devs[0], &rig->mr);
	nvmfr__soft_target_free(rig->target);
	ops->close(rig->fab);
	free(rig->data);
}

static inline struct nvmfr_soft_counters rig_counters(struct rig *rig)
{
	struct nvmfr_soft_counters counters;

	nvmfr__soft_counters(rig->target, &counters);
	return counters;
}

static inline struct nvmfr_soft_fault rig_fault(uint32_t kind, uint64_t value)
{
	return (struct nvmfr_soft_fault){
		.size = sizeof(struct nvmfr_soft_fault),
		.kind = kind,
		.qid = NVMFR_SOFT_ANY,
		.opcode = NVMFR_SOFT_ANY,
		.detail = NVMFR_SOFT_ANY,
		.count = 1,
		.value = value,
	};
}

static inline void rig_plan(struct rig *rig, uint32_t kind, uint64_t value)
{
	struct nvmfr_soft_fault fault = rig_fault(kind, value);

	cr_assert_eq(nvmfr__soft_fault_add(rig->target, &fault), 0, "fault");
}

#endif
