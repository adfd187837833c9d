/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and events of another process of the job, with which PyTorch hands tensors over between processes. */
#include "runtime.h"

#define IN_CONTEXT(call) \
	int result = begin(); \
	return keep(result != SUCCESS ? result : (call))

EXPORT int cudaIpcGetMemHandle(struct ipc_bytes *handle, void *address) { IN_CONTEXT(cuIpcGetMemHandle(handle, address)); }

EXPORT int cudaIpcOpenMemHandle(void **out, struct ipc_bytes handle, unsigned flags) { IN_CONTEXT(cuIpcOpenMemHandle_v2(out, handle, flags)); }

EXPORT int cudaIpcCloseMemHandle(void *address) { IN_CONTEXT(cuIpcCloseMemHandle(address)); }

EXPORT int cudaIpcGetEventHandle(struct ipc_bytes *handle, void *event) { IN_CONTEXT(cuIpcGetEventHandle(handle, event)); }

EXPORT int cudaIpcOpenEventHandle(void **out, struct ipc_bytes handle) { IN_CONTEXT(cuIpcOpenEventHandle(out, handle)); }
