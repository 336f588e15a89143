/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header first: its generation counter holds for all entries, if it is the same when they have been
 * read. The last look at it does not retain the event, so that the next change is told.
 */
#include "ctrl/dlog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/notice.h"
#include "wire/status.h"

static int send_header(struct nvmfr_ctrl *ctrl, bool retain)
{
	return nvmfr__send_get_log(ctrl, NVME_LID_DISCOVERY, sizeof(struct nvme_discovery_header),
				   0, retain);
}

static int start_header(struct nvmfr_ctrl *ctrl)
{
	return send_header(ctrl, true);
}

static int answer_header(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	struct dlog *job = ctrl->dlog;
	struct discovery_header header;
	int err = nvme_parse_discovery_header(ctrl->data, sizeof(ctrl->data), &header);

	(void)result;
	if (err)
		return err;
	job->generation = header.genctr;
	job->end = (uint32_t)nvmfr__min_u64(header.numrec, job->max);
	job->left_out = header.numrec - job->end;
	job->count = job->skipped = job->at = 0;
	job->refused = 0;
	return STEP_NEXT;
}

static int start_entries(struct nvmfr_ctrl *ctrl)
{
	struct dlog *job = ctrl->dlog;
	uint32_t n = nvmfr__min_u32(job->end - job->at, DLOG_AT_ONCE);

	if (!n)
		return STEP_NEXT;
	if (ctrl_now(ctrl) >= job->deadline_ns)
		return nvmfr__fail(-ETIMEDOUT,
				   "%u of %u entries were read within connect_timeout_ms (%u ms)",
				   job->at, job->end, ctrl->opts.connect_timeout_ms);
	return nvmfr__send_get_log(
		ctrl, NVME_LID_DISCOVERY, n * DLOG_ENTRY_BYTES,
		sizeof(struct nvme_discovery_header) + (uint64_t)job->at * DLOG_ENTRY_BYTES, true);
}

/* Memory for what came, not for what the header claims. */
static int make_room(struct dlog *job)
{
	uint32_t room = nvmfr__max_u32(2 * job->room, DLOG_AT_ONCE);
	struct discovery_record *records;

	if (job->count + DLOG_AT_ONCE <= job->room)
		return 0;
	records = realloc(job->records, room * sizeof(*records));
	if (!records)
		return nvmfr__fail(-ENOMEM, "no memory for %u entries", room);
	job->records = records;
	job->room = room;
	return 0;
}

static void take_entry(struct nvmfr_ctrl *ctrl, const unsigned char *data)
{
	struct dlog *job = ctrl->dlog;

	if (nvme_parse_discovery_record(data, DLOG_ENTRY_BYTES, &job->records[job->count]) == 0) {
		job->count++;
		return;
	}
	if (job->skipped++ < DLOG_LOGGED)
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
			   "%s: entry %u of the discovery log is left out: %s", ctrl->ep->peer,
			   job->at, nvmfr__err_get());
}

/* Where the first entry should be: whoever ignores the offset of a read sends its first page again and again. */
static bool is_header_again(const struct nvmfr_ctrl *ctrl)
{
	const struct dlog *job = ctrl->dlog;
	struct discovery_header header;

	return job->at == 0 && nvme_parse_discovery_header(ctrl->data, sizeof(ctrl->data), &header) == 0 &&
	       header.genctr == job->generation && header.numrec == job->end + job->left_out;
}

static int answer_entries(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	struct dlog *job = ctrl->dlog;
	uint32_t n = nvmfr__min_u32(job->end - job->at, DLOG_AT_ONCE);
	int err = make_room(job);

	(void)result;
	if (!err && is_header_again(ctrl))
		err = nvmfr__fail(-EPROTO, "the controller ignores the offset of a read of its log");
	if (err)
		return err;
	for (uint32_t i = 0; i < n; i++, job->at++)
		take_entry(ctrl, ctrl->data + i * DLOG_ENTRY_BYTES);
	return STEP_AGAIN;
}

/* A log that became shorter has no such entries any more: the generation tells. */
static int refused_entries(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	ctrl->dlog->refused = status;
	return STEP_NEXT;
}

static int start_generation(struct nvmfr_ctrl *ctrl)
{
	return send_header(ctrl, false);
}

static int entries_failed(const struct dlog *job)
{
	return nvmfr__fail(-EIO, "entries from %u on were refused with status 0x%04x, %s", job->at,
			   job->refused, nvme_status_name(job->refused));
}

static int answer_generation(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	struct dlog *job = ctrl->dlog;
	struct discovery_header header;
	int err = nvme_parse_discovery_header(ctrl->data, sizeof(ctrl->data), &header);

	(void)result;
	if (err)
		return err;
	if (header.genctr == job->generation)
		return job->refused ? entries_failed(job) : STEP_NEXT;
	if (++job->tries == DLOG_TRIES)
		return nvmfr__fail(
			-EAGAIN,
			"the log changed each time while it was read, %d times: ask again later",
			DLOG_TRIES);
	ctrl->step = 0;
	return STEP_AGAIN;
}

/* clang-format off */
const struct step nvmfr__dlog_steps[DLOG_STEPS] = {
	{ "discovery log header",        start_header,           answer_header,        NULL },
	{ "discovery log entries",       start_entries,          answer_entries,       refused_entries },
	{ "discovery log generation",    start_generation,       answer_generation,    NULL },
};
/* clang-format on */

void nvmfr__dlog_ended(struct nvmfr_ctrl *ctrl, int err)
{
	struct dlog *job = ctrl->dlog;

	job->done = true;
	job->err = err;
	if (err)
		snprintf(job->sentence, sizeof(job->sentence), "%.*s",
			 (int)sizeof(job->sentence) - 1, nvmfr__err_get());
	nvmfr__service_changed(ctrl->host);
}

int nvmfr__dlog_read(struct nvmfr_ctrl *ctrl, struct dlog *job)
{
	if (ctrl->state == NVMFR_STATE_LIVE) {
		job->deadline_ns = nvmfr__min_u64(job->deadline_ns,
						  ctrl_now(ctrl) + MS_NS(ctrl->opts.connect_timeout_ms));
		ctrl->dlog = job;
		ctrl->notices |= NOTICE_LOG_READ;
		ctrl->notice_ns = 0;
		nvmfr__service_wake(ctrl->host);
		/*
		 * Each command has its own bound, and all of them together the job's. It goes with the connection: that
		 * may be lost and back before this thread looks.
		 */
		while (!job->done && ctrl->dlog == job && !ctrl->shut_down)
			(void)nvmfr__service_wait(ctrl->host, UINT64_MAX);
		ctrl->dlog = NULL;
	}
	if (!job->done) {
		nvmfr__err_set(ctrl->sentence);
		return -ENOTCONN;
	}
	if (!job->err)
		return 0;
	/* The connection may have ended behind the answer. */
	return nvmfr__fail(job->err, "%s: %s", ctrl->ep ? ctrl->ep->peer : ctrl->target.subnqn, job->sentence);
}
