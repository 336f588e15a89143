/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of any kind against the queue floor: each byte of the input is a step of the application,
 * the peer, the fabric or the service. Whatever happens, an accepted I/O ends once, and the
 * scripted fabric's rules are kept.
 */
#include "../unit/decode.h"
#include "../unit/scripted.h"
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"

enum { MAX_IOS = 6000, PIECES = 4 };

struct script {
	const uint8_t *data;
	size_t left;
	struct rig rig;
	struct nvmfr_iov iov[PIECES];
	uint32_t accepted, ended, seen;
	bool open[MAX_IOS];
};

static uint8_t byte(struct script *f)
{
	if (!f->left)
		return 0;
	f->left--;
	return *f->data++;
}

static void submit(struct script *f)
{
	static const uint8_t ops[] = { NVMFR_OP_READ, NVMFR_OP_WRITE, NVMFR_OP_FLUSH,
				       NVMFR_OP_WRITE_ZEROES };
	struct nvmfr_io io = { .nsid = 1 + byte(f) % 4, .user_data = f->accepted };
	uint8_t what = byte(f);
	int got;

	io.op = ops[what & 3];
	io.flags = what >> 2 & 3;
	io.lba = byte(f);
	io.nblocks = io.op == NVMFR_OP_FLUSH ? 0 : byte(f);
	if (io.flags & NVMFR_IO_VEC) {
		io.iov = f->iov;
		io.niov = what >> 4 & 3;
	} else {
		io.buf = what & 0x10 ? NULL : &f->rig.buf;
		io.offset_bytes = what;
	}
	if (f->accepted == MAX_IOS)
		return;
	got = nvmfr__qpair_submit(f->rig.qp, &io, 1);
	FUZZ_CHECK(got != 0 && got <= 1);
	if (got == 1)
		f->open[f->accepted++] = true;
}

static void answer(struct script *f, bool honest)
{
	struct scripted *s = f->rig.s;
	uint8_t which = byte(f), status = byte(f);
	uint32_t dword = (uint32_t)which | (uint32_t)byte(f) << 8 | (uint32_t)status << 16;

	if (!s->recv_posted || (honest && !s->outstanding))
		return;
	if (honest)
		scripted_answer(s, s->out[which % s->outstanding], status & 0x80 ? status : 0,
				which);
	else
		scripted_answer_dword(s, dword, which);
}

static int poll_once(struct script *f, unsigned int max)
{
	struct nvmfr_completion cpls[256];
	int got = nvmfr__qpair_poll(f->rig.qp, cpls, max);

	FUZZ_CHECK(got <= (int)max);
	for (int i = 0; i < got; i++) {
		FUZZ_CHECK(cpls[i].user_data < f->accepted && f->open[cpls[i].user_data]);
		FUZZ_CHECK(cpls[i].qpair_data == RIG_TAG && cpls[i].flags == 0);
		FUZZ_CHECK((cpls[i].result == -EREMOTEIO) == (cpls[i].status != 0));
		f->open[cpls[i].user_data] = false;
		f->ended++;
	}
	return got;
}

static void service(struct script *f)
{
	uint8_t what = byte(f);

	pthread_mutex_lock(&f->rig.lock);
	f->rig.qp->link.limits.max_xfer_bytes = UINT64_C(4096) << (what & 7);
	f->rig.qp->link.limits.icd_bytes = what & 0x08 ? 1024 : 0;
	f->rig.qp->link.limits.write_zeroes = what & 0x10;
	pthread_mutex_unlock(&f->rig.lock);
	rig_publish(&f->rig);
}

static void fabric(struct script *f)
{
	struct scripted *s = f->rig.s;
	uint8_t what = byte(f);

	s->per_poll = what & 0x10 ? 1 + (what & 3) : UINT16_MAX;
	s->idle_more = what >> 5 & 1;
	s->bad = s->bad || what == 0xff;
	if (what == 0xfe)
		s->send_room = 1;
	if (what == 0xfd)
		s->recv_room = 0;
	if (what == 0xfc)
		atomic_fetch_add(&f->rig.tick, 200);
}

/* Whatever went in, what goes out is well formed. */
static void look_at_new(struct script *f)
{
	for (; f->seen != f->rig.s->sent; f->seen++) {
		struct decoded d = decode(scripted_cmd(f->rig.s, f->seen));

		FUZZ_CHECK(d.good && d.nsid >= RIG_NS && d.nsid <= RIG_NS_READ_ONLY);
		FUZZ_CHECK(d.count <= FAB_MAX_DESCRIPTORS && d.bytes % 512 == 0 &&
			   d.bytes <= 512 << 10);
		FUZZ_CHECK(d.nsid != RIG_NS_READ_ONLY || d.opcode == NVMFR_OP_READ ||
			   d.opcode == NVMFR_OP_FLUSH);
	}
}

static void step(struct script *f)
{
	uint8_t what = byte(f);

	switch (what % 10) {
	case 0:
	case 1:
	case 2: submit(f); break;
	case 3:
	case 4: answer(f, true); break;
	case 5: answer(f, what >= 240); break;
	case 6:
		scripted_sends_done(f->rig.s,
				    nvmfr__min_u32(byte(f), f->rig.s->sent - f->rig.s->done));
		break;
	case 7: poll_once(f, 1 + what / 10); break;
	case 8: fabric(f); break;
	default: service(f); break;
	}
}

/* The end takes a bounded number of polls, however the peer left things. */
static void finish(struct script *f)
{
	uint32_t polls = 0;
	int got;

	rig_lose(&f->rig, -ECONNABORTED, "the script is over");
	do {
		got = poll_once(f, 1 + polls % 3);
		FUZZ_CHECK(polls++ <= 2 * f->accepted + 2);
	} while (got > 0);
	FUZZ_CHECK(got == -ENOTCONN && f->ended == f->accepted);
	FUZZ_CHECK(f->rig.s->stops == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct script f;
	struct rig_opts opts;

	memset(&f, 0, sizeof(f));
	f.data = data;
	f.left = bytes;
	opts = (struct rig_opts){
		.depth = 1 + byte(&f) % 40,
		.max_descriptors = 1 + byte(&f) % 16,
		.max_xfer_bytes = 4096,
		.timeout_ticks = 100,
	};
	rig_up(&f.rig, &opts);
	for (size_t i = 0; i < PIECES; i++)
		f.iov[i] = (struct nvmfr_iov){ .buf = &f.rig.buf,
					       .offset_bytes = i << 16,
					       .len_bytes = i % 2 ? 700 : 324 };
	while (f.left) {
		step(&f);
		look_at_new(&f);
	}
	finish(&f);
	rig_down(&f.rig);
	return 0;
}

/* ---- to start from --------------------------------------------------------------------------- */

#define READ   0, 0, 0, 5, 1
#define SPLIT  0, 0, 0, 5, 100
#define WRITE  0, 0, 1, 5, 1
#define PIECED 0, 0, 0x28, 0, 2
#define POLL   77
#define ANSWER 3, 0, 0, 0
#define FAILED 3, 0, 0x81, 0
#define WRONG  5, 7, 0, 0x10
#define SENDS  6, 200
#define ICD    9, 0x1b
#define BAD    8, 0xff

/* clang-format off */
static const uint8_t plain[] = { 8, 1, READ, READ, ANSWER, POLL, READ, ANSWER, ANSWER, SENDS,
	POLL };
static const uint8_t split[] = { 3, 1, SPLIT, ANSWER, ANSWER, POLL, FAILED, ANSWER, SENDS, POLL,
	ANSWER, POLL };
static const uint8_t carried[] = { 8, 1, ICD, WRITE, WRITE, ANSWER, POLL, SENDS, POLL, ANSWER,
	POLL };
static const uint8_t pieced[] = { 8, 4, PIECED, READ, ANSWER, ANSWER, POLL, SENDS, POLL };
static const uint8_t hostile[] = { 8, 1, READ, SPLIT, ANSWER, WRONG, ANSWER, POLL, POLL };
static const uint8_t dying[] = { 8, 1, ICD, WRITE, SPLIT, READ, ANSWER, FAILED, BAD, POLL, POLL };
/* clang-format on */

const struct fuzz_input nvmfr__fuzz_corpus[] = {
	{ plain, sizeof(plain) },   { split, sizeof(split) },	  { carried, sizeof(carried) },
	{ pieced, sizeof(pieced) }, { hostile, sizeof(hostile) }, { dying, sizeof(dying) },
};
const size_t nvmfr__fuzz_corpus_count = sizeof(nvmfr__fuzz_corpus) / sizeof(nvmfr__fuzz_corpus[0]);
