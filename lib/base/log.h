/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_LOG_H
#define NVMFR_BASE_LOG_H

/*
 * Values equal the public enum nvmfr_log_level; the names differ so that both headers can be
 * included.
 */
enum nvmfr__log_level {
	NVMFR__LOG_ERROR = 1,
	NVMFR__LOG_WARN = 2,
	NVMFR__LOG_INFO = 3,
	NVMFR__LOG_DEBUG = 4,
};

struct nvmfr__log {
	void (*fn)(void *arg, int level, const char *msg);
	void *arg;
	int level; /* the most talkative level that still reaches fn */
};

/* Never on the data path. Does nothing when log or its fn is NULL. */
void nvmfr__log(const struct nvmfr__log *log, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
