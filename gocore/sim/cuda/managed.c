/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__UNIFIED.html). Pages that move between
 * the GPU and the host are only counted, not moved: gpu->managed is what all of it would take. Only a GPU without
 * concurrent access has it in `used`, too.
 */
#include "driver.h"
#include "stream.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Without concurrent access it was charged as device memory is; with it, only marked, since it may exceed the card. */
void drop_managed(struct allocation **at) {
	struct allocation *gone = *at;
	struct gpu *gpu = &m->gpu[gone->context->gpu];
	give_range(gone->range.addr);
	gpu->managed -= charge(gone->range.bytes);
	if (gpu->concurrent)
		mark_managed(gpu, -(int64_t)charge(gone->range.bytes));
	else
		leave_card(gpu, charge(gone->range.bytes));
	*at = gone->next;
	free(gone);
}

/* Oversubscription needs concurrent access (CUDA C++ Programming Guide, Unified Memory): elsewhere all of it must fit
 * on the card. */
static CUresult allocate(struct context *context, CUdeviceptr *out, size_t bytes) {
	struct gpu *gpu = &m->gpu[context->gpu];
	if (!gpu->concurrent && (bytes > gpu->total || free_bytes(gpu) < charge(bytes) || !use_card(gpu, charge(bytes))))
		return OUT_OF_MEMORY;
	uint64_t addr = take_range(bytes, GRANULE, PROT_READ | PROT_WRITE);
	if (addr == 0) {
		if (!gpu->concurrent)
			leave_card(gpu, charge(bytes));
		return OUT_OF_MEMORY;
	}
	ADD(m->managed_memory, .range = {addr, bytes}, .context = context);
	gpu->managed += charge(bytes);
	if (gpu->concurrent)
		mark_managed(gpu, (int64_t)charge(bytes));
	*out = addr;
	watch_host_memory();
	return SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST),
	    INVALID_VALUE);
	CALLED(cuMemAllocManaged);
	IN_CONTEXT;
	if (!m->gpu[context->gpu].managed_memory)
		return NOT_SUPPORTED;
	/* CU_MEM_ATTACH_SINGLE, combinations, and CU_MEM_ATTACH_HOST on a GPU without concurrent access are for
	 * cuStreamAttachMemAsync, which is not implemented. */
	if (flags == CU_MEM_ATTACH_HOST && !m->gpu[context->gpu].concurrent)
		return INVALID_VALUE;
	return allocate(context, out, bytes);
}

/* Hints: they are checked, and change nothing, since its pages do not move here. */

/* The older forms name a device, or -1 for the host (CU_DEVICE_CPU). */
static struct location of_device(CUdevice device) {
	return device == -1 ? (struct location){CU_MEM_LOCATION_TYPE_HOST, 0}
	                    : (struct location){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

static int is_location(struct location one) {
	return one.type >= CU_MEM_LOCATION_TYPE_DEVICE && one.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* A location other than a device is not looked at further. */
static CUresult check_hint(uint64_t addr, uint64_t bytes, struct location location) {
	struct place place;
	if (bytes == 0 || !find_place(addr, &place) || !place.managed || !inside(addr, bytes, place.range))
		return INVALID_VALUE;
	if (location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return SUCCESS;
	return unknown_device(location.id) || !m->gpu[location.id].concurrent ? INVALID_DEVICE : SUCCESS;
}

/* Work without an effect: what waits for it waits in the right order. */
static CUresult prefetch(CUdeviceptr addr, size_t bytes, struct location location, CUstream handle) {
	IN_STREAM(handle);
	TRY(check_hint(addr, bytes, location));
	TRY(admits(stream));
	enqueue(stream, (struct work){.kind = MARK});
	return SUCCESS;
}

static CUresult advise(CUdeviceptr addr, size_t bytes, int advice, struct location location) {
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return INVALID_VALUE;
	IN_CONTEXT;
	return check_hint(addr, bytes, advice <= CU_MEM_ADVISE_UNSET_READ_MOSTLY ? of_device(-1) : location);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr addr, size_t bytes, CUdevice device, CUstream stream) {
	CALLED_IN(stream, cuMemPrefetchAsync);
	return prefetch(addr, bytes, of_device(device), stream);
}

EXPORT CUresult cuMemPrefetchAsync_v2(
    CUdeviceptr addr, size_t bytes, struct location location, unsigned flags, CUstream stream) {
	REFUSE(ANY_TIME, !is_location(location) || flags != 0, INVALID_VALUE);
	CALLED_SINCE(12020, cuMemPrefetchAsync_v2);
	return prefetch(addr, bytes, location, stream);
}

EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(
    CUdeviceptr addr, size_t bytes, struct location location, unsigned flags, CUstream stream) {
	return cuMemPrefetchAsync_v2(addr, bytes, location, flags, own_stream(stream));
}

EXPORT CUresult cuMemAdvise(CUdeviceptr addr, size_t bytes, int advice, CUdevice device) {
	CALLED(cuMemAdvise);
	return advise(addr, bytes, advice, of_device(device));
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr addr, size_t bytes, int advice, struct location location) {
	REFUSE(ANY_TIME, !is_location(location), INVALID_VALUE);
	CALLED_SINCE(12020, cuMemAdvise_v2);
	return advise(addr, bytes, advice, location);
}
