/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN: handles, versions, statuses, and the descriptors of tensors, filters, dropout and CTC loss. */
#include "cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cudnn_create(void **out, size_t bytes) {
	if (out == NULL)
		return CUDNN_NULL_POINTER;
	*out = calloc(1, bytes);
	return *out != NULL ? SUCCESS : CUDNN_NO_HOST_MEMORY;
}

/* The driver's: cuDNN's kernels are loaded. */
void gpuconf_simulator_with_kernels(void);

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
	*value = property == 0 ? versions.cudnn / 10000 : property == 1 ? versions.cudnn / 100 % 100 : versions.cudnn % 100;
	return SUCCESS;
}

static __thread int last_failure;

EXPORT const char *cudnnGetErrorString(int status) {
	static const struct {
		int status;
		const char *name;
	} names[] = {{0, "CUDNN_STATUS_SUCCESS"}, {1001, "CUDNN_STATUS_NOT_INITIALIZED"}, {2000, "CUDNN_STATUS_BAD_PARAM"},
	    {2002, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"}, {2004, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
	    {3000, "CUDNN_STATUS_NOT_SUPPORTED"}, {4000, "CUDNN_STATUS_INTERNAL_ERROR"},
	    {4003, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"}, {5000, "CUDNN_STATUS_EXECUTION_FAILED"}};
	last_failure = status;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].status == status)
			return names[i].name;
	return "CUDNN_UNKNOWN_STATUS";
}

/* Asked after cudnnGetErrorString, or alone. */
EXPORT void cudnnGetLastErrorString(char *text, size_t room) {
	if (text != NULL && room > 0)
		snprintf(text, room, "%s", last_failure == CUDNN_NOT_SUPPORTED ? "a simulated GPU computes nothing" : "");
}

EXPORT int cudnnSetStream(void **handle, void *stream) {
	if (handle == NULL)
		return CUDNN_NULL_POINTER;
	*handle = stream;
	return SUCCESS;
}

EXPORT int cudnnGetStream(void **handle, void **stream) {
	if (handle == NULL || stream == NULL)
		return CUDNN_NULL_POINTER;
	*stream = *handle;
	return SUCCESS;
}

size_t cudnn_element(int type) {
	static const unsigned char bytes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8, 1, 1, 1, 4, 1};
	return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : 4;
}

EXPORT int cudnnSetTensorNdDescriptor(
    struct cudnn_tensor *tensor, int type, int dimensions, const int *sizes, const int *strides) {
	if (tensor == NULL || sizes == NULL || strides == NULL)
		return CUDNN_NULL_POINTER;
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
	if (tensor == NULL)
		return CUDNN_NULL_POINTER;
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
	if (handle == NULL || bytes == NULL)
		return CUDNN_NULL_POINTER;
	*bytes = 48 * (size_t)attribute_here(16) * (size_t)attribute_here(1);
	return SUCCESS;
}

/* The states are memory of the caller, which no kernel fills. Of a dropout only counts whether there is one. */
EXPORT int cudnnSetDropoutDescriptor(
    int *descriptor, const void *handle, float dropout, const void *states, size_t bytes, unsigned long long seed) {
	(void)states, (void)bytes, (void)seed;
	if (descriptor == NULL || handle == NULL)
		return CUDNN_NULL_POINTER;
	*descriptor = dropout > 0;
	return SUCCESS;
}

EXPORT int cudnnRestoreDropoutDescriptor(
    int *descriptor, const void *handle, float dropout, const void *states, size_t bytes, unsigned long long seed) {
	return cudnnSetDropoutDescriptor(descriptor, handle, dropout, states, bytes, seed);
}

/* Nothing that is set here is read again. */
#define SETS(name) \
	EXPORT int name(void *descriptor) { return descriptor == NULL ? CUDNN_NULL_POINTER : SUCCESS; }
SETS(cudnnSetCTCLossDescriptorEx)
SETS(cudnnSetCTCLossDescriptor_v9)
SETS(cudnnSetActivationDescriptor)
SETS(cudnnSetPooling2dDescriptor)
SETS(cudnnSetSpatialTransformerNdDescriptor)

/* The sizes of CTC loss's workspaces are not documented: no kernel needs one here. */
EXPORT int cudnnGetCTCLossWorkspaceSize(const void *handle, const void *probabilities, const void *gradients,
    const int *labels, const int *label_lengths, const int *lengths, int algorithm, const void *loss, size_t *bytes) {
	(void)handle, (void)probabilities, (void)gradients, (void)labels, (void)label_lengths, (void)lengths,
	    (void)algorithm, (void)loss;
	*bytes = 0;
	return SUCCESS;
}

EXPORT int cudnnGetCTCLossWorkspaceSize_v8(const void *handle, int algorithm, const void *loss,
    const void *probabilities, const void *gradients, size_t *bytes) {
	return cudnnGetCTCLossWorkspaceSize(handle, probabilities, gradients, NULL, NULL, NULL, algorithm, loss, bytes);
}
