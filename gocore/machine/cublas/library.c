// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)
#include "library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct cublas_functions cublas;

static int tell_version(const struct cublas_functions *functions, struct cublas_load_answer *answer) {
	for (int i = 0; i < 3; i++)
		if (functions->cublasGetProperty(PROPERTY_MAJOR + i, &answer->version[i]) != 0)
			return 0;
	return 1;
}

void cublas_load(const char *before, const char *path, int only_loaded, struct cublas_load_answer *answer) {
	memset(answer, 0, sizeof *answer);
	answer->state = CUBLAS_NO_LIBRARY;
	if (before != NULL)
		(void)dlopen(before, RTLD_LAZY | RTLD_LOCAL); /* if this fails, loading the next library reports why */
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
	if (library == NULL) {
		const char *complaint = dlerror();
		if (!only_loaded)
			snprintf(answer->text, sizeof answer->text, "%s", complaint != NULL ? complaint : path);
		return;
	}
	answer->state = CUBLAS_INCOMPLETE;
	struct cublas_functions functions;
#define BIND(name, major, parameters) \
	*(void **)&functions.name = dlsym(library, #name); \
	if (functions.name == NULL && major <= OLDEST_CUBLAS) { \
		snprintf(answer->text, sizeof answer->text, "%s", #name); \
		return; \
	}
	CUBLAS_SYMBOLS(BIND)
#undef BIND
	if (!tell_version(&functions, answer)) {
		snprintf(answer->text, sizeof answer->text, "%s", "its version");
		return;
	}
	cublas = functions;
	answer->state = CUBLAS_LOADED;
}

static cublasHandle_t handle_of(uint64_t number) { return (cublasHandle_t)(uintptr_t)number; }
static void *pointer_of(uint64_t number) { return (void *)(uintptr_t)number; }
static int wide(uint64_t size) { return size > INT_MAX; }

struct cublas_created cublascall_create(void) {
	cublasHandle_t handle = NULL;
	cublasStatus_t status = cublas.cublasCreate_v2(&handle);
	if (status != 0)
		return (struct cublas_created){status, 0};
	status = cublas.cublasSetMathMode(handle, PEDANTIC_MATH);
	if (status != 0) {
		(void)cublas.cublasDestroy_v2(handle);
		return (struct cublas_created){status, 0};
	}
	return (struct cublas_created){0, (uint64_t)(uintptr_t)handle};
}

cublasStatus_t cublascall_destroy(uint64_t handle) { return cublas.cublasDestroy_v2(handle_of(handle)); }

/* CALL_GEMM calls one of the forms of a product, or returns MISSING_64 if the library lacks it. */
#define CALL_GEMM(name, type, size) \
	do { \
		type one_ = 1, zero_ = 0; \
		if (cublas.name == NULL) \
			return MISSING_64; \
		return cublas.name(handle_of(handle), g.transpose_a ? OP_T : OP_N, g.transpose_b ? OP_T : OP_N, (size)g.m, \
		    (size)g.n, (size)g.k, &one_, pointer_of(g.a), (size)g.lda, pointer_of(g.b), (size)g.ldb, &zero_, \
		    pointer_of(g.c), (size)g.ldc); \
	} while (0)

cublasStatus_t cublascall_gemm(uint64_t handle, struct cublas_gemm g) {
	cublasStatus_t status =
	    cublas.cublasSetWorkspace_v2(handle_of(handle), pointer_of(g.workspace), (size_t)g.workspace_bytes);
	if (status != 0)
		return status;
	int is_wide = wide(g.m) || wide(g.n) || wide(g.k) || wide(g.lda) || wide(g.ldb) || wide(g.ldc);
	if (is_wide && g.is_double)
		CALL_GEMM(cublasDgemm_v2_64, double, int64_t);
	if (is_wide)
		CALL_GEMM(cublasSgemm_v2_64, float, int64_t);
	if (g.is_double)
		CALL_GEMM(cublasDgemm_v2, double, int);
	CALL_GEMM(cublasSgemm_v2, float, int);
}

/* CALL_GEAM is the same for a sum. */
#define CALL_GEAM(name, type, size) \
	do { \
		type one_ = 1; \
		if (cublas.name == NULL) \
			return MISSING_64; \
		return cublas.name(handle_of(handle), OP_N, OP_N, (size)g.m, (size)g.n, &one_, pointer_of(g.a), (size)g.lda, \
		    &one_, pointer_of(g.b), (size)g.ldb, pointer_of(g.c), (size)g.ldc); \
	} while (0)

cublasStatus_t cublascall_geam(uint64_t handle, struct cublas_geam g) {
	int is_wide = wide(g.m) || wide(g.n) || wide(g.lda) || wide(g.ldb) || wide(g.ldc);
	if (is_wide && g.is_double)
		CALL_GEAM(cublasDgeam_64, double, int64_t);
	if (is_wide)
		CALL_GEAM(cublasSgeam_64, float, int64_t);
	if (g.is_double)
		CALL_GEAM(cublasDgeam, double, int);
	CALL_GEAM(cublasSgeam, float, int);
}
