/*
 * The functions that torch.cuda.memory.CUDAPluggableAllocator takes, with its signatures.
 *
 * PyTorch does not check the result: a null pointer would become a tensor. So errors are thrown, after Go has returned; there is
 * no Go frame below the exception.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "_cgo_export.h"
#include "abi.h"

void *gpuconf_torch_malloc(ssize_t size, int device, void *stream)
{
	void *ptr = gpuconf_malloc((size_t)size, device, stream);

	if (__builtin_expect(ptr == NULL && size != 0, 0))
		gcgo_throw(gpuconf_last_error());
	return ptr;
}

/*
 * Called by destructors, which must not throw: errors are only kept in gpuconf_last_error. The stream is the one of the allocation. NULL
 * means the same, and also works if that stream was destroyed meanwhile.
 */
void gpuconf_torch_free(void *ptr, ssize_t size, int device, void *stream)
{
	(void)stream;
	gpuconf_free(ptr, (size_t)size, device, NULL);
}

void gpuconf_torch_record_stream(void *ptr, void *stream)
{
	if (!gpuconf_record_stream(ptr, stream))
		gcgo_throw(gpuconf_last_error());
}

/* torch.cuda.empty_cache(). */
void gpuconf_torch_reset(void)
{
	if (!gpuconf_trim())
		gcgo_throw(gpuconf_last_error());
}

/* torch.cuda.set_per_process_memory_fraction(). */
void gpuconf_torch_memory_fraction(double fraction, int device)
{
	if (gcgo_refuse() || !gcgo_require_fraction(fraction, device))
		gcgo_throw(gpuconf_last_error());
}

/* For sharing memory between processes, which goes by the driver's pieces. */
void *gpuconf_torch_base_alloc(void *ptr, size_t *size)
{
	void *start = gpuconf_region(ptr, size);

	if (start == NULL)
		gcgo_throw(gpuconf_last_error());
	return start;
}

/*
 * CUDA graphs and torch.cuda.use_mem_pool. A graph's own pool needs nothing: the streams tell that they are captured, and what is taken
 * for them is the graph's until it is gone. A pool of the user's, be it for several graphs, would have to be kept apart: refused.
 *
 * PyTorch's pool id is two words, the second of which is a user's, and its filter a std::function, which C++ passes by address.
 */
struct pool_id {
	unsigned long long graph, user;
};

void gpuconf_torch_begin_pool(int device, struct pool_id pool, void *filter)
{
	(void)device, (void)filter;
	gcgo_refuse();
	if (pool.user == 0)
		return;
	gcgo_tell("torch.cuda.MemPool and torch.cuda.graph_pool_handle() need gpuconf's mode 'segments': call "
		  "gpuconf.allocators.torch.install(mode='segments') or gpuconf.configure(libraries={'torch': 'segments'}) instead of the mode "
		  "'whole', in which each CUDA graph has a pool of its own");
	gcgo_throw(gpuconf_last_error());
}
