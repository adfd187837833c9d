/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a convolution, which NVIDIA does not document. These rules are read from what PyTorch 2.11 requested for cuDNN 9 on an H200
 * (benchmarks/accuracy/drawn): they hold where they come from how the kernels work, and say nothing where cuDNN's choice of a kernel decides.
 */
#include "cudnn.h"

static int64_t elements(const struct cudnn_shape *shape) {
	int64_t all = 1;
	for (int i = 0; i < shape->dimensions; i++)
		all *= shape->sizes[i];
	return all;
}

static int64_t window(const struct cudnn_shape *weight) {
	int64_t all = 1;
	for (int i = 2; i < weight->dimensions; i++)
		all *= weight->sizes[i];
	return all;
}

int64_t cudnn_convolution_workspace(const struct cudnn_convolution *one) {
	int64_t element = (int64_t)cudnn_element(one->x.type);
	int grouped = one->x.sizes[1] != one->w.sizes[1], channels_last = one->x.strides[1] == 1 && one->x.sizes[1] > 1;
	if (element != 2 || grouped || channels_last)
		return 0;
	/* Tensor cores take channels last. All three tensors are converted, and 16 bytes are added. */
	if (window(&one->w) > 1)
		return element * (elements(&one->x) + elements(&one->w) + elements(&one->y)) + 16;
	/* The gradient of a pointwise convolution's weight: a sum in float32 for each item of the batch. */
	return one->kind == CUDNN_BACKWARD_FILTER ? 4 * one->x.sizes[0] * elements(&one->w) : 0;
}
