/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/cm.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

struct nvme_cm_request nvme_cm_request(uint16_t qid, uint16_t depth, uint16_t cntlid)
{
	return (struct nvme_cm_request){
		.qid = to_le16(qid),
		.hrqsize = to_le16((uint16_t)(depth + 1)),
		.hsqsize = to_le16(depth),
		.cntlid = to_le16(cntlid),
	};
}

struct nvme_cm_accept nvme_cm_accept(uint16_t crqsize)
{
	return (struct nvme_cm_accept){ .crqsize = to_le16(crqsize) };
}

struct nvme_cm_reject nvme_cm_reject(uint16_t sts)
{
	return (struct nvme_cm_reject){ .sts = to_le16(sts) };
}

/* Every message starts with RECFMT; the CM may pad what follows, never shorten it. */
static int copy_checked(const char *what, void *dst, size_t need, const void *data, size_t bytes)
{
	le16 recfmt;

	if (!data || bytes < need)
		return nvmfr__fail(-EPROTO, "rdma cm %s: %zu bytes of private data, %zu expected",
				   what, data ? bytes : 0, need);
	memcpy(&recfmt, data, sizeof(recfmt));
	if (from_le16(recfmt) != 0)
		return nvmfr__fail(-EOPNOTSUPP, "rdma cm %s: record format %u, only 0 is known",
				   what, from_le16(recfmt));
	memcpy(dst, data, need);
	return 0;
}

int nvme_parse_cm_request(const void *data, size_t bytes, struct cm_request *out)
{
	struct nvme_cm_request wire = { 0 };
	int err = copy_checked("request", &wire, sizeof(wire), data, bytes);

	if (err)
		return err;
	*out = (struct cm_request){
		.qid = from_le16(wire.qid),
		.hrqsize = from_le16(wire.hrqsize),
		.hsqsize = from_le16(wire.hsqsize),
		.cntlid = from_le16(wire.cntlid),
	};
	return 0;
}

int nvme_parse_cm_accept(const void *data, size_t bytes, uint16_t *crqsize)
{
	struct nvme_cm_accept wire = { 0 };
	int err = copy_checked("accept", &wire, sizeof(wire), data, bytes);

	if (!err)
		*crqsize = from_le16(wire.crqsize);
	return err;
}

int nvme_parse_cm_reject(const void *data, size_t bytes, uint16_t *sts)
{
	struct nvme_cm_reject wire = { 0 };
	int err = copy_checked("reject", &wire, sizeof(wire), data, bytes);

	if (!err)
		*sts = from_le16(wire.sts);
	return err;
}

const char *nvme_cm_status_name(uint16_t sts)
{
	static const char *const names[] = {
		[NVME_CM_INVALID_LENGTH] = "invalid private data length",
		[NVME_CM_INVALID_RECFMT] = "invalid record format",
		[NVME_CM_INVALID_QID] = "invalid queue ID",
		[NVME_CM_INVALID_HSQSIZE] = "invalid host send queue size",
		[NVME_CM_INVALID_HRQSIZE] = "invalid host receive queue size",
		[NVME_CM_NO_RESOURCES] = "no resources",
		[NVME_CM_INVALID_IRD] = "invalid inbound read depth",
		[NVME_CM_INVALID_ORD] = "invalid outbound read depth",
		[NVME_CM_INVALID_CNTLID] = "invalid controller ID",
	};

	if (sts >= ARRAY_SIZE(names) || !names[sts])
		return "unknown reject status";
	return names[sts];
}

bool nvme_cm_status_retryable(uint16_t sts)
{
	return sts == NVME_CM_NO_RESOURCES;
}

bool nvme_cm_status_retry_smaller(uint16_t sts)
{
	return sts == NVME_CM_INVALID_HSQSIZE || sts == NVME_CM_INVALID_HRQSIZE;
}
