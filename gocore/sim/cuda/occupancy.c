/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks of a function fit on a multiprocessor. */
#include "modules.h"

#define WARP 32
#define REGISTER_UNIT 256 /* of a warp */
#define SHARED_UNIT 128

static uint64_t up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t shared_blocks(const struct gpuconf_capability *limits, uint64_t shared) {
	uint64_t taken = up(shared + (uint64_t)reserved_shared(limits), SHARED_UNIT);
	return taken > 0 ? (uint64_t)limits->shared_bytes / taken : UINT64_MAX;
}

static int blocks(const struct function *function, int threads, uint64_t shared) {
	const struct gpuconf_capability *limits = limits_of(function);
	uint64_t warps = up((uint64_t)threads, WARP) / WARP,
	         of_warp = up((uint64_t)function->registers * WARP, REGISTER_UNIT);
	if (threads > function->max_threads || shared > (uint64_t)most_dynamic_shared(function))
		return 0;
	uint64_t fit = least((uint64_t)limits->blocks, (uint64_t)limits->threads / WARP / warps);
	fit = least(fit, (uint64_t)limits->registers / (of_warp * warps));
	return (int)least(fit, shared_blocks(limits, shared));
}

static CUresult most_blocks(int *out, struct function *handle, int threads, size_t shared, unsigned flags) {
	IN_CONTEXT({
		const struct function *function = find_function(handle);
		if (result == SUCCESS && (out == NULL || threads <= 0 || flags > 1))
			result = INVALID_VALUE;
		if (result == SUCCESS && function == NULL)
			result = INVALID_HANDLE;
		if (result == SUCCESS)
			*out = blocks(function, threads, shared);
	});
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
	int count = 0, best = 0, attributes[2] = {0, 0}, fit;
	struct context *context;
	CUdevice device = 0;
	CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
	if (grid == NULL || block == NULL || most < 0)
		return INVALID_VALUE;
	LOCK;
	CUresult result = current_context(&context);
	if (result == SUCCESS)
		device = context->gpu;
	UNLOCK;
	if (result == SUCCESS)
		result = cuDeviceGetAttribute(&attributes[0], 16, device);
	if (most == 0 || most > MOST_THREADS_OF_BLOCK)
		most = MOST_THREADS_OF_BLOCK;
	for (int threads = most; result == SUCCESS && threads > 0; threads = (threads - 1) / WARP * WARP) {
		result = most_blocks(&fit, handle, threads, shared_of != NULL ? shared_of(threads) : shared, flags);
		if (result == SUCCESS && fit * threads > best) {
			best = fit * threads;
			count = fit;
			attributes[1] = threads;
		}
	}
	if (result == SUCCESS) {
		*block = attributes[1];
		*grid = count * attributes[0];
	}
	return result;
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
	CUresult result = most_blocks(&fit, handle, threads, 0, 0);
	if (result != SUCCESS)
		return result;
	if (count > fit)
		return INVALID_VALUE;
	LOCK;
	const struct function *function = find_function(handle);
	const struct gpuconf_capability *limits = function != NULL ? limits_of(function) : NULL;
	UNLOCK;
	if (limits == NULL)
		return INVALID_HANDLE;
	uint64_t each = (uint64_t)limits->shared_bytes / (uint64_t)count / SHARED_UNIT * SHARED_UNIT -
	                (uint64_t)reserved_shared(limits);
	*out = least((uint64_t)limits->shared_bytes_of_block, each);
	return SUCCESS;
}
