/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuconf.h: the C API of gpuconf's allocator.
 *
 * These symbols are in the extension module that Python imports (gpuconf.library_path() returns its path), never in a
 * second library. Open that file to share the pools, limits and accounting of a Python program, or link a program of
 * its own with it, which needs no Python: gpuconf_init() creates the pools.
 *
 * All functions may be called from any thread, with or without the GIL, and never block on Python. Each thread has its
 * own error text. In a child process forked after the library was loaded they fail.
 */
#ifndef GPUCONF_H
#define GPUCONF_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUCONF_ABI_VERSION 1

/* Returns the ABI version of the library. Do not use the library if it differs from GPUCONF_ABI_VERSION. */
int gpuconf_abi_version(void);

/*
 * Lists the GPUs and creates the pools, as gpuconf.config.list_logical_devices() does in Python, unless they exist. The
 * environment decides: GPUCONF_LIMIT, NVIDIA_GPU_MEMORY_LIMIT, GPUCONF_SIMULATE, CUDA_VISIBLE_DEVICES and the others;
 * settings files are read in Python only. In a Python program, configure gpuconf and initialize it there.
 *
 * Returns 1, or 0 on failure, also if there is no GPU (see gpuconf_last_error). May be called again.
 */
int gpuconf_init(void);

/*
 * Allocates size bytes of device memory, aligned to 256 bytes.
 *
 * device is the CUDA device ordinal in this process. The memory comes from the logical GPU of the calling thread's
 * scope
 * (`with gpuconf.device("GPU:1"):`) if that is on this device, else from the logical GPU that stream represents
 * (gpuconf_logical_stream), else from the first logical GPU of the device. Call gpuconf_init() first, or initialize
 * gpuconf in Python. stream is the CUDA stream on which the memory is first used.
 *
 * Memory allocated while the stream is being captured belongs to the captured graph until the graph is destroyed. If it
 * is freed before, only the same capture can reuse it.
 *
 * Returns NULL for size 0, on failure (see gpuconf_last_error), and in a child process forked after gpuconf was loaded.
 */
void *gpuconf_malloc(size_t size, int device, void *stream);

/*
 * Frees memory, identified by its address; size and device are ignored. stream is the stream of the last use, or NULL
 * for the stream that the memory was allocated for, which may have been destroyed since. The memory is not reused
 * before the work queued on that stream is done. A NULL address is ignored. An address that gpuconf_malloc did not
 * return, or one already freed, changes nothing and sets gpuconf_last_error. A stream that was destroyed must not be
 * passed: NVIDIA's driver crashes on it.
 */
void gpuconf_free(void *ptr, size_t size, int device, void *stream);

/*
 * Marks memory from gpuconf_malloc as used on a stream other than the one it was allocated for. After it is freed, the
 * memory is not reused before the work queued on that stream is done. Returns 1, or 0 and sets gpuconf_last_error if
 * ptr is not a live block. NULL is ignored.
 */
int gpuconf_record_stream(void *ptr, void *stream);

/*
 * Counts what the calling thread allocates from now on under a tag, as gpuconf.memory.tag does, until gpuconf_tag_pop.
 * Tags nest: the innermost counts. name is UTF-8, at most 200 bytes, without control characters; it is copied. Both
 * return 1, or 0 and set gpuconf_last_error if the name is invalid, or there is no tag to pop. gpuconf.memory.usage()
 * returns the memory by tag.
 */
int gpuconf_tag_push(const char *name);
int gpuconf_tag_pop(void);

/*
 * Returns the error message of the calling thread's last call, or "" if it succeeded. Valid until the thread's next
 * call.
 */
const char *gpuconf_last_error(void);

/*
 * Gets a stream that represents a logical GPU (0 for GPU:0): if a thread without a scope allocates for this stream, the
 * memory comes from that logical GPU. For the first logical GPU of a device the stream is NULL, the default stream. It
 * is valid until the devices are reset, and synchronizes with the legacy default stream. Returns 1, or 0 on failure.
 */
int gpuconf_logical_stream(int logical, void **stream);

/* Returns the base address of the driver allocation that contains ptr, and its size, for CUDA IPC. NULL on failure. */
void *gpuconf_region(void *ptr, size_t *size);

/* Returns memory that contains no block to the GPUs. Returns 1, or 0 on failure. */
int gpuconf_trim(void);

/*
 * For torch.cuda.memory.CUDAPluggableAllocator, with its signatures. If PyTorch ignores the result of a function, it
 * throws a C++ exception instead: c10::OutOfMemoryError (torch.OutOfMemoryError in Python) if out of memory, else
 * std::runtime_error.
 */
void *gpuconf_torch_malloc(ssize_t size, int device, void *stream);
void gpuconf_torch_free(void *ptr, ssize_t size, int device, void *stream);
void gpuconf_torch_record_stream(void *ptr, void *stream);
void gpuconf_torch_reset(void);
void gpuconf_torch_memory_fraction(double fraction, int device);
void *gpuconf_torch_base_alloc(void *ptr, size_t *size);

/*
 * Makes gpuconf supply the segments of PyTorch's own caching allocator: the memory that libc10_cuda.so, which must be
 * loaded, requests with cudaMalloc from now on. Returns 1, or 0 on failure. Cannot be undone.
 */
int gpuconf_torch_redirect(void);

/* For cupy.cuda.CFunctionAllocator. param is NULL, or a CuPy function that returns the thread's current stream. */
void *gpuconf_cupy_malloc(void *param, size_t size, int device);
void gpuconf_cupy_free(void *param, void *ptr, int device);

/* gpuconf_malloc for gpuconf's plug-ins in Python, which count as a library of their own in gpuconf.memory.usage(). */
void *gpuconf_library_malloc(int library, size_t size, int device, void *stream);

#ifdef __cplusplus
}
#endif

#endif
