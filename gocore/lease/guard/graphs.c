/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate themselves. It is taken when a graph is launched or uploaded, from a reserve that the
 * driver keeps for all graphs of a device. What a graph needs at most, in the order in which its nodes were made, is
 * found out when it is instantiated.
 */
#include "guard.h"

#include <stdlib.h>

int graphs_in_use;
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* not held while the driver is called: that may wait for other threads */
static struct reserve {
	uint64_t charged;
	uint64_t in_flight, claimed,
	    spare;        /* launches in flight: how many, what they need, and what was taken for them beyond charged */
	uint64_t changes; /* as a pool's (pools.c) */
} reserves[MAX_DEVICES];

/* What the nodes of a graph hold, while they are walked through. */
struct need {
	uint64_t now, most;
	CUdevice device;
	struct live {
		CUdeviceptr address;
		uint64_t bytes;
	} *live;
	size_t count;
};

static void allocated(struct need *need, const CUDA_MEM_ALLOC_NODE_PARAMS *params) {
	struct live *more = realloc(need->live, (need->count + 1) * sizeof *more);

	if (more != NULL) {
		need->live = more;
		need->live[need->count++] = (struct live){params->address, params->bytes};
	}
	need->device = params->pool.location.id;
	need->now += params->bytes;
	if (need->now > need->most)
		need->most = need->now;
}

static void freed(struct need *need, CUdeviceptr address) {
	for (size_t i = 0; i < need->count; i++)
		if (need->live[i].address == address) {
			need->now -= need->live[i].bytes;
			need->live[i] = need->live[--need->count];
			return;
		}
}

static CUresult walk(CUgraph graph, struct need *need);

static CUresult visit(CUgraphNode node, struct need *need) {
	CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
	CUdeviceptr address;
	CUgraph child;
	int type;
	CUresult result = INSIDE(real.cuGraphNodeGetType(node, &type));

	if (result != CUDA_SUCCESS)
		return result;
	if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && real.cuGraphMemAllocNodeGetParams != NULL) {
		if ((result = INSIDE(real.cuGraphMemAllocNodeGetParams(node, &params))) == CUDA_SUCCESS)
			allocated(need, &params);
	} else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE && real.cuGraphMemFreeNodeGetParams != NULL) {
		if ((result = INSIDE(real.cuGraphMemFreeNodeGetParams(node, &address))) == CUDA_SUCCESS)
			freed(need, address);
	} else if (type == CU_GRAPH_NODE_TYPE_GRAPH && real.cuGraphChildGraphNodeGetGraph != NULL) {
		if ((result = INSIDE(real.cuGraphChildGraphNodeGetGraph(node, &child))) == CUDA_SUCCESS)
			result = walk(child, need);
	}
	return result;
}

static CUresult walk(CUgraph graph, struct need *need) {
	size_t count = 0;
	CUresult result = INSIDE(real.cuGraphGetNodes(graph, NULL, &count));

	if (result != CUDA_SUCCESS || count == 0)
		return result;
	CUgraphNode *nodes = calloc(count, sizeof *nodes);
	if (nodes == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = INSIDE(real.cuGraphGetNodes(graph, nodes, &count));
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = visit(nodes[i], need);
	free(nodes);
	return result;
}

static CUresult enter(CUgraphExec exec, CUgraph graph) {
	struct need need = {0};
	CUresult result = walk(graph, &need);

	free(need.live);
	if (result != CUDA_SUCCESS || need.most == 0)
		return result;
	struct entry entry = {
	    .kind = EXEC, .key = (uint64_t)(uintptr_t)exec, .bytes = need.most, .count = (uint32_t)need.device};
	__atomic_store_n(&graphs_in_use, 1, __ATOMIC_RELEASE);
	return table_add(&entry) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * The driver had memory nodes from 11.4 on, with all the functions that are needed here. A graph whose needs it does
 * not tell is not handed out: its launches would not be counted.
 */
static CUresult instantiated(CUgraphExec exec, CUgraph graph) {
	if (real.cuDeviceGetGraphMemAttribute == NULL || real.cuGraphGetNodes == NULL || real.cuGraphNodeGetType == NULL)
		return CUDA_SUCCESS;
	CUresult result = enter(exec, graph);
	if (result != CUDA_SUCCESS)
		INSIDE(real.cuGraphExecDestroy(exec));
	return result;
}

/* With parameters it may upload the graph at once, which takes its memory: the graphs are settled then. */
#define INSTANTIATES(name, settle, parameters, ...) \
	EXPORT CUresult name parameters { \
		GIVES(name, (__VA_ARGS__)); \
		CUresult result = INSIDE(real.name(__VA_ARGS__)); \
		if (result == CUDA_SUCCESS) { \
			result = instantiated(*out, graph); \
			settle; \
		} \
		return result; \
	}
INSTANTIATES(cuGraphInstantiate, (void)0,
    (CUgraphExec * out, CUgraph graph, CUgraphNode *node, char *text, size_t room), out, graph, node, text, room)
INSTANTIATES(cuGraphInstantiate_v2, (void)0,
    (CUgraphExec * out, CUgraph graph, CUgraphNode *node, char *text, size_t room), out, graph, node, text, room)
INSTANTIATES(cuGraphInstantiateWithFlags, (void)0, (CUgraphExec * out, CUgraph graph, unsigned long long flags), out,
    graph, flags)
INSTANTIATES(cuGraphInstantiateWithParams, settle_graphs(ALL, 0), (CUgraphExec * out, CUgraph graph, void *params), out,
    graph, params)
INSTANTIATES(cuGraphInstantiateWithParams_ptsz, settle_graphs(ALL, 0), (CUgraphExec * out, CUgraph graph, void *params),
    out, graph, params)

/*
 * A figure of the driver's, as of now: if another thread has changed something since the driver was asked, it is asked
 * again. 0 without one. The lock is held before and afterwards, not meanwhile.
 */
enum { MOST_QUESTIONS = 64 };
static int ask(CUdevice device, int which, uint64_t *value) {
	const struct reserve *one = &reserves[device];

	for (int i = 0; i < MOST_QUESTIONS; i++) {
		uint64_t changes = one->changes;
		pthread_mutex_unlock(&lock);
		CUresult result = INSIDE(real.cuDeviceGetGraphMemAttribute(device, which, value));
		pthread_mutex_lock(&lock);
		if (result != CUDA_SUCCESS)
			break;
		if (one->changes == changes)
			return 1;
	}
	pools_changed(); /* to be asked again */
	return 0;
}

/*
 * The charge becomes what is reserved. What was taken for launches in flight covers growth first; what is left of it
 * goes back when none is in flight besides the caller's own, which the driver has done (own: 1). After a trim, launches
 * in flight keep what they were to find free: the driver reserves it again. The lock is not held while the driver is
 * asked.
 */
static void recharge(CUdevice device, int own) {
	struct reserve *one = &reserves[device];
	int card = card_of_device(device);
	uint64_t reserved = 0;
	int known = ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved);
	uint64_t kept = one->in_flight > (uint64_t)own ? one->spare : 0, have = one->charged + one->spare - kept;

	if (!known)
		reserved = have;
	else if (reserved > 0)
		learn_segment(reserved, own && one->in_flight == 1 && reserved > have);
	uint64_t moved = smaller(reserved > have ? reserved - have : 0, kept);
	have += moved;
	one->spare = kept - moved;
	one->changes++;
	if (reserved < have) {
		uint64_t back = have - reserved, kept_for = one->in_flight > (uint64_t)own ? segments(one->claimed) : 0;
		uint64_t hold = smaller(kept_for > one->spare ? kept_for - one->spare : 0, back);
		one->spare += hold;
		give(card, back - hold);
	}
	if (reserved > have && !take(card, reserved - have)) {
		NOTE_ONCE("graphs have taken more memory than the limit leaves: further requests are refused");
		if (!take_anyway(card, reserved - have))
			reserved = have;
	}
	one->charged = reserved;
}

static void trim_reserve(CUdevice device) {
	if (reserves[device].charged == 0 || real.cuDeviceGraphMemTrim == NULL)
		return;
	pthread_mutex_unlock(&lock);
	INSIDE(real.cuDeviceGraphMemTrim(device));
	pthread_mutex_lock(&lock);
	reserves[device].changes++;
}

void settle_graphs(enum settling which, int trim) {
	if (!__atomic_load_n(&graphs_in_use, __ATOMIC_ACQUIRE))
		return;
	int count = device_count();
	HOLD(lock);
	for (CUdevice device = 0; device < count; device++) {
		if (which == IDLE && reserves[device].in_flight > 0) {
			pools_changed();
			continue;
		}
		if (trim)
			trim_reserve(device);
		recharge(device, 0);
	}
}

/*
 * Takes what a launch needs beyond what the reserve has free, as far as other launches in flight leave it, or returns
 * 0. Some drivers say that all that is reserved is in use (an H200 with driver 580): then it is its whole need, or the
 * reserve is trimmed first.
 */
static int takes(CUdevice device, uint64_t need) {
	struct reserve *one = &reserves[device];
	uint64_t used = 0;

	HOLD(lock);
	uint64_t needed =
	             (ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) ? used : one->charged) + one->claimed + need,
	         have = one->charged + one->spare;
	uint64_t missing = needed > have ? needed - have : 0, extra = segments(missing < need ? missing : need);
	int fits = take(card_of_device(device), extra);
	if (fits) {
		one->in_flight++;
		one->claimed += need;
		one->spare += extra;
		one->changes++;
	}
	return fits;
}

static int prepare(CUdevice device, uint64_t need) {
	for (int trim = 0; trim <= 1; trim++) {
		settle_graphs(ALL, trim);
		if (takes(device, need))
			return 1;
		settle_pools(ALL, trim);
		if (takes(device, need))
			return 1;
	}
	return 0;
}

static void launched(CUdevice device, uint64_t need) {
	HOLD(lock);
	reserves[device].claimed -= need;
	reserves[device].changes++;
	recharge(device, 1);
	reserves[device].in_flight--;
}

static CUresult launch(CUresult (*driver)(CUgraphExec, CUstream), CUgraphExec exec, CUstream stream) {
	struct entry entry;

	if (LIKELY(!graphs_in_use) || !table_find(EXEC, (uint64_t)(uintptr_t)exec, &entry))
		return INSIDE(driver(exec, stream));
	CUdevice device = (CUdevice)entry.count;
	if (card_of_device(device) == NO_CARD || !prepare(device, entry.bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = INSIDE(driver(exec, stream));
	launched(device, entry.bytes);
	return result;
}

#define LAUNCHES(name) \
	EXPORT CUresult name(CUgraphExec exec, CUstream stream) { \
		TAKES(name, (exec, stream)); \
		return launch(real.name, exec, stream); \
	}
LAUNCHES(cuGraphUpload)
LAUNCHES(cuGraphUpload_ptsz)
LAUNCHES(cuGraphLaunch)
LAUNCHES(cuGraphLaunch_ptsz)

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
	struct entry entry;

	GIVES(cuGraphExecDestroy, (exec));
	int known = graphs_in_use && table_remove(EXEC, (uint64_t)(uintptr_t)exec, &entry);
	CUresult result = INSIDE(real.cuGraphExecDestroy(exec));
	if (known && result != CUDA_SUCCESS)
		table_add(&entry);
	pools_changed();
	return result;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
	GIVES(cuDeviceGraphMemTrim, (device));
	CUresult result = INSIDE(real.cuDeviceGraphMemTrim(device));
	settle_graphs(ALL, 0);
	return result;
}

void forget_graphs(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	graphs_in_use = 0;
	for (int i = 0; i < MAX_DEVICES; i++)
		reserves[i] = (struct reserve){0};
}
