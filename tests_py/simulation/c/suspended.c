/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that suspends another one as NVIDIA's documentation of cuCheckpointProcess* describes. The other one is
 * itself: it has memory of four kinds, a stream, an event and a graph, and says what they hold.
 * tests_py/simulation/test_checkpoint.py runs it with the number of rounds.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 20, SMALL = 4096 };

typedef struct {
	unsigned timeoutMs, reserved0;
	unsigned long long reserved1[7];
} CUcheckpointLockArgs;
typedef struct {
	unsigned long long reserved[8];
} CUcheckpointArgs;

static void *library;

static void *find(const char *name) {
	void *function = dlsym(library, name);
	if (function == NULL) {
		printf("no %s: %s\n", name, dlerror());
		exit(1);
	}
	return function;
}

#define FUNCTION(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))find(#name)
#define MUST(call) \
	do { \
		int result_ = (call); \
		if (result_ != 0) { \
			printf("%s: %d\n", #call, result_); \
			fflush(stdout); \
			exit(1); \
		} \
	} while (0)

static uint64_t checksum(const unsigned char *bytes, size_t count, uint64_t sum) {
	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* Answers each byte that it reads with a checksum of all that it has, and the free memory of the card. */
static void be_suspended(int asked, int answers) {
	FUNCTION(cuInit, unsigned);
	FUNCTION(cuDevicePrimaryCtxRetain, void **, int);
	FUNCTION(cuCtxSetCurrent, void *);
	FUNCTION(cuCtxSynchronize, void);
	FUNCTION(cuMemAlloc_v2, uint64_t *, size_t);
	FUNCTION(cuMemAllocAsync, uint64_t *, size_t, void *);
	FUNCTION(cuMemAllocHost_v2, void **, size_t);
	FUNCTION(cuMemcpyHtoD_v2, uint64_t, const void *, size_t);
	FUNCTION(cuMemcpyDtoH_v2, void *, uint64_t, size_t);
	FUNCTION(cuMemcpyDtoDAsync_v2, uint64_t, uint64_t, size_t, void *);
	FUNCTION(cuMemsetD8Async, uint64_t, unsigned char, size_t, void *);
	FUNCTION(cuStreamCreate, void **, unsigned);
	FUNCTION(cuStreamSynchronize, void *);
	FUNCTION(cuEventCreate, void **, unsigned);
	FUNCTION(cuEventRecord, void *, void *);
	FUNCTION(cuEventSynchronize, void *);
	FUNCTION(cuStreamBeginCapture_v2, void *, int);
	FUNCTION(cuStreamEndCapture, void *, void **);
	FUNCTION(cuGraphInstantiateWithFlags, void **, void *, unsigned long long);
	FUNCTION(cuGraphLaunch, void *, void *);
	void *context, *stream, *event, *graph, *executable;
	unsigned char *pinned, *seen = malloc(BYTES), byte;
	uint64_t linear, pooled;
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, 1));
	MUST(cuEventCreate(&event, 0));
	MUST(cuMemAlloc_v2(&linear, BYTES));
	MUST(cuMemAllocAsync(&pooled, SMALL, stream));
	MUST(cuMemAllocHost_v2((void **)&pinned, SMALL));
	for (int i = 0; i < BYTES; i++)
		seen[i] = (unsigned char)(i * 7 + i / 251);
	MUST(cuMemcpyHtoD_v2(linear, seen, BYTES));
	MUST(cuCtxSynchronize()); /* the stream does not wait for that copy */
	MUST(cuStreamBeginCapture_v2(stream, 1));
	MUST(cuMemsetD8Async(pooled, 0x5a, SMALL / 2, stream));
	MUST(cuMemcpyDtoDAsync_v2(pooled + SMALL / 2, linear, SMALL / 2, stream));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
	while (read(asked, &byte, 1) == 1) {
		uint64_t sum = 0;
		MUST(cuMemsetD8Async(pooled, 0, SMALL, stream));
		MUST(cuGraphLaunch(executable, stream));
		MUST(cuEventRecord(event, stream));
		MUST(cuEventSynchronize(event));
		MUST(cuMemcpyDtoH_v2(seen, linear, BYTES));
		sum = checksum(seen, BYTES, sum);
		MUST(cuMemcpyDtoH_v2(pinned, pooled, SMALL));
		sum = checksum(pinned, SMALL, sum);
		sum = checksum((unsigned char *)&linear, sizeof linear, checksum((unsigned char *)&pooled, sizeof pooled, sum));
		MUST(cuStreamSynchronize(stream));
		if (write(answers, &sum, sizeof sum) != sizeof sum)
			exit(1);
	}
	exit(0);
}

static uint64_t answer_of(int asks, int answered) {
	uint64_t sum;
	if (write(asks, "?", 1) != 1 || read(answered, &sum, sizeof sum) != sizeof sum)
		exit(1);
	return sum;
}

static int is_in(int (*get_state)(int, int *), int pid, int wanted) {
	int state = -1;
	MUST(get_state(pid, &state));
	if (state != wanted)
		printf("state %d, not %d\n", state, wanted);
	return state == wanted;
}

int main(int argc, char **argv) {
	int to[2], from[2];
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL || argc != 2 || pipe(to) != 0 || pipe(from) != 0)
		return 2;
	int pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		be_suspended(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	FUNCTION(cuInit, unsigned);
	FUNCTION(cuGetProcAddress_v2, const char *, void **, int, uint64_t, int *);
	FUNCTION(cuCheckpointProcessGetState, int, int *);
	FUNCTION(cuCheckpointProcessGetRestoreThreadId, int, int *);
	FUNCTION(cuCheckpointProcessLock, int, CUcheckpointLockArgs *);
	FUNCTION(cuCheckpointProcessCheckpoint, int, CUcheckpointArgs *);
	FUNCTION(cuCheckpointProcessRestore, int, CUcheckpointArgs *);
	FUNCTION(cuCheckpointProcessUnlock, int, CUcheckpointArgs *);
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};
	CUcheckpointArgs none = {{0}};
	void *same;
	int thread, query;
	MUST(cuInit(0));
	MUST(cuGetProcAddress_v2("cuCheckpointProcessLock", &same, 12080, 0, &query));
	if (same == NULL)
		return 2;
	uint64_t before = answer_of(to[1], from[0]);
	for (int round = 0; round < atoi(argv[1]); round++) {
		MUST(cuCheckpointProcessLock(pid, round % 2 == 0 ? &lock : NULL));
		if (!is_in(cuCheckpointProcessGetState, pid, 1))
			return 1;
		MUST(cuCheckpointProcessCheckpoint(pid, round % 2 == 0 ? &none : NULL));
		if (!is_in(cuCheckpointProcessGetState, pid, 2))
			return 1;
		MUST(cuCheckpointProcessGetRestoreThreadId(pid, &thread));
		MUST(cuCheckpointProcessRestore(pid, round % 2 == 0 ? &none : NULL));
		if (thread == pid || !is_in(cuCheckpointProcessGetState, pid, 1))
			return 1;
		MUST(cuCheckpointProcessUnlock(pid, round % 2 == 0 ? &none : NULL));
		if (!is_in(cuCheckpointProcessGetState, pid, 0))
			return 1;
		uint64_t after = answer_of(to[1], from[0]);
		if (after != before) {
			printf("round %d: %llx, not %llx\n", round, (unsigned long long)after, (unsigned long long)before);
			return 1;
		}
	}
	close(to[1]);
	int status;
	waitpid(pid, &status, 0);
	printf("the same after %s rounds\n", argv[1]);
	return status != 0;
}
