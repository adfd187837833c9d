/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of cuBLAS's functions. A line is
 *
 *     X(name, oldest major version that has it, parameters)
 *
 * A function of OLDEST_CUBLAS is required: a library without it cannot be used. A newer one may be missing; then only
 * the calls that need it fail.
 */
#ifndef GPUCONF_CUBLAS_SYMBOLS_H
#define GPUCONF_CUBLAS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The types and constants of cuBLAS's interface that are used here, so that building does not need CUDA. They are the
 * same in cuBLAS 11, 12 and 13.
 */
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

#define OLDEST_CUBLAS 11

#define GEMM(type, size) \
	(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m, size n, size k, \
	    const type *alpha, const type *a, size lda, const type *b, size ldb, const type *beta, type *c, size ldc)

#define GEAM(type, size) \
	(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m, size n, const type *alpha, \
	    const type *a, size lda, const type *beta, const type *b, size ldb, type *c, size ldc)

#define CUBLAS_SYMBOLS(X) \
	X(cublasGetProperty, 11, (int property, int *value)) \
	X(cublasCreate_v2, 11, (cublasHandle_t * handle)) \
	X(cublasDestroy_v2, 11, (cublasHandle_t handle)) \
	X(cublasSetMathMode, 11, (cublasHandle_t handle, int mode)) \
	X(cublasSetWorkspace_v2, 11, (cublasHandle_t handle, void *workspace, size_t bytes)) \
	X(cublasSgemm_v2, 11, GEMM(float, int)) \
	X(cublasDgemm_v2, 11, GEMM(double, int)) \
	X(cublasSgeam, 11, GEAM(float, int)) \
	X(cublasDgeam, 11, GEAM(double, int)) \
	X(cublasSgemm_v2_64, 12, GEMM(float, int64_t)) \
	X(cublasDgemm_v2_64, 12, GEMM(double, int64_t)) \
	X(cublasSgeam_64, 12, GEAM(float, int64_t)) \
	X(cublasDgeam_64, 12, GEAM(double, int64_t))

#endif
