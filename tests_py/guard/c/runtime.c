/*
 * The part of the CUDA runtime that allocates. Like NVIDIA's, it finds the driver by dlopen(), asks the resolver for
 * the resolver, and everything else from that; with -DVERSION=12 or newer in its second form.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifndef VERSION
#define VERSION 12
#endif
#if VERSION >= 12
#define RESOLVER "cuGetProcAddress_v2"
typedef int (*resolver)(const char *, void **, int, uint64_t, int *);
#define ASK(ask, name, out) ask(name, out, 12000, 0, &(int){0})
#else
#define RESOLVER "cuGetProcAddress"
typedef int (*resolver)(const char *, void **, int, uint64_t);
#define ASK(ask, name, out) ask(name, out, 11030, 0)
#endif

static void *ask(const char *name) {
	static resolver again;
	void *found = NULL;

	if (again == NULL) {
		resolver first = (resolver)dlsym(dlopen("libcuda.so.1", RTLD_NOW), RESOLVER);
		if (first == NULL || ASK(first, "cuGetProcAddress", (void **)&again) != 0)
			return NULL;
	}
	return ASK(again, name, &found) == 0 ? found : NULL;
}
#define CU(name, ...) \
	({ \
		int (*call_)() = (int (*)())ask(#name); \
		call_ != NULL ? call_(__VA_ARGS__) : 36; \
	})

/* The primary context of the first device. */
static int use(void) {
	static __thread void *context;
	int result = 0;

	if (context == NULL && (result = CU(cuInit, 0)) == 0 && (result = CU(cuDevicePrimaryCtxRetain, &context, 0)) == 0)
		result = CU(cuCtxSetCurrent, context);
	return result;
}
#define IN(call) \
	int result = use(); \
	return result != 0 ? result : (call)

struct format {
	int x, y, z, w, kind;
};
struct extent {
	size_t width, height, depth;
};
struct shape {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};

int cudaMalloc(void **out, size_t bytes) { IN(CU(cuMemAlloc, out, bytes)); }
int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
	IN(CU(cuMemAllocPitch, out, pitch, width, height, 4));
}
int cudaMallocManaged(void **out, size_t bytes, unsigned int flags) { IN(CU(cuMemAllocManaged, out, bytes, flags)); }
int cudaMallocAsync(void **out, size_t bytes, void *stream) { IN(CU(cuMemAllocAsync, out, bytes, stream)); }
int cudaMalloc3DArray(void **out, const struct format *format, struct extent extent, unsigned int flags) {
	struct shape shape = {extent.width, extent.height, extent.depth, format->x == 32 ? 0x20 : 1, 1, flags};
	IN(CU(cuArray3DCreate, out, &shape));
}
int cudaFree(void *address) { IN(CU(cuMemFree, (uint64_t)address)); }
int cudaFreeAsync(void *address, void *stream) { IN(CU(cuMemFreeAsync, (uint64_t)address, stream)); }
int cudaFreeArray(void *array) { IN(CU(cuArrayDestroy, array)); }
int cudaMemGetInfo(size_t *available, size_t *total) { IN(CU(cuMemGetInfo, available, total)); }
