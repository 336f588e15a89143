/* SPDX-License-Identifier: BSD-3-Clause */
/* main() of a plain test program: runs every test, or those whose name contains argv[1]. */
#include "testing.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 120 };

static struct plain_test *first;
static struct plain_test **tail = &first;
static const char *running;
static int number;
static bool failed;               /* the one that runs */

void nvmfr__plain_add(struct plain_test *test)
{
	*tail = test;
	tail = &test->next;
}

static void report(void)
{
	printf("%s %d - %s\n", failed ? "not ok" : "ok", number, running);
}

void nvmfr__plain_check(const struct plain_place *place, int good, ...)
{
	const char *format;
	va_list args;

	if (good)
		return;
	/* Also from threads that a test started: no more than one line is written, once. */
	failed = true;
	printf("# %s:%d: not so: %s\n", place->file, place->line, place->text);
	va_start(args, good);
	format = va_arg(args, const char *);
	if (format) {
		printf("#   ");
		vprintf(format, args);
		printf("\n");
	}
	va_end(args);
	if (!place->fatal)
		return;
	report();
	exit(EXIT_FAILURE);
}

static void run(struct plain_test *test)
{
	running = test->name;
	failed = false;
	number++;
	alarm(test->timeout > 0 ? (unsigned int)test->timeout + 1 : DEFAULT_SECONDS);
	if (test->init)
		test->init();
	test->run();
	if (test->fini)
		test->fini();
	alarm(0);
	report();
}

static bool wanted(const struct plain_test *test, int argc, char **argv)
{
	return argc < 2 || strstr(test->name, argv[1]);
}

int main(int argc, char **argv)
{
	int count = 0, bad = 0;

	/* A test may fork: nothing of what was said so far is to be said again. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (struct plain_test *t = first; t; t = t->next)
		count += wanted(t, argc, argv);
	printf("1..%d\n", count);
	for (struct plain_test *t = first; t; t = t->next) {
		if (!wanted(t, argc, argv))
			continue;
		run(t);
		bad += failed;
	}
	return bad || !count ? EXIT_FAILURE : EXIT_SUCCESS;
}
