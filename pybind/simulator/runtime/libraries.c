/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS, cuFFT, and what the other libraries say of themselves. Products compute nothing: functions.h has them. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* A handle or a descriptor: an address of its own. 3 is CUBLAS_STATUS_ALLOC_FAILED. */
static int make(void **out) { return (*out = calloc(1, 64)) != NULL ? SUCCESS : 3; }

static int drop(void *object) {
	free(object);
	return SUCCESS;
}

#define OBJECT(create, destroy) \
	EXPORT int create(void **out) { return make(out); } \
	EXPORT int destroy(void *object) { return drop(object); }

OBJECT(cublasCreate_v2, cublasDestroy_v2)
OBJECT(cublasLtCreate, cublasLtDestroy)
OBJECT(cublasLtMatmulDescCreate, cublasLtMatmulDescDestroy)
OBJECT(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceDestroy)
OBJECT(cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutDestroy)

/* Of a handle: its modes. */
struct blas {
	int pointers, math;
};

EXPORT int cublasSetPointerMode_v2(struct blas *handle, int mode) {
	handle->pointers = mode;
	return SUCCESS;
}

EXPORT int cublasGetPointerMode_v2(const struct blas *handle, int *mode) {
	*mode = handle->pointers;
	return SUCCESS;
}

EXPORT int cublasSetMathMode(struct blas *handle, int mode) {
	handle->math = mode;
	return SUCCESS;
}

EXPORT int cublasGetMathMode(const struct blas *handle, int *mode) {
	*mode = handle->math;
	return SUCCESS;
}

/* One algorithm, which needs no workspace. The layout is cublasLtMatmulHeuristicResult_t's. */
struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d, void *preference, int most, struct heuristic *out, int *count) {
	(void)handle, (void)product, (void)a, (void)b, (void)c, (void)d, (void)preference;
	*count = most > 0;
	if (most > 0)
		memset(out, 0, sizeof *out);
	return SUCCESS;
}

EXPORT int cufftCreate(int *plan) {
	static int last;
	*plan = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

EXPORT int cufftXtMakePlanMany(int plan, int rank, void *n, void *in, long long in_stride, long long in_distance, int in_type, void *to, long long to_stride,
                               long long to_distance, int to_type, long long batch, size_t *workspace, int type) {
	(void)plan, (void)rank, (void)n, (void)in, (void)in_stride, (void)in_distance, (void)in_type, (void)to, (void)to_stride, (void)to_distance, (void)to_type;
	(void)batch, (void)type;
	*workspace = 0;
	return SUCCESS;
}

EXPORT int ncclGetVersion(int *version) {
	*version = versions.nccl;
	return SUCCESS;
}

EXPORT int nvrtcVersion(int *major, int *minor) {
	*major = versions.cuda / 1000;
	*minor = versions.cuda % 1000 / 10;
	return SUCCESS;
}

/* Bytes, not a status: -1 is an error of the system. */
#define TRANSFER(name) \
	EXPORT long name(void *file, void *memory, size_t bytes, long at, long offset) { \
		(void)file, (void)memory, (void)bytes, (void)at, (void)offset; \
		not_done(#name); \
		return -1; \
	}
TRANSFER(cuFileRead)
TRANSFER(cuFileWrite)

#define NO_MEMORY(name) \
	EXPORT void *name(void) { \
		not_done(#name); \
		return NULL; \
	}
NO_MEMORY(nvshmem_malloc)
NO_MEMORY(nvshmem_ptr)

/* Which function was refused is in gpuconf_runtime_noted. */
#define TEXT(name) \
	EXPORT const char *name(void) { return "not supported on a simulated GPU"; }
TEXT(cublasGetStatusName)
TEXT(cublasGetStatusString)
TEXT(cusparseGetErrorString)
TEXT(cusparseLtGetErrorString)
TEXT(ncclGetErrorString)
TEXT(ncclGetLastError)
TEXT(nvrtcGetErrorString)

EXPORT int cuptiGetResultString(int result, const char **text) {
	(void)result;
	*text = "not supported on a simulated GPU";
	return SUCCESS;
}
