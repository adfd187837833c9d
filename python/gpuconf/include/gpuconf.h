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
 * thread's scope names (`with gpuconf.device("GPU:1"):`) if that lies on this ordinal, else from the ordinal's first
 * logical GPU. The Python program must have initialised gpuconf (gpuconf.config.list_logical_devices() does). stream is the
 * CUDA stream on which the memory is used first.
 *
 * Returns NULL for size 0, on failure (gpuconf_last_error tells why), and in a child forked after gpuconf was loaded.
 */
void *gpuconf_malloc(size_t size, int device, void *stream);

/*
 * Gives memory back by its address. size, device and stream are what the caller knows; the address alone decides.
 * NULL is ignored. An address that gpuconf_malloc didn't give, or that was given back before, changes
 * nothing and leaves a message in gpuconf_last_error.
 */
void gpuconf_free(void *ptr, size_t size, int device, void *stream);

/*
 * Why the last gpuconf_malloc or gpuconf_free of this thread failed; "" if it did not. The text belongs to the thread and
 * lives until its next call.
 */
const char *gpuconf_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
