/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll a little, then arm and sleep: the loop behind nvmfr_wait(). */
#ifndef NVMFR_API_WAIT_H
#define NVMFR_API_WAIT_H

#include <stdint.h>

#include <nvmfr/nvmfr.h>

/* What completions come from, and how it is slept on. */
struct wait_source {
	struct nvmfr_host *host;
	void *object;
	int (*poll)(void *object, struct nvmfr_completion *out, unsigned int max);
	int (*fd)(void *object);
	int (*arm)(void *object); /* as nvmfr_qpair_arm() */
	uint64_t (*due_ns)(void *object); /* virtual time: when the next response is due; UINT64_MAX */
};

/* out, min and max as nvmfr_wait() takes them; what the sentence calls the object comes from the caller. */
int nvmfr__wait_check(const struct nvmfr_completion *out, unsigned int min, unsigned int max);

int nvmfr__wait(const struct wait_source *source, struct nvmfr_completion *out, unsigned int min,
		unsigned int max, int timeout_ms);

#endif
