/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's older functions for convolution and batch normalization: one algorithm, which needs no workspace. */
#include "cudnn.h"

#include <stdlib.h>
#include <string.h>

/*
 * Algorithm 0 of each kind: CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM and the algorithms 0 of the gradients, which form no matrix in memory and
 * take every shape.
 */
struct performance {
	int algorithm, status;
	float time;
	size_t workspace;
	int determinism, math, reserved[3];
};

EXPORT int cudnnCreateConvolutionDescriptor(void **out) { return cudnn_create(out, sizeof(int)); }

EXPORT int cudnnDestroyConvolutionDescriptor(void *object) {
	free(object);
	return SUCCESS;
}

#define SETS(name) \
	EXPORT int name(void *descriptor) { return descriptor == NULL ? CUDNN_NULL_POINTER : SUCCESS; }
SETS(cudnnSetConvolutionNdDescriptor)
SETS(cudnnSetConvolutionGroupCount)
SETS(cudnnSetConvolutionMathType)

static int answer(int most, int *count, struct performance *out) {
	_Static_assert(sizeof *out == 48, "as in cudnn_cnn.h of cuDNN 9");
	if (count == NULL || out == NULL)
		return CUDNN_NULL_POINTER;
	*count = most > 0;
	if (most > 0) {
		memset(out, 0, sizeof *out);
		out->determinism = 1;
	}
	return SUCCESS;
}

#define HEURISTIC(name) \
	EXPORT int name(const void *handle, const void *a, const void *b, const void *convolution, const void *c, int most, int *count, struct performance *out) { \
		(void)handle, (void)a, (void)b, (void)convolution, (void)c; \
		return answer(most, count, out); \
	}
HEURISTIC(cudnnGetConvolutionForwardAlgorithm_v7)
HEURISTIC(cudnnGetConvolutionBackwardDataAlgorithm_v7)
HEURISTIC(cudnnGetConvolutionBackwardFilterAlgorithm_v7)

#define TRIAL(name) \
	EXPORT int name(const void *handle, const void *a, const void *a_data, const void *b, const void *b_data, const void *convolution, const void *c, \
	                void *c_data, int most, int *count, struct performance *out) { \
		(void)handle, (void)a, (void)a_data, (void)b, (void)b_data, (void)convolution, (void)c, (void)c_data; \
		return answer(most, count, out); \
	}
TRIAL(cudnnFindConvolutionForwardAlgorithmEx)
TRIAL(cudnnFindConvolutionBackwardDataAlgorithmEx)
TRIAL(cudnnFindConvolutionBackwardFilterAlgorithmEx)

static int none(size_t *bytes) {
	if (bytes == NULL)
		return CUDNN_NULL_POINTER;
	*bytes = 0;
	return SUCCESS;
}

#define WORKSPACE(name) \
	EXPORT int name(const void *handle, const void *a, const void *b, const void *convolution, const void *c, int algorithm, size_t *bytes) { \
		(void)handle, (void)a, (void)b, (void)convolution, (void)c, (void)algorithm; \
		return none(bytes); \
	}
WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize)

/* The sizes are not documented: no kernel needs memory here. */
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const void *handle, int mode, int operations, const void *x, const void *z, const void *y,
                                                                    const void *scale, const void *activation, size_t *bytes) {
	(void)handle, (void)mode, (void)operations, (void)x, (void)z, (void)y, (void)scale, (void)activation;
	return none(bytes);
}

EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(const void *handle, int mode, int operations, const void *x, const void *y, const void *dy,
                                                             const void *dz, const void *dx, const void *scale, const void *activation, size_t *bytes) {
	(void)handle, (void)mode, (void)operations, (void)x, (void)y, (void)dy, (void)dz, (void)dx, (void)scale, (void)activation;
	return none(bytes);
}

EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(const void *handle, int mode, int operations, const void *activation, const void *x, size_t *bytes) {
	(void)handle, (void)mode, (void)operations, (void)activation, (void)x;
	return none(bytes);
}
