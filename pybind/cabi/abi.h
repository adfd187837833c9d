/* Declarations shared by the C files of this package and Go; the public part is gpuconf.h. */
#ifndef GPUCONF_ABI_INTERNAL_H
#define GPUCONF_ABI_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "../../python/gpuconf/include/gpuconf.h"

/* A thread's scope before it enters one; scope.go says what a scope's word holds. */
#define GPUCONF_NO_SCOPE (-1)

void gcgo_scope_write(int64_t logical);
int64_t gcgo_scope_read(void);
void gcgo_tell(const char *text);

/* Begins a call: clears the thread's last error. Returns 1, with the error set, if Go must not be entered. */
int gcgo_refuse(void);

/* Why Go must not be entered now, in words, unless it may. */
enum gcgo_refusal { GCGO_NONE, GCGO_FORKED, GCGO_FEW_THREADS };
enum gcgo_refusal gcgo_refusal(char *text, size_t room);

/* threads.c: where the first is not 0, the second says whether a call must be refused, and why. */
extern int gcgo_few_threads;
int gcgo_find_threads(char *text, size_t room);

/* How many threads can be started beside the reserve, wanted at most. They end at once. */
int gcgo_try_threads(int wanted);

/* Throws the C++ exception that PyTorch makes its own Python error of; returns only where nobody could catch one. */
void gcgo_throw(const char *text);

#endif
