/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reserve of threads for Go.
 *
 * Go ends the process if it cannot start a thread. RLIMIT_NPROC or a container's process limit can cause that when the
 * library is loaded, and also later, because Go starts threads when it needs them. Therefore the linker redirects the
 * calls of pthread_create in Go's C half to this file (hatch_build.py), which keeps a reserve of waiting threads. Go
 * starts once the reserve is complete, which may be later than the load. If the system refuses a thread, Go gets one
 * from the reserve. While few are left in the reserve, calls from outside fail with an error before they enter Go.
 *
 * Nothing here is called in a forked child.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "abi.h"

/* Weak: Go's own tests link without the redirection and get their threads directly from the system. */
extern __attribute__((weak)) int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

enum { RESERVE = 8, FEW = 4, MOST_HANDED = 64, FILES = 8 };

struct job {
	void *(*run)(void *);
	void *argument;
	sigset_t mask; /* a thread inherits its creator's */
};

int gcgo_few_threads; /* whether callers must call gcgo_find_threads; read without the lock */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static pthread_cond_t handed = PTHREAD_COND_INITIALIZER;
static int waiting;                  /* threads of the reserve without a job */
static struct job jobs[MOST_HANDED]; /* handed to threads of the reserve, not started yet */
static int njobs;
static struct job first; /* starts Go */
static enum { UNTOUCHED, POSTPONED, STARTED } go;

static void *wait_for_job(void *unused) {
	struct job job;

	(void)unused;
	pthread_mutex_lock(&lock);
	while (njobs == 0)
		pthread_cond_wait(&handed, &lock);
	job = jobs[--njobs];
	pthread_mutex_unlock(&lock);
	if (job.run == NULL)
		return NULL;
	pthread_sigmask(SIG_SETMASK, &job.mask, NULL);
	return job.run(job.argument);
}

static bool hand_over(struct job job) {
	if (waiting == 0 || njobs == MOST_HANDED)
		return false;
	waiting--;
	jobs[njobs++] = job;
	pthread_cond_signal(&handed);
	return true;
}

/*
 * Completes the reserve. Returns 0, or the error if the system refuses a thread. The threads have the default stack
 * size, as Go's threads have, and block all signals.
 */
static int fill(void) {
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	while (waiting < RESERVE && (error = __real_pthread_create(&thread, &attributes, wait_for_job, NULL)) == 0)
		waiting++;
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static void release(void) {
	while (hand_over((struct job){.run = NULL}))
		;
}

/*
 * The signal mask for Go's first thread, which its other threads inherit. It leaves open the signals that Go needs for
 * faults and its scheduler. Other signals stay blocked: one that all Python threads block, to wait for it with sigwait
 * or signalfd, would otherwise be delivered to a Go thread and end the process. Go itself unblocks SIGCHLD.
 */
static sigset_t mask_for_go(void) {
	static const int open[] = {SIGURG, SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	sigset_t others, mask;

	sigfillset(&others);
	for (size_t i = 0; i < sizeof open / sizeof *open; i++)
		sigdelset(&others, open[i]);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (int signal = 1; signal < NSIG; signal++)
		if (sigismember(&others, signal) == 1)
			sigaddset(&mask, signal);
	return mask;
}

static void *end_when_unlocked(void *unused) {
	(void)unused;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

int gcgo_try_threads(int wanted) {
	pthread_t *threads = __real_pthread_create ? calloc((size_t)wanted, sizeof *threads) : NULL;
	int started = 0;

	if (threads == NULL)
		return wanted;
	pthread_mutex_lock(&lock);
	while (started < wanted && __real_pthread_create(&threads[started], NULL, end_when_unlocked, NULL) == 0)
		started++;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return started;
}

/*
 * Returns 0, or the error if the process has no room for more open files. Go ends the process if it cannot open the two
 * of its poller. It opens them while it starts (abi.go); other threads may open some at the same time.
 */
static int try_files(void) {
	int files[FILES], opened = 0, error = 0;

	while (opened < FILES && error == 0) {
		files[opened] = eventfd(0, EFD_CLOEXEC);
		if (files[opened] < 0)
			error = errno;
		else
			opened++;
	}
	while (opened > 0)
		close(files[--opened]);
	return error;
}

/* Starts Go on a thread of the reserve if the reserve is complete and files can be opened, and then tries to complete
 * it again. */
static int start_go(void) {
	int error = fill();

	if (error == 0)
		error = try_files();
	if (error != 0) {
		release(); /* the process is short of threads and may need them elsewhere */
		return error;
	}
	first.mask = mask_for_go();
	hand_over(first);
	go = STARTED;
	fill();
	return 0;
}

static void update_few_threads(void) {
	__atomic_store_n(&gcgo_few_threads, go != STARTED || waiting < FEW, __ATOMIC_RELAXED);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
	struct job job = {.run = run, .argument = argument};
	int error = 0;

	pthread_mutex_lock(&lock);
	if (go == UNTOUCHED) {
		first = job;
		go = POSTPONED;
		start_go();
	} else {
		error = __real_pthread_create(thread, attributes, run, argument);
		if (error == EAGAIN) {
			pthread_sigmask(SIG_BLOCK, NULL, &job.mask);
			error =
			    hand_over(job) ? 0 : EAGAIN; /* Go's threads are detached by an attribute: it does not read *thread */
		}
	}
	update_few_threads();
	pthread_mutex_unlock(&lock);
	return error;
}

int gcgo_find_threads(char *text, size_t room) {
	struct rlimit limit = {0};
	int error, had;

	pthread_mutex_lock(&lock);
	error = go == POSTPONED ? start_go() : fill();
	had = waiting;
	update_few_threads();
	pthread_mutex_unlock(&lock);
	if (!gcgo_few_threads)
		return 0;
	if (error == EMFILE || error == ENFILE) {
		getrlimit(RLIMIT_NOFILE, &limit);
		snprintf(text, room,
		    "gpuconf's core needs room for %d more open files to start, but the limit allows fewer (%s; RLIMIT_NOFILE "
		    "is %lld). Close files or raise the limit (ulimit -n), then call again",
		    FILES, strerror(error), limit.rlim_cur == RLIM_INFINITY ? -1LL : (long long)limit.rlim_cur);
		return 1;
	}
	getrlimit(RLIMIT_NPROC, &limit);
	snprintf(text, room,
	    "gpuconf's core needs up to %d more threads, but the system refuses to start them (%s; %d are ready). "
	    "RLIMIT_NPROC is "
	    "%lld, and a container may have its own limit. Raise the limit (ulimit -u, --pids-limit) or end other "
	    "processes, "
	    "then call again",
	    RESERVE, strerror(error), had, limit.rlim_cur == RLIM_INFINITY ? -1LL : (long long)limit.rlim_cur);
	return 1;
}
