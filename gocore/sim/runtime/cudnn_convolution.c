/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's older functions for convolution and batch normalization: one algorithm, which needs no workspace. */
#include "cudnn.h"

#include <stdlib.h>
#include <string.h>

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
	EXPORT int name(const void *handle, const void *a, const void *b, const void *convolution, const void *c, \
	    int most, int *count, struct performance *out) { \
		(void)handle, (void)a, (void)b, (void)convolution, (void)c; \
		return answer(most, count, out); \
	}
HEURISTIC(cudnnGetConvolutionForwardAlgorithm_v7)
HEURISTIC(cudnnGetConvolutionBackwardDataAlgorithm_v7)
HEURISTIC(cudnnGetConvolutionBackwardFilterAlgorithm_v7)

#define TRIAL(name) \
	EXPORT int name(const void *handle, const void *a, const void *a_data, const void *b, const void *b_data, \
	    const void *convolution, const void *c, void *c_data, int most, int *count, struct performance *out) { \
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
	EXPORT int name(const void *handle, const void *a, const void *b, const void *convolution, const void *c, \
	    int algorithm, size_t *bytes) { \
		(void)handle, (void)a, (void)b, (void)convolution, (void)c, (void)algorithm; \
		return none(bytes); \
	}
WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize)
WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize)

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

EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const void *handle, int mode, int operations,
    const struct cudnn_tensor *x, const void *z, const void *y, const void *scale, const void *activation,
    size_t *bytes) {
	(void)handle, (void)operations, (void)z, (void)y, (void)scale, (void)activation;
	if (bytes == NULL)
		return CUDNN_NULL_POINTER;
	*bytes = partial_sums(x, mode, x != NULL && cudnn_element(x->type) == 2 ? 160 : 64, 516, 1072);
	return SUCCESS;
}

EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(const void *handle, int mode, int operations,
    const struct cudnn_tensor *x, const void *y, const void *dy, const void *dz, const void *dx, const void *scale,
    const void *activation, size_t *bytes) {
	(void)handle, (void)operations, (void)y, (void)dy, (void)dz, (void)dx, (void)scale, (void)activation;
	if (bytes == NULL)
		return CUDNN_NULL_POINTER;
	*bytes = partial_sums(x, mode, 96, 512, 1056);
	return SUCCESS;
}

EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    const void *handle, int mode, int operations, const void *activation, const void *x, size_t *bytes) {
	(void)handle, (void)mode, (void)operations, (void)activation, (void)x;
	return none(bytes);
}
