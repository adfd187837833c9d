/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own functions. The proxy has loaded the libraries; they are only looked up here. */
#include "guard.h"

#include <dlfcn.h>
#include <stdio.h>

struct real real;

static void *open_loaded(const char *folder, const char *name) {
	char path[4200];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

#define FIND(name, base, version, flag, parameters, arguments) *(void **)&real.name = dlsym(library, #name);

static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;

/*
 * A program may load one of the two long after the other. A child has what its parent found. Threads that look at the
 * same time find the same; the loader is asked without a lock (start.c).
 */
void find_libraries(const char *folder) {
	static int has_driver, has_nvml;
	void *library = __atomic_load_n(&has_driver, __ATOMIC_ACQUIRE) ? NULL : open_loaded(folder, "libgpuconf-driver.so");

	if (library != NULL) {
		CUDA_HOOKS(FIND)
		CUDA_CALLS(FIND)
		pthread_mutex_lock(&learning);
		if (!has_driver)
			learn_addresses();
		__atomic_store_n(&has_driver, 1, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&learning);
	}
	library = __atomic_load_n(&has_nvml, __ATOMIC_ACQUIRE) ? NULL : open_loaded(folder, "libgpuconf-nvml.so");
	if (library != NULL) {
		NVML_HOOKS(FIND)
		NVML_CALLS(FIND)
		__atomic_store_n(&has_nvml, 1, __ATOMIC_RELEASE);
	}
}

void forget_libraries(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	learning = fresh;
}
