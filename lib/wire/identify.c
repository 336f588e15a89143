/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/identify.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "wire/text.h"

#define LBA_SHIFT_MIN 9
#define LBA_SHIFT_MAX 16
#define PI_BYTES_MIN  8

/*
 * SQES and CQES: low nibble required, high nibble largest entry size; discovery controllers say
 * 0.
 */
static int check_entry_size(const char *what, uint8_t sizes, unsigned int shift)
{
	if (sizes != 0 && ((sizes & 0xfu) > shift || (sizes >> 4) < shift))
		return nvmfr__fail(-EPROTO,
				   "identify controller: %s 0x%02x excludes entries of %u bytes, "
				   "the only size fabrics have",
				   what, sizes, 1u << shift);
	return 0;
}

static void parse_ctrl_identity(const struct nvme_id_ctrl *id, struct ctrl_data *out)
{
	nvme_text_copy(out->sn, id->sn, sizeof(id->sn));
	nvme_text_copy(out->mn, id->mn, sizeof(id->mn));
	nvme_text_copy(out->fr, id->fr, sizeof(id->fr));
	nvme_text_copy(out->subnqn, id->subnqn, sizeof(id->subnqn));
	out->vid = from_le16(id->vid);
	out->ssvid = from_le16(id->ssvid);
	out->cntlid = from_le16(id->cntlid);
	out->ver = from_le32(id->ver);
	out->cntrltype = id->cntrltype;
}

static void parse_ctrl_admin(const struct nvme_id_ctrl *id, struct ctrl_data *out)
{
	out->oaes = from_le32(id->oaes);
	out->ctratt = from_le32(id->ctratt);
	out->cmic = id->cmic;
	out->mdts = id->mdts;
	out->acl = id->acl;
	out->aerl = id->aerl;
	out->lpa = id->lpa;
	out->elpe = id->elpe;
	for (size_t i = 0; i < ARRAY_SIZE(out->crdt); i++)
		out->crdt[i] = from_le16(id->crdt[i]);
	out->oacs = from_le16(id->oacs);
	out->kas = from_le16(id->kas);
	out->cqt = from_le16(id->cqt);
	out->anatt = id->anatt;
	out->anacap = id->anacap;
	out->anagrpmax = from_le32(id->anagrpmax);
	out->nanagrpid = from_le32(id->nanagrpid);
}

static void parse_ctrl_io(const struct nvme_id_ctrl *id, struct ctrl_data *out)
{
	out->maxcmd = from_le16(id->maxcmd);
	out->nn = from_le32(id->nn);
	out->mnan = from_le32(id->mnan);
	out->oncs = from_le16(id->oncs);
	out->fuses = from_le16(id->fuses);
	out->fna = id->fna;
	out->vwc = id->vwc;
	out->awun = from_le16(id->awun);
	out->awupf = from_le16(id->awupf);
	out->acwu = from_le16(id->acwu);
	out->sgls = from_le32(id->sgls);
	out->ioccsz = from_le32(id->ioccsz);
	out->iorcsz = from_le32(id->iorcsz);
	out->icdoff = from_le16(id->icdoff);
	out->fcatt = id->fcatt;
	out->msdbd = id->msdbd;
	out->ofcs = from_le16(id->ofcs);
}

int nvme_parse_ctrl(const void *page, struct ctrl_data *out)
{
	struct nvme_id_ctrl id;
	int err;

	memcpy(&id, page, sizeof(id));
	err = check_entry_size("SQES", id.sqes, 6);
	if (!err)
		err = check_entry_size("CQES", id.cqes, 4);
	if (err)
		return err;
	*out = (struct ctrl_data){ 0 };
	parse_ctrl_identity(&id, out);
	parse_ctrl_admin(&id, out);
	parse_ctrl_io(&id, out);
	return 0;
}

/*
 * FLBAS bits 3:0, and bits 6:5 above them where more than 16 formats exist; else those are
 * ignored.
 */
static int find_format(const struct nvme_id_ns *id, struct nvme_lbaf *format)
{
	unsigned int formats = 1u + id->nlbaf + id->nulbaf;
	unsigned int index = id->flbas & NVME_FLBAS_INDEX_LOW;

	if (formats > NVME_LBAF_MAX)
		return nvmfr__fail(-EPROTO, "identify namespace: NLBAF %u and NULBAF %u name more "
					    "than 64 LBA formats",
				   id->nlbaf, id->nulbaf);
	if (formats > 16)
		index |= (id->flbas & NVME_FLBAS_INDEX_HIGH) >> 1;
	if (index >= formats)
		return nvmfr__fail(-EPROTO, "identify namespace: FLBAS 0x%02x names LBA format %u "
					    "of %u",
				   id->flbas, index, formats);
	*format = id->lbaf[index];
	return 0;
}

static int parse_format(const struct nvme_id_ns *id, struct ns_data *out)
{
	struct nvme_lbaf format = { 0 };
	int err = find_format(id, &format);

	if (err)
		return err;
	if (format.lbads < LBA_SHIFT_MIN)
		return nvmfr__fail(-EPROTO, "identify namespace: LBADS %u, below the least of 9 "
					    "(512 bytes)",
				   format.lbads);
	if (format.lbads > LBA_SHIFT_MAX)
		return nvmfr__fail(-EOPNOTSUPP, "identify namespace: LBADS %u, blocks larger than "
						"64 KiB are not supported",
				   format.lbads);
	out->lba_shift = format.lbads;
	out->block_bytes = UINT32_C(1) << format.lbads;
	out->ms = from_le16(format.ms);
	out->extended = out->ms != 0 && (id->flbas & NVME_FLBAS_EXTENDED);
	out->xfer_bytes = out->block_bytes + (out->extended ? out->ms : 0);
	return 0;
}

static int parse_protection(const struct nvme_id_ns *id, struct ns_data *out)
{
	out->pi_type = id->dps & NVME_DPS_PI_TYPE;
	out->pi_first = id->dps & NVME_DPS_PI_FIRST;
	if (out->pi_type > 3)
		return nvmfr__fail(-EPROTO, "identify namespace: DPS 0x%02x, protection type %u "
					    "does not exist",
				   id->dps, out->pi_type);
	if (out->pi_type != 0 && out->ms < PI_BYTES_MIN)
		return nvmfr__fail(-EPROTO, "identify namespace: DPS 0x%02x asks for protection "
					    "information, but there are %u metadata bytes",
				   id->dps, out->ms);
	return 0;
}

static void parse_ns_rest(const struct nvme_id_ns *id, struct ns_data *out)
{
	out->ncap = from_le64(id->ncap);
	out->nuse = from_le64(id->nuse);
	out->shared = id->nmic & NVME_NMIC_SHARED;
	out->write_protected = id->nsattr & NVME_NSATTR_WRITE_PROTECTED;
	out->nsfeat = id->nsfeat;
	out->dlfeat = id->dlfeat;
	out->mc = id->mc;
	out->nawun = from_le16(id->nawun);
	out->nawupf = from_le16(id->nawupf);
	out->noiob = from_le16(id->noiob);
	out->npwg = from_le16(id->npwg);
	out->npwa = from_le16(id->npwa);
	out->npdg = from_le16(id->npdg);
	out->npda = from_le16(id->npda);
	out->nows = from_le16(id->nows);
	out->nvmsetid = from_le16(id->nvmsetid);
	out->mssrl = from_le16(id->mssrl);
	out->mcl = from_le32(id->mcl);
	out->msrc = id->msrc;
	out->anagrpid = from_le32(id->anagrpid);
	memcpy(out->nguid, id->nguid, sizeof(out->nguid));
	memcpy(out->eui64, id->eui64, sizeof(out->eui64));
}

int nvme_parse_ns(const void *page, struct ns_data *out)
{
	struct nvme_id_ns id;
	int err;

	memcpy(&id, page, sizeof(id));
	*out = (struct ns_data){ .nsze = from_le64(id.nsze) };
	if (out->nsze == 0)
		return nvmfr__fail(-ENOENT,
				   "identify namespace: NSZE 0, the namespace is not active");
	err = parse_format(&id, out);
	if (!err)
		err = parse_protection(&id, out);
	if (err)
		return err;
	/* Below, LBAs become byte counts of 64 bits without further checks. */
	if (out->nsze > UINT64_MAX >> (out->lba_shift + 1))
		return nvmfr__fail(-EPROTO, "identify namespace: NSZE 0x%llx is beyond 2^63 bytes",
				   (unsigned long long)out->nsze);
	parse_ns_rest(&id, out);
	return 0;
}

static bool take_id(uint8_t *dst, size_t bytes, const uint8_t *nid, size_t nidl)
{
	if (nidl != bytes)
		return false;
	memcpy(dst, nid, bytes);
	return true;
}

static void take_desc(const struct nvme_ns_desc *desc, const uint8_t *nid, struct ns_ids *out)
{
	switch (desc->nidt) {
	case NVME_NIDT_EUI64:
		out->has_eui64 |= take_id(out->eui64, sizeof(out->eui64), nid, desc->nidl);
		break;
	case NVME_NIDT_NGUID:
		out->has_nguid |= take_id(out->nguid, sizeof(out->nguid), nid, desc->nidl);
		break;
	case NVME_NIDT_UUID:
		out->has_uuid |= take_id(out->uuid, sizeof(out->uuid), nid, desc->nidl);
		break;
	case NVME_NIDT_CSI:
		out->has_csi |= take_id(&out->csi, sizeof(out->csi), nid, desc->nidl);
		break;
	default:
		break;
	}
}

int nvme_parse_ns_descs(const void *page, size_t bytes, struct ns_ids *out)
{
	const uint8_t *p = page;
	struct nvme_ns_desc desc;

	*out = (struct ns_ids){ 0 };
	while (bytes >= sizeof(desc)) {
		memcpy(&desc, p, sizeof(desc));
		p += sizeof(desc);
		bytes -= sizeof(desc);
		if (desc.nidl == 0 || desc.nidl > bytes)
			break;
		take_desc(&desc, p, out);
		p += desc.nidl;
		bytes -= desc.nidl;
	}
	return 0;
}

int nvme_parse_active_list(const void *page, uint32_t after, uint32_t *out, unsigned int max)
{
	const uint8_t *p = page;
	unsigned int count;

	for (count = 0; count < MIN(max, (unsigned int)NVME_ACTIVE_LIST_ENTRIES); count++) {
		le32 entry;
		uint32_t nsid;

		memcpy(&entry, p + count * sizeof(entry), sizeof(entry));
		nsid = from_le32(entry);
		if (nsid == 0)
			break;
		/* FFFFFFFEh and above are no namespaces. */
		if (nsid <= after || nsid >= 0xfffffffe)
			return nvmfr__fail(-EPROTO, "active namespaces: 0x%x follows 0x%x, they "
						    "must ascend",
					   nsid, after);
		out[count] = nsid;
		after = nsid;
	}
	return (int)count;
}
