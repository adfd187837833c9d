/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of cuDNN share. */
#ifndef CUDNN_H
#define CUDNN_H

#include "runtime.h"

#include <stdlib.h>

#include <stddef.h>

enum cudnn_status {
	CUDNN_BAD_PARAM = 2000,
	CUDNN_NULL_POINTER = 2002,
	CUDNN_NOT_FINALIZED = 2004,
	CUDNN_NOT_SUPPORTED = 3000,
	CUDNN_NO_HOST_MEMORY = 4003
};

enum { CUDNN_MOST_DIMENSIONS = 8 };

/* A tensor or a filter. */
struct cudnn_tensor {
	int type, format, dimensions;
	int sizes[CUDNN_MOST_DIMENSIONS], strides[CUDNN_MOST_DIMENSIONS];
};

/* Bytes of one element of a cudnnDataType_t; 4 where an element is less than a byte or unknown. */
size_t cudnn_element(int type);

/* Creates an object of zeros. */
int cudnn_create(void **out, size_t bytes);

/* The functions that make and free a descriptor. */
#define CUDNN_OBJECT(name, bytes) \
	EXPORT int cudnnCreate##name(void **out) { return cudnn_create(out, bytes); } \
	EXPORT int cudnnDestroy##name(void *object) { \
		free(object); \
		return SUCCESS; \
	}

/* The descriptors of cuDNN's graphs: kinds and attributes by their numbers in cudnn_graph.h of cuDNN 9. */
enum type {
	TYPE_HANDLE = 0,
	TYPE_BOOLEAN = 2,
	TYPE_INT64 = 3,
	TYPE_DOUBLE = 5,
	TYPE_VOID_PTR = 6,
	TYPE_NOTE = 11,
	TYPE_DESCRIPTOR = 15,
	TYPE_INT32 = 23,
	TYPE_CHARACTER = 24,
	TYPE_FRACTION = 26 /* of two INT64 */
};
enum kind {
	ENGINE = 2,
	ENGINE_CONFIG = 3,
	ENGINE_HEURISTIC = 4,
	EXECUTION_PLAN = 5,
	CONVOLUTION_FORWARD = 10,
	CONVOLUTION_BACKWARD_FILTER = 11,
	CONVOLUTION_BACKWARD_DATA = 12,
	OPERATION_GRAPH = 15,
	OPERATION_MATMUL = 19,
	OPERATION_REDUCTION = 22,
	OPERATION_ATTENTION = 41,
	OPERATION_ATTENTION_BACKWARD = 43,
};
enum name {
	HEURISTIC_GRAPH = 201,
	HEURISTIC_RESULTS = 202,
	CONFIG_ENGINE = 300,
	CONFIG_WORKSPACE = 303,
	CONFIG_SHARED_MEMORY = 304,
	PLAN_CONFIG = 401,
	PLAN_WORKSPACE = 402,
	PLAN_JSON = 405,
	FORWARD_W = 703,
	FORWARD_X = 704,
	FORWARD_Y = 705,
	BACKWARD_DATA_W = 709,
	BACKWARD_DATA_DX = 710,
	BACKWARD_DATA_DY = 711,
	BACKWARD_FILTER_DW = 715,
	BACKWARD_FILTER_X = 716,
	BACKWARD_FILTER_DY = 717,
	GRAPH_OPERATIONS = 801,
	GRAPH_ENGINES = 802,
	TENSOR_TYPE = 901,
	TENSOR_SIZES = 902,
	TENSOR_STRIDES = 903,
	ENGINE_GRAPH = 1300,
	ENGINE_INDEX = 1301,
	ENGINE_NOTES = 1303,
	REDUCTION_INPUT = 1610,
	REDUCTION_OUTPUT = 1611,
};

struct attribute {
	int name, type;
	int64_t count;
	void *values;
	struct attribute *next;
};

/* A descriptor lives as long as its creator or another one holds it. The lock guards the counts and all attributes. */
struct descriptor {
	int kind, finalized;
	int holders;
	struct attribute *attributes;
};

/* An attribute; NULL if it is not set. */
struct attribute *cudnn_attribute(const struct descriptor *descriptor, int name);

/* The first descriptor that an attribute holds; NULL if there is none. */
const struct descriptor *cudnn_held(const struct descriptor *descriptor, int name);

/*
 * The engines of a convolution, in the order in which they are recommended: with tensor cores, which float takes in
 * TensorFloat-32, and without; the engines that need most memory, which PyTorch tries with
 * torch.backends.cudnn.benchmark; and one that needs none, which PyTorch reaches where memory is short.
 */
enum engine { ENGINE_USUAL, ENGINE_PLAIN, ENGINE_LARGEST, ENGINE_LARGEST_PLAIN, ENGINE_SMALLEST, ENGINES };

/* How many engines a graph of operations has. */
int cudnn_engines(const struct descriptor *graph);

/* Bytes that an engine of a graph of operations needs beside its tensors. */
int64_t cudnn_workspace(const struct descriptor *graph, int engine);

#endif
