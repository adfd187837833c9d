/* SPDX-License-Identifier: Apache-2.0 */
/* Linear device memory: one address, freed as a whole. Managed memory counts with its whole size, wherever its pages are. */
#include "guard.h"

/*
 * What the driver takes for a request, which is more than the program requests. Measured by others with cudaMalloc, in MiB (RTX 3090, CUDA 13.1,
 * https://github.com/JustVugg/colibri/pull/1244; figures of an H100 and an H200 fit, issue 687 there; not measured by this project):
 *
 *     0.75 -> 1    1 -> 1    1 and a byte -> 2    1.5 -> 2    2 -> 2    2 and a byte -> 4    6 -> 6
 *
 * So pages of 2 MiB, and requests of up to 1 MiB share one. How they share it is known of 0.75 MiB only, of which two fit into a page. A power of
 * two is what the figures say there, and as many requests of one size as fit into a page are never charged less than a page: n that fit are
 * each larger than half of their power of two. What is not counted is the free part of pages that are partly used, some pages a process.
 */
static uint64_t pages(uint64_t bytes)
{
	const uint64_t smallest = 512, shared = UINT64_C(1) << 20, page = UINT64_C(2) << 20;

	if (bytes > shared)
		return bytes > UINT64_MAX - page ? UINT64_MAX : (bytes + page - 1) / page * page;
	return bytes == 0 ? 0 : bytes <= smallest ? smallest : UINT64_C(1) << (64 - __builtin_clzll(bytes - 1));
}

static CUresult release(CUdeviceptr address)
{
	return real.cuMemFree_v2 != NULL ? INSIDE(real.cuMemFree_v2(address)) : INSIDE(real.cuMemFree((CUdeviceptr_v1)address));
}

#define LINEAR_MEMORY(size, call) ALLOCATE_CHARGED(LINEAR, size, *out, call, release(*out))

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	TAKES(cuMemAlloc_v2, (out, bytes));
	LINEAR_MEMORY(pages(bytes), real.cuMemAlloc_v2(out, bytes));
}

/* CUDA 2's addresses have 32 bits. */
EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned int bytes)
{
	TAKES(cuMemAlloc, (out, bytes));
	LINEAR_MEMORY(pages(bytes), real.cuMemAlloc(out, bytes));
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
	TAKES(cuMemAllocManaged, (out, bytes, flags));
	LINEAR_MEMORY(bytes, real.cuMemAllocManaged(out, bytes, flags));
}

/* Releases what is beyond the limit. If the driver does not take it back, it stays charged until its context ends. */
static CUresult pad(struct entry *entry, CUdeviceptr address, uint64_t padding)
{
	int fits = take_or_settle(entry->card, padding);

	if (UNLIKELY(!fits)) {
		if (release(address) == CUDA_SUCCESS)
			return CUDA_ERROR_OUT_OF_MEMORY;
		NOTE_ONCE("the driver could not free memory beyond the limit: it stays charged");
		take_anyway(entry->card, padding);
	}
	entry->bytes += padding;
	if (LIKELY(fits))
		return CUDA_SUCCESS;
	struct entry left = *entry;
	left.key = address;
	table_add(&left);
	entry->bytes = 0; /* the caller takes back nothing */
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The pitch is known afterwards: rows are charged at their width, and then what the driver adds to it. */
#define ALLOCATE_PITCH(call) \
	LINEAR_MEMORY(pages(product(width, height)), ({ \
		CUresult made_ = (call); \
		made_ == CUDA_SUCCESS ? pad(&entry, *out, pages((uint64_t)*pitch * height) - entry.bytes) : made_; \
	}))

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
int find_linear(CUdeviceptr address, struct entry *entry)
{
	return table_remove(LINEAR, address, entry) || (pools_in_use && table_remove(POOLED, address, entry));
}

void end_free(const struct entry *entry, CUresult result)
{
	if (UNLIKELY(entry == NULL))
		pools_changed();
	else if (UNLIKELY(result != CUDA_SUCCESS) && !table_add(entry))
		note("no host memory to record an address: %llu bytes stay charged", (unsigned long long)entry->bytes);
	else if (result == CUDA_SUCCESS && entry->kind == POOLED)
		pool_freed(entry);
	else if (LIKELY(result == CUDA_SUCCESS))
		give_for(entry->card, entry->bytes, entry->pools);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	GIVES(cuMemFree_v2, (address));
	FREE(find_linear(address, &entry_), real.cuMemFree_v2(address));
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 address)
{
	GIVES(cuMemFree, (address));
	FREE(find_linear(address, &entry_), real.cuMemFree(address));
}
