/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of tensors for the copies of Hopper's kernels. A program encodes them on the host and passes them to
 * kernels, which compute nothing: only the arguments are checked, as the documentation says and an H200 answered
 * (tests_py/driver/calls/rest.py).
 */
#include "driver.h"

#include <string.h>

enum { DESCRIPTOR = 128, LAST_TYPE = 15, LAST_SWIZZLE = 6 };

struct tensor {
	void *out;
	unsigned type, rank;
	CUdeviceptr address;
	const uint64_t *sizes, *strides; /* strides in bytes, of all dimensions but the first */
	const unsigned *steps;
	unsigned interleave, swizzle, promotion, fill;
};

static int is_aligned(uint64_t number, unsigned to) { return number % to == 0; }

static CUresult encode(const struct tensor *tensor) {
	if (tensor->out == NULL || !is_aligned((uintptr_t)tensor->out, 64) || tensor->type > LAST_TYPE ||
	    tensor->rank > 5 || !is_aligned(tensor->address, 16))
		return INVALID_VALUE;
	if (tensor->interleave > 2 || tensor->swizzle > LAST_SWIZZLE || tensor->promotion > 3 || tensor->fill > 1)
		return INVALID_VALUE;
	if (tensor->sizes == NULL || tensor->steps == NULL || (tensor->strides == NULL && tensor->rank > 1))
		return INVALID_VALUE;
	for (unsigned i = 0; i < tensor->rank; i++) {
		if (tensor->sizes[i] == 0 || tensor->sizes[i] > UINT64_C(1) << 32 || tensor->steps[i] == 0 ||
		    tensor->steps[i] > 8)
			return INVALID_VALUE;
		if (i > 0 && (!is_aligned(tensor->strides[i - 1], tensor->interleave == 2 ? 32 : 16) ||
		                 tensor->strides[i - 1] >= UINT64_C(1) << 40))
			return INVALID_VALUE;
	}
	memset(tensor->out, 0, DESCRIPTOR);
	memcpy(tensor->out, &tensor->address, sizeof tensor->address);
	return SUCCESS;
}

EXPORT CUresult cuTensorMapEncodeTiled(void *out, unsigned type, unsigned rank, CUdeviceptr address,
    const uint64_t *sizes, const uint64_t *strides, const unsigned *box, const unsigned *steps, unsigned interleave,
    unsigned swizzle, unsigned promotion, unsigned fill) {
	CALLED_SINCE(12000, cuTensorMapEncodeTiled);
	if (rank == 0 || box == NULL)
		return INVALID_VALUE;
	for (unsigned i = 0; i < rank && i < 5; i++)
		if (box[i] == 0 || box[i] > 256)
			return INVALID_VALUE;
	return encode(
	    &(struct tensor){out, type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill});
}

EXPORT CUresult cuTensorMapEncodeIm2col(void *out, unsigned type, unsigned rank, CUdeviceptr address,
    const uint64_t *sizes, const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
    unsigned pixels, const unsigned *steps, unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
	CALLED_SINCE(12000, cuTensorMapEncodeIm2col);
	if (rank < 3 || lower == NULL || upper == NULL || channels > 256 || pixels > 1024)
		return INVALID_VALUE;
	return encode(
	    &(struct tensor){out, type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill});
}

EXPORT CUresult cuTensorMapReplaceAddress(void *map, CUdeviceptr address) {
	CALLED_SINCE(12000, cuTensorMapReplaceAddress);
	if (map == NULL || !is_aligned((uintptr_t)map, 64) || !is_aligned(address, 16))
		return INVALID_VALUE;
	memcpy(map, &address, sizeof address);
	return SUCCESS;
}
