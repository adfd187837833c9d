/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of the simulator (gocore/sim), which is one more driver library with an entry of its own. */
#ifndef GPUCONF_CUDA_SIMULATED_H
#define GPUCONF_CUDA_SIMULATED_H

#include "../models/simulator.h"

#pragma GCC visibility push(hidden)

struct simulated_binding {
	void *machine, *before;
};

/* Whether the kernel gave this program rights that its caller does not have (setuid, file capabilities). */
int simulated_is_privileged(void);

/* The path of the program or library that this code is in, NULL if the loader does not know. */
const char *simulated_here(void);

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
