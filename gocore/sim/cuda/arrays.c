/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays, which have a shape, a size and a lifetime but hold nothing; and maps of tensors. Their
 * card is charged for whole pages. The machine's lock guards the list; an array ends with its context at the latest.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <string.h>

enum { OTHER_ELEMENT = 2 }; /* bytes, as if it were: what a block has of them differs by format */
#define ALL_FLAGS 0xffU     /* but CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, which is not done */

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

struct array {
	int gpu, mipmapped;
	uint64_t bytes;
	shape3d shape;
	struct context *context;
	struct array *next;
};

/* For tests, which look for what a program has left. */
int count_arrays(void) {
	int count = 0;
	for (struct array *one = m->arrays; one != NULL; one = one->next)
		count++;
	return count;
}

/* Of the formats that have one size for each channel. */
size_t element_bytes(int format) {
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

/* What is packed, compressed or video. NV12 needs a flag of video, which is not done. */
static int is_other(int format) {
	return (format >= CU_AD_FORMAT_UNORM_INT_101010_2 && format <= CU_AD_FORMAT_UINT16_PLANAR_444) ||
	       (format >= CU_AD_FORMAT_BC1_UNORM && format <= 0xff && format != CU_AD_FORMAT_NV12);
}

/* The bounds are those of the attributes of devices. */
static int is_possible(const shape3d *shape) {
	int layered = (shape->flags & CUDA_ARRAY3D_LAYERED) != 0, cube = (shape->flags & CUDA_ARRAY3D_CUBEMAP) != 0,
	    deep = shape->depth > 0 && !layered && !cube;
	if (shape->width == 0 || shape->channels == 0 || shape->channels > 4 ||
	    (shape->channels == 3 && !is_other(shape->format)) || (shape->flags & ~ALL_FLAGS) != 0)
		return 0;
	if (element_bytes(shape->format) == 0 && !is_other(shape->format))
		return 0;
	if (cube && (shape->width != shape->height || shape->depth % 6 != 0 || shape->depth == 0 ||
	                (!layered && shape->depth != 6)))
		return 0;
	if (deep && (shape->height == 0 || shape->width > 16384 || shape->height > 16384 || shape->depth > 16384))
		return 0;
	return shape->width <= 131072 && shape->height <= 65536;
}

/* A dimension that is absent counts as 1, and so does one that a mipmap has halved away. */
static uint64_t positive(uint64_t value) { return value == 0 ? 1 : value; }

/* Each level of a mipmapped array halves its dimensions, but not its layers. A sparse array, and one whose memory is
 * mapped later, has no memory of its own. */
static CUresult create(struct array **out, const shape3d *shape, unsigned levels, int mipmapped) {
	uint64_t bytes = 0;
	int layered = shape->flags & CUDA_ARRAY3D_LAYERED;
	NEED(out);
	levels = levels == 0 ? 1 : levels;
	size_t element = element_bytes(shape->format) > 0 ? element_bytes(shape->format) : OTHER_ELEMENT;
	for (unsigned i = 0; i < levels; i++)
		bytes += positive(shape->width >> i) * positive(shape->height >> i) *
		         (layered ? positive(shape->depth) : positive(shape->depth >> i)) * shape->channels * element;
	if (shape->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		bytes = 0;
	bytes = m->to_the_byte ? bytes : pages(bytes);
	IN_CONTEXT;
	if (!is_possible(shape))
		return INVALID_VALUE;
	if (!use_card(&m->gpu[context->gpu], bytes))
		return OUT_OF_MEMORY;
	*out = ADD(
	    m->arrays, .gpu = context->gpu, .mipmapped = mipmapped, .bytes = bytes, .shape = *shape, .context = context);
	return SUCCESS;
}

static void drop(struct array **link) {
	struct array *gone = TAKE_OUT(link);
	leave_card(&m->gpu[gone->gpu], gone->bytes);
	free(gone);
}

/* An array cannot be destroyed as a mipmapped one, nor the other way round. */
static CUresult destroy(struct array *array, int mipmapped) {
	LOCKED;
	struct array **link = &m->arrays;
	FIND(link, *link == array);
	if (*link == NULL || (*link)->mipmapped != mipmapped)
		return INVALID_HANDLE;
	drop(link);
	return SUCCESS;
}

void end_arrays(struct context *context) { DROP_EACH(m->arrays, (*link)->context == context, drop); }

/* CREATES(function, name in the log of calls, its shape, the refusal without one, depth, flags). */
#define CREATES(function, name, type, refusal, shape_depth, shape_flags) \
	EXPORT CUresult function(struct array **out, const type *shape) { \
		CALLED(name); \
		if (shape == NULL) \
			return refusal; \
		const shape3d wide = {shape->width, shape->height, shape_depth, shape->format, shape->channels, shape_flags}; \
		return create(out, &wide, 1, 0); \
	}
CREATES(cuArrayCreate_v2, cuArrayCreate, shape, INVALID_VALUE, 0, 0)
CREATES(cuArrayCreate, cuArrayCreate_v1, shape_v1, INVALID_CONTEXT, 0, 0)
CREATES(cuArray3DCreate_v2, cuArray3DCreate, shape3d, INVALID_VALUE, shape->depth, shape->flags)
CREATES(cuArray3DCreate, cuArray3DCreate_v1, shape3d_v1, INVALID_CONTEXT, shape->depth, shape->flags)

EXPORT CUresult cuMipmappedArrayCreate(struct array **out, const shape3d *shape, unsigned levels) {
	CALLED(cuMipmappedArrayCreate);
	return shape == NULL ? INVALID_VALUE : create(out, shape, levels, 1);
}

#define DESTROYS(function, mipmapped) \
	EXPORT CUresult function(struct array *array) { \
		REFUSE(NO_DEVICE_FOUND, 1, array == NULL ? INVALID_HANDLE : INVALID_CONTEXT); \
		CALLED(function); \
		return destroy(array, mipmapped); \
	}
DESTROYS(cuArrayDestroy, 0)
DESTROYS(cuMipmappedArrayDestroy, 1)

/* The shape of an array, for a caller that stores it in out. */
static CUresult shape_of(struct array *array, const void *out, shape3d *shape) {
	LOCKED;
	struct array **link = &m->arrays;
	FIND(link, *link == array);
	if (*link == NULL || array->mipmapped)
		return INVALID_HANDLE;
	NEED(out);
	*shape = array->shape;
	return SUCCESS;
}

EXPORT CUresult cuArray3DGetDescriptor_v2(shape3d *out, struct array *array) {
	REFUSE(NOT_STARTED, 1, array == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuArray3DGetDescriptor);
	return shape_of(array, out, out);
}

EXPORT CUresult cuArrayGetDescriptor_v2(shape *out, struct array *array) {
	REFUSE(NOT_STARTED, 1, array == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuArrayGetDescriptor);
	shape3d wide;
	TRY(shape_of(array, out, &wide));
	*out = (shape){wide.width, wide.height, wide.format, wide.channels};
	return SUCCESS;
}

/*
 * Descriptors of tensors for the copies of Hopper's kernels. A program encodes them on the host and passes them to
 * kernels, which compute nothing: only the arguments are checked, as the documentation says and an H200 answered
 * (tests_py/driver/calls/rest.py).
 */

enum { DESCRIPTOR = 128, MOST_RANK = 5, MOST_STEP = 8, MOST_BOX = 256, MOST_CHANNELS = 256, MOST_PIXELS = 1024 };

/* The arguments that both encodings have. A descriptor is 128 bytes at a multiple of 64, and opaque: here it begins
 * with the address. */
struct tensor {
	void *out;
	unsigned type, rank;
	CUdeviceptr address;
	const uint64_t *sizes, *strides; /* strides in bytes, of all dimensions but the first */
	const unsigned *steps;
	unsigned interleave, swizzle, promotion, fill;
};

static int is_aligned(uint64_t number, unsigned to) { return number % to == 0; }

/*
 * The bounds are those of https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html: addresses
 * and strides are multiples of 16, or of 32 for an interleave of 32 bytes; sizes have up to 32 bits, strides up to
 * 40.
 */
static CUresult encode(const struct tensor *tensor) {
	if (tensor->out == NULL || !is_aligned((uintptr_t)tensor->out, 64) ||
	    tensor->type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B || tensor->rank > MOST_RANK ||
	    !is_aligned(tensor->address, 16) || tensor->interleave > CU_TENSOR_MAP_INTERLEAVE_32B ||
	    tensor->swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
	    tensor->promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
	    tensor->fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
		return INVALID_VALUE;
	if (tensor->sizes == NULL || tensor->steps == NULL || (tensor->strides == NULL && tensor->rank > 1))
		return INVALID_VALUE;
	for (unsigned i = 0; i < tensor->rank; i++) {
		if (tensor->sizes[i] == 0 || tensor->sizes[i] > UINT64_C(1) << 32 || tensor->steps[i] == 0 ||
		    tensor->steps[i] > MOST_STEP)
			return INVALID_VALUE;
		if (i > 0 &&
		    (!is_aligned(tensor->strides[i - 1], tensor->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16) ||
		        tensor->strides[i - 1] >= UINT64_C(1) << 40))
			return INVALID_VALUE;
	}
	memset(tensor->out, 0, DESCRIPTOR);
	memcpy(tensor->out, &tensor->address, sizeof tensor->address);
	return SUCCESS;
}

EXPORT CUresult cuTensorMapEncodeTiled(void *out, unsigned type, unsigned rank, CUdeviceptr address,
    const uint64_t *sizes, const uint64_t *strides, const unsigned *box, const unsigned *steps, unsigned interleave,
    unsigned swizzle, unsigned promotion, unsigned fill) {
	CALLED_SINCE(12000, cuTensorMapEncodeTiled);
	if (rank == 0 || box == NULL)
		return INVALID_VALUE;
	for (unsigned i = 0; i < rank && i < MOST_RANK; i++)
		if (box[i] == 0 || box[i] > MOST_BOX)
			return INVALID_VALUE;
	return encode(
	    &(struct tensor){out, type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill});
}

EXPORT CUresult cuTensorMapEncodeIm2col(void *out, unsigned type, unsigned rank, CUdeviceptr address,
    const uint64_t *sizes, const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
    unsigned pixels, const unsigned *steps, unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
	CALLED_SINCE(12000, cuTensorMapEncodeIm2col);
	if (rank < 3 || lower == NULL || upper == NULL || channels > MOST_CHANNELS || pixels > MOST_PIXELS)
		return INVALID_VALUE;
	return encode(
	    &(struct tensor){out, type, rank, address, sizes, strides, steps, interleave, swizzle, promotion, fill});
}

EXPORT CUresult cuTensorMapReplaceAddress(void *map, CUdeviceptr address) {
	CALLED_SINCE(12000, cuTensorMapReplaceAddress);
	if (map == NULL || !is_aligned((uintptr_t)map, 64) || !is_aligned(address, 16))
		return INVALID_VALUE;
	memcpy(map, &address, sizeof address);
	return SUCCESS;
}
