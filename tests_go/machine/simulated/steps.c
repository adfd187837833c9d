// go:build cgo && linux && (amd64 || arm64)

#include "steps.h"

#include "../../../gocore/machine/models/simulator.h"

#include <dlfcn.h>
#include <stddef.h>

static struct {
	const struct gpuconf_simulator *machines;
	int (*live)(const char *);
	void (*hold)(void);
	int (*steppable)(int, uint64_t *, int);
	int (*step)(int, uint64_t);
} simulator;

const char *steps_attach(const char *path) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (library == NULL)
		return dlerror();
	const struct gpuconf_simulator *(*entry)(uint32_t) = NULL;
	*(void **)&entry = dlsym(library, "gpuconf_simulator");
	*(void **)&simulator.live = dlsym(library, "fakecuda_live");
	*(void **)&simulator.hold = dlsym(library, "fakecuda_hold");
	*(void **)&simulator.steppable = dlsym(library, "fakecuda_steppable");
	*(void **)&simulator.step = dlsym(library, "fakecuda_step");
	simulator.machines = entry != NULL ? entry(GPUCONF_SIMULATOR_ABI) : NULL;
	if (simulator.machines == NULL || simulator.live == NULL || simulator.hold == NULL || simulator.steppable == NULL ||
	    simulator.step == NULL)
		return "it is another simulator";
	return NULL;
}

int steps_live(void *machine, const char *what) {
	struct machine *before = simulator.machines->bind(machine);
	int count = simulator.live(what);
	simulator.machines->bind(before);
	return count;
}

void steps_hold(void *machine) {
	struct machine *before = simulator.machines->bind(machine);
	simulator.hold();
	simulator.machines->bind(before);
}

int steps_steppable(void *machine, int ordinal, uint64_t *streams, int room) {
	struct machine *before = simulator.machines->bind(machine);
	int count = simulator.steppable(ordinal, streams, room);
	simulator.machines->bind(before);
	return count;
}

int steps_step(void *machine, int ordinal, uint64_t stream) {
	struct machine *before = simulator.machines->bind(machine);
	int ran = simulator.step(ordinal, stream);
	simulator.machines->bind(before);
	return ran;
}
