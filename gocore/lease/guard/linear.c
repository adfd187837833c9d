/* SPDX-License-Identifier: Apache-2.0 */
/* Linear memory, page-locked memory and arrays: what a call allocates at once. */
#include "guard.h"

/*
 * What the driver takes for a request: pages of 2 MiB. An H200 with driver 580 does (tests_py/driver/calls/full.py),
 * and so do others that were measured (https://github.com/JustVugg/colibri/pull/1244: an RTX 3090 with CUDA 13.1).
 * Smaller requests share one (descriptors.c).
 */
static uint64_t pages(uint64_t bytes) {
	const uint64_t page = UINT64_C(2) << 20;

	return bytes > UINT64_MAX - page ? UINT64_MAX : (bytes + page - 1) / page * page;
}

/* By the newest form that the driver has. */
CUresult release_linear(CUdeviceptr address) {
	return real.cuMemFree_v2 != NULL ? INSIDE(real.cuMemFree_v2(address))
	                                 : INSIDE(real.cuMemFree((CUdeviceptr_v1)address));
}

/* Charged before the driver is called, and undone if that or the record fails: memory that is not charged is never
 * handed out. */
#define LINEAR_MEMORY(size, call) \
	ALLOCATE_CHARGED(LINEAR, size, *out, call, ({ \
		release_linear(*out); \
		if (entry.count > 0) \
			leave_page(&entry); \
	}))

/* What shares a page with others is charged with it. The driver is also called where it would refuse by itself, so
 * that its own reason is returned. */
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
	TAKES(cuMemAlloc_v2, (out, bytes));
	if (shares_page(bytes)) {
		struct small small;
		CUresult reason = charge_small(&small, bytes);
		if (UNLIKELY(reason != CUDA_SUCCESS) && !driver_refuses(reason))
			return reason;
		CUresult result = INSIDE(real.cuMemAlloc_v2(out, bytes));
		return end_small(&small, reason, result, result == CUDA_SUCCESS ? *out : 0);
	}
	LINEAR_MEMORY(pages(bytes), real.cuMemAlloc_v2(out, bytes));
}

/* CUDA 2's addresses have 32 bits. Small requests are charged a page each. */
EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *out, unsigned int bytes) {
	TAKES(cuMemAlloc, (out, bytes));
	LINEAR_MEMORY(pages(bytes), real.cuMemAlloc(out, bytes));
}

/* Managed memory has no pages of the card's own: it is charged to the byte. */
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
	TAKES(cuMemAllocManaged, (out, bytes, flags));
	LINEAR_MEMORY(bytes, real.cuMemAllocManaged(out, bytes, flags));
}

/* Releases what is beyond the limit. If the driver does not take it back, it stays charged until its context ends. */
static CUresult pad(struct entry *entry, CUdeviceptr address, uint64_t padding) {
	int fits = take_or_settle(entry->card, padding);

	if (UNLIKELY(!fits)) {
		if (release_linear(address) == CUDA_SUCCESS)
			return CUDA_ERROR_OUT_OF_MEMORY;
		NOTE_ONCE("the driver could not free memory beyond the limit: it stays charged");
		take_anyway(entry->card, padding);
	}
	entry->bytes += padding;
	if (LIKELY(fits))
		return CUDA_SUCCESS;
	struct entry left = *entry;
	left.key = address;
	table_add(&left);
	entry->bytes = 0; /* the caller takes back nothing */
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The rows with what the driver adds to them, once that is known: a part of a page, or more than was charged. */
static CUresult made_pitch(struct entry *entry, CUdeviceptr address, uint64_t bytes) {
	if (!shares_page(bytes))
		return pad(entry, address, pages(bytes) - entry->bytes);
	entry->key = address;
	entry->count = (uint32_t)part_of_page(bytes);
	if (place_in_page(entry))
		return CUDA_SUCCESS;
	release_linear(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver chooses the pitch, so the rest is charged when it is known. */
#define ALLOCATE_PITCH(call) \
	LINEAR_MEMORY(pages(product(width, height)), ({ \
		CUresult made_ = (call); \
		made_ == CUDA_SUCCESS ? made_pitch(&entry, *out, (uint64_t)*pitch * height) : made_; \
	}))

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element) {
	TAKES(cuMemAllocPitch_v2, (out, pitch, width, height, element));
	ALLOCATE_PITCH(real.cuMemAllocPitch_v2(out, pitch, width, height, element));
}

EXPORT CUresult cuMemAllocPitch(
    CUdeviceptr_v1 *out, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element) {
	TAKES(cuMemAllocPitch, (out, pitch, width, height, element));
	ALLOCATE_PITCH(real.cuMemAllocPitch(out, pitch, width, height, element));
}

/*
 * Memory of pools and graphs may be freed here, and linear memory in the order of a stream (pools.c). What is in no
 * table goes to the driver as it is; what the driver reserves may change with it.
 */
int find_linear(CUdeviceptr address, struct entry *entry) {
	return table_remove(LINEAR, address, entry) || (pools_in_use && table_remove(POOLED, address, entry));
}

/* After the driver's answer: what it did not free is charged again, and what it did is returned to the job. */
void end_free(const struct entry *entry, CUresult result) {
	if (UNLIKELY(entry == NULL))
		pools_changed();
	else if (UNLIKELY(result != CUDA_SUCCESS) && !table_add(entry))
		note("no host memory to record an address: %llu bytes stay charged", (unsigned long long)entry->bytes);
	else if (result == CUDA_SUCCESS && entry->kind == POOLED)
		pool_freed(entry);
	else if (LIKELY(result == CUDA_SUCCESS)) {
		give_for(entry->card, entry->bytes, entry->pools);
		if (entry->kind == LINEAR && entry->count > 0)
			leave_page(entry);
	}
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
	GIVES(cuMemFree_v2, (address));
	FREE(find_linear(address, &entry_), real.cuMemFree_v2(address));
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 address) {
	GIVES(cuMemFree, (address));
	FREE(find_linear(address, &entry_), real.cuMemFree(address));
}

/*
 * Arrays and mipmapped arrays. The driver reports the size only for sparse and deferred arrays, which take no memory
 * themselves (physical memory is mapped into them: vmm.c). The others are charged by formula, without the driver's
 * padding.
 */

enum { LARGEST_ELEMENT = 16 };

/* A block of elements: its bytes in all planes, and its width and height. The compressed formats have blocks of 4 x 4.
 */
struct format {
	unsigned int bytes, width, height;
	int per_channel; /* an element has as many bytes for each of its channels */
};

/*
 * By CUarray_format in cuda.h. Video has a brightness for each element, and two colours for each 2 x 2 of them (420),
 * for each pair in a row (422), or for each (444). 0 bytes: an unknown format.
 */
static const struct {
	struct format each;
	int formats[11]; /* 0 behind the last one */
} formats[] = {
    {{1, 1, 1, 1}, {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8}},
    {{2, 1, 1, 1}, {CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_HALF}},
    {{4, 1, 1, 1}, {CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32, CU_AD_FORMAT_FLOAT}},
    {{4, 1, 1, 0}, {CU_AD_FORMAT_UNORM_INT_101010_2, CU_AD_FORMAT_UNORM_INT8X4, CU_AD_FORMAT_UNORM_INT16X2,
                       CU_AD_FORMAT_SNORM_INT8X4, CU_AD_FORMAT_SNORM_INT16X2, CU_AD_FORMAT_AYUV, CU_AD_FORMAT_Y410,
                       CU_AD_FORMAT_UINT8_PACKED_422, CU_AD_FORMAT_UINT8_PACKED_444}},
    {{8, 4, 4, 0},
        {CU_AD_FORMAT_BC1_UNORM, CU_AD_FORMAT_BC1_UNORM_SRGB, CU_AD_FORMAT_BC4_UNORM, CU_AD_FORMAT_BC4_SNORM}},
    {{16, 4, 4, 0},
        {CU_AD_FORMAT_BC2_UNORM, CU_AD_FORMAT_BC2_UNORM_SRGB, CU_AD_FORMAT_BC3_UNORM, CU_AD_FORMAT_BC3_UNORM_SRGB,
            CU_AD_FORMAT_BC5_UNORM, CU_AD_FORMAT_BC5_SNORM, CU_AD_FORMAT_BC6H_UF16, CU_AD_FORMAT_BC6H_SF16,
            CU_AD_FORMAT_BC7_UNORM, CU_AD_FORMAT_BC7_UNORM_SRGB}},
    {{1, 1, 1, 0}, {CU_AD_FORMAT_UNORM_INT8X1, CU_AD_FORMAT_SNORM_INT8X1}},
    {{2, 1, 1, 0},
        {CU_AD_FORMAT_UNORM_INT8X2, CU_AD_FORMAT_UNORM_INT16X1, CU_AD_FORMAT_SNORM_INT8X2, CU_AD_FORMAT_SNORM_INT16X1}},
    {{8, 1, 1, 0}, {CU_AD_FORMAT_UNORM_INT16X4, CU_AD_FORMAT_SNORM_INT16X4, CU_AD_FORMAT_Y416}},
    {{6, 2, 2, 0}, {CU_AD_FORMAT_NV12, CU_AD_FORMAT_UINT8_SEMIPLANAR_420, CU_AD_FORMAT_UINT8_PLANAR_420}},
    {{12, 2, 2, 0},
        {CU_AD_FORMAT_P010, CU_AD_FORMAT_P016, CU_AD_FORMAT_UINT16_SEMIPLANAR_420, CU_AD_FORMAT_UINT16_PLANAR_420}},
    {{4, 2, 1, 0},
        {CU_AD_FORMAT_NV16, CU_AD_FORMAT_YUY2, CU_AD_FORMAT_UINT8_SEMIPLANAR_422, CU_AD_FORMAT_UINT8_PLANAR_422}},
    {{8, 2, 1, 0}, {CU_AD_FORMAT_P210, CU_AD_FORMAT_P216, CU_AD_FORMAT_Y210, CU_AD_FORMAT_Y216,
                       CU_AD_FORMAT_UINT16_SEMIPLANAR_422, CU_AD_FORMAT_UINT16_PLANAR_422}},
    {{3, 1, 1, 0}, {CU_AD_FORMAT_Y444_PLANAR8, CU_AD_FORMAT_YUV444_8bit_SemiPlanar, CU_AD_FORMAT_UINT8_SEMIPLANAR_444,
                       CU_AD_FORMAT_UINT8_PLANAR_444}},
    {{6, 1, 1, 0}, {CU_AD_FORMAT_Y444_PLANAR10, CU_AD_FORMAT_YUV444_16bit_SemiPlanar,
                       CU_AD_FORMAT_UINT16_SEMIPLANAR_444, CU_AD_FORMAT_UINT16_PLANAR_444}},
};

/* Of a known format, with its channels counted. */
static struct format format_of(int format, unsigned int channels) {
	struct format found = {0, 1, 1, 0};

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		for (const int *at = formats[i].formats; *at != 0; at++)
			if (*at == format)
				found = formats[i].each;
	found.bytes *= found.per_channel ? channels : 1;
	return found;
}

/* An array that the driver has made is charged in full if its format is newer than this file. */
static CUresult made(CUresult result, int format, unsigned int channels) {
	if (result == CUDA_SUCCESS && format_of(format, channels).bytes == 0 && channels > 0)
		NOTE_ONCE("arrays of format %#x are charged with %d bytes per element", (unsigned int)format, LARGEST_ELEMENT);
	return result;
}

static uint64_t at_least_one(uint64_t value) { return value == 0 ? 1 : value; }

/* Dimensions halve with each level, layers do not; a block that is begun counts as a whole one. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int level) {
	struct format format = format_of(shape->format, shape->channels);
	uint64_t bytes = format.bytes == 0 ? LARGEST_ELEMENT : format.bytes;
	uint64_t layers = shape->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) ? at_least_one(shape->depth) : 1;
	uint64_t depth =
	    shape->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) ? 1 : at_least_one(shape->depth >> level);
	uint64_t width = (at_least_one(shape->width >> level) + format.width - 1) / format.width;
	uint64_t height = (at_least_one(shape->height >> level) + format.height - 1) / format.height;

	return product(product(product(product(width, height), depth), layers), bytes);
}

/* UINT64_MAX where it would overflow: more than any card has. */
static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels) {
	uint64_t total = 0;

	if (shape->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0;
	for (unsigned int level = 0; level < levels && level < 64; level++)
		if (__builtin_add_overflow(total, level_bytes(shape, level), &total))
			return UINT64_MAX;
	return total;
}

#define CREATE(array_kind, shape3d, levels, call, undo) \
	ALLOCATE_CHARGED(array_kind, bytes_of(shape3d, levels), (uintptr_t)*out, \
	    made(call, (shape3d)->format, (shape3d)->channels), undo)

/* A shape that is missing is the driver's to refuse. */
#define CREATES(name, type, depth, flags) \
	EXPORT CUresult name(CUarray *out, const type *shape) { \
		TAKES(name, (out, shape)); \
		if (shape == NULL) \
			return INSIDE(real.name(out, shape)); \
		CUDA_ARRAY3D_DESCRIPTOR wide = {shape->width, shape->height, depth, shape->format, shape->channels, flags}; \
		CREATE(ARRAY, &wide, 1, real.name(out, shape), real.cuArrayDestroy(*out)); \
	}
CREATES(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, 0, 0)
CREATES(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, 0, 0)
CREATES(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, shape->depth, shape->flags)
CREATES(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, shape->depth, shape->flags)

EXPORT CUresult cuMipmappedArrayCreate(
    CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels) {
	TAKES(cuMipmappedArrayCreate, (out, shape, levels));
	if (shape == NULL)
		return INSIDE(real.cuMipmappedArrayCreate(out, shape, levels));
	CREATE(MIPMAP, shape, levels, real.cuMipmappedArrayCreate(out, shape, levels), real.cuMipmappedArrayDestroy(*out));
}

#define DESTROY(array_kind, call) FREE(table_remove(array_kind, (uint64_t)(uintptr_t)array, &entry_), call)

EXPORT CUresult cuArrayDestroy(CUarray array) {
	GIVES(cuArrayDestroy, (array));
	DESTROY(ARRAY, real.cuArrayDestroy(array));
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
	GIVES(cuMipmappedArrayDestroy, (array));
	DESTROY(MIPMAP, real.cuMipmappedArrayDestroy(array));
}
