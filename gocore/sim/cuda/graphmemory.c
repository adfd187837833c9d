/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that allocate memory, and nodes that programs add by hand. Each GPU has a m->graph_reserve for graphs, which
 * a launch or an upload grows in whole granules to what is needed, and which only a trim returns. Nodes take effect
 * at the launch.
 *
 *  1. graph_reserve[gpu].used is the sum of the charges of the graph_lives on that GPU.
 *  2. reserved is at least used, is charged to the card, and is a whole number of segments.
 *  3. most is the highest value of reserved since it was last set to 0.
 *
 * The machine's lock guards all of it.
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
	struct pool_props pool;
	const void *access;
	size_t access_count, bytes;
	CUdeviceptr addr;
} alloc_params;

struct live {
	uint64_t addr, bytes;
	int gpu;
	struct live *next;
};

/* The list's elements are the process's until its end: a new driver starts without them. */
void end_graph_memory(void) {
	memset(m->graph_reserve, 0, sizeof m->graph_reserve);
	m->graph_lives = NULL;
}

/* Nodes are in the order in which they were added, which is the order in which they run. */
static struct node *append(struct body *body, struct node node) {
	struct node *new = malloc(sizeof *new);
	*new = node;
	new->next = NULL;
	*(body->nodes == NULL ? &body->nodes : &body->last_node->next) = new;
	body->last_node = new;
	return new;
}

/* Host functions are kernels here, too, and all that is about a word or an event is a fill. */
void add_work_node(struct body *body, enum work_kind kind) {
	static const int types[] = {[COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
	    [FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
	    [WRITE_WORD] = CU_GRAPH_NODE_TYPE_MEMSET,
	    [WAIT_WORD] = CU_GRAPH_NODE_TYPE_MEMSET,
	    [KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
	    [GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
	    [SIGNAL] = CU_GRAPH_NODE_TYPE_MEMSET,
	    [AWAIT] = CU_GRAPH_NODE_TYPE_MEMSET};
	append(body, (struct node){.type = types[kind]});
}

void add_event_node(struct body *body, int waits) {
	append(body, (struct node){.type = waits ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD});
}

/* A graph with an allocation may have one executable at a time: its addresses are fixed when the node is made. */
int allocates(const struct body *body) {
	const struct node *node = body->nodes;
	while (node != NULL && node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		node = node->next;
	return node != NULL;
}

/* Whether a graph has allocated it and no one has freed it. */
static int is_live(uint64_t addr) {
	struct live **link = &m->graph_lives;
	FIND(link, (*link)->addr == addr);
	return *link != NULL;
}

/* Whether what the graph allocated at its last launch is free again. CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
 * frees it here. */
CUresult admit_launch(const struct graph *exec) {
	for (struct node *node = exec->body->nodes; node != NULL; node = node->next) {
		if (node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !is_live(node->addr))
			continue;
		if (!exec->frees_on_launch)
			return INVALID_VALUE;
		graph_memory_freed(node->addr);
	}
	return SUCCESS;
}

/* A free by a graph's node or by cuMemFree. The reserve keeps the bytes; only its use falls. */
CUresult graph_memory_freed(uint64_t addr) {
	struct live **link = &m->graph_lives, *gone;
	FIND(link, (*link)->addr == addr);
	if ((gone = *link) == NULL)
		return INVALID_VALUE;
	m->graph_reserve[gone->gpu].used -= charge(gone->bytes);
	*link = gone->next;
	free(gone);
	return SUCCESS;
}

/* What a launch takes at most, beyond what earlier launches left. */
static void walk(const struct node *first, uint64_t *now, uint64_t *most, int *gpu) {
	for (const struct node *node = first; node != NULL; node = node->next) {
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			walk(node->child->body->nodes, now, most, gpu);
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			*now += charge(node->bytes);
			*gpu = node->gpu;
		}
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			for (const struct node *other = first; other != node; other = other->next)
				if (other->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && other->addr == node->addr)
					*now -= charge(other->bytes);
		if (*now > *most)
			*most = *now;
	}
}

static uint64_t segments(uint64_t bytes) {
	const uint64_t unit = segment();
	return (bytes + unit - 1) / unit * unit;
}

/* The reserve grows to its use and the launch's peak. It changes nothing if the card has not got that much. */
CUresult reserve_graph_memory(struct body *body) {
	int gpu = 0;
	uint64_t now = 0, most = 0;
	walk(body->nodes, &now, &most, &gpu);
	if (most == 0)
		return SUCCESS;
	uint64_t wanted = segments(m->graph_reserve[gpu].used + most);
	uint64_t growth = wanted > m->graph_reserve[gpu].reserved ? wanted - m->graph_reserve[gpu].reserved : 0;
	if (!use_card(&m->gpu[gpu], growth))
		return OUT_OF_MEMORY;
	m->graph_reserve[gpu].reserved += growth;
	if (m->graph_reserve[gpu].reserved > m->graph_reserve[gpu].most)
		m->graph_reserve[gpu].most = m->graph_reserve[gpu].reserved;
	return SUCCESS;
}

/* The allocations and frees of one launch, in the order of the nodes. A child graph's stand in its node's place. */
void run_graph_memory(struct body *body) {
	for (struct node *node = body->nodes; node != NULL; node = node->next) {
		if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
			run_graph_memory(node->child->body);
		} else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
			graph_memory_freed(node->addr);
		} else if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
			ADD(m->graph_lives, .addr = node->addr, .bytes = node->bytes, .gpu = node->gpu);
			m->graph_reserve[node->gpu].used += charge(node->bytes);
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
	for (const struct node *node = body->nodes; node != NULL; node = node->next)
		if (node->addr == addr)
			there = node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
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
	LOCKED;
	*out = append(graph->body, (struct node){.type = CU_GRAPH_NODE_TYPE_EMPTY});
	return SUCCESS;
}

EXPORT CUresult cuGraphAddMemAllocNode(
    struct node **out, CUgraph graph, struct node *const *after, size_t count, alloc_params *params) {
	CALLED_SINCE(11040, cuGraphAddMemAllocNode);
	if (out == NULL || graph == NULL || params == NULL || (count > 0 && after == NULL) ||
	    params->pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || unknown_device(params->pool.location.id) ||
	    params->bytes == 0)
		return INVALID_VALUE;
	LOCKED;
	int gpu = params->pool.location.id;
	if (params->bytes > m->gpu[gpu].total + m->gpu[gpu].spill)
		return OUT_OF_MEMORY;
	params->addr = add_graph_memory(params->bytes, gpu);
	*out =
	    append(graph->body, (struct node){CU_GRAPH_NODE_TYPE_MEM_ALLOC, params->addr, params->bytes, gpu, NULL, NULL});
	return params->addr != 0 ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphAddMemFreeNode(
    struct node **out, CUgraph graph, struct node *const *after, size_t count, CUdeviceptr addr) {
	CALLED_SINCE(11040, cuGraphAddMemFreeNode);
	if (out == NULL || graph == NULL || (count > 0 && after == NULL))
		return INVALID_VALUE;
	LOCKED;
	if (!may_free(graph->body, addr)) /* wherever in the graph: edges are not modeled */
		return INVALID_VALUE;
	*out = append(graph->body, (struct node){CU_GRAPH_NODE_TYPE_MEM_FREE, addr, 0, 0, NULL, NULL});
	return SUCCESS;
}

/* A child's nodes are copied; what a capture recorded does not run with them. */
EXPORT CUresult cuGraphAddChildGraphNode(
    struct node **out, CUgraph graph, struct node *const *after, size_t count, CUgraph child) {
	CALLED_SINCE(11040, cuGraphAddChildGraphNode);
	if (out == NULL || graph == NULL || child == NULL || (count > 0 && after == NULL))
		return INVALID_VALUE;
	LOCKED;
	struct graph *copy = calloc(1, sizeof *copy);
	copy->body = calloc(1, sizeof *copy->body);
	for (struct node *node = child->body->nodes; node != NULL; node = node->next)
		append(copy->body, *node);
	*out = append(graph->body, (struct node){.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = copy});
	return SUCCESS;
}

EXPORT CUresult cuGraphChildGraphNodeGetGraph(struct node *node, CUgraph *out) {
	CALLED_SINCE(11040, cuGraphChildGraphNodeGetGraph);
	NEED(node && out);
	*out = node->child;
	return node->type == CU_GRAPH_NODE_TYPE_GRAPH ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, struct node **out, size_t *count) {
	CALLED_SINCE(11040, cuGraphGetNodes);
	size_t nodes = 0;
	NEED(graph && count);
	LOCKED;
	for (struct node *node = graph->body->nodes; node != NULL; node = node->next, nodes++)
		if (out != NULL && nodes < *count)
			out[nodes] = node;
	*count = nodes;
	return SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(struct node *node, int *type) {
	CALLED_SINCE(11040, cuGraphNodeGetType);
	NEED(node && type);
	*type = node->type;
	return SUCCESS;
}

EXPORT CUresult cuGraphMemAllocNodeGetParams(struct node *node, alloc_params *params) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11040, cuGraphMemAllocNodeGetParams);
	NEED(node && params);
	*params = (alloc_params){.pool.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .pool.location = {CU_MEM_LOCATION_TYPE_DEVICE, node->gpu},
	    .bytes = node->bytes,
	    .addr = node->addr};
	return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuGraphMemFreeNodeGetParams(struct node *node, CUdeviceptr *addr) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11040, cuGraphMemFreeNodeGetParams);
	NEED(node && addr);
	*addr = node->addr;
	return node->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? SUCCESS : INVALID_VALUE;
}

/* What is reserved counts as used until it is trimmed. */
EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) {
	CALLED_SINCE(11040, cuDeviceGetGraphMemAttribute);
	if (value == NULL || attribute < CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
	    attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return INVALID_VALUE;
	KNOWN(device);
	LOCKED;
	int high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
	*(uint64_t *)value = high ? m->graph_reserve[device].most : m->graph_reserve[device].reserved;
	return SUCCESS;
}

/* A peak can only be set to 0, which begins it anew. */
EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, const void *value) {
	CALLED_SINCE(11040, cuDeviceSetGraphMemAttribute);
	if (value == NULL ||
	    (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) ||
	    *(const uint64_t *)value != 0)
		return INVALID_VALUE;
	KNOWN(device);
	LOCKED;
	m->graph_reserve[device].most = m->graph_reserve[device].reserved;
	return SUCCESS;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
	CALLED_SINCE(11040, cuDeviceGraphMemTrim);
	KNOWN(device);
	LOCKED;
	uint64_t wanted = segments(m->graph_reserve[device].used);
	leave_card(&m->gpu[device], m->graph_reserve[device].reserved - wanted);
	m->graph_reserve[device].reserved = wanted;
	return SUCCESS;
}
