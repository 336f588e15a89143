/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin queue in service: Keep Alive, asynchronous events, a peer that breaks the rules. */
#include "ctrl_rig.h"

#include <errno.h>

enum { OPCODE_AER = 0x0c, OPCODE_KEEP_ALIVE = 0x18 };

static uint8_t last_opcode(const struct ctrl_rig *r)
{
	return scripted_last(r->s, 0)->capsule[0];
}

static void live(struct ctrl_rig *r)
{
	ctrl_rig_up(r);
	r->ctrl->state = NVMFR_STATE_LIVE;
	r->ctrl->kato_ms = CTRL_RIG_KATO_MS;
	r->ctrl->connect_sent_ns = ctrl_rig_now(r);
}

Test(ctrl_admin, keep_alive_twice_per_kato)
{
	struct ctrl_rig r;

	live(&r);
	cr_expect_eq(nvmfr__admin_pass(r.ctrl), UINT64_MAX, "not started");
	nvmfr__admin_start_keep_alive(r.ctrl);
	for (uint32_t i = 1; i < 50; i++) {
		cr_expect_eq(nvmfr__admin_pass(r.ctrl),
			     ctrl_rig_now(&r) + MS_NS(CTRL_RIG_KATO_MS) / 2, "%u", i);
		ctrl_rig_wait_ms(&r, CTRL_RIG_KATO_MS / 2 - 1);
		nvmfr__admin_pass(r.ctrl);
		cr_expect_eq(r.s->sent, i - 1);
		ctrl_rig_wait_ms(&r, 1);
		nvmfr__admin_pass(r.ctrl);
		cr_assert_eq(r.s->sent, i);
		cr_expect_eq(last_opcode(&r), OPCODE_KEEP_ALIVE);
		ctrl_rig_answer(&r, 0, 0);
	}
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	ctrl_rig_down(&r);
}

Test(ctrl_admin, no_kato_no_keep_alive)
{
	struct ctrl_rig r;

	live(&r);
	r.ctrl->kato_ms = 0;
	nvmfr__admin_start_keep_alive(r.ctrl);
	ctrl_rig_wait_ms(&r, 1000000);
	cr_expect_eq(nvmfr__admin_pass(r.ctrl), UINT64_MAX);
	cr_expect_eq(r.s->sent, 0u);
	ctrl_rig_down(&r);
}

Test(ctrl_admin, a_keep_alive_without_an_answer)
{
	struct ctrl_rig r;

	live(&r);
	nvmfr__admin_start_keep_alive(r.ctrl);
	ctrl_rig_wait_ms(&r, CTRL_RIG_KATO_MS / 2);
	cr_expect_eq(nvmfr__admin_pass(r.ctrl), ctrl_rig_now(&r) + MS_NS(CTRL_RIG_KATO_MS));
	ctrl_rig_wait_ms(&r, CTRL_RIG_KATO_MS - 1);
	nvmfr__admin_pass(r.ctrl);
	cr_expect(r.ctrl->state == NVMFR_STATE_LIVE && r.s->sent == 1, "one at a time");
	ctrl_rig_wait_ms(&r, 1);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LOST);
	cr_expect_not_null(strstr(r.ctrl->sentence, "Keep Alive"), "%s", r.ctrl->sentence);
	cr_expect_eq(r.ctrl->err, -ENOTCONN, "a live one that is lost");
	ctrl_rig_down(&r);
}

Test(ctrl_admin, a_refused_keep_alive)
{
	struct ctrl_rig r;

	live(&r);
	nvmfr__admin_start_keep_alive(r.ctrl);
	ctrl_rig_wait_ms(&r, CTRL_RIG_KATO_MS / 2);
	nvmfr__admin_pass(r.ctrl);
	ctrl_rig_answer(&r, 0x19, 0);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LOST);
	cr_expect_not_null(strstr(r.ctrl->sentence, "0x0019"), "%s", r.ctrl->sentence);
	ctrl_rig_down(&r);
}

/* AERL is 0's based; a slot must stay for everything else. */
Test(ctrl_admin, event_requests)
{
	static const uint8_t limits[] = { 0, 1, 2, 3, 4, 255 };

	for (size_t i = 0; i < sizeof(limits); i++) {
		struct ctrl_rig r;

		live(&r);
		r.ctrl->id.aerl = limits[i];
		nvmfr__admin_arm_aers(r.ctrl);
		cr_expect_eq(r.s->sent, limits[i] < 3 ? limits[i] + 1u : CTRL_MAX_AERS, "AERL %u",
			     limits[i]);
		cr_expect_eq(last_opcode(&r), OPCODE_AER);
		nvmfr__admin_start_keep_alive(r.ctrl);
		ctrl_rig_wait_ms(&r, CTRL_RIG_KATO_MS / 2);
		nvmfr__admin_pass(r.ctrl);
		cr_expect_eq(last_opcode(&r), OPCODE_KEEP_ALIVE);
		ctrl_rig_down(&r);
	}
}

Test(ctrl_admin, an_event_is_asked_for_again)
{
	struct ctrl_rig r;

	live(&r);
	nvmfr__admin_arm_aers(r.ctrl);
	/* NVMe Base, AER completion: type notice (2), information 0, log page 04h. */
	ctrl_rig_answer(&r, 0, 0x00040002);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.s->sent, 1u, "not at once");
	ctrl_rig_wait_ms(&r, CTRL_AER_PAUSE_MS);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.s->sent, 2u);
	cr_expect_eq(last_opcode(&r), OPCODE_AER);
	cr_expect_not_null(strstr(r.log, "log page 0x04"), "%s", r.log);
	ctrl_rig_answer(&r, 0x105, 0);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.s->sent, 2u, "a refusal is not argued with");
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	ctrl_rig_down(&r);
}

static void answer_everything(struct scripted *s)
{
	scripted_answer_all(s);
	scripted_sends_signaled(s);
}

/*
 * Events as fast as they are asked for: the service has other things to do, and the lock to give
 * back.
 */
Test(ctrl_admin, a_storm_of_events_does_not_hold_the_service, .timeout = 20)
{
	struct ctrl_rig r;

	live(&r);
	r.ctrl->id.aerl = 3;
	r.s->before_poll = answer_everything;
	nvmfr__admin_arm_aers(r.ctrl);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.s->sent, (uint32_t)CTRL_MAX_AERS);
	cr_expect_gt(nvmfr__admin_pass(r.ctrl), nvmfr__clock_now_ns(&r.host.clock), "a pause comes");
	r.s->before_poll = NULL;
	ctrl_rig_down(&r);
}

Test(ctrl_admin, a_cid_of_its_own_making)
{
	struct ctrl_rig r;

	live(&r);
	scripted_answer(r.s, 0x4711, 0, 0);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LOST);
	cr_expect_not_null(strstr(r.ctrl->sentence, "0x4711"), "%s", r.ctrl->sentence);
	cr_expect_eq(r.s->stops, 1u);
	ctrl_rig_down(&r);
}

/* The fabric's event, which knows the cause, may be a pass behind. */
Test(ctrl_admin, a_failed_connection_waits_one_pass_for_its_cause)
{
	struct ctrl_rig r;

	live(&r);
	r.s->bad = true;
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LIVE);
	nvmfr__admin_pass(r.ctrl);
	cr_expect_eq(r.ctrl->state, NVMFR_STATE_LOST);
	cr_expect_not_null(strstr(r.ctrl->sentence, "scripted: the connection failed"), "%s",
			   r.ctrl->sentence);
	cr_expect_eq(nvmfr__admin_pass(r.ctrl), UINT64_MAX, "and no more");
	ctrl_rig_down(&r);
}
