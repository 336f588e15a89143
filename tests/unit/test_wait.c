/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop behind nvmfr_wait(), on a source of the test's own. */
#include "testing.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "api/wait.h"
#include "base/err.h"
#include "ctrl/host.h"

/* ---- what a wait learns ----------------------------------------------------------------------- */

Test(wait, polls_while_answers_are_quick)
{
	struct wait_pace pace = { 0 };

	for (unsigned int i = 0; i < 100; i++) {
		cr_expect_eq(pace_spin_ns(&pace), PACE_SPIN_NS);
		pace_learn(&pace, 3000);
	}
}

Test(wait, sleeps_at_once_when_answers_are_slow_but_for_one_try_in_16)
{
	struct wait_pace pace = { 0 };
	unsigned int spun = 0;

	for (unsigned int i = 0; i < PACE_PATIENCE; i++)
		pace_learn(&pace, 80000);
	for (unsigned int i = 0; i < 10 * PACE_RETRY; i++) {
		spun += pace_spin_ns(&pace) != 0;
		pace_learn(&pace, 80000);
	}
	cr_expect_eq(spun, 10);
	pace_learn(&pace, 3000);
	cr_expect_eq(pace_spin_ns(&pace), PACE_SPIN_NS, "one quick answer is enough");
}

Test(wait, pauses_where_several_will_come)
{
	cr_expect_eq(pace_nap_ns(0, 0, 31), PACE_NAP_NS, "once, to see how many will");
	cr_expect_eq(pace_nap_ns(10000, 1, 31), PACE_NAP_NS, "never longer");
	cr_expect_eq(pace_nap_ns(100000, 10, 3), 30000, "the rest is due sooner");
	cr_expect_eq(pace_nap_ns(100000, 1, 31), 0, "one alone is worth a wake-up");
	cr_expect_eq(pace_nap_ns(PACE_NAP_NS, 2, 1), 0);
}

/* ---- the loop --------------------------------------------------------------------------------- */

struct fake {
	struct nvmfr_host host;
	struct wait_source source;
	struct wait_pace pace;
	unsigned int polls, arms;
	unsigned int ready, in_flight; /* completions that poll hands out, one at a time */
	unsigned int ready_at_arm, arm_ns;
	int fd;
};

static int fake_poll(void *object, struct nvmfr_completion *out, unsigned int max)
{
	struct fake *f = object;

	f->polls++;
	if (!f->ready || !max)
		return 0;
	f->ready--;
	f->in_flight--;
	*out = (struct nvmfr_completion){ .user_data = f->polls };
	return 1;
}

static int fake_fd(void *object)
{
	const struct fake *f = object;

	return f->fd;
}

static int fake_arm(void *object)
{
	struct fake *f = object;
	struct timespec pause = { .tv_nsec = (long)f->arm_ns };

	f->arms++;
	nanosleep(&pause, NULL);
	f->ready += f->ready_at_arm;
	return f->ready_at_arm ? 1 : 0;
}

static bool fake_pending(void *object)
{
	const struct fake *f = object;

	return f->in_flight;
}

static void up(struct fake *f, unsigned int in_flight)
{
	*f = (struct fake){ .in_flight = in_flight, .fd = eventfd(0, EFD_CLOEXEC) };
	nvmfr__clock_init(&f->host.clock);
	f->source = (struct wait_source){
		.host = &f->host,
		.object = f,
		.pace = &f->pace,
		.poll = fake_poll,
		.fd = fake_fd,
		.arm = fake_arm,
		.pending = fake_pending,
	};
}

Test(wait, polls_before_it_sleeps)
{
	struct nvmfr_completion out;
	struct fake f;

	up(&f, 1);
	f.ready_at_arm = 1;
	cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, -1), 1);
	cr_expect_geq(f.polls, 3, "one in vain, at least one more, and the one that found it");
	cr_expect_eq(f.arms, 1);
	close(f.fd);
}

Test(wait, sleeps_at_once_after_slow_answers)
{
	struct nvmfr_completion out;
	struct fake f;

	up(&f, PACE_PATIENCE + 1);
	f.ready_at_arm = 1;
	f.arm_ns = 4 * PACE_SPIN_NS;
	for (unsigned int i = 0; i < PACE_PATIENCE; i++)
		cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, -1), 1);
	f.polls = 0;
	cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, -1), 1);
	cr_expect_eq(f.polls, 2, "one in vain, one that found it");
	cr_expect_eq(f.arms, PACE_PATIENCE + 1);
	close(f.fd);
}

/* Time that passes without an answer teaches as well. */
Test(wait, sleeps_at_once_after_waits_that_ended_without)
{
	struct nvmfr_completion out;
	struct fake f;

	up(&f, 1);
	for (unsigned int i = 0; i < PACE_PATIENCE; i++)
		cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, 1), 0);
	cr_expect_eq(pace_spin_ns(&f.pace), 0);
	close(f.fd);
}

Test(wait, without_time_does_not_sleep)
{
	struct nvmfr_completion out;
	struct fake f;

	up(&f, 1);
	cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, 0), 0);
	cr_expect_eq(f.polls, 1);
	cr_expect_eq(f.arms, 0);
	cr_expect_eq(f.pace.slow, 0, "which says nothing about the answer");
	close(f.fd);
}

Test(wait, for_ever_with_nothing_in_flight_is_refused)
{
	struct nvmfr_completion out;
	struct fake f;

	up(&f, 0);
	cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, -1), -EINVAL);
	cr_expect_not_null(strstr(nvmfr__err_get(), "nothing is in flight"), "%s", nvmfr__err_get());
	cr_expect_eq(f.arms, 0);
	cr_expect_eq(nvmfr__wait(&f.source, &out, 1, 1, 2), 0, "a timeout is a wait's end");
	cr_expect_eq(f.polls - 1, f.arms + 1, "it slept and did not poll");
	cr_expect_eq(f.pace.slow, 0, "no answer was slow");
	close(f.fd);
}

Test(wait, for_more_than_is_in_flight_ends_with_what_there_is)
{
	struct nvmfr_completion out[4];
	struct fake f;

	up(&f, 3);
	f.ready = 3;
	cr_expect_eq(nvmfr__wait(&f.source, out, 4, 4, -1), 3);
	f.ready = f.in_flight = 2;
	cr_expect_eq(nvmfr__wait(&f.source, out, 4, 4, 3600000), 2);
	cr_expect_eq(f.arms, 0);
	close(f.fd);
}
