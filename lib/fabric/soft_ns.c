/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces: memory of this process, or a mapped file.
 *
 * A file must not be truncated while it is a namespace: touching a page behind its new end raises
 * SIGBUS, and a library does not install signal handlers.
 */
#include "fabric/soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define DEFAULT_BYTES (UINT64_C(64) << 20)
#define RESIZE_FACTOR 4u

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static void ns_free(struct soft_ns *ns)
{
	if (!ns)
		return;
	if (ns->mem)
		munmap(ns->mem, ns->map_bytes + ns->room_bytes);
	nvmfr__soft_reserve_free(ns->reserve);
	free(ns);
}

/* ---- memory ----------------------------------------------------------------------------------- */

static int map_zeroes(struct soft_ns *ns)
{
	void *mem;

	ns->map_bytes = round_up(ns->blocks << ns->shift, (uint64_t)sysconf(_SC_PAGESIZE));
	/* Addresses only, so that it can grow where it is: what passes over it may be inside. */
	ns->room_bytes = ns->is_file ? 0 : ns->map_bytes * (RESIZE_FACTOR - 1);
	mem = mmap(NULL, ns->map_bytes + ns->room_bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		return nvmfr__fail(-ENOMEM, "soft namespace of %zu bytes: %s", ns->map_bytes,
				   nvmfr__strerror(errno));
	ns->mem = mem;
	if (mprotect(mem, ns->map_bytes, PROT_READ | PROT_WRITE))
		return nvmfr__fail(-ENOMEM, "soft namespace of %zu bytes: %s", ns->map_bytes,
				   nvmfr__strerror(errno));
	/* Only faster where the kernel has it. */
	(void)madvise(mem, ns->map_bytes, MADV_HUGEPAGE);
	return 0;
}

static int open_file(const struct nvmfr_soft_ns_opts *opts, bool *read_only)
{
	int fd = -1;

	if (!*read_only)
		fd = open(opts->path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (!*read_only && errno != EACCES && errno != EROFS && errno != EPERM && errno != ETXTBSY)
		return -errno;
	*read_only = true;
	fd = open(opts->path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

static int file_size(int fd, uint64_t *bytes)
{
	struct stat st;
	off_t end;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -ENOTBLK;
	end = lseek(fd, 0, SEEK_END); /* st_size is 0 for block devices */
	if (end < 0)
		return -errno;
	*bytes = (uint64_t)end;
	return 0;
}

/* The file lies over zeroes, so that all of the last block can be touched. */
static int map_file(struct soft_ns *ns, int fd)
{
	int prot = ns->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
	uint64_t bytes = nvmfr__min_u64(ns->file_bytes, ns->blocks << ns->shift);
	int err = map_zeroes(ns);

	if (err)
		return err;
	if (mmap(ns->mem, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return -errno;
	return 0;
}

static int map_path(struct soft_ns *ns, const struct nvmfr_soft_ns_opts *opts)
{
	int fd = open_file(opts, &ns->read_only);
	uint64_t bytes;
	int err;

	if (fd < 0)
		return nvmfr__fail(fd, "soft namespace '%s': %s", opts->path,
				   fd == -ENOENT ? "there is no such file (truncate -s SIZE makes one)"
						 : nvmfr__strerror(fd));
	ns->is_file = true;
	err = file_size(fd, &ns->file_bytes);
	bytes = opts->size_bytes ? opts->size_bytes : ns->file_bytes;
	ns->blocks = round_up(bytes, opts->block_bytes) >> ns->shift;
	if (!err && ns->file_bytes)
		err = map_file(ns, fd);
	close(fd);
	if (err)
		return nvmfr__fail(err, "soft namespace '%s': %s", opts->path, nvmfr__strerror(err));
	if (!ns->file_bytes)
		return nvmfr__fail(-EINVAL, "soft namespace '%s': the file is empty", opts->path);
	return 0;
}

void nvmfr__soft_ns_opts_default(struct nvmfr_soft_ns_opts *opts)
{
	/* size_bytes 0: DEFAULT_BYTES of memory, or all of a file. */
	*opts = (struct nvmfr_soft_ns_opts){ .size = sizeof(*opts), .block_bytes = 512 };
}

static int check_opts(const struct nvmfr_soft_ns_opts *opts)
{
	if (opts->block_bytes != 512 && opts->block_bytes != 4096)
		return nvmfr__fail(-EINVAL, "soft namespace: blocks of %u bytes, 512 and 4096 can be",
				   opts->block_bytes);
	if (opts->flags & ~(uint32_t)NVMFR_SOFT_NS_READ_ONLY)
		return nvmfr__fail(-EINVAL, "soft namespace: unknown flags %xh", opts->flags);
	if (opts->nsid > INT32_MAX)
		return nvmfr__fail(-EINVAL, "soft namespace: ID %u is out of range", opts->nsid);
	if (!opts->path && opts->size_bytes > INT64_MAX / 2)
		return nvmfr__fail(-EINVAL, "soft namespace: %llu bytes of memory",
				   (unsigned long long)opts->size_bytes);
	if (opts->size_bytes % opts->block_bytes && !opts->path)
		return nvmfr__fail(-EINVAL, "soft namespace: %llu bytes are not whole blocks of %u",
				   (unsigned long long)opts->size_bytes, opts->block_bytes);
	return 0;
}

static int ns_new(const struct nvmfr_soft_ns_opts *opts, struct soft_ns **out)
{
	struct soft_ns *ns;
	int err = check_opts(opts);

	if (err)
		return err;
	ns = calloc(1, sizeof(*ns));
	if (ns)
		ns->reserve = nvmfr__soft_reserve_new();
	if (!ns || !ns->reserve) {
		ns_free(ns);
		return nvmfr__fail(-ENOMEM, "soft namespace: no memory");
	}
	ns->shift = opts->block_bytes == 512 ? 9 : 12;
	ns->read_only = opts->flags & NVMFR_SOFT_NS_READ_ONLY;
	ns->ana_group = opts->ana_group ? opts->ana_group : 1;
	if (opts->path) {
		err = map_path(ns, opts);
	} else {
		ns->blocks = (opts->size_bytes ? opts->size_bytes : DEFAULT_BYTES) >> ns->shift;
		err = map_zeroes(ns);
	}
	if (err) {
		ns_free(ns);
		return err;
	}
	*out = ns;
	return 0;
}

/* ---- the table -------------------------------------------------------------------------------- */

struct soft_ns *nvmfr__soft_ns_find(struct nvmfr_soft_target *target, uint32_t nsid)
{
	const struct soft_ns_table *table = atomic_load(&target->namespaces);
	uint32_t low = 0, high = table->count;

	/* Mostly they are numbered from 1 on. */
	if (likely(nsid - 1 < table->count && table->ns[nsid - 1]->nsid == nsid))
		return table->ns[nsid - 1];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->ns[middle]->nsid == nsid)
			return table->ns[middle];
		if (table->ns[middle]->nsid < nsid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static struct soft_ns_table *table_new(uint32_t count)
{
	struct soft_ns_table *table;

	table = malloc(sizeof(*table) + count * sizeof(struct soft_ns *));
	if (table)
		table->count = count;
	return table;
}

/* target.lock is held. */
static void table_replace(struct nvmfr_soft_target *target, struct soft_ns_table *table)
{
	struct soft_ns_table *old = atomic_exchange(&target->namespaces, table);

	nvmfr__soft_quiesce(target);
	free(old);
}

/* Where nsid belongs; 0: the lowest free one, which is stored. */
static uint32_t find_place(const struct soft_ns_table *table, uint32_t *nsid)
{
	uint32_t place = 0;

	if (*nsid == 0) {
		while (place < table->count && table->ns[place]->nsid == place + 1)
			place++;
		*nsid = place + 1;
		return place;
	}
	while (place < table->count && table->ns[place]->nsid < *nsid)
		place++;
	return place;
}

/* target.lock is held. */
static int table_insert(struct nvmfr_soft_target *target, struct soft_ns *ns, uint32_t nsid)
{
	struct soft_ns_table *old = atomic_load(&target->namespaces);
	uint32_t place = find_place(old, &nsid);
	struct soft_ns_table *table;

	if (place < old->count && old->ns[place]->nsid == nsid)
		return nvmfr__fail(-EEXIST, "soft target '%s': namespace %u exists already",
				   target->name, nsid);
	if (nsid > target->opts.nn)
		return nvmfr__fail(-EINVAL, "soft target '%s': namespace %u is above NN, which is %u",
				   target->name, nsid, target->opts.nn);
	table = table_new(old->count + 1);
	if (!table)
		return nvmfr__fail(-ENOMEM, "soft target '%s': no memory", target->name);
	memcpy(table->ns, old->ns, place * sizeof(*old->ns));
	table->ns[place] = ns;
	memcpy(table->ns + place + 1, old->ns + place, (old->count - place) * sizeof(*old->ns));
	ns->nsid = nsid;
	table_replace(target, table);
	nvmfr__soft_ns_changed(target, nsid);
	return (int)nsid;
}

int nvmfr__soft_ns_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_ns_opts *opts)
{
	struct soft_ns *ns = NULL;
	int nsid = ns_new(opts, &ns);

	if (nsid < 0)
		return nsid;
	nvmfr__soft_lock(target);
	if (target->opts.ana_groups && ns->ana_group > target->opts.ana_groups)
		nsid = nvmfr__fail(-EINVAL, "soft target '%s': ANA group %u, it has %u", target->name,
				   ns->ana_group, target->opts.ana_groups);
	else
		nsid = table_insert(target, ns, opts->nsid);
	nvmfr__soft_unlock(target);
	if (nsid < 0)
		ns_free(ns);
	return nsid;
}

/* target.lock is held. */
static int table_remove(struct nvmfr_soft_target *target, uint32_t nsid, struct soft_ns **out)
{
	struct soft_ns_table *old = atomic_load(&target->namespaces);
	struct soft_ns *ns = nvmfr__soft_ns_find(target, nsid);
	struct soft_ns_table *table;
	uint32_t kept = 0;

	if (!ns)
		return nvmfr__fail(-ENOENT, "soft target '%s': there is no namespace %u", target->name,
				   nsid);
	table = table_new(old->count - 1);
	if (!table)
		return nvmfr__fail(-ENOMEM, "soft target '%s': no memory", target->name);
	for (uint32_t i = 0; i < old->count; i++)
		if (old->ns[i] != ns)
			table->ns[kept++] = old->ns[i];
	table_replace(target, table);
	nvmfr__soft_ns_changed(target, nsid);
	*out = ns;
	return 0;
}

int nvmfr__soft_ns_remove(struct nvmfr_soft_target *target, uint32_t nsid)
{
	struct soft_ns *ns = NULL;
	int err;

	nvmfr__soft_lock(target);
	err = table_remove(target, nsid, &ns);
	nvmfr__soft_unlock(target);
	ns_free(ns);
	return err;
}

static int check_size(const struct nvmfr_soft_target *target, const struct soft_ns *ns,
		      uint64_t bytes)
{
	uint64_t room = ns->map_bytes + ns->room_bytes;

	if (ns->is_file)
		return nvmfr__fail(
			-EINVAL, "soft target '%s': namespace %u is a file; only memory is resized",
			target->name, ns->nsid);
	if (bytes == 0 || bytes > room || bytes & ((UINT64_C(1) << ns->shift) - 1))
		return nvmfr__fail(
			-EINVAL,
			"soft target '%s': namespace %u cannot have %llu bytes, but whole blocks up to %llu",
			target->name, ns->nsid, (unsigned long long)bytes,
			(unsigned long long)room);
	return 0;
}

/* The same memory under another length. target.lock is held. */
static int table_resize(struct nvmfr_soft_target *target, struct soft_ns *old, uint64_t bytes)
{
	const struct soft_ns_table *before = atomic_load(&target->namespaces);
	struct soft_ns_table *table = table_new(before->count);
	struct soft_ns *ns = malloc(sizeof(*ns));
	size_t whole = old->map_bytes + old->room_bytes;
	size_t map = round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));

	if (!table || !ns ||
	    mprotect(old->mem, nvmfr__max_u64(map, old->map_bytes), PROT_READ | PROT_WRITE)) {
		free(table);
		free(ns);
		return nvmfr__fail(-ENOMEM, "soft target '%s': no memory", target->name);
	}
	*ns = *old;
	ns->blocks = bytes >> ns->shift;
	ns->map_bytes = nvmfr__max_u64(map, old->map_bytes);
	ns->room_bytes = whole - ns->map_bytes;
	for (uint32_t i = 0; i < before->count; i++)
		table->ns[i] = before->ns[i] == old ? ns : before->ns[i];
	table_replace(target, table);
	/* Nobody is beyond the new end any more. What grows there again reads as zero. */
	memset(ns->mem + bytes, 0, map - bytes);
	(void)madvise(ns->mem + map, ns->map_bytes - map, MADV_DONTNEED);
	free(old);
	nvmfr__soft_ns_changed(target, ns->nsid);
	return 0;
}

int nvmfr__soft_ns_resize(struct nvmfr_soft_target *target, uint32_t nsid, uint64_t size_bytes)
{
	struct soft_ns *ns;
	int err;

	nvmfr__soft_lock(target);
	ns = nvmfr__soft_ns_find(target, nsid);
	if (ns)
		err = check_size(target, ns, size_bytes);
	else
		err = nvmfr__fail(-ENOENT, "soft target '%s': there is no namespace %u",
				  target->name, nsid);
	if (!err)
		err = table_resize(target, ns, size_bytes);
	nvmfr__soft_unlock(target);
	return err;
}

void nvmfr__soft_ns_remove_all(struct nvmfr_soft_target *target)
{
	struct soft_ns_table *table = atomic_load(&target->namespaces);

	for (uint32_t i = 0; table && i < table->count; i++)
		ns_free(table->ns[i]);
	free(table);
	atomic_store(&target->namespaces, NULL);
}
