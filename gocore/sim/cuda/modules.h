/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by modules.c, images.c and launch.c. */
#ifndef MODULES_H
#define MODULES_H

#include "stream.h"

#include "../../machine/models/models.h"

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

struct function *add_function(struct module *module, const char *name, size_t length);

/* images.c. OTHER: in a form that is not read. DAMAGED: it states more than there is. */
enum image { READ_IMAGE, OTHER_IMAGE, DAMAGED_IMAGE };
enum image read_image(struct module *module, const unsigned char *image, uint64_t left);
uint64_t readable_bytes(const void *image);

/* The limits of all GPUs. */
#define SHARED_WITHOUT_ASKING (48 << 10)
#define MOST_THREADS_OF_BLOCK 1024
#define REGISTERS_OF_BLOCK 65536

/* Those of the GPU that a function is on. A library's is on the first one. */
static inline const struct gpuconf_capability *limits_of(const struct function *function) {
	return m->gpu[function->module->context != NULL ? function->module->context->gpu : 0].limits;
}

/* What CUDA takes of each block. */
static inline int reserved_shared(const struct gpuconf_capability *limits) { return limits->major >= 8 ? 1024 : 0; }

/* The lock is held. Returns NULL for a handle that is not valid. */
struct function *find_function(const struct function *function);

static inline int most_dynamic_shared(const struct function *function) {
	return function->dynamic_shared > SHARED_WITHOUT_ASKING ? function->dynamic_shared : SHARED_WITHOUT_ASKING;
}

#endif
