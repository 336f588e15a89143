/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing one command: an SQE into its place in the ring, its slot, and what its SEND carries. */
#ifndef NVMFR_QUEUE_CAPSULE_H
#define NVMFR_QUEUE_CAPSULE_H

#include "queue/qpair.h"

#define INLINE static inline __attribute__((always_inline))

/*
 * The first eight bytes of a struct nvmfr_io (op, reserved, flags, nsid) and those of an SQE but for its
 * CID (opcode, flags, nsid) tell the same. One compare with what the last checked namespace allows
 * (qp->read_head, qp->write_head) covers all of these.
 */
_Static_assert(offsetof(struct nvmfr_io, op) == 0 && offsetof(struct nvmfr_io, flags) == 2 &&
		       offsetof(struct nvmfr_io, nsid) == 4 && offsetof(struct nvmfr_io, lba) == 8,
	       "head of struct nvmfr_io");

#define SQE_HEAD(op, nsid) ((uint64_t)(nsid) << 32 | NVME_FLAGS_PSDT_SGL << 8 | (uint64_t)(op))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IO_HEAD_VEC ((uint64_t)NVMFR_IO_VEC << 16)
#else
#define IO_HEAD_VEC ((uint64_t)NVMFR_IO_VEC << 32)
#endif

/* What a plain struct nvmfr_io begins with where its SQE begins so. */
static inline uint64_t io_head_of(uint64_t sqe_head)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return sqe_head - (NVME_FLAGS_PSDT_SGL << 8);
#else
	return sqe_head << 56 | sqe_head >> 32;
#endif
}

INLINE void put64(unsigned char *capsule, unsigned int word, uint64_t value)
{
	le64 v = to_le64(value);

	memcpy(capsule + word * 8, &v, sizeof(v));
}

INLINE unsigned char *capsule_at(const struct nvmfr_qpair *qp, uint32_t position)
{
	return qp->capsules + (size_t)position * FAB_CAPSULE_BYTES;
}

/* Words 1, 2 and 7 of an I/O queue's capsules are zero from connect on and stay so. */
INLINE void put_rw(unsigned char *capsule, uint64_t head, uint32_t cid, uint64_t sgl0,
		   uint64_t sgl1, uint64_t lba, uint64_t cdw12)
{
	put64(capsule, 0, head | (uint64_t)cid << 16);
	put64(capsule, 3, sgl0);
	put64(capsule, 4, sgl1);
	put64(capsule, 5, lba);
	put64(capsule, 6, cdw12);
}

INLINE void start_slot(struct qslot *slot, uint64_t state, const struct nvmfr_buffer *buf,
		       uint64_t user_data, uint32_t tick, uint32_t ref)
{
	set_slot_state(slot, state);
	atomic_store_explicit(&slot->buf, buf, memory_order_relaxed);
	slot->user_data = user_data;
	atomic_store_explicit(&slot->stamp, (uint64_t)ref << 32 | tick, memory_order_relaxed);
}

INLINE uint32_t tick_now(const struct nvmfr_qpair *qp)
{
	return atomic_load_explicit(qp->tick, memory_order_relaxed);
}

INLINE const struct buffer_key *buffer_key(const struct nvmfr_qpair *qp,
					   const struct nvmfr_buffer *buf)
{
	return (const struct buffer_key *)((const char *)buf + qp->key_offset);
}

/* Whether blocks are one command's, of the namespace at hand. ns_max_blocks is at most ns_blocks. */
INLINE bool range_fits(const struct nvmfr_qpair *qp, uint64_t lba, uint64_t nblocks)
{
	return likely(nblocks - 1 < qp->ns_max_blocks) && likely(lba <= qp->ns_blocks - nblocks);
}

/* The key, if len bytes from offset on are ours, lie in one MR and may be used so; else NULL. */
INLINE const struct buffer_key *key_of(const struct nvmfr_qpair *qp, const struct nvmfr_buffer *buf,
				       uint64_t offset, uint64_t len, uint32_t access)
{
	const struct buffer_key *key;

	if (unlikely(!buf || buf->host != qp->host))
		return NULL;
	if (unlikely(len > buf->len || offset > buf->len - len))
		return NULL;
	key = buffer_key(qp, buf);
	return likely(key->access & access) ? key : NULL;
}

INLINE uint32_t position_of(const struct nvmfr_qpair *qp, const unsigned char *capsule)
{
	return (uint32_t)((size_t)(capsule - qp->capsules) / FAB_CAPSULE_BYTES);
}

/* The SEND of `position` carries this, once. The caller notes it in qp->carries. */
INLINE void set_carry(struct nvmfr_qpair *qp, uint32_t position, uint64_t addr, uint32_t bytes,
		      uint32_t lkey)
{
	unsigned char *send = qp->ep->sends + (size_t)position * sizeof(struct fab_send);
	const uint32_t pieces = 2;

	memcpy(send + offsetof(struct fab_send, carry.addr), &addr, sizeof(addr));
	memcpy(send + offsetof(struct fab_send, carry.bytes), &bytes, sizeof(bytes));
	memcpy(send + offsetof(struct fab_send, carry.lkey), &lkey, sizeof(lkey));
	memcpy(send + offsetof(struct fab_send, pieces), &pieces, sizeof(pieces));
}

/* The place for the list of descriptors that goes out with the SEND of `position`. */
INLINE unsigned char *tail_at(const struct nvmfr_qpair *qp, uint32_t position)
{
	return qp->ep->tails + (size_t)((qp->lap + position) % FAB_TAILS) * qp->ep->tail_bytes;
}

/* It was written. */
INLINE void set_list(struct nvmfr_qpair *qp, uint32_t position, const unsigned char *tail,
		     uint32_t descriptors)
{
	set_carry(qp, position, (uintptr_t)tail, descriptors * (uint32_t)sizeof(struct nvme_sgl),
		  qp->ep->tails_lkey);
	qp->carries.lists = true;
}

/* A command's second half of a descriptor that points to a list behind the SQE. */
INLINE uint64_t list_sgl(uint32_t descriptors)
{
	return (uint64_t)(descriptors * sizeof(struct nvme_sgl)) |
	       (uint64_t)NVME_SGL_LAST_SEGMENT_OFFSET << 56;
}

/* The ring's next n positions were written, slots were taken for them. */
INLINE void advance(struct nvmfr_qpair *qp, uint32_t n)
{
	qp->free_top -= n;
	qp->position += n;
	qp->credit -= n;
}

int nvmfr__qpair_post_carrying(struct nvmfr_qpair *qp, uint32_t first, uint32_t n);

INLINE int post(struct nvmfr_qpair *qp, uint32_t first, uint32_t n)
{
	uint64_t carries;

	memcpy(&carries, &qp->carries, sizeof(carries));
	if (unlikely(carries))
		return nvmfr__qpair_post_carrying(qp, first, n);
	return qp->ops->post_send(qp->ep, first, n);
}

#endif
