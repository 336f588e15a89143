/* SPDX-License-Identifier: BSD-3-Clause */
/* The URI of a target, and numbers of bytes: any text. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "ctrl/target.h"
#include "wire/nqn.h"

#define TEXT(s) \
	{ \
		s, sizeof(s) - 1 \
	}

const struct fuzz_input nvmfr__fuzz_corpus[] = {
	TEXT("nvmf+rdma://192.168.1.2:4420/nqn.2014-08.org.example:disks"),
	TEXT("nvmf+rdma://[fe80::1%eth0]:4420/nqn.2014-08.org.example:disks"),
	TEXT("nvmf+rdma://host/x"),
	TEXT("nvmf+soft:///var/lib/disk.img?block=4096&ro=1&size=64MiB"),
	TEXT("nvmf+soft:?size=1G&latency_us=10"),
	TEXT("nvmf+soft:a%20b%3f"),
	TEXT("nvmf+soft://name/nqn.2014-08.org.example:disks"),
	TEXT("18446744073709551615"),
	TEXT("64MiB"),
};
const size_t nvmfr__fuzz_corpus_count = sizeof(nvmfr__fuzz_corpus) / sizeof(nvmfr__fuzz_corpus[0]);

static void check_text(const char *text, size_t room)
{
	FUZZ_CHECK(memchr(text, '\0', room));
}

static void check_target(const struct target *t)
{
	check_text(t->subnqn, sizeof(t->subnqn));
	check_text(t->traddr, sizeof(t->traddr));
	check_text(t->trsvcid, sizeof(t->trsvcid));
	check_text(t->name, sizeof(t->name));
	check_text(t->path, sizeof(t->path));
	FUZZ_CHECK(t->host_traddr[0] == '\0');
	if (t->soft) {
		FUZZ_CHECK(t->block_bytes == 512 || t->block_bytes == 4096);
		FUZZ_CHECK(!t->traddr[0] && !t->trsvcid[0]);
		FUZZ_CHECK(!t->name[0] || !t->path[0]);
		return;
	}
	FUZZ_CHECK(t->traddr[0] && t->trsvcid[0] && nvme_nqn_check("subnqn", t->subnqn) == 0);
	FUZZ_CHECK(strtol(t->trsvcid, NULL, 10) >= 1 && strtol(t->trsvcid, NULL, 10) <= 65535);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);
	struct nvmfr_ctrl_opts opts = { .size = sizeof(opts), .uri = text };
	static struct target target;
	uint64_t value = 0;
	int err;

	FUZZ_CHECK(text);
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	nvmfr__err_clear();
	err = nvmfr__target_parse(&opts, &target);
	FUZZ_CHECK(err == 0 || (err == -EINVAL && nvmfr__err_get()[0]));
	if (!err)
		check_target(&target);
	err = nvmfr__parse_bytes(text, &value);
	FUZZ_CHECK(err == 0 || err == -EINVAL);
	FUZZ_CHECK(err || (text[0] >= '0' && text[0] <= '9'));
	free(text);
	return 0;
}
