/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's graph functions. A descriptor keeps the attributes that are set, and gives them back. What cuDNN works out
 * has one answer: the engines of cudnn.h, which have no knobs. Engines and their workspaces are not documented;
 * cudnn_workspace.c has what was recorded.
 */
#include "cudnn.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t cudnn_lock = PTHREAD_MUTEX_INITIALIZER;

/* Bytes of one value, by cudnnBackendAttributeType_t; the other types are enumerations. */
static size_t bytes_of(int type) {
	static const unsigned char bytes[] = {[TYPE_HANDLE] = 8,
	    [TYPE_BOOLEAN] = 1,
	    [TYPE_INT64] = 8,
	    [TYPE_DOUBLE] = 8,
	    [TYPE_VOID_PTR] = 8,
	    [TYPE_DESCRIPTOR] = 8,
	    [TYPE_CHARACTER] = 1,
	    [TYPE_FRACTION] = 16};
	return type >= 0 && (size_t)type < sizeof bytes && bytes[type] > 0 ? bytes[type] : sizeof(int);
}

static void release(struct descriptor *descriptor);

/* Descriptors that it holds lose a holder. */
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

/* Its creator and each attribute that has it are holders. */
static void release(struct descriptor *descriptor) {
	if (descriptor == NULL || --descriptor->holders > 0)
		return;
	clear_all(descriptor);
	free(descriptor);
}

struct attribute *cudnn_attribute(const struct descriptor *descriptor, int name) {
	struct attribute *one = descriptor->attributes;
	while (one != NULL && one->name != name)
		one = one->next;
	return one;
}

/* The new values are held before the old ones are let go: they may be the same descriptors. */
static int set(struct descriptor *descriptor, int name, int type, int64_t count, const void *values) {
	size_t bytes = bytes_of(type) * (size_t)count;
	void *copy = malloc(bytes + 1);
	struct attribute *attribute = cudnn_attribute(descriptor, name);
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
	HOLD(cudnn_lock);
	release(descriptor);
	return SUCCESS;
}

EXPORT int cudnnBackendSetAttribute(
    struct descriptor *descriptor, int name, int type, int64_t count, const void *values) {
	if (descriptor == NULL || (values == NULL && count > 0))
		return CUDNN_NULL_POINTER;
	if (count < 0 || descriptor->finalized)
		return CUDNN_BAD_PARAM;
	HOLD(cudnn_lock);
	return set(descriptor, name, type, count, values);
}

/* The count is of all values, but of a heuristic's results those that there is room for: PyTorch 2.14 and later request
 * one, and read as many as are counted. */
static int get(const struct attribute *attribute, int type, int64_t room, int64_t *count, void *values) {
	int result = SUCCESS;
	if (attribute->type != type)
		return CUDNN_BAD_PARAM;
	int64_t many = room < attribute->count ? room : attribute->count;
	if (count != NULL)
		*count = values != NULL && attribute->name == HEURISTIC_RESULTS ? many : attribute->count;
	if (values == NULL)
		return SUCCESS;
	if (type != TYPE_DESCRIPTOR) {
		memcpy(values, attribute->values, bytes_of(type) * (size_t)many);
		return SUCCESS;
	}
	for (int64_t i = 0; result == SUCCESS && i < many; i++)
		result = copy(((struct descriptor **)values)[i], ((struct descriptor **)attribute->values)[i]);
	return result;
}

/* What is not set has no values: notes, knobs, intermediate results. */
EXPORT int cudnnBackendGetAttribute(
    struct descriptor *descriptor, int name, int type, int64_t room, int64_t *count, void *values) {
	NEED(descriptor, CUDNN_NULL_POINTER);
	if (!descriptor->finalized)
		return CUDNN_NOT_FINALIZED;
	if (count != NULL)
		*count = 0;
	HOLD(cudnn_lock);
	const struct attribute *attribute = cudnn_attribute(descriptor, name);
	return attribute != NULL ? get(attribute, type, room, count, values) : SUCCESS;
}

/* For what cuDNN makes itself: it is finalized from the beginning. */
static struct descriptor *make_descriptor(int kind) {
	struct descriptor *made = NULL;
	if (cudnnBackendCreateDescriptor(kind, &made) == SUCCESS)
		made->finalized = 1;
	return made;
}

static int complete_config(struct descriptor *config) {
	static const int64_t no_bytes = 0;
	static const int32_t no_shared = 0;
	int result = cudnn_attribute(config, CONFIG_ENGINE) == NULL
	                 ? CUDNN_BAD_PARAM
	                 : set(config, CONFIG_WORKSPACE, TYPE_INT64, 1, &no_bytes);
	return result != SUCCESS ? result : set(config, CONFIG_SHARED_MEMORY, TYPE_INT32, 1, &no_shared);
}

/* The engine belongs to its configuration, so the own reference to it goes. */
static int make_config(const struct attribute *graph, int64_t number, struct descriptor **out) {
	static const int32_t tensor_cores =
	    0; /* CUDNN_NUMERICAL_NOTE_TENSOR_CORE, by which PyTorch leaves out TensorFloat-32 */
	struct descriptor *engine = make_descriptor(ENGINE), *config = *out = make_descriptor(ENGINE_CONFIG);
	int result = engine == NULL || config == NULL ? CUDNN_NO_HOST_MEMORY
	                                              : set(engine, ENGINE_GRAPH, TYPE_DESCRIPTOR, 1, graph->values);
	if (result == SUCCESS)
		result = set(engine, ENGINE_INDEX, TYPE_INT64, 1, &number);
	if (result == SUCCESS && (number == ENGINE_USUAL || number == ENGINE_LARGEST))
		result = set(engine, ENGINE_NOTES, TYPE_NOTE, 1, &tensor_cores);
	if (result == SUCCESS)
		result = set(config, CONFIG_ENGINE, TYPE_DESCRIPTOR, 1, &engine);
	if (result == SUCCESS)
		result = complete_config(config);
	release(engine);
	return result;
}

/* One configuration of each engine of a graph of operations. */
static int recommend(struct descriptor *heuristic) {
	const struct attribute *graph = cudnn_attribute(heuristic, HEURISTIC_GRAPH);
	struct descriptor *configs[ENGINES] = {NULL};
	int result = graph == NULL ? CUDNN_BAD_PARAM : SUCCESS,
	    count = cudnn_engines(cudnn_held(heuristic, HEURISTIC_GRAPH));
	for (int i = 0; result == SUCCESS && i < count; i++)
		result = make_config(graph, i, &configs[i]);
	if (result == SUCCESS)
		result = set(heuristic, HEURISTIC_RESULTS, TYPE_DESCRIPTOR, count, configs);
	for (int i = 0; i < ENGINES; i++)
		release(configs[i]);
	return result;
}

/* Plans that were made by hand have no number: they are the usual engine's. */
static int64_t engine_of(const struct descriptor *plan) {
	const struct descriptor *engine = cudnn_held(cudnn_held(plan, PLAN_CONFIG), CONFIG_ENGINE);
	const struct attribute *number = engine == NULL ? NULL : cudnn_attribute(engine, ENGINE_INDEX);
	return number == NULL ? ENGINE_USUAL : *(int64_t *)number->values;
}

static int complete_plan(struct descriptor *plan) {
	static const char json[] = "{}";
	const struct attribute *config = cudnn_attribute(plan, PLAN_CONFIG);
	NEED(config, CUDNN_BAD_PARAM);
	const struct descriptor *engine = cudnn_held(cudnn_held(plan, PLAN_CONFIG), CONFIG_ENGINE);
	int64_t bytes = engine == NULL ? 0 : cudnn_workspace(cudnn_held(engine, ENGINE_GRAPH), (int)engine_of(plan));
	int result = set(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &bytes);
	return result != SUCCESS ? result : set(plan, PLAN_JSON, TYPE_CHARACTER, sizeof json, json);
}

/* What each kind works out when it is finalized. Kinds that are not named have nothing to work out. */
static int complete(struct descriptor *descriptor) {
	int64_t engines = descriptor->kind == OPERATION_GRAPH ? cudnn_engines(descriptor) : 0;
	switch (descriptor->kind) {
	case OPERATION_GRAPH:
		return set(descriptor, GRAPH_ENGINES, TYPE_INT64, 1, &engines);
	case ENGINE_HEURISTIC:
		return recommend(descriptor);
	case ENGINE:
		return cudnn_attribute(descriptor, ENGINE_GRAPH) == NULL ? CUDNN_BAD_PARAM : SUCCESS;
	case ENGINE_CONFIG:
		return complete_config(descriptor);
	case EXECUTION_PLAN:
		return complete_plan(descriptor);
	default:
		return SUCCESS;
	}
}

EXPORT int cudnnBackendFinalize(struct descriptor *descriptor) {
	NEED(descriptor, CUDNN_NULL_POINTER);
	HOLD(cudnn_lock);
	int result = descriptor->finalized ? SUCCESS : complete(descriptor);
	descriptor->finalized |= result == SUCCESS;
	return result;
}

/* PyTorch measures the engines of a convolution, and takes the fastest. On an H200, that was seldom the one that needs
 * most memory. */
static void take_time(const struct descriptor *plan) {
	static const struct timespec longer = {.tv_nsec = 100000};
	if (engine_of(plan) >= ENGINE_LARGEST)
		nanosleep(&longer, NULL);
}

EXPORT int cudnnBackendExecute(const void *handle, const struct descriptor *plan, const struct descriptor *variants) {
	NEED(handle && plan && variants, CUDNN_NULL_POINTER);
	if (!plan->finalized || !variants->finalized)
		return CUDNN_NOT_FINALIZED;
	take_time(plan);
	return computes("cudnnBackendExecute") == SUCCESS ? SUCCESS : CUDNN_NOT_SUPPORTED;
}
