/* Handles, and what all calls need from the fake driver: counters, contexts and streams. */
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	int (*called)(const char *);
	int (*launch)(void *, void (*)(void *), void *, const struct range *);
	int (*alive)(void *);
	void *(*current)(void);
} driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *handles; /* never freed, so that use of a stale handle is detected */
static char complaint[512];

__attribute__((constructor)) static void find_driver(void) {
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (library == NULL)
		return;
	*(void **)&driver.called = dlsym(library, "fakecuda_called");
	*(void **)&driver.launch = dlsym(library, "fakecuda_launch");
	*(void **)&driver.alive = dlsym(library, "fakecuda_alive");
	*(void **)&driver.current = dlsym(library, "fakecuda_current");
}

/* fakecublas_complaint returns the first misuse since its last call, or "". */
EXPORT const char *fakecublas_complaint(void) {
	static char told[sizeof complaint];
	pthread_mutex_lock(&lock);
	memcpy(told, complaint, sizeof told);
	complaint[0] = 0;
	pthread_mutex_unlock(&lock);
	return told;
}

/* fakecublas_live counts the handles that were not destroyed and whose context exists. */
EXPORT int fakecublas_live(void) {
	int count = 0;
	pthread_mutex_lock(&lock);
	for (struct handle *one = handles; one != NULL; one = one->next)
		count += !one->destroyed && driver.alive(one->context);
	pthread_mutex_unlock(&lock);
	return count;
}

cublasStatus complain(cublasStatus status, const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	pthread_mutex_lock(&lock);
	if (complaint[0] == 0)
		vsnprintf(complaint, sizeof complaint, format, arguments);
	pthread_mutex_unlock(&lock);
	va_end(arguments);
	return status;
}

static int known(const struct handle *handle) {
	int found = 0;
	pthread_mutex_lock(&lock);
	for (struct handle *one = handles; one != NULL; one = one->next)
		found |= one == handle && !one->destroyed;
	pthread_mutex_unlock(&lock);
	return found;
}

cublasStatus begin(const char *name, struct handle *handle) {
	cublasStatus fault = (cublasStatus)driver.called(name);
	if (fault != SUCCESS)
		return fault;
	if (!known(handle))
		return complain(NOT_INITIALIZED, "%s: no handle", name);
	if (!driver.alive(handle->context))
		return complain(NOT_INITIALIZED, "%s: the handle's context has ended", name);
	if (driver.current() != handle->context)
		return complain(INVALID_VALUE, "%s: in another context than the handle's", name);
	if (__atomic_exchange_n(&handle->busy, 1, __ATOMIC_SEQ_CST))
		return complain(EXECUTION_FAILED, "%s: two threads use a handle at once", name);
	return SUCCESS;
}

cublasStatus end(struct handle *handle, cublasStatus status) {
	__atomic_store_n(&handle->busy, 0, __ATOMIC_SEQ_CST);
	return status;
}

int overlap(struct range a, struct range b) {
	return a.bytes > 0 && b.bytes > 0 && a.addr < b.addr + b.bytes && b.addr < a.addr + a.bytes;
}

struct range matrix(uint64_t addr, int64_t rows, int64_t columns, int64_t ld, size_t element) {
	if (rows == 0 || columns == 0)
		return (struct range){addr, 0};
	return (struct range){addr, (uint64_t)((columns - 1) * ld + rows) * element};
}

/* Work is queued in the legacy default stream: no function here sets another. */
cublasStatus launch(
    struct handle *handle, void (*kernel)(void *), const void *argument, size_t bytes, const struct range touched[4]) {
	void *copy = malloc(bytes);
	memcpy(copy, argument, bytes);
	int result = driver.launch(NULL, kernel, copy, touched);
	(void)handle;
	if (result == 700)
		return complain(EXECUTION_FAILED, "an operand is not in the GPU's memory");
	return result == 0 ? SUCCESS : EXECUTION_FAILED;
}

EXPORT cublasStatus cublasGetProperty(int property, int *value) {
	static const int version[] = {FAKECUBLAS_MAJOR, 4, 5};
	if (property < 0 || property > 2 || value == NULL)
		return INVALID_VALUE;
	*value = version[property];
	return SUCCESS;
}

EXPORT cublasStatus cublasCreate_v2(struct handle **out) {
	if (driver.launch == NULL)
		return NOT_INITIALIZED; /* the driver is missing, or another one is loaded */
	cublasStatus fault = (cublasStatus)driver.called("cublasCreate");
	if (fault != SUCCESS)
		return fault;
	if (driver.current() == NULL)
		return complain(NOT_INITIALIZED, "cublasCreate: without a context, which would make the first GPU's");
	struct handle *handle = calloc(1, sizeof *handle);
	handle->context = driver.current();
	const char *dry = getenv("FAKECUBLAS_DRY");
	handle->dry = dry != NULL && *dry != 0;
	pthread_mutex_lock(&lock);
	handle->next = handles;
	handles = handle;
	pthread_mutex_unlock(&lock);
	*out = handle;
	return SUCCESS;
}

EXPORT cublasStatus cublasDestroy_v2(struct handle *handle) {
	cublasStatus status = begin("cublasDestroy", handle);
	if (status != SUCCESS)
		return status;
	handle->destroyed = 1;
	return end(handle, SUCCESS);
}

EXPORT cublasStatus cublasSetMathMode(struct handle *handle, int mode) {
	cublasStatus status = begin("cublasSetMathMode", handle);
	if (status != SUCCESS)
		return status;
	handle->math_mode = mode;
	return end(handle, SUCCESS);
}

EXPORT cublasStatus cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes) {
	cublasStatus status = begin("cublasSetWorkspace", handle);
	if (status != SUCCESS)
		return status;
	if ((uintptr_t)workspace % 256 != 0)
		return end(handle, complain(INVALID_VALUE, "cublasSetWorkspace: %p is not aligned", workspace));
	handle->workspace = (struct range){(uint64_t)(uintptr_t)workspace, bytes};
	return end(handle, SUCCESS);
}
