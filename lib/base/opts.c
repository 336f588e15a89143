/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/opts.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

void nvmfr__opts_init(void *dst, size_t given, const void *defaults, size_t known)
{
	if (!dst || given < sizeof(given))
		return;
	memset(dst, 0, given);
	memcpy(dst, defaults, MIN(known, given));
	memcpy(dst, &given, sizeof(given));
}

int nvmfr__opts_import(void *dst, size_t known, const void *src, size_t given)
{
	const unsigned char *tail = src;

	if (given < sizeof(size_t))
		return nvmfr__fail(-EINVAL,
				   "options: size is %zu, less than its own %zu bytes; "
				   "fill the struct with its _init function first",
				   given, sizeof(size_t));
	for (size_t i = known; i < given; i++)
		if (tail[i] != 0)
			return nvmfr__fail(-E2BIG,
					   "options: byte %zu is set, this library knows only %zu "
					   "bytes; use a library as new as the header",
					   i, known);
	memcpy(dst, src, MIN(known, given));
	memcpy(dst, &known, sizeof(known));
	return 0;
}

void nvmfr__opts_export(void *dst, size_t given, const void *src, size_t known)
{
	const size_t head = sizeof(size_t);
	size_t common = MIN(given, known);

	if (given <= head)
		return;
	memset((unsigned char *)dst + head, 0, given - head);
	if (common > head)
		memcpy((unsigned char *)dst + head, (const unsigned char *)src + head,
		       common - head);
}
