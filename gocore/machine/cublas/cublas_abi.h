/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and constants of cuBLAS's interface that are used here, so that building does not need CUDA. They are the
 * same in cuBLAS 11, 12 and 13.
 */
#ifndef GPUCONF_CUBLAS_ABI_H
#define GPUCONF_CUBLAS_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int cublasStatus_t; /* 0 is success; Status names the others */
typedef struct cublasContext *cublasHandle_t;
typedef int cublasOperation_t;

enum {
	OP_N = 0,
	OP_T = 1,
	PEDANTIC_MATH = 2,
	PROPERTY_MAJOR = 0,
	PROPERTY_MINOR = 1,
	PROPERTY_PATCH = 2,
};

#endif
