/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory. Pages that move between the GPU and the host are only counted, not moved. */
#include "driver.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ATTACH_GLOBAL 1
#define ATTACH_HOST 2 /* a GPU without concurrent access needs cuStreamAttachMemAsync, which is not implemented */

void drop_managed(struct allocation **at) {
	struct allocation *gone = *at;
	struct gpu *gpu = &m->gpu[gone->context->gpu];
	give_range(gone->range.addr);
	gpu->managed -= charge(gone->range.bytes);
	if (gpu->concurrent)
		mark_managed(gpu, -(int64_t)charge(gone->range.bytes));
	else
		leave_card(gpu, charge(gone->range.bytes));
	*at = gone->next;
	free(gone);
}

static CUresult allocate(struct context *context, CUdeviceptr *out, size_t bytes) {
	struct gpu *gpu = &m->gpu[context->gpu];
	if (!gpu->concurrent && (bytes > gpu->total || free_bytes(gpu) < charge(bytes) || !use_card(gpu, charge(bytes))))
		return OUT_OF_MEMORY;
	uint64_t at = take_range(bytes, GRANULE, PROT_READ | PROT_WRITE);
	if (at == 0) {
		if (!gpu->concurrent)
			leave_card(gpu, charge(bytes));
		return OUT_OF_MEMORY;
	}
	struct allocation *new = calloc(1, sizeof *new);
	*new = (struct allocation){.range = {at, bytes}, .context = context, .next = m->managed_memory};
	m->managed_memory = new;
	gpu->managed += charge(bytes);
	if (gpu->concurrent)
		mark_managed(gpu, (int64_t)charge(bytes));
	*out = new->range.addr;
	watch_host_memory();
	return SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || bytes == 0 || (flags != 1 && flags != 2), INVALID_VALUE);
	CALLED(cuMemAllocManaged);
	IN_CONTEXT({
		if (!m->gpu[context->gpu].managed_memory)
			result = NOT_SUPPORTED;
		/* ATTACH_SINGLE and combinations are for cuStreamAttachMemAsync. */
		if (result == SUCCESS &&
		    (bytes == 0 || (flags != ATTACH_GLOBAL && (flags != ATTACH_HOST || !m->gpu[context->gpu].concurrent))))
			result = INVALID_VALUE;
		if (result == SUCCESS)
			result = allocate(context, out, bytes);
	});
}
