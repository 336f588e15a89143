/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One queue pair: slots, CIDs, capsules, submit, poll, drain. The admin queue is one too.
 *
 * Slots. A CID is 4 bits of generation over 12 bits of slot. A slot's `state` is what CQE dword 3 is
 * when its command ends well: the CID, status 0. While no such completion may come (the slot is free)
 * it names another slot, cid ^ 1, which no dword that led here can equal; where an ending needs more than
 * the common handling a kind stands above the dword's 32 bits. So one compare tells outstanding,
 * generation, kind and success at once.
 *
 * Send ring. The next capsule's place is `position`; lap counts capsules before position 0, so lap +
 * position is its sequence number; done_seq counts capsules that the fabric has let go of. credit is how
 * many capsules fit without a second look at the ring: room and the ring's end in one number, 0 whenever
 * the slow path must see to something first.
 *
 * Lists of descriptors lie in FAB_TAILS places, by sequence number: so a command with a list may be
 * written only while fewer SENDs than that are not done.
 *
 * Threads. The owner's fields are one thread's. `link` is what owner and service tell each other,
 * guarded by the host's lock; `word` changes (release) whenever link has something new for the owner.
 */
#ifndef NVMFR_QUEUE_QPAIR_H
#define NVMFR_QUEUE_QPAIR_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "base/pace.h"
#include "base/util.h"
#include "fabric/buffer.h"
#include "fabric/fabric.h"
#include "queue/meter.h"
#include "queue/ns.h"
#include "wire/sqe.h"

enum slot_kind {
	SLOT_PLAIN = 0, /* free, or ends by the one compare */
	SLOT_CHILD, /* one of the commands of a parent */
	SLOT_HELD, /* its response is in, the SEND that carries its data is not done */
};

struct qslot {
	uint64_t state; /* in flight: CID, kind << 32; else the last CID ^ 1; by set_slot_state() */
	uint64_t user_data;
	const struct nvmfr_buffer *_Atomic buf; /* NULL: none, or in_use counts it */
	_Atomic uint64_t stamp; /* tick of the submit, ref << 32 */
};
_Static_assert(sizeof(struct qslot) == 32, "two slots to a cache line");

#define SLOT_STATE(cid, kind) ((uint64_t)(kind) << 32 | (cid))

/* What a slot's ref says. A child's is the index of its parent. */
#define REF_CARRIES 1u /* the SEND of sequence number ref >> REF_SHIFT carries the caller's data */
#define REF_PIECES  2u /* of a vectored I/O: ref >> REF_SHIFT more buffers are in slot_bufs() */
#define REF_COMMAND 4u /* no I/O of the library's making, whatever its capsule looks like: never issued again */
#define REF_SHIFT   6
#define REF_SEQ	    (UINT32_MAX >> REF_SHIFT)
_Static_assert(1u << REF_SHIFT == FAB_CAPSULE_BYTES, "a place in the ring needs no arithmetic");

/* The response of a SLOT_HELD. */
struct held_cqe {
	uint64_t result;
	uint16_t status;
};

/* Where an I/O's data stands: one buffer, or a place in an iov array. */
struct cursor {
	struct nvmfr_iov one; /* iov points here when there is no array */
	const struct nvmfr_iov *iov;
	uint64_t left; /* pieces, the present one included */
	uint64_t skip; /* bytes of the present piece already used */
};

/* An I/O carried by several commands. */
struct qparent {
	struct qparent *next; /* free list */
	uint64_t user_data;
	uint64_t lba, blocks_left; /* not issued yet */
	struct cursor at;
	uint64_t sgl; /* the key of data that lies in one piece and one MR; 0: gather them */
	const struct nvmfr_iov *iov; /* from its beginning; NULL: at.one */
	uint64_t niov;
	uint64_t fail_lba; /* lowest that failed */
	uint32_t nsid;
	uint32_t outstanding; /* commands */
	int32_t result;
	uint16_t status;
	uint8_t op, shift;
	bool several; /* commands */
	bool fua;
	bool busy; /* between accept and completion */
};

/* What a controller allows an I/O queue; from its identify data. */
struct queue_limits {
	uint64_t max_xfer_bytes; /* one command's data */
	uint64_t zeroes_bytes; /* Write Zeroes: WZSL, or UINT64_MAX */
	uint32_t icd_bytes; /* 0: no in-capsule data */
	uint32_t max_descriptors; /* 1 or more */
	bool any_bytes; /* they may begin and end anywhere */
	uint64_t verify_bytes; /* Verify: VSL, or UINT64_MAX */
	uint64_t dsm_blocks, dsm_range_blocks; /* Dataset Management: DMSL, DMRSL, or what fits */
	uint32_t dsm_ranges; /* DMRL, or what fits */
	bool write_zeroes, compare, verify, dsm, copy, reservations; /* ONCS */
	bool fused; /* FUSES: Compare and Write */
};

/* Bits 1:0 of an opcode. */
static inline bool op_has_data(uint32_t op)
{
	return op & 3;
}

/* What the blocks of one command may come to. */
static inline uint64_t op_limit(const struct queue_limits *limits, uint32_t op)
{
	if (likely(op_has_data(op)))
		return limits->max_xfer_bytes;
	return op == NVMFR_OP_VERIFY ? limits->verify_bytes : limits->zeroes_bytes;
}

enum link_state {
	LINK_CONNECTING = 1, /* the endpoint is the service's */
	LINK_LIVE, /* the owner's */
	LINK_LOST, /* disconnected; the owner stops it and returns it */
	LINK_CLOSED, /* returned, or there never was one */
};

/* Commands of a queue pair that are being aborted at a time. */
enum { QPAIR_ABORTS = 4 };

struct qpair_abort {
	uint32_t tick; /* when it was asked for */
	uint16_t cid;
};

struct qpair_retry;

struct qpair_link {
	pthread_mutex_t *lock; /* the host's, for all below; NULL: the service is the owner */
	_Atomic uint32_t *word; /* on a page that fork wipes: 0 is a forked child */
	_Atomic uint32_t *group_word; /* changes with it; NULL: no group */
	int service_fd; /* eventfd that wakes the service; the owner writes it */
	int owner_fd; /* eventfd that wakes the owner, or its group's; -1: not made yet */

	/* service to owner */
	enum link_state state;
	struct fab_ep *ep; /* until the owner returned it and the service destroyed it */
	struct nvmfr_qpair *boot; /* a connected queue for the owner to move in */
	struct queue_limits limits;
	struct ns_table *ns; /* a reference */
	void *entry; /* the service's own */
	bool recovering; /* LINK_LOST to LINK_LIVE: it will be made anew */
	bool fast_failed; /* while recovering: fast_io_fail_ms is over */
	uint8_t not_aborted_count;
	uint16_t not_aborted[QPAIR_ABORTS]; /* CIDs whose Abort was answered with no */
	uint64_t doubt_ns; /* LINK_LOST: until then a write may still be carried out; UINT64_MAX: for ever */
	int err; /* LINK_LOST: why */
	char sentence[256];

	/* owner to service */
	uint64_t doubt_until_ns; /* such a write is kept: the service says when, by making it 0 */
	uint16_t abort[QPAIR_ABORTS]; /* CIDs to be aborted */
	uint32_t aborts;
	int fault; /* the owner saw the connection fail: -errno */
	char fault_text[FAB_ERROR_TEXT];
	_Atomic uint32_t wake_tick; /* a sleeper's nearest deadline; 0: none */
	_Atomic uint64_t commands; /* completed, as of its last look around */
	_Atomic int far_node; /* it polls from this NUMA node, which is not the device's; -1: not so */
};

struct nvmfr_qpair {
	/* written on every command or batch; counts that grow together do not lie together, lest the compiler
	 * should take them for a vector */
	_Alignas(CACHE_LINE) uint32_t credit;
	uint32_t lap;
	uint32_t position, done_seq;
	struct qslot **free_top; /* the next free slot is free_top[-1] */
	uint32_t recv_pos; /* of the oldest response not consumed; recv_positions is 0 */
	uint32_t carried_seq; /* of the newest SEND that carries the caller's data */
	struct qpair_chores {
		uint32_t ready; /* responses seen by the fabric, not consumed */
		uint16_t held; /* SLOT_HELD */
		bool carrying; /* a SEND that carries the caller's data may not be done */
		bool backlog; /* one of the parents has commands to issue */
	} chores; /* all zero: nothing that a poll must see to beside the fabric */
	uint32_t unposted; /* receives consumed, not reposted */
	uint32_t children; /* SLOT_CHILD in flight */
	struct qpair_carries {
		uint32_t newest; /* ref of the newest SEND that carries the caller's data; 0: none does */
		uint32_t lists; /* whether one carries a list */
	} carries; /* what was written since the last post */

	/* read on every command, changed when the namespace or the connection does */
	_Alignas(CACHE_LINE) const _Atomic uint32_t *word;
	const _Atomic uint32_t *tick;
	const void *host;
	uint32_t adopted; /* *word while live and well; else WORD_NEVER */
	uint32_t nsid; /* the namespace last used; 0: none */
	uint64_t read_head, write_head; /* first 8 bytes of a plain SQE to it, but for the CID; 0: none may be */
	uint64_t ns_blocks;
	uint64_t ns_max_blocks; /* one command's, at most ns_blocks; 0: none is remembered */

	_Alignas(CACHE_LINE) struct qslot *slots;
	struct qslot **free_base;
	unsigned char *capsules;
	const unsigned char *responses;
	struct fab_ep *ep;
	const struct fab_ops *ops;
	uint32_t mask; /* slots - 1 */
	uint32_t send_positions, recv_positions;
	uint8_t ns_shift;
	uint8_t list_pieces; /* of one command that needs no parent; 1: no list */
	uint8_t max_pieces; /* of one command, at least 1 */
	uint8_t more_stride;

	_Alignas(CACHE_LINE) uint32_t icd_bytes;
	uint32_t key_offset; /* of this device's key in a buffer */
	uint64_t qpair_data;
	unsigned char *more; /* at i * more_stride: slot i's buffers, or its held response */
	struct qparent *parents, *parent_free, *backlog; /* the one that has commands to issue */

	/* cold */
	_Alignas(CACHE_LINE) uint32_t depth;
	uint32_t parent_count;
	uint32_t dev_index;
	uint32_t seen; /* *word at the last look at link */
	uint32_t seen_tick;
	uint32_t timeout_ticks; /* 0: never */
	uint32_t expired; /* commands over their time at the last look */
	uint32_t abort_ticks; /* what an Abort has to bring the CQE */
	uint32_t aborts;
	struct qpair_abort abort[QPAIR_ABORTS]; /* asked for, and not answered as of the last look */
	uint32_t drain_next;
	enum link_state state; /* as adopted */
	bool broken; /* the owner saw it fail, the service has been told */
	bool recovers; /* it will be made anew after that */
	bool recovering; /* as adopted */
	bool stained; /* a capsule may have words set that reads and writes leave alone */
	bool fast_failed; /* as adopted */
	bool many_parents; /* every I/O may need one */
	uint16_t qid;
	uint32_t stained_seq; /* of the newest such */
	uint32_t max_descriptors; /* asked for; limits has the granted ones */
	uint64_t laps; /* commands sent before the present lap */
	struct queue_limits limits;
	struct ns_table *ns; /* a reference */
	uint32_t ns_known; /* generation of the namespace table when it was made: who made it knows that one */
	uint64_t bounced_bytes;
	struct qpair_failures {
		uint64_t refused, aborted, timed_out; /* commands */
	} failures;
	struct qpair_meter *meter; /* NULL: nobody asked for it */
	struct qpair_retry *retry; /* NULL: what a lost connection leaves is told */
	struct nvmfr_buffer *scratch; /* nvmfr_pread's, made when first needed */
	int epoll_fd; /* -1: not made yet */
	struct nvmfr_group *group; /* NULL: polled on its own */
	struct nvmfr_qpair *member_next, **member_prev; /* of the group */
	struct nvmfr_qpair *again_next;
	bool again; /* in the group's list */
	struct wait_pace pace; /* nvmfr_wait's */
	uint32_t far_looks; /* in a row that found the owner on another node than the device's */
	int err;
	char sentence[256];
	struct qpair_link link;
};
_Static_assert(offsetof(struct nvmfr_qpair, word) == CACHE_LINE, "what a command writes fits one line");
_Static_assert(offsetof(struct nvmfr_qpair, slots) == 2 * CACHE_LINE,
	       "what a command reads of its namespace fits one line");
_Static_assert(sizeof(struct qpair_chores) == sizeof(uint64_t), "one look");
_Static_assert(sizeof(struct qpair_carries) == sizeof(uint64_t), "one look");

#define WORD_NEVER UINT32_MAX /* a word skips it, and 0 */

/* Live and well, and nothing new from the service: the one look that submit and poll take. */
#define likely_live(qp) \
	likely(atomic_load_explicit((qp)->word, memory_order_relaxed) == (qp)->adopted)

static inline bool qpair_has_news(const struct nvmfr_qpair *qp)
{
	return atomic_load_explicit(qp->word, memory_order_relaxed) != qp->seen;
}

static inline uint32_t free_slots(const struct nvmfr_qpair *qp)
{
	return (uint32_t)(qp->free_top - qp->free_base);
}

/* Whether a poll has more to do than to ask the fabric. */
static inline bool qpair_has_chores(const struct nvmfr_qpair *qp)
{
	uint64_t all;

	memcpy(&all, &qp->chores, sizeof(all));
	return all != 0;
}

/* Sequence number of the next capsule. */
static inline uint32_t qpair_seq(const struct nvmfr_qpair *qp)
{
	return qp->lap + qp->position;
}

static inline bool qpair_send_done(const struct nvmfr_qpair *qp, uint32_t seq)
{
	return (int32_t)(qp->done_seq - seq) > 0;
}

/*
 * Only the owner writes, so its own look is a plain one, which a compare can do in memory. Buffer release
 * looks from another thread; that look is as good as its moment.
 */
static inline uint64_t slot_state(const struct qslot *slot)
{
	return slot->state;
}

static inline uint64_t slot_state_foreign(const struct qslot *slot)
{
	return __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
}

static inline void set_slot_state(struct qslot *slot, uint64_t state)
{
	__atomic_store_n(&slot->state, state, __ATOMIC_RELAXED);
}

static inline void put_slot(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t cid)
{
	set_slot_state(slot, cid ^ 1u);
	*qp->free_top++ = slot;
}

static inline enum slot_kind state_kind(uint64_t state)
{
	return (enum slot_kind)(state >> 32);
}

static inline uint32_t slot_tick(const struct qslot *slot)
{
	return (uint32_t)atomic_load_explicit(&slot->stamp, memory_order_relaxed);
}

static inline uint32_t slot_ref(const struct qslot *slot)
{
	return (uint32_t)(atomic_load_explicit(&slot->stamp, memory_order_relaxed) >> 32);
}

static inline bool state_in_flight(const struct nvmfr_qpair *qp, const struct qslot *slot,
				   uint64_t state)
{
	return state_kind(state) != SLOT_PLAIN || (state & qp->mask) == (uint64_t)(slot - qp->slots);
}

static inline bool slot_in_flight(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	return state_in_flight(qp, slot, slot_state(slot));
}

/* Memory that a slot has beside it: for the buffers of a vectored I/O, or for a held response. */
static inline const struct nvmfr_buffer *_Atomic *slot_bufs(const struct nvmfr_qpair *qp,
							    const struct qslot *slot)
{
	return (void *)(qp->more + (size_t)(slot - qp->slots) * qp->more_stride);
}

static inline struct held_cqe *slot_held(const struct nvmfr_qpair *qp, const struct qslot *slot)
{
	return (void *)(qp->more + (size_t)(slot - qp->slots) * qp->more_stride);
}

/* The CID of a free slot's next command: a generation on. */
static inline uint32_t slot_next_cid(const struct qslot *slot)
{
	return (((uint32_t)slot_state(slot) ^ 1u) + 0x1000u) & 0xffffu;
}

/* ---- qpair.c: life -------------------------------------------------------------------------------- */

/* Nothing attached. The caller fills in host, word, tick and link. */
struct nvmfr_qpair *nvmfr__qpair_new(uint16_t qid);
void nvmfr__qpair_free(struct nvmfr_qpair *qp); /* accepts NULL; the endpoint must be gone */

/* Makes slots and rings ready for a connected endpoint with `depth` commands in flight. */
int nvmfr__qpair_attach(struct nvmfr_qpair *qp, struct fab_ep *ep, uint32_t depth);

/* The owner takes over what the service published. Locks, unless this is a forked child. */
void nvmfr__qpair_adopt(struct nvmfr_qpair *qp);

static inline bool nvmfr__qpair_forked(const struct nvmfr_qpair *qp)
{
	return atomic_load_explicit(qp->word, memory_order_relaxed) == 0;
}

/* A power of two, and two at least: an idle slot's expect must name another slot. */
uint32_t nvmfr__qpair_table_size(uint32_t depth);

/* Nothing is in flight, nor ended and not told: another connection's rings may take their place. */
bool nvmfr__qpair_drained(const struct nvmfr_qpair *qp);

/* I/Os that wait for another connection, and those of them that no slot counts. */
uint32_t nvmfr__retry_held(const struct nvmfr_qpair *qp);
uint32_t nvmfr__retry_unplaced(const struct nvmfr_qpair *qp);

/* A completion is still to come. */
static inline bool qpair_is_busy(const struct nvmfr_qpair *qp)
{
	return free_slots(qp) != qp->depth || qp->chores.backlog || nvmfr__retry_held(qp);
}

/* Commands completed so far. */
static inline uint64_t qpair_commands(const struct nvmfr_qpair *qp)
{
	return qp->laps + qp->position - (qp->depth - free_slots(qp));
}

/* A command ended so. */
static inline void qpair_count_failure(struct nvmfr_qpair *qp, int32_t result)
{
	uint64_t *count = &qp->failures.refused;

	if (result == -ECONNABORTED)
		count = &qp->failures.aborted;
	else if (result == -ETIMEDOUT)
		count = &qp->failures.timed_out;
	meter_add(count, 1);
}

/* Whether the place of the list of the SEND with this number may hold another one's. */
static inline bool tail_taken(const struct nvmfr_qpair *qp, uint32_t seq)
{
	return seq - qp->done_seq >= FAB_TAILS;
}

/* The send ring is about to begin anew: what is in flight is not to be forgotten. */
void nvmfr__retry_lap(struct nvmfr_qpair *qp);

/* How many commands the ring takes in one run; wraps it at its end, unless it is stained. */
static inline uint32_t ring_room(struct nvmfr_qpair *qp)
{
	if (unlikely(qp->position == qp->send_positions)) {
		if (unlikely(qp->stained))
			return 0;
		if (qp->retry)
			nvmfr__retry_lap(qp);
		qp->lap += qp->position;
		qp->laps += qp->position;
		qp->position = 0;
	}
	return nvmfr__min_u32(qp->send_positions - (qpair_seq(qp) - qp->done_seq),
			      qp->send_positions - qp->position);
}

/* Sets credit: the ring's room, or 0 while something else must come first. */
static inline void qpair_credit(struct nvmfr_qpair *qp)
{
	bool closed = qp->adopted == WORD_NEVER || qp->chores.backlog;

	qp->credit = unlikely(closed) ? 0 : ring_room(qp);
}

/* How many commands fit without a second look. */
static inline uint32_t qpair_room(const struct nvmfr_qpair *qp)
{
	return nvmfr__min_u32(qp->credit, free_slots(qp));
}

/* The connection failed under the owner: nothing more is sent, the service is told. */
void nvmfr__qpair_fault(struct nvmfr_qpair *qp, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The owner: a command is to be aborted. */
void nvmfr__link_abort(struct qpair_link *link, uint16_t cid);

/* ---- expiry.c: commands over their time ------------------------------------------------------------- */

/* The service's tick moved. */
void nvmfr__qpair_check_timeouts(struct nvmfr_qpair *qp);
void nvmfr__qpair_not_aborted(struct nvmfr_qpair *qp, uint16_t cid);
/* Whether a command with this CID is in flight and over its time. The service, the host's lock held: a look at a
 * moment. */
bool nvmfr__qpair_over_time(const struct nvmfr_qpair *qp, uint16_t cid);
/* What a command that was refused with this status ends with: an Abort of ours is a timeout. */
int32_t nvmfr__qpair_refusal(struct nvmfr_qpair *qp, uint32_t cid, uint16_t status);

/* Ends the endpoint's access to memory and hands it back to the service. */
void nvmfr__qpair_retire(struct nvmfr_qpair *qp);

/* A word's next value. */
void nvmfr__word_step(_Atomic uint32_t *word);

/* The service: what it changed in link becomes visible, a sleeper wakes. The host's lock held. */
void nvmfr__link_publish(struct qpair_link *link);

/* Whether a command was submitted at this tick or later. The host's lock held; by another thread a look at a moment. */
bool nvmfr__qpair_sent_since(const struct nvmfr_qpair *qp, uint32_t tick);

/* Whether a command in flight names buf. The host's lock held; exact when the owner calls. */
bool nvmfr__qpair_names(const struct nvmfr_qpair *qp, const struct nvmfr_buffer *buf);

/* Why submit or poll cannot: the state as -errno with its sentence. */
int nvmfr__qpair_state_error(struct nvmfr_qpair *qp);
int nvmfr__qpair_full(const struct nvmfr_qpair *qp);

/* Where the owner polls from, now and then: a poll that saw the tick move. The service tells of it. */
enum { FAR_LOOKS = 10 }; /* a second of them: a thread that only passes by is not worth a sentence */
void nvmfr__qpair_look_around(struct nvmfr_qpair *qp);

int nvmfr__qpair_fd(struct nvmfr_qpair *qp);
int nvmfr__qpair_arm(struct nvmfr_qpair *qp);
/* For the service: when this sleeper's oldest command is over its time. */
void nvmfr__qpair_tell_deadline(struct nvmfr_qpair *qp);

/* ---- submit.c --------------------------------------------------------------------------------------- */

/* One SQE as it is, but for its CID: admin commands, Fabrics Connect. -EAGAIN: no room. */
int nvmfr__qpair_post_raw(struct nvmfr_qpair *qp, const struct nvme_sqe *sqe, uint64_t user_data);

int nvmfr__qpair_read(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		      struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data);
int nvmfr__qpair_write(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		       struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data);
int nvmfr__qpair_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n);

/* Of a stained ring: zeroes what put_rw() takes for zero. true: it may wrap now; false: a SEND still reads it. */
bool nvmfr__qpair_scrub(struct nvmfr_qpair *qp);
/* For who submits and has nothing to poll for: looks first whether that SEND is done. */
bool nvmfr__qpair_look_and_scrub(struct nvmfr_qpair *qp);

/* Adopts news, refreshes credit. 0: a command fits; else why not. */
int nvmfr__qpair_make_room(struct nvmfr_qpair *qp);

/* All that can be said of an I/O but for the pieces of a vectored one; *ns is NULL for a flush of all. Its
 * namespace is the one at hand from then on. */
int nvmfr__qpair_check(struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry **ns);

/* ---- split.c: I/Os of several commands ---------------------------------------------------- */

/* What nvmfr__qpair_check() leaves out: the bytes' number, and the pieces of a vectored I/O. */
int nvmfr__split_check(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
		       const struct ns_entry *ns);

/* Accepts an I/O that one plain command cannot carry. 0, or an error and no effect. */
int nvmfr__split_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry *ns);

/* Issues what the backlog has and the queue takes. */
void nvmfr__split_issue(struct nvmfr_qpair *qp);

/* A child failed, or the last one ended: fills out when that completes its parent: 1, else 0. */
unsigned int nvmfr__split_child_failed(struct nvmfr_qpair *qp, struct qparent *parent, uint64_t lba,
				       int32_t result, uint16_t status, uint64_t cqe_result,
				       struct nvmfr_completion *out);
unsigned int nvmfr__split_finish(struct nvmfr_qpair *qp, struct qparent *parent,
				 uint64_t cqe_result, struct nvmfr_completion *out);

/* A child ended well. */
static inline unsigned int split_child_done(struct nvmfr_qpair *qp, uint32_t parent_index,
					    uint64_t cqe_result, struct nvmfr_completion *out)
{
	struct qparent *parent = &qp->parents[parent_index];

	qp->children--;
	if (--parent->outstanding | parent->blocks_left)
		return 0;
	return nvmfr__split_finish(qp, parent, cqe_result, out);
}

/* Without completions: their buffers are free again. The endpoint must be gone. */
void nvmfr__split_forget(struct nvmfr_qpair *qp);

/* Its commands are gone, the I/O is not; its buffers stay marked. */
void nvmfr__split_drop(struct nvmfr_qpair *qp, struct qparent *parent);

/* The buffers of an I/O, named once each piece: not to be released before its completion. by: 1 or UINT32_MAX. */
void nvmfr__buffers_mark(struct nvmfr_buffer *buf, const struct nvmfr_iov *iov, uint64_t niov, uint32_t by);

/* After the connection is gone: the backlog will not be issued. */
void nvmfr__split_abandon(struct nvmfr_qpair *qp);
unsigned int nvmfr__split_reap(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max);

/* ---- poll.c ----------------------------------------------------------------------------------------- */

int nvmfr__qpair_poll(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max);

/* ---- group.c ---------------------------------------------------------------------------------------- */

/* A member's poll filled its array, or a look at it found something: the group's next poll asks it, if
 * anything is left. */
void nvmfr__group_ask_again(struct nvmfr_qpair *qp);

#endif
