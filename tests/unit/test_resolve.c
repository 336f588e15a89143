/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and numbers of the address in a URI. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <time.h>

#include "base/err.h"
#include "base/util.h"
#include "ctrl/resolve.h"

/* What it ends with. The bound is that of the test. */
static int outcome(struct resolve **r, struct sockaddr_storage *addr)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int got;

	while (!(got = nvmfr__resolve_poll(r, addr)))
		nanosleep(&pause, NULL);
	cr_expect_null(*r, "ended");
	return got;
}

static void started(const char *host, struct resolve **r)
{
	cr_assert_eq(nvmfr__resolve_start(host, "4420", r), 0, "%s: %s", host, nvmfr__err_get());
}

static uint16_t port_of(const struct sockaddr_storage *addr)
{
	/* sin_port and sin6_port are at the same place */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

Test(resolve, numbers_are_there_at_once)
{
	static const struct {
		const char *text;
		int family;
	} cases[] = { { "127.0.0.1", AF_INET }, { "::1", AF_INET6 } };
	struct sockaddr_storage addr;
	struct resolve *r;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		started(cases[i].text, &r);
		cr_assert_eq(nvmfr__resolve_poll(&r, &addr), 1, "%s", nvmfr__err_get());
		cr_expect_null(r, "ended");
		cr_expect_eq(addr.ss_family, cases[i].family);
		cr_expect(is_loopback(&addr), "%s", cases[i].text);
		cr_expect_eq(port_of(&addr), 4420);
	}
}

Test(resolve, a_name)
{
	struct sockaddr_storage addr;
	struct resolve *r;

	started("localhost", &r);
	cr_assert_eq(outcome(&r, &addr), 1, "%s", nvmfr__err_get());
	cr_expect(is_loopback(&addr));
	cr_expect_eq(port_of(&addr), 4420);
}

Test(resolve, a_name_that_nobody_has)
{
	/* No label has more than 63 bytes: it is refused here, and no server is asked. */
	char name[80 + 1];
	struct sockaddr_storage addr;
	struct resolve *r;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	started(name, &r);
	cr_expect_eq(outcome(&r, &addr), -EHOSTUNREACH);
	cr_expect_not_null(strstr(nvmfr__err_get(), name), "%s", nvmfr__err_get());
}

/* Let go before, while and after the name is looked up: neither waits, nothing leaks. */
Test(resolve, ended_in_any_state)
{
	struct resolve *r = NULL;

	nvmfr__resolve_end(&r);
	started("127.0.0.1", &r);
	nvmfr__resolve_end(&r);
	for (long i = 0; i < 100; i++) {
		const struct timespec pause = { .tv_nsec = i * 20000 };

		started("localhost", &r);
		nanosleep(&pause, NULL);
		nvmfr__resolve_end(&r);
		cr_expect_null(r);
	}
}

Test(resolve, many_at_once)
{
	struct sockaddr_storage addr;
	struct resolve *rs[100];

	for (size_t i = 0; i < ARRAY_SIZE(rs); i++)
		started("localhost", &rs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(rs); i++)
		cr_expect_eq(outcome(&rs[i], &addr), 1, "%s", nvmfr__err_get());
}

/* -EAGAIN would say that it is still at work. */
Test(resolve, no_thread_is_no_memory)
{
	pthread_attr_t usual, huge;
	struct resolve *r;

	cr_assert_eq(pthread_getattr_default_np(&usual), 0);
	cr_assert_eq(pthread_getattr_default_np(&huge), 0);
	cr_assert_eq(pthread_attr_setstacksize(&huge, (size_t)1 << 46), 0);
	cr_assert_eq(pthread_setattr_default_np(&huge), 0);
	cr_expect_eq(nvmfr__resolve_start("localhost", "4420", &r), -ENOMEM, "%s", nvmfr__err_get());
	cr_expect_null(r);
	cr_assert_eq(pthread_setattr_default_np(&usual), 0);
	pthread_attr_destroy(&usual);
	pthread_attr_destroy(&huge);
}
