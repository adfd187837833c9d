/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's graph functions. A descriptor keeps the attributes that are set, and gives them back. What cuDNN works out has one answer: one engine
 * for each graph of operations, which has no notes and no knobs. A convolution's workspace is that of cudnn_workspace.c.
 */
#include "cudnn.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { OF_ATTENTION = 256 }; /* bytes */

enum type { TYPE_BOOLEAN = 2, TYPE_INT64 = 3, TYPE_DESCRIPTOR = 15, TYPE_INT32 = 23, TYPE_CHARACTER = 24 };
enum kind { ENGINE = 2, ENGINE_CONFIG = 3, ENGINE_HEURISTIC = 4, EXECUTION_PLAN = 5, OPERATION_GRAPH = 15 };
enum name {
	HEURISTIC_GRAPH = 201,
	HEURISTIC_RESULTS = 202,
	CONFIG_ENGINE = 300,
	CONFIG_WORKSPACE = 303,
	CONFIG_SHARED_MEMORY = 304,
	PLAN_CONFIG = 401,
	PLAN_WORKSPACE = 402,
	PLAN_JSON = 405,
	FORWARD_W = 703,
	FORWARD_X = 704,
	FORWARD_Y = 705,
	DATA_W = 709,
	DATA_DX = 710,
	DATA_DY = 711,
	FILTER_DW = 715,
	FILTER_X = 716,
	FILTER_DY = 717,
	GRAPH_OPERATIONS = 801,
	GRAPH_ENGINES = 802,
	TENSOR_TYPE = 901,
	TENSOR_SIZES = 902,
	TENSOR_STRIDES = 903,
	ENGINE_GRAPH = 1300,
	ENGINE_INDEX = 1301,
};

struct attribute {
	int name, type;
	int64_t count;
	void *values;
	struct attribute *next;
};

/* A descriptor lives as long as its creator or another one holds it. The lock guards the counts and all attributes. */
struct descriptor {
	int kind, finalized;
	int holders;
	struct attribute *attributes;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Bytes of one value, by cudnnBackendAttributeType_t; the other types are enumerations. */
static size_t bytes_of(int type) {
	switch (type) {
	case TYPE_BOOLEAN:
	case TYPE_CHARACTER:
		return 1;
	case 26: /* a fraction of two INT64 */
		return 16;
	case 0: /* a handle */
	case TYPE_INT64:
	case 5: /* a double */
	case 6: /* an address */
	case TYPE_DESCRIPTOR:
		return 8;
	default:
		return 4;
	}
}

static void release(struct descriptor *descriptor);

static void clear(struct attribute *attribute) {
	struct descriptor **held = attribute->values;
	for (int64_t i = 0; attribute->type == TYPE_DESCRIPTOR && i < attribute->count; i++)
		release(held[i]);
	free(attribute->values);
}

static void clear_all(struct descriptor *descriptor) {
	for (struct attribute *one = descriptor->attributes, *next; one != NULL; one = next) {
		next = one->next;
		clear(one);
		free(one);
	}
	descriptor->attributes = NULL;
}

static void release(struct descriptor *descriptor) {
	if (descriptor == NULL || --descriptor->holders > 0)
		return;
	clear_all(descriptor);
	free(descriptor);
}

static struct attribute *find(const struct descriptor *descriptor, int name) {
	struct attribute *one = descriptor->attributes;
	while (one != NULL && one->name != name)
		one = one->next;
	return one;
}

static int set(struct descriptor *descriptor, int name, int type, int64_t count, const void *values) {
	size_t bytes = bytes_of(type) * (size_t)count;
	void *copy = malloc(bytes + 1);
	struct attribute *attribute = find(descriptor, name);
	if (attribute == NULL && copy != NULL && (attribute = calloc(1, sizeof *attribute)) != NULL) {
		attribute->next = descriptor->attributes;
		descriptor->attributes = attribute;
	}
	if (attribute == NULL || copy == NULL) {
		free(copy);
		return CUDNN_NO_HOST_MEMORY;
	}
	if (bytes > 0)
		memcpy(copy, values, bytes);
	for (int64_t i = 0; type == TYPE_DESCRIPTOR && i < count; i++)
		if (((struct descriptor **)copy)[i] != NULL)
			((struct descriptor **)copy)[i]->holders++;
	clear(attribute);
	attribute->name = name;
	attribute->type = type;
	attribute->count = count;
	attribute->values = copy;
	return SUCCESS;
}

/* A descriptor that is got is a copy in one that the caller has created. */
static int copy(struct descriptor *to, const struct descriptor *from) {
	int result = SUCCESS;
	if (to == NULL || to == from)
		return to == NULL ? CUDNN_NULL_POINTER : SUCCESS;
	if (to->kind != from->kind)
		return CUDNN_BAD_PARAM;
	clear_all(to);
	for (const struct attribute *one = from->attributes; result == SUCCESS && one != NULL; one = one->next)
		result = set(to, one->name, one->type, one->count, one->values);
	to->finalized = from->finalized;
	return result;
}

EXPORT int cudnnBackendCreateDescriptor(int kind, struct descriptor **out) {
	int result = cudnn_create((void **)out, sizeof **out);
	if (result == SUCCESS) {
		(*out)->kind = kind;
		(*out)->holders = 1;
	}
	return result;
}

EXPORT int cudnnBackendDestroyDescriptor(struct descriptor *descriptor) {
	pthread_mutex_lock(&lock);
	release(descriptor);
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

EXPORT int cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type, int64_t count, const void *values) {
	if (descriptor == NULL || (values == NULL && count > 0))
		return CUDNN_NULL_POINTER;
	if (count < 0 || descriptor->finalized)
		return CUDNN_BAD_PARAM;
	pthread_mutex_lock(&lock);
	int result = set(descriptor, name, type, count, values);
	pthread_mutex_unlock(&lock);
	return result;
}

static int get(const struct attribute *attribute, int type, int64_t room, int64_t *count, void *values) {
	int result = SUCCESS;
	if (attribute->type != type)
		return CUDNN_BAD_PARAM;
	if (count != NULL)
		*count = attribute->count;
	if (values == NULL)
		return SUCCESS;
	int64_t many = room < attribute->count ? room : attribute->count;
	if (type != TYPE_DESCRIPTOR) {
		memcpy(values, attribute->values, bytes_of(type) * (size_t)many);
		return SUCCESS;
	}
	for (int64_t i = 0; result == SUCCESS && i < many; i++)
		result = copy(((struct descriptor **)values)[i], ((struct descriptor **)attribute->values)[i]);
	return result;
}

/* What is not set has no values: notes, knobs, intermediate results. */
EXPORT int cudnnBackendGetAttribute(struct descriptor *descriptor, int name, int type, int64_t room, int64_t *count, void *values) {
	int result = SUCCESS;
	if (descriptor == NULL)
		return CUDNN_NULL_POINTER;
	if (!descriptor->finalized)
		return CUDNN_NOT_FINALIZED;
	if (count != NULL)
		*count = 0;
	pthread_mutex_lock(&lock);
	const struct attribute *attribute = find(descriptor, name);
	if (attribute != NULL)
		result = get(attribute, type, room, count, values);
	pthread_mutex_unlock(&lock);
	return result;
}

static struct descriptor *make(int kind) {
	struct descriptor *made = NULL;
	if (cudnnBackendCreateDescriptor(kind, &made) == SUCCESS)
		made->finalized = 1;
	return made;
}

/* The descriptor that an attribute of another one is, or NULL. */
static const struct descriptor *held(const struct descriptor *descriptor, int name) {
	const struct attribute *one = descriptor == NULL ? NULL : find(descriptor, name);
	return one == NULL || one->type != TYPE_DESCRIPTOR || one->count != 1 ? NULL : *(struct descriptor *const *)one->values;
}

static int shape_of(const struct descriptor *operation, int name, struct cudnn_shape *out) {
	const struct descriptor *tensor = held(operation, name);
	const struct attribute *type, *sizes, *strides;
	if (tensor == NULL || (type = find(tensor, TENSOR_TYPE)) == NULL || (sizes = find(tensor, TENSOR_SIZES)) == NULL ||
	    (strides = find(tensor, TENSOR_STRIDES)) == NULL || sizes->count != strides->count || sizes->count < 3 || sizes->count > CUDNN_MOST_DIMENSIONS)
		return 0;
	out->dimensions = (int)sizes->count;
	memcpy(&out->type, type->values, sizeof out->type);
	memcpy(out->sizes, sizes->values, 8 * (size_t)sizes->count);
	memcpy(out->strides, strides->values, 8 * (size_t)sizes->count);
	return 1;
}

/* The workspace of a graph of one convolution, or of several operations: attention, as on an H200. 0 for other graphs. */
static int64_t workspace_of(const struct descriptor *graph) {
	static const int names[][3] = {{FORWARD_X, FORWARD_W, FORWARD_Y}, {FILTER_X, FILTER_DW, FILTER_DY}, {DATA_DX, DATA_W, DATA_DY}};
	const struct attribute *operations = graph == NULL ? NULL : find(graph, GRAPH_OPERATIONS);
	const struct descriptor *operation = held(graph, GRAPH_OPERATIONS);
	if (operations != NULL && operations->count > 1)
		return OF_ATTENTION;
	if (operation == NULL || operation->kind < CUDNN_FORWARD || operation->kind > CUDNN_BACKWARD_DATA)
		return 0;
	const int *name = names[operation->kind - CUDNN_FORWARD];
	struct cudnn_convolution one = {.kind = operation->kind};
	int is_whole = shape_of(operation, name[0], &one.x) && shape_of(operation, name[1], &one.w) && shape_of(operation, name[2], &one.y);
	return is_whole ? cudnn_convolution_workspace(&one) : 0;
}

static int complete_config(struct descriptor *config) {
	static const int32_t no_shared = 0;
	const int64_t bytes = workspace_of(held(held(config, CONFIG_ENGINE), ENGINE_GRAPH));
	int result = find(config, CONFIG_ENGINE) == NULL ? CUDNN_BAD_PARAM : set(config, CONFIG_WORKSPACE, TYPE_INT64, 1, &bytes);
	return result != SUCCESS ? result : set(config, CONFIG_SHARED_MEMORY, TYPE_INT32, 1, &no_shared);
}

/* The one configuration of the one engine of a graph of operations. */
static int recommend(struct descriptor *heuristic) {
	static const int64_t zero = 0;
	const struct attribute *graph = find(heuristic, HEURISTIC_GRAPH);
	struct descriptor *engine = make(ENGINE), *config = make(ENGINE_CONFIG);
	int result = graph == NULL ? CUDNN_BAD_PARAM : engine == NULL || config == NULL ? CUDNN_NO_HOST_MEMORY : SUCCESS;
	if (result == SUCCESS)
		result = set(engine, ENGINE_GRAPH, TYPE_DESCRIPTOR, 1, graph->values);
	if (result == SUCCESS)
		result = set(engine, ENGINE_INDEX, TYPE_INT64, 1, &zero);
	if (result == SUCCESS)
		result = set(config, CONFIG_ENGINE, TYPE_DESCRIPTOR, 1, &engine);
	if (result == SUCCESS)
		result = complete_config(config);
	if (result == SUCCESS)
		result = set(heuristic, HEURISTIC_RESULTS, TYPE_DESCRIPTOR, 1, &config);
	release(engine);
	release(config);
	return result;
}

static int complete(struct descriptor *descriptor) {
	static const int64_t one = 1;
	static const char json[] = "{}";
	int64_t bytes;
	int result;
	switch (descriptor->kind) {
	case OPERATION_GRAPH:
		return set(descriptor, GRAPH_ENGINES, TYPE_INT64, 1, &one);
	case ENGINE_HEURISTIC:
		return recommend(descriptor);
	case ENGINE:
		return find(descriptor, ENGINE_GRAPH) == NULL ? CUDNN_BAD_PARAM : SUCCESS;
	case ENGINE_CONFIG:
		return complete_config(descriptor);
	case EXECUTION_PLAN:
		bytes = workspace_of(held(held(held(descriptor, PLAN_CONFIG), CONFIG_ENGINE), ENGINE_GRAPH));
		result = find(descriptor, PLAN_CONFIG) == NULL ? CUDNN_BAD_PARAM : set(descriptor, PLAN_WORKSPACE, TYPE_INT64, 1, &bytes);
		return result != SUCCESS ? result : set(descriptor, PLAN_JSON, TYPE_CHARACTER, sizeof json, json);
	default:
		return SUCCESS;
	}
}

EXPORT int cudnnBackendFinalize(struct descriptor *descriptor) {
	if (descriptor == NULL)
		return CUDNN_NULL_POINTER;
	pthread_mutex_lock(&lock);
	int result = descriptor->finalized ? SUCCESS : complete(descriptor);
	descriptor->finalized |= result == SUCCESS;
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT int cudnnBackendExecute(const void *handle, const struct descriptor *plan, const struct descriptor *variants) {
	if (handle == NULL || plan == NULL || variants == NULL)
		return CUDNN_NULL_POINTER;
	if (!plan->finalized || !variants->finalized)
		return CUDNN_NOT_FINALIZED;
	return computes("cudnnBackendExecute") == SUCCESS ? SUCCESS : CUDNN_NOT_SUPPORTED;
}
