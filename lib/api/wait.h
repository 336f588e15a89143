/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll a little, then arm and sleep: the loop behind nvmfr_wait(). */
#ifndef NVMFR_API_WAIT_H
#define NVMFR_API_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <nvmfr/nvmfr.h>

#include "base/pace.h"

/* What completions come from, and how it is slept on. */
struct wait_source {
	struct nvmfr_host *host;
	void *object;
	struct wait_pace *pace; /* the object's own, kept from wait to wait */
	int (*poll)(void *object, struct nvmfr_completion *out, unsigned int max);
	int (*fd)(void *object);
	int (*arm)(void *object); /* as nvmfr_qpair_arm() */
	/* Whether a completion, or an end, is still to come: in flight, or not live. */
	bool (*pending)(void *object);
	uint64_t (*due_ns)(void *object); /* virtual time: when the next response is due; UINT64_MAX */
};

/* out, min and max as nvmfr_wait() takes them; what the sentence calls the object comes from the caller. */
int nvmfr__wait_check(const struct nvmfr_completion *out, unsigned int min, unsigned int max);

int nvmfr__wait(const struct wait_source *source, struct nvmfr_completion *out, unsigned int min,
		unsigned int max, int timeout_ms);

/* The same for those who wait again and again within one time. A negative timeout: UINT64_MAX, never. */
uint64_t nvmfr__wait_deadline(const struct wait_source *source, int timeout_ms);
int nvmfr__wait_until(const struct wait_source *source, struct nvmfr_completion *out,
		      unsigned int min, unsigned int max, uint64_t deadline);

#endif
