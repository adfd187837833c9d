/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces of cuDNN's engines. NVIDIA documents none. These are rules for what cuDNN 9.19 requested on an H200 (benchmarks/accuracy/operators_h200.jsonl.xz).
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
 * Tensor cores take a convolution's channels last, in vectors of 16 bytes. Tensors whose channels come first are copied: the image, the result, and
 * the filter unless it is of one element. Each group has a counter. This is what cuDNN chose most often for narrow types, and for float, in
 * TensorFloat-32, from batches of 8 on. A small image of up to 4 channels was taken as it is, and one filter for each channel ("depthwise") always.
 */
static int64_t converted(const struct descriptor *tensor, int64_t groups, int64_t few) {
	enum { VECTOR = 16 };
	int64_t channels = size(tensor, 1) / groups;
	if (channels < 1 || element(tensor) < 1)
		return 0;
	int64_t vector = VECTOR / element(tensor);
	int64_t padded = groups > 1 && channels <= few ? channels : (channels + vector - 1) / vector * vector;
	return elements(tensor) / channels * padded * element(tensor);
}

static int channels_last(const struct descriptor *tensor) {
	const struct attribute *strides = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_STRIDES);
	return strides != NULL && strides->type == TYPE_INT64 && strides->count > 1 && ((int64_t *)strides->values)[1] == 1;
}

/* Whether a tensor has no elements, or the filter has more channels than the image, which no convolution has: nothing is divided by them. */
static int are_empty(const struct descriptor *x, const struct descriptor *w, const struct descriptor *y) {
	return elements(x) < 1 || elements(w) < 1 || elements(y) < 1 || size(w, 1) < 1 || size(w, 0) < 1 || size(x, 1) < size(w, 1);
}

static int64_t of_convolution(const struct descriptor *x, const struct descriptor *w, const struct descriptor *y, int forward) {
	enum { COUNTER = 16, FEW = 4, SMALL = 1 << 18, BATCH = 8 };
	if (are_empty(x, w, y))
		return 0;
	int64_t channels = size(w, 1), groups = size(x, 1) / channels, kernel = elements(w) / size(w, 0) / channels;
	int steps = size(y, 2) < size(x, 2);
	if (channels_last(x) || channels == 1 || (element(x) != 2 && (element(x) != 4 || size(x, 0) < BATCH)))
		return 0;
	if (kernel == 1 && (groups == 1 ? !steps : !forward))
		return 0;
	if (forward && groups == 1 && channels <= FEW && elements(x) < SMALL)
		return 0;
	int64_t few = channels <= FEW ? size(x, 1) : 0;
	int64_t filter = kernel == 1 ? 0 : groups > 1 && few ? elements(w) * element(w) : converted(w, 1, 0);
	return converted(x, groups, few) + converted(y, groups, few) + filter + COUNTER * (few && groups > 1 ? 1 : groups);
}

/*
 * The gradient of a filter takes the same copies, and that of a filter of one element a sum in float for each image. With this rule 53 % of the
 * gradients of filters in benchmarks/accuracy/drawn/workspaces.jsonl.gz have the recorded size within 1 %, and 37 % without it: what cuDNN adds for
 * partial sums depends on how it divides the work.
 */
static int64_t of_filter(const struct descriptor *x, const struct descriptor *w, const struct descriptor *y) {
	enum { COUNTER = 16 };
	if (are_empty(x, w, y))
		return 0;
	int64_t channels = size(w, 1), kernel = elements(w) / size(w, 0) / channels;
	if (channels_last(x) || (channels == 1 && size(x, 1) > 1) || element(x) < 2 || element(x) > 4)
		return 0;
	if (kernel == 1)
		return 4 * size(x, 0) * elements(w);
	return converted(x, 1, 0) + converted(y, 1, 0) + converted(w, 1, 0) + COUNTER;
}

static int64_t of_operation(const struct descriptor *one) {
	switch (one->kind) {
	case CONVOLUTION_FORWARD:
		return of_convolution(cudnn_held(one, FORWARD_X), cudnn_held(one, FORWARD_W), cudnn_held(one, FORWARD_Y), 1);
	case CONVOLUTION_BACKWARD_FILTER:
		return of_filter(cudnn_held(one, BACKWARD_FILTER_X), cudnn_held(one, BACKWARD_FILTER_DW), cudnn_held(one, BACKWARD_FILTER_DY));
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
