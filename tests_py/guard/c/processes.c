/*
 * Processes that use one budget at the same time.
 *
 *     processes race SHARED LIMIT STEPS SEED   random allocations and frees of linear, virtual and stream-ordered
 *                                              memory, beside a counter that all share; prints how many were granted
 *                                              and refused
 *     processes last SHARED COUNT ROUNDS       COUNT processes request the last MiB in each round; exactly one may get
 *                                              it
 *     processes hold MIB                       allocates, prints the result, and holds until its input ends
 *     processes kill FROM TO STRIDE            a child is killed after n instructions of an allocation, a refusal and a
 *                                              free, for each n; all of the budget must be there afterwards
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

typedef struct {
	int type, handle_types, location_type, location_id;
	void *other;
	unsigned char flags[8];
} allocation_prop;

static int (*cuInit)(unsigned), (*cuDevicePrimaryCtxRetain)(void **, int), (*cuCtxSetCurrent)(void *),
    (*cuMemAlloc)(uint64_t *, size_t), (*cuMemFree)(uint64_t),
    (*cuMemCreate)(uint64_t *, size_t, const allocation_prop *, unsigned long long), (*cuMemRelease)(uint64_t),
    (*cuMemAllocAsync)(uint64_t *, size_t, void *), (*cuMemFreeAsync)(uint64_t, void *), (*cuStreamSynchronize)(void *);

static void begin(void) {
	void *library = dlopen("libcuda.so.1", RTLD_LAZY), *context;
	if (library == NULL)
		exit(3);
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
	FIND(cuStreamSynchronize, "cuStreamSynchronize");
	if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
		exit(4);
}

struct shared {
	int64_t total; /* what all hold, by their own count */
	int64_t over;
	uint64_t arrived, winners, wrong;
};

static struct shared *share(const char *path) {
	int file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 4096) != 0)
		exit(5);
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static uint64_t state;
static uint64_t random_number(void) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * UINT64_C(0x2545F4914F6CDD1D) >> 16;
}

enum { LINEAR, VIRTUAL, ORDERED, HELD = 32 };
struct held {
	uint64_t key, bytes;
	int kind;
};

static int take(struct held *one) {
	const allocation_prop prop = {.type = 1, .location_type = 1};
	if (one->kind == LINEAR)
		return cuMemAlloc(&one->key, one->bytes);
	if (one->kind == VIRTUAL)
		return cuMemCreate(&one->key, one->bytes, &prop, 0);
	return cuMemAllocAsync(&one->key, one->bytes, NULL);
}

static int drop(const struct held *one) {
	if (one->kind == LINEAR)
		return cuMemFree(one->key);
	if (one->kind == VIRTUAL)
		return cuMemRelease(one->key);
	return cuMemFreeAsync(one->key, NULL);
}

static int race(struct shared *shared, int64_t limit, long steps, uint64_t seed) {
	struct held held[HELD] = {0};
	long granted = 0, refused = 0;
	state = seed * 7919 + 1;
	for (long i = 0; i < steps; i++) {
		struct held *one = &held[random_number() % HELD];
		if (one->bytes == 0) {
			one->kind = (int)(random_number() % 3);
			one->bytes = (1 + random_number() % 24) * 2 * MIB;
			int result = take(one);
			if (result == 0) {
				granted++;
				if (__atomic_add_fetch(&shared->total, (int64_t)one->bytes, __ATOMIC_SEQ_CST) > limit)
					__atomic_fetch_add(&shared->over, 1, __ATOMIC_SEQ_CST);
			} else {
				one->bytes = 0;
				if (result != 2)
					return 6;
				refused++;
			}
		} else {
			__atomic_sub_fetch(&shared->total, (int64_t)one->bytes, __ATOMIC_SEQ_CST);
			if (drop(one) != 0)
				return 7;
			one->bytes = 0;
		}
	}
	for (int i = 0; i < HELD; i++)
		if (held[i].bytes != 0) {
			__atomic_sub_fetch(&shared->total, (int64_t)held[i].bytes, __ATOMIC_SEQ_CST);
			if (drop(&held[i]) != 0)
				return 7;
		}
	cuStreamSynchronize(NULL);
	printf("%ld %ld\n", granted, refused);
	return 0;
}

static void meet(struct shared *shared, uint64_t count, uint64_t *meetings) {
	uint64_t wanted = ++*meetings * count;
	__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->arrived, __ATOMIC_SEQ_CST) < wanted)
		sched_yield();
}

static int last(struct shared *shared, uint64_t count, long rounds) {
	uint64_t meetings = 0, address;
	for (long i = 0; i < rounds; i++) {
		meet(shared, count, &meetings);
		int got = cuMemAlloc(&address, MIB) == 0;
		if (got)
			__atomic_add_fetch(&shared->winners, 1, __ATOMIC_SEQ_CST);
		meet(shared, count, &meetings);
		if (__atomic_load_n(&shared->winners, __ATOMIC_SEQ_CST) != (uint64_t)i + 1)
			__atomic_add_fetch(&shared->wrong, 1, __ATOMIC_SEQ_CST);
		if (got && cuMemFree(address) != 0)
			return 7;
		meet(shared, count, &meetings);
	}
	printf("%llu\n", (unsigned long long)shared->wrong);
	return shared->wrong != 0;
}

static int hold(uint64_t bytes) {
	uint64_t address;
	char letter;
	printf("%d\n", cuMemAlloc(&address, bytes));
	fflush(stdout);
	while (read(0, &letter, 1) > 0)
		;
	return 0;
}

static void child(void) {
	begin();
	uint64_t one, two;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	int taken = cuMemAlloc(&one, 100 * MIB);
	cuMemAlloc(&two, 1000 * MIB);
	if (taken == 0)
		cuMemFree(one);
	_exit(0);
}

/* In a process of its own: a child that is forked after cuInit cannot use the driver, so the parent of these does not
 * call it. */
static int whole_budget(void) {
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		uint64_t all;
		begin();
		_exit(cuMemAlloc(&all, 512 * MIB));
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static int walk(long from, long to, long stride) {
	long n = from, killed = 0;
	for (; n < to; n += stride) {
		int status;
		pid_t pid = fork();
		if (pid == 0)
			child();
		waitpid(pid, &status, 0);
		long done = 0;
		while (done < n && !WIFEXITED(status)) {
			if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
				return 8;
			waitpid(pid, &status, 0);
			done++;
		}
		int ended = WIFEXITED(status);
		if (!ended) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			killed++;
		}
		int result = whole_budget();
		if (result != 0) {
			printf("after a kill at instruction %ld an allocation of the whole budget is refused with %d\n", n, result);
			return 1;
		}
		if (ended)
			break;
	}
	printf("%ld\n", killed);
	return 0;
}

int main(int count, char **words) {
	if (count == 5 && strcmp(words[1], "kill") == 0)
		return walk(atol(words[2]), atol(words[3]), atol(words[4]));
	begin();
	if (count == 6 && strcmp(words[1], "race") == 0)
		return race(share(words[2]), atoll(words[3]), atol(words[4]), strtoull(words[5], NULL, 10));
	if (count == 5 && strcmp(words[1], "last") == 0)
		return last(share(words[2]), strtoull(words[3], NULL, 10), atol(words[4]));
	if (count == 3 && strcmp(words[1], "hold") == 0)
		return hold(strtoull(words[2], NULL, 10) * MIB);
	return 2;
}
