/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zerocopy [--threads N] [--bytes N] [--sha256 HEX] FILE|URI
 *
 * Reads a whole namespace into one registered buffer, from several threads with a queue pair each,
 * and shows that nothing but the target touched the data: a FILE is exported through the embedded
 * target, a URI names a real one. First a run that takes the time, then, into the wiped buffer, one
 * that counts system calls. At last an unaligned read that has to be bounced, for comparison.
 */
#include "zerocopy.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <nvmfr/soft.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_READERS	 64
#define SUM_TEXT_BYTES	 (2 * EVP_MAX_MD_SIZE + 1)
#define DEFAULT_BYTES	 (64u << 20) /* of a URI */
#define UNALIGNED_OFFSET 777u
#define UNALIGNED_BYTES	 20001u
#define SCRATCH_BYTES	 32768u

static const char usage[] = "usage: zerocopy [--threads N] [--bytes N] [--sha256 HEX] FILE|URI\n";

struct job {
	const char *source, *expected_sum;
	uint64_t threads, bytes;
	struct session session;
	struct nvmfr_soft_target *target; /* NULL with a URI */
	struct nvmfr_ctrl_info ctrl;
	struct nvmfr_ns_info ns;
	struct nvmfr_buffer *buf;
	size_t buf_bytes;
	struct reader *readers;
	bool failed;
};

__attribute__((format(printf, 2, 3))) static void say(const char *what, const char *fmt, ...)
{
	va_list args;

	printf("  %-14s ", what);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static void check(struct job *job, bool holds, const char *sentence)
{
	if (holds)
		return;
	say("FAILED", "%s", sentence);
	job->failed = true;
}

static bool is_uri(const char *text)
{
	return !strncmp(text, "nvmf+", 5);
}

/* ---- set-up ---- */

static int export_file(struct job *job)
{
	struct nvmfr_soft_ns_opts ns;
	struct stat file;
	int err = nvmfr_soft_target_create(job->session.host, "zerocopy", NULL, &job->target);

	if (err)
		return err;
	nvmfr_soft_ns_opts_init(&ns, sizeof(ns));
	ns.path = job->source;
	ns.flags = NVMFR_SOFT_NS_READ_ONLY;
	err = nvmfr_soft_ns_add(job->target, &ns);
	if (err < 0)
		return err;
	/* The namespace is rounded up to whole blocks, the sum is to be the file's. */
	if (!job->bytes && !stat(job->source, &file))
		job->bytes = (uint64_t)file.st_size;
	return session_connect(&job->session, "nvmf+soft://zerocopy");
}

static int open_target(struct job *job)
{
	int err = nvmfr_host_create(NULL, &job->session.host);

	if (!err)
		err = is_uri(job->source) ? session_connect(&job->session, job->source) : export_file(job);
	if (!err)
		err = session_namespace(&job->session, 0, &job->ns);
	job->ctrl.size = sizeof(job->ctrl);
	if (!err)
		err = nvmfr_ctrl_info(job->session.ctrl, &job->ctrl);
	return err;
}

/* Whole blocks; the file's end may lie inside the last one. */
static int choose_bytes(struct job *job)
{
	uint64_t capacity = job->ns.capacity_blocks * job->ns.block_bytes;
	uint64_t share = capacity / job->threads;

	if (!job->bytes)
		job->bytes = DEFAULT_BYTES;
	if (job->bytes > capacity)
		job->bytes = capacity;
	if (job->bytes / job->threads < BULK_BYTES || share < BULK_BYTES) {
		fprintf(stderr, "zerocopy: %" PRIu64 " bytes are too few for %" PRIu64 " threads\n",
			job->bytes, job->threads);
		return -EINVAL;
	}
	job->buf_bytes = (size_t)((job->bytes / job->ns.block_bytes + 1) * job->ns.block_bytes) +
			 SCRATCH_BYTES;
	return 0;
}

/* What the kernel says: VmLck is locked by mlock(), VmPin by a device's registration. */
static uint64_t locked_kib(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	uint64_t sum = 0, kib;
	char line[128];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmLck: %" SCNu64, &kib) == 1 || sscanf(line, "VmPin: %" SCNu64, &kib) == 1)
			sum += kib;
	if (status)
		fclose(status);
	return sum;
}

static int get_buffer(struct job *job)
{
	int err = nvmfr_buffer_alloc(job->session.host, job->buf_bytes, -1, &job->buf);

	if (err)
		return complain("buffer"), err;
	say("buffer", "%zu KiB, registered once; this process has %" PRIu64 " KiB locked in memory",
	    job->buf_bytes / 1024, locked_kib());
	return 0;
}

static int prepare_readers(struct job *job)
{
	uint64_t bulk_blocks = BULK_BYTES / job->ns.block_bytes;
	uint64_t blocks = (job->bytes + job->ns.block_bytes - 1) / job->ns.block_bytes;
	uint64_t share = blocks / job->threads / bulk_blocks * bulk_blocks;

	job->readers = calloc(job->threads, sizeof(*job->readers));
	if (!job->readers)
		return perror("zerocopy"), -ENOMEM;
	for (uint64_t i = 0; i < job->threads; i++) {
		struct reader *r = &job->readers[i];

		r->buf = job->buf;
		r->nsid = job->ns.nsid;
		r->block_bytes = job->ns.block_bytes;
		r->first_block = i * share;
		r->blocks = i + 1 < job->threads ? share : blocks - r->first_block;
		if (session_qpair(&job->session, 128, 0, &r->qp))
			return complain("queue pair"), -EIO;
	}
	return 0;
}

static int set_up(struct job *job)
{
	if (open_target(job))
		return complain(job->source), -EIO;
	say("target", "%s, %s: %" PRIu64 " blocks of %" PRIu32 " bytes",
	    job->target ? "embedded" : job->ctrl.device, job->source, job->ns.capacity_blocks,
	    job->ns.block_bytes);
	if (choose_bytes(job) || get_buffer(job))
		return -EIO;
	return prepare_readers(job);
}

static void tear_down(struct job *job)
{
	for (uint64_t i = 0; job->readers && i < job->threads; i++)
		nvmfr_qpair_destroy(job->readers[i].qp);
	free(job->readers);
	if (nvmfr_buffer_release(job->buf))
		complain("release");
	if (nvmfr_disconnect(job->session.ctrl, 1000))
		complain("disconnect");
	job->session.ctrl = NULL;
	nvmfr_soft_target_destroy(job->target);
	session_close(&job->session);
}

/* ---- the two runs ---- */

static int join_readers(struct job *job, uint64_t started)
{
	int err = started < job->threads ? -EAGAIN : 0;

	for (uint64_t i = 0; i < started; i++) {
		pthread_join(job->readers[i].thread, NULL);
		if (!*job->readers[i].failure)
			continue;
		fprintf(stderr, "zerocopy: %s\n", job->readers[i].failure);
		err = -EIO;
	}
	return err;
}

/* counters: one a reader, or NULL. */
static int run_readers(struct job *job, struct syscall_counter *counters)
{
	uint64_t started = 0;

	for (; started < job->threads; started++) {
		struct reader *r = &job->readers[started];

		r->counter = counters ? &counters[started] : NULL;
		if (pthread_create(&r->thread, NULL, zerocopy_reader, r))
			break;
	}
	return join_readers(job, started);
}

static int run_counted(struct job *job)
{
	struct syscall_counter counters[MAX_READERS];
	uint64_t ready = 0;
	int err = 0;

	while (!err && ready < job->threads) {
		err = syscall_counter_start(&counters[ready]);
		ready += !err;
	}
	if (err)
		fprintf(stderr, "zerocopy: counter: %s\n", strerror(-err));
	else
		err = run_readers(job, counters);
	while (ready)
		syscall_counter_stop(&counters[--ready]);
	return err;
}

static void sum_of_data(const struct job *job, char sum[SUM_TEXT_BYTES])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	EVP_Digest(nvmfr_buffer_addr(job->buf), job->bytes, digest, &len, EVP_sha256(), NULL);
	for (unsigned int i = 0; i < len; i++)
		sprintf(sum + 2 * i, "%02x", digest[i]);
}

/* ---- what came out ---- */

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void report_speed(const struct job *job)
{
	uint64_t start = UINT64_MAX, end = 0, reads = 0, bytes = 0;

	for (uint64_t i = 0; i < job->threads; i++) {
		const struct reader *r = &job->readers[i];

		start = r->start_ns < start ? r->start_ns : start;
		end = r->end_ns > end ? r->end_ns : end;
		reads += r->bulk_reads;
		bytes += r->bulk_bytes;
	}
	say("throughput", "%.2f GiB/s: %" PRIu64 " reads of %u KiB",
	    (double)bytes / GIB / seconds_between(start, end), reads, BULK_BYTES / 1024);
	say("", "%" PRIu64 " threads with a queue pair each, %u reads in flight on each", job->threads, BULK_DEPTH);
}

static void report_latency(struct job *job)
{
	uint64_t *samples = job->readers[0].single_ns;

	qsort(samples, SINGLES, sizeof(*samples), compare_ns);
	say("latency", "median %.2f us, p99 %.2f us: single reads of %u bytes, one at a time",
	    (double)samples[SINGLES / 2] / 1e3, (double)samples[SINGLES * 99 / 100] / 1e3,
	    job->ns.block_bytes > SINGLE_BYTES ? job->ns.block_bytes : SINGLE_BYTES);
}

static void report_sum(struct job *job, const char *sum, const char *again)
{
	say("SHA-256", "%s", sum);
	check(job, !strcmp(sum, again), "the second run read other data than the first");
	if (!job->expected_sum)
		return;
	check(job, !strcasecmp(sum, job->expected_sum), "that is not the SHA-256 of the file");
	if (!job->failed)
		say("", "equal to the file's own, twice");
}

/* Drivers without a NIC: soft-RoCE has a network device as its parent, and tells. */
static bool kernel_driver(const char *device)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/parent", device);
	return !strncmp(device, "rxe", 3) || !strncmp(device, "siw", 3) || !access(path, F_OK);
}

struct counts {
	uint64_t commands, bounced_bytes;
};

static struct counts count(const struct job *job)
{
	struct counts sum = { 0 };

	for (uint64_t i = 0; i < job->threads; i++) {
		struct nvmfr_qpair_info info = { .size = sizeof(info) };

		if (nvmfr_qpair_info(job->readers[i].qp, &info))
			continue;
		sum.commands += info.commands;
		sum.bounced_bytes += info.bounced_bytes;
	}
	return sum;
}

static void report_calls(struct job *job, uint64_t commands)
{
	uint64_t calls = 0;
	bool planted = true;

	for (uint64_t i = 0; i < job->threads; i++) {
		calls += job->readers[i].bulk_calls + job->readers[i].single_calls;
		planted = planted && job->readers[i].planted_calls == 1;
	}
	say("system calls", "%" PRIu64 " between submit and completion of %" PRIu64 " commands (counted; "
			    "one planted call a thread was %s)",
	    calls, commands, planted ? "found" : "NOT found");
	check(job, planted, "the counter of system calls does not count");
	if (kernel_driver(job->ctrl.device))
		say("", "%s is driven by the kernel (soft-RoCE): its driver enters the kernel at each post, "
			"%.2f times a command; a NIC's does not",
		    job->ctrl.device, (double)calls / (double)commands);
	else
		check(job, calls == 0, "there was a system call between submit and completion");
}

/* The same bytes once more, from and to odd places, behind the data. How many had to be copied. */
static int read_unaligned(struct job *job, struct nvmfr_qpair *qp, uint64_t *copied)
{
	unsigned char *data = nvmfr_buffer_addr(job->buf);
	size_t place = job->buf_bytes - SCRATCH_BYTES + 3;
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	int err = nvmfr_pread(qp, job->ns.nsid, UNALIGNED_OFFSET, job->buf, place, UNALIGNED_BYTES, -1);

	if (err || (err = nvmfr_qpair_info(qp, &info)) != 0)
		return complain("unaligned read"), err;
	check(job, !memcmp(data + UNALIGNED_OFFSET, data + place, UNALIGNED_BYTES),
	      "the unaligned read brought other bytes");
	*copied = info.bounced_bytes;
	return 0;
}

/* By commands of one descriptor: then the first and the last block have to be copied. */
static int read_bounced(struct job *job, uint64_t *copied)
{
	struct nvmfr_qpair_opts opts;
	struct nvmfr_qpair *qp;
	int err;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = 1;
	opts.max_descriptors = 1;
	err = nvmfr_qpair_create(job->session.ctrl, &opts, &qp);
	if (err)
		return complain("queue pair"), err;
	err = nvmfr_qpair_wait(qp, -1);
	if (err)
		complain("queue pair");
	else
		err = read_unaligned(job, qp, copied);
	nvmfr_qpair_destroy(qp);
	return err;
}

static int report_copies(struct job *job)
{
	uint64_t before = count(job).bounced_bytes, copied;
	int err;

	say("host copies", "%" PRIu64 " bytes copied by this host's library", before);
	check(job, before == 0, "the library copied data of aligned reads");
	err = read_bounced(job, &copied);
	if (err)
		return err;
	say("",
	    "%" PRIu64 " after an unaligned read of %u bytes by commands of one descriptor: its first and last block",
	    copied, UNALIGNED_BYTES);
	check(job, copied > 0, "the counter of copies does not count");
	return 0;
}

static void report_target(struct job *job)
{
	struct nvmfr_soft_counters counters = { .size = sizeof(counters) };

	if (!job->target || nvmfr_soft_read_counters(job->target, &counters))
		return;
	say("target's copy", "%" PRIu64 " bytes by the embedded target: it stands for a NIC's DMA",
	    counters.bytes_moved);
	check(job, counters.violations == 0, "the embedded target saw a rule broken");
}

static int work(struct job *job)
{
	char sum[SUM_TEXT_BYTES], again[SUM_TEXT_BYTES];
	uint64_t before;

	if (run_readers(job, NULL))
		return -EIO;
	report_speed(job);
	report_latency(job);
	sum_of_data(job, sum);

	memset(nvmfr_buffer_addr(job->buf), 0xee, job->buf_bytes);
	before = count(job).commands;
	if (run_counted(job))
		return -EIO;
	sum_of_data(job, again);
	report_sum(job, sum, again);
	report_calls(job, count(job).commands - before);
	report_target(job);
	return report_copies(job);
}

static bool parse(int argc, char **argv, struct job *job)
{
	static const struct option longs[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "sha256", required_argument, NULL, 's' },
		{ 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == 's')
			job->expected_sum = optarg;
		else if (opt == 't' && parse_bytes("--threads", optarg, 1, MAX_READERS, &job->threads))
			continue;
		else if (opt == 'b' && parse_bytes("--bytes", optarg, 1, 1u << 30, &job->bytes))
			continue;
		else
			return false;
	}
	if (argc - optind != 1)
		return fputs(usage, stderr), false;
	job->source = argv[optind];
	return true;
}

int main(int argc, char **argv)
{
	struct job job = { .threads = 2 };
	int err;

	if (!parse(argc, argv, &job))
		return 2;
	err = set_up(&job);
	if (!err)
		err = work(&job);
	tear_down(&job);
	return err || job.failed ? 1 : 0;
}
