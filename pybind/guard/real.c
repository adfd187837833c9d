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

void find_driver(const char *folder)
{
	void *library = open_loaded(folder, "libgpuconf-driver.so");

	if (library == NULL)
		return;
	CUDA_HOOKS(FIND)
	CUDA_CALLS(FIND)
}

void find_nvml(const char *folder)
{
	void *library = open_loaded(folder, "libgpuconf-nvml.so");

	if (library == NULL)
		return;
	NVML_HOOKS(FIND)
	NVML_CALLS(FIND)
}
