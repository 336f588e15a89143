/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_NQN_H
#define NVMFR_WIRE_NQN_H

#include <stdbool.h>
#include <stdint.h>

#define NVME_NQN_MAX	     223
#define NVME_UUID_TEXT_BYTES 37 /* with the NUL */

/*
 * -EINVAL with a sentence that starts with what ("subnqn") for NULL, an empty or too long name,
 * control characters and blanks. Anything else is the target's to judge: names outside the format
 * are in use.
 */
int nvme_nqn_check(const char *what, const char *nqn);

/* The 8-4-4-4-12 form in either case, nothing before or behind it; -EINVAL otherwise. */
int nvme_uuid_parse(const char *text, uint8_t uuid[16]);
void nvme_uuid_format(const uint8_t uuid[16], char text[NVME_UUID_TEXT_BYTES]);

/* "nqn.2014-08.org.nvmexpress:uuid:" and the UUID. */
void nvme_nqn_from_uuid(const uint8_t uuid[16], char nqn[NVME_NQN_MAX + 1]);

bool nvme_hostid_is_zero(const uint8_t hostid[16]);

/*
 * Host ID that belongs to a host NQN: its UUID where it ends in ":uuid:" and one, else a hash in
 * the form of a version 8 UUID. The same name always gives the same ID, never zero.
 */
void nvme_hostid_from_nqn(const char *hostnqn, uint8_t hostid[16]);

#endif
