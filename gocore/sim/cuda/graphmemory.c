/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that allocate memory. Each GPU has a m->graph_reserve for them, which a launch or an upload grows in whole
 * granules to what is needed, and which only a trim returns. Nodes take effect at the launch.
 */
#include "stream.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <string.h>

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
	append(body, (struct node){.type = kind == COPY     ? CU_GRAPH_NODE_TYPE_MEMCPY
	                                   : kind == KERNEL ? CU_GRAPH_NODE_TYPE_KERNEL
	                                   : kind == GRAPH  ? CU_GRAPH_NODE_TYPE_GRAPH
	                                                    : CU_GRAPH_NODE_TYPE_MEMSET});
}

void add_event_node(struct body *body, int waits) {
	append(body, (struct node){.type = waits ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD});
}

int allocates(const struct body *body) {
	for (const struct node *one = body->nodes; one != NULL; one = one->next)
		if (one->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			return 1;
	return 0;
}

static int is_live(uint64_t addr) {
	for (const struct live *one = m->graph_lives; one != NULL; one = one->next)
		if (one->addr == addr)
			return 1;
	return 0;
}

CUresult admit_launch(const struct graph *exec) {
	for (struct node *one = exec->body->nodes; one != NULL; one = one->next) {
		if (one->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !is_live(one->addr))
			continue;
		if (!exec->frees_on_launch)
			return INVALID_VALUE;
		graph_memory_freed(one->addr);
	}
	return SUCCESS;
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
		if (one->type == CU_GRAPH_NODE_TYPE_GRAPH)
			walk(one->child->body->nodes, now, most, gpu);
		if (one->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			*now += charge(one->bytes);
			*gpu = one->gpu;
		}
		if (one->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			for (const struct node *other = first; other != one; other = other->next)
				if (other->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && other->addr == one->addr)
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

static uint64_t segments(uint64_t bytes) {
	const uint64_t unit = segment();
	return (bytes + unit - 1) / unit * unit;
}

CUresult reserve_graph_memory(struct body *body) {
	int gpu = 0;
	uint64_t wanted = need(body, &gpu);
	if (wanted == 0)
		return SUCCESS;
	wanted = segments(m->graph_reserve[gpu].used + wanted);
	uint64_t growth = wanted > m->graph_reserve[gpu].reserved ? wanted - m->graph_reserve[gpu].reserved : 0;
	if (!use_card(&m->gpu[gpu], growth))
		return OUT_OF_MEMORY;
	m->graph_reserve[gpu].reserved += growth;
	if (m->graph_reserve[gpu].reserved > m->graph_reserve[gpu].most)
		m->graph_reserve[gpu].most = m->graph_reserve[gpu].reserved;
	return SUCCESS;
}

void run_graph_memory(struct body *body) {
	for (struct node *one = body->nodes; one != NULL; one = one->next) {
		if (one->type == CU_GRAPH_NODE_TYPE_GRAPH) {
			run_graph_memory(one->child->body);
		} else if (one->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
			graph_memory_freed(one->addr);
		} else if (one->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
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
	CUresult result = stream_and_context(handle, &stream, &context);
	if (result != SUCCESS || stream->capture == NULL)
		return result != SUCCESS ? result : NOT_READY;
	if (bytes > m->gpu[context->gpu].total + m->gpu[context->gpu].spill)
		return OUT_OF_MEMORY;
	if (bytes == 0) {
		*out = 0;
		return SUCCESS;
	}
	*out = add_graph_memory(bytes, context->gpu);
	append(stream->capture->graph->body,
	    (struct node){CU_GRAPH_NODE_TYPE_MEM_ALLOC, *out, bytes, context->gpu, NULL, NULL});
	return *out != 0 ? SUCCESS : OUT_OF_MEMORY;
}

/* A graph frees what it allocates, or what another one has allocated; each once. */
static int may_free(const struct body *body, uint64_t addr) {
	int there = is_live(addr);
	for (const struct node *one = body->nodes; one != NULL; one = one->next)
		there = one->addr != addr ? there : one->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	return there;
}

CUresult captured_free(CUdeviceptr addr, CUstream handle) {
	struct context *context;
	struct stream *stream;
	CUresult result = stream_and_context(handle, &stream, &context);
	if (result != SUCCESS || stream->capture == NULL)
		return result != SUCCESS ? result : NOT_READY;
	if (addr == 0)
		return SUCCESS;
	if (!may_free(stream->capture->graph->body, addr))
		return INVALID_VALUE;
	append(stream->capture->graph->body, (struct node){CU_GRAPH_NODE_TYPE_MEM_FREE, addr, 0, context->gpu, NULL, NULL});
	return SUCCESS;
}

EXPORT CUresult cuGraphAddEmptyNode(struct node **out, CUgraph graph, struct node *const *after, size_t count) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED(cuGraphAddEmptyNode);
	if (out == NULL || graph == NULL || (count > 0 && after == NULL))
		return INVALID_VALUE;
	LOCK;
	*out = append(graph->body, (struct node){.type = CU_GRAPH_NODE_TYPE_EMPTY});
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuGraphAddMemAllocNode(
    struct node **out, CUgraph graph, struct node *const *after, size_t count, alloc_params *params) {
	CALLED_SINCE(11040, cuGraphAddMemAllocNode);
	if (out == NULL || graph == NULL || params == NULL || (count > 0 && after == NULL) || params->location.type != 1 ||
	    params->location.id < 0 || params->location.id >= m->gpus || params->bytes == 0)
		return INVALID_VALUE;
	LOCK;
	if (params->bytes > m->gpu[params->location.id].total + m->gpu[params->location.id].spill) {
		UNLOCK;
		return OUT_OF_MEMORY;
	}
	params->addr = add_graph_memory(params->bytes, params->location.id);
	*out = append(graph->body,
	    (struct node){CU_GRAPH_NODE_TYPE_MEM_ALLOC, params->addr, params->bytes, params->location.id, NULL, NULL});
	UNLOCK;
	return params->addr != 0 ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphAddMemFreeNode(
    struct node **out, CUgraph graph, struct node *const *after, size_t count, CUdeviceptr addr) {
	CALLED_SINCE(11040, cuGraphAddMemFreeNode);
	if (out == NULL || graph == NULL || (count > 0 && after == NULL))
		return INVALID_VALUE;
	LOCK;
	int allowed = may_free(graph->body, addr); /* wherever in the graph: edges are not modeled */
	if (!allowed) {
		UNLOCK;
		return INVALID_VALUE;
	}
	*out = append(graph->body, (struct node){CU_GRAPH_NODE_TYPE_MEM_FREE, addr, 0, 0, NULL, NULL});
	UNLOCK;
	return SUCCESS;
}

/* A child's nodes are copied; what a capture recorded does not run with them. */
EXPORT CUresult cuGraphAddChildGraphNode(
    struct node **out, CUgraph graph, struct node *const *after, size_t count, CUgraph child) {
	CALLED_SINCE(11040, cuGraphAddChildGraphNode);
	if (out == NULL || graph == NULL || child == NULL || (count > 0 && after == NULL))
		return INVALID_VALUE;
	LOCK;
	struct graph *copy = calloc(1, sizeof *copy);
	copy->body = calloc(1, sizeof *copy->body);
	for (struct node *one = child->body->nodes; one != NULL; one = one->next)
		append(copy->body, *one);
	*out = append(graph->body, (struct node){.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = copy});
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuGraphChildGraphNodeGetGraph(struct node *node, CUgraph *out) {
	CALLED_SINCE(11040, cuGraphChildGraphNodeGetGraph);
	if (node == NULL || out == NULL)
		return INVALID_VALUE;
	*out = node->child;
	return node->type == CU_GRAPH_NODE_TYPE_GRAPH ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, struct node **out, size_t *count) {
	CALLED_SINCE(11040, cuGraphGetNodes);
	size_t found = 0;
	if (graph == NULL || count == NULL)
		return INVALID_VALUE;
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
	if (node == NULL || type == NULL)
		return INVALID_VALUE;
	*type = node->type;
	return SUCCESS;
}

EXPORT CUresult cuGraphMemAllocNodeGetParams(struct node *node, alloc_params *params) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11040, cuGraphMemAllocNodeGetParams);
	if (node == NULL || params == NULL)
		return INVALID_VALUE;
	memset(params, 0, sizeof *params);
	params->type = params->location.type = 1;
	params->location.id = node->gpu;
	params->bytes = node->bytes;
	params->addr = node->addr;
	return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGraphMemFreeNodeGetParams(struct node *node, CUdeviceptr *addr) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11040, cuGraphMemFreeNodeGetParams);
	if (node == NULL || addr == NULL)
		return INVALID_VALUE;
	*addr = node->addr;
	return node->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? SUCCESS : INVALID_VALUE;
}

/* What is reserved counts as used until it is trimmed. */
EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) {
	CALLED_SINCE(11040, cuDeviceGetGraphMemAttribute);
	if (value == NULL || attribute < CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
	    attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return INVALID_VALUE;
	if (unknown_device(device))
		return INVALID_DEVICE;
	LOCK;
	int most = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
	*(uint64_t *)value = most ? m->graph_reserve[device].most : m->graph_reserve[device].reserved;
	UNLOCK;
	return SUCCESS;
}

/* A peak can only be set to 0, which begins it anew. */
EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, const void *value) {
	CALLED_SINCE(11040, cuDeviceSetGraphMemAttribute);
	if (value == NULL ||
	    (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) ||
	    *(const uint64_t *)value != 0)
		return INVALID_VALUE;
	if (unknown_device(device))
		return INVALID_DEVICE;
	LOCK;
	m->graph_reserve[device].most = m->graph_reserve[device].reserved;
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
	CALLED_SINCE(11040, cuDeviceGraphMemTrim);
	if (unknown_device(device))
		return INVALID_DEVICE;
	LOCK;
	uint64_t wanted = segments(m->graph_reserve[device].used);
	leave_card(&m->gpu[device], m->graph_reserve[device].reserved - wanted);
	m->graph_reserve[device].reserved = wanted;
	UNLOCK;
	return SUCCESS;
}
