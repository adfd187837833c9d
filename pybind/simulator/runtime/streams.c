/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and captures. */
#include "runtime.h"

#define IN_CONTEXT(call) \
	int result = begin(); \
	return keep(result != SUCCESS ? result : (call))

EXPORT int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority) { IN_CONTEXT(cuStreamCreateWithPriority(out, flags, priority)); }

EXPORT int cudaStreamCreateWithFlags(void **out, unsigned flags) { IN_CONTEXT(cuStreamCreateWithPriority(out, flags, 0)); }

EXPORT int cudaStreamCreate(void **out) { IN_CONTEXT(cuStreamCreateWithPriority(out, 0, 0)); }

EXPORT int cudaStreamDestroy(void *stream) { IN_CONTEXT(cuStreamDestroy_v2(stream)); }

EXPORT int cudaStreamQuery(void *stream) { IN_CONTEXT(cuStreamQuery(stream)); }

EXPORT int cudaStreamSynchronize(void *stream) { IN_CONTEXT(cuStreamSynchronize(stream)); }

EXPORT int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { IN_CONTEXT(cuStreamWaitEvent(stream, event, flags)); }

EXPORT int cudaStreamGetPriority(void *stream, int *priority) { IN_CONTEXT(cuStreamGetPriority(stream, priority)); }

EXPORT int cudaStreamAddCallback(void *stream, void *callback, void *data, unsigned flags) { IN_CONTEXT(cuStreamAddCallback(stream, callback, data, flags)); }

EXPORT int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data) { IN_CONTEXT(cuLaunchHostFunc(stream, function, data)); }

EXPORT int cudaEventCreateWithFlags(void **out, unsigned flags) { IN_CONTEXT(cuEventCreate(out, flags)); }

EXPORT int cudaEventCreate(void **out) { IN_CONTEXT(cuEventCreate(out, 0)); }

EXPORT int cudaEventDestroy(void *event) { IN_CONTEXT(cuEventDestroy_v2(event)); }

EXPORT int cudaEventQuery(void *event) { IN_CONTEXT(cuEventQuery(event)); }

EXPORT int cudaEventRecord(void *event, void *stream) { IN_CONTEXT(cuEventRecord(event, stream)); }

EXPORT int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) { IN_CONTEXT(cuEventRecordWithFlags(event, stream, flags)); }

EXPORT int cudaEventSynchronize(void *event) { IN_CONTEXT(cuEventSynchronize(event)); }

EXPORT int cudaEventElapsedTime(float *ms, void *start, void *end) { IN_CONTEXT(cuEventElapsedTime(ms, start, end)); }

EXPORT int cudaStreamBeginCapture(void *stream, int mode) { IN_CONTEXT(cuStreamBeginCapture_v2(stream, mode)); }

EXPORT int cudaStreamEndCapture(void *stream, void **graph) { IN_CONTEXT(cuStreamEndCapture(stream, graph)); }

EXPORT int cudaStreamIsCapturing(void *stream, int *status) { IN_CONTEXT(cuStreamIsCapturing(stream, status)); }

/* Dependencies without their edges' data are refused by the driver only where edges have some, and here none does. */
static int capture_info(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies, const void **edges, size_t *count) {
	IN_CONTEXT(cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count));
}

EXPORT int cudaStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies, size_t *count) {
	return capture_info(stream, status, id, graph, dependencies, NULL, count);
}

EXPORT int cudaStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies, const void **edges, size_t *count) {
	return capture_info(stream, status, id, graph, dependencies, edges, count);
}

/* The last four came in CUDA 13. */
EXPORT int cudaStreamGetCaptureInfo(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies, const void **edges, size_t *count) {
	return versions.cuda < 13000 ? capture_info(stream, status, id, NULL, NULL, NULL, NULL) : capture_info(stream, status, id, graph, dependencies, edges, count);
}

/* The arguments are (stream, nodes, count, flags); in CUDA 13 (stream, nodes, edges, count, flags). */
EXPORT int cudaStreamUpdateCaptureDependencies(void *stream, void *nodes, uintptr_t third, uintptr_t fourth, uintptr_t fifth) {
	size_t count = versions.cuda < 13000 ? third : fourth;
	IN_CONTEXT(cuStreamUpdateCaptureDependencies(stream, nodes, count, (unsigned)(versions.cuda < 13000 ? fourth : fifth)));
}

EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode) { IN_CONTEXT(cuThreadExchangeStreamCaptureMode(mode)); }
