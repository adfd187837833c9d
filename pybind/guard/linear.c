/* Linear device memory: one address, freed as a whole. Managed memory counts with its whole size, wherever its pages are. */
#include "guard.h"

static int added(CUdeviceptr address, uint64_t bytes, int card, CUcontext context)
{
	struct entry entry = {.kind = LINEAR, .key = address, .bytes = bytes, .owner = context, .card = (int8_t)card, .pools = (uint8_t)for_pools};

	return table_add(&entry);
}

static CUresult release(CUdeviceptr address)
{
	return real.cuMemFree_v2 != NULL ? INSIDE(real.cuMemFree_v2(address)) : INSIDE(real.cuMemFree((CUdeviceptr_v1)address));
}

/* Reserves, runs the call to the driver, and enters what came of it. */
#define ALLOCATE(size, address, call) \
	CUdevice device; \
	CUcontext context; \
	CUresult result = current_device(&device); \
	if (LIKELY(result == CUDA_SUCCESS)) \
		result = current_context(device, &context); \
	if (UNLIKELY(result != CUDA_SUCCESS)) \
		return result; \
	int card = card_of_device(device); \
	if (UNLIKELY(!take_or_settle(card, size))) \
		return CUDA_ERROR_OUT_OF_MEMORY; \
	result = INSIDE(call); \
	if (UNLIKELY(result != CUDA_SUCCESS)) { \
		give(card, size); \
		return result; \
	} \
	if (UNLIKELY(!added(address, size, card, context))) { \
		release(address); \
		give(card, size); \
		return CUDA_ERROR_OUT_OF_MEMORY; \
	} \
	return CUDA_SUCCESS

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	TAKES(cuMemAlloc_v2, (out, bytes));
	ALLOCATE(bytes, *out, real.cuMemAlloc_v2(out, bytes));
}

/* CUDA 2's addresses have 32 bits. */
EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned int bytes)
{
	TAKES(cuMemAlloc, (out, bytes));
	ALLOCATE(bytes, *out, real.cuMemAlloc(out, bytes));
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
	TAKES(cuMemAllocManaged, (out, bytes, flags));
	ALLOCATE(bytes, *out, real.cuMemAllocManaged(out, bytes, flags));
}

/* The pitch is known afterwards: rows are charged at their width, and then what the driver adds to it. */
#define ALLOCATE_PITCH(call) \
	CUdevice device; \
	CUcontext context; \
	CUresult result = current_device(&device); \
	if (result == CUDA_SUCCESS) \
		result = current_context(device, &context); \
	if (result != CUDA_SUCCESS) \
		return result; \
	int card = card_of_device(device); \
	uint64_t bytes; \
	if (__builtin_mul_overflow((uint64_t)width, (uint64_t)height, &bytes) || !take_or_settle(card, bytes)) \
		return CUDA_ERROR_OUT_OF_MEMORY; \
	result = INSIDE(call); \
	if (result != CUDA_SUCCESS) { \
		give(card, bytes); \
		return result; \
	} \
	uint64_t padding = ((uint64_t)*pitch - width) * height; \
	if (!take_or_settle(card, padding)) { \
		release(*out); \
		give(card, bytes); \
		return CUDA_ERROR_OUT_OF_MEMORY; \
	} \
	bytes += padding; \
	if (!added(*out, bytes, card, context)) { \
		release(*out); \
		give(card, bytes); \
		return CUDA_ERROR_OUT_OF_MEMORY; \
	} \
	return CUDA_SUCCESS

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	TAKES(cuMemAllocPitch_v2, (out, pitch, width, height, element));
	ALLOCATE_PITCH(real.cuMemAllocPitch_v2(out, pitch, width, height, element));
}

EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *out, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element)
{
	TAKES(cuMemAllocPitch, (out, pitch, width, height, element));
	ALLOCATE_PITCH(real.cuMemAllocPitch(out, pitch, width, height, element));
}

/*
 * Memory of pools and graphs may be freed here, and linear memory in the order of a stream (pools.c). What is in no table goes to the driver
 * as it is; what the driver reserves may change with it.
 */
int begin_free(CUdeviceptr address, struct entry *entry)
{
	return table_remove(LINEAR, address, entry) || (pools_in_use && table_remove(POOLED, address, entry));
}

void end_free(const struct entry *entry, CUresult result)
{
	if (UNLIKELY(entry == NULL))
		pools_changed();
	else if (UNLIKELY(result != CUDA_SUCCESS) && !table_add(entry))
		note("no memory to keep an address in: %llu bytes stay charged", (unsigned long long)entry->bytes);
	else if (result == CUDA_SUCCESS && entry->kind == POOLED)
		pool_freed(entry);
	else if (LIKELY(result == CUDA_SUCCESS))
		give_for(entry->card, entry->bytes, entry->pools);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	GIVES(cuMemFree_v2, (address));
	FREE(real.cuMemFree_v2(address));
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 address)
{
	GIVES(cuMemFree, (address));
	FREE(real.cuMemFree(address));
}
