/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of driver functions. A line is
 *
 *     X(field, base name, exported name, CUDA version, parameters)
 *
 * where the version is the one in which this form of the function appeared (1000 * major + 10 * minor), as
 * cuGetProcAddress expects it, and the exported name is the one for dlsym.
 *
 * A function not newer than OLDEST_CUDA is required: a driver without it cannot be used. A newer one may be missing;
 * then only the calls that need it fail.
 */
#ifndef GPUCONF_CUDA_SYMBOLS_H
#define GPUCONF_CUDA_SYMBOLS_H

#include "cuda_abi.h"

#define OLDEST_CUDA 11000

#define CUDA_SYMBOLS(X) \
	X(cuInit, "cuInit", "cuInit", 2000, (unsigned int flags)) \
	X(cuDriverGetVersion, "cuDriverGetVersion", "cuDriverGetVersion", 2020, (int *version)) \
	X(cuDeviceGetCount, "cuDeviceGetCount", "cuDeviceGetCount", 2000, (int *count)) \
	X(cuDeviceGet, "cuDeviceGet", "cuDeviceGet", 2000, (CUdevice * device, int ordinal)) \
	X(cuDeviceGetName, "cuDeviceGetName", "cuDeviceGetName", 2000, (char *name, int bytes, CUdevice device)) \
	X(cuDeviceGetUuid, "cuDeviceGetUuid", "cuDeviceGetUuid", 9020, (CUuuid * uuid, CUdevice device)) \
	X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040, (CUuuid * uuid, CUdevice device)) \
	X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", "cuDeviceGetPCIBusId", 4010, (char *id, int bytes, CUdevice device)) \
	X(cuDeviceGetAttribute, "cuDeviceGetAttribute", "cuDeviceGetAttribute", 2000, \
	    (int *value, int attribute, CUdevice device)) \
	X(cuDeviceTotalMem, "cuDeviceTotalMem", "cuDeviceTotalMem_v2", 3020, (size_t *bytes, CUdevice device)) \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, \
	    (CUcontext * context, CUdevice device)) \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000, \
	    (CUdevice device)) \
	X(cuCtxGetCurrent, "cuCtxGetCurrent", "cuCtxGetCurrent", 4000, (CUcontext * context)) \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", "cuCtxSetCurrent", 4000, (CUcontext context)) \
	X(cuCtxPushCurrent, "cuCtxPushCurrent", "cuCtxPushCurrent_v2", 4000, (CUcontext context)) \
	X(cuCtxPopCurrent, "cuCtxPopCurrent", "cuCtxPopCurrent_v2", 4000, (CUcontext * context)) \
	X(cuCtxSynchronize, "cuCtxSynchronize", "cuCtxSynchronize", 2000, (void)) \
	X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode", \
	    10010, (int *mode)) \
	X(cuMemGetInfo, "cuMemGetInfo", "cuMemGetInfo_v2", 3020, (size_t *free, size_t *total)) \
	X(cuMemAlloc, "cuMemAlloc", "cuMemAlloc_v2", 3020, (CUdeviceptr * addr, size_t bytes)) \
	X(cuMemAllocManaged, "cuMemAllocManaged", "cuMemAllocManaged", 6000, \
	    (CUdeviceptr * addr, size_t bytes, unsigned int flags)) \
	X(cuMemFree, "cuMemFree", "cuMemFree_v2", 3020, (CUdeviceptr addr)) \
	X(cuMemcpyHtoD, "cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020, (CUdeviceptr dst, const void *src, size_t bytes)) \
	X(cuMemcpyDtoH, "cuMemcpyDtoH", "cuMemcpyDtoH_v2", 3020, (void *dst, CUdeviceptr src, size_t bytes)) \
	X(cuMemsetD8, "cuMemsetD8", "cuMemsetD8_v2", 3020, (CUdeviceptr dst, unsigned char value, size_t bytes)) \
	X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 3020, \
	    (void *dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", 3020, \
	    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
	X(cuMemsetD8Async, "cuMemsetD8Async", "cuMemsetD8Async", 3020, \
	    (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)) \
	X(cuMemHostAlloc, "cuMemHostAlloc", "cuMemHostAlloc", 2020, (void **memory, size_t bytes, unsigned int flags)) \
	X(cuMemFreeHost, "cuMemFreeHost", "cuMemFreeHost", 2000, (void *memory)) \
	X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", "cuMemGetAllocationGranularity", 10020, \
	    (size_t *bytes, const CUmemAllocationProp *prop, int option)) \
	X(cuMemAddressReserve, "cuMemAddressReserve", "cuMemAddressReserve", 10020, \
	    (CUdeviceptr * addr, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
	X(cuMemAddressFree, "cuMemAddressFree", "cuMemAddressFree", 10020, (CUdeviceptr addr, size_t bytes)) \
	X(cuMemCreate, "cuMemCreate", "cuMemCreate", 10020, \
	    (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop, \
	        unsigned long long flags)) \
	X(cuMemRelease, "cuMemRelease", "cuMemRelease", 10020, (CUmemGenericAllocationHandle handle)) \
	X(cuMemMap, "cuMemMap", "cuMemMap", 10020, \
	    (CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, \
	        unsigned long long flags)) \
	X(cuMemUnmap, "cuMemUnmap", "cuMemUnmap", 10020, (CUdeviceptr addr, size_t bytes)) \
	X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", "cuDeviceCanAccessPeer", 4000, \
	    (int *can, CUdevice device, CUdevice peer)) \
	X(cuMemSetAccess, "cuMemSetAccess", "cuMemSetAccess", 10020, \
	    (CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *access, size_t count)) \
	X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", "cuStreamCreateWithPriority", 5050, \
	    (CUstream * stream, unsigned int flags, int priority)) \
	X(cuStreamDestroy, "cuStreamDestroy", "cuStreamDestroy_v2", 4000, (CUstream stream)) \
	X(cuStreamGetId, "cuStreamGetId", "cuStreamGetId", 12000, (CUstream stream, unsigned long long *id)) \
	X(cuStreamGetPriority, "cuStreamGetPriority", "cuStreamGetPriority", 5050, (CUstream stream, int *priority)) \
	X(cuStreamSynchronize, "cuStreamSynchronize", "cuStreamSynchronize", 2000, (CUstream stream)) \
	X(cuStreamQuery, "cuStreamQuery", "cuStreamQuery", 2000, (CUstream stream)) \
	X(cuStreamWaitEvent, "cuStreamWaitEvent", "cuStreamWaitEvent", 3020, \
	    (CUstream stream, CUevent event, unsigned int flags)) \
	X(cuStreamWriteValue64, "cuStreamWriteValue64", "cuStreamWriteValue64_v2", 11070, \
	    (CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)) \
	X(cuStreamWaitValue64, "cuStreamWaitValue64", "cuStreamWaitValue64_v2", 11070, \
	    (CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)) \
	X(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo", 10010, \
	    (CUstream stream, int *status, uint64_t *id)) \
	X(cuStreamGetCaptureInfo_v2, "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030, \
	    (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)) \
	X(cuUserObjectCreate, "cuUserObjectCreate", "cuUserObjectCreate", 11030, \
	    (CUuserObject * object, void *data, void (*destroy)(void *), unsigned int references, unsigned int flags)) \
	X(cuUserObjectRelease, "cuUserObjectRelease", "cuUserObjectRelease", 11030, \
	    (CUuserObject object, unsigned int count)) \
	X(cuGraphRetainUserObject, "cuGraphRetainUserObject", "cuGraphRetainUserObject", 11030, \
	    (CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)) \
	X(cuEventCreate, "cuEventCreate", "cuEventCreate", 2000, (CUevent * event, unsigned int flags)) \
	X(cuEventDestroy, "cuEventDestroy", "cuEventDestroy_v2", 4000, (CUevent event)) \
	X(cuEventRecord, "cuEventRecord", "cuEventRecord", 2000, (CUevent event, CUstream stream)) \
	X(cuEventSynchronize, "cuEventSynchronize", "cuEventSynchronize", 2000, (CUevent event)) \
	X(cuEventQuery, "cuEventQuery", "cuEventQuery", 2000, (CUevent event))

#endif
