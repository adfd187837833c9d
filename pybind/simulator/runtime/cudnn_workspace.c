/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces of cuDNN's engines. NVIDIA documents none. These are rules for what cuDNN 9.19 requested on an H200 (benchmarks/accuracy/operators).
 */
#include "cudnn_graph.h"

const struct descriptor *cudnn_held(const struct descriptor *descriptor, int name) {
	const struct attribute *one = descriptor == NULL ? NULL : cudnn_attribute(descriptor, name);
	return one == NULL || one->type != TYPE_DESCRIPTOR || one->count < 1 ? NULL : *(struct descriptor **)one->values;
}

static int64_t size(const struct descriptor *tensor, int64_t dimension) {
	const struct attribute *sizes = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_SIZES);
	return sizes == NULL || sizes->type != TYPE_INT64 || dimension >= sizes->count ? 1 : ((int64_t *)sizes->values)[dimension];
}

static int64_t elements(const struct descriptor *tensor) {
	int64_t product = 1;
	for (int i = 0; i < CUDNN_MOST_DIMENSIONS; i++)
		product *= size(tensor, i);
	return product;
}

static int64_t element(const struct descriptor *tensor) {
	const struct attribute *type = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_TYPE);
	return type == NULL ? 4 : (int64_t)cudnn_element(*(int *)type->values);
}

/* Attention whose keys are shared by several heads keeps the gradient of each head until they are summed. */
static int64_t sum_of_heads(const struct descriptor *reduction) {
	const struct descriptor *from = cudnn_held(reduction, REDUCTION_INPUT), *to = cudnn_held(reduction, REDUCTION_OUTPUT);
	return size(from, 1) == size(to, 1) ? 0 : elements(from) * element(to);
}

static int64_t of_attention(const struct attribute *operations) {
	enum { COUNTERS = 256 };
	int64_t bytes = COUNTERS;
	for (int64_t i = 0; i < operations->count; i++) {
		const struct descriptor *one = ((struct descriptor **)operations->values)[i];
		bytes += one->kind == OPERATION_REDUCTION ? sum_of_heads(one) : 0;
	}
	return bytes;
}

/*
 * Tensor cores take a convolution's channels last, in vectors of 16 bytes. Tensors of a narrow type whose channels come first are copied: the
 * image, the result, and the filter unless it is of one element. Each group has a counter. With up to 4 channels a kernel takes them as they are,
 * going forward, and one for each channel ("depthwise") always.
 */
static int64_t converted(const struct descriptor *tensor, int64_t groups) {
	enum { VECTOR = 16 };
	int64_t vector = VECTOR / element(tensor), channels = size(tensor, 1) / groups;
	return elements(tensor) / channels * ((channels + vector - 1) / vector * vector) * element(tensor);
}

static int channels_last(const struct descriptor *tensor) {
	const struct attribute *strides = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_STRIDES);
	return strides != NULL && strides->type == TYPE_INT64 && strides->count > 1 && ((int64_t *)strides->values)[1] == 1;
}

static int64_t of_convolution(const struct descriptor *x, const struct descriptor *w, const struct descriptor *y, int forward) {
	enum { COUNTER = 16, FEW = 4 };
	int64_t channels = size(w, 1), groups = channels > 0 ? size(x, 1) / channels : 1, kernel = elements(w) / size(w, 0) / channels;
	if (element(x) != 2 || channels_last(x) || channels == 1 || (forward && channels <= FEW) || (kernel == 1 && (groups == 1 || !forward)))
		return 0;
	return converted(x, groups) + converted(y, groups) + (kernel > 1 ? converted(w, 1) : 0) + COUNTER * groups;
}

static int64_t of_operation(const struct descriptor *one) {
	switch (one->kind) {
	case CONVOLUTION_FORWARD:
		return of_convolution(cudnn_held(one, FORWARD_X), cudnn_held(one, FORWARD_W), cudnn_held(one, FORWARD_Y), 1);
	case CONVOLUTION_BACKWARD_DATA:
		return of_convolution(cudnn_held(one, BACKWARD_DATA_DX), cudnn_held(one, BACKWARD_DATA_W), cudnn_held(one, BACKWARD_DATA_DY), 0);
	default:
		return 0;
	}
}

int64_t cudnn_workspace(const struct descriptor *graph) {
	const struct attribute *operations = graph == NULL ? NULL : cudnn_attribute(graph, GRAPH_OPERATIONS);
	if (operations == NULL || operations->type != TYPE_DESCRIPTOR)
		return 0;
	for (int64_t i = 0; i < operations->count; i++) {
		int kind = ((struct descriptor **)operations->values)[i]->kind;
		if (kind == OPERATION_MATMUL || kind == OPERATION_ATTENTION || kind == OPERATION_ATTENTION_BACKWARD)
			return of_attention(operations);
	}
	return operations->count > 0 ? of_operation(*(struct descriptor **)operations->values) : 0;
}
