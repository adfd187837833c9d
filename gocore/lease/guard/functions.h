/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the driver and of NVML that the guard stands before (HOOKS), and those that it only calls (CALLS).
 *
 *     X(exported name, base name, CUDA version, stream flag, parameters, arguments)
 *
 * Base name, version and flag are what cuGetProcAddress takes to return this form. The flag is 2 for the forms with a
 * per-thread default stream (_ptsz). A form without base name is found by dlsym only.
 */
#ifndef GPUCONF_GUARD_FUNCTIONS_H
#define GPUCONF_GUARD_FUNCTIONS_H

#include "cuda_types.h"

#define LINEAR_HOOKS(X) \
	X(cuMemAlloc, "cuMemAlloc", 2000, 0, (CUdeviceptr_v1 * out, unsigned int bytes), (out, bytes)) \
	X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, (CUdeviceptr * out, size_t bytes), (out, bytes)) \
	X(cuMemAllocPitch, "cuMemAllocPitch", 2000, 0, \
	    (CUdeviceptr_v1 * out, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element), \
	    (out, pitch, width, height, element)) \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0, \
	    (CUdeviceptr * out, size_t *pitch, size_t width, size_t height, unsigned int element), \
	    (out, pitch, width, height, element)) \
	X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0, (CUdeviceptr * out, size_t bytes, unsigned int flags), \
	    (out, bytes, flags)) \
	X(cuMemFree, "cuMemFree", 2000, 0, (CUdeviceptr_v1 address), (address)) \
	X(cuMemFree_v2, "cuMemFree", 3020, 0, (CUdeviceptr address), (address))

#define POOL_HOOKS(X) \
	X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0, (CUdeviceptr * out, size_t bytes, CUstream stream), \
	    (out, bytes, stream)) \
	X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 2, (CUdeviceptr * out, size_t bytes, CUstream stream), \
	    (out, bytes, stream)) \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0, \
	    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream), (out, bytes, pool, stream)) \
	X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 2, \
	    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream), (out, bytes, pool, stream)) \
	X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0, (CUdeviceptr address, CUstream stream), (address, stream)) \
	X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 2, (CUdeviceptr address, CUstream stream), (address, stream)) \
	X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0, (CUmemoryPool * out, const CUmemPoolProps *props), (out, props)) \
	X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, (CUmemoryPool pool), (pool)) \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0, (CUmemoryPool pool, size_t keep), (pool, keep)) \
	X(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, 0, \
	    (CUmemoryPool * out, void *handle, int type, unsigned long long flags), (out, handle, type, flags)) \
	X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, (CUdevice device, CUmemoryPool pool), (device, pool)) \
	X(cuMemGetDefaultMemPool, "cuMemGetDefaultMemPool", 13000, 0, \
	    (CUmemoryPool * out, const CUmemLocation *location, int type), (out, location, type)) \
	X(cuMemGetMemPool, "cuMemGetMemPool", 13000, 0, (CUmemoryPool * out, const CUmemLocation *location, int type), \
	    (out, location, type)) \
	X(cuMemSetMemPool, "cuMemSetMemPool", 13000, 0, (CUmemLocation * location, int type, CUmemoryPool pool), \
	    (location, type, pool)) \
	X(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0, (CUstream stream), (stream)) \
	X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, 2, (CUstream stream), (stream)) \
	X(cuEventSynchronize, "cuEventSynchronize", 2000, 0, (CUevent event), (event)) \
	X(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0, (void), ()) \
	X(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, 0, (CUcontext context), (context))

#define VIRTUAL_HOOKS(X) \
	X(cuMemCreate, "cuMemCreate", 10020, 0, \
	    (CUmemGenericAllocationHandle * out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags), \
	    (out, bytes, prop, flags)) \
	X(cuMemRelease, "cuMemRelease", 10020, 0, (CUmemGenericAllocationHandle handle), (handle)) \
	X(cuMemMap, "cuMemMap", 10020, 0, \
	    (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, \
	        unsigned long long flags), \
	    (address, bytes, offset, handle, flags)) \
	X(cuMemUnmap, "cuMemUnmap", 10020, 0, (CUdeviceptr address, size_t bytes), (address, bytes)) \
	X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0, \
	    (CUmemGenericAllocationHandle * out, void *address), (out, address)) \
	X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, 0, \
	    (void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags), \
	    (out, handle, type, flags)) \
	X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0, \
	    (CUmemGenericAllocationHandle * out, void *shared, int type), (out, shared, type)) \
	X(cuMemMapArrayAsync, "cuMemMapArrayAsync", 11010, 0, \
	    (CUarrayMapInfo * list, unsigned int count, CUstream stream), (list, count, stream)) \
	X(cuMemMapArrayAsync_ptsz, "cuMemMapArrayAsync", 11010, 2, \
	    (CUarrayMapInfo * list, unsigned int count, CUstream stream), (list, count, stream)) \
	X(cuMulticastBindMem, "cuMulticastBindMem", 12010, 0, \
	    (CUmemGenericAllocationHandle multicast, size_t at, CUmemGenericAllocationHandle handle, size_t offset, \
	        size_t bytes, unsigned long long flags), \
	    (multicast, at, handle, offset, bytes, flags)) \
	X(cuMulticastBindMem_v2, "cuMulticastBindMem", 13010, 0, \
	    (CUmemGenericAllocationHandle multicast, CUdevice device, size_t at, CUmemGenericAllocationHandle handle, \
	        size_t offset, size_t bytes, unsigned long long flags), \
	    (multicast, device, at, handle, offset, bytes, flags)) \
	X(cuMulticastBindAddr, "cuMulticastBindAddr", 12010, 0, \
	    (CUmemGenericAllocationHandle multicast, size_t at, CUdeviceptr address, size_t bytes, \
	        unsigned long long flags), \
	    (multicast, at, address, bytes, flags)) \
	X(cuMulticastBindAddr_v2, "cuMulticastBindAddr", 13010, 0, \
	    (CUmemGenericAllocationHandle multicast, CUdevice device, size_t at, CUdeviceptr address, size_t bytes, \
	        unsigned long long flags), \
	    (multicast, device, at, address, bytes, flags)) \
	X(cuMulticastUnbind, "cuMulticastUnbind", 12010, 0, \
	    (CUmemGenericAllocationHandle multicast, CUdevice device, size_t at, size_t bytes), \
	    (multicast, device, at, bytes))

#define ARRAY_HOOKS(X) \
	X(cuArrayCreate, "cuArrayCreate", 2000, 0, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR_v1 *shape), (out, shape)) \
	X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR *shape), (out, shape)) \
	X(cuArray3DCreate, "cuArray3DCreate", 2000, 0, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape), \
	    (out, shape)) \
	X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *shape), \
	    (out, shape)) \
	X(cuArrayDestroy, "cuArrayDestroy", 2000, 0, (CUarray array), (array)) \
	X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0, \
	    (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels), (out, shape, levels)) \
	X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0, (CUmipmappedArray array), (array))

#define GRAPH_HOOKS(X) \
	X(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0, \
	    (CUgraphExec * out, CUgraph graph, CUgraphNode * node, char *text, size_t room), \
	    (out, graph, node, text, room)) \
	X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0, \
	    (CUgraphExec * out, CUgraph graph, CUgraphNode * node, char *text, size_t room), \
	    (out, graph, node, text, room)) \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0, \
	    (CUgraphExec * out, CUgraph graph, unsigned long long flags), (out, graph, flags)) \
	X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0, \
	    (CUgraphExec * out, CUgraph graph, void *params), (out, graph, params)) \
	X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 2, \
	    (CUgraphExec * out, CUgraph graph, void *params), (out, graph, params)) \
	X(cuGraphUpload, "cuGraphUpload", 11010, 0, (CUgraphExec exec, CUstream stream), (exec, stream)) \
	X(cuGraphUpload_ptsz, "cuGraphUpload", 11010, 2, (CUgraphExec exec, CUstream stream), (exec, stream)) \
	X(cuGraphLaunch, "cuGraphLaunch", 10000, 0, (CUgraphExec exec, CUstream stream), (exec, stream)) \
	X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 2, (CUgraphExec exec, CUstream stream), (exec, stream)) \
	X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0, (CUgraphExec exec), (exec)) \
	X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0, (CUdevice device), (device))

#define CONTEXT_HOOKS(X) \
	X(cuCtxCreate, "cuCtxCreate", 2000, 0, (CUcontext * out, unsigned int flags, CUdevice device), \
	    (out, flags, device)) \
	X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0, (CUcontext * out, unsigned int flags, CUdevice device), \
	    (out, flags, device)) \
	X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0, \
	    (CUcontext * out, void *affinity, int count, unsigned int flags, CUdevice device), \
	    (out, affinity, count, flags, device)) \
	X(cuCtxCreate_v4, "cuCtxCreate", 12050, 0, (CUcontext * out, void *params, unsigned int flags, CUdevice device), \
	    (out, params, flags, device)) \
	X(cuCtxDestroy, "cuCtxDestroy", 2000, 0, (CUcontext context), (context)) \
	X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0, (CUcontext context), (context)) \
	X(cuCtxSetLimit, "cuCtxSetLimit", 3010, 0, (int limit, size_t value), (limit, value)) \
	X(cuCtxDetach, "cuCtxDetach", 2000, 0, (CUcontext context), (context)) \
	X(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, 0, \
	    (CUgreenCtx * out, void *resources, CUdevice device, unsigned int flags), (out, resources, device, flags)) \
	X(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, 0, (CUgreenCtx context), (context)) \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, (CUcontext * out, CUdevice device), \
	    (out, device)) \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0, (CUdevice device), (device)) \
	X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0, (CUdevice device), (device)) \
	X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, (CUdevice device), (device)) \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, (CUdevice device), (device))

#define QUERY_HOOKS(X) \
	X(cuMemGetInfo, "cuMemGetInfo", 2000, 0, (unsigned int *available, unsigned int *total), (available, total)) \
	X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0, (size_t *available, size_t *total), (available, total)) \
	X(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, 0, (unsigned int *bytes, CUdevice device), (bytes, device)) \
	X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0, (size_t *bytes, CUdevice device), (bytes, device)) \
	X(cuGetProcAddress, "cuGetProcAddress", 11030, 0, (const char *symbol, void **out, int version, uint64_t flags), \
	    (symbol, out, version, flags)) \
	X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0, \
	    (const char *symbol, void **out, int version, uint64_t flags, int *status), \
	    (symbol, out, version, flags, status))

#define CUDA_HOOKS(X) \
	LINEAR_HOOKS(X) POOL_HOOKS(X) VIRTUAL_HOOKS(X) ARRAY_HOOKS(X) GRAPH_HOOKS(X) CONTEXT_HOOKS(X) QUERY_HOOKS(X)

#define NVML_HOOKS(X) \
	X(nvmlDeviceGetMemoryInfo, NULL, 0, 0, (void *device, nvmlMemory *memory), (device, memory)) \
	X(nvmlDeviceGetMemoryInfo_v2, NULL, 0, 0, (void *device, nvmlMemory_v2 *memory), (device, memory))

#define CUDA_CALLS(X) \
	X(cuDeviceGetCount, NULL, 0, 0, (int *count), (count)) \
	X(cuDeviceGetUuid, NULL, 0, 0, (uint8_t *uuid, CUdevice device), (uuid, device)) \
	X(cuDeviceGetUuid_v2, NULL, 0, 0, (uint8_t *uuid, CUdevice device), (uuid, device)) \
	X(cuCtxGetDevice, NULL, 0, 0, (CUdevice * device), (device)) \
	X(cuCtxGetCurrent, NULL, 0, 0, (CUcontext * context), (context)) \
	X(cuCtxGetApiVersion, NULL, 0, 0, (CUcontext context, unsigned int *version), (context, version)) \
	X(cuDevicePrimaryCtxGetState, NULL, 0, 0, (CUdevice device, unsigned int *flags, int *active), \
	    (device, flags, active)) \
	X(cuDeviceGetMemPool, NULL, 0, 0, (CUmemoryPool * pool, CUdevice device), (pool, device)) \
	X(cuDeviceGetDefaultMemPool, NULL, 0, 0, (CUmemoryPool * pool, CUdevice device), (pool, device)) \
	X(cuMemPoolGetAttribute, NULL, 0, 0, (CUmemoryPool pool, int attribute, void *value), (pool, attribute, value)) \
	X(cuStreamGetCtx, NULL, 0, 0, (CUstream stream, CUcontext * context), (stream, context)) \
	X(cuStreamQuery, NULL, 0, 0, (CUstream stream), (stream)) \
	X(cuStreamIsCapturing, NULL, 0, 0, (CUstream stream, int *status), (stream, status)) \
	X(cuStreamIsCapturing_ptsz, NULL, 0, 0, (CUstream stream, int *status), (stream, status)) \
	X(cuGraphGetNodes, NULL, 0, 0, (CUgraph graph, CUgraphNode * nodes, size_t *count), (graph, nodes, count)) \
	X(cuGraphNodeGetType, NULL, 0, 0, (CUgraphNode node, int *type), (node, type)) \
	X(cuGraphMemAllocNodeGetParams, NULL, 0, 0, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS * params), \
	    (node, params)) \
	X(cuGraphMemFreeNodeGetParams, NULL, 0, 0, (CUgraphNode node, CUdeviceptr * address), (node, address)) \
	X(cuGraphChildGraphNodeGetGraph, NULL, 0, 0, (CUgraphNode node, CUgraph * graph), (node, graph)) \
	X(cuDeviceGetGraphMemAttribute, NULL, 0, 0, (CUdevice device, int attribute, void *value), \
	    (device, attribute, value))

#define NVML_CALLS(X) \
	X(nvmlDeviceGetUUID, NULL, 0, 0, (void *device, char *text, unsigned int room), (device, text, room))

#define ALL_FUNCTIONS(X) CUDA_HOOKS(X) CUDA_CALLS(X) NVML_HOOKS(X) NVML_CALLS(X)

#endif
