/* SPDX-License-Identifier: BSD-3-Clause */
/* Instead of perf_compare.c where there is no library that reads JSON. */
#include "perf.h"

int perf_compare(const char *a, const char *b)
{
	(void)a;
	(void)b;
	fprintf(stderr, "nvmfr-perf: --compare: built without Jansson, which reads the files (Debian: "
			"libjansson-dev; then meson configure -Djson=enabled)\n");
	return 1;
}
