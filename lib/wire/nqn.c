/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/nqn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define UUID_NQN_PREFIX "nqn.2014-08.org.nvmexpress:uuid:"
#define UUID_MARK	":uuid:"

int nvme_nqn_check(const char *what, const char *nqn)
{
	size_t length;

	if (!nqn || !*nqn)
		return nvmfr__fail(-EINVAL, "%s: no name given", what);
	length = strnlen(nqn, NVME_NQN_MAX + 1);
	if (length > NVME_NQN_MAX)
		return nvmfr__fail(-EINVAL, "%s: \"%.40s...\" is longer than %d bytes", what, nqn,
				   NVME_NQN_MAX);
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)nqn[i];

		if (byte <= 0x20 || byte == 0x7f)
			return nvmfr__fail(-EINVAL,
					   "%s: byte 0x%02x at position %zu; a name has no blanks "
					   "and no control characters",
					   what, byte, i);
	}
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool dash_before(int byte)
{
	return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

int nvme_uuid_parse(const char *text, uint8_t uuid[16])
{
	uint8_t parsed[16];
	const char *p = text;

	for (int i = 0; i < 16; i++) {
		int high, low;

		if (dash_before(i) && *p++ != '-')
			goto fail;
		high = hex_digit(p[0]);
		low = high < 0 ? -1 : hex_digit(p[1]);
		if (low < 0)
			goto fail;
		parsed[i] = (uint8_t)(high << 4 | low);
		p += 2;
	}
	if (*p)
		goto fail;
	memcpy(uuid, parsed, sizeof(parsed));
	return 0;
fail:
	return nvmfr__fail(-EINVAL, "uuid: \"%.40s\" is not of the form 8-4-4-4-12 hex digits",
			   text);
}

void nvme_uuid_format(const uint8_t uuid[16], char text[NVME_UUID_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 16; i++) {
		if (dash_before(i))
			*text++ = '-';
		*text++ = digits[uuid[i] >> 4];
		*text++ = digits[uuid[i] & 0xf];
	}
	*text = '\0';
}

void nvme_nqn_from_uuid(const uint8_t uuid[16], char nqn[NVME_NQN_MAX + 1])
{
	char text[NVME_UUID_TEXT_BYTES];

	nvme_uuid_format(uuid, text);
	snprintf(nqn, NVME_NQN_MAX + 1, "%s%s", UUID_NQN_PREFIX, text);
}

bool nvme_hostid_is_zero(const uint8_t hostid[16])
{
	static const uint8_t zero[16];

	return memcmp(hostid, zero, sizeof(zero)) == 0;
}

static bool uuid_at_end(const char *nqn, uint8_t uuid[16])
{
	const char *mark = strstr(nqn, UUID_MARK);

	if (!mark || strlen(mark) != strlen(UUID_MARK) + NVME_UUID_TEXT_BYTES - 1)
		return false;
	return nvme_uuid_parse(mark + strlen(UUID_MARK), uuid) == 0;
}

/* FNV-1a, 64 bits: names need spreading here, not secrecy. */
static uint64_t fnv1a(const char *text, uint64_t hash)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

void nvme_hostid_from_nqn(const char *hostnqn, uint8_t hostid[16])
{
	uint64_t high = fnv1a(hostnqn, UINT64_C(0xcbf29ce484222325));
	uint64_t low = fnv1a(hostnqn, ~high);

	if (uuid_at_end(hostnqn, hostid) && !nvme_hostid_is_zero(hostid))
		return;
	for (int i = 0; i < 8; i++) {
		hostid[i] = (uint8_t)(high >> (56 - 8 * i));
		hostid[8 + i] = (uint8_t)(low >> (56 - 8 * i));
	}
	/* RFC 9562: version 8 (vendor's own) and variant 10b, so never all zero. */
	hostid[6] = (uint8_t)((hostid[6] & 0x0f) | 0x80);
	hostid[8] = (uint8_t)((hostid[8] & 0x3f) | 0x80);
}
