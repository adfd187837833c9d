/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between any two kinds of memory, rectangles and boxes, and fills with wider values
 * (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html). In a stream they are kernels.
 *
 * All of them become one box of rows, whose two sides are looked up when it is queued, and again when it runs: memory
 * that was freed meanwhile ends the context, as on a card.
 */
#include "stream.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <string.h>

/* A box of bytes: rows of width bytes, at steps of a pitch, in slices at steps of a slice. */
struct side {
	uint64_t addr, pitch, slice;
	int by; /* 1 + the GPU that accesses it; 0: the one of the current context */
};

struct box {
	struct side to, from;
	uint64_t width, height, depth;
	uint32_t value; /* of a fill, in elements of size bytes; size 0: a copy */
	unsigned size;
};

/* Zeros need not be written where the host's pages can be dropped. */
static void fill_row(char *row, const struct box *box) {
	if (box->value == 0) {
		gpuconf_simulator_clear((uint64_t)(uintptr_t)row, box->width);
		return;
	}
	for (uint64_t x = 0; x < box->width; x += box->size)
		memcpy(row + x, &box->value, box->size);
}

/* Row by row. Copies within one row may overlap, as those of the host may. */
static void run_box(void *argument) {
	const struct box *box = argument;
	for (uint64_t z = 0; z < box->depth; z++)
		for (uint64_t y = 0; y < box->height; y++) {
			char *row = (char *)(uintptr_t)(box->to.addr + z * box->to.slice + y * box->to.pitch);
			if (box->size != 0)
				fill_row(row, box);
			else
				memmove(row, (const char *)(uintptr_t)(box->from.addr + z * box->from.slice + y * box->from.pitch),
				    box->width);
		}
}

enum place_kind { ANYWHERE, HOST, DEVICE };

/* What the work will touch, as far as the driver knows it. Returns whether a side is memory of the program that is not
 * page-locked. */
static CUresult look(
    struct side side, const struct box *box, enum place_kind kind, int gpu, struct range *touched, int *pageable) {
	uint64_t bytes = side.slice * (box->depth - 1) + side.pitch * (box->height - 1) + box->width;
	if (side.addr + bytes < side.addr || side.addr == 0)
		return INVALID_VALUE;
	if (within(side.addr, bytes, gpu)) {
		*touched = (struct range){side.addr, bytes};
		return SUCCESS;
	}
	if (kind == DEVICE)
		return INVALID_VALUE;
	struct place part;
	if (find_place(side.addr, &part)) /* more than there is */
		return INVALID_VALUE;
	*pageable = 1;
	return SUCCESS;
}

/* The GPU that accesses a side: that of the context which the call names for it, else of the current one. */
static int gpu_of(struct side side, const struct context *context) { return side.by > 0 ? side.by - 1 : context->gpu; }

/* Work of a call that waits may have pageable memory; so may one in a stream, if the machine is lenient, and then it
 * waits. */
static CUresult queue(CUstream handle, struct box box, enum place_kind to, enum place_kind from, int wait) {
	struct work work = {.kind = KERNEL, .kernel = run_box, .touched_by = {box.to.by, box.from.by}};
	int pageable = 0, empty = box.width == 0 || box.height == 0 || box.depth == 0;
	IN_STREAM(handle);
	TRY(admits(stream));
	if (wait && stream->capture != NULL)
		TRY(observes(stream));
	if (empty)
		return SUCCESS;
	if (box.size > 0 && box.to.addr % box.size != 0)
		return INVALID_VALUE;
	TRY(look(box.to, &box, to, gpu_of(box.to, context), &work.touched[0], &pageable));
	if (box.size == 0)
		TRY(look(box.from, &box, from, gpu_of(box.from, context), &work.touched[1], &pageable));
	if (pageable && !wait && !m->lenient)
		return INVALID_VALUE;
	work.staged = malloc(sizeof box);
	memcpy(work.staged, &box, sizeof box);
	uint64_t number = enqueue(stream, work);
	if (!wait && (!pageable || stream->capture != NULL))
		return SUCCESS;
	wait_done(stream, number);
	return context->sticky;
}

/* A copy of one row. */
static struct box line(uint64_t to, uint64_t from, uint64_t bytes) {
	return (struct box){.to = {.addr = to}, .from = {.addr = from}, .width = bytes, .height = 1, .depth = 1};
}

/* A function without a stream, in two forms: in the legacy stream, and in the thread's. */
#define IN_DEFAULT_STREAM(function, name, parameters, call) \
	EXPORT CUresult function parameters { \
		CUstream stream = NULL; \
		CALLED(name); \
		return call; \
	} \
	EXPORT CUresult function##_ptds parameters { \
		CUstream stream = own_stream(NULL); \
		CALLED(name); \
		return call; \
	}
IN_DEFAULT_STREAM(cuMemcpy, cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
    queue(stream, line(to, from, bytes), ANYWHERE, ANYWHERE, 1))

/* In the thread's stream; memory.c has those in the legacy one. */
#define COPIES(name, to_type, to_kind, from_type, from_kind) \
	EXPORT CUresult name##_v2_ptds(to_type to, from_type from, size_t bytes) { \
		CALLED(name); \
		return queue(own_stream(NULL), line((uint64_t)to, (uint64_t)from, bytes), to_kind, from_kind, 1); \
	}
COPIES(cuMemcpyHtoD, CUdeviceptr, DEVICE, const void *, HOST)
COPIES(cuMemcpyDtoH, void *, HOST, CUdeviceptr, DEVICE)
COPIES(cuMemcpyDtoD, CUdeviceptr, DEVICE, CUdeviceptr, DEVICE)

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
	CALLED(cuMemcpyAsync);
	return queue(stream, line(to, from, bytes), ANYWHERE, ANYWHERE, 0);
}

/* A copy between two contexts: each side is accessed by the GPU of its own, whether peer access is enabled or not. */
static CUresult between(CUdeviceptr to, const struct context *to_context, CUdeviceptr from,
    const struct context *from_context, size_t bytes, CUstream stream, int wait) {
	struct box box = line(to, from, bytes);
	LOCK;
	int known = (to_context == NULL || is_context(to_context)) && (from_context == NULL || is_context(from_context));
	if (known && to_context != NULL) /* else the current one's */
		box.to.by = 1 + to_context->gpu;
	if (known && from_context != NULL)
		box.from.by = 1 + from_context->gpu;
	UNLOCK;
	return known ? queue(stream, box, DEVICE, DEVICE, wait) : INVALID_CONTEXT;
}

IN_DEFAULT_STREAM(cuMemcpyPeer, cuMemcpyPeer,
    (CUdeviceptr to, struct context *to_context, CUdeviceptr from, struct context *from_context, size_t bytes),
    between(to, to_context, from, from_context, bytes, stream, 1))

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, struct context *to_context, CUdeviceptr from,
    struct context *from_context, size_t bytes, CUstream stream) {
	CALLED(cuMemcpyPeerAsync);
	return between(to, to_context, from, from_context, bytes, stream, 0);
}

/* CUDA_MEMCPY2D: an end has its own kind of memory, and its pitch. */
struct end2d {
	size_t x, y;
	int type;
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct copy2d {
	struct end2d from, to;
	size_t width, height;
};

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, whose layouts are the same: where the latter has a context, the former has a
 * reserved pointer. */
struct end3d {
	size_t x, y, z, level;
	int type;
	void *host;
	CUdeviceptr device;
	void *array;
	const struct context *context; /* of a copy between contexts */
	size_t pitch, height;
};

struct copy3d {
	struct end3d from, to;
	size_t width, height, depth;
};

/* Arrays have no bytes here. A pitch of 0 is the width, and a height of 0 the copy's, where there is only one row or
 * slice. */
static CUresult resolve(const struct end3d *end, const struct copy3d *copy, struct side *side, enum place_kind *kind) {
	if (end->type == CU_MEMORYTYPE_ARRAY)
		return NOT_SUPPORTED;
	if (end->type < CU_MEMORYTYPE_HOST || end->type > CU_MEMORYTYPE_UNIFIED || end->level != 0)
		return INVALID_VALUE;
	uint64_t pitch = end->pitch != 0 ? end->pitch : end->x + copy->width,
	         height = end->height != 0 ? end->height : end->y + copy->height;
	if (copy->width != 0 && copy->height != 0 && copy->depth != 0 &&
	    ((copy->height > 1 || copy->depth > 1) &&
	        (end->x + copy->width > pitch || (copy->depth > 1 && end->y + copy->height > height))))
		return INVALID_VALUE;
	uint64_t base = end->type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)end->host : end->device;
	static const enum place_kind kinds[] = {
	    [CU_MEMORYTYPE_HOST] = HOST, [CU_MEMORYTYPE_DEVICE] = DEVICE, [CU_MEMORYTYPE_UNIFIED] = ANYWHERE};
	*kind = kinds[end->type];
	*side = (struct side){base + end->z * pitch * height + end->y * pitch + end->x, pitch, pitch * height, 0};
	return base == 0 && copy->width * copy->height * copy->depth != 0 ? INVALID_VALUE : SUCCESS;
}

/* Only memory of a device has a context. */
static int accessed_by(const struct end3d *end, struct side *side) {
	if (end->type != CU_MEMORYTYPE_DEVICE)
		return 1;
	int known = end->context == NULL || is_context(end->context); /* NULL: the current one */
	side->by = known && end->context != NULL ? 1 + end->context->gpu : 0;
	return known;
}

static CUresult copy_box(CUstream stream, const struct copy3d *copy, int wait, int between_contexts) {
	struct box box = {.width = copy->width, .height = copy->height, .depth = copy->depth};
	enum place_kind to, from;
	TRY(resolve(&copy->to, copy, &box.to, &to));
	TRY(resolve(&copy->from, copy, &box.from, &from));
	if (between_contexts) {
		LOCKED;
		if (!accessed_by(&copy->to, &box.to) || !accessed_by(&copy->from, &box.from))
			return INVALID_CONTEXT;
	}
	return queue(stream, box, to, from, wait);
}

IN_DEFAULT_STREAM(cuMemcpy3DPeer, cuMemcpy3DPeer, (const struct copy3d *copy),
    copy == NULL ? INVALID_VALUE : copy_box(stream, copy, 1, 1))

EXPORT CUresult cuMemcpy3DPeerAsync(const struct copy3d *copy, CUstream stream) {
	CALLED(cuMemcpy3DPeerAsync);
	return copy == NULL ? INVALID_VALUE : copy_box(stream, copy, 0, 1);
}

static CUresult copy_3d(CUstream stream, const struct copy3d *copy, int wait) {
	return copy_box(stream, copy, wait, 0);
}

/* A rectangle is a box with one slice. */
static struct end3d widened(const struct end2d *end) {
	return (struct end3d){
	    .x = end->x, .y = end->y, .type = end->type, .host = end->host, .device = end->device, .pitch = end->pitch};
}

static CUresult copy_rectangle(CUstream stream, const struct copy2d *copy, int wait) {
	const struct copy3d box = {widened(&copy->from), widened(&copy->to), copy->width, copy->height, 1};
	return copy_box(stream, &box, wait, 0);
}

#define WAITING(name, type, function) \
	IN_DEFAULT_STREAM(name##_v2, name, (const type *copy), copy == NULL ? INVALID_VALUE : function(stream, copy, 1))
#define STREAMED(name, type, function) \
	EXPORT CUresult name##_v2(const type *copy, CUstream stream) { \
		CALLED(name); \
		return copy == NULL ? INVALID_VALUE : function(stream, copy, 0); \
	} \
	EXPORT CUresult name##_v2_ptsz(const type *copy, CUstream stream) { return name##_v2(copy, own_stream(stream)); }
WAITING(cuMemcpy2D, struct copy2d, copy_rectangle)
WAITING(cuMemcpy2DUnaligned, struct copy2d, copy_rectangle)
WAITING(cuMemcpy3D, struct copy3d, copy_3d)
STREAMED(cuMemcpy2DAsync, struct copy2d, copy_rectangle)
STREAMED(cuMemcpy3DAsync, struct copy3d, copy_3d)

/* Of elements of 1, 2 or 4 bytes. A pitch counts only where there is more than one row. */
static CUresult fill(
    CUstream stream, CUdeviceptr to, size_t pitch, uint32_t value, unsigned size, size_t width, size_t height) {
	struct box box = {.to = {.addr = to, .pitch = pitch},
	    .width = width * size,
	    .height = height,
	    .depth = 1,
	    .value = value,
	    .size = size};
	if ((height > 1 && (pitch % size != 0 || pitch < box.width)) || width > SIZE_MAX / size)
		return INVALID_VALUE;
	return queue(stream, box, DEVICE, DEVICE, 0);
}

#define FILLS(bits, type) \
	EXPORT CUresult cuMemsetD2D##bits##Async( \
	    CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream) { \
		CALLED_IN(stream, cuMemsetD2D##bits##Async); \
		return fill(stream, to, pitch, value, bits / 8, width, height); \
	} \
	EXPORT CUresult cuMemsetD2D##bits##Async_ptsz( \
	    CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream) { \
		return cuMemsetD2D##bits##Async(to, pitch, value, width, height, own_stream(stream)); \
	} \
	IN_DEFAULT_STREAM(cuMemsetD2D##bits##_v2, cuMemsetD2D##bits, \
	    (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height), \
	    fill(stream, to, pitch, value, bits / 8, width, height))
#define LINES(bits, type) \
	EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) { \
		CALLED_IN(stream, cuMemsetD##bits##Async); \
		return fill(stream, to, 0, value, bits / 8, count, 1); \
	} \
	EXPORT CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, size_t count, CUstream stream) { \
		return cuMemsetD##bits##Async(to, value, count, own_stream(stream)); \
	} \
	IN_DEFAULT_STREAM(cuMemsetD##bits##_v2, cuMemsetD##bits, (CUdeviceptr to, type value, size_t count), \
	    fill(stream, to, 0, value, bits / 8, count, 1))
EXPORT CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
	CALLED(cuMemsetD8);
	return fill(own_stream(NULL), to, 0, value, 1, count, 1);
}

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
LINES(16, unsigned short)
LINES(32, unsigned)
