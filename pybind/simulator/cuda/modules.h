/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by modules.c, launch.c and occupancy.c. */
#ifndef MODULES_H
#define MODULES_H

#include "stream.h"

struct module {
	struct context *context; /* NULL: a library's, which is of no context */
	int library, unloaded, any_name;
	struct module *of; /* the library that this module was made from */
	struct function *functions;
	struct module *next;
};

/* A function of a module, or a kernel of a library. */
struct function {
	struct module *module;
	char *name;
	int registers, max_threads, dynamic_shared, carveout;
	struct function *next;
};

/* The limits of compute capability 9.0. */
#define MOST_SHARED_OF_BLOCK (227 << 10)
#define SHARED_WITHOUT_ASKING (48 << 10)
#define SHARED_OF_MULTIPROCESSOR (228 << 10)
#define RESERVED_SHARED 1024 /* of each block */
#define MOST_THREADS_OF_BLOCK 1024
#define THREADS_OF_MULTIPROCESSOR 2048
#define BLOCKS_OF_MULTIPROCESSOR 32
#define REGISTERS_OF_MULTIPROCESSOR 65536

/* The lock is held. Returns NULL for a handle that is not valid. */
struct function *find_function(const struct function *function);

static inline int most_dynamic_shared(const struct function *function) {
	return function->dynamic_shared > SHARED_WITHOUT_ASKING ? function->dynamic_shared : SHARED_WITHOUT_ASKING;
}

#endif
