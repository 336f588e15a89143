/* SPDX-License-Identifier: BSD-3-Clause */
/* The namespaces of an association that is made anew: compared with those before, and never taken for one another. */
#include "flow.h"

#include <string.h>

enum { BLOCK = 512,
       DNR = 0x4000 }; /* of a status */

/* A namespace shrank meanwhile: the queue pair knows the new size. */
Test(recovery_ns, sees_what_changed, .timeout = 60)
{
	struct flow f = flow_recovering(60000, 100);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	uint32_t old = f.nsid;

	cr_assert_eq(nvmfr_soft_ns_remove(f.target, f.nsid), 0);
	f.nsid = flow_ns(&f, 1 * MIB, 4096);
	nvmfr_soft_drop(f.target);
	flow_settle(&f);
	cr_assert_eq(nvmfr_ctrl_wait(f.ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	if (f.nsid != old)
		cr_expect_eq(nvmfr_read(f.qp, old, 0, 1, buf, 0, 0), -ENOENT);
	cr_expect_eq(nvmfr_read(f.qp, f.nsid, 256, 1, buf, 0, 0), -ERANGE);
	flow_release(buf);
	flow_works(&f);
	flow_down(&f);
}

/* Made anew: the namespaces are those of now. */
static void made_anew(struct flow *f, struct nvmfr_qpair *qp)
{
	nvmfr_soft_drop(f->target);
	flow_settle(f);
	cr_assert_eq(nvmfr_qpair_wait(qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
}

static struct nvmfr_event next_of(const struct flow *f, uint32_t type)
{
	struct nvmfr_event event = { 0 };

	while (event.type != type)
		cr_assert_eq(nvmfr_host_events(f->host, &event, 1), 1, "event %u did not come", type);
	return event;
}

/* Seen to be gone, twice, and there again. */
static void gone_and_back(struct flow *f, struct nvmfr_buffer *buf)
{
	struct nvmfr_soft_ns_opts opts;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = f->nsid;
	cr_assert_eq(nvmfr_soft_ns_remove(f->target, f->nsid), 0);
	made_anew(f, f->qp);
	next_of(f, NVMFR_EVENT_NS_REMOVED);
	cr_expect_eq(nvmfr_read(f->qp, f->nsid, 0, 1, buf, 0, 0), -ENOENT);
	made_anew(f, f->qp);
	cr_assert_eq(nvmfr_soft_ns_add(f->target, &opts), (int)f->nsid);
}

/* Another namespace under the NSID of an old one is not read by who knows the old one. */
static void not_read(bool gone)
{
	static const uint8_t other[16] = { 0x6f, 0x74, 0x68 };
	struct flow f = flow_recovering(60000, 100);
	struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
	struct nvmfr_event event = { 0 };
	struct nvmfr_qpair *old = f.qp;

	while (nvmfr_host_events(f.host, &event, 1) > 0)
		;
	if (gone) {
		gone_and_back(&f, buf);
		made_anew(&f, old);
		next_of(&f, NVMFR_EVENT_NS_ADDED);
		flow_works(&f);
		gone_and_back(&f, buf);
	}
	flow_patch(&f, CNS_NS_DESCS, f.nsid, 4, other, sizeof(other));
	made_anew(&f, old);
	event = next_of(&f, gone ? NVMFR_EVENT_NS_ADDED : NVMFR_EVENT_NS_CHANGED);
	cr_expect(gone || event.value & NVMFR_NS_CHANGE_IDENTITY);
	cr_expect_eq(nvmfr_read(old, f.nsid, 0, 1, buf, 0, 0), -ESTALE);
	flow_says("another one now");
	/* It stays refused, also over a recovery that changes nothing. */
	made_anew(&f, old);
	cr_expect_eq(nvmfr_read(old, f.nsid, 0, 1, buf, 0, 0), -ESTALE);
	/* Whoever makes a queue pair now means the one that is there. */
	f.qp = flow_qpair(&f, 8);
	flow_works(&f);
	nvmfr_qpair_destroy(old);
	flow_release(buf);
	flow_down(&f);
}

Test(recovery_ns, another_namespace_is_not_read, .timeout = 60)
{
	not_read(false);
}

Test(recovery_ns, another_namespace_after_a_gap_is_not_read, .timeout = 60)
{
	not_read(true);
}

struct refusal_case {
	uint32_t cns, count;
	uint64_t status;
	int err; /* of a read by who knew the namespace before */
};

/* A namespace that cannot be read about for a moment is neither gone nor another one. */
Test(recovery_ns, a_refusal_that_passes, .timeout = 60)
{
	static const struct refusal_case cases[] = {
		{ CNS_NS, 1, STATUS_INTERNAL_ERROR, 0 },
		{ CNS_NS, 3, STATUS_INTERNAL_ERROR, 0 },
		{ CNS_NS, 4, STATUS_INTERNAL_ERROR, -ENOENT },
		{ CNS_NS, 1, STATUS_INTERNAL_ERROR | DNR, -ENOENT },
		{ CNS_NS_DESCS, 1, STATUS_INTERNAL_ERROR, 0 },
		{ CNS_NS_DESCS, 3, STATUS_INTERNAL_ERROR, 0 },
		{ CNS_NS_DESCS, 4, STATUS_INTERNAL_ERROR, -ESTALE },
		{ CNS_NS_DESCS, 1, STATUS_INTERNAL_ERROR | DNR, -ESTALE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct refusal_case *c = &cases[i];
		struct nvmfr_soft_fault fault =
			flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_IDENTIFY, c->cns, c->status);
		struct flow f = flow_recovering(60000, 100);
		struct nvmfr_buffer *buf = flow_alloc(&f, BLOCK);
		struct nvmfr_completion done;

		fault.count = c->count;
		flow_plan(&f, &fault);
		nvmfr_soft_drop(f.target);
		flow_settle(&f);
		cr_assert_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%zu: %s", i, nvmfr_last_error());
		cr_expect_eq(nvmfr_read(f.qp, f.nsid, 0, 1, buf, 0, 0), c->err, "%zu", i);
		if (!c->err)
			flow_wait(f.qp, &done, 1);
		flow_release(buf);
		flow_down(&f);
	}
}

/* One that stays costs the one namespace, and not the association, also where the loss has time for few attempts. */
Test(recovery_ns, a_refusal_and_little_time, .timeout = 60)
{
	static const uint32_t cns[] = { CNS_NS, CNS_NS_DESCS };

	for (size_t i = 0; i < ARRAY_SIZE(cns); i++) {
		struct nvmfr_soft_fault fault =
			flow_fault(NVMFR_SOFT_FAULT_STATUS, 0, OPC_IDENTIFY, cns[i], STATUS_INTERNAL_ERROR);
		struct flow f = flow_recovering(500, 300);

		fault.count = 0;
		flow_plan(&f, &fault);
		nvmfr_soft_drop(f.target);
		flow_settle(&f);
		cr_expect_eq(nvmfr_qpair_wait(f.qp, FLOW_WAIT_MS), 0, "%zu: %s", i, nvmfr_last_error());
		flow_down(&f);
	}
}
