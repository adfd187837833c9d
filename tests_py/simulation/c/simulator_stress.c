/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that use the simulated driver at once, each at random: device, page-locked, managed, pool and virtual memory,
 * copies, streams, events, captures, contexts. Compiled with the driver's sources under ThreadSanitizer, which reports
 * every data race. What a thread has written to its own memory it must read again.
 *
 *     simulator_stress SEED SECONDS THREADS
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long address;
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemGetInfo_v2(size_t *available, size_t *total);
int cuMemAlloc_v2(address *out, size_t bytes);
int cuMemFree_v2(address at);
int cuMemAllocManaged(address *out, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
int cuMemFreeHost(void *at);
int cuMemAllocAsync(address *out, size_t bytes, void *stream);
int cuMemFreeAsync(address at, void *stream);
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes);
int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, void *stream);
int cuMemsetD8Async(address at, unsigned char value, size_t bytes, void *stream);
int cuStreamCreateWithPriority(void **out, unsigned flags, int priority);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamQuery(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuEventCreate(void **out, unsigned flags);
int cuEventDestroy_v2(void *event);
int cuEventRecord(void *event, void *stream);
int cuEventSynchronize(void *event);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphDestroy(void *graph);
int cuGraphExecDestroy(void *exec);
int cuMemAddressReserve(address *out, size_t bytes, size_t alignment, address hint, unsigned long long flags);
int cuMemAddressFree(address at, size_t bytes);
int cuMemCreate(address *handle, size_t bytes, const void *prop, unsigned long long flags);
int cuMemRelease(address handle);
int cuMemMap(address at, size_t bytes, size_t offset, address handle, unsigned long long flags);
int cuMemUnmap(address at, size_t bytes);
int cuMemSetAccess(address at, size_t bytes, const void *access, size_t count);

enum { GRANULE = 2 << 20, MOST = 64 << 10 };

static unsigned seed;
static time_t until;

static unsigned next(unsigned *state) {
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void must(int result, const char *what, int line) {
	if (result != 0) {
		fprintf(stderr, "line %d: %s returned %d\n", line, what, result);
		exit(1);
	}
}
#define MUST(call) must(call, #call, __LINE__)

static void write_and_read(address at, size_t bytes, unsigned char value) {
	static __thread unsigned char out[MOST], in[MOST];
	memset(out, value, bytes);
	MUST(cuMemcpyHtoD_v2(at, out, bytes));
	MUST(cuMemcpyDtoH_v2(in, at, bytes));
	if (memcmp(in, out, bytes) != 0) {
		fprintf(stderr, "memory that was written was not read\n");
		exit(1);
	}
}

static void use_virtual(int device, size_t bytes, unsigned char value) {
	struct {
		int type, handles, location, id;
		void *none;
		unsigned char flags[8];
	} prop = {1, 0, 1, device, NULL, {0}};
	struct {
		int location, id, flags;
	} access = {1, device, 3};
	address at, handle;
	MUST(cuMemAddressReserve(&at, GRANULE, GRANULE, 0, 0));
	if (cuMemCreate(&handle, GRANULE, &prop, 0) == 0) {
		MUST(cuMemMap(at, GRANULE, 0, handle, 0));
		MUST(cuMemRelease(handle));
		MUST(cuMemSetAccess(at, GRANULE, &access, 1));
		write_and_read(at, bytes, value);
		MUST(cuMemUnmap(at, GRANULE));
	}
	MUST(cuMemAddressFree(at, GRANULE));
}

static void use_stream(unsigned *state, void *stream, void *event) {
	address a, b;
	size_t bytes = 1 + next(state) % MOST;
	if (cuMemAlloc_v2(&a, bytes) != 0)
		return;
	MUST(cuMemAllocAsync(&b, bytes, stream));
	MUST(cuMemsetD8Async(a, 7, bytes, stream));
	MUST(cuMemcpyDtoDAsync_v2(b, a, bytes, stream));
	MUST(cuEventRecord(event, stream));
	MUST(cuStreamWaitEvent(stream, event, 0));
	(void)cuStreamQuery(stream);
	MUST(next(state) % 2 ? cuEventSynchronize(event) : cuStreamSynchronize(stream));
	write_and_read(b, bytes, (unsigned char)next(state));
	MUST(cuMemFreeAsync(b, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemFree_v2(a));
}

static void use_capture(unsigned *state, void *stream) {
	address a;
	void *graph, *exec;
	size_t bytes = 1 + next(state) % MOST;
	MUST(cuMemAlloc_v2(&a, bytes));
	MUST(cuStreamBeginCapture_v2(stream, 2));
	(void)cuMemsetD8Async(a, 5, bytes, stream);
	if (cuStreamEndCapture(stream, &graph) == 0) { /* another thread's cuCtxSynchronize invalidates the capture */
		MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
		MUST(cuGraphLaunch(exec, stream));
		MUST(cuStreamSynchronize(stream));
		MUST(cuGraphExecDestroy(exec));
		MUST(cuGraphDestroy(graph));
	}
	MUST(cuMemFree_v2(a));
}

static void *work(void *argument) {
	unsigned state = seed * 31 + (unsigned)(uintptr_t)argument;
	int relaxed = 2, count, value;
	void *context, *stream, *event, *host;
	size_t available, total;
	address a;
	MUST(cuDeviceGetCount(&count));
	int device = (int)(next(&state) % (unsigned)count);
	MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
	while (time(NULL) < until) {
		MUST(cuDevicePrimaryCtxRetain(&context, device));
		MUST(cuCtxSetCurrent(context));
		MUST(cuStreamCreateWithPriority(&stream, 1, 0));
		MUST(cuEventCreate(&event, 0));
		for (int i = 0; i < 20; i++) {
			size_t bytes = 1 + next(&state) % MOST;
			switch (next(&state) % 7) {
			case 0:
				use_stream(&state, stream, event);
				break;
			case 1:
				use_virtual(device, bytes, (unsigned char)next(&state));
				break;
			case 2:
				use_capture(&state, stream);
				break;
			case 3:
				if (cuMemAllocManaged(&a, bytes, 1) == 0) {
					write_and_read(a, bytes, (unsigned char)next(&state));
					MUST(cuMemFree_v2(a));
				}
				break;
			case 4:
				MUST(cuMemHostAlloc(&host, bytes, 0));
				memset(host, 1, bytes);
				MUST(cuMemFreeHost(host));
				break;
			case 5:
				MUST(cuMemGetInfo_v2(&available, &total));
				MUST(cuDeviceGetAttribute(&value, 75, device));
				break;
			default:
				(void)cuCtxSynchronize(); /* refused while another thread captures */
			}
		}
		MUST(cuEventDestroy_v2(event));
		MUST(cuStreamDestroy_v2(stream));
		MUST(cuCtxSetCurrent(NULL));
		MUST(cuDevicePrimaryCtxRelease_v2(device));
	}
	return NULL;
}

int main(int count, char **arguments) {
	if (count != 4)
		return 2;
	seed = (unsigned)atoi(arguments[1]);
	until = time(NULL) + atoi(arguments[2]);
	int threads = atoi(arguments[3]);
	pthread_t *all = calloc((size_t)threads, sizeof *all);
	MUST(cuInit(0));
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	free(all);
	puts("done");
	return 0;
}
