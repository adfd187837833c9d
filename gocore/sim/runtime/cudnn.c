/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN: handles, versions, statuses, and the descriptors that no graph has. */
#include "cudnn.h"

#include "../../machine/cuda/constants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuDNN refuses a missing place, and its objects begin as zeros. */
int cudnn_create(void **out, size_t bytes) {
	NEED(out, CUDNN_NULL_POINTER);
	*out = calloc(1, bytes);
	return *out != NULL ? SUCCESS : CUDNN_NO_HOST_MEMORY;
}

/* The driver's: cuDNN's kernels are loaded. */
void gpuconf_simulator_with_kernels(void);

/* A handle is only the stream that it follows. */
EXPORT int cudnnCreate(void **out) {
	gpuconf_simulator_with_kernels();
	return cudnn_create(out, sizeof(void *));
}

EXPORT int cudnnDestroy(void *object) {
	free(object);
	return SUCCESS;
}

CUDNN_OBJECT(TensorDescriptor, sizeof(struct cudnn_tensor))
CUDNN_OBJECT(FilterDescriptor, sizeof(struct cudnn_tensor))
CUDNN_OBJECT(DropoutDescriptor, sizeof(int))
CUDNN_OBJECT(CTCLossDescriptor, sizeof(int))
CUDNN_OBJECT(ActivationDescriptor, sizeof(int))
CUDNN_OBJECT(SpatialTransformerDescriptor, sizeof(int))
CUDNN_OBJECT(PoolingDescriptor, sizeof(int))

EXPORT size_t cudnnGetVersion(void) { return (size_t)versions.cudnn; }

EXPORT size_t cudnnGetCudartVersion(void) { return (size_t)versions.cuda; }

/* Of libraryPropertyType: the parts of the version, such as 9.10.2 for 91002. */
EXPORT int cudnnGetProperty(int property, int *value) {
	if (value == NULL || property < 0 || property > 2)
		return value == NULL ? CUDNN_NULL_POINTER : CUDNN_BAD_PARAM;
	const int parts[] = {versions.cudnn / 10000, versions.cudnn / 100 % 100, versions.cudnn % 100};
	*value = parts[property];
	return SUCCESS;
}

static __thread int last_failure;

EXPORT const char *cudnnGetErrorString(int status) {
	static const struct status_text names[] = {{SUCCESS, "CUDNN_STATUS_SUCCESS"},
	    {1001, "CUDNN_STATUS_NOT_INITIALIZED"}, {CUDNN_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
	    {CUDNN_NULL_POINTER, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
	    {CUDNN_NOT_FINALIZED, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
	    {CUDNN_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"}, {4000, "CUDNN_STATUS_INTERNAL_ERROR"},
	    {CUDNN_NO_HOST_MEMORY, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
	    {5000, "CUDNN_STATUS_EXECUTION_FAILED"}};
	last_failure = status;
	return TEXT_OF(names, status, "CUDNN_UNKNOWN_STATUS");
}

/* Asked after cudnnGetErrorString, or alone. */
EXPORT void cudnnGetLastErrorString(char *text, size_t room) {
	if (text != NULL && room > 0)
		snprintf(text, room, "%s", last_failure == CUDNN_NOT_SUPPORTED ? "a simulated GPU computes nothing" : "");
}

EXPORT int cudnnSetStream(void **handle, void *stream) {
	NEED(handle, CUDNN_NULL_POINTER);
	*handle = stream;
	return SUCCESS;
}

EXPORT int cudnnGetStream(void **handle, void **stream) {
	NEED(handle && stream, CUDNN_NULL_POINTER);
	*stream = *handle;
	return SUCCESS;
}

size_t cudnn_element(int type) {
	static const unsigned char bytes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8, 1, 1, 1, 4, 1};
	return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : 4;
}

/* Shapes are kept as they are: PyTorch reads them again, and RNNs' weights are described in them. */
EXPORT int cudnnSetTensorNdDescriptor(
    struct cudnn_tensor *tensor, int type, int dimensions, const int *sizes, const int *strides) {
	NEED(tensor && sizes && strides, CUDNN_NULL_POINTER);
	if (dimensions < 1 || dimensions > CUDNN_MOST_DIMENSIONS)
		return dimensions < 1 ? CUDNN_BAD_PARAM : CUDNN_NOT_SUPPORTED;
	tensor->type = type;
	tensor->dimensions = dimensions;
	memcpy(tensor->sizes, sizes, sizeof *sizes * (size_t)dimensions);
	memcpy(tensor->strides, strides, sizeof *strides * (size_t)dimensions);
	return SUCCESS;
}

EXPORT int cudnnSetFilterNdDescriptor(
    struct cudnn_tensor *filter, int type, int format, int dimensions, const int *sizes) {
	int result = cudnnSetTensorNdDescriptor(filter, type, dimensions, sizes, sizes);
	if (result == SUCCESS)
		filter->format = format;
	return result;
}

static int least(int a, int b) { return a < b ? a : b; }

EXPORT int cudnnGetTensorNdDescriptor(
    const struct cudnn_tensor *tensor, int room, int *type, int *dimensions, int *sizes, int *strides) {
	NEED(tensor, CUDNN_NULL_POINTER);
	if (type != NULL)
		*type = tensor->type;
	if (dimensions != NULL)
		*dimensions = tensor->dimensions;
	for (int i = 0; i < least(room, tensor->dimensions); i++) {
		if (sizes != NULL)
			sizes[i] = tensor->sizes[i];
		if (strides != NULL)
			strides[i] = tensor->strides[i];
	}
	return SUCCESS;
}

EXPORT int cudnnGetFilterNdDescriptor(
    const struct cudnn_tensor *filter, int room, int *type, int *format, int *dimensions, int *sizes) {
	if (filter != NULL && format != NULL)
		*format = filter->format;
	return cudnnGetTensorNdDescriptor(filter, room, type, dimensions, sizes, NULL);
}

/*
 * NVIDIA documents no size. On an H200 it was that of a cuRAND generator (curandState of 48 bytes) for each thread of a
 * block on each multiprocessor.
 */
EXPORT int cudnnDropoutGetStatesSize(const void *handle, size_t *bytes) {
	NEED(handle && bytes, CUDNN_NULL_POINTER);
	*bytes = 48 * (size_t)attribute_here(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
	         (size_t)attribute_here(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	return SUCCESS;
}

/* The states are memory of the caller, which no kernel fills. Of a dropout only counts whether there is one. */
EXPORT int cudnnSetDropoutDescriptor(
    int *descriptor, const void *handle, float dropout, const void *states, size_t bytes, unsigned long long seed) {
	(void)states, (void)bytes, (void)seed;
	NEED(descriptor && handle, CUDNN_NULL_POINTER);
	*descriptor = dropout > 0;
	return SUCCESS;
}

EXPORT int cudnnRestoreDropoutDescriptor(
    int *descriptor, const void *handle, float dropout, const void *states, size_t bytes, unsigned long long seed) {
	return cudnnSetDropoutDescriptor(descriptor, handle, dropout, states, bytes, seed);
}

/* Nothing that is set here is read again. */
#define ACCEPTS(name) \
	EXPORT int name(void *descriptor) { return descriptor == NULL ? CUDNN_NULL_POINTER : SUCCESS; }
ACCEPTS(cudnnSetCTCLossDescriptorEx)
ACCEPTS(cudnnSetCTCLossDescriptor_v9)
ACCEPTS(cudnnSetActivationDescriptor)
ACCEPTS(cudnnSetPooling2dDescriptor)
ACCEPTS(cudnnSetSpatialTransformerNdDescriptor)

/* cuDNN's older functions for convolution and batch normalization: one algorithm, which needs no workspace. */

/*
 * Algorithm 0 of each kind: CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM and the algorithms 0 of the gradients, which form
 * no matrix in memory and take every shape.
 */
struct performance {
	int algorithm, status;
	float time;
	size_t workspace;
	int determinism, math, reserved[3];
};

CUDNN_OBJECT(ConvolutionDescriptor, sizeof(int))

ACCEPTS(cudnnSetConvolutionNdDescriptor)
ACCEPTS(cudnnSetConvolutionGroupCount)
ACCEPTS(cudnnSetConvolutionMathType)

static int answer(int room, int *count, struct performance *out) {
	_Static_assert(sizeof *out == 48, "as in cudnn_cnn.h of cuDNN 9");
	NEED(count && out, CUDNN_NULL_POINTER);
	*count = room > 0;
	if (room > 0)
		*out = (struct performance){.determinism = 1};
	return SUCCESS;
}

/* By a heuristic, or by trying all: the places of how many results there is room for, of their number and of them. */
#define ALGORITHM(name, room, count, out) \
	EXPORT int name(ARGUMENTS) { return answer((int)room, (int *)count, (struct performance *)out); }
ALGORITHM(cudnnGetConvolutionForwardAlgorithm_v7, a5, a6, a7)
ALGORITHM(cudnnGetConvolutionBackwardDataAlgorithm_v7, a5, a6, a7)
ALGORITHM(cudnnGetConvolutionBackwardFilterAlgorithm_v7, a5, a6, a7)
ALGORITHM(cudnnFindConvolutionForwardAlgorithmEx, a8, a9, a10)
ALGORITHM(cudnnFindConvolutionBackwardDataAlgorithmEx, a8, a9, a10)
ALGORITHM(cudnnFindConvolutionBackwardFilterAlgorithmEx, a8, a9, a10)

/* The place of a workspace's size. That of CTC loss is not documented. */
#define NEEDS_NONE(name, place) \
	EXPORT int name(ARGUMENTS) { \
		if (place == 0) \
			return CUDNN_NULL_POINTER; \
		NOTHING_TO(size_t, place); \
		return SUCCESS; \
	}
NEEDS_NONE(cudnnGetConvolutionForwardWorkspaceSize, a6)
NEEDS_NONE(cudnnGetConvolutionBackwardDataWorkspaceSize, a6)
NEEDS_NONE(cudnnGetConvolutionBackwardFilterWorkspaceSize, a6)
NEEDS_NONE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, a5)
NEEDS_NONE(cudnnGetCTCLossWorkspaceSize, a8)
NEEDS_NONE(cudnnGetCTCLossWorkspaceSize_v8, a5)

/*
 * The sizes are not documented. The persistent kernels, which PyTorch takes for channels that come last, needed on an
 * H200 some partial sums for each tile of 64 channels and of rows, and a counter for each 64 channels; others are not
 * known to need memory.
 */
static size_t partial_sums(const struct cudnn_tensor *x, int mode, int rows, int sums, int fixed) {
	enum { PERSISTENT = 2, CHANNELS = 64, COUNTER = 4 };
	if (x == NULL || mode != PERSISTENT || x->dimensions < 3 || x->strides[1] != 1 || x->sizes[1] % 4 != 0)
		return 0;
	size_t all = 1, tiles = ((size_t)x->sizes[1] + CHANNELS - 1) / CHANNELS;
	for (int i = 0; i < x->dimensions; i++)
		all *= i == 1 ? 1 : (size_t)x->sizes[i];
	return (all + (size_t)rows - 1) / (size_t)rows * tiles * (size_t)sums + (size_t)fixed + COUNTER * tiles;
}

/* Both take (handle, mode, operations, x, ...), and x is a tensor's descriptor. */
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(ARGUMENTS) {
	const struct cudnn_tensor *x = (const struct cudnn_tensor *)a3;
	if (a8 == 0)
		return CUDNN_NULL_POINTER;
	*(size_t *)a8 = partial_sums(x, (int)a1, x != NULL && cudnn_element(x->type) == 2 ? 160 : 64, 516, 1072);
	return SUCCESS;
}

EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(ARGUMENTS) {
	if (a10 == 0)
		return CUDNN_NULL_POINTER;
	*(size_t *)a10 = partial_sums((const struct cudnn_tensor *)a3, (int)a1, 96, 512, 1056);
	return SUCCESS;
}
