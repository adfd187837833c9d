/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events, captures and graphs, and what is the driver's function under another name
 * (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html and group__CUDART__GRAPH.html). The
 * runtime adds the primary context of the thread's device, and remembers errors; all else is the driver's.
 */
#include "runtime.h"

EXPORT int cudaStreamCreateWithFlags(void **out, unsigned flags) {
	IN_CONTEXT(cuStreamCreateWithPriority(out, flags, 0));
}

EXPORT int cudaStreamCreate(void **out) { IN_CONTEXT(cuStreamCreateWithPriority(out, 0, 0)); }

EXPORT int cudaEventCreate(void **out) { IN_CONTEXT(cuEventCreate(out, 0)); }

/* Dependencies without their edges' data are refused by the driver only where edges have some, and here none does. */
static int capture_info(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies,
    const void **edges, size_t *count) {
	IN_CONTEXT(cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count));
}

EXPORT int cudaStreamGetCaptureInfo_v2(
    void *stream, int *status, uint64_t *id, void **graph, const void **dependencies, size_t *count) {
	return capture_info(stream, status, id, graph, dependencies, NULL, count);
}

EXPORT int cudaStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies,
    const void **edges, size_t *count) {
	return capture_info(stream, status, id, graph, dependencies, edges, count);
}

/* The last four came in CUDA 13. */
EXPORT int cudaStreamGetCaptureInfo(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies,
    const void **edges, size_t *count) {
	return versions.cuda < 13000 ? capture_info(stream, status, id, NULL, NULL, NULL, NULL)
	                             : capture_info(stream, status, id, graph, dependencies, edges, count);
}

/* The arguments are (stream, nodes, count, flags); in CUDA 13 (stream, nodes, edges, count, flags). */
EXPORT int cudaStreamUpdateCaptureDependencies(
    void *stream, void *nodes, uintptr_t third, uintptr_t fourth, uintptr_t fifth) {
	size_t count = versions.cuda < 13000 ? third : fourth;
	IN_CONTEXT(
	    cuStreamUpdateCaptureDependencies(stream, nodes, count, (unsigned)(versions.cuda < 13000 ? fourth : fifth)));
}

/* Graphs, and the function that is called at their launches. */

static void (*launched)(void *executable);

EXPORT void gpuconf_runtime_on_graph_launch(void (*callback)(void *executable)) {
	__atomic_store_n(&launched, callback, __ATOMIC_RELEASE);
}

/* What the graph copies and fills is done by the driver. The function that is called at the launch computes what its
 * kernels would. */
static int replay(void *executable, void *stream) {
	void (*call)(void *) = __atomic_load_n(&launched, __ATOMIC_ACQUIRE);
	int result = call == NULL ? computes("cudaGraphLaunch") : SUCCESS;
	if (result == SUCCESS)
		result = cuGraphLaunch(executable, stream);
	if (result == SUCCESS && call != NULL)
		call(executable);
	return result;
}

EXPORT int cudaGraphLaunch(void *executable, void *stream) { IN_CONTEXT(replay(executable, stream)); }

/* Functions of the CUDA runtime that are the driver's, in the context of the thread's device. */

#define OF_DRIVER(name, function, parameters, arguments) \
	int function parameters; \
	EXPORT int name parameters { IN_CONTEXT(function arguments); }
OF_DRIVER(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
OF_DRIVER(cudaMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total), (free, total))
OF_DRIVER(cudaHostAlloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags), (out, bytes, flags))
OF_DRIVER(
    cudaHostRegister, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags), (address, bytes, flags))
OF_DRIVER(cudaHostUnregister, cuMemHostUnregister, (void *address), (address))
OF_DRIVER(cudaMallocAsync, cuMemAllocAsync, (void **out, size_t bytes, void *stream), (out, bytes, stream))
OF_DRIVER(cudaFreeAsync, cuMemFreeAsync, (void *address, void *stream), (address, stream))
OF_DRIVER(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (void **pool, int device), (pool, device))
OF_DRIVER(cudaMemPoolTrimTo, cuMemPoolTrimTo, (void *pool, size_t bytes), (pool, bytes))
OF_DRIVER(
    cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (void *pool, int attribute, void *value), (pool, attribute, value))
OF_DRIVER(
    cudaMemPoolSetAttribute, cuMemPoolSetAttribute, (void *pool, int attribute, void *value), (pool, attribute, value))
OF_DRIVER(
    cudaMemPoolSetAccess, cuMemPoolSetAccess, (void *pool, const void *access, size_t count), (pool, access, count))
OF_DRIVER(cudaStreamCreateWithPriority, cuStreamCreateWithPriority, (void **out, unsigned flags, int priority),
    (out, flags, priority))
OF_DRIVER(cudaStreamDestroy, cuStreamDestroy_v2, (void *stream), (stream))
OF_DRIVER(cudaStreamQuery, cuStreamQuery, (void *stream), (stream))
OF_DRIVER(cudaStreamSynchronize, cuStreamSynchronize, (void *stream), (stream))
OF_DRIVER(cudaStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags))
OF_DRIVER(cudaStreamGetPriority, cuStreamGetPriority, (void *stream, int *priority), (stream, priority))
OF_DRIVER(cudaStreamAddCallback, cuStreamAddCallback, (void *stream, void *callback, void *data, unsigned flags),
    (stream, callback, data, flags))
OF_DRIVER(cudaLaunchHostFunc, cuLaunchHostFunc, (void *stream, void (*function)(void *), void *data),
    (stream, function, data))
OF_DRIVER(cudaEventCreateWithFlags, cuEventCreate, (void **out, unsigned flags), (out, flags))
OF_DRIVER(cudaEventDestroy, cuEventDestroy_v2, (void *event), (event))
OF_DRIVER(cudaEventQuery, cuEventQuery, (void *event), (event))
OF_DRIVER(cudaEventRecord, cuEventRecord, (void *event, void *stream), (event, stream))
OF_DRIVER(cudaEventRecordWithFlags, cuEventRecordWithFlags, (void *event, void *stream, unsigned flags),
    (event, stream, flags))
OF_DRIVER(cudaEventSynchronize, cuEventSynchronize, (void *event), (event))
OF_DRIVER(cudaEventElapsedTime, cuEventElapsedTime, (float *ms, void *start, void *end), (ms, start, end))
OF_DRIVER(cudaStreamBeginCapture, cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode))
OF_DRIVER(cudaStreamEndCapture, cuStreamEndCapture, (void *stream, void **graph), (stream, graph))
OF_DRIVER(cudaStreamIsCapturing, cuStreamIsCapturing, (void *stream, int *status), (stream, status))
OF_DRIVER(cudaThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode), (mode))
OF_DRIVER(cudaGraphInstantiate, cuGraphInstantiateWithFlags, (void **out, void *graph, unsigned long long flags),
    (out, graph, flags))
OF_DRIVER(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,
    (void **out, void *graph, unsigned long long flags), (out, graph, flags))
OF_DRIVER(cudaGraphDestroy, cuGraphDestroy, (void *graph), (graph))
OF_DRIVER(cudaGraphExecDestroy, cuGraphExecDestroy, (void *executable), (executable))
OF_DRIVER(cudaGraphGetNodes, cuGraphGetNodes, (void *graph, void *nodes, size_t *count), (graph, nodes, count))
OF_DRIVER(cudaGraphNodeGetType, cuGraphNodeGetType, (void *node, int *type), (node, type))
OF_DRIVER(cudaGraphAddEmptyNode, cuGraphAddEmptyNode, (void **node, void *graph, const void *after, size_t count),
    (node, graph, after, count))
OF_DRIVER(cudaUserObjectCreate, cuUserObjectCreate,
    (void **out, void *data, void (*destroy)(void *), unsigned references, unsigned flags),
    (out, data, destroy, references, flags))
OF_DRIVER(cudaUserObjectRelease, cuUserObjectRelease, (void *object, unsigned count), (object, count))
OF_DRIVER(cudaGraphRetainUserObject, cuGraphRetainUserObject,
    (void *graph, void *object, unsigned count, unsigned flags), (graph, object, count, flags))
OF_DRIVER(cudaIpcGetMemHandle, cuIpcGetMemHandle, (struct ipc_bytes * handle, void *address), (handle, address))
OF_DRIVER(cudaIpcOpenMemHandle, cuIpcOpenMemHandle_v2, (void **out, struct ipc_bytes handle, unsigned flags),
    (out, handle, flags))
OF_DRIVER(cudaIpcCloseMemHandle, cuIpcCloseMemHandle, (void *address), (address))
OF_DRIVER(cudaIpcGetEventHandle, cuIpcGetEventHandle, (struct ipc_bytes * handle, void *event), (handle, event))
OF_DRIVER(cudaIpcOpenEventHandle, cuIpcOpenEventHandle, (void **out, struct ipc_bytes handle), (out, handle))
