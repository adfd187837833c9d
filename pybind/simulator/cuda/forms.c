/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are another one with the thread's own default stream, and old forms with the arguments of the new ones. Old forms with
 * addresses of 32 bits have no memory here that they could name, so they are not done.
 */
#include "driver.h"

#define SAME(name, other, parameters, arguments) \
	CUresult other parameters; \
	EXPORT CUresult name parameters { return other arguments; }

SAME(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))
SAME(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))
SAME(cuMemHostRegister, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))

SAME(cuEventRecord_ptsz, cuEventRecord, (CUevent event, CUstream stream), (event, own_stream(stream)))
SAME(cuStreamQuery_ptsz, cuStreamQuery, (CUstream stream), (own_stream(stream)))
SAME(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), (own_stream(stream), event, flags))
SAME(cuStreamGetCtx_ptsz, cuStreamGetCtx, (CUstream stream, CUcontext *out), (own_stream(stream), out))
SAME(cuStreamGetId_ptsz, cuStreamGetId, (CUstream stream, unsigned long long *out), (own_stream(stream), out))
SAME(cuStreamGetPriority_ptsz, cuStreamGetPriority, (CUstream stream, int *out), (own_stream(stream), out))
SAME(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (CUstream stream, int mode), (own_stream(stream), mode))
SAME(cuStreamEndCapture_ptsz, cuStreamEndCapture, (CUstream stream, CUgraph *graph), (own_stream(stream), graph))

SAME(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, own_stream(stream)))
SAME(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream), (to, value, bytes, own_stream(stream)))
