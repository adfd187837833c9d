/*
 * Loops over the CUDA driver's functions, found by its usual name. Reads lines "LOOP STEPS" and answers each with the
 * nanoseconds of processor time of one step.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK ((size_t)2 << 20)

struct prop {
	int type, handle_types, location_type, location_id;
	void *other;
	unsigned char flags[8];
};

static int (*cuInit)(unsigned), (*cuDevicePrimaryCtxRetain)(void **, int), (*cuCtxSetCurrent)(void *),
    (*cuMemAlloc)(uint64_t *, size_t), (*cuMemFree)(uint64_t),
    (*cuMemCreate)(uint64_t *, size_t, const struct prop *, unsigned long long), (*cuMemRelease)(uint64_t),
    (*cuMemAllocAsync)(uint64_t *, size_t, void *), (*cuMemFreeAsync)(uint64_t, void *),
    (*cuMemGetInfo)(size_t *, size_t *), (*cuDeviceTotalMem)(size_t *, int), (*cuCtxGetDevice)(int *);

static int pair(void) {
	uint64_t address;
	return cuMemAlloc(&address, BLOCK) || cuMemFree(address);
}

static int small(void) {
	uint64_t address;
	return cuMemAlloc(&address, 4096) || cuMemFree(address);
}

static int physical(void) {
	const struct prop prop = {.type = 1, .location_type = 1};
	uint64_t handle;
	return cuMemCreate(&handle, BLOCK, &prop, 0) || cuMemRelease(handle);
}

static int ordered(void) {
	uint64_t address;
	return cuMemAllocAsync(&address, BLOCK, NULL) || cuMemFreeAsync(address, NULL);
}

static int info(void) {
	size_t available, total;
	return cuMemGetInfo(&available, &total);
}

static int total(void) {
	size_t bytes;
	return cuDeviceTotalMem(&bytes, 0);
}

static int device(void) {
	int device;
	return cuCtxGetDevice(&device);
}

static const struct {
	const char *name;
	int (*step)(void);
} loops[] = {{"pair", pair}, {"small", small}, {"physical", physical}, {"ordered", ordered}, {"info", info},
    {"total", total}, {"device", device}};

static double now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double timed(int (*step)(void), int n) {
	double begin = now_ns();
	for (int i = 0; i < n; i++)
		if (step() != 0)
			exit(5);
	return (now_ns() - begin) / n;
}

int main(void) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	char name[32];
	int n;
	if (library == NULL)
		return 3;
#define FIND(name, exported) *(void **)&name = dlsym(library, exported)
	FIND(cuInit, "cuInit");
	FIND(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
	FIND(cuCtxSetCurrent, "cuCtxSetCurrent");
	FIND(cuMemAlloc, "cuMemAlloc_v2");
	FIND(cuMemFree, "cuMemFree_v2");
	FIND(cuMemCreate, "cuMemCreate");
	FIND(cuMemRelease, "cuMemRelease");
	FIND(cuMemAllocAsync, "cuMemAllocAsync");
	FIND(cuMemFreeAsync, "cuMemFreeAsync");
	FIND(cuMemGetInfo, "cuMemGetInfo_v2");
	FIND(cuDeviceTotalMem, "cuDeviceTotalMem_v2");
	FIND(cuCtxGetDevice, "cuCtxGetDevice");
	if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
		return 4;
	while (scanf("%31s %d", name, &n) == 2)
		for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
			if (strcmp(loops[i].name, name) == 0) {
				printf("%f\n", timed(loops[i].step, n));
				fflush(stdout);
			}
	return 0;
}
