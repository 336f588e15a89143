/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_DISCOVERY_H
#define NVMFR_WIRE_DISCOVERY_H

#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

struct nvme_discovery_header {
	le64 genctr;
	le64 numrec;
	le16 recfmt;
	uint8_t rsvd18[1006];
};

struct nvme_discovery_record {
	uint8_t trtype;
	uint8_t adrfam;
	uint8_t subtype;
	uint8_t treq;
	le16 portid;
	le16 cntlid;
	le16 asqsz;
	le16 eflags;
	uint8_t rsvd12[20];
	char trsvcid[32];
	uint8_t rsvd64[192];
	char subnqn[256];
	char traddr[256];
	uint8_t tsas[256];
};

_Static_assert(sizeof(struct nvme_discovery_header) == 1024, "discovery log header");
_Static_assert(offsetof(struct nvme_discovery_header, recfmt) == 16, "RECFMT");
_Static_assert(sizeof(struct nvme_discovery_record) == 1024, "discovery log entry");
_Static_assert(offsetof(struct nvme_discovery_record, portid) == 4, "PORTID");
_Static_assert(offsetof(struct nvme_discovery_record, eflags) == 10, "EFLAGS");
_Static_assert(offsetof(struct nvme_discovery_record, trsvcid) == 32, "TRSVCID");
_Static_assert(offsetof(struct nvme_discovery_record, subnqn) == 256, "SUBNQN");
_Static_assert(offsetof(struct nvme_discovery_record, traddr) == 512, "TRADDR");
_Static_assert(offsetof(struct nvme_discovery_record, tsas) == 768, "TSAS");

enum nvme_trtype {
	NVME_TRTYPE_RDMA = 1,
	NVME_TRTYPE_FC = 2,
	NVME_TRTYPE_TCP = 3,
	NVME_TRTYPE_LOOP = 254,
};

enum nvme_adrfam {
	NVME_ADRFAM_NONE = 0,
	NVME_ADRFAM_IPV4 = 1,
	NVME_ADRFAM_IPV6 = 2,
	NVME_ADRFAM_IB = 3,
	NVME_ADRFAM_FC = 4,
	NVME_ADRFAM_LOOP = 254,
};

enum nvme_disc_subtype {
	NVME_DISC_REFERRAL = 1,
	NVME_DISC_NVM = 2,
	NVME_DISC_CURRENT = 3,
};

struct discovery_header {
	uint64_t genctr;
	uint64_t numrec; /* what the peer says: the caller bounds it */
};

struct discovery_record {
	uint8_t trtype;
	uint8_t adrfam;
	uint8_t subtype;
	uint8_t treq;
	uint16_t portid;
	uint16_t cntlid;
	uint16_t asqsz;
	uint16_t eflags;
	char trsvcid[33];
	char traddr[257];
	char subnqn[224];
};

/* -EPROTO when shorter than 1,024 bytes, -EOPNOTSUPP for a record format other than 0. */
int nvme_parse_discovery_header(const void *data, size_t bytes, struct discovery_header *out);

/*
 * One entry of 1,024 bytes. Strings end at the first NUL and lose the blanks around them. An
 * entry of an unknown kind gives -EOPNOTSUPP, a malformed one -EPROTO: the caller skips both.
 */
int nvme_parse_discovery_record(const void *data, size_t bytes, struct discovery_record *out);

#endif
