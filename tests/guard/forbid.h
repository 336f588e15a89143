/* SPDX-License-Identifier: BSD-3-Clause */
/* A stretch of code that makes no system call, shown by a filter that ends the process at the first. */
#ifndef NVMFR_GUARD_FORBID_H
#define NVMFR_GUARD_FORBID_H

enum { FORBID_SKIPPED = 77 };

/*
 * In a child: open(), then the filter on this thread, then run() twice, which answers 0 when all went
 * well. A second child, with a system call planted between the two runs, has to die, or this guards
 * nothing. An exit status: FORBID_SKIPPED where there can be no filter.
 */
int nvmfr__forbid_system_calls(void (*open)(void), int (*run)(void));

#endif
