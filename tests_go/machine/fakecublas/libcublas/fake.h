/*
 * cuBLAS without a GPU: libcublas.so.N over the fake driver of tests_go/machine/fakecuda, for tests of code that loads
 * the real one. It runs asynchronously, as the real one does, and is strict: what NVIDIA's documentation forbids or
 * leaves undefined returns an error and records a complaint, which tests read. Its types are declared here a second
 * time on purpose: sharing a header with the code under test would hide a wrong declaration.
 *
 * fakecuda_count and fakecuda_fail also count these calls and make them fail. FAKECUBLAS_MAJOR, set at compile time, is
 * the version (12): 11 has no functions with 64-bit sizes. The environment, read by cublasCreate:
 *
 *     FAKECUBLAS_DRY       not empty: everything is checked, nothing is computed
 */
#ifndef FAKE_H
#define FAKE_H

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#ifndef FAKECUBLAS_MAJOR
#define FAKECUBLAS_MAJOR 12
#endif

#define EXPORT __attribute__((visibility("default")))

typedef enum {
	SUCCESS = 0,
	NOT_INITIALIZED = 1,
	ALLOC_FAILED = 3,
	INVALID_VALUE = 7,
	EXECUTION_FAILED = 13,
	NOT_SUPPORTED = 15,
} cublasStatus;

typedef enum { OP_N = 0, OP_T = 1, OP_C = 2 } cublasOperation;

struct range {
	uint64_t addr, bytes;
};

struct handle {
	void *context;
	int destroyed;
	int math_mode;
	struct range workspace; /* set by the owner; empty for cuBLAS's own */
	int dry;
	int busy;
	struct handle *next;
};

/* control.c */
cublasStatus complain(cublasStatus status, const char *format, ...) __attribute__((format(printf, 2, 3)));
cublasStatus begin(const char *name, struct handle *handle); /* end follows if it is SUCCESS */
cublasStatus end(struct handle *handle, cublasStatus status);
cublasStatus launch(
    struct handle *handle, void (*kernel)(void *), const void *argument, size_t bytes, const struct range touched[4]);

/* Whether two ranges share a byte. */
int overlap(struct range a, struct range b);

/* The bytes of a column-major matrix. */
struct range matrix(uint64_t addr, int64_t rows, int64_t columns, int64_t ld, size_t element);

#endif
