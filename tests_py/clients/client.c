/* SPDX-License-Identifier: Apache-2.0 */
/* A program that knows CUDA's driver and NVML by their names alone. It prints what it finds;
 * tests_py/simulation/test_simulated_clients.py runs it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *find(void *library, const char *name) {
	void *function = library != NULL ? dlsym(library, name) : NULL;
	if (function == NULL) {
		printf("no %s: %s\n", name, dlerror());
		exit(1);
	}
	return function;
}

#define FUNCTION(library, name, ...) int (*name)(__VA_ARGS__) = find(library, #name)
#define MUST(call) \
	do { \
		int result_ = (call); \
		if (result_ != 0) { \
			printf("%s: %d\n", #call, result_); \
			return 1; \
		} \
	} while (0)

int main(void) {
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	FUNCTION(cuda, cuInit, unsigned);
	FUNCTION(cuda, cuDeviceGetCount, int *);
	FUNCTION(cuda, cuDeviceGetName, char *, int, int);
	FUNCTION(cuda, cuDevicePrimaryCtxRetain, void **, int);
	FUNCTION(cuda, cuCtxSetCurrent, void *);
	FUNCTION(cuda, cuMemAlloc_v2, unsigned long long *, size_t);
	FUNCTION(cuda, cuMemGetInfo_v2, size_t *, size_t *);
	FUNCTION(cuda, cuMemcpyHtoD_v2, unsigned long long, const void *, size_t);
	FUNCTION(cuda, cuMemcpyDtoH_v2, void *, unsigned long long, size_t);
	FUNCTION(nvml, nvmlInit_v2, void);
	FUNCTION(nvml, nvmlDeviceGetCount_v2, unsigned *);
	FUNCTION(nvml, nvmlDeviceGetHandleByIndex_v2, unsigned, void **);
	FUNCTION(nvml, nvmlDeviceGetName, void *, char *, unsigned);
	FUNCTION(nvml, nvmlDeviceGetMemoryInfo, void *, unsigned long long *);
	int count;
	unsigned listed;
	char name[96], answer[8];
	void *context, *device;
	unsigned long long at, beyond, memory[3];
	size_t available, total;
	MUST(cuInit(0));
	MUST(cuDeviceGetCount(&count));
	MUST(cuDeviceGetName(name, sizeof name, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuMemAlloc_v2(&at, (size_t)1 << 30));
	int refused = cuMemAlloc_v2(&beyond, (size_t)40 << 30);
	MUST(cuMemGetInfo_v2(&available, &total));
	MUST(cuMemcpyHtoD_v2(at, "written", 8));
	MUST(cuMemcpyDtoH_v2(answer, at, 8));
	printf("cuda: %d x %s, %zu MiB, %zu MiB in use, %s, %d\n", count, name, total >> 20, (total - available) >> 20,
	    answer, refused);
	MUST(nvmlInit_v2());
	MUST(nvmlDeviceGetCount_v2(&listed));
	MUST(nvmlDeviceGetHandleByIndex_v2(0, &device));
	MUST(nvmlDeviceGetName(device, name, sizeof name));
	MUST(nvmlDeviceGetMemoryInfo(device, memory));
	printf("nvml: %u x %s, %llu MiB, %llu MiB in use\n", listed, name, memory[0] >> 20, memory[2] >> 20);
	return 0;
}
