/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function that PyTorch imports and no other file has. It computes nothing, and returns success, or its library's
 * status for what is not supported, which is noted by name. The definitions are weak, so a function takes the place of
 * its stub by being defined.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

static const char *noted[1024];

/* The names have one address each: they are literals of one place. */
void not_done(const char *name) {
	for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
		const char *there = NULL;
		if (__atomic_compare_exchange_n(&noted[i], &there, name, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			if (getenv("GPUCONF_SIMULATOR_LOG") != NULL)
				fprintf(stderr, "gpuconf: the simulated GPU does not support %s\n", name);
			return;
		}
		if (there == name)
			return;
	}
}

/* gpuconf_runtime_noted returns the name of the function that was noted as the nth, from 0, or NULL. */
EXPORT const char *gpuconf_runtime_noted(unsigned n) {
	return n < sizeof noted / sizeof *noted ? __atomic_load_n(&noted[n], __ATOMIC_SEQ_CST) : NULL;
}

#define COMPUTES(name, status) \
	EXPORT __attribute__((weak)) long name(void) { return computes(#name) == SUCCESS ? SUCCESS : status; }
#define ANSWERS(name) \
	EXPORT __attribute__((weak)) long name(void) { return SUCCESS; }
#define REFUSES(name, status) \
	EXPORT __attribute__((weak)) long name(void) { \
		not_done(#name); \
		return status; \
	}
#include "functions.h"
