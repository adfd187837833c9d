/* SPDX-License-Identifier: Apache-2.0 */
/* What programs ask and set of a memory pool: attributes, and which GPUs may access it. */
#include "outside.h"

enum attribute {
	FOLLOW_EVENTS = 1,
	OPPORTUNISTIC,
	INTERNAL_DEPENDENCIES,
	THRESHOLD,
	RESERVED,
	MOST_RESERVED,
	USED,
	MOST_USED,
	ALLOCATION_TYPE,
	HANDLE_TYPES,
	LOCATION_ID,
	LOCATION_TYPE,
	LARGEST
};
enum { ON_DEVICE = 1, ON_HOST = 2, PINNED = 1, MANAGED = 2 };

struct location {
	int type, id;
};

struct access {
	struct location location;
	int flags;
};

static int number_of(const struct pool *pool, int attribute) {
	switch (attribute) {
	case ALLOCATION_TYPE:
		return pool->managed ? MANAGED : PINNED;
	case HANDLE_TYPES:
		return pool->file > 0;
	case LOCATION_ID:
		return pool->gpu >= 0 ? pool->gpu : 0;
	case LOCATION_TYPE:
		return pool->gpu >= 0 ? ON_DEVICE : pool->managed ? 0 : ON_HOST;
	}
	return (pool->no_reuse >> attribute & 1) == 0;
}

static uint64_t size_of(const struct pool *pool, int attribute) {
	switch (attribute) {
	case THRESHOLD:
		return pool->threshold;
	case RESERVED:
		return pool->reserved;
	case MOST_RESERVED:
		return pool->most_reserved;
	case USED:
		return pool->used;
	case MOST_USED:
		return pool->most_used;
	}
	return pool->most;
}

static int is_size(int attribute) { return (attribute >= THRESHOLD && attribute <= MOST_USED) || attribute == LARGEST; }

EXPORT CUresult cuMemPoolGetAttribute(struct pool *handle, int attribute, void *value) {
	CALLED_SINCE(11020, cuMemPoolGetAttribute);
	if (value == NULL || attribute < FOLLOW_EVENTS || attribute > (driver_version() >= 13010 ? LARGEST : MOST_USED))
		return INVALID_VALUE;
	LOCK;
	const struct pool *pool = find_pool(handle);
	if (pool != NULL && is_size(attribute))
		*(uint64_t *)value = size_of(pool, attribute);
	else if (pool != NULL)
		*(int *)value = number_of(pool, attribute);
	UNLOCK;
	return pool != NULL && !pool->imported ? SUCCESS : INVALID_VALUE;
}

/* A peak can only be set to 0, which begins it anew. */
static CUresult set(struct pool *pool, int attribute, const void *value) {
	uint64_t size = is_size(attribute) ? *(const uint64_t *)value : 0;
	switch (attribute) {
	case FOLLOW_EVENTS:
	case OPPORTUNISTIC:
	case INTERNAL_DEPENDENCIES:
		pool->no_reuse = (pool->no_reuse & ~(1U << attribute)) | (*(const int *)value == 0) << attribute;
		return SUCCESS;
	case THRESHOLD:
		pool->threshold = size;
		return SUCCESS;
	case MOST_RESERVED:
		pool->most_reserved = size == 0 ? pool->reserved : pool->most_reserved;
		return size == 0 ? SUCCESS : INVALID_VALUE;
	case MOST_USED:
		pool->most_used = size == 0 ? pool->used : pool->most_used;
		return size == 0 ? SUCCESS : INVALID_VALUE;
	}
	return INVALID_VALUE;
}

EXPORT CUresult cuMemPoolSetAttribute(struct pool *handle, int attribute, const void *value) {
	CALLED_SINCE(11020, cuMemPoolSetAttribute);
	LOCK;
	struct pool *pool = find_pool(handle);
	CUresult result = pool == NULL || pool->imported || value == NULL ? INVALID_VALUE : set(pool, attribute, value);
	UNLOCK;
	return result;
}

/* A card's own access cannot be taken away, and other cards need to be its peers. */
static CUresult check(const struct pool *pool, const struct access *wanted) {
	int id = wanted->location.id;
	if (wanted->location.type != ON_DEVICE || wanted->flags == 1)
		return NOT_SUPPORTED;
	if ((wanted->flags != 0 && wanted->flags != 3) || pool->gpu < 0)
		return INVALID_VALUE;
	if (id < 0 || id >= m->gpus || (id != pool->gpu && !can_access(id, pool->gpu)))
		return INVALID_DEVICE;
	return id == pool->gpu && wanted->flags == 0 ? INVALID_DEVICE : SUCCESS;
}

/* All of the list, or nothing. */
EXPORT CUresult cuMemPoolSetAccess(struct pool *handle, const struct access *list, size_t count) {
	CALLED_SINCE(11020, cuMemPoolSetAccess);
	if (list == NULL || count == 0)
		return INVALID_VALUE;
	LOCK;
	struct pool *pool = find_pool(handle);
	CUresult result = pool != NULL ? SUCCESS : INVALID_VALUE;
	for (size_t i = 0; i < count && result == SUCCESS; i++)
		result = check(pool, &list[i]);
	for (size_t i = 0; i < count && result == SUCCESS; i++) {
		uint64_t bit = UINT64_C(1) << list[i].location.id;
		pool->granted = list[i].flags != 0 ? pool->granted | bit : pool->granted & ~bit;
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuMemPoolGetAccess(int *flags, struct pool *handle, const struct location *location) {
	CALLED_SINCE(11020, cuMemPoolGetAccess);
	if (flags == NULL || location == NULL)
		return INVALID_VALUE;
	LOCK;
	const struct pool *pool = find_pool(handle);
	int known =
	    pool != NULL && pool->gpu >= 0 && location->type == ON_DEVICE && location->id >= 0 && location->id < m->gpus;
	if (known)
		*flags = location->id == pool->gpu || (pool->granted >> location->id & 1) ? 3 : 0;
	UNLOCK;
	return known ? SUCCESS : INVALID_VALUE;
}
