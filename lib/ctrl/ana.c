/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first piece of the log is read without retaining the event: what changes from then on is told again, so
 * a log that changes while it is read is read anew.
 */
#include "ctrl/ana.h"

#include <errno.h>

#include "base/err.h"
#include "ctrl/notice.h"
#include "wire/status.h"

static int next_piece(struct nvmfr_ctrl *ctrl)
{
	return nvmfr__send_get_log(ctrl, NVME_LID_ANA, CTRL_PAGE_BYTES, ctrl->ana.offset,
				   ctrl->ana.begun);
}

int nvmfr__start_ana_scan(struct nvmfr_ctrl *ctrl)
{
	if (!ctrl->ns_next || !ctrl_has_ana(ctrl))
		return STEP_NEXT;
	if (!ctrl->ana.begun)
		for (uint32_t i = 0; i < ctrl->ns_next->count; i++)
			ctrl->ns_next->entries[i].ana_state = NVME_ANA_INACCESSIBLE;
	return next_piece(ctrl);
}

static struct ns_table *copy_table(const struct ns_table *table)
{
	struct ns_table *copy = nvmfr__ns_table_new(table->count);

	if (copy)
		memcpy(copy->entries, table->entries, table->count * sizeof(table->entries[0]));
	return copy;
}

int nvmfr__start_ana(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->ns && !ctrl->ns_next)
		ctrl->ns_next = copy_table(ctrl->ns);
	if (ctrl->ns && !ctrl->ns_next)
		return nvmfr__fail(-ENOMEM, "no memory for %u namespaces", ctrl->ns->count);
	return ctrl_has_ana(ctrl) && ctrl->ns_next ? nvmfr__start_ana_scan(ctrl) : next_piece(ctrl);
}

/* What is said of a namespace that is not active here is none of ours. */
static void take_item(struct nvmfr_ctrl *ctrl, const struct ana_item *item)
{
	struct ns_entry *entry = (struct ns_entry *)nvmfr__ns_find(ctrl->ns_next, item->nsid);

	if (!entry)
		return;
	entry->ana_group = item->group;
	entry->ana_state = item->state;
}

/* Without states: all are taken as they come. */
static int give_up(struct nvmfr_ctrl *ctrl, const char *why)
{
	nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
		   "%s: the ANA log could not be read, so no state of a path is known: %s",
		   ctrl->target.subnqn, why);
	for (uint32_t i = 0; ctrl->ns_next && i < ctrl->ns_next->count; i++)
		ctrl->ns_next->entries[i].ana_state = NVME_ANA_NONE;
	ctrl->ana_count = 0;
	ctrl->ana = (struct ana_reader){ 0 };
	return STEP_NEXT;
}

/* A transition that outlasts ANATT is one that will not end: the path is given up until it is told again. */
static void bound_change(struct nvmfr_ctrl *ctrl)
{
	uint32_t n = 0;

	for (uint32_t i = 0; ctrl->ns_next && i < ctrl->ns_next->count; i++) {
		struct ns_entry *entry = &ctrl->ns_next->entries[i];

		n += entry->ana_state == NVME_ANA_CHANGE;
		if (entry->ana_state == NVME_ANA_CHANGE && ctrl->ana_overdue)
			entry->ana_state = NVME_ANA_INACCESSIBLE;
	}
	if (n && ctrl->ana_overdue)
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_WARN,
			   "%s: %u namespaces are in transition for longer than ANATT (%u s): taken as inaccessible",
			   ctrl->target.subnqn, n, ctrl->id.anatt);
	ctrl->ana_overdue = ctrl->ana_overdue && n;
	if (!n || ctrl->ana_overdue)
		ctrl->ana_due_ns = 0;
	else if (!ctrl->ana_due_ns)
		ctrl->ana_due_ns = ctrl_now(ctrl) + MS_NS(1000u * nvmfr__max_u32(ctrl->id.anatt, 1));
}

int nvmfr__answer_ana(struct nvmfr_ctrl *ctrl, uint64_t result)
{
	struct ana_item item;
	size_t at = 0;
	int more;

	(void)result;
	while ((more = nvme_ana_next(&ctrl->ana, ctrl->data, sizeof(ctrl->data), &at, &item)) > 0)
		take_item(ctrl, &item);
	if (more < 0)
		return give_up(ctrl, nvmfr__err_get());
	if (!ctrl->ana.done && !(ctrl->id.lpa & NVME_LPA_EXTENDED))
		return give_up(ctrl, "it is longer than a page, and the controller reads no log in pieces (LPA)");
	if (!ctrl->ana.done)
		return STEP_AGAIN;
	bound_change(ctrl);
	ctrl->ana_count = ctrl->ana.change_count;
	ctrl->ana = (struct ana_reader){ 0 };
	return STEP_NEXT;
}

int nvmfr__refused_ana(struct nvmfr_ctrl *ctrl, uint16_t status)
{
	return give_up(ctrl, nvme_status_name(status));
}

static bool differs(const struct ns_table *a, const struct ns_table *b)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->entries[i].ana_state != b->entries[i].ana_state ||
		    a->entries[i].ana_group != b->entries[i].ana_group)
			return true;
	return false;
}

int nvmfr__publish_ana(struct nvmfr_ctrl *ctrl)
{
	bool changed = ctrl->ns_next && differs(ctrl->ns, ctrl->ns_next);
	const struct nvmfr_event event = { .ctrl = ctrl,
					   .type = NVMFR_EVENT_ANA_CHANGED,
					   .value = ctrl->ana_count };

	if (changed) {
		nvmfr__ns_table_put(ctrl->ns);
		ctrl->ns = ctrl->ns_next;
		ctrl->ns_next = NULL;
		nvmfr__ioqueue_publish_ns(ctrl);
		nvmfr__log(&ctrl->host->log, NVMFR_LOG_INFO, "%s: ANA states changed",
			   ctrl->target.subnqn);
	}
	if (changed || ctrl->working == NOTICE_ANA)
		nvmfr__events_push(&ctrl->host->events, &event);
	return STEP_NEXT;
}

uint64_t nvmfr__ana_pass(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->state != NVMFR_STATE_LIVE || !ctrl->ana_due_ns)
		return UINT64_MAX;
	if (ctrl_now(ctrl) < ctrl->ana_due_ns)
		return ctrl->ana_due_ns;
	ctrl->ana_due_ns = 0;
	ctrl->ana_overdue = true;
	ctrl->notices |= NOTICE_ANA_LOOK;
	return 0;
}

void nvmfr__ana_look(struct nvmfr_ctrl *ctrl)
{
	if (ctrl->state != NVMFR_STATE_LIVE || !ctrl_has_ana(ctrl) || ctrl->working == NOTICE_ANA_LOOK)
		return;
	ctrl->notices |= NOTICE_ANA_LOOK;
	nvmfr__service_wake(ctrl->host);
}
