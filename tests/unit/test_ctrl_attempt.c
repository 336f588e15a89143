/* SPDX-License-Identifier: BSD-3-Clause */
/* When a connection is tried again, what a refused Connect means, and names becoming addresses. */
#include "ctrl_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>

#include "base/util.h"
#include "ctrl/resolve.h"

/* ---- again ----------------------------------------------------------------------------------- */

Test(ctrl_attempt, pauses_double_up_to_a_second)
{
	static const uint64_t pauses[] = { 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000 };
	struct fab_event ev = { .retryable = true, .text = "stale connection" };
	struct attempt attempt = { 0 };
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
		cr_assert(nvmfr__attempt_again(r.ctrl, &attempt, &ev, UINT64_MAX));
		cr_expect_eq(attempt.retry_ns, ctrl_rig_now(&r) + MS_NS(pauses[i]), "try %zu", i);
		cr_expect_eq(attempt.tries, i + 1);
	}
	cr_expect_not_null(strstr(r.log, "stale connection"), "%s", r.log);
	ctrl_rig_down(&r);
}

Test(ctrl_attempt, not_beyond_the_deadline_and_not_in_vain)
{
	struct fab_event ev = { .retryable = true };
	struct attempt attempt = { 0 };
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	cr_expect(!nvmfr__attempt_again(r.ctrl, &attempt, &ev, ctrl_rig_now(&r) + MS_NS(10)));
	cr_expect(nvmfr__attempt_again(r.ctrl, &attempt, &ev, ctrl_rig_now(&r) + MS_NS(10) + 1));
	ev.retryable = false;
	cr_expect(!nvmfr__attempt_again(r.ctrl, &attempt, &ev, UINT64_MAX));
	cr_expect_eq(attempt.tries, 1u);
	ctrl_rig_down(&r);
}

/* ---- Connect's status (NVMe over Fabrics, Connect command specific values) ------------------- */

struct refused_case {
	uint16_t qid, status;
	int err;
	const char *sentence;
};

/* clang-format off */
static const struct refused_case refusals[] = {
	{ 0, 0x184, -EACCES, "nqn.2014-08.org.example:host" },
	{ 0, 0x4184, -EACCES, "nqn.2014-08.org.example:host" },
	{ 0, 0x182, -ENOENT, "nqn.2014-08.org.example:disks" },
	{ 3, 0x182, -EPROTO, "queue 3" },
	{ 0, 0x181, -EBUSY, "busy" },
	{ 2, 0x191, -EACCES, "authentication" },
	{ 0, 0x180, -ECONNREFUSED, "0x0180" },
	{ 1, 0x7fff, -ECONNREFUSED, "0x7fff" },
};
/* clang-format on */

Test(ctrl_attempt, a_refused_connect)
{
	struct ctrl_rig r;

	ctrl_rig_up(&r);
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		nvmfr__err_clear();
		cr_expect_eq(nvmfr__connect_refused(r.ctrl, refusals[i].qid, refusals[i].status),
			     refusals[i].err, "0x%x", refusals[i].status);
		cr_expect_not_null(strstr(nvmfr__err_get(), refusals[i].sentence), "%s",
				   nvmfr__err_get());
	}
	ctrl_rig_down(&r);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int resolve(const char *host, const char *port, struct sockaddr_storage *out)
{
	struct resolve *r;
	int done = nvmfr__resolve_start(host, port, &r);

	if (done)
		return done;
	while ((done = nvmfr__resolve_poll(&r, out)) == 0)
		sched_yield();
	cr_expect_null(r, "%s", host);
	return done;
}

Test(ctrl_resolve, numbers)
{
	struct sockaddr_storage ss;
	const struct sockaddr_in *in = (const void *)&ss;
	const struct sockaddr_in6 *in6 = (const void *)&ss;
	struct in6_addr want;

	cr_assert_eq(resolve("192.168.1.2", "4420", &ss), 1);
	cr_expect(in->sin_family == AF_INET && ntohs(in->sin_port) == 4420 &&
		  ntohl(in->sin_addr.s_addr) == 0xc0a80102);
	cr_assert_eq(resolve("2001:db8::5", "65535", &ss), 1);
	inet_pton(AF_INET6, "2001:db8::5", &want);
	cr_expect(in6->sin6_family == AF_INET6 && ntohs(in6->sin6_port) == 65535);
	cr_expect_arr_eq(&in6->sin6_addr, &want, sizeof(want));
	cr_assert_eq(resolve("fe80::1%lo", "1", &ss), 1);
	cr_expect_eq(in6->sin6_scope_id, if_nametoindex("lo"));
}

Test(ctrl_resolve, numbers_answer_at_once)
{
	struct sockaddr_storage ss;
	struct resolve *r;

	cr_assert_eq(nvmfr__resolve_start("10.0.0.1", "4420", &r), 0);
	cr_expect_eq(nvmfr__resolve_poll(&r, &ss), 1);
	cr_expect_null(r);
	cr_assert_eq(nvmfr__resolve_start("::1", "4420", &r), 0);
	nvmfr__resolve_end(&r);
	cr_expect_null(r);
	nvmfr__resolve_end(&r);
}

/* libc looks names up in a thread that ThreadSanitizer does not get to see, and then crashes in. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_NAMES
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define NO_NAMES
#endif

#ifndef NO_NAMES
Test(ctrl_resolve, names, .timeout = 120)
{
	struct sockaddr_storage ss;
	int done = resolve("localhost", "4420", &ss);

	cr_assert_eq(done, 1, "%s", nvmfr__err_get());
	cr_expect(ss.ss_family == AF_INET || ss.ss_family == AF_INET6);
}
#endif

Test(ctrl_resolve, nonsense_is_quoted)
{
	struct sockaddr_storage ss;

	cr_expect_eq(nvmfr__resolve_numeric("10.0.0.300", &ss), -EINVAL);
	cr_expect_not_null(strstr(nvmfr__err_get(), "10.0.0.300"), "%s", nvmfr__err_get());
	cr_expect_eq(nvmfr__resolve_numeric("storage.example", &ss), -EINVAL);
	cr_expect_eq(nvmfr__resolve_numeric("", &ss), -EINVAL);
	cr_expect_eq(nvmfr__resolve_numeric("::1", &ss), 0);
	cr_expect_eq(ss.ss_family, AF_INET6);
}
