/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions for torch.cuda.memory.CUDAPluggableAllocator, with the signatures that it requires.
 *
 * PyTorch does not check the result: a null pointer would become a tensor. So errors are thrown as C++ exceptions,
 * after Go has returned, so that no Go frame is unwound.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "_cgo_export.h"
#include "abi.h"

void *gpuconf_torch_malloc(ssize_t size, int device, void *stream) {
	void *ptr = gcgo_malloc_for(GCGO_TORCH, (size_t)size, device, stream);

	if (__builtin_expect(ptr == NULL && size != 0, 0))
		gcgo_throw(gpuconf_last_error());
	return ptr;
}

/*
 * Destructors call this, so it must not throw: errors are only kept in gpuconf_last_error. The stream is that of the
 * allocation. NULL means the same, and also works if that stream has been destroyed.
 */
void gpuconf_torch_free(void *ptr, ssize_t size, int device, void *stream) {
	(void)stream;
	gpuconf_free(ptr, (size_t)size, device, NULL);
}

void gpuconf_torch_record_stream(void *ptr, void *stream) {
	if (!gpuconf_record_stream(ptr, stream))
		gcgo_throw(gpuconf_last_error());
}

/* torch.cuda.empty_cache(). */
void gpuconf_torch_reset(void) {
	if (!gpuconf_trim())
		gcgo_throw(gpuconf_last_error());
}

/* torch.cuda.set_per_process_memory_fraction(). */
void gpuconf_torch_memory_fraction(double fraction, int device) {
	if (gcgo_refuse() || !gcgo_require_fraction(fraction, device))
		gcgo_throw(gpuconf_last_error());
}

/* For sharing memory between processes: the driver shares whole allocations. */
void *gpuconf_torch_base_alloc(void *ptr, size_t *size) {
	void *start = gpuconf_region(ptr, size);

	if (start == NULL)
		gcgo_throw(gpuconf_last_error());
	return start;
}

/*
 * Called for CUDA graphs and torch.cuda.use_mem_pool. A graph's own pool needs no work here: gpuconf sees that the
 * streams are being captured, and their memory belongs to the graph until the graph is destroyed. A pool created by the
 * user, which several graphs may share, would have to be kept separate; it is refused.
 *
 * PyTorch's pool id is two words; the second is set for pools created by the user. The filter is a std::function, which
 * C++ passes by address.
 */
struct pool_id {
	unsigned long long graph, user;
};

void gpuconf_torch_begin_pool(int device, struct pool_id pool, void *filter) {
	(void)device, (void)filter;
	gcgo_refuse();
	if (pool.user == 0)
		return;
	gcgo_set_error(
	    "torch.cuda.MemPool and torch.cuda.graph_pool_handle() need gpuconf's mode 'segments': call "
	    "gpuconf.allocators.torch.install(mode='segments') or gpuconf.configure(libraries={'torch': 'segments'}) "
	    "instead of mode 'whole', in which each CUDA graph has its own pool");
	gcgo_throw(gpuconf_last_error());
}

/*
 * Injected failures in PyTorch's own caching allocator, which gpuconf's pools do not serve.
 *
 * PyTorch asks its allocator for the memory of every tensor and workspace through a virtual function, allocate, the
 * first after the two destructors in every version since 2.6. Its slot in the allocator's table is redirected to a
 * function that counts while a failure is requested, and otherwise only goes on to PyTorch's.
 */

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

int gpuconf_torch_count(int on) {
	void *library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
	void ****allocator = library ? dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE") : NULL;
	void **slot;

	if (gcgo_refuse())
		return 0;
	if (on && torch_allocate == NULL) {
		if (allocator == NULL || *allocator == NULL)
			return gcgo_fail(
			    "allocations of this PyTorch cannot be made to fail: its libc10_cuda.so does not name its allocator");
		slot = **allocator + ALLOCATE;
		torch_allocate = (allocate *)*slot;
		if (!gcgo_redirect(slot, (void *)counted_allocate)) {
			torch_allocate = NULL;
			return gcgo_fail(
			    "allocations of PyTorch cannot be made to fail: the system refuses to make its allocator's "
			    "table writable");
		}
	}
	__atomic_store_n(&counting, on, __ATOMIC_RELAXED);
	return 1;
}

uint64_t gpuconf_torch_seen(void) { return __atomic_load_n(&seen, __ATOMIC_RELAXED); }
