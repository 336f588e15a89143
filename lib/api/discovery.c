/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery: the logs of a discovery controller and of those that it refers to, as one list of records. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvmfr/nvmfr.h>

#include "api/check.h"
#include "api/discovery.h"
#include "base/opts.h"
#include "ctrl/dlog.h"
#include "wire/admin.h"

enum {
	MAX_PLACES = 64, /* that are asked: the first and those referred to */
	MAX_KEPT = 16, /* of those, that stay connected to tell of changes */
	MAX_RECORDS = 16384, /* of all logs together */
	END_MS = 1000, /* for the orderly end of an association */
	URI_BYTES = sizeof(((struct nvmfr_discovery_record *)0)->uri),
};

/* A discovery controller's address. Nobody is asked twice, also who did not answer. */
struct place {
	bool soft;
	char traddr[257]; /* soft: the target's name */
	char trsvcid[33];
	char peer[96]; /* as connected: another name of the same place shows here */
	uint32_t log; /* 1 and what struct found has of its records; 0: none of it was read */
	struct nvmfr_ctrl *ctrl; /* stays connected; NULL: it does not, or is the discovery's first */
};

struct found {
	struct discovery_record wire;
	uint64_t logs; /* that have it: bit by bit, in the order of reading */
	bool soft; /* it is of an embedded target's log */
};

struct list {
	struct found *found;
	uint32_t count, logs, unreached, unfollowed, skipped;
	uint64_t generation, left_out;
	uint64_t deadline_ns; /* no referral is followed after it */
	uint32_t asked, kept;
	struct place places[MAX_PLACES];
};

struct nvmfr_discovery {
	struct nvmfr_host *host;
	struct nvmfr_ctrl_opts opts; /* without strings, those are: */
	char host_traddr[256];
	char uri[4096];
	char traddr[256], trsvcid[16], subnqn[NVME_NQN_MAX + 1];
	uint32_t flags;
	struct nvmfr_ctrl *ctrl; /* NULL: not connected now */
	struct list *list; /* what was read last */
};

static bool is_persistent(const struct nvmfr_discovery *d)
{
	return d->flags & NVMFR_DISCOVER_PERSISTENT;
}

/* ---- associations ---------------------------------------------------------------------------- */

/* Its sentence survives. */
static void end(struct nvmfr_ctrl *ctrl)
{
	char sentence[512];

	snprintf(sentence, sizeof(sentence), "%s", nvmfr__err_get());
	(void)nvmfr_disconnect(ctrl, END_MS);
	nvmfr__err_set(sentence);
}

static int check_kind(struct nvmfr_ctrl *ctrl)
{
	bool discovery;

	pthread_mutex_lock(&ctrl->host->lock);
	discovery = ctrl_is_discovery(ctrl);
	pthread_mutex_unlock(&ctrl->host->lock);
	return discovery ? 0
			 : nvmfr__fail(-EINVAL, "%s is not a discovery controller",
				       ctrl->target.subnqn);
}

static int reach(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *opts, struct nvmfr_ctrl *told_as,
		 struct nvmfr_ctrl **out)
{
	struct nvmfr_ctrl *ctrl;
	int err;

	*out = NULL;
	pthread_mutex_lock(&host->lock);
	err = nvmfr__ctrl_create(host, opts, &ctrl);
	if (!err) {
		ctrl->quiet = true;
		ctrl->told_as = told_as;
		/* The URI of an embedded target without a name has no place for a subsystem. */
		if (ctrl->own_soft)
			strcpy(ctrl->target.subnqn, NVME_DISCOVERY_NQN);
	}
	pthread_mutex_unlock(&host->lock);
	if (err)
		return err;
	nvmfr__service_wake(host);
	err = nvmfr_ctrl_wait(ctrl, -1);
	if (!err)
		err = check_kind(ctrl);
	if (err)
		end(ctrl);
	else
		*out = ctrl;
	return err;
}

/* ---- a list of records ----------------------------------------------------------------------- */

/* Those that stayed connected. */
static void let_go(struct list *list)
{
	for (uint32_t i = 0; list && i < list->asked; i++) {
		end(list->places[i].ctrl);
		list->places[i].ctrl = NULL;
	}
}

static void list_free(struct list *list)
{
	let_go(list);
	if (list)
		free(list->found);
	free(list);
}

static void add_place(struct list *list, bool soft, const char *traddr, const char *trsvcid)
{
	struct place *place = &list->places[list->asked++];

	*place = (struct place){ .soft = soft };
	snprintf(place->traddr, sizeof(place->traddr), "%s", traddr);
	snprintf(place->trsvcid, sizeof(place->trsvcid), "%s", trsvcid);
}

static int append(struct list *list, const struct dlog *job, bool soft)
{
	struct found *more = realloc(list->found, (list->count + job->count + 1) * sizeof(*more));

	if (!more)
		return nvmfr__fail(-ENOMEM, "no memory for %u records", list->count + job->count);
	list->found = more;
	for (uint32_t i = 0; i < job->count; i++)
		more[list->count++] = (struct found){ job->records[i], UINT64_C(1) << list->logs, soft };
	if (list->logs++ == 0)
		list->generation = job->generation;
	list->places[list->asked - 1].log = list->logs;
	list->skipped += job->skipped;
	list->left_out += job->left_out;
	return 0;
}

/* Another name of a place that was asked already. The last place is this one; the lock held. */
static bool is_known(struct list *list, const struct nvmfr_ctrl *ctrl)
{
	struct place *place = &list->places[list->asked - 1];

	snprintf(place->peer, sizeof(place->peer), "%s", ctrl->ep ? ctrl->ep->peer : "");
	for (uint32_t i = 0; place->peer[0] && i + 1 < list->asked; i++)
		if (strcmp(place->peer, list->places[i].peer) == 0)
			return true;
	return false;
}

static int read_log(struct list *list, struct nvmfr_ctrl *ctrl)
{
	struct dlog job = { .max = MAX_RECORDS - list->count, .deadline_ns = list->deadline_ns };
	bool known;
	int err = 0;

	pthread_mutex_lock(&ctrl->host->lock);
	known = is_known(list, ctrl);
	if (!known)
		err = nvmfr__dlog_read(ctrl, &job);
	pthread_mutex_unlock(&ctrl->host->lock);
	if (!known && !err)
		err = append(list, &job, ctrl->target.soft);
	free(job.records);
	return err;
}

/* ---- records --------------------------------------------------------------------------------- */

static const char *default_port(const struct discovery_record *wire)
{
	return wire->trsvcid[0] ? wire->trsvcid : TARGET_DEFAULT_PORT;
}

/* It is what nvmfr_connect() understands, or nothing: what does not come back from it as it went in is none. */
static void make_uri(const struct discovery_record *wire, bool soft, char uri[URI_BYTES])
{
	struct nvmfr_ctrl_opts opts = { .uri = uri };
	bool v6 = wire->adrfam == NVME_ADRFAM_IPV6, v4 = wire->adrfam == NVME_ADRFAM_IPV4;
	struct target *target = malloc(sizeof(*target));
	bool good = false;

	uri[0] = '\0';
	if (wire->trtype == NVME_TRTYPE_RDMA && (v4 || v6))
		snprintf(uri, URI_BYTES, "nvmf+rdma://%s%s%s:%s/%s", v6 ? "[" : "", wire->traddr,
			 v6 ? "]" : "", default_port(wire), wire->subnqn);
	else if (wire->trtype == NVME_TRTYPE_LOOP && soft)
		snprintf(uri, URI_BYTES, "nvmf+soft://%s/%s", wire->traddr, wire->subnqn);
	if (target && uri[0] && nvmfr__target_parse(&opts, target) == 0)
		good = strcmp(target->subnqn, wire->subnqn) == 0 &&
		       (target->soft ? strcmp(target->name, wire->traddr) == 0
				     : strcmp(target->traddr, wire->traddr) == 0 &&
					       strcmp(target->trsvcid, default_port(wire)) == 0);
	if (!good)
		uri[0] = '\0';
	free(target);
}

/* Where it was asked; NULL: it was not. */
static struct place *find_place(struct list *list, const struct discovery_record *wire)
{
	bool soft = wire->trtype == NVME_TRTYPE_LOOP;

	for (uint32_t i = 0; list && i < list->asked; i++) {
		struct place *place = &list->places[i];

		if (place->soft == soft && strcmp(place->traddr, wire->traddr) == 0 &&
		    (soft || strcmp(place->trsvcid, default_port(wire)) == 0))
			return place;
	}
	return NULL;
}

/* ---- referrals ------------------------------------------------------------------------------- */

/* One that cannot be followed is told and passed over: the others are worth having. */
static void unreached(const struct nvmfr_discovery *d, struct list *list,
		      const struct discovery_record *wire, const char *why)
{
	if (list->unreached++ >= DLOG_LOGGED)
		return;
	pthread_mutex_lock(&d->host->lock);
	nvmfr__log(&d->host->log, NVMFR_LOG_WARN, "the referral to %s %s is not followed: %s",
		   wire->traddr, wire->trsvcid, why);
	pthread_mutex_unlock(&d->host->lock);
}

static struct nvmfr_ctrl_opts options(const struct nvmfr_discovery *d, bool persistent)
{
	struct nvmfr_ctrl_opts opts = d->opts;

	opts.host_traddr = d->host_traddr[0] ? d->host_traddr : NULL;
	/* A timeout asks a discovery controller to stay. */
	if (!persistent)
		opts.kato_ms = 0;
	return opts;
}

/* What is left of the whole's time, for one connect or one log; 0: nothing. */
static uint32_t time_left(const struct nvmfr_discovery *d, const struct list *list)
{
	uint64_t now = nvmfr__clock_now_ns(&d->host->clock);

	if (now >= list->deadline_ns)
		return 0;
	return (uint32_t)nvmfr__min_u64(d->opts.connect_timeout_ms,
					(list->deadline_ns - now) / MS_NS(1));
}

/* Whether it tells of changes, as long as the discovery lasts. */
static bool tells(const struct nvmfr_discovery *d, struct nvmfr_ctrl *ctrl)
{
	bool told;

	pthread_mutex_lock(&d->host->lock);
	/* It may have connected with what was left of another's time. */
	ctrl->opts.connect_timeout_ms = d->opts.connect_timeout_ms;
	told = is_persistent(d) && ctrl->state != NVMFR_STATE_LOST && ctrl->kato_ms &&
	       (ctrl->id.oaes & NVME_AEC_DISCOVERY_CHANGE);
	ctrl->stays = told;
	pthread_mutex_unlock(&d->host->lock);
	return told;
}

static int too_late(void)
{
	return nvmfr__fail(-ETIMEDOUT, "twice connect_timeout_ms is over");
}

static int reach_in_time(const struct nvmfr_discovery *d, const struct list *list, struct nvmfr_ctrl_opts *opts,
			 struct place *place)
{
	opts->connect_timeout_ms = time_left(d, list);
	if (!opts->connect_timeout_ms)
		return too_late();
	return reach(d->host, opts, opts->kato_ms ? d->ctrl : NULL, &place->ctrl);
}

static int reach_referred(const struct nvmfr_discovery *d, const struct list *list, struct nvmfr_ctrl_opts *opts,
			  struct place *place)
{
	int err = reach_in_time(d, list, opts, place);

	/* Some serve nobody who wants to stay. */
	if (opts->kato_ms && (err == -ECONNREFUSED || err == -EPROTO)) {
		opts->kato_ms = 0;
		err = reach_in_time(d, list, opts, place);
	}
	return err;
}

/* The log of the last place, by the connection that is there from the last time or by a new one. */
static int ask(const struct nvmfr_discovery *d, struct list *list, struct place *old, const char *uri)
{
	struct place *place = &list->places[list->asked - 1];
	struct nvmfr_ctrl_opts opts = options(d, is_persistent(d) && list->kept < MAX_KEPT);
	int err = 0;

	if (old && old->ctrl && nvmfr_ctrl_state(old->ctrl) != NVMFR_STATE_LOST) {
		place->ctrl = old->ctrl;
		old->ctrl = NULL;
	} else {
		opts.uri = uri;
		err = reach_referred(d, list, &opts, place);
	}
	if (!err)
		err = time_left(d, list) ? read_log(list, place->ctrl) : too_late();
	if (place->ctrl && list->kept < MAX_KEPT && tells(d, place->ctrl) && (err || place->log)) {
		list->kept++;
	} else {
		end(place->ctrl);
		place->ctrl = NULL;
	}
	return err;
}

/* That what it listed is gone is not known: it stays. */
static int carry_over(struct list *list, const struct list *before, const struct place *old)
{
	struct dlog job = { .records = calloc(before->count + 1, sizeof(*job.records)) };
	int err = job.records ? 0 : nvmfr__fail(-ENOMEM, "no memory for %u records", before->count);

	for (uint32_t i = 0; !err && i < before->count && list->count + job.count < MAX_RECORDS; i++)
		if (before->found[i].logs >> (old->log - 1) & 1)
			job.records[job.count++] = before->found[i].wire;
	if (!err)
		err = append(list, &job, old->soft);
	free(job.records);
	return err;
}

static int follow(const struct nvmfr_discovery *d, struct list *list, uint32_t i)
{
	const struct discovery_record wire = list->found[i].wire;
	struct place *old = find_place(d->list, &wire), *place = &list->places[list->asked];
	char uri[URI_BYTES];
	int err;

	if (find_place(list, &wire))
		return 0;
	make_uri(&wire, list->found[i].soft, uri);
	if (!uri[0] || list->asked == MAX_PLACES) {
		unreached(d, list, &wire,
			  uri[0] ? "too many of them" : "not a transport or an address of this library's");
		return 0;
	}
	add_place(list, wire.trtype == NVME_TRTYPE_LOOP, wire.traddr, default_port(&wire));
	err = ask(d, list, old, uri);
	list->unfollowed += err || (place->log && !place->ctrl);
	if (err)
		unreached(d, list, &wire, nvmfr__err_get());
	return err && old && old->log ? carry_over(list, d->list, old) : 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = *(const struct found *const *)a,
			   *y = *(const struct found *const *)b;
	int order = memcmp(&x->wire, &y->wire, sizeof(x->wire));

	return order ? order : (x > y) - (x < y);
}

/* The same record in several logs is one. */
static int drop_doubles(struct list *list)
{
	struct found **sorted = malloc((list->count + 1) * sizeof(struct found *)), *first = NULL;
	bool *doubled = calloc(list->count + 1, sizeof(*doubled));
	uint32_t kept = 0;

	if (!sorted || !doubled) {
		free(sorted);
		free(doubled);
		return nvmfr__fail(-ENOMEM, "no memory for %u records", list->count);
	}
	for (uint32_t i = 0; i < list->count; i++)
		sorted[i] = &list->found[i];
	qsort(sorted, list->count, sizeof(struct found *), compare_found);
	for (uint32_t i = 0; i < list->count; i++) {
		struct found *found = sorted[i];
		bool again = first && memcmp(&first->wire, &found->wire, sizeof(found->wire)) == 0;

		doubled[found - list->found] = again;
		first = again ? first : found;
		first->logs |= found->logs;
	}
	for (uint32_t i = 0; i < list->count; i++)
		if (!doubled[i])
			list->found[kept++] = list->found[i];
	list->count = kept;
	free(sorted);
	free(doubled);
	return 0;
}

/* What was read before stays when this fails. */
static int read_all(struct nvmfr_discovery *d, uint64_t deadline_ns)
{
	const struct target *target = &d->ctrl->target;
	struct list *list = calloc(1, sizeof(*list));
	int err;

	if (!list)
		return nvmfr__fail(-ENOMEM, "no memory for a discovery log");
	list->deadline_ns = deadline_ns;
	add_place(list, target->soft, target->soft ? target->name : target->traddr,
		  target->trsvcid);
	err = read_log(list, d->ctrl);
	list->unfollowed = !tells(d, d->ctrl);
	/* Those that a followed one brings come behind, and their turn comes, too. */
	for (uint32_t i = 0; !err && !(d->flags & NVMFR_DISCOVER_NO_REFERRALS) && i < list->count;
	     i++)
		if (list->found[i].wire.subtype == NVME_DISC_REFERRAL)
			err = follow(d, list, i);
	if (!err && list->logs > 1)
		err = drop_doubles(list);
	if (err) {
		list_free(list);
		return err;
	}
	list_free(d->list);
	d->list = list;
	return 0;
}

/* ---- the object ------------------------------------------------------------------------------ */

static int copy_string(char *dst, size_t room, const char *src, const char *what)
{
	if (src && strlen(src) >= room)
		return nvmfr__fail(-EINVAL, "%s is %zu bytes long, at most %zu are possible", what,
				   strlen(src), room - 1);
	memcpy(dst, src ? src : "", src ? strlen(src) + 1 : 1);
	return 0;
}

/* A URI without a subsystem: the discovery subsystem. */
static int complete_uri(struct nvmfr_discovery *d)
{
	char *authority = strstr(d->uri, "://"),
	     *slash = authority ? strchr(authority + 3, '/') : NULL;
	size_t used = strlen(d->uri);

	if (!authority || !authority[3] || authority[3] == '/' || (slash && slash[1]))
		return 0;
	if (used + 1 + sizeof(NVME_DISCOVERY_NQN) > sizeof(d->uri))
		return nvmfr__fail(-EINVAL, "the uri is too long");
	snprintf(d->uri + used, sizeof(d->uri) - used, "%s%s", slash ? "" : "/",
		 NVME_DISCOVERY_NQN);
	return 0;
}

static int take_opts(struct nvmfr_discovery *d, const struct nvmfr_ctrl_opts *given)
{
	int err = copy_string(d->uri, sizeof(d->uri), given->uri, "the uri");

	if (!err)
		err = copy_string(d->traddr, sizeof(d->traddr), given->traddr, "traddr");
	if (!err)
		err = copy_string(d->trsvcid, sizeof(d->trsvcid), given->trsvcid, "trsvcid");
	if (!err)
		err = copy_string(d->subnqn, sizeof(d->subnqn), given->subnqn, "subnqn");
	if (!err)
		err = copy_string(d->host_traddr, sizeof(d->host_traddr), given->host_traddr,
				  "host_traddr");
	if (!err && given->uri)
		err = complete_uri(d);
	if (!err && !given->uri && !given->subnqn)
		strcpy(d->subnqn, NVME_DISCOVERY_NQN);
	d->opts = *given;
	d->opts.uri = d->opts.traddr = d->opts.trsvcid = d->opts.subnqn = d->opts.host_traddr =
		NULL;
	return err;
}

static int first(struct nvmfr_discovery *d)
{
	struct nvmfr_ctrl_opts opts = options(d, is_persistent(d));

	opts.uri = d->uri[0] ? d->uri : NULL;
	opts.traddr = d->traddr[0] ? d->traddr : NULL;
	opts.trsvcid = d->trsvcid[0] ? d->trsvcid : NULL;
	opts.subnqn = d->subnqn[0] ? d->subnqn : NULL;
	return reach(d->host, &opts, NULL, &d->ctrl);
}

/* From now on the application hears of it, also if it went just before. */
static int introduce(struct nvmfr_ctrl *ctrl)
{
	int err = 0;

	pthread_mutex_lock(&ctrl->host->lock);
	ctrl->quiet = false;
	if (ctrl->state != NVMFR_STATE_LIVE) {
		nvmfr__err_set(ctrl->sentence);
		err = -ENOTCONN;
	}
	pthread_mutex_unlock(&ctrl->host->lock);
	return err;
}

static uint64_t deadline_of(const struct nvmfr_discovery *d)
{
	return nvmfr__clock_now_ns(&d->host->clock) + 2 * MS_NS(d->opts.connect_timeout_ms);
}

static int discover(struct nvmfr_discovery *d)
{
	uint64_t deadline_ns = deadline_of(d);
	int err = first(d);

	if (!err)
		err = read_all(d, deadline_ns);
	if (!err && is_persistent(d))
		return introduce(d->ctrl);
	end(d->ctrl);
	d->ctrl = NULL;
	return err;
}

int nvmfr__discovery_anew(struct nvmfr_discovery *d)
{
	/* They are told in the name of the one that is lost. */
	let_go(d->list);
	end(d->ctrl);
	d->ctrl = NULL;
	return discover(d);
}

int nvmfr_discover(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *given, uint32_t flags,
		   struct nvmfr_discovery **out)
{
	const uint32_t known = NVMFR_DISCOVER_PERSISTENT | NVMFR_DISCOVER_NO_REFERRALS;
	struct nvmfr_ctrl_opts opts;
	struct nvmfr_discovery *d;
	int err;

	if (out)
		*out = NULL;
	err = check_host(host);
	if (!err && (!given || !out))
		err = nvmfr__fail(-EINVAL, "%s is NULL", given ? "out" : "opts");
	if (!err && (flags & ~known))
		err = nvmfr__fail(-EINVAL, "flags 0x%x has unknown bits", flags);
	if (err)
		return err;
	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	err = nvmfr__opts_import(&opts, sizeof(opts), given, given->size);
	if (err)
		return nvmfr__fail_wrap(err, "nvmfr_ctrl_opts");
	d = calloc(1, sizeof(*d));
	if (!d)
		return nvmfr__fail(-ENOMEM, "no memory for a discovery");
	d->host = host;
	d->flags = flags;
	err = take_opts(d, &opts);
	if (!err)
		err = discover(d);
	if (err)
		nvmfr_discovery_release(d);
	else
		*out = d;
	return err;
}

static int check_discovery(const struct nvmfr_discovery *d)
{
	return d ? check_host(d->host) : nvmfr__fail(-EINVAL, "discovery is NULL");
}

int nvmfr_discovery_refresh(struct nvmfr_discovery *d)
{
	int err = check_discovery(d);
	bool persistent = !err && is_persistent(d);
	uint64_t deadline_ns = err ? 0 : deadline_of(d);

	if (!err && !persistent)
		err = first(d);
	if (err)
		return err;
	err = read_all(d, deadline_ns);
	if (!persistent) {
		end(d->ctrl);
		d->ctrl = NULL;
	}
	return err;
}

struct nvmfr_ctrl *nvmfr_discovery_ctrl(const struct nvmfr_discovery *d)
{
	return check_discovery(d) ? NULL : d->ctrl;
}

/* Those that were lost for good since they were read, too. */
static uint32_t count_unfollowed(const struct list *list)
{
	uint32_t n = list->unfollowed;

	for (uint32_t i = 0; i < list->asked; i++)
		n += list->places[i].ctrl && nvmfr_ctrl_state(list->places[i].ctrl) == NVMFR_STATE_LOST;
	return n;
}

int nvmfr_discovery_info(const struct nvmfr_discovery *d, struct nvmfr_discovery_info *info)
{
	struct nvmfr_discovery_info full;
	int err = check_discovery(d);

	if (!err)
		err = check_info(info, info ? info->size : 0, "nvmfr_discovery_info");
	if (err)
		return err;
	full = (struct nvmfr_discovery_info){
		.size = sizeof(full),
		.generation = d->list->generation,
		.left_out = d->list->left_out,
		.records = d->list->count,
		.logs = d->list->logs,
		.skipped = d->list->skipped,
		.unreached = d->list->unreached,
		.unfollowed = count_unfollowed(d->list),
	};
	nvmfr__opts_export(info, info->size, &full, sizeof(full));
	return 0;
}

int nvmfr_discovery_get(const struct nvmfr_discovery *d, uint32_t index,
			struct nvmfr_discovery_record *record)
{
	struct nvmfr_discovery_record full = { .size = sizeof(full) };
	const struct found *found;
	int err = check_discovery(d);

	if (!err)
		err = check_info(record, record ? record->size : 0, "nvmfr_discovery_record");
	if (!err && index >= d->list->count)
		err = nvmfr__fail(-ENOENT, "record %u: there are %u", index, d->list->count);
	if (err)
		return err;
	found = &d->list->found[index];
	full.trtype = found->wire.trtype;
	full.adrfam = found->wire.adrfam;
	full.subtype = found->wire.subtype;
	full.treq = found->wire.treq;
	full.portid = found->wire.portid;
	full.cntlid = found->wire.cntlid;
	full.asqsz = found->wire.asqsz;
	full.eflags = found->wire.eflags;
	full.log = (uint32_t)__builtin_ctzll(found->logs);
	memcpy(full.traddr, found->wire.traddr, sizeof(full.traddr));
	memcpy(full.trsvcid, found->wire.trsvcid, sizeof(full.trsvcid));
	memcpy(full.subnqn, found->wire.subnqn, sizeof(full.subnqn));
	make_uri(&found->wire, found->soft, full.uri);
	nvmfr__opts_export(record, record->size, &full, sizeof(full));
	return 0;
}

void nvmfr_discovery_release(struct nvmfr_discovery *d)
{
	if (!d)
		return;
	/* Those that are told in the first one's name go before it. */
	list_free(d->list);
	end(d->ctrl);
	free(d);
}
