/* SPDX-License-Identifier: BSD-3-Clause */
/* The usual admin commands, a function each: nvmfr_admin() with the dwords filled in. */
#include <errno.h>
#include <string.h>

#include <nvmfr/cmd.h>

#include "api/check.h"
#include "base/opts.h"
#include "ctrl/passthrough.h"
#include "wire/admin.h"
#include "wire/logpage.h"
#include "wire/reserve.h"

enum {
	LOG_PIECE_BYTES = 4096,
	LOG_SHORT_BYTES = 16384, /* what 12 bits of dwords name */
};

int nvmfr_identify(struct nvmfr_ctrl *ctrl, uint8_t cns, uint32_t nsid, uint16_t cntid, uint8_t csi,
		   void *data)
{
	const struct nvmfr_cmd cmd = {
		.opcode = NVME_ADMIN_IDENTIFY,
		.nsid = nsid,
		.cdw10 = (uint32_t)cntid << 16 | cns,
		.cdw11 = (uint32_t)csi << 24,
	};

	return nvmfr_admin(ctrl, &cmd, data, NVME_IDENTIFY_BYTES, NULL, NULL);
}

/* What a live controller said of itself. */
static int get_id(struct nvmfr_ctrl *ctrl, struct ctrl_data *id)
{
	int err = ctrl ? check_host(ctrl->host) : nvmfr__fail(-EINVAL, "ctrl is NULL");

	if (err)
		return err;
	pthread_mutex_lock(&ctrl->host->lock);
	err = nvmfr__passthrough_check(ctrl);
	*id = ctrl->id;
	pthread_mutex_unlock(&ctrl->host->lock);
	return err;
}

/* ---- features ------------------------------------------------------------------------------------ */

static int feature(struct nvmfr_ctrl *ctrl, const struct nvmfr_cmd *cmd, void *data, size_t bytes,
		   uint32_t *value)
{
	uint64_t result;
	int err = nvmfr_admin(ctrl, cmd, data, bytes, &result, NULL);

	if (value)
		*value = (uint32_t)result;
	return err;
}

/* Save and Select. */
static int check_saves(struct nvmfr_ctrl *ctrl, bool wanted)
{
	struct ctrl_data id;
	int err = get_id(ctrl, &id);

	if (!err && wanted && !(id.oncs & NVME_ONCS_SAVE))
		return nvmfr__fail(
			-EOPNOTSUPP,
			"the controller has the current values of features only (ONCS bit 4 is clear)");
	return err;
}

int nvmfr_get_feature(struct nvmfr_ctrl *ctrl, uint8_t fid, uint32_t select, uint32_t nsid,
		      uint32_t cdw11, void *data, size_t bytes, uint32_t *value)
{
	const struct nvmfr_cmd cmd = {
		.opcode = NVME_ADMIN_GET_FEATURES,
		.nsid = nsid,
		.cdw10 = select << NVME_FEATURE_SELECT_SHIFT | fid,
		.cdw11 = cdw11,
	};
	int err = 0;

	if (value)
		*value = 0;
	if (select > NVMFR_FEATURE_SUPPORTED)
		err = nvmfr__fail(-EINVAL, "select %u is not one of enum nvmfr_feature_select",
				  select);
	if (!err)
		err = check_saves(ctrl, select != NVMFR_FEATURE_CURRENT);
	return err ? err : feature(ctrl, &cmd, data, bytes, value);
}

int nvmfr_set_feature(struct nvmfr_ctrl *ctrl, uint8_t fid, int save, uint32_t nsid, uint32_t cdw11,
		      void *data, size_t bytes, uint32_t *value)
{
	const struct nvmfr_cmd cmd = {
		.opcode = NVME_ADMIN_SET_FEATURES,
		.nsid = nsid,
		.cdw10 = (save ? NVME_FEATURE_SAVE : 0) | fid,
		.cdw11 = cdw11,
	};
	int err;

	if (value)
		*value = 0;
	err = check_saves(ctrl, save);
	return err ? err : feature(ctrl, &cmd, data, bytes, value);
}

/* ---- log pages ----------------------------------------------------------------------------------- */

/* Why the controller does not have the page; NULL: it has, or does not say. */
static const char *page_missing(const struct ctrl_data *id, uint8_t lid, uint32_t nsid)
{
	bool of_ns = nsid != 0 && nsid != NVME_NSID_ALL;

	if (lid == NVME_LID_SMART && of_ns && !(id->lpa & NVME_LPA_SMART_NS))
		return "the controller has SMART for itself only, not for a namespace (LPA bit 0 is clear)";
	if (lid == NVME_LID_EFFECTS && !(id->lpa & NVME_LPA_EFFECTS))
		return "the controller has no Commands Supported and Effects log (LPA bit 1 is clear)";
	if (lid == NVME_LID_CHANGED_NS && !(id->oaes & NVME_AEC_NS_ATTR))
		return "the controller has no Changed Namespace List (OAES bit 8 is clear)";
	if (lid == NVME_LID_ANA && !(id->cmic & NVME_CMIC_ANA))
		return "the controller has no Asymmetric Namespace Access (CMIC bit 3 is clear)";
	return NULL;
}

static int check_log(const struct ctrl_data *id, uint8_t lid, uint32_t nsid, uint64_t offset,
		     size_t bytes)
{
	const char *missing = page_missing(id, lid, nsid);

	if (missing)
		return nvmfr__fail(-EOPNOTSUPP, "log page %02xh: %s", lid, missing);
	if (!(id->lpa & NVME_LPA_EXTENDED) && (offset || bytes > LOG_SHORT_BYTES))
		return nvmfr__fail(
			-EOPNOTSUPP,
			"log page %02xh: the controller reads the first %u bytes of a page only "
			"(LPA bit 2 is clear)",
			lid, LOG_SHORT_BYTES);
	return 0;
}

static int read_piece(struct nvmfr_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
		      void *data, size_t bytes, bool retain)
{
	struct nvmfr_cmd cmd = { .opcode = NVME_ADMIN_GET_LOG_PAGE, .nsid = nsid };
	struct nvme_sqe sqe;

	nvme_sqe_get_log(&sqe, lid, nsid, (uint32_t)bytes, offset, retain);
	cmd.cdw10 = from_le32(sqe.cdw10);
	cmd.cdw11 = from_le32(sqe.cdw11);
	cmd.cdw12 = from_le32(sqe.cdw12);
	cmd.cdw13 = from_le32(sqe.cdw13);
	return nvmfr_admin(ctrl, &cmd, data, bytes, NULL, NULL);
}

int nvmfr_get_log(struct nvmfr_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint32_t flags,
		  uint64_t offset_bytes, void *data, size_t bytes)
{
	struct ctrl_data id;
	size_t piece = LOG_PIECE_BYTES;
	int err = get_id(ctrl, &id);

	if (!err &&
	    (!data || !bytes || bytes % 4 || offset_bytes % 4 || offset_bytes > UINT64_MAX - bytes))
		err = nvmfr__fail(
			-EINVAL,
			"data is NULL, or offset_bytes and bytes are no multiples of 4, or too large");
	if (!err && (flags & ~(uint32_t)NVMFR_LOG_RETAIN))
		err = nvmfr__fail(-EINVAL, "flags 0x%x has unknown bits", flags);
	if (!err)
		err = check_log(&id, lid, nsid, offset_bytes, bytes);
	if (!err && !(id.lpa & NVME_LPA_EXTENDED))
		piece = LOG_SHORT_BYTES;
	for (size_t at = 0; !err && at < bytes; at += piece) {
		size_t part = bytes - at < piece ? bytes - at : piece;

		/* The event is settled when the last piece was read. */
		err = read_piece(ctrl, lid, nsid, offset_bytes + at, (unsigned char *)data + at,
				 part, (flags & NVMFR_LOG_RETAIN) || at + part < bytes);
	}
	return err;
}

int nvmfr_read_smart(struct nvmfr_ctrl *ctrl, uint32_t nsid, struct nvmfr_smart *smart)
{
	unsigned char page[NVME_SMART_LOG_BYTES];
	struct nvmfr_smart full;
	int err = check_info(smart, smart ? smart->size : 0, "nvmfr_smart");

	if (!err)
		err = nvmfr_get_log(ctrl, NVMFR_LOG_PAGE_SMART, nsid, NVMFR_LOG_RETAIN, 0, page,
				    sizeof(page));
	if (err)
		return err;
	nvme_parse_smart(page, &full);
	full.size = sizeof(full);
	nvmfr__opts_export(smart, smart->size, &full, sizeof(full));
	return 0;
}

/* ---- reservations -------------------------------------------------------------------------------- */

int nvmfr_parse_reservations(const void *page, size_t bytes, struct nvmfr_reservation *out,
			     struct nvmfr_registrant *list, unsigned int max)
{
	struct nvme_resv_status status;
	size_t room, n;

	if (!page || bytes < sizeof(status) || !out || (max && !list))
		return nvmfr__fail(-EINVAL, "page, out or list is NULL, or %zu bytes are no report",
				   bytes);
	memcpy(&status, page, sizeof(status));
	n = status.regctl[0] | (size_t)status.regctl[1] << 8;
	room = (bytes - sizeof(status)) / sizeof(struct nvme_resv_registrant);
	*out = (struct nvmfr_reservation){
		.generation = from_le32(status.gen),
		.registrants = (uint16_t)n,
		.type = status.rtype,
		.persists = status.ptpls & 1,
	};
	n = n < room ? n : room;
	n = n < max ? n : max;
	for (size_t i = 0; i < n; i++) {
		struct nvme_resv_registrant wire;

		memcpy(&wire, (const unsigned char *)page + sizeof(status) + i * sizeof(wire),
		       sizeof(wire));
		list[i] = (struct nvmfr_registrant){ .key = from_le64(wire.rkey),
						     .cntlid = from_le16(wire.cntlid),
						     .holds = wire.rcsts & 1 };
		memcpy(list[i].hostid, wire.hostid, sizeof(wire.hostid));
	}
	return (int)n;
}
