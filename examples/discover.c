/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * discover [--json] [--watch] [--no-referrals] URI: what a discovery controller knows.
 * discover --connect URI: connects to all of it, and follows what comes and goes; a line for each.
 *
 * The URI may lack the subsystem: nvmf+rdma://ADDRESS. --watch stays connected and lists anew when the
 * log changes, until the connection is lost or it is interrupted; with --json that is one line a list.
 */
#include "common.h"

#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>

struct request {
	const char *uri;
	bool json, watch, no_referrals, connect;
};

struct name {
	uint8_t value;
	const char *text;
};

static const struct name transports[] = {
	{ 1, "rdma" }, { 2, "fc" }, { 3, "tcp" }, { 254, "loop" }
};
static const struct name families[] = {
	{ 0, "none" }, { 1, "ipv4" }, { 2, "ipv6" }, { 3, "ib" }, { 4, "fc" }, { 254, "loop" }
};
static const struct name kinds[] = { { 1, "referral" }, { 2, "nvm" }, { 3, "discovery" } };

static const char *name_of(const struct name *names, size_t count, uint8_t value)
{
	for (size_t i = 0; i < count; i++)
		if (names[i].value == value)
			return names[i].text;
	return "unknown";
}

#define NAME(names, value) name_of(names, ARRAY_SIZE(names), value)

/* What a target says may hold anything, terminal control included. */
static void print_field(int width, const char *text)
{
	int used = 0;

	for (; *text; text++, used++)
		putchar(isprint((unsigned char)*text) ? *text : '?');
	printf("%*s ", used < width ? width - used : 0, "");
}

static void show_row(const struct nvmfr_discovery_record *record)
{
	print_field(9, NAME(kinds, record->subtype));
	print_field(5, NAME(transports, record->trtype));
	print_field(15, record->traddr);
	print_field(6, record->trsvcid);
	printf("%4u  ", record->portid);
	print_field(0, record->subnqn);
	putchar('\n');
}

static void json_member(const char *name, const char *value)
{
	printf(", \"%s\": ", name);
	print_json_string(stdout, value);
}

static void show_json(const struct nvmfr_discovery_record *record, bool first)
{
	printf("%s{\"log\": %u, \"portid\": %u, \"cntlid\": %u, \"treq\": %u, \"asqsz\": %u, \"eflags\": %u",
	       first ? "" : ", ", record->log, record->portid, record->cntlid, record->treq,
	       record->asqsz, record->eflags);
	json_member("subtype", NAME(kinds, record->subtype));
	json_member("trtype", NAME(transports, record->trtype));
	json_member("adrfam", NAME(families, record->adrfam));
	json_member("traddr", record->traddr);
	json_member("trsvcid", record->trsvcid);
	json_member("subnqn", record->subnqn);
	json_member("uri", record->uri);
	putchar('}');
}

static void show_head(const struct nvmfr_discovery_info *info, bool json)
{
	if (json)
		printf("{\"generation\": %" PRIu64
		       ", \"logs\": %u, \"skipped\": %u, \"unreached\": %u, "
		       "\"left_out\": %" PRIu64 ", \"records\": [",
		       info->generation, info->logs, info->skipped, info->unreached,
		       info->left_out);
	else
		printf("generation %" PRIu64
		       ", %u records of %u logs; %u bad, %u referrals unreached, %" PRIu64
		       " left out\n%-9s %-5s %-15s %-6s %4s  %s\n",
		       info->generation, info->records, info->logs, info->skipped, info->unreached,
		       info->left_out, "kind", "trans", "address", "port", "id", "subsystem");
}

static int show(const struct nvmfr_discovery *found, bool json)
{
	struct nvmfr_discovery_record record = { .size = sizeof(record) };
	struct nvmfr_discovery_info info = { .size = sizeof(info) };
	int err = nvmfr_discovery_info(found, &info);

	if (err)
		return err;
	show_head(&info, json);
	for (uint32_t i = 0; !err && i < info.records; i++) {
		err = nvmfr_discovery_get(found, i, &record);
		if (!err && json)
			show_json(&record, i == 0);
		else if (!err)
			show_row(&record);
	}
	if (json)
		printf("]}\n");
	fflush(stdout);
	return err;
}

/* 1: the log is another now; 0: something else happened; -errno: the controller is lost. */
static int take_events(struct nvmfr_host *host, const struct nvmfr_discovery *found)
{
	struct nvmfr_event events[16];
	int n = nvmfr_host_events(host, events, ARRAY_SIZE(events)), changed = 0;

	for (int i = 0; i < n; i++) {
		if (events[i].type == NVMFR_EVENT_OVERFLOW)
			changed = 1;
		if (events[i].ctrl != nvmfr_discovery_ctrl(found))
			continue;
		if (events[i].type == NVMFR_EVENT_STATE && events[i].value == NVMFR_STATE_LOST)
			return nvmfr_ctrl_wait(events[i].ctrl, 0);
		changed |= events[i].type == NVMFR_EVENT_DISCOVERY_CHANGED;
	}
	return n < 0 ? n : changed;
}

static int watch(struct nvmfr_host *host, struct nvmfr_discovery *found, bool json)
{
	struct pollfd ready = { .fd = nvmfr_host_event_fd(host), .events = POLLIN };
	int err = ready.fd < 0 ? ready.fd : 0;

	while (!err) {
		if (poll(&ready, 1, -1) < 0)
			continue;
		err = take_events(host, found);
		if (err == 1) {
			err = nvmfr_discovery_refresh(found);
			if (!err)
				err = show(found, json);
		}
	}
	return err;
}

static void warn(void *arg, enum nvmfr_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	fprintf(stderr, "discover: %s\n", msg);
}

static int discover(const struct request *request, struct nvmfr_host *host)
{
	uint32_t flags = (request->watch ? NVMFR_DISCOVER_PERSISTENT : 0) |
			 (request->no_referrals ? NVMFR_DISCOVER_NO_REFERRALS : 0);
	struct nvmfr_discovery *found;
	struct nvmfr_ctrl_opts opts;
	int err;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = request->uri;
	err = nvmfr_discover(host, &opts, flags, &found);
	if (!err)
		err = show(found, request->json);
	if (!err && request->watch)
		err = watch(host, found, request->json);
	if (err)
		complain("discover");
	nvmfr_discovery_release(found);
	return err ? 1 : 0;
}

/* ---- connecting to all of it ------------------------------------------------------------------- */

static void tell(const struct nvmfr_event *event)
{
	struct nvmfr_ctrl_info info = { .size = sizeof(info) };

	if (event->type != NVMFR_EVENT_CTRL_ADDED && event->type != NVMFR_EVENT_CTRL_LEAVES)
		return;
	if (nvmfr_ctrl_info(event->ctrl, &info))
		return;
	printf("%s ", event->type == NVMFR_EVENT_CTRL_ADDED ? "added" : "leaves");
	print_field(0, info.subnqn);
	printf("controller %u, %u namespaces\n", info.cntlid, info.ns_count);
	fflush(stdout);
}

/* Events first: a controller that leaves is gone with the next update. */
static int follow(struct nvmfr_host *host, struct nvmfr_pool *pool)
{
	struct pollfd ready = { .fd = nvmfr_host_event_fd(host), .events = POLLIN };
	struct nvmfr_event events[16];
	int n = ready.fd < 0 ? ready.fd : 0;

	while (n >= 0) {
		if (poll(&ready, 1, nvmfr_pool_timeout_ms(pool)) < 0)
			continue;
		while ((n = nvmfr_host_events(host, events, ARRAY_SIZE(events))) > 0)
			for (int i = 0; i < n; i++)
				tell(&events[i]);
		/* What it says of the log is said again while it cannot be read; it tries again. */
		if (n == 0 && nvmfr_pool_update(pool))
			complain("discover");
	}
	return n;
}

static int connect_all(const struct request *request, struct nvmfr_host *host)
{
	struct nvmfr_ctrl_opts from, each;
	struct nvmfr_pool *pool;
	int err;

	nvmfr_ctrl_opts_init(&from, sizeof(from));
	from.uri = request->uri;
	from.ctrl_loss_timeout_ms = UINT32_MAX;
	nvmfr_ctrl_opts_init(&each, sizeof(each));
	each.ctrl_loss_timeout_ms = 600000;
	err = nvmfr_pool_create(host, &from, &each, &pool);
	if (!err) {
		printf("following %s\n", request->uri);
		fflush(stdout);
		err = follow(host, pool);
	}
	if (err)
		complain("discover");
	nvmfr_pool_release(pool);
	return err ? 1 : 0;
}

static bool parse(int argc, char **argv, struct request *out)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' },
					       { "watch", no_argument, NULL, 'w' },
					       { "no-referrals", no_argument, NULL, 'n' },
					       { "connect", no_argument, NULL, 'c' },
					       { 0 } };
	int opt;

	*out = (struct request){ .uri = NULL };
	while ((opt = getopt_long(argc, argv, "jwnc", longs, NULL)) != -1) {
		if (opt == '?')
			return false;
		out->json |= opt == 'j';
		out->watch |= opt == 'w';
		out->no_referrals |= opt == 'n';
		out->connect |= opt == 'c';
	}
	out->uri = argv[optind];
	return optind + 1 == argc && !(out->connect && (out->json || out->watch || out->no_referrals));
}

int main(int argc, char **argv)
{
	struct nvmfr_host_opts opts;
	struct nvmfr_host *host;
	struct request request;
	int status;

	if (!parse(argc, argv, &request))
		return fprintf(stderr, "usage: discover [--json] [--watch] [--no-referrals] URI\n"
				       "       discover --connect URI\n"),
		       2;
	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.log_fn = warn;
	if (nvmfr_host_create(&opts, &host))
		return complain("discover");
	status = request.connect ? connect_all(&request, host) : discover(&request, host);
	nvmfr_host_destroy(host);
	return status;
}
