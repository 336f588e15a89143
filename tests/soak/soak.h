/* SPDX-License-Identifier: BSD-3-Clause */
/* A load whose every command and every byte is accounted for, in a thread of its own; and what is done to it. */
#ifndef NVMFR_TESTS_SOAK_H
#define NVMFR_TESTS_SOAK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nvmfr/soft.h>

enum {
	BLOCK = 512,
	SLOTS = 16, /* I/Os of a worker in flight */
	BLOCKS_OF_ALL = 1024, /* that a worker has for itself */
	MAX_BLOCKS = 96, /* of one I/O: three commands at the target's MDTS */
	COMMAND_BLOCKS = 32,
	REGION = MAX_BLOCKS * BLOCK, /* memory of one I/O */
	REGIONS = SLOTS + 48, /* those out of use rest for a while, and are looked at before they are used again */
	MAX_DOUBTS = 6,
	WORKERS = 4,
	PATHS = 2,
};

/* For the namespace that comes and goes. */
enum { STEADY_NSID = 1,
       FOREIGN_NSID = 2 };

#define INJECTED_STATUS 0x0281 /* unrecovered read error */

/*
 * What a block may hold. A write that did not end well was done or was not: its value is in doubt until a
 * read tells. Nothing of an ended write comes later: its connection is gone.
 */
struct block {
	uint64_t value; /* 0: zeroes */
	uint64_t doubts[MAX_DOUBTS];
	unsigned int doubt_count;
	bool busy;
};

struct slot {
	struct nvmfr_io io;
	struct nvmfr_iov iov[2];
	bool in_flight;
	bool foreign; /* of the namespace that comes and goes */
	uint32_t generation; /* in user_data */
	uint64_t value; /* of its first block, if it writes; the next one's is one more */
	uint64_t trouble; /* when it was submitted */
	unsigned char *memory;
};

struct worker {
	unsigned int index;
	uint64_t random;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrls[PATHS]; /* the second one NULL: no paths */
	struct nvmfr_mpath *mpath;
	uint32_t retry; /* enum nvmfr_retry */
	struct nvmfr_mqpair *mq; /* with paths; else qp */
	struct nvmfr_group *group; /* NULL: on its own */
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	atomic_bool *stop;
	pthread_t thread;
	uint64_t next_value;
	struct block blocks[BLOCKS_OF_ALL];
	struct slot slots[SLOTS];
	unsigned char *resting[REGIONS]; /* a ring; the longest first */
	unsigned int first, rest;
	unsigned int in_flight;
	uint64_t trouble; /* queues_trouble() at the last look */
	atomic_bool reopen; /* it shall end its queue pair with all that is in flight, and make another one */
	_Atomic uint64_t submitted, good, refused, aborted, timed_out, forgotten;
	_Atomic uint64_t spoilt; /* of those aborted: one of its commands may have failed otherwise before the loss */
	atomic_bool failed;
	char failure[512];
};

/* Loads until *stop, then reads all of its blocks. failure: the first thing that must not be. */
void *worker_run(void *worker);

/* ---- queues.c: what a worker submits to: a queue pair, one in a group, or one a path ------------------- */

/* 0, or -errno with a sentence. What is there is closed by the last one. */
int queues_open(struct worker *w);
int queues_submit(struct worker *w, const struct nvmfr_io *io);
/* sleep: for up to 5 ms, until there is one. */
int queues_collect(struct worker *w, struct nvmfr_completion *done, unsigned int max, bool sleep);
int queues_close(struct worker *w);
/* What an I/O that is issued again may have met so far, all of it counted. */
uint64_t queues_trouble(const struct worker *w);
/* Of that, more than so many it need not outlive. */
uint64_t queues_outlived(const struct worker *w);

/* ---- faults.c ------------------------------------------------------------------------------------------ */

struct faults {
	struct nvmfr_soft_target *target;
	uint64_t random;
	uint32_t paths; /* ports; 0: one way */
	uint64_t spoilers; /* so far: those by which a command fails of which others may be in flight */
	bool drop; /* the next one is a loss of all connections, while data lingers */
	bool let_it_expire; /* the last one lasts for longer than io_timeout_ms; the next would end it earlier */
	char name[128]; /* of the last one */
};

/* One of them. false: it could not be, and why is a sentence. */
bool faults_inject(struct faults *f);
/* All that is left of them goes: each path can be used. */
bool faults_clear(struct faults *f);

uint64_t soak_random(uint64_t *state);
uint64_t soak_below(uint64_t *state, uint64_t below);

#endif
