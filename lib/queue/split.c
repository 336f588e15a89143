/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/capsule.h"
#include "queue/retry.h"

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
	if (!op_has_data(io->op))
		return;
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

/* The second half of a keyed descriptor. */
static uint64_t keyed_sgl(uint32_t rkey, uint64_t bytes)
{
	return bytes | (uint64_t)rkey << 24 | (uint64_t)NVME_SGL_KEYED << 56;
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

	const uint32_t room = qp->max_pieces;

	for (*n = 0; *n < room && at.left && total < want; ++*n) {
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
	uint64_t max = op_limit(&qp->limits, parent->op);
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

static struct qparent parent_of(const struct nvmfr_io *io, const struct ns_entry *ns)
{
	struct qparent parent = {
		.user_data = io->user_data,
		.lba = io->lba,
		.blocks_left = io->nblocks,
		.fail_lba = UINT64_MAX,
		.nsid = io->nsid,
		.op = io->op,
		.shift = (uint8_t)ns->shift,
		.fua = io->flags & NVMFR_IO_FUA,
		.busy = true,
	};

	if (io->flags & NVMFR_IO_VEC) {
		parent.iov = io->iov;
		parent.niov = io->niov;
	}
	cursor_init(&parent.at, io, io->nblocks << ns->shift);
	return parent;
}

/* Every piece, their sum, and that each block fits the descriptors of one command. */
static int check_pieces(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
			const struct ns_entry *ns)
{
	uint64_t want = io->nblocks << ns->shift, total = 0;
	struct qparent trial = parent_of(io, ns);
	struct piece pieces[FAB_MAX_DESCRIPTORS];
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
				qp->max_pieces);
		cursor_advance(&trial.at, bytes);
		trial.blocks_left -= bytes >> ns->shift;
	}
	return 0;
}

int nvmfr__split_check(const struct nvmfr_qpair *qp, const struct nvmfr_io *io,
		       const struct ns_entry *ns)
{
	if (io->nblocks > UINT64_MAX >> ns->shift)
		return nvmfr__fail(-ERANGE, "%" PRIu64 " blocks are more bytes than 64 bits count",
				   io->nblocks);
	return io->flags & NVMFR_IO_VEC ? check_pieces(qp, io, ns) : 0;
}

/* The descriptor or list of descriptors for n pieces; for none, as Write Zeroes and Verify have it, an
 * empty one. */
static void put_pieces(struct nvmfr_qpair *qp, uint32_t position, const struct piece *pieces,
		       uint32_t n, uint64_t sgl[2])
{
	unsigned char *tail;

	sgl[0] = n == 1 ? pieces->addr : 0;
	sgl[1] = n == 1 ? keyed_sgl(pieces->rkey, pieces->bytes) : keyed_sgl(0, 0);
	if (n <= 1)
		return;
	tail = tail_at(qp, position);
	for (uint32_t i = 0; i < n; i++) {
		put64(tail + i * sizeof(struct nvme_sgl), 0, pieces[i].addr);
		put64(tail + i * sizeof(struct nvme_sgl), 1,
		      keyed_sgl(pieces[i].rkey, pieces[i].bytes));
	}
	set_list(qp, position, tail, n);
	sgl[1] = list_sgl(n);
}

/* One command's slot, at the ring's next position; posting is the caller's. */
INLINE uint32_t start_child(struct nvmfr_qpair *qp, struct qparent *parent, uint64_t blocks)
{
	struct qslot *slot = qp->free_top[-1];
	uint32_t cid = slot_next_cid(slot);

	start_slot(slot, SLOT_STATE(cid, SLOT_CHILD), NULL, parent->lba, tick_now(qp),
		   (uint32_t)(parent - qp->parents));
	qp->children++;
	parent->outstanding++;
	parent->lba += blocks;
	parent->blocks_left -= blocks;
	parent->several |= parent->blocks_left != 0;
	return cid;
}

INLINE uint64_t cdw12_of(const struct qparent *parent, uint64_t blocks)
{
	return (blocks - 1) | (parent->fua ? NVME_RW_FUA : 0);
}

/* The parent's next command, of any kind. */
static void issue_gathered(struct nvmfr_qpair *qp, struct qparent *parent)
{
	uint32_t position = qp->position, n = 0;
	uint64_t bytes = command_bytes(qp, parent), lba = parent->lba, blocks, sgl[2];
	struct piece pieces[FAB_MAX_DESCRIPTORS];
	uint32_t cid;

	if (op_has_data(parent->op)) {
		bytes = gather(qp, &parent->at, parent->op, parent->shift, bytes, pieces, &n);
		cursor_advance(&parent->at, bytes);
	}
	put_pieces(qp, position, pieces, n, sgl);
	blocks = bytes >> parent->shift;
	cid = start_child(qp, parent, blocks);
	put_rw(capsule_at(qp, position), SQE_HEAD(parent->op, parent->nsid), cid, sgl[0], sgl[1], lba,
	       cdw12_of(parent, blocks));
	advance(qp, 1);
}

/* Commands whose data lie one behind the other under one key. */
static void issue_direct(struct nvmfr_qpair *qp, struct qparent *parent, uint32_t n)
{
	const uint64_t head = SQE_HEAD(parent->op, parent->nsid);
	const uint64_t most = command_bytes(qp, parent) >> parent->shift;
	struct nvmfr_iov *at = &parent->at.one;

	for (; n && parent->blocks_left; n--) {
		uint64_t blocks = nvmfr__min_u64(parent->blocks_left, most), lba = parent->lba;
		uint64_t bytes = blocks << parent->shift;
		uint32_t cid = start_child(qp, parent, blocks);

		put_rw(capsule_at(qp, qp->position), head, cid,
		       at->buf->addr + at->offset_bytes, parent->sgl + bytes, lba,
		       cdw12_of(parent, blocks));
		at->offset_bytes += bytes;
		advance(qp, 1);
	}
}

/* Whether the next command may need a list: for pieces of the caller's, or at the seam of two MRs. */
static bool may_need_list(const struct nvmfr_qpair *qp, const struct qparent *parent)
{
	return qp->max_pieces > 1 && op_has_data(parent->op);
}

static void issue_from(struct nvmfr_qpair *qp, struct qparent *parent, uint32_t room)
{
	if (parent->sgl) {
		issue_direct(qp, parent, room);
		return;
	}
	for (; room && parent->blocks_left; room--) {
		if (may_need_list(qp, parent) && tail_taken(qp, qpair_seq(qp)))
			break;
		issue_gathered(qp, parent);
	}
}

static void set_backlog(struct nvmfr_qpair *qp, struct qparent *parent)
{
	qp->backlog = parent;
	qp->chores.backlog = parent || (qp->retry && qp->retry->wants);
}

void nvmfr__split_issue(struct nvmfr_qpair *qp)
{
	while (qp->backlog && !qp->broken) {
		uint32_t room = nvmfr__min_u32(ring_room(qp), free_slots(qp)), first = qp->position;

		issue_from(qp, qp->backlog, room);
		if (qp->position == first && unlikely(qp->stained) && nvmfr__qpair_scrub(qp))
			continue;
		if (qp->position == first)
			break;
		post(qp, first, qp->position - first);
		if (!qp->backlog->blocks_left)
			set_backlog(qp, NULL);
	}
	qpair_credit(qp);
}

void nvmfr__buffers_mark(struct nvmfr_buffer *buf, const struct nvmfr_iov *iov, uint64_t niov, uint32_t by)
{
	if (buf)
		atomic_fetch_add_explicit(&buf->in_use, by, memory_order_relaxed);
	for (uint64_t i = 0; i < niov; i++)
		atomic_fetch_add_explicit(&iov[i].buf->in_use, by, memory_order_relaxed);
}

static void mark_buffers(const struct qparent *parent, uint32_t by)
{
	nvmfr__buffers_mark(parent->at.one.buf, parent->iov, parent->niov, by);
}

/* One MR holds it all: its commands differ in nothing but numbers. */
static void set_direct(const struct nvmfr_qpair *qp, struct qparent *parent, const struct nvmfr_io *io)
{
	const struct buffer_key *key = buffer_key(qp, io->buf);

	if (key->access)
		parent->sgl = key->sgl;
}

int nvmfr__split_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *io,
			const struct ns_entry *ns)
{
	struct qparent *parent = qp->parent_free;
	int err;

	if (!parent)
		return nvmfr__qpair_full(qp);
	err = nvmfr__split_check(qp, io, ns);
	if (err)
		return err;
	qp->parent_free = parent->next;
	*parent = parent_of(io, ns);
	if (!(io->flags & NVMFR_IO_VEC) && op_has_data(io->op))
		set_direct(qp, parent, io);
	mark_buffers(parent, 1);
	if (qp->retry)
		nvmfr__retry_note(qp, parent, io);
	set_backlog(qp, parent);
	nvmfr__split_issue(qp);
	return 0;
}

static void put_parent(struct nvmfr_qpair *qp, struct qparent *parent)
{
	parent->busy = false;
	parent->next = qp->parent_free;
	qp->parent_free = parent;
}

void nvmfr__split_drop(struct nvmfr_qpair *qp, struct qparent *parent)
{
	if (qp->backlog == parent)
		set_backlog(qp, NULL);
	put_parent(qp, parent);
}

unsigned int nvmfr__split_finish(struct nvmfr_qpair *qp, struct qparent *parent,
				 uint64_t cqe_result, struct nvmfr_completion *out)
{
	*out = (struct nvmfr_completion){
		.user_data = parent->user_data,
		.qpair_data = qp->qpair_data,
		.result = parent->result,
		.status = parent->status,
		.cqe_result = parent->several ? 0 : cqe_result,
	};
	mark_buffers(parent, UINT32_MAX);
	put_parent(qp, parent);
	return 1;
}

/* Commands go out in LBA order, so after a failure nothing that was not sent could fail lower. */
unsigned int nvmfr__split_child_failed(struct nvmfr_qpair *qp, struct qparent *parent, uint64_t lba,
				       int32_t result, uint16_t status, uint64_t cqe_result,
				       struct nvmfr_completion *out)
{
	qp->children--;
	parent->outstanding--;
	if (lba < parent->fail_lba) {
		parent->fail_lba = lba;
		parent->result = result;
		parent->status = status;
	}
	if (qp->backlog == parent)
		set_backlog(qp, NULL);
	parent->blocks_left = 0;
	return parent->outstanding ? 0 : nvmfr__split_finish(qp, parent, cqe_result, out);
}

void nvmfr__split_forget(struct nvmfr_qpair *qp)
{
	for (uint32_t i = 0; qp->parents && i < qp->parent_count; i++)
		if (qp->parents[i].busy)
			mark_buffers(&qp->parents[i], UINT32_MAX);
}

void nvmfr__split_abandon(struct nvmfr_qpair *qp)
{
	struct qparent *parent = qp->backlog;

	if (!parent)
		return;
	set_backlog(qp, NULL);
	parent->blocks_left = 0;
	if (!parent->result)
		parent->result = -ECONNABORTED;
}

unsigned int nvmfr__split_reap(struct nvmfr_qpair *qp, struct nvmfr_completion *out,
			       unsigned int max)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < qp->parent_count && n < max; i++) {
		struct qparent *parent = &qp->parents[i];

		if (parent->busy && !parent->outstanding && !parent->blocks_left)
			n += nvmfr__split_finish(qp, parent, 0, &out[n]);
	}
	return n;
}
