/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe [--json]: what this machine offers, and what is missing. nvmfr_probe() answers in JSON; without
 * --json its members are laid out as a table.
 */
#include <nvmfr/nvmfr.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_WIDTH 24
#define MAX_LEVEL  8

/* Reads text that a JSON writer made: unknown bytes are passed over, the end of the text ends all. */
struct cursor {
	const char *at;
};

static void show_value(struct cursor *c, const char *name, int level);

static char next_token(struct cursor *c)
{
	while (*c->at && strchr(" \t\n\r,:", *c->at))
		c->at++;
	return *c->at;
}

/* One string or number, without quotes and escapes; a longer one is cut. */
static void take_scalar(struct cursor *c, char *out, size_t room)
{
	int quoted = *c->at == '"';
	size_t len = 0;

	c->at += quoted;
	while (*c->at && (quoted ? *c->at != '"' : !strchr(" \t\n\r,]}", *c->at))) {
		if (quoted && *c->at == '\\' && c->at[1])
			c->at++;
		if (len + 1 < room)
			out[len++] = isprint((unsigned char)*c->at) ? *c->at : '?';
		c->at++;
	}
	c->at += quoted && *c->at;
	out[len] = '\0';
}

static void show_line(const char *name, const char *value, int level)
{
	printf("%*s%-*s %s\n", 2 * level, "", NAME_WIDTH - 2 * level, name, value);
}

static void show_members(struct cursor *c, int level)
{
	char name[64];

	c->at++;
	while (next_token(c) == '"') {
		take_scalar(c, name, sizeof(name));
		show_value(c, name, level);
	}
	c->at += *c->at == '}';
}

/* Plain values on one line; objects one below the other, numbered. */
static void show_elements(struct cursor *c, const char *name, int level)
{
	char value[512], heading[96];
	unsigned int count = 0;

	c->at++;
	for (; next_token(c) && *c->at != ']'; count++) {
		if (*c->at == '{' || *c->at == '[') {
			snprintf(heading, sizeof(heading), "%s %u", name, count + 1);
			show_value(c, heading, level);
			continue;
		}
		take_scalar(c, value, sizeof(value));
		show_line(count ? "" : name, value, level);
	}
	if (!count)
		show_line(name, "none", level);
	c->at += *c->at == ']';
}

static void show_value(struct cursor *c, const char *name, int level)
{
	char value[512];

	if (level > MAX_LEVEL)
		c->at += strlen(c->at);
	switch (next_token(c)) {
	case '{':
		if (*name)
			printf("%*s%s\n", 2 * level, "", name);
		show_members(c, level + (*name != '\0'));
		return;
	case '[':
		show_elements(c, name, level);
		return;
	default:
		take_scalar(c, value, sizeof(value));
		show_line(name, value, level);
	}
}

/* Asks twice: what is plugged in meanwhile may make the second answer longer than the first said. */
static char *probe(void)
{
	int room = nvmfr_probe(NULL, 0) + 4096;
	char *text = room > 0 ? malloc((size_t)room) : NULL;
	int need = text ? nvmfr_probe(text, (size_t)room) : 0;

	if (text && need > 0 && need <= room)
		return text;
	fprintf(stderr, "probe: %s\n", text ? nvmfr_last_error() : "out of memory");
	free(text);
	return NULL;
}

int main(int argc, char **argv)
{
	struct cursor cursor;
	char *text;

	if (argc > 2 || (argc == 2 && strcmp(argv[1], "--json")))
		return fprintf(stderr, "usage: probe [--json]\n"), 2;
	text = probe();
	if (!text)
		return 1;
	cursor.at = text;
	if (argc == 2)
		puts(text);
	else
		show_value(&cursor, "", 0);
	free(text);
	return 0;
}
