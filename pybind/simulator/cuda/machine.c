/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of a process, and which one a call is about. */
#include "driver.h"

#include <stdlib.h>

__thread struct machine *m __attribute__((tls_model("initial-exec")));
static __thread struct machine *bound_to __attribute__((tls_model("initial-exec")));

static struct machine own = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .progress = PTHREAD_COND_INITIALIZER, .era = 1, .standard_host = {.gpu = -1}, .standard_managed = {.gpu = -1}};
static int last_era = 1;

int new_era(void) { return __atomic_add_fetch(&last_era, 1, __ATOMIC_SEQ_CST); }

void enter_machine(void) { m = bound_to != NULL ? bound_to : &own; }

/* A child may use the driver, as far as it needs no thread of it. The locks are free there, whatever the threads of streams were doing. */
static void before_fork(void) {
	pthread_mutex_lock(&own.lock);
	lock_counters();
}

static void after_fork(void) {
	unlock_counters();
	pthread_mutex_unlock(&own.lock);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }
