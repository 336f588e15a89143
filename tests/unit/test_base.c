/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/util.h"

/* ---- util ---- */

Test(base_util, arithmetic)
{
	struct pair {
		uint64_t head;
		uint32_t tail;
	} pair;
	uint32_t *tail = &pair.tail;

	cr_expect_eq(container_of(tail, struct pair, tail), &pair, "member leads to its struct");
	cr_expect_eq(ARRAY_SIZE(((int[7]){ 0 })), 7, "elements, not bytes");
	cr_expect_eq(nvmfr__min_u64(UINT64_MAX, 3), 3, "min u64");
	cr_expect_eq(nvmfr__max_u64(UINT64_MAX, 3), UINT64_MAX, "max u64");
	cr_expect_eq(nvmfr__min_u32(4, 3), 3, "min u32");
	cr_expect_eq(nvmfr__max_u32(4, 3), 4, "max u32");
	cr_expect_eq(MIN(1, 2), 1, "min");
	cr_expect_eq(MAX(1, 2), 2, "max");
}

/* ---- err ---- */

Test(base_err, fail_stores_and_returns)
{
	cr_expect_str_eq(nvmfr__err_get(), "", "nothing yet");
	cr_expect_eq(nvmfr__fail(-EPROTO, "qpair %u: %s", 3, "bad"), -EPROTO, "code comes back");
	cr_expect_str_eq(nvmfr__err_get(), "qpair 3: bad", "sentence is stored");
	nvmfr__err_clear();
	cr_expect_str_eq(nvmfr__err_get(), "", "cleared");
}

Test(base_err, sentence_may_be_its_own_argument)
{
	nvmfr__err_set("inner");
	nvmfr__fail(-EIO, "outer: %s", nvmfr__err_get());
	cr_expect_str_eq(nvmfr__err_get(), "outer: inner", "no overlap");
	nvmfr__err_set(nvmfr__err_get() + 7);
	cr_expect_str_eq(nvmfr__err_get(), "inner", "set from its own tail");
	nvmfr__err_set(NULL);
	cr_expect_str_eq(nvmfr__err_get(), "", "NULL clears");
}

Test(base_err, wrap)
{
	nvmfr__err_set("no route");
	cr_expect_eq(nvmfr__fail_wrap(-ENODEV, "connect to %s", "x"), -ENODEV, "code comes back");
	cr_expect_str_eq(nvmfr__err_get(), "connect to x: no route", "text before text");
	nvmfr__err_clear();
	nvmfr__fail_wrap(-ETIMEDOUT, "connect");
	cr_expect_str_eq(nvmfr__err_get(), "connect: timed out", "the code's words stand in");
}

Test(base_err, long_sentences_are_cut)
{
	char text[2 * NVMFR__ERR_BYTES];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	nvmfr__fail(-EIO, "%s", text);
	cr_expect_eq(strlen(nvmfr__err_get()), (size_t)NVMFR__ERR_BYTES - 1, "fail");
	nvmfr__fail_wrap(-EIO, "outer");
	cr_expect_eq(strlen(nvmfr__err_get()), (size_t)NVMFR__ERR_BYTES - 1, "wrap");
	cr_expect_eq(strncmp(nvmfr__err_get(), "outer: xxx", 10), 0, "wrap keeps the front");
	nvmfr__fail_wrap(-EIO, "%s", text);
	cr_expect_eq(strlen(nvmfr__err_get()), (size_t)NVMFR__ERR_BYTES - 1, "wrap with long text");
	nvmfr__err_set(text);
	cr_expect_eq(strlen(nvmfr__err_get()), (size_t)NVMFR__ERR_BYTES - 1, "set");
}

static void *fail_elsewhere(void *arg)
{
	nvmfr__fail(-EIO, "other thread");
	return arg;
}

Test(base_err, each_thread_has_its_own)
{
	pthread_t thread;

	nvmfr__err_set("mine");
	cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0, "thread");
	pthread_join(thread, NULL);
	cr_expect_str_eq(nvmfr__err_get(), "mine", "untouched");
}

struct words_case {
	int err;
	char want[64];
};

ParameterizedTestParameters(base_err, words)
{
	static struct words_case cases[] = {
		{ 0, "success" },
		{ -EAGAIN, "no room now, poll first" },
		{ EAGAIN, "no room now, poll first" },
		{ -ETIMEDOUT, "timed out" },
		{ -EPROTO, "the peer broke the protocol" },
		{ -EXDEV, "Invalid cross-device link" },
		{ -99999, "unknown error" },
		{ INT_MIN, "unknown error" },
		{ INT_MAX, "unknown error" },
	};
	return cr_make_param_array(struct words_case, cases, ARRAY_SIZE(cases));
}

ParameterizedTest(struct words_case *c, base_err, words)
{
	cr_expect_str_eq(nvmfr__strerror(c->err), c->want, "%d", c->err);
}

/* ---- log ---- */

struct sink {
	int calls;
	int level;
	char msg[64];
};

static void sink_fn(void *arg, int level, const char *msg)
{
	struct sink *sink = arg;

	sink->calls++;
	sink->level = level;
	snprintf(sink->msg, sizeof(sink->msg), "%s", msg);
}

Test(base_log, reaches_the_sink_up_to_its_level)
{
	struct sink sink = { 0 };
	struct nvmfr__log log = { .fn = sink_fn, .arg = &sink, .level = NVMFR__LOG_WARN };

	nvmfr__log(&log, NVMFR__LOG_INFO, "quiet");
	cr_expect_eq(sink.calls, 0, "above the level");
	nvmfr__log(&log, NVMFR__LOG_WARN, "%s %d", "loud", 1);
	cr_expect_eq(sink.calls, 1, "at the level");
	cr_expect_eq(sink.level, NVMFR__LOG_WARN, "level is passed on");
	cr_expect_str_eq(sink.msg, "loud 1", "formatted");
}

Test(base_log, nowhere_to_go)
{
	struct nvmfr__log log = { .level = NVMFR__LOG_DEBUG };

	nvmfr__log(NULL, NVMFR__LOG_ERROR, "no log");
	nvmfr__log(&log, NVMFR__LOG_ERROR, "no fn");
}

/* ---- clock ---- */

Test(base_clock, real_until_frozen)
{
	struct nvmfr__clock clock;
	uint64_t before, frozen;

	nvmfr__clock_init(&clock);
	cr_expect_not(nvmfr__clock_is_virtual(&clock), "starts real");
	before = nvmfr__clock_now_ns(&clock);
	cr_expect_geq(nvmfr__clock_now_ns(&clock), before, "monotonic");

	nvmfr__clock_freeze(&clock);
	frozen = nvmfr__clock_now_ns(&clock);
	cr_expect(nvmfr__clock_is_virtual(&clock), "virtual now");
	cr_expect_geq(frozen, before, "freezes at the present, not at zero");
	cr_expect_eq(nvmfr__clock_now_ns(&clock), frozen, "stands still");
	nvmfr__clock_freeze(&clock);
	cr_expect_eq(nvmfr__clock_now_ns(&clock), frozen, "freezing again changes nothing");
}

Test(base_clock, advance)
{
	struct nvmfr__clock clock;
	uint64_t ns, ms;

	nvmfr__clock_init(&clock);
	nvmfr__clock_freeze(&clock);
	ns = nvmfr__clock_now_ns(&clock);
	ms = nvmfr__clock_now_ms(&clock);
	nvmfr__clock_advance_ns(&clock, 7000000);
	cr_expect_eq(nvmfr__clock_now_ns(&clock), ns + 7000000, "nanoseconds");
	cr_expect_eq(nvmfr__clock_now_ms(&clock), ms + 7, "milliseconds");
}

Test(base_clock, advance_freezes_a_running_clock)
{
	struct nvmfr__clock clock;

	nvmfr__clock_init(&clock);
	nvmfr__clock_advance_ns(&clock, 1);
	cr_expect(nvmfr__clock_is_virtual(&clock), "virtual now");
	cr_expect_gt(nvmfr__clock_now_ns(&clock), 1, "counted from real time");
}

/* ---- opts: version 1 knows a, version 2 also b, version 3 also c ---- */

struct v1 {
	size_t size;
	uint64_t a;
};

struct v2 {
	size_t size;
	uint64_t a;
	uint64_t b;
};

struct v3 {
	size_t size;
	uint64_t a;
	uint64_t b;
	uint64_t c;
};

Test(base_opts, init_for_an_older_caller)
{
	const struct v2 defaults = { sizeof(defaults), 10, 20 };
	struct v2 dst = { 7, 7, 7 };

	nvmfr__opts_init(&dst, sizeof(struct v1), &defaults, sizeof(defaults));
	cr_expect_eq(dst.size, sizeof(struct v1), "size is the caller's");
	cr_expect_eq(dst.a, 10, "default");
	cr_expect_eq(dst.b, 7, "nothing beyond the caller's size");
}

Test(base_opts, init_for_a_newer_caller)
{
	const struct v2 defaults = { sizeof(defaults), 10, 20 };
	struct v3 dst = { 7, 7, 7, 7 };

	nvmfr__opts_init(&dst, sizeof(dst), &defaults, sizeof(defaults));
	cr_expect_eq(dst.size, sizeof(dst), "size is the caller's");
	cr_expect_eq(dst.b, 20, "default");
	cr_expect_eq(dst.c, 0, "what we do not know is zero");
}

Test(base_opts, init_of_nothing)
{
	const struct v2 defaults = { sizeof(defaults), 10, 20 };
	struct v1 dst = { 7, 7 };

	nvmfr__opts_init(NULL, sizeof(dst), &defaults, sizeof(defaults));
	nvmfr__opts_init(&dst, sizeof(size_t) - 1, &defaults, sizeof(defaults));
	cr_expect_eq(dst.size, 7, "untouched");
}

Test(base_opts, an_older_caller_keeps_the_defaults)
{
	struct v2 dst = { sizeof(dst), 10, 20 };
	struct v1 src = { sizeof(src), 1 };

	cr_assert_eq(nvmfr__opts_import(&dst, sizeof(dst), &src, src.size), 0, "taken");
	cr_expect_eq(dst.size, sizeof(dst), "size is ours");
	cr_expect_eq(dst.a, 1, "given");
	cr_expect_eq(dst.b, 20, "default");
}

Test(base_opts, a_newer_caller_with_nothing_new)
{
	struct v2 dst = { sizeof(dst), 10, 20 };
	struct v3 src = { sizeof(src), 1, 2, 0 };

	cr_assert_eq(nvmfr__opts_import(&dst, sizeof(dst), &src, src.size), 0, "taken");
	cr_expect_eq(dst.size, sizeof(dst), "size is ours");
	cr_expect_eq(dst.b, 2, "given");
}

Test(base_opts, a_newer_caller_who_wants_more)
{
	struct v2 dst = { sizeof(dst), 10, 20 };
	struct v3 src = { sizeof(src), 1, 2, UINT64_C(1) << 63 };

	cr_assert_eq(nvmfr__opts_import(&dst, sizeof(dst), &src, src.size), -E2BIG, "refused");
	cr_expect_eq(dst.a, 10, "no effect");
	cr_expect_neq(nvmfr__err_get()[0], '\0', "with a sentence");
}

Test(base_opts, a_size_that_cannot_be)
{
	struct v2 dst = { sizeof(dst), 10, 20 };
	struct v1 src = { 0, 1 };

	cr_expect_eq(nvmfr__opts_import(&dst, sizeof(dst), &src, 0), -EINVAL, "zero");
	cr_expect_eq(nvmfr__opts_import(&dst, sizeof(dst), &src, sizeof(size_t) - 1), -EINVAL,
		     "less than the member");
	cr_expect_eq(dst.a, 10, "no effect");
	cr_expect_eq(nvmfr__opts_import(&dst, sizeof(dst), &src, sizeof(size_t)), 0,
		     "only the member is all defaults");
	cr_expect_eq(dst.a, 10, "default");
}

Test(base_opts, export_to_an_older_caller)
{
	struct v2 dst = { sizeof(struct v1), 7, 7 };
	struct v3 src = { sizeof(src), 1, 2, 3 };

	nvmfr__opts_export(&dst, dst.size, &src, sizeof(src));
	cr_expect_eq(dst.size, sizeof(struct v1), "size stays the caller's");
	cr_expect_eq(dst.a, 1, "filled");
	cr_expect_eq(dst.b, 7, "nothing beyond the caller's size");
}

Test(base_opts, export_to_a_newer_caller)
{
	struct v3 dst = { sizeof(dst), 7, 7, 7 };
	struct v2 src = { sizeof(src), 1, 2 };

	nvmfr__opts_export(&dst, dst.size, &src, sizeof(src));
	cr_expect_eq(dst.size, sizeof(dst), "size stays the caller's");
	cr_expect_eq(dst.b, 2, "filled");
	cr_expect_eq(dst.c, 0, "what we do not know is zero");
}

Test(base_opts, export_into_nothing)
{
	struct v1 dst = { 1, 7 };
	struct v2 src = { sizeof(src), 1, 2 };

	nvmfr__opts_export(&dst, 0, &src, sizeof(src));
	nvmfr__opts_export(&dst, sizeof(size_t), &src, sizeof(src));
	cr_expect_eq(dst.size, 1, "untouched");
	cr_expect_eq(dst.a, 7, "untouched");
}
