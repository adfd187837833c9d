// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)

#define _GNU_SOURCE
#include "simulated.h"

#include <dlfcn.h>
#include <sys/auxv.h>

static const struct gpuconf_simulator *simulator; /* set before any machine is opened; never unloaded */

int simulated_is_privileged(void) { return getauxval(AT_SECURE) != 0; }

const char *simulated_here(void) {
	Dl_info here;
	return dladdr((void *)&simulator, &here) != 0 ? here.dli_fname : NULL;
}

int simulated_find(const char *path) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (library == NULL)
		return 0;
	const struct gpuconf_simulator *(*entry)(uint32_t) = NULL;
	*(void **)&entry = dlsym(library, "gpuconf_simulator");
	const struct gpuconf_simulator *found = entry != NULL ? entry(GPUCONF_SIMULATOR_ABI) : NULL;
	if (found != NULL)
		__atomic_store_n(&simulator, found, __ATOMIC_SEQ_CST);
	return found != NULL;
}

void simulated_prepare(const char *path, int version) {
	if (version != 0 && dlopen(path, RTLD_LAZY | RTLD_LOCAL) != NULL && simulated_find(path))
		simulator->set_version(version);
}

void *simulated_open(const struct simulator_card *cards, int count, const struct simulator_options *options,
    char *complaint, size_t room) {
	return simulator->open(cards, count, options, complaint, room);
}

void simulated_close(void *machine) { simulator->close(machine); }
void simulated_use(void *machine) { simulator->use(machine); }

struct simulated_binding simulated_bind(void *machine) {
	return (struct simulated_binding){machine, machine != NULL ? simulator->bind(machine) : NULL};
}

void simulated_unbind(const struct simulated_binding *binding) {
	if (binding->machine != NULL)
		simulator->bind(binding->before);
}
