/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces of cuDNN's engines. NVIDIA documents none. These are rules for what cuDNN 9.19 requested on an H200
 * (benchmarks/data/accuracy/operators_h200.jsonl.xz), and trees that were fitted to it
 * (benchmarks/accuracy/drawn/fit.py).
 */
#include "cudnn.h"

#include <math.h>
#include <string.h>

enum way { FORWARD, DATA, FILTER };
enum feature {
	LEAF = -1,
	N,
	C,
	K,
	X_PLANE,
	Y_PLANE,
	WINDOW,
	GROUPS,
	DEPTH,
	ROWS,
	X,
	Y,
	W,
	C_REST,
	K_REST,
	DIMENSIONS,
	TILES_128,
	TILES_64,
	IS_HALF,
	GROUP_C
};

struct node {
	int feature;
	float value;
	int otherwise;
};

#include "cudnn_trees.h"

const struct descriptor *cudnn_held(const struct descriptor *descriptor, int name) {
	const struct attribute *one = descriptor == NULL ? NULL : cudnn_attribute(descriptor, name);
	return one == NULL || one->type != TYPE_DESCRIPTOR || one->count < 1 ? NULL : *(struct descriptor **)one->values;
}

static int64_t size(const struct descriptor *tensor, int64_t dimension) {
	const struct attribute *sizes = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_SIZES);
	return sizes == NULL || sizes->type != TYPE_INT64 || dimension >= sizes->count
	           ? 1
			   : ((int64_t *)sizes->values)[dimension];
}

static int64_t elements(const struct descriptor *tensor) {
	int64_t product = 1;
	for (int i = 0; i < CUDNN_MOST_DIMENSIONS; i++)
		product *= size(tensor, i);
	return product;
}

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
		const struct descriptor *one = ((struct descriptor **)operations->values)[i];
		bytes += one->kind == OPERATION_REDUCTION ? sum_of_heads(one) : 0;
	}
	return bytes;
}

/* A convolution, as a tree asks about it: planes are the elements of a channel, sizes those of a tensor. */
struct convolution {
	int64_t n, c, k, x_plane, y_plane, window, groups, channels, element;
	int dimensions, last, half, steps;
};

static int64_t plane(const struct descriptor *tensor) { return elements(tensor) / size(tensor, 0) / size(tensor, 1); }

static int channels_last(const struct descriptor *tensor) {
	const struct attribute *strides = tensor == NULL ? NULL : cudnn_attribute(tensor, TENSOR_STRIDES);
	return strides != NULL && strides->type == TYPE_INT64 && strides->count > 1 && ((int64_t *)strides->values)[1] == 1;
}

/* Reads none if a tensor has no elements, or the filter more channels than the image, which no convolution has: nothing
 * is divided by them. */
static int read_convolution(
    const struct descriptor *x, const struct descriptor *w, const struct descriptor *y, struct convolution *one) {
	enum { HALF = 2 }; /* of cudnnDataType_t */
	if (elements(x) < 1 || elements(w) < 1 || elements(y) < 1 || size(x, 1) < size(w, 1) || element(x) < 2 ||
	    element(x) > 4)
		return 0;
	const struct attribute *sizes = x == NULL ? NULL : cudnn_attribute(x, TENSOR_SIZES),
	                       *type = x == NULL ? NULL : cudnn_attribute(x, TENSOR_TYPE);
	*one = (struct convolution){.n = size(x, 0),
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

static int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A copy whose channels are padded to vectors of 16 bytes. */
static int64_t copied(const struct convolution *one, int64_t rows, int64_t channels) {
	int64_t vector = 16 / one->element;
	return rows * divided(channels, vector) * vector * one->element;
}

static int64_t copied_x(const struct convolution *one) { return copied(one, one->n * one->x_plane, one->c); }
static int64_t copied_y(const struct convolution *one) { return copied(one, one->n * one->y_plane, one->k); }
static int64_t copied_w(const struct convolution *one) { return copied(one, one->k * one->window, one->channels); }

/*
 * Tensor cores take a convolution's channels last, in vectors of 16 bytes. Tensors whose channels come first are
 * copied: the image, the result, and the filter unless it is of one element. Each group has a counter. This is what
 * cuDNN chose most often for narrow types, and for float, in TensorFloat-32, from batches of 8 on. A small image of up
 * to 4 channels was taken as it is, and one filter for each channel ("depthwise") always.
 */
static int64_t of_convolution(const struct convolution *one, int forward) {
	enum { COUNTER = 16, FEW = 4, SMALL = 1 << 18, BATCH = 8 };
	if (one->last || one->channels == 1 || (one->element == 4 && one->n < BATCH))
		return 0;
	if (one->window == 1 && (one->groups == 1 ? !one->steps : !forward))
		return 0;
	if (forward && one->groups == 1 && one->channels <= FEW && one->n * one->c * one->x_plane < SMALL)
		return 0;
	if (one->groups == 1)
		return copied_x(one) + copied_y(one) + (one->window == 1 ? 0 : copied_w(one)) + COUNTER;
	int few = one->channels <= FEW; /* then a group's channels are not padded, in no tensor */
	int64_t x = few ? one->n * one->x_plane * one->c * one->element
	                : copied(one, one->n * one->x_plane * one->groups, one->channels);
	int64_t y = few ? one->n * one->y_plane * one->k * one->element
	                : copied(one, one->n * one->y_plane * one->groups, one->k / one->groups);
	int64_t w = few ? one->k * one->channels * one->window * one->element : copied_w(one);
	return x + y + (one->window == 1 ? 0 : w) + COUNTER * (few ? 1 : one->groups);
}

/* Without tensor cores, tensors whose channels come last are copied, and the others taken as they are. */
static int64_t of_plain_convolution(const struct convolution *one) {
	return !one->last || one->channels == 1 ? 0
	                                        : copied_x(one) + copied_y(one) + (one->window == 1 ? 0 : copied_w(one));
}

static double asked(const struct convolution *one, int feature) {
	int64_t depth = one->channels * one->window, width = one->k / one->groups, w = one->channels * one->k * one->window;
	switch (feature) {
	case N:
		return (double)one->n;
	case C:
		return (double)one->c;
	case K:
		return (double)one->k;
	case X_PLANE:
		return (double)one->x_plane;
	case Y_PLANE:
		return (double)one->y_plane;
	case WINDOW:
		return (double)one->window;
	case GROUPS:
		return (double)one->groups;
	case DEPTH:
		return (double)depth;
	case ROWS:
		return (double)(one->n * one->y_plane);
	case X:
		return (double)(one->n * one->c * one->x_plane);
	case Y:
		return (double)(one->n * one->k * one->y_plane);
	case W:
		return (double)w;
	case C_REST:
		return (double)(one->c % 8);
	case K_REST:
		return (double)(one->k % 8);
	case DIMENSIONS:
		return (double)one->dimensions;
	case TILES_128:
		return (double)(divided(width, 128) * divided(depth, 128));
	case TILES_64:
		return (double)(divided(width, 64) * divided(depth, 64));
	case IS_HALF:
		return (double)one->half;
	default:
		return (double)one->channels;
	}
}

static double leaf(const struct node *tree, const struct convolution *one) {
	const struct node *node = tree;
	while (node->feature != LEAF)
		node = asked(one, node->feature) <= node->value ? node + 1 : tree + node->otherwise;
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

static const struct trees *trees_of(const struct convolution *one, int tensor_cores) {
	return &trees[one->element == 2 ? 0 : tensor_cores ? 1 : 2][one->last != 0];
}

/* What a tree leads to expect: copies, sums in float, one for each image or as many as the work is divided into, and
 * counters. */
static int64_t of_tree(const struct convolution *one, int way, int tensor_cores) {
	static const char *const forms[] = {
	    "", "xy", "xyw", "xw", "x", "y", "w", "yw", "n", "s", "xyws", "xys"}; /* FORMS of fit.py */
	enum { FIRST_WITH_SUMS = 9, COUNTER = 16, COUNTERS = 256, COUNTERS_BESIDE_COPIES = 144 };
	const struct trees *ours = trees_of(one, tensor_cores);
	int form = (int)leaf(ours->ways[way].form, one);
	double sums = form < FIRST_WITH_SUMS ? 0 : exp2(leaf(ours->ways[way].sums[form - FIRST_WITH_SUMS], one));
	int64_t bytes = form > FIRST_WITH_SUMS             ? COUNTERS_BESIDE_COPIES
	                : form == FIRST_WITH_SUMS          ? COUNTERS
	                : strchr(forms[form], 'x') != NULL ? COUNTER * one->groups
	                                                   : 0;
	int64_t sum = 4 * one->channels * one->k * one->window;
	for (const char *part = forms[form]; *part != 0; part++)
		bytes += *part == 'x'   ? copied_x(one)
		         : *part == 'y' ? copied_y(one)
		         : *part == 'w' ? copied_w(one)
		         : *part == 'n' ? one->n * sum
		                        : (int64_t)((sums >= 1 ? round(sums) : sums) * (double)sum);
	return bytes;
}

/* A multiple of copies, mostly a whole one, or of the tensors (unit of fit.py). Sizes are marked for
 * gpuconf/plans/programs/parts.py. */
static int64_t of_largest(const struct convolution *one, int way, int tensor_cores) {
	enum { GRAIN = 512, TRIED = 435 };
	double ratio = exp2(leaf(trees_of(one, tensor_cores)->largest[way], one)), whole = round(ratio);
	int64_t tensors = one->element *
	                  (one->n * (one->c * one->x_plane + one->k * one->y_plane) + one->channels * one->k * one->window);
	int64_t copies = copied_x(one) + copied_y(one) + (one->window > 1 ? copied_w(one) : 0);
	int of_tensors = way == FILTER || (way == FORWARD && one->element == 4);
	if (fabs(ratio - whole) < 0.08 * whole)
		ratio = whole;
	int64_t bytes = ratio <= 1.0 / 64 ? 0 : (int64_t)(ratio * (double)(of_tensors ? tensors : copies));
	return bytes < GRAIN ? bytes : bytes / GRAIN * GRAIN + TRIED;
}

static int64_t of_engine(const struct convolution *one, int way, int engine) {
	int tensor_cores = engine == ENGINE_USUAL || engine == ENGINE_LARGEST;
	if (engine == ENGINE_LARGEST || engine == ENGINE_LARGEST_PLAIN)
		return of_largest(one, way, tensor_cores);
	if (trees_of(one, tensor_cores)->ways[way].form != NULL)
		return of_tree(one, way, tensor_cores);
	return tensor_cores || one->element != 4 ? of_convolution(one, way == FORWARD) : of_plain_convolution(one);
}

static int64_t of_operation(const struct descriptor *one, int engine) {
	static const struct {
		int x, w, y;
	} names[] = {{FORWARD_X, FORWARD_W, FORWARD_Y}, {BACKWARD_DATA_DX, BACKWARD_DATA_W, BACKWARD_DATA_DY},
	    {BACKWARD_FILTER_X, BACKWARD_FILTER_DW, BACKWARD_FILTER_DY}};
	struct convolution convolution;
	int way = one->kind == CONVOLUTION_FORWARD           ? FORWARD
	          : one->kind == CONVOLUTION_BACKWARD_DATA   ? DATA
	          : one->kind == CONVOLUTION_BACKWARD_FILTER ? FILTER
	                                                     : -1;
	if (way < 0 || !read_convolution(cudnn_held(one, names[way].x), cudnn_held(one, names[way].w),
	                   cudnn_held(one, names[way].y), &convolution))
		return 0;
	return of_engine(&convolution, way, engine);
}

static const struct descriptor *operation(const struct attribute *operations, int64_t number) {
	return ((struct descriptor **)operations->values)[number];
}

static const struct attribute *operations_of(const struct descriptor *graph) {
	const struct attribute *operations = graph == NULL ? NULL : cudnn_attribute(graph, GRAPH_OPERATIONS);
	return operations != NULL && operations->type == TYPE_DESCRIPTOR && operations->count > 0 ? operations : NULL;
}

int cudnn_engines(const struct descriptor *graph) {
	const struct attribute *operations = operations_of(graph);
	int kind = operations == NULL ? 0 : operation(operations, 0)->kind;
	return kind == CONVOLUTION_FORWARD || kind == CONVOLUTION_BACKWARD_DATA || kind == CONVOLUTION_BACKWARD_FILTER
	           ? ENGINES
			   : 1;
}

int64_t cudnn_workspace(const struct descriptor *graph, int engine) {
	const struct attribute *operations = operations_of(graph);
	for (int64_t i = 0; operations != NULL && i < operations->count; i++) {
		int kind = operation(operations, i)->kind;
		if (kind == OPERATION_MATMUL || kind == OPERATION_ATTENTION || kind == OPERATION_ATTENTION_BACKWARD)
			return of_attention(operations);
	}
	return operations != NULL ? of_operation(operation(operations, 0), engine) : 0;
}
