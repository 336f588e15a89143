/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/qpair.h"

#define INLINE static inline __attribute__((always_inline))

/* One SQE's worth of what a plain command says. */
struct plain {
	uint32_t op, nsid;
	uint64_t lba, nblocks;
	struct nvmfr_buffer *buf;
	uint64_t offset, user_data;
	uint32_t fua;                        /* NVME_RW_FUA or 0 */
};

INLINE void put64(unsigned char *capsule, unsigned int word, uint64_t value)
{
	le64 v = to_le64(value);

	memcpy(capsule + word * 8, &v, sizeof(v));
}

/* Words 1, 2 and 7 of an I/O queue's capsules are zero from connect on and stay so. */
INLINE void put_rw(unsigned char *capsule, const struct plain *io, uint32_t cid, uint64_t sgl0, uint64_t sgl1)
{
	put64(capsule, 0, io->op | NVME_FLAGS_PSDT_SGL << 8 | (uint64_t)cid << 16 | (uint64_t)io->nsid << 32);
	put64(capsule, 3, sgl0);
	put64(capsule, 4, sgl1);
	put64(capsule, 5, io->lba);
	put64(capsule, 6, (io->nblocks - 1) | io->fua);
}

INLINE uint64_t keyed_word(uint64_t len, uint32_t rkey)
{
	return len | (uint64_t)rkey << 24 | (uint64_t)NVME_SGL_KEYED << 56;
}

INLINE void start_slot(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t expect, const struct plain *io)
{
	atomic_store_explicit(&slot->expect, expect, memory_order_relaxed);
	atomic_store_explicit(&slot->buf, io->buf, memory_order_relaxed);
	slot->user_data = io->user_data;
	slot->tick = atomic_load_explicit(qp->tick, memory_order_relaxed);
}

/* A write whose data travels behind its SQE. Data and place are the caller's until the SEND is done. */
static void carry(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t position, const struct plain *io, uint64_t len)
{
	uint32_t cid = slot_next_cid(slot);
	struct fab_tail tail = {
		.addr = io->buf->addr + io->offset,
		.bytes = (uint32_t)len,
		.lkey = io->buf->keys[qp->dev_index].lkey,
	};

	put_rw(qp->capsules + (size_t)position * FAB_CAPSULE_BYTES, io, cid, 0,
	       len | (uint64_t)NVME_SGL_DATA_OFFSET << 56);
	start_slot(qp, slot, cid ^ 1u, io);
	slot->kind = SLOT_CARRIED;
	slot->cid = (uint16_t)cid;
	slot->answered = false;
	slot->ref = qp->lap + position;
	qp->ops->set_tail(qp->ep, position, &tail);
}

/*
 * Writes one command to a ring position if it is one that needs no second look: the namespace at hand,
 * one command's length, one MR. false: nothing happened, the slow path decides.
 */
INLINE bool fill(struct nvmfr_qpair *qp, struct qslot *slot, uint32_t position, const struct plain *io)
{
	const struct buffer_key *key;
	uint32_t access = io->op == NVMFR_OP_READ ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE;
	uint64_t len;
	uint32_t cid;

	if (unlikely(io->nsid != qp->nsid[io->op & 1] || io->nblocks - 1 >= qp->ns_max_blocks))
		return false;
	if (unlikely(io->lba >= qp->ns_blocks || io->nblocks > qp->ns_blocks - io->lba))
		return false;
	if (unlikely(!io->buf || io->buf->host != qp->host))
		return false;
	len = io->nblocks << qp->ns_shift;
	if (unlikely(len > io->buf->len || io->offset > io->buf->len - len))
		return false;
	key = &io->buf->keys[qp->dev_index];
	if (unlikely(!(key->access & access)))
		return false;
	if (io->op == NVMFR_OP_WRITE && len <= qp->icd_bytes && !(io->buf->flags & BUFFER_DMABUF)) {
		carry(qp, slot, position, io, len);
		return true;
	}
	cid = slot_next_cid(slot);
	put_rw(qp->capsules + (size_t)position * FAB_CAPSULE_BYTES, io, cid, io->buf->addr + io->offset,
	       keyed_word(len, key->rkey));
	start_slot(qp, slot, cid, io);
	return true;
}

INLINE void advance(struct nvmfr_qpair *qp, uint32_t n)
{
	qp->free_top -= n;
	qp->send_seq += n;
	qp->credit -= n;
}

int nvmfr__qpair_post(struct nvmfr_qpair *qp, uint32_t first, uint32_t n)
{
	int err = qp->ops->post_send(qp->ep, first, n);

	/* What did not go out stays in flight and ends with the connection: it was accepted. */
	if (unlikely(err))
		nvmfr__qpair_fault(qp, err, "qpair %u: %s", qp->qid, qp->ep->error);
	return 0;
}

struct qslot *nvmfr__qpair_take(struct nvmfr_qpair *qp, struct nvme_sqe **sqe, uint32_t *cid)
{
	struct qslot *slot = qp->free_top[-1];
	uint32_t position = qp->send_seq - qp->lap;

	*sqe = (struct nvme_sqe *)(void *)(qp->capsules + (size_t)position * FAB_CAPSULE_BYTES);
	*cid = slot_next_cid(slot);
	advance(qp, 1);
	return slot;
}

int nvmfr__qpair_post_raw(struct nvmfr_qpair *qp, const struct nvme_sqe *sqe, uint64_t user_data)
{
	struct plain io = { .user_data = user_data };
	uint32_t position, cid;
	struct nvme_sqe *place;
	struct qslot *slot;

	if (qp->credit == 0)
		nvmfr__qpair_credit(qp);
	if (qp->credit == 0)
		return -EAGAIN;
	position = qp->send_seq - qp->lap;
	slot = nvmfr__qpair_take(qp, &place, &cid);
	*place = *sqe;
	place->cid = to_le16((uint16_t)cid);
	start_slot(qp, slot, cid, &io);
	return nvmfr__qpair_post(qp, position, 1);
}

/* ---- the slow path: what the fast one would not do, with its reason ------------------------------ */

/* Adopts news, refreshes credit. 0: a command fits; else why not. */
static int make_room(struct nvmfr_qpair *qp)
{
	if (!likely_live(qp))
		nvmfr__qpair_adopt(qp);
	if (nvmfr__qpair_forked(qp) || qp->state != LINK_LIVE || qp->broken)
		return nvmfr__qpair_state_error(qp);
	nvmfr__qpair_credit(qp);
	return qp->credit ? 0 : -EAGAIN;
}

static int check_range(const struct nvmfr_io *io, const struct ns_entry *ns)
{
	if (ns->refusal)
		return nvmfr__fail(-EOPNOTSUPP, "namespace %u: %s", ns->nsid, ns->refusal);
	if (io->nblocks == 0)
		return nvmfr__fail(-EINVAL, "nblocks is 0; only a flush has no blocks");
	if (io->lba >= ns->blocks || io->nblocks > ns->blocks - io->lba)
		return nvmfr__fail(-ERANGE,
				   "LBA %" PRIu64 " and %" PRIu64 " blocks reach beyond namespace %u, which has %" PRIu64
				   " blocks", io->lba, io->nblocks, ns->nsid, ns->blocks);
	if (ns->write_protected && io->op != NVMFR_OP_READ)
		return nvmfr__fail(-EROFS, "namespace %u is write protected", ns->nsid);
	return 0;
}

static int check_shape(const struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	if (io->op != NVMFR_OP_FLUSH && io->op != NVMFR_OP_WRITE && io->op != NVMFR_OP_READ &&
	    io->op != NVMFR_OP_WRITE_ZEROES)
		return nvmfr__fail(-EINVAL, "op %u is not one of enum nvmfr_op", io->op);
	if (io->reserved0 || io->reserved1[0] || io->reserved1[1])
		return nvmfr__fail(-EINVAL, "a reserved field of struct nvmfr_io is not zero");
	if (io->flags & ~(unsigned int)(NVMFR_IO_FUA | NVMFR_IO_VEC))
		return nvmfr__fail(-EINVAL, "flags 0x%x has unknown bits", io->flags);
	if ((io->flags & NVMFR_IO_VEC) && io->op != NVMFR_OP_READ && io->op != NVMFR_OP_WRITE)
		return nvmfr__fail(-EINVAL, "NVMFR_IO_VEC goes with reads and writes only");
	if (io->op == NVMFR_OP_FLUSH && (io->nblocks || io->lba))
		return nvmfr__fail(-EINVAL, "a flush has neither LBA nor blocks");
	if (io->op == NVMFR_OP_WRITE_ZEROES && !qp->limits.write_zeroes)
		return nvmfr__fail(-EOPNOTSUPP, "the controller has no Write Zeroes (ONCS bit 3 is clear)");
	return 0;
}

/* The buffer's own reasons: handle, bounds, access, keys. Its length is io's. */
static int check_buffer(const struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry *ns)
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
				   "%" PRIu64 " blocks of %u bytes from offset %" PRIu64 " on reach beyond the buffer's %" PRIu64
				   " bytes", io->nblocks, 1u << ns->shift, io->offset_bytes, io->buf->len);
	bytes = 1;
	return nvmfr__buffer_keys(io->buf, qp->ep->dev, io->offset_bytes, &bytes, access, &rkey, &lkey);
}

/* Flush and Write Zeroes of one command: an SQE without data. */
static int submit_dataless(struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	struct plain record = { .user_data = io->user_data };
	uint32_t position = qp->send_seq - qp->lap, cid;
	struct nvme_sqe *sqe;
	struct qslot *slot = nvmfr__qpair_take(qp, &sqe, &cid);

	nvme_sqe_init(sqe, io->op);
	sqe->cid = to_le16((uint16_t)cid);
	sqe->nsid = to_le32(io->nsid);
	if (io->op == NVMFR_OP_WRITE_ZEROES) {
		le64 lba = to_le64(io->lba);

		memcpy(&sqe->cdw10, &lba, sizeof(lba));
		sqe->cdw12 = to_le32((uint32_t)(io->nblocks - 1) | (io->flags & NVMFR_IO_FUA ? NVME_RW_FUA : 0));
	}
	start_slot(qp, slot, cid, &record);
	return nvmfr__qpair_post(qp, position, 1);
}

static void remember_namespace(struct nvmfr_qpair *qp, const struct ns_entry *ns)
{
	uint64_t blocks = qp->limits.max_xfer_bytes >> ns->shift;

	qp->nsid[NVMFR_OP_READ & 1] = ns->nsid;
	qp->nsid[NVMFR_OP_WRITE & 1] = ns->write_protected ? 0 : ns->nsid;
	qp->ns_blocks = ns->blocks;
	qp->ns_shift = ns->shift;
	qp->ns_max_blocks = nvmfr__min_u64(blocks, NVME_RW_MAX_BLOCKS);
}

static bool fits_one_command(const struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry *ns)
{
	uint64_t max = io->op == NVMFR_OP_WRITE_ZEROES ? qp->limits.zeroes_bytes : qp->limits.max_xfer_bytes;

	return io->nblocks <= NVME_RW_MAX_BLOCKS && io->nblocks << ns->shift <= max;
}

static struct plain plain_of(const struct nvmfr_io *io)
{
	return (struct plain){
		.op = io->op, .nsid = io->nsid, .lba = io->lba, .nblocks = io->nblocks, .buf = io->buf,
		.offset = io->offset_bytes, .user_data = io->user_data,
		.fua = io->flags & NVMFR_IO_FUA ? NVME_RW_FUA : 0,
	};
}

static int submit_data(struct nvmfr_qpair *qp, const struct nvmfr_io *io, const struct ns_entry *ns)
{
	uint32_t position = qp->send_seq - qp->lap;
	struct plain plain;
	int err;

	if (!(io->flags & NVMFR_IO_VEC)) {
		err = check_buffer(qp, io, ns);
		if (err)
			return err;
		plain = plain_of(io);
		if (fits_one_command(qp, io, ns) && fill(qp, qp->free_top[-1], position, &plain)) {
			advance(qp, 1);
			return nvmfr__qpair_post(qp, position, 1);
		}
	}
	return nvmfr__split_submit(qp, io, ns);
}

static __attribute__((noinline)) int submit_slow(struct nvmfr_qpair *qp, const struct nvmfr_io *io)
{
	const struct ns_entry *ns;
	int err = make_room(qp);

	if (err)
		return err;
	err = check_shape(qp, io);
	if (err)
		return err;
	if (io->nsid == 0)
		return nvmfr__fail(-EINVAL, "nsid is 0; namespaces are counted from 1");
	ns = nvmfr__ns_find(qp->ns, io->nsid);
	if (!ns && !(io->op == NVMFR_OP_FLUSH && io->nsid == NVME_NSID_ALL))
		return nvmfr__fail(-ENOENT, "namespace %u is not active on this controller", io->nsid);
	if (io->op == NVMFR_OP_FLUSH)
		return submit_dataless(qp, io);
	err = check_range(io, ns);
	if (err)
		return err;
	remember_namespace(qp, ns);
	if (io->op == NVMFR_OP_WRITE_ZEROES && fits_one_command(qp, io, ns))
		return submit_dataless(qp, io);
	if (io->op == NVMFR_OP_WRITE_ZEROES)
		return nvmfr__split_submit(qp, io, ns);
	return submit_data(qp, io, ns);
}

/* ---- entry points ---------------------------------------------------------------------------------- */

static __attribute__((noinline)) int io_slow(struct nvmfr_qpair *qp, const struct plain *plain)
{
	struct nvmfr_io io = {
		.op = (uint8_t)plain->op, .nsid = plain->nsid, .lba = plain->lba, .nblocks = plain->nblocks,
		.buf = plain->buf, .offset_bytes = plain->offset, .user_data = plain->user_data,
	};

	return submit_slow(qp, &io);
}

INLINE int submit_one(struct nvmfr_qpair *qp, const struct plain *io)
{
	uint32_t position = qp->send_seq - qp->lap;

	if (unlikely(qp->credit == 0 || !likely_live(qp)) || unlikely(!fill(qp, qp->free_top[-1], position, io)))
		return io_slow(qp, io);
	advance(qp, 1);
	return nvmfr__qpair_post(qp, position, 1);
}

int nvmfr__qpair_read(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		      struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data)
{
	struct plain io = { NVMFR_OP_READ, nsid, lba, nblocks, buf, offset, user_data, 0 };

	return submit_one(qp, &io);
}

int nvmfr__qpair_write(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
		       struct nvmfr_buffer *buf, uint64_t offset, uint64_t user_data)
{
	struct plain io = { NVMFR_OP_WRITE, nsid, lba, nblocks, buf, offset, user_data, 0 };

	return submit_one(qp, &io);
}

/* Plain reads and writes of ios, as far as they go: how many were written to the ring. */
INLINE uint32_t fill_run(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, uint32_t n)
{
	uint32_t position = qp->send_seq - qp->lap, i;

	for (i = 0; i < n; i++) {
		const struct nvmfr_io *io = &ios[i];
		struct plain plain = plain_of(io);

		if (unlikely(io->op != NVMFR_OP_READ && io->op != NVMFR_OP_WRITE))
			break;
		if (unlikely(io->flags & ~(unsigned int)NVMFR_IO_FUA))
			break;
		if (unlikely(io->reserved0 || (io->reserved1[0] | io->reserved1[1])))
			break;
		if (unlikely(!fill(qp, qp->free_top[-1 - (int)i], position + i, &plain)))
			break;
	}
	return i;
}

int nvmfr__qpair_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n)
{
	unsigned int done = 0;
	int err = 0;

	while (done < n && !err) {
		uint32_t room = likely_live(qp) ? qp->credit : 0;
		uint32_t first = qp->send_seq - qp->lap;
		uint32_t count = fill_run(qp, ios + done, nvmfr__min_u32(room, n - done));

		if (count) {
			advance(qp, count);
			nvmfr__qpair_post(qp, first, count);
			done += count;
		}
		if (done == n)
			break;
		if (count == room)
			err = make_room(qp);
		else if ((err = submit_slow(qp, &ios[done])) == 0)
			done++;
	}
	return done ? (int)done : err;
}
