/* SPDX-License-Identifier: Apache-2.0 */
/* Linear device memory: one address, freed as a whole. Managed memory counts with its whole size, wherever its pages
 * are. */
#include "guard.h"

/*
 * What the driver takes for a request: pages of 2 MiB. An H200 with driver 580 does (tests_py/driver/calls/full.py),
 * and so do others that were measured (https://github.com/JustVugg/colibri/pull/1244: an RTX 3090 with CUDA 13.1).
 * Smaller requests share one (sharedpages.c).
 */
static uint64_t pages(uint64_t bytes) {
	const uint64_t page = UINT64_C(2) << 20;

	return bytes > UINT64_MAX - page ? UINT64_MAX : (bytes + page - 1) / page * page;
}

CUresult release_linear(CUdeviceptr address) {
	return real.cuMemFree_v2 != NULL ? INSIDE(real.cuMemFree_v2(address))
	                                 : INSIDE(real.cuMemFree((CUdeviceptr_v1)address));
}

#define LINEAR_MEMORY(size, call) \
	ALLOCATE_CHARGED(LINEAR, size, *out, call, ({ \
		release_linear(*out); \
		if (entry.count > 0) \
			leave_page(&entry); \
	}))

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
	TAKES(cuMemAlloc_v2, (out, bytes));
	if (shares_page(bytes)) {
		struct small small;
		CUresult reason = charge_small(&small, bytes);
		if (UNLIKELY(reason != CUDA_SUCCESS) && !driver_refuses(reason))
			return reason;
		CUresult result = INSIDE(real.cuMemAlloc_v2(out, bytes));
		return end_small(&small, reason, result, result == CUDA_SUCCESS ? *out : 0);
	}
	LINEAR_MEMORY(pages(bytes), real.cuMemAlloc_v2(out, bytes));
}

/* CUDA 2's addresses have 32 bits. Small requests are charged a page each. */
EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned int bytes) {
	TAKES(cuMemAlloc, (out, bytes));
	LINEAR_MEMORY(pages(bytes), real.cuMemAlloc(out, bytes));
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
	TAKES(cuMemAllocManaged, (out, bytes, flags));
	LINEAR_MEMORY(bytes, real.cuMemAllocManaged(out, bytes, flags));
}

/* Releases what is beyond the limit. If the driver does not take it back, it stays charged until its context ends. */
static CUresult pad(struct entry *entry, CUdeviceptr address, uint64_t padding) {
	int fits = take_or_settle(entry->card, padding);

	if (UNLIKELY(!fits)) {
		if (release_linear(address) == CUDA_SUCCESS)
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

/* The rows with what the driver adds to them, once that is known: a part of a page, or more than was charged. */
static CUresult made_pitch(struct entry *entry, CUdeviceptr address, uint64_t bytes) {
	if (!shares_page(bytes))
		return pad(entry, address, pages(bytes) - entry->bytes);
	entry->key = address;
	entry->count = (uint32_t)part_of_page(bytes);
	if (place_in_page(entry))
		return CUDA_SUCCESS;
	release_linear(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

#define ALLOCATE_PITCH(call) \
	LINEAR_MEMORY(pages(product(width, height)), ({ \
		CUresult made_ = (call); \
		made_ == CUDA_SUCCESS ? made_pitch(&entry, *out, (uint64_t)*pitch * height) : made_; \
	}))

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element) {
	TAKES(cuMemAllocPitch_v2, (out, pitch, width, height, element));
	ALLOCATE_PITCH(real.cuMemAllocPitch_v2(out, pitch, width, height, element));
}

EXPORT CUresult cuMemAllocPitch(
    CUdeviceptr_v1 *out, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element) {
	TAKES(cuMemAllocPitch, (out, pitch, width, height, element));
	ALLOCATE_PITCH(real.cuMemAllocPitch(out, pitch, width, height, element));
}

/*
 * Memory of pools and graphs may be freed here, and linear memory in the order of a stream (pools.c). What is in no
 * table goes to the driver as it is; what the driver reserves may change with it.
 */
int find_linear(CUdeviceptr address, struct entry *entry) {
	return table_remove(LINEAR, address, entry) || (pools_in_use && table_remove(POOLED, address, entry));
}

void end_free(const struct entry *entry, CUresult result) {
	if (UNLIKELY(entry == NULL))
		pools_changed();
	else if (UNLIKELY(result != CUDA_SUCCESS) && !table_add(entry))
		note("no host memory to record an address: %llu bytes stay charged", (unsigned long long)entry->bytes);
	else if (result == CUDA_SUCCESS && entry->kind == POOLED)
		pool_freed(entry);
	else if (LIKELY(result == CUDA_SUCCESS)) {
		give_for(entry->card, entry->bytes, entry->pools);
		if (entry->kind == LINEAR && entry->count > 0)
			leave_page(entry);
	}
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
	GIVES(cuMemFree_v2, (address));
	FREE(find_linear(address, &entry_), real.cuMemFree_v2(address));
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 address) {
	GIVES(cuMemFree, (address));
	FREE(find_linear(address, &entry_), real.cuMemFree(address));
}
