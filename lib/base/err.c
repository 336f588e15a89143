/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

/*
 * The words describe what the API means by a code, which is narrower than what the C library
 * says.
 */
#define ERRNO_WORDS(X) \
	X(0, "success") \
	X(E2BIG, "an options struct has fields set that this version does not know") \
	X(EACCES, "refused by authentication or access control") \
	X(EADDRINUSE, "address already in use") \
	X(EADDRNOTAVAIL, "address not available on this machine") \
	X(EAGAIN, "no room now, poll first") \
	X(EALREADY, "already under way") \
	X(EBUSY, "still in use") \
	X(ECANCELED, "cancelled") \
	X(ECONNABORTED, "in flight when the association died, outcome unknown") \
	X(ECONNREFUSED, "connection refused by the peer") \
	X(ECONNRESET, "connection closed by the peer") \
	X(EEXIST, "exists already") \
	X(EFAULT, "memory address not usable") \
	X(EHOSTUNREACH, "no route to the host") \
	X(EINPROGRESS, "in progress") \
	X(EINVAL, "invalid argument") \
	X(EIO, "input/output error") \
	X(EMSGSIZE, "message too long") \
	X(ENETUNREACH, "network unreachable") \
	X(ENODEV, "no such device") \
	X(ENOENT, "no such object") \
	X(ENOMEM, "out of memory, or locked-memory limit reached") \
	X(ENOSPC, "no space left") \
	X(ENOTCONN, "connection lost for good") \
	X(EOPNOTSUPP, "not supported") \
	X(EOWNERDEAD, "handle inherited over fork") \
	X(EPERM, "operation not permitted") \
	X(EPROTO, "the peer broke the protocol") \
	X(ERANGE, "out of range") \
	X(EREMOTEIO, "the controller reported an error, see the NVMe status") \
	X(ESTALE, "another object has this name now") \
	X(ETIMEDOUT, "timed out")

static _Thread_local char sentence_buf[NVMFR__ERR_BYTES];

static void store(const char *text, size_t used)
{
	memcpy(sentence_buf, text, used + 1);
}

static __attribute__((format(printf, 2, 0))) size_t format_text(char *text, const char *fmt,
								va_list args)
{
	int n = vsnprintf(text, NVMFR__ERR_BYTES, fmt, args);

	if (n < 0) {
		text[0] = '\0';
		return 0;
	}
	return MIN((size_t)n, (size_t)NVMFR__ERR_BYTES - 1);
}

int nvmfr__fail(int err, const char *fmt, ...)
{
	char text[NVMFR__ERR_BYTES];
	va_list args;
	size_t used;

	va_start(args, fmt);
	used = format_text(text, fmt, args);
	va_end(args);
	store(text, used);
	return err;
}

int nvmfr__fail_wrap(int err, const char *fmt, ...)
{
	const char *inner = sentence_buf[0] ? sentence_buf : nvmfr__strerror(err);
	char text[NVMFR__ERR_BYTES];
	va_list args;
	size_t used;

	va_start(args, fmt);
	used = format_text(text, fmt, args);
	va_end(args);

	for (const char *p = ": "; *p && used < sizeof(text) - 1; p++)
		text[used++] = *p;
	for (; *inner && used < sizeof(text) - 1; inner++)
		text[used++] = *inner;
	text[used] = '\0';
	store(text, used);
	return err;
}

void nvmfr__err_set(const char *sentence)
{
	size_t used;

	if (!sentence) {
		nvmfr__err_clear();
		return;
	}
	used = strnlen(sentence, NVMFR__ERR_BYTES - 1);
	memmove(sentence_buf, sentence, used);
	sentence_buf[used] = '\0';
}

const char *nvmfr__err_get(void)
{
	return sentence_buf;
}

void nvmfr__err_clear(void)
{
	sentence_buf[0] = '\0';
}

const char *nvmfr__strerror(int err)
{
#define WORDS_ROW(code, text) { code, text },
	static const struct {
		int code;
		const char *text;
	} words[] = { ERRNO_WORDS(WORDS_ROW) };
#undef WORDS_ROW
	int code = err < 0 && err != INT_MIN ? -err : err;
	const char *text;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].code == code)
			return words[i].text;
	text = strerrordesc_np(code);
	return text ? text : "unknown error";
}
