/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. A pool is charged for what it reserves, not for what is in use: freed memory stays with the pool until the
 * driver gives it back, at a synchronization or a trim. The reserve is read again there, and before a request is refused.
 */
#include "guard.h"

#include <stdlib.h>
#include <time.h>

struct pool {
	CUmemoryPool handle; /* NULL once it was destroyed; then it is charged for what is left in use */
	int card;            /* NO_CARD: not charged (the host's, or imported) */
	int own;             /* made by cuMemPoolCreate: its allocations are in the table */
	uint64_t charged, in_use;
	uint64_t in_flight;      /* calls of the driver for this pool without the lock */
	uint64_t spare, claimed; /* what was taken for them beyond charged, and what they get of what is charged */
	struct pool *next;
};

int pools_in_use;
static struct pool *pools; /* guarded by lock, as is all that is in them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUmemoryPool of_device[MAX_DEVICES]; /* each device's current pool; NULL: not asked yet */
static int changed; /* memory was freed since the last settling */

static struct pool *find(CUmemoryPool handle)
{
	struct pool *one = pools;

	while (one != NULL && one->handle != handle)
		one = one->next;
	return one;
}

static struct pool *add(CUmemoryPool handle, int card, int own)
{
	struct pool *new = malloc(sizeof *new);

	if (new != NULL) {
		*new = (struct pool){.handle = handle, .card = card, .own = own, .next = pools};
		pools = new;
		__atomic_store_n(&pools_in_use, 1, __ATOMIC_RELEASE);
	}
	return new;
}

static uint64_t attribute(const struct pool *pool, int which, uint64_t otherwise)
{
	uint64_t value = 0;

	if (pool->handle == NULL)
		return otherwise;
	if (real.cuMemPoolGetAttribute != NULL && INSIDE(real.cuMemPoolGetAttribute(pool->handle, which, &value)) == CUDA_SUCCESS)
		return value;
	NOTE_ONCE("a memory pool did not report what it reserves: its charge stays until it does");
	pools_changed();
	return otherwise;
}

/*
 * The charge becomes what is reserved. What was taken for calls in flight covers growth first; what is left of it goes back when no call is
 * in flight. 0 if that does not fit; what is taken is charged + spare in any case. undecided: one of the caller's takes is, until now.
 */
static int recharge(struct pool *pool, int undecided)
{
	uint64_t kept = pool->in_flight > 0 ? pool->spare : 0, have = pool->charged + pool->spare - kept;
	uint64_t reserved = attribute(pool, POOL_RESERVED, have), moved = reserved > have ? reserved - have : 0;

	if (moved > kept)
		moved = kept;
	have += moved;
	pool->spare = kept - moved;
	pool->charged = have;
	if (reserved < have)
		give(pool->card, have - reserved);
	if (undecided)
		taken(pool->card);
	if (reserved > have && !take(pool->card, reserved - have))
		return 0;
	pool->charged = reserved;
	return 1;
}

static void settle_pool(struct pool *pool, int trim)
{
	if (pool->card == NO_CARD || pool->handle == NULL)
		return;
	if (trim)
		INSIDE(real.cuMemPoolTrimTo(pool->handle, 0));
	if (!recharge(pool, 0) && pool->in_flight == 0) { /* a request in flight is yet to be undone, or finds the same at its end */
		uint64_t reserved = attribute(pool, POOL_RESERVED, pool->charged);
		if (reserved > pool->charged) {
			NOTE_ONCE("a memory pool has grown beyond the limit on its own: further requests are refused");
			if (take_anyway(pool->card, reserved - pool->charged))
				pool->charged = reserved;
		}
	}
}

static void settle_locked(int trim)
{
	for (struct pool *one = pools; one != NULL; one = one->next)
		settle_pool(one, trim && real.cuMemPoolTrimTo != NULL);
}

void settle_pools(enum wait wait, int trim)
{
	if (!__atomic_load_n(&pools_in_use, __ATOMIC_ACQUIRE))
		return;
	if (wait == TRY ? pthread_mutex_trylock(&lock) != 0 : pthread_mutex_lock(&lock) != 0) {
		pools_changed();
		return;
	}
	settle_locked(trim);
	pthread_mutex_unlock(&lock);
}

void settle(void)
{
	settle_pools(WAIT, 0);
	settle_graphs(WAIT, 0);
}

void settle_if_changed(void)
{
	if (UNLIKELY(__atomic_load_n(&open_exports, __ATOMIC_RELAXED)))
		end_exports();
	if (UNLIKELY(__atomic_load_n(&changed, __ATOMIC_RELAXED))) {
		__atomic_store_n(&changed, 0, __ATOMIC_RELAXED);
		settle();
	}
}

void pools_changed(void)
{
	if (UNLIKELY(pools_in_use || graphs_in_use))
		__atomic_store_n(&changed, 1, __ATOMIC_RELAXED);
}

int take_or_settle(int card, uint64_t bytes)
{
	if (LIKELY(take(card, bytes)))
		return 1;
	if (open_exports) {
		end_exports();
		if (take(card, bytes))
			return 1;
	}
	if (!pools_in_use && !graphs_in_use)
		return 0;
	for (int trim = 0; trim <= 1; trim++) {
		int kept = for_pools;
		for_pools = 0; /* what is settled is the driver's */
		settle_pools(WAIT, trim);
		settle_graphs(WAIT, trim);
		for_pools = kept;
		if (take(card, bytes))
			return 1;
	}
	return 0;
}

/* A pool that was not made here. NULL if it cannot be charged. */
static struct pool *add_of_device(CUmemoryPool handle, CUdevice device)
{
	int card = card_of_device(device);

	return card == NO_CARD ? NULL : add(handle, card, 0);
}

static struct pool *current_pool(CUdevice device)
{
	CUmemoryPool handle = of_device[device];

	if (handle == NULL) {
		if (real.cuDeviceGetMemPool == NULL || INSIDE(real.cuDeviceGetMemPool(&handle, device)) != CUDA_SUCCESS || handle == NULL)
			return NULL;
		of_device[device] = handle;
	}
	struct pool *known = find(handle);
	return known != NULL ? known : add_of_device(handle, device);
}

/* A pool that was not made here is a device's default pool. */
static struct pool *pool_of(CUmemoryPool handle)
{
	CUmemoryPool standard;
	struct pool *known = find(handle);
	CUdevice device;

	if (known != NULL)
		return known;
	for (CUdevice one = 0; real.cuDeviceGetDefaultMemPool != NULL && one < device_count(); one++)
		if (INSIDE(real.cuDeviceGetDefaultMemPool(&standard, one)) == CUDA_SUCCESS && standard == handle)
			return add_of_device(handle, one);
	NOTE_ONCE("an unknown memory pool is charged to the current device");
	return current_device(&device) == CUDA_SUCCESS ? add_of_device(handle, device) : NULL;
}

static int capturing(CUstream stream, int own_stream)
{
	CUresult (*ask)(CUstream, int *) = own_stream ? real.cuStreamIsCapturing_ptsz : real.cuStreamIsCapturing;
	int status = 0;

	return ask != NULL && INSIDE(ask(stream, &status)) == CUDA_SUCCESS && status != 0;
}

/* Room for a request that the budget has no room for: the pool's own free memory, or none is needed. */
enum room { TAKEN, CLAIMED, CAPTURED, NONE };
static enum room make_room(struct pool *pool, uint64_t bytes, CUstream stream, int own_stream)
{
	if (take_undecided(pool->card, bytes))
		return TAKEN;
	if (capturing(stream, own_stream))
		return CAPTURED; /* it becomes a node of a graph */
	for (int trim = 0; trim <= 1; trim++) {
		uint64_t used = attribute(pool, POOL_USED, pool->charged) + pool->claimed;
		recharge(pool, 0);
		if (pool->charged >= used && pool->charged - used >= bytes)
			return CLAIMED; /* if it is not in one piece, the pool grows, which is undone */
		settle_locked(trim && real.cuMemPoolTrimTo != NULL);
		settle_graphs(TRY, trim);
		if (take_undecided(pool->card, bytes))
			return TAKEN;
	}
	return NONE;
}

/*
 * Waits for a stream, at most for 0.2 s. The stream may wait for something that this thread does after the allocation, or another thread
 * that needs the lock. Then the memory stays charged until settling finds it gone.
 */
enum { WAIT_TRIES = 2000, WAIT_NS = 100000 };
static int waited_for(CUstream stream)
{
	const struct timespec moment = {0, WAIT_NS};
	CUresult result = CUDA_ERROR_NOT_READY;

	for (int i = 0; real.cuStreamQuery != NULL && i < WAIT_TRIES; i++) {
		result = INSIDE(real.cuStreamQuery(stream));
		if (result != CUDA_ERROR_NOT_READY)
			break;
		nanosleep(&moment, NULL);
	}
	return result == CUDA_SUCCESS;
}

/* A request for memory of a pool. The lock is not held while the driver allocates: that may wait for a stream, and so for other threads. */
struct request {
	struct pool *pool;
	CUdeviceptr *out;
	uint64_t bytes;
	CUstream stream;
	int own_stream;
	enum room room;
};

/* Finds room, and keeps the pool until end_request. */
static CUresult begin_locked(struct request *request)
{
	struct pool *pool = request->pool;

	if (pool == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (pool->card == NO_CARD)
		return CUDA_SUCCESS;
	request->room = make_room(pool, request->bytes, request->stream, request->own_stream);
	if (request->room == NONE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->in_flight++;
	pool->spare += request->room == TAKEN ? request->bytes : 0;
	pool->claimed += request->room == CLAIMED ? request->bytes : 0;
	return CUDA_SUCCESS;
}

static void destroyed_and_empty(struct pool *pool);

static void landed(struct pool *pool)
{
	pool->in_flight--;
	if (pool->handle == NULL)
		destroyed_and_empty(pool);
}

/* The allocation is freed, and the pool trimmed. The lock is not held, and the pool is kept. */
static void undo(const struct request *request)
{
	struct pool *pool = request->pool;
	CUstream stream = request->stream;
	uint64_t extra = request->room == TAKEN ? request->bytes : 0;

	if (request->own_stream)
		INSIDE(real.cuMemFreeAsync_ptsz(*request->out, stream));
	else
		INSIDE(real.cuMemFreeAsync(*request->out, stream));
	if (!waited_for(request->own_stream && stream == NULL ? OWN_STREAM : stream))
		pools_changed();
	else if (request->own_stream)
		INSIDE(real.cuStreamSynchronize_ptsz(stream));
	else
		INSIDE(real.cuStreamSynchronize(stream));
	pthread_mutex_lock(&lock);
	if (real.cuMemPoolTrimTo != NULL && pool->handle != NULL)
		INSIDE(real.cuMemPoolTrimTo(pool->handle, pool->charged > extra ? pool->charged - extra : 0));
	pool->in_flight--;
	settle_pool(pool, 0);
	pool->in_flight++;
	landed(pool);
	pthread_mutex_unlock(&lock);
}

static int end_locked(struct request *request, CUresult result)
{
	struct pool *pool = request->pool;
	struct entry entry = {.kind = POOLED, .bytes = request->bytes, .owner = pool, .card = (int8_t)pool->card};

	pool->claimed -= request->room == CLAIMED ? request->bytes : 0;
	if (result != CUDA_SUCCESS) {
		uint64_t back = request->room != TAKEN ? 0 : request->bytes < pool->spare ? request->bytes : pool->spare;
		pool->spare -= back;
		give(pool->card, back);
		if (request->room == TAKEN)
			taken(pool->card);
		landed(pool);
		return 1;
	}
	entry.key = *request->out;
	pool->in_flight--;
	int fits = recharge(pool, request->room == TAKEN) && (!pool->own || table_add(&entry));
	pool->in_flight++;
	if (fits) {
		pool->in_use += pool->own ? request->bytes : 0;
		landed(pool);
	}
	return fits;
}

static CUresult end_request(struct request *request, CUresult result)
{
	pthread_mutex_lock(&lock);
	int fits = end_locked(request, result);
	pthread_mutex_unlock(&lock);
	if (fits)
		return result;
	undo(request);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

#define ALLOCATE(the_pool, is_own_stream, call) \
	struct request request = {.out = out, .bytes = bytes, .stream = stream, .own_stream = is_own_stream}; \
	pthread_mutex_lock(&lock); \
	request.pool = the_pool; \
	CUresult result = begin_locked(&request); \
	pthread_mutex_unlock(&lock); \
	if (result != CUDA_SUCCESS) \
		return result; \
	result = INSIDE(call); \
	return request.pool->card == NO_CARD ? result : end_request(&request, result)

/* The pool is that of the stream's device, which may not be the current one. Handles up to 2 stand for default streams. */
static CUresult device_of_stream(CUstream stream, CUdevice *device)
{
	CUcontext context;
	CUresult result = current_device(device);

	if (result == CUDA_SUCCESS && device_count() > 1 && (uintptr_t)stream > 2 && real.cuStreamGetCtx != NULL &&
	    INSIDE(real.cuStreamGetCtx(stream, &context)) == CUDA_SUCCESS)
		device_of_context(context, device);
	return result;
}

#define ALLOCATE_FROM_CURRENT(is_own_stream, call) \
	CUdevice device; \
	CUresult asked = device_of_stream(stream, &device); \
	if (asked != CUDA_SUCCESS) \
		return asked; \
	ALLOCATE(current_pool(device), is_own_stream, call)

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	TAKES(cuMemAllocAsync, (out, bytes, stream));
	ALLOCATE_FROM_CURRENT(0, real.cuMemAllocAsync(out, bytes, stream));
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	TAKES(cuMemAllocAsync_ptsz, (out, bytes, stream));
	ALLOCATE_FROM_CURRENT(1, real.cuMemAllocAsync_ptsz(out, bytes, stream));
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	TAKES(cuMemAllocFromPoolAsync, (out, bytes, pool, stream));
	ALLOCATE(pool_of(pool), 0, real.cuMemAllocFromPoolAsync(out, bytes, pool, stream));
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	TAKES(cuMemAllocFromPoolAsync_ptsz, (out, bytes, pool, stream));
	ALLOCATE(pool_of(pool), 1, real.cuMemAllocFromPoolAsync_ptsz(out, bytes, pool, stream));
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	GIVES(cuMemFreeAsync, (address, stream));
	FREE(find_linear(address, &entry_), real.cuMemFreeAsync(address, stream));
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	GIVES(cuMemFreeAsync_ptsz, (address, stream));
	FREE(find_linear(address, &entry_), real.cuMemFreeAsync_ptsz(address, stream));
}

static void destroyed_and_empty(struct pool *pool)
{
	if (pool->charged > pool->in_use) {
		give(pool->card, pool->charged - pool->in_use);
		pool->charged = pool->in_use;
	}
	if (pool->in_use > 0 || pool->in_flight > 0)
		return;
	struct pool **at = &pools;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	free(pool);
}

void pool_freed(const struct entry *entry)
{
	struct pool *pool = entry->owner;

	pthread_mutex_lock(&lock);
	pool->in_use -= entry->bytes;
	if (pool->handle == NULL)
		destroyed_and_empty(pool);
	pthread_mutex_unlock(&lock);
	pools_changed();
}

/*
 * Whether a pool is charged, and to which card. Pools of the host are not; managed ones are, wherever their pages are, and without a device
 * to the current one. 0 if the card is unknown.
 */
static int card_of_pool(const CUmemLocation *location, int type, int *card)
{
	CUdevice device;

	*card = NO_CARD;
	if (!on_device(location, &device) && (type != ALLOCATION_MANAGED || current_device(&device) != CUDA_SUCCESS))
		return 1;
	*card = card_of_device(device);
	return *card != NO_CARD || !may_exist(device);
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	int card = NO_CARD;

	GIVES(cuMemPoolCreate, (out, props));
	if (props != NULL && !card_of_pool(&props->location, props->type, &card))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	CUresult result = INSIDE(real.cuMemPoolCreate(out, props));
	if (result == CUDA_SUCCESS && add(*out, card, 1) == NULL) {
		INSIDE(real.cuMemPoolDestroy(*out));
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* What is in a pool of another process is charged there. */
EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle, int type, unsigned long long flags)
{
	GIVES(cuMemPoolImportFromShareableHandle, (out, handle, type, flags));
	pthread_mutex_lock(&lock);
	CUresult result = INSIDE(real.cuMemPoolImportFromShareableHandle(out, handle, type, flags));
	if (result == CUDA_SUCCESS)
		add(*out, NO_CARD, 1);
	pthread_mutex_unlock(&lock);
	return result;
}

/* From CUDA 13 on the host, and managed memory, have pools that the driver makes. */
#define EXISTING(call) \
	int card; \
	pthread_mutex_lock(&lock); \
	CUresult result = INSIDE(call); \
	if (result == CUDA_SUCCESS && find(*out) == NULL && card_of_pool(location, type, &card)) \
		add(*out, card, 0); \
	pthread_mutex_unlock(&lock); \
	return result

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, const CUmemLocation *location, int type)
{
	GIVES(cuMemGetDefaultMemPool, (out, location, type));
	EXISTING(real.cuMemGetDefaultMemPool(out, location, type));
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *out, const CUmemLocation *location, int type)
{
	GIVES(cuMemGetMemPool, (out, location, type));
	EXISTING(real.cuMemGetMemPool(out, location, type));
}

static void forget_current(void)
{
	for (int i = 0; i < MAX_DEVICES; i++)
		of_device[i] = NULL;
}

/* Allocations of a destroyed pool live on until they are freed. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	GIVES(cuMemPoolDestroy, (handle));
	pthread_mutex_lock(&lock);
	struct pool *pool = handle == NULL ? NULL : find(handle);
	if (pool != NULL) {
		pool->handle = NULL; /* another thread may get the same handle at once */
		pool->in_flight++;
	}
	pthread_mutex_unlock(&lock);
	CUresult result = INSIDE(real.cuMemPoolDestroy(handle));
	pthread_mutex_lock(&lock);
	if (pool != NULL && result != CUDA_SUCCESS)
		pool->handle = handle;
	if (pool != NULL)
		landed(pool);
	forget_current();
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	GIVES(cuMemPoolTrimTo, (handle, keep));
	CUresult result = INSIDE(real.cuMemPoolTrimTo(handle, keep));
	settle_pools(WAIT, 0);
	return result;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	GIVES(cuDeviceSetMemPool, (device, pool));
	pthread_mutex_lock(&lock);
	CUresult result = INSIDE(real.cuDeviceSetMemPool(device, pool));
	forget_current();
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
	GIVES(cuMemSetMemPool, (location, type, pool));
	pthread_mutex_lock(&lock);
	CUresult result = INSIDE(real.cuMemSetMemPool(location, type, pool));
	forget_current();
	pthread_mutex_unlock(&lock);
	return result;
}

/*
 * A synchronization gives freed memory back to the device, down to a threshold that the program may have lowered. It waits for no other
 * thread that the driver does not make it wait for: if another one settles, what is changed stays marked.
 */
#define SYNCHRONIZE(call) \
	CUresult result = INSIDE(call); \
	settle_pools(TRY, 0); \
	settle_graphs(TRY, 0); \
	return result

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	GIVES(cuStreamSynchronize, (stream));
	SYNCHRONIZE(real.cuStreamSynchronize(stream));
}

EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	GIVES(cuStreamSynchronize_ptsz, (stream));
	SYNCHRONIZE(real.cuStreamSynchronize_ptsz(stream));
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
	GIVES(cuEventSynchronize, (event));
	SYNCHRONIZE(real.cuEventSynchronize(event));
}

EXPORT CUresult cuCtxSynchronize(void)
{
	GIVES(cuCtxSynchronize, ());
	SYNCHRONIZE(real.cuCtxSynchronize());
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
	GIVES(cuCtxSynchronize_v2, (context));
	SYNCHRONIZE(real.cuCtxSynchronize_v2(context));
}

/* The pools are left behind: a thread of the parent may have been changing them. */
void forget_pools(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	pools = NULL;
	pools_in_use = changed = 0;
	forget_current();
}
