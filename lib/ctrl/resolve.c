/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A name is looked up in a thread of its own, for getaddrinfo() may take as long as it likes and
 * cannot be interrupted. Thread and caller own what they share, and the last one frees it: who does not
 * want to know any more lets go without waiting.
 */
#include "ctrl/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct resolve {
	struct addrinfo hints;
	struct addrinfo *found; /* these two are good once done is set */
	int code;
	atomic_bool done;
	atomic_uint owners;
	char host[256], port[16];
};

static int cannot(const char *host, int code)
{
	return nvmfr__fail(-EHOSTUNREACH, "address '%s' cannot be resolved: %s", host,
			   gai_strerror(code));
}

static void let_go(struct resolve *r)
{
	if (atomic_fetch_sub(&r->owners, 1) > 1)
		return;
	if (r->found)
		freeaddrinfo(r->found);
	free(r);
}

static void look_up(struct resolve *r, int flags)
{
	r->hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	r->code = getaddrinfo(r->host, r->port, &r->hints, &r->found);
}

static void *resolve_main(void *arg)
{
	struct resolve *r = arg;

	look_up(r, AI_NUMERICSERV);
	atomic_store(&r->done, true);
	let_go(r);
	return NULL;
}

static int start_thread(struct resolve *r)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	atomic_store(&r->owners, 2);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, resolve_main, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		atomic_store(&r->owners, 1);
		return nvmfr__fail(nvmfr__thread_error(err), "no thread to look '%s' up: %s", r->host,
				   nvmfr__strerror(err));
	}
	pthread_detach(thread);
	return 0;
}

int nvmfr__resolve_start(const char *host, const char *port, struct resolve **out)
{
	struct resolve *r = calloc(1, sizeof(*r));
	int err = 0;

	*out = NULL;
	if (!r)
		return nvmfr__fail(-ENOMEM, "no memory to look '%s' up", host);
	strncpy(r->host, host, sizeof(r->host) - 1);
	strncpy(r->port, port, sizeof(r->port) - 1);
	atomic_store(&r->owners, 1);
	look_up(r, AI_NUMERICHOST | AI_NUMERICSERV);
	if (r->code == EAI_NONAME)
		err = start_thread(r);
	else if (r->code)
		err = cannot(host, r->code);
	else
		atomic_store(&r->done, true);
	if (err) {
		let_go(r);
		return err;
	}
	*out = r;
	return 0;
}

int nvmfr__resolve_poll(struct resolve **resolve, struct sockaddr_storage *out)
{
	struct resolve *r = *resolve;
	int result = 1;

	if (!atomic_load(&r->done))
		return 0;
	memset(out, 0, sizeof(*out));
	if (r->code)
		result = cannot(r->host, r->code);
	else
		memcpy(out, r->found->ai_addr, r->found->ai_addrlen);
	nvmfr__resolve_end(resolve);
	return result;
}

void nvmfr__resolve_end(struct resolve **resolve)
{
	struct resolve *r = *resolve;

	*resolve = NULL;
	if (r)
		let_go(r);
}

int nvmfr__resolve_numeric(const char *host, struct sockaddr_storage *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found;
	int code = getaddrinfo(host, NULL, &hints, &found);

	if (code)
		return nvmfr__fail(-EINVAL, "host_traddr '%s' is not an IPv4 or IPv6 address",
				   host);
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}
