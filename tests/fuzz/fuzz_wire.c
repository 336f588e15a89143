/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that is read from a peer. The first byte says what the rest is taken for. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "wire/ana.h"
#include "wire/cm.h"
#include "wire/discovery.h"
#include "wire/identify.h"
#include "wire/limits.h"
#include "wire/logpage.h"
#include "wire/nqn.h"
#include "wire/status.h"
#include "wire/text.h"

enum { PAGE = NVME_IDENTIFY_BYTES };

/* ---- whole pages: zero behind the input ------------------------------------------------------ */

static void check_text(const char *text, size_t room)
{
	FUZZ_CHECK(memchr(text, '\0', room));
	for (; *text; text++)
		FUZZ_CHECK(*text >= 0x20 && *text < 0x7f);
}

static void fuzz_ctrl(const uint8_t *page)
{
	struct capsule_limits limits;
	struct ctrl_data ctrl;
	uint64_t max;

	if (nvme_parse_ctrl(page, &ctrl))
		return;
	check_text(ctrl.sn, sizeof(ctrl.sn));
	check_text(ctrl.mn, sizeof(ctrl.mn));
	check_text(ctrl.fr, sizeof(ctrl.fr));
	max = nvme_max_xfer(ctrl.mdts, 0);
	FUZZ_CHECK(max >= 4096 && max <= 8 << 20 && !(max & (max - 1)));
	for (uint32_t own = 1; own <= 16; own++)
		if (nvme_capsule_limits(&ctrl, own, &limits) == 0)
			FUZZ_CHECK(limits.max_descriptors >= 1 && limits.max_descriptors <= own);
}

static void fuzz_ns(const uint8_t *page)
{
	struct ns_data ns;

	if (nvme_parse_ns(page, &ns))
		return;
	FUZZ_CHECK(ns.nsze && ns.lba_shift >= 9 && ns.lba_shift <= 16 &&
		   ns.block_bytes == 1u << ns.lba_shift);
	FUZZ_CHECK(ns.nsze <= (UINT64_C(1) << 63) >> ns.lba_shift);
	FUZZ_CHECK(!ns.extended || ns.ms);
}

static void fuzz_list(const uint8_t *page)
{
	uint32_t nsids[NVME_ACTIVE_LIST_ENTRIES], after = page[0];
	int n = nvme_parse_active_list(page, after, nsids, NVME_ACTIVE_LIST_ENTRIES);

	FUZZ_CHECK(n == -EPROTO || (n >= 0 && n <= NVME_ACTIVE_LIST_ENTRIES));
	for (int i = 0; i < n; after = nsids[i++])
		FUZZ_CHECK(nsids[i] > after && nsids[i] < 0xfffffffe);
}

static void fuzz_changed(const uint8_t *page)
{
	uint32_t nsids[NVME_CHANGED_NS_MAX];
	int n = nvme_parse_changed_ns(page, nsids);

	FUZZ_CHECK(n >= -1 && n <= NVME_CHANGED_NS_MAX);
	for (int i = 1; i < n; i++)
		FUZZ_CHECK(nsids[i] > nsids[i - 1]);
}

static void with_page(const uint8_t *data, size_t bytes, void (*fuzz)(const uint8_t *page))
{
	uint8_t *page = calloc(1, PAGE);

	FUZZ_CHECK(page);
	memcpy(page, data, bytes < PAGE ? bytes : PAGE);
	fuzz(page);
	free(page);
}

/* ---- as long as they are --------------------------------------------------------------------- */

static void fuzz_descs(const uint8_t *data, size_t bytes)
{
	struct ns_ids ids;

	(void)nvme_parse_ns_descs(data, bytes, &ids);
}

static void fuzz_discovery(const uint8_t *data, size_t bytes)
{
	struct discovery_header header;
	struct discovery_record record;

	(void)nvme_parse_discovery_header(data, bytes, &header);
	if (nvme_parse_discovery_record(data, bytes, &record))
		return;
	FUZZ_CHECK(memchr(record.trsvcid, '\0', sizeof(record.trsvcid)));
	FUZZ_CHECK(memchr(record.traddr, '\0', sizeof(record.traddr)));
	FUZZ_CHECK(memchr(record.subnqn, '\0', sizeof(record.subnqn)));
}

/* Pieces of 4,096 bytes: each one moves on, and none is read behind its end. */
static void fuzz_ana(const uint8_t *data, size_t bytes)
{
	struct ana_reader reader = { 0 };
	struct ana_item item;
	uint64_t before;
	int more = 0;

	do {
		size_t at = 0, left = reader.offset < bytes ? bytes - reader.offset : 0;
		size_t piece = left < PAGE ? left : PAGE;

		before = reader.offset;
		while ((more = nvme_ana_next(&reader, data + (left ? before : 0), piece, &at, &item)) > 0)
			FUZZ_CHECK(item.state < 16);
		FUZZ_CHECK(at <= piece && reader.offset == before + at);
		FUZZ_CHECK(reader.nsids_read <= NVME_ANA_MAX_NSIDS);
		FUZZ_CHECK(more < 0 || reader.done || piece - at < sizeof(struct nvme_ana_group));
	} while (more == 0 && !reader.done && reader.offset > before);
}

static void fuzz_cm(const uint8_t *data, size_t bytes)
{
	struct cm_request request;
	uint16_t value = 0;

	(void)nvme_parse_cm_request(data, bytes, &request);
	(void)nvme_parse_cm_accept(data, bytes, &value);
	(void)nvme_parse_cm_reject(data, bytes, &value);
	FUZZ_CHECK(nvme_cm_status_name(value));
	FUZZ_CHECK(nvme_status_name(value));
}

static void fuzz_text(const uint8_t *data, size_t bytes)
{
	char *field = malloc(bytes + 1);
	uint8_t uuid[16], hostid[16];

	FUZZ_CHECK(field);
	(void)nvme_text_copy(field, (const char *)data, bytes);
	check_text(field, bytes + 1);
	memcpy(field, data, bytes);
	field[bytes] = '\0';
	(void)nvme_uuid_parse(field, uuid);
	nvme_hostid_from_nqn(field, hostid);
	FUZZ_CHECK(!nvme_hostid_is_zero(hostid));
	if (nvme_nqn_check("nqn", field) == 0)
		FUZZ_CHECK(strlen(field) <= NVME_NQN_MAX);
	free(field);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t kind;

	if (!bytes)
		return 0;
	kind = data[0] % 9;
	data++;
	bytes--;
	if (kind == 0)
		with_page(data, bytes, fuzz_ctrl);
	else if (kind == 1)
		with_page(data, bytes, fuzz_ns);
	else if (kind == 2)
		with_page(data, bytes, fuzz_list);
	else if (kind == 3)
		fuzz_descs(data, bytes);
	else if (kind == 4)
		fuzz_discovery(data, bytes);
	else if (kind == 5)
		fuzz_cm(data, bytes);
	else if (kind == 8)
		fuzz_ana(data, bytes);
	else if (kind == 7)
		with_page(data, bytes, fuzz_changed);
	else
		fuzz_text(data, bytes);
	return 0;
}

/* ---- to start from: the fields that decide, at their offsets of the specification ------------ */

/* clang-format off */
static const uint8_t ctrl[1 + PAGE] = {
	0, [1 + 4] = 's', 'n', [1 + 24] = 'm', 'n', [1 + 77] = 5, [1 + 111] = 1,
	[1 + 512] = 0x66, 0x44, [1 + 536] = 0x05, 0, 0x10,
	[1 + 1792] = 4, 1, [1 + 1796] = 1, [1 + 1803] = 16,
};
static const uint8_t ns[1 + PAGE] = { 1, 0, 0x10, [1 + 8] = 0, 0x10, [1 + 130] = 9 };
static const uint8_t list[1 + PAGE] = { 2, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0 };
static const uint8_t changed[1 + PAGE] = { 7, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0 };
static const uint8_t ana[] = {
	8, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
	1, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0,
	2, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0,
};
static const uint8_t descs[] = {
	3, 3, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 4, 1, 0, 0, 0, 0, 0, 0, 0,
};
static const uint8_t record[1 + 1024] = {
	4, 1, 1, 2, [1 + 6] = 0xff, 0xff, [1 + 32] = '4', '4', '2', '0', [1 + 256] = 'n', 'q', 'n',
	[1 + 512] = '1', '.', '2', '.', '3', '.', '4',
};
static const uint8_t request[1 + 32] = { 5, 0, 0, 1, 0, 32, 0, 31 };
static const uint8_t reject[1 + 4] = { 5, 0, 0, 6, 0 };
static const uint8_t uuid[] = "\x06nqn.2014-08.org.nvmexpress:uuid:"
			      "01234567-89ab-cdef-0123-456789abcdef";
/* clang-format on */

const struct fuzz_input nvmfr__fuzz_corpus[] = {
	{ ctrl, sizeof(ctrl) },
	{ ns, sizeof(ns) },
	{ list, sizeof(list) },
	{ descs, sizeof(descs) },
	{ record, sizeof(record) },
	{ request, sizeof(request) },
	{ reject, sizeof(reject) },
	{ uuid, sizeof(uuid) - 1 },
	{ changed, sizeof(changed) },
	{ ana, sizeof(ana) },
};
const size_t nvmfr__fuzz_corpus_count = sizeof(nvmfr__fuzz_corpus) / sizeof(nvmfr__fuzz_corpus[0]);
