/* What the C files of this package and Go share; the public part is gpuconf.h. */
#ifndef GPUCONF_ABI_INTERNAL_H
#define GPUCONF_ABI_INTERNAL_H

#include <stdint.h>

#include "../../python/gpuconf/include/gpuconf.h"

/* A thread's scope before it enters one; scope.go says what a scope's word holds. */
#define GPUCONF_NO_SCOPE (-1)

void gcgo_scope_write(int64_t logical);
int64_t gcgo_scope_read(void);
void gcgo_tell(const char *text);

/* Begins a call: forgets the thread's last error. 1 in a forked child, with the error told. */
int gcgo_refuse(void);

/* Throws the C++ exception that PyTorch makes its own Python error of; returns only where nobody could catch one. */
void gcgo_throw(const char *text);

#endif
