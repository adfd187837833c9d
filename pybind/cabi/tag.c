/* SPDX-License-Identifier: Apache-2.0 */
/* Tags set from C. The current one is a thread-local of abi.c; the outer ones, which only these functions need, are on
 * the heap. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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

		if (more == NULL) {
			gcgo_set_error("the host is out of memory");
			return 0;
		}
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
	if (tags == NULL || tags->depth == 0) {
		gcgo_set_error("gpuconf_tag_pop: this thread has no tag from gpuconf_tag_push");
		return 0;
	}
	gcgo_tag_write(tags->outer[--tags->depth]);
	return 1;
}
