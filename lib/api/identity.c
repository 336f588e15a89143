/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"

/* First line without white space at its end; false: no such file, or an empty one. */
static bool read_line(const char *path, char *out, size_t bytes)
{
	FILE *file = fopen(path, "re");
	bool found = file && fgets(out, (int)bytes, file);

	if (file)
		fclose(file);
	if (found)
		out[strcspn(out, " \t\r\n")] = '\0';
	return found && out[0];
}

/* The machine id is not to be shown; what is made from it is an ID of its own (machine-id(5)). */
static void from_machine(struct nvmfr_host *host)
{
	char machine[64] = "", name[128];
	uint8_t uuid[16];

	if (!read_line("/etc/machine-id", machine, sizeof(machine)) &&
	    !read_line("/var/lib/dbus/machine-id", machine, sizeof(machine)) &&
	    getrandom(uuid, sizeof(uuid), 0) == (ssize_t)sizeof(uuid))
		nvme_uuid_format(uuid, machine);
	snprintf(name, sizeof(name), "libnvmfr host identity of %s", machine);
	nvme_hostid_from_nqn(name, uuid);
	nvme_nqn_from_uuid(uuid, host->hostnqn);
}

static int parse_hostid(const char *text, uint8_t hostid[16])
{
	if (nvme_uuid_parse(text, hostid) || nvme_hostid_is_zero(hostid))
		return nvmfr__fail(-EINVAL, "/etc/nvme/hostid: '%s' is not a UUID other than zero",
				   text);
	return 0;
}

/* The NQN of the machine's NVMe host, and its ID where the file has one. */
static int from_etc(struct nvmfr_host *host)
{
	char line[256];

	if (!read_line("/etc/nvme/hostnqn", line, sizeof(line))) {
		from_machine(host);
		return 0;
	}
	if (nvme_nqn_check("/etc/nvme/hostnqn", line))
		return -EINVAL;
	memcpy(host->hostnqn, line, strlen(line) + 1);
	if (read_line("/etc/nvme/hostid", line, sizeof(line)))
		return parse_hostid(line, host->hostid);
	return 0;
}

int nvmfr__identity(const struct nvmfr_host_opts *opts, struct nvmfr_host *host)
{
	int err = 0;

	if (opts->hostnqn) {
		err = nvme_nqn_check("hostnqn", opts->hostnqn);
		if (!err)
			memcpy(host->hostnqn, opts->hostnqn, strlen(opts->hostnqn) + 1);
	} else {
		err = from_etc(host);
	}
	if (!nvme_hostid_is_zero(opts->hostid))
		memcpy(host->hostid, opts->hostid, sizeof(host->hostid));
	if (!err && nvme_hostid_is_zero(host->hostid))
		nvme_hostid_from_nqn(host->hostnqn, host->hostid);
	return err;
}
