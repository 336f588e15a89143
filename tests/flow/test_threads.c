/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs, controllers, buffers and namespaces that come and go in several threads at once. */
#include "flow.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>

enum { BLOCK = 512 };

struct worker {
	struct flow *f;
	unsigned int rounds;
	int err;
	char sentence[256];
};

static bool failed(struct worker *w, int err)
{
	if (err && !w->err) {
		w->err = err;
		strncpy(w->sentence, nvmfr_last_error(), sizeof(w->sentence) - 1);
	}
	return err != 0;
}

static void read_once(struct worker *w, struct nvmfr_qpair *qp)
{
	struct nvmfr_completion done = { .result = 0 };
	struct nvmfr_buffer *buf;

	if (failed(w, nvmfr_buffer_alloc(w->f->host, 4096, -1, &buf)))
		return;
	if (!failed(w, nvmfr_read(qp, w->f->nsid, 0, 1, buf, 0, 0)) &&
	    !failed(w, nvmfr_wait(qp, &done, 1, 1, 20000) - 1))
		failed(w, done.result);
	failed(w, nvmfr_buffer_release(buf));
}

static void *queue_pairs(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < w->rounds && !w->err; i++) {
		struct nvmfr_qpair *qp;

		if (failed(w, nvmfr_qpair_create(w->f->ctrl, NULL, &qp)))
			break;
		if (!failed(w, nvmfr_qpair_wait(qp, 20000)))
			read_once(w, qp);
		nvmfr_qpair_destroy(qp);
	}
	return NULL;
}

static void *controllers(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < w->rounds && !w->err; i++) {
		struct nvmfr_ctrl *ctrl;
		struct nvmfr_qpair *qp;

		if (failed(w, nvmfr_connect(w->f->host, &w->f->opts, &ctrl)))
			break;
		if (!failed(w, nvmfr_ctrl_wait(ctrl, 20000)) &&
		    !failed(w, nvmfr_qpair_create(ctrl, NULL, &qp))) {
			if (!failed(w, nvmfr_qpair_wait(qp, 20000)))
				read_once(w, qp);
			nvmfr_qpair_destroy(qp);
		}
		failed(w, nvmfr_disconnect(ctrl, i % 2 ? 1000 : 0));
	}
	return NULL;
}

static void at_once(void *(*first)(void *), void *(*second)(void *), uint32_t flags,
		    unsigned int rounds)
{
	struct nvmfr_soft_opts opts = flow_soft_opts();
	struct worker workers[4];
	pthread_t threads[4];
	struct flow f;

	opts.flags = flags;
	flow_up_thread(&f, &opts);
	for (unsigned int i = 0; i < 4; i++) {
		workers[i] = (struct worker){ .f = &f, .rounds = rounds };
		cr_assert_eq(pthread_create(&threads[i], NULL, i % 2 ? first : second, &workers[i]),
			     0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(workers[i].err, 0, "thread %u: %d, %s", i, workers[i].err,
			     workers[i].sentence);
	}
	flow_works(&f);
	flow_down(&f);
}

Test(threads, queue_pairs_come_and_go_in_four_threads, .timeout = 60)
{
	at_once(queue_pairs, queue_pairs, 0, 200);
}

Test(threads, controllers_come_and_go_in_four_threads, .timeout = 60)
{
	at_once(controllers, controllers, 0, 60);
}

Test(threads, queue_pairs_and_controllers_come_and_go_at_a_target_thread, .timeout = 60)
{
	at_once(queue_pairs, controllers, NVMFR_SOFT_THREAD, 60);
}

static void *keeps_releasing(void *arg)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < w->rounds && !w->err; i++) {
		struct nvmfr_buffer *buf;

		if (!failed(w, nvmfr_buffer_alloc(w->f->host, 65536, -1, &buf)))
			failed(w, nvmfr_buffer_release(buf));
	}
	return NULL;
}

/* Buffers come and go in one thread while another reads and writes with its own. */
Test(threads, buffers_come_and_go_under_io, .timeout = 60)
{
	struct worker worker;
	struct nvmfr_completion done[32];
	struct nvmfr_buffer *buf;
	pthread_t thread;
	struct flow f;

	flow_up_thread(&f, NULL);
	buf = flow_alloc(&f, 32 * BLOCK);
	worker = (struct worker){ .f = &f, .rounds = 2000 };
	cr_assert_eq(pthread_create(&thread, NULL, keeps_releasing, &worker), 0);
	for (unsigned int round = 0; round < 2000; round++) {
		for (unsigned int i = 0; i < 32; i++)
			cr_assert_eq((i % 2 ? nvmfr_read : nvmfr_write)(f.qp, f.nsid, i, 1, buf,
									i * BLOCK, i),
				     0);
		flow_wait(f.qp, done, 32);
	}
	pthread_join(thread, NULL);
	cr_expect_eq(worker.err, 0, "%s", worker.sentence);
	flow_release(buf);
	flow_down(&f);
}

/* ---- namespaces that come and go ------------------------------------------------------------- */

static void *remove_and_add(void *arg)
{
	struct worker *w = arg;
	struct nvmfr_soft_ns_opts opts;

	nvmfr_soft_ns_opts_init(&opts, sizeof(opts));
	opts.nsid = 2;
	opts.size_bytes = MIB;
	for (unsigned int i = 0; i < w->rounds; i++) {
		failed(w, nvmfr_soft_ns_remove(w->f->target, 2));
		failed(w, nvmfr_soft_ns_add(w->f->target, &opts) - 2);
	}
	return NULL;
}

Test(threads, namespace_comes_and_goes_under_reads, .timeout = 60)
{
	struct worker worker;
	struct nvmfr_completion done;
	struct nvmfr_buffer *buf;
	pthread_t thread;
	struct flow f;

	flow_host_thread(&f);
	flow_target(&f, NULL);
	flow_ns(&f, MIB, BLOCK);
	flow_ns(&f, MIB, BLOCK);
	flow_connect(&f);
	f.qp = flow_qpair(&f, 8);
	buf = flow_alloc(&f, MIB);
	worker = (struct worker){ .f = &f, .rounds = 500 };
	cr_assert_eq(pthread_create(&thread, NULL, remove_and_add, &worker), 0);
	for (unsigned int i = 0; i < 500; i++) {
		int err = nvmfr_read(f.qp, 2, 0, MIB / BLOCK, buf, 0, 0);

		cr_assert(err == 0 || err == -ENOENT, "%s", nvmfr_last_error());
		if (err)
			continue;
		flow_wait(f.qp, &done, 1);
		cr_assert(done.result == 0 || (done.status & 0x3fff) == STATUS_INVALID_NAMESPACE,
			  "%04x", done.status);
	}
	pthread_join(thread, NULL);
	cr_expect_eq(worker.err, 0, "%s", worker.sentence);
	flow_release(buf);
	flow_down(&f);
}

/* ---- signals --------------------------------------------------------------------------------- */

/* Which signals a thread blocks, as the kernel tells it; false: the thread is gone. */
static bool blocked_signals(const char *tid, unsigned long long *mask)
{
	char path[64], line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", tid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "SigBlk: %llx", mask) == 1;
	if (file)
		fclose(file);
	return found;
}

enum { MAX_TIDS = 64 };

static unsigned int list_threads(char tids[MAX_TIDS][16])
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *entry;

	cr_assert_not_null(dir);
	while ((entry = readdir(dir)) && n < MAX_TIDS)
		if (entry->d_name[0] != '.')
			snprintf(tids[n++], sizeof(tids[0]), "%.15s", entry->d_name);
	closedir(dir);
	return n;
}

/* Service and embedded target: an application's handler must not run in threads it knows nothing of. */
Test(threads, ours_take_no_signal, .timeout = 60)
{
	const unsigned long long usual =
		1ull << (SIGHUP - 1) | 1ull << (SIGINT - 1) | 1ull << (SIGTERM - 1) | 1ull << (SIGUSR1 - 1);
	char before[MAX_TIDS][16], after[MAX_TIDS][16];
	unsigned int old = list_threads(before), fresh = 0, n;
	struct nvmfr_soft_opts opts;
	struct flow f;

	nvmfr_soft_opts_init(&opts, sizeof(opts));
	opts.flags = NVMFR_SOFT_THREAD;
	flow_up_thread(&f, &opts);
	n = list_threads(after);
	for (unsigned int i = 0; i < n; i++) {
		unsigned long long mask = 0;
		bool known = false;

		for (unsigned int k = 0; k < old; k++)
			known = known || strcmp(after[i], before[k]) == 0;
		if (known || !blocked_signals(after[i], &mask))
			continue;
		fresh++;
		cr_expect_eq(mask & usual, usual, "thread %s blocks %llx", after[i], mask);
	}
	cr_expect_geq(fresh, 2u, "the service's and the target's");
	flow_down(&f);
}
