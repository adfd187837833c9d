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

int64_t cudnn_workspace(const struct descriptor *graph) {
	const struct attribute *operations = graph == NULL ? NULL : cudnn_attribute(graph, GRAPH_OPERATIONS);
	if (operations == NULL || operations->type != TYPE_DESCRIPTOR)
		return 0;
	for (int64_t i = 0; i < operations->count; i++) {
		int kind = ((struct descriptor **)operations->values)[i]->kind;
		if (kind == OPERATION_MATMUL || kind == OPERATION_ATTENTION || kind == OPERATION_ATTENTION_BACKWARD)
			return of_attention(operations);
	}
	return 0;
}
