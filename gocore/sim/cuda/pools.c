/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. A pool is one range of places that grows by whole segments: an allocation takes the lowest
 * hole that is large enough, and what lies behind the last one and beyond the threshold goes back at a synchronization.
 * So were an H200's pools recorded, with driver 580 (tests_py/driver/calls). A free takes effect at once here: the
 * order within streams is not modeled. A real driver trims only frees that it has observed, which may need a
 * synchronization of every stream that freed (github.com/rapidsai/rmm/issues/1245).
 *
 * A pool that may be exported has its memory in a file.
 */
#include "driver.h"
#include "stream.h"

#include "../../machine/cuda/constants.h"
#include "../../lease/budget/locks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An H200's pools grew by 32 MiB. */
uint64_t segment(void) {
	if (m->to_the_byte)
		return GRANULE;
	return m->segment > 0 ? m->segment : 32 * MIB;
}

/* What another process maps is counted in pages, since its maker counts the segments. */
static uint64_t segments(const struct pool *pool, uint64_t bytes) {
	uint64_t unit = pool->imported ? GRANULE : segment();
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t end_of(const struct outside *one) { return one->at + charge(one->range.bytes); }

/* The lowest hole. */
static struct outside **hole(struct pool *pool, uint64_t bytes, uint64_t *at) {
	struct outside **next = &pool->first;
	*at = 0;
	for (; *next != NULL && (*next)->at < *at + charge(bytes); next = &(*next)->next_there)
		*at = end_of(*next);
	return next;
}

/* Up to where a pool is used: nothing below it can be returned. */
static uint64_t last_end(const struct pool *pool) {
	uint64_t end = 0;
	for (const struct outside *one = pool->first; one != NULL; one = one->next_there)
		end = end_of(one);
	return end;
}

/* A hole stays in its place. Only use falls; what is reserved is looked at when the device is synchronized. */
void leave_pool(struct outside *gone) {
	struct outside **link = &gone->pool->first;
	while (*link != NULL && *link != gone)
		link = &(*link)->next_there;
	if (*link != NULL) /* not imported */
		*link = gone->next_there;
	gone->pool->used -= gone->range.bytes;
}

/* What a pool keeps beyond its use goes back to the GPU. */
static void shrink(struct pool *pool, uint64_t keep) {
	if (keep >= pool->reserved) /* it may be the largest number */
		return;
	uint64_t end = last_end(pool), wanted = segments(pool, end > keep ? end : keep);
	if (wanted >= pool->reserved)
		return;
	if (pool->share != 0)
		shrink_export(&m->gpu[pool->gpu], pool->share, pool->reserved - wanted);
	else if (pool->gpu >= 0)
		leave_card(&m->gpu[pool->gpu], pool->reserved - wanted);
	pool->reserved = wanted;
}

/* A pool that was destroyed ends with its last allocation, and then releases what it has reserved, as CUDA documents.
 */
static void end_pool(struct pool *pool) {
	if (pool->first != NULL || pool->used > 0)
		return;
	shrink(pool, 0);
	if (pool->share != 0)
		leave_export(pool->share);
	if (pool->file > 0)
		close(pool->file);
	pool->share = 0, pool->file = 0;
}

/* After a free. */
void pool_freed(struct pool *pool) {
	if (pool->gone)
		end_pool(pool);
}

/* What CUDA calls the release threshold: bytes that a pool may keep at a synchronization of a stream, an event or the
 * context. */
void pools_synchronized(void) {
	for (int i = 0; i < m->gpus; i++)
		shrink(&m->standard[i], m->standard[i].threshold);
	for (struct pool *pool = m->pools; pool != NULL; pool = pool->next)
		if (!pool->gone)
			shrink(pool, pool->threshold);
}

/* A new driver: nothing is left of pools. */
void end_pools(void) {
	while (m->outside != NULL)
		drop_outside(&m->outside);
	for (struct pool *one = m->pools; one != NULL; one = one->next) {
		one->gone = 1;
		end_pool(one);
	}
	memset(m->standard, 0, sizeof m->standard);
	m->standard_host = m->standard_managed = (struct pool){.gpu = -1};
	memset(m->current, 0, sizeof m->current);
	m->current_host = m->current_managed = NULL;
}

/* CUDA 2's addresses have 32 bits: the memory lies below 4 GiB where the host can do that. */
static CUresult low(CUcontext context, unsigned *out, unsigned bytes) {
	struct gpu *gpu = &m->gpu[context->gpu];
	if (bytes == 0)
		return INVALID_VALUE;
	if (!use_card(gpu, pages(bytes)))
		return OUT_OF_MEMORY;
	struct outside *new = add_outside(bytes, context->gpu, LOW_MEMORY, MAP_32BIT_ON_X86);
	if (new == NULL) {
		leave_card(gpu, pages(bytes));
		return OUT_OF_MEMORY;
	}
	new->context = context;
	*out = (unsigned)new->range.addr;
	return SUCCESS;
}

EXPORT CUresult cuMemAlloc(unsigned *out, unsigned bytes) {
	CALLED(cuMemAlloc_v1);
	IN_CONTEXT;
	return out == NULL ? INVALID_VALUE : low(context, out, bytes);
}

EXPORT CUresult cuMemAllocPitch(unsigned *out, unsigned *pitch, unsigned width, unsigned height, unsigned element) {
	CALLED(cuMemAllocPitch_v1);
	(void)element;
	IN_CONTEXT;
	NEED(out && pitch);
	*pitch = (width + 511) / 512 * 512;
	return low(context, out, *pitch * height);
}

EXPORT CUresult cuMemFree(unsigned addr) {
	CALLED(cuMemFree_v1);
	IN_CONTEXT;
	return free_outside(addr);
}

/* A default pool is always valid; one that was made is until it is destroyed. */
static struct pool *find_pool(struct pool *handle) {
	for (int i = 0; i < m->gpus; i++)
		if (handle == &m->standard[i])
			return handle;
	if (handle == &m->standard_host || handle == &m->standard_managed)
		return handle;
	for (struct pool *one = m->pools; one != NULL; one = one->next)
		if (one == handle && !one->gone)
			return one;
	return NULL;
}

/* The default pools are a part of the machine, and are set to zero when it starts. */
static struct pool *standard_pool(int gpu) {
	m->standard[gpu].gpu = gpu;
	return &m->standard[gpu];
}

/* All that CUDA refuses, and then what is not done here, before anything is made. */
EXPORT CUresult cuMemPoolCreate(struct pool **out, const struct pool_props *props) {
	CALLED_SINCE(11020, cuMemPoolCreate);
	NEED(out && props);
	int managed = props->type == CU_MEM_ALLOCATION_TYPE_MANAGED,
	    on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE,
	    by_descriptor = props->handle_types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (props->location.type < (managed ? CU_MEM_LOCATION_TYPE_NONE : CU_MEM_LOCATION_TYPE_DEVICE) ||
	    props->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
	    (props->type != CU_MEM_ALLOCATION_TYPE_PINNED && (!managed || driver_version() < 13000)) ||
	    (on_device && unknown_device(props->location.id)) ||
	    (props->handle_types & ~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC)) != 0)
		return INVALID_VALUE;
	if (props->handle_types > CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return not_done("cuMemPoolCreate for other handles than descriptors");
	if (by_descriptor && (managed || !on_device))
		return not_done("cuMemPoolCreate with descriptors, for the host or managed memory");
	int file = by_descriptor ? memfd_create(POOL_FILE, MFD_CLOEXEC) : 0;
	if (file < 0)
		return OPERATING_SYSTEM;
	LOCKED;
	*out = ADD(m->pools, .gpu = on_device ? props->location.id : -1, .managed = managed, .file = file,
	    .most = driver_version() >= 12020 ? props->most : 0); /* reserved before */
	return SUCCESS;
}

/* Its allocations live on. */
EXPORT CUresult cuMemPoolDestroy(struct pool *handle) {
	CALLED_SINCE(11020, cuMemPoolDestroy);
	LOCKED;
	struct pool *pool = find_pool(handle);
	if (pool == NULL || pool == &m->standard[pool->gpu < 0 ? 0 : pool->gpu])
		return INVALID_VALUE;
	pool->gone = 1;
	end_pool(pool);
	for (int i = 0; i < m->gpus; i++)
		if (m->current[i] == pool)
			m->current[i] = NULL;
	m->current_host = m->current_host == pool ? NULL : m->current_host;
	m->current_managed = m->current_managed == pool ? NULL : m->current_managed;
	return SUCCESS;
}

/* An imported pool reserves nothing here. */
EXPORT CUresult cuMemPoolTrimTo(struct pool *handle, size_t keep) {
	CALLED_SINCE(11020, cuMemPoolTrimTo);
	LOCKED;
	struct pool *pool = find_pool(handle);
	if (pool == NULL || pool->imported)
		return INVALID_VALUE;
	shrink(pool, keep);
	return SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(struct pool **out, CUdevice device) {
	CALLED_SINCE(11020, cuDeviceGetDefaultMemPool);
	NEEDS(out, device);
	*out = standard_pool(device);
	return SUCCESS;
}

/* Managed memory has one pool, whatever the location. */
EXPORT CUresult cuMemGetDefaultMemPool(struct pool **out, const struct location *where, int type) {
	CALLED_SINCE(13000, cuMemGetDefaultMemPool);
	NEED(out && where);
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE && unknown_device(where->id))
		return INVALID_DEVICE;
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		*out = &m->standard_managed;
	else
		*out = where->type == CU_MEM_LOCATION_TYPE_DEVICE ? standard_pool(where->id) : &m->standard_host;
	return SUCCESS;
}

EXPORT CUresult cuDeviceGetMemPool(struct pool **out, CUdevice device) {
	CALLED_SINCE(11020, cuDeviceGetMemPool);
	NEEDS(out, device);
	LOCKED;
	*out = m->current[device] != NULL ? m->current[device] : standard_pool(device);
	return SUCCESS;
}

/* The pool that cuMemAllocAsync takes from, until it is destroyed: then it is the default one again. */
EXPORT CUresult cuDeviceSetMemPool(CUdevice device, struct pool *handle) {
	CALLED_SINCE(11020, cuDeviceSetMemPool);
	LOCKED;
	struct pool *pool = find_pool(handle);
	KNOWN(device);
	if (pool == NULL || pool->gpu != device || pool->imported)
		return INVALID_VALUE;
	m->current[device] = pool;
	return SUCCESS;
}

EXPORT CUresult cuMemGetMemPool(struct pool **out, const struct location *where, int type) {
	CALLED_SINCE(13000, cuMemGetMemPool);
	NEED(out && where);
	if (type == CU_MEM_ALLOCATION_TYPE_PINNED && where->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return cuDeviceGetMemPool(out, where->id);
	CUresult result = cuMemGetDefaultMemPool(out, where, type); /* before the lock, which its CALLED takes */
	LOCKED;
	struct pool *current = type == CU_MEM_ALLOCATION_TYPE_MANAGED ? m->current_managed : m->current_host;
	if (result == SUCCESS && current != NULL)
		*out = current;
	return result;
}

EXPORT CUresult cuMemSetMemPool(const struct location *where, int type, struct pool *handle) {
	CALLED_SINCE(13000, cuMemSetMemPool);
	NEED(where);
	if (type == CU_MEM_ALLOCATION_TYPE_PINNED && where->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return cuDeviceSetMemPool(where->id, handle);
	LOCKED;
	struct pool *pool = find_pool(handle);
	int managed = pool != NULL && (pool->managed || pool == &m->standard_managed);
	if (pool == NULL || managed != (type == CU_MEM_ALLOCATION_TYPE_MANAGED) || (!managed && pool->gpu >= 0))
		return INVALID_VALUE;
	*(managed ? &m->current_managed : &m->current_host) = pool;
	return SUCCESS;
}

/* Places in the file are never used again; holes cost nothing. */
static struct outside *add_to_file(struct pool *pool, uint64_t bytes) {
	uint64_t offset = pool->file_end, end = (offset + bytes + GRANULE - 1) / GRANULE * GRANULE;
	if (ftruncate64(pool->file, (off64_t)end) != 0)
		return NULL;
	struct outside *new = add_mapped(pool->file, offset, bytes, pool->gpu, POOL_MEMORY);
	if (new != NULL)
		pool->file_end = end;
	return new;
}

/* The lowest hole. The card is charged for whole segments, and only if the pool grows: an allocation in what is
 * reserved cannot fail for lack of memory. */
static CUresult allocate(CUdeviceptr *out, size_t bytes, struct pool *pool) {
	if (pool == NULL || pool->imported)
		return INVALID_VALUE;
	if (bytes == 0) {
		*out = 0;
		return SUCCESS;
	}
	if (bytes > (UINT64_C(1) << 46))
		return OUT_OF_MEMORY;
	uint64_t at;
	struct outside **next = hole(pool, bytes, &at);
	uint64_t wanted = segments(pool, at + charge(bytes));
	uint64_t growth = wanted > pool->reserved ? wanted - pool->reserved : 0;
	if (pool->most > 0 && wanted > segments(pool, pool->most))
		return OUT_OF_MEMORY;
	struct gpu *gpu = pool->gpu < 0 ? NULL : &m->gpu[pool->gpu];
	if (gpu != NULL && !use_card(gpu, growth))
		return OUT_OF_MEMORY;
	struct outside *new = pool->file > 0 ? add_to_file(pool, bytes) : add_outside(bytes, pool->gpu, POOL_MEMORY, 0);
	if (new == NULL) {
		if (gpu != NULL)
			leave_card(gpu, growth);
		return OUT_OF_MEMORY;
	}
	new->pool = pool;
	new->at = at;
	new->next_there = *next;
	*next = new;
	if (pool->share != 0)
		grow_export(gpu, pool->share, growth);
	pool->reserved += growth;
	pool->used += bytes;
	pool->most_reserved = pool->reserved > pool->most_reserved ? pool->reserved : pool->most_reserved;
	pool->most_used = pool->used > pool->most_used ? pool->used : pool->most_used;
	*out = new->range.addr;
	return SUCCESS;
}

/* In a capture it is a node of the graph, and has its address at once. Otherwise no capture may forbid it. */
static CUresult allocate_async(CUdeviceptr *out, size_t bytes, int of_pool, struct pool *pool, CUstream handle) {
	IN_STREAM(handle);
	NEED(out);
	TRY(admits(stream));
	if (stream->capture == NULL)
		TRY(uncaptured());
	int gpu = stream->context->gpu;
	struct pool *current = m->current[gpu] != NULL ? m->current[gpu] : standard_pool(gpu);
	pool = of_pool ? find_pool(pool) : current;
	NEED(pool);
	if (stream->capture != NULL && pool->file > 0)
		return NOT_SUPPORTED; /* a graph's memory is not exported */
	CUresult result = captured_allocation(out, bytes, handle);
	return result == NOT_READY ? allocate(out, bytes, pool) : result;
}

/* Linear memory can be freed in a stream, too, and waits for the context's work as cuMemFree does: without the lock,
 * which that takes. */
static CUresult free_async(CUdeviceptr addr, CUstream stream) {
	struct context *context;
	struct stream *its;
	struct place place;
	LOCK;
	int managed = find_place(addr, &place) && place.managed, captured = 0;
	CUresult result = stream_and_context(stream, &its, &context);
	if (result == SUCCESS)
		result = admits(its);
	if (result == SUCCESS && !(captured = its->capture != NULL))
		result = uncaptured();
	if (result == SUCCESS && (result = captured_free(addr, stream)) == NOT_READY)
		result = addr == 0 ? SUCCESS : free_outside(addr);
	UNLOCK;
	if (result != INVALID_VALUE || captured)
		return result;
	return managed ? NOT_SUPPORTED : free_linear(addr);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
	CALLED_IN_SINCE(11020, stream, cuMemAllocAsync);
	return allocate_async(out, bytes, 0, NULL, stream);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, struct pool *pool, CUstream stream) {
	CALLED_IN_SINCE(11020, stream, cuMemAllocFromPoolAsync);
	return allocate_async(out, bytes, 1, pool, stream);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr addr, CUstream stream) {
	CALLED_IN_SINCE(11020, stream, cuMemFreeAsync);
	return free_async(addr, stream);
}

/* What programs ask and set of a memory pool: attributes, and which GPUs may access it. */

struct access {
	struct location location;
	int flags;
};

/* An attribute's value: a size, or a number in an int, which little-endian hosts read from the same bytes. */
static uint64_t value_of(const struct pool *pool, int attribute) {
	const int place = pool->managed ? CU_MEM_LOCATION_TYPE_NONE : CU_MEM_LOCATION_TYPE_HOST;
	const uint64_t values[] = {
	    [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD] = pool->threshold,
	    [CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT] = pool->reserved,
	    [CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH] = pool->most_reserved,
	    [CU_MEMPOOL_ATTR_USED_MEM_CURRENT] = pool->used,
	    [CU_MEMPOOL_ATTR_USED_MEM_HIGH] = pool->most_used,
	    [CU_MEMPOOL_ATTR_MAX_POOL_SIZE] = pool->most,
	    [CU_MEMPOOL_ATTR_ALLOCATION_TYPE] =
	        pool->managed ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED,
	    [CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES] = pool->file > 0,
	    [CU_MEMPOOL_ATTR_LOCATION_ID] = pool->gpu >= 0 ? (uint64_t)pool->gpu : 0,
	    [CU_MEMPOOL_ATTR_LOCATION_TYPE] = (uint64_t)(pool->gpu >= 0 ? CU_MEM_LOCATION_TYPE_DEVICE : place),
	};
	int is_reuse = attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
	return is_reuse ? (pool->no_reuse >> attribute & 1) == 0 : values[attribute];
}

/* Attributes of 64 bits; the others are an int. */
static int is_size(int attribute) {
	return (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH) ||
	       attribute == CU_MEMPOOL_ATTR_MAX_POOL_SIZE;
}

/* Those behind USED_MEM_HIGH, of where and what a pool is, came with CUDA 13.1. */
EXPORT CUresult cuMemPoolGetAttribute(struct pool *handle, int attribute, void *value) {
	CALLED_SINCE(11020, cuMemPoolGetAttribute);
	if (value == NULL || attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
	    attribute > (driver_version() >= 13010 ? CU_MEMPOOL_ATTR_MAX_POOL_SIZE : CU_MEMPOOL_ATTR_USED_MEM_HIGH))
		return INVALID_VALUE;
	LOCKED;
	const struct pool *pool = find_pool(handle);
	NEED(pool);
	uint64_t answer = value_of(pool, attribute);
	memcpy(value, &answer, is_size(attribute) ? sizeof answer : sizeof(int));
	return pool->imported ? INVALID_VALUE : SUCCESS;
}

/* A peak can only be set to 0, which begins it anew. */
static CUresult set(struct pool *pool, int attribute, const void *value) {
	uint64_t size = is_size(attribute) ? *(const uint64_t *)value : 0;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->no_reuse = (pool->no_reuse & ~(1U << attribute)) | (*(const int *)value == 0) << attribute;
		return SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = size;
		return SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		pool->most_reserved = size == 0 ? pool->reserved : pool->most_reserved;
		return size == 0 ? SUCCESS : INVALID_VALUE;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		pool->most_used = size == 0 ? pool->used : pool->most_used;
		return size == 0 ? SUCCESS : INVALID_VALUE;
	}
	return INVALID_VALUE;
}

EXPORT CUresult cuMemPoolSetAttribute(struct pool *handle, int attribute, const void *value) {
	CALLED_SINCE(11020, cuMemPoolSetAttribute);
	LOCKED;
	struct pool *pool = find_pool(handle);
	return pool == NULL || pool->imported || value == NULL ? INVALID_VALUE : set(pool, attribute, value);
}

/* A card's own access cannot be taken away, and other cards need to be its peers. */
static CUresult check(const struct pool *pool, const struct access *wanted) {
	int id = wanted->location.id;
	if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE || wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		return NOT_SUPPORTED;
	if ((wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
	    pool->gpu < 0)
		return INVALID_VALUE;
	if (unknown_device(id) || (id != pool->gpu && !can_access(id, pool->gpu)))
		return INVALID_DEVICE;
	return id == pool->gpu && wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? INVALID_DEVICE : SUCCESS;
}

/* All of the list, or nothing. */
EXPORT CUresult cuMemPoolSetAccess(struct pool *handle, const struct access *list, size_t count) {
	CALLED_SINCE(11020, cuMemPoolSetAccess);
	if (list == NULL || count == 0)
		return INVALID_VALUE;
	LOCKED;
	struct pool *pool = find_pool(handle);
	CUresult result = pool != NULL ? SUCCESS : INVALID_VALUE;
	for (size_t i = 0; i < count && result == SUCCESS; i++)
		result = check(pool, &list[i]);
	for (size_t i = 0; i < count && result == SUCCESS; i++) {
		uint64_t bit = UINT64_C(1) << list[i].location.id;
		pool->granted = list[i].flags != 0 ? pool->granted | bit : pool->granted & ~bit;
	}
	return result;
}

EXPORT CUresult cuMemPoolGetAccess(int *flags, struct pool *handle, const struct location *location) {
	CALLED_SINCE(11020, cuMemPoolGetAccess);
	NEED(flags && location);
	LOCKED;
	const struct pool *pool = find_pool(handle);
	if (pool == NULL || pool->gpu < 0 || location->type != CU_MEM_LOCATION_TYPE_DEVICE || unknown_device(location->id))
		return INVALID_VALUE;
	*flags = location->id == pool->gpu || (pool->granted >> location->id & 1) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	                                                                          : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return SUCCESS;
}

/*
 * Pools of other processes. A pool that was made for descriptors has its memory in a file, and a descriptor is that
 * file, open once more. An imported pool allocates nothing: it only gives the addresses of what its maker has allocated
 * and described.
 *
 * From its first export on, all that a pool reserves is a share of the card, which ends with the last process that has
 * the pool.
 */

/* As CUmemPoolPtrExportData. */
struct description {
	uint64_t device, inode, offset, bytes, rest[4];
};

/* The position of a descriptor names the card. */
static int export_pool(struct pool *pool) {
	int descriptor = open_again(pool->file);
	if (descriptor >= 0 && lseek(descriptor, m->gpu[pool->gpu].physical + 1, SEEK_SET) < 0) {
		close(descriptor);
		return -1;
	}
	uint64_t number = pool->share == 0 && descriptor >= 0 ? number_of_export(pool->file, 0) : 0;
	if (number != 0 && share_export(&m->gpu[pool->gpu], number, pool->reserved))
		pool->share = number;
	return descriptor;
}

EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, struct pool *handle, int type, unsigned long long flags) {
	CALLED_SINCE(11020, cuMemPoolExportToShareableHandle);
	if (out == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return INVALID_VALUE;
	LOCKED;
	struct pool *pool = find_pool(handle);
	if (pool == NULL || pool->file <= 0 || pool->imported)
		return INVALID_VALUE;
	int descriptor = export_pool(pool);
	if (descriptor < 0)
		return OPERATING_SYSTEM;
	*(int *)out = descriptor;
	return SUCCESS;
}

/* The card of a descriptor that a pool was exported as, or -1. */
static int card_of(int descriptor) {
	if (!is_memory_file(descriptor, POOL_FILE))
		return -1;
	off_t position = lseek(descriptor, 0, SEEK_CUR);
	for (int i = 0; i < m->gpus; i++)
		if (position == m->gpu[i].physical + 1)
			return i;
	return -1;
}

/* A descriptor is passed by value, in place of the pointer. */
EXPORT CUresult cuMemPoolImportFromShareableHandle(
    struct pool **out, void *handle, int type, unsigned long long flags) {
	CALLED_SINCE(11020, cuMemPoolImportFromShareableHandle);
	if (out == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0)
		return INVALID_VALUE;
	LOCKED;
	int gpu = card_of((int)(intptr_t)handle), file = gpu >= 0 ? open_again((int)(intptr_t)handle) : -1;
	if (file < 0)
		return UNKNOWN;
	uint64_t number = number_of_export(file, 0);
	*out = ADD(m->pools, .gpu = gpu, .imported = 1, .file = file, .share = join_export(number) ? number : 0);
	return SUCCESS;
}

/* Which file it is, so that an importer refuses the description of another pool's memory. */
static int describe(int file, struct description *out) {
	struct stat facts;
	int known = fstat(file, &facts) == 0;
	*out = (struct description){.device = known ? facts.st_dev : 0,
	    .inode = known ? facts.st_ino : 0,
	    .bytes = known ? (uint64_t)facts.st_size : 0};
	return known;
}

/* What another process needs to map it beside the pool: where in the file it is. */
EXPORT CUresult cuMemPoolExportPointer(struct description *out, CUdeviceptr addr) {
	CALLED_SINCE(11020, cuMemPoolExportPointer);
	LOCKED;
	struct outside **link = &m->outside;
	FIND(link, (*link)->range.addr == addr);
	const struct outside *memory = *link;
	if (out == NULL || memory == NULL || memory->kind != POOL_MEMORY || memory->pool->file <= 0 ||
	    memory->pool->imported || !describe(memory->pool->file, out))
		return INVALID_VALUE;
	out->offset = memory->offset;
	out->bytes = memory->range.bytes;
	return SUCCESS;
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *out, struct pool *handle, const struct description *described) {
	CALLED_SINCE(11020, cuMemPoolImportPointer);
	NEED(out && described);
	struct description file;
	LOCKED;
	struct pool *pool = find_pool(handle);
	if (pool == NULL || !pool->imported || !describe(pool->file, &file) || described->device != file.device ||
	    described->inode != file.inode || described->bytes == 0 || described->offset > file.bytes ||
	    described->bytes > file.bytes - described->offset)
		return INVALID_VALUE;
	struct outside *new = add_mapped(pool->file, described->offset, described->bytes, pool->gpu, POOL_MEMORY);
	if (new == NULL)
		return OUT_OF_MEMORY;
	new->pool = pool;
	pool->used += described->bytes;
	*out = new->range.addr;
	return SUCCESS;
}
