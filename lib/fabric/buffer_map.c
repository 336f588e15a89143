/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages: what the process has mapped, and memory of our own. */
#include "fabric/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "fabric/pages.h"

#define HUGE_BYTES (UINT64_C(2) << 20)

/* ---- the list of mappings --------------------------------------------------------------------- */

static bool parse_map(const char *line, struct pages_map *map)
{
	char perms[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &map->start,
		   &map->end, perms, &map->file_offset, &path) < 4 ||
	    !path)
		return false;
	map->readable = perms[0] == 'r';
	map->writable = perms[1] == 'w';
	map->shared = perms[3] == 's';
	snprintf(map->path, sizeof(map->path), "%s", line + path);
	map->path[strcspn(map->path, "\n")] = '\0';
	return true;
}

/* The next mapping that ends behind addr. The list is in order of address. */
static bool next_map(FILE *list, uint64_t addr, struct pages_map *map)
{
	char line[512];
	bool whole = true;

	while (fgets(line, sizeof(line), list)) {
		bool head = whole; /* a very long path comes in several reads */

		whole = strchr(line, '\n') != NULL;
		if (head && parse_map(line, map) && map->end > addr)
			return true;
	}
	return false;
}

bool nvmfr__pages_find(uint64_t addr, struct pages_map *map)
{
	FILE *list = fopen("/proc/self/maps", "re");
	bool found;

	if (!list)
		return false;
	found = next_map(list, addr, map) && map->start <= addr;
	fclose(list);
	return found;
}

/* ---- memory of the caller --------------------------------------------------------------------- */

/* To touch a page of a mapping behind the end of its file is SIGBUS. map_files knows deleted files and
 * memfds too, but needs a capability. */
static bool file_bytes(const struct pages_map *map, uint64_t *bytes)
{
	char path[64];
	struct stat st;

	if (map->path[0] != '/')
		return false;
	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, map->start,
		 map->end);
	if ((stat(path, &st) && stat(map->path, &st)) || !S_ISREG(st.st_mode))
		return false;
	*bytes = (uint64_t)st.st_size;
	return true;
}

static int check_file(const struct pages_map *map, uint64_t last)
{
	uint64_t bytes, place = last - map->start + map->file_offset;

	if (!file_bytes(map, &bytes) || place / PAGE_BYTES * PAGE_BYTES < bytes)
		return 0;
	return nvmfr__fail(-EFAULT,
			   "the page at 0x%" PRIx64
			   " lies behind the end of the file mapped there (%s,"
			   " %" PRIu64 " bytes)",
			   last, map->path, bytes);
}

/* From at to end, as far as map reaches. */
static int check_map(const struct pages_map *map, uint64_t at, uint64_t end, uint32_t access)
{
	const char *what = map->path[0] ? map->path : "anonymous memory";

	if (map->start > at)
		return nvmfr__fail(-EFAULT,
				   "no memory is mapped at 0x%" PRIx64 ", inside the range given",
				   at);
	if (access & FAB_ACCESS_TARGET && !map->writable)
		return nvmfr__fail(-EFAULT,
				   "the page at 0x%" PRIx64
				   " (%s) is not writable: it cannot be a target"
				   " of reads",
				   at, what);
	if (!map->readable)
		return nvmfr__fail(-EFAULT, "the page at 0x%" PRIx64 " (%s) is not readable", at,
				   what);
	return check_file(map, nvmfr__min_u64(end, map->end) - 1);
}

static int check_list(FILE *list, uint64_t at, uint64_t end, uint32_t access)
{
	struct pages_map map;
	int err = 0;

	while (!err && at < end) {
		if (!next_map(list, at, &map))
			return nvmfr__fail(
				-EFAULT,
				"no memory is mapped at 0x%" PRIx64 ", inside the range given", at);
		err = check_map(&map, at, end, access);
		at = map.end;
	}
	return err;
}

/* Reads the list once and touches nothing, so that 700 GB cost no more than 4 KiB. */
int nvmfr__buffer_check_pages(const void *addr, size_t bytes, uint32_t access)
{
	uint64_t start = (uintptr_t)addr;
	FILE *list;
	int err;

	if (!bytes || start + bytes < start)
		return nvmfr__fail(-EFAULT, "%zu bytes at %p are no range of memory", bytes, addr);
	list = fopen("/proc/self/maps", "re");
	if (!list)
		return 0; /* a chroot without /proc: the device's registration will tell */
	err = check_list(list, start, start + bytes, access);
	fclose(list);
	return err;
}

/* ---- locking ---------------------------------------------------------------------------------- */

/* The kernel asks for this capability before it looks at the limit. */
static bool may_lock_any(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	return !syscall(SYS_capget, &head, data) && data[0].effective >> CAP_IPC_LOCK & 1;
}

uint64_t nvmfr__pages_lock_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || may_lock_any())
		return UINT64_MAX;
	return limit.rlim_cur;
}

/* ---- memory of our own ------------------------------------------------------------------------ */

/* Preferred, not bound: a node without free (huge) pages would make a touch fatal. */
int nvmfr__pages_prefer_node(void *addr, size_t bytes, int numa_node)
{
	unsigned long mask[16] = { 0 };
	const int word_bits = (int)(8 * sizeof(mask[0])), bits = word_bits * (int)ARRAY_SIZE(mask);

	if (numa_node < 0 || numa_node >= bits)
		return -EINVAL;
	mask[numa_node / word_bits] = 1ul << (numa_node % word_bits);
	if (!mbind(addr, bytes, MPOL_PREFERRED, mask, (unsigned long)bits, 0))
		return 0;
	/* no NUMA in this kernel, or none for this container: the memory is as good without */
	return errno == ENOSYS || errno == EPERM ? 0 : -errno;
}

static void touch(unsigned char *map, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES)
		((volatile unsigned char *)map)[at] = 0;
}

/* Zeroed and present. mlock keeps it so; where the limit forbids that, registration still locks it: the
 * caller may warn by nvmfr__pages_lock_limit. */
static int settle(void *map, size_t bytes)
{
	if (!mlock(map, bytes) || !madvise(map, bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return nvmfr__fail(-ENOMEM, "no memory for a buffer of %zu bytes", bytes);
	touch(map, bytes); /* Linux before 5.14 */
	return 0;
}

static int try_map(size_t bytes, int numa_node, int flags, void **addr)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
			 -1, 0);
	int err = 0;

	if (map == MAP_FAILED)
		return nvmfr__fail(-ENOMEM, "no memory for a buffer of %zu bytes", bytes);
	if (!flags && bytes >= HUGE_BYTES)
		(void)madvise(map, bytes, MADV_HUGEPAGE);
	if (numa_node >= 0)
		err = nvmfr__pages_prefer_node(map, bytes, numa_node);
	if (err)
		nvmfr__fail(err, "no memory on NUMA node %d: %s", numa_node, nvmfr__strerror(err));
	else
		err = settle(map, bytes);
	if (err)
		munmap(map, bytes);
	else
		*addr = map;
	return err;
}

static size_t round_up(size_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

int nvmfr__buffer_map(size_t bytes, int numa_node, void **addr, size_t *map_bytes)
{
	int err;

	if (!bytes || bytes > SIZE_MAX - HUGE_BYTES)
		return nvmfr__fail(-EINVAL, "a buffer of %zu bytes", bytes);
	if (bytes >= HUGE_BYTES) {
		*map_bytes = round_up(bytes, HUGE_BYTES);
		err = try_map(*map_bytes, numa_node, MAP_HUGETLB, addr);
		if (!err)
			return 0;
	}
	*map_bytes = round_up(bytes, PAGE_BYTES);
	return try_map(*map_bytes, numa_node, 0, addr);
}
