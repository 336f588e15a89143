/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/qpair.h"

struct piece {
	uint64_t addr;
	uint32_t bytes, rkey;
};

static const struct nvmfr_iov *present(const struct cursor *at)
{
	return at->iov ? at->iov : &at->one;
}

static void cursor_init(struct cursor *at, const struct nvmfr_io *io, uint64_t bytes)
{
	*at = (struct cursor){ .left = 1 };
	if (io->flags & NVMFR_IO_VEC) {
		at->iov = io->iov;
		at->left = io->niov;
	} else {
		at->one = (struct nvmfr_iov){ .buf = io->buf,
					      .offset_bytes = io->offset_bytes,
					      .len_bytes = bytes };
	}
}

static void cursor_advance(struct cursor *at, uint64_t bytes)
{
	while (at->left && bytes >= present(at)->len_bytes - at->skip) {
		bytes -= present(at)->len_bytes - at->skip;
		at->skip = 0;
		at->left--;
		if (at->iov)
			at->iov++;
	}
	at->skip += bytes;
}

static uint32_t access_of(uint8_t op)
{
	return op == NVMFR_OP_READ ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE;
}

/* Cuts pieces from the end until they are `excess` bytes fewer. */
static uint32_t trim(struct piece *pieces, uint32_t n, uint64_t excess)
{
	while (excess && pieces[n - 1].bytes <= excess)
		excess -= pieces[--n].bytes;
	if (excess)
		pieces[n - 1].bytes -= (uint32_t)excess;
	return n;
}

/*
 * The pieces of the next command: at most `want` bytes, whole blocks, as many as one command may
 * have. Returns its bytes; 0: a block straddles more pieces than that.
 */
static uint64_t gather(const struct nvmfr_qpair *qp, const struct cursor *from, uint8_t op,
		       uint32_t shift, uint64_t want, struct piece *pieces, uint32_t *n)
{
	struct cursor at = *from;
	uint64_t total = 0, excess;

	for (*n = 0; *n < qp->limits.max_descriptors && at.left && total < want; ++*n) {
		const struct nvmfr_iov *iov = present(&at);
		uint64_t bytes = nvmfr__min_u64(iov->len_bytes - at.skip, want - total);
		uint64_t offset = iov->offset_bytes + at.skip;
		struct piece *piece = &pieces[*n];
		uint32_t lkey;

		if (nvmfr__buffer_keys(iov->buf, qp->ep->dev, offset, &bytes, access_of(op),
				       &piece->rkey, &lkey))
			break;
		piece->addr = iov->buf->addr + offset;
		piece->bytes = (uint32_t)bytes;
		total += bytes;
		cursor_advance(&at, bytes);
	}
	excess = total & ((UINT64_C(1) << shift) - 1);
	*n = trim(pieces, *n, excess);
	return total - excess;
}

static uint64_t command_bytes(const struct nvmfr_qpair *qp, const struct qparent *parent)
{
	uint64_t max = parent->op == NVMFR_OP_WRITE_ZEROES ? qp->limits.zeroes_bytes
							   : qp->limits.max_xfer_bytes;
	uint64_t blocks = nvmfr__min_u64(parent->blocks_left, NVME_RW_MAX_BLOCKS);

	return nvmfr__min_u64(blocks << parent->shift, max);
}

static int check_piece(const struct nvmfr_qpair *qp, const struct nvmfr_io *io, uint64_t i)
{
	const struct nvmfr_iov *iov = &io->iov[i];
	uint64_t bytes = iov->len_bytes;
	uint32_t rkey, lkey;

	if (!iov->buf || iov->buf->host != qp->host)
		return nvmfr__fail(-EINVAL, "iov[%" PRIu64 "]: buf is NULL or another host's", i);
	if (!iov->len_bytes || iov->len_bytes > iov->buf->len ||
	    iov->offset_bytes > iov->buf->len - iov->len_bytes)
		return nvmfr__fail(-ERANGE,
				   "iov[%" PRIu64 "]: %" PRIu64 " bytes from offset %" PRIu64
				   " on are none, or reach beyond the buffer's %" PRIu64 " bytes",
				   i, iov->len_bytes, iov->offset_bytes, iov->buf->len);
	if (nvmfr__buffer_keys(iov->buf, qp->ep->dev, iov->offset_bytes, &bytes, access_of(io->op),
			       &rkey, &lkey))
		return nvmfr__fail_wrap(-EINVAL, "iov[%" PRIu64 "]", i);
	return 0;
}

/* Every piece, their sum, and that each block fits the descriptors of one command. */
static int check_pieces(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
			const struct ns_entry *ns, const struct qparent *parent)
{
	uint64_t want = io->nblocks << ns->shift, total = 0;
	struct piece pieces[FAB_MAX_DESCRIPTORS];
	struct qparent trial = *parent;
	uint32_t n;
	int err = io->niov && io->iov ? 0 : nvmfr__fail(-EINVAL, "NVMFR_IO_VEC with an empty iov");

	for (uint64_t i = 0; !err && i < io->niov; i++) {
		err = check_piece(qp, io, i);
		total += err ? 0 : io->iov[i].len_bytes;
		if (!err && total > want)
			break;
	}
	if (err)
		return err;
	if (total != want)
		return nvmfr__fail(-EINVAL,
				   "the iov's lengths do not add up to %" PRIu64
				   " blocks of %u bytes",
				   io->nblocks, 1u << ns->shift);
	while (trial.blocks_left) {
		uint64_t bytes = gather(qp, &trial.at, io->op, ns->shift, command_bytes(qp, &trial),
					pieces, &n);

		if (!bytes)
			return nvmfr__fail(
				-EINVAL,
				"a block straddles more pieces of the iov than one command can name: %u "
				"(controller's MSDBD and the queue pair's max_descriptors)",
				qp->limits.max_descriptors);
		cursor_advance(&trial.at, bytes);
		trial.blocks_left -= bytes >> ns->shift;
	}
	return 0;
}

static void put_pieces(struct nvmfr_qpair *qp, struct nvme_sqe *sqe, uint32_t position,
		       const struct piece *pieces, uint32_t n)
{
	unsigned char *tail;
	struct fab_tail carried = { .addr = 0, .bytes = n * (uint32_t)sizeof(struct nvme_sgl) };

	if (n == 1) {
		sqe->dptr = nvme_sgl_keyed(pieces->addr, pieces->bytes, pieces->rkey);
		return;
	}
	tail = qp->ep->tails + (size_t)position * qp->ep->tail_bytes;
	for (uint32_t i = 0; i < n; i++) {
		struct nvme_sgl sgl =
			nvme_sgl_keyed(pieces[i].addr, pieces[i].bytes, pieces[i].rkey);

		memcpy(tail + i * sizeof(sgl), &sgl, sizeof(sgl));
	}
	sqe->dptr = nvme_sgl_last_seg(0, carried.bytes);
	qp->ops->set_tail(qp->ep, position, &carried);
}

/* Writes the parent's next command to the ring; posting is the caller's. */
static void issue_one(struct nvmfr_qpair *qp, struct qparent *parent)
{
	uint32_t position = qp->send_seq - qp->lap, n = 0, cid;
	uint64_t bytes = command_bytes(qp, parent);
	struct piece pieces[FAB_MAX_DESCRIPTORS];
	const struct nvmfr_buffer *buf = NULL;
	struct nvme_sqe *sqe;
	struct qslot *slot;
	le64 lba = to_le64(parent->lba);

	if (parent->op != NVMFR_OP_WRITE_ZEROES) {
		bytes = gather(qp, &parent->at, parent->op, parent->shift, bytes, pieces, &n);
		buf = present(&parent->at)->buf;
		cursor_advance(&parent->at, bytes);
	}
	slot = nvmfr__qpair_take(qp, &sqe, &cid);
	nvme_sqe_init(sqe, parent->op);
	sqe->cid = to_le16((uint16_t)cid);
	sqe->nsid = to_le32(parent->nsid);
	memcpy(&sqe->cdw10, &lba, sizeof(lba));
	sqe->cdw12 =
		to_le32((uint32_t)((bytes >> parent->shift) - 1) | (parent->fua ? NVME_RW_FUA : 0));
	if (n)
		put_pieces(qp, sqe, position, pieces, n);

	atomic_store_explicit(&slot->expect, cid ^ 1u, memory_order_relaxed);
	atomic_store_explicit(&slot->buf, buf, memory_order_relaxed);
	set_slot_kind(slot, SLOT_CHILD);
	slot->cid = (uint16_t)cid;
	slot->ref = (uint32_t)(parent - qp->parents);
	slot->user_data = parent->lba;
	slot->tick = atomic_load_explicit(qp->tick, memory_order_relaxed);
	qp->children++;
	parent->outstanding++;
	parent->lba += bytes >> parent->shift;
	parent->whole = bytes >> parent->shift == parent->blocks;
	parent->blocks_left -= bytes >> parent->shift;
}

static void backlog_pop(struct nvmfr_qpair *qp)
{
	qp->backlog = qp->backlog->next;
	if (!qp->backlog)
		qp->backlog_tail = &qp->backlog;
}

void nvmfr__split_issue(struct nvmfr_qpair *qp)
{
	while (qp->backlog && !qp->broken) {
		uint32_t room = nvmfr__min_u32(ring_room(qp), free_slots(qp));
		uint32_t first = qp->send_seq - qp->lap, n = 0;

		if (!room)
			break;
		for (; n < room && qp->backlog; n++) {
			issue_one(qp, qp->backlog);
			if (!qp->backlog->blocks_left)
				backlog_pop(qp);
		}
		qp->ops->post_send(qp->ep, first, n);
	}
	qpair_credit(qp);
}

/* The buffers of an I/O, named once each piece: not to be released before its completion. */
static void mark_buffers(const struct qparent *parent, uint32_t by)
{
	if (!parent->iov && parent->at.one.buf)
		atomic_fetch_add_explicit(&parent->at.one.buf->in_use, by, memory_order_relaxed);
	for (uint64_t i = 0; parent->iov && i < parent->niov; i++)
		atomic_fetch_add_explicit(&parent->iov[i].buf->in_use, by, memory_order_relaxed);
}

int nvmfr__split_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *io,
			const struct ns_entry *ns)
{
	struct qparent *parent = qp->parent_free;
	struct qparent fresh = {
		.user_data = io->user_data,
		.lba = io->lba,
		.blocks = io->nblocks,
		.blocks_left = io->nblocks,
		.fail_lba = UINT64_MAX,
		.nsid = io->nsid,
		.op = io->op,
		.shift = (uint8_t)ns->shift,
		.fua = io->flags & NVMFR_IO_FUA,
		.busy = true,
	};
	int err = 0;

	if (!parent)
		return nvmfr__qpair_full(qp);
	if (io->nblocks > UINT64_MAX >> ns->shift)
		return nvmfr__fail(-ERANGE, "%" PRIu64 " blocks are more bytes than 64 bits count",
				   io->nblocks);
	if (io->flags & NVMFR_IO_VEC) {
		fresh.iov = io->iov;
		fresh.niov = io->niov;
	}
	cursor_init(&fresh.at, io, io->nblocks << ns->shift);
	if (io->flags & NVMFR_IO_VEC)
		err = check_pieces(qp, io, ns, &fresh);
	if (err)
		return err;
	qp->parent_free = parent->next;
	*parent = fresh;
	mark_buffers(parent, 1);
	*qp->backlog_tail = parent;
	qp->backlog_tail = &parent->next;
	nvmfr__split_issue(qp);
	return 0;
}

static unsigned int finish(struct nvmfr_qpair *qp, struct qparent *parent,
			   struct nvmfr_completion *out)
{
	*out = (struct nvmfr_completion){
		.user_data = parent->user_data,
		.qpair_data = qp->qpair_data,
		.result = parent->result,
		.status = parent->status,
		.cqe_result = parent->whole ? parent->cqe_result : 0,
	};
	mark_buffers(parent, UINT32_MAX);
	parent->busy = false;
	parent->next = qp->parent_free;
	qp->parent_free = parent;
	return 1;
}

/* Commands go out in LBA order, so after a failure nothing that was not sent could fail lower. */
static void stop_issuing(struct nvmfr_qpair *qp, struct qparent *parent)
{
	if (parent->blocks_left && qp->backlog == parent)
		backlog_pop(qp);
	parent->blocks_left = 0;
}

unsigned int nvmfr__split_child_done(struct nvmfr_qpair *qp, struct qslot *slot, int32_t result,
				     uint16_t status, uint64_t cqe_result,
				     struct nvmfr_completion *out)
{
	struct qparent *parent = &qp->parents[slot->ref];

	qp->children--;
	parent->outstanding--;
	parent->cqe_result = cqe_result;
	if (result && slot->user_data < parent->fail_lba) {
		parent->fail_lba = slot->user_data;
		parent->result = result;
		parent->status = status;
	}
	if (result)
		stop_issuing(qp, parent);
	return parent->outstanding || parent->blocks_left ? 0 : finish(qp, parent, out);
}

void nvmfr__split_forget(struct nvmfr_qpair *qp)
{
	for (uint32_t i = 0; qp->parents && i < qp->depth; i++)
		if (qp->parents[i].busy)
			mark_buffers(&qp->parents[i], UINT32_MAX);
}

void nvmfr__split_abandon(struct nvmfr_qpair *qp)
{
	while (qp->backlog) {
		struct qparent *parent = qp->backlog;

		backlog_pop(qp);
		parent->blocks_left = 0;
		if (!parent->result)
			parent->result = -ECONNABORTED;
	}
}

unsigned int nvmfr__split_reap(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
			       unsigned int max)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < qp->depth && n < max; i++) {
		struct qparent *parent = &qp->parents[i];

		if (parent->busy && !parent->outstanding && !parent->blocks_left)
			n += finish(qp, parent, &out[n]);
	}
	return n;
}
