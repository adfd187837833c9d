/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches, and how many blocks of a function fit on a multiprocessor
 * (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html and group__CUDA__OCCUPANCY.html). A kernel's
 * arguments and place are checked, but it computes nothing; a host function really runs, in the stream's order, and
 * without the machine's lock.
 */
#include "modules.h"

#include "../../machine/cuda/constants.h"

#include <stdio.h>
#include <stdlib.h>

struct shape {
	unsigned grid[3], block[3], shared;
};

static void nothing(void *unused) { (void)unused; }

/* The limits of all GPUs since compute capability 3.0 (NVIDIA's CUDA C++ Programming Guide, technical specifications
 * by compute capability), and then those of the function. */
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
	int fits =
	    threads <= (uint64_t)function->max_threads && threads * (uint64_t)function->registers <= REGISTERS_OF_BLOCK;
	return fits ? SUCCESS : LAUNCH_OUT_OF_RESOURCES;
}

/* Of the library that stands in for CUDA's runtime (../runtime/unmarked.c). */
static int (*hook)(const char *kernel);

EXPORT void gpuconf_simulator_on_launch(int (*called)(const char *kernel)) {
	__atomic_store_n(&hook, called, __ATOMIC_RELEASE);
}

/* Reports the launch, by the name of the kernel, without the lock: the hook may call the driver. It may refuse. */
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

/* A kernel is work that does nothing, so that events and other streams have something to wait for. */
static CUresult launch(struct function *handle, const struct shape *shape, CUstream stream_handle) {
	TRY(tell(handle));
	IN_STREAM(stream_handle);
	const struct function *function = find_function(handle);
	if (function == NULL || (function->module->context != NULL && function->module->context != context))
		return INVALID_HANDLE;
	CUresult result = check(function, shape);
	if (result == SUCCESS && (result = admits(stream)) == SUCCESS)
		enqueue(stream, (struct work){.kind = KERNEL, .kernel = nothing});
	if (result == INVALID_VALUE && stream->capture != NULL)
		stream->capture->spoiled = 1; /* its graph would lack the kernel */
	return result;
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

#define LAUNCHES(name, the_stream) \
	EXPORT CUresult name( \
	    const struct configuration *configuration, struct function *kernel, void **arguments, void **extra) { \
		REFUSE(ANY_TIME, configuration == NULL, INVALID_VALUE); \
		REFUSE(NO_DEVICE_FOUND, driver_version() < 12050, INVALID_HANDLE); \
		CALLED(cuLaunchKernelEx); \
		if ((configuration->count > 0 && configuration->attributes == NULL) || (arguments != NULL && extra != NULL)) \
			return INVALID_VALUE; \
		return launch(kernel, &configuration->shape, the_stream); \
	}
LAUNCHES(cuLaunchKernelEx, configuration->stream)
LAUNCHES(cuLaunchKernelEx_ptsz, own_stream(configuration->stream))

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
	LOCK_ANYWAY; /* a suspension waits for this work */
}

/* A host function is recorded by a capture, a callback is not: CUDA refuses that. */
static CUresult queue_call(CUstream handle, struct host_call call, int recorded) {
	IN_STREAM(handle);
	CUresult result = recorded ? admits(stream) : observes(stream);
	struct host_call *copy = result == SUCCESS ? malloc(sizeof *copy) : NULL;
	if (copy == NULL)
		return result == SUCCESS ? OUT_OF_MEMORY : result;
	*copy = call;
	enqueue(stream, (struct work){.kind = KERNEL, .kernel = call_host, .staged = copy});
	return SUCCESS;
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

/* Occupancy, as NVIDIA's calculator has it: warps, registers by warp, and shared memory, whichever is used up first. */

#define WARP 32
#define REGISTER_UNIT 256 /* of a warp */
#define SHARED_UNIT 128

static uint64_t up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* 0: the function cannot be launched so at all. */
static int blocks(const struct function *function, int threads, uint64_t shared) {
	const struct gpuconf_capability *limits = limits_of(function);
	uint64_t warps = up((uint64_t)threads, WARP) / WARP,
	         of_warp = up((uint64_t)function->registers * WARP, REGISTER_UNIT),
	         of_block = up(shared + (uint64_t)reserved_shared(limits), SHARED_UNIT);
	if (threads > function->max_threads || shared > (uint64_t)most_dynamic_shared(function))
		return 0;
	uint64_t fit = least((uint64_t)limits->blocks, (uint64_t)limits->threads / WARP / warps);
	fit = least(fit, (uint64_t)limits->registers / (of_warp * warps));
	return (int)(of_block > 0 ? least(fit, (uint64_t)limits->shared_bytes / of_block) : fit);
}

static CUresult most_blocks(int *out, struct function *handle, int threads, size_t shared, unsigned flags) {
	IN_CONTEXT;
	const struct function *function = find_function(handle);
	if (out == NULL || threads <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return INVALID_VALUE;
	if (function == NULL)
		return INVALID_HANDLE;
	*out = blocks(function, threads, shared);
	return SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *out, struct function *function, int threads, size_t shared) {
	CALLED(cuOccupancyMaxActiveBlocksPerMultiprocessor);
	return most_blocks(out, function, threads, shared, 0);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *out, struct function *function, int threads, size_t shared, unsigned flags) {
	CALLED(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
	return most_blocks(out, function, threads, shared, flags);
}

/* The largest block of those with the most threads on a multiprocessor. The program's function is called without the
 * lock. */
static CUresult best_size(
    int *grid, int *block, struct function *handle, size_t (*shared_of)(int), size_t shared, int most, unsigned flags) {
	int fit, best_fit = 0, best_threads = 0, multiprocessors = 0;
	struct context *context;
	CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
	if (grid == NULL || block == NULL || most < 0)
		return INVALID_VALUE;
	TRY(usable_context(&context));
	TRY(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context->gpu));
	if (most == 0 || most > MOST_THREADS_OF_BLOCK)
		most = MOST_THREADS_OF_BLOCK;
	for (int threads = most; threads > 0; threads = (threads - 1) / WARP * WARP) {
		TRY(most_blocks(&fit, handle, threads, shared_of != NULL ? shared_of(threads) : shared, flags));
		if (fit * threads > best_fit * best_threads) {
			best_fit = fit;
			best_threads = threads;
		}
	}
	*block = best_threads;
	*grid = best_fit * multiprocessors;
	return SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(
    int *grid, int *block, struct function *function, size_t (*shared_of)(int), size_t shared, int most) {
	CALLED(cuOccupancyMaxPotentialBlockSize);
	return best_size(grid, block, function, shared_of, shared, most, 0);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, struct function *function,
    size_t (*shared_of)(int), size_t shared, int most, unsigned flags) {
	CALLED(cuOccupancyMaxPotentialBlockSizeWithFlags);
	return best_size(grid, block, function, shared_of, shared, most, flags);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, struct function *handle, int count, int threads) {
	CALLED(cuOccupancyAvailableDynamicSMemPerBlock);
	int fit;
	if (out == NULL || count <= 0)
		return INVALID_VALUE;
	TRY(most_blocks(&fit, handle, threads, 0, 0));
	if (count > fit)
		return INVALID_VALUE;
	LOCKED;
	const struct function *function = find_function(handle);
	if (function == NULL)
		return INVALID_HANDLE;
	const struct gpuconf_capability *limits = limits_of(function);
	uint64_t each = (uint64_t)limits->shared_bytes / (uint64_t)count / SHARED_UNIT * SHARED_UNIT -
	                (uint64_t)reserved_shared(limits);
	*out = least((uint64_t)limits->shared_bytes_of_block, each);
	return SUCCESS;
}
