/* Products and sums of column-major matrices. Each type has functions for 32-bit and for 64-bit sizes. */
#include "fake.h"

#include <string.h>

#define PEDANTIC_MATH 2
#define LEAST_WORKSPACE (16 << 10)

struct call {
	struct handle *handle;
	cublasOperation transa, transb;
	int64_t m, n, k;
	uint64_t a, b, c;
	int64_t lda, ldb, ldc;
	double alpha, beta;
	size_t element;
};

static int is_operation(cublasOperation op) { return op == OP_N || op == OP_T || op == OP_C; }

/* The result must not overlap the operands, and the workspace must not overlap either. */
static cublasStatus check_gemm(struct call *g, struct range touched[4]) {
	int64_t rows_a = g->transa == OP_N ? g->m : g->k, columns_a = g->transa == OP_N ? g->k : g->m;
	int64_t rows_b = g->transb == OP_N ? g->k : g->n, columns_b = g->transb == OP_N ? g->n : g->k;
	if (g->m < 0 || g->n < 0 || g->k < 0)
		return complain(INVALID_VALUE, "gemm: m, n, k are %ld, %ld, %ld", g->m, g->n, g->k);
	if (!is_operation(g->transa) || !is_operation(g->transb))
		return complain(INVALID_VALUE, "gemm: no such operation");
	if (g->lda < 1 || g->lda < rows_a || g->ldb < 1 || g->ldb < rows_b || g->ldc < 1 || g->ldc < g->m)
		return complain(INVALID_VALUE, "gemm: leading dimensions %ld, %ld, %ld for %ld, %ld, %ld rows", g->lda, g->ldb,
		    g->ldc, rows_a, rows_b, g->m);
	if (g->handle->math_mode != PEDANTIC_MATH)
		return complain(EXECUTION_FAILED, "gemm: math mode %d may round more", g->handle->math_mode);
	if (g->handle->workspace.bytes < LEAST_WORKSPACE)
		return complain(
		    ALLOC_FAILED, "gemm: a workspace of %lu bytes is too small, or cuBLAS's own", g->handle->workspace.bytes);
	touched[0] = matrix(g->a, rows_a, columns_a, g->lda, g->element);
	touched[1] = matrix(g->b, rows_b, columns_b, g->ldb, g->element);
	touched[2] = matrix(g->c, g->m, g->n, g->ldc, g->element);
	touched[3] = g->handle->workspace;
	for (int i = 0; i < 4; i++)
		if ((i != 2 && overlap(touched[2], touched[i])) || (i != 3 && overlap(touched[3], touched[i])))
			return complain(EXECUTION_FAILED, "gemm: the result, or the workspace, overlaps something");
	return SUCCESS;
}

/* The result may be an operand, if it is exactly the same matrix and not transposed. */
static cublasStatus check_geam(struct call *g, struct range touched[4]) {
	int64_t rows_a = g->transa == OP_N ? g->m : g->n, rows_b = g->transb == OP_N ? g->m : g->n;
	if (g->m < 0 || g->n < 0)
		return complain(INVALID_VALUE, "geam: m, n are %ld, %ld", g->m, g->n);
	if (!is_operation(g->transa) || !is_operation(g->transb))
		return complain(INVALID_VALUE, "geam: no such operation");
	if (g->lda < 1 || g->lda < rows_a || g->ldb < 1 || g->ldb < rows_b || g->ldc < 1 || g->ldc < g->m)
		return complain(INVALID_VALUE, "geam: leading dimensions %ld, %ld, %ld for %ld, %ld, %ld rows", g->lda, g->ldb,
		    g->ldc, rows_a, rows_b, g->m);
	touched[0] = matrix(g->a, rows_a, g->m + g->n - rows_a, g->lda, g->element);
	touched[1] = matrix(g->b, rows_b, g->m + g->n - rows_b, g->ldb, g->element);
	touched[2] = matrix(g->c, g->m, g->n, g->ldc, g->element);
	touched[3] = (struct range){0, 0};
	int on_a = g->c == g->a && g->ldc == g->lda && g->transa == OP_N,
	    on_b = g->c == g->b && g->ldc == g->ldb && g->transb == OP_N;
	if ((overlap(touched[2], touched[0]) && !on_a) || (overlap(touched[2], touched[1]) && !on_b))
		return complain(INVALID_VALUE, "geam: the result overlaps an operand, and is not that operand");
	return SUCCESS;
}

static cublasStatus dispatch(
    const char *name, struct call g, cublasStatus (*check)(struct call *, struct range *), void (*kernel)(void *)) {
	struct range touched[4];
	cublasStatus status = begin(name, g.handle);
	if (status != SUCCESS)
		return status;
	status = check(&g, touched);
	if (status == SUCCESS && g.m > 0 && g.n > 0)
		status = launch(g.handle, kernel, &g, sizeof g, touched);
	return end(g.handle, status);
}

#define AT(type, addr, ld, i, j) (((type *)(uintptr_t)(addr))[(j) * (ld) + (i)])
#define OP_AT(type, addr, ld, op, i, j) ((op) == OP_N ? AT(type, addr, ld, i, j) : AT(type, addr, ld, j, i))

/* With a beta of 0, C's previous contents do not count, not even NaN. All of the workspace is overwritten. */
#define KERNELS(letter, type) \
	static void letter##gemm_kernel(void *argument) { \
		const struct call *g = argument; \
		if (g->handle->dry) \
			return; \
		memset((void *)(uintptr_t)g->handle->workspace.addr, 0xa5, g->handle->workspace.bytes); \
		for (int64_t j = 0; j < g->n; j++) \
			for (int64_t i = 0; i < g->m; i++) { \
				type sum = 0; \
				for (int64_t l = 0; l < g->k; l++) \
					sum += OP_AT(type, g->a, g->lda, g->transa, i, l) * OP_AT(type, g->b, g->ldb, g->transb, l, j); \
				type *c = &AT(type, g->c, g->ldc, i, j); \
				*c = (type)g->alpha * sum + (g->beta == 0 ? 0 : (type)g->beta * *c); \
			} \
	} \
	static void letter##geam_kernel(void *argument) { \
		const struct call *g = argument; \
		if (g->handle->dry) \
			return; \
		for (int64_t j = 0; j < g->n; j++) \
			for (int64_t i = 0; i < g->m; i++) \
				AT(type, g->c, g->ldc, i, j) = (type)g->alpha * OP_AT(type, g->a, g->lda, g->transa, i, j) + \
				                               (type)g->beta * OP_AT(type, g->b, g->ldb, g->transb, i, j); \
	}

KERNELS(s, float)
KERNELS(d, double)

#define FUNCTIONS(letter, type, gemm, geam, size) \
	EXPORT cublasStatus gemm(struct handle *handle, cublasOperation transa, cublasOperation transb, size m, size n, \
	    size k, const type *alpha, const type *a, size lda, const type *b, size ldb, const type *beta, type *c, \
	    size ldc) { \
		struct call g = {handle, transa, transb, m, n, k, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, lda, ldb, ldc, \
		    (double)*alpha, (double)*beta, sizeof(type)}; \
		return dispatch(#gemm, g, check_gemm, letter##gemm_kernel); \
	} \
	EXPORT cublasStatus geam(struct handle *handle, cublasOperation transa, cublasOperation transb, size m, size n, \
	    const type *alpha, const type *a, size lda, const type *beta, const type *b, size ldb, type *c, size ldc) { \
		struct call g = {handle, transa, transb, m, n, 0, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, lda, ldb, ldc, \
		    (double)*alpha, (double)*beta, sizeof(type)}; \
		return dispatch(#geam, g, check_geam, letter##geam_kernel); \
	}

FUNCTIONS(s, float, cublasSgemm_v2, cublasSgeam, int)
FUNCTIONS(d, double, cublasDgemm_v2, cublasDgeam, int)
#if FAKECUBLAS_MAJOR >= 12
FUNCTIONS(s, float, cublasSgemm_v2_64, cublasSgeam_64, int64_t)
FUNCTIONS(d, double, cublasDgemm_v2_64, cublasDgeam_64, int64_t)
#endif
