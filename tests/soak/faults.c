/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <inttypes.h>
#include <stdio.h>

enum { OPC_READ = 0x02 };

struct kind {
	const char *name;
	uint32_t kind;
	unsigned int weight;
	uint64_t value; /* 0: as it is; else up to so much */
	bool spoils, expires;
};

/* Those that cost a timer are rare. */
static const struct kind kinds[] = {
	{ "status", NVMFR_SOFT_FAULT_STATUS, 20, 0, true, false },
	{ "silence", NVMFR_SOFT_FAULT_SILENCE, 1, 0, true, true },
	{ "stuck", NVMFR_SOFT_FAULT_STUCK, 1, 0, true, true },
	{ "delay", NVMFR_SOFT_FAULT_DELAY, 20, 20000, false, false },
	{ "linger", NVMFR_SOFT_FAULT_LINGER, 40, 50000, false, false },
	{ "long linger", NVMFR_SOFT_FAULT_LINGER, 1, 2000000, true, true },
	{ "wrong CID", NVMFR_SOFT_FAULT_WRONG_CID, 10, 0xffff, false, false },
	{ "duplicate", NVMFR_SOFT_FAULT_DUPLICATE, 10, 0, false, false },
	{ "early", NVMFR_SOFT_FAULT_EARLY, 20, 5000, false, false },
	{ "short", NVMFR_SOFT_FAULT_SHORT, 10, 15, false, false },
	{ "disconnect", NVMFR_SOFT_FAULT_DISCONNECT, 20, 0, false, false },
	{ "disconnect all", NVMFR_SOFT_FAULT_DISCONNECT_ALL, 20, 0, false, false },
	{ "QP error", NVMFR_SOFT_FAULT_QP_ERROR, 20, 0, false, false },
	{ "CM reject", NVMFR_SOFT_FAULT_CM_REJECT, 10, 0, false, false },
	{ "CM stale", NVMFR_SOFT_FAULT_CM_STALE, 10, 0, false, false },
	{ "CM silence", NVMFR_SOFT_FAULT_CM_SILENCE, 1, 0, false, false },
	{ "CM unreachable", NVMFR_SOFT_FAULT_CM_UNREACHABLE, 10, 0, false, false },
	{ "CM disconnect", NVMFR_SOFT_FAULT_CM_DISCONNECT, 10, 0, false, false },
};

static uint64_t chance(struct faults *f, uint64_t below)
{
	return soak_below(&f->random, below);
}

static const struct kind *choose_kind(struct faults *f)
{
	unsigned int sum = 0, at;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		sum += kinds[i].weight;
	at = (unsigned int)chance(f, sum);
	for (const struct kind *kind = kinds;; kind++) {
		if (at < kind->weight)
			return kind;
		at -= kind->weight;
	}
}

/* In all queues, for a loss to come upon. */
static void linger_everywhere(struct faults *f, struct nvmfr_soft_fault *fault)
{
	fault->qid = NVMFR_SOFT_ANY;
	fault->count = 2 * WORKERS;
	f->drop = chance(f, 2);
}

/* The CM's kinds need a connection to be made: the present ones are dropped. */
static bool plan(struct faults *f)
{
	const struct kind *kind = choose_kind(f);
	bool cm = kind->kind >= NVMFR_SOFT_FAULT_CM_REJECT && kind->kind <= NVMFR_SOFT_FAULT_CM_DISCONNECT;
	struct nvmfr_soft_fault fault;

	nvmfr_soft_fault_init(&fault, sizeof(fault));
	fault.kind = kind->kind;
	fault.qid = chance(f, 8) ? 1 + (uint32_t)chance(f, WORKERS) : cm ? 0
									 : NVMFR_SOFT_ANY;
	fault.skip = (uint32_t)chance(f, cm ? 1 : 40);
	fault.value = kind->value ? 1 + chance(f, kind->value) : 0;
	if (kind->kind == NVMFR_SOFT_FAULT_STATUS)
		fault.value = INJECTED_STATUS;
	if (kind->kind == NVMFR_SOFT_FAULT_LINGER) {
		fault.opcode = OPC_READ;
		if (!kind->expires)
			linger_everywhere(f, &fault);
	}
	snprintf(f->name, sizeof(f->name), "%s, queue %" PRIu32 ", after %" PRIu32 ", value %" PRIu64, kind->name,
		 fault.qid, fault.skip, fault.value);
	f->spoilers += kind->spoils;
	f->let_it_expire = kind->expires;
	if (nvmfr_soft_fault_add(f->target, &fault))
		return false;
	if (cm)
		nvmfr_soft_drop(f->target);
	return true;
}

static bool drop_all(struct faults *f)
{
	snprintf(f->name, sizeof(f->name), "drop");
	nvmfr_soft_drop(f->target);
	return true;
}

static bool change_namespace(struct faults *f)
{
	struct nvmfr_soft_ns_opts opts;
	int err = nvmfr_soft_ns_remove(f->target, FOREIGN_NSID);

	snprintf(f->name, sizeof(f->name), "namespace %s", err ? "added" : "removed");
	if (!err)
		return true;
	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = FOREIGN_NSID;
	opts.size_bytes = (4 + chance(f, 8)) * BLOCK;
	return nvmfr_soft_ns_add(f->target, &opts) == FOREIGN_NSID;
}

static bool set_port(struct faults *f, uint32_t port, uint32_t state, uint32_t up)
{
	return nvmfr_soft_ana_set(f->target, port, NVMFR_SOFT_ANY, state) == 0 &&
	       nvmfr_soft_port_set(f->target, port, up) == 0;
}

/* One of the ports can be used always, which one changes; the others are as it comes. */
static bool change_path(struct faults *f)
{
	static const uint32_t states[] = { NVMFR_ANA_OPTIMIZED, NVMFR_ANA_NON_OPTIMIZED, NVMFR_ANA_INACCESSIBLE,
					   NVMFR_ANA_PERSISTENT_LOSS, NVMFR_ANA_CHANGE };
	uint32_t good = 1 + (uint32_t)chance(f, f->paths), other = 1 + (uint32_t)chance(f, f->paths);
	uint32_t state = states[chance(f, sizeof(states) / sizeof(states[0]))], up = chance(f, 4) != 0;

	snprintf(f->name, sizeof(f->name), "port %" PRIu32 " is good, port %" PRIu32 " %s, ANA state %" PRIu32, good,
		 other, up ? "open" : "shut", state);
	if (!set_port(f, good, states[chance(f, 2)], 1))
		return false;
	return other == good || set_port(f, other, state, up);
}

bool faults_inject(struct faults *f)
{
	bool drop = f->drop;

	f->drop = false;
	if (drop)
		return drop_all(f);
	if (f->paths && chance(f, 6) == 0)
		return change_path(f);
	switch (chance(f, 12)) {
	case 0: return drop_all(f);
	case 1: return change_namespace(f);
	case 2:
		snprintf(f->name, sizeof(f->name), "event");
		return nvmfr_soft_notify(f->target, NVMFR_SOFT_NOTICE_HEALTH) == 0;
	default: return plan(f);
	}
}

bool faults_clear(struct faults *f)
{
	bool good = true;

	nvmfr_soft_fault_clear(f->target);
	for (uint32_t port = 1; port <= f->paths; port++)
		good = set_port(f, port, NVMFR_ANA_OPTIMIZED, 1) && good;
	return good;
}
