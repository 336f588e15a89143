/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/logpage.h"

#include <string.h>

#include <nvmfr/cmd.h>

#define RAE (UINT32_C(1) << 15)

static void take_count(uint64_t out[2], const le64 in[2])
{
	out[0] = from_le64(in[0]);
	out[1] = from_le64(in[1]);
}

void nvme_parse_smart(const void *page, struct nvmfr_smart *out)
{
	struct nvme_smart_log log;

	memcpy(&log, page, sizeof(log));
	*out = (struct nvmfr_smart){
		.critical_warning = log.critical_warning,
		.spare_percent = log.spare,
		.spare_threshold_percent = log.spare_threshold,
		.used_percent = log.used,
		.endurance_warning = log.endurance_warning,
		.temperature_kelvin = from_le16(log.temperature),
		.warning_minutes = from_le32(log.warning_minutes),
		.critical_minutes = from_le32(log.critical_minutes),
	};
	for (unsigned int i = 0; i < 8; i++)
		out->sensor_kelvin[i] = from_le16(log.sensors[i]);
	for (unsigned int i = 0; i < 2; i++) {
		out->thermal_transitions[i] = from_le32(log.thermal_transitions[i]);
		out->thermal_seconds[i] = from_le32(log.thermal_seconds[i]);
	}
	take_count(out->data_units_read, log.data_units_read);
	take_count(out->data_units_written, log.data_units_written);
	take_count(out->host_reads, log.host_reads);
	take_count(out->host_writes, log.host_writes);
	take_count(out->busy_minutes, log.busy_minutes);
	take_count(out->power_cycles, log.power_cycles);
	take_count(out->power_on_hours, log.power_on_hours);
	take_count(out->unsafe_shutdowns, log.unsafe_shutdowns);
	take_count(out->media_errors, log.media_errors);
	take_count(out->error_log_entries, log.error_log_entries);
}

struct aer_result nvme_parse_aer(uint64_t result)
{
	return (struct aer_result){
		.type = result & 7,
		.info = (uint8_t)(result >> 8),
		.lid = (uint8_t)(result >> 16),
		.parameter = (uint32_t)(result >> 32),
	};
}

int nvme_parse_changed_ns(const void *data, uint32_t *out)
{
	const unsigned char *at = data;
	int n = 0;

	for (; n < NVME_CHANGED_NS_MAX; n++, at += sizeof(le32)) {
		le32 wire;
		uint32_t nsid;

		memcpy(&wire, at, sizeof(wire));
		nsid = from_le32(wire);
		if (nsid == 0)
			break;
		if (nsid == NVME_CHANGED_NS_OVERFLOW || (n && nsid <= out[n - 1]))
			return -1;
		out[n] = nsid;
	}
	return n;
}

void nvme_sqe_get_log(struct nvme_sqe *sqe, uint8_t lid, uint32_t nsid, uint32_t bytes,
		      uint64_t offset, bool rae)
{
	uint32_t numd = bytes / 4 - 1; /* dwords, 0's based: NUMDL in CDW10, NUMDU in CDW11 */

	nvme_sqe_init(sqe, NVME_ADMIN_GET_LOG_PAGE);
	sqe->nsid = to_le32(nsid);
	sqe->cdw10 = to_le32(numd << 16 | (rae ? RAE : 0) | lid);
	sqe->cdw11 = to_le32(numd >> 16);
	sqe->cdw12 = to_le32((uint32_t)offset);
	sqe->cdw13 = to_le32((uint32_t)(offset >> 32));
}
