/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop that runs a table of steps, with tables of the test's own. */
#include "ctrl_rig.h"

#include <errno.h>

#include "base/util.h"
#include "wire/admin.h"

static char trail[1024]; /* what ran, in order */
static int answers[8]; /* what b's answer says, from the last on */
static unsigned int answer_count;
static uint64_t seen_result;
static uint16_t seen_status;
static unsigned char seen_byte;

static void note(const char *what)
{
	strncat(trail, what, sizeof(trail) - strlen(trail) - 1);
}

static int send_one(struct nvmfr_ctrl *ctrl)
{
	struct nvme_sqe sqe;

	nvme_sqe_keep_alive(&sqe);
	return nvmfr__sequence_send(ctrl, &sqe);
}

static int start_a(struct nvmfr_ctrl *ctrl)
{
	(void)ctrl;
	note("a ");
	return STEP_NEXT;
}

static int start_b(struct nvmfr_ctrl *ctrl)
{
	note("b ");
	return send_one(ctrl);
}

static int answer_b(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	note("b! ");
	seen_result = result;
	seen_byte = ctrl->data[100];
	ctrl->pause_ms = 70;
	return answer_count ? answers[--answer_count] : STEP_NEXT;
}

static int refused_b(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	(void)ctrl;
	note("b? ");
	seen_status = status;
	return STEP_NEXT;
}

static int start_for_ever(struct nvmfr_ctrl *ctrl)
{
	(void)ctrl;
	note("x");
	return STEP_AGAIN;
}

static int start_fails(struct nvmfr_ctrl *ctrl)
{
	(void)ctrl;
	return nvmfr__fail(-EOPNOTSUPP, "the step's own sentence");
}

/* clang-format off */
static const struct step steps[] = {
	{ "step a", start_a, NULL, NULL },
	{ "step b", start_b, answer_b, NULL },
	{ "step c", start_a, NULL, NULL },
};
/* clang-format on */

static void begin(struct ctrl_rig *r, const struct step *table, unsigned int count)
{
	ctrl_rig_up(r);
	trail[0] = '\0';
	answer_count = 0;
	seen_status = 0;
	nvmfr__sequence_start(r->ctrl, table, count, ctrl_rig_now(r) + MS_NS(30000));
}

static uint64_t pass(struct ctrl_rig *r)
{
	nvmfr__admin_take(r->ctrl);
	return nvmfr__sequence_pass(r->ctrl);
}

static void expect_lost(const struct ctrl_rig *r, int err, const char *step, const char *sentence)
{
	cr_expect_eq(r->ctrl->state, NVMFR_STATE_LOST);
	cr_expect_eq(r->ctrl->err, err, "%d", r->ctrl->err);
	cr_expect_not_null(strstr(r->ctrl->sentence, step), "%s", r->ctrl->sentence);
	cr_expect_not_null(strstr(r->ctrl->sentence, sentence), "%s", r->ctrl->sentence);
	cr_expect_not_null(strstr(r->log, sentence), "%s", r->log);
	cr_expect(r->s->stops == 1 && !r->ctrl->admin && !r->ctrl->ep, "the admin queue is gone");
}

Test(ctrl_sequence, in_order)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	cr_expect_eq(pass(&r), ctrl_rig_now(&r) + MS_NS(CTRL_RIG_ADMIN_MS));
	cr_expect_str_eq(trail, "a b ");
	cr_expect_str_eq(nvmfr__sequence_step(r.ctrl), "step b");
	pass(&r);
	cr_expect_str_eq(trail, "a b ", "it waits");
	r.ctrl->page[100] = 0x42;
	ctrl_rig_answer(&r, 0, 77);
	cr_expect_eq(pass(&r), UINT64_MAX);
	cr_expect_str_eq(trail, "a b b! a ");
	cr_expect(seen_result == 77 && seen_byte == 0x42, "result and a copy of the page");
	cr_expect(r.ctrl->state == NVMFR_STATE_LIVE && !r.ctrl->steps);
	cr_expect_str_eq(nvmfr__sequence_step(r.ctrl), "");
	ctrl_rig_down(&r);
}

Test(ctrl_sequence, again_and_later)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	answers[1] = STEP_AGAIN;
	answers[0] = STEP_LATER;
	answer_count = 2;
	pass(&r);
	ctrl_rig_answer(&r, 0, 0);
	pass(&r);
	cr_expect_str_eq(trail, "a b b! b ", "again at once");
	ctrl_rig_answer(&r, 0, 0);
	cr_expect_eq(pass(&r), ctrl_rig_now(&r) + MS_NS(70));
	ctrl_rig_wait_ms(&r, 69);
	pass(&r);
	cr_expect_str_eq(trail, "a b b! b b! ", "later is not yet");
	ctrl_rig_wait_ms(&r, 1);
	pass(&r);
	cr_expect_str_eq(trail, "a b b! b b! b ");
	ctrl_rig_answer(&r, 0, 0);
	pass(&r);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	ctrl_rig_down(&r);
}

/* A peer that makes a step say AGAIN for ever must not keep the service in one pass. */
Test(ctrl_sequence, a_pass_is_bounded, .timeout = 20)
{
	static const struct step table[] = { { "for ever", start_for_ever, NULL, NULL } };
	struct ctrl_rig r;

	begin(&r, table, 1);
	cr_expect_eq(pass(&r), 0u, "more to do at once");
	cr_expect_lt(strlen(trail), 100u);
	ctrl_rig_wait_ms(&r, 30000);
	pass(&r);
	expect_lost(&r, -ETIMEDOUT, "for ever", "connect_timeout_ms");
	ctrl_rig_down(&r);
}

Test(ctrl_sequence, a_refusal_ends_it)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	pass(&r);
	ctrl_rig_answer(&r, 0x4002, 0);
	pass(&r);
	expect_lost(&r, -EIO, "step b", "refused with status 0x4002, invalid field");
	ctrl_rig_down(&r);
}

Test(ctrl_sequence, or_the_step_takes_it)
{
	static const struct step table[] = { { "step b", start_b, answer_b, refused_b } };
	struct ctrl_rig r;

	begin(&r, table, 1);
	pass(&r);
	ctrl_rig_answer(&r, 0x182, 0);
	pass(&r);
	cr_expect_str_eq(trail, "b b? ");
	cr_expect_eq(seen_status, 0x182);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	ctrl_rig_down(&r);
}

Test(ctrl_sequence, a_step_fails)
{
	static const struct step table[] = { { "the name", start_fails, NULL, NULL } };
	struct ctrl_rig r;

	begin(&r, table, 1);
	pass(&r);
	expect_lost(&r, -EOPNOTSUPP, "the name: ", "the step's own sentence");
	ctrl_rig_down(&r);
}

Test(ctrl_sequence, no_answer_in_time)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	pass(&r);
	ctrl_rig_wait_ms(&r, CTRL_RIG_ADMIN_MS - 1);
	pass(&r);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_CONNECTING);
	ctrl_rig_wait_ms(&r, 1);
	pass(&r);
	expect_lost(&r, -ETIMEDOUT, "step b", "admin_timeout_ms (1000 ms)");
	ctrl_rig_down(&r);
}

/* Many steps, each in time, but all of them together not. */
Test(ctrl_sequence, the_whole_is_bounded)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	for (unsigned int i = 0; i < 100 && r.ctrl->state == NVMFR_STATE_CONNECTING; i++) {
		answers[0] = STEP_AGAIN;
		answer_count = 1;
		pass(&r);
		ctrl_rig_wait_ms(&r, CTRL_RIG_ADMIN_MS - 1);
		if (r.ctrl->state == NVMFR_STATE_CONNECTING)
			ctrl_rig_answer(&r, 0, 0);
	}
	expect_lost(&r, -ETIMEDOUT, "step b", "connect_timeout_ms");
	ctrl_rig_down(&r);
}

Test(ctrl_sequence, events)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	nvmfr__sequence_event(r.ctrl, -EIO);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_CONNECTING, "nothing waits for one yet");
	pass(&r);
	nvmfr__sequence_event(r.ctrl, STEP_NEXT);
	pass(&r);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	nvmfr__sequence_event(r.ctrl, -EIO);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE, "and nothing any more");
	ctrl_rig_down(&r);
}

/* On a live controller the sequence is the orderly end: its failure is no loss of its own. */
Test(ctrl_sequence, the_orderly_end)
{
	struct ctrl_rig r;

	begin(&r, steps, 3);
	r.ctrl->state = NVMFR_STATE_LIVE;
	pass(&r);
	ctrl_rig_answer(&r, 0, 0);
	pass(&r);
	cr_expect(r.ctrl->shut_down && r.ctrl->state == NVMFR_STATE_LIVE);
	ctrl_rig_down(&r);
	begin(&r, steps, 3);
	r.ctrl->state = NVMFR_STATE_LIVE;
	pass(&r);
	ctrl_rig_wait_ms(&r, CTRL_RIG_ADMIN_MS);
	pass(&r);
	cr_expect(r.ctrl->shut_down && r.ctrl->state == NVMFR_STATE_LIVE && !r.ctrl->steps);
	cr_expect_not_null(strstr(r.log, "step b"), "%s", r.log);
	ctrl_rig_down(&r);
}

/* ---- the tables themselves ------------------------------------------------------------------- */

static void check_table(const struct step *table, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		cr_expect(table[i].name && table[i].name[0] && table[i].start, "step %u", i);
		for (unsigned int k = 0; k < i; k++)
			cr_expect_neq(strcmp(table[i].name, table[k].name), 0, "%s twice",
				      table[i].name);
	}
}

Test(ctrl_sequence, every_step_has_a_name_of_its_own)
{
	check_table(nvmfr__connect_steps, nvmfr__connect_step_count);
	check_table(nvmfr__shutdown_steps, nvmfr__shutdown_step_count);
}
