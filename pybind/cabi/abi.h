/* What abi.c and abi.go share; the public part is gpuconf.h. */
#ifndef GPUCONF_ABI_INTERNAL_H
#define GPUCONF_ABI_INTERNAL_H

#include <stdint.h>

#include "../../python/gpuconf/include/gpuconf.h"

/* A thread's scope before it enters one; scope.go says what a scope's word holds. */
#define GPUCONF_NO_SCOPE (-1)

void gcgo_scope_write(int64_t logical);
int64_t gcgo_scope_read(void);
void gcgo_tell(const char *text);

#endif
