/* SPDX-License-Identifier: BSD-3-Clause */
/* identify [--json] URI: the controller behind a URI, its health and its active namespaces. */
#include "common.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <nvmfr/cmd.h>

struct number {
	const char *name;
	uint64_t value;
};

struct text {
	const char *name, *value;
};

/* Canonical text: 8-4-4-4-12 digits for a UUID, plain digits for the others, "" for none. */
static void id_text(const uint8_t *id, size_t bytes, bool dashes, char out[40])
{
	size_t at = 0, any = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (dashes && (i == 4 || i == 6 || i == 8 || i == 10))
			out[at++] = '-';
		at += (size_t)sprintf(out + at, "%02x", id[i]);
		any |= id[i];
	}
	out[any ? at : 0] = '\0';
}

struct ids {
	char uuid[40], nguid[40], eui64[40];
};

static void ns_ids(const struct nvmfr_ns_info *ns, struct ids *ids)
{
	id_text(ns->uuid, sizeof(ns->uuid), true, ids->uuid);
	id_text(ns->nguid, sizeof(ns->nguid), false, ids->nguid);
	id_text(ns->eui64, sizeof(ns->eui64), false, ids->eui64);
}

static void version_text(uint32_t version, char out[32])
{
	snprintf(out, 32, "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
}

/* What a target says may hold anything, terminal control included. */
static void print_text(const char *name, const char *value)
{
	printf("%-20s ", name);
	for (; *value; value++)
		putchar(isprint((unsigned char)*value) ? *value : '?');
	putchar('\n');
}

static void print_number(const char *name, uint64_t value)
{
	printf("%-20s %" PRIu64 "\n", name, value);
}

static void json_text_member(const char *name, const char *value)
{
	printf("\"%s\": ", name);
	print_json_string(stdout, value);
}

static void controller_facts(const struct nvmfr_ctrl_info *ctrl, bool json)
{
	char version[32];
	const struct text texts[] = {
		{ "subnqn", ctrl->subnqn },
		{ "device", ctrl->device },
		{ "serial", ctrl->serial },
		{ "model", ctrl->model },
		{ "firmware", ctrl->firmware },
		{ "version", version },
	};
	const struct number numbers[] = {
		{ "cntlid", ctrl->cntlid },
		{ "vid", ctrl->vid },
		{ "num_io_queues", ctrl->num_io_queues },
		{ "max_queue_depth", ctrl->max_queue_depth },
		{ "max_xfer_bytes", ctrl->max_xfer_bytes },
		{ "max_icd_bytes", ctrl->max_icd_bytes },
		{ "max_sgl_descriptors", ctrl->max_sgl_descriptors },
		{ "mdts", ctrl->mdts },
		{ "oncs", ctrl->oncs },
		{ "kato_ms", ctrl->kato_ms },
		{ "ns_count", ctrl->ns_count },
	};

	version_text(ctrl->version, version);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!json) {
			print_text(texts[i].name, texts[i].value);
			continue;
		}
		printf("%s\n    ", i ? "," : "");
		json_text_member(texts[i].name, texts[i].value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (json)
			printf(",\n    \"%s\": %" PRIu64, numbers[i].name, numbers[i].value);
		else
			print_number(numbers[i].name, numbers[i].value);
	}
}

static void print_ns(const struct nvmfr_ns_info *ns)
{
	double gib = (double)ns->capacity_blocks * ns->block_bytes / GIB;
	struct ids ids;

	ns_ids(ns, &ids);
	printf("%6" PRIu32 " %14" PRIu64 " %6" PRIu32 " %5" PRIu32 " %11.3f  %-4s %-36s %-32s %s\n",
	       ns->nsid, ns->capacity_blocks, ns->block_bytes, ns->metadata_bytes, gib,
	       ns->read_only ? "ro" : "rw", *ids.uuid ? ids.uuid : "-", *ids.nguid ? ids.nguid : "-",
	       *ids.eui64 ? ids.eui64 : "-");
}

static void json_ns(const struct nvmfr_ns_info *ns, bool first)
{
	struct ids ids;

	ns_ids(ns, &ids);
	printf("%s\n    { \"nsid\": %" PRIu32 ", \"capacity_blocks\": %" PRIu64
	       ", \"block_bytes\": %" PRIu32 ", \"metadata_bytes\": %" PRIu32 ", \"read_only\": %s,\n"
	       "      \"uuid\": \"%s\", \"nguid\": \"%s\", \"eui64\": \"%s\" }",
	       first ? "" : ",", ns->nsid, ns->capacity_blocks, ns->block_bytes, ns->metadata_bytes,
	       ns->read_only ? "true" : "false", ids.uuid, ids.nguid, ids.eui64);
}

/* A namespace may go between the list and the question; that is not an error. */
static int namespaces(const struct session *session, bool json)
{
	struct nvmfr_ns_info ns;
	bool first = true;
	uint32_t nsid = 0;

	while ((nsid = nvmfr_ns_next(session->ctrl, nsid)) != 0) {
		int err = session_namespace(session, nsid, &ns);

		if (err == -ENOENT)
			continue;
		if (err)
			return err;
		if (json)
			json_ns(&ns, first);
		else
			print_ns(&ns);
		first = false;
	}
	return 0;
}

/* What can be had of its health; a target that keeps none of it is no error. */
static void health(const struct session *session, bool json)
{
	struct nvmfr_smart smart = { .size = sizeof(smart) };
	bool known = nvmfr_read_smart(session->ctrl, UINT32_MAX, &smart) == 0;
	const struct number numbers[] = {
		{ "temperature_kelvin", smart.temperature_kelvin },
		{ "spare_percent", smart.spare_percent },
		{ "used_percent", smart.used_percent },
		{ "critical_warning", smart.critical_warning },
		{ "power_on_hours", smart.power_on_hours[0] },
		{ "media_errors", smart.media_errors[0] },
	};

	for (size_t i = 0; known && i < ARRAY_SIZE(numbers); i++) {
		if (json)
			printf("%s\n    \"%s\": %" PRIu64, i ? "," : "", numbers[i].name,
			       numbers[i].value);
		else
			print_number(numbers[i].name, numbers[i].value);
	}
}

static int show(const struct session *session, bool json)
{
	struct nvmfr_ctrl_info ctrl = { .size = sizeof(ctrl) };
	int err = nvmfr_ctrl_info(session->ctrl, &ctrl);

	if (err)
		return err;
	if (json)
		printf("{\n  \"controller\": {");
	controller_facts(&ctrl, json);
	if (json)
		printf("\n  },\n  \"health\": {");
	health(session, json);
	if (json)
		printf("\n  },\n  \"namespaces\": [");
	else
		printf("\n%6s %14s %6s %5s %11s  %-4s %-36s %-32s %s\n", "nsid", "blocks", "block", "meta",
		       "GiB", "mode", "uuid", "nguid", "eui64");
	err = namespaces(session, json);
	if (json)
		printf("\n  ]\n}\n");
	return err;
}

/* All that the library knows, queue pairs included; as a program would log it. */
static int dump(const struct session *session)
{
	int need = nvmfr_ctrl_dump(session->ctrl, NULL, 0);
	char *text = need > 0 ? malloc((size_t)need + 4096) : NULL; /* it may grow meanwhile */

	if (!text)
		return need < 0 ? need : -ENOMEM;
	need = nvmfr_ctrl_dump(session->ctrl, text, (size_t)need + 4096);
	if (need > 0)
		puts(text);
	free(text);
	return need < 0 ? need : 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' },
					       { "dump", no_argument, NULL, 'd' },
					       { 0 } };
	struct session session;
	int err, opt, form = 0;

	while ((opt = getopt_long(argc, argv, "jd", longs, NULL)) == 'j' || opt == 'd')
		form = opt;
	if (opt != -1 || optind + 1 != argc)
		return fprintf(stderr, "usage: identify [--json | --dump] URI\n"), 2;
	err = session_open(&session, argv[optind]);
	if (!err)
		err = form == 'd' ? dump(&session) : show(&session, form == 'j');
	if (err)
		complain("identify");
	session_close(&session);
	return err ? 1 : 0;
}
