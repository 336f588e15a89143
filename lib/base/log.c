/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void nvmfr__log(const struct nvmfr__log *log, int level, const char *fmt, ...)
{
	char msg[512];
	va_list args;
	int n;

	if (!log || !log->fn || level > log->level)
		return;
	va_start(args, fmt);
	n = vsnprintf(msg, sizeof(msg), fmt, args);
	va_end(args);
	if (n >= 0)
		log->fn(log->arg, level, msg);
}
