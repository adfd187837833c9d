/* The machines of a simulator that is loaded: what is left on them, and their work step by step. */
#ifndef SIMULATED_STEPS_H
#define SIMULATED_STEPS_H

#include <stdint.h>
#include <stdlib.h>

/* Finds the functions in the library at path. Returns what is missing, or NULL. */
const char *steps_attach(const char *path);

int steps_live(void *machine, const char *what);
void steps_hold(void *machine);
int steps_steppable(void *machine, int ordinal, uint64_t *streams, int room);
int steps_step(void *machine, int ordinal, uint64_t stream);

#endif
