/* SPDX-License-Identifier: BSD-3-Clause */
/* All that is known of a controller, or of paths, as JSON: for logs and for reports. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "base/json.h"
#include "ctrl/ctrl.h"
#include "path/mpath.h"

static const char *state_name(enum nvmfr_state state)
{
	switch (state) {
	case NVMFR_STATE_CONNECTING: return "connecting";
	case NVMFR_STATE_LIVE: return "live";
	case NVMFR_STATE_RECOVERING: return "recovering";
	default: return "lost";
	}
}

static const char *phase_name(enum entry_phase phase)
{
	switch (phase) {
	case ENTRY_WAITING: return "waiting";
	case ENTRY_FABRIC: return "connecting";
	case ENTRY_CONNECT: return "Fabrics Connect";
	case ENTRY_LIVE: return "live";
	default: return "lost";
	}
}

/* VS and the library's own are of one form. */
static void put_version(struct json *j, const char *name, uint32_t version)
{
	char text[40];

	snprintf(text, sizeof(text), "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
	nvmfr__json_text(j, name, text);
}

static void put_target(struct json *j, const struct nvmfr_ctrl *ctrl)
{
	const struct target *target = &ctrl->target;

	nvmfr__json_open(j, "target", '{');
	nvmfr__json_text(j, "transport", target->soft ? "soft" : "rdma");
	if (!target->soft) {
		nvmfr__json_text(j, "traddr", target->traddr);
		nvmfr__json_text(j, "trsvcid", target->trsvcid);
		nvmfr__json_text(j, "host_traddr", target->host_traddr);
	}
	nvmfr__json_text(j, "subnqn", target->subnqn);
	nvmfr__json_text(j, "device", ctrl->device);
	nvmfr__json_int(j, "numa_node", ctrl->numa_node);
	nvmfr__json_close(j, '}');
}

static void put_state(struct json *j, const struct nvmfr_ctrl *ctrl)
{
	nvmfr__json_text(j, "state", state_name(ctrl->state));
	if (ctrl->state == NVMFR_STATE_CONNECTING)
		nvmfr__json_text(j, "step", nvmfr__sequence_step(ctrl));
	if (ctrl->state != NVMFR_STATE_LOST)
		return;
	nvmfr__json_text(j, "reason", ctrl->sentence);
	nvmfr__json_int(j, "err", ctrl->err);
}

static void put_controller(struct json *j, const struct nvmfr_ctrl *ctrl)
{
	char cap[24];

	snprintf(cap, sizeof(cap), "0x%016" PRIx64, ctrl->cap);
	nvmfr__json_open(j, "controller", '{');
	nvmfr__json_uint(j, "cntlid", ctrl->cntlid);
	put_version(j, "version", ctrl->vs);
	nvmfr__json_text(j, "cap", cap);
	nvmfr__json_text(j, "model", ctrl->id.mn);
	nvmfr__json_text(j, "serial", ctrl->id.sn);
	nvmfr__json_text(j, "firmware", ctrl->id.fr);
	nvmfr__json_bool(j, "discovery", ctrl_is_discovery(ctrl));
	nvmfr__json_uint(j, "oncs", ctrl->id.oncs);
	nvmfr__json_uint(j, "oaes", ctrl->id.oaes);
	nvmfr__json_uint(j, "kato_ms", ctrl->kato_ms);
	nvmfr__json_close(j, '}');
}

static void put_limits(struct json *j, const struct nvmfr_ctrl *ctrl)
{
	const struct queue_limits *limits = &ctrl->limits;

	nvmfr__json_open(j, "limits", '{');
	nvmfr__json_uint(j, "max_xfer_bytes", limits->max_xfer_bytes);
	nvmfr__json_bool(j, "write_zeroes", limits->write_zeroes);
	if (limits->zeroes_bytes != UINT64_MAX)
		nvmfr__json_uint(j, "write_zeroes_bytes", limits->zeroes_bytes);
	nvmfr__json_uint(j, "max_icd_bytes", limits->icd_bytes);
	nvmfr__json_uint(j, "max_sgl_descriptors", limits->max_descriptors);
	nvmfr__json_uint(j, "num_io_queues", ctrl->granted);
	nvmfr__json_close(j, '}');
}

static void put_latency(struct json *j, const char *name, const struct qpair_meter *meter,
			enum meter_kind kind)
{
	const struct nvmfr_latency *latency = &meter->latency[kind];

	nvmfr__json_open(j, name, '{');
	nvmfr__json_uint(j, "count", meter_read(&latency->count));
	nvmfr__json_uint(j, "bytes", meter_read(&meter->bytes[kind]));
	nvmfr__json_uint(j, "min_ns", meter_read(&latency->min_ns));
	nvmfr__json_uint(j, "p50_ns", nvmfr_latency_percentile(latency, 50));
	nvmfr__json_uint(j, "p99_ns", nvmfr_latency_percentile(latency, 99));
	nvmfr__json_uint(j, "p99_9_ns", nvmfr_latency_percentile(latency, 99.9));
	nvmfr__json_uint(j, "max_ns", meter_read(&latency->max_ns));
	nvmfr__json_close(j, '}');
}

static void put_queue_stats(struct json *j, const struct entry *entry)
{
	const struct nvmfr_qpair *qp = entry->qp;

	nvmfr__json_uint(j, "connects", entry->connects);
	nvmfr__json_uint(j, "commands",
			 atomic_load_explicit(&qp->link.commands, memory_order_relaxed));
	nvmfr__json_uint(j, "refused", meter_read(&qp->failures.refused));
	nvmfr__json_uint(j, "aborted", meter_read(&qp->failures.aborted));
	nvmfr__json_uint(j, "timed_out", meter_read(&qp->failures.timed_out));
	if (!qp->meter)
		return;
	put_latency(j, "reads", qp->meter, METER_READ);
	put_latency(j, "writes", qp->meter, METER_WRITE);
	put_latency(j, "others", qp->meter, METER_OTHER);
}

static void put_queues(struct json *j, const struct nvmfr_ctrl *ctrl)
{
	nvmfr__json_open(j, "queues", '[');
	for (const struct entry *entry = ctrl->entries; entry; entry = entry->next) {
		nvmfr__json_open(j, NULL, '{');
		nvmfr__json_uint(j, "qid", entry->qid);
		nvmfr__json_uint(j, "depth", entry->depth);
		nvmfr__json_text(j, "phase", phase_name(entry->phase));
		nvmfr__json_uint(j, "tries", entry->attempt.tries);
		if (entry->phase == ENTRY_LOST)
			nvmfr__json_text(j, "reason", entry->qp->link.sentence);
		put_queue_stats(j, entry);
		nvmfr__json_close(j, '}');
	}
	nvmfr__json_close(j, ']');
}

static void put_ana(struct json *j, const struct ns_entry *entry)
{
	nvmfr__json_uint(j, "ana_state", entry->ana_state);
	nvmfr__json_uint(j, "ana_group", entry->ana_group);
}

static void put_namespaces(struct json *j, const struct ns_table *table)
{
	nvmfr__json_open(j, "namespaces", '[');
	for (uint32_t i = 0; table && i < table->count; i++) {
		const struct ns_entry *entry = &table->entries[i];

		nvmfr__json_open(j, NULL, '{');
		nvmfr__json_uint(j, "nsid", entry->nsid);
		nvmfr__json_uint(j, "blocks", entry->blocks);
		nvmfr__json_uint(j, "block_bytes", UINT64_C(1) << entry->shift);
		nvmfr__json_uint(j, "metadata_bytes", entry->metadata_bytes);
		nvmfr__json_bool(j, "read_only", entry->write_protected);
		put_ana(j, entry);
		if (entry->refusal)
			nvmfr__json_text(j, "no_io", entry->refusal);
		nvmfr__json_close(j, '}');
	}
	nvmfr__json_close(j, ']');
}

static void put_stats(struct json *j, const struct ctrl_history *history)
{
	nvmfr__json_open(j, "stats", '{');
	nvmfr__json_uint(j, "admin_commands", history->admin_commands);
	nvmfr__json_uint(j, "keep_alives", history->keep_alives);
	nvmfr__json_uint(j, "aer_events", history->events);
	nvmfr__json_uint(j, "aborts", history->aborts);
	nvmfr__json_uint(j, "losses", history->losses);
	nvmfr__json_uint(j, "attempts", history->attempts);
	nvmfr__json_uint(j, "recoveries", history->recoveries);
	nvmfr__json_close(j, '}');
}

/* The newest first. */
static void put_losses(struct json *j, const struct nvmfr_ctrl *ctrl)
{
	const struct loss *loss;

	nvmfr__json_open(j, "losses", '[');
	for (uint32_t i = 0; (loss = nvmfr__history_get(&ctrl->history, i)); i++) {
		nvmfr__json_open(j, NULL, '{');
		nvmfr__json_uint(j, "ago_ms", (ctrl_now(ctrl) - loss->began_ns) / MS_NS(1));
		nvmfr__json_uint(j, "duration_ms", nvmfr__loss_ms(loss, ctrl_now(ctrl)));
		nvmfr__json_uint(j, "attempts", loss->attempts);
		nvmfr__json_text(j, "state", state_name(loss->state));
		nvmfr__json_int(j, "err", loss->err);
		nvmfr__json_text(j, "cause", loss->cause);
		nvmfr__json_close(j, '}');
	}
	nvmfr__json_close(j, ']');
}

static int check_room(const struct nvmfr_host *host, const char *text, size_t text_bytes)
{
	if (!text && text_bytes)
		return nvmfr__fail(-EINVAL, "text is NULL, text_bytes is %zu", text_bytes);
	return check_host(host);
}

/* What each begins with. */
static void put_host(struct json *j, const struct nvmfr_host *host)
{
	nvmfr__json_open(j, NULL, '{');
	put_version(j, "library_version", nvmfr_version());
	nvmfr__json_text(j, "hostnqn", nvmfr_host_nqn(host));
}

int nvmfr_ctrl_dump(const struct nvmfr_ctrl *ctrl, char *text, size_t text_bytes)
{
	struct json j = nvmfr__json_begin(text, text_bytes);
	int err = ctrl ? check_room(ctrl->host, text, text_bytes) : nvmfr__fail(-EINVAL, "ctrl is NULL");

	if (err)
		return err;
	put_host(&j, ctrl->host);
	pthread_mutex_lock(&ctrl->host->lock);
	put_target(&j, ctrl);
	put_state(&j, ctrl);
	put_controller(&j, ctrl);
	put_limits(&j, ctrl);
	put_queues(&j, ctrl);
	put_namespaces(&j, ctrl->ns);
	put_stats(&j, &ctrl->history);
	put_losses(&j, ctrl);
	pthread_mutex_unlock(&ctrl->host->lock);
	nvmfr__json_close(&j, '}');
	return nvmfr__json_end(&j);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void put_counts(struct json *j, const uint64_t counts[WAY_COUNTS])
{
	static const char *const names[WAY_COUNTS] = {
		[WAY_IOS] = "ios",
		[WAY_BYTES] = "bytes",
		[WAY_REFUSED] = "refused",
		[WAY_ABORTED] = "aborted",
		[WAY_TIMED_OUT] = "timed_out",
		[WAY_REISSUED] = "reissued",
		[WAY_IN_FLIGHT] = "in_flight",
		[WAY_BYTES_IN_FLIGHT] = "bytes_in_flight",
	};

	for (unsigned int i = 0; i < WAY_COUNTS; i++)
		nvmfr__json_uint(j, names[i], counts[i]);
}

static void put_ana_states(struct json *j, const struct ns_table *table)
{
	nvmfr__json_open(j, "namespaces", '[');
	for (uint32_t i = 0; table && i < table->count; i++) {
		nvmfr__json_open(j, NULL, '{');
		nvmfr__json_uint(j, "nsid", table->entries[i].nsid);
		put_ana(j, &table->entries[i]);
		nvmfr__json_close(j, '}');
	}
	nvmfr__json_close(j, ']');
}

static void put_path(struct json *j, const struct nvmfr_mpath *mpath, const struct mpath_member *member)
{
	uint64_t counts[WAY_COUNTS];

	nvmfr__mpath_counts(mpath, member, counts);
	nvmfr__json_open(j, NULL, '{');
	nvmfr__json_uint(j, "cntlid", member->ctrl->cntlid);
	put_target(j, member->ctrl);
	put_state(j, member->ctrl);
	put_counts(j, counts);
	put_ana_states(j, member->ctrl->ns);
	nvmfr__json_close(j, '}');
}

static void put_paths(struct json *j, const struct nvmfr_mpath *mpath)
{
	uint64_t threads = 0, waiting = 0;

	for (const struct nvmfr_mqpair *mq = mpath->users; mq; mq = mq->next) {
		threads++;
		waiting += meter_read(&mq->waiting);
	}
	nvmfr__json_text(j, "subnqn", mpath->subnqn);
	nvmfr__json_uint(j, "threads", threads);
	nvmfr__json_uint(j, "waiting", waiting);
	nvmfr__json_open(j, "paths", '[');
	for (unsigned int i = 0; i < MPATH_MAX; i++)
		if (mpath->members[i].ctrl)
			put_path(j, mpath, &mpath->members[i]);
	nvmfr__json_close(j, ']');
}

int nvmfr_mpath_dump(const struct nvmfr_mpath *mpath, char *text, size_t text_bytes)
{
	struct json j = nvmfr__json_begin(text, text_bytes);
	int err = mpath ? check_room(mpath->host, text, text_bytes) : nvmfr__fail(-EINVAL, "mpath is NULL");

	if (err)
		return err;
	put_host(&j, mpath->host);
	pthread_mutex_lock(&mpath->host->lock);
	put_paths(&j, mpath);
	pthread_mutex_unlock(&mpath->host->lock);
	nvmfr__json_close(&j, '}');
	return nvmfr__json_end(&j);
}
