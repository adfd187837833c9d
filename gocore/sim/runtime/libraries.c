/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small libraries, each with the few functions that PyTorch calls; handles that all have in common; and a fork's locks.
 */
#include "runtime.h"

#include <stdlib.h>

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

/* Handles and results that the libraries have in common. */

/* A solver's `info` lies on the card, and is read in the stream's order. */
int succeed(const struct follower *handle, uintptr_t info, int64_t count) {
	if (info == 0 || count <= 0)
		return SUCCESS;
	int result = begin();
	return result != SUCCESS ? result : cuMemsetD8Async((void *)info, 0, (size_t)count * sizeof(int), handle->stream);
}

int make(void **out, size_t bytes) { return out != NULL && (*out = calloc(1, bytes)) != NULL; }

/* A fork waits until no other thread has a lock, as that of the driver does (cuda/machine.c). They are taken before the
 * driver's. */

static pthread_mutex_t *const locks[] = {&cudnn_lock, &kernels_lock, &names_lock};
enum { FORK_LOCKS = sizeof locks / sizeof *locks };

static void before_fork(void) {
	for (int i = 0; i < FORK_LOCKS; i++)
		pthread_mutex_lock(locks[i]);
}

static void after_fork(void) {
	for (int i = FORK_LOCKS; i > 0; i--)
		pthread_mutex_unlock(locks[i - 1]);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/*
 * cuFFT's plans. cuFFT documents that the size of a work area depends on the plan, and no sizes. These are rules for
 * what cuFFT of CUDA 13.0 answered on an H200 (tests_py/simulation/libraries/test_library_sizes.py has how many agree).
 */

/* A plan is a number; nothing is kept of it. */
EXPORT int cufftCreate(int *plan) {
	static int last;
	*plan = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

enum { ODDEST = 127, ONE_KERNEL = 4096, LONG = 32768, SHORT = 1024 };

/* Whether a length has a large prime factor. Such a transform is a convolution (Bluestein's) of more than twice the
 * length. */
static int is_odd(long long n) {
	for (long long factor = 2; factor <= ODDEST; factor++)
		while (n % factor == 0)
			n /= factor;
	return n > 1;
}

/* Of two. */
static int is_power(long long n) { return (n & (n - 1)) == 0; }

/* A transform of complex numbers: one kernel, or a copy. */
static long long of_complex(long long n, long long count, long long element) {
	if (is_odd(n))
		return n < ONE_KERNEL ? 0 : 2 * ((2 * n - 1 + 511) / 512 * 512) * count * element;
	long long shortest = element > 8 && !is_power(n) ? 15000 : LONG;
	return n < shortest ? 0 : n * count * element;
}

/* One from or to real numbers: half of the length if that is even. */
static long long of_real(long long n, long long count, long long element) {
	long long half = n / 2 * count * element;
	if (n <= ODDEST || (is_power(n) && n < LONG))
		return 0;
	if (is_odd(n) && n >= ONE_KERNEL)
		return n % 2 == 0 ? 5 * half : 5 * n * (count + 1) / 2 * element;
	if (n % 2 != 0)
		return is_odd(n) || n > ONE_KERNEL ? n * (count + 1) * element : 0;
	if (n <= SHORT)
		return 0;
	return half + (n > 48000 ? count * element : 0);
}

/* Further dimensions need no more, but that rows of real numbers are kept. */
static long long of_rows(long long rows, long long n, long long count, long long element, int is_real) {
	if (!is_real || n <= ODDEST || (n % 2 == 0 && (n <= SHORT || is_power(n))))
		return 0;
	return n % 2 != 0 ? rows * n * (count + 1) * element : rows * (n / 2 + 1) * count * element;
}

EXPORT int cufftXtMakePlanMany(int plan, int rank, const long long *n, void *in, long long in_stride,
    long long in_distance, int in_type, void *to, long long to_stride, long long to_distance, int to_type,
    long long batch, size_t *workspace, int type) {
	enum { COMPLEX_SINGLE = 4, COMPLEX_DOUBLE = 5, INVALID_SIZE = 8 };
	int is_real = in_type < COMPLEX_SINGLE || to_type < COMPLEX_SINGLE;
	long long element = 4, rows = 1;
	if (type == COMPLEX_SINGLE || type == COMPLEX_DOUBLE)
		element = type == COMPLEX_SINGLE ? 8 : 16;
	(void)plan, (void)in, (void)in_stride, (void)in_distance, (void)to, (void)to_stride, (void)to_distance;
	for (int i = 0; i < rank; i++)
		if (n[i] < 1)
			return INVALID_SIZE;
	for (int i = 0; i < rank - 1; i++)
		rows *= n[i];
	long long last = n[rank - 1];
	long long bytes = is_real ? of_real(last, batch, element) : of_complex(last, batch, element);
	*workspace = (size_t)(rank > 1 ? of_rows(rows, last, batch, element, is_real) : bytes);
	return SUCCESS;
}

/* CUPTI: a profiler subscribes and switches activities on, and no record ever comes, because nothing runs on a card. */

enum { NO_MORE_RECORDS = 12, NOT_SUPPORTED_HERE = 27 };

EXPORT int cuptiGetResultString(int result, const char **text) {
	static const struct status_text texts[] = {{SUCCESS, "CUPTI_SUCCESS"},
	    {NO_MORE_RECORDS, "CUPTI_ERROR_MAX_LIMIT_REACHED"}, {NOT_SUPPORTED_HERE, "CUPTI_ERROR_NOT_SUPPORTED"}};
	*text = TEXT_OF(texts, result, "CUPTI_ERROR_UNKNOWN");
	return SUCCESS;
}

EXPORT int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last) {
	(void)kind;
	if (last != NULL)
		*last = 0;
	return SUCCESS;
}

EXPORT int cuptiActivityGetNextRecord(void *buffer, size_t bytes, void **record) {
	(void)buffer, (void)bytes;
	*record = NULL;
	return NO_MORE_RECORDS;
}

SIZED(cuptiActivityGetNumDroppedRecords, size_t, a2)

/* The subscriber is any address. */
EXPORT int cuptiSubscribe(void **subscriber, void *callback, void *data) {
	static int anything;
	(void)callback, (void)data;
	*subscriber = &anything;
	return SUCCESS;
}
