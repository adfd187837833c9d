/* SPDX-License-Identifier: Apache-2.0 */
/* Launches. A kernel's arguments and place are checked, but it computes nothing; a host function really runs. */
#include "modules.h"

#include <stdio.h>
#include <stdlib.h>

struct shape {
	unsigned grid[3], block[3], shared;
};

static void nothing(void *unused) { (void)unused; }

static CUresult check(const struct function *function, const struct shape *shape) {
	static const uint64_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
	uint64_t threads = 1;
	for (int i = 0; i < 3; i++) {
		if (shape->grid[i] == 0 || shape->block[i] == 0 || shape->grid[i] > most_grid[i] ||
		    shape->block[i] > most_block[i])
			return INVALID_VALUE;
		threads *= shape->block[i];
	}
	if (threads > MOST_THREADS_OF_BLOCK || shape->shared > (unsigned)most_dynamic_shared(function))
		return INVALID_VALUE;
	return threads > (uint64_t)function->max_threads || threads * (uint64_t)function->registers > REGISTERS_OF_BLOCK
	           ? LAUNCH_OUT_OF_RESOURCES
			   : SUCCESS;
}

/* Of the library that stands in for CUDA's runtime (../runtime/unmarked.c). */
static int (*hook)(const char *kernel);

EXPORT void gpuconf_simulator_on_launch(int (*called)(const char *kernel)) {
	__atomic_store_n(&hook, called, __ATOMIC_RELEASE);
}

static CUresult tell(const struct function *handle) {
	int (*called)(const char *) = __atomic_load_n(&hook, __ATOMIC_ACQUIRE);
	char name[512] = "";
	if (called == NULL)
		return SUCCESS;
	LOCK;
	const struct function *function = find_function(handle);
	if (function != NULL)
		snprintf(name, sizeof name, "%s", function->name);
	UNLOCK;
	return function == NULL ? SUCCESS : (CUresult)called(name);
}

static CUresult launch(struct function *handle, const struct shape *shape, CUstream stream_handle) {
	CUresult told = tell(handle);
	if (told != SUCCESS)
		return told;
	IN_STREAM(stream_handle, {
		const struct function *function = find_function(handle);
		if (function == NULL || (function->module->context != NULL && function->module->context != context))
			result = INVALID_HANDLE;
		else if ((result = check(function, shape)) == SUCCESS && (result = admits(stream)) == SUCCESS)
			enqueue(stream, (struct work){.kind = KERNEL, .kernel = nothing});
		if (result == INVALID_VALUE && stream->capture != NULL)
			stream->capture->spoiled = 1; /* its graph would lack the kernel */
	});
}

/* Without a device, drivers before CUDA 12.5 and since 12.0 look at the function first, and newer ones at the stream.
 */
#define REFUSE_LAUNCH(stream) \
	REFUSE(NO_DEVICE_FOUND, driver_version() >= 12000 && (driver_version() < 12050 || (uintptr_t)(stream) > 2), \
	    INVALID_HANDLE)

EXPORT CUresult cuLaunchKernel(struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments,
    void **extra) {
	REFUSE_LAUNCH(stream);
	CALLED(cuLaunchKernel);
	if (arguments != NULL && extra != NULL)
		return INVALID_VALUE;
	return launch(function, &(struct shape){{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream);
}

EXPORT CUresult cuLaunchCooperativeKernel(struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments) {
	REFUSE_LAUNCH(stream);
	CALLED(cuLaunchCooperativeKernel);
	(void)arguments;
	return launch(function, &(struct shape){{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream);
}

struct configuration {
	struct shape shape;
	CUstream stream;
	void *attributes;
	unsigned count;
};

EXPORT CUresult cuLaunchKernelEx(
    const struct configuration *configuration, struct function *function, void **arguments, void **extra) {
	REFUSE(ANY_TIME, configuration == NULL, INVALID_VALUE);
	REFUSE(NO_DEVICE_FOUND, driver_version() < 12050, INVALID_HANDLE);
	CALLED(cuLaunchKernelEx);
	if (configuration == NULL || (configuration->count > 0 && configuration->attributes == NULL) ||
	    (arguments != NULL && extra != NULL))
		return INVALID_VALUE;
	return launch(function, &configuration->shape, configuration->stream);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(
    const struct configuration *configuration, struct function *function, void **arguments, void **extra) {
	REFUSE(ANY_TIME, configuration == NULL, INVALID_VALUE);
	REFUSE(NO_DEVICE_FOUND, driver_version() < 12050, INVALID_HANDLE);
	CALLED(cuLaunchKernelEx);
	if (configuration == NULL || (configuration->count > 0 && configuration->attributes == NULL) ||
	    (arguments != NULL && extra != NULL))
		return INVALID_VALUE;
	return launch(function, &configuration->shape, own_stream(configuration->stream));
}

struct host_call {
	void (*function)(void *);
	void (*callback)(CUstream stream, CUresult status, void *data);
	CUstream stream;
	void *data;
};

/* The program's function may take long, and wait for another thread's call: the lock is not held. */
static void call_host(void *argument) {
	struct host_call call = *(struct host_call *)argument;
	UNLOCK;
	if (call.function != NULL)
		call.function(call.data);
	else
		call.callback(call.stream, SUCCESS, call.data);
	LOCK;
}

static CUresult queue_call(CUstream handle, struct host_call call, int recorded) {
	IN_STREAM(handle, {
		result = recorded ? admits(stream) : observes(stream);
		struct host_call *copy = result == SUCCESS ? malloc(sizeof *copy) : NULL;
		if (copy != NULL) {
			*copy = call;
			enqueue(stream, (struct work){.kind = KERNEL, .kernel = call_host, .staged = copy});
		} else if (result == SUCCESS)
			result = OUT_OF_MEMORY;
	});
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data) {
	REFUSE(NO_DEVICE_FOUND, function == NULL, INVALID_VALUE);
	CALLED_IN(stream, cuLaunchHostFunc);
	return function == NULL ? INVALID_VALUE
	                        : queue_call(stream, (struct host_call){.function = function, .data = data}, 1);
}

EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream stream, void (*function)(void *), void *data) {
	return cuLaunchHostFunc(own_stream(stream), function, data);
}

EXPORT CUresult cuStreamAddCallback(
    CUstream stream, void (*callback)(CUstream, CUresult, void *), void *data, unsigned flags) {
	REFUSE(NO_DEVICE_FOUND, callback == NULL || flags != 0, INVALID_VALUE);
	CALLED(cuStreamAddCallback);
	if (callback == NULL || flags != 0)
		return INVALID_VALUE;
	return queue_call(stream, (struct host_call){.callback = callback, .stream = stream, .data = data}, 0);
}

EXPORT CUresult cuStreamAddCallback_ptsz(
    CUstream stream, void (*callback)(CUstream, CUresult, void *), void *data, unsigned flags) {
	return cuStreamAddCallback(own_stream(stream), callback, data, flags);
}
