/* SPDX-License-Identifier: Apache-2.0 */
/* What programs see: a card as large as the limit, with as much free as the limit leaves. */
#include "guard.h"

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/*
 * What gpuconf's pools have in this process and is in no block is free, too: PyTorch, for example, gets its memory from
 * them. A library that calls the driver itself gets less: for it, as for other processes, that memory is taken.
 */
#define INFO(type, call) \
	CUdevice device; \
	struct card_use use; \
	CUresult result = INSIDE(call); \
	if (result == CUDA_SUCCESS) \
		result = current_device(&device); \
	if (result != CUDA_SUCCESS) \
		return result; \
	settle_if_changed(); \
	card_use(card_of_device(device), &use); \
	if (available != NULL) \
		*available = (type)smaller(smaller(*available, use.left) + idle_of_pools(device), use.limit); \
	if (total != NULL) \
		*total = (type)smaller(*total, use.limit); \
	return CUDA_SUCCESS

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	GIVES(cuMemGetInfo_v2, (available, total));
	INFO(size_t, real.cuMemGetInfo_v2(available, total));
}

EXPORT CUresult cuMemGetInfo(unsigned int *available, unsigned int *total) {
	GIVES(cuMemGetInfo, (available, total));
	INFO(unsigned int, real.cuMemGetInfo(available, total));
}

#define TOTAL(type, call) \
	CUresult result = INSIDE(call); \
	if (LIKELY(result == CUDA_SUCCESS)) \
		*bytes = (type)smaller(*bytes, card_limit(card_of_device(device))); \
	return result

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
	GIVES(cuDeviceTotalMem_v2, (bytes, device));
	TOTAL(size_t, real.cuDeviceTotalMem_v2(bytes, device));
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) {
	GIVES(cuDeviceTotalMem, (bytes, device));
	TOTAL(unsigned int, real.cuDeviceTotalMem(bytes, device));
}
