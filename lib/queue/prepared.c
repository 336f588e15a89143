/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue/prepared.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "queue/capsule.h"

/* ---- building ---------------------------------------------------------------------------------- */

static bool is_plain(const struct nvmfr_io *io)
{
	return io->op == NVMFR_OP_READ || io->op == NVMFR_OP_WRITE;
}

/* One keyed descriptor names all the data, and nothing travels behind the SQE. */
static bool build(const struct nvmfr_qpair *qp, const struct nvmfr_io *io, struct prepared_cmd *cmd)
{
	const bool read = io->op == NVMFR_OP_READ;
	const uint64_t len = io->nblocks << qp->ns_shift;
	const struct buffer_key *key;

	if (!is_plain(io) || (io->flags & NVMFR_IO_VEC) || !range_fits(qp, io->lba, io->nblocks))
		return false;
	if (!read && len <= qp->icd_bytes && !(io->buf->flags & BUFFER_DMABUF))
		return false;
	key = key_of(qp, io->buf, io->offset_bytes, len,
		     read ? FAB_ACCESS_TARGET : FAB_ACCESS_SOURCE);
	if (!key)
		return false;
	*cmd = (struct prepared_cmd){
		.head = read ? qp->read_head : qp->write_head,
		.sgl = { io->buf->addr + io->offset_bytes, key->sgl + len },
		.lba = io->lba,
		.cdw12 = (io->nblocks - 1) | (io->flags & NVMFR_IO_FUA ? NVME_RW_FUA : 0),
		.user_data = io->user_data,
		.buf = io->buf,
	};
	return true;
}

static int build_all(struct nvmfr_prepared *list)
{
	const struct ns_entry *ns;

	for (uint32_t i = 0; i < list->n; i++) {
		int err = nvmfr__qpair_check(list->qp, &list->ios[i], &ns);

		if (!err && ns)
			err = nvmfr__split_check(list->qp, &list->ios[i], ns);
		if (err)
			return nvmfr__fail_wrap(err, "I/O %u of the list", i);
		list->cmds[i].built = build(list->qp, &list->ios[i], &list->cmds[i]);
	}
	list->stamp = list->qp->adopted;
	return 0;
}

static void take_hold(struct nvmfr_buffer *buf)
{
	atomic_fetch_add_explicit(&buf->in_use, 1, memory_order_relaxed);
}

/* Of a host that ended first nothing but this is left of it. */
static void let_go(struct nvmfr_buffer *buf)
{
	bool last = atomic_fetch_sub_explicit(&buf->in_use, 1, memory_order_relaxed) == 1;

	if (last && !buf->host)
		free(buf);
}

/* Each buffer of an I/O, once a piece. Its release waits for that of the list. */
static void each_buffer(const struct nvmfr_io *io, void (*what)(struct nvmfr_buffer *buf))
{
	if (io->flags & NVMFR_IO_VEC) {
		for (uint64_t i = 0; i < io->niov; i++)
			what(io->iov[i].buf);
	} else if (op_has_data(io->op)) {
		what(io->buf);
	}
}

static struct nvmfr_prepared *alloc_list(uint32_t n)
{
	struct nvmfr_prepared *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->cmds = aligned_alloc(CACHE_LINE, n * sizeof(*list->cmds));
	list->ios = calloc(n, sizeof(*list->ios));
	if (list->cmds && list->ios)
		return list;
	nvmfr__prepared_free(list);
	return NULL;
}

int nvmfr__prepare(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n,
		   struct nvmfr_prepared **out)
{
	struct nvmfr_prepared *list;
	int err = nvmfr__qpair_make_room(qp);

	if (err && !(err == -EAGAIN && qp->state == LINK_LIVE))
		return err;
	list = alloc_list(n);
	if (!list)
		return nvmfr__fail(-ENOMEM, "no memory for %u prepared I/Os", n);
	memcpy(list->ios, ios, n * sizeof(*ios));
	list->qp = qp;
	list->n = n;
	err = build_all(list);
	if (err) {
		list->n = 0; /* none is marked */
		nvmfr__prepared_free(list);
		return err;
	}
	for (uint32_t i = 0; i < n; i++)
		each_buffer(&list->ios[i], take_hold);
	*out = list;
	return 0;
}

void nvmfr__prepared_free(struct nvmfr_prepared *list)
{
	if (!list)
		return;
	for (uint32_t i = 0; i < list->n; i++)
		each_buffer(&list->ios[i], let_go);
	free(list->cmds);
	free(list->ios);
	free(list);
}

/* ---- posting ------------------------------------------------------------------------------------- */

/* Built ones, as far as they go: how many were written to the ring. */
INLINE uint32_t put_run(struct nvmfr_qpair *qp, const struct prepared_cmd *cmds, uint32_t n)
{
	unsigned char *capsule = capsule_at(qp, qp->position);
	const struct prepared_cmd *cmd = cmds, *end = cmds + n;
	struct qslot **slots = qp->free_top;
	const uint32_t tick = tick_now(qp);

	for (; cmd < end && likely(cmd->built); cmd++, capsule += FAB_CAPSULE_BYTES) {
		struct qslot *slot = *--slots;
		uint32_t cid = slot_next_cid(slot);

		start_slot(slot, cid, cmd->buf, cmd->user_data, tick, 0);
		put_rw(capsule, cmd->head, cid, cmd->sgl[0], cmd->sgl[1], cmd->lba, cmd->cdw12);
	}
	return (uint32_t)(cmd - cmds);
}

static bool is_current(const struct nvmfr_prepared *list)
{
	return likely_live(list->qp) && likely(list->stamp == list->qp->adopted);
}

/* No room, or news: then the commands are built anew, since the old ones may be wrong by now. */
static __attribute__((noinline)) int refresh(struct nvmfr_prepared *list)
{
	int err = nvmfr__qpair_make_room(list->qp);

	if (err || is_current(list))
		return err;
	return build_all(list);
}

int nvmfr__prepared_post(struct nvmfr_prepared *list, unsigned int first, unsigned int n)
{
	struct nvmfr_qpair *qp = list->qp;
	unsigned int done = 0;
	int err = 0;

	while (done < n && !err) {
		uint32_t room = is_current(list) ? qpair_room(qp) : 0;
		uint32_t position = qp->position, count = 0;

		if (likely(room))
			count = put_run(qp, list->cmds + first + done,
					nvmfr__min_u32(room, n - done));
		if (count) {
			advance(qp, count);
			qp->ops->post_send(qp->ep, position, count);
			done += count;
		}
		if (done == n)
			break;
		if (count == room) {
			err = refresh(list);
			continue;
		}
		err = nvmfr__qpair_submit(qp, &list->ios[first + done], 1);
		if (err == 1) {
			err = 0;
			done++;
		}
	}
	return done ? (int)done : err;
}
