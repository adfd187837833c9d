/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of which only some arguments are read, by their place. Integers and addresses are passed alike, each in a
 * register or 8 bytes of the stack, so a0 is the first argument; the upper half of an int has no meaning. None of these
 * functions takes a floating-point number.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdint.h>
#include <stdlib.h>

#define ARGUMENT __attribute__((unused)) uintptr_t
#define ARGUMENTS \
	ARGUMENT a0, ARGUMENT a1, ARGUMENT a2, ARGUMENT a3, ARGUMENT a4, ARGUMENT a5, ARGUMENT a6, ARGUMENT a7, \
	    ARGUMENT a8, ARGUMENT a9, ARGUMENT a10, ARGUMENT a11, ARGUMENT a12, ARGUMENT a13, ARGUMENT a14, ARGUMENT a15, \
	    ARGUMENT a16, ARGUMENT a17, ARGUMENT a18, ARGUMENT a19, ARGUMENT a20, ARGUMENT a21

/* Writes 0 to a place of the caller's. */
#define NOTHING_TO(type, argument) (*(type *)(argument) = 0)

/* A library's handle: calls follow a stream. */
struct follower {
	void *stream;
	int mode, math;
};

/* Fills results on the card with zeros, in the stream's order: one int that says that a solver succeeded, for each
 * matrix. */
int succeed(const struct follower *handle, uintptr_t info, int64_t count);

/* Allocates a handle or a descriptor of zeros. Returns whether there was memory. */
int make(void **out, size_t bytes);

/* The functions that make and free such a one, and the library's status without memory. */
#define OBJECT(create, destroy, bytes, failure) \
	EXPORT int create(void **out) { return make(out, bytes) ? SUCCESS : (failure); } \
	EXPORT int destroy(void *object) { \
		free(object); \
		return SUCCESS; \
	}

#define SETS_STREAM(name) \
	EXPORT int name(struct follower *handle, void *stream) { \
		handle->stream = stream; \
		return SUCCESS; \
	}

#endif
