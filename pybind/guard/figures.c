/*
 * What gpuconf's own library finds here (dlsym on the driver's handle): the figures of a card, and driver functions for its pools, whose
 * memory is counted once and marked as the pools'.
 */
#include "guard.h"

#include <string.h>

/* struct gpuconf_guard_figures of python/gpuconf/_core and pybind/cabi: all in bytes. */
struct gpuconf_guard_figures {
	uint64_t limit, left, used, peak, mine, mine_in_pools;
};

EXPORT int gpuconf_guard_figures(const uint8_t uuid[16], struct gpuconf_guard_figures *out)
{
	struct card_use use;

	if (!ready())
		return 0;
	for (int level = 0; level < budget_levels(); level++)
		if (place_in_budget(level, uuid) < 0)
			return 0;
	settle_if_changed();
	card_use(card_of_uuid(uuid), &use);
	*out = (struct gpuconf_guard_figures){use.limit, use.left, use.used, use.peak, use.mine, use.mine_in_pools};
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
