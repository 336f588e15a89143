/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations of a namespace that this host shares with another, in whose name the target acts. */
#include "refused.h"

#include <nvmfr/cmd.h>

enum {
	MINE = 0xaaaa,
	THEIRS = 0xbbbb,
	ST_CONFLICT = 0x083,
	ST_INVALID_FIELD = 0x002,
	DNR = 0x4000,
	REPORT_BYTES = 64 + 2 * 64,
	KEYS_AT = 8,
	DATA_AT = 512,
};

static const uint8_t other[16] = { 1, 2, 3 };

struct scene {
	struct flow f;
	struct nvmfr_buffer *buf;
};

static void up(struct scene *s)
{
	small_up(&s->f);
	s->buf = flow_alloc(&s->f, 4096);
}

static void down(struct scene *s)
{
	flow_release(s->buf);
	flow_down(&s->f);
}

static struct nvmfr_reserve what(const struct scene *s, uint8_t action, uint8_t type, uint64_t key, uint64_t other_key)
{
	return (struct nvmfr_reserve){
		.nsid = s->f.nsid, .action = action, .type = type, .key = key, .other_key = other_key
	};
}

/* The status of this host's command, without Do Not Retry. */
static int mine(struct scene *s, uint8_t action, uint8_t type, uint64_t key, uint64_t other_key)
{
	struct nvmfr_reserve r = what(s, action, type, key, other_key);
	struct nvmfr_completion done;

	cr_assert_eq(nvmfr_reserve(s->f.qp, &r, s->buf, KEYS_AT, 7), 0, "%s", nvmfr_last_error());
	flow_wait(s->f.qp, &done, 1);
	cr_expect_eq(done.user_data, 7u);
	cr_expect_eq(done.result, done.status ? -EREMOTEIO : 0);
	return done.status & ~DNR;
}

/* Of the other host's. */
static int theirs(struct scene *s, uint8_t action, uint8_t type, uint64_t key, uint64_t other_key)
{
	struct nvmfr_reserve r = what(s, action, type, key, other_key);

	return nvmfr_soft_reserve(s->f.target, &r, other);
}

static int status_of(struct scene *s, uint8_t op)
{
	struct nvmfr_io io = flow_io(&s->f, op, 3, 1, op & 3 ? s->buf : NULL, op & 3 ? DATA_AT : 0);
	struct nvmfr_completion done;

	if (op == NVMFR_OP_FLUSH)
		io.lba = io.nblocks = 0;
	done = flow_do(s->f.qp, &io);
	return done.status & ~DNR;
}

static struct nvmfr_reservation report(struct scene *s, struct nvmfr_registrant list[2], int count)
{
	struct nvmfr_reservation out;
	struct nvmfr_completion done;
	int n;

	cr_assert_eq(nvmfr_report_reservations(s->f.qp, s->f.nsid, s->buf, DATA_AT, REPORT_BYTES, 0), 0,
		     "%s", nvmfr_last_error());
	flow_wait(s->f.qp, &done, 1);
	cr_assert_eq(done.result, 0);
	n = nvmfr_parse_reservations((unsigned char *)nvmfr_buffer_addr(s->buf) + DATA_AT,
				     REPORT_BYTES, &out, list, 2);
	cr_assert_eq(n, count, "%d registrants", n);
	cr_expect_eq(out.registrants, count);
	return out;
}

/* ---- this host's ----------------------------------------------------------------------------- */

Test(reserve, from_registration_to_release)
{
	struct nvmfr_registrant list[2];
	struct nvmfr_reservation now;
	struct scene s;

	up(&s);
	cr_expect_eq(report(&s, list, 0).type, 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, MINE, 0), ST_CONFLICT,
		     "not registered");
	cr_expect_eq(mine(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE), 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE), 0, "the same once more");
	cr_expect_eq(mine(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE + 1), ST_CONFLICT);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, MINE + 1, 0), ST_CONFLICT,
		     "another key");
	cr_expect_eq(mine(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, MINE, 0), 0);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_REGISTER, 0, 0, THEIRS), 0);
	now = report(&s, list, 2);
	cr_expect(now.type == NVMFR_RESERVE_EXCLUSIVE && now.generation == 2 && !now.persists);
	cr_expect(list[0].key == MINE && list[0].holds == 1);
	cr_expect(list[1].key == THEIRS && list[1].holds == 0);
	cr_expect_arr_eq(list[1].hostid, other, sizeof(other));
	flow_works(&s.f);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_RELEASE, NVMFR_RESERVE_WRITE_EXCLUSIVE, MINE, 0),
		     ST_INVALID_FIELD, "another type");
	cr_expect_eq(mine(&s, NVMFR_RESERVE_RELEASE, NVMFR_RESERVE_EXCLUSIVE, MINE, 0), 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_REPLACE, 0, MINE, MINE + 2), 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_UNREGISTER, 0, MINE, 0), ST_CONFLICT, "it was replaced");
	cr_expect_eq(mine(&s, NVMFR_RESERVE_UNREGISTER, 0, MINE + 2, 0), 0);
	now = report(&s, list, 1);
	cr_expect(now.type == 0 && list[0].key == THEIRS && now.generation == 4);
	down(&s);
}

Test(reserve, flags)
{
	struct nvmfr_reserve r;
	struct nvmfr_completion done;
	struct nvmfr_registrant list[2];
	struct scene s;

	up(&s);
	r = what(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE);
	r.flags = NVMFR_RESERVE_PERSIST;
	cr_assert_eq(nvmfr_reserve(s.f.qp, &r, s.buf, 0, 0), 0);
	flow_wait(s.f.qp, &done, 1);
	cr_expect_eq(report(&s, list, 1).persists, 1);
	r = what(&s, NVMFR_RESERVE_REPLACE, 0, 4711, MINE + 1);
	r.flags = NVMFR_RESERVE_IGNORE_KEY | NVMFR_RESERVE_NO_PERSIST;
	cr_assert_eq(nvmfr_reserve(s.f.qp, &r, s.buf, 0, 0), 0);
	flow_wait(s.f.qp, &done, 1);
	cr_expect_eq(done.result, 0);
	cr_expect_eq(report(&s, list, 1).persists, 0);
	cr_expect_eq(list[0].key, MINE + 1u);
	down(&s);
}

/* ---- the other's ----------------------------------------------------------------------------- */

/* What this host may do, as a registrant or not, under each type that the other holds. */
Test(reserve, what_each_type_forbids)
{
	static const struct {
		uint8_t type;
		bool read, write; /* as none */
		bool reg_read, reg_write; /* as a registrant */
	} rows[] = {
		{ NVMFR_RESERVE_WRITE_EXCLUSIVE, true, false, true, false },
		{ NVMFR_RESERVE_EXCLUSIVE, false, false, false, false },
		{ NVMFR_RESERVE_WRITE_EXCLUSIVE_REGISTRANTS, true, false, true, true },
		{ NVMFR_RESERVE_EXCLUSIVE_REGISTRANTS, false, false, true, true },
		{ NVMFR_RESERVE_WRITE_EXCLUSIVE_ALL, true, false, true, true },
		{ NVMFR_RESERVE_EXCLUSIVE_ALL, false, false, true, true },
	};
	static const uint8_t reads[] = { NVMFR_OP_READ, NVMFR_OP_COMPARE, NVMFR_OP_VERIFY };
	static const uint8_t writes[] = { NVMFR_OP_WRITE, NVMFR_OP_WRITE_ZEROES, NVMFR_OP_FLUSH };
	struct scene s;

	up(&s);
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		const unsigned int row = i / 2;
		const bool registered = i % 2;
		const bool may_read = registered ? rows[row].reg_read : rows[row].read;
		const bool may_write = registered ? rows[row].reg_write : rows[row].write;

		cr_assert_eq(theirs(&s, NVMFR_RESERVE_REGISTER, 0, 0, THEIRS), 0);
		cr_assert_eq(theirs(&s, NVMFR_RESERVE_ACQUIRE, rows[row].type, THEIRS, 0), 0);
		if (registered)
			cr_assert_eq(mine(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE), 0);
		memset((unsigned char *)nvmfr_buffer_addr(s.buf) + DATA_AT, 0, BLOCK);
		for (unsigned int op = 0; op < 3; op++) {
			cr_expect_eq(status_of(&s, reads[op]), may_read ? 0 : ST_CONFLICT,
				     "type %u, opcode %u", rows[row].type, reads[op]);
			cr_expect_eq(status_of(&s, writes[op]), may_write ? 0 : ST_CONFLICT,
				     "type %u, opcode %u", rows[row].type, writes[op]);
		}
		cr_assert_eq(theirs(&s, NVMFR_RESERVE_CLEAR, 0, THEIRS, 0), 0);
		flow_works(&s.f);
	}
	down(&s);
}

Test(reserve, preempted)
{
	struct nvmfr_registrant list[2];
	struct scene s;

	up(&s);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_REGISTER, 0, 0, THEIRS), 0);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, THEIRS, 0), 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE), 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, MINE, 0), ST_CONFLICT);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_RELEASE, NVMFR_RESERVE_EXCLUSIVE, MINE, 0), 0, "no holder: no effect");
	cr_expect_eq(status_of(&s, NVMFR_OP_WRITE), ST_CONFLICT);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_PREEMPT, NVMFR_RESERVE_WRITE_EXCLUSIVE, MINE, 4711), ST_CONFLICT,
		     "nobody has that key");
	cr_expect_eq(mine(&s, NVMFR_RESERVE_PREEMPT, NVMFR_RESERVE_WRITE_EXCLUSIVE, MINE, THEIRS), 0);
	cr_expect_eq(report(&s, list, 1).type, NVMFR_RESERVE_WRITE_EXCLUSIVE);
	cr_expect(list[0].key == MINE && list[0].holds == 1);
	flow_works(&s.f);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_RELEASE, NVMFR_RESERVE_WRITE_EXCLUSIVE, THEIRS, 0), ST_CONFLICT);
	down(&s);
}

/* Where all registrants hold it, each that goes leaves it to the others; the last ends it. */
Test(reserve, held_by_all)
{
	struct nvmfr_registrant list[2];
	struct scene s;

	up(&s);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_REGISTER, 0, 0, THEIRS), 0);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE), 0);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE_ALL, THEIRS, 0), 0);
	cr_expect_eq(report(&s, list, 2).type, NVMFR_RESERVE_EXCLUSIVE_ALL);
	cr_expect(list[0].holds == 1 && list[1].holds == 1);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_UNREGISTER, 0, THEIRS, 0), 0);
	cr_expect_eq(report(&s, list, 1).type, NVMFR_RESERVE_EXCLUSIVE_ALL);
	cr_expect_eq(mine(&s, NVMFR_RESERVE_UNREGISTER, 0, MINE, 0), 0);
	cr_expect_eq(report(&s, list, 0).type, 0);
	down(&s);
}

/* A fused pair under a reservation: neither is done. */
Test(reserve, fused_pair)
{
	struct nvmfr_completion done[2];
	struct nvmfr_io pair[2];
	struct scene s;

	up(&s);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_REGISTER, 0, 0, THEIRS), 0);
	cr_expect_eq(theirs(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, THEIRS, 0), 0);
	pair[0] = flow_io(&s.f, NVMFR_OP_COMPARE, 0, 1, s.buf, 0);
	pair[1] = flow_io(&s.f, NVMFR_OP_WRITE, 0, 1, s.buf, 0);
	cr_assert_eq(nvmfr_compare_and_write(s.f.qp, pair), 0);
	flow_wait(s.f.qp, done, 2);
	cr_expect_eq(done[0].status & ~DNR, ST_CONFLICT);
	cr_expect_eq(done[1].status & ~DNR, 0x009, "Failed Fused Command");
	down(&s);
}

/* ---- refused --------------------------------------------------------------------------------- */

Test(reserve, refused_here)
{
	struct nvmfr_reservation out;
	struct nvmfr_reserve good, bad;
	unsigned char mem[64] = { 0 };
	struct scene s;

	up(&s);
	good = what(&s, NVMFR_RESERVE_ACQUIRE, NVMFR_RESERVE_EXCLUSIVE, MINE, 0);
#define WITH(Field, Value, Err, Word) \
	do { \
		bad = good; \
		bad.Field = (Value); \
		REFUSED(nvmfr_reserve(s.f.qp, &bad, s.buf, 0, 0), Err, Word); \
	} while (0)
	WITH(nsid, 17, -ENOENT, "not active");
	WITH(action, 8, -EINVAL, "action 8");
	WITH(type, 0, -EINVAL, "type 0");
	WITH(type, 7, -EINVAL, "type 7");
	WITH(action, NVMFR_RESERVE_CLEAR, -EINVAL, "the others 0");
	WITH(flags, 8, -EINVAL, "unknown bits");
	WITH(reserved, 1, -EINVAL, "reserved");
	REFUSED(nvmfr_reserve(s.f.qp, &good, NULL, 0, 0), -EINVAL, "keys");
	REFUSED(nvmfr_reserve(s.f.qp, &good, s.buf, 4090, 0), -ERANGE, "beyond");
	REFUSED(nvmfr_reserve(s.f.qp, NULL, s.buf, 0, 0), -EINVAL, "what");
	REFUSED(nvmfr_reserve(NULL, &good, s.buf, 0, 0), -EINVAL, "qp");
	REFUSED(nvmfr_report_reservations(s.f.qp, s.f.nsid, s.buf, 0, 60, 0), -EINVAL, "64 at least");
	REFUSED(nvmfr_report_reservations(s.f.qp, s.f.nsid, NULL, 0, 64, 0), -EINVAL, "buf");
	REFUSED(nvmfr_report_reservations(s.f.qp, 17, s.buf, 0, 64, 0), -ENOENT, "not active");
	REFUSED(nvmfr_report_reservations(NULL, 1, s.buf, 0, 64, 0), -EINVAL, "qp");
	REFUSED(nvmfr_parse_reservations(mem, 63, &out, NULL, 0), -EINVAL, "63 bytes");
	REFUSED(nvmfr_parse_reservations(mem, 64, NULL, NULL, 0), -EINVAL, "NULL");
	REFUSED(nvmfr_parse_reservations(mem, 64, &out, NULL, 1), -EINVAL, "NULL");
	mem[5] = 200; /* more than came */
	cr_expect_eq(nvmfr_parse_reservations(mem, 64, &out, NULL, 0), 0);
	cr_expect_eq(out.registrants, 200);
	REFUSED(nvmfr_soft_reserve(s.f.target, &good, NULL), -EINVAL, "hostid");
	good.nsid = 17;
	REFUSED(nvmfr_soft_reserve(s.f.target, &good, other), -ENOENT, "namespace 17");
	cr_expect_eq(flow_qpair_info(s.f.qp).in_flight, 0);
	down(&s);
}

Test(reserve, where_oncs_has_it_not)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct nvmfr_cmd raw = { .opcode = 0x0e, .nsid = 1, .cdw10 = 15, .cdw11 = 1 };
	struct nvmfr_completion done;
	struct nvmfr_reserve r;
	struct scene s;

	opts.oncs = 0;
	flow_host(&s.f);
	flow_target(&s.f, &opts);
	flow_ns(&s.f, BLOCKS * BLOCK, BLOCK);
	flow_connect(&s.f);
	s.f.qp = flow_qpair(&s.f, 8);
	s.buf = flow_alloc(&s.f, 4096);
	r = what(&s, NVMFR_RESERVE_REGISTER, 0, 0, MINE);
	REFUSED(nvmfr_reserve(s.f.qp, &r, s.buf, 0, 0), -EOPNOTSUPP, "ONCS bit 5");
	REFUSED(nvmfr_report_reservations(s.f.qp, 1, s.buf, 0, 64, 0), -EOPNOTSUPP, "ONCS bit 5");
	cr_assert_eq(nvmfr_submit_cmd(s.f.qp, &raw, s.buf, 0, 64, 0), 0);
	flow_wait(s.f.qp, &done, 1);
	cr_expect_eq(done.status & ~DNR, 0x001, "Invalid Command Opcode");
	down(&s);
}
