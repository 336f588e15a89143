/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands beyond read and write, as far as Linux's target has them; the others must be refused in words. */
#include "vmcheck.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nvmfr/cmd.h>

enum { PAGE = 4096,
       ERROR_SLOTS = 128,
       ERROR_BYTES = 64,
       ID_SERIAL = 4 };

static int admin_commands(struct worker *w)
{
	static unsigned char page[ERROR_SLOTS * ERROR_BYTES];
	struct nvmfr_ctrl *ctrl = w->session->ctrl;
	/* All slots in one: the target takes no part of this page. */
	struct nvmfr_cmd errors = { .opcode = 0x02,
				    .nsid = 0xffffffff,
				    .cdw10 = (sizeof(page) / 4 - 1) << 16 | NVMFR_LOG_PAGE_ERROR };
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };
	struct nvmfr_smart smart = { .size = sizeof(smart) };
	uint32_t value;
	int err = nvmfr_ctrl_info(ctrl, &info);

	if (!err)
		err = nvmfr_identify(ctrl, 0x01, 0, 0, 0, page);
	if (!err && memcmp(page + ID_SERIAL, info.serial, strlen(info.serial)) != 0)
		return fail(-EIO, "another serial number than '%s'", info.serial);
	if (!err)
		err = nvmfr_get_feature(ctrl, 0x06, NVMFR_FEATURE_CURRENT, 0, 0, NULL, 0, &value);
	if (!err)
		err = nvmfr_read_smart(ctrl, 0xffffffff, &smart);
	if (!err)
		err = nvmfr_admin(ctrl, &errors, page, sizeof(page), NULL, NULL);
	if (!err)
		err = nvmfr_get_log(ctrl, NVMFR_LOG_PAGE_EFFECTS, 0, 0, 0, page, PAGE);
	if (!err && !(page[1024 + 4 * 0x02] & 1))
		return fail(-EIO, "the effects log does not know Read");
	if (!err)
		err = nvmfr_get_log(ctrl, NVMFR_LOG_PAGE_ANA, 0xffffffff, 0, 0, page, 16);
	if (!err)
		err = nvmfr_get_log(ctrl, NVMFR_LOG_PAGE_CHANGED_NS, 0xffffffff, 0, 0, page, PAGE);
	if (err)
		return api_fail(err, "an admin command");
	printf("write cache %u, %llu reads, %llu writes\n", value,
	       (unsigned long long)smart.host_reads[0], (unsigned long long)smart.host_writes[0]);
	return 0;
}

static int ends_well(struct worker *w, int submitted, const char *what)
{
	struct nvmfr_completion done;
	int n = submitted ? submitted : nvmfr_wait(w->qp, &done, 1, 1, WAIT_MS);

	if (n != 1)
		return api_fail(n ? n : -ETIMEDOUT, what);
	return done.result ? fail(-EIO, "%s: %s", what, nvmfr_status_string(done.status)) : 0;
}

static int expect_bytes(const struct worker *w, uint8_t value, const char *what)
{
	for (uint32_t i = 0; i < w->session->ns.block_bytes; i++)
		if (w->mem[i] != value)
			return fail(-EIO, "%s: byte %u is %02xh, not %02xh", what, i, w->mem[i],
				    value);
	return 0;
}

/* What was deallocated reads as zero only where the session says so: the device decides. */
static int io_commands(struct worker *w)
{
	const struct nvmfr_ns_info *ns = &w->session->ns;
	const struct nvmfr_range range = { .lba = 1, .nblocks = 8 };
	const struct nvmfr_cmd raw = { .opcode = 0x02, .nsid = ns->nsid, .cdw10 = 1 };
	int err;

	memset(w->mem, 0x5a, 8 * (size_t)ns->block_bytes);
	err = ends_well(w, nvmfr_write(w->qp, ns->nsid, 1, 8, w->buf, 0, 0), "write");
	memset(w->mem, 0, ns->block_bytes);
	if (!err)
		err = ends_well(w, nvmfr_submit_cmd(w->qp, &raw, w->buf, 0, ns->block_bytes, 0),
				"a read as it is given");
	if (!err)
		err = expect_bytes(w, 0x5a, "a read as it is given");
	if (!err)
		err = ends_well(w, nvmfr_deallocate(w->qp, ns->nsid, &range, 1, w->buf, PAGE, 0),
				"deallocate");
	if (!err)
		err = ends_well(w, nvmfr_read(w->qp, ns->nsid, 1, 1, w->buf, 0, 0), "read");
	if (!err && w->session->zeroes)
		err = expect_bytes(w, 0, "deallocated");
	return err;
}

static int refusal(int got, const char *what)
{
	if (got != -EOPNOTSUPP)
		return fail(-EIO, "%s: %d, not refused as unknown to the controller", what, got);
	printf("%s: %s\n", what, nvmfr_last_error());
	return 0;
}

static int refused(struct worker *w)
{
	const uint32_t nsid = w->session->ns.nsid;
	const struct nvmfr_range range = { .lba = 1, .nblocks = 1 };
	const struct nvmfr_reserve reserve = { .nsid = nsid, .other_key = 1 };
	struct nvmfr_io pair[2] = {
		{ .op = NVMFR_OP_COMPARE, .nsid = nsid, .nblocks = 1, .buf = w->buf },
		{ .op = NVMFR_OP_WRITE, .nsid = nsid, .nblocks = 1, .buf = w->buf },
	};
	struct nvmfr_io verify_io = { .op = NVMFR_OP_VERIFY, .nsid = nsid, .nblocks = 1 };
	int err = refusal(nvmfr_submit(w->qp, &pair[0], 1), "Compare");

	if (!err)
		err = refusal(nvmfr_submit(w->qp, &verify_io, 1), "Verify");
	if (!err)
		err = refusal(nvmfr_compare_and_write(w->qp, pair), "Compare and Write");
	if (!err)
		err = refusal(nvmfr_copy(w->qp, nsid, 9, &range, 1, w->buf, 0, 0), "Copy");
	if (!err)
		err = refusal(nvmfr_reserve(w->qp, &reserve, w->buf, 0, 0), "reservation");
	return err;
}

int commands(struct worker *w)
{
	int err = worker_open(w, 8 * PAGE);

	if (!err)
		err = admin_commands(w);
	if (!err)
		err = io_commands(w);
	if (!err)
		err = refused(w);
	return err ? err : worker_close(w);
}
