/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast objects: a team of GPUs, and for each of them the physical memory that is bound to a range of the object.
 * Bound memory lives until it is unbound or the object is released. Mapping an object is not done here. The rules are
 * those of https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MULTICAST.html.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>

typedef struct {
	unsigned devices;
	size_t bytes;
	unsigned long long handle_types, flags;
} multicast_prop;

struct binding {
	struct handle *handle;
	struct range range; /* in the object */
	int gpu;
	struct binding *next;
};

struct multicast {
	uint64_t bytes, team; /* a bit for each GPU */
	int devices;
	struct binding *bindings;
	struct multicast *next;
};

/* The link of an object, or the list's end, which is a NULL. */
static struct multicast **find(CUhandle number) {
	struct multicast **link = &m->multicasts;
	FIND(link, *link == (struct multicast *)(uintptr_t)number);
	return link;
}

/* Sizes are whole granules; the kinds of handles are not looked at, since none is exported here. */
static int valid(const multicast_prop *prop) {
	return prop != NULL && prop->devices > 0 && prop->devices <= MAX_GPUS && prop->bytes > 0 &&
	       prop->bytes % GRANULE == 0 && prop->flags == 0;
}

EXPORT CUresult cuMulticastGetGranularity(size_t *bytes, const multicast_prop *prop, int option) {
	CALLED_SINCE(12010, cuMulticastGetGranularity);
	if (bytes == NULL || prop == NULL || option < CU_MULTICAST_GRANULARITY_MINIMUM ||
	    option > CU_MULTICAST_GRANULARITY_RECOMMENDED)
		return INVALID_VALUE;
	*bytes = GRANULE;
	return SUCCESS;
}

EXPORT CUresult cuMulticastCreate(CUhandle *out, const multicast_prop *prop) {
	CALLED_SINCE(12010, cuMulticastCreate);
	if (out == NULL || !valid(prop))
		return INVALID_VALUE;
	LOCKED;
	*out = (CUhandle)(uintptr_t)ADD(m->multicasts, .bytes = prop->bytes, .devices = (int)prop->devices);
	return SUCCESS;
}

/* The team is complete when it has as many GPUs as the object was made for. */
EXPORT CUresult cuMulticastAddDevice(CUhandle number, CUdevice device) {
	CALLED_SINCE(12010, cuMulticastAddDevice);
	LOCKED;
	KNOWN(device);
	struct multicast *object = *find(number);
	uint64_t bit = UINT64_C(1) << device;
	if (object == NULL || (object->team & bit) || __builtin_popcountll(object->team) == object->devices)
		return INVALID_VALUE;
	object->team |= bit;
	return SUCCESS;
}

/* Whether a range of the object is free for memory of a GPU of the team, all of which have joined. */
static int fits(const struct multicast *one, int gpu, uint64_t at, uint64_t bytes) {
	if (one == NULL || __builtin_popcountll(one->team) != one->devices || gpu < 0 || (one->team >> gpu & 1) == 0)
		return 0;
	if (bytes == 0 || at % GRANULE != 0 || bytes % GRANULE != 0 || at > one->bytes || bytes > one->bytes - at)
		return 0;
	for (const struct binding *other = one->bindings; other != NULL; other = other->next)
		if (other->gpu == gpu && at < other->range.addr + other->range.bytes && other->range.addr < at + bytes)
			return 0;
	return 1;
}

enum { ANY_DEVICE = -1 };

/* Binds memory that is held: by a handle, at an offset, or where it is mapped. */
static CUresult bind(CUhandle number, CUdevice device, uint64_t at, struct handle *handle, int gpu, uint64_t bytes) {
	struct multicast *object = *find(number);
	NEED(handle);
	if ((device != ANY_DEVICE && device != gpu) || !fits(object, gpu, at, bytes)) {
		release_part(handle);
		return INVALID_VALUE;
	}
	ADD(object->bindings, .handle = handle, .range = {at, bytes}, .gpu = gpu);
	return SUCCESS;
}

static CUresult bind_memory(
    CUhandle number, CUdevice device, uint64_t at, CUhandle memory, uint64_t offset, uint64_t bytes, uint64_t flags) {
	int gpu = 0;
	LOCKED;
	struct handle *handle = flags != 0 || offset % GRANULE != 0 ? NULL : hold_part(memory, offset, bytes, &gpu);
	return bind(number, device, at, handle, gpu, bytes);
}

static CUresult bind_address(
    CUhandle number, CUdevice device, uint64_t at, CUdeviceptr addr, uint64_t bytes, uint64_t flags) {
	int gpu = 0;
	LOCKED;
	struct handle *handle = flags != 0 ? NULL : hold_mapped(addr, bytes, &gpu);
	return bind(number, device, at, handle, gpu, bytes);
}

EXPORT CUresult cuMulticastBindMem(
    CUhandle multicast, size_t at, CUhandle memory, size_t offset, size_t bytes, unsigned long long flags) {
	CALLED_SINCE(12010, cuMulticastBindMem);
	return bind_memory(multicast, ANY_DEVICE, at, memory, offset, bytes, flags);
}

EXPORT CUresult cuMulticastBindAddr(
    CUhandle multicast, size_t at, CUdeviceptr addr, size_t bytes, unsigned long long flags) {
	CALLED_SINCE(12010, cuMulticastBindAddr);
	return bind_address(multicast, ANY_DEVICE, at, addr, bytes, flags);
}

EXPORT CUresult cuMulticastBindMem_v2(CUhandle multicast, CUdevice device, size_t at, CUhandle memory, size_t offset,
    size_t bytes, unsigned long long flags) {
	CALLED_SINCE(13010, cuMulticastBindMem_v2);
	return unknown_device(device) ? INVALID_DEVICE : bind_memory(multicast, device, at, memory, offset, bytes, flags);
}

EXPORT CUresult cuMulticastBindAddr_v2(
    CUhandle multicast, CUdevice device, size_t at, CUdeviceptr addr, size_t bytes, unsigned long long flags) {
	CALLED_SINCE(13010, cuMulticastBindAddr_v2);
	return unknown_device(device) ? INVALID_DEVICE : bind_address(multicast, device, at, addr, bytes, flags);
}

/* Bindings that lie in the range as a whole. Returns how many. */
static int unbind(struct multicast *one, int gpu, uint64_t at, uint64_t bytes) {
	int count = 0;
	for (struct binding **place = &one->bindings; *place != NULL;) {
		struct binding *gone = *place;
		if (gone->gpu != gpu || gone->range.addr < at || gone->range.addr - at > bytes ||
		    gone->range.bytes > bytes - (gone->range.addr - at)) {
			place = &gone->next;
			continue;
		}
		*place = gone->next;
		release_part(gone->handle);
		free(gone);
		count++;
	}
	return count;
}

EXPORT CUresult cuMulticastUnbind(CUhandle number, CUdevice device, size_t at, size_t bytes) {
	CALLED_SINCE(12010, cuMulticastUnbind);
	LOCKED;
	KNOWN(device);
	struct multicast *object = *find(number);
	return object == NULL || !unbind(object, device, at, bytes) ? INVALID_VALUE : SUCCESS;
}

/* For cuMemRelease, which has handles of both kinds. */
int end_multicast(CUhandle number) {
	struct multicast **link = find(number), *gone = *link;
	if (gone == NULL)
		return 0;
	for (int gpu = 0; gpu < MAX_GPUS; gpu++)
		unbind(gone, gpu, 0, gone->bytes);
	*link = gone->next;
	free(gone);
	return 1;
}

void end_multicasts(void) {
	while (m->multicasts != NULL)
		end_multicast((CUhandle)(uintptr_t)m->multicasts);
}
