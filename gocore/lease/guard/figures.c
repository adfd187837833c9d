/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpuconf's own library finds here (dlsym on the driver's handle): the figures of a card, and driver functions for
 * its pools, whose memory is counted once and marked as the pools'.
 */
#include "guard.h"

#include <string.h>

/* Returns 0 for a card that the job does not have. */
EXPORT int gpuconf_guard_figures(const uint8_t uuid[16], struct card_figures *out) {
	if (!ready())
		return 0;
	for (int level = 0; level < budget_levels(); level++)
		if (place_in_level(level, uuid) < 0)
			return 0;
	settle_if_changed();
	int card = card_of_uuid(uuid);
	if (card == NO_CARD)
		return 0;
	card_figures(card, out);
	return 1;
}

static uint64_t (*idle)(int device); /* NULL without gpuconf's pools */

/* Says how the guard asks gpuconf's library what its pools in this process have in no block; NULL: it has none any
 * more. */
EXPORT void gpuconf_guard_idle(uint64_t (*function)(int device)) {
	__atomic_store_n(&idle, function, __ATOMIC_RELEASE);
}

/* The library's own question about a card is for what is outside of its pools. */
uint64_t idle_of_pools(CUdevice device) {
	uint64_t (*function)(int) = __atomic_load_n(&idle, __ATOMIC_ACQUIRE);

	return function == NULL || for_pools ? 0 : function(device);
}

/* A child has none of the parent's pools. */
void forget_idle(void) { idle = NULL; }

static CUresult get_info(size_t *available, size_t *total) {
	for_pools = 1;
	CUresult result = cuMemGetInfo_v2(available, total);
	for_pools = 0;
	return result;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes) {
	for_pools = 1;
	CUresult result = cuMemAlloc_v2(out, bytes);
	for_pools = 0;
	return result;
}

static CUresult allocate_managed(CUdeviceptr *out, size_t bytes, unsigned int flags) {
	for_pools = 1;
	CUresult result = cuMemAllocManaged(out, bytes, flags);
	for_pools = 0;
	return result;
}

static CUresult create(
    CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
	for_pools = 1;
	CUresult result = cuMemCreate(out, bytes, prop, flags);
	for_pools = 0;
	return result;
}

/* The function that a pool calls in place of the driver's function of that name, or NULL. */
EXPORT void *gpuconf_guard_for_pools(const char *name) {
	if (strcmp(name, "cuMemAlloc_v2") == 0)
		return (void *)allocate;
	if (strcmp(name, "cuMemAllocManaged") == 0)
		return (void *)allocate_managed;
	if (strcmp(name, "cuMemCreate") == 0)
		return (void *)create;
	if (strcmp(name, "cuMemGetInfo_v2") == 0)
		return (void *)get_info;
	return NULL;
}
