/* SPDX-License-Identifier: Apache-2.0 */
/* cuSPARSELt. Its objects are memory of the caller, of 512 bytes from version 0.8 on, and larger before. */
#include "unmarked.h"

#include <string.h>

/* What an object of a matrix keeps. */
struct matrix {
	int64_t rows, columns, bytes_of_element;
};

EXPORT const char *cusparseLtGetErrorString(int status) {
	return status == SUCCESS ? "success" : "operation not supported";
}

EXPORT const char *cusparseLtGetErrorName(int status) {
	return status == SUCCESS ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_NOT_SUPPORTED";
}

/* By cudaDataType. */
static int bytes_of(int type) {
	return type == 3 || type == 8 || type == 28 || type == 29 ? 1 : type == 2 || type == 14 ? 2 : 4;
}

EXPORT int cusparseLtDenseDescriptorInit(const void *handle, struct matrix *out, int64_t rows, int64_t columns,
    int64_t leading, uint32_t alignment, int type) {
	(void)handle, (void)leading, (void)alignment;
	*out = (struct matrix){rows, columns, bytes_of(type)};
	return SUCCESS;
}

EXPORT int cusparseLtStructuredDescriptorInit(const void *handle, struct matrix *out, int64_t rows, int64_t columns,
    int64_t leading, uint32_t alignment, int type) {
	return cusparseLtDenseDescriptorInit(handle, out, rows, columns, leading, alignment, type);
}

EXPORT int cusparseLtMatmulAlgGetAttribute(
    const void *handle, const void *algorithm, int attribute, void *out, size_t bytes) {
	(void)handle, (void)algorithm, (void)attribute;
	memset(out, 0, bytes);
	return SUCCESS;
}

/* Not documented: no kernel needs one here. */
EXPORT int cusparseLtMatmulGetWorkspace(const void *handle, const void *plan, size_t *bytes) {
	(void)handle, (void)plan;
	*bytes = 0;
	return SUCCESS;
}

/* Half of the elements, and two bits for the place of each: 9/16 of 16-bit elements, 10/16 of 8-bit ones, as in
 * PyTorch's SparseSemiStructuredTensor. */
EXPORT int cusparseLtSpMMACompressedSize2(
    const void *handle, const struct matrix *matrix, size_t *compressed, size_t *buffer) {
	(void)handle;
	size_t dense = (size_t)(matrix->rows * matrix->columns * matrix->bytes_of_element);
	*compressed = dense / 16 * (matrix->bytes_of_element == 1 ? 10 : 9);
	*buffer = 0;
	return SUCCESS;
}
