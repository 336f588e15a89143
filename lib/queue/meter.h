/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one queue pair did, command by command: counts, bytes, latencies. Only where it was asked for. It
 * stands between the queue pair and its endpoint as a table of operations of its own, reads what goes out
 * and comes in from the rings, and looks at the clock once a post and once a poll that found something. So
 * a queue pair without one runs the same instructions as if there were none.
 *
 * The owner writes; anyone may read, value by value.
 */
#ifndef NVMFR_QUEUE_METER_H
#define NVMFR_QUEUE_METER_H

#include <nvmfr/nvmfr.h>

#include "base/clock.h"
#include "fabric/fabric.h"

struct nvmfr_qpair;

enum meter_kind { METER_READ, METER_WRITE, METER_OTHER, METER_KINDS };

struct meter_slot {
	uint64_t sent_ns; /* 0: nothing is waited for */
	uint32_t bytes;
	uint32_t kind;
};

struct qpair_meter {
	struct fab_ops ops; /* the endpoint's, with ours among them */
	const struct fab_ops *below;
	const struct nvmfr_qpair *qp;
	const struct nvmfr__clock *clock;
	uint32_t recv_pos; /* of the next response */
	uint32_t slots;
	uint64_t bytes[METER_KINDS];
	struct nvmfr_latency latency[METER_KINDS]; /* of what was answered well */
	struct meter_slot slot[];
};

/* For up to depth commands in flight; NULL: no memory. The queue pair frees it. */
struct qpair_meter *nvmfr__meter_new(const struct nvmfr_qpair *qp, const struct nvmfr__clock *clock,
				     uint32_t depth);

/* The queue pair has an endpoint, another one maybe: from here on its traffic goes through. */
void nvmfr__meter_attach(struct qpair_meter *meter, struct nvmfr_qpair *qp);

static inline enum meter_kind meter_kind_of(uint32_t op)
{
	if (op == NVMFR_OP_READ)
		return METER_READ;
	return op == NVMFR_OP_WRITE ? METER_WRITE : METER_OTHER;
}

/* For readers in other threads. */
static inline uint64_t meter_read(const uint64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static inline void meter_add(uint64_t *count, uint64_t n)
{
	__atomic_store_n(count, *count + n, __ATOMIC_RELAXED);
}

#endif
