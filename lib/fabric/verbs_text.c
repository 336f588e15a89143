/* SPDX-License-Identifier: BSD-3-Clause */
/* Causes in words: what the connection manager and failed WCs mean, and what to do. */
#include "fabric/verbs.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"

/* status: a negative errno from address resolution. */
int nvmfr__verbs_addr_text(char *text, size_t bytes, int status, const struct verbs_ep *ep)
{
	const char *peer = ep->base.peer, *cause = nvmfr__strerror(status);

	switch (-status) {
	case ENODEV:
		cause = "no RDMA device leads there: give the interface that does a RoCE device or an address"
			" (see nvmfr_probe)";
		break;
	case EADDRNOTAVAIL:
		cause = "the source address is not an address of an RDMA device of this machine";
		break;
	case ENETUNREACH:
	case EHOSTUNREACH: cause = "no network route to it"; break;
	case ETIMEDOUT:
		cause = "its link address was not found: the host is down or on another network";
		break;
	case EADDRINUSE: cause = "the source address is taken"; break;
	default: break;
	}
	snprintf(text, bytes, "%s: address not resolved: %s", peer, cause);
	return status < 0 ? status : -EHOSTUNREACH;
}

/* InfiniBand Architecture, volume 1, Communication Management: reasons of a REJ message. */
enum rej_reason {
	REJ_NO_QP = 1,
	REJ_NO_RESOURCES = 3,
	REJ_TIMEOUT = 4,
	REJ_INVALID_SERVICE_ID = 8,
	REJ_STALE = 10,
	REJ_CONSUMER = 28,
};

static int consumer_text(struct fab_event *ev, const void *data, size_t bytes, const char *peer)
{
	uint16_t status = 0;

	/* a consumer that gives no reason sends zeroes, which are no reject record */
	if (nvme_parse_cm_reject(data, bytes, &status) || !status) {
		snprintf(ev->text, sizeof(ev->text), "%s: rejected without a reason", peer);
		return -ECONNREFUSED;
	}
	ev->reject_status = status;
	ev->retryable = nvme_cm_status_retryable(status);
	snprintf(ev->text, sizeof(ev->text), "%s: rejected: %s (status %u)", peer,
		 nvme_cm_status_name(status), status);
	return -ECONNREFUSED;
}

/* status: a reason of InfiniBand's, or an iWARP device's negative errno. */
int nvmfr__verbs_reject_text(struct fab_event *ev, int status, const void *data, size_t bytes,
			     const struct verbs_ep *ep)
{
	const char *peer = ep->base.peer;
	char *text = ev->text;
	const size_t room = sizeof(ev->text);

	switch (status) {
	case REJ_INVALID_SERVICE_ID:
	case -ECONNREFUSED:
		snprintf(text, room, "nothing listens at %s", peer);
		return -ECONNREFUSED;
	case REJ_STALE:
		ev->retryable = true;
		snprintf(text, room,
			 "%s: rejected: the peer still holds a connection that this machine left",
			 peer);
		return -ECONNREFUSED;
	case REJ_NO_QP:
	case REJ_NO_RESOURCES:
		ev->retryable = true;
		snprintf(text, room,
			 "%s: rejected: the peer has no resources for another connection", peer);
		return -ECONNREFUSED;
	case REJ_TIMEOUT:
		ev->retryable = true;
		snprintf(text, room, "%s: the connect handshake took too long", peer);
		return -ETIMEDOUT;
	case REJ_CONSUMER: return consumer_text(ev, data, bytes, peer);
	default:
		snprintf(text, room, "%s: rejected by its connection manager, reason %d", peer,
			 status);
		return -ECONNREFUSED;
	}
}

const char *nvmfr__verbs_wc_hint(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR: return "the peer or the path to it is dead";
	case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer takes fewer commands than it granted";
	case IBV_WC_LOC_LEN_ERR: return "the peer sent more than the 16 bytes of a response";
	case IBV_WC_LOC_PROT_ERR:
		return "memory that a command sent is not registered, or was unmapped";
	case IBV_WC_REM_INV_REQ_ERR: return "the peer found the capsule too long";
	case IBV_WC_REM_ACCESS_ERR: return "the peer refused access to its memory";
	case IBV_WC_REM_OP_ERR: return "the peer could not take the command";
	case IBV_WC_FATAL_ERR:
	case IBV_WC_LOC_QP_OP_ERR: return "the device failed";
	default: return "the connection is lost";
	}
}
