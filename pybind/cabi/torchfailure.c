/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injected failures in PyTorch's own caching allocator, which gpuconf's pools do not serve.
 *
 * PyTorch asks its allocator for the memory of every tensor and workspace through a virtual function, allocate, the
 * first after the two destructors in every version since 2.6. Its slot in the allocator's table is redirected to a
 * function that counts while a failure is requested, and otherwise only goes on to PyTorch's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_cgo_export.h"
#include "abi.h"

enum { ALLOCATE = 2 };

/* c10::DataPtr, which C++ returns in memory, as C does: two pointers, the deleter, and a device of two bytes. */
struct data_ptr {
	void *data, *context;
	void (*deleter)(void *);
	int16_t device;
};

typedef struct data_ptr allocate(void *allocator, size_t size);

static allocate *torch_allocate;
static int counting;
static uint64_t seen; /* calls of this function, whether it counted or not */

static struct data_ptr counted_allocate(void *allocator, size_t size) {
	__atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&counting, __ATOMIC_RELAXED) && size > 0 && !gcgo_refuse() && !gcgo_count_torch(size) &&
	    strstr(gpuconf_last_error(), " out of memory") != NULL)
		gcgo_throw(gpuconf_last_error());
	return torch_allocate(allocator, size);
}

static int refuse(const char *why) {
	gcgo_set_error(why);
	return 0;
}

int gpuconf_torch_count(int on) {
	void *library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
	void ****allocator = library ? dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE") : NULL;
	void **slot;

	if (gcgo_refuse())
		return 0;
	if (on && torch_allocate == NULL) {
		if (allocator == NULL || *allocator == NULL)
			return refuse(
			    "allocations of this PyTorch cannot be made to fail: its libc10_cuda.so does not name its allocator");
		slot = **allocator + ALLOCATE;
		torch_allocate = (allocate *)*slot;
		if (!gcgo_redirect(slot, (void *)counted_allocate)) {
			torch_allocate = NULL;
			return refuse("allocations of PyTorch cannot be made to fail: the system refuses to make its allocator's "
			              "table writable");
		}
	}
	__atomic_store_n(&counting, on, __ATOMIC_RELAXED);
	return 1;
}

uint64_t gpuconf_torch_seen(void) { return __atomic_load_n(&seen, __ATOMIC_RELAXED); }
