/* SPDX-License-Identifier: Apache-2.0 */
/* The cuBLAS calls for Go: one cgo call each, in the context of the handle. Handles are numbers, because Go must not
 * hold foreign pointers. */
#ifndef GPUCONF_CUBLAS_CALLS_H
#define GPUCONF_CUBLAS_CALLS_H

#include "cublas_abi.h"

#pragma GCC visibility push(hidden)

struct cublas_created {
	cublasStatus_t status;
	uint64_t handle;
};

/* A product of column-major matrices, and its workspace. */
struct cublas_gemm {
	int is_double, transpose_a, transpose_b;
	uint64_t m, n, k, a, lda, b, ldb, c, ldc;
	uint64_t workspace, workspace_bytes;
};

/* A sum of column-major matrices. */
struct cublas_geam {
	int is_double;
	uint64_t m, n, a, lda, b, ldb, c, ldc;
};

struct cublas_created cublascall_create(void);
cublasStatus_t cublascall_destroy(uint64_t handle);
cublasStatus_t cublascall_gemm(uint64_t handle, struct cublas_gemm g);
cublasStatus_t cublascall_geam(uint64_t handle, struct cublas_geam g);

#pragma GCC visibility pop

#endif
