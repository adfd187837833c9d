/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with several threads on one or two cards, which allocate, copy, free, fork and are killed at random, under
 * `gpuconf run --simulate`.
 *
 *     crowd SECONDS SEED PROCESSES THREADS BYTES     BYTES: what programs may have of each card
 *
 * What all of them hold at least, in a sum that they share, never exceeds BYTES. What one thread writes, no other one
 * changes. While the threads of a process rest, no less of the card is taken than they hold, and nothing of it is the
 * process's after it has freed all. A child has no driver. No process stands still. At the end, all of the cards is
 * free. (`crowd last BYTES` asks that.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CARDS = 2, MOST = 16, HELD = 24, MIB = 1 << 20, STILL = 60 };
enum kind { NONE, LINEAR, ORDERED, PHYSICAL, EXPORTED, POOLED, ARRAY, MANAGED, KINDS };

struct thread {
	int64_t holds[CARDS]; /* never less than this thread's part of the sum */
	uint64_t steps, taken, refused, forks, rests;
};
static struct shared {
	int64_t sum[CARDS];
	struct thread thread[MOST][MOST];
} *shared;

struct object {
	enum kind kind;
	int card;
	uint64_t at, handle, bytes;
	uint32_t value;
};

static uint64_t bytes_of_card, seed;
static int processes, threads, number, cards;
static double end;
static struct object held[MOST][HELD];
static void *contexts[CARDS];
static uint64_t streams[CARDS];
static pthread_rwlock_t at_work = PTHREAD_RWLOCK_INITIALIZER;
static int (*nvml_processes)(void *, unsigned *, void *);
static void *nvml_card[CARDS];

/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit) X(cuDeviceGetCount) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuStreamCreate) \
	X(cuStreamSynchronize) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemAllocAsync) X(cuMemFreeAsync) \
	X(cuMemAllocManaged) X(cuMemGetInfo_v2) X(cuMemcpyDtoH_v2) X(cuMemsetD32_v2) X(cuMemCreate) X(cuMemRelease) \
	X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
	X(cuDeviceGetDefaultMemPool) X(cuMemPoolTrimTo) X(cuCtxSynchronize) X(cuMemExportToShareableHandle) \
	X(cuMemImportFromShareableHandle) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemAllocFromPoolAsync) \
	X(cuArrayCreate_v2) X(cuArrayDestroy)
/* clang-format on */
#define DECLARE(name) static int (*name)();
FUNCTIONS(DECLARE)

static double now(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t draw(uint64_t *state, uint64_t below) {
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % below;
}

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "line %d: %s: ", __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fprintf(stderr, " (pid %d, seed %llu)\n", getpid(), (unsigned long long)seed); \
			_exit(9); \
		} \
	} while (0)
#define MUST(call) \
	do { \
		int result_ = (call); \
		CHECK(result_ == 0, "%d", result_); \
	} while (0)

static void start(void) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	CHECK(library != NULL && nvml != NULL, "%s", dlerror());
#define FIND(name) CHECK((*(void **)&name = dlsym(library, #name)) != NULL, "missing");
	FUNCTIONS(FIND)
	MUST(cuInit(0));
	MUST(cuDeviceGetCount(&cards));
	CHECK(cards > 0 && cards <= CARDS, "%d", cards);
	for (int card = 0; card < cards; card++) {
		MUST(cuDevicePrimaryCtxRetain(&contexts[card], card));
		MUST(cuCtxSetCurrent(contexts[card]));
		MUST(cuStreamCreate(&streams[card], 1));
	}
	*(void **)&nvml_processes = dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
	MUST(((int (*)(void))dlsym(nvml, "nvmlInit_v2"))());
	for (int card = 0; card < cards; card++)
		MUST(((int (*)(unsigned, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(
		    (unsigned)card, &nvml_card[card]));
}

/* What NVML says that this process uses of a card. */
static uint64_t listed(int card) {
	struct {
		unsigned pid;
		unsigned long long bytes;
		unsigned instances[2];
	} found[256];
	unsigned count = 256;
	MUST(nvml_processes(nvml_card[card], &count, found));
	for (unsigned i = 0; i < count; i++)
		if (found[i].pid == (unsigned)getpid())
			return found[i].bytes;
	return 0;
}

/* Memory that goes through a descriptor: the first handle is released, and the second one keeps it. */
static void export_and_import(struct object *one) {
	uint64_t again;
	int descriptor;
	MUST(cuMemExportToShareableHandle(&descriptor, one->handle, 1, (uint64_t)0));
	MUST(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)descriptor, 1));
	MUST(cuMemRelease(one->handle));
	close(descriptor);
	one->handle = again;
}

static int map(struct object *one) {
	struct {
		int type, handle_types, location[2];
		void *win32;
		unsigned char flags[8];
	} properties = {1, one->kind == EXPORTED, {1, one->card}, NULL, {0}};
	struct {
		int location[2], flags;
	} access = {{1, one->card}, 3};
	one->bytes = (one->bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	int result = cuMemCreate(&one->handle, one->bytes, &properties, (uint64_t)0);
	if (result != 0)
		return result;
	if (one->kind == EXPORTED)
		export_and_import(one);
	MUST(cuMemAddressReserve(&one->at, one->bytes, (size_t)0, (uint64_t)0, (uint64_t)0));
	MUST(cuMemMap(one->at, one->bytes, (size_t)0, one->handle, (uint64_t)0));
	MUST(cuMemSetAccess(one->at, one->bytes, &access, (size_t)1));
	return 0;
}

/* A pool of its own, which may be destroyed before the memory is freed. */
static int pooled(struct object *one) {
	struct {
		int type, handle_types, location[2];
		void *win32;
		size_t most;
		unsigned char reserved[56];
	} properties = {.type = 1, .location = {1, one->card}};
	void *pool;
	MUST(cuMemPoolCreate(&pool, &properties));
	int result = cuMemAllocFromPoolAsync(&one->at, one->bytes, pool, streams[one->card]);
	if (result == 0)
		MUST(cuStreamSynchronize(streams[one->card]));
	one->handle = (uint64_t)(uintptr_t)pool;
	if (result != 0 || one->bytes % 8 == 0) {
		MUST(cuMemPoolDestroy(pool));
		one->handle = 0;
	}
	return result;
}

static int array(struct object *one) {
	struct {
		size_t width, height;
		int format;
		unsigned channels;
	} shape = {one->bytes / 4096, 1024, 0x20, 1};
	one->bytes = shape.width * shape.height * 4;
	if (one->bytes == 0)
		return 2;
	return cuArrayCreate_v2(&one->handle, &shape);
}

static int allocate(struct object *one) {
	int result;
	switch (one->kind) {
	case LINEAR:
		return cuMemAlloc_v2(&one->at, one->bytes);
	case MANAGED:
		return cuMemAllocManaged(&one->at, one->bytes, 1);
	case ORDERED:
		result = cuMemAllocAsync(&one->at, one->bytes, streams[one->card]);
		return result != 0 ? result : cuStreamSynchronize(streams[one->card]);
	case POOLED:
		return pooled(one);
	case ARRAY:
		return array(one);
	default:
		return map(one);
	}
}

static void release(struct object *one) {
	switch (one->kind) {
	case LINEAR:
	case MANAGED:
		MUST(cuMemFree_v2(one->at));
		break;
	case ORDERED:
	case POOLED:
		MUST(cuMemFreeAsync(one->at, streams[one->card]));
		if (one->kind == POOLED && one->handle != 0)
			MUST(cuMemPoolDestroy((void *)(uintptr_t)one->handle));
		break;
	case ARRAY:
		MUST(cuArrayDestroy(one->handle));
		break;
	default:
		MUST(cuMemUnmap(one->at, one->bytes));
		MUST(cuMemAddressFree(one->at, one->bytes));
		MUST(cuMemRelease(one->handle));
	}
}

/* Managed memory may be the host's. */
static int64_t charge(const struct object *one) { return one->kind == MANAGED ? 0 : (int64_t)one->bytes; }

static void take(struct thread *self, struct object *one, uint64_t *state) {
	static const uint64_t most[] = {4096, MIB, 32 * MIB};
	one->kind = (enum kind)(1 + draw(state, KINDS - 1));
	one->card = (int)draw(state, (uint64_t)cards);
	one->bytes = 4 * (1 + draw(state, most[draw(state, 3)] / 4));
	one->value = (uint32_t)draw(state, 1 << 30);
	MUST(cuCtxSetCurrent(contexts[one->card]));
	int result = allocate(one);
	CHECK(result == 0 || result == 2, "%d", result);
	if (result != 0) {
		self->refused++;
		one->kind = NONE;
		return;
	}
	self->taken++;
	__atomic_add_fetch(&self->holds[one->card], charge(one), __ATOMIC_SEQ_CST);
	int64_t sum = __atomic_add_fetch(&shared->sum[one->card], charge(one), __ATOMIC_SEQ_CST);
	CHECK(sum <= (int64_t)bytes_of_card, "%lld of %llu bytes are held", (long long)sum,
	    (unsigned long long)bytes_of_card);
	if (one->kind == ARRAY)
		return;
	MUST(cuMemsetD32_v2(one->at, one->value, (size_t)1));
	MUST(cuMemsetD32_v2(one->at + one->bytes - 4, one->value, (size_t)1));
}

static void give(struct thread *self, struct object *one) {
	uint32_t ends[2] = {one->value, one->value};
	MUST(cuCtxSetCurrent(contexts[one->card]));
	if (one->kind != ARRAY) {
		MUST(cuMemcpyDtoH_v2(&ends[0], one->at, (size_t)4));
		MUST(cuMemcpyDtoH_v2(&ends[1], one->at + one->bytes - 4, (size_t)4));
	}
	CHECK(ends[0] == one->value && ends[1] == one->value, "%x and %x, not %x, in kind %d", ends[0], ends[1], one->value,
	    one->kind);
	__atomic_add_fetch(&shared->sum[one->card], -charge(one), __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&self->holds[one->card], -charge(one), __ATOMIC_SEQ_CST);
	release(one);
	one->kind = NONE;
}

/* While the other threads of the process rest. */
static void look(struct thread *self, int clear) {
	int64_t mine[CARDS] = {0}, shares[CARDS] = {0}; /* the list of processes leaves exported memory out */
	for (int i = 0; i < threads; i++)
		for (struct object *one = held[i]; one < held[i] + HELD; one++) {
			if (one->kind != NONE && clear)
				give(&shared->thread[number][i], one);
			else if (one->kind != NONE)
				*(one->kind == EXPORTED ? &shares[one->card] : &mine[one->card]) += charge(one);
		}
	for (int card = 0; card < cards; card++) {
		size_t available, total;
		void *pool;
		MUST(cuCtxSetCurrent(contexts[card]));
		MUST(cuMemGetInfo_v2(&available, &total));
		int64_t all = mine[card] + shares[card];
		CHECK(total == bytes_of_card && available + (uint64_t)all <= total, "%zu of %zu free, %lld held", available,
		    total, (long long)all);
		uint64_t says = listed(card);
		CHECK(
		    (int64_t)says >= mine[card], "NVML says %llu, %lld held", (unsigned long long)says, (long long)mine[card]);
		if (clear) {
			MUST(cuCtxSynchronize());
			MUST(cuDeviceGetDefaultMemPool(&pool, card));
			MUST(cuMemPoolTrimTo(pool, (size_t)0));
			CHECK((says = listed(card)) == 0, "NVML says %llu, and all is freed", (unsigned long long)says);
		}
	}
	self->rests++;
}

/* A child has no driver, whatever the other threads did meanwhile. It ends, or becomes a program that has one. */
static void fork_one(struct thread *self, uint64_t *state) {
	int becomes = (int)draw(state, 4) == 0, status;
	char text[32];
	snprintf(text, sizeof text, "%llu", (unsigned long long)bytes_of_card);
	pid_t child = fork();
	if (child == 0) {
		uint64_t at;
		alarm(STILL);
		int first = cuInit(0), second = cuMemAlloc_v2(&at, (size_t)4096);
		CHECK((first == 304 || first == 3) && second != 0, "%d %d", first, second);
		if (becomes)
			execl("/proc/self/exe", "crowd", "once", text, (char *)NULL);
		_exit(0);
	}
	CHECK(child > 0, "%s", strerror(errno));
	CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", status);
	self->forks++;
}

static void *work(void *argument) {
	int me = (int)(intptr_t)argument;
	struct thread *self = &shared->thread[number][me];
	uint64_t state = seed * 1000003 + (uint64_t)getpid() * 257 + (uint64_t)me;
	while (now() < end) {
		uint64_t what = draw(&state, 400);
		struct object *one = &held[me][draw(&state, HELD)];
		if (what == 0 || what == 1) {
			pthread_rwlock_wrlock(&at_work);
			look(self, what == 1);
		} else {
			pthread_rwlock_rdlock(&at_work);
			if (what == 2)
				fork_one(self, &state);
			else if (one->kind == NONE)
				take(self, one, &state);
			else
				give(self, one);
		}
		pthread_rwlock_unlock(&at_work);
		__atomic_add_fetch(&self->steps, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* Before a process ends: others may get its memory at once. */
static void bury(int process) {
	for (int i = 0; i < threads; i++)
		for (int card = 0; card < CARDS; card++)
			__atomic_add_fetch(&shared->sum[card],
			    -__atomic_exchange_n(&shared->thread[process][i].holds[card], 0, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
}

static void worker(void) {
	pthread_t running[MOST];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start();
	for (intptr_t i = 0; i < threads; i++)
		MUST(pthread_create(&running[i], NULL, work, (void *)i));
	for (int i = 0; i < threads; i++)
		pthread_join(running[i], NULL);
	if (seed % 2 == 0)
		look(&shared->thread[number][0], 1);
	bury(number);
	exit(0); /* or with all that it holds */
}

static uint64_t steps_of(int process) {
	uint64_t steps = 0;
	for (int i = 0; i < threads; i++)
		steps += __atomic_load_n(&shared->thread[process][i].steps, __ATOMIC_SEQ_CST);
	return steps;
}

static pid_t begin(int process) {
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		number = process;
		worker();
	}
	return pid;
}

/* Kills a process at whatever it does: first it is stopped, so that it holds its memory until its part of the sum is
 * gone. */
static int stop(int process, pid_t pid, uint64_t *kills) {
	int status;
	CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid, "%s", strerror(errno));
	if (WIFSTOPPED(status)) {
		bury(process);
		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
		(*kills)++;
		return 1;
	}
	CHECK(status == 0, "process %d ended with %x", pid, status);
	return 1;
}

static int ended(pid_t pid) {
	int status, gone = waitpid(pid, &status, WNOHANG) == pid;
	CHECK(!gone || status == 0, "process %d ended with %x", pid, status);
	return gone;
}

static int master(void) {
	pid_t pids[MOST];
	uint64_t before[MOST] = {0}, state = seed, kills = 0;
	double moved[MOST];
	int status, last = 0;
	for (int i = 0; i < processes; i++)
		pids[i] = begin(i), moved[i] = now();
	while (now() < end) {
		usleep((useconds_t)(1000 * draw(&state, 100)));
		int victim = (int)draw(&state, (uint64_t)processes);
		for (int i = 0; i < processes; i++) {
			int gone = i == victim && draw(&state, 20) == 0 ? stop(i, pids[i], &kills) : ended(pids[i]);
			if (steps_of(i) != before[i])
				before[i] = steps_of(i), moved[i] = now();
			CHECK(now() - moved[i] < STILL, "process %d has stood still for %d s", pids[i], STILL);
			if (!gone)
				continue;
			pids[i] = begin(i), moved[i] = now();
		}
	}
	for (int i = 0; i < processes; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "process %d ended with %x", pids[i], status);
		last |= status;
	}
	struct thread all = {0};
	for (int i = 0; i < MOST; i++)
		for (int j = 0; j < MOST; j++) {
			const struct thread *one = &shared->thread[i][j];
			all.steps += one->steps, all.taken += one->taken, all.refused += one->refused, all.forks += one->forks,
			    all.rests += one->rests;
		}
	printf("{\"steps\": %llu, \"taken\": %llu, \"refused\": %llu, \"forks\": %llu, \"rests\": %llu, \"kills\": %llu}\n",
	    (unsigned long long)all.steps, (unsigned long long)all.taken, (unsigned long long)all.refused,
	    (unsigned long long)all.forks, (unsigned long long)all.rests, (unsigned long long)kills);
	return last;
}

/* Of one that a worker's child became: it allocates, while others do. Of the last: within a second, all is free. */
static int alone(int is_last) {
	size_t available = 0, total = 0;
	uint64_t at;
	double begun = now();
	start();
	for (int card = 0; card < cards; card++) {
		MUST(cuCtxSetCurrent(contexts[card]));
		if (!is_last) {
			int result = cuMemAlloc_v2(&at, (size_t)MIB);
			CHECK(result == 0 || result == 2, "%d", result);
			continue;
		}
		do {
			MUST(cuMemGetInfo_v2(&available, &total));
		} while (available != total && now() - begun < 1 && usleep(10000) == 0);
		CHECK(available == total && total == bytes_of_card, "card %d has %zu of %zu free, and nobody holds any", card,
		    available, total);
	}
	return 0;
}

int main(int count, char **words) {
	if (count == 3) {
		bytes_of_card = strtoull(words[2], NULL, 10);
		return alone(strcmp(words[1], "last") == 0);
	}
	if (count != 6)
		return 2;
	end = now() + atof(words[1]);
	seed = strtoull(words[2], NULL, 10);
	processes = atoi(words[3]), threads = atoi(words[4]);
	bytes_of_card = strtoull(words[5], NULL, 10);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && processes <= MOST && threads <= MOST, "%s", strerror(errno));
	return master();
}
