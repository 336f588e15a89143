/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places for a tracer (USDT), provider "nvmfr": notes in the ELF file and a nop each. In a build without
 * them (meson option usdt) nothing at all.
 */
#ifndef NVMFR_BASE_PROBE_H
#define NVMFR_BASE_PROBE_H

#ifdef NVMFR_USDT
#include <sys/sdt.h>
#define PROBE3(name, a, b, c)	    DTRACE_PROBE3(nvmfr, name, a, b, c)
#define PROBE4(name, a, b, c, d)    DTRACE_PROBE4(nvmfr, name, a, b, c, d)
#define PROBE5(name, a, b, c, d, e) DTRACE_PROBE5(nvmfr, name, a, b, c, d, e)
enum { PROBES = 1 };
#else
#define PROBE3(name, a, b, c)	    ((void)0)
#define PROBE4(name, a, b, c, d)    ((void)0)
#define PROBE5(name, a, b, c, d, e) ((void)0)
enum { PROBES = 0 };
#endif

#endif
