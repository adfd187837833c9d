/*
 * Random operations of several processes on one budget, beside a model of each.
 *
 *     soak SHARED LIMIT STEPS SEED WORKERS     LIMIT in bytes; STEPS of each worker. Prints what was done.
 *
 * After every operation a worker compares three figures: what its guard charges it, what the driver itself says is
 * taken (asked past the guard, by DRIVER), and what its own counters say. And what all workers hold at least, in a
 * counter that they share, never exceeds the limit.
 *
 * Driver calls fail at random. Workers end in the midst of it: they exit, are killed in a driver call or at any moment,
 * or become another program; their successors go on. Forked children allocate for themselves and end likewise.
 */
#include "rows.h"

#include "../../../gocore/lease/budget/budget.h"
#include "../../../gocore/lease/budget/locks.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT (32 * MIB)

enum { HELD = 40, MOST_WORKERS = 16, ROWS = sizeof rows / sizeof *rows };
enum death { EXIT, KILLED_IN_CALL, KILLED_ANYWHERE, EXEC, DEATHS };

struct worker {
	uint64_t done, lives;
	int64_t least; /* of what it holds; a part of the shared sum */
	int expected;  /* to end before its steps are done */
};
static struct shared {
	int64_t sum;
	uint64_t limit, steps, seed;
	uint64_t granted[ROWS], refused[ROWS], failures, deaths[DEATHS], forks, full, lost;
	struct worker worker[MOST_WORKERS];
} *shared;
static struct worker *me;
static int number, shared_file;
static pid_t pids[MOST_WORKERS];
static uint64_t state;
static struct object held[HELD];
static const struct row *kind[HELD];
static int doomed, child;
static uint64_t base; /* what a child's driver says is its parent's */
static uint64_t lost; /* what the driver refused to take back while a request was being undone */
static uint64_t
    beyond; /* what a pool has grown by for a request that was refused, because the driver refused to trim it */
static uint64_t leaked; /* and what it refused to free, which is in use for ever */
static int refused;
static int (*driver_info)(size_t *, size_t *), (*driver_pool)(void *, int, uint64_t *),
    (*driver_graphs)(int, int, uint64_t *);
static char last[256];
static const struct budget_header *budget;
static const struct budget_slot *slots;
static int budget_file, slot = -1;

static uint64_t random_number(uint64_t below) {
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (state * UINT64_C(0x2545F4914F6CDD1D) >> 16) % below;
}

static void wrong(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	printf(
	    "worker %d, operation %llu (%s)%s: ", number, (unsigned long long)me->done, last, child ? " in a child" : "");
	vprintf(format, arguments);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

/* The driver's own figure, asked past the guard. */
static uint64_t taken(void) {
	size_t available = 0, total = 0;
	if (driver_info(&available, &total) != 0)
		wrong("the driver has no figures");
	return total - available - base;
}

enum { RESERVED = 5, USED = 7, GRAPHS_RESERVED = 2 };
static uint64_t in_pools(int attribute) {
	uint64_t sum = 0, value = 0;
	void *standard = NULL;
	if (child)
		return 0;
	cu.cuDeviceGetDefaultMemPool(&standard, 0);
	if (driver_pool(standard, attribute, &value) == 0)
		sum += value;
	if (pool != NULL && driver_pool(pool, attribute, &value) == 0)
		sum += value;
	if (attribute == RESERVED && driver_graphs(0, GRAPHS_RESERVED, &value) == 0)
		sum += value;
	return sum;
}

static int of_the_primary_context(const struct row *row) {
	return row->drop == drop_linear || row->drop == drop_linear_v1 || row->drop == drop_ordered ||
	       row->drop == drop_array || row->drop == drop_mipmapped;
}

/* Linear memory below a page of 2 MiB shares one with others of its context. */
static int is_small(const struct row *row, const struct object *o) {
	return row->take == take_linear && o->bytes < 2 * MIB;
}

static int is_first_of_page(int i) {
	for (int j = 0; j < i; j++)
		if (kind[j] != NULL && is_small(kind[j], &held[j]) && held[j].a / (2 * MIB) == held[i].a / (2 * MIB))
			return 0;
	return 1;
}

static int in_a_reserve(const struct row *row) {
	return row->take != take_orphan && (row->drop == drop_async || row->drop == drop_async_ptsz ||
	                                       row->drop == drop_location || row->drop == drop_graph);
}

/*
 * By the worker's own counters: what its objects are, and what pools and graphs reserve, or at least have in use. Of
 * graphs that is what is live: as a card does, the driver says that all that is reserved is used.
 */
static uint64_t books(int attribute) {
	uint64_t sum = in_pools(attribute);
	for (int i = 0; i < HELD; i++)
		if (kind[i] != NULL && is_small(kind[i], &held[i]))
			sum += is_first_of_page(i) ? 2 * MIB : 0;
		else if (kind[i] != NULL && (!in_a_reserve(kind[i]) || (attribute == USED && kind[i]->drop == drop_graph)))
			sum += held[i].bytes;
	return sum;
}

/*
 * The slot of the budget that this process has locked, or -1. A program that became this one had another under the same
 * pid, whose lock goes with its address space: a moment later, if something in the kernel still looks at that.
 */
static int find_slot(void) {
	int found, matches;
	do {
		found = -1, matches = 0;
		for (uint32_t i = 0; i < budget->high; i++)
			if (slots[i].pid == (uint32_t)getpid() && locked_byte(budget_file, LOCKS + i, LOCKS + i) >= 0)
				found = (int)i, matches++;
	} while (matches > 1 && usleep(1000) == 0);
	return found;
}

static void open_budget_file(void) {
	budget_file = open(getenv("GPUCONF_GUARD"), O_RDWR | O_CLOEXEC);
	budget = mmap(NULL, HEADER_BYTES, PROT_READ, MAP_SHARED, budget_file, 0);
	if (budget == MAP_FAILED ||
	    (budget = mmap(NULL, budget->size, PROT_READ, MAP_SHARED, budget_file, 0)) == MAP_FAILED)
		exit(6);
	slots = (const struct budget_slot *)((const char *)budget + HEADER_BYTES);
}

/* What the guard charges this process, once it has asked the driver again what pools and graphs reserve. */
static uint64_t mine(void) {
	static const unsigned char uuid[16] = {
	    0xf0, 0xce, 0xd0, 0x0d, 0x12, 0x34, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x00};
	uint64_t values[6] = {0};
	if (!figures(uuid, values))
		wrong("the guard has no figures");
	if (slot < 0)
		slot = find_slot();
	const uint64_t *used = (const uint64_t *)(slots + budget->slots);
	const struct budget_share *shares = (const struct budget_share *)(used + 3 * budget->cards * budget->slots);
	uint64_t sum = slot < 0 ? 0 : used[slot] & BYTES_MASK;
	for (uint32_t i = 0; slot >= 0 && i < budget->shares; i++)
		if (shares[i].id != 0 && (shares[i].holders[slot / 64] >> (slot % 64) & 1) != 0)
			sum += shares[i].size;
	return sum;
}

/* What the worker holds at least; the sum of all of them is exact at the moment of the addition. */
static void publish(uint64_t least) {
	if (doomed || child)
		return;
	int64_t more = (int64_t)least - me->least;
	me->least = (int64_t)least;
	int64_t sum = __atomic_add_fetch(&shared->sum, more, __ATOMIC_SEQ_CST);
	if (more > 0 && sum > (int64_t)shared->limit)
		wrong("together the workers hold %lld bytes", (long long)sum);
	if (more > 0 && sum + (int64_t)(32 * MIB) > (int64_t)shared->limit)
		__atomic_fetch_add(&shared->full, 1, __ATOMIC_RELAXED);
}

static void check(int failed, uint64_t was_used, uint64_t was_unused) {
	uint64_t is_taken = taken(), own = books(RESERVED) + lost, charged;
	if (failed && is_taken > own) { /* another failure than the one that refused it kept it from being undone */
		__atomic_fetch_add(&shared->lost, is_taken - own, __ATOMIC_RELAXED);
		lost += is_taken - own, own = is_taken;
	}
	if (is_taken != own)
		wrong("the driver says %llu bytes, the books %llu with %llu lost", (unsigned long long)is_taken,
		    (unsigned long long)own, (unsigned long long)lost);
	if ((charged = mine()) != is_taken)
		wrong("charged are %llu bytes in slot %d, the driver says %llu", (unsigned long long)charged, slot,
		    (unsigned long long)is_taken);
	uint64_t used = in_pools(USED), unused = in_pools(RESERVED) - used;
	if (failed && refused) {
		uint64_t more = used > was_used ? used - was_used : 0, grown = unused > was_unused ? unused - was_unused : 0;
		leaked += more, beyond += grown;
		__atomic_fetch_add(&shared->lost, more + grown, __ATOMIC_RELAXED);
	}
	beyond = beyond > unused ? unused : beyond; /* the rest was trimmed */
	publish(is_taken - lost - beyond - leaked);
}

static uint64_t whole(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

static void take_one(int i) {
	const struct row *row = &rows[random_number(ROWS)];
	while (child && strstr("linear virtual pitch managed mapped array mipmapped retained", row->name) == NULL)
		row = &rows[random_number(ROWS)];
	held[i] = (struct object){.bytes = (1 + random_number(12)) * 2 * MIB};
	if (row->take == take_linear || row->take == take_linear_v1 || row->take == take_managed)
		held[i].bytes -=
		    512 *
		    random_number(child && held[i].bytes == 2 * MIB ? 1 : 4096); /* a child may find a page of its parent's */
	snprintf(last, sizeof last, "taking %llu by %s", (unsigned long long)held[i].bytes, row->name);
	int result = row->take(&held[i]);
	calm();
	refused = result != 0;
	if (result == 0)
		kind[i] = row;
	if (row->take == take_linear_v1 || (row->take == take_linear && !is_small(row, &held[i])))
		held[i].bytes = whole(held[i].bytes, 2 * MIB);
	if (row->take == take_orphan) /* the pool keeps what it has reserved */
		held[i].bytes = whole(held[i].bytes, SEGMENT);
	__atomic_fetch_add(result == 0 ? &shared->granted[row - rows] : &shared->refused[row - rows], 1, __ATOMIC_RELAXED);
	if (result != 0 && result != 2 && result != 999)
		wrong("result %d", result);
}

static void drop_one(int i) {
	publish(books(USED) - leaked - (is_small(kind[i], &held[i]) ? 2 * MIB : held[i].bytes));
	snprintf(last, sizeof last, "dropping %llu of %s", (unsigned long long)held[i].bytes, kind[i]->name);
	int result = kind[i]->drop(&held[i]);
	calm();
	if (result == 0)
		kind[i] = NULL;
	else if (result != 2 && result != 999)
		wrong("result %d", result);
}

/* Calls that free what was never allocated, request nothing or far too much: refused, and the account is as it was. */
static void mistake(void) {
	uint64_t out = 0;
	uint64_t which = random_number(7);
	snprintf(last, sizeof last, "mistake %llu", (unsigned long long)which);
	int result = which == 0   ? cu.cuMemFree_v2(UINT64_C(0x123456000))
	             : which == 1 ? cu.cuMemAlloc_v2(&out, (size_t)0)
	             : which == 2 ? cu.cuMemAlloc_v2(&out, (size_t)1 << 60)
	             : which == 3 ? cu.cuMemAllocManaged(&out, (size_t)0 - 1, 1u)
	             : which == 4 ? cu.cuMemRelease(UINT64_C(0x1234))
	             : which == 5 ? cu.cuMemUnmap(UINT64_C(0x200000), (size_t)(2 * MIB))
	                          : cu.cuMemAllocPitch_v2(&out, &(size_t){0}, (size_t)1 << 40, (size_t)1 << 40, 4u);
	if (result == 0)
		wrong("it succeeded");
}

static void reset(void) {
	snprintf(last, sizeof last, "resetting the primary context");
	publish(0);
	int result = random_number(2) ? cu.cuDevicePrimaryCtxReset(0) : cu.cuDevicePrimaryCtxReset_v2(0);
	calm();
	if (result != 0)
		return;
	capture_stream = NULL;
	if (cu.cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu.cuCtxSetCurrent(context) != 0)
		wrong("there is no new context");
	for (int i = 0; i < HELD; i++)
		if (kind[i] != NULL && of_the_primary_context(kind[i]))
			kind[i] = NULL;
	uint64_t is_taken = taken(), own = books(RESERVED);
	if (is_taken >= own && is_taken < own + lost) /* what was lost was the context's */
		lost = is_taken - own;
}

static void look(void) {
	size_t available = 0, total = 0, whole = 0;
	unsigned long before = fired();
	snprintf(last, sizeof last, "asking for figures");
	int result = cu.cuMemGetInfo_v2(&available, &total) | cu.cuDeviceTotalMem_v2(&whole, 0);
	if (result == 0 && fired() == before && (total != shared->limit || whole != total || available > total - mine()))
		wrong("%zu of %zu bytes are free, of a card of %zu", available, total, whole);
}

/* What pools and graphs keep goes back; a threshold lets pools keep more. */
static void settle(void) {
	uint64_t which = random_number(5), keep = random_number(3) * 32 * MIB;
	snprintf(last, sizeof last, "settling %llu", (unsigned long long)which);
	publish(books(USED) - leaked);
	void *standard = NULL;
	if (which == 0)
		cu.cuCtxSynchronize();
	else if (which == 1)
		cu.cuStreamSynchronize(NULL);
	else if (which == 2)
		cu.cuDeviceGraphMemTrim(0);
	else if (pool != NULL && which == 3)
		cu.cuMemPoolTrimTo(pool, (size_t)keep);
	else if (cu.cuDeviceGetDefaultMemPool(&standard, 0) == 0)
		cu.cuMemPoolSetAttribute(random_number(2) && pool != NULL ? pool : standard, 4, &keep);
}

static void operate(void) {
	int i = (int)random_number(HELD);
	unsigned long before = fired();
	uint64_t what = random_number(100);
	uint64_t used = in_pools(USED), unused = in_pools(RESERVED) - used;
	refused = 0;
	publish(books(USED) - leaked);
	if (!doomed && random_number(8) == 0)
		fail("*", random_number(10), random_number(2) ? 2 : 999);
	if (what < 85)
		kind[i] == NULL ? take_one(i) : drop_one(i);
	else if (what < 90)
		mistake();
	else if (what < 94)
		look();
	else if (!child && what == 99 && random_number(20) == 0)
		reset();
	else if (!child)
		settle();
	int failed = fired() > before;
	calm();
	__atomic_fetch_add(&shared->failures, (uint64_t)failed, __ATOMIC_RELAXED);
	check(failed, used, unused);
}

static void *shot(void *argument) {
	struct timespec moment = {0, (long)(uintptr_t)argument};
	nanosleep(&moment, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* The shared sum no longer counts this process; then it ends, with all that it holds. */
static void end(enum death death) {
	if (!child) {
		publish(0);
		me->expected = 1;
		__atomic_fetch_add(&shared->deaths[death], 1, __ATOMIC_RELAXED);
	}
	doomed = 1;
	if (death == EXIT)
		exit(0);
	if (death == EXEC) {
		char index[16], file[16];
		snprintf(index, sizeof index, "%d", number);
		snprintf(file, sizeof file, "%d", shared_file);
		execl("/proc/self/exe", "soak", "again", file, index, NULL);
		_exit(9);
	}
	if (death != KILLED_IN_CALL) {
		pthread_t thread;
		pthread_create(&thread, NULL, shot, (void *)(uintptr_t)random_number(300000));
	}
	for (;;) {
		struct object one = {.bytes = (1 + random_number(4)) * 2 * MIB};
		const struct row *row = &rows[random_number(child ? 6 : ROWS)];
		if (death == KILLED_IN_CALL) /* rows end what is armed */
			fail("*", random_number(6), -SIGKILL);
		if (row->take(&one) != 0)
			continue;
		if (death == KILLED_IN_CALL)
			fail("*", random_number(3), -SIGKILL);
		row->drop(&one);
	}
}

static pid_t forked;
static void bear_a_child(void) {
	if (forked > 0)
		waitpid(forked, NULL, 0);
	snprintf(last, sizeof last, "forking");
	publish(books(USED) - leaked);
	cu.cuCtxSynchronize();
	uint64_t before = taken();
	forked = fork();
	if (forked != 0) {
		__atomic_fetch_add(&shared->forks, 1, __ATOMIC_RELAXED);
		return;
	}
	memset(kind, 0, sizeof kind);
	child = 1, lost = beyond = leaked = 0, slot = -1, base = before, state ^= UINT64_C(0x9E3779B97F4A7C15);
	for (int i = 0; i < 40; i++)
		operate();
	end(random_number(2) ? EXIT : random_number(2) ? KILLED_IN_CALL : KILLED_ANYWHERE);
}

static void begin(void) {
	static const char *ways[] = {"dlsym", "default", "resolver", "resolver2"};
	find(ways[number % 4]); /* first: the driver by its path would be found by its name, too */
	void *driver = dlopen(getenv("DRIVER"), RTLD_LAZY);
	if (driver == NULL)
		exit(3);
	*(void **)&driver_info = dlsym(driver, "cuMemGetInfo_v2");
	*(void **)&driver_pool = dlsym(driver, "cuMemPoolGetAttribute");
	*(void **)&driver_graphs = dlsym(driver, "cuDeviceGetGraphMemAttribute");
	open_budget_file();
	if (cu.cuInit(0u) != 0 || cu.cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu.cuCtxSetCurrent(context) != 0)
		exit(4);
}

static void work(void) {
	state = (shared->seed * 1000 + (uint64_t)number) * UINT64_C(0x9E3779B97F4A7C15) + ++me->lives * 7919 + 1;
	me->expected = 0;
	begin();
	check(0, 0, 0);
	while (me->done < shared->steps) {
		me->done++;
		uint64_t chance = random_number(4000);
		if (chance < DEATHS)
			end((enum death)chance);
		else if (chance < 10)
			bear_a_child();
		else
			operate();
	}
	for (int i = 0; i < HELD; i++)
		if (kind[i] != NULL)
			drop_one(i);
	publish(0);
	if (forked > 0)
		waitpid(forked, NULL, 0);
	exit(0);
}

static void start(int index) {
	pid_t pid = fork();
	if (pid == 0) {
		number = index, me = &shared->worker[index];
		work();
	}
	pids[index] = pid;
}

/* Waits for all, and starts a successor for each that ended before its steps were done. */
static void supervise(int workers) {
	int status;
	pid_t pid;

	for (int i = 0; i < workers; i++)
		start(i);
	while ((pid = wait(&status)) > 0)
		for (int i = 0; i < workers; i++) {
			if (pids[i] != pid)
				continue;
			if (!shared->worker[i].expected && status != 0) {
				printf("worker %d ended with status %#x\n", i, status);
				fflush(stdout);
				kill(0, SIGKILL); /* all of them, and this one */
			}
			if (shared->worker[i].expected)
				start(i);
		}
}

static void report(void) {
	printf("{\"granted\": {");
	for (int i = 0; i < ROWS; i++)
		printf("%s\"%s\": %llu", i ? ", " : "", rows[i].name, (unsigned long long)shared->granted[i]);
	printf("}, \"refused\": {");
	for (int i = 0; i < ROWS; i++)
		printf("%s\"%s\": %llu", i ? ", " : "", rows[i].name, (unsigned long long)shared->refused[i]);
	printf("}, \"failures\": %llu, \"forks\": %llu, \"full\": %llu, \"left\": %lld, \"lost\": %llu, \"deaths\": [%llu, "
	       "%llu, %llu, %llu]}\n",
	    (unsigned long long)shared->failures, (unsigned long long)shared->forks, (unsigned long long)shared->full,
	    (long long)shared->sum, (unsigned long long)shared->lost, (unsigned long long)shared->deaths[0],
	    (unsigned long long)shared->deaths[1], (unsigned long long)shared->deaths[2],
	    (unsigned long long)shared->deaths[3]);
}

int main(int count, char **words) {
	int again = count == 4 && strcmp(words[1], "again") == 0;
	if (!again && count != 6)
		return 2;
	shared_file = again ? atoi(words[2]) : open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (shared_file < 0 || (!again && ftruncate(shared_file, sizeof *shared) != 0))
		return 5;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, shared_file, 0);
	if (again) {
		number = atoi(words[3]), me = &shared->worker[number];
		work();
	}
	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* children of workers that were killed */
	shared->limit = strtoull(words[2], NULL, 10), shared->steps = strtoull(words[3], NULL, 10),
	shared->seed = strtoull(words[4], NULL, 10);
	supervise(atoi(words[5]));
	report();
	return 0;
}
