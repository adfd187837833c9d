/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What computes on a card has no effect here. The Python layer that computes an operation's values itself marks its
 * thread meanwhile. A launch or a library's product in a thread that is not marked leaves its result without a value,
 * which is counted here by name.
 *
 * Copies and fills have values in any thread: the driver does them, except while the thread is quiet (memory.c).
 */
#include "runtime.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 4096 };

__thread struct thread_state thread_state;
static int strict;
static void (*notice)(const char *name);

/* A name's place never changes. The last place counts all that find no other. */
static struct {
	const char *name;
	uint64_t count;
} names[MOST_NAMES];
static unsigned used;
static uint64_t all;
pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT void gpuconf_runtime_mark(int on) { thread_state.marks += on > 0 ? 1 : -1; }

EXPORT void *gpuconf_runtime_mark_address(void) { return &thread_state; }

EXPORT const void *gpuconf_runtime_queued_address(void) { return gpuconf_simulator_queued(); }

EXPORT void gpuconf_runtime_clear(void *memory, size_t bytes) {
	gpuconf_simulator_clear((uint64_t)(uintptr_t)memory, bytes);
}

EXPORT uint64_t gpuconf_runtime_unmarked(void) { return __atomic_load_n(&all, __ATOMIC_RELAXED); }

EXPORT int gpuconf_runtime_unmarked_name(unsigned index, char *name, size_t room, uint64_t *count) {
	if (index >= __atomic_load_n(&used, __ATOMIC_ACQUIRE))
		return INVALID_VALUE;
	if (room > 0)
		snprintf(name, room, "%s", names[index].name);
	*count = __atomic_load_n(&names[index].count, __ATOMIC_RELAXED);
	return SUCCESS;
}

EXPORT void gpuconf_runtime_on_unmarked(void (*callback)(const char *name)) {
	__atomic_store_n(&notice, callback, __ATOMIC_RELEASE);
}

EXPORT void gpuconf_runtime_strict(int on) { __atomic_store_n(&strict, on, __ATOMIC_RELAXED); }

/* The strings are compared last, since most names are literals of one place. Returns how many names there were if the
 * name is new. */
static unsigned look_up(const char *name, int texts, unsigned *count) {
	*count = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
	for (unsigned i = 0; i < *count; i++)
		if (names[i].name == name || (texts && strcmp(names[i].name, name) == 0))
			return i;
	return *count;
}

/* Without the lock first: a name that is there stays, and its place does not change. The last place is for all names
 * that find none. */
static unsigned place_of(const char *name, int lasting) {
	unsigned count, i = look_up(name, 0, &count);
	if (i < count)
		return i;
	HOLD(names_lock);
	i = look_up(name, 1, &count);
	if (i == count) {
		const char *kept = "others";
		if (i < MOST_NAMES - 1)
			kept = lasting ? name : strdup(name);
		if (i < MOST_NAMES && kept != NULL) {
			names[i].name = kept;
			__atomic_store_n(&used, i + 1, __ATOMIC_RELEASE);
		} else
			i = MOST_NAMES - 1;
	}
	return i;
}

int marked(void) { return thread_state.marks > 0; }

const char *counted_name(const char *text) { return names[place_of(text, 0)].name; }

/* The callback comes at the first of each name, and at each one if they are errors, since the error needs its name. */
static int count(const char *name, int lasting) {
	if (thread_state.marks > 0)
		return SUCCESS;
	unsigned place = place_of(name, lasting);
	int stop = __atomic_load_n(&strict, __ATOMIC_RELAXED);
	void (*call)(const char *) = __atomic_load_n(&notice, __ATOMIC_ACQUIRE);
	__atomic_add_fetch(&all, 1, __ATOMIC_RELAXED);
	if ((__atomic_fetch_add(&names[place].count, 1, __ATOMIC_RELAXED) == 0 || stop) && call != NULL)
		call(names[place].name != NULL ? names[place].name : name);
	return stop ? NOT_SUPPORTED : SUCCESS;
}

int computes(const char *function) { return count(function, 1); }

static int hear(const char *kernel) { return count(kernel, 0); }

/* The driver's own launches, such as Triton's, are counted with the others. */
__attribute__((constructor)) static void hear_of_launches(void) { gpuconf_simulator_on_launch(hear); }

/* Whether a function of PyTorch is among the callers of the thread, by the addresses that they return to. */

enum { MOST_CALLERS = 128 };

static uintptr_t begins;
static size_t length; /* 0: unknown */

/* The function's length is in its symbol; without one it is not watched. */
EXPORT void gpuconf_runtime_watch_caller(void *function) {
	Dl_info info;
	const ElfW(Sym) *symbol = NULL;
	if (dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
		return;
	begins = (uintptr_t)function;
	__atomic_store_n(&length, symbol->st_size, __ATOMIC_RELEASE);
}

EXPORT int gpuconf_runtime_has_caller(void) {
	void *callers[MOST_CALLERS];
	size_t bytes = __atomic_load_n(&length, __ATOMIC_ACQUIRE);
	int count = bytes == 0 ? 0 : backtrace(callers, MOST_CALLERS);
	for (int i = 0; i < count; i++)
		if ((uintptr_t)callers[i] - begins < bytes)
			return 1;
	return 0;
}
