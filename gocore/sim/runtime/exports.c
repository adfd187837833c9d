/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function that PyTorch imports and no other file has. It computes nothing, and returns success, or its library's
 * status for what is not supported, which is noted by name. The definitions are weak, so a function takes the place of
 * its stub by being defined.
 */
#include "runtime.h"

#include "../../machine/models/noted.h"

void not_done(const char *name) { note_once(name, "gpuconf: the simulated GPU does not support %s\n"); }

/* gpuconf_runtime_noted returns the name of the function that was noted as the nth, from 0, or NULL. */
EXPORT const char *gpuconf_runtime_noted(unsigned n) { return noted_name(n); }

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
