/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpuconf's own library finds here (dlsym on the driver's handle): the figures of a card, and driver functions for its pools, whose
 * memory is counted once and marked as the pools'.
 */
#include "guard.h"

#include <string.h>

/* Returns 0 for a card that the job does not have. */
EXPORT int gpuconf_guard_figures(const uint8_t uuid[16], struct card_figures *out)
{
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

static CUresult allocate(CUdeviceptr *out, size_t bytes)
{
	for_pools = 1;
	CUresult result = cuMemAlloc_v2(out, bytes);
	for_pools = 0;
	return result;
}

static CUresult allocate_managed(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
	for_pools = 1;
	CUresult result = cuMemAllocManaged(out, bytes, flags);
	for_pools = 0;
	return result;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
	for_pools = 1;
	CUresult result = cuMemCreate(out, bytes, prop, flags);
	for_pools = 0;
	return result;
}

/* The function that a pool calls in place of the driver's function of that name, or NULL. */
EXPORT void *gpuconf_guard_for_pools(const char *name)
{
	if (strcmp(name, "cuMemAlloc_v2") == 0)
		return (void *)allocate;
	if (strcmp(name, "cuMemAllocManaged") == 0)
		return (void *)allocate_managed;
	if (strcmp(name, "cuMemCreate") == 0)
		return (void *)create;
	return NULL;
}
