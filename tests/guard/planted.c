/* SPDX-License-Identifier: BSD-3-Clause */
/* planted leak|race|overflow: a defect that each sanitizer stage has to catch. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10000 };

static unsigned int shared;

static void *count_up(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++)
		shared++;
	return NULL;
}

static int race(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, count_up, NULL))
		return 1;
	count_up(NULL);
	pthread_join(thread, NULL);
	printf("%u\n", shared);
	return 0;
}

static int leak(void)
{
	void *volatile lost = malloc(100);

	printf("%d\n", lost != NULL);
	lost = NULL;
	return 0;
}

static int overflow(void)
{
	volatile size_t past = 16;
	unsigned char *bytes = calloc(1, past);

	if (!bytes)
		return 1;
	bytes[past] = 1;
	printf("%u\n", bytes[past]);
	free(bytes);
	return 0;
}

int main(int argc, char **argv)
{
	const char *defect = argc == 2 ? argv[1] : "";

	if (!strcmp(defect, "leak"))
		return leak();
	if (!strcmp(defect, "race"))
		return race();
	return !strcmp(defect, "overflow") ? overflow() : 2;
}
