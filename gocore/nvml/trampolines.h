/*
 * Stands between go-nvml, which is linked as if NVML were always there, and the driver's library, which may not be.
 *
 * Each function in symbols.h is defined here, as one jump through its entry of a table. An entry points to
 * trampolines_missing until trampolines_load finds the function in the driver's library, and for good where that library
 * is too old to have it.
 */
#pragma once

#include <stddef.h>

/* Hidden: nothing outside this library may find them, least of all the driver's library when it looks for its own. */
#pragma GCC visibility push(hidden)

/*
 * Points every entry into the library at path, which stays loaded for good. Returns 1, or 0 and the loader's complaint.
 * Not to be called from two threads at once, nor again after a 1.
 */
int trampolines_load(const char *path, char *complaint, size_t complaint_size);

#pragma GCC visibility pop
