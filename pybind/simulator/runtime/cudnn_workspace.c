/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a convolution, which NVIDIA does not document. The rules are those of how the kernels for tensor cores work, and hold for most of
 * 227 shapes for which PyTorch 2.11 asked cuDNN 9.19 on an H200 (benchmarks/accuracy/drawn/workspaces.jsonl.gz). What cuDNN's choice among kernels
 * adds, such as partial sums of a gradient, is left out, and so is what torch.backends.cudnn.benchmark tries.
 */
#include "cudnn.h"

enum { ALIGNMENT = 16 };

/* The elements of a tensor whose dimension of channels is padded. */
static int64_t padded(const struct cudnn_shape *shape, int channels, int64_t multiple) {
	int64_t all = 1;
	for (int i = 0; i < shape->dimensions; i++)
		all *= i == channels ? (shape->sizes[i] + multiple - 1) / multiple * multiple : shape->sizes[i];
	return all;
}

static int64_t window(const struct cudnn_shape *weight) {
	int64_t all = 1;
	for (int i = 2; i < weight->dimensions; i++)
		all *= weight->sizes[i];
	return all;
}

/* Float32 is taken as TensorFloat-32, which PyTorch allows cuDNN by default. */
int64_t cudnn_convolution_workspace(const struct cudnn_convolution *one) {
	const int64_t element = (int64_t)cudnn_element(one->x.type), channels = one->x.sizes[1], vector = ALIGNMENT / element;
	const int is_depthwise = one->w.sizes[1] == 1 && channels > 1, is_channels_last = one->x.strides[1] == 1 && channels > 1;
	if (element < 2 || element > 4 || is_depthwise || is_channels_last)
		return 0;
	if (window(&one->w) == 1) /* The gradient of a pointwise convolution's weight: a sum in float32 for each item of the batch. */
		return one->kind == CUDNN_BACKWARD_FILTER ? 4 * one->x.sizes[0] * padded(&one->w, 1, 1) : 0;
	if (one->kind == CUDNN_FORWARD && channels < vector)
		return 0;
	/* Tensor cores take channels last, in vectors. All three tensors are converted. */
	return element * (padded(&one->x, 1, vector) + padded(&one->w, 1, vector) + padded(&one->y, 1, vector)) + ALIGNMENT;
}
