/* SPDX-License-Identifier: Apache-2.0 */
/* The driver library: loaded once, and its functions in one table. */
#ifndef GPUCONF_CUDA_LIBRARY_H
#define GPUCONF_CUDA_LIBRARY_H

#include "../models/simulator.h"
#include "guard_figures.h"
#include "symbols.h"

#pragma GCC visibility push(hidden)

struct cuda_functions {
#define FIELD(field, base, exported, version, parameters) CUresult(*field) parameters;
	CUDA_SYMBOLS(FIELD)
#undef FIELD
};

/* Filled by cuda_load, before any call; NULL where the driver lacks a function. */
extern struct cuda_functions cuda;

void cuda_guard_idle(uintptr_t function);
/* Fills figures and returns 1, or returns 0: without the guard, and for a card that the job does not have. */
int cuda_guard_figures(const CUuuid *uuid, struct card_figures *figures);
int cuda_guard_processes(const CUuuid *uuid, struct card_process *out, int room); /* returns how many it wrote */

/* A function's place in the table. */
enum cuda_symbol {
#define PLACE(field, base, exported, version, parameters) SYMBOL_##field,
	CUDA_SYMBOLS(PLACE)
#undef PLACE
	    SYMBOL_COUNT
};

/* The result of a call to a function that the driver lacks: less than every CUresult. */
#define MISSING(field) (-1 - (int)SYMBOL_##field)

struct cuda_symbol_info {
	const char *name; /* the exported one */
	int version;
};

struct cuda_symbol_info cuda_symbol_info(int symbol);

/* Whether the loaded driver has a function. */
int cuda_has(int symbol);

enum cuda_load_state {
	CUDA_LOADED,
	CUDA_NO_LIBRARY,   /* the loader's message is in text */
	CUDA_NOT_A_DRIVER, /* it has no cuDriverGetVersion, or that function fails with result */
	CUDA_TOO_OLD,
	CUDA_INCOMPLETE, /* the required function named in text is missing */
};

struct cuda_load_answer {
	enum cuda_load_state state;
	CUresult result;
	int version;
	char text[1024];
};

/* cuda_load opens the library at path and fills the table. The library is never unloaded, even if this fails. */
void cuda_load(const char *path, struct cuda_load_answer *answer);

/* The machines of the simulator (gocore/sim), which is one more driver library with an entry of its own. */
struct simulated_binding {
	void *machine, *before;
};

/* Whether the kernel gave this program rights that its caller does not have (setuid, file capabilities). */
int simulated_is_privileged(void);

/* The path of the program or library that this code is in, NULL if the loader does not know. */
const char *simulated_here(void);

/* How often the loader has loaded a library, in any namespace; 0 if it does not say. */
uint64_t loads(void);

/* Finds the entry in the library at path, which is loaded. Returns 0 if it is no simulator of this build. */
int simulated_find(const char *path);

/* Loads the library at path, and makes it a driver of a CUDA version, unless that is 0. Does nothing where that fails:
 * loading will say why. */
void simulated_prepare(const char *path, int version);

void *simulated_open(const struct simulator_card *cards, int count, const struct simulator_options *options,
    char *complaint, size_t room);
void simulated_close(void *machine);
void simulated_use(void *machine);

/* Bind a machine to the thread, and what was bound before again. For NULL both do nothing. */
struct simulated_binding simulated_bind(void *machine);
void simulated_unbind(const struct simulated_binding *binding);

#pragma GCC visibility pop

#endif
