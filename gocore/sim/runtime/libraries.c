/* SPDX-License-Identifier: Apache-2.0 */
/* What functions of other libraries return that is not a status. */
#include "runtime.h"

/* Bytes, not a status: -1 is an error of the system. */
#define TRANSFER(name) \
	EXPORT long name(void *file, void *memory, size_t bytes, long at, long offset) { \
		(void)file, (void)memory, (void)bytes, (void)at, (void)offset; \
		not_done(#name); \
		return -1; \
	}
TRANSFER(cuFileRead)
TRANSFER(cuFileWrite)

#define NO_MEMORY(name) \
	EXPORT void *name(void) { \
		not_done(#name); \
		return NULL; \
	}
NO_MEMORY(nvshmem_malloc)
NO_MEMORY(nvshmem_ptr)
