/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VMCHECK_H
#define VMCHECK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nvmfr/nvmfr.h>

#define MAX_THREADS  16
#define DEPTH	     8
#define REGION_BYTES (4u << 20) /* each thread's own part of the namespace */
#define SMALL_BYTES  (64u << 10)
#define LARGE_BYTES  (1536u << 10) /* more than the target takes in one command */
#define GAP_BYTES    64u /* odd start, and the hole between two pieces */
#define AREA_BYTES   (LARGE_BYTES + 2 * GAP_BYTES)
#define WAIT_MS	     30000
#define PATIENCE_MS  120000 /* of who endures */

struct session {
	const char *uri, *source;       /* source: the local address to come from, or NULL */
	const char *path;               /* another way to the same namespaces, or NULL */
	unsigned int threads, ios;
	uint64_t seed;
	bool zeroes;
	bool outlives; /* the target's absence */
	bool endures;  /* it, and loses nothing */
	atomic_uint rounds;   /* verifications asked for */
	atomic_uint verified; /* one for each thread and round */
	atomic_bool over;     /* asked for, or a thread failed */
	pthread_mutex_t lock; /* of what follows */
	uint64_t fault_ns, live_ns, again_ns; /* live since, and the first completion then; 0: not lost */
	uint64_t last_ns, stall_ns, stall_end_ns; /* last completion; longest pause between two since the fault */
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl, *other; /* other: by way of path */
	struct nvmfr_mpath *mpath;       /* both, or NULL */
	struct nvmfr_ns_info ns;
};

struct flight {
	bool busy;
	uint8_t op;
	uint64_t first, nblocks; /* counted from the start of the region */
	struct nvmfr_iov pieces[2];
	unsigned int npieces;
};

struct worker {
	struct session *session;
	unsigned int index;
	int err;
	uint64_t random;
	struct nvmfr_qpair *qp;
	struct nvmfr_mqpair *mq; /* instead of qp, where there are paths */
	struct nvmfr_buffer *buf;
	uint8_t *mem, *model;
	uint64_t accepted, completed, failed, moved_bytes;
	uint64_t last_ns, pause_ns; /* its last completion; the longest time between two */
	unsigned int rounds; /* of the session's */
	struct flight flights[DEPTH];
};

__attribute__((format(printf, 2, 3))) int fail(int err, const char *fmt, ...);
int api_fail(int err, const char *what);
uint64_t next_random(uint64_t *state);
uint64_t random_below(struct worker *w, uint64_t bound);

int worker_open(struct worker *w, size_t buffer_bytes);
int worker_close(struct worker *w);
int worker_wait(struct worker *w, struct nvmfr_completion *done);
uint64_t region_blocks(const struct worker *w);

/* An idle flight is given op, first and nblocks, then a place in the buffer; post() submits it, and
 * landed() finds it again from its completion. */
struct flight *idle_flight(struct worker *w);
void place(struct worker *w, struct flight *f);
int post(struct worker *w, struct flight *f);
struct flight *landed(struct worker *w, const struct nvmfr_completion *c);

int verify(struct worker *w);
int verify_open(struct worker *w);
int verify_round(struct worker *w, unsigned int ios);
int commands(struct worker *w);

/* endure() works; endure_orders() is the main thread's part, endure_moved() tells of a completion. */
int endure(struct worker *w);
int endure_orders(struct session *s);
void endure_moved(struct session *s);
uint64_t now_ns(void);

#endif
