/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/discovery.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "wire/nqn.h"
#include "wire/text.h"

int nvme_parse_discovery_header(const void *data, size_t bytes, struct discovery_header *out)
{
	struct nvme_discovery_header wire;

	if (bytes < sizeof(wire))
		return nvmfr__fail(-EPROTO, "discovery log: %zu bytes, its header has %zu", bytes,
				   sizeof(wire));
	memcpy(&wire, data, sizeof(wire));
	if (from_le16(wire.recfmt) != 0)
		return nvmfr__fail(-EOPNOTSUPP, "discovery log: record format %u, only 0 is known",
				   from_le16(wire.recfmt));
	out->genctr = from_le64(wire.genctr);
	out->numrec = from_le64(wire.numrec);
	return 0;
}

static bool known_trtype(uint8_t trtype)
{
	return (trtype >= NVME_TRTYPE_RDMA && trtype <= NVME_TRTYPE_TCP) ||
	       trtype == NVME_TRTYPE_LOOP;
}

static bool known_adrfam(uint8_t adrfam)
{
	return adrfam <= NVME_ADRFAM_FC || adrfam == NVME_ADRFAM_LOOP;
}

static int check_kinds(const struct nvme_discovery_record *wire)
{
	if (!known_trtype(wire->trtype))
		return nvmfr__fail(-EOPNOTSUPP, "discovery entry: unknown transport type %u",
				   wire->trtype);
	if (!known_adrfam(wire->adrfam))
		return nvmfr__fail(-EOPNOTSUPP, "discovery entry: unknown address family %u",
				   wire->adrfam);
	if (wire->subtype < NVME_DISC_REFERRAL || wire->subtype > NVME_DISC_CURRENT)
		return nvmfr__fail(-EOPNOTSUPP, "discovery entry: unknown subsystem type %u",
				   wire->subtype);
	return 0;
}

static int copy_address(const char *what, char *dst, const char *src, size_t bytes)
{
	/* A byte that had to be replaced would make another address of it. */
	if (nvme_text_copy(dst, src, bytes))
		return nvmfr__fail(-EPROTO, "discovery entry: %s \"%s\" is not printable ASCII",
				   what, dst);
	return 0;
}

static int copy_strings(const struct nvme_discovery_record *wire, struct discovery_record *out)
{
	char subnqn[sizeof(wire->subnqn) + 1];
	size_t length = strnlen(wire->subnqn, sizeof(wire->subnqn));
	int err;

	err = copy_address("TRADDR", out->traddr, wire->traddr, sizeof(wire->traddr));
	if (!err)
		err = copy_address("TRSVCID", out->trsvcid, wire->trsvcid, sizeof(wire->trsvcid));
	if (err)
		return err;
	if (out->traddr[0] == '\0' && wire->trtype != NVME_TRTYPE_LOOP)
		return nvmfr__fail(-EPROTO, "discovery entry: TRADDR is empty");

	while (length > 0 && wire->subnqn[length - 1] == ' ')
		length--;
	memcpy(subnqn, wire->subnqn, length);
	subnqn[length] = '\0';
	err = nvme_nqn_check("discovery entry: SUBNQN", subnqn);
	if (err)
		return nvmfr__fail(-EPROTO, "%s", nvmfr__err_get());
	memcpy(out->subnqn, subnqn, length + 1);
	return 0;
}

int nvme_parse_discovery_record(const void *data, size_t bytes, struct discovery_record *out)
{
	struct nvme_discovery_record wire;
	int err;

	if (bytes < sizeof(wire))
		return nvmfr__fail(-EPROTO, "discovery entry: %zu bytes left, an entry has %zu",
				   bytes, sizeof(wire));
	memcpy(&wire, data, sizeof(wire));
	err = check_kinds(&wire);
	if (err)
		return err;
	*out = (struct discovery_record){
		.trtype = wire.trtype,
		.adrfam = wire.adrfam,
		.subtype = wire.subtype,
		.treq = wire.treq,
		.portid = from_le16(wire.portid),
		.cntlid = from_le16(wire.cntlid),
		.asqsz = from_le16(wire.asqsz),
		.eflags = from_le16(wire.eflags),
	};
	return copy_strings(&wire, out);
}
