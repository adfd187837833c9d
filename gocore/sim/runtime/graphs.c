/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, and the function that is called at their launches. */
#include "unmarked.h"

static void (*launched)(void *executable);

EXPORT void gpuconf_runtime_on_graph_launch(void (*callback)(void *executable)) {
	__atomic_store_n(&launched, callback, __ATOMIC_RELEASE);
}

/* What the graph copies and fills is done by the driver. The function that is called at the launch computes what its
 * kernels would. */
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
