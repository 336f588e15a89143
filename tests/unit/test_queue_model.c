/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue floor against a model that knows nothing of slots, rings or backlogs: an I/O is a range
 * of blocks, commands must name it from front to back, and it ends once, by the lowest block that
 * failed.
 *
 * Submits, answers, ends of SENDs, polls and losses come at random. NVMFR_SEED repeats a run.
 */
#include "decode.h"
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/util.h"

enum {
	ENOUGH = 1000000, /* I/Os */
	EPISODE = 20000, /* steps with one connection */
	IDS = 256, /* I/Os that may be open; more than any depth here */
	BATCH = 6,
	PIECES = 24,
	ID_SHIFT = 20, /* an I/O's LBAs are its own: what a command names tells whose it is */
};

struct promise {
	bool open, carried, vec, fua;
	uint8_t op;
	uint64_t user_data;
	uint64_t nblocks, issued; /* of them in commands */
	uint32_t commands, answers;
	uint64_t fail_lba; /* UINT64_MAX: none failed */
	uint16_t status;
	uint64_t result; /* of the last answer */
	uint64_t offset; /* into the buffer */
	struct nvmfr_iov iov[PIECES];
	uint64_t niov, at, skip; /* what of iov the commands have named */
	uint32_t sent_as; /* carried: which command it is */
};

struct order {
	uint32_t id;
	uint64_t lba;
};

static struct model {
	struct rig rig;
	struct rig_opts opts;
	uint64_t seed, random, steps, accepted, ended;
	struct promise promises[IDS];
	uint32_t free_ids[IDS], free_count;
	uint32_t flushes[IDS], flush_first, flush_last;
	uint32_t seen; /* commands looked at */
	struct order orders[SCRIPTED_SLOTS]; /* by the CID's low bits */
	bool liar; /* the peer sent a CID of its own making */
} m;

#define CHECK(Good) \
	do { \
		if (!(Good)) \
			cr_assert_fail("NVMFR_SEED=%" PRIu64 ", step %" PRIu64 ": not so: %s", \
				       m.seed, m.steps, #Good); \
	} while (0)

static uint32_t pick(uint32_t below)
{
	m.random = m.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(m.random >> 33) % below;
}

/* ---- what was promised ----------------------------------------------------------------------- */

static void choose_pieces(struct promise *p)
{
	uint64_t left = p->nblocks * 512;

	/* 512 bytes and more each: no block lies in more than two. */
	for (p->niov = 0; left; p->niov++) {
		uint64_t bytes = 512 + (m.opts.max_descriptors > 1 ? pick(3000) : pick(6) * 512);

		if (left < bytes + 512 || p->niov == PIECES - 1)
			bytes = left;
		p->iov[p->niov] = (struct nvmfr_iov){ .buf = &m.rig.buf,
						      .offset_bytes = pick(1 << 20),
						      .len_bytes = bytes };
		left -= bytes;
	}
}

static uint64_t choose_blocks(uint8_t op)
{
	if (op == NVMFR_OP_FLUSH)
		return 0;
	if (pick(4))
		return 1 + pick(8);
	if (op == NVMFR_OP_WRITE_ZEROES)
		return 1 + pick(200000);
	return 1 + pick(400);
}

static struct nvmfr_io propose(uint32_t id)
{
	static const uint8_t ops[] = { NVMFR_OP_READ, NVMFR_OP_WRITE, NVMFR_OP_READ,
				       NVMFR_OP_WRITE, NVMFR_OP_FLUSH, NVMFR_OP_WRITE_ZEROES };
	struct promise *p = &m.promises[id];
	struct nvmfr_io io = { .nsid = RIG_NS };

	memset(p, 0, offsetof(struct promise, iov));
	p->niov = p->at = p->skip = 0;
	p->op = ops[pick(ARRAY_SIZE(ops))];
	p->nblocks = choose_blocks(p->op);
	p->fua = p->op != NVMFR_OP_FLUSH && !pick(8);
	p->vec = (p->op == NVMFR_OP_READ || p->op == NVMFR_OP_WRITE) && !pick(4);
	p->user_data = m.accepted << 16 | id;
	p->fail_lba = UINT64_MAX;
	p->offset = pick(1 << 20);
	io.op = p->op;
	io.lba = p->op == NVMFR_OP_FLUSH ? 0 : (uint64_t)id << ID_SHIFT;
	io.nblocks = p->nblocks;
	io.user_data = p->user_data;
	io.flags = p->fua ? NVMFR_IO_FUA : 0;
	if (p->vec) {
		choose_pieces(p);
		io.flags |= NVMFR_IO_VEC;
		io.iov = p->iov;
		io.niov = p->niov;
	} else if (p->op == NVMFR_OP_READ || p->op == NVMFR_OP_WRITE) {
		io.buf = &m.rig.buf;
		io.offset_bytes = p->offset;
	}
	return io;
}

/* ---- what goes out --------------------------------------------------------------------------- */

static void check_piece(struct promise *p, const struct decoded *d, uint32_t i)
{
	const struct nvmfr_iov *iov = &p->iov[p->at];
	const struct piece *piece = &d->pieces[i];

	if (!p->vec) {
		CHECK(d->count == 1 && piece->addr == RIG_ADDR + p->offset + p->issued * 512);
		return;
	}
	CHECK(p->at < p->niov && piece->bytes && piece->bytes <= iov->len_bytes - p->skip);
	CHECK(piece->addr == RIG_ADDR + iov->offset_bytes + p->skip);
	p->skip += piece->bytes;
	if (p->skip == iov->len_bytes) {
		p->skip = 0;
		p->at++;
	}
}

static void check_data(struct promise *p, const struct decoded *d, const struct scripted_cmd *cmd)
{
	uint64_t max = p->op == NVMFR_OP_WRITE_ZEROES ? m.opts.zeroes_bytes : m.opts.max_xfer_bytes;

	CHECK(d->lba == ((uint64_t)(p - m.promises) << ID_SHIFT) + p->issued);
	CHECK(d->blocks <= p->nblocks - p->issued && (uint64_t)d->blocks * 512 <= max);
	if (p->op == NVMFR_OP_WRITE_ZEROES) {
		CHECK(d->bytes == 0);
		return;
	}
	CHECK(d->bytes == (uint64_t)d->blocks * 512 && d->count <= m.opts.max_descriptors);
	for (uint32_t i = 0; i < d->count; i++)
		check_piece(p, d, i);
	p->carried = cmd->is_data;
	if (p->carried)
		CHECK(p->op == NVMFR_OP_WRITE && d->bytes <= m.opts.icd_bytes &&
		      cmd->tail.lkey == SCRIPTED_LKEY);
	else
		CHECK(d->pieces[0].rkey == SCRIPTED_RKEY);
}

static void look_at(uint32_t seq)
{
	const struct scripted_cmd *cmd = scripted_cmd(m.rig.s, seq);
	struct decoded d = decode(cmd);
	bool flush = d.opcode == NVMFR_OP_FLUSH;
	uint32_t id = flush ? m.flushes[m.flush_first++ % IDS] : (uint32_t)(d.lba >> ID_SHIFT);
	struct promise *p;

	CHECK(d.good && d.nsid == RIG_NS && id < IDS);
	p = &m.promises[id];
	CHECK(p->open && d.opcode == p->op && d.fua == p->fua);
	m.orders[scripted_cid(cmd) % SCRIPTED_SLOTS] = (struct order){ id, d.lba };
	p->commands++;
	p->sent_as = seq;
	if (flush)
		return;
	check_data(p, &d, cmd);
	p->issued += d.blocks;
}

static void look_at_new(void)
{
	while (m.seen != m.rig.s->sent)
		look_at(m.seen++);
}

static void submit(void)
{
	struct nvmfr_io ios[BATCH];
	uint32_t n = 1 + pick(BATCH), took = 0;
	int got;

	for (uint32_t i = 0; i < n; i++)
		ios[i] = propose(m.free_ids[m.free_count - 1 - i]);
	got = nvmfr__qpair_submit(m.rig.qp, ios, n);
	CHECK(got == -EAGAIN || (got > 0 && (uint32_t)got <= n));
	took = got > 0 ? (uint32_t)got : 0;
	for (uint32_t i = 0; i < took; i++) {
		uint32_t id = m.free_ids[--m.free_count];

		m.promises[id].open = true;
		if (ios[i].op == NVMFR_OP_FLUSH)
			m.flushes[m.flush_last++ % IDS] = id;
	}
	m.accepted += took;
}

/* ---- what comes back ------------------------------------------------------------------------- */

static void answer(void)
{
	struct scripted *s = m.rig.s;
	struct promise *p;
	uint16_t cid, status = pick(16) ? 0 : (uint16_t)(1 + pick(0x7fff));
	struct order order;

	if (!s->outstanding)
		return;
	cid = s->out[pick(s->outstanding)];
	order = m.orders[cid % SCRIPTED_SLOTS];
	p = &m.promises[order.id];
	p->answers++;
	p->result = m.random;
	if (status && order.lba < p->fail_lba) {
		p->fail_lba = order.lba;
		p->status = status;
	}
	scripted_answer_dword(s, cid | (uint32_t)pick(2) << 16 | (uint32_t)status << 17, p->result);
}

static bool all_answered(const struct promise *p)
{
	bool issued = p->op == NVMFR_OP_FLUSH ? p->commands == 1 : p->issued == p->nblocks;

	return p->answers == p->commands && (issued || p->fail_lba != UINT64_MAX);
}

/* CQE dwords 0 and 1 are told where one command carried it all. */
static uint64_t told_result(const struct promise *p)
{
	bool whole = p->op == NVMFR_OP_FLUSH || p->issued == p->nblocks;

	return whole && p->commands == 1 && p->answers == 1 ? p->result : 0;
}

static bool send_told(const struct promise *p)
{
	return !p->carried || (int32_t)(m.rig.s->told - p->sent_as) > 0;
}

static void end_promise(const struct nvmfr_completion *cpl, bool lost)
{
	uint32_t id = cpl->user_data & 0xffff;
	struct promise *p = &m.promises[id];
	bool aborted = cpl->result == -ECONNABORTED || cpl->result == -ETIMEDOUT;

	CHECK(id < IDS && p->open && p->user_data == cpl->user_data);
	CHECK(cpl->qpair_data == RIG_TAG && cpl->flags == 0);
	if (lost && aborted) {
		CHECK((!all_answered(p) || m.liar) && cpl->status == 0 && cpl->cqe_result == 0);
	} else {
		CHECK(cpl->result == (p->fail_lba == UINT64_MAX ? 0 : -EREMOTEIO) &&
		      cpl->status == p->status);
		CHECK(lost || (all_answered(p) && send_told(p)));
		CHECK(cpl->cqe_result == told_result(p));
	}
	p->open = false;
	m.free_ids[m.free_count++] = id;
	m.ended++;
}

static int poll_some(bool lost)
{
	struct nvmfr_completion cpls[64];
	uint32_t max = pick(8) ? 1 + pick(8) : 1 + pick(64);
	int got = nvmfr__qpair_poll(m.rig.qp, cpls, max);

	CHECK(got <= (int)max);
	look_at_new();
	for (int i = 0; i < got; i++)
		end_promise(&cpls[i], lost);
	if (!lost && !m.rig.qp->broken && got >= 0 && (uint32_t)got < max)
		CHECK(m.rig.s->answered == 0);
	return got;
}

/* Poll said 0: then nothing that is over is held back. */
static void nothing_is_held_back(void)
{
	for (uint32_t id = 0; id < IDS; id++)
		CHECK(!m.promises[id].open || !all_answered(&m.promises[id]) ||
		      !send_told(&m.promises[id]));
}

/* ---- one connection -------------------------------------------------------------------------- */

static void step(void)
{
	uint32_t what = pick(16);

	m.steps++;
	if (what < 5) {
		submit();
		look_at_new();
	} else if (what < 11) {
		for (uint32_t n = 1 + pick(6); n; n--)
			answer();
	} else if (what < 13) {
		if (pick(2))
			scripted_sends_signaled(m.rig.s);
		else
			scripted_sends_done(m.rig.s, pick(m.rig.s->sent - m.rig.s->done + 1));
	} else if (poll_some(false) == 0 && !pick(16)) {
		nothing_is_held_back();
	}
}

static void end_somehow(void)
{
	struct scripted *s = m.rig.s;

	switch (pick(5)) {
	case 0: s->bad = true; break;
	case 1:
		m.liar = true;
		scripted_answer_dword(s, (uint32_t)m.random, 0);
		break;
	case 2:
		s->send_room = pick(4);
		submit();
		look_at_new();
		break;
	case 3: atomic_store(&m.rig.tick, 1000); break;
	default: break;
	}
	for (uint32_t n = pick(8); n; n--)
		answer();
	for (uint32_t n = pick(4); n && !m.rig.qp->broken; n--)
		poll_some(true);
}

static void choose_opts(void)
{
	static const uint32_t depths[] = { 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 127 };

	m.opts = (struct rig_opts){
		.depth = depths[pick(ARRAY_SIZE(depths))],
		.max_xfer_bytes = UINT64_C(512) << pick(9),
		.zeroes_bytes = pick(2) ? UINT64_MAX : UINT64_C(4096) << pick(14),
		.icd_bytes = pick(2) ? 0 : 512 * pick(17),
		.max_descriptors = 1 + pick(16),
		.timeout_ticks = 100,
	};
}

/* Sequence numbers have 32 bits: this connection has sent so much already that they soon begin anew. */
static void near_the_wrap(struct nvmfr_qpair *qp)
{
	qp->lap = qp->done_seq = 0u - pick(20) * qp->send_positions;
}

static void episode(void)
{
	choose_opts();
	rig_up(&m.rig, &m.opts);
	if (pick(2))
		near_the_wrap(m.rig.qp);
	m.seen = m.flush_first = m.flush_last = 0;
	m.liar = false;
	for (uint32_t i = 0; i < EPISODE && m.accepted < ENOUGH; i++)
		step();
	end_somehow();
	rig_lose(&m.rig, -ECONNABORTED, "the episode is over");
	while (poll_some(true) > 0)
		;
	CHECK(m.accepted == m.ended && m.free_count == IDS);
	rig_down(&m.rig);
}

Test(queue_model, each_io_ends_once_and_right, .timeout = 300)
{
	const char *given = getenv("NVMFR_SEED");

	m = (struct model){ .free_count = IDS };
	if (given)
		m.seed = strtoull(given, NULL, 10);
	else if (getrandom(&m.seed, sizeof(m.seed), 0) != sizeof(m.seed))
		m.seed = 1;
	m.random = m.seed;
	fprintf(stderr, "# queue model: NVMFR_SEED=%" PRIu64 "\n", m.seed);
	for (uint32_t id = 0; id < IDS; id++)
		m.free_ids[id] = id;
	while (m.accepted < ENOUGH)
		episode();
}
