/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "ctrl/ctrl.h"
#include "wire/status.h"

enum { SCRATCH_BYTES = 1 << 16, /* the largest block that identify data may name */
       MAX_IOV = 3 };

struct range {
	struct nvmfr_qpair *qp;
	uint32_t nsid, block;
	struct nvmfr_buffer *buf;
	uint64_t offset, to, left; /* of the namespace, of buf, bytes to go */
	int timeout_ms;
	uint64_t deadline_ns; /* host clock; UINT64_MAX: none */
};

/* What is left of the call's time, as nvmfr_wait() wants it. */
static int time_left_ms(const struct range *r)
{
	uint64_t now = nvmfr__clock_now_ns(&qpair_host(r->qp)->clock);

	if (r->deadline_ns == UINT64_MAX)
		return -1;
	if (now >= r->deadline_ns)
		return 0;
	return (int)nvmfr__min_u64((r->deadline_ns - now + MS_NS(1) - 1) / MS_NS(1), INT_MAX);
}

static int read_and_wait(struct range *r, const struct nvmfr_io *io)
{
	struct nvmfr_completion cpl;
	int n = nvmfr_submit(r->qp, io, 1);

	if (n < 0)
		return n;
	n = nvmfr_wait(r->qp, &cpl, 1, 1, time_left_ms(r));
	if (n == 0)
		return nvmfr__fail(-ETIMEDOUT,
				   "the read of LBA %" PRIu64 " has not ended within %d ms",
				   io->lba, r->timeout_ms);
	if (n < 0)
		return n;
	if (cpl.result == -EREMOTEIO)
		return nvmfr__fail(cpl.result,
				   "the read of LBA %" PRIu64 " failed with status 0x%04x, %s", io->lba,
				   cpl.status, nvme_status_name(cpl.status));
	if (cpl.result)
		return nvmfr__fail(cpl.result, "the read of LBA %" PRIu64 " failed: %s", io->lba,
				   nvmfr__strerror(cpl.result));
	return 0;
}

static void advance(struct range *r, uint64_t bytes)
{
	r->offset += bytes;
	r->to += bytes;
	r->left -= bytes;
}

static int need_scratch(struct range *r)
{
	/* Behind it the iov array: it has to outlast a call that did not wait for the end. */
	const size_t bytes = SCRATCH_BYTES + MAX_IOV * sizeof(struct nvmfr_iov);

	return r->qp->scratch ? 0 : nvmfr_buffer_alloc(qpair_host(r->qp), bytes, -1, &r->qp->scratch);
}

/* What is left, read as blocks. The descriptor or two that this needs more are the controller's limits. */
static bool is_one_io(const struct range *r)
{
	uint64_t skip = r->offset % r->block, pad = -(r->offset + r->left) % r->block;
	uint32_t pieces = 2u + (skip != 0) + (pad != 0); /* the buffer may have a seam */

	return (skip || pad) && r->qp->limits.any_bytes && pieces <= r->qp->max_pieces;
}

/* What the first and the last block have beside the range goes to the scratch block; nothing is copied. */
static int gathered(struct range *r)
{
	uint64_t skip = r->offset % r->block, pad = -(r->offset + r->left) % r->block;
	struct nvmfr_io io = {
		.op = NVMFR_OP_READ,
		.flags = NVMFR_IO_VEC,
		.nsid = r->nsid,
		.lba = r->offset / r->block,
		.nblocks = (skip + r->left + pad) / r->block,
	};
	int err = need_scratch(r);
	struct nvmfr_iov *iov;

	if (err)
		return err;
	io.iov = iov = (void *)((unsigned char *)nvmfr_buffer_addr(r->qp->scratch) + SCRATCH_BYTES);
	if (skip)
		iov[io.niov++] = (struct nvmfr_iov){ r->qp->scratch, 0, skip };
	iov[io.niov++] = (struct nvmfr_iov){ r->buf, r->to, r->left };
	if (pad)
		iov[io.niov++] = (struct nvmfr_iov){ r->qp->scratch, 0, pad };
	err = read_and_wait(r, &io);
	if (!err)
		advance(r, r->left);
	return err;
}

static int read_blocks(struct range *r, uint64_t nblocks, struct nvmfr_buffer *buf, uint64_t to)
{
	const struct nvmfr_io io = {
		.op = NVMFR_OP_READ,
		.nsid = r->nsid,
		.lba = r->offset / r->block,
		.nblocks = nblocks,
		.buf = buf,
		.offset_bytes = to,
	};

	return read_and_wait(r, &io);
}

/* A part of one block, by way of the scratch block. */
static int bounce(struct range *r)
{
	uint64_t skip = r->offset % r->block, bytes = nvmfr__min_u64(r->block - skip, r->left);
	int err = need_scratch(r);

	if (!err)
		err = read_blocks(r, 1, r->qp->scratch, 0);
	if (err)
		return err;
	memcpy((unsigned char *)nvmfr_buffer_addr(r->buf) + r->to,
	       (unsigned char *)nvmfr_buffer_addr(r->qp->scratch) + skip, bytes);
	r->qp->bounced_bytes += bytes;
	advance(r, bytes);
	return 0;
}

static int direct(struct range *r)
{
	uint64_t blocks = r->left / r->block;
	int err = read_blocks(r, blocks, r->buf, r->to);

	if (!err)
		advance(r, blocks * r->block);
	return err;
}

static int next_part(struct range *r)
{
	if (is_one_io(r))
		return gathered(r);
	return r->offset % r->block || r->left < r->block ? bounce(r) : direct(r);
}

static int check_range(struct range *r)
{
	const struct ns_entry *ns = nvmfr__ns_find(r->qp->ns, r->nsid);

	if (r->qp->state != LINK_LIVE)
		return nvmfr__qpair_state_error(r->qp);
	if (qpair_is_busy(r->qp))
		return nvmfr__fail(-EBUSY, "nvmfr_pread needs a queue pair with no I/O in flight");
	if (!ns)
		return nvmfr__fail(-ENOENT, "namespace %u is not active on this controller",
				   r->nsid);
	if (!nvmfr_buffer_addr(r->buf))
		return nvmfr__fail(-EINVAL,
				   "buf is NULL or a dma-buf, which the CPU cannot copy to");
	if (r->buf->host != r->qp->host || !(r->buf->access & FAB_ACCESS_TARGET))
		return nvmfr__fail(-EINVAL, "the buffer is another host's, or was not registered as a "
					    "target of reads");
	if (r->to > r->buf->len || r->left > r->buf->len - r->to)
		return nvmfr__fail(-ERANGE,
				   "%" PRIu64 " bytes from offset %" PRIu64
				   " on reach beyond the buffer's %" PRIu64 " bytes",
				   r->left, r->to, r->buf->len);
	if (r->offset > ns->blocks << ns->shift || r->left > (ns->blocks << ns->shift) - r->offset)
		return nvmfr__fail(-ERANGE,
				   "%" PRIu64 " bytes from offset %" PRIu64
				   " on reach beyond namespace %u",
				   r->left, r->offset, r->nsid);
	r->block = 1u << ns->shift;
	return 0;
}

int nvmfr_pread(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t offset_bytes,
		struct nvmfr_buffer *buf, uint64_t buf_offset_bytes, uint64_t len_bytes,
		int timeout_ms)
{
	struct range r = {
		.qp = qp,
		.nsid = nsid,
		.buf = buf,
		.offset = offset_bytes,
		.to = buf_offset_bytes,
		.left = len_bytes,
		.timeout_ms = timeout_ms,
		.deadline_ns = UINT64_MAX,
	};
	int err;

	if (!qp)
		return nvmfr__fail(-EINVAL, "qp is NULL");
	if (qpair_has_news(qp))
		nvmfr__qpair_adopt(qp);
	err = nvmfr__qpair_forked(qp) ? nvmfr__qpair_state_error(qp) : check_range(&r);
	if (!err && timeout_ms >= 0)
		r.deadline_ns = nvmfr__clock_now_ns(&qpair_host(qp)->clock) + MS_NS(timeout_ms);
	while (!err && r.left)
		err = next_part(&r);
	return err;
}
