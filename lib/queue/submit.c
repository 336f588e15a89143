/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/capsule.h"

/* Behind post(): one of those that carry data must tell when it is done. */
int nvmfr__qpair_post_carrying(struct nvmfr_qpair *qp, uint32_t first, uint32_t n)
{
	uint32_t told = FAB_NO_POSITION;

	if (qp->carries.newest) {
		told = ((qp->carries.newest >> REF_SHIFT) - qp->lap) & REF_SEQ;
		qp->carried_seq = qp->lap + told;
		qp->chores.carrying = true;
	}
	qp->carries = (struct qpair_carries){ 0 };
	return qp->ops->post_carrying(qp->ep, first, n, told);
}

/*
 * A write whose data travels behind its SQE. Data and place are the caller's until the SEND is done.
 */
INLINE void put_carrying(struct nvmfr_qpair *qp, struct qslot *slot, unsigned char *capsule,
			 uint64_t lba, uint64_t cdw12, struct nvmfr_buffer *buf,
			 const struct buffer_key *key, uint64_t offset, uint64_t len,
			 uint64_t user_data, uint32_t tick)
{
	const uint32_t cid = slot_next_cid(slot);
	uint32_t at, ref;

	put_rw(capsule, qp->write_head, cid, 0, len | (uint64_t)NVME_SGL_DATA_OFFSET << 56, lba,
	       cdw12);
	at = (uint32_t)(capsule - qp->capsules);
	ref = (qp->lap << REF_SHIFT) + at + REF_CARRIES;
	start_slot(slot, cid, buf, user_data, tick, ref);
	qp->carries.newest = ref;
	set_carry(qp, at / FAB_CAPSULE_BYTES, buf->addr + offset, (uint32_t)len, key->lkey);
}

/*
 * The key for a command that needs no second look: of the namespace at hand (the caller compared the
 * head), one command's length, one MR. NULL: the slow path decides.
 */
INLINE const struct buffer_key *key_for(const struct nvmfr_qpair *qp, uint32_t op, uint64_t lba,
					uint64_t nblocks, const struct nvmfr_buffer *buf,
					uint64_t offset, uint64_t *len)
{
	const uint32_t access = op == NVMFR_OP_READ ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE;

	if (!range_fits(qp, lba, nblocks))
		return NULL;
	*len = nblocks << qp->ns_shift;
	return key_of(qp, buf, offset, *len, access);
}

/* Writes such a command, of len bytes, to a ring position. */
INLINE void put_plain(struct nvmfr_qpair *qp, struct qslot *slot, unsigned char *capsule, uint32_t op,
		      uint64_t lba, uint64_t cdw12, struct nvmfr_buffer *buf,
		      const struct buffer_key *key, uint64_t offset, uint64_t len, uint64_t user_data,
		      uint32_t tick)
{
	uint64_t head;
	uint32_t cid;

	if (op == NVMFR_OP_WRITE && len <= qp->icd_bytes && !(buf->flags & BUFFER_DMABUF)) {
		put_carrying(qp, slot, capsule, lba, cdw12, buf, key, offset, len, user_data, tick);
		return;
	}
	cid = slot_next_cid(slot);
	head = op == NVMFR_OP_READ ? qp->read_head : qp->write_head;
	start_slot(slot, cid, buf, user_data, tick, 0);
	put_rw(capsule, head, cid, buf->addr + offset, key->sgl + len, lba, cdw12);
}

/*
 * The descriptors of a vectored I/O. Returns its bytes; 0: a piece needs a second look. The first piece's
 * buffer is the slot's; where another one follows it is noted beside the slot: how many is in *others.
 */
INLINE uint64_t put_list(const struct nvmfr_qpair *qp, const struct qslot *slot, unsigned char *list,
			 const struct nvmfr_iov *iov, const struct nvmfr_iov *end, uint32_t access,
			 uint32_t *others)
{
	uint64_t bytes = 0;

	for (;;) {
		const struct nvmfr_buffer *buf = iov->buf;
		const struct buffer_key *key = key_of(qp, buf, 0, 0, access);

		if (unlikely(!key))
			return 0;
		do {
			const uint64_t offset = iov->offset_bytes, len = iov->len_bytes;

			if (unlikely(len - 1 >= buf->len || offset > buf->len - len))
				return 0;
			put64(list, 0, buf->addr + offset);
			put64(list, 1, key->sgl + len);
			bytes += len;
			list += sizeof(struct nvme_sgl);
			iov++;
		} while (iov < end && iov->buf == buf);
		if (iov == end)
			return bytes;
		atomic_store_explicit(&slot_bufs(qp, slot)[(*others)++], iov->buf,
				      memory_order_relaxed);
	}
}

/* An iov array that one command's descriptors can name, two or more. false: the slow path decides. */
static __attribute__((noinline)) bool put_vec(struct nvmfr_qpair *qp, struct qslot *slot,
					      unsigned char *capsule, const struct nvmfr_io *io,
					      uint32_t fua)
{
	const bool read = io->op == NVMFR_OP_READ;
	const uint32_t access = read ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE;
	const uint32_t position = position_of(qp, capsule);
	const uint64_t niov = io->niov;
	uint32_t cid, others = 0;
	unsigned char *tail;
	uint64_t bytes;

	if (unlikely(tail_taken(qp, qp->lap + position)) || !range_fits(qp, io->lba, io->nblocks))
		return false;
	if (unlikely(niov - 2 >= qp->list_pieces - UINT64_C(1) || !io->iov))
		return false;
	tail = tail_at(qp, position);
	bytes = put_list(qp, slot, tail, io->iov, io->iov + niov, access, &others);
	if (unlikely(bytes != io->nblocks << qp->ns_shift))
		return false;
	set_list(qp, position, tail, (uint32_t)niov);
	cid = slot_next_cid(slot);
	put_rw(capsule, read ? qp->read_head : qp->write_head, cid, 0, list_sgl((uint32_t)niov),
	       io->lba, (io->nblocks - 1) | fua);
	start_slot(slot, cid, io->iov->buf, io->user_data, tick_now(qp),
		   others << REF_SHIFT | REF_PIECES);
	return true;
}

/* Takes a slot and a capsule for one command; the caller has checked that there are. */
static struct qslot *take(struct nvmfr_qpair *qp, struct nvme_sqe **sqe, uint32_t *cid)
{
	struct qslot *slot = qp->free_top[-1];

	*sqe = (struct nvme_sqe *)(void *)capsule_at(qp, qp->position);
	*cid = slot_next_cid(slot);
	advance(qp, 1);
	return slot;
}

int nvmfr__qpair_post_raw(struct nvmfr_qpair *qp, const struct nvme_sqe *sqe, uint64_t user_data)
{
	uint32_t position, cid;
	struct nvme_sqe *place;
	struct qslot *slot;

	qpair_credit(qp);
	if (qpair_room(qp) == 0)
		return -EAGAIN;
	position = qp->position;
	slot = take(qp, &place, &cid);
	*place = *sqe;
	place->cid = to_le16((uint16_t)cid);
	start_slot(slot, cid, NULL, user_data, tick_now(qp), 0);
	return qp->ops->post_send(qp->ep, position, 1);
}

/* ---- the slow path: what the fast one would not do, with its reason -------------------------- */

/* Adopts news, refreshes credit. 0: a command fits; else why not. */
int nvmfr__qpair_make_room(struct nvmfr_qpair *qp)
{
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	if (nvmfr__qpair_forked(qp) || qp->state != LINK_LIVE || qp->broken)
		return nvmfr__qpair_state_error(qp);
	qpair_credit(qp);
	if (unlikely(qp->stained) && !qp->credit && nvmfr__qpair_look_and_scrub(qp))
		qpair_credit(qp);
	return qpair_room(qp) ? 0 : nvmfr__qpair_full(qp);
}

static int check_range(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
		       const struct ns_entry *ns)
{
	if (ns->another > qp->ns_known)
		return nvmfr__fail(-ESTALE,
				   "namespace %u is another one now (its NGUID, UUID or EUI-64): make a new queue pair "
				   "if that is the one to use",
				   ns->nsid);
	if (ns->refusal)
		return nvmfr__fail(-EOPNOTSUPP, "namespace %u: %s", ns->nsid, ns->refusal);
	if (io->nblocks == 0)
		return nvmfr__fail(-EINVAL, "nblocks is 0; only a flush has no blocks");
	if (io->lba >= ns->blocks || io->nblocks > ns->blocks - io->lba)
		return nvmfr__fail(-ERANGE,
				   "LBA %" PRIu64 " and %" PRIu64
				   " blocks reach beyond namespace %u, which has %" PRIu64
				   " blocks",
				   io->lba, io->nblocks, ns->nsid, ns->blocks);
	if (UINT64_C(1) << ns->shift > nvmfr__min_u64(qp->limits.max_xfer_bytes, op_limit(&qp->limits, io->op)))
		return nvmfr__fail(
			-EOPNOTSUPP,
			"namespace %u: a block of %u bytes is longer than one command may carry (MDTS, WZSL or VSL)",
			ns->nsid, 1u << ns->shift);
	if (ns->write_protected && (io->op == NVMFR_OP_WRITE || io->op == NVMFR_OP_WRITE_ZEROES))
		return nvmfr__fail(-EROFS, "namespace %u is write protected", ns->nsid);
	return 0;
}

static int check_op(const struct nvmfr_qpair *qp, uint8_t op)
{
	switch (op) {
	case NVMFR_OP_FLUSH:
	case NVMFR_OP_WRITE:
	case NVMFR_OP_READ:
		return 0;
	case NVMFR_OP_WRITE_ZEROES:
		return qp->limits.write_zeroes
			       ? 0
			       : nvmfr__fail(-EOPNOTSUPP,
					     "the controller has no Write Zeroes (ONCS bit 3 is clear)");
	case NVMFR_OP_COMPARE:
		return qp->limits.compare
			       ? 0
			       : nvmfr__fail(-EOPNOTSUPP,
					     "the controller has no Compare (ONCS bit 0 is clear)");
	case NVMFR_OP_VERIFY:
		return qp->limits.verify
			       ? 0
			       : nvmfr__fail(-EOPNOTSUPP,
					     "the controller has no Verify (ONCS bit 7 is clear)");
	default: return nvmfr__fail(-EINVAL, "op %u is not one of enum nvmfr_op", op);
	}
}

static int check_shape(const struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	if (io->reserved0 || io->reserved1[0] || io->reserved1[1])
		return nvmfr__fail(-EINVAL, "a reserved field of struct nvmfr_io is not zero");
	if (io->flags & ~(unsigned int)(NVMFR_IO_FUA | NVMFR_IO_VEC))
		return nvmfr__fail(-EINVAL, "flags 0x%x has unknown bits", io->flags);
	if ((io->flags & NVMFR_IO_VEC) && !op_has_data(io->op))
		return nvmfr__fail(-EINVAL, "NVMFR_IO_VEC goes with reads, writes and compares only");
	if (io->op == NVMFR_OP_FLUSH && (io->nblocks || io->lba))
		return nvmfr__fail(-EINVAL, "a flush has neither LBA nor blocks");
	return check_op(qp, io->op);
}

/* The buffer's own reasons: handle, bounds, access, keys. Its length is io's. */
static int check_buffer(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
			const struct ns_entry *ns)
{
	uint32_t access = io->op == NVMFR_OP_READ ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE;
	uint64_t max = UINT64_MAX >> ns->shift, bytes;
	uint32_t rkey, lkey;

	if (!io->buf)
		return nvmfr__fail(-EINVAL, "buf is NULL");
	if (io->buf->host != qp->host)
		return nvmfr__fail(-EINVAL, "the buffer belongs to another host");
	if (io->nblocks > max || io->nblocks << ns->shift > io->buf->len ||
	    io->offset_bytes > io->buf->len - (io->nblocks << ns->shift))
		return nvmfr__fail(-ERANGE,
				   "%" PRIu64 " blocks of %u bytes from offset %" PRIu64
				   " on reach beyond the buffer's %" PRIu64 " bytes",
				   io->nblocks, 1u << ns->shift, io->offset_bytes, io->buf->len);
	bytes = 1;
	return nvmfr__buffer_keys(io->buf, qp->ep->dev, io->offset_bytes, &bytes, access, &rkey,
				  &lkey);
}

/* Flush, Write Zeroes and Verify of one command: an SQE without data. */
static int submit_dataless(struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	uint32_t position = qp->position, cid;
	struct nvme_sqe *sqe;
	struct qslot *slot = take(qp, &sqe, &cid);

	nvme_sqe_init(sqe, io->op);
	sqe->cid = to_le16((uint16_t)cid);
	sqe->nsid = to_le32(io->nsid);
	if (io->op != NVMFR_OP_FLUSH) {
		le64 lba = to_le64(io->lba);

		memcpy(&sqe->cdw10, &lba, sizeof(lba));
		sqe->cdw12 = to_le32((uint32_t)(io->nblocks - 1) |
				     (io->flags & NVMFR_IO_FUA ? NVME_RW_FUA : 0));
	}
	start_slot(slot, cid, NULL, io->user_data, tick_now(qp), 0);
	return qp->ops->post_send(qp->ep, position, 1);
}

static void remember_namespace(struct nvmfr_qpair *qp, const struct ns_entry *ns)
{
	uint64_t blocks =
		nvmfr__min_u64(qp->limits.max_xfer_bytes >> ns->shift, NVME_RW_MAX_BLOCKS);

	if (ns->refusal)
		return;
	qp->nsid = ns->nsid;
	qp->ns_blocks = ns->blocks;
	qp->ns_shift = (uint8_t)ns->shift;
	qp->ns_max_blocks = nvmfr__min_u64(blocks, ns->blocks);
	qp->read_head = SQE_HEAD(NVMFR_OP_READ, ns->nsid);
	/* Compared after read_head, or with a write's own: this one never equals. */
	qp->write_head = ns->write_protected ? qp->read_head : SQE_HEAD(NVMFR_OP_WRITE, ns->nsid);
}

static bool fits_one_command(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
			     const struct ns_entry *ns)
{
	return io->nblocks <= NVME_RW_MAX_BLOCKS &&
	       io->nblocks << ns->shift <= op_limit(&qp->limits, io->op);
}

/* As one command, if it can be one without help. */
static bool put_data(struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry *ns)
{
	const uint32_t fua = io->flags & NVMFR_IO_FUA ? NVME_RW_FUA : 0;
	unsigned char *capsule = capsule_at(qp, qp->position);
	const struct buffer_key *key;
	uint64_t len;

	if (io->flags & NVMFR_IO_VEC)
		return put_vec(qp, qp->free_top[-1], capsule, io, fua);
	if (!fits_one_command(qp, io, ns))
		return false;
	key = key_for(qp, io->op, io->lba, io->nblocks, io->buf, io->offset_bytes, &len);
	if (!key)
		return false;
	put_plain(qp, qp->free_top[-1], capsule, io->op, io->lba, (io->nblocks - 1) | fua, io->buf,
		  key, io->offset_bytes, len, io->user_data, tick_now(qp));
	return true;
}

static int submit_data(struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry *ns)
{
	const uint32_t position = qp->position;

	if (!put_data(qp, io, ns))
		return nvmfr__split_submit(qp, io, ns);
	advance(qp, 1);
	return post(qp, position, 1);
}

int nvmfr__qpair_check(struct nvmfr_qpair *qp, const struct nvmfr_io *io,
		       const struct ns_entry **found)
{
	const struct ns_entry *ns;
	int err = check_shape(qp, io);

	*found = NULL;
	if (err)
		return err;
	if (io->nsid == 0)
		return nvmfr__fail(-EINVAL, "nsid is 0; namespaces are counted from 1");
	*found = ns = nvmfr__ns_find(qp->ns, io->nsid);
	if (!ns && !(io->op == NVMFR_OP_FLUSH && io->nsid == NVME_NSID_ALL))
		return nvmfr__fail(-ENOENT, "namespace %u is not active on this controller",
				   io->nsid);
	if (io->op == NVMFR_OP_FLUSH)
		return 0;
	err = check_range(qp, io, ns);
	if (err)
		return err;
	remember_namespace(qp, ns);
	if (!op_has_data(io->op) || (io->flags & NVMFR_IO_VEC))
		return 0;
	return check_buffer(qp, io, ns);
}

static __attribute__((noinline)) int submit_slow(struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	const struct ns_entry *ns;
	int err = nvmfr__qpair_make_room(qp);

	if (!err)
		err = nvmfr__qpair_check(qp, io, &ns);
	if (err)
		return err;
	if (io->op == NVMFR_OP_FLUSH)
		return submit_dataless(qp, io);
	if (io->op == NVMFR_OP_READ || io->op == NVMFR_OP_WRITE)
		return submit_data(qp, io, ns);
	if (!op_has_data(io->op) && fits_one_command(qp, io, ns))
		return submit_dataless(qp, io);
	return nvmfr__split_submit(qp, io, ns);
}

/* ---- entry points ---------------------------------------------------------------------------- */

static int submit_parts(struct nvmfr_qpair *qp, uint32_t op, uint32_t nsid, uint64_t lba,
			uint64_t nblocks, struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data)
{
	struct nvmfr_io io = {
		.op = (uint8_t)op,
		.nsid = nsid,
		.lba = lba,
		.nblocks = nblocks,
		.buf = buf,
		.offset_bytes = offset,
		.user_data = user_data,
	};

	return submit_slow(qp, &io);
}

/* Whether it could be written to the ring at once; posting is the caller's. */
INLINE bool put_one(struct nvmfr_qpair *qp, uint32_t op, uint32_t nsid, uint64_t lba,
		    uint64_t nblocks, struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data)
{
	const struct buffer_key *key;
	uint64_t len;

	/* The namespace at hand may be read; nsid 0, none being at hand, has no blocks. */
	if (unlikely(op == NVMFR_OP_READ ? nsid != qp->nsid
					 : qp->write_head != SQE_HEAD(op, nsid)) ||
	    unlikely(qp->credit == 0) || unlikely(qp->free_top == qp->free_base) ||
	    !likely_live(qp))
		return false;
	key = key_for(qp, op, lba, nblocks, buf, offset, &len);
	if (unlikely(!key))
		return false;
	put_plain(qp, qp->free_top[-1], capsule_at(qp, qp->position), op, lba, nblocks - 1, buf, key,
		  offset, len, user_data, tick_now(qp));
	return true;
}

/* Behind put_one: the rest is the fabric's. */
INLINE int post_read(struct nvmfr_qpair *qp)
{
	uint32_t position = qp->position;

	advance(qp, 1);
	return qp->ops->post_send(qp->ep, position, 1);
}

INLINE int post_write(struct nvmfr_qpair *qp)
{
	uint32_t position = qp->position;

	advance(qp, 1);
	return post(qp, position, 1);
}

/*
 * Room comes back, and then it is a plain one mostly. The same parameters as their callers have, so that
 * the call is a jump and the fast path saves no register.
 */
static __attribute__((noinline)) int read_slow(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba,
					       uint64_t nblocks, struct nvmfr_buffer *buf,
					       uint64_t offset, uint64_t user_data)
{
	int err = nvmfr__qpair_make_room(qp);

	if (err)
		return err;
	if (!put_one(qp, NVMFR_OP_READ, nsid, lba, nblocks, buf, offset, user_data))
		return submit_parts(qp, NVMFR_OP_READ, nsid, lba, nblocks, buf, offset, user_data);
	return post_read(qp);
}

static __attribute__((noinline)) int write_slow(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba,
						uint64_t nblocks, struct nvmfr_buffer *buf,
						uint64_t offset, uint64_t user_data)
{
	int err = nvmfr__qpair_make_room(qp);

	if (err)
		return err;
	if (!put_one(qp, NVMFR_OP_WRITE, nsid, lba, nblocks, buf, offset, user_data))
		return submit_parts(qp, NVMFR_OP_WRITE, nsid, lba, nblocks, buf, offset, user_data);
	return post_write(qp);
}

int nvmfr__qpair_read(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		      struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data)
{
	if (unlikely(!put_one(qp, NVMFR_OP_READ, nsid, lba, nblocks, buf, offset, user_data)))
		return read_slow(qp, nsid, lba, nblocks, buf, offset, user_data);
	return post_read(qp);
}

int nvmfr__qpair_write(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		       struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data)
{
	if (unlikely(!put_one(qp, NVMFR_OP_WRITE, nsid, lba, nblocks, buf, offset, user_data)))
		return write_slow(qp, nsid, lba, nblocks, buf, offset, user_data);
	return post_write(qp);
}

INLINE bool put_io(struct nvmfr_qpair *qp, struct qslot *const *slot, unsigned char *capsule,
		   uint32_t op, const struct nvmfr_io *io, const _Atomic uint32_t *tick)
{
	uint64_t len;
	const struct buffer_key *key =
		key_for(qp, op, io->lba, io->nblocks, io->buf, io->offset_bytes, &len);

	if (unlikely(!key))
		return false;
	put_plain(qp, *slot, capsule, op, io->lba, io->nblocks - 1, io->buf, key, io->offset_bytes,
		  len, io->user_data, atomic_load_explicit(tick, memory_order_relaxed));
	return true;
}

/* Reads and writes of ios, as far as they need no second look: how many were written to the ring. */
INLINE uint32_t put_run(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, uint32_t n)
{
	unsigned char *capsule = capsule_at(qp, qp->position);
	const uint64_t plain_read = io_head_of(qp->read_head);
	const uint64_t plain_write = io_head_of(qp->write_head);
	const struct nvmfr_io *io = ios, *end = ios + n;
	const _Atomic uint32_t tick = tick_now(qp); /* one look for all of them */
	struct qslot **slots = qp->free_top;

	for (; io < end; io++, capsule += FAB_CAPSULE_BYTES) {
		slots--;
		uint64_t head;
		bool put;

		memcpy(&head, io, sizeof(head));
		if (unlikely(io->reserved1[0] | io->reserved1[1]))
			break;
		if (likely(head == plain_read))
			put = put_io(qp, slots, capsule, NVMFR_OP_READ, io, &tick);
		else if (head == plain_write)
			put = put_io(qp, slots, capsule, NVMFR_OP_WRITE, io, &tick);
		else if (head == (plain_read | IO_HEAD_VEC) || head == (plain_write | IO_HEAD_VEC))
			put = put_vec(qp, *slots, capsule, io, 0);
		else
			break;
		if (unlikely(!put))
			break;
	}
	return (uint32_t)(io - ios);
}

int nvmfr__qpair_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n)
{
	unsigned int done = 0;
	int err = 0;

	while (done < n && !err) {
		uint32_t room = likely_live(qp) ? qpair_room(qp) : 0;
		uint32_t first = qp->position, count = 0;

		if (likely(room))
			count = put_run(qp, ios + done, nvmfr__min_u32(room, n - done));
		if (count) {
			advance(qp, count);
			post(qp, first, count);
			done += count;
		}
		if (done == n)
			break;
		if (count == room)
			err = nvmfr__qpair_make_room(qp);
		else if ((err = submit_slow(qp, &ios[done])) == 0)
			done++;
	}
	return done ? (int)done : err;
}
