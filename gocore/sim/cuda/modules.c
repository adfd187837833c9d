/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries and their functions (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html and
 * group__CUDA__LIBRARY.html).
 *
 * The names of functions are read from images (images.c); an image in another form, or compressed, has every function
 * that is requested. Modules that were unloaded are kept, so that use of a stale handle is detected. A library is a
 * module of no context, and its kernels are its functions: one handle in every context. The machine's lock guards the
 * list.
 */
#include "modules.h"

#include "../../machine/cuda/constants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions that are added twice, as of each architecture in an image, are one. 32 registers are what a small kernel
 * takes: no image is looked into for more. */
struct function *add_function(struct module *module, const char *name, size_t length) {
	struct function **link = &module->functions;
	FIND(link, strlen((*link)->name) == length && memcmp((*link)->name, name, length) == 0);
	if (*link != NULL)
		return *link;
	return ADD(module->functions, .module = module, .name = strndup(name, length), .registers = 32,
	    .max_threads = MOST_THREADS_OF_BLOCK);
}

/* Only a module that never was in the list, or the whole list. */
static void free_module(struct module *gone) {
	while (gone->functions != NULL) {
		struct function *one = gone->functions;
		gone->functions = one->next;
		free(one->name);
		free(one);
	}
	free(gone);
}

/* An image that states more than there is, is refused; one that is not understood is not. */
static CUresult load_bytes(struct module **out, const void *image, uint64_t bytes, int library) {
	struct context *context = NULL;
	LOCKED;
	TRY(library ? SUCCESS : current_context(&context));
	struct module *new = calloc(1, sizeof *new);
	new->context = context;
	new->library = library;
	enum image kind = read_image(new, image, bytes);
	new->any_name = kind == OTHER_IMAGE;
	if (kind == DAMAGED_IMAGE) {
		free_module(new);
		return INVALID_IMAGE;
	}
	new->next = m->modules;
	m->modules = *out = new;
	return SUCCESS;
}

/* The size of an image in memory is not known to the driver: readable_bytes bounds it. */
static CUresult load(struct module **out, const void *image, int library) {
	return out == NULL || image == NULL ? INVALID_VALUE : load_bytes(out, image, readable_bytes(image), library);
}

static CUresult load_file(struct module **out, const char *path, int library) {
	NEED(out && path);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return FILE_NOT_FOUND;
	fseek(file, 0, SEEK_END);
	long bytes = ftell(file);
	rewind(file);
	char *image = bytes >= 0 ? malloc((size_t)bytes + 1) : NULL;
	int whole = image != NULL && fread(image, 1, (size_t)bytes, file) == (size_t)bytes;
	CUresult result = whole ? load_bytes(out, image, (uint64_t)bytes, library) : INVALID_VALUE;
	fclose(file);
	free(image);
	return result;
}

/* Whether a handle is that of a module, or of a library, that is loaded and whose context lives. */
static int usable(const struct module *module, int library) {
	for (const struct module *one = m->modules; one != NULL; one = one->next)
		if (one == module)
			return !one->unloaded && one->library == library && (one->context == NULL || one->context->alive);
	return 0;
}

/* Its functions are invalid from now on. */
static CUresult unload(struct module *module, int library) {
	LOCKED;
	if (!usable(module, library))
		return INVALID_HANDLE;
	module->unloaded = 1;
	return SUCCESS;
}

void end_modules(void) {
	for (struct module *one = m->modules; one != NULL; one = one->next)
		one->unloaded = 1;
}

void free_modules(void) {
	while (m->modules != NULL) {
		struct module *gone = m->modules;
		m->modules = gone->next;
		free_module(gone);
	}
}

struct function *find_function(const struct function *function) {
	for (struct module *module = m->modules; module != NULL; module = module->next)
		for (struct function *one = module->functions; one != NULL; one = one->next)
			if (one == function)
				return usable(module, module->library) ? one : NULL;
	return NULL;
}

/* A name that the image does not have is an error only if its names could be read. */
static CUresult get_function(struct function **out, struct module *module, const char *name, int library) {
	if (out == NULL || name == NULL || *name == '\0')
		return INVALID_VALUE;
	LOCKED;
	if (!usable(module, library))
		return INVALID_HANDLE;
	struct function **link = &module->functions;
	FIND(link, strcmp((*link)->name, name) == 0);
	struct function *function = *link;
	if (function == NULL && module->any_name)
		function = add_function(module, name, strlen(name));
	if (function == NULL)
		return NOT_FOUND;
	*out = function;
	return SUCCESS;
}

EXPORT CUresult cuModuleLoad(struct module **out, const char *path) {
	CALLED(cuModuleLoad);
	return load_file(out, path, 0);
}

EXPORT CUresult cuModuleLoadDataEx(
    struct module **out, const void *image, unsigned count, int *options, void **values) {
	CALLED(cuModuleLoadDataEx);
	return count > 0 && (options == NULL || values == NULL) ? INVALID_VALUE : load(out, image, 0);
}

#define LOADS(name) \
	EXPORT CUresult name(struct module **out, const void *image) { \
		CALLED(name); \
		return load(out, image, 0); \
	}
LOADS(cuModuleLoadData)
LOADS(cuModuleLoadFatBinary)

EXPORT CUresult cuModuleUnload(struct module *module) {
	CALLED(cuModuleUnload);
	return unload(module, 0);
}

EXPORT CUresult cuModuleGetFunction(struct function **out, struct module *module, const char *name) {
	CALLED(cuModuleGetFunction);
	return get_function(out, module, name, 0);
}

/* Variables are not read from images. */
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, struct module *module, const char *name) {
	CALLED(cuModuleGetGlobal);
	(void)out, (void)bytes;
	NEED(name);
	LOCKED;
	return usable(module, 0) ? NOT_FOUND : INVALID_HANDLE;
}

EXPORT CUresult cuModuleGetLoadingMode(int *mode) {
	CALLED(cuModuleGetLoadingMode);
	NEED(mode);
	*mode = CU_MODULE_LAZY_LOADING;
	return SUCCESS;
}

/* Options, of the compiler and of the library, are looked at only as far as that their lists are there. */
#define LIBRARY_LOADS(name, type, loads) \
	EXPORT CUresult name(struct module **out, const type *source, int *options, void **values, unsigned count, \
	    int *more, void **more_values, unsigned more_count) { \
		REFUSE(NOT_STARTED, out == NULL || source == NULL, INVALID_VALUE); \
		CALLED(name); \
		if ((count > 0 && (options == NULL || values == NULL)) || (more_count > 0 && more == NULL) || \
		    (more_values == NULL && more_count > 1)) \
			return INVALID_VALUE; \
		return loads(out, source, 1); \
	}
LIBRARY_LOADS(cuLibraryLoadData, void, load)
LIBRARY_LOADS(cuLibraryLoadFromFile, char, load_file)

EXPORT CUresult cuLibraryUnload(struct module *library) {
	REFUSE(NOT_STARTED, library == NULL, INVALID_HANDLE);
	CALLED(cuLibraryUnload);
	return unload(library, 1);
}

EXPORT CUresult cuLibraryGetKernel(struct function **out, struct module *library, const char *name) {
	REFUSE(NOT_STARTED, out == NULL || name == NULL, INVALID_VALUE);
	CALLED(cuLibraryGetKernel);
	return get_function(out, library, name, 1);
}

/* A library's module in the current context, made at the first call. */
EXPORT CUresult cuLibraryGetModule(struct module **out, struct module *library) {
	REFUSE(NOT_STARTED, out == NULL, INVALID_VALUE);
	REFUSE(NOT_STARTED, library == NULL, INVALID_HANDLE);
	CALLED(cuLibraryGetModule);
	NEED(out);
	IN_CONTEXT;
	if (!usable(library, 1))
		return INVALID_HANDLE;
	struct module **link = &m->modules;
	FIND(link, (*link)->of == library && (*link)->context == context && !(*link)->unloaded);
	*out = *link;
	if (*out != NULL)
		return SUCCESS;
	*out = ADD(m->modules, .context = context, .any_name = library->any_name, .of = library);
	for (const struct function *function = library->functions; function != NULL; function = function->next)
		add_function(*out, function->name, strlen(function->name));
	return SUCCESS;
}

/* A kernel's handle is its function's in every context. */
EXPORT CUresult cuKernelGetFunction(struct function **out, struct function *kernel) {
	REFUSE(NOT_STARTED, out == NULL, INVALID_VALUE);
	REFUSE(NOT_STARTED, kernel == NULL || driver_version() >= 12050, INVALID_HANDLE);
	CALLED(cuKernelGetFunction);
	IN_CONTEXT;
	NEED(out && kernel);
	if (find_function(kernel) == NULL)
		return INVALID_HANDLE;
	*out = kernel;
	return SUCCESS;
}

EXPORT CUresult cuFuncGetModule(struct module **out, struct function *function) {
	CALLED(cuFuncGetModule);
	NEED(out && function);
	LOCKED;
	if (find_function(function) == NULL)
		return INVALID_HANDLE;
	*out = function->module;
	return SUCCESS;
}

static CUresult name_of(const char **out, struct function *function) {
	NEED(out);
	LOCKED;
	if (find_function(function) == NULL)
		return INVALID_HANDLE;
	*out = function->name;
	return SUCCESS;
}

#define NAMES(name) \
	EXPORT CUresult name(const char **out, struct function *function) { \
		REFUSE(NOT_STARTED, out == NULL || function == NULL, INVALID_VALUE); \
		CALLED(name); \
		return name_of(out, function); \
	}
NAMES(cuFuncGetName)
NAMES(cuKernelGetName)

EXPORT CUresult cuFuncLoad(struct function *function) {
	REFUSE(NOT_STARTED, function == NULL, INVALID_HANDLE);
	CALLED(cuFuncLoad);
	LOCKED;
	return find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
}

/* What is not in the list is 0: shared, constant and local memory of kernels that compute nothing. */
static CUresult get_attribute(int *value, int attribute, struct function *function) {
	if (value == NULL || attribute < 0 || attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
		return INVALID_VALUE;
	LOCKED;
	if (find_function(function) == NULL)
		return INVALID_HANDLE;
	const struct gpu *gpu = &m->gpu[function->module->context != NULL ? function->module->context->gpu : 0];
	const int version = gpu->major * 10 + gpu->minor;
	const int values[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE + 1] = {
	    [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = function->max_threads,
	    [CU_FUNC_ATTRIBUTE_NUM_REGS] = function->registers,
	    [CU_FUNC_ATTRIBUTE_PTX_VERSION] = version,
	    [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = version,
	    [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = most_dynamic_shared(function),
	    [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = function->carveout};
	*value = values[attribute];
	return SUCCESS;
}

/* The bounds are those of the GPU: shared memory that a block may opt in to, and a carveout in percent. */
static CUresult set_attribute(int attribute, int value, struct function *function) {
	LOCKED;
	if (find_function(function) == NULL)
		return INVALID_HANDLE;
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > limits_of(function)->shared_bytes_of_block)
			return INVALID_VALUE;
		function->dynamic_shared = value;
		return SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100) /* percent; -1: as the driver likes */
			return INVALID_VALUE;
		function->carveout = value;
		return SUCCESS;
	}
	/* Those of clusters are accepted, and not kept; those before are read only. */
	return attribute < CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
	               attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
	           ? INVALID_VALUE
			   : SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, struct function *function) {
	REFUSE(NOT_STARTED, driver_version() >= 12040 && (value == NULL || function == NULL),
	    value == NULL ? INVALID_VALUE : INVALID_HANDLE);
	CALLED(cuFuncGetAttribute);
	return get_attribute(value, attribute, function);
}

EXPORT CUresult cuFuncSetAttribute(struct function *function, int attribute, int value) {
	CALLED(cuFuncSetAttribute);
	return set_attribute(attribute, value, function);
}

EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, struct function *kernel, CUdevice device) {
	REFUSE(NOT_STARTED, driver_version() >= 12050, INVALID_HANDLE);
	CALLED(cuKernelGetAttribute);
	return unknown_device(device) ? INVALID_DEVICE : get_attribute(value, attribute, kernel);
}

EXPORT CUresult cuKernelSetAttribute(int attribute, int value, struct function *kernel, CUdevice device) {
	REFUSE(NOT_STARTED, driver_version() >= 12050, INVALID_HANDLE);
	CALLED(cuKernelSetAttribute);
	return unknown_device(device) ? INVALID_DEVICE : set_attribute(attribute, value, kernel);
}

EXPORT CUresult cuFuncSetCacheConfig(struct function *function, int config) {
	CALLED(cuFuncSetCacheConfig);
	if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
		return INVALID_VALUE;
	LOCKED;
	return find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
}
