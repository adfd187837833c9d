/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays: only their size and lifetime. */
#include "driver.h"

#include <stdlib.h>

#define SPARSE 0x40
#define DEFERRED 0x80

struct array {
	int gpu, mipmapped;
	uint64_t bytes;
	struct context *context;
	struct array *next;
};

typedef struct {
	unsigned width, height;
	int format;
	unsigned channels;
} shape_v1;

typedef struct {
	size_t width, height;
	int format;
	unsigned channels;
} shape;

typedef struct {
	unsigned width, height, depth;
	int format;
	unsigned channels, flags;
} shape3d_v1;

typedef struct {
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
} shape3d;

int count_arrays(void) {
	int count = 0;
	for (struct array *one = m->arrays; one != NULL; one = one->next)
		count++;
	return count;
}

static uint64_t element_bytes(int format) { return format == 0x20 || format == 0x03 || format == 0x0a ? 4 : format == 0x01 || format == 0x08 ? 1 : 2; }

static uint64_t positive(uint64_t value) { return value == 0 ? 1 : value; }

static CUresult create(struct array **out, const shape3d *shape, unsigned levels, int mipmapped) {
	struct context *context;
	uint64_t bytes = 0;
	int layered = shape->flags & 1;
	for (unsigned i = 0; i < levels; i++)
		bytes += positive(shape->width >> i) * positive(shape->height >> i) * (layered ? positive(shape->depth) : positive(shape->depth >> i)) *
		         shape->channels * element_bytes(shape->format);
	if (shape->flags & (SPARSE | DEFERRED))
		bytes = 0;
	LOCK;
	CUresult result = current_context(&context);
	if (result == SUCCESS && (shape->width == 0 || shape->channels == 0 || (shape->channels == 3 && shape->format < 0x50) || shape->channels > 4 || levels == 0 || shape->format == 0))
		result = INVALID_VALUE;
	if (result == SUCCESS && !use_card(&m->gpu[context->gpu], bytes))
		result = OUT_OF_MEMORY;
	if (result == SUCCESS) {
		struct array *new = calloc(1, sizeof *new);
		*new = (struct array){context->gpu, mipmapped, bytes, context, m->arrays};
		m->arrays = new;
		*out = new;
	}
	UNLOCK;
	return result;
}

static void drop(struct array **at) {
	struct array *gone = *at;
	leave_card(&m->gpu[gone->gpu], gone->bytes);
	*at = gone->next;
	free(gone);
}

static CUresult destroy(struct array *array, int mipmapped) {
	LOCK;
	struct array **at = &m->arrays;
	while (*at != NULL && *at != array)
		at = &(*at)->next;
	CUresult result = *at == NULL || (*at)->mipmapped != mipmapped ? INVALID_HANDLE : SUCCESS;
	if (result == SUCCESS)
		drop(at);
	UNLOCK;
	return result;
}

void end_arrays(struct context *context) {
	for (struct array **at = &m->arrays; *at != NULL;)
		if ((*at)->context == context)
			drop(at);
		else
			at = &(*at)->next;
}

EXPORT CUresult cuArrayCreate_v2(struct array **out, const shape *shape) {
	CALLED(cuArrayCreate);
	const shape3d wide = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
	return create(out, &wide, 1, 0);
}

EXPORT CUresult cuArrayCreate(struct array **out, const shape_v1 *shape) {
	CALLED(cuArrayCreate_v1);
	const shape3d wide = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
	return create(out, &wide, 1, 0);
}

EXPORT CUresult cuArray3DCreate_v2(struct array **out, const shape3d *shape) {
	CALLED(cuArray3DCreate);
	return create(out, shape, 1, 0);
}

EXPORT CUresult cuArray3DCreate(struct array **out, const shape3d_v1 *shape) {
	CALLED(cuArray3DCreate_v1);
	const shape3d wide = {shape->width, shape->height, shape->depth, shape->format, shape->channels, shape->flags};
	return create(out, &wide, 1, 0);
}

EXPORT CUresult cuArrayDestroy(struct array *array) {
	REFUSE(NO_DEVICE_FOUND, 1, array == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuArrayDestroy);
	return destroy(array, 0);
}

EXPORT CUresult cuMipmappedArrayCreate(struct array **out, const shape3d *shape, unsigned levels) {
	CALLED(cuMipmappedArrayCreate);
	return create(out, shape, levels, 1);
}

EXPORT CUresult cuMipmappedArrayDestroy(struct array *array) {
	REFUSE(NO_DEVICE_FOUND, 1, array == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuMipmappedArrayDestroy);
	return destroy(array, 1);
}
