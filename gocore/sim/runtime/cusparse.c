/* SPDX-License-Identifier: Apache-2.0 */
/* cuSPARSE (https://docs.nvidia.com/cuda/cusparse/): descriptors that keep sizes. Products compute nothing, and need
 * no buffer: NVIDIA documents that functions say their buffers' sizes, and no sizes. */
#include "runtime.h"

#include <string.h>

enum { ALLOC_FAILED = 2, NOT_SUPPORTED_HERE = 10 };

STATUS_TEXTS(cusparseGetErrorString, "unknown error", {SUCCESS, "success"}, {1, "initialization error"},
    {ALLOC_FAILED, "out of memory"}, {3, "invalid value"}, {4, "architecture mismatch"}, {5, "mapping error"},
    {6, "kernel launch failure"}, {7, "internal error"}, {8, "matrix type not supported"}, {9, "zero pivot"},
    {NOT_SUPPORTED_HERE, "operation not supported"}, {11, "insufficient resources"})
STATUS_TEXTS(cusparseGetErrorName, "CUSPARSE_STATUS_NOT_SUPPORTED", {SUCCESS, "CUSPARSE_STATUS_SUCCESS"})
STATUS_TEXTS(cusparseLtGetErrorString, "operation not supported", {SUCCESS, "success"})
STATUS_TEXTS(cusparseLtGetErrorName, "CUSPARSE_STATUS_NOT_SUPPORTED", {SUCCESS, "CUSPARSE_STATUS_SUCCESS"})

/* The descriptor of a sparse matrix has its sizes. */
struct matrix {
	int64_t rows, columns, elements;
};

OBJECT(cusparseCreate, cusparseDestroy, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseCreateMatDescr, cusparseDestroyMatDescr, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseCreateBsrsv2Info, cusparseDestroyBsrsv2Info, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseCreateBsrsm2Info, cusparseDestroyBsrsm2Info, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseCreateDnVec, cusparseDestroyDnVec, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseCreateDnMat, cusparseDestroyDnMat, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseSpSV_createDescr, cusparseSpSV_destroyDescr, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseSpSM_createDescr, cusparseSpSM_destroyDescr, sizeof(struct follower), ALLOC_FAILED)
OBJECT(cusparseSpGEMM_createDescr, cusparseSpGEMM_destroyDescr, sizeof(struct follower), ALLOC_FAILED)

#define SPARSE(name) \
	EXPORT int name(void **out, int64_t rows, int64_t columns, int64_t elements) { \
		if (!make(out, sizeof(struct matrix))) \
			return ALLOC_FAILED; \
		*(struct matrix *)*out = (struct matrix){rows, columns, elements}; \
		return SUCCESS; \
	}
SPARSE(cusparseCreateCsr)
SPARSE(cusparseCreateCoo)

EXPORT int cusparseDestroySpMat(void *object) {
	free(object);
	return SUCCESS;
}

EXPORT int cusparseSpMatGetSize(const struct matrix *matrix, int64_t *rows, int64_t *columns, int64_t *elements) {
	*rows = matrix->rows;
	*columns = matrix->columns;
	*elements = matrix->elements;
	return SUCCESS;
}

SETS(cusparseSetStream, struct follower, stream)

/* No kernel needs a buffer here. */
#define ALL(M, name, ...) \
	M(cusparseS##name, __VA_ARGS__) \
	M(cusparseD##name, __VA_ARGS__) M(cusparseC##name, __VA_ARGS__) M(cusparseZ##name, __VA_ARGS__)
ALL(SIZED, bsrsv2_bufferSize, int, a11)
ALL(SIZED, bsrsm2_bufferSize, int, a13)
ALL(SIZED, csrgeam2_bufferSizeExt, size_t, a19)
SIZED(cusparseXcoosort_bufferSizeExt, size_t, a6)
SIZED(cusparseXcsrsort_bufferSizeExt, size_t, a6)
SIZED(cusparseSpMV_bufferSize, size_t, a9)
SIZED(cusparseSpSV_bufferSize, size_t, a9)
SIZED(cusparseSpSM_bufferSize, size_t, a10)
SIZED(cusparseSpMM_bufferSize, size_t, a10)
SIZED(cusparseSDDMM_bufferSize, size_t, a10)
SIZED(cusparseSpGEMM_workEstimation, size_t, a11)

/* What computes, and besides has a place for the size of a buffer or of the result: no element. */
#define COMPUTES_SIZE(name, type, size) \
	EXPORT int name(ARGUMENTS) { \
		if (computes(#name) != SUCCESS) \
			return NOT_SUPPORTED_HERE; \
		NOTHING_TO(type, size); \
		return SUCCESS; \
	}
COMPUTES_SIZE(cusparseSpGEMM_compute, size_t, a11)
COMPUTES_SIZE(cusparseXcsrgeam2Nnz, int, a13)

/* -1: no pivot is zero. */
#define PIVOT(name) \
	EXPORT int name(const void *handle, const void *info, int *position) { \
		(void)handle, (void)info; \
		*position = -1; \
		return SUCCESS; \
	}
PIVOT(cusparseXbsrsv2_zeroPivot)
PIVOT(cusparseXbsrsm2_zeroPivot)

/* cuSPARSELt. Its objects are memory of the caller, of 512 bytes from version 0.8 on, and larger before. */

/* What an object of a matrix keeps. */
struct dense_matrix {
	int64_t rows, columns, bytes_of_element;
};

/* By cudaDataType. */
static int bytes_of(int type) {
	enum { R_16F = 2, R_8I = 3, R_8U = 8, R_16BF = 14, R_8F_E4M3 = 28, R_8F_E5M2 = 29 };
	if (type == R_8I || type == R_8U || type == R_8F_E4M3 || type == R_8F_E5M2)
		return 1;
	return type == R_16F || type == R_16BF ? 2 : 4;
}

#define DESCRIPTOR(name) \
	EXPORT int name(const void *handle, struct dense_matrix *out, int64_t rows, int64_t columns, int64_t leading, \
	    uint32_t alignment, int type) { \
		(void)handle, (void)leading, (void)alignment; \
		*out = (struct dense_matrix){rows, columns, bytes_of(type)}; \
		return SUCCESS; \
	}
DESCRIPTOR(cusparseLtDenseDescriptorInit)
DESCRIPTOR(cusparseLtStructuredDescriptorInit)

EXPORT int cusparseLtMatmulAlgGetAttribute(
    const void *handle, const void *algorithm, int attribute, void *out, size_t bytes) {
	(void)handle, (void)algorithm, (void)attribute;
	memset(out, 0, bytes);
	return SUCCESS;
}

/* Not documented: no kernel needs one here. */
SIZED(cusparseLtMatmulGetWorkspace, size_t, a2)

/* Half of the elements, and two bits for the place of each: 9/16 of 16-bit elements, 10/16 of 8-bit ones, as in
 * PyTorch's SparseSemiStructuredTensor. */
EXPORT int cusparseLtSpMMACompressedSize2(
    const void *handle, const struct dense_matrix *matrix, size_t *compressed, size_t *buffer) {
	(void)handle;
	size_t dense = (size_t)(matrix->rows * matrix->columns * matrix->bytes_of_element);
	*compressed = dense / 16 * (matrix->bytes_of_element == 1 ? 10 : 9);
	*buffer = 0;
	return SUCCESS;
}
