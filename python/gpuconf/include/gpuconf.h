/*
 * gpuconf.h: the C face of gpuconf's allocator.
 *
 * These symbols live in the extension module that Python imports (gpuconf.library_path() tells where), never in a
 * second library: open that very file and you share the pools, limits and books of the Python program.
 *
 * Every function may be called from any thread, with or without the GIL, and never blocks on Python.
 */
#ifndef GPUCONF_H
#define GPUCONF_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUCONF_ABI_VERSION 1

/* The version of this interface that the library has; equal to GPUCONF_ABI_VERSION, or don't use it. */
int gpuconf_abi_version(void);

/*
 * Takes size bytes of device memory, aligned to 256 bytes.
 *
 * device is the CUDA ordinal as this process counts them. The memory comes from the logical GPU that the calling
 * thread's scope names (`with gpuconf.device("GPU:1"):`) if that lies on this ordinal, else from the one that stream
 * stands for (gpuconf_logical_stream), else from the ordinal's first logical GPU. The Python program must have
 * initialised gpuconf (gpuconf.config.list_logical_devices() does). stream is the CUDA stream on which the memory is used first.
 *
 * While the stream is captured, what it takes is the graph's until nothing of that is left: what was freed serves the same capture only.
 *
 * Returns NULL for size 0, on failure (gpuconf_last_error tells why), and in a child forked after gpuconf was loaded.
 */
void *gpuconf_malloc(size_t size, int device, void *stream);

/*
 * Gives memory back. The address alone decides what; size and device are ignored. stream is that of the last use, NULL for the stream
 * that the memory was taken for, which may have been destroyed since; nobody else gets it before the work queued there is done. A NULL
 * address is ignored. An address that gpuconf_malloc didn't give, or that was given back before, or a stream that is none, changes nothing
 * and leaves a message in gpuconf_last_error.
 */
void gpuconf_free(void *ptr, size_t size, int device, void *stream);

/*
 * Says that memory of gpuconf_malloc is used on a stream other than the one it was taken for, so that after its free nobody else gets
 * it before that stream is done with it. 1, or 0 with a message in gpuconf_last_error for what is no live block. NULL is ignored.
 */
int gpuconf_record_stream(void *ptr, void *stream);

/*
 * Why the last call of this thread failed; "" if it did not. The text belongs to the thread and lives until its next call.
 */
const char *gpuconf_last_error(void);

/*
 * A stream that stands for a logical GPU (0 for GPU:0): memory that a thread without a scope takes for it comes from that
 * logical GPU. NULL, the default stream, for the first one of an ordinal. It lasts until the devices are reset, and keeps its order with
 * the legacy default stream by itself. 1, or 0 on failure.
 */
int gpuconf_logical_stream(int logical, void **stream);

/* The piece of the driver's memory that ptr lies in, and its size, for sharing between processes. NULL on failure. */
void *gpuconf_region(void *ptr, size_t *size);

/* Gives memory in which no block lies back to the GPUs. 1, or 0 on failure. */
int gpuconf_trim(void);

/*
 * For torch.cuda.memory.CUDAPluggableAllocator, with its signatures. Where PyTorch looks at no result these throw a C++
 * exception: c10::OutOfMemoryError, which Python sees as torch.OutOfMemoryError, for want of memory, else std::runtime_error.
 */
void *gpuconf_torch_malloc(ssize_t size, int device, void *stream);
void gpuconf_torch_free(void *ptr, ssize_t size, int device, void *stream);
void gpuconf_torch_record_stream(void *ptr, void *stream);
void gpuconf_torch_reset(void);
void gpuconf_torch_memory_fraction(double fraction, int device);
void *gpuconf_torch_base_alloc(void *ptr, size_t *size);

/*
 * Makes gpuconf the source of the segments of PyTorch's own caching allocator: what libc10_cuda.so, which must be loaded, takes with
 * cudaMalloc from now on. 1, or 0 on failure. Can't be undone.
 */
int gpuconf_torch_redirect(void);

/* For cupy.cuda.CFunctionAllocator. param is NULL, or a function of CuPy's that tells the thread's current stream. */
void *gpuconf_cupy_malloc(void *param, size_t size, int device);
void gpuconf_cupy_free(void *param, void *ptr, int device);

#ifdef __cplusplus
}
#endif

#endif
