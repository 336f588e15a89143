/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool follows what a discovery controller lists: what comes is connected, what goes is disconnected. */
#include "entries.h"

#include <stdio.h>

enum { NAMES = 3 };

/* The discovery log is the target "t"'s, which lists itself, too; "a" to "c" are what comes and goes. */
struct rig {
	struct flow f;
	struct nvmfr_soft_target *others[NAMES];
	struct nvmfr_pool *pool;
	struct nvmfr_ctrl_opts each;
	unsigned int added, left;
	struct nvmfr_ctrl *last_added, *last_left;
};

static const char *const names[NAMES] = { "a", "b", "c" };
static const char *const nqns[NAMES] = { "nqn.2014-08.org.example:a", "nqn.2014-08.org.example:b",
					 "nqn.2014-08.org.example:c" };

/* Lists those of them whose bits are set, and `more`. */
static void list(struct rig *r, unsigned int bits, const struct entry *more, uint32_t n)
{
	struct entry entries[8];
	uint32_t count = 0;

	for (unsigned int i = 0; i < NAMES; i++)
		if (bits & 1u << i)
			entries[count++] = (struct entry){ LOOP, LOOP, NVM, 1, names[i], "", nqns[i] };
	for (uint32_t i = 0; i < n; i++)
		entries[count++] = more[i];
	set(r->f.target, entries, count, ' ');
}

static void make_other(struct rig *r, unsigned int i)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();

	opts.subnqn = nqns[i];
	cr_assert_eq(nvmfr_soft_target_create(r->f.host, names[i], &opts, &r->others[i]), 0, "%s",
		     nvmfr_last_error());
}

static void rig_up(struct rig *r)
{
	*r = (struct rig){ .pool = NULL };
	flow_host(&r->f);
	r->f.target = target(&r->f, "t");
	for (unsigned int i = 0; i < NAMES; i++)
		make_other(r, i);
	nvmfr_ctrl_opts_init(&r->each, sizeof(r->each));
}

static void follow(struct rig *r)
{
	cr_assert_eq(nvmfr_pool_create(r->f.host, &r->f.opts, &r->each, &r->pool), 0, "%s",
		     nvmfr_last_error());
}

/* Whether there was something. */
static bool look(struct rig *r)
{
	struct nvmfr_event event;
	bool some = false;

	for (; nvmfr_host_events(r->f.host, &event, 1) == 1; some = true) {
		if (event.type == NVMFR_EVENT_CTRL_ADDED) {
			r->added++;
			r->last_added = event.ctrl;
		} else if (event.type == NVMFR_EVENT_CTRL_LEAVES) {
			r->left++;
			r->last_left = event.ctrl;
		}
	}
	return some;
}

/* As an application's loop does, for so long. */
static void run(struct rig *r, uint32_t ms)
{
	for (uint32_t i = 0; i < ms; i += 10) {
		flow_idle_ms(&r->f, 10);
		if (look(r) || nvmfr_pool_timeout_ms(r->pool) == 0)
			(void)nvmfr_pool_update(r->pool);
	}
	look(r);
}

static unsigned int members(const struct rig *r)
{
	unsigned int n = 0;

	while (nvmfr_pool_ctrl(r->pool, n))
		n++;
	return n;
}

static void rig_down(struct rig *r)
{
	cr_expect_eq(nvmfr_pool_release(r->pool), 0, "%s", nvmfr_last_error());
	for (unsigned int i = 0; i < NAMES; i++)
		nvmfr_soft_target_destroy(r->others[i]);
	flow_down(&r->f);
}

Test(pool, connects_to_all_and_follows, .timeout = 60)
{
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };
	struct rig r;

	rig_up(&r);
	list(&r, 1, NULL, 0);
	follow(&r);
	run(&r, 100);
	cr_expect(r.added == 2 && members(&r) == 2, "%u added", r.added);
	/* Capacity appears, */
	list(&r, 3, NULL, 0);
	run(&r, 200);
	cr_expect(r.added == 3 && members(&r) == 3, "%u added", r.added);
	cr_assert_eq(nvmfr_ctrl_info(r.last_added, &info), 0);
	cr_expect_str_eq(info.subnqn, nqns[1]);
	/* and goes again. */
	list(&r, 2, NULL, 0);
	run(&r, 200);
	cr_expect(r.left == 1 && members(&r) == 2, "%u left", r.left);
	cr_expect_eq(nvmfr_pool_timeout_ms(r.pool), -1);
	/* One is replaced by another at one stroke. */
	list(&r, 4, NULL, 0);
	run(&r, 200);
	cr_expect(r.added == 4 && r.left == 2 && members(&r) == 2, "%u added, %u left", r.added, r.left);
	rig_down(&r);
}

/* Who still has queue pairs is not cut off. */
Test(pool, waits_for_queue_pairs, .timeout = 60)
{
	struct nvmfr_qpair *qp;
	struct rig r;

	rig_up(&r);
	list(&r, 1, NULL, 0);
	follow(&r);
	run(&r, 100);
	r.f.ctrl = nvmfr_pool_ctrl(r.pool, 1);
	cr_assert_not_null(r.f.ctrl);
	cr_assert_eq(nvmfr_qpair_create(r.f.ctrl, NULL, &qp), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_qpair_wait(qp, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_pool_release(r.pool), -EBUSY);
	flow_says("queue pairs");
	list(&r, 0, NULL, 0);
	run(&r, 3000);
	cr_expect(r.left == 1 && r.last_left == r.f.ctrl, "%u left", r.left);
	cr_expect_eq(nvmfr_ctrl_state(r.f.ctrl), NVMFR_STATE_LIVE);
	cr_expect_geq(nvmfr_pool_timeout_ms(r.pool), 0);
	/* It is listed again before it went: it stays. */
	list(&r, 1, NULL, 0);
	run(&r, 200);
	cr_expect(r.added == 3 && r.last_added == r.f.ctrl, "%u added", r.added);
	list(&r, 0, NULL, 0);
	run(&r, 100);
	nvmfr_qpair_destroy(qp);
	r.f.ctrl = NULL;
	run(&r, 2000);
	cr_expect(r.left == 2 && members(&r) == 1, "%u left", r.left);
	rig_down(&r);
}

/* Doubles are one; what cannot be used, and a log that refers to itself, do no harm. */
Test(pool, odd_records, .timeout = 60)
{
	const struct entry odd[] = {
		{ LOOP, LOOP, NVM, 2, "a", "", "nqn.2014-08.org.example:a" },
		{ TCP, 1, NVM, 3, "10.0.0.1", "4420", "nqn.2014-08.org.example:tcp" },
		{ LOOP, LOOP, REFERRAL, 4, "t", "", DISCOVERY_NQN },
		{ LOOP, LOOP, REFERRAL, 5, "b", "", DISCOVERY_NQN },
	};
	struct rig r;

	rig_up(&r);
	list(&r, 1, odd, ARRAY_SIZE(odd));
	follow(&r);
	run(&r, 300);
	/* "t", "a", and "b" from its own log. */
	cr_expect(r.added == 3 && members(&r) == 3, "%u added", r.added);
	rig_down(&r);
}

Test(pool, a_target_that_refuses_for_a_while, .timeout = 60)
{
	struct nvmfr_soft_fault reject =
		flow_fault(NVMFR_SOFT_FAULT_CM_REJECT, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct rig r;

	rig_up(&r);
	reject.count = 2;
	cr_assert_eq(nvmfr_soft_fault_add(r.others[0], &reject), 0);
	list(&r, 3, NULL, 0);
	follow(&r);
	run(&r, 500);
	cr_expect_eq(r.added, 2u);
	cr_expect(nvmfr_pool_timeout_ms(r.pool) > 0);
	run(&r, 4000);
	cr_expect(r.added == 3 && r.left == 0, "%u added, %u left", r.added, r.left);
	rig_down(&r);
}

Test(pool, what_is_lost_is_connected_anew, .timeout = 60)
{
	struct rig r;

	rig_up(&r);
	list(&r, 1, NULL, 0);
	follow(&r);
	run(&r, 100);
	nvmfr_soft_drop(r.others[0]);
	run(&r, 5000);
	cr_expect(r.left == 1 && r.added == 3 && members(&r) == 2, "%u added, %u left", r.added, r.left);
	rig_down(&r);
}

/* The discovery controller restarts: what there is stays, and the log is followed again. */
static void restart(uint32_t loss_ms)
{
	struct rig r;

	rig_up(&r);
	r.f.opts.ctrl_loss_timeout_ms = loss_ms;
	r.each.ctrl_loss_timeout_ms = 60000;
	list(&r, 1, NULL, 0);
	follow(&r);
	run(&r, 100);
	nvmfr_soft_drop(r.f.target);
	run(&r, 5000);
	list(&r, 3, NULL, 0);
	run(&r, 3000);
	cr_expect(r.left == 0 && r.added == 3 && members(&r) == 3, "%u added, %u left", r.added, r.left);
	rig_down(&r);
}

Test(pool, the_log_s_own_controller_is_lost, .timeout = 60)
{
	restart(0);
	restart(UINT32_MAX);
}

Test(pool, the_application_s_own_controller, .timeout = 60)
{
	struct nvmfr_ctrl_opts own;
	struct nvmfr_ctrl *ctrl;
	struct rig r;

	rig_up(&r);
	nvmfr_ctrl_opts_init(&own, sizeof(own));
	own.uri = "nvmf+soft://a/nqn.2014-08.org.example:a";
	cr_assert_eq(nvmfr_connect(r.f.host, &own, &ctrl), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_ctrl_wait(ctrl, FLOW_WAIT_MS), 0, "%s", nvmfr_last_error());
	list(&r, 1, NULL, 0);
	follow(&r);
	run(&r, 5000);
	cr_expect_eq(r.added, 1u);
	list(&r, 0, NULL, 0);
	run(&r, 500);
	cr_expect_eq(nvmfr_ctrl_state(ctrl), NVMFR_STATE_LIVE);
	cr_assert_eq(nvmfr_disconnect(ctrl, 1000), 0);
	list(&r, 1, NULL, 0);
	run(&r, 5000);
	cr_expect_eq(r.added, 2u);
	rig_down(&r);
}

/* ---- logs that are referred to ------------------------------------------------------------------ */

/* A discovery controller of its own; its log names itself, too. */
static struct nvmfr_soft_target *referred(struct rig *r, const char *name, const struct nvmfr_soft_opts *opts)
{
	struct nvmfr_soft_target *out;

	if (!opts)
		return target(&r->f, name);
	cr_assert_eq(nvmfr_soft_target_create(r->f.host, name, opts, &out), 0, "%s", nvmfr_last_error());
	return out;
}

/* Its log: "a" to "c" by bit, and a referral where one is named. */
static void list_at(struct nvmfr_soft_target *target, unsigned int bits, const char *refers)
{
	struct entry entries[NAMES + 1];
	uint32_t n = 0;

	for (unsigned int i = 0; i < NAMES; i++)
		if (bits & 1u << i)
			entries[n++] = (struct entry){ LOOP, LOOP, NVM, 1, names[i], "", nqns[i] };
	if (refers)
		entries[n++] = (struct entry){ LOOP, LOOP, REFERRAL, 2, refers, "", DISCOVERY_NQN };
	set(target, entries, n, ' ');
}

static uint64_t open_at(const struct nvmfr_soft_target *target)
{
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };

	cr_assert_eq(nvmfr_soft_read_counters((struct nvmfr_soft_target *)target, &counters), 0);
	return counters.open_connections;
}

static void pool_down(struct rig *r, struct nvmfr_soft_target **more, unsigned int n)
{
	cr_expect_eq(nvmfr_pool_release(r->pool), 0, "%s", nvmfr_last_error());
	r->pool = NULL;
	for (unsigned int i = 0; i < n; i++) {
		cr_expect_eq(open_at(more[i]), 0, "%u of them is left connected", i);
		nvmfr_soft_target_destroy(more[i]);
	}
	rig_down(r);
}

/* "t" refers to "d", that to "e", and that to "t" again: who is behind which of them does not matter. */
Test(pool, a_referred_log_is_followed, .timeout = 60)
{
	struct nvmfr_soft_target *more[2];
	struct rig r;

	rig_up(&r);
	more[0] = referred(&r, "d", NULL);
	more[1] = referred(&r, "e", NULL);
	list_at(r.f.target, 0, "d");
	list_at(more[0], 1, "e");
	list_at(more[1], 0, "t");
	follow(&r);
	run(&r, 200);
	/* "t", "d", "e" and "a". */
	cr_expect(r.added == 4 && members(&r) == 4, "%u added", r.added);
	cr_expect_eq(nvmfr_pool_timeout_ms(r.pool), -1, "events will tell");
	/* What follows its log, and what is connected to what that names. */
	cr_expect(open_at(more[0]) == 2 && open_at(more[1]) == 2);
	list_at(more[1], 2, "t");
	run(&r, 200);
	cr_expect(r.added == 5 && members(&r) == 5, "%u added", r.added);
	list_at(more[0], 4, "e");
	run(&r, 200);
	cr_expect(r.added == 6 && r.left == 1 && members(&r) == 5, "%u added, %u left", r.added, r.left);
	/* Longer than its keep-alive timeout. */
	run(&r, 30000);
	list_at(more[1], 1, "t");
	run(&r, 200);
	cr_expect(r.added == 7 && r.left == 2 && members(&r) == 5, "%u added, %u left", r.added, r.left);
	/* A referral that goes takes its log with it, and nobody stays connected for that. */
	list_at(more[0], 4, NULL);
	run(&r, 3000);
	cr_expect(r.left == 4 && members(&r) == 3, "%u left", r.left);
	cr_expect_eq(open_at(more[1]), 0);
	pool_down(&r, more, 2);
}

/* What it listed stays while it cannot be asked; what changed meanwhile is seen then. */
static void referred_restart(uint32_t loss_ms)
{
	struct nvmfr_soft_fault away =
		flow_fault(NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_target *more[1];
	struct rig r;

	rig_up(&r);
	r.f.opts.ctrl_loss_timeout_ms = loss_ms;
	r.each.ctrl_loss_timeout_ms = UINT32_MAX;
	more[0] = referred(&r, "d", NULL);
	list_at(r.f.target, 0, "d");
	list_at(more[0], 1, NULL);
	follow(&r);
	run(&r, 200);
	cr_expect(r.added == 3 && members(&r) == 3, "%u added", r.added);
	away.count = 0;
	cr_assert_eq(nvmfr_soft_fault_add(more[0], &away), 0);
	nvmfr_soft_drop(more[0]);
	run(&r, 20000);
	/* The first log is read anew meanwhile. */
	list_at(r.f.target, 2, "d");
	run(&r, 20000);
	cr_expect(r.added == 4 && r.left == 0 && members(&r) == 4, "%u added, %u left", r.added, r.left);
	nvmfr_soft_fault_clear(more[0]);
	list_at(more[0], 5, NULL);
	run(&r, 300000);
	cr_expect(r.added == 5 && r.left == 0 && members(&r) == 5, "%u added, %u left", r.added, r.left);
	/* It is followed again. */
	list_at(more[0], 1, NULL);
	run(&r, 200);
	cr_expect(r.left == 1 && members(&r) == 4, "%u left", r.left);
	pool_down(&r, more, 1);
}

Test(pool, a_referred_log_s_controller_is_lost, .timeout = 120)
{
	referred_restart(0);
	referred_restart(UINT32_MAX);
}

/* The first one is lost, and made anew, while the one that it refers to cannot be asked. */
Test(pool, both_logs_controllers_are_lost, .timeout = 60)
{
	struct nvmfr_soft_fault away =
		flow_fault(NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_target *more[1];
	struct rig r;

	rig_up(&r);
	r.each.ctrl_loss_timeout_ms = UINT32_MAX;
	more[0] = referred(&r, "d", NULL);
	list_at(r.f.target, 0, "d");
	list_at(more[0], 1, NULL);
	follow(&r);
	run(&r, 200);
	cr_expect(r.added == 3 && members(&r) == 3, "%u added", r.added);
	away.count = 0;
	cr_assert_eq(nvmfr_soft_fault_add(more[0], &away), 0);
	flow_plan(&r.f, &away);
	nvmfr_soft_drop(more[0]);
	nvmfr_soft_drop(r.f.target);
	run(&r, 10000);
	cr_expect(nvmfr_pool_timeout_ms(r.pool) > 0);
	nvmfr_soft_fault_clear(r.f.target);
	list_at(r.f.target, 2, "d");
	run(&r, 60000);
	cr_expect(r.added == 4 && r.left == 0 && members(&r) == 4, "%u added, %u left", r.added, r.left);
	nvmfr_soft_fault_clear(more[0]);
	list_at(more[0], 4, NULL);
	run(&r, 300000);
	cr_expect(r.added == 5 && r.left == 1 && members(&r) == 4, "%u added, %u left", r.added, r.left);
	pool_down(&r, more, 1);
}

/* One that tells nothing, and one that serves nobody who wants to stay: it is asked again, later each time. */
Test(pool, a_referred_log_that_tells_nothing, .timeout = 120)
{
	struct nvmfr_soft_opts silent = flow_soft_opts(), curt = flow_soft_opts();

	curt.oaes |= UINT32_C(1) << OAES_DISCOVERY_BIT;
	curt.kato_min_ms = 20000;
	for (unsigned int i = 0; i < 2; i++) {
		struct nvmfr_soft_target *more[1];
		struct rig r;

		rig_up(&r);
		r.each.kato_ms = 20000;
		more[0] = referred(&r, "d", i ? &curt : &silent);
		list_at(r.f.target, 0, "d");
		list_at(more[0], 1, NULL);
		follow(&r);
		run(&r, 200);
		cr_expect(r.added == 3 && open_at(more[0]) == 1, "%u added", r.added);
		list_at(more[0], 3, NULL);
		run(&r, 2000);
		cr_expect_eq(r.added, 4u);
		cr_expect(nvmfr_pool_timeout_ms(r.pool) >= 0);
		run(&r, 600000);
		list_at(more[0], 1, NULL);
		cr_expect(nvmfr_pool_timeout_ms(r.pool) > 60000, "%d ms", nvmfr_pool_timeout_ms(r.pool));
		run(&r, 301000);
		cr_expect_eq(r.left, 1u);
		pool_down(&r, more, 1);
	}
}

/* Accepts, serves its log and hangs up, each time: it is not asked without a pause. */
Test(pool, a_referred_controller_that_hangs_up, .timeout = 60)
{
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };
	struct nvmfr_soft_target *more[1];
	struct rig r;

	rig_up(&r);
	r.each.ctrl_loss_timeout_ms = UINT32_MAX;
	more[0] = referred(&r, "d", NULL);
	list_at(r.f.target, 0, "d");
	list_at(more[0], 0, NULL);
	follow(&r);
	cr_assert_eq(nvmfr_soft_read_counters(more[0], &counters), 0);
	for (unsigned int i = 0; i < 1000; i++) {
		run(&r, 30);
		if (open_at(more[0]))
			nvmfr_soft_drop(more[0]);
	}
	cr_assert_eq(nvmfr_soft_read_counters(more[0], &counters), 0);
	cr_expect_leq(counters.connections, 80u, "%lu connections in 30 s", (unsigned long)counters.connections);
	pool_down(&r, more, 1);
}

enum { REFERRED_MOST = 32,
       KEPT = 16 };

/* Discovery controllers "d0" and so on, and what refers to them. */
struct many {
	unsigned int n;
	struct nvmfr_soft_target *more[REFERRED_MOST];
	struct entry referrals[REFERRED_MOST];
	char called[REFERRED_MOST][8];
};

static void many_up(struct rig *r, struct many *m)
{
	for (unsigned int i = 0; i < m->n; i++) {
		snprintf(m->called[i], sizeof(m->called[i]), "d%u", i);
		m->more[i] = referred(r, m->called[i], NULL);
		m->referrals[i] = (struct entry){ LOOP, LOOP, REFERRAL, 1, m->called[i], "", DISCOVERY_NQN };
	}
}

static void expect_kept(const struct many *m)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < m->n; i++)
		kept += open_at(m->more[i]) == 2;
	cr_expect_eq(kept, (unsigned int)KEPT, "%u stay connected", kept);
}

/* Of many, the first ones stay connected; the others are asked again now and then. */
Test(pool, more_referred_logs_than_stay_connected, .timeout = 120)
{
	enum { MANY = 20 };
	struct many m = { .n = MANY };
	struct rig r;

	rig_up(&r);
	many_up(&r, &m);
	set(r.f.target, m.referrals, MANY, ' ');
	follow(&r);
	run(&r, 300);
	cr_expect_eq(r.added, MANY + 1u);
	expect_kept(&m);
	list_at(m.more[KEPT - 1], 1, NULL);
	run(&r, 200);
	cr_expect_eq(r.added, MANY + 2u);
	list_at(m.more[MANY - 1], 2, NULL);
	run(&r, 5000);
	cr_expect_eq(r.added, MANY + 3u);
	pool_down(&r, m.more, MANY);
}

/* The log cannot be read while its controller is recovered: that is no reason to ask for it without a pause. */
Test(pool, no_haste_while_the_log_is_away, .timeout = 60)
{
	struct nvmfr_soft_fault away =
		flow_fault(NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_opts silent = flow_soft_opts();
	struct nvmfr_soft_target *more[1];
	unsigned int hasty = 0;
	struct rig r;

	rig_up(&r);
	r.f.opts.ctrl_loss_timeout_ms = r.each.ctrl_loss_timeout_ms = UINT32_MAX;
	more[0] = referred(&r, "d", &silent);
	list_at(r.f.target, 0, "d");
	list_at(more[0], 1, NULL);
	follow(&r);
	run(&r, 200);
	cr_expect_eq(r.added, 3u);
	away.count = 0;
	flow_plan(&r.f, &away);
	nvmfr_soft_drop(r.f.target);
	for (unsigned int i = 0; i < 1000; i++) {
		run(&r, 10);
		(void)nvmfr_pool_update(r.pool);
		hasty += nvmfr_pool_timeout_ms(r.pool) == 0;
	}
	cr_expect_lt(hasty, 10u, "%u times in 10 s", hasty);
	/* What that log lists meanwhile is seen when the first one is back. */
	list_at(more[0], 3, NULL);
	nvmfr_soft_fault_clear(r.f.target);
	run(&r, 20000);
	cr_expect(r.added == 4 && r.left == 0, "%u added, %u left", r.added, r.left);
	pool_down(&r, more, 1);
}

/* Two logs list the same: it stays while one of them may, though the other one does not any more. */
Test(pool, what_two_logs_list, .timeout = 60)
{
	struct nvmfr_soft_fault away =
		flow_fault(NVMFR_SOFT_FAULT_CM_UNREACHABLE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_target *more[1];
	struct rig r;

	rig_up(&r);
	r.each.ctrl_loss_timeout_ms = UINT32_MAX;
	more[0] = referred(&r, "d", NULL);
	list_at(r.f.target, 1, "d");
	list_at(more[0], 1, NULL);
	follow(&r);
	run(&r, 200);
	cr_expect(r.added == 3 && members(&r) == 3, "%u added", r.added);
	away.count = 0;
	cr_assert_eq(nvmfr_soft_fault_add(more[0], &away), 0);
	nvmfr_soft_drop(more[0]);
	list_at(r.f.target, 0, "d");
	run(&r, 5000);
	cr_expect(r.left == 0 && members(&r) == 3, "%u left", r.left);
	/* Also when it is read a second time. */
	list_at(r.f.target, 2, "d");
	run(&r, 5000);
	cr_expect(r.added == 4 && r.left == 0 && members(&r) == 4, "%u added, %u left", r.added, r.left);
	nvmfr_soft_fault_clear(more[0]);
	list_at(more[0], 0, NULL);
	run(&r, 300000);
	cr_expect(r.left == 1 && members(&r) == 3, "%u left", r.left);
	pool_down(&r, more, 1);
}

/* Referrals that come before those that are followed do not make them more and more. */
Test(pool, not_more_stay_connected_as_the_log_changes, .timeout = 120)
{
	enum { MANY = 32 };
	struct many m = { .n = MANY };
	struct rig r;

	rig_up(&r);
	many_up(&r, &m);
	set(r.f.target, m.referrals + KEPT, KEPT, ' ');
	follow(&r);
	run(&r, 300);
	set(r.f.target, m.referrals, MANY, ' ');
	run(&r, 300);
	cr_expect_eq(r.added, MANY + 1u);
	expect_kept(&m);
	pool_down(&r, m.more, MANY);
}

/* Referrals to places that never answer: twice connect_timeout_ms, and no more. */
Test(pool, the_whole_has_a_bound, .timeout = 60)
{
	struct nvmfr_soft_fault silent =
		flow_fault(NVMFR_SOFT_FAULT_CM_SILENCE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct entry referrals[NAMES];
	struct nvmfr_discovery_info info = { .size = sizeof(info) };
	struct nvmfr_discovery *d;
	struct nvmfr_soft_counters before;
	struct rig r;

	rig_up(&r);
	silent.count = 0;
	for (unsigned int i = 0; i < NAMES; i++) {
		cr_assert_eq(nvmfr_soft_fault_add(r.others[i], &silent), 0);
		referrals[i] = (struct entry){ LOOP, LOOP, REFERRAL, 1, names[i], "", DISCOVERY_NQN };
	}
	list(&r, 0, referrals, NAMES);
	r.f.opts.connect_timeout_ms = 10000;
	flow_connect(&r.f);
	before = flow_counters(&r.f);
	cr_assert_eq(nvmfr_discover(r.f.host, &r.f.opts, 0, &d), 0, "%s", nvmfr_last_error());
	cr_assert_eq(nvmfr_discovery_info(d, &info), 0);
	cr_expect_eq(info.unreached, 3u);
	/* Virtual time, by a clock of the library's own: a Keep Alive each 5 s. */
	cr_expect(flow_counters(&r.f).keep_alives - before.keep_alives <= 5, "%lu keep-alives",
		  flow_counters(&r.f).keep_alives - before.keep_alives);
	cr_expect(flow_logged(&r.f, "twice connect_timeout_ms is over"));
	nvmfr_discovery_release(d);
	rig_down(&r);
}

/* One that refuses slowly who wants to stay, and serves the others slowly, has no more than what is left either. */
Test(pool, the_whole_has_a_bound_for_a_second_attempt, .timeout = 60)
{
	struct nvmfr_soft_fault silent =
		flow_fault(NVMFR_SOFT_FAULT_CM_SILENCE, 0, NVMFR_SOFT_ANY, NVMFR_SOFT_ANY, 0);
	struct nvmfr_soft_fault slow =
		flow_fault(NVMFR_SOFT_FAULT_DELAY, 0, OPC_FABRICS, FCTYPE_CONNECT, 9000000);
	struct nvmfr_soft_opts curt = flow_soft_opts();
	struct nvmfr_soft_target *more[1];
	struct nvmfr_soft_counters before;
	struct nvmfr_discovery *d;
	struct entry referrals[2];
	struct rig r;

	rig_up(&r);
	curt.kato_min_ms = 20000;
	more[0] = referred(&r, "d", &curt);
	slow.count = silent.count = 0;
	cr_assert_eq(nvmfr_soft_fault_add(r.others[0], &silent), 0);
	cr_assert_eq(nvmfr_soft_fault_add(more[0], &slow), 0);
	referrals[0] = (struct entry){ LOOP, LOOP, REFERRAL, 1, names[0], "", DISCOVERY_NQN };
	referrals[1] = (struct entry){ LOOP, LOOP, REFERRAL, 1, "d", "", DISCOVERY_NQN };
	list(&r, 0, referrals, 2);
	r.f.opts.connect_timeout_ms = 10000;
	r.f.opts.kato_ms = 2000;
	flow_connect(&r.f);
	before = flow_counters(&r.f);
	cr_assert_eq(nvmfr_discover(r.f.host, &r.f.opts, NVMFR_DISCOVER_PERSISTENT, &d), 0, "%s",
		     nvmfr_last_error());
	/* Two associations, a Keep Alive each second of each. */
	cr_expect_leq(flow_counters(&r.f).keep_alives - before.keep_alives, 44u, "%lu keep-alives",
		      flow_counters(&r.f).keep_alives - before.keep_alives);
	nvmfr_discovery_release(d);
	nvmfr_soft_target_destroy(more[0]);
	rig_down(&r);
}

/* A controller that is a path cannot be disconnected: without its pool nobody would have it any more. */
Test(pool, not_released_while_one_is_a_path, .timeout = 60)
{
	struct nvmfr_mpath *mpath;
	struct nvmfr_ctrl *ctrl;
	struct rig r;

	rig_up(&r);
	list(&r, 1, NULL, 0);
	follow(&r);
	run(&r, 100);
	ctrl = nvmfr_pool_ctrl(r.pool, 0);
	cr_assert_not_null(ctrl);
	cr_assert_eq(nvmfr_mpath_create(r.f.host, NULL, &mpath), 0);
	cr_assert_eq(nvmfr_mpath_add(mpath, ctrl), 0, "%s", nvmfr_last_error());
	cr_expect_eq(nvmfr_pool_release(r.pool), -EBUSY);
	flow_says("nvmfr_mpath_remove()");
	cr_expect_eq(nvmfr_mpath_destroy(mpath), 0, "%s", nvmfr_last_error());
	rig_down(&r);
}

Test(pool, bad_arguments, .timeout = 60)
{
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_pool *pool;
	struct rig r;

	rig_up(&r);
	cr_expect_eq(nvmfr_pool_create(NULL, &r.f.opts, NULL, &pool), -EINVAL);
	cr_expect_eq(nvmfr_pool_create(r.f.host, NULL, NULL, &pool), -EINVAL);
	cr_expect_eq(nvmfr_pool_create(r.f.host, &r.f.opts, NULL, NULL), -EINVAL);
	cr_expect_eq(nvmfr_pool_create(r.f.host, &r.f.opts, &r.f.opts, &pool), -EINVAL);
	flow_says("the log does");
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	cr_expect_eq(nvmfr_pool_create(r.f.host, &opts, NULL, &pool), -EINVAL);
	flow_says("uri");
	opts.uri = "nvmf+soft://nowhere";
	cr_expect_eq(nvmfr_pool_create(r.f.host, &opts, NULL, &pool), -ENOENT);
	cr_expect_null(pool);
	cr_expect_eq(nvmfr_pool_update(NULL), -EINVAL);
	cr_expect_eq(nvmfr_pool_timeout_ms(NULL), -EINVAL);
	cr_expect_null(nvmfr_pool_ctrl(NULL, 0));
	cr_expect_eq(nvmfr_pool_release(NULL), 0);
	rig_down(&r);
}
