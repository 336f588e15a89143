/* SPDX-License-Identifier: BSD-3-Clause */
/* What a WC says, for the two that poll CQs: verbs_data.c and verbs_group.c. */
#ifndef NVMFR_FABRIC_VERBS_WC_H
#define NVMFR_FABRIC_VERBS_WC_H

#include <string.h>

#include "fabric/verbs.h"

/* Status and opcode of a WC lie side by side: one comparison tells a good response from all else. */
struct wc_kind {
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
};

_Static_assert(offsetof(struct ibv_wc, opcode) == offsetof(struct ibv_wc, status) + 4,
	       "side by side");
_Static_assert(sizeof(struct wc_kind) == sizeof(uint64_t), "one word");

static inline uint64_t wc_kind(const struct ibv_wc *wc)
{
	uint64_t kind;

	memcpy(&kind, (const char *)wc + offsetof(struct ibv_wc, status), sizeof(kind));
	return kind;
}

static inline uint64_t good_kind(enum ibv_wc_opcode opcode)
{
	const struct wc_kind want = { IBV_WC_SUCCESS, opcode };
	uint64_t kind;

	memcpy(&kind, &want, sizeof(kind));
	return kind;
}

static inline bool is_response(const struct ibv_wc *wc)
{
	return likely(wc_kind(wc) == good_kind(IBV_WC_RECV)) &&
	       likely(wc->byte_len == FAB_RESPONSE_BYTES);
}

static inline bool is_send(const struct ibv_wc *wc)
{
	return wc_kind(wc) == good_kind(IBV_WC_SEND);
}

/* SENDs complete in order: all positions up to the newest are done, signaled or not. At the ring's end
 * send_done stays send_positions, which the next sum takes like 0. */
static inline uint64_t take_sends(struct verbs_ep *ep, uint32_t newest)
{
	uint32_t next = newest + 1, done = next - ep->send_done;

	if (unlikely(next <= ep->send_done))
		done += ep->base.send_positions;
	ep->send_done = next;
	return (uint64_t)done << 16;
}

#endif
