// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)
#define _GNU_SOURCE
#include "library.h"

#include "constants.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

struct cuda_functions cuda;
static int (*guard_figures)(const CUuuid *uuid, struct card_figures *figures); /* NULL without the guard */
static int (*guard_processes)(const CUuuid *uuid, struct card_process *out, int room);
static void (*guard_idle)(uint64_t (*function)(int device));

void cuda_guard_idle(uintptr_t function) {
	if (guard_idle != NULL)
		guard_idle((uint64_t (*)(int))function);
}

int cuda_guard_figures(const CUuuid *uuid, struct card_figures *figures) {
	return guard_figures != NULL && guard_figures(uuid, figures);
}

int cuda_guard_processes(const CUuuid *uuid, struct card_process *out, int room) {
	return guard_processes == NULL ? 0 : guard_processes(uuid, out, room);
}

typedef CUresult (*get_proc_address)(const char *base, void **function, int version, uint64_t flags, int *status);

struct cuda_symbol_info cuda_symbol_info(int symbol) {
	static const struct cuda_symbol_info infos[] = {
#define INFO(field, base, exported, version, parameters) {exported, version},
	    CUDA_SYMBOLS(INFO)
#undef INFO
	};
	return infos[symbol];
}

int cuda_has(int symbol) {
	void *function; /* the table is an array of function pointers, which all have the size of one */
	memcpy(&function, (const char *)&cuda + (size_t)symbol * sizeof function, sizeof function);
	return function != NULL;
}

/*
 * cuGetProcAddress returns the exact form of a function in a given version, and tools that intercept CUDA expect it to
 * be used. Drivers before 12.0 do not have it in this form, but their exported symbols are versioned too.
 */
static void *find(void *library, get_proc_address ask, const char *base, const char *exported, int version) {
	void *function = NULL;
	int status = 0;
	if (ask != NULL && ask(base, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) == 0 &&
	    function != NULL)
		return function;
	return dlsym(library, exported);
}

static int loaded(void *library, struct cuda_load_answer *answer) {
	CUresult (*get_version)(int *) = NULL;
	*(void **)&get_version = dlsym(library, "cuDriverGetVersion");
	answer->state = CUDA_NOT_A_DRIVER;
	if (get_version == NULL || (answer->result = get_version(&answer->version)) != 0)
		return 0;
	answer->state = CUDA_TOO_OLD;
	return answer->version >= OLDEST_CUDA;
}

void cuda_load(const char *path, struct cuda_load_answer *answer) {
	memset(answer, 0, sizeof *answer);
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (library == NULL) {
		const char *complaint = dlerror();
		answer->state = CUDA_NO_LIBRARY;
		snprintf(answer->text, sizeof answer->text, "%s", complaint != NULL ? complaint : path);
		return;
	}
	if (!loaded(library, answer))
		return;

	get_proc_address ask = NULL;
	*(void **)&ask = dlsym(library, "cuGetProcAddress_v2");
	struct cuda_functions functions;
	void *(*for_pools)(const char *name) =
	    NULL; /* the guard's, if this process is under it (gocore/lease/guard/cards.c) */
	*(void **)&for_pools = dlsym(library, "gpuconf_guard_for_pools");
	*(void **)&guard_figures = dlsym(library, "gpuconf_guard_figures");
	*(void **)&guard_processes = dlsym(library, "gpuconf_guard_processes");
	*(void **)&guard_idle = dlsym(library, "gpuconf_guard_idle");
#define BIND(field, base, exported, version, parameters) \
	*(void **)&functions.field = find(library, ask, base, exported, version); \
	if (functions.field == NULL && version <= OLDEST_CUDA) { \
		answer->state = CUDA_INCOMPLETE; \
		snprintf(answer->text, sizeof answer->text, "%s", exported); \
		return; \
	} \
	if (for_pools != NULL && functions.field != NULL && for_pools(exported) != NULL) \
		*(void **)&functions.field = for_pools(exported);
	CUDA_SYMBOLS(BIND)
#undef BIND
	cuda = functions;
	answer->state = CUDA_LOADED;
}

static const struct gpuconf_simulator *simulator; /* set before any machine is opened; never unloaded */

int simulated_is_privileged(void) { return getauxval(AT_SECURE) != 0; }

const char *simulated_here(void) {
	Dl_info here;
	return dladdr((void *)&simulator, &here) != 0 ? here.dli_fname : NULL;
}

static int take_loads(struct dl_phdr_info *one, size_t size, void *loads) {
	(void)size;
	*(uint64_t *)loads = one->dlpi_adds;
	return 1;
}

uint64_t loads(void) {
	uint64_t loads = 0;
	dl_iterate_phdr(take_loads, &loads);
	return loads;
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
