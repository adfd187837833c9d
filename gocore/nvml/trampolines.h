/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trampolines between go-nvml, which is linked as if NVML were always present, and the driver's library, which may be missing.
 *
 * Each function in symbols.h is defined here as one jump through its entry in a table. An entry points to
 * trampolines_missing until trampolines_load finds the function in the driver's library, or permanently if that library
 * is too old to have it.
 */
#pragma once

#include <stddef.h>

/* Hidden: nothing outside this library may find them, especially not the driver's library when it looks up its own functions. */
#pragma GCC visibility push(hidden)

/*
 * Points every entry into the library at path, which is never unloaded. Returns 1, or 0 and the loader's message.
 * Must not be called from two threads at once, nor again after it returned 1.
 */
int trampolines_load(const char *path, char *complaint, size_t complaint_size);

#pragma GCC visibility pop
