/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: their registration when a library is loaded, their attributes, and launches, which compute nothing. */
#include "kernels.h"
#include "unmarked.h"

#include <string.h>

/* Nothing is kept of a module: a handle only has to be there. */
static void *module;

EXPORT void **__cudaRegisterFatBinary(void *binary) {
	(void)binary;
	return &module;
}

EXPORT char __cudaInitModule(void **handle) {
	(void)handle;
	return 1;
}

/* What stands between <<< and >>>, until the launch. Launches do not nest deeper than the arguments of one do. */
static __thread struct configuration {
	struct dim3 grid, block;
	size_t shared;
	void *stream;
} pushed[8];
static __thread unsigned depth;

EXPORT unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
	if (depth == sizeof pushed / sizeof *pushed)
		return INVALID_CONFIGURATION;
	pushed[depth++] = (struct configuration){grid, block, shared, stream};
	return SUCCESS;
}

EXPORT int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void **stream) {
	if (depth == 0)
		return keep(INVALID_CONFIGURATION);
	struct configuration *top = &pushed[--depth];
	*grid = top->grid;
	*block = top->block;
	*shared = top->shared;
	*stream = top->stream;
	return SUCCESS;
}

static void nothing(void *unused) { (void)unused; }

/* Under capture the graph gets a node, so that a graph of kernels is not an empty one. */
static int launch(const void *function, struct dim3 grid, struct dim3 block, void *stream) {
	int capturing = 0, result = begin();
	if (result == SUCCESS && !marked())
		result = computes(kernel_name(function));
	if (result != SUCCESS)
		return keep(result);
	if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0 ||
	    (uint64_t)block.x * block.y * block.z > 1024)
		return keep(INVALID_CONFIGURATION);
	result = cuStreamIsCapturing(stream, &capturing);
	return keep(result == SUCCESS && capturing ? cuLaunchHostFunc(stream, nothing, NULL) : result);
}

EXPORT int cudaLaunchKernel(
    const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream) {
	(void)arguments;
	(void)shared;
	return launch(function, grid, block, stream);
}

/* How CUDA 13's compiler launches. The kernel's handle is its address. */
EXPORT int __cudaGetKernel(const void **kernel, const void *function) {
	*kernel = function;
	return SUCCESS;
}

EXPORT int __cudaLaunchKernel(
    const void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream) {
	return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

EXPORT int cudaLaunchCooperativeKernel(
    const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream) {
	return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

EXPORT int cudaLaunchKernelExC(const struct configuration *configuration, const void *function, void **arguments) {
	(void)arguments;
	return configuration == NULL ? keep(INVALID_VALUE)
	                             : launch(function, configuration->grid, configuration->block, configuration->stream);
}

/*
 * The compute capabilities that PyTorch's kernels are compiled for, as 86, if they are known. A card runs those of the
 * greatest one that is not above its own and has the same major number: an L4 (89) runs kernels for 86. CUB looks the
 * answer up among those that it is compiled for, and returns an error that it never set if it is not there.
 */
static int compiled[32], compiled_count;

EXPORT void gpuconf_runtime_compiled_for(int capability) {
	if (compiled_count < (int)(sizeof compiled / sizeof *compiled))
		compiled[compiled_count++] = capability;
}

static int runs_kernels_for(int card) {
	int found = 0;
	for (int i = 0; i < compiled_count; i++)
		if (compiled[i] <= card && compiled[i] / 10 == card / 10 && compiled[i] > found)
			found = compiled[i];
	return found != 0 ? found : card;
}

/* The beginning of cudaFuncAttributes, of 144 bytes. */
struct attributes {
	size_t shared, constant, local;
	int threads, registers, ptx, binary, cache, dynamic_shared;
	char rest[96];
};

EXPORT int cudaFuncGetAttributes(struct attributes *out, const void *function) {
	_Static_assert(sizeof *out == 144, "as in driver_types.h of CUDA 12 and 13");
	int result = begin();
	(void)function;
	if (result != SUCCESS || out == NULL)
		return keep(result != SUCCESS ? result : INVALID_VALUE);
	memset(out, 0, sizeof *out);
	out->threads = 1024;
	out->registers = 32;
	out->ptx = out->binary = runs_kernels_for(10 * attribute_here(75) + attribute_here(76));
	out->dynamic_shared = attribute_here(8);
	return SUCCESS;
}

static int least(int a, int b) { return a < b ? a : b; }

/* Attributes: 39 threads, 106 blocks and 81 shared memory of a multiprocessor, 111 shared memory that CUDA takes of
 * each block. */
EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared, unsigned flags) {
	int result = begin();
	(void)function;
	(void)flags;
	if (result != SUCCESS || blocks == NULL || threads <= 0)
		return keep(result != SUCCESS ? result : INVALID_VALUE);
	*blocks = least(attribute_here(39) / threads, attribute_here(106));
	shared += (size_t)attribute_here(111);
	if (shared > 0 && (size_t)attribute_here(81) / shared < (size_t)*blocks)
		*blocks = (int)((size_t)attribute_here(81) / shared);
	return SUCCESS;
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *function, int threads, size_t shared) {
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
