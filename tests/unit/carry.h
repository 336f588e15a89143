/* SPDX-License-Identifier: BSD-3-Clause */
/* What a SEND carries, as the queue floor writes it. */
#ifndef NVMFR_TESTS_CARRY_H
#define NVMFR_TESTS_CARRY_H

#include <string.h>

#include "fabric/fabric.h"

static inline void put_carry(const struct fab_ep *ep, uint32_t position, const struct fab_carry *carry)
{
	unsigned char *send = ep->sends + position * sizeof(struct fab_send);
	const uint32_t pieces = 2;

	memcpy(send + offsetof(struct fab_send, carry), carry, sizeof(*carry));
	memcpy(send + offsetof(struct fab_send, pieces), &pieces, sizeof(pieces));
}

#endif
