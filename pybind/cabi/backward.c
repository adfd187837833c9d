/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tag of a backward pass. PyTorch runs it in threads of its own, which have no tag, while the thread that called
 * backward() waits. So these threads count under the tag that a thread entered, or returned to, last. In a program that
 * uses tags in one thread, that is the tag around the call of backward().
 *
 * PyTorch names the threads "pt_autograd_0" and so on. A thread's name is looked up once.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "abi.h"

static uint16_t newest; /* the tag that was written last, by any other thread */

static __thread __attribute__((tls_model("initial-exec"))) enum { UNKNOWN, BACKWARD, OTHER } kind;

static int is_backward(void) {
	if (kind == UNKNOWN) {
		char name[16] = "";

		pthread_getname_np(pthread_self(), name, sizeof name);
		kind = strncmp(name, "pt_autograd", 11) == 0 ? BACKWARD : OTHER;
	}
	return kind == BACKWARD;
}

uint16_t gcgo_backward_tag(void) {
	uint16_t tag = __atomic_load_n(&newest, __ATOMIC_RELAXED);

	return tag != 0 && is_backward() ? tag : 0;
}

void gcgo_tag_written(uint16_t tag) {
	if (!is_backward())
		__atomic_store_n(&newest, tag, __ATOMIC_RELAXED);
}
