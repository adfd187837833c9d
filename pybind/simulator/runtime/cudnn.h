/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of cuDNN share. */
#ifndef CUDNN_H
#define CUDNN_H

#include "unmarked.h"

#include <stddef.h>
#include <stdint.h>

enum cudnn_status { CUDNN_BAD_PARAM = 2000, CUDNN_NULL_POINTER = 2002, CUDNN_NOT_FINALIZED = 2004, CUDNN_NOT_SUPPORTED = 3000, CUDNN_NO_HOST_MEMORY = 4003 };

enum { CUDNN_MOST_DIMENSIONS = 8 };

/* A tensor or a filter. */
struct cudnn_tensor {
	int type, format, dimensions;
	int sizes[CUDNN_MOST_DIMENSIONS], strides[CUDNN_MOST_DIMENSIONS];
};

/* A tensor of a convolution in cuDNN's graph functions. */
struct cudnn_shape {
	int type, dimensions;
	int64_t sizes[CUDNN_MOST_DIMENSIONS], strides[CUDNN_MOST_DIMENSIONS];
};

/* A convolution, or one of its gradients: `x`, `w` and `y` are then partly gradients. The kinds are those of the descriptors. */
enum { CUDNN_FORWARD = 10, CUDNN_BACKWARD_FILTER = 11, CUDNN_BACKWARD_DATA = 12 };
struct cudnn_convolution {
	int kind;
	struct cudnn_shape x, w, y;
};

/* Bytes of the workspace that a convolution is given. */
int64_t cudnn_convolution_workspace(const struct cudnn_convolution *one);

/* Bytes of one element of a cudnnDataType_t; 4 where an element is less than a byte or unknown. */
size_t cudnn_element(int type);

/* Creates an object of zeros. */
int cudnn_create(void **out, size_t bytes);

#endif
