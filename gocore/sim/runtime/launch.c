/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: their registration when a library is loaded, their names and attributes, and launches, which compute
 * nothing. */
#include "runtime.h"

#include "../../machine/cuda/constants.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The names of kernels, which a library registers when it is loaded: about 30,000 in PyTorch's. A name is made readable
 * at its first use. */

/* A table by address with open addressing, at most half full; its size is a power of two. */
static struct kernel {
	const void *function;
	const char *symbol; /* the library's, while it is loaded */
	const char *name;
} *table;
static size_t size, taken;
pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

static struct kernel *place(struct kernel *in, size_t many, const void *function) {
	size_t at = ((uintptr_t)function >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20;
	for (;; at++)
		if (in[at & (many - 1)].function == function || in[at & (many - 1)].function == NULL)
			return &in[at & (many - 1)];
}

/* The lock is held. If there is no memory the kernel stays without a name. */
static int grow(void) {
	size_t many = size == 0 ? 1024 : size * 2;
	struct kernel *larger = calloc(many, sizeof *larger);
	if (larger == NULL)
		return 0;
	for (size_t i = 0; i < size; i++)
		if (table[i].function != NULL)
			*place(larger, many, table[i].function) = table[i];
	free(table);
	table = larger;
	size = many;
	return 1;
}

/* The other arguments, such as the device's own name for it, are not needed. */
EXPORT void __cudaRegisterFunction(void **handle, const char *function, char *symbol) {
	(void)handle;
	HOLD(kernels_lock);
	if (taken * 2 < size || grow()) {
		struct kernel *kernel = place(table, size, function);
		taken += kernel->function == NULL;
		*kernel = (struct kernel){function, symbol, NULL};
	}
}

/*
 * The C++ runtime's, if the program has one, as PyTorch does. "void at::native::fill<float>(int)" becomes
 * "at::native::fill", and "std::enable_if<(4)>(0), void>::type norm<int>(int)" becomes "norm".
 */
static char *readable(const char *symbol) {
	char *(*demangle)(const char *, char *, size_t *, int *) =
	    (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT, "__cxa_demangle");
	int status = 0;
	char *text = demangle != NULL ? demangle(symbol, NULL, NULL, &status) : NULL;
	if (text == NULL)
		return strdup(symbol);
	static const char anonymous[] = "(anonymous namespace)::";
	for (char *at; (at = strstr(text, anonymous)) != NULL;)
		memmove(at, at + sizeof anonymous - 1, strlen(at + sizeof anonymous - 1) + 1);
	char *start = text, *end = NULL, *at = text;
	for (int depth = 0, round = 0; *at != 0 && (*at != '(' || depth > 0); at++) {
		round += (*at == '(') - (*at == ')'); /* in a template's arguments, where < and > compare numbers */
		if (*at == '<' && round == 0 && depth++ == 0 && end == NULL)
			end = at;
		else if (*at == '>' && round == 0)
			depth--;
		else if (*at == ' ' && depth == 0) {
			start = at + 1;
			end = NULL;
		}
	}
	*(end != NULL ? end : at) = 0;
	memmove(text, start, strlen(start) + 1);
	return text;
}

static struct kernel look_up(const void *function, const char *name) {
	struct kernel copy = {NULL, NULL, NULL};
	HOLD(kernels_lock);
	struct kernel *kernel = size > 0 ? place(table, size, function) : NULL;
	if (kernel != NULL && kernel->function != NULL) {
		if (name != NULL)
			kernel->name = name;
		copy = *kernel;
	}
	return copy;
}

/*
 * The name as in its source, without template arguments and parameters; "a kernel" for an unknown address. It stays.
 * The symbol is read without the lock: that takes the loader's, which a thread has that loads a library and registers
 * its kernels.
 */
static const char *kernel_name(const void *function) {
	struct kernel kernel = look_up(function, NULL);
	char *text = kernel.function != NULL && kernel.name == NULL ? readable(kernel.symbol) : NULL;
	if (text != NULL)
		kernel = look_up(function, counted_name(text));
	free(text);
	return kernel.name != NULL ? kernel.name : "a kernel";
}

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

/* The compiler's code for a launch: it pushes what stands between the brackets, and the stub of the kernel pops it. */
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

/* How CUDA 13's compiler launches. The kernel's handle is its address. */
EXPORT int __cudaGetKernel(const void **kernel, const void *function) {
	*kernel = function;
	return SUCCESS;
}

#define LAUNCHES(name) \
	EXPORT int name( \
	    const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, void *stream) { \
		(void)arguments, (void)shared; \
		return launch(function, grid, block, stream); \
	}
LAUNCHES(cudaLaunchKernel)
LAUNCHES(__cudaLaunchKernel)
LAUNCHES(cudaLaunchCooperativeKernel)

/* Attributes of a launch, such as clusters, change nothing that is simulated. */
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
	int best = 0;
	for (int i = 0; i < compiled_count; i++)
		if (compiled[i] <= card && compiled[i] / 10 == card / 10 && compiled[i] > best)
			best = compiled[i];
	return best != 0 ? best : card;
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
	out->ptx = out->binary = runs_kernels_for(10 * attribute_here(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
	                                          attribute_here(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
	out->dynamic_shared = attribute_here(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
	return SUCCESS;
}

static int least(int a, int b) { return a < b ? a : b; }

/* By threads, blocks and shared memory of a multiprocessor; CUDA takes a part of the last for each block. */
EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared, unsigned flags) {
	int result = begin();
	(void)function;
	(void)flags;
	if (result != SUCCESS || blocks == NULL || threads <= 0)
		return keep(result != SUCCESS ? result : INVALID_VALUE);
	*blocks = least(attribute_here(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / threads,
	    attribute_here(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
	shared += (size_t)attribute_here(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
	if (shared > 0 &&
	    (size_t)attribute_here(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / shared < (size_t)*blocks)
		*blocks = (int)((size_t)attribute_here(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / shared);
	return SUCCESS;
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *function, int threads, size_t shared) {
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
