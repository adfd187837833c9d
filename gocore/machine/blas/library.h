/* SPDX-License-Identifier: Apache-2.0 */
/* A BLAS that was found at run time. */
#ifndef GPUCONF_BLAS_LIBRARY_H
#define GPUCONF_BLAS_LIBRARY_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* CBLAS's functions. Integers are 64 bits wide here even if the library's are not: see doc.go. */
typedef void blas_sgemm(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
    const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef void blas_dgemm(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha,
    const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
typedef void blas_sgemv(int order, int trans, int64_t m, int64_t n, float alpha, const float *a, int64_t lda,
    const float *x, int64_t step_x, float beta, float *y, int64_t step_y);
typedef void blas_dgemv(int order, int trans, int64_t m, int64_t n, double alpha, const double *a, int64_t lda,
    const double *x, int64_t step_x, double beta, double *y, int64_t step_y);

struct blas_functions {
	blas_sgemm *sgemm;
	blas_dgemm *dgemm;
	blas_sgemv *sgemv;
	blas_dgemv *dgemv;
};

enum blas_load_state {
	BLAS_LOADED,
	BLAS_NO_LIBRARY, /* the loader's message is in text; empty if only_loaded and the process has not loaded the library
	                  */
	BLAS_INCOMPLETE, /* it lacks CBLAS's functions */
};

struct blas_load_answer {
	enum blas_load_state state;
	struct blas_functions functions;
	int wide;    /* whether the names promise 64-bit integers */
	int threads; /* 0 if unknown */
	char text[1024];
	char path[4096];   /* of the file, as the loader knows it */
	char kind[16];     /* "OpenBLAS", "MKL", "BLIS", "ATLAS", or "" */
	char version[256]; /* what the library says about itself; may be empty */
};

/*
 * blas_load opens the library at path and looks its functions up. With only_loaded, the process must have loaded it
 * already. The library is never unloaded, even if this fails.
 */
void blas_load(const char *path, int only_loaded, struct blas_load_answer *answer);

/* blas_loaded writes the paths of the BLAS libraries that the process has loaded, each with a newline, as many as fit.
 */
void blas_loaded(char *paths, int size);

struct blas_product {
	int is_double, trans_a, trans_b;
	int64_t m, n, k;
	uint64_t a, b, c;
};

/* blas_multiply computes a dense, row-major product with dimensions of at least 1: by gemv if one side is a vector. */
void blas_multiply(const struct blas_functions *library, const struct blas_product *product);

#pragma GCC visibility pop

#endif
