/*
 * A library with CBLAS's interface, for tests. NAME makes the names of the functions, INTEGER is the type of the sizes.
 * It checks what libraries rely on: leading dimensions that are long enough, and beta 0, with which the result must not
 * be read.
 */
#include <stdint.h>
#include <stdlib.h>

#define GEMM(name, type) \
	void NAME(name)(int order, int ta, int tb, INTEGER m, INTEGER n, INTEGER k, type alpha, const type *a, \
	    INTEGER lda, const type *b, INTEGER ldb, type beta, type *c, INTEGER ldc) { \
		if (order != 101 || beta != 0 || lda < (ta == 112 ? m : k) || ldb < (tb == 112 ? k : n) || ldc < n) \
			abort(); \
		for (INTEGER i = 0; i < m; i++) \
			for (INTEGER j = 0; j < n; j++) { \
				type sum = 0; \
				for (INTEGER l = 0; l < k; l++) \
					sum += \
					    (ta == 112 ? a[l * lda + i] : a[i * lda + l]) * (tb == 112 ? b[j * ldb + l] : b[l * ldb + j]); \
				c[i * ldc + j] = alpha * sum; \
			} \
	}

#define GEMV(name, type) \
	void NAME(name)(int order, int trans, INTEGER m, INTEGER n, type alpha, const type *a, INTEGER lda, const type *x, \
	    INTEGER sx, type beta, type *y, INTEGER sy) { \
		INTEGER rows = trans == 112 ? n : m, inner = trans == 112 ? m : n; \
		if (order != 101 || beta != 0 || lda < n) \
			abort(); \
		for (INTEGER i = 0; i < rows; i++) { \
			type sum = 0; \
			for (INTEGER l = 0; l < inner; l++) \
				sum += (trans == 112 ? a[l * lda + i] : a[i * lda + l]) * x[l * sx]; \
			y[i * sy] = alpha * sum; \
		} \
	}

GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
GEMV(cblas_sgemv, float)
#ifndef INCOMPLETE
GEMV(cblas_dgemv, double)
#endif
#ifdef CONFIG
const char *CONFIG(void) { return "OpenBLAS 9.9 test"; }
int NAME(openblas_get_num_threads)(void) { return 3; }
#endif
