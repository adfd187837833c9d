/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces of cuDNN's engines. NVIDIA documents none. For cuDNN 9.19 on an H200 there are trees that were fitted
 * to what it requested there (benchmarks/data/accuracy/operators_h200.jsonl.xz, benchmarks/accuracy/drawn/fit.py).
 * Elsewhere a rule gives a size, and the most that such a convolution may take. At least it takes none: each kind has
 * engines that need no workspace, the implicit products of matrices of NVIDIA's list of algorithms, and PyTorch goes on
 * to the next engine where memory is short.
 */
#include "cudnn.h"

#include "../../machine/cuda/constants.h"

#include <math.h>
#include <string.h>

enum way { FORWARD, DATA, FILTER };
#include "cudnn_trees.h"

const struct descriptor *cudnn_held(const struct descriptor *descriptor, int name) {
	const struct attribute *held = descriptor == NULL ? NULL : cudnn_attribute(descriptor, name);
	return held == NULL || held->type != TYPE_DESCRIPTOR || held->count < 1 ? NULL
	                                                                        : *(struct descriptor **)held->values;
}

/* A dimension that a tensor lacks counts as 1. */
static int64_t size(const struct descriptor *tensor, int64_t dimension) {
	const struct attribute *sizes = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_SIZES);
	int known = sizes != NULL && sizes->type == TYPE_INT64 && dimension < sizes->count;
	return known ? ((int64_t *)sizes->values)[dimension] : 1;
}

static int64_t elements(const struct descriptor *tensor) {
	int64_t product = 1;
	for (int i = 0; i < CUDNN_MOST_DIMENSIONS; i++)
		product *= size(tensor, i);
	return product;
}

/* A tensor without a type is taken as float. */
static int64_t element(const struct descriptor *tensor) {
	const struct attribute *type = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_TYPE);
	return type == NULL ? 4 : (int64_t)cudnn_element(*(int *)type->values);
}

/* Attention whose keys are shared by several heads keeps the gradient of each head until they are summed. */
static int64_t sum_of_heads(const struct descriptor *reduction) {
	const struct descriptor *from = cudnn_held(reduction, REDUCTION_INPUT),
	                        *to = cudnn_held(reduction, REDUCTION_OUTPUT);
	return size(from, 1) == size(to, 1) ? 0 : elements(from) * element(to);
}

static int64_t of_attention(const struct attribute *operations) {
	enum { COUNTERS = 256 };
	int64_t bytes = COUNTERS;
	for (int64_t i = 0; i < operations->count; i++) {
		const struct descriptor *operation = ((struct descriptor **)operations->values)[i];
		bytes += operation->kind == OPERATION_REDUCTION ? sum_of_heads(operation) : 0;
	}
	return bytes;
}

/* A convolution, as a tree asks about it: planes are the elements of a channel, sizes those of a tensor. */
struct convolution {
	int64_t n, c, k, x_plane, y_plane, window, groups, channels, element;
	int dimensions, last, half, steps;
};

static int64_t plane(const struct descriptor *tensor) { return elements(tensor) / size(tensor, 0) / size(tensor, 1); }

/* By the strides: cuDNN has no other word for it. */
static int channels_last(const struct descriptor *tensor) {
	const struct attribute *strides = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_STRIDES);
	return strides != NULL && strides->type == TYPE_INT64 && strides->count > 1 && ((int64_t *)strides->values)[1] == 1;
}

/* Reads none if a tensor has no elements, or the filter more channels than the image, which no convolution has: nothing
 * is divided by them. */
static int read_convolution(
    const struct descriptor *x, const struct descriptor *w, const struct descriptor *y, struct convolution *shape) {
	enum { HALF = 2 }; /* of cudnnDataType_t */
	if (elements(x) < 1 || elements(w) < 1 || elements(y) < 1 || size(x, 1) < size(w, 1) || element(x) < 2 ||
	    element(x) > 4)
		return 0;
	const struct attribute *sizes = x == NULL ? NULL : cudnn_attribute(x, TENSOR_SIZES),
	                       *type = x == NULL ? NULL : cudnn_attribute(x, TENSOR_TYPE);
	*shape = (struct convolution){.n = size(x, 0),
	    .c = size(x, 1),
	    .k = size(w, 0),
	    .x_plane = plane(x),
	    .y_plane = plane(y),
	    .window = plane(w),
	    .groups = size(x, 1) / size(w, 1),
	    .channels = size(w, 1),
	    .element = element(x),
	    .dimensions = sizes != NULL ? (int)sizes->count - 2 : 2,
	    .last = channels_last(x),
	    .half = type != NULL && *(int *)type->values == HALF,
	    .steps = size(y, 2) < size(x, 2)};
	return 1;
}

/* 86 for 8.6. */
static int capability(void) {
	return 10 * attribute_here(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
	       attribute_here(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

static int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A copy whose channels are padded to vectors of 16 bytes. */
static int64_t copied(const struct convolution *shape, int64_t rows, int64_t channels) {
	int64_t vector = 16 / shape->element;
	return rows * divided(channels, vector) * vector * shape->element;
}

static int64_t copied_x(const struct convolution *shape) { return copied(shape, shape->n * shape->x_plane, shape->c); }
static int64_t copied_y(const struct convolution *shape) { return copied(shape, shape->n * shape->y_plane, shape->k); }
static int64_t copied_w(const struct convolution *shape) {
	return copied(shape, shape->k * shape->window, shape->channels);
}

/*
 * Tensor cores take a convolution's channels last, in vectors of 16 bytes. Tensors whose channels come first are
 * copied: the image, the result, and the filter unless it is of one element. Each group has a counter. This is what
 * cuDNN chose most often for narrow types, and for float, in TensorFloat-32, from batches of 8 on. A small image of up
 * to 4 channels was taken as it is, and one filter for each channel ("depthwise") always. Kernels for TensorFloat-32
 * that write the result with its channels first are in profiles of the architectures since 8.0 (their names have
 * nhwckrsc_nchw).
 *
 * Recorded runs on an RTX 3060 (8.6) agree with more for float, and those on an RTX 4060 (8.9) do not: the gradient of
 * a filter for an image of few channels takes none; a filter of one element between channels that fill tiles of 64 has
 * copies in its forward pass, and its gradient one sum for each image where a channel is small and the sums have up to
 * 512 MiB.
 */
static int64_t of_convolution(const struct convolution *shape, int way) {
	enum {
		COUNTER = 16,
		FEW = 4,
		SMALL = 1 << 18,
		BATCH = 8,
		TILE = 64,
		SMALL_CHANNEL = 16,
		MOST_SUMS = 512 << 20,
		ADA = 89
	};
	int forward = way == FORWARD, more = shape->element == 4 && shape->groups == 1 && capability() < ADA;
	if (shape->last || shape->channels == 1 || (shape->element == 4 && shape->n < BATCH))
		return 0;
	if (shape->window == 1 && (shape->groups == 1 ? !shape->steps : !forward)) {
		int64_t sums = 4 * shape->n * shape->c * shape->k;
		if (!more || shape->c % TILE != 0 || shape->k % TILE != 0 || shape->x_plane == 1 || way == DATA)
			return 0;
		if (forward)
			return copied_x(shape) + copied_y(shape) + COUNTER;
		return shape->x_plane <= SMALL_CHANNEL && sums <= MOST_SUMS ? sums : 0;
	}
	if (forward && shape->groups == 1 && shape->channels <= FEW && shape->n * shape->c * shape->x_plane < SMALL)
		return 0;
	if (more && way == FILTER && shape->channels <= FEW)
		return 0;
	if (shape->groups == 1)
		return copied_x(shape) + (forward && shape->element == 4 ? 0 : copied_y(shape)) +
		       (shape->window == 1 ? 0 : copied_w(shape)) + COUNTER;
	int few = shape->channels <= FEW; /* then a group's channels are not padded, in no tensor */
	int64_t x = few ? shape->n * shape->x_plane * shape->c * shape->element
	                : copied(shape, shape->n * shape->x_plane * shape->groups, shape->channels);
	int64_t y = few ? shape->n * shape->y_plane * shape->k * shape->element
	                : copied(shape, shape->n * shape->y_plane * shape->groups, shape->k / shape->groups);
	int64_t w = few ? shape->k * shape->channels * shape->window * shape->element : copied_w(shape);
	return x + y + (shape->window == 1 ? 0 : w) + COUNTER * (few ? 1 : shape->groups);
}

/* Without tensor cores, tensors whose channels come last are copied, and the others taken as they are. */
static int64_t of_plain_convolution(const struct convolution *shape) {
	if (!shape->last || shape->channels == 1)
		return 0;
	return copied_x(shape) + copied_y(shape) + (shape->window == 1 ? 0 : copied_w(shape));
}

static double leaf(const struct node *tree, const struct convolution *shape) {
	int64_t depth = shape->channels * shape->window, width = shape->k / shape->groups;
	const int64_t features[] = {[N] = shape->n,
	    [C] = shape->c,
	    [K] = shape->k,
	    [X_PLANE] = shape->x_plane,
	    [Y_PLANE] = shape->y_plane,
	    [WINDOW] = shape->window,
	    [GROUPS] = shape->groups,
	    [DEPTH] = depth,
	    [ROWS] = shape->n * shape->y_plane,
	    [X] = shape->n * shape->c * shape->x_plane,
	    [Y] = shape->n * shape->k * shape->y_plane,
	    [W] = depth * shape->k,
	    [C_REST] = shape->c % 8,
	    [K_REST] = shape->k % 8,
	    [DIMENSIONS] = shape->dimensions,
	    [TILES_128] = divided(width, 128) * divided(depth, 128),
	    [TILES_64] = divided(width, 64) * divided(depth, 64),
	    [IS_HALF] = shape->half,
	    [GROUP_C] = shape->channels};
	const struct node *node = tree;
	while (node->feature != LEAF)
		node = (double)features[node->feature] <= node->value ? node + 1 : tree + node->otherwise;
	return node->value;
}

/*
 * Trees that fit.py has written, for narrow types, float in TensorFloat-32 and float without tensor cores, each with
 * channels first and last. Those for what an engine requests are there where they foretell more than the rules above.
 */
#define FORM(name) \
	{ \
		name##_form, { name##_s, name##_xyws, name##_xys } \
	}
#define LARGEST(name) {name##_largest_forward, name##_largest_data, name##_largest_filter}
static const struct trees {
	struct {
		const struct node *form, *sums[3];
	} ways[3];
	const struct node *largest[3];
} trees[3][2] = {
    {{{[FILTER] = FORM(narrow_first_filter)}, LARGEST(narrow_first)},
        {{[FILTER] = FORM(narrow_last_filter)}, LARGEST(narrow_last)}},
    {{{FORM(tf32_first_forward), FORM(tf32_first_data), FORM(tf32_first_filter)}, LARGEST(tf32_first)},
        {{[FILTER] = FORM(tf32_last_filter)}, LARGEST(tf32_last)}},
    {{{[FILTER] = FORM(float_first_filter)}, LARGEST(float_first)},
        {{[FORWARD] = FORM(float_last_forward), [FILTER] = FORM(float_last_filter)}, LARGEST(float_last)}},
};

/* By the type, by whether tensor cores are used, and by which dimension comes last. */
static const struct trees *trees_of(const struct convolution *shape, int tensor_cores) {
	int unit = tensor_cores ? 1 : 2; /* of float; narrow types have tensor cores in any case */
	return &trees[shape->element == 2 ? 0 : unit][shape->last != 0];
}

/* What a tree leads to expect: copies, sums in float, one for each image or as many as the work is divided into, and
 * counters. */
static int64_t of_tree(const struct convolution *shape, int way, int tensor_cores) {
	enum { COUNTER = 16, COUNTERS = 256, COUNTERS_BESIDE_COPIES = 144 };
	const struct trees *ours = trees_of(shape, tensor_cores);
	int form = (int)leaf(ours->ways[way].form, shape);
	double sums = form < FIRST_WITH_SUMS ? 0 : exp2(leaf(ours->ways[way].sums[form - FIRST_WITH_SUMS], shape));
	int64_t bytes = strchr(forms[form], 'x') != NULL ? COUNTER * shape->groups : 0;
	if (form >= FIRST_WITH_SUMS)
		bytes = form == FIRST_WITH_SUMS ? COUNTERS : COUNTERS_BESIDE_COPIES;
	int64_t sum = 4 * shape->channels * shape->k * shape->window;
	for (const char *part = forms[form]; *part != 0; part++)
		switch (*part) {
		case 'x':
			bytes += copied_x(shape);
			break;
		case 'y':
			bytes += copied_y(shape);
			break;
		case 'w':
			bytes += copied_w(shape);
			break;
		case 'n':
			bytes += shape->n * sum;
			break;
		default:
			bytes += (int64_t)((sums >= 1 ? round(sums) : sums) * (double)sum);
		}
	return bytes;
}

/* A multiple of copies, mostly a whole one, or of the tensors (unit of fit.py). Sizes are marked for
 * gpuconf/plans/programs/parts.py. */
static int64_t of_largest(const struct convolution *shape, int way, int tensor_cores) {
	enum { GRAIN = 512, TRIED = 435 };
	double ratio = exp2(leaf(trees_of(shape, tensor_cores)->largest[way], shape)), whole = round(ratio);
	int64_t tensors = shape->element * (shape->n * (shape->c * shape->x_plane + shape->k * shape->y_plane) +
	                                       shape->channels * shape->k * shape->window);
	int64_t copies = copied_x(shape) + copied_y(shape) + (shape->window > 1 ? copied_w(shape) : 0);
	int of_tensors = way == FILTER || (way == FORWARD && shape->element == 4);
	if (fabs(ratio - whole) < 0.08 * whole)
		ratio = whole;
	int64_t unit = of_tensors ? tensors : copies, bytes = ratio <= 1.0 / 64 ? 0 : (int64_t)(ratio * (double)unit);
	return bytes < GRAIN ? bytes : bytes / GRAIN * GRAIN + TRIED;
}

/* Whether this is the library and the card that the trees were fitted to. */
static int is_fitted(void) {
	char name[64] = "";
	int device = 0;
	cuCtxGetDevice(&device);
	cuDeviceGetName(name, sizeof name, device);
	return versions.cudnn / 100 == 919 && strncmp(name, "NVIDIA H200", strlen("NVIDIA H200")) == 0;
}

/* 8.9 to 9.24, and 7.5 to 12.1. PyTorch 2.15 has cuDNN 9.26. */
static int is_known(void) {
	return versions.cudnn >= 8900 && versions.cudnn < 92500 && capability() >= 75 && capability() <= 121;
}

/*
 * The most that was requested for a convolution by another engine than the one that needs most: copies of the three
 * tensors, and for the gradient of a filter sums in float, one for each image where a filter has one element, else for
 * each of the parts that the work is divided into. One filter for each channel took none. Twice that where nothing is
 * known.
 */
static int64_t most_of(const struct convolution *shape, int way) {
	enum { PARTS = 128, COUNTER = 16 };
	if (shape->channels == 1)
		return 0;
	int64_t sums = shape->window == 1 || shape->n < PARTS ? shape->n : PARTS;
	int64_t bytes = copied_x(shape) + copied_y(shape) + (shape->window == 1 ? 0 : copied_w(shape)) +
	                COUNTER * shape->groups +
	                (way == FILTER ? 4 * sums * shape->channels * shape->k * shape->window : 0);
	return is_known() ? bytes : 2 * bytes;
}

/* A tree where there is one for the library, the card, the way and the type, else the rules above. */
static int64_t of_engine(const struct convolution *shape, int way, int engine, int fitted) {
	enum { GRAIN = 512, TRIED = 435 };
	int tensor_cores = engine == ENGINE_USUAL || engine == ENGINE_LARGEST;
	if (engine == ENGINE_SMALLEST)
		return 0;
	if (engine == ENGINE_LARGEST || engine == ENGINE_LARGEST_PLAIN)
		return fitted ? of_largest(shape, way, tensor_cores) : most_of(shape, way) / GRAIN * GRAIN + TRIED;
	if (fitted && trees_of(shape, tensor_cores)->ways[way].form != NULL)
		return of_tree(shape, way, tensor_cores);
	return tensor_cores || shape->element != 4 ? of_convolution(shape, way) : of_plain_convolution(shape);
}

/*
 * The workspaces that were handed out, by which plans know them in PyTorch's record of its allocations: an odd number
 * of bytes stands for one with a certain most. PyTorch rounds sizes up to 512, so that this changes nothing else; one
 * that may be none is of a few KiB. cudnn_lock guards them.
 */
enum { MOST_WORKSPACES = 1 << 14 };
static struct workspace {
	int64_t bytes, most;
} workspaces[MOST_WORKSPACES];
static int count_of_workspaces;

static int64_t noted(int64_t bytes, int64_t most) {
	enum { GRAIN = 512, TRIED = 435, NONE = 4096 };
	int64_t base = bytes > 0 ? (bytes - 1) / GRAIN * GRAIN : NONE, odd = 1;
	for (int i = 0; i < count_of_workspaces; i++) {
		struct workspace *one = &workspaces[i];
		if (one->bytes / GRAIN * GRAIN != base)
			continue;
		if (one->most == most || odd + 2 >= GRAIN) {
			one->most = most > one->most ? most : one->most;
			return one->bytes;
		}
		odd += odd + 2 == TRIED ? 4 : 2;
	}
	if (count_of_workspaces == MOST_WORKSPACES)
		return bytes;
	workspaces[count_of_workspaces] = (struct workspace){base + odd, most};
	return workspaces[count_of_workspaces++].bytes;
}

/* The nth of them, from 0: its bytes, and the most that it may be. Returns 1 when there are no more. */
EXPORT int gpuconf_runtime_workspace(int number, int64_t *bytes, int64_t *most) {
	HOLD(cudnn_lock);
	if (number < 0 || number >= count_of_workspaces)
		return 1;
	*bytes = workspaces[number].bytes;
	*most = workspaces[number].most;
	return 0;
}

/* How sizes are known: 0 from trees for this library and card, 1 from rules, 2 from rules for other versions. */
EXPORT int gpuconf_runtime_workspaces_known(void) {
	int rules = is_known() ? 1 : 2;
	return is_fitted() ? 0 : rules;
}

/* The engine that PyTorch takes is noted unless it surely needs nothing. */
static int64_t of_noted(const struct convolution *shape, int way, int engine) {
	int fitted = is_fitted();
	int64_t bytes = of_engine(shape, way, engine, fitted), most = fitted ? bytes : most_of(shape, way);
	most = most > bytes ? most : bytes;
	return most > 0 && (engine == ENGINE_USUAL || engine == ENGINE_PLAIN) ? noted(bytes, most) : bytes;
}

static int64_t of_operation(const struct descriptor *operation, int engine) {
	static const struct {
		int kind, x, w, y;
	} ways[] = {[FORWARD] = {CONVOLUTION_FORWARD, FORWARD_X, FORWARD_W, FORWARD_Y},
	    [DATA] = {CONVOLUTION_BACKWARD_DATA, BACKWARD_DATA_DX, BACKWARD_DATA_W, BACKWARD_DATA_DY},
	    [FILTER] = {CONVOLUTION_BACKWARD_FILTER, BACKWARD_FILTER_X, BACKWARD_FILTER_DW, BACKWARD_FILTER_DY}};
	struct convolution shape;
	for (int way = FORWARD; way <= FILTER; way++)
		if (operation->kind == ways[way].kind &&
		    read_convolution(cudnn_held(operation, ways[way].x), cudnn_held(operation, ways[way].w),
		        cudnn_held(operation, ways[way].y), &shape))
			return of_noted(&shape, way, engine);
	return 0;
}

static const struct descriptor *nth(const struct attribute *operations, int64_t number) {
	return ((struct descriptor **)operations->values)[number];
}

static const struct attribute *operations_of(const struct descriptor *graph) {
	const struct attribute *operations = graph == NULL ? NULL : cudnn_attribute(graph, GRAPH_OPERATIONS);
	return operations != NULL && operations->type == TYPE_DESCRIPTOR && operations->count > 0 ? operations : NULL;
}

int cudnn_engines(const struct descriptor *graph) {
	const struct attribute *operations = operations_of(graph);
	int kind = operations == NULL ? 0 : nth(operations, 0)->kind;
	int convolves =
	    kind == CONVOLUTION_FORWARD || kind == CONVOLUTION_BACKWARD_DATA || kind == CONVOLUTION_BACKWARD_FILTER;
	return convolves ? ENGINES : 1;
}

int64_t cudnn_workspace(const struct descriptor *graph, int engine) {
	const struct attribute *operations = operations_of(graph);
	for (int64_t i = 0; operations != NULL && i < operations->count; i++) {
		int kind = nth(operations, i)->kind;
		if (kind == OPERATION_MATMUL || kind == OPERATION_ATTENTION || kind == OPERATION_ATTENTION_BACKWARD)
			return of_attention(operations);
	}
	return operations != NULL ? of_operation(nth(operations, 0), engine) : 0;
}
