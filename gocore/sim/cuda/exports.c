/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of CUDA's driver that no other file has: it returns CUDA_ERROR_NOT_SUPPORTED, and is noted by name.
 * The definitions here are weak, so a function takes the place of its stub by being defined.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	const char *name;
} noted[1024];

/*
 * Notes a call that the simulator does not do, once for each name. The list only grows: a thread that finds a place
 * taken by another name goes on to the next.
 */
CUresult not_done(const char *name) {
	for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
		const char *there = NULL;
		if (__atomic_compare_exchange_n(&noted[i].name, &there, name, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			if (secure_getenv("GPUCONF_SIMULATOR_LOG") != NULL)
				fprintf(stderr,
				    "gpuconf: the simulated CUDA driver does not do %s; it returned CUDA_ERROR_NOT_SUPPORTED\n", name);
			break;
		}
		if (strcmp(there, name) == 0)
			break;
	}
	return NOT_SUPPORTED;
}

#ifdef GPUCONF_TEST_HOOKS
/* fakecuda_noted returns the name of the function that was noted as the nth, from 0, or NULL. */
EXPORT const char *fakecuda_noted(unsigned n) {
	return n < sizeof noted / sizeof *noted ? __atomic_load_n(&noted[n].name, __ATOMIC_SEQ_CST) : NULL;
}
#endif

static CUresult stub(const char *name) {
	CUresult result = called(name, 1);
	return result != SUCCESS ? result : not_done(name);
}

#define FORM(base, exported, version, streams) \
	EXPORT __attribute__((weak)) CUresult exported(void) { return stub(#exported); }
#define UNRESOLVED(exported) FORM(, exported, , )
#include "functions.h"
