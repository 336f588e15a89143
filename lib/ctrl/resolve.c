/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct resolve {
	struct gaicb request;
	struct addrinfo hints;
	struct addrinfo *numeric;
	char host[256], port[16];
};

static int cannot(const char *host, int code)
{
	return nvmfr__fail(-EHOSTUNREACH, "address '%s' cannot be resolved: %s", host,
			   gai_strerror(code));
}

int nvmfr__resolve_start(const char *host, const char *port, struct resolve **out)
{
	struct resolve *r = calloc(1, sizeof(*r));
	struct sigevent none = { .sigev_notify = SIGEV_NONE };
	struct gaicb *list[1];
	int code;

	*out = NULL;
	if (!r)
		return nvmfr__fail(-ENOMEM, "no memory to look '%s' up", host);
	strncpy(r->host, host, sizeof(r->host) - 1);
	strncpy(r->port, port, sizeof(r->port) - 1);
	r->hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM,
				      .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	code = getaddrinfo(r->host, r->port, &r->hints, &r->numeric);
	if (code == EAI_NONAME) {
		r->hints.ai_flags = AI_NUMERICSERV;
		r->request = (struct gaicb){ .ar_name = r->host,
					     .ar_service = r->port,
					     .ar_request = &r->hints };
		list[0] = &r->request;
		code = getaddrinfo_a(GAI_NOWAIT, list, 1, &none);
	}
	if (code) {
		free(r);
		return cannot(host, code);
	}
	*out = r;
	return 0;
}

int nvmfr__resolve_poll(struct resolve **resolve, struct sockaddr_storage *out)
{
	struct resolve *r = *resolve;
	const struct addrinfo *found = r->numeric;

	if (!found) {
		int code = gai_error(&r->request);

		if (code == EAI_INPROGRESS)
			return 0;
		if (code) {
			code = cannot(r->host, code);
			nvmfr__resolve_end(resolve);
			return code;
		}
		found = r->request.ar_result;
	}
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	nvmfr__resolve_end(resolve);
	return 1;
}

void nvmfr__resolve_end(struct resolve **resolve)
{
	struct resolve *r = *resolve;

	*resolve = NULL;
	if (!r)
		return;
	if (r->numeric) {
		freeaddrinfo(r->numeric);
		free(r);
		return;
	}
	/* libc's thread still writes to it: it cannot be freed, and waiting has no bound. */
	if (gai_cancel(&r->request) == EAI_NOTCANCELED && gai_error(&r->request) == EAI_INPROGRESS)
		return;
	if (r->request.ar_result)
		freeaddrinfo(r->request.ar_result);
	free(r);
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
