/* SPDX-License-Identifier: BSD-3-Clause */
/* Any I/O command, as the application gives it. */
#include "queue/command.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "queue/capsule.h"
#include "queue/group.h"

static int check_shape(const struct nvmfr_cmd *cmd, const struct nvmfr_buffer *buf, uint64_t bytes)
{
	if (nvmfr__cmd_reserved(cmd) || cmd->timeout_ms)
		return nvmfr__fail(
			-EINVAL,
			"a reserved field of struct nvmfr_cmd, or timeout_ms, is not zero");
	if (cmd->opcode == NVME_FABRICS_OPCODE)
		return nvmfr__fail(-EPERM, "Fabrics commands make and end the connection");
	if (!buf != !bytes)
		return nvmfr__fail(-EINVAL, "buf is %s, and bytes is %" PRIu64,
				   buf ? "not NULL" : "NULL", bytes);
	if (bytes && nvme_opcode_transfer(cmd->opcode) == NVME_TRANSFER_NONE)
		return nvmfr__fail(-EINVAL,
				   "I/O command %02xh moves no data (bits 1:0 of its opcode are 0)",
				   cmd->opcode);
	return 0;
}

int nvmfr__command_memory(const struct nvmfr_buffer *buf, const char *name)
{
	if (!buf)
		return nvmfr__fail(-EINVAL, "%s is NULL", name);
	if ((buf->flags & BUFFER_DMABUF) || !(buf->access & FAB_ACCESS_TARGET))
		return nvmfr__fail(-EINVAL,
				   "the buffer of %s is a dma-buf or was not registered with "
				   "NVMFR_ACCESS_BOTH: it cannot be written here",
				   name);
	return 0;
}

/* The key of data that must lie in one MR, with this access. */
static int find_key(const struct nvmfr_qpair *qp, const struct nvmfr_buffer *buf, uint64_t offset,
		    uint64_t bytes, uint32_t access, uint32_t *rkey)
{
	uint64_t got = bytes;
	uint32_t lkey;
	int err = nvmfr__buffer_keys(buf, qp->ep->dev, offset, &got, access, rkey, &lkey);

	if (!err && got < bytes)
		return nvmfr__fail(
			-EINVAL,
			"%" PRIu64 " bytes from offset %" PRIu64 " on lie in two memory regions of "
			"the device, one descriptor names one: begin within the first %" PRIu64,
			bytes, offset, got);
	return err;
}

int nvmfr__command_data(const struct nvmfr_qpair *qp, const struct nvmfr_buffer *buf,
			uint64_t offset, uint64_t bytes, uint8_t opcode, struct nvme_sgl *sgl)
{
	enum nvme_transfer way = nvme_opcode_transfer(opcode);
	uint32_t access = (way & NVME_TRANSFER_TO_CTRL ? FAB_ACCESS_SOURCE : 0) |
			  (way & NVME_TRANSFER_FROM_CTRL ? FAB_ACCESS_TARGET : 0);
	uint32_t rkey = 0;
	int err;

	if (buf->host != qp->host)
		return nvmfr__fail(-EINVAL, "the buffer belongs to another host");
	if (bytes > qp->limits.max_xfer_bytes)
		return nvmfr__fail(-ERANGE,
				   "%" PRIu64 " bytes: one command may carry %" PRIu64 " (MDTS)",
				   bytes, qp->limits.max_xfer_bytes);
	if (bytes > buf->len || offset > buf->len - bytes)
		return nvmfr__fail(-ERANGE,
				   "%" PRIu64 " bytes from offset %" PRIu64
				   " on reach beyond the buffer's %" PRIu64 " bytes",
				   bytes, offset, buf->len);
	err = find_key(qp, buf, offset, bytes, access, &rkey);
	if (!err)
		*sgl = nvme_sgl_keyed(buf->addr + offset, (uint32_t)bytes, rkey);
	return err;
}

/* Whether words are set that put_rw() does not write. MPTR never is. */
static bool stains(const struct nvme_sqe *sqe)
{
	return from_le32(sqe->cdw2) | from_le32(sqe->cdw3) | from_le32(sqe->cdw14) |
	       from_le32(sqe->cdw15);
}

int nvmfr__command_post(struct nvmfr_qpair *qp, struct nvme_sqe *sqe,
			const struct nvmfr_buffer *buf, uint64_t user_data)
{
	const uint32_t position = qp->position;
	struct qslot *slot = qp->free_top[-1];
	uint32_t cid = slot_next_cid(slot);

	sqe->cid = to_le16((uint16_t)cid);
	memcpy(capsule_at(qp, position), sqe, sizeof(*sqe));
	start_slot(slot, cid, buf, user_data, tick_now(qp), REF_COMMAND);
	advance(qp, 1);
	if (!stains(sqe))
		return qp->ops->post_send(qp->ep, position, 1);
	qp->stained_seq = qp->lap + position;
	qp->stained = true;
	/* Signaled: the ring waits for its end. */
	return qp->ops->post_carrying(qp->ep, position, 1, position);
}

bool nvmfr__qpair_scrub(struct nvmfr_qpair *qp)
{
	if (!qpair_send_done(qp, qp->stained_seq))
		return false;
	for (uint32_t i = 0; i < qp->send_positions; i++) {
		unsigned char *capsule = capsule_at(qp, i);

		put64(capsule, 1, 0);
		put64(capsule, 2, 0);
		put64(capsule, 7, 0);
	}
	qp->stained = false;
	return true;
}

bool nvmfr__qpair_look_and_scrub(struct nvmfr_qpair *qp)
{
	uint64_t word;

	if (qp->broken)
		return false;
	if (qpair_send_done(qp, qp->stained_seq))
		return nvmfr__qpair_scrub(qp);
	/* What it finds is kept for the next poll. */
	word = qp->ops->poll(qp->ep);
	qp->chores.ready += FAB_POLL_RESPONSES(word);
	qp->done_seq += FAB_POLL_SENDS(word);
	if (word & FAB_POLL_BAD)
		nvmfr__qpair_fault(qp, -ECONNABORTED, "qpair %u: %s", qp->qid, qp->ep->error);
	if (qp->group)
		nvmfr__group_ask_again(qp);
	return nvmfr__qpair_scrub(qp);
}

int nvmfr__qpair_command(struct nvmfr_qpair *qp, const struct nvmfr_cmd *cmd,
			 struct nvmfr_buffer *buf, uint64_t offset, uint64_t bytes,
			 uint64_t user_data)
{
	struct nvme_sqe sqe;
	int err = nvmfr__qpair_make_room(qp);

	if (!err)
		err = check_shape(cmd, buf, bytes);
	if (err)
		return err;
	nvmfr__cmd_to_sqe(cmd, &sqe);
	if (bytes)
		err = nvmfr__command_data(qp, buf, offset, bytes, cmd->opcode, &sqe.dptr);
	return err ? err : nvmfr__command_post(qp, &sqe, buf, user_data);
}

/* ---- a fused pair -------------------------------------------------------------------------------- */

static int check_pair(struct nvmfr_qpair *qp, const struct nvmfr_io *compare,
		      const struct nvmfr_io *write)
{
	const struct ns_entry *ns;
	int err;

	if (!qp->limits.fused)
		return nvmfr__fail(-EOPNOTSUPP, "the controller has no fused Compare and Write "
						"(FUSES bit 0 is clear)");
	if (qp->depth < 2)
		return nvmfr__fail(-EINVAL, "a fused pair takes two places: depth is %u",
				   qp->depth);
	if (compare->op != NVMFR_OP_COMPARE || write->op != NVMFR_OP_WRITE ||
	    compare->nsid != write->nsid || compare->lba != write->lba ||
	    compare->nblocks != write->nblocks || ((compare->flags | write->flags) & NVMFR_IO_VEC))
		return nvmfr__fail(-EINVAL, "a fused pair is a Compare and a Write of the same "
					    "blocks, each of one buffer");
	err = nvmfr__qpair_check(qp, compare, &ns);
	return err ? err : nvmfr__qpair_check(qp, write, &ns);
}

static int fused_sqe(const struct nvmfr_qpair *qp, const struct nvmfr_io *io, uint8_t fuse,
		     struct nvme_sqe *sqe)
{
	le64 lba = to_le64(io->lba);

	nvme_sqe_init(sqe, io->op);
	sqe->flags |= fuse;
	sqe->nsid = to_le32(io->nsid);
	memcpy(&sqe->cdw10, &lba, sizeof(lba));
	sqe->cdw12 = to_le32((uint32_t)(io->nblocks - 1) |
			     (io->flags & NVMFR_IO_FUA ? NVME_RW_FUA : 0));
	return nvmfr__command_data(qp, io->buf, io->offset_bytes, io->nblocks << qp->ns_shift,
				   io->op, &sqe->dptr);
}

/* For two: the second one's place may be the ring's first. */
static bool room_for_two(struct nvmfr_qpair *qp)
{
	if (qp->credit < 2 && qp->stained && nvmfr__qpair_look_and_scrub(qp))
		qpair_credit(qp);
	if (free_slots(qp) < 2)
		return false;
	return qp->credit >= 2 ||
	       (!qp->stained && qp->send_positions - (qpair_seq(qp) - qp->done_seq) >= 2);
}

int nvmfr__qpair_fused(struct nvmfr_qpair *qp, const struct nvmfr_io *pair)
{
	struct nvme_sqe sqes[2];
	int err = nvmfr__qpair_make_room(qp);

	if (!err)
		err = check_pair(qp, &pair[0], &pair[1]);
	if (!err)
		err = fused_sqe(qp, &pair[0], NVME_FLAGS_FUSE_FIRST, &sqes[0]);
	if (!err)
		err = fused_sqe(qp, &pair[1], NVME_FLAGS_FUSE_SECOND, &sqes[1]);
	if (!err && !room_for_two(qp))
		err = nvmfr__qpair_full(qp);
	if (err)
		return err;
	/* Posts never fail: a connection that ends in between ends both. */
	(void)nvmfr__command_post(qp, &sqes[0], pair[0].buf, pair[0].user_data);
	if (!qp->credit)
		qpair_credit(qp);
	return nvmfr__command_post(qp, &sqes[1], pair[1].buf, pair[1].user_data);
}
