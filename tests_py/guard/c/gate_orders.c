/*
 * Every order of what threads do at a gate while it is closed and opened: gate_orders THREADS CALLS CLOSINGS [TIMES]
 *
 * The threads run gocore/lease/guard/gate.c itself, whose operations on shared words and whose system calls are steps
 * here. What a thread writes by plain stores reaches others late, in order, at any later step. Who closes the gate does
 * the steps of Gate.close, sleep and open of python/gpuconf/jobs/gate.py, which test_gate_orders.py compares.
 *
 * In no state is a thread in the driver while the gate counts as closed. From each, all threads can still make their
 * calls, and none sleeps for ever. With TIMES a sleep also ends by its time, but only where nothing else can happen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define GPUCONF_GATE
static uint32_t load(const void *word, int line);
static void written(int line);
static uint32_t exchange(void *word, uint32_t value, int line);
static long kernel(long number, void *word, long operation, long value, int line);
#define __atomic_load_n(word, order) ((__typeof__(*(word)))load(word, __LINE__))
#define __atomic_store_n(word, value, order) (*(word) = (value), written(__LINE__))
#define __atomic_exchange_n(word, value, order) exchange(word, value, __LINE__)
#define __atomic_add_fetch(word, value, order) exchange(word, *(word) + (value), __LINE__)
#define __atomic_sub_fetch(word, value, order) exchange(word, *(word) - (value), __LINE__)
#define syscall(number, word, operation, value, ...) \
	kernel(number, (void *)(uintptr_t)(word), operation, value, __LINE__)
#include "guard.h"
#undef GATED_HOOKS
#define GATED_HOOKS(X) /* only how threads pass */
#include "gate.c"
#undef __atomic_load_n

int started = 1;
static unsigned char same = 1;
unsigned char *same_process = &same;
void note(const char *format, ...) { abort(); }

enum { MOST = 4, LATE = 4, CLOSER = MOST, PARTS = MOST + 1, STACK = 1 << 16, SAVED = 2048 };
enum { RUN, ARRIVE, TIME, GIVE_UP, KINDS };

/* All that decides what can happen next. */
struct state {
	uint32_t closed, wanted;
	struct part {
		int32_t line; /* where it goes on; 0: it has ended */
		uint32_t calls, seen, late[LATE];
		uint8_t lates, left, in_driver, asleep;
	} parts[PARTS];
	uint8_t closings, busy, counts, gives_up;
};

static struct state now;
static struct gate real_gate;
static struct gate_thread words[MOST];
static struct {
	ucontext_t context;
	char stack[STACK] __attribute__((aligned(64)));
} sides[PARTS];
static ucontext_t scheduler;
static int threads, calls, closings, times, current;

static void fail(const char *why) {
	fprintf(stderr, "%s\n", why);
	exit(1);
}

/* Between two steps. */
static void at(int line) {
	now.parts[current].line = line;
	swapcontext(&sides[current].context, &scheduler);
}

/* What the thread has written since the last step is on its way to the others. */
static void leave_late(void) {
	struct part *own = &now.parts[current];

	if (current == CLOSER || words[current].calls == own->calls)
		return;
	own->calls = words[current].calls;
	if (own->lates == LATE)
		fail("more stores on their way than there is room for");
	own->late[own->lates++] = own->calls;
}

static void arrive(struct part *part) {
	part->seen = part->late[0];
	memmove(part->late, part->late + 1, sizeof part->late - sizeof *part->late);
	part->late[--part->lates] = 0;
}

static void arrive_all(struct part *part) {
	while (part->lates > 0)
		arrive(part);
}

static uint32_t load(const void *word, int line) {
	leave_late();
	at(line);
	return *(const uint32_t *)word;
}

static void written(int line) {
	leave_late();
	at(line);
}

/* A locked instruction: what was on its way is there before it. */
static uint32_t exchange(void *word, uint32_t value, int line) {
	struct part *own = &now.parts[current];
	uint32_t before;

	leave_late();
	at(line);
	arrive_all(own);
	before = *(uint32_t *)word;
	*(uint32_t *)word = value;
	if (word == &words[current].calls)
		own->calls = own->seen = value;
	return before;
}

static long kernel(long number, void *word, long operation, long value, int line) {
	struct part *own = &now.parts[current];

	leave_late();
	at(line);
	arrive_all(own);
	if (number == SYS_membarrier) {
		for (int i = 0; i < threads; i++)
			arrive_all(&now.parts[i]);
		return 0;
	}
	if (operation == FUTEX_WAKE) {
		for (int i = 0; i < PARTS; i++)
			if (now.parts[i].asleep == 1 + (word == &gate->wanted))
				now.parts[i].asleep = 0;
		return 0;
	}
	if (*(uint32_t *)word == (uint32_t)value) {
		own->asleep = 1 + (word == &gate->wanted);
		at(-line);
	}
	return 0;
}

static void thread(void) {
	struct gate_thread *mine = &words[current];
	struct part *own = &now.parts[current];

	for (; own->left > 0; own->left--) {
		pass_gate(mine);
		own->in_driver = 1;
		at(__LINE__);
		own->in_driver = 0;
		leave_gate(&mine);
	}
	own->line = 0;
	swapcontext(&sides[current].context, &scheduler);
}

static int all_ended(void) {
	for (int i = 0; i < threads; i++)
		if (now.parts[i].line != 0)
			return 0;
	return 1;
}

static void closer(void) {
	for (; now.closings > 0; now.closings--) {
		at(__LINE__);
		gate->wanted = 0;
		at(__LINE__);
		gate->closed = 1;
#ifndef NO_BARRIER
		kernel(SYS_membarrier, NULL, 0, 0, __LINE__);
#endif
		now.gives_up = 0;
		do {
			now.busy = 0;
			for (int i = 0; i < threads; i++) {
				at(__LINE__ * 100 + i);
				now.busy |= now.parts[i].seen != 0;
			}
		} while (now.busy && !now.gives_up);
		now.counts = !now.busy;
		while (now.counts && !all_ended() && !load(&gate->wanted, __LINE__))
			kernel(SYS_futex, &gate->wanted, FUTEX_WAIT, 0, __LINE__);
		at(__LINE__);
		now.counts = 0;
		gate->closed = 0;
#ifndef NO_WAKE
		kernel(SYS_futex, &gate->closed, FUTEX_WAKE, INT_MAX, __LINE__);
#endif
	}
	now.parts[CLOSER].line = 0;
	swapcontext(&sides[CLOSER].context, &scheduler);
}

static void begin(void) {
	gate = &real_gate;
	now.closings = closings;
	for (int i = 0; i < PARTS; i++) {
		now.parts[i].left = i < threads ? calls : 0;
		if (i >= threads && i != CLOSER)
			continue;
		now.parts[i].line = 1;
		getcontext(&sides[i].context);
		sides[i].context.uc_stack.ss_sp = sides[i].stack;
		sides[i].context.uc_stack.ss_size = STACK;
		makecontext(&sides[i].context, i == CLOSER ? closer : thread, 0);
	}
}

static int can(int part, int kind) {
	const struct part *p = &now.parts[part];

	switch (kind) {
	case RUN:
		return p->line != 0 && (!p->asleep || (part == CLOSER && all_ended()));
	case ARRIVE:
		return p->lates > 0;
	case GIVE_UP:
		return part == CLOSER && p->line > 10000 && now.busy && !now.gives_up;
	}
	return 0;
}

static void step(int part, int kind) {
	current = part;
	if (kind == ARRIVE) {
		arrive(&now.parts[part]);
		return;
	}
	if (kind == GIVE_UP) {
		now.gives_up = 1;
		return;
	}
	now.parts[part].asleep = 0;
	swapcontext(&scheduler, &sides[part].context);
	now.closed = real_gate.closed;
	now.wanted = real_gate.wanted;
}

/* A state whose steps have not been taken yet, with what the threads go on with. */
struct saved {
	struct state state;
	struct gate gate;
	struct gate_thread words[MOST];
	ucontext_t contexts[PARTS];
	char stacks[PARTS][SAVED];
	struct saved *next;
	uint32_t number;
};

static struct saved *save(uint32_t number) {
	struct saved *at = malloc(sizeof *at);

	*at = (struct saved){.state = now, .gate = real_gate, .number = number};
	memcpy(at->words, words, sizeof words);
	for (int i = 0; i < PARTS; i++) {
		at->contexts[i] = sides[i].context;
		memcpy(at->stacks[i], sides[i].stack + STACK - SAVED, SAVED);
	}
	return at;
}

static void restore(const struct saved *at) {
	now = at->state;
	real_gate = at->gate;
	memcpy(words, at->words, sizeof words);
	for (int i = 0; i < PARTS; i++) {
		sides[i].context = at->contexts[i];
		memcpy(sides[i].stack + STACK - SAVED, at->stacks[i], SAVED);
	}
}

enum { TABLE = 1 << 23, EDGES = 1 << 26 };
static struct state *states;
static uint32_t *places, *from, *into, count, edges;

/* Returns the number of the state, and whether it is new. */
static uint32_t number_of(int *is_new) {
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < sizeof now; i++)
		hash = (hash ^ ((unsigned char *)&now)[i]) * 1099511628211u;
	for (uint32_t place = hash % TABLE;; place = (place + 1) % TABLE) {
		if (places[place] == 0) {
			if (count + 1 == TABLE / 2)
				fail("too many states");
			states[count] = now;
			places[place] = ++count;
			*is_new = 1;
			return count - 1;
		}
		if (memcmp(&states[places[place] - 1], &now, sizeof now) == 0) {
			*is_new = 0;
			return places[place] - 1;
		}
	}
}

static void check(void) {
	for (int i = 0; now.counts && i < threads; i++)
		if (now.parts[i].in_driver)
			fail("a call passes a closed gate");
}

/* From each state the end can be reached: back along the steps, from the states in which all have ended. */
static void check_ends(const unsigned char *ends) {
	unsigned char *reached = calloc(count, 1);
	uint32_t found = 0, before;

	for (uint32_t i = 0; i < count; i++)
		found += reached[i] = ends[i];
	do {
		before = found;
		for (uint32_t i = edges; i-- > 0;)
			if (reached[into[i]] && !reached[from[i]]) {
				reached[from[i]] = 1;
				found++;
			}
	} while (found != before);
	if (found != count)
		fail("a thread never passes again");
}

int main(int argc, char **argv) {
	if (argc < 4)
		return 2;
	threads = atoi(argv[1]);
	calls = atoi(argv[2]);
	closings = atoi(argv[3]);
	times = argc > 4;
	states = malloc(sizeof *states * (TABLE / 2));
	places = calloc(TABLE, sizeof *places);
	from = malloc(sizeof *from * EDGES);
	into = malloc(sizeof *into * EDGES);
	unsigned char *ends = calloc(TABLE / 2, 1);
	int is_new;

	begin();
	struct saved *first = save(number_of(&is_new)), **last = &first->next;
	while (first != NULL) {
		int taken = 0;
		for (int kind = 0; kind < KINDS; kind++)
			for (int part = 0; part < PARTS; part++) {
				restore(first);
				if (kind == TIME ? !(times && !taken && now.parts[part].asleep) : !can(part, kind))
					continue;
				taken |= kind != TIME;
				step(part, kind);
				check();
				if (edges == EDGES)
					fail("too many steps");
				from[edges] = first->number;
				into[edges] = number_of(&is_new);
				if (is_new)
					last = &(*last = save(into[edges]))->next;
				edges++;
			}
		restore(first);
		ends[first->number] = all_ended() && now.parts[CLOSER].line == 0;
		struct saved *done = first;
		first = first->next;
		free(done);
	}
	check_ends(ends);
	printf("%u states, %u steps\n", count, edges);
	return 0;
}
