/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of the program that it registers: page-locked from then on, but still the program's. */
#include "driver.h"

#include <stdlib.h>

enum { PORTABLE = 1, MAPPED = 2, OF_A_DEVICE = 4, READ_ONLY = 8 };

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags);

static int overlaps(struct range a, const struct allocation *list) {
	for (; list != NULL; list = list->next)
		if (a.addr < list->range.addr + list->range.bytes && list->range.addr < a.addr + a.bytes)
			return 1;
	return 0;
}

static void drop(struct allocation **at) {
	struct allocation *gone = *at;
	*at = gone->next;
	free(gone);
}

void end_registered(struct context *context) {
	for (struct allocation **at = &m->registered; *at != NULL;)
		if ((*at)->context == context)
			drop(at);
		else
			at = &(*at)->next;
}

EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
	CALLED(cuMemHostRegister);
	struct range range = {(uint64_t)(uintptr_t)memory, bytes};
	IN_CONTEXT({
		struct place place;
		int others =
		    find_place(range.addr, &place) && (place.gpu >= 0 || overlaps(range, m->hosts)); /* the driver's own */
		if (result == SUCCESS && (memory == NULL || bytes == 0 || (flags & ~(PORTABLE | MAPPED | READ_ONLY)) != 0 ||
		                             range.addr + bytes < range.addr || others))
			result = INVALID_VALUE;
		if (result == SUCCESS && overlaps(range, m->registered))
			result = HOST_MEMORY_ALREADY_REGISTERED;
		if (result == SUCCESS) {
			struct allocation *new = calloc(1, sizeof *new);
			*new = (struct allocation){.range = range, .context = context, .next = m->registered, .flags = flags};
			m->registered = new;
		}
	});
}

EXPORT CUresult cuMemHostUnregister(void *memory) {
	CALLED(cuMemHostUnregister);
	IN_CONTEXT({
		if (memory == NULL)
			result = INVALID_VALUE;
		if (result == SUCCESS) {
			wait_idle(context); /* no copy uses it any more */
			struct allocation **at = &m->registered;
			while (*at != NULL && (*at)->range.addr != (uint64_t)(uintptr_t)memory)
				at = &(*at)->next;
			if (*at != NULL)
				drop(at);
			else
				result = within_host((uint64_t)(uintptr_t)memory, 1) ? INVALID_VALUE : HOST_MEMORY_NOT_REGISTERED;
		}
	});
}

/* There is one address space. */
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *memory, unsigned flags) {
	CALLED(cuMemHostGetDevicePointer);
	uint64_t addr = (uint64_t)(uintptr_t)memory;
	IN_CONTEXT({
		if (out == NULL || flags != 0 || !within_host(addr, 1))
			result = INVALID_VALUE;
		if (result == SUCCESS)
			*out = addr;
	});
}

static const struct allocation *containing(uint64_t addr, const struct allocation *list) {
	while (list != NULL && !inside(addr, 1, list->range))
		list = list->next;
	return list;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *memory) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED(cuMemHostGetFlags);
	IN_CONTEXT({
		const struct allocation *one = containing((uint64_t)(uintptr_t)memory, m->hosts);
		if (one == NULL)
			one = containing((uint64_t)(uintptr_t)memory, m->registered);
		if (one == NULL)
			result = INVALID_VALUE;
		else
			*flags = (one->flags & ~(unsigned)READ_ONLY) | MAPPED; /* there is one address space */
	});
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes) {
	CALLED(cuMemAllocHost);
	return out == NULL ? INVALID_VALUE : cuMemHostAlloc(out, bytes, 0);
}
