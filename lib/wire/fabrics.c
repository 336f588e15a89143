/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/fabrics.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "wire/nqn.h"

/* Property Get and Set, ATTRIB: bits 2:0 size of the property. */
enum {
	ATTRIB_4_BYTES = 0,
	ATTRIB_8_BYTES = 1,
};

static void fabrics_init(struct nvme_sqe *sqe, uint8_t fctype)
{
	nvme_sqe_init(sqe, NVME_FABRICS_OPCODE);
	sqe->nsid = to_le32(fctype);
}

void nvme_sqe_connect(struct nvme_sqe *sqe, uint16_t qid, uint16_t sqsize, uint8_t cattr,
		      uint32_t kato_ms)
{
	fabrics_init(sqe, NVME_FCTYPE_CONNECT);
	/* Bytes 41:40 RECFMT (0), 43:42 QID, 45:44 SQSIZE, 46 CATTR, 51:48 KATO. */
	sqe->cdw10 = to_le32((uint32_t)qid << 16);
	sqe->cdw11 = to_le32((uint32_t)cattr << 16 | sqsize);
	/* KATO is reserved on I/O queues. */
	sqe->cdw12 = to_le32(qid == 0 ? kato_ms : 0);
}

void nvme_sqe_property_get(struct nvme_sqe *sqe, uint32_t offset, bool eight_bytes)
{
	fabrics_init(sqe, NVME_FCTYPE_PROPERTY_GET);
	sqe->cdw10 = to_le32(eight_bytes ? ATTRIB_8_BYTES : ATTRIB_4_BYTES);
	sqe->cdw11 = to_le32(offset);
}

void nvme_sqe_property_set(struct nvme_sqe *sqe, uint32_t offset, bool eight_bytes, uint64_t value)
{
	fabrics_init(sqe, NVME_FCTYPE_PROPERTY_SET);
	sqe->cdw10 = to_le32(eight_bytes ? ATTRIB_8_BYTES : ATTRIB_4_BYTES);
	sqe->cdw11 = to_le32(offset);
	/* Bytes 55:48 VALUE; the upper half is reserved for a property of 4 bytes. */
	sqe->cdw12 = to_le32((uint32_t)value);
	sqe->cdw13 = to_le32(eight_bytes ? (uint32_t)(value >> 32) : 0);
}

void nvme_sqe_disconnect(struct nvme_sqe *sqe)
{
	fabrics_init(sqe, NVME_FCTYPE_DISCONNECT);
}

int nvme_connect_data_init(struct nvme_connect_data *data, const uint8_t hostid[16],
			   uint16_t cntlid, const char *subnqn, const char *hostnqn)
{
	int err = nvme_nqn_check("subnqn", subnqn);

	if (!err)
		err = nvme_nqn_check("hostnqn", hostnqn);
	if (err)
		return err;
	if (nvme_hostid_is_zero(hostid))
		return nvmfr__fail(-EINVAL, "hostid: all zero, which targets refuse; "
					    "set one or leave it to be derived from the host NQN");
	/* Targets compare the whole fields: every byte behind a name must be zero. */
	*data = (struct nvme_connect_data){ .cntlid = to_le16(cntlid) };
	memcpy(data->hostid, hostid, sizeof(data->hostid));
	memcpy(data->subnqn, subnqn, strlen(subnqn));
	memcpy(data->hostnqn, hostnqn, strlen(hostnqn));
	return 0;
}

uint32_t nvme_cc_enable(uint64_t cap)
{
	uint32_t css = NVME_CC_CSS_NVM;
	uint8_t offered = nvme_cap_css(cap);

	if (offered & NVME_CAP_CSS_IO_SETS)
		css = NVME_CC_CSS_IO_SETS;
	else if (offered & NVME_CAP_CSS_ADMIN_ONLY && !(offered & NVME_CAP_CSS_NVM))
		css = NVME_CC_CSS_ADMIN_ONLY;
	return NVME_CC_EN | css | (uint32_t)nvme_cap_mpsmin(cap) << NVME_CC_MPS_SHIFT |
	       NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16;
}
