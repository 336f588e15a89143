/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmcheck verify [--threads N] [--ios N] [--seed N] [--zeroes] URI
 *	random writes, reads, flushes and (with --zeroes) Write Zeroes against a model, a queue pair
 *	a thread; overwrites the first megabytes of the first namespace. With --path URI two paths to the
 *	same namespaces, of which one may go at any time: tells how much went by each
 * vmcheck errors URI
 *	every mistake of a caller gets its errno and a sentence, and the queue pair lives on
 * vmcheck until-lost [--threads N] URI
 *	reads until the target goes away; every accepted command must end, once
 * vmcheck outlive [--threads N] [--ios N] URI
 *	reads while the target goes away and comes back, and N more times after that
 * vmcheck endure [--threads N] [--seed N] [--source ADDRESS] URI
 *	as verify, with all commands retried, until standard input says e (see vmcheck_endure.c); events are told
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmcheck.h"

int fail(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fprintf(stderr, "vmcheck: ");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	va_end(args);
	return err;
}

int api_fail(int err, const char *what)
{
	return fail(err, "%s: %s: %s", what, nvmfr_strerror(err), nvmfr_last_error());
}

/* splitmix64: the whole state is one word, so a seed names a run. */
uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t random_below(struct worker *w, uint64_t bound)
{
	return next_random(&w->random) % bound;
}

/* ---- connecting -------------------------------------------------------------------------------- */

static int connect_to(struct session *s, const char *uri, struct nvmfr_ctrl **out)
{
	struct nvmfr_ctrl_opts opts;
	int err;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	opts.host_traddr = s->source;
	opts.ack_timeout = 22;
	if (s->outlives) {
		opts.ctrl_loss_timeout_ms = 60000;
		opts.reconnect_delay_ms = 200;
	}
	/* 1 s, eight times: lost packets are sent again soon, and 3 s of silence are survived. */
	if (s->endures) {
		opts.ack_timeout = 18;
		opts.kato_ms = 5000;
		opts.ctrl_loss_timeout_ms = PATIENCE_MS;
	}
	/* A write in doubt waits for twice that. */
	if (s->path)
		opts.kato_ms = 2000;
	err = nvmfr_connect(s->host, &opts, out);
	if (!err)
		err = nvmfr_ctrl_wait(*out, -1);
	return err ? api_fail(err, "connect") : 0;
}

static int paths_open(struct session *s)
{
	struct nvmfr_mpath_opts opts;
	int err;

	nvmfr_mpath_opts_init(&opts, sizeof(opts));
	opts.retry = NVMFR_RETRY_ALL;
	err = nvmfr_mpath_create(s->host, &opts, &s->mpath);
	if (!err)
		err = nvmfr_mpath_add(s->mpath, s->ctrl);
	if (err)
		return api_fail(err, "path");
	err = connect_to(s, s->path, &s->other);
	if (!err && nvmfr_mpath_add(s->mpath, s->other))
		err = api_fail(-EINVAL, "path");
	return err;
}

static void log_line(void *arg, enum nvmfr_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	printf("log: %s\n", msg);
}

static int session_open(struct session *s)
{
	struct nvmfr_host_opts opts;
	int err;

	nvmfr_host_opts_init(&opts, sizeof(opts));
	opts.log_level = NVMFR_LOG_INFO;
	opts.log_fn = s->endures ? log_line : NULL;
	err = nvmfr_host_create(&opts, &s->host);
	if (err)
		return api_fail(err, "host");
	err = connect_to(s, s->uri, &s->ctrl);
	if (!err && s->path)
		err = paths_open(s);
	if (err)
		return err;
	s->ns.size = sizeof(s->ns);
	err = nvmfr_ns_info(s->ctrl, nvmfr_ns_next(s->ctrl, 0), &s->ns);
	if (err)
		return api_fail(err, "namespace");
	if (s->ns.capacity_blocks < s->threads * (uint64_t)REGION_BYTES / s->ns.block_bytes)
		return fail(-EINVAL, "the namespace has less than %u bytes a thread", REGION_BYTES);
	return 0;
}

static int session_close(struct session *s)
{
	int err = nvmfr_mpath_destroy(s->mpath);

	if (!err)
		err = nvmfr_disconnect(s->ctrl, 5000);
	if (!err)
		err = nvmfr_disconnect(s->other, 5000);
	if (err)
		return api_fail(err, "disconnect");
	nvmfr_host_destroy(s->host);
	return 0;
}

static int open_paths(struct worker *w)
{
	struct nvmfr_mqpair_opts opts;
	int err;

	nvmfr_mqpair_opts_init(&opts, sizeof(opts));
	opts.depth = DEPTH;
	err = nvmfr_mqpair_create(w->session->mpath, &opts, &w->mq);
	return err ? api_fail(err, "queue pairs") : 0;
}

int worker_open(struct worker *w, size_t buffer_bytes)
{
	struct nvmfr_qpair_opts opts;
	int err;

	err = nvmfr_buffer_alloc(w->session->host, buffer_bytes, -1, &w->buf);
	if (err)
		return api_fail(err, "buffer");
	w->mem = nvmfr_buffer_addr(w->buf);
	if (w->session->mpath)
		return open_paths(w);
	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = DEPTH;
	if (w->session->endures) {
		opts.retry = NVMFR_RETRY_ALL;
		opts.io_timeout_ms = PATIENCE_MS;
	}
	err = nvmfr_qpair_create(w->session->ctrl, &opts, &w->qp);
	if (!err)
		err = nvmfr_qpair_wait(w->qp, -1);
	return err ? api_fail(err, "queue pair") : 0;
}

int worker_wait(struct worker *w, struct nvmfr_completion *done)
{
	int patience_ms = w->session->endures ? PATIENCE_MS : WAIT_MS;

	if (w->mq)
		return nvmfr_mqpair_wait(w->mq, done, 1, DEPTH, patience_ms);
	return nvmfr_wait(w->qp, done, 1, DEPTH, patience_ms);
}

static void tell_paths(struct worker *w)
{
	struct nvmfr_mqpair_info info = { .size = sizeof(info) };
	struct nvmfr_mqpair_path path = { .size = sizeof(path) };

	if (nvmfr_mqpair_info(w->mq, &info))
		return;
	printf("figure: thread %u: %" PRIu64 " issued again, longest pause %.3f s; by path:",
	       w->index, info.reissued, (double)w->pause_ns / 1e9);
	for (uint32_t i = 0; nvmfr_mqpair_path(w->mq, i, &path) == 0; i++)
		printf(" %" PRIu64, path.ios);
	printf("\n");
}

int worker_close(struct worker *w)
{
	int err;

	if (w->mq)
		tell_paths(w);
	nvmfr_mqpair_destroy(w->mq);
	nvmfr_qpair_destroy(w->qp);
	err = nvmfr_buffer_release(w->buf);
	free(w->model);
	return err ? api_fail(err, "release of the buffer") : 0;
}

/* ---- commands in flight ------------------------------------------------------------------------- */

uint64_t region_blocks(const struct worker *w)
{
	return REGION_BYTES / w->session->ns.block_bytes;
}

struct flight *idle_flight(struct worker *w)
{
	for (unsigned int i = 0; i < DEPTH; i++)
		if (!w->flights[i].busy)
			return &w->flights[i];
	return NULL;
}

/* Data starts at an odd place; one in four is cut in two at a block boundary, with a hole between. */
void place(struct worker *w, struct flight *f)
{
	uint32_t block = w->session->ns.block_bytes;
	uint64_t area = (uint64_t)(f - w->flights) * AREA_BYTES;
	uint64_t start = area + random_below(w, GAP_BYTES);
	uint64_t head = f->nblocks;

	if (f->nblocks > 1 && random_below(w, 4) == 0)
		head = 1 + random_below(w, f->nblocks - 1);
	f->npieces = head < f->nblocks ? 2 : 1;
	f->pieces[0] = (struct nvmfr_iov){ w->buf, start, head * block };
	f->pieces[1] = (struct nvmfr_iov){ w->buf, start + head * block + GAP_BYTES,
					   (f->nblocks - head) * block };
}

int post(struct worker *w, struct flight *f)
{
	bool data = f->op == NVMFR_OP_READ || f->op == NVMFR_OP_WRITE;
	struct nvmfr_io io = {
		.op = f->op,
		.nsid = w->session->ns.nsid,
		.lba = f->nblocks ? w->index * region_blocks(w) + f->first : 0,
		.nblocks = f->nblocks,
		.user_data = (uint64_t)(f - w->flights),
	};
	int n;

	if (data) {
		io.buf = w->buf;
		io.offset_bytes = f->pieces[0].offset_bytes;
	}
	if (data && f->npieces > 1) {
		io.flags = NVMFR_IO_VEC;
		io.iov = f->pieces;
		io.niov = f->npieces;
	}
	n = w->mq ? nvmfr_mqpair_submit(w->mq, &io, 1) : nvmfr_submit(w->qp, &io, 1);
	if (n < 0)
		return n;
	f->busy = true;
	w->accepted++;
	return 0;
}

static void note_pause(struct worker *w)
{
	uint64_t now = now_ns();

	if (w->last_ns && now - w->last_ns > w->pause_ns)
		w->pause_ns = now - w->last_ns;
	w->last_ns = now;
}

struct flight *landed(struct worker *w, const struct nvmfr_completion *c)
{
	struct flight *f = c->user_data < DEPTH ? &w->flights[c->user_data] : NULL;

	if (!f || !f->busy) {
		fail(-EPROTO, "thread %u: a completion for %" PRIu64 ", which is not in flight",
		     w->index, c->user_data);
		return NULL;
	}
	f->busy = false;
	w->completed++;
	if (c->result)
		w->failed++;
	if (w->session->endures)
		endure_moved(w->session);
	if (w->mq)
		note_pause(w);
	return f;
}

/* ---- until lost -------------------------------------------------------------------------------- */

/* Returns a count, or an error when nothing more can come. */
static int collect_any(struct worker *w)
{
	struct nvmfr_completion done[DEPTH];
	int n = nvmfr_wait(w->qp, done, 1, DEPTH, WAIT_MS);

	for (int i = 0; i < n; i++)
		if (!landed(w, &done[i]))
			return -EPROTO;
	return n ? n : -ETIMEDOUT;
}

static int read_until_lost(struct worker *w)
{
	int err = 0;

	while (err >= 0) {
		struct flight *f = idle_flight(w);

		if (!f) {
			err = collect_any(w);
			continue;
		}
		*f = (struct flight){ .op = NVMFR_OP_READ, .nblocks = 1 };
		f->first = random_below(w, region_blocks(w));
		place(w, f);
		err = post(w, f);
		if (err == -EAGAIN)
			err = collect_any(w);
	}
	while (err == -ENOTCONN && w->completed < w->accepted && collect_any(w) > 0)
		;
	return err;
}

static int until_lost(struct worker *w)
{
	int err = worker_open(w, (size_t)DEPTH * AREA_BYTES);

	if (err)
		return err;
	err = read_until_lost(w);
	if (err != -ENOTCONN)
		return api_fail(err, "ended with something else than the loss of the connection");
	if (w->completed != w->accepted)
		return fail(-EIO, "thread %u: %" PRIu64 " commands accepted, %" PRIu64 " completed",
			    w->index, w->accepted, w->completed);
	/* How many were in flight just then is chance, also none: w->failed is printed, not judged. */
	return worker_close(w);
}

/* ---- outlive ------------------------------------------------------------------------------------ */

static int state_of(const struct worker *w)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };

	return nvmfr_qpair_info(w->qp, &info) ? 0 : info.state;
}

/* One read, begun and ended. 1: it was good, 0: it was lost, or there was no connection for it. */
static int try_read(struct worker *w)
{
	struct flight *f = idle_flight(w);
	uint64_t failed = w->failed;
	int err;

	*f = (struct flight){ .op = NVMFR_OP_READ, .nblocks = 1 };
	f->first = random_below(w, region_blocks(w));
	place(w, f);
	err = post(w, f);
	if (err == -EAGAIN)
		return nvmfr_qpair_wait(w->qp, WAIT_MS) == -ETIMEDOUT ? -ETIMEDOUT : 0;
	if (!err)
		err = collect_any(w);
	return err < 0 ? err : w->failed == failed;
}

static int outlive(struct worker *w)
{
	bool lost = false;
	unsigned int good = 0;
	int err = worker_open(w, (size_t)DEPTH * AREA_BYTES);

	while (!err && good < w->session->ios) {
		err = try_read(w);
		good += lost && err == 1;
		lost = lost || state_of(w) == NVMFR_STATE_RECOVERING || err == 0;
		err = err < 0 ? err : 0;
	}
	if (err)
		return api_fail(err, "the loss of the target was to be outlived");
	if (w->completed != w->accepted)
		return fail(-EIO, "thread %u: %" PRIu64 " commands accepted, %" PRIu64 " completed",
			    w->index, w->accepted, w->completed);
	return worker_close(w);
}

/* ---- errors ------------------------------------------------------------------------------------ */

struct mistake {
	const char *name;
	int want;
	struct nvmfr_io io;
};

static int expect_refusal(struct worker *w, const struct mistake *m)
{
	int got = nvmfr_submit(w->qp, &m->io, 1);

	if (got != m->want)
		return fail(-EIO, "%s: submit answered %d (%s), not %d", m->name, got,
			    got < 0 ? nvmfr_strerror(got) : "taken", m->want);
	printf("%s: %s\n", m->name, nvmfr_last_error());
	return *nvmfr_last_error() ? 0 : fail(-EIO, "%s: no sentence", m->name);
}

static int expect_read(struct worker *w)
{
	struct nvmfr_completion done;
	int n = nvmfr_read(w->qp, w->session->ns.nsid, 0, 1, w->buf, 0, 1);

	if (n)
		return api_fail(n, "a correct read after the mistakes");
	n = nvmfr_wait(w->qp, &done, 1, 1, WAIT_MS);
	if (n != 1 || done.result)
		return fail(-EIO, "a correct read after the mistakes ended with %d, result %d", n,
			    n == 1 ? done.result : 0);
	return 0;
}

static int errors(struct worker *w)
{
	const struct nvmfr_ns_info *ns = &w->session->ns;
	int err = worker_open(w, 2 * (size_t)ns->block_bytes);

	if (err)
		return err;

	const struct nvmfr_io good = {
		.op = NVMFR_OP_READ,
		.nsid = ns->nsid,
		.nblocks = 1,
		.buf = w->buf,
	};
	struct mistake list[] = {
		{ "namespace 0", -EINVAL, good },
		{ "namespace that is not there", -ENOENT, good },
		{ "no blocks", -EINVAL, good },
		{ "first block past the end", -ERANGE, good },
		{ "last block past the end", -ERANGE, good },
		{ "buffer too small", -ERANGE, good },
		{ "no buffer", -EINVAL, good },
		{ "unknown operation", -EINVAL, good },
	};

	list[0].io.nsid = 0;
	list[1].io.nsid = 4000;
	list[2].io.nblocks = 0;
	list[3].io.lba = ns->capacity_blocks;
	list[4].io.lba = ns->capacity_blocks - 1;
	list[4].io.nblocks = 2;
	list[5].io.nblocks = 3;
	list[6].io.buf = NULL;
	list[7].io.op = 0x7e;
	for (size_t i = 0; !err && i < sizeof(list) / sizeof(list[0]); i++)
		err = expect_refusal(w, &list[i]);
	if (!err)
		err = expect_read(w);
	return err ? err : worker_close(w);
}

/* ---- threads and command line ------------------------------------------------------------------ */

static int (*work)(struct worker *w);

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	w->err = work(w);
	if (w->err)
		atomic_store(&w->session->over, true);
	return NULL;
}

static int run_threads(struct session *s)
{
	static struct worker workers[MAX_THREADS];
	pthread_t threads[MAX_THREADS];
	int err = 0;

	for (unsigned int i = 0; i < s->threads; i++) {
		workers[i] = (struct worker){ .session = s, .index = i, .random = s->seed + i };
		if (pthread_create(&threads[i], NULL, worker_main, &workers[i]))
			return fail(-EAGAIN, "no thread");
	}
	if (s->endures)
		err = endure_orders(s);
	for (unsigned int i = 0; i < s->threads; i++) {
		struct worker *w = &workers[i];

		pthread_join(threads[i], NULL);
		printf("thread %u: %" PRIu64 " accepted, %" PRIu64 " completed, %" PRIu64
		       " with an error, %" PRIu64 " bytes\n",
		       i, w->accepted, w->completed, w->failed, w->moved_bytes);
		err = w->err ? w->err : err;
	}
	return err;
}

static int parse(struct session *s, int argc, char **argv)
{
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "ios", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "zeroes", no_argument, NULL, 'z' },
		{ "source", required_argument, NULL, 'a' },
		{ "path", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	*s = (struct session){ .threads = 1, .ios = 100, .seed = 1, .lock = PTHREAD_MUTEX_INITIALIZER };
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 't')
			s->threads = (unsigned int)strtoul(optarg, NULL, 0);
		else if (option == 'n')
			s->ios = (unsigned int)strtoul(optarg, NULL, 0);
		else if (option == 's')
			s->seed = strtoull(optarg, NULL, 0);
		else if (option == 'a')
			s->source = optarg;
		else if (option == 'p')
			s->path = optarg;
		else if (option == 'z')
			s->zeroes = true;
		else
			return -EINVAL;
	}
	if (argc - optind != 2 || !s->threads || s->threads > MAX_THREADS)
		return -EINVAL;
	s->uri = argv[optind + 1];
	return 0;
}

static bool choose_work(const char *name)
{
	if (!strcmp(name, "verify"))
		work = verify;
	else if (!strcmp(name, "errors"))
		work = errors;
	else if (!strcmp(name, "commands"))
		work = commands;
	else if (!strcmp(name, "until-lost"))
		work = until_lost;
	else if (!strcmp(name, "outlive"))
		work = outlive;
	else if (!strcmp(name, "endure"))
		work = endure;
	return work;
}

int main(int argc, char **argv)
{
	struct session session;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (parse(&session, argc, argv) || !choose_work(argv[optind])) {
		fprintf(stderr, "usage: vmcheck verify|commands|errors|until-lost|outlive|endure "
				"[--threads N] [--ios N] [--seed N] [--zeroes] [--source ADDRESS] [--path URI] URI\n");
		return 2;
	}
	session.endures = work == endure;
	session.outlives = work == outlive || session.endures || session.path;
	printf("seed %" PRIu64 "\n", session.seed);
	if (session_open(&session) || run_threads(&session))
		return 1;
	return session_close(&session) ? 1 : 0;
}
