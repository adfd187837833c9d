/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that allocate memory. Each GPU has a m->graph_reserve for them, which a launch or an upload grows in whole granules to what is needed, and
 * which only a trim returns. Nodes take effect at the launch.
 */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum { KERNEL_NODE = 0, COPY_NODE = 1, FILL_NODE = 2, GRAPH_NODE = 4, EMPTY_NODE = 5, ALLOC_NODE = 10, FREE_NODE = 11 };

struct node {
	int type;
	uint64_t addr, bytes;
	int gpu;
	struct node *next;
	struct graph *child; /* its nodes when it was added; they run in its place */
};

typedef struct {
	int type, handle_types;
	struct {
		int type, id;
	} location;
	void *security;
	size_t most;
	unsigned char reserved[56];
	const void *access;
	size_t access_count, bytes;
	CUdeviceptr addr;
} alloc_params;

struct live {
	uint64_t addr, bytes;
	int gpu;
	struct live *next;
};

void end_graph_memory(void) {
	memset(m->graph_reserve, 0, sizeof m->graph_reserve);
	m->graph_lives = NULL;
}

static struct node *append(struct body *body, struct node node) {
	struct node *new = malloc(sizeof *new);
	*new = node;
	new->next = NULL;
	*(body->nodes == NULL ? &body->nodes : &body->last_node->next) = new;
	body->last_node = new;
	return new;
}

/* Host functions are kernels here, too, and a write of a word is a fill. */
void add_work_node(struct body *body, enum work_kind kind) {
	append(body, (struct node){.type = kind == COPY ? COPY_NODE : kind == KERNEL ? KERNEL_NODE : kind == GRAPH ? GRAPH_NODE : FILL_NODE});
}

CUresult graph_memory_freed(uint64_t addr) {
	for (struct live **at = &m->graph_lives; *at != NULL; at = &(*at)->next)
		if ((*at)->addr == addr) {
			struct live *gone = *at;
			m->graph_reserve[gone->gpu].used -= charge(gone->bytes);
			*at = gone->next;
			free(gone);
			return SUCCESS;
		}
	return INVALID_VALUE;
}

/* What a launch takes at most, beyond what earlier launches left. */
static void walk(const struct node *first, uint64_t *now, uint64_t *most, int *gpu) {
	for (const struct node *one = first; one != NULL; one = one->next) {
		if (one->type == GRAPH_NODE)
			walk(one->child->body->nodes, now, most, gpu);
		if (one->type == ALLOC_NODE) {
			*now += charge(one->bytes);
			*gpu = one->gpu;
		}
		if (one->type == FREE_NODE)
			for (const struct node *other = first; other != one; other = other->next)
				if (other->type == ALLOC_NODE && other->addr == one->addr)
					*now -= charge(other->bytes);
		if (*now > *most)
			*most = *now;
	}
}

static uint64_t need(const struct body *body, int *gpu) {
	uint64_t now = 0, most = 0;
	walk(body->nodes, &now, &most, gpu);
	return most;
}

CUresult reserve_graph_memory(struct body *body) {
	int gpu = 0;
	uint64_t wanted = need(body, &gpu);
	if (wanted == 0)
		return SUCCESS;
	wanted = (m->graph_reserve[gpu].used + wanted + GRANULE - 1) / GRANULE * GRANULE;
	uint64_t growth = wanted > m->graph_reserve[gpu].reserved ? wanted - m->graph_reserve[gpu].reserved : 0;
	if (!use_card(&m->gpu[gpu], growth))
		return OUT_OF_MEMORY;
	m->graph_reserve[gpu].reserved += growth;
	return SUCCESS;
}

void run_graph_memory(struct body *body) {
	for (struct node *one = body->nodes; one != NULL; one = one->next) {
		if (one->type == GRAPH_NODE) {
			run_graph_memory(one->child->body);
		} else if (one->type == FREE_NODE) {
			graph_memory_freed(one->addr);
		} else if (one->type == ALLOC_NODE) {
			struct live *new = malloc(sizeof *new);
			*new = (struct live){one->addr, one->bytes, one->gpu, m->graph_lives};
			m->graph_lives = new;
			m->graph_reserve[one->gpu].used += charge(one->bytes);
		}
	}
}

/* For pools.c: NOT_READY if the stream is not captured. */
CUresult captured_allocation(CUdeviceptr *out, size_t bytes, CUstream handle) {
	struct context *context;
	struct stream *stream;
	CUresult result = current_context(&context);
	if (result == SUCCESS)
		result = find_stream(handle, context, &stream);
	if (result != SUCCESS || stream->capture == NULL)
		return result != SUCCESS ? result : NOT_READY;
	*out = add_graph_memory(bytes, context->gpu);
	append(stream->capture->graph->body, (struct node){ALLOC_NODE, *out, bytes, context->gpu, NULL, NULL});
	return *out != 0 ? SUCCESS : OUT_OF_MEMORY;
}

CUresult captured_free(CUdeviceptr addr, CUstream handle) {
	struct context *context;
	struct stream *stream;
	CUresult result = current_context(&context);
	if (result == SUCCESS)
		result = find_stream(handle, context, &stream);
	if (result != SUCCESS || stream->capture == NULL)
		return result != SUCCESS ? result : NOT_READY;
	append(stream->capture->graph->body, (struct node){FREE_NODE, addr, 0, context->gpu, NULL, NULL});
	return SUCCESS;
}

EXPORT CUresult cuGraphAddEmptyNode(struct node **out, CUgraph graph, struct node *const *after, size_t count) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED(cuGraphAddEmptyNode);
	(void)after, (void)count;
	LOCK;
	*out = append(graph->body, (struct node){.type = EMPTY_NODE});
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuGraphAddMemAllocNode(struct node **out, CUgraph graph, struct node *const *after, size_t count, alloc_params *params) {
	CALLED_SINCE(11040, cuGraphAddMemAllocNode);
	(void)after, (void)count;
	if (params->location.type != 1 || params->location.id < 0 || params->location.id >= m->gpus || params->bytes == 0)
		return INVALID_VALUE;
	LOCK;
	params->addr = add_graph_memory(params->bytes, params->location.id);
	*out = append(graph->body, (struct node){ALLOC_NODE, params->addr, params->bytes, params->location.id, NULL, NULL});
	UNLOCK;
	return params->addr != 0 ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphAddMemFreeNode(struct node **out, CUgraph graph, struct node *const *after, size_t count, CUdeviceptr addr) {
	CALLED_SINCE(11040, cuGraphAddMemFreeNode);
	(void)after, (void)count;
	LOCK;
	*out = append(graph->body, (struct node){FREE_NODE, addr, 0, 0, NULL, NULL});
	UNLOCK;
	return SUCCESS;
}

/* A child's nodes are copied; what a capture recorded does not run with them. */
EXPORT CUresult cuGraphAddChildGraphNode(struct node **out, CUgraph graph, struct node *const *after, size_t count, CUgraph child) {
	CALLED_SINCE(11040, cuGraphAddChildGraphNode);
	(void)after, (void)count;
	LOCK;
	struct graph *copy = calloc(1, sizeof *copy);
	copy->body = calloc(1, sizeof *copy->body);
	for (struct node *one = child->body->nodes; one != NULL; one = one->next)
		append(copy->body, *one);
	*out = append(graph->body, (struct node){.type = GRAPH_NODE, .child = copy});
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuGraphChildGraphNodeGetGraph(struct node *node, CUgraph *out) {
	CALLED_SINCE(11040, cuGraphChildGraphNodeGetGraph);
	*out = node->child;
	return node->type == GRAPH_NODE ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, struct node **out, size_t *count) {
	CALLED_SINCE(11040, cuGraphGetNodes);
	size_t found = 0;
	LOCK;
	for (struct node *one = graph->body->nodes; one != NULL; one = one->next, found++)
		if (out != NULL && found < *count)
			out[found] = one;
	UNLOCK;
	*count = found;
	return SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(struct node *node, int *type) {
	CALLED_SINCE(11040, cuGraphNodeGetType);
	*type = node->type;
	return SUCCESS;
}

EXPORT CUresult cuGraphMemAllocNodeGetParams(struct node *node, alloc_params *params) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11040, cuGraphMemAllocNodeGetParams);
	memset(params, 0, sizeof *params);
	params->type = params->location.type = 1;
	params->location.id = node->gpu;
	params->bytes = node->bytes;
	params->addr = node->addr;
	return node->type == ALLOC_NODE ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGraphMemFreeNodeGetParams(struct node *node, CUdeviceptr *addr) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11040, cuGraphMemFreeNodeGetParams);
	*addr = node->addr;
	return node->type == FREE_NODE ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) {
	CALLED_SINCE(11040, cuDeviceGetGraphMemAttribute);
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	LOCK;
	*(uint64_t *)value = attribute == 2 ? m->graph_reserve[device].reserved : m->graph_reserve[device].used;
	UNLOCK;
	return attribute == 0 || attribute == 2 ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
	CALLED_SINCE(11040, cuDeviceGraphMemTrim);
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	LOCK;
	uint64_t wanted = (m->graph_reserve[device].used + GRANULE - 1) / GRANULE * GRANULE;
	leave_card(&m->gpu[device], m->graph_reserve[device].reserved - wanted);
	m->graph_reserve[device].reserved = wanted;
	UNLOCK;
	return SUCCESS;
}
