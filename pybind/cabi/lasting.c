/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's own streams. It creates them once, hands them out again and again and never destroys them, so their handles
 * denote no other stream. Streams that others created ("external" to PyTorch) may be destroyed, and their handles
 * reused.
 *
 * The id of PyTorch's current stream says which of the two it is: an external stream's id is its handle, an own one's
 * is odd. PyTorch itself relies on the former; if it changes that, no stream is lasting here, and gpuconf queries the
 * stream's id.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* Streams that were found to be lasting, by a hash of the handle. A later one with the same hash replaces an earlier
 * one. */
#define PLACES 64
static uintptr_t found[PLACES];

static struct torch_stream (*current_stream)(signed char device);
static void *(*stream_handle)(const struct torch_stream *stream);
static struct torch_stream (*external_stream)(void *handle, signed char device);

/* Finds PyTorch's functions. Threads that do this at the same time store the same values. */
static void look_up(void) {
	static int done;
	void *library;

	if (__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		return;
	library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
	if (library != NULL) {
		void *external = dlsym(library, "_ZN3c104cuda21getStreamFromExternalEP11CUstream_sta");
		void *handle = dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv");

		__atomic_store_n((void **)&external_stream, external, __ATOMIC_RELAXED);
		__atomic_store_n((void **)&stream_handle, handle, __ATOMIC_RELAXED);
		if (external != NULL && handle != NULL)
			__atomic_store_n(
			    (void **)&current_stream, dlsym(library, "_ZN3c104cuda20getCurrentCUDAStreamEa"), __ATOMIC_RELAXED);
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
}

static bool find(void *stream, int device) {
	struct torch_stream now;

	look_up();
	if (current_stream == NULL || external_stream(stream, (signed char)device).id != (int64_t)(uintptr_t)stream)
		return false;
	now = current_stream((signed char)device);
	return (now.id & 1) != 0 && stream_handle(&now) == stream;
}

bool gcgo_torch_lasting(void *stream, int device) {
	uintptr_t *place = &found[((uintptr_t)stream * UINT64_C(0x9E3779B97F4A7C15)) >> 58];

	if (__atomic_load_n(place, __ATOMIC_RELAXED) == (uintptr_t)stream)
		return true;
	if (!find(stream, device))
		return false;
	__atomic_store_n(place, (uintptr_t)stream, __ATOMIC_RELAXED);
	return true;
}
