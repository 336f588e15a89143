/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_LOGPAGE_H
#define NVMFR_WIRE_LOGPAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/sqe.h"

enum nvme_lid {
	NVME_LID_ERROR = 0x01,
	NVME_LID_SMART = 0x02,
	NVME_LID_FIRMWARE = 0x03,
	NVME_LID_CHANGED_NS = 0x04,
	NVME_LID_EFFECTS = 0x05,
	NVME_LID_ANA = 0x0c,
	NVME_LID_DISCOVERY = 0x70,
};

enum {
	NVME_ERROR_LOG_ENTRY_BYTES = 64,
	NVME_SMART_LOG_BYTES = 512,
};

/*
 * Changed Namespace List: ascending NSIDs, zero filled; one entry of all ones when they did not
 * fit.
 */
enum {
	NVME_CHANGED_NS_BYTES = 4096,
	NVME_CHANGED_NS_MAX = 1024,
};
#define NVME_CHANGED_NS_OVERFLOW UINT32_C(0xffffffff)

enum nvme_aer_type {
	NVME_AER_ERROR = 0,
	NVME_AER_SMART = 1,
	NVME_AER_NOTICE = 2,
	NVME_AER_IMMEDIATE = 3,
	NVME_AER_IO_SET = 6,
	NVME_AER_VENDOR = 7,
};

/* Information of a notice. */
enum nvme_aer_notice {
	NVME_NOTICE_NS_ATTR = 0x00,
	NVME_NOTICE_FW_ACTIVATION = 0x01,
	NVME_NOTICE_TELEMETRY = 0x02,
	NVME_NOTICE_ANA_CHANGE = 0x03,
	NVME_NOTICE_DISCOVERY_CHANGE = 0xf0,
};

/* SMART / Health Information. Counts of 16 bytes. */
struct nvme_smart_log {
	uint8_t critical_warning;
	le16 temperature; /* kelvin */
	uint8_t spare;
	uint8_t spare_threshold;
	uint8_t used;
	uint8_t endurance_warning;
	uint8_t rsvd7[25];
	le64 data_units_read[2];
	le64 data_units_written[2];
	le64 host_reads[2];
	le64 host_writes[2];
	le64 busy_minutes[2];
	le64 power_cycles[2];
	le64 power_on_hours[2];
	le64 unsafe_shutdowns[2];
	le64 media_errors[2];
	le64 error_log_entries[2];
	le32 warning_minutes;
	le32 critical_minutes;
	le16 sensors[8];
	le32 thermal_transitions[2];
	le32 thermal_seconds[2];
	uint8_t rsvd232[280];
};

_Static_assert(sizeof(struct nvme_smart_log) == NVME_SMART_LOG_BYTES, "SMART log");
_Static_assert(offsetof(struct nvme_smart_log, temperature) == 1, "composite temperature");
_Static_assert(offsetof(struct nvme_smart_log, data_units_read) == 32, "data units read");
_Static_assert(offsetof(struct nvme_smart_log, error_log_entries) == 176, "error log entries");
_Static_assert(offsetof(struct nvme_smart_log, warning_minutes) == 192, "warning temperature time");
_Static_assert(offsetof(struct nvme_smart_log, sensors) == 200, "temperature sensors");
_Static_assert(offsetof(struct nvme_smart_log, thermal_seconds) == 224, "total time");

struct nvmfr_smart;
void nvme_parse_smart(const void *page, struct nvmfr_smart *out); /* all but its size */

/* Commands Supported and Effects: a dword an admin opcode, then one an I/O opcode. */
enum nvme_effects {
	NVME_EFFECTS_BYTES = 4096,
	NVME_EFFECTS_IO = 1024, /* where those of I/O commands begin */
	NVME_EFFECT_SUPPORTED = 1 << 0,
	NVME_EFFECT_CONTENT = 1 << 1, /* it changes logical blocks */
};

struct aer_result {
	uint8_t type; /* enum nvme_aer_type */
	uint8_t info;
	uint8_t lid; /* reading this page, without RAE, re-enables the event */
	uint32_t parameter;
};

struct aer_result nvme_parse_aer(uint64_t result);

/*
 * A Changed Namespace List of NVME_CHANGED_NS_BYTES; out has room for NVME_CHANGED_NS_MAX. How many,
 * or -1: more than fit, or a list that is none, so that any may have changed.
 */
int nvme_parse_changed_ns(const void *data, uint32_t *out);

/*
 * bytes and offset are multiples of 4, bytes is at least 4. rae keeps the event that announced
 * the page pending. An offset other than 0 needs NVME_LPA_EXTENDED.
 */
void nvme_sqe_get_log(struct nvme_sqe *sqe, uint8_t lid, uint32_t nsid, uint32_t bytes,
		      uint64_t offset, bool rae);

#endif
