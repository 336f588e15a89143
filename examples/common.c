/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int session_connect(struct session *session, const char *uri)
{
	struct nvmfr_ctrl_opts opts;
	int err;

	nvmfr_ctrl_opts_init(&opts, sizeof(opts));
	opts.uri = uri;
	err = nvmfr_connect(session->host, &opts, &session->ctrl);
	if (err)
		return err;
	return nvmfr_ctrl_wait(session->ctrl, -1);
}

int session_open(struct session *session, const char *uri)
{
	int err;

	*session = (struct session){ 0 };
	err = nvmfr_host_create(NULL, &session->host);
	if (err)
		return err;
	return session_connect(session, uri);
}

void session_close(struct session *session)
{
	if (nvmfr_disconnect(session->ctrl, 1000))
		complain("disconnect");
	nvmfr_host_destroy(session->host);
	*session = (struct session){ 0 };
}

int session_namespace(const struct session *session, uint32_t nsid, struct nvmfr_ns_info *info)
{
	*info = (struct nvmfr_ns_info){ .size = sizeof(*info) };
	return nvmfr_ns_info(session->ctrl, nsid ? nsid : nvmfr_ns_next(session->ctrl, 0), info);
}

int session_qpair(const struct session *session, unsigned int depth, uint32_t flags,
		  struct nvmfr_qpair **out)
{
	struct nvmfr_qpair_opts opts;
	int err;

	nvmfr_qpair_opts_init(&opts, sizeof(opts));
	opts.depth = (uint16_t)depth;
	opts.flags = flags;
	err = nvmfr_qpair_create(session->ctrl, &opts, out);
	if (err)
		return err;
	return nvmfr_qpair_wait(*out, -1);
}

int complain(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, nvmfr_last_error());
	return 1;
}

const char *completion_text(const struct nvmfr_completion *done)
{
	return done->result == -EREMOTEIO ? nvmfr_status_string(done->status) : nvmfr_strerror(done->result);
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double seconds_between(uint64_t start_ns, uint64_t end_ns)
{
	return end_ns > start_ns ? (double)(end_ns - start_ns) / 1e9 : 1e-9;
}

static unsigned int unit_shift(const char *suffix)
{
	static const char units[] = "KMGT";
	const char *unit = *suffix ? strchr(units, *suffix & ~0x20) : NULL;

	return unit && !suffix[1] ? 10 * (unsigned int)(unit - units + 1) : 0;
}

bool parse_bytes(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned int shift;
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	shift = unit_shift(end);
	if (end == text || *text == '-' || errno || (*end && !shift) ||
	    value > UINT64_MAX >> shift || value << shift < min || value << shift > max) {
		fprintf(stderr, "%s: %s: '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n",
			program_invocation_short_name, what, text, min, max);
		return false;
	}
	*out = value << shift;
	return true;
}

void print_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}
