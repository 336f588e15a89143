/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/nsscan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/notice.h"
#include "wire/admin.h"
#include "wire/status.h"

int nvmfr__send_identify(struct nvmfr_ctrl *ctrl, uint8_t cns, uint32_t nsid)
{
	struct nvme_sqe sqe;

	/* A target that answers well and sends nothing leaves zeroes, not the last page. */
	memset(ctrl->page, 0, CTRL_PAGE_BYTES);
	nvme_sqe_identify(&sqe, cns, nsid, 0);
	sqe.dptr = nvme_sgl_keyed((uintptr_t)ctrl->page, CTRL_PAGE_BYTES, ctrl->page_mr.rkey);
	return nvmfr__sequence_send(ctrl, &sqe);
}

void nvmfr__ns_scan_end(struct nvmfr_ctrl *ctrl)
{
	free(ctrl->changed);
	ctrl->changed = NULL;
	ctrl->changed_count = 0;
	free(ctrl->nsids);
	ctrl->nsids = NULL;
	ctrl->nsid_count = 0;
	ctrl->nsid_at = 0;
	nvmfr__ns_table_put(ctrl->ns_next);
	ctrl->ns_next = NULL;
	ctrl->ana = (struct ana_reader){ 0 };
}

/* ---- the list: pages of 1,024, memory only for what is active -------------------------------- */

int nvmfr__start_ns_list(struct nvmfr_ctrl *ctrl)
{
	uint32_t after = ctrl->nsid_count ? ctrl->nsids[ctrl->nsid_count - 1] : 0;

	if (ctrl_is_discovery(ctrl))
		return STEP_NEXT;
	return nvmfr__send_identify(ctrl, NVME_CNS_ACTIVE_LIST, after);
}

static int begin_table(struct nvmfr_ctrl *ctrl)
{
	ctrl->nsid_at = 0;
	ctrl->ns_next = nvmfr__ns_table_new(ctrl->nsid_count);
	if (!ctrl->ns_next)
		return nvmfr__fail(-ENOMEM, "no memory for %u namespaces", ctrl->nsid_count);
	ctrl->ns_next->count = 0; /* room for all, counts those that are good */
	return STEP_NEXT;
}

int nvmfr__answer_ns_list(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	uint32_t after = ctrl->nsid_count ? ctrl->nsids[ctrl->nsid_count - 1] : 0;
	size_t room = ctrl->nsid_count + NVME_ACTIVE_LIST_ENTRIES;
	uint32_t *more = realloc(ctrl->nsids, room * sizeof(*more));
	int n;

	(void)result;
	if (!more)
		return nvmfr__fail(-ENOMEM, "no memory for a list of %zu namespaces", room);
	ctrl->nsids = more;
	n = nvme_parse_active_list(ctrl->data, after, more + ctrl->nsid_count,
				   NVME_ACTIVE_LIST_ENTRIES);
	if (n < 0)
		return n;
	ctrl->nsid_count += (uint32_t)n;
	if (ctrl->nsid_count > CTRL_MAX_NAMESPACES)
		return nvmfr__fail(-EPROTO, "more than %u active namespaces",
				   (unsigned int)CTRL_MAX_NAMESPACES);
	return n == NVME_ACTIVE_LIST_ENTRIES ? STEP_AGAIN : begin_table(ctrl);
}

/* ---- what is known ------------------------------------------------------------------------- */

enum { KEEP_AT_ONCE = 1024 };

void nvmfr__ns_changed_list(struct nvmfr_ctrl *ctrl, const void *data, size_t bytes)
{
	uint32_t *list = bytes == NVME_CHANGED_NS_BYTES && !ctrl->scan_all ? malloc(bytes) : NULL;
	int n = list ? nvme_parse_changed_ns(data, list) : -1;

	if (n < 0) {
		free(list);
		return;
	}
	ctrl->changed = list;
	ctrl->changed_count = (uint32_t)n;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool was_told(const struct nvmfr_ctrl *ctrl, uint32_t nsid)
{
	return ctrl->changed &&
	       bsearch(&nsid, ctrl->changed, ctrl->changed_count, sizeof(nsid), compare);
}

/* NULL: it has to be read. */
static const struct ns_entry *known(const struct nvmfr_ctrl *ctrl, uint32_t nsid)
{
	return ctrl->changed && !was_told(ctrl, nsid) ? nvmfr__ns_find(ctrl->ns, nsid) : NULL;
}

/* ---- each namespace -------------------------------------------------------------------------- */

static struct ns_entry *next_entry(struct nvmfr_ctrl *ctrl)
{
	return &ctrl->ns_next->entries[ctrl->ns_next->count++];
}

/* How many were taken over from the table in use: a bounded run. */
static unsigned int keep_known(struct nvmfr_ctrl *ctrl)
{
	unsigned int n = 0;

	for (; n < KEEP_AT_ONCE && ctrl->nsid_at < ctrl->nsid_count; n++) {
		const struct ns_entry *old = known(ctrl, ctrl->nsids[ctrl->nsid_at]);

		if (!old)
			break;
		*next_entry(ctrl) = *old;
		ctrl->nsid_at++;
	}
	return n;
}

int nvmfr__start_ns(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->nsid_at >= ctrl->nsid_count) {
		ctrl->nsid_at = 0;
		return STEP_NEXT;
	}
	if (keep_known(ctrl))
		return STEP_AGAIN;
	return nvmfr__send_identify(ctrl, NVME_CNS_NS, ctrl->nsids[ctrl->nsid_at]);
}

static const char *refusal(const struct ns_data *data)
{
	if (data->ms && data->extended)
		return "its blocks carry metadata behind the data (extended LBA), which this version does not transfer";
	if (data->pi_type)
		return "it is formatted with protection information, which this version does not make";
	return NULL;
}

int nvmfr__answer_ns(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	uint32_t nsid = ctrl->nsids[ctrl->nsid_at++];
	struct ns_data data;
	struct ns_entry *entry;
	int err = nvme_parse_ns(ctrl->data, &data);

	(void)result;
	if (err) {
		/* One bad namespace is no reason to lose the others. */
		nvmfr__log(&ctrl->host->log, err == -ENOENT ? NVMFR_LOG_INFO : NVMFR_LOG_WARN,
			   "%s: namespace %u is left out: %s", ctrl->target.subnqn, nsid,
			   nvmfr__err_get());
		return STEP_AGAIN;
	}
	entry = next_entry(ctrl);
	*entry = (struct ns_entry){
		.blocks = data.nsze,
		.nsid = nsid,
		.shift = data.lba_shift,
		.metadata_bytes = data.ms,
		.write_protected = data.write_protected,
		.refusal = refusal(&data),
		.copy_ranges = (uint16_t)(data.msrc + 1u),
		.copy_range_blocks = data.mssrl ? data.mssrl : NVME_RW_MAX_BLOCKS,
		.copy_blocks = data.mcl ? data.mcl : UINT32_MAX,
	};
	memcpy(entry->nguid, data.nguid, sizeof(entry->nguid));
	memcpy(entry->eui64, data.eui64, sizeof(entry->eui64));
	return STEP_AGAIN;
}

enum { SCAN_REFUSALS = 3,
       NS_GONE_MAX = 1024 };

/* Whether the time that the loss has may be over before the next one, which comes after a pause, has done it all. */
static bool is_last_attempt(const struct nvmfr_ctrl *ctrl)
{
	uint64_t pause = MS_NS(ctrl->opts.reconnect_delay_ms) << nvmfr__min_u32(ctrl->recoveries, 3);

	return ctrl->state == NVMFR_STATE_RECOVERING && ctrl_now(ctrl) + 2 * pause >= ctrl->give_up_ns;
}

/*
 * What is known already would be none, or another one, by a refusal that may pass (no DNR): all is read once more, a
 * few times. One that stays is no reason to lose the others. 0: it is as the controller says.
 */
static int refused_for_now(struct nvmfr_ctrl *ctrl, uint32_t nsid, uint16_t status, const char *what)
{
	if (nvme_status_dnr(status) || ctrl->scan_refusals == SCAN_REFUSALS || is_last_attempt(ctrl))
		return 0;
	ctrl->scan_refusals++;
	return nvmfr__fail(-EIO, "namespace %u: %s refused with status 0x%04x, %s", nsid, what, status,
			   nvme_status_name(status));
}

int nvmfr__refused_ns(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	uint32_t nsid = ctrl->nsids[ctrl->nsid_at];
	int err = nvmfr__ns_find(ctrl->ns, nsid) ? refused_for_now(ctrl, nsid, status, "Identify") : 0;

	if (err)
		return err;
	ctrl->nsid_at++;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
		   "%s: namespace %u is left out: Identify was refused, %s", ctrl->target.subnqn,
		   nsid, nvme_status_name(status));
	return STEP_AGAIN;
}

/* ---- descriptors: a UUID is found nowhere else; NVMe 1.3 and later --------------------------- */

/* Those that were taken over have theirs. */
static unsigned int skip_known(struct nvmfr_ctrl *ctrl)
{
	unsigned int n = 0;

	while (n < KEEP_AT_ONCE && ctrl->nsid_at < ctrl->ns_next->count &&
	       known(ctrl, ctrl->ns_next->entries[ctrl->nsid_at].nsid)) {
		ctrl->nsid_at++;
		n++;
	}
	return n;
}

int nvmfr__start_ns_descs(struct nvmfr_ctrl *ctrl)
{
	if (!ctrl->ns_next || ctrl->nsid_at >= ctrl->ns_next->count || ctrl->vs < 0x10300)
		return STEP_NEXT;
	if (skip_known(ctrl))
		return STEP_AGAIN;
	return nvmfr__send_identify(ctrl, NVME_CNS_NS_DESCS,
				    ctrl->ns_next->entries[ctrl->nsid_at].nsid);
}

int nvmfr__answer_ns_descs(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	struct ns_entry *entry = &ctrl->ns_next->entries[ctrl->nsid_at++];
	struct ns_ids ids;

	(void)result;
	if (nvme_parse_ns_descs(ctrl->data, CTRL_PAGE_BYTES, &ids))
		return STEP_AGAIN;
	if (ids.has_uuid)
		memcpy(entry->uuid, ids.uuid, sizeof(entry->uuid));
	if (ids.has_nguid)
		memcpy(entry->nguid, ids.nguid, sizeof(entry->nguid));
	if (ids.has_eui64)
		memcpy(entry->eui64, ids.eui64, sizeof(entry->eui64));
	if (ids.has_csi && ids.csi)
		entry->refusal = "its command set is not the NVM command set";
	return STEP_AGAIN;
}

static bool is_another(const struct ns_entry *old, const struct ns_entry *new)
{
	return memcmp(old->nguid, new->nguid, sizeof(old->nguid)) != 0 ||
	       memcmp(old->uuid, new->uuid, sizeof(old->uuid)) != 0 ||
	       memcmp(old->eui64, new->eui64, sizeof(old->eui64)) != 0;
}

int nvmfr__refused_ns_descs(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	const struct ns_entry *entry = &ctrl->ns_next->entries[ctrl->nsid_at];
	const struct ns_entry *old = nvmfr__ns_find(ctrl->ns, entry->nsid);
	int err = old && is_another(old, entry) ? refused_for_now(ctrl, entry->nsid, status, "descriptors") : 0;

	if (err)
		return err;
	ctrl->nsid_at++;
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO, "%s: namespace %u has no descriptors: %s",
		   ctrl->target.subnqn, entry->nsid, nvme_status_name(status));
	return STEP_AGAIN;
}

/* ---- what has changed ------------------------------------------------------------------------ */

static uint64_t difference(const struct ns_entry *old, const struct ns_entry *new)
{
	uint64_t bits = 0;

	if (old->blocks != new->blocks)
		bits |= NVMFR_NS_CHANGE_SIZE;
	/* Refusals are constant strings, one a cause. */
	if (old->shift != new->shift || old->metadata_bytes != new->metadata_bytes ||
	    old->refusal != new->refusal)
		bits |= NVMFR_NS_CHANGE_FORMAT;
	if (is_another(old, new))
		bits |= NVMFR_NS_CHANGE_IDENTITY;
	if (old->write_protected != new->write_protected)
		bits |= NVMFR_NS_CHANGE_PROTECTION;
	return bits;
}

/* The one with the lesser NSID is in one table only. */
static void tell_difference(struct nvmfr_ctrl *ctrl, const struct ns_entry *old,
			    const struct ns_entry *new)
{
	uint64_t bits;

	if (!new || (old && old->nsid < new->nsid)) {
		nvmfr__event_ns(ctrl, NVMFR_EVENT_NS_REMOVED, old->nsid, 0);
		return;
	}
	if (!old || new->nsid < old->nsid) {
		nvmfr__event_ns(ctrl, NVMFR_EVENT_NS_ADDED, new->nsid, 0);
		return;
	}
	bits = difference(old, new);
	if (bits || was_told(ctrl, new->nsid))
		nvmfr__event_ns(ctrl, NVMFR_EVENT_NS_CHANGED, new->nsid, bits);
}

static void tell_differences(struct nvmfr_ctrl *ctrl, const struct ns_table *before)
{
	const struct ns_table *after = ctrl->ns;
	uint32_t i = 0, k = 0;

	while (i < before->count || k < after->count) {
		const struct ns_entry *old = i < before->count ? &before->entries[i] : NULL;
		const struct ns_entry *new = k < after->count ? &after->entries[k] : NULL;

		tell_difference(ctrl, old, new);
		i += old && (!new || old->nsid <= new->nsid);
		k += new && (!old || new->nsid <= old->nsid);
	}
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO, "%s: namespaces changed: %u before, %u now",
		   ctrl->target.subnqn, before->count, after->count);
}

/* Who knows a namespace by its NSID shall not read another one by it, also if there was none in between. */
static void mark_others(const struct nvmfr_ctrl *ctrl, struct ns_table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		struct ns_entry *new = &table->entries[i];
		const struct ns_entry *old = nvmfr__ns_find(ctrl->ns, new->nsid);

		if (!old)
			old = nvmfr__ns_find(ctrl->ns_gone, new->nsid);
		if (old)
			new->another = is_another(old, new) ? ctrl->ns_generation : old->another;
	}
}

/* The first one above nsid that is or was there, and is not in table. */
static const struct ns_entry *gone_after(const struct nvmfr_ctrl *ctrl, const struct ns_table *table, uint32_t nsid)
{
	for (;;) {
		const struct ns_entry *is = nvmfr__ns_after(ctrl->ns, nsid);
		const struct ns_entry *was = nvmfr__ns_after(ctrl->ns_gone, nsid);
		const struct ns_entry *first = !was || (is && is->nsid < was->nsid) ? is : was;

		if (!first || !nvmfr__ns_find(table, first->nsid))
			return first;
		nsid = first->nsid;
	}
}

/* A controller that always has others must not make this grow for ever: those with the highest NSIDs are forgotten. */
static int remember_gone(struct nvmfr_ctrl *ctrl, const struct ns_table *table)
{
	const struct ns_entry *entry;
	struct ns_table *gone;
	uint32_t n = 0;

	for (entry = gone_after(ctrl, table, 0); entry && n < NS_GONE_MAX; n++)
		entry = gone_after(ctrl, table, entry->nsid);
	gone = n ? nvmfr__ns_table_new(n) : NULL;
	if (n && !gone)
		return nvmfr__fail(-ENOMEM, "no memory for %u namespaces", n);
	entry = gone_after(ctrl, table, 0);
	for (uint32_t i = 0; i < n; i++) {
		gone->entries[i] = *entry;
		entry = gone_after(ctrl, table, entry->nsid);
	}
	nvmfr__ns_table_put(ctrl->ns_gone);
	ctrl->ns_gone = gone;
	return 0;
}

int nvmfr__publish_ns(struct nvmfr_ctrl *ctrl)
{
	struct ns_table *old = ctrl->ns;
	int err;

	if (!ctrl->ns_next)
		return STEP_NEXT;
	ctrl->ns_generation++;
	ctrl->scan_refusals = 0;
	mark_others(ctrl, ctrl->ns_next);
	err = remember_gone(ctrl, ctrl->ns_next);
	if (err)
		return err;
	ctrl->ns = ctrl->ns_next;
	ctrl->ns_next = NULL;
	if (old) {
		/* First the table, then the word of it: who hears of a namespace can use it. */
		nvmfr__ioqueue_publish_ns(ctrl);
		tell_differences(ctrl, old);
	}
	nvmfr__ns_table_put(old);
	nvmfr__ns_scan_end(ctrl);
	return STEP_NEXT;
}
