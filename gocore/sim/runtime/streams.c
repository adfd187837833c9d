/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and captures. */
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
