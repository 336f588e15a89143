/* SPDX-License-Identifier: BSD-3-Clause */
/* A load whose every command and every byte is accounted for, in a thread of its own. */
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
	MAX_DOUBTS = 6,
	WORKERS = 4,
};

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
	unsigned char *memory;
};

struct worker {
	unsigned int index;
	uint64_t random;
	struct nvmfr_host *host;
	struct nvmfr_ctrl *ctrl;
	struct nvmfr_group *group; /* NULL: on its own */
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	atomic_bool *stop;
	pthread_t thread;
	uint64_t next_value;
	struct block blocks[BLOCKS_OF_ALL];
	struct slot slots[SLOTS];
	unsigned int in_flight;
	_Atomic uint64_t submitted, good, refused, aborted, timed_out;
	atomic_bool failed;
	char failure[512];
};

/* Loads until *stop, then reads all of its blocks. failure: the first thing that must not be. */
void *worker_run(void *worker);

/* For the namespace that comes and goes. */
enum { STEADY_NSID = 1, FOREIGN_NSID = 2 };

uint64_t soak_random(uint64_t *state);
uint64_t soak_below(uint64_t *state, uint64_t below);

#endif
