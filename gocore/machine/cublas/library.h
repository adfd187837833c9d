/* SPDX-License-Identifier: Apache-2.0 */
/* The library: loaded once, and its functions in one table. */
#ifndef GPUCONF_CUBLAS_LIBRARY_H
#define GPUCONF_CUBLAS_LIBRARY_H

#include "symbols.h"

#pragma GCC visibility push(hidden)

struct cublas_functions {
#define FIELD(name, major, parameters) cublasStatus_t(*name) parameters;
	CUBLAS_SYMBOLS(FIELD)
#undef FIELD
};

/* Filled by cublas_load, before any call; NULL where the library lacks a function. */
extern struct cublas_functions cublas;

/* The result of a call to functions that the library lacks: less than every status. */
#define MISSING_64 (-1)

enum cublas_load_state {
	CUBLAS_LOADED,
	CUBLAS_NO_LIBRARY, /* the loader's message is in text; empty if only_loaded and the process has not loaded the
	                      library */
	CUBLAS_INCOMPLETE, /* the required function named in text is missing or fails */
};

struct cublas_load_answer {
	enum cublas_load_state state;
	int version[3];
	char text[1024];
};

/*
 * cublas_load opens the library at path and fills the table; before, if not NULL, is loaded first. With only_loaded,
 * the process must have loaded the library already. The library is never unloaded, even if this fails.
 */
void cublas_load(const char *before, const char *path, int only_loaded, struct cublas_load_answer *answer);

/* The cuBLAS calls for Go: one cgo call each, in the context of the handle. Handles are numbers, because Go must not
 * hold foreign pointers. */
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
