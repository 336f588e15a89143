/* SPDX-License-Identifier: BSD-3-Clause */
/* no_syscall [uri [group]]: no system call between submit and completion, in 100,000 I/Os and 500 long ones. */
#include <stdio.h>

#include "forbid.h"
#include "soft_io.h"

enum { READS = 50000, WRITES = 10000, LONG_READS = 250 };

static const char *uri;
static bool grouped;
static struct soft_io s;

static void open_target(void)
{
	soft_io_open(&s, uri, grouped);
}

static int run(void)
{
	int err = soft_io_run(&s, SOFT_READ, READS);

	if (!err)
		err = soft_io_run(&s, SOFT_WRITE, WRITES);
	if (!err)
		err = soft_io_run(&s, SOFT_READ_VEC, WRITES);
	return err ? err : soft_io_run(&s, SOFT_READ_LONG, LONG_READS);
}

int main(int argc, char **argv)
{
	uri = argc > 1 ? argv[1] : SOFT_IO_URI;
	grouped = argc > 2;
	printf("%s: reads, writes, vectored and long reads\n", uri);
	fflush(stdout);
	return nvmfr__forbid_system_calls(open_target, run);
}
