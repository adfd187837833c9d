/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, and the function that is called at their launches. */
#include "unmarked.h"

#define IN_CONTEXT(call) \
	int result = begin(); \
	return keep(result != SUCCESS ? result : (call))

static void (*launched)(void *executable);

EXPORT void gpuconf_runtime_on_graph_launch(void (*callback)(void *executable)) { __atomic_store_n(&launched, callback, __ATOMIC_RELEASE); }

EXPORT int cudaGraphInstantiate(void **out, void *graph, unsigned long long flags) { IN_CONTEXT(cuGraphInstantiateWithFlags(out, graph, flags)); }

EXPORT int cudaGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) { return cudaGraphInstantiate(out, graph, flags); }

/* What the graph copies and fills is done by the driver. The function that is called at the launch computes what its kernels would. */
static int replay(void *executable, void *stream) {
	void (*call)(void *) = __atomic_load_n(&launched, __ATOMIC_ACQUIRE);
	int result = call == NULL ? computes("cudaGraphLaunch") : SUCCESS;
	if (result == SUCCESS)
		result = cuGraphLaunch(executable, stream);
	if (result == SUCCESS && call != NULL)
		call(executable);
	return result;
}

EXPORT int cudaGraphLaunch(void *executable, void *stream) { IN_CONTEXT(replay(executable, stream)); }

EXPORT int cudaGraphDestroy(void *graph) { IN_CONTEXT(cuGraphDestroy(graph)); }

EXPORT int cudaGraphExecDestroy(void *executable) { IN_CONTEXT(cuGraphExecDestroy(executable)); }

EXPORT int cudaGraphGetNodes(void *graph, void *nodes, size_t *count) { IN_CONTEXT(cuGraphGetNodes(graph, nodes, count)); }

EXPORT int cudaGraphNodeGetType(void *node, int *type) { IN_CONTEXT(cuGraphNodeGetType(node, type)); }

EXPORT int cudaGraphAddEmptyNode(void **node, void *graph, const void *after, size_t count) { IN_CONTEXT(cuGraphAddEmptyNode(node, graph, after, count)); }

EXPORT int cudaUserObjectCreate(void **out, void *data, void (*destroy)(void *), unsigned references, unsigned flags) {
	IN_CONTEXT(cuUserObjectCreate(out, data, destroy, references, flags));
}

EXPORT int cudaUserObjectRelease(void *object, unsigned count) { IN_CONTEXT(cuUserObjectRelease(object, count)); }

EXPORT int cudaGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) {
	IN_CONTEXT(cuGraphRetainUserObject(graph, object, count, flags));
}
