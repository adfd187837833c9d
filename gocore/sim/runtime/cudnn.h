/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of cuDNN share. */
#ifndef CUDNN_H
#define CUDNN_H

#include "unmarked.h"

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

#endif
