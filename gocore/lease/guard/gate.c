/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a job that takes turns: while it is closed, calls that submit, allocate, copy, wait or ask do not reach
 * the driver. They say that they want their turn, and wait.
 *
 * gated.h has the functions that have no other hook. Functions of CUDA 2 and 3.0, of graphics and of logical endpoints
 * are in neither list: the driver keeps their callers waiting, and nothing notices that they want a turn.
 */
#include "guard.h"

#ifdef GPUCONF_GATE

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = GATE_HEADER_BYTES + GATE_THREADS * GATE_THREAD_BYTES };

static struct gate open_for_all;
struct gate *gate = &open_for_all;
__thread struct gate_thread *at_gate __attribute__((tls_model("initial-exec")));
static __thread struct gate_thread unseen __attribute__((tls_model("initial-exec")));

static struct gate_thread self; /* what the words of this process say */
static pthread_key_t leaving;   /* its destructor frees the word of a thread that ends */
static int has_key;

static void end_thread(void *word) {
	at_gate = NULL;
	__atomic_store_n(&((struct gate_thread *)word)->pid, 0, __ATOMIC_RELEASE);
}

/* Field 22 of /proc/self/stat; the second one, the name, may hold anything. */
static uint64_t start_of_process(void) {
	char text[1024];
	int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);

	if (file >= 0)
		close(file);
	text[got > 0 ? got : 0] = 0;
	char *at = strrchr(text, ')');
	for (int field = 2; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

/* Opens the gate file, if the job has one. 0: it is there and cannot be used. */
int open_gate(const char *folder) {
	char path[4200];
	struct stat facts;

	snprintf(path, sizeof path, "%s/gate", folder);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return errno == ENOENT;
	void *at = fstat(file, &facts) == 0 && facts.st_size == FILE_BYTES
	               ? mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
	               : MAP_FAILED;
	close(file);
	if (at == MAP_FAILED || memcmp(at, GATE_MAGIC, 8) != 0 ||
	    (!has_key && pthread_key_create(&leaving, end_thread) != 0)) {
		note("the gate %s cannot be used: allocations are refused", path);
		return 0;
	}
	has_key = 1;
	struct gate *found = at;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0)
		__atomic_store_n(&found->deaf, 1, __ATOMIC_SEQ_CST);
	self = (struct gate_thread){.pid = (uint32_t)getpid(), .start = start_of_process()};
	if (stat("/proc/self/ns/pid", &facts) == 0)
		self.space = facts.st_ino;
	gate = found;
	return 1;
}

/* In a child: the thread's word is its parent's, who may be in a call. */
void forget_gate(void) {
	if (has_key)
		pthread_setspecific(leaving, NULL);
	if (gate != &open_for_all)
		munmap(gate, FILE_BYTES);
	gate = &open_for_all;
	at_gate = NULL;
}

static struct gate_thread *thread_word(uint32_t place) {
	return (struct gate_thread *)((char *)gate + GATE_HEADER_BYTES + (size_t)place * GATE_THREAD_BYTES);
}

/* A word becomes the process's when the pid is written, last: until then it is free for others, too. */
static int take_word(struct gate_thread *found) {
	uint32_t free = 0, taken = UINT32_MAX;

	if (!__atomic_compare_exchange_n(&found->pid, &free, taken, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return 0;
	found->calls = 0;
	found->start = self.start;
	found->space = self.space;
	__atomic_store_n(&found->pid, self.pid, __ATOMIC_SEQ_CST);
	return 1;
}

struct gate_thread *come_to_gate(void) {
	if (gate == &open_for_all)
		return at_gate = &unseen;
	uint32_t high = __atomic_load_n(&gate->high, __ATOMIC_RELAXED);
	if (high < GATE_THREADS)
		high = __atomic_fetch_add(&gate->high, 1, __ATOMIC_SEQ_CST);
	for (uint32_t tries = 0; tries <= GATE_THREADS; tries++) {
		struct gate_thread *found = thread_word((high + tries) % GATE_THREADS);
		if (!take_word(found))
			continue;
		pthread_setspecific(leaving, found);
		return at_gate = found;
	}
	__atomic_store_n(&gate->full, 1, __ATOMIC_SEQ_CST);
	return &unseen;
}

/*
 * The thread's call does not count while it waits, and counts again before it looks whether it may pass. It says again
 * and again that it wants its turn: who closes the gate, or takes over from one who has, may clear the word.
 */
void wait_at_gate(struct gate_thread *mine) {
	const struct timespec second = {1, 0};

	do {
		__atomic_sub_fetch(&mine->calls, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&gate->closed, __ATOMIC_SEQ_CST)) {
			if (!__atomic_exchange_n(&gate->wanted, 1, __ATOMIC_SEQ_CST))
				syscall(SYS_futex, &gate->wanted, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
			syscall(SYS_futex, &gate->closed, FUTEX_WAIT, 1, &second, NULL, 0);
		}
		__atomic_add_fetch(&mine->calls, 1, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&gate->closed, __ATOMIC_SEQ_CST));
}

/*
 * What a launch costs is the few loads and branches of the usual case, and the copy of its arguments: a thread that has
 * been here before, in this process, with a function that the driver has.
 */
#define GATED(name, base, version, flag, parameters, arguments) \
	EXPORT CUresult name parameters { \
		__typeof__(gated.name) real_ = gated.name; \
		struct gate_thread *mine = at_gate; \
		if (UNLIKELY(inside != 0 || mine == NULL || !*same_process || real_ == NULL)) { \
			if (!inside) \
				mine = first_call((void *const *)&gated.name); \
			real_ = gated.name; \
			if (real_ == NULL) \
				return CUDA_ERROR_NOT_SUPPORTED; \
			if (inside) \
				return real_ arguments; \
		} \
		pass_gate(mine); \
		CUresult result = INSIDE(real_ arguments); \
		leave_gate(&mine); \
		return result; \
	}

/* Looks for a function that is not known yet, and returns the thread's word. */
static __attribute__((cold, noinline)) struct gate_thread *first_call(void *const *function) {
	ready();
	if (*function == NULL)
		look_again();
	return at_gate != NULL ? at_gate : come_to_gate();
}

GATED_HOOKS(GATED)

#endif
