/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory. Pages that move between the GPU and the host are only counted, not moved. */
#include "driver.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ATTACH_GLOBAL 1
#define ATTACH_HOST 2 /* a GPU without concurrent access needs cuStreamAttachMemAsync, which is not implemented */

uint64_t free_bytes(const struct gpu *gpu) {
	uint64_t room = gpu->total - gpu->used, resident = m->concurrent ? gpu->managed : 0;
	return resident < room ? room - resident : 0;
}

void drop_managed(struct allocation **at) {
	struct allocation *gone = *at;
	struct gpu *gpu = &m->gpu[gone->context->gpu];
	/* It stays mapped: a stale pointer reads garbage but never faults. */
	madvise((void *)(uintptr_t)gone->range.addr, gone->range.bytes, MADV_DONTNEED);
	gpu->managed -= charge(gone->range.bytes);
	if (!m->concurrent)
		gpu->used -= charge(gone->range.bytes);
	*at = gone->next;
	free(gone);
}

static CUresult allocate(struct context *context, CUdeviceptr *out, size_t bytes) {
	struct gpu *gpu = &m->gpu[context->gpu];
	if (!m->concurrent && (bytes > gpu->total || charge(bytes) > gpu->total - gpu->used))
		return OUT_OF_MEMORY;
	if (bytes > (UINT64_C(1) << 46))
		return OUT_OF_MEMORY;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return OUT_OF_MEMORY;
	struct allocation *new = calloc(1, sizeof *new);
	*new = (struct allocation){{(uint64_t)(uintptr_t)at, bytes}, context, m->managed_memory};
	m->managed_memory = new;
	gpu->managed += charge(bytes);
	if (!m->concurrent)
		gpu->used += charge(bytes);
	*out = new->range.addr;
	watch_host_memory();
	return SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
	CALLED(cuMemAllocManaged);
	struct context *context;
	LOCK;
	CUresult result = current_context(&context);
	if (result == SUCCESS && !m->managed)
		result = NOT_SUPPORTED;
	/* ATTACH_SINGLE and combinations are for cuStreamAttachMemAsync. */
	if (result == SUCCESS && (bytes == 0 || (flags != ATTACH_GLOBAL && (flags != ATTACH_HOST || !m->concurrent))))
		result = INVALID_VALUE;
	if (result == SUCCESS)
		result = allocate(context, out, bytes);
	UNLOCK;
	return result;
}
