/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scripted fabric: it records what the queue floor posts, and polling it yields what the test
 * said. Time, order and outcome are the test's; nothing happens by itself.
 *
 * It also holds the floor to the rules of the boundary at each call: positions in order, none used
 * again before its SEND is done, capsules and descriptors left alone until then, no CID twice,
 * never more commands than depth, a receive for each of them. A breach prints one line and aborts.
 */
#ifndef TESTS_UNIT_SCRIPTED_H
#define TESTS_UNIT_SCRIPTED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/buffer.h"
#include "fabric/fabric.h"
#include "queue/ns.h"
#include "queue/qpair.h"

/* ---- the fabric ------------------------------------------------------------------------------ */

enum {
	SCRIPTED_CIDS = 1 << 16,
	SCRIPTED_SLOTS = 1 << 12,
	SCRIPTED_MRS = 64,
	SCRIPTED_DEV_INDEX = 3
};

/* A command as it went out. */
struct scripted_cmd {
	unsigned char capsule[FAB_CAPSULE_BYTES];
	unsigned char list[FAB_MAX_DESCRIPTORS * 16]; /* its descriptors, where it has a list */
	struct fab_carry tail; /* all zero: it carries nothing */
	bool is_list, is_data; /* which of them it carries */
	bool told; /* signaled beside its turn */
};

struct scripted_mr {
	uint64_t start, bytes;
	uint32_t access;
	bool live;
};

struct scripted {
	struct fab_ep ep;
	struct fab_dev dev;
	uint32_t depth;

	/* what was posted */
	struct scripted_cmd *cmds; /* the last `keep` of them */
	uint32_t keep; /* a power of two */
	uint32_t posted, sent; /* commands posted, and those that went out, ever */
	uint32_t doorbells; /* calls of post_send */
	uint32_t recv_posts; /* calls of post_recv */
	struct fab_send *sends; /* by position; what it carries is written and not posted yet */
	uint16_t out[SCRIPTED_SLOTS]; /* CIDs outstanding at the peer */
	uint16_t at[SCRIPTED_CIDS]; /* by CID: its place in out, from 1 on; 0: not outstanding */
	uint32_t cmd_of[SCRIPTED_SLOTS]; /* by the CID's low 12 bits: which command it was last */
	uint32_t outstanding, most_outstanding;
	bool lied; /* an answer to what was not outstanding: from then on nobody knows what is */

	/* what the next poll says */
	uint32_t done, told; /* SENDs done, and those of them that poll has told */
	uint32_t answered; /* responses in the ring that poll has not told */
	uint32_t per_poll; /* responses a poll tells at most */
	uint32_t idle_more; /* so many times MORE with nothing behind it */
	bool bad; /* BAD once all responses are told */
	void (*before_poll)(struct scripted *s);
	int arm_result;

	/* receives */
	uint32_t recv_posted; /* free for the peer's responses */
	uint32_t recv_used; /* told, not posted again */
	uint32_t recv_at; /* position of the next response */
	uint32_t repost_at; /* position that post_recv frees next */

	/* failures to come: told by the next poll */
	uint32_t send_room; /* commands that still go out; the next one ends the connection */
	uint32_t recv_room; /* the same for calls of post_recv */

	uint32_t polls, arms, stops;
	int fd;
	struct scripted_mr mrs[SCRIPTED_MRS];
	uint32_t mr_count;
};

#define SCRIPTED_NEVER UINT32_MAX

/* A connected endpoint. max_mr_bytes 0: as large as one likes. */
struct scripted *scripted_new(uint32_t depth, uint32_t max_descriptors, uint64_t max_mr_bytes);
void scripted_free(struct scripted *s);

/* The i-th command that went out, or with `back` the last but so many. */
const struct scripted_cmd *scripted_cmd(const struct scripted *s, uint32_t i);
const struct scripted_cmd *scripted_last(const struct scripted *s, uint32_t back);

/* Fields of a capsule, by the offsets of the specification. */
uint16_t scripted_cid(const struct scripted_cmd *cmd);
uint64_t scripted_le(const unsigned char *bytes, unsigned int n);

/* A response: 15 bits of status, dwords 0 and 1. Any CID; a receive must be posted. */
void scripted_answer(struct scripted *s, uint16_t cid, uint16_t status, uint64_t result);
void scripted_answer_dword(struct scripted *s, uint32_t dword3, uint64_t result);
void scripted_answer_all(struct scripted *s); /* oldest first, success */

/* n more SENDs are done; or all up to the newest that is signaled, as on a NIC. */
void scripted_sends_done(struct scripted *s, uint32_t n);
void scripted_sends_signaled(struct scripted *s);

/* The MR that an rkey names. NULL: none. */
const struct scripted_mr *scripted_mr_of(const struct scripted *s, uint32_t rkey);
#define SCRIPTED_RKEY UINT32_C(0xa1b2c300) /* of MR 0, the next ones count on */
#define SCRIPTED_LKEY UINT32_C(0x00001000)

/* ---- a queue pair on it, with the test as the service ---------------------------------------- */

/* 0 everywhere: a default. */
struct rig_opts {
	uint32_t depth; /* 8 */
	uint64_t max_xfer_bytes; /* 128 KiB */
	uint64_t zeroes_bytes; /* UINT64_MAX */
	uint32_t icd_bytes; /* 0 */
	uint32_t max_descriptors; /* 1 */
	uint32_t timeout_ticks; /* 0: never */
	uint64_t max_mr_bytes; /* no limit */
	uint64_t verify_bytes; /* UINT64_MAX */
	uint64_t dsm_blocks; /* UINT64_MAX */
	uint32_t dsm_range_blocks; /* UINT32_MAX */
	uint32_t dsm_ranges; /* 256 */
	bool no_write_zeroes;
	bool no_optional; /* Compare, Verify, Dataset Management, Copy */
};

enum { RIG_NS = 1, RIG_NS_4K = 2, RIG_NS_READ_ONLY = 3, RIG_NS_REFUSED = 5, RIG_NS_SMALL = 7 };
#define RIG_NS_BLOCKS	 (UINT64_C(1) << 48)
#define RIG_SMALL_BLOCKS UINT64_C(100)
#define RIG_ADDR	 UINT64_C(0x123456789abc)
#define RIG_BYTES	 (UINT64_C(1) << 32)
#define RIG_TAG		 UINT64_C(0x7a61676f72666d6e)

struct rig {
	struct scripted *s;
	struct nvmfr_qpair *qp;
	pthread_mutex_t lock;
	_Atomic uint32_t word, tick;
	int service_fd;
	struct nvmfr_buffer buf; /* RIG_BYTES at RIG_ADDR: no memory is behind it */
};

/* A live queue pair, handed over as the service does it. */
void rig_up(struct rig *rig, const struct rig_opts *opts);
void rig_down(struct rig *rig);

/* A buffer of this rig, registered. Ends with rig_unbuffer. */
struct nvmfr_buffer rig_buffer(struct rig *rig, uint64_t addr, uint64_t bytes, uint32_t access);
void rig_unbuffer(struct rig *rig, struct nvmfr_buffer *buf);

/* A table with the RIG_NS_* entries. */
struct ns_table *rig_namespaces(void);

/* The service: the connection is over. */
void rig_lose(struct rig *rig, int err, const char *sentence);
void rig_publish(struct rig *rig);
bool rig_service_rung(struct rig *rig);

int rig_read(struct rig *rig, uint64_t lba, uint64_t nblocks, uint64_t user_data);
int rig_write(struct rig *rig, uint64_t lba, uint64_t nblocks, uint64_t user_data);

/* Polls with max until it says an error, at most room completions; the error comes back. */
int rig_drain(struct rig *rig, struct nvmfr_completion *out, unsigned int room, unsigned int max,
	      unsigned int *n);

#endif
