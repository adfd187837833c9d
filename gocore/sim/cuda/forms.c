/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are another one with the thread's own default stream, and old forms with the arguments of the new
 * ones. Old forms with addresses of 32 bits have no memory here that they could name, so they are not done.
 */
#include "driver.h"

struct copy3d;
struct function;
struct instantiation;
struct operation;

#define SAME(name, other, parameters, arguments) \
	CUresult other parameters; \
	EXPORT CUresult name parameters { return other arguments; }

SAME(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))
SAME(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))
SAME(cuMemHostRegister, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))

SAME(cuEventRecord_ptsz, cuEventRecord, (CUevent event, CUstream stream), (event, own_stream(stream)))
SAME(cuStreamQuery_ptsz, cuStreamQuery, (CUstream stream), (own_stream(stream)))
SAME(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
    (own_stream(stream), event, flags))
SAME(cuStreamGetCtx_ptsz, cuStreamGetCtx, (CUstream stream, CUcontext *out), (own_stream(stream), out))
SAME(cuStreamGetId_ptsz, cuStreamGetId, (CUstream stream, unsigned long long *out), (own_stream(stream), out))
SAME(cuStreamGetPriority_ptsz, cuStreamGetPriority, (CUstream stream, int *out), (own_stream(stream), out))
SAME(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (CUstream stream, int mode), (own_stream(stream), mode))
SAME(cuStreamEndCapture_ptsz, cuStreamEndCapture, (CUstream stream, CUgraph *graph), (own_stream(stream), graph))

SAME(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream),
    (to, value, bytes, own_stream(stream)))
SAME(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync, (CUdeviceptr addr, size_t bytes, CUdevice device, CUstream stream),
    (addr, bytes, device, own_stream(stream)))
SAME(cuStreamGetFlags_ptsz, cuStreamGetFlags, (CUstream handle, unsigned *flags), (own_stream(handle), flags))
SAME(cuStreamGetDevice_ptsz, cuStreamGetDevice, (CUstream handle, CUdevice *device), (own_stream(handle), device))
SAME(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2,
    (CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **dependencies, size_t *count),
    (own_stream(handle), status, id, graph, dependencies, count))
SAME(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3,
    (CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **dependencies, const void **edges,
        size_t *count),
    (own_stream(handle), status, id, graph, dependencies, edges, count))
SAME(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, (CUstream handle, int *status), (own_stream(handle), status))
SAME(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams,
    (CUgraphExec * out, CUgraph graph, struct instantiation *params), (out, graph, params))
SAME(cuGraphUpload_ptsz, cuGraphUpload, (CUgraphExec exec, CUstream handle), (exec, own_stream(handle)))
SAME(cuGraphLaunch_ptsz, cuGraphLaunch, (CUgraphExec exec, CUstream handle), (exec, own_stream(handle)))
SAME(cuMemcpyAsync_ptsz, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync,
    (CUdeviceptr to, struct context *to_context, CUdeviceptr from, struct context *from_context, size_t bytes,
        CUstream stream),
    (to, to_context, from, from_context, bytes, own_stream(stream)))
SAME(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync, (const struct copy3d *copy, CUstream stream),
    (copy, own_stream(stream)))
SAME(cuLaunchKernel_ptsz, cuLaunchKernel,
    (struct function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
        unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **extra),
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, own_stream(stream), arguments, extra))
SAME(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel,
    (struct function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
        unsigned block_z, unsigned shared, CUstream stream, void **arguments),
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, own_stream(stream), arguments))
SAME(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp_v2,
    (CUstream handle, unsigned count, const struct operation *list, unsigned flags),
    (own_stream(handle), count, list, flags))
SAME(cuStreamSynchronize_ptsz, cuStreamSynchronize, (CUstream handle), (own_stream(handle)))
SAME(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, (CUevent event, CUstream handle, unsigned flags),
    (event, own_stream(handle), flags))
SAME(cuMemAllocAsync_ptsz, cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream stream),
    (out, bytes, own_stream(stream)))
SAME(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync,
    (CUdeviceptr * out, size_t bytes, struct pool *pool, CUstream stream), (out, bytes, pool, own_stream(stream)))
SAME(cuMemFreeAsync_ptsz, cuMemFreeAsync, (CUdeviceptr addr, CUstream stream), (addr, own_stream(stream)))
