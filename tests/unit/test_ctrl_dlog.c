/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a discovery log: which commands go out, and what is made of what comes back. */
#include "ctrl_rig.h"

#include <errno.h>

#include "base/util.h"
#include "ctrl/dlog.h"
#include "ctrl/notice.h"

enum { OPCODE_GET_LOG = 0x02,
       RETAIN = 1 << 15 };

static void put_le(unsigned char *p, uint64_t v, unsigned int n)
{
	for (; n; n--, v >>= 8)
		*p++ = (unsigned char)v;
}

/* The job as nvmfr__dlog_read() begins it; nobody waits here. */
static void begin(struct ctrl_rig *r, struct dlog *job, uint32_t max)
{
	*job = (struct dlog){ .max = max, .deadline_ns = UINT64_MAX };
	ctrl_rig_up(r);
	r->ctrl->state = NVMFR_STATE_LIVE;
	r->ctrl->dlog = job;
	r->ctrl->notices = NOTICE_LOG_READ;
	nvmfr__ctrl_pass(r->ctrl);
}

static void down(struct ctrl_rig *r, struct dlog *job)
{
	free(job->records);
	ctrl_rig_down(r);
}

/* Get Log Page: LID 7:0, RAE 15, NUMDL 31:16 of CDW10; the offset in CDW12 and 13. */
static void sent(const struct ctrl_rig *r, uint64_t offset, uint32_t bytes, uint32_t retain)
{
	const unsigned char *p = scripted_last(r->s, 0)->capsule;

	cr_assert_eq(p[0], OPCODE_GET_LOG);
	cr_expect_eq(scripted_le(p + 40, 4), (bytes / 4 - 1) << 16 | retain | 0x70, "CDW10 %08x",
		     (unsigned int)scripted_le(p + 40, 4));
	cr_expect_eq(scripted_le(p + 48, 8), offset, "offset %llu",
		     (unsigned long long)scripted_le(p + 48, 8));
	cr_expect_eq(scripted_le(p + 32, 3), bytes);
}

static void answer(struct ctrl_rig *r, uint16_t status)
{
	ctrl_rig_answer(r, status, 0);
	nvmfr__ctrl_pass(r->ctrl);
	memset(r->ctrl->page, 0, CTRL_PAGE_BYTES);
}

/* GENCTR 7:0, NUMREC 15:8, RECFMT 17:16. */
static void answer_header(struct ctrl_rig *r, uint64_t generation, uint64_t count)
{
	put_le(r->ctrl->page, generation, 8);
	put_le(r->ctrl->page + 8, count, 8);
	answer(r, 0);
}

static void answer_entries(struct ctrl_rig *r, uint16_t first, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned char *p = r->ctrl->page + (size_t)i * 1024;

		p[0] = p[1] = 1;
		p[2] = 2;
		put_le(p + 4, first + i, 2);
		memcpy(p + 256, "nqn.2014-08.org.example:a", 25);
		memcpy(p + 512, "10.0.0.1", 8);
	}
	answer(r, 0);
}

Test(ctrl_dlog, header_entries_generation)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	sent(&r, 0, 1024, RETAIN);
	answer_header(&r, 7, 6);
	sent(&r, 1024, 4096, RETAIN);
	answer_entries(&r, 0, 4);
	sent(&r, 5120, 2048, RETAIN);
	answer_entries(&r, 4, 2);
	sent(&r, 0, 1024, 0);
	answer_header(&r, 7, 6);
	cr_expect(job.done && !job.err && job.count == 6 && job.generation == 7 && !job.left_out,
		  "%s", job.sentence);
	for (uint32_t i = 0; i < job.count; i++)
		cr_expect_eq(job.records[i].portid, i);
	cr_expect(!r.ctrl->steps && r.ctrl->state == NVMFR_STATE_LIVE);
	down(&r, &job);
}

/* What was read of another generation is not kept. */
Test(ctrl_dlog, a_log_that_changes_is_read_again)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	answer_header(&r, 1, 3);
	answer_entries(&r, 0, 3);
	answer_header(&r, 2, 1);
	sent(&r, 0, 1024, RETAIN);
	answer_header(&r, 2, 1);
	sent(&r, 1024, 1024, RETAIN);
	answer_entries(&r, 9, 1);
	answer_header(&r, 2, 1);
	cr_expect(job.done && !job.err && job.count == 1 && job.records[0].portid == 9 &&
		  job.generation == 2);
	down(&r, &job);
}

/* It became shorter: there are no such entries any more. */
Test(ctrl_dlog, refused_entries_of_a_log_that_changed)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	answer_header(&r, 1, 8);
	answer_entries(&r, 0, 4);
	answer(&r, 0x4002);
	sent(&r, 0, 1024, 0);
	answer_header(&r, 2, 0);
	answer_header(&r, 2, 0);
	answer_header(&r, 2, 0);
	cr_expect(job.done && !job.err && job.count == 0 && job.generation == 2, "%s",
		  job.sentence);
	down(&r, &job);
}

/* The answer says no, and the connection's end comes with it: who waits sees both at once. */
Test(ctrl_dlog, a_refusal_and_the_end)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	answer(&r, 0x4002);
	cr_assert(job.done);
	nvmfr__ctrl_lose(r.ctrl, -ECONNABORTED, "gone");
	r.ctrl->ep = NULL;
	cr_expect_eq(nvmfr__dlog_read(r.ctrl, &job), -EIO);
	cr_expect(strstr(nvmfr__err_get(), "discovery log header"), "%s", nvmfr__err_get());
	down(&r, &job);
}

/* It is lost and back before who waits has had a look: the job went with the connection. */
Test(ctrl_dlog, lost_and_back_meanwhile)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	nvmfr__ctrl_lose(r.ctrl, -ECONNABORTED, "gone");
	r.ctrl->state = NVMFR_STATE_LIVE;
	cr_expect(!r.ctrl->dlog && !job.done);
	down(&r, &job);
}

Test(ctrl_dlog, refused_entries_of_one_that_did_not)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	answer_header(&r, 1, 8);
	answer_entries(&r, 0, 4);
	answer(&r, 0x4002);
	answer_header(&r, 1, 8);
	cr_expect(job.done && job.err == -EIO);
	cr_expect_not_null(strstr(job.sentence, "from 4 on"), "%s", job.sentence);
	cr_expect(r.ctrl->state == NVMFR_STATE_LIVE && !r.ctrl->notices,
		  "a job's failure is its caller's alone");
	down(&r, &job);
}

Test(ctrl_dlog, one_that_never_stands_still)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	for (uint64_t i = 0; i < DLOG_TRIES; i++) {
		cr_assert(!job.done);
		answer_header(&r, 2 * i, 0);
		answer_header(&r, 2 * i + 1, 0);
	}
	cr_expect(job.done && job.err == -EAGAIN, "%d", job.err);
	down(&r, &job);
}

/* The peer's word of a count takes no memory and no time. */
Test(ctrl_dlog, a_count_of_nonsense)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 5);
	answer_header(&r, 1, UINT64_MAX);
	cr_expect_eq(job.room, 0u);
	answer_entries(&r, 0, 4);
	sent(&r, 5120, 1024, RETAIN);
	answer_entries(&r, 4, 1);
	answer_header(&r, 1, UINT64_MAX);
	cr_expect(job.done && !job.err && job.count == 5 && job.left_out == UINT64_MAX - 5);
	down(&r, &job);
}

Test(ctrl_dlog, bad_entries)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	answer_header(&r, 1, 20);
	for (unsigned int i = 0; i < 5; i++)
		answer(&r, 0);
	answer_header(&r, 1, 20);
	cr_expect(job.done && !job.err && job.count == 0 && job.skipped == 20);
	cr_expect_eq(r.lines, (unsigned int)DLOG_LOGGED, "%u lines", r.lines);
	down(&r, &job);
}

Test(ctrl_dlog, another_format)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	r.ctrl->page[16] = 1;
	answer_header(&r, 1, 1);
	cr_expect(job.done && job.err == -EOPNOTSUPP, "%d", job.err);
	cr_expect_not_null(strstr(job.sentence, "discovery log header"), "%s", job.sentence);
	down(&r, &job);
}

Test(ctrl_dlog, all_of_it_takes_too_long)
{
	struct dlog job;
	struct ctrl_rig r;

	begin(&r, &job, 100);
	job.deadline_ns = ctrl_rig_now(&r) + MS_NS(100);
	answer_header(&r, 1, 20);
	ctrl_rig_wait_ms(&r, 100);
	answer_entries(&r, 0, 4);
	cr_expect(job.done && job.err == -ETIMEDOUT);
	cr_expect_not_null(strstr(job.sentence, "connect_timeout_ms"), "%s", job.sentence);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	down(&r, &job);
}
