/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_BASE_THREAD_H
#define NVMFR_BASE_THREAD_H

#include <pthread.h>

/*
 * A thread of the library's. It takes no signal: those are the application's own threads' business.
 * 0, or pthread_create()'s errno, negative; too many threads (its EAGAIN) is -ENOMEM, since nothing of
 * ours will be otherwise if the caller tries again.
 */
int nvmfr__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
