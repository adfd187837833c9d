// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)

#include "library.h"

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

static int operation(int transposed) { return transposed ? TRANS : NO_TRANS; }

/* matrix_times_vector computes op(matrix) × vector. The result has rows elements. */
static void matrix_times_vector(const struct blas_functions *library, int is_double, int transposed, int64_t rows,
    int64_t inner, uint64_t matrix, uint64_t vector, uint64_t result) {
	int64_t stored_rows = transposed ? inner : rows, stored_columns = transposed ? rows : inner;
	if (is_double)
		library->dgemv(ROW_MAJOR, operation(transposed), stored_rows, stored_columns, 1, (const double *)matrix,
		    stored_columns, (const double *)vector, 1, 0, (double *)result, 1);
	else
		library->sgemv(ROW_MAJOR, operation(transposed), stored_rows, stored_columns, 1, (const float *)matrix,
		    stored_columns, (const float *)vector, 1, 0, (float *)result, 1);
}

void blas_multiply(const struct blas_functions *library, const struct blas_product *p) {
	int64_t lda = p->trans_a ? p->m : p->k, ldb = p->trans_b ? p->k : p->n;
	if (p->n == 1)
		matrix_times_vector(library, p->is_double, p->trans_a, p->m, p->k, p->a, p->b, p->c);
	else if (p->m == 1) /* a row is a vector from the left: the other operand, transposed, times the vector */
		matrix_times_vector(library, p->is_double, !p->trans_b, p->n, p->k, p->b, p->a, p->c);
	else if (p->is_double)
		library->dgemm(ROW_MAJOR, operation(p->trans_a), operation(p->trans_b), p->m, p->n, p->k, 1,
		    (const double *)p->a, lda, (const double *)p->b, ldb, 0, (double *)p->c, p->n);
	else
		library->sgemm(ROW_MAJOR, operation(p->trans_a), operation(p->trans_b), p->m, p->n, p->k, 1,
		    (const float *)p->a, lda, (const float *)p->b, ldb, 0, (float *)p->c, p->n);
}
