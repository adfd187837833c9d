/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries and their functions. The names of functions are read from images (images.c); an image in another
 * form, or compressed, has every function that is requested. Modules that were unloaded are kept, so that use of a
 * stale handle is detected.
 */
#include "modules.h"

#include "../../machine/cuda/constants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct function *add_function(struct module *module, const char *name, size_t length) {
	struct function *one = module->functions;
	while (one != NULL && (strlen(one->name) != length || memcmp(one->name, name, length) != 0))
		one = one->next;
	if (one == NULL && (one = calloc(1, sizeof *one)) != NULL) {
		one->module = module;
		one->name = strndup(name, length);
		one->registers = 32;
		one->max_threads = 1024;
		one->next = module->functions;
		module->functions = one;
	}
	return one;
}

static void free_module(struct module *gone) {
	while (gone->functions != NULL) {
		struct function *one = gone->functions;
		gone->functions = one->next;
		free(one->name);
		free(one);
	}
	free(gone);
}

static CUresult load_bytes(struct module **out, const void *image, uint64_t bytes, int library) {
	struct context *context = NULL;
	LOCK;
	CUresult result = library ? SUCCESS : current_context(&context);
	if (result == SUCCESS) {
		struct module *new = calloc(1, sizeof *new);
		new->context = context;
		new->library = library;
		enum image kind = read_image(new, image, bytes);
		new->any_name = kind == OTHER_IMAGE;
		if (kind == DAMAGED_IMAGE) {
			free_module(new);
			result = INVALID_IMAGE;
		} else {
			new->next = m->modules;
			m->modules = *out = new;
		}
	}
	UNLOCK;
	return result;
}

static CUresult load(struct module **out, const void *image, int library) {
	return out == NULL || image == NULL ? INVALID_VALUE : load_bytes(out, image, readable_bytes(image), library);
}

static CUresult load_file(struct module **out, const char *path, int library) {
	if (out == NULL || path == NULL)
		return INVALID_VALUE;
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return FILE_NOT_FOUND;
	fseek(file, 0, SEEK_END);
	long bytes = ftell(file);
	rewind(file);
	char *image = bytes >= 0 ? malloc((size_t)bytes + 1) : NULL;
	CUresult result = image == NULL || fread(image, 1, (size_t)bytes, file) != (size_t)bytes
	                      ? INVALID_VALUE
	                      : load_bytes(out, image, (uint64_t)bytes, library);
	fclose(file);
	free(image);
	return result;
}

static int usable(const struct module *module, int library) {
	for (const struct module *one = m->modules; one != NULL; one = one->next)
		if (one == module)
			return !one->unloaded && one->library == library && (one->context == NULL || one->context->alive);
	return 0;
}

static CUresult unload(struct module *module, int library) {
	LOCK;
	CUresult result = usable(module, library) ? SUCCESS : INVALID_HANDLE;
	if (result == SUCCESS)
		module->unloaded = 1;
	UNLOCK;
	return result;
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

static CUresult get_function(struct function **out, struct module *module, const char *name, int library) {
	if (out == NULL || name == NULL || *name == '\0')
		return INVALID_VALUE;
	LOCK;
	CUresult result = usable(module, library) ? SUCCESS : INVALID_HANDLE;
	if (result == SUCCESS) {
		struct function *one = module->functions;
		while (one != NULL && strcmp(one->name, name) != 0)
			one = one->next;
		if (one == NULL && module->any_name)
			one = add_function(module, name, strlen(name));
		if (one == NULL)
			result = NOT_FOUND;
		else
			*out = one;
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuModuleLoad(struct module **out, const char *path) {
	CALLED(cuModuleLoad);
	return load_file(out, path, 0);
}

EXPORT CUresult cuModuleLoadData(struct module **out, const void *image) {
	CALLED(cuModuleLoadData);
	return load(out, image, 0);
}

EXPORT CUresult cuModuleLoadDataEx(
    struct module **out, const void *image, unsigned count, int *options, void **values) {
	CALLED(cuModuleLoadDataEx);
	return count > 0 && (options == NULL || values == NULL) ? INVALID_VALUE : load(out, image, 0);
}

EXPORT CUresult cuModuleLoadFatBinary(struct module **out, const void *image) {
	CALLED(cuModuleLoadFatBinary);
	return load(out, image, 0);
}

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
	LOCK;
	CUresult result = usable(module, 0) ? NOT_FOUND : INVALID_HANDLE;
	if (name == NULL)
		result = INVALID_VALUE;
	UNLOCK;
	return result;
}

EXPORT CUresult cuModuleGetLoadingMode(int *mode) {
	CALLED(cuModuleGetLoadingMode);
	if (mode == NULL)
		return INVALID_VALUE;
	*mode = 2; /* lazy */
	return SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(struct module **out, const void *code, int *options, void **values, unsigned count,
    int *more, void **more_values, unsigned more_count) {
	REFUSE(NOT_STARTED, out == NULL || code == NULL, INVALID_VALUE);
	CALLED(cuLibraryLoadData);
	if ((count > 0 && (options == NULL || values == NULL)) || (more_count > 0 && more == NULL) ||
	    (more_values == NULL && more_count > 1))
		return INVALID_VALUE;
	return load(out, code, 1);
}

EXPORT CUresult cuLibraryLoadFromFile(struct module **out, const char *path, int *options, void **values,
    unsigned count, int *more, void **more_values, unsigned more_count) {
	REFUSE(NOT_STARTED, out == NULL || path == NULL, INVALID_VALUE);
	CALLED(cuLibraryLoadFromFile);
	if ((count > 0 && (options == NULL || values == NULL)) || (more_count > 0 && more == NULL) ||
	    (more_values == NULL && more_count > 1))
		return INVALID_VALUE;
	return load_file(out, path, 1);
}

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
	if (out == NULL)
		return INVALID_VALUE;
	IN_CONTEXT({
		if (!usable(library, 1))
			result = INVALID_HANDLE;
		if (result == SUCCESS) {
			struct module *new = m->modules;
			while (new != NULL && (new->of != library || new->context != context || new->unloaded))
				new = new->next;
			if (new == NULL) {
				new = calloc(1, sizeof *new);
				*new = (struct module){
				    .context = context, .any_name = library->any_name, .of = library, .next = m->modules};
				for (const struct function *one = library->functions; one != NULL; one = one->next)
					add_function(new, one->name, strlen(one->name));
				m->modules = new;
			}
			*out = new;
		}
	});
}

/* A kernel's handle is its function's in every context. */
EXPORT CUresult cuKernelGetFunction(struct function **out, struct function *kernel) {
	REFUSE(NOT_STARTED, out == NULL, INVALID_VALUE);
	REFUSE(NOT_STARTED, kernel == NULL || driver_version() >= 12050, INVALID_HANDLE);
	CALLED(cuKernelGetFunction);
	IN_CONTEXT({
		if (out == NULL || kernel == NULL)
			result = INVALID_VALUE;
		if (result == SUCCESS && find_function(kernel) == NULL)
			result = INVALID_HANDLE;
		if (result == SUCCESS)
			*out = kernel;
	});
}

EXPORT CUresult cuFuncGetModule(struct module **out, struct function *function) {
	CALLED(cuFuncGetModule);
	LOCK;
	CUresult result = find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
	if (out == NULL || function == NULL)
		result = INVALID_VALUE;
	if (result == SUCCESS)
		*out = function->module;
	UNLOCK;
	return result;
}

static CUresult name_of(const char **out, struct function *function) {
	LOCK;
	CUresult result = find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
	if (out == NULL)
		result = INVALID_VALUE;
	if (result == SUCCESS)
		*out = function->name;
	UNLOCK;
	return result;
}

EXPORT CUresult cuFuncGetName(const char **out, struct function *function) {
	REFUSE(NOT_STARTED, out == NULL || function == NULL, INVALID_VALUE);
	CALLED(cuFuncGetName);
	return name_of(out, function);
}

EXPORT CUresult cuKernelGetName(const char **out, struct function *kernel) {
	REFUSE(NOT_STARTED, out == NULL || kernel == NULL, INVALID_VALUE);
	CALLED(cuKernelGetName);
	return name_of(out, kernel);
}

EXPORT CUresult cuFuncLoad(struct function *function) {
	REFUSE(NOT_STARTED, function == NULL, INVALID_HANDLE);
	CALLED(cuFuncLoad);
	LOCK;
	CUresult result = find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
	UNLOCK;
	return result;
}

static CUresult get_attribute(int *value, int attribute, struct function *function) {
	if (value == NULL || attribute < 0 || attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
		return INVALID_VALUE;
	LOCK;
	CUresult result = find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
	if (result == SUCCESS) {
		int gpu = function->module->context != NULL ? function->module->context->gpu : 0,
		    version = m->gpu[gpu].major * 10 + m->gpu[gpu].minor;
		const int values[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE + 1] = {
		    [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = function->max_threads,
		    [CU_FUNC_ATTRIBUTE_NUM_REGS] = function->registers,
		    [CU_FUNC_ATTRIBUTE_PTX_VERSION] = version,
		    [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = version,
		    [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = most_dynamic_shared(function),
		    [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = function->carveout};
		*value = values[attribute];
	}
	UNLOCK;
	return result;
}

static CUresult set_attribute(int attribute, int value, struct function *function) {
	LOCK;
	CUresult result = find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
	if (result == SUCCESS && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 &&
	    value <= limits_of(function)->shared_bytes_of_block)
		function->dynamic_shared = value;
	else if (result == SUCCESS && attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT && value >= -1 &&
	         value <= 100)
		function->carveout = value;
	else if (result == SUCCESS && (attribute < CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
	                                  attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE ||
	                                  attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT))
		result = INVALID_VALUE;
	UNLOCK;
	return result;
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
	LOCK;
	CUresult result = find_function(function) == NULL ? INVALID_HANDLE : SUCCESS;
	if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
		result = INVALID_VALUE;
	UNLOCK;
	return result;
}
