/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and copies of the CUDA runtime (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html).
 * The second part is called by libraries with kernels of their own, and not by PyTorch. */
#include "runtime.h"

#include "../../machine/cuda/constants.h"

#include <string.h>

/* Zero bytes are no error in the runtime, other than in the driver. */
EXPORT int cudaMalloc(void **out, size_t bytes) {
	if (out == NULL)
		return keep(INVALID_VALUE);
	if (bytes == 0) {
		*out = NULL;
		return SUCCESS;
	}
	IN_CONTEXT(cuMemAlloc_v2(out, bytes));
}

EXPORT int cudaFree(void *address) { IN_CONTEXT(address == NULL ? SUCCESS : cuMemFree_v2(address)); }

EXPORT int cudaFreeHost(void *address) { IN_CONTEXT(address == NULL ? SUCCESS : cuMemFreeHost(address)); }

/*
 * Launches do nothing, so a stream has work only until its copies and fills are done. They are done when the call
 * returns, because what the CPU computes next in this memory comes after them. Under capture they become nodes.
 */
static int finish(int result, void *stream) {
	int capturing = 0;
	if (result != SUCCESS || cuStreamIsCapturing(stream, &capturing) != SUCCESS || capturing)
		return result;
	return cuStreamSynchronize(stream);
}

/* Host memory that is not page-locked is copied before the call returns, as CUDA may. */
int copy_async(void *to, const void *from, size_t bytes, void *stream) {
	int capturing = 0, result = bytes == 0 ? SUCCESS : cuMemcpyAsync(to, from, bytes, stream);
	if (result != INVALID_VALUE || cuStreamIsCapturing(stream, &capturing) != SUCCESS || capturing)
		return finish(result, stream);
	result = cuStreamSynchronize(stream);
	return result == SUCCESS ? cuMemcpy(to, from, bytes) : result;
}

/*
 * What a kernel would have written and PyTorch reads on the host: the thread's next copies of at most 8 bytes to the
 * host get these values, if the Python layer knows them, and so PyTorch allocates what it does on a card.
 */
static __thread struct {
	const int64_t *values;
	int count;
} answers;

EXPORT void gpuconf_runtime_answer(const int64_t *values, int count) {
	answers.values = values;
	answers.count = count;
}

static int is_on_device(const void *address) {
	unsigned type = 0;
	return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == SUCCESS &&
	       type == CU_MEMORYTYPE_DEVICE;
}

/* Whether a copy, of nothing or in a quiet thread, is done with, and its result. The driver makes those between parts
 * of the host, and reads that are allowed. */
static int needs_no_driver(void *to, const void *from, size_t bytes, int kind, int *result) {
	enum { TO_CARD = 1, TO_HOST = 2, BETWEEN_CARDS = 3, BY_ADDRESS = 4 };
	*result = SUCCESS;
	if (thread_state.quiet == 0 || bytes == 0)
		return bytes == 0;
	if (kind == TO_CARD || kind == BETWEEN_CARDS || (kind == BY_ADDRESS && is_on_device(to)))
		return 1;
	if (kind != TO_HOST && (kind != BY_ADDRESS || !is_on_device(from)))
		return 0;
	if (answers.count > 0 && bytes <= sizeof *answers.values) {
		memcpy(to, answers.values++, bytes);
		answers.count--;
		return 1;
	}
	if (thread_state.quiet == QUIET_BUT_READS)
		return 0;
	thread_state.missed++;
	*result = NOT_SUPPORTED;
	return 1;
}

/* The driver knows where each address is. */
EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
	int without;
	IN_CONTEXT(needs_no_driver(to, from, bytes, kind, &without) ? without : cuMemcpy(to, from, bytes));
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
	int without;
	IN_CONTEXT(needs_no_driver(to, from, bytes, kind, &without) ? without : copy_async(to, from, bytes, stream));
}

/* All devices' memory is in one address space. */
EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream) {
	(void)to_device;
	(void)from_device;
	IN_CONTEXT(thread_state.quiet ? SUCCESS : copy_async(to, from, bytes, stream));
}

EXPORT int cudaMemset(void *to, int value, size_t bytes) {
	IN_CONTEXT(bytes == 0 || thread_state.quiet ? SUCCESS : cuMemsetD8_v2(to, (unsigned char)value, bytes));
}

EXPORT int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream) {
	IN_CONTEXT(bytes == 0 || thread_state.quiet
	               ? SUCCESS
				   : finish(cuMemsetD8Async(to, (unsigned char)value, bytes, stream), stream));
}

struct pointer {
	int type, device; /* type: 0 unknown to CUDA, 1 host, 2 device, 3 managed */
	void *on_device, *on_host;
	long reserved[8]; /* from CUDA 13 on */
};

/* The struct of CUDA 12 ends before `reserved`, which is not written then. */
static int describe(struct pointer *out, const void *address) {
	enum { MANAGED = 3, INVALID_DEVICE_ID = -2 }; /* of cudaMemoryType; cudaInvalidDeviceId */
	int managed = 0;
	unsigned type = 0;
	out->type = 0;
	out->device = INVALID_DEVICE_ID;
	out->on_device = NULL;
	out->on_host = (void *)(uintptr_t)address;
	for (int i = 0; versions.cuda >= 13000 && i < 8; i++)
		out->reserved[i] = 0;
	if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != SUCCESS)
		return SUCCESS;
	cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
	out->type = managed ? MANAGED : (int)type;
	if (cuPointerGetAttribute(&out->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != SUCCESS)
		out->device = 0;
	if (cuPointerGetAttribute(&out->on_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) != SUCCESS)
		out->on_device = NULL;
	if (cuPointerGetAttribute(&out->on_host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address) != SUCCESS)
		out->on_host = NULL;
	return SUCCESS;
}

EXPORT int cudaPointerGetAttributes(struct pointer *out, const void *address) {
	IN_CONTEXT(out == NULL ? INVALID_VALUE : describe(out, address));
}

/* The place is a device, -1 the host; in CUDA 13 a cudaMemLocation of a kind, 1 for devices, and an id, with flags
 * before the stream. */
EXPORT int cudaMemPrefetchAsync(const void *address, size_t bytes, uint64_t place, uintptr_t fourth, void *fifth) {
	int device = (uint32_t)place == CU_MEM_LOCATION_TYPE_DEVICE ? (int)(place >> 32) : -1;
	if (versions.cuda < 13000) {
		device = (int)place;
		fifth = (void *)fourth;
	}
	IN_CONTEXT(cuMemPrefetchAsync(address, bytes, device, fifth));
}

/* Functions of the CUDA runtime that libraries with kernels of their own call, such as vLLM, flash-attn and llama.cpp,
 * and PyTorch does not. */

enum { UPDATE_FAILED = 910, UPDATE_NOT_SUPPORTED = 6 };

int cuMemHostGetDevicePointer_v2(void **out, void *memory, unsigned flags);
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
int cuMemAllocManaged(void **out, size_t bytes, unsigned flags);

EXPORT int cudaHostGetDevicePointer(void **out, void *memory, unsigned flags) {
	IN_CONTEXT(cuMemHostGetDevicePointer_v2(out, memory, flags));
}

EXPORT int cudaMallocHost(void **out, size_t bytes) { IN_CONTEXT(cuMemHostAlloc(out, bytes, 0)); }

EXPORT int cudaMallocManaged(void **out, size_t bytes, unsigned flags) {
	IN_CONTEXT(cuMemAllocManaged(out, bytes, flags == 0 ? CU_MEM_ATTACH_GLOBAL : flags));
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

/* Rows that are adjacent on both sides are one copy. */
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
	int without;
	IN_CONTEXT(needs_no_driver(to, from, width * height, kind, &without)
	               ? without
				   : copy_rows(to, to_pitch, from, from_pitch, width, height, stream));
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
