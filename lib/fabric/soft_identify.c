/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify pages, from the target's options and namespaces. */
#include "fabric/soft.h"

#include <stdio.h>
#include <string.h>

#include "wire/admin.h"
#include "wire/discovery.h"

/* ASCII, blanks behind it, no NUL. */
static void put_text(char *field, size_t bytes, const char *text)
{
	size_t used = strnlen(text, bytes);

	memset(field, ' ', bytes);
	memcpy(field, text, used);
}

/* Stable for a subsystem: names are made from its NQN (FNV-1a). */
static uint64_t hash_name(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash;
}

static void put_limits(const struct nvmfr_soft_opts *opts, struct nvme_id_ctrl *id)
{
	id->mdts = opts->mdts;
	id->oaes = to_le32(opts->oaes);
	id->kas = to_le16(opts->kas);
	id->maxcmd = to_le16(opts->maxcmd);
	id->nn = to_le32(opts->nn);
	id->oncs = to_le16(opts->oncs);
	if (opts->oncs & NVME_ONCS_COMPARE)
		id->fuses = to_le16(NVME_FUSES_COMPARE_AND_WRITE);
	id->acwu = to_le16(UINT16_MAX);
	id->sgls = to_le32(opts->sgls);
	id->ioccsz = to_le32(opts->ioccsz);
	id->iorcsz = to_le32(opts->iorcsz);
	id->icdoff = to_le16(opts->icdoff);
	id->msdbd = opts->msdbd;
}

/* All five states are reported; a namespace stays in its group. */
static void put_ana(const struct nvmfr_soft_opts *opts, struct nvme_id_ctrl *id)
{
	id->cmic |= NVME_CMIC_ANA;
	id->anatt = opts->anatt;
	id->anacap = 0x5f;
	id->anagrpmax = to_le32(opts->ana_groups);
	id->nanagrpid = to_le32(opts->ana_groups);
}

static void identify_ctrl(const struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl,
			  unsigned char *page)
{
	struct nvme_id_ctrl id = {
		.cmic = NVME_CMIC_MULTI_CTRL,
		.cntlid = to_le16(ctrl->cntlid),
		.ver = to_le32(SOFT_VERSION),
		.ctratt = to_le32(NVME_CTRATT_HOSTID_128 |
				  (target->opts.flags & NVMFR_SOFT_TBKAS ? NVME_CTRATT_TBKAS : 0)),
		.cntrltype = ctrl->discovery ? NVME_CNTRLTYPE_DISCOVERY : NVME_CNTRLTYPE_IO,
		.acl = 3,
		.aerl = SOFT_AERS - 1,
		.lpa = NVME_LPA_EXTENDED | (ctrl->discovery ? 0 : NVME_LPA_EFFECTS),
		.sqes = 0x66,
		.cqes = 0x44,
		.vwc = NVME_VWC_PRESENT | 3 << 1, /* Flush takes NSID FFFFFFFFh */
		.ofcs = to_le16(NVME_OFCS_DISCONNECT),
	};
	char serial[21];

	snprintf(serial, sizeof(serial), "%016llx", (unsigned long long)hash_name(target->subnqn));
	put_text(id.sn, sizeof(id.sn), serial);
	put_text(id.mn, sizeof(id.mn), "nvmfr soft target");
	put_text(id.fr, sizeof(id.fr), "1");
	put_limits(&target->opts, &id);
	if (target->opts.ana_groups)
		put_ana(&target->opts, &id);
	if (ctrl->discovery)
		memcpy(id.subnqn, NVME_DISCOVERY_NQN, sizeof(NVME_DISCOVERY_NQN));
	else
		memcpy(id.subnqn, target->subnqn, sizeof(target->subnqn));
	memcpy(page, &id, sizeof(id));
}

static void put_be64(unsigned char *out, uint64_t value)
{
	for (int i = 7; i >= 0; i--, value >>= 8)
		out[i] = (unsigned char)value;
}

static void make_nguid(const struct nvmfr_soft_target *target, uint32_t nsid, uint8_t nguid[16])
{
	put_be64(nguid, nsid);
	put_be64(nguid + 8, hash_name(target->subnqn));
}

static void make_uuid(const struct nvmfr_soft_target *target, uint32_t nsid, uint8_t uuid[16])
{
	put_be64(uuid, hash_name(target->subnqn));
	put_be64(uuid + 8, nsid);
	uuid[6] = (uint8_t)(0x80 | (uuid[6] & 0x0f)); /* version 8: made up by its own rule */
	uuid[8] = (uint8_t)(0x80 | (uuid[8] & 0x3f));
}

/* An inactive namespace's page is all zero (CNS 00h). */
static uint16_t identify_ns(struct nvmfr_soft_target *target, uint32_t nsid, unsigned char *page)
{
	const struct soft_ns *ns = nvmfr__soft_ns_find(target, nsid);
	struct nvme_id_ns id = { .nlbaf = 0 };

	if (nsid == 0 || nsid > target->opts.nn)
		return NVME_ST_INVALID_NAMESPACE;
	if (!ns)
		return NVME_ST_SUCCESS;
	id.nsze = id.ncap = id.nuse = to_le64(ns->blocks);
	id.nmic = NVME_NMIC_SHARED;
	id.dlfeat = NVME_DLFEAT_ZEROES;
	id.mssrl = to_le16(SOFT_COPY_RANGE_BLOCKS);
	id.mcl = to_le32(SOFT_COPY_BLOCKS);
	id.msrc = SOFT_COPY_RANGES - 1;
	id.anagrpid = to_le32(target->opts.ana_groups ? ns->ana_group : 0);
	id.lbaf[0].lbads = (uint8_t)ns->shift;
	if (target->opts.oncs & NVME_ONCS_RESERVATIONS)
		id.rescap = NVME_RESCAP_TYPES | NVME_RESCAP_IEKEY_13;
	id.nsattr = ns->read_only ? NVME_NSATTR_WRITE_PROTECTED : 0;
	make_nguid(target, nsid, id.nguid);
	memcpy(page, &id, sizeof(id));
	return NVME_ST_SUCCESS;
}

static uint16_t identify_list(struct nvmfr_soft_target *target, uint32_t after, unsigned char *page)
{
	const struct soft_ns_table *table = atomic_load(&target->namespaces);
	uint32_t used = 0;

	if (after >= UINT32_MAX - 1)
		return NVME_ST_INVALID_NAMESPACE;
	for (uint32_t i = 0; i < table->count && used < NVME_ACTIVE_LIST_ENTRIES; i++) {
		le32 nsid = to_le32(table->ns[i]->nsid);

		if (table->ns[i]->nsid > after)
			memcpy(page + used++ * sizeof(nsid), &nsid, sizeof(nsid));
	}
	return NVME_ST_SUCCESS;
}

static unsigned char *put_desc(unsigned char *at, uint8_t type, const uint8_t *bytes, uint8_t len)
{
	struct nvme_ns_desc desc = { .nidt = type, .nidl = len };

	memcpy(at, &desc, sizeof(desc));
	memcpy(at + sizeof(desc), bytes, len);
	return at + sizeof(desc) + len;
}

static uint16_t identify_descs(struct nvmfr_soft_target *target, uint32_t nsid, unsigned char *page)
{
	uint8_t id[16];

	if (!nvmfr__soft_ns_find(target, nsid))
		return NVME_ST_INVALID_NAMESPACE;
	make_nguid(target, nsid, id);
	page = put_desc(page, NVME_NIDT_NGUID, id, sizeof(id));
	make_uuid(target, nsid, id);
	put_desc(page, NVME_NIDT_UUID, id, sizeof(id));
	return NVME_ST_SUCCESS;
}

uint16_t nvmfr__soft_identify(struct nvmfr_soft_target *target, const struct soft_ctrl *ctrl,
			      uint32_t cns, uint32_t nsid, unsigned char *page)
{
	uint16_t status = NVME_ST_SUCCESS;

	if (ctrl->discovery && cns != NVME_CNS_CTRL)
		return NVME_ST_INVALID_FIELD;
	switch (cns) {
	case NVME_CNS_NS:
		status = identify_ns(target, nsid, page);
		break;
	case NVME_CNS_CTRL:
		identify_ctrl(target, ctrl, page);
		break;
	case NVME_CNS_ACTIVE_LIST:
		status = identify_list(target, nsid, page);
		break;
	case NVME_CNS_NS_DESCS:
		status = identify_descs(target, nsid, page);
		break;
	case NVME_CNS_IO_SET_CTRL:
		break; /* all zero: no limits of its own */
	default:
		return NVME_ST_INVALID_FIELD;
	}
	if (status == NVME_ST_SUCCESS)
		nvmfr__soft_patch_apply(target, cns, nsid, page);
	return status;
}
