/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public C symbols, and the state that must be in C: the fork flag, which is read before a call enters Go, and each
 * thread's scope, tag and last error, because Go has no thread-local storage.
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
uint32_t gcgo_generation;
int gcgo_stopped;

/*
 * Go's thread-locals, and ours with them, are in the small static TLS area that the loader reserves for libraries
 * loaded later. Keep them to a few words, or the import fails with "cannot allocate memory in static TLS block".
 */
#define FAST_THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

FAST_THREAD_LOCAL int64_t scope = GPUCONF_NO_SCOPE;
FAST_THREAD_LOCAL uint16_t tag;     /* 0 for none */
FAST_THREAD_LOCAL uint32_t site;    /* 0 for none */
FAST_THREAD_LOCAL char *last_error; /* malloc'd; NULL for none */

static pthread_key_t at_thread_exit; /* frees last_error */

static void mark_child(void) { forked = 1; }

/* Clears last_error because another library's destructor may still free memory after this one. */
static void end_thread(void *text) {
	(void)text;
	free(last_error);
	last_error = NULL;
}

__attribute__((constructor)) static void begin(void) {
	pthread_atfork(NULL, NULL, mark_child);
	pthread_key_create(&at_thread_exit, end_thread);
}

static void forget_error(void) {
	if (__builtin_expect(last_error != NULL, 0)) {
		pthread_setspecific(at_thread_exit, NULL);
		free(last_error);
		last_error = NULL;
	}
}

/* Stores an error's text for the calling thread. If memory for the copy cannot be allocated, the text is empty. */
void gcgo_set_error(const char *text) {
	forget_error();
	last_error = strdup(text);
	pthread_setspecific(at_thread_exit, last_error);
}

int gcgo_fail(const char *text) {
	gcgo_set_error(text);
	return 0;
}

enum gcgo_refusal gcgo_refusal(char *text, size_t room) {
	if (__builtin_expect(forked, 0)) {
		snprintf(text, room,
		    "gpuconf was loaded before fork() and can't be used in the child: start workers with spawn or forkserver");
		return GCGO_FORKED;
	}
	if (__builtin_expect(__atomic_load_n(&gcgo_few_threads, __ATOMIC_RELAXED), 0) && gcgo_find_threads(text, room))
		return GCGO_FEW_THREADS;
	return GCGO_NONE;
}

static int refuse(void) {
	char text[512];

	if (gcgo_refusal(text, sizeof text) == GCGO_NONE)
		return 0;
	gcgo_set_error(text);
	return 1;
}

int gcgo_refuse(void) {
	forget_error();
	return refuse();
}

/* Called by any thread, also in a child. */
static uint64_t idle(int device) {
	char text[512];

	return gcgo_refusal(text, sizeof text) == GCGO_NONE ? gcgo_idle_bytes(device) : 0;
}

uintptr_t gcgo_idle_function(void) { return (uintptr_t)idle; }

extern char **environ;

int gpuconf_init(void) { return gcgo_refuse() ? 0 : gcgo_init(environ); }

int gpuconf_abi_version(void) { return GPUCONF_ABI_VERSION; }

const char *gpuconf_last_error(void) { return last_error ? last_error : ""; }

static int (*capture_info)(void *stream, int *status, uint64_t *id);

void gcgo_capture_info_write(uintptr_t function) {
	__atomic_store_n((uintptr_t *)&capture_info, function, __ATOMIC_RELEASE);
}

/*
 * Whether a stream is certainly not being captured. Asking from here, where the context of the caller's stream is
 * current, takes a fraction of the time that Go needs to enter the context and ask. Go does so after any other answer.
 */
static bool uncaptured(void *stream) {
	int (*ask)(void *, int *, uint64_t *) = __atomic_load_n(&capture_info, __ATOMIC_ACQUIRE);
	int status = 1;
	uint64_t id = 0;

	return ask != NULL && ask(stream, &status, &id) == 0 && status == 0;
}

/*
 * What C knows of an allocation's stream: bits of devmgr.Known. Go asks nothing about the default stream (1 and NULL);
 * the thread's own (2) is that of the current context, which may be another GPU's.
 */
static int known(enum gcgo_library library, void *stream, int device) {
	if ((uintptr_t)stream <= 2)
		return 0;
	return (uncaptured(stream) ? GCGO_UNCAPTURED : 0) |
	       (library == GCGO_TORCH && gcgo_torch_lasting(stream, device) ? GCGO_LASTING : 0);
}

static inline __attribute__((always_inline)) void *take(
    enum gcgo_library library, int acquire, size_t size, int device, void *stream) {
	uint16_t number = tag;

	forget_error();
	if (refuse() || size == 0)
		return NULL;
	if (__builtin_expect(__atomic_load_n(&gcgo_stacks, __ATOMIC_RELAXED), 0))
		gcgo_note_stack(acquire);
	if (library == GCGO_TORCH && number == 0)
		number = gcgo_backward_tag();
	return (void *)gcgo_malloc(size, device, (uint16_t)(number << GCGO_LIBRARY_BITS | library), (uintptr_t)stream,
	    scope, known(library, stream, device));
}

void *gpuconf_malloc(size_t size, int device, void *stream) { return take(GCGO_C, 0, size, device, stream); }

void *gcgo_malloc_for(enum gcgo_library library, size_t size, int device, void *stream) {
	return take(library, 1, size, device, stream);
}

void *gcgo_malloc_locked(enum gcgo_library library, size_t size, int device, void *stream) {
	return take(library, 0, size, device, stream);
}

/* For the plug-ins that are written in Python. */
void *gpuconf_library_malloc(int library, size_t size, int device, void *stream) {
	return take((enum gcgo_library)library, 1, size, device, stream);
}

void gpuconf_free(void *ptr, size_t size, int device, void *stream) {
	(void)size, (void)device;
	forget_error();
	if (ptr == NULL || refuse())
		return;
	gcgo_free((uintptr_t)ptr, (uintptr_t)stream);
}

void gcgo_scope_write(int64_t logical) { scope = logical; }

int64_t gcgo_scope_read(void) { return scope; }

void gcgo_tag_write(uint16_t number) {
	tag = number;
	gcgo_tag_written(number);
}

uint16_t gcgo_tag_read(void) { return tag; }

void gcgo_site_write(uint32_t number) { site = number; }

uint32_t gcgo_site_read(void) { return site; }

/* For benchmarks: the same call into Go and back, without any work. */
int gpuconf_empty_call(int value) { return gcgo_empty(value); }
