/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the CUDA libraries that PyTorch imports: the CUDA runtime over the simulated driver, and libraries that
 * compute nothing. Memory, streams, events and graphs are the driver's. A launch has no effect, except that it is a
 * node of a graph under capture.
 *
 * It is loaded with RTLD_GLOBAL after the simulated libcuda.so.1, whose functions it uses, and before PyTorch
 * (simulation/stand_ins.py).
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* CUDA's numbers: the driver's and the runtime's are equal for these. */
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONFIGURATION = 9, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

struct dim3 {
	unsigned x, y, z;
};

/* cudaIpcMemHandle_t and cudaIpcEventHandle_t, which are the driver's. */
struct ipc_bytes {
	char reserved[64];
};

/* The versions of the libraries that this PyTorch was built for. */
struct versions {
	int cuda, cudnn, nccl, cublas;
};
extern struct versions versions;

/* fork.c: no thread has these at a fork, so that no child waits for one for ever. None is taken under another one, in
 * this order. */
extern pthread_mutex_t cudnn_lock, kernels_lock, names_lock;

/* Remembers an error for cudaGetLastError, and returns it. */
int keep(int result);

/* Makes the primary context of the thread's device current, unless a context is. */
int begin(void);

/* Ends a function with a call that needs a context. */
#define IN_CONTEXT(call) \
	int result = begin(); \
	return keep(result != SUCCESS ? result : (call))

/* Copies in a stream's order. Host memory that is not page-locked is copied before the call returns, as CUDA may. */
int copy_async(void *to, const void *from, size_t bytes, void *stream);

/* The value of an attribute of the current device; 0 if it has none. */
int attribute_here(int attribute);

/* Notes a function that does nothing but return that it is not supported, once for each name. */
void not_done(const char *name);

/* The driver's, but for what ofdriver.c declares. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorString(int result, const char **text);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int room, int device);
int cuDeviceGetUuid(void *uuid, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetPCIBusId(char *text, int room, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuCtxGetDevice(int *device);
int cuCtxSynchronize(void);
int cuCtxEnablePeerAccess(void *context, unsigned flags);
int cuCtxDisablePeerAccess(void *context);
int cuMemAlloc_v2(void **out, size_t bytes);
int cuMemFree_v2(void *address);
int cuMemFreeHost(void *address);
int cuMemcpy(void *to, const void *from, size_t bytes);
int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream);
int cuMemsetD8_v2(void *to, unsigned char value, size_t bytes);
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream);
int cuPointerGetAttribute(void *out, int attribute, const void *address);
int cuStreamCreateWithPriority(void **out, unsigned flags, int priority);
int cuStreamSynchronize(void *stream);
int cuStreamIsCapturing(void *stream, int *status);
int cuStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies,
    const void **edges, size_t *count);
int cuStreamUpdateCaptureDependencies(void *stream, void *dependencies, size_t count, unsigned flags);
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
int cuEventCreate(void **out, unsigned flags);
int cuGraphLaunch(void *executable, void *stream);
int cuMemPrefetchAsync(const void *address, size_t bytes, int device, void *stream);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

#endif
