/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_CTRL_RESOLVE_H
#define NVMFR_CTRL_RESOLVE_H

#include <sys/socket.h>

/* A name being looked up without blocking the service; numbers answer at once. */
struct resolve;

int nvmfr__resolve_start(const char *host, const char *port, struct resolve **out);

/* 1: out is filled; 0: not yet; -errno with a sentence. Ends the resolve unless 0. */
int nvmfr__resolve_poll(struct resolve **resolve, struct sockaddr_storage *out);

/* In any state; accepts NULL. A lookup that cannot be cancelled is left to end by itself. */
void nvmfr__resolve_end(struct resolve **resolve);

/* A numeric address, port 0: where to come from. */
int nvmfr__resolve_numeric(const char *host, struct sockaddr_storage *out);

#endif
