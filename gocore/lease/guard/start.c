/* SPDX-License-Identifier: Apache-2.0 */
/* The guard starts at the first call that it counts, finds the driver's own functions, and starts anew in a child. */
#include "guard.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The driver's own functions. The proxy has loaded the libraries; they are only looked up here. */

struct real real;

static void *open_loaded(const char *folder, const char *name) {
	char path[4200];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

#define FIND(name, base, version, flag, parameters, arguments) *(void **)&real.name = dlsym(library, #name);
#ifdef GPUCONF_GATE
struct gated gated;
#define FIND_GATED(name, base, version, flag, parameters, arguments) *(void **)&gated.name = dlsym(library, #name);
#endif

static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;

/*
 * A program may load one of the two long after the other. A child has what its parent found. Threads that look at the
 * same time find the same; the loader is asked without a lock (start.c).
 */
static void find_libraries(const char *folder) {
	static int has_driver, has_nvml;
	void *library = __atomic_load_n(&has_driver, __ATOMIC_ACQUIRE) ? NULL : open_loaded(folder, "libgpuconf-driver.so");

	if (library != NULL) {
		CUDA_HOOKS(FIND)
		CUDA_CALLS(FIND)
		GATED_HOOKS(FIND_GATED)
		pthread_mutex_lock(&learning);
		if (!has_driver)
			learn_addresses();
		__atomic_store_n(&has_driver, 1, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&learning);
	}
	library = __atomic_load_n(&has_nvml, __ATOMIC_ACQUIRE) ? NULL : open_loaded(folder, "libgpuconf-nvml.so");
	if (library != NULL) {
		NVML_HOOKS(FIND)
		NVML_CALLS(FIND)
		__atomic_store_n(&has_nvml, 1, __ATOMIC_RELEASE);
	}
}

static void forget_libraries(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	learning = fresh;
}

/* The log beside the budget: what the guard could not do, a line each. Programs see nothing of it; `gpuconf run`
 * reports it at the end. */

#define LARGEST_LOG (1 << 20)

void budget_note(const char *format, ...) {
	va_list arguments;
	char path[4200], text[1024];
	struct stat facts;
	int head = snprintf(text, sizeof text, "%d: ", (int)getpid());

	va_start(arguments, format);
	vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
	va_end(arguments);
	strcat(text, "\n");
	snprintf(path, sizeof path, "%s/log", folder);
	int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return;
	if (fstat(file, &facts) == 0 && facts.st_size < LARGEST_LOG) {
		ssize_t written = write(file, text, strlen(text));
		(void)written;
	}
	close(file);
}

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
#ifdef GPUCONF_GATE
	forget_gate();
#endif
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
#ifdef GPUCONF_GATE
	if (!open_gate(folder))
		return 0;
#endif
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
	HOLD(starting);
	return start_locked(found);
}
