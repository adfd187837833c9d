/*
 * The public C symbols, and the state that must be in C: the fork flag, which is read before Go is entered, and the scope and
 * the last error, which are per thread, and Go has no thread-local storage.
 *
 * The Go functions behind them begin with gcgo_, so that the version script keeps them inside the library.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "abi.h"

static int forked;

/*
 * Go links its thread-locals into the little room that the loader keeps for libraries that come late, and ours with
 * them: keep them to a few words, or the import fails with "cannot allocate memory in static TLS block".
 */
#define FAST_THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

FAST_THREAD_LOCAL int64_t scope = GPUCONF_NO_SCOPE;
FAST_THREAD_LOCAL char *last_error; /* malloc'd; NULL for none */

static pthread_key_t at_thread_exit; /* frees last_error */

static void mark_child(void) { forked = 1; }

/* Another library's destructor may free memory after this one, and then there must be no stale text. */
static void end_thread(void *text)
{
	(void)text;
	free(last_error);
	last_error = NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(NULL, NULL, mark_child);
	pthread_key_create(&at_thread_exit, end_thread);
}

static void forget_error(void)
{
	if (__builtin_expect(last_error != NULL, 0)) {
		pthread_setspecific(at_thread_exit, NULL);
		free(last_error);
		last_error = NULL;
	}
}

/* Stores an error's text for the calling thread. If there is no memory for it, there is no text. */
void gcgo_tell(const char *text)
{
	forget_error();
	last_error = strdup(text);
	pthread_setspecific(at_thread_exit, last_error);
}

enum gcgo_refusal gcgo_refusal(char *text, size_t room)
{
	if (__builtin_expect(forked, 0)) {
		snprintf(text, room, "gpuconf was loaded before fork() and can't be used in the child: start workers with spawn or forkserver");
		return GCGO_FORKED;
	}
	if (__builtin_expect(__atomic_load_n(&gcgo_few_threads, __ATOMIC_RELAXED), 0) && gcgo_find_threads(text, room))
		return GCGO_FEW_THREADS;
	return GCGO_NONE;
}

static int refuse(void)
{
	char text[512];

	if (gcgo_refusal(text, sizeof text) == GCGO_NONE)
		return 0;
	gcgo_tell(text);
	return 1;
}

int gcgo_refuse(void)
{
	forget_error();
	return refuse();
}

int gpuconf_abi_version(void) { return GPUCONF_ABI_VERSION; }

const char *gpuconf_last_error(void) { return last_error ? last_error : ""; }

void *gpuconf_malloc(size_t size, int device, void *stream)
{
	forget_error();
	if (refuse() || size == 0)
		return NULL;
	return (void *)gcgo_malloc(size, device, (uintptr_t)stream, scope);
}

void gpuconf_free(void *ptr, size_t size, int device, void *stream)
{
	(void)size, (void)device;
	forget_error();
	if (ptr == NULL || refuse())
		return;
	gcgo_free((uintptr_t)ptr, (uintptr_t)stream);
}

void gcgo_scope_write(int64_t logical) { scope = logical; }

int64_t gcgo_scope_read(void) { return scope; }

/* For the benchmark: the same way into Go and back with nothing behind it. */
int gpuconf_empty_call(int value) { return gcgo_empty(value); }
