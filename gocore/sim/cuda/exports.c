/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of CUDA's driver that no other file has: it returns CUDA_ERROR_NOT_SUPPORTED, and is noted by name.
 * The definitions here are weak, so a function takes the place of its stub by being defined.
 */
#include "driver.h"

#include "../../machine/models/noted.h"

CUresult not_done(const char *name) {
	note_once(name, "gpuconf: the simulated CUDA driver does not do %s; it returned CUDA_ERROR_NOT_SUPPORTED\n");
	return NOT_SUPPORTED;
}

#ifdef GPUCONF_TEST_HOOKS
/* fakecuda_noted returns the name of the function that was noted as the nth, from 0, or NULL. */
EXPORT const char *fakecuda_noted(unsigned n) { return noted_name(n); }
#endif

static CUresult stub(const char *name) {
	CUresult result = called(name, 1);
	return result != SUCCESS ? result : not_done(name);
}

#define FORM(base, exported, version, streams) \
	EXPORT __attribute__((weak)) CUresult exported(void) { return stub(#exported); }
#define UNRESOLVED(exported) FORM(, exported, , )
#include "functions.h"
