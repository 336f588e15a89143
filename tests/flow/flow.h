/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library through its public headers, against an embedded target. As a rule the host is manual
 * and its clock frozen: time is what waiting functions jump over, so nothing sleeps and nothing races.
 *
 * What fails here fails the running test. What must hold after every test (no rule of the protocol
 * broken, nothing left behind) flow_down() looks at.
 */
#ifndef NVMFR_TESTS_FLOW_H
#define NVMFR_TESTS_FLOW_H

#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include <nvmfr/soft.h>

#define KIB	      UINT64_C(1024)
#define MIB	      (KIB * KIB)
#define GIB	      (KIB * MIB)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum {
	FLOW_DEPTH = 128,
	FLOW_MAX = 256, /* completions that flow_wait() takes at once */
	FLOW_WAIT_MS = 120000, /* virtual, mostly; a bound for what should come at once */
	FLOW_LOG_BYTES = 16384,
};

/* Opcodes and the like, from the specifications. */
enum {
	OPC_FLUSH = 0x00,
	OPC_WRITE = 0x01,
	OPC_READ = 0x02,
	OPC_WRITE_ZEROES = 0x08,
	OPC_IDENTIFY = 0x06,
	OPC_SET_FEATURES = 0x09,
	OPC_ABORT = 0x08,
	OPC_EVENT_REQUEST = 0x0c,
	OPC_KEEP_ALIVE = 0x18,
	OPC_FABRICS = 0x7f,
	FCTYPE_PROPERTY_SET = 0x00,
	FCTYPE_CONNECT = 0x01,
	FCTYPE_PROPERTY_GET = 0x04,
	CNS_NS = 0x00,
	CNS_CTRL = 0x01,
	CNS_ACTIVE_LIST = 0x02,
	CNS_NS_DESCS = 0x03,
	CNS_IO_SET_CTRL = 0x06,
	FID_NUM_QUEUES = 0x07,
	FID_EVENT_CONFIG = 0x0b,
	STATUS_INTERNAL_ERROR = 0x0006,
	STATUS_INVALID_NAMESPACE = 0x000b,
	STATUS_LBA_RANGE = 0x0080,
	STATUS_UNRECOVERED_READ = 0x0281,
};

/* Everything the library said; its sink is called from any thread. */
struct flow_log {
	pthread_mutex_t lock;
	size_t used;
	char text[FLOW_LOG_BYTES];
};

struct flow {
	struct nvmfr_host *host;
	struct nvmfr_soft_target *target; /* "t" */
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_qpair *qp;
	uint32_t nsid; /* the namespace that was made last */
	bool frozen;
	bool violates; /* this test breaks a rule on purpose */
	struct nvmfr_ctrl_opts opts; /* of flow_try_connect(); uri is the target's */
	struct flow_log *log;
};

/* ---- up and down ----------------------------------------------------------------------------- */

/* Manual and frozen. */
void flow_host(struct flow *f);
/* With a service thread, in real time. */
void flow_host_thread(struct flow *f);
/* Manual, in real time: for a target with a thread. */
void flow_host_unfrozen(struct flow *f);
void flow_target(struct flow *f, const struct nvmfr_soft_opts *opts);
uint32_t flow_ns(struct flow *f, uint64_t bytes, uint32_t block_bytes);
/* Connects as f->opts say. On failure there is no controller, and the sentence stays. */
int flow_try_connect(struct flow *f);
void flow_connect(struct flow *f);
int flow_try_qpair(struct flow *f, const struct nvmfr_qpair_opts *opts, struct nvmfr_qpair **out);
struct nvmfr_qpair *flow_qpair(struct flow *f, unsigned int depth);
/* Host, target, 64 MiB in blocks of 512 bytes, controller, a queue pair of FLOW_DEPTH. */
void flow_up(struct flow *f, const struct nvmfr_soft_opts *opts);
void flow_up_thread(struct flow *f, const struct nvmfr_soft_opts *opts);
/* As flow_up(), but a loss of the association is followed by another one. */
struct flow flow_recovering(uint32_t loss_ms, uint32_t delay_ms);
/* Ends what there is, and looks at what must always hold. */
void flow_down(struct flow *f);

struct nvmfr_soft_opts flow_soft_opts(void);
struct nvmfr_qpair_opts flow_qpair_opts(unsigned int depth);

/* ---- memory ---------------------------------------------------------------------------------- */

struct nvmfr_buffer *flow_buffer(struct flow *f, void *addr, size_t bytes);
struct nvmfr_buffer *flow_alloc(struct flow *f, size_t bytes);
void flow_release(struct nvmfr_buffer *buf);

/* ---- I/O ------------------------------------------------------------------------------------- */

struct nvmfr_io flow_io(const struct flow *f, uint8_t op, uint64_t lba, uint64_t nblocks,
			struct nvmfr_buffer *buf, uint64_t offset);
/* Submits n reads of one block each, user_data 0 to n - 1, to LBAs from 0 on. */
void flow_reads(struct flow *f, struct nvmfr_buffer *buf, unsigned int n);
/* Exactly n completions. */
void flow_wait(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int n);
/* One I/O from submit to completion. */
struct nvmfr_completion flow_do(struct nvmfr_qpair *qp, const struct nvmfr_io *io);
/* The same, and it must end well. */
void flow_must(struct nvmfr_qpair *qp, const struct nvmfr_io *io);
/* One write and its reading back: the association works. */
void flow_works(struct flow *f);
/* Until the queue pair is lost: takes what comes, at most max; returns how many. */
unsigned int flow_drain(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max);
struct nvmfr_qpair_info flow_qpair_info(struct nvmfr_qpair *qp);
struct nvmfr_ctrl_info flow_ctrl_info(const struct flow *f);

/* ---- many I/Os and the end of an association ------------------------------------------------- */

/* How each of n I/Os ended; user_data is the index. */
struct flow_outcome {
	unsigned int n;
	unsigned int times[FLOW_DEPTH];
	struct nvmfr_completion last[FLOW_DEPTH];
};

void flow_note(struct flow_outcome *o, const struct nvmfr_completion *done, unsigned int n);
void flow_each_once(const struct flow_outcome *o);
/* How many ended with that result. */
unsigned int flow_count(const struct flow_outcome *o, int32_t result);
/* A transport failure, not dressed as an NVMe status. */
void flow_synthesized(const struct nvmfr_completion *done, int32_t result);
/* All of o come, each once, then the queue pair and the controller are lost. */
void flow_drain_all(struct flow *f, struct flow_outcome *o);
/* After a loss: this association can be put away, and another one to the same target works. */
void flow_anew_then_down(struct flow *f);

/* ---- the target ------------------------------------------------------------------------------ */

struct nvmfr_soft_counters flow_counters(const struct flow *f);
struct nvmfr_soft_fault flow_fault(uint32_t kind, uint32_t qid, uint32_t opcode, uint32_t detail,
				   uint64_t value);
void flow_plan(const struct flow *f, const struct nvmfr_soft_fault *fault);
/* A fault of the next command of that opcode on an I/O queue. */
void flow_plan_io(const struct flow *f, uint32_t kind, uint32_t opcode, uint64_t value);
void flow_patch(const struct flow *f, uint32_t cns, uint32_t nsid, uint32_t offset,
		const void *bytes, uint32_t len);
void flow_patch8(const struct flow *f, uint32_t cns, uint32_t offset, uint8_t value);
void flow_advance_ms(const struct flow *f, uint32_t ms);
/* Polls the host until its descriptor is silent. */
void flow_settle(const struct flow *f);
/* Lets time pass in steps that a service would have, the application doing nothing else. */
void flow_idle_ms(const struct flow *f, uint32_t ms);

/* ---- what was said --------------------------------------------------------------------------- */

/* This thread's sentence: one line, not empty, with this word in it. */
void flow_says(const char *word);
bool flow_logged(const struct flow *f, const char *word);

/* ---- chance ---------------------------------------------------------------------------------- */

/* The test's own seed, or NVMFR_TEST_SEED. */
uint64_t flow_seed(uint64_t own);
uint64_t flow_random(uint64_t *state);
/* 0 to below - 1. */
uint64_t flow_below(uint64_t *state, uint64_t below);
void flow_fill(uint64_t *state, void *bytes, size_t n);

#endif
