/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program calls and a library of the simulator does not do: each function is noted once, and named on standard
 * error with GPUCONF_SIMULATOR_LOG=1. Each library that includes this has a list of its own. The list only grows, and
 * needs no lock: a thread that finds a place taken by another name goes on to the next.
 */
#ifndef GPUCONF_NOTED_H
#define GPUCONF_NOTED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *noted[1024];

/* The name stays; the format is of a line and has one %s for it. */
static inline void note_once(const char *name, const char *format) {
	for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
		const char *there = NULL;
		if (__atomic_compare_exchange_n(&noted[i], &there, name, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			const char *log = secure_getenv("GPUCONF_SIMULATOR_LOG");
			if (log != NULL && strcmp(log, "1") == 0)
				fprintf(stderr, format, name);
			return;
		}
		if (strcmp(there, name) == 0)
			return;
	}
}

/* The name that was noted as the nth, from 0, or NULL. */
static inline const char *noted_name(unsigned n) {
	return n < sizeof noted / sizeof *noted ? __atomic_load_n(&noted[n], __ATOMIC_SEQ_CST) : NULL;
}

#endif
