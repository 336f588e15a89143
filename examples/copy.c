/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy [options] FILE URI	writes a file to a namespace
 * copy [options] URI FILE	reads a namespace into a file
 *
 * A ring of chunks of one registered buffer is kept busy: the file side fills or empties them in
 * order, the namespace side works on all of them at once.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH      1024
#define WHOLE	       UINT64_MAX /* length: the whole namespace */
#define SUM_TEXT_BYTES (2 * EVP_MAX_MD_SIZE + 1)

enum chunk_state { CHUNK_FREE = 0,
		   CHUNK_LOADED,
		   CHUNK_FLYING,
		   CHUNK_DONE };

struct copy {
	struct session session;
	struct nvmfr_qpair *qp;
	struct nvmfr_buffer *buf;
	struct nvmfr_ns_info ns;
	const char *path;
	int fd;
	unsigned int depth;
	uint64_t chunk_bytes, total_bytes, first_lba;
	unsigned char state[MAX_DEPTH];
	unsigned char *scratch; /* for comparing */
	EVP_MD_CTX *hash;
	unsigned int percent; /* shown last */
};

/* One walk over the data. fill runs before a chunk goes out, empty after it came back, both in order. */
struct walk {
	const char *name;
	enum nvmfr_op op;
	int (*fill)(struct copy *copy, uint64_t chunk);
	int (*empty)(struct copy *copy, uint64_t chunk);
};

static uint64_t chunk_count(const struct copy *copy)
{
	return (copy->total_bytes + copy->chunk_bytes - 1) / copy->chunk_bytes;
}

/* The last chunk may be shorter. */
static size_t chunk_length(const struct copy *copy, uint64_t chunk)
{
	uint64_t left = copy->total_bytes - chunk * copy->chunk_bytes;

	return (size_t)(left < copy->chunk_bytes ? left : copy->chunk_bytes);
}

static uint64_t chunk_blocks(const struct copy *copy, uint64_t chunk)
{
	return (chunk_length(copy, chunk) + copy->ns.block_bytes - 1) / copy->ns.block_bytes;
}

static uint64_t chunk_offset(const struct copy *copy, uint64_t chunk)
{
	return chunk % copy->depth * copy->chunk_bytes;
}

static unsigned char *chunk_data(const struct copy *copy, uint64_t chunk)
{
	return (unsigned char *)nvmfr_buffer_addr(copy->buf) + chunk_offset(copy, chunk);
}

static int file_failed(const struct copy *copy, const char *what)
{
	int err = errno ? -errno : -EIO;

	fprintf(stderr, "copy: cannot %s %s: %s\n", what, copy->path, strerror(-err));
	return err;
}

static int file_read(const struct copy *copy, unsigned char *data, size_t len, uint64_t offset)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pread(copy->fd, data + at, len - at, (off_t)(offset + at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0) {
			fprintf(stderr, "copy: %s became shorter meanwhile\n", copy->path);
			return -EIO;
		}
		if (n < 0)
			return file_failed(copy, "read");
		at += (size_t)n;
	}
	return 0;
}

static int file_write(const struct copy *copy, const unsigned char *data, size_t len, uint64_t offset)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(copy->fd, data + at, len - at, (off_t)(offset + at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_failed(copy, "write");
		at += (size_t)n;
	}
	return 0;
}

/* Of the file's bytes only, so that sha256sum says the same of the file. */
static void hash_chunk(struct copy *copy, uint64_t chunk)
{
	EVP_DigestUpdate(copy->hash, chunk_data(copy, chunk), chunk_length(copy, chunk));
}

static int fill_from_file(struct copy *copy, uint64_t chunk)
{
	size_t len = chunk_length(copy, chunk);
	size_t padded = (size_t)chunk_blocks(copy, chunk) * copy->ns.block_bytes;
	int err = file_read(copy, chunk_data(copy, chunk), len, chunk * copy->chunk_bytes);

	if (err)
		return err;
	memset(chunk_data(copy, chunk) + len, 0, padded - len);
	hash_chunk(copy, chunk);
	return 0;
}

static int empty_to_file(struct copy *copy, uint64_t chunk)
{
	hash_chunk(copy, chunk);
	return file_write(copy, chunk_data(copy, chunk), chunk_length(copy, chunk),
			  chunk * copy->chunk_bytes);
}

static int empty_comparing(struct copy *copy, uint64_t chunk)
{
	uint64_t offset = chunk * copy->chunk_bytes;
	size_t len = chunk_length(copy, chunk);
	int err = file_read(copy, copy->scratch, len, offset);

	if (err)
		return err;
	hash_chunk(copy, chunk);
	for (size_t i = 0; i < len; i++) {
		if (copy->scratch[i] == chunk_data(copy, chunk)[i])
			continue;
		fprintf(stderr, "copy: file and namespace differ at byte %" PRIu64 "\n", offset + i);
		return -EIO;
	}
	return 0;
}

static const struct walk write_walk = { "writing", NVMFR_OP_WRITE, fill_from_file, NULL };
static const struct walk read_walk = { "reading", NVMFR_OP_READ, NULL, empty_to_file };
static const struct walk verify_walk = { "verifying", NVMFR_OP_READ, NULL, empty_comparing };

/* A bar on a terminal, else a line every ten percent. */
static void progress(struct copy *copy, const char *name, uint64_t done, uint64_t start_ns)
{
	static const char bar[] = "########################################";
	unsigned int percent = (unsigned int)(done * 100 / chunk_count(copy));
	double rate = (double)done * (double)copy->chunk_bytes / GIB /
		      seconds_between(start_ns, clock_ns(CLOCK_MONOTONIC));

	if (percent == copy->percent)
		return;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%s [%-40.*s] %3u %% %.2f GiB/s%s", name, (int)percent * 40 / 100, bar,
			percent, rate, percent == 100 ? "\n" : "");
	else if (percent / 10 != copy->percent / 10)
		fprintf(stderr, "%s %u %%\n", name, percent / 10 * 10);
	copy->percent = percent;
}

/* -EAGAIN: no room now. A chunk that is filled already is not filled again. */
static int start_chunk(struct copy *copy, const struct walk *walk, uint64_t chunk)
{
	unsigned char *state = &copy->state[chunk % copy->depth];
	struct nvmfr_io io = {
		.op = (uint8_t)walk->op,
		.nsid = copy->ns.nsid,
		.lba = copy->first_lba + chunk * (copy->chunk_bytes / copy->ns.block_bytes),
		.nblocks = chunk_blocks(copy, chunk),
		.buf = copy->buf,
		.offset_bytes = chunk_offset(copy, chunk),
		.user_data = chunk,
	};
	int n = *state == CHUNK_FREE && walk->fill ? walk->fill(copy, chunk) : 0;

	if (n)
		return n;
	*state = CHUNK_LOADED;
	n = nvmfr_submit(copy->qp, &io, 1);
	if (n < 0 && n != -EAGAIN)
		complain("submit");
	if (n < 0)
		return n;
	*state = CHUNK_FLYING;
	return 0;
}

static int collect(struct copy *copy, struct nvmfr_completion *done, unsigned int max)
{
	int n = nvmfr_wait(copy->qp, done, 1, max, -1);

	if (n < 0)
		return complain("wait"), n;
	for (int i = 0; i < n; i++) {
		if (done[i].result) {
			fprintf(stderr, "copy: chunk %" PRIu64 " failed: %s\n", done[i].user_data,
				completion_text(&done[i]));
			return done[i].result;
		}
	}
	return n;
}

static int finish_chunks(struct copy *copy)
{
	struct nvmfr_completion done[32];
	int n = collect(copy, done, ARRAY_SIZE(done));

	for (int i = 0; i < n; i++)
		copy->state[done[i].user_data % copy->depth] = CHUNK_DONE;
	return n < 0 ? n : 0;
}

static int start_chunks(struct copy *copy, const struct walk *walk, uint64_t retired, uint64_t *started)
{
	while (*started < chunk_count(copy) && *started - retired < copy->depth) {
		int err = start_chunk(copy, walk, *started);

		if (err)
			return err == -EAGAIN ? 0 : err;
		(*started)++;
	}
	return 0;
}

static int retire_chunks(struct copy *copy, const struct walk *walk, uint64_t started, uint64_t *retired)
{
	while (*retired < started && copy->state[*retired % copy->depth] == CHUNK_DONE) {
		int err = walk->empty ? walk->empty(copy, *retired) : 0;

		if (err)
			return err;
		copy->state[(*retired)++ % copy->depth] = CHUNK_FREE;
	}
	return 0;
}

static int walk_chunks(struct copy *copy, const struct walk *walk)
{
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), started = 0, retired = 0;

	copy->percent = 0;
	while (retired < chunk_count(copy)) {
		int err = start_chunks(copy, walk, retired, &started);

		if (!err)
			err = finish_chunks(copy);
		if (!err)
			err = retire_chunks(copy, walk, started, &retired);
		if (err)
			return err;
		progress(copy, walk->name, retired, start_ns);
	}
	return 0;
}

static int walk_hashing(struct copy *copy, const struct walk *walk, char sum[SUM_TEXT_BYTES])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;
	int err;

	EVP_DigestInit_ex(copy->hash, EVP_sha256(), NULL);
	err = walk_chunks(copy, walk);
	EVP_DigestFinal_ex(copy->hash, digest, &len);
	for (unsigned int i = 0; i < len; i++)
		sprintf(sum + 2 * i, "%02x", digest[i]);
	return err;
}

/* What was written is on the medium only after this. */
static int flush(struct copy *copy)
{
	struct nvmfr_io io = { .op = NVMFR_OP_FLUSH, .nsid = copy->ns.nsid };
	struct nvmfr_completion done;
	int n = nvmfr_submit(copy->qp, &io, 1);

	if (n < 0)
		return complain("flush"), n;
	n = collect(copy, &done, 1);
	return n < 0 ? n : 0;
}

static const char usage[] =
	"usage: copy [options] FILE URI    write FILE to a namespace\n"
	"       copy [options] URI FILE    read a namespace into FILE\n"
	"  --length BYTES       reading: how much (default: the whole namespace)\n"
	"  --nsid N             namespace (default: the first)\n"
	"  --lba N              first block (default 0)\n"
	"  --depth N            chunks under way at once (default 16)\n"
	"  --block-size BYTES   size of a chunk (default 128K)\n"
	"  -v, --verify         read everything back and compare\n";

struct request {
	const char *uri, *path;
	bool writing, verify;
	uint64_t length, nsid, lba, depth, chunk_bytes;
};

static bool option(struct request *request, int opt)
{
	switch (opt) {
	case 'l': return parse_bytes("--length", optarg, 0, INT64_MAX, &request->length);
	case 'n': return parse_bytes("--nsid", optarg, 1, UINT32_MAX - 1, &request->nsid);
	case 'a': return parse_bytes("--lba", optarg, 0, INT64_MAX, &request->lba);
	case 'd': return parse_bytes("--depth", optarg, 1, MAX_DEPTH, &request->depth);
	case 'b': return parse_bytes("--block-size", optarg, 512, 1 << 30, &request->chunk_bytes);
	case 'v': return request->verify = true;
	default: fputs(usage, stderr); return false;
	}
}

static bool is_uri(const char *text)
{
	return !strncmp(text, "nvmf+", 5);
}

static bool parse(int argc, char **argv, struct request *request)
{
	static const struct option longs[] = {
		{ "length", required_argument, NULL, 'l' },
		{ "nsid", required_argument, NULL, 'n' },
		{ "lba", required_argument, NULL, 'a' },
		{ "depth", required_argument, NULL, 'd' },
		{ "block-size", required_argument, NULL, 'b' },
		{ "verify", no_argument, NULL, 'v' },
		{ 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "v", longs, NULL)) != -1)
		if (!option(request, opt))
			return false;
	if (argc - optind != 2 || is_uri(argv[optind]) == is_uri(argv[optind + 1])) {
		fputs(usage, stderr);
		return false;
	}
	request->writing = is_uri(argv[optind + 1]);
	request->path = argv[optind + (request->writing ? 0 : 1)];
	request->uri = argv[optind + (request->writing ? 1 : 0)];
	return true;
}

/* Sets the file and how many bytes travel. */
static int open_file(struct copy *copy, const struct request *request)
{
	int flags = request->writing ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC;
	off_t end;

	copy->fd = open(request->path, flags | O_CLOEXEC, 0666);
	if (copy->fd < 0)
		return file_failed(copy, "open");
	if (!request->writing)
		return 0;
	end = lseek(copy->fd, 0, SEEK_END);
	if (end < 0)
		return file_failed(copy, "seek in");
	copy->total_bytes = (uint64_t)end;
	return 0;
}

/* Before the file is opened: a mistake must not truncate it. */
static int check_place(struct copy *copy, const struct request *request)
{
	uint64_t room;

	if (request->chunk_bytes % copy->ns.block_bytes) {
		fprintf(stderr, "copy: --block-size %" PRIu64 " is no multiple of a block, %" PRIu32 " bytes\n",
			request->chunk_bytes, copy->ns.block_bytes);
		return -EINVAL;
	}
	if (request->lba >= copy->ns.capacity_blocks) {
		fprintf(stderr, "copy: --lba %" PRIu64 " is beyond the namespace's %" PRIu64 " blocks\n",
			request->lba, copy->ns.capacity_blocks);
		return -ERANGE;
	}
	room = (copy->ns.capacity_blocks - request->lba) * copy->ns.block_bytes;
	if (!request->writing)
		copy->total_bytes = request->length == WHOLE ? room : request->length;
	if (copy->total_bytes > room) {
		fprintf(stderr, "copy: %" PRIu64 " bytes do not fit: from LBA %" PRIu64 " on there are %" PRIu64 "\n",
			copy->total_bytes, request->lba, room);
		return -ENOSPC;
	}
	return 0;
}

static int open_target(struct copy *copy, const struct request *request)
{
	struct nvmfr_qpair_info info = { .size = sizeof(info) };
	int err = session_open(&copy->session, request->uri);

	if (!err)
		err = session_namespace(&copy->session, (uint32_t)request->nsid, &copy->ns);
	if (!err)
		err = session_qpair(&copy->session, (unsigned int)request->depth, 0, &copy->qp);
	if (!err)
		err = nvmfr_qpair_info(copy->qp, &info);
	if (!err)
		err = nvmfr_buffer_alloc(copy->session.host, request->depth * request->chunk_bytes, -1,
					 &copy->buf);
	if (err)
		return complain(request->uri), err;
	copy->depth = info.depth < request->depth ? info.depth : (unsigned int)request->depth;
	return 0;
}

static int set_up(struct copy *copy, const struct request *request)
{
	int err = 0;

	copy->hash = EVP_MD_CTX_new();
	copy->scratch = malloc(request->chunk_bytes);
	if (!copy->hash || !copy->scratch)
		return perror("copy"), -ENOMEM;
	copy->path = request->path;
	copy->chunk_bytes = request->chunk_bytes;
	copy->first_lba = request->lba;
	if (request->writing)
		err = open_file(copy, request);
	if (!err)
		err = open_target(copy, request);
	if (!err)
		err = check_place(copy, request);
	if (!err && !request->writing)
		err = open_file(copy, request);
	return err;
}

/* Closing may be where a file system says that the data did not fit. */
static int tear_down(struct copy *copy)
{
	int err = 0;

	if (copy->fd >= 0 && close(copy->fd))
		err = file_failed(copy, "close");
	nvmfr_qpair_destroy(copy->qp);
	if (nvmfr_buffer_release(copy->buf))
		complain("release");
	session_close(&copy->session);
	EVP_MD_CTX_free(copy->hash);
	free(copy->scratch);
	return err;
}

static int transfer(struct copy *copy, const struct request *request)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	char sum[SUM_TEXT_BYTES];
	double seconds;
	int err = walk_hashing(copy, request->writing ? &write_walk : &read_walk, sum);

	if (!err && request->writing)
		err = flush(copy);
	if (err)
		return err;
	seconds = seconds_between(start, clock_ns(CLOCK_MONOTONIC));
	printf("%s %" PRIu64 " bytes in %.3f s, %.3f GiB/s\nSHA-256 %s\n",
	       request->writing ? "wrote" : "read", copy->total_bytes, seconds,
	       (double)copy->total_bytes / GIB / seconds, sum);
	return 0;
}

static int verify(struct copy *copy)
{
	char sum[SUM_TEXT_BYTES];
	int err = walk_hashing(copy, &verify_walk, sum);

	if (!err)
		printf("verified: file and namespace are equal\nSHA-256 %s (read back)\n", sum);
	return err;
}

int main(int argc, char **argv)
{
	struct request request = { .length = WHOLE, .depth = 16, .chunk_bytes = 128 * 1024 };
	struct copy copy = { .fd = -1 };
	int err, end;

	if (!parse(argc, argv, &request))
		return 2;
	err = set_up(&copy, &request);
	if (!err)
		err = transfer(&copy, &request);
	if (!err && request.verify)
		err = verify(&copy);
	end = tear_down(&copy);
	return err || end ? 1 : 0;
}
