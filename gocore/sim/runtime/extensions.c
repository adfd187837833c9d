/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the CUDA runtime that libraries with kernels of their own call, such as vLLM, flash-attn and llama.cpp,
 * and PyTorch does not. */
#include "runtime.h"

enum { UPDATE_FAILED = 910, UPDATE_NOT_SUPPORTED = 6, ATTACH_GLOBAL = 1 };

int cuMemHostGetDevicePointer_v2(void **out, void *memory, unsigned flags);
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
int cuMemAllocManaged(void **out, size_t bytes, unsigned flags);

EXPORT int cudaHostGetDevicePointer(void **out, void *memory, unsigned flags) {
	IN_CONTEXT(cuMemHostGetDevicePointer_v2(out, memory, flags));
}

EXPORT int cudaMallocHost(void **out, size_t bytes) { IN_CONTEXT(cuMemHostAlloc(out, bytes, 0)); }

EXPORT int cudaMallocManaged(void **out, size_t bytes, unsigned flags) {
	IN_CONTEXT(cuMemAllocManaged(out, bytes, flags == 0 ? ATTACH_GLOBAL : flags));
}

/* How the host waits for the card. Here it never does for long. */
EXPORT int cudaSetDeviceFlags(unsigned flags) {
	(void)flags;
	return SUCCESS;
}

/* Variables in a card's memory are read by kernels only, and kernels compute nothing. */
EXPORT int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind) {
	(void)symbol, (void)from, (void)bytes, (void)offset, (void)kind;
	return SUCCESS;
}

EXPORT int cudaMemcpyToSymbolAsync(
    const void *symbol, const void *from, size_t bytes, size_t offset, int kind, void *stream) {
	(void)stream;
	return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}

static int copy_rows(
    char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height, void *stream) {
	int result = height > 1 && (to_pitch < width || from_pitch < width) ? INVALID_VALUE : SUCCESS;
	if (to_pitch == width && from_pitch == width)
		return copy_async(to, from, width * height, stream);
	for (size_t row = 0; result == SUCCESS && row < height; row++)
		result = copy_async(to + row * to_pitch, from + row * from_pitch, width, stream);
	return result;
}

EXPORT int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
    size_t height, int kind, void *stream) {
	(void)kind;
	IN_CONTEXT(copy_rows(to, to_pitch, from, from_pitch, width, height, stream));
}

EXPORT int cudaMemcpy2D(
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind) {
	return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
}

/* Callers make another executable of the graph then. The information's last two are nodes, before CUDA 12 there is only
 * a number. */
EXPORT int cudaGraphExecUpdate(void *executable, void *graph, void **third, int *fourth) {
	(void)executable, (void)graph;
	int *number = versions.cuda < 12000 ? fourth : (int *)third;
	if (number == NULL)
		return keep(INVALID_VALUE);
	if (versions.cuda >= 12000)
		third[1] = third[2] = NULL;
	*number = UPDATE_NOT_SUPPORTED;
	return keep(UPDATE_FAILED);
}
