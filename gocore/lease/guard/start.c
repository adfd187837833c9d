/* SPDX-License-Identifier: Apache-2.0 */
/* The guard starts at the first call that it counts, and starts anew in a child. */
#include "guard.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

char folder[4096];
int started;
static unsigned char never;
unsigned char *same_process = &never;
__thread int inside __attribute__((tls_model("initial-exec")));
__thread int for_pools __attribute__((tls_model("initial-exec")));

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int failed;

/* A child has none of the parent's memory, and its copies of the locks may be held by threads that it does not have. */
static void forget(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	starting = fresh;
	started = failed = 0;
	forget_budgets();
	forget_table();
	forget_contexts();
	forget_pools();
	forget_graphs();
	forget_virtual();
	forget_descriptors();
	forget_cards();
	forget_idle();
	forget_libraries();
}

__attribute__((constructor)) static void watch_forks(void) {
	pthread_atfork(budget_before_fork, budget_after_fork, forget);
}

/* A page that the kernel empties in a child, because a fork by a raw system call runs no handlers. */
static int watch_raw_forks(void) {
	if (same_process != &never)
		return 1;
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 0;
	if (madvise(page, 4096, MADV_WIPEONFORK) != 0)
		note("the kernel does not support MADV_WIPEONFORK: a child forked by a raw system call shares its parent's "
		     "account");
	same_process = page;
	return 1;
}

/*
 * Where the guard is. The loader is asked without a lock of the guard's: a thread that loads a library holds the
 * loader's, and may call the driver from the library's constructor.
 */
static int find_folder(char *found) {
	Dl_info self;

	if (dladdr((void *)&started, &self) == 0 || self.dli_fname == NULL || strlen(self.dli_fname) >= sizeof folder)
		return 0;
	strcpy(found, self.dli_fname);
	char *slash = strrchr(found, '/');
	if (slash == NULL)
		return 0;
	*slash = 0;
	return 1;
}

static int start_locked(const char *found) {
	char path[4200];

	if (started && !*same_process)
		forget();
	if (started || failed)
		return started;
	failed = 1;
	if (*found == 0)
		return 0;
	strcpy(folder, found);
	snprintf(path, sizeof path, "%s/budget", folder);
	if (!watch_raw_forks() || !open_budgets(path))
		return 0;
	*same_process = 1;
	failed = 0;
	__atomic_store_n(&started, 1, __ATOMIC_RELEASE);
	return 1;
}

void look_again(void) {
	char found[sizeof folder];

	if (find_folder(found))
		find_libraries(found);
}

int start(void) {
	char found[sizeof folder] = "";

	if (UNLIKELY(started && !*same_process))
		forget(); /* the lock may be held by a thread of the parent */
	if (!__atomic_load_n(&started, __ATOMIC_ACQUIRE) && !failed && find_folder(found))
		find_libraries(found); /* also if nothing can be counted: the functions that are handed out then refuse */
	pthread_mutex_lock(&starting);
	int counts = start_locked(found);
	pthread_mutex_unlock(&starting);
	return counts;
}
