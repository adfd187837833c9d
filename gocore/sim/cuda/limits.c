/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits and other settings of contexts. They are kept and returned, and take no memory here. How a card rounds and
 * bounds them was recorded on an H200 with driver 580 (tests_py/driver/calls).
 */
#include "driver.h"

#include "../../machine/models/models.h"

enum {
	STACK,
	PRINTF,
	HEAP,
	SYNC_DEPTH,
	PENDING_LAUNCHES,
	FETCH_BYTES,
	PERSISTING_L2,
	SHARED_MEMORY,
	GRAPHICS,
	GRAPHICS_FALLBACK
};
enum { UNSUPPORTED_AFFINITY = 224 };
#define MAP_HOST 8U

static uint64_t slice_of_l2(const struct context *context) { return (uint64_t)m->gpu[context->gpu].l2_bytes / 16; }

void set_default_limits(struct context *context) {
	const struct gpu *gpu = &m->gpu[context->gpu];
	context->limits[STACK] = 1024;
	context->limits[PRINTF] = (size_t)gpu->multiprocessors * 65536;
	context->limits[HEAP] = 8 * MIB;
	context->limits[SYNC_DEPTH] = 2;
	context->limits[PENDING_LAUNCHES] = 2048;
	context->limits[FETCH_BYTES] = gpu->major >= 9 ? 64 : 128;
	context->limits[PERSISTING_L2] = gpu->major >= 8 ? 3 * slice_of_l2(context) : 0;
	context->limits[SHARED_MEMORY] = (size_t)gpu->limits->shared_bytes_of_block;
}

static size_t between(size_t value, size_t least, size_t most) {
	return value < least ? least : value > most ? most : value;
}

static CUresult known(const struct context *context, int limit) {
	if (limit < 0 || limit > GRAPHICS_FALLBACK)
		return INVALID_VALUE;
	int old = driver_version() < 12000;
	if (limit == GRAPHICS_FALLBACK || (limit == SYNC_DEPTH && !old && m->gpu[context->gpu].major >= 9) ||
	    (limit >= SHARED_MEMORY && old))
		return UNSUPPORTED_LIMIT;
	return SUCCESS;
}

static CUresult set(struct context *context, int limit, size_t value) {
	uint64_t slice = slice_of_l2(context);
	switch (limit) {
	case STACK:
		if (value > 512 << 10)
			return INVALID_VALUE;
		value = (value + 15) / 16 * 16;
		break;
	case PRINTF:
		value = between(value, 512 << 10, (size_t)1 << 31);
		break;
	case HEAP:
		value = between(value, 4 * MIB, m->gpu[context->gpu].total);
		break;
	case PENDING_LAUNCHES:
		value = between(value, 32, 599186);
		break;
	case FETCH_BYTES:
		if (value > 128)
			return INVALID_VALUE;
		break;
	case PERSISTING_L2:
		if (value > 10 * slice || (slice == 0 && value > 0))
			return INVALID_VALUE;
		value = slice == 0 ? 0 : (value + slice - 1) / slice * slice;
		break;
	case SHARED_MEMORY:
	case GRAPHICS:
		return NOT_PERMITTED;
	}
	context->limits[limit] = value;
	return SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
	CALLED(cuCtxSetLimit);
	IN_CONTEXT({
		result = known(context, limit);
		if (result == SUCCESS)
			result = set(context, limit, value);
	});
}

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit) {
	CALLED(cuCtxGetLimit);
	IN_CONTEXT({
		result = value == NULL ? INVALID_VALUE : known(context, limit);
		if (result == SUCCESS)
			*value = context->limits[limit];
	});
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED(cuCtxGetFlags);
	IN_CONTEXT(*flags = context->flags);
}

/* What is not about waiting, local memory or synchronous copies is accepted, and not kept. */
EXPORT CUresult cuCtxSetFlags(unsigned flags) {
	CALLED_SINCE(12010, cuCtxSetFlags);
	if (flags > 0xff || ((flags & 7) > 2 && (flags & 7) != 4))
		return INVALID_VALUE;
	IN_CONTEXT(context->flags = (flags & 0x9f) | MAP_HOST);
}

EXPORT CUresult cuCtxGetCacheConfig(int *config) {
	CALLED(cuCtxGetCacheConfig);
	if (config == NULL)
		return INVALID_VALUE;
	IN_CONTEXT(*config = context->cache_config);
}

EXPORT CUresult cuCtxSetCacheConfig(int config) {
	CALLED(cuCtxSetCacheConfig);
	IN_CONTEXT(if (config < 0 || config > 3) result = INVALID_VALUE; else context->cache_config = config);
}

/* Newer GPUs have banks of four bytes only. */
EXPORT CUresult cuCtxGetSharedMemConfig(int *config) {
	CALLED(cuCtxGetSharedMemConfig);
	if (config == NULL)
		return INVALID_VALUE;
	IN_CONTEXT(*config = 1);
}

EXPORT CUresult cuCtxSetSharedMemConfig(int config) {
	CALLED(cuCtxSetSharedMemConfig);
	IN_CONTEXT(if (config < 0 || config > 2) result = INVALID_VALUE);
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void) {
	CALLED_SINCE(11000, cuCtxResetPersistingL2Cache);
	IN_CONTEXT();
}

/* Only the multi-process service gives contexts a part of the multiprocessors. */
EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, int type, CUdevice device) {
	CALLED_SINCE(11040, cuDeviceGetExecAffinitySupport);
	(void)type;
	NEEDS(supported, device);
	*supported = 0;
	return SUCCESS;
}

EXPORT CUresult cuCtxGetExecAffinity(int *affinity, int type) {
	CALLED_SINCE(11040, cuCtxGetExecAffinity);
	if (affinity == NULL)
		return INVALID_VALUE;
	IN_CONTEXT(if (type != 0) result = (CUresult)UNSUPPORTED_AFFINITY;
	    else affinity[0] = 0, affinity[1] = m->gpu[context->gpu].multiprocessors);
}

/* What other devices write is there at once. */
EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
	CALLED_SINCE(11030, cuFlushGPUDirectRDMAWrites);
	IN_CONTEXT(if (target != 0 || (scope != 100 && scope != 200)) result = INVALID_VALUE);
}

/* There is no profiler to start. */
EXPORT CUresult cuProfilerStart(void) {
	CALLED(cuProfilerStart);
	IN_CONTEXT();
}

EXPORT CUresult cuProfilerStop(void) {
	CALLED(cuProfilerStop);
	IN_CONTEXT();
}
