/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the CUDA libraries that PyTorch imports: the CUDA runtime over the simulated driver, and libraries that compute nothing.
 * Memory, streams, events and graphs are the driver's. A launch has no effect, except that it is a node of a graph under capture.
 *
 * It is loaded with RTLD_GLOBAL after the simulated libcuda.so.1, whose functions it uses, and before PyTorch (_core/simulated_torch.py).
 */
#ifndef RUNTIME_H
#define RUNTIME_H

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

/* Remembers an error for cudaGetLastError, and returns it. */
int keep(int result);

/* Makes the primary context of the thread's device current, unless a context is. */
int begin(void);

/* Copies in a stream's order. Host memory that is not page-locked is copied before the call returns, as CUDA may. */
int copy_async(void *to, const void *from, size_t bytes, void *stream);

/* The value of an attribute of the current device; 0 if it has none. */
int attribute_here(int attribute);

/* Notes a function that does nothing but return that it is not supported, once for each name. */
void not_done(const char *name);

/* The driver's. */
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
int cuDeviceGetDefaultMemPool(void **pool, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuCtxGetDevice(int *device);
int cuCtxSynchronize(void);
int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuCtxEnablePeerAccess(void *context, unsigned flags);
int cuMemGetInfo_v2(size_t *free, size_t *total);
int cuMemAlloc_v2(void **out, size_t bytes);
int cuMemFree_v2(void *address);
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
int cuMemFreeHost(void *address);
int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *address);
int cuMemAllocAsync(void **out, size_t bytes, void *stream);
int cuMemFreeAsync(void *address, void *stream);
int cuMemPoolTrimTo(void *pool, size_t keep);
int cuMemPoolGetAttribute(void *pool, int attribute, void *value);
int cuMemPoolSetAttribute(void *pool, int attribute, void *value);
int cuMemPoolSetAccess(void *pool, const void *access, size_t count);
int cuMemcpy(void *to, const void *from, size_t bytes);
int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream);
int cuMemsetD8_v2(void *to, unsigned char value, size_t bytes);
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream);
int cuPointerGetAttribute(void *out, int attribute, const void *address);
int cuStreamCreateWithPriority(void **out, unsigned flags, int priority);
int cuStreamDestroy_v2(void *stream);
int cuStreamQuery(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamGetPriority(void *stream, int *priority);
int cuStreamAddCallback(void *stream, void *callback, void *data, unsigned flags);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuStreamIsCapturing(void *stream, int *status);
int cuStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies, const void **edges, size_t *count);
int cuStreamUpdateCaptureDependencies(void *stream, void *dependencies, size_t count, unsigned flags);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
int cuEventCreate(void **out, unsigned flags);
int cuEventDestroy_v2(void *event);
int cuEventQuery(void *event);
int cuEventRecord(void *event, void *stream);
int cuEventRecordWithFlags(void *event, void *stream, unsigned flags);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *ms, void *start, void *end);
int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags);
int cuGraphLaunch(void *executable, void *stream);
int cuGraphDestroy(void *graph);
int cuGraphExecDestroy(void *executable);
int cuGraphAddEmptyNode(void **node, void *graph, const void *after, size_t count);
int cuGraphGetNodes(void *graph, void *nodes, size_t *count);
int cuGraphNodeGetType(void *node, int *type);
int cuUserObjectCreate(void **out, void *data, void (*destroy)(void *), unsigned references, unsigned flags);
int cuUserObjectRelease(void *object, unsigned count);
int cuGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags);
int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value);
int cuMemAllocManaged(void **out, size_t bytes, unsigned flags);
int cuMemPrefetchAsync(const void *address, size_t bytes, int device, void *stream);
int cuMemHostGetDevicePointer_v2(void **out, void *address, unsigned flags);
int cuIpcGetMemHandle(struct ipc_bytes *handle, void *address);
int cuIpcOpenMemHandle_v2(void **out, struct ipc_bytes handle, unsigned flags);
int cuIpcCloseMemHandle(void *address);
int cuIpcGetEventHandle(struct ipc_bytes *handle, void *event);
int cuIpcOpenEventHandle(void **out, struct ipc_bytes handle);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

#endif
