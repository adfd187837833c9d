/* SPDX-License-Identifier: Apache-2.0 */
/* A fork waits until no other thread has a lock, as that of the driver does (cuda/machine.c). They are taken before the
 * driver's. */
#include "runtime.h"

static pthread_mutex_t *const locks[] = {&cudnn_lock, &kernels_lock, &names_lock};
enum { LOCKS = sizeof locks / sizeof *locks };

static void before_fork(void) {
	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_lock(locks[i]);
}

static void after_fork(void) {
	for (int i = LOCKS; i > 0; i--)
		pthread_mutex_unlock(locks[i - 1]);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }
