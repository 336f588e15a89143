/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue floor on the scripted fabric: I/Os of several pieces of memory. */
#include "decode.h"
#include "scripted.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

enum { MAX_PIECES = 256 };

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static struct nvmfr_io vec_of(uint8_t op, uint64_t nblocks, const struct nvmfr_iov *iov,
			      uint64_t niov)
{
	return (struct nvmfr_io){
		.op = op,
		.flags = NVMFR_IO_VEC,
		.nsid = RIG_NS,
		.nblocks = nblocks,
		.iov = iov,
		.niov = niov,
		.user_data = 5,
	};
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/*
 * NVMe Base, last segment descriptor with offset subtype (31h): its length is the list's, keyed
 * descriptors.
 */
Test(queue_iov, a_list_of_two)
{
	/* clang-format off */
	static const unsigned char want[FAB_CAPSULE_BYTES] = {
		0x02, 0x40, 0x00, 0x10, 1, [32] = 32, [39] = 0x31, [48] = 1,
	};
	static const unsigned char list[32] = {
		0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0, 0x01, 0x00, 0x00, 0x00, 0xc3, 0xb2, 0xa1,
		0x40,
		0xcc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0, 0xff, 0x03, 0x00, 0x00, 0xc3, 0xb2, 0xa1,
		0x40,
	};
	/* clang-format on */
	struct nvmfr_iov iov[2] = { { .len_bytes = 1 }, { .offset_bytes = 16, .len_bytes = 1023 } };
	struct nvmfr_io io = vec_of(NVMFR_OP_READ, 2, iov, 2);
	const struct scripted_cmd *cmd;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_descriptors = 2 });
	iov[0].buf = iov[1].buf = &rig.buf;
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "%s", nvmfr__err_get());
	cmd = scripted_last(rig.s, 0);
	cr_expect_arr_eq(cmd->capsule, want, sizeof(want));
	cr_expect(cmd->is_list && cmd->tail.bytes == 32, "the tail is the list");
	cr_expect_arr_eq(cmd->list, list, sizeof(list));
	rig_down(&rig);
}

Test(queue_iov, one_piece_needs_no_list)
{
	struct nvmfr_iov iov = { .offset_bytes = 3, .len_bytes = 512 };
	struct nvmfr_io io = vec_of(NVMFR_OP_WRITE, 1, &iov, 1);
	struct nvmfr_completion cpl;
	struct decoded d;
	struct rig rig;

	rig_up(&rig, NULL);
	iov.buf = &rig.buf;
	io.flags |= NVMFR_IO_FUA;
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	d = decode(scripted_last(rig.s, 0));
	cr_expect(d.good && d.count == 1 && d.fua && d.bytes == 512 &&
		  d.pieces[0].addr == RIG_ADDR + 3);
	scripted_answer(rig.s, 0x1000, 0, 0x77);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	cr_expect(cpl.user_data == 5 && cpl.result == 0 && cpl.cqe_result == 0x77);
	rig_down(&rig);
}

/* ---- any pieces, any MSDBD, against the plain sum -------------------------------------------- */

struct shape {
	struct nvmfr_iov iov[MAX_PIECES];
	uint64_t niov, bytes;
};

/* Pieces of up to max bytes, together whole blocks. */
static void make_shape(struct shape *shape, struct nvmfr_buffer *buf, uint32_t max,
		       uint32_t *random)
{
	shape->niov = 1 + next_random(random) % (MAX_PIECES - 1);
	shape->bytes = 0;
	for (uint64_t i = 0; i < shape->niov; i++) {
		shape->iov[i] = (struct nvmfr_iov){
			.buf = buf,
			.offset_bytes = next_random(random) >> 1,
			.len_bytes = 1 + next_random(random) % max,
		};
		shape->bytes += shape->iov[i].len_bytes;
	}
	if (shape->bytes % 512) {
		shape->iov[shape->niov - 1].len_bytes += 512 - shape->bytes % 512;
		shape->bytes += 512 - shape->bytes % 512;
	}
}

/* The most pieces that a block lies in. */
static uint32_t worst_block(const struct shape *shape)
{
	uint32_t pieces = 0, worst = 0;
	uint64_t at = 0;

	for (uint64_t i = 0; i < shape->niov; i++) {
		uint64_t end = at + shape->iov[i].len_bytes;

		worst = nvmfr__max_u32(worst, ++pieces);
		if (end / 512 != at / 512)
			pieces = end % 512 != 0;
		at = end;
	}
	return worst;
}

/* Whether piece p of a command is what comes next of the shape; goes on behind it. */
static bool follows(const struct shape *shape, uint64_t *i, uint64_t *skip, const struct piece *p)
{
	const struct nvmfr_iov *iov = &shape->iov[*i];
	bool good = *i < shape->niov && p->bytes && p->rkey == SCRIPTED_RKEY &&
		    p->addr == RIG_ADDR + iov->offset_bytes + *skip &&
		    p->bytes <= iov->len_bytes - *skip;

	if (!good)
		return false;
	*skip += p->bytes;
	if (*skip == iov->len_bytes) {
		*skip = 0;
		++*i;
	}
	return true;
}

static void check_commands(struct rig *rig, const struct shape *shape, uint32_t max_descriptors,
			   uint64_t max_xfer)
{
	struct nvmfr_completion cpl;
	uint64_t at = 0, skip = 0, lba = 0;
	uint32_t seen = 0;

	do {
		for (; seen < rig->s->sent; seen++) {
			struct decoded d = decode(scripted_cmd(rig->s, seen));

			cr_assert(d.good && d.count <= max_descriptors && d.bytes <= max_xfer);
			cr_assert(d.lba == lba && d.bytes == (uint64_t)d.blocks * 512);
			for (uint32_t i = 0; i < d.count; i++)
				cr_assert(follows(shape, &at, &skip, &d.pieces[i]),
					  "command %u, piece %u", seen, i);
			lba += d.blocks;
			scripted_answer(rig->s, scripted_cid(scripted_cmd(rig->s, seen)), 0, 0);
		}
		scripted_sends_signaled(rig->s);
	} while (nvmfr__qpair_poll(rig->qp, &cpl, 1) == 0);
	cr_expect(at == shape->niov && lba * 512 == shape->bytes, "all of it");
	cr_expect_eq(cpl.result, 0);
}

/* Whether it was accepted; then what went out was right. */
static bool one_shape(uint32_t max_descriptors, uint64_t max_xfer, uint32_t max_piece,
		      uint32_t *random)
{
	struct shape shape;
	struct nvmfr_io io;
	struct rig rig;
	int got;

	rig_up(&rig, &(struct rig_opts){ .max_descriptors = max_descriptors,
					 .max_xfer_bytes = max_xfer });
	make_shape(&shape, &rig.buf, max_piece, random);
	io = vec_of(NVMFR_OP_READ, shape.bytes / 512, shape.iov, shape.niov);
	got = nvmfr__qpair_submit(rig.qp, &io, 1);
	cr_assert_eq(got, worst_block(&shape) > max_descriptors ? -EINVAL : 1,
		     "MSDBD %u, pieces up to %u: %s", max_descriptors, max_piece, nvmfr__err_get());
	if (got == 1)
		check_commands(&rig, &shape, max_descriptors, max_xfer);
	else
		cr_assert_eq(rig.s->sent, 0u);
	rig_down(&rig);
	return got == 1;
}

Test(queue_iov, any_pieces_at_any_msdbd)
{
	static const uint32_t max_pieces[] = { 30, 100, 700, 3000, 200000 };
	uint32_t random = 1, accepted = 0, refused = 0;

	for (uint32_t msdbd = 1; msdbd <= 16; msdbd++) {
		for (size_t i = 0; i < ARRAY_SIZE(max_pieces); i++) {
			for (uint32_t round = 0; round < 10; round++) {
				bool good = one_shape(msdbd, round % 2 ? 4096 : 131072,
						      max_pieces[i], &random);

				accepted += good;
				refused += !good;
			}
		}
	}
	cr_expect(accepted > 100 && refused > 100, "%u accepted, %u refused", accepted, refused);
}

/* Pieces of whole blocks never straddle: good at MSDBD 1 also. */
Test(queue_iov, whole_blocks_at_msdbd_1)
{
	struct shape shape = { .niov = 5, .bytes = 5 * 1024 };
	struct nvmfr_io io = vec_of(NVMFR_OP_READ, 10, shape.iov, 5);
	struct rig rig;

	rig_up(&rig, NULL);
	for (size_t i = 0; i < shape.niov; i++)
		shape.iov[i] = (struct nvmfr_iov){ .buf = &rig.buf,
						   .offset_bytes = 10000 * i + 1,
						   .len_bytes = 1024 };
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	cr_expect_eq(rig.s->sent, 5u);
	check_commands(&rig, &shape, 1, 131072);
	rig_down(&rig);
}

/* ---- refusals -------------------------------------------------------------------------------- */

Test(queue_iov, a_straddling_block_is_refused_with_the_limit)
{
	struct nvmfr_iov iov[4];
	struct nvmfr_io io = vec_of(NVMFR_OP_READ, 2, iov, 4);
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_descriptors = 2 });
	for (size_t i = 0; i < 4; i++)
		iov[i] = (struct nvmfr_iov){ .buf = &rig.buf,
					     .offset_bytes = 4096 * i,
					     .len_bytes = i ? 100 : 724 };
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), -EINVAL);
	cr_expect_not_null(strstr(nvmfr__err_get(), "MSDBD"), "%s", nvmfr__err_get());
	cr_expect(rig.s->sent == 0 && free_slots(rig.qp) == 8);
	iov[1].len_bytes = 300;
	io.niov = 2;
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1, "the last block lies in two");
	rig_down(&rig);
}

/* The queue pair's own max_descriptors bounds what the controller would take. */
Test(queue_iov, the_smaller_limit_counts)
{
	struct nvmfr_iov iov[2];
	struct nvmfr_io io = vec_of(NVMFR_OP_READ, 1, iov, 2);
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_descriptors = 8 });
	rig.qp->max_descriptors = 1;
	rig_publish(&rig);
	for (size_t i = 0; i < 2; i++)
		iov[i] = (struct nvmfr_iov){ .buf = &rig.buf, .len_bytes = 256 };
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), -EINVAL);
	rig_down(&rig);
}

struct bad_piece {
	const char *name;
	uint64_t offset, bytes;
	char buf; /* r: good, n: NULL, h: another host's, s: no target */
	int err;
	const char *sentence;
};

/* clang-format off */
static const struct bad_piece bad_pieces[] = {
	{ "no buffer", 0, 512, 'n', -EINVAL, "iov[1]" },
	{ "another host's", 0, 512, 'h', -EINVAL, "iov[1]" },
	{ "no target of reads", 0, 512, 's', -EINVAL, "iov[1]" },
	{ "empty", 0, 0, 'r', -ERANGE, "iov[1]" },
	{ "over the end", RIG_BYTES - 511, 512, 'r', -ERANGE, "iov[1]" },
	{ "longer than the buffer", 0, RIG_BYTES + 512, 'r', -ERANGE, "iov[1]" },
	{ "offset wraps", UINT64_MAX - 100, 512, 'r', -ERANGE, "iov[1]" },
	{ "too short", 0, 511, 'r', -EINVAL, "add up" },
	{ "too long", 0, 513, 'r', -EINVAL, "add up" },
	{ "a block too long", 0, 1024, 'r', -EINVAL, "add up" },
};
/* clang-format on */

Test(queue_iov, bad_pieces_are_named)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_pieces); i++) {
		const struct bad_piece *c = &bad_pieces[i];
		struct nvmfr_buffer source, other;
		struct nvmfr_iov iov[2];
		struct nvmfr_io io = vec_of(NVMFR_OP_READ, 2, iov, 2);
		struct rig rig;

		rig_up(&rig, &(struct rig_opts){ .max_descriptors = 4 });
		source = rig_buffer(&rig, RIG_ADDR, RIG_BYTES, FAB_ACCESS_SOURCE);
		other = rig.buf;
		other.host = &other;
		iov[0] = (struct nvmfr_iov){ .buf = &rig.buf, .len_bytes = 512 };
		iov[1] = (struct nvmfr_iov){ .offset_bytes = c->offset, .len_bytes = c->bytes };
		if (c->buf == 'r')
			iov[1].buf = &rig.buf;
		else if (c->buf != 'n')
			iov[1].buf = c->buf == 'h' ? &other : &source;
		cr_expect_eq(nvmfr__qpair_submit(rig.qp, &io, 1), c->err, "%s: %s", c->name,
			     nvmfr__err_get());
		cr_expect_not_null(strstr(nvmfr__err_get(), c->sentence), "%s: %s", c->name,
				   nvmfr__err_get());
		cr_expect(rig.s->sent == 0 && !rig.qp->backlog && free_slots(rig.qp) == 8, "%s",
			  c->name);
		rig_unbuffer(&rig, &source);
		rig_down(&rig);
	}
}

Test(queue_iov, no_pieces)
{
	struct nvmfr_iov iov = { .len_bytes = 512 };
	struct nvmfr_io none = vec_of(NVMFR_OP_READ, 1, &iov, 0),
			null = vec_of(NVMFR_OP_READ, 1, NULL, 1);
	struct rig rig;

	rig_up(&rig, NULL);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &none, 1), -EINVAL);
	cr_expect_eq(nvmfr__qpair_submit(rig.qp, &null, 1), -EINVAL);
	rig_down(&rig);
}

/* ---- which buffers are in use ---------------------------------------------------------------- */

/* As nvmfr_buffer_release() asks. */
static bool in_use(const struct rig *rig, const struct nvmfr_buffer *buf)
{
	return atomic_load(&buf->in_use) || nvmfr__qpair_names(rig->qp, buf);
}

/*
 * A buffer must not go while a command, or what is still to be issued, names it: any piece of it.
 */
Test(queue_iov, every_piece_s_buffer_is_in_use)
{
	struct nvmfr_buffer bufs[3];
	struct nvmfr_iov iov[3];
	struct nvmfr_io io = vec_of(NVMFR_OP_READ, 3, iov, 3);
	struct nvmfr_completion cpl;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_descriptors = 2 });
	for (size_t i = 0; i < 3; i++) {
		bufs[i] = rig_buffer(&rig, RIG_ADDR + 4096 * i, 4096, FAB_ACCESS_TARGET);
		iov[i] = (struct nvmfr_iov){ .buf = &bufs[i], .len_bytes = 512 };
		cr_expect(!in_use(&rig, &bufs[i]));
	}
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	for (size_t i = 0; i < 3; i++)
		cr_expect(in_use(&rig, &bufs[i]), "piece %zu", i);
	scripted_answer_all(rig.s);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, &cpl, 1), 1);
	for (size_t i = 0; i < 3; i++) {
		cr_expect(!in_use(&rig, &bufs[i]), "piece %zu", i);
		rig_unbuffer(&rig, &bufs[i]);
	}
	rig_down(&rig);
}

Test(queue_iov, a_buffer_is_in_use_from_the_backlog_on)
{
	struct nvmfr_completion cpls[8];
	struct nvmfr_buffer buf;
	struct nvmfr_io io;
	uint32_t sent = 0;
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512 });
	buf = rig_buffer(&rig, RIG_ADDR, 4096, FAB_ACCESS_TARGET);
	io = (struct nvmfr_io){ .op = NVMFR_OP_READ, .nsid = RIG_NS, .nblocks = 8, .buf = &buf };
	/* One ring position is left: seven commands stay in the backlog. */
	for (; sent < 31; sent++) {
		cr_assert_eq(rig_read(&rig, 0, 1, 0), 0);
		scripted_answer_all(rig.s);
		cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 1);
	}
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &io, 1), 1);
	cr_expect_eq(rig.s->sent, 32u);
	scripted_answer_all(rig.s);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 0);
	cr_expect(rig.s->outstanding == 0 && in_use(&rig, &buf),
		  "no command is out, seven will be");
	scripted_sends_done(rig.s, 32);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 0);
	scripted_answer_all(rig.s);
	cr_assert_eq(nvmfr__qpair_poll(rig.qp, cpls, 8), 1);
	cr_expect(!in_use(&rig, &buf));
	rig_unbuffer(&rig, &buf);
	rig_down(&rig);
}

/* What it had in flight gets no completion: the buffers are free all the same. */
Test(queue_iov, a_queue_pair_that_goes_lets_go_of_its_buffers)
{
	struct nvmfr_iov iov[2];
	struct nvmfr_io vec = vec_of(NVMFR_OP_READ, 2, iov, 2),
			split = { .op = NVMFR_OP_WRITE, .nsid = RIG_NS, .nblocks = 20 };
	struct rig rig;

	rig_up(&rig, &(struct rig_opts){ .max_xfer_bytes = 512, .max_descriptors = 2 });
	for (size_t i = 0; i < 2; i++)
		iov[i] = (struct nvmfr_iov){ .buf = &rig.buf, .len_bytes = 512 };
	split.buf = &rig.buf;
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &vec, 1), 1);
	cr_assert_eq(nvmfr__qpair_submit(rig.qp, &split, 1), 1);
	cr_expect(in_use(&rig, &rig.buf));
	rig_down(&rig);
	cr_expect_eq(atomic_load(&rig.buf.in_use), 0u);
}
