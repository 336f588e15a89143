/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/Os of a lost connection that are issued again on the next one (nvmfr_qpair_opts.retry). The owner's.
 *
 * What an I/O was is learned from its capsule. A capsule may be overwritten as soon as its SEND is done, so
 * those of commands in flight are kept aside each time the send ring begins anew, which is where a queue pair
 * without retries looks for nothing. I/Os with a parent are kept when they are accepted.
 *
 * With the connection lost they are `held`. On the next one each takes a slot at once, so that new I/O
 * does not take its place, and goes out when it may: a write not before the old controller is known to do
 * nothing any more (link.doubt_until_ns).
 */
#ifndef NVMFR_QUEUE_RETRY_H
#define NVMFR_QUEUE_RETRY_H

#include "queue/qpair.h"

enum { RETRY_MOST = 5 }; /* an I/O that ends each connection shall not do so for ever */

struct retry_io {
	struct nvmfr_io io;
	struct qslot *slot; /* held: reserved for it; NULL: none yet */
	uint32_t seq; /* saved: its number among all commands, those of earlier connections included */
	uint32_t tried; /* saved: the number of the command that tries is of */
	uint16_t cid;
	uint8_t tries;
	uint8_t shift; /* held: of its namespace then */
	bool failed; /* held: cannot be issued any more, to be told */
};

struct qpair_retry {
	uint32_t mode; /* enum nvmfr_retry */
	uint32_t held, placed; /* how many, and how many of them have a slot */
	bool doubts; /* the last loss added writes */
	bool writes_may; /* those that are held */
	bool wants; /* a held one may go out, needs a slot, or has to be told */
	bool issuing; /* their list is being rewritten */
	struct retry_io *ios; /* the held ones, room for depth + 1 */
	struct retry_io *saved; /* by slot */
	struct retry_io *parents; /* by parent */
};

/* What is kept to be issued names its buffers: by 1, and when it goes by UINT32_MAX. */
void nvmfr__io_mark(const struct nvmfr_io *io, uint32_t by);

/* For a queue pair of at most this depth. NULL: no memory. */
struct qpair_retry *nvmfr__retry_new(uint32_t mode, uint32_t depth);
/* What is held is forgotten; accepts a queue pair without retries. */
void nvmfr__retry_free(struct nvmfr_qpair *qp);

/* A parent was given this I/O. */
void nvmfr__retry_note(struct nvmfr_qpair *qp, const struct qparent *parent, const struct nvmfr_io *io);

/* Whether what the lost connection leaves is kept. */
bool nvmfr__retry_holds(const struct nvmfr_qpair *qp);
/* Keeps it: then nothing of it is in flight. What cannot be kept stays, to be told. */
void nvmfr__retry_hold(struct nvmfr_qpair *qp);

/* News are being adopted, the host's lock held: what such a queue pair does without. */
void nvmfr__retry_limits(struct nvmfr_qpair *qp);
/* News were adopted. */
void nvmfr__retry_adopt(struct nvmfr_qpair *qp);
/* Issues what may go out. Completions of what cannot any more: how many. */
unsigned int nvmfr__retry_issue(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max);
/* There will be no connection for them, or not in time: completions. */
unsigned int nvmfr__retry_give_up(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max);

#endif
