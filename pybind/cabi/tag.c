/* SPDX-License-Identifier: Apache-2.0 */
/* Tags set from C. The current one is a thread-local of abi.c; the outer ones, which only these functions need, are on
 * the heap. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "abi.h"

/* The tags that the calling thread returns to. */
struct tags {
	size_t depth, room;
	uint16_t outer[];
};

static pthread_key_t outer_tags; /* a struct tags, or NULL */

__attribute__((constructor)) static void begin(void) { pthread_key_create(&outer_tags, free); }

int gpuconf_tag_push(const char *name) {
	struct tags *tags = pthread_getspecific(outer_tags);
	int number;

	if (gcgo_refuse())
		return 0;
	if (tags == NULL || tags->depth == tags->room) {
		size_t depth = tags != NULL ? tags->depth : 0, room = 2 * depth + 8;
		struct tags *more = realloc(tags, sizeof *more + room * sizeof more->outer[0]);

		if (more == NULL)
			return gcgo_fail("the host is out of memory");
		more->depth = depth;
		more->room = room;
		tags = more;
		pthread_setspecific(outer_tags, tags);
	}
	number = gcgo_intern_tag((char *)(name != NULL ? name : ""));
	if (number < 0)
		return 0;
	tags->outer[tags->depth++] = gcgo_tag_read();
	gcgo_tag_write((uint16_t)number);
	return 1;
}

int gpuconf_tag_pop(void) {
	struct tags *tags = pthread_getspecific(outer_tags);

	if (gcgo_refuse())
		return 0;
	if (tags == NULL || tags->depth == 0)
		return gcgo_fail("gpuconf_tag_pop: this thread has no tag from gpuconf_tag_push");
	gcgo_tag_write(tags->outer[--tags->depth]);
	return 1;
}

/*
 * The tag of a backward pass. PyTorch runs it in threads of its own, which have no tag, while the thread that called
 * backward() waits. So these threads count under the tag that a thread entered, or returned to, last. In a program that
 * uses tags in one thread, that is the tag around the call of backward().
 *
 * PyTorch names the threads "pt_autograd_0" and so on. A thread's name is looked up once.
 */

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
