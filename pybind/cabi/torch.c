/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions for torch.cuda.memory.CUDAPluggableAllocator, with the signatures that it requires.
 *
 * PyTorch does not check the result: a null pointer would become a tensor. So errors are thrown as C++ exceptions,
 * after Go has returned, so that no Go frame is unwound.
 */
#include <stddef.h>
#include <stdint.h>
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
