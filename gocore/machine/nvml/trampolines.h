/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trampolines between go-nvml, which is linked as if NVML were always present, and the driver's library, which may be
 * missing.
 *
 * Each function in symbols.h is defined here as one jump through its entry in a table. An entry points to
 * trampolines_missing until trampolines_load finds the function in the driver's library, or permanently if that library
 * is too old to have it.
 */
#pragma once

#include <stddef.h>

/* Hidden: nothing outside this library may find them, especially not the driver's library when it looks up its own
 * functions. */
#pragma GCC visibility push(hidden)

/*
 * Points every entry into the library at path. Returns 1, or 0 and the loader's message. Must not be called again
 * before trampolines_unload, which may be called when no thread uses an entry. None of these may be called from two
 * threads at once.
 */
int trampolines_load(const char *path, char *complaint, size_t complaint_size);
void trampolines_unload(void);

/* Makes nvmlShutdown succeed without a call, for an NVML that did not start: go-nvml closes its library only after
 * that. */
void trampolines_forget_shutdown(void);

#pragma GCC visibility pop
