/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failover [-t SECONDS] [URI URI...]: reads over several paths to one subsystem, and tells each second what every
 * path did; at the end all that is known of them, as JSON. Shut a port, switch an ANA state, pull a cable: reads go
 * on by what is left.
 *
 *	failover nvmf+rdma://192.168.1.2/nqn.2014-08.org.example:disks \
 *		nvmf+rdma://192.168.2.2/nqn.2014-08.org.example:disks
 *	failover -t 4       # two ports of an embedded target, of which one is shut for a second
 */
#include "common.h"

#include <nvmfr/soft.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 32,
       MAX_PATHS = 8 };

struct run {
	struct nvmfr_host *host;
	struct nvmfr_soft_target *target; /* of its own, or NULL */
	struct nvmfr_ctrl *ctrls[MAX_PATHS];
	struct nvmfr_mpath *mpath;
	struct nvmfr_mqpair *mq;
	struct nvmfr_buffer *buf;
	struct nvmfr_ns_info ns;
	uint64_t reads, failed;
};

static int add_path(struct run *run, unsigned int i, const char *uri)
{
	struct nvmfr_ctrl_opts opts;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	opts.ctrl_loss_timeout_ms = UINT32_MAX;
	opts.reconnect_delay_ms = 100;
	if (nvmfr_connect(run->host, &opts, &run->ctrls[i]) || nvmfr_ctrl_wait(run->ctrls[i], -1) ||
	    nvmfr_mpath_add(run->mpath, run->ctrls[i]))
		return complain(uri);
	return 0;
}

static int set_up(struct run *run, char **uris, unsigned int n)
{
	if (nvmfr_host_create(NULL, &run->host) || nvmfr_mpath_create(run->host, NULL, &run->mpath))
		return complain("set-up");
	if (n == 0 && (nvmfr_soft_target_create(run->host, "t", NULL, &run->target) ||
		       nvmfr_soft_ns_add(run->target, NULL) < 0))
		return complain("embedded target");
	for (unsigned int i = 0; i < n; i++)
		if (add_path(run, i, uris[i]))
			return 1;
	if (n == 0 && (add_path(run, 0, "nvmf+soft://t?port=1") || add_path(run, 1, "nvmf+soft://t?port=2")))
		return 1;
	run->ns.size = sizeof(run->ns);
	if (nvmfr_ns_info(run->ctrls[0], nvmfr_ns_next(run->ctrls[0], 0), &run->ns) ||
	    nvmfr_mqpair_create(run->mpath, NULL, &run->mq) ||
	    nvmfr_buffer_alloc(run->host, (size_t)DEPTH * run->ns.block_bytes, -1, &run->buf))
		return complain("set-up");
	return 0;
}

static int read_next(struct run *run, uint64_t slot)
{
	struct nvmfr_io io = { .op = NVMFR_OP_READ,
			       .nsid = run->ns.nsid,
			       .lba = run->reads % run->ns.capacity_blocks,
			       .nblocks = 1,
			       .buf = run->buf,
			       .offset_bytes = slot * run->ns.block_bytes,
			       .user_data = slot };

	return nvmfr_mqpair_submit(run->mq, &io, 1) == 1 ? 0 : complain("submit");
}

/* Whoever only submits and waits needs to know nothing of paths. */
static int read_for(struct run *run, double seconds)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	while (seconds_between(start, clock_ns(CLOCK_MONOTONIC)) < seconds) {
		struct nvmfr_completion done[DEPTH];
		int n = nvmfr_mqpair_wait(run->mq, done, 1, DEPTH, 1000);

		if (n < 0)
			return complain("wait");
		for (int i = 0; i < n; i++) {
			run->reads++;
			run->failed += done[i].result != 0;
			if (read_next(run, done[i].user_data))
				return 1;
		}
	}
	return 0;
}

static void tell(struct run *run)
{
	struct nvmfr_mqpair_info info = { .size = sizeof(info) };

	if (nvmfr_mqpair_info(run->mq, &info))
		return;
	printf("%" PRIu64 " reads, %" PRIu64 " failed, %" PRIu64 " issued again;", run->reads, run->failed,
	       info.reissued);
	for (uint32_t i = 0; i < info.paths; i++) {
		struct nvmfr_mqpair_path path = { .size = sizeof(path) };

		if (nvmfr_mqpair_path(run->mq, i, &path) == 0)
			printf(" path %u %s, %" PRIu64 ", %" PRIu64 " failed over", i,
			       path.state == NVMFR_STATE_LIVE ? "live" : "lost", path.ios, path.reissued);
	}
	printf("\n");
}

static void dump(const struct run *run)
{
	int need = nvmfr_mpath_dump(run->mpath, NULL, 0);
	char *text = need > 0 ? malloc((size_t)need + 4096) : NULL; /* it may grow meanwhile */

	if (text && nvmfr_mpath_dump(run->mpath, text, (size_t)need + 4096) > 0)
		puts(text);
	free(text);
}

static int go(struct run *run, int seconds)
{
	for (uint64_t slot = 0; slot < DEPTH; slot++)
		if (read_next(run, slot))
			return 1;
	for (int i = 0; i < seconds; i++) {
		if (run->target && (i == 1 || i == 2) && nvmfr_soft_port_set(run->target, 1, i == 2))
			return complain("port");
		if (read_for(run, 1))
			return 1;
		tell(run);
	}
	dump(run);
	return run->failed != 0;
}

int main(int argc, char **argv)
{
	int seconds = 10, option, status;
	struct run run = { .host = NULL };

	while ((option = getopt(argc, argv, "t:")) != -1) {
		if (option != 't' || (seconds = atoi(optarg)) <= 0)
			return fprintf(stderr, "usage: failover [-t SECONDS] [URI URI...]\n"), 2;
	}
	if (argc - optind > MAX_PATHS)
		return fprintf(stderr, "failover: %d paths are the most\n", MAX_PATHS), 2;
	status = set_up(&run, argv + optind, (unsigned int)(argc - optind));
	if (!status)
		status = go(&run, seconds);
	nvmfr_mqpair_destroy(run.mq);
	nvmfr_mpath_destroy(run.mpath);
	nvmfr_buffer_release(run.buf);
	for (unsigned int i = 0; i < MAX_PATHS; i++)
		nvmfr_disconnect(run.ctrls[i], 1000);
	nvmfr_soft_target_destroy(run.target);
	nvmfr_host_destroy(run.host);
	return status;
}
