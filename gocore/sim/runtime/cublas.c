/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS and cuBLASLt (https://docs.nvidia.com/cuda/cublas/). Products compute nothing: functions.h has most of them.
 * Descriptors keep nothing that is read again, so all are of one size. A handle is one thread's at a time, as NVIDIA
 * requires, and has no lock.
 */
#include "runtime.h"

#include <string.h>

enum { ALLOC_FAILED = 3, BLAS_INVALID_VALUE = 7, NOT_SUPPORTED_HERE = 15, INTERNAL_ERROR = 14 };

STATUS_TEXTS(cublasGetStatusName, "CUBLAS_STATUS_INTERNAL_ERROR", {SUCCESS, "CUBLAS_STATUS_SUCCESS"},
    {ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED"}, {BLAS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE"},
    {NOT_SUPPORTED_HERE, "CUBLAS_STATUS_NOT_SUPPORTED"})
STATUS_TEXTS(cublasGetStatusString, "an internal operation failed", {SUCCESS, "success"},
    {NOT_SUPPORTED_HERE, "the requested functionality is not supported"})

OBJECT(cublasCreate_v2, cublasDestroy_v2, 64, ALLOC_FAILED)
OBJECT(cublasLtCreate, cublasLtDestroy, 64, ALLOC_FAILED)
OBJECT(cublasLtMatmulDescCreate, cublasLtMatmulDescDestroy, 64, ALLOC_FAILED)
OBJECT(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceDestroy, 64, ALLOC_FAILED)
OBJECT(cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutDestroy, 64, ALLOC_FAILED)

SETS(cublasSetStream_v2, struct follower, stream)
SETS(cublasSetPointerMode_v2, struct follower, mode)
GETS(cublasGetPointerMode_v2, struct follower, mode)
SETS(cublasSetMathMode, struct follower, math)
GETS(cublasGetMathMode, struct follower, math)

/* The batched solvers say that they succeeded: some on the host, some on the card for each matrix. */
#define SOLVES(name, host, card, count) \
	EXPORT int name(ARGUMENTS) { \
		if (computes(#name) != SUCCESS) \
			return NOT_SUPPORTED_HERE; \
		if (host != 0) \
			NOTHING_TO(int, host); \
		return succeed((const struct follower *)a0, card, (int)count) == SUCCESS ? SUCCESS : INTERNAL_ERROR; \
	}
#define ALL(name, ...) \
	SOLVES(cublasS##name, __VA_ARGS__) \
	SOLVES(cublasD##name, __VA_ARGS__) SOLVES(cublasC##name, __VA_ARGS__) SOLVES(cublasZ##name, __VA_ARGS__)
ALL(getrfBatched, 0, a5, a6)
ALL(getrsBatched, a9, 0, 0)
ALL(geqrfBatched, a6, 0, 0)
ALL(gelsBatched, a9, a10, a11)

/* Vectors and matrices that are copied have values: of elements, in columns of a leading dimension. */
static int copy(int64_t rows, int64_t columns, int64_t element, const char *from, int64_t from_leading, char *to,
    int64_t to_leading, void *stream) {
	int result = begin();
	if (rows < 0 || columns < 0 || element <= 0 || from_leading < 1 || to_leading < 1)
		return BLAS_INVALID_VALUE;
	for (int64_t i = 0; result == SUCCESS && i < columns; i++)
		result = copy_async(
		    to + i * to_leading * element, from + i * from_leading * element, (size_t)(rows * element), stream);
	return result == SUCCESS ? SUCCESS : INTERNAL_ERROR;
}

#define COPIES(name) \
	EXPORT int cublas##name##VectorAsync( \
	    int count, int element, const void *from, int from_step, void *to, int to_step, void *stream) { \
		return copy(1, count, element, from, from_step, to, to_step, stream); \
	} \
	EXPORT int cublas##name##MatrixAsync(int rows, int columns, int element, const void *from, int from_leading, \
	    void *to, int to_leading, void *stream) { \
		return copy(rows, columns, element, from, from_leading, to, to_leading, stream); \
	}
COPIES(Set)
COPIES(Get)

EXPORT size_t cublasLtGetVersion(void) { return (size_t)versions.cublas; }

/* One algorithm, which needs no workspace. The layout is cublasLtMatmulHeuristicResult_t's. */
struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

/* (handle, product, a, b, c, d, preference, how many at most, results, how many) */
EXPORT int cublasLtMatmulAlgoGetHeuristic(ARGUMENTS) {
	int any = (int)a7 > 0;
	if (any)
		*(struct heuristic *)a8 = (struct heuristic){.workspace = 0};
	*(int *)a9 = any;
	return SUCCESS;
}

/* (handle, product, a, b, c, d, algorithm, result) */
EXPORT int cublasLtMatmulAlgoCheck(ARGUMENTS) {
	*(struct heuristic *)a7 = (struct heuristic){.workspace = 0};
	return SUCCESS;
}

EXPORT int cublasLtMatmulAlgoConfigGetAttribute(
    const void *algorithm, int attribute, void *out, size_t bytes, size_t *written) {
	(void)algorithm, (void)attribute;
	memset(out, 0, bytes);
	if (written != NULL)
		*written = bytes;
	return SUCCESS;
}
