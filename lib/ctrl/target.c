/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nvmfr/soft.h>

#include "base/err.h"

#define RDMA_SCHEME "nvmf+rdma://"
#define SOFT_SCHEME "nvmf+soft:"

static int copy_part(char *dst, size_t room, const char *from, size_t bytes, const char *what)
{
	if (bytes >= room)
		return nvmfr__fail(-EINVAL, "%s is %zu bytes long, at most %zu are possible", what,
				   bytes, room - 1);
	memcpy(dst, from, bytes);
	dst[bytes] = '\0';
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 3986 percent-encoding, in place. */
static int percent_decode(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (*in != '%') {
			*out++ = *in;
			continue;
		}
		int high = hex_digit(in[1]), low = high < 0 ? -1 : hex_digit(in[2]);

		if (low < 0 || (high | low) == 0)
			return nvmfr__fail(-EINVAL, "'%s' has a %% that no two hex digits follow",
					   text);
		*out++ = (char)(high << 4 | low);
		in += 2;
	}
	*out = '\0';
	return 0;
}

int nvmfr__parse_bytes(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned int shift = 0;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno)
		return nvmfr__fail(-EINVAL, "'%s' is not a number of bytes", text);
	if (*end) {
		const char *unit = strchr(units, toupper((unsigned char)*end));

		if (!unit || (end[1] && strcmp(end + 1, "iB") != 0))
			return nvmfr__fail(
				-EINVAL,
				"'%s' is not a number of bytes: the units are K, M, G and T", text);
		shift = 10 * (unsigned int)(unit - units + 1);
	}
	if (value > UINT64_MAX >> shift)
		return nvmfr__fail(-EINVAL, "'%s' is more than 64 bits count", text);
	*out = (uint64_t)value << shift;
	return 0;
}

/* ---- nvmf+rdma://ADDRESS[:PORT]/SUBNQN ------------------------------------------------------- */

static int check_port(const char *port)
{
	char *end;
	long value = strtol(port, &end, 10);

	if (!isdigit((unsigned char)*port) || *end || value < 1 || value > 65535)
		return nvmfr__fail(-EINVAL, "port '%s' is not a number from 1 to 65535", port);
	return 0;
}

static int parse_authority(struct target *out, const char *text, size_t bytes)
{
	const char *port, *close = text[0] == '[' ? memchr(text, ']', bytes) : NULL;
	size_t address;
	int err;

	if (text[0] == '[' && !close)
		return nvmfr__fail(-EINVAL, "the URI's IPv6 address has no closing bracket");
	if (close) {
		address = (size_t)(close - text) - 1;
		port = close + 1 < text + bytes ? close + 1 : NULL;
		if (port && *port != ':')
			return nvmfr__fail(-EINVAL,
					   "only :PORT may follow the bracket of an IPv6 address");
		text++;
		bytes--;
	} else {
		port = memchr(text, ':', bytes);
		address = port ? (size_t)(port - text) : bytes;
		if (port && memchr(port + 1, ':', bytes - address - 1))
			return nvmfr__fail(
				-EINVAL,
				"an IPv6 address in a URI needs brackets: nvmf+rdma://[ADDRESS]:PORT/NQN");
	}
	if (address == 0)
		return nvmfr__fail(-EINVAL,
				   "the URI has no address: nvmf+rdma://ADDRESS[:PORT]/SUBNQN");
	err = copy_part(out->traddr, sizeof(out->traddr), text, address, "the URI's address");
	if (!err && port)
		err = copy_part(out->trsvcid, sizeof(out->trsvcid), port + 1,
				(size_t)(text + bytes - port) - 1, "the URI's port");
	return err;
}

static int parse_rdma(struct target *out, const char *rest)
{
	const char *slash = strchr(rest, '/');
	int err;

	if (!slash || !slash[1])
		return nvmfr__fail(-EINVAL,
				   "the URI names no subsystem: nvmf+rdma://ADDRESS[:PORT]/SUBNQN");
	err = parse_authority(out, rest, (size_t)(slash - rest));
	if (!err)
		err = copy_part(out->subnqn, sizeof(out->subnqn), slash + 1, strlen(slash + 1),
				"subnqn");
	return err;
}

/* ---- nvmf+soft:[//NAME][/PATH][?size=,block=,ro=,latency_us=], or [?port=] of one with a name ---------- */

static int soft_block(struct target *out, uint64_t bytes)
{
	if (bytes != 512 && bytes != 4096)
		return nvmfr__fail(-EINVAL, "soft URI: block=%llu is neither 512 nor 4096",
				   (unsigned long long)bytes);
	out->block_bytes = (uint32_t)bytes;
	return 0;
}

static int soft_latency(struct target *out, uint64_t us)
{
	if (us > 10000000)
		return nvmfr__fail(-EINVAL, "soft URI: latency_us=%llu is more than 10 seconds",
				   (unsigned long long)us);
	out->latency_us = (uint32_t)us;
	return 0;
}

/* All that a target with a name leaves open. */
static int soft_port(struct target *out, const char *key, const char *value, uint64_t port)
{
	if (strcmp(key, "port") != 0)
		return nvmfr__fail(-EINVAL,
				   "soft URI: a target with a name brings its own namespaces; leave '%s=%s' out",
				   key, value);
	if (port == 0 || port > NVMFR_SOFT_PORTS)
		return nvmfr__fail(-EINVAL, "soft URI: port=%llu is not from 1 to %d",
				   (unsigned long long)port, NVMFR_SOFT_PORTS);
	out->soft_port = (uint8_t)(port - 1);
	return 0;
}

static int soft_option(struct target *out, const char *key, const char *value)
{
	uint64_t number;
	int err = nvmfr__parse_bytes(value, &number);

	if (err)
		return nvmfr__fail_wrap(err, "soft URI: %s", key);
	if (out->name[0])
		return soft_port(out, key, value, number);
	if (strcmp(key, "block") == 0)
		return soft_block(out, number);
	if (strcmp(key, "latency_us") == 0)
		return soft_latency(out, number);
	if (strcmp(key, "ro") == 0)
		out->read_only = number != 0;
	else if (strcmp(key, "size") == 0)
		out->size_bytes = number;
	else
		return nvmfr__fail(-EINVAL,
				   "soft URI: '%s' is not one of size, block, ro, latency_us", key);
	return 0;
}

static int parse_query(struct target *out, char *query)
{
	char *save = NULL;

	for (char *pair = strtok_r(query, "&", &save); pair; pair = strtok_r(NULL, "&", &save)) {
		char *equals = strchr(pair, '=');
		int err;

		if (!equals)
			return nvmfr__fail(-EINVAL, "soft URI: '%s' is not KEY=VALUE", pair);
		*equals = '\0';
		err = soft_option(out, pair, equals + 1);
		if (err)
			return err;
	}
	return 0;
}

static int parse_soft_path(struct target *out, const char *rest)
{
	const char *slash;
	int err;

	if (strncmp(rest, "//", 2) != 0)
		return copy_part(out->path, sizeof(out->path), rest, strlen(rest),
				 "the URI's path");
	rest += 2;
	slash = strchr(rest, '/');
	if (!slash)
		slash = rest + strlen(rest);
	err = copy_part(out->name, sizeof(out->name), rest, (size_t)(slash - rest),
			"the soft target's name");
	if (err || !*slash)
		return err;
	if (out->name[0])
		return copy_part(out->subnqn, sizeof(out->subnqn), slash + 1, strlen(slash + 1),
				 "subnqn");
	return copy_part(out->path, sizeof(out->path), slash[1] ? slash : "",
			 strlen(slash[1] ? slash : ""), "the URI's path");
}

static int parse_soft(struct target *out, const char *rest)
{
	char text[sizeof(out->path) + 512], *query;
	int err = copy_part(text, sizeof(text), rest, strlen(rest), "the URI");

	if (err)
		return err;
	out->soft = true;
	out->block_bytes = 512;
	query = strchr(text, '?');
	if (query)
		*query++ = '\0';
	err = parse_soft_path(out, text);
	if (!err)
		err = percent_decode(out->path);
	if (!err && query)
		err = parse_query(out, query);
	return err;
}

/* ---- either way ------------------------------------------------------------------------------ */

static int copy_field(char *dst, size_t room, const char *src, const char *what)
{
	return src ? copy_part(dst, room, src, strlen(src), what) : 0;
}

static int parse_fields(const struct nvmfr_ctrl_opts *opts, struct target *out)
{
	int err;

	if (!opts->traddr || !opts->subnqn)
		return nvmfr__fail(-EINVAL, "nvmfr_ctrl_opts needs a uri, or traddr and subnqn");
	err = copy_field(out->traddr, sizeof(out->traddr), opts->traddr, "traddr");
	if (!err)
		err = copy_field(out->trsvcid, sizeof(out->trsvcid), opts->trsvcid, "trsvcid");
	if (!err)
		err = copy_field(out->subnqn, sizeof(out->subnqn), opts->subnqn, "subnqn");
	return err;
}

static int parse_uri(const char *uri, struct target *out)
{
	if (strncmp(uri, RDMA_SCHEME, strlen(RDMA_SCHEME)) == 0)
		return parse_rdma(out, uri + strlen(RDMA_SCHEME));
	if (strncmp(uri, SOFT_SCHEME, strlen(SOFT_SCHEME)) == 0)
		return parse_soft(out, uri + strlen(SOFT_SCHEME));
	return nvmfr__fail(
		-EINVAL, "URI '%.200s' begins with neither " RDMA_SCHEME " nor " SOFT_SCHEME, uri);
}

static int check_rdma(struct target *out)
{
	int err;

	if (!out->traddr[0])
		return nvmfr__fail(-EINVAL, "the target's address is empty");
	if (!out->trsvcid[0])
		strcpy(out->trsvcid, TARGET_DEFAULT_PORT);
	err = check_port(out->trsvcid);
	return err ? err : nvme_nqn_check("subnqn", out->subnqn);
}

int nvmfr__target_parse(const struct nvmfr_ctrl_opts *opts, struct target *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	if (opts->uri && (opts->traddr || opts->trsvcid || opts->subnqn))
		return nvmfr__fail(
			-EINVAL, "nvmfr_ctrl_opts has a uri and address fields; give one of them");
	err = opts->uri ? parse_uri(opts->uri, out) : parse_fields(opts, out);
	if (!err)
		err = copy_field(out->host_traddr, sizeof(out->host_traddr), opts->host_traddr,
				 "host_traddr");
	if (err)
		return err;
	if (!out->soft)
		return check_rdma(out);
	return out->subnqn[0] ? nvme_nqn_check("subnqn", out->subnqn) : 0;
}
