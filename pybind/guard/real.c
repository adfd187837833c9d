/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own functions. The proxy has loaded the libraries; they are only looked up here. */
#include "guard.h"

#include <dlfcn.h>
#include <stdio.h>

struct real real;

static void *open_loaded(const char *folder, const char *name)
{
	char path[4200];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

#define FIND(name, base, version, flag, parameters, arguments) *(void **)&real.name = dlsym(library, #name);

/* A program may load one of the two long after the other. A child has what its parent found. */
void find_libraries(const char *folder)
{
	static int has_driver, has_nvml;
	void *library = has_driver ? NULL : open_loaded(folder, "libgpuconf-driver.so");

	if (library != NULL) {
		CUDA_HOOKS(FIND)
		CUDA_CALLS(FIND)
		learn_addresses();
		has_driver = 1;
	}
	library = has_nvml ? NULL : open_loaded(folder, "libgpuconf-nvml.so");
	if (library != NULL) {
		NVML_HOOKS(FIND)
		NVML_CALLS(FIND)
		has_nvml = 1;
	}
}
