/* SPDX-License-Identifier: Apache-2.0 */
/* What computes on a card, and the interface by which Python says that it computes instead. The library exports
 * gpuconf_runtime_*. */
#ifndef UNMARKED_H
#define UNMARKED_H

#include "runtime.h"

/* 1 begins and 0 ends a part of this thread in which the caller computes the values itself. Parts nest. */
void gpuconf_runtime_mark(int on);

/* The address of this thread's count of such parts, an int. */
void *gpuconf_runtime_mark_address(void);

/* The address of the count of pieces of work in the queues of all streams, a uint32_t. */
const void *gpuconf_runtime_queued_address(void);

/* Makes memory of a simulated GPU zero. Where that is much, the host need not have it until something is written. */
void gpuconf_runtime_clear(void *memory, size_t bytes);

/* How many launches and library calls computed nothing although their thread was not marked. */
uint64_t gpuconf_runtime_unmarked(void);

/* The name and the count of the nth of their functions, from 0. Returns 1 when there are no more. A kernel's name is as
 * in its source. */
int gpuconf_runtime_unmarked_name(unsigned index, char *name, size_t room, uint64_t *count);

/* Is called at the first such call of each function, or at each one if they are errors, in the thread that calls. NULL:
 * none. */
void gpuconf_runtime_on_unmarked(void (*callback)(const char *name));

/* Whether they are errors: cudaErrorNotSupported, or the library's status for what is not supported. */
void gpuconf_runtime_strict(int on);

/*
 * Is called after each launch of a graph (a cudaGraphExec_t), in the thread that launches; the work may not have run.
 * The launch is not counted then. NULL: none.
 */
void gpuconf_runtime_on_graph_launch(void (*callback)(void *executable));

/*
 * Is called for each group of NCCL's operations under capture, with what gpuconf_runtime_collective takes to do it,
 * whenever the graph's other operations are computed. NULL: the graph does it when it is launched.
 */
void gpuconf_runtime_on_captured_collective(void (*callback)(void *batch));
void gpuconf_runtime_collective(void *batch);

int marked(void);

/* Counts a function, whose name stays, unless the thread is marked. Returns NOT_SUPPORTED if that is an error. */
int computes(const char *function);

/* A copy of a name, which stays. For a name that computes is called with next. */
const char *counted_name(const char *text);

/* The driver's: calls a function before each launch, outside its lock; another value than 0 is the launch's result. */
void gpuconf_simulator_on_launch(int (*hook)(const char *kernel));
const uint32_t *gpuconf_simulator_queued(void);
void gpuconf_simulator_clear(uint64_t addr, uint64_t bytes);

#endif
