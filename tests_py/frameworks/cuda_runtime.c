/*
 * Enough of the CUDA runtime for PyTorch to allocate, copy and free on a machine without a GPU. It is preloaded before the real
 * libcudart and uses the CUDA driver of tests_go/fakecuda, whose device memory is host memory. Kernels are "launched" and compute
 * nothing.
 *
 * Streams, events and memory are the driver's, so gpuconf sees them as real, and memory that PyTorch allocates without gpuconf can
 * be counted. All other functions that PyTorch needs from the runtime and the driver are stubs that return success (no_gpu.py).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int device;
static __thread void *current;

static void *driver(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY), *found = library ? dlsym(library, name) : NULL;

	if (found == NULL) {
		fprintf(stderr, "cuda_runtime.c: the driver has no %s\n", name);
		abort();
	}
	return found;
}
#define CU(name, ...) ((int (*)())driver(#name))(__VA_ARGS__)

/* The runtime works in the primary context of the thread's device. */
static void use(void)
{
	static void *primary[16];

	if (primary[device] == NULL) {
		CU(cuInit, 0u);
		if (CU(cuDevicePrimaryCtxRetain, &primary[device], device) != 0)
			abort();
	}
	if (current != primary[device]) {
		CU(cuCtxSetCurrent, primary[device]);
		current = primary[device];
	}
}

/* An error without a name would be a crash: PyTorch reads the text. */
const char *cudaGetErrorString(int error)
{
	static __thread char text[32];

	snprintf(text, sizeof text, "CUDA error %d", error);
	return text;
}
const char *cudaGetErrorName(int error) { return cudaGetErrorString(error); }

int cudaGetDevice(int *d) { *d = device; return 0; }
int cudaSetDevice(int d) { device = d; use(); return 0; }
int cudaGetDeviceCount(int *n) { CU(cuInit, 0u); return CU(cuDeviceGetCount, n); }
int cudaDriverGetVersion(int *v) { *v = 13000; return 0; }
int cudaRuntimeGetVersion(int *v) { *v = 13000; return 0; }
int cudaMemGetInfo(size_t *f, size_t *t) { use(); return CU(cuMemGetInfo_v2, f, t); }
int cudaMalloc(void **p, size_t n) { use(); return CU(cuMemAlloc_v2, p, n); }
int cudaFree(void *p) { use(); return p ? CU(cuMemFree_v2, p) : 0; }
int cudaHostAlloc(void **p, size_t n, unsigned f) { (void)f; *p = malloc(n); return 0; }
int cudaFreeHost(void *p) { free(p); return 0; }
int cudaDeviceGetStreamPriorityRange(int *a, int *b) { *a = 0; *b = -5; return 0; }
int cudaDeviceGetAttribute(int *v, int a, int d) { (void)a, (void)d; *v = 1; return 0; }
int cudaDeviceGetPCIBusId(char *p, int n, int d) { return CU(cuDeviceGetPCIBusId, p, n, d); }

/* The offsets of cudaDeviceProp are the same in CUDA 12 and 13 for these. */
static int properties(char *p)
{
	memset(p, 0, 720);
	strcpy(p, "no GPU");
	*(size_t *)(p + 288) = (size_t)1 << 30;
	*(int *)(p + 308) = 32;   /* warp size */
	*(int *)(p + 320) = 1024; /* threads of a block */
	for (int i = 0; i < 3; i++)
		((int *)(p + 336))[i] = 65535; /* blocks of a grid */
	*(int *)(p + 360) = 8;    /* compute capability 8.0: on 9.0 PyTorch leaves attention to cuDNN, which does not start here */
	*(int *)(p + 384) = 8;    /* multiprocessors */
	*(int *)(p + 568) = 0x1a; /* the first card's PCI bus, as the driver has it, in CUDA 13 */
	*(int *)(p + 584) = 0x1a; /* the same in CUDA 12 */
	*(int *)(p + 604) = 2048; /* threads of a multiprocessor, in CUDA 13 */
	*(int *)(p + 624) = 2048; /* the same in CUDA 12 */
	*(size_t *)(p + 672) = *(size_t *)(p + 696) = 227 << 10; /* shared memory that a block may have, in CUDA 13 and 12 */
	return 0;
}
int cudaGetDeviceProperties(char *p, int d) { (void)d; return properties(p); }
int cudaGetDeviceProperties_v2(char *p, int d) { (void)d; return properties(p); }

int cudaStreamCreateWithPriority(void **s, unsigned f, int p) { use(); return CU(cuStreamCreateWithPriority, s, f, p); }
int cudaStreamCreateWithFlags(void **s, unsigned f) { return cudaStreamCreateWithPriority(s, f, 0); }
int cudaStreamDestroy(void *s) { use(); return CU(cuStreamDestroy_v2, s); }
int cudaStreamQuery(void *s) { use(); return CU(cuStreamQuery, s); }
int cudaStreamSynchronize(void *s) { use(); return CU(cuStreamSynchronize, s); }
int cudaDeviceSynchronize(void) { return cudaStreamSynchronize(NULL); }
int cudaStreamWaitEvent(void *s, void *e, unsigned f) { use(); return CU(cuStreamWaitEvent, s, e, f); }
int cudaStreamGetPriority(void *s, int *p) { (void)s; *p = 0; return 0; }

int cudaStreamBeginCapture(void *s, int mode) { use(); return CU(cuStreamBeginCapture_v2, s, mode); }
int cudaStreamEndCapture(void *s, void **graph) { use(); return CU(cuStreamEndCapture, s, graph); }
int cudaStreamIsCapturing(void *s, int *c) { unsigned long long id; use(); return CU(cuStreamGetCaptureInfo, s, c, &id); }
/* The same query under its names: CUDA 12 has versions of it, and CUDA 13 also requests the edges. There are no dependencies here. */
int cudaStreamGetCaptureInfo_v2(void *s, int *c, unsigned long long *id, void **graph, void **before, size_t *n)
{
	unsigned long long some_id;

	if (before != NULL)
		*before = NULL;
	use();
	return CU(cuStreamGetCaptureInfo_v2, s, c, id ? id : &some_id, graph, NULL, n);
}
int cudaStreamGetCaptureInfo_v3(void *s, int *c, unsigned long long *id, void **graph, void **before, void **edges, size_t *n)
{
	if (edges != NULL)
		*edges = NULL;
	return cudaStreamGetCaptureInfo_v2(s, c, id, graph, before, n);
}
int cudaStreamGetCaptureInfo(void *s, int *c, unsigned long long *id, void **graph, void **before, void **edges, size_t *n)
{
	return cudaStreamGetCaptureInfo_v3(s, c, id, graph, before, edges, n);
}
int cudaThreadExchangeStreamCaptureMode(int *mode) { use(); return CU(cuThreadExchangeStreamCaptureMode, mode); }
int cudaGraphGetNodes(void *graph, void *nodes, size_t *n) { (void)nodes; *n = CU(fakecuda_graph_pieces, graph); return 0; }
int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long f) { (void)f; use(); return CU(cuGraphInstantiateWithFlags, made, graph, 0ULL); }
int cudaGraphDestroy(void *graph) { use(); return CU(cuGraphDestroy, graph); }
int cudaGraphExecDestroy(void *made) { use(); return CU(cuGraphExecDestroy, made); }
int cudaGraphLaunch(void *made, void *s) { use(); return CU(cuGraphLaunch, made, s); }
int cudaEventCreateWithFlags(void **e, unsigned f) { (void)f; use(); return CU(cuEventCreate, e, 2u); }
int cudaEventRecord(void *e, void *s) { use(); return CU(cuEventRecord, e, s); }
int cudaEventRecordWithFlags(void *e, void *s, unsigned f) { (void)f; return cudaEventRecord(e, s); }
int cudaEventQuery(void *e) { use(); return CU(cuEventQuery, e); }
int cudaEventSynchronize(void *e) { use(); return CU(cuEventSynchronize, e); }
int cudaEventDestroy(void *e) { use(); return CU(cuEventDestroy_v2, e); }

int cudaMemcpyAsync(void *d, const void *s, size_t n, int k, void *st)
{
	(void)k;
	cudaStreamSynchronize(st);
	memcpy(d, s, n);
	return 0;
}
int cudaMemcpy(void *d, const void *s, size_t n, int k) { return cudaMemcpyAsync(d, s, n, k, NULL); }
int cudaMemsetAsync(void *d, int v, size_t n, void *st)
{
	int captured = 0;

	if (cudaStreamIsCapturing(st, &captured) == 0 && captured)
		return CU(cuMemsetD8Async, (unsigned long long)d, v, n, st);
	cudaStreamSynchronize(st);
	memset(d, v, n);
	return 0;
}

/* {type, device, device pointer, host pointer}: device memory. */
int cudaPointerGetAttributes(int *a, const void *p) { a[0] = 2; a[1] = device; (void)p; return 0; }

/*
 * What expandable segments need of the driver beyond its documentation: addresses that are aligned to the granularity although no alignment is
 * requested, as the real driver returns them. And handles that can be exported, which no test exports.
 */
static int reserve(unsigned long long *address, size_t bytes, size_t alignment, unsigned long long hint, unsigned long long flags)
{
	return CU(cuMemAddressReserve, address, bytes, alignment == 0 ? (size_t)2 << 20 : alignment, hint, flags);
}
static int create(unsigned long long *handle, size_t bytes, const int *properties, unsigned long long flags)
{
	int plain[8]; /* CUmemAllocationProp */

	memcpy(plain, properties, sizeof plain);
	plain[1] = 0;
	plain[6] = 0; /* flags: that other devices may access it directly */
	return CU(cuMemCreate, handle, bytes, plain, flags);
}

/* What the driver does not know of, the GPU does not have: exchange over a fabric, direct access by other devices. */
static int attribute(int *value, int number, int ordinal)
{
	if (CU(cuDeviceGetAttribute, value, number, ordinal) != 0)
		*value = 0;
	return 0;
}

/* The newest form of a driver function. PyTorch looks up what expandable segments need. */
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags, int *result)
{
	char newer[128];
	void *library = dlopen("libcuda.so.1", RTLD_LAZY);

	(void)version;
	(void)flags;
	snprintf(newer, sizeof newer, "%s_v2", name);
	*function = dlsym(library, newer);
	if (*function == NULL)
		*function = dlsym(library, name);
	if (strcmp(name, "cuMemAddressReserve") == 0)
		*function = (void *)reserve;
	else if (strcmp(name, "cuMemCreate") == 0)
		*function = (void *)create;
	else if (strcmp(name, "cuDeviceGetAttribute") == 0)
		*function = (void *)attribute;
	if (result != NULL)
		*result = *function != NULL ? 0 : 1; /* success, or symbol not found */
	return 0;
}
int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *result)
{
	return cudaGetDriverEntryPointByVersion(name, function, 0, flags, result);
}

/* Products compute nothing either. Without a way to do it PyTorch would report an error. */
int cublasLtMatmulAlgoGetHeuristic(void *l, void *o, void *a, void *b, void *c, void *d, void *p, int n, void *found, int *count)
{
	(void)l, (void)o, (void)a, (void)b, (void)c, (void)d, (void)p, (void)n, (void)found;
	*count = 1;
	return 0;
}
