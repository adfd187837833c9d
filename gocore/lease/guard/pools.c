/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. A pool is charged for what it reserves, not for what is in use: freed memory stays with
 * the pool until the driver gives it back, at a synchronization or a trim. The reserve is read again there, and before
 * a request is refused.
 *
 * The lock is never held while the driver is called, which may wait for a stream, and so for other threads.
 */
#include "guard.h"

#include <stdlib.h>
#include <time.h>

struct pool {
	CUmemoryPool handle; /* NULL once it was destroyed; then it stays charged until nothing of it is in use */
	int card;            /* NO_CARD: not charged (the host's, or imported) */
	int own;             /* made by cuMemPoolCreate: its allocations are in the table */
	uint64_t charged, in_use;
	uint64_t in_flight;      /* requests that the driver is working on */
	uint64_t spare, claimed; /* what was taken for them beyond charged, and what they get of what is charged */
	uint64_t users;          /* threads that refer to it without the lock; it is not freed meanwhile */
	uint64_t calls;          /* of the guard's own that the driver is working on; the handle stays valid meanwhile */
	uint64_t changes;        /* of its charge, and of its reserve as far as requests and trims change it */
	struct pool *next;
};

/*
 * What was taken of the budget for a request: nothing, since it is captured or fits into what the pool has free (OWN);
 * for what that lacks; or for all that the pool may grow by.
 */
enum room { NONE, OWN, PART, WHOLE };

int pools_in_use;
static struct pool *pools; /* guarded by lock, as is all that is in them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* the last of a pool's calls has ended */
static CUmemoryPool of_device[MAX_DEVICES];            /* each device's current pool; NULL: not asked yet */
static uint64_t settings;                              /* how often of_device was emptied */
static int changed;                                    /* memory was freed since the last settling */

static struct pool *find(CUmemoryPool handle) {
	struct pool *one = pools;

	while (one != NULL && one->handle != handle)
		one = one->next;
	return one;
}

static struct pool *add(CUmemoryPool handle, int card, int own) {
	struct pool *new = malloc(sizeof *new);

	if (new != NULL) {
		*new = (struct pool){.handle = handle, .card = card, .own = own, .next = pools};
		pools = new;
		__atomic_store_n(&pools_in_use, 1, __ATOMIC_RELEASE);
	}
	return new;
}

/*
 * What a destroyed pool has reserved is released with the last allocation of it, as CUDA documents; there is no figure
 * of it any more. It is forgotten then.
 */
static void end_if_unused(struct pool *pool) {
	if (pool->handle != NULL || pool->in_flight > 0 || pool->users > 0 || pool->calls > 0 || pool->in_use > 0)
		return;
	give(pool->card, pool->charged);
	struct pool **at = &pools;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	free(pool);
}

static struct pool *use(struct pool *pool) {
	if (pool != NULL)
		pool->users++;
	return pool;
}

static void end_use(struct pool *pool) {
	pool->users--;
	end_if_unused(pool);
}

/* Between these two the lock is not held. */
static void begin_call(struct pool *pool) {
	pool->calls++;
	pthread_mutex_unlock(&lock);
}

static void end_call(struct pool *pool) {
	pthread_mutex_lock(&lock);
	if (--pool->calls == 0)
		pthread_cond_broadcast(&idle);
}

/*
 * A figure of the driver's, as of now: if another thread has changed something since the driver was asked, it is asked
 * again. 0 without one. The lock is held before and afterwards, not meanwhile.
 */
enum { MOST_QUESTIONS = 64 };
static int ask(struct pool *pool, int which, uint64_t *value) {
	for (int i = 0; real.cuMemPoolGetAttribute != NULL && pool->handle != NULL && i < MOST_QUESTIONS; i++) {
		CUmemoryPool handle = pool->handle;
		uint64_t changes = pool->changes;
		begin_call(pool);
		CUresult result = INSIDE(real.cuMemPoolGetAttribute(handle, which, value));
		end_call(pool);
		if (result != CUDA_SUCCESS)
			break;
		if (pool->changes == changes)
			return 1;
	}
	if (pool->handle != NULL) {
		NOTE_ONCE("a memory pool did not report what it reserves: its charge stays until it does");
		pools_changed();
	}
	return 0;
}

/*
 * The charge becomes what is reserved. What was taken for requests in flight covers growth first; what is left of it
 * goes back when none is in flight besides the caller's own, which the driver has done (own: 1). Returns what does not
 * fit, and is not charged; 1 if the request was to fit into what the pool had free, and whether it does is not known.
 * What was taken for it is undecided until now. The lock is not held while the driver is asked.
 */
static uint64_t recharge(struct pool *pool, int own, enum room room) {
	uint64_t reserved = 0;
	int known = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
	uint64_t kept = pool->in_flight > (uint64_t)own ? pool->spare : 0, have = pool->charged + pool->spare - kept;

	if (!known)
		reserved = have;
	else if (reserved > 0)
		learn_segment(reserved, room == WHOLE && pool->in_flight == 1 && reserved > have);
	uint64_t moved = smaller(reserved > have ? reserved - have : 0, kept);
	have += moved;
	pool->spare = kept - moved;
	pool->charged = have;
	pool->changes++;
	if (reserved < have)
		give(pool->card, have - reserved);
	if (room >= PART)
		taken(pool->card);
	if (reserved > have && !take(pool->card, reserved - have))
		return reserved - have;
	pool->charged = reserved;
	return !known && (room == OWN || room == PART);
}

static void trim_pool(struct pool *pool, uint64_t keep) {
	CUmemoryPool handle = pool->handle;

	if (real.cuMemPoolTrimTo == NULL || handle == NULL)
		return;
	begin_call(pool);
	INSIDE(real.cuMemPoolTrimTo(handle, keep));
	end_call(pool);
	pool->changes++;
}

static void settle_pool(struct pool *pool, int own, int trim) {
	if (pool->card == NO_CARD || pool->handle == NULL)
		return;
	if (trim)
		trim_pool(pool, 0);
	uint64_t more = recharge(pool, own, NONE);
	if (more > 0 &&
	    pool->in_flight <= (uint64_t)own) { /* a request in flight is yet to be undone, or finds the same at its end */
		NOTE_ONCE("a memory pool has grown beyond the limit on its own: further requests are refused");
		if (take_anyway(pool->card, more))
			pool->charged += more;
	}
}

void settle_pools(enum settling which, int trim) {
	if (!__atomic_load_n(&pools_in_use, __ATOMIC_ACQUIRE))
		return;
	HOLD(lock);
	for (struct pool *one = pools, *next; one != NULL; one = next) {
		use(one);
		if (which == ALL || one->in_flight == 0)
			settle_pool(one, 0, trim);
		else
			pools_changed();
		next = one->next;
		end_use(one);
	}
}

static void settle(void) {
	settle_pools(ALL, 0);
	settle_graphs(ALL, 0);
}

void settle_if_changed(void) {
	if (UNLIKELY(__atomic_load_n(&open_exports, __ATOMIC_RELAXED)))
		end_exports();
	if (UNLIKELY(__atomic_load_n(&changed, __ATOMIC_RELAXED))) {
		int kept = for_pools;
		for_pools = 0; /* what is settled is the driver's */
		__atomic_store_n(&changed, 0, __ATOMIC_RELAXED);
		settle();
		for_pools = kept;
	}
}

void pools_changed(void) {
	if (UNLIKELY(pools_in_use || graphs_in_use))
		__atomic_store_n(&changed, 1, __ATOMIC_RELAXED);
}

int take_or_settle(int card, uint64_t bytes) {
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
		settle_pools(ALL, trim);
		settle_graphs(ALL, trim);
		for_pools = kept;
		if (take(card, bytes))
			return 1;
	}
	return 0;
}

/* The pool of a handle, with a user more, or NULL. The lock is not held by the caller of these. */
static struct pool *use_known(CUmemoryPool handle) {
	HOLD(lock);
	return use(handle == NULL ? NULL : find(handle));
}

/* A pool that was not made here. NULL if it cannot be charged. */
static struct pool *use_of_device(CUmemoryPool handle, CUdevice device) {
	int card = card_of_device(device);

	HOLD(lock);
	struct pool *pool = find(handle);
	pool = use(pool != NULL || card == NO_CARD ? pool : add(handle, card, 0));
	return pool;
}

static struct pool *use_current(CUdevice device) {
	pthread_mutex_lock(&lock);
	CUmemoryPool handle = of_device[device];
	struct pool *pool = use(handle == NULL ? NULL : find(handle));
	uint64_t before = settings;
	pthread_mutex_unlock(&lock);
	if (pool != NULL)
		return pool;
	if (real.cuDeviceGetMemPool == NULL || INSIDE(real.cuDeviceGetMemPool(&handle, device)) != CUDA_SUCCESS ||
	    handle == NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	if (settings == before) /* else another thread may have set another one */
		of_device[device] = handle;
	pthread_mutex_unlock(&lock);
	return use_of_device(handle, device);
}

/* A pool that was not made here is a device's default pool. */
static struct pool *use_pool(CUmemoryPool handle) {
	CUmemoryPool standard;
	struct pool *known = use_known(handle);
	CUdevice device;

	if (known != NULL || handle == NULL)
		return known;
	for (CUdevice one = 0; real.cuDeviceGetDefaultMemPool != NULL && one < device_count(); one++)
		if (INSIDE(real.cuDeviceGetDefaultMemPool(&standard, one)) == CUDA_SUCCESS && standard == handle)
			return use_of_device(handle, one);
	if (current_device(&device) != CUDA_SUCCESS)
		return NULL;
	NOTE_ONCE("an unknown memory pool is charged to the current device");
	return use_of_device(handle, device);
}

static int capturing(CUstream stream, int own_stream) {
	CUresult (*is_capturing)(CUstream, int *) = own_stream ? real.cuStreamIsCapturing_ptsz : real.cuStreamIsCapturing;
	int status = 0;

	return is_capturing != NULL && INSIDE(is_capturing(stream, &status)) == CUDA_SUCCESS && status != 0;
}

/* A request for memory of a pool, which it uses, and its room: what was taken of the budget and what is claimed of the
 * pool's free memory. */
struct request {
	CUdeviceptr *out;
	size_t bytes;
	CUmemoryPool from;
	CUstream stream;
	int from_pool, own_stream; /* by which function */
	struct pool *pool;
	enum room room;
	uint64_t taken, claimed;
};

static CUresult call_driver(const struct request *request) {
	const struct request *r = request;

	if (r->from_pool && r->own_stream)
		return INSIDE(real.cuMemAllocFromPoolAsync_ptsz(r->out, r->bytes, r->from, r->stream));
	if (r->from_pool)
		return INSIDE(real.cuMemAllocFromPoolAsync(r->out, r->bytes, r->from, r->stream));
	return r->own_stream ? INSIDE(real.cuMemAllocAsync_ptsz(r->out, r->bytes, r->stream))
	                     : INSIDE(real.cuMemAllocAsync(r->out, r->bytes, r->stream));
}

static void free_again(const struct request *request) {
	if (request->own_stream)
		INSIDE(real.cuMemFreeAsync_ptsz(*request->out, request->stream));
	else
		INSIDE(real.cuMemFreeAsync(*request->out, request->stream));
}

/* The driver's own error where it refuses, too. A stream of the program's needs no current context. */
static CUresult refuse(const struct request *request, CUresult reason) {
	int no_pool = request->from_pool && request->from == NULL;

	if (!no_pool && ((reason == CUDA_ERROR_OUT_OF_MEMORY && (uintptr_t)request->stream > 2) || !driver_refuses(reason)))
		return reason;
	CUresult result = call_driver(request);
	if (result != CUDA_SUCCESS)
		return result;
	free_again(request);
	return reason;
}

/* Room for a request that the driver may begin: of the budget, without the lock, which another thread may need in order
 * to decide. */
static int begin_request(struct request *request, uint64_t claimed) {
	struct pool *pool = request->pool;
	uint64_t growth = segments(request->bytes - claimed);
	int fits = growth > 0 || claimed == 0 ? take_undecided(pool->card, growth) : take(pool->card, 0);

	HOLD(lock);
	if (fits) {
		request->room = claimed > 0 ? PART : WHOLE;
		if (growth == 0 && claimed > 0)
			request->room = OWN;
		request->taken = growth;
		request->claimed = claimed;
		pool->in_flight++;
		pool->spare += growth;
	} else {
		pool->claimed -= claimed;
	}
	return fits;
}

/* Whatever the pool may have to grow by. */
static int takes(struct request *request) { return begin_request(request, 0); }

/*
 * What the pool does not have free. Nothing of one that has grown beyond the limit on its own: it is trimmed first. If
 * what is free is not in one piece, the pool grows by more, which is undone.
 */
static int claims(struct request *request) {
	struct pool *pool = request->pool;
	uint64_t used = 0;

	pthread_mutex_lock(&lock);
	recharge(pool, 0, NONE);
	used = (ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) ? used : pool->charged) + pool->claimed;
	uint64_t claimed = smaller(pool->charged > used ? pool->charged - used : 0, request->bytes);
	pool->claimed += claimed;
	pthread_mutex_unlock(&lock);
	return claimed > 0 && begin_request(request, claimed);
}

static int make_room(struct request *request) {
	if (takes(request))
		return 1;
	if (capturing(request->stream, request->own_stream)) { /* it becomes a node of a graph */
		pthread_mutex_lock(&lock);
		request->pool->in_flight++;
		pthread_mutex_unlock(&lock);
		return 1;
	}
	for (int trim = 0; trim <= 1; trim++) {
		if (claims(request))
			return 1;
		settle_pools(ALL, trim);
		settle_graphs(ALL, trim);
		if (takes(request))
			return 1;
	}
	return claims(request);
}

/*
 * Waits for a stream, at most for 0.2 s. The stream may wait for something that this thread does after the allocation,
 * or another thread that needs the lock. Then the memory stays charged until settling finds it gone.
 */
enum { WAIT_TRIES = 2000, WAIT_NS = 100000 };
static int waited_for(CUstream stream) {
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

/* The allocation is freed, and the pool trimmed. */
static void undo(const struct request *request) {
	struct pool *pool = request->pool;
	CUstream stream = request->stream;

	free_again(request);
	if (waited_for(request->own_stream && stream == NULL ? OWN_STREAM : stream)) {
		if (request->own_stream)
			INSIDE(real.cuStreamSynchronize_ptsz(stream));
		else
			INSIDE(real.cuStreamSynchronize(stream));
	}
	pools_changed(); /* the others returned what they had free, too */
	HOLD(lock);
	trim_pool(pool, pool->charged > request->taken ? pool->charged - request->taken : 0);
	settle_pool(pool, 1, 0);
}

/* Whether what came of the request fits. */
static int settle_request(struct request *request, CUresult result) {
	struct pool *pool = request->pool;
	struct entry entry = {.kind = POOLED, .bytes = request->bytes, .owner = pool, .card = (int8_t)pool->card};

	pool->changes++;
	pool->claimed -= request->claimed;
	if (result != CUDA_SUCCESS) {
		uint64_t back = request->taken < pool->spare ? request->taken : pool->spare;
		pool->spare -= back;
		give(pool->card, back);
		if (request->room >= PART)
			taken(pool->card);
		return 1;
	}
	entry.key = *request->out;
	if (recharge(pool, 1, request->room) > 0 || (pool->own && !table_add(&entry)))
		return 0;
	pool->in_use += pool->own ? request->bytes : 0;
	return 1;
}

static CUresult end_request(struct request *request, CUresult result) {
	struct pool *pool = request->pool;

	pthread_mutex_lock(&lock);
	if (!settle_request(request, result)) {
		pthread_mutex_unlock(&lock);
		undo(request);
		result = CUDA_ERROR_OUT_OF_MEMORY;
		pthread_mutex_lock(&lock);
	}
	pool->in_flight--;
	end_use(pool);
	pthread_mutex_unlock(&lock);
	return result;
}

/* The pool is that of the stream's device, which may not be the current one. Handles up to 2 stand for default streams.
 */
static CUresult device_of_stream(CUstream stream, CUdevice *device) {
	CUcontext context;
	CUresult result = current_device(device);

	if (result == CUDA_SUCCESS && device_count() > 1 && (uintptr_t)stream > 2 && real.cuStreamGetCtx != NULL &&
	    INSIDE(real.cuStreamGetCtx(stream, &context)) == CUDA_SUCCESS)
		device_of_context(context, device);
	return result;
}

static CUresult allocate(struct request *request) {
	CUdevice device;
	CUresult result = request->from_pool ? CUDA_SUCCESS : device_of_stream(request->stream, &device);

	if (result != CUDA_SUCCESS)
		return refuse(request, result);
	struct pool *pool = request->pool = request->from_pool ? use_pool(request->from) : use_current(device);
	if (pool == NULL)
		return refuse(request, no_card());
	if (pool->card != NO_CARD && make_room(request))
		return end_request(request, call_driver(request));
	result = pool->card == NO_CARD ? call_driver(request) : refuse(request, CUDA_ERROR_OUT_OF_MEMORY);
	HOLD(lock);
	end_use(pool);
	return result;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
	TAKES(cuMemAllocAsync, (out, bytes, stream));
	return allocate(&(struct request){.out = out, .bytes = bytes, .stream = stream});
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream) {
	TAKES(cuMemAllocAsync_ptsz, (out, bytes, stream));
	return allocate(&(struct request){.out = out, .bytes = bytes, .stream = stream, .own_stream = 1});
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
	TAKES(cuMemAllocFromPoolAsync, (out, bytes, pool, stream));
	return allocate(&(struct request){.out = out, .bytes = bytes, .from = pool, .stream = stream, .from_pool = 1});
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
	TAKES(cuMemAllocFromPoolAsync_ptsz, (out, bytes, pool, stream));
	return allocate(
	    &(struct request){.out = out, .bytes = bytes, .from = pool, .stream = stream, .from_pool = 1, .own_stream = 1});
}

#define FREES(name) \
	EXPORT CUresult name(CUdeviceptr address, CUstream stream) { \
		GIVES(name, (address, stream)); \
		FREE(find_linear(address, &entry_), real.name(address, stream)); \
	}
FREES(cuMemFreeAsync)
FREES(cuMemFreeAsync_ptsz)

void pool_freed(const struct entry *entry) {
	struct pool *pool = entry->owner;

	pthread_mutex_lock(&lock);
	pool->in_use -= entry->bytes;
	end_if_unused(pool);
	pthread_mutex_unlock(&lock);
	pools_changed();
}

/*
 * Whether a pool is charged, and to which card. Pools of the host are not; managed ones are, wherever their pages are,
 * and without a device to the current one. 0 if the card is unknown.
 */
static int card_of_pool(const CUmemLocation *location, int type, int *card) {
	CUdevice device;

	*card = NO_CARD;
	if (!on_device(location, &device) &&
	    (type != CU_MEM_ALLOCATION_TYPE_MANAGED || current_device(&device) != CUDA_SUCCESS))
		return 1;
	*card = card_of_device(device);
	return *card != NO_CARD || !may_exist(device);
}

/* A pool that was made just now. If its handle is known, it is that of one that was destroyed. */
static int add_made(CUmemoryPool handle, int card) {
	HOLD(lock);
	struct pool *stale = find(handle);
	if (stale != NULL) {
		stale->handle = NULL;
		end_if_unused(stale);
	}
	return add(handle, card, 1) != NULL;
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
	int card = NO_CARD;

	GIVES(cuMemPoolCreate, (out, props));
	CUresult reason = props == NULL || card_of_pool(&props->location, props->type, &card) ? CUDA_SUCCESS : no_card();
	if (reason == CUDA_ERROR_OUT_OF_MEMORY)
		return reason;
	CUresult result = INSIDE(real.cuMemPoolCreate(out, props));
	if (result != CUDA_SUCCESS || (reason == CUDA_SUCCESS && add_made(*out, card)))
		return result;
	INSIDE(real.cuMemPoolDestroy(*out));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* What is in a pool of another process is charged there. */
EXPORT CUresult cuMemPoolImportFromShareableHandle(
    CUmemoryPool *out, void *handle, int type, unsigned long long flags) {
	GIVES(cuMemPoolImportFromShareableHandle, (out, handle, type, flags));
	CUresult result = INSIDE(real.cuMemPoolImportFromShareableHandle(out, handle, type, flags));
	if (result == CUDA_SUCCESS)
		add_made(*out, NO_CARD);
	return result;
}

/* From CUDA 13 on the host, and managed memory, have pools that the driver makes. */
static CUresult found(CUresult result, CUmemoryPool handle, const CUmemLocation *location, int type) {
	int card;

	if (result != CUDA_SUCCESS || !card_of_pool(location, type, &card))
		return result;
	HOLD(lock);
	if (find(handle) == NULL)
		add(handle, card, 0);
	return result;
}

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, const CUmemLocation *location, int type) {
	GIVES(cuMemGetDefaultMemPool, (out, location, type));
	CUresult result = INSIDE(real.cuMemGetDefaultMemPool(out, location, type));
	return found(result, result == CUDA_SUCCESS ? *out : NULL, location, type);
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *out, const CUmemLocation *location, int type) {
	GIVES(cuMemGetMemPool, (out, location, type));
	CUresult result = INSIDE(real.cuMemGetMemPool(out, location, type));
	return found(result, result == CUDA_SUCCESS ? *out : NULL, location, type);
}

static void forget_current(void) {
	settings++;
	for (int i = 0; i < MAX_DEVICES; i++)
		of_device[i] = NULL;
}

/* Allocations of a destroyed pool live on until they are freed. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
	GIVES(cuMemPoolDestroy, (handle));
	pthread_mutex_lock(&lock);
	struct pool *pool = use(handle == NULL ? NULL : find(handle));
	if (pool != NULL) {
		settle_pool(pool, 0, 0); /* there is no figure of its reserve later */
		pool->handle = NULL;     /* another thread may get the same handle at once */
	}
	while (pool != NULL && pool->calls > 0)
		pthread_cond_wait(&idle, &lock);
	forget_current();
	pthread_mutex_unlock(&lock);
	CUresult result = INSIDE(real.cuMemPoolDestroy(handle));
	pthread_mutex_lock(&lock);
	if (pool != NULL && result != CUDA_SUCCESS)
		pool->handle = handle;
	if (pool != NULL)
		end_use(pool);
	forget_current();
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
	GIVES(cuMemPoolTrimTo, (handle, keep));
	CUresult result = INSIDE(real.cuMemPoolTrimTo(handle, keep));
	settle_pools(ALL, 0);
	return result;
}

/* Another pool is current now. */
static CUresult pool_set(CUresult result) {
	HOLD(lock);
	forget_current();
	return result;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
	GIVES(cuDeviceSetMemPool, (device, pool));
	return pool_set(INSIDE(real.cuDeviceSetMemPool(device, pool)));
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool) {
	GIVES(cuMemSetMemPool, (location, type, pool));
	return pool_set(INSIDE(real.cuMemSetMemPool(location, type, pool)));
}

/*
 * A synchronization gives freed memory back to the device, down to a threshold that the program may have lowered. It
 * must not wait for other threads' requests, in the driver neither: the pools that these are for are settled later.
 */
#define SYNCHRONIZES(name, parameters, arguments) \
	EXPORT CUresult name parameters { \
		GIVES(name, arguments); \
		CUresult result = INSIDE(real.name arguments); \
		settle_pools(IDLE, 0); \
		settle_graphs(IDLE, 0); \
		return result; \
	}
SYNCHRONIZES(cuStreamSynchronize, (CUstream stream), (stream))
SYNCHRONIZES(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
SYNCHRONIZES(cuEventSynchronize, (CUevent event), (event))
SYNCHRONIZES(cuCtxSynchronize, (void), ())
SYNCHRONIZES(cuCtxSynchronize_v2, (CUcontext context), (context))

/* The pools are left behind: a thread of the parent may have been changing them. */
void forget_pools(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
	static const pthread_cond_t none = PTHREAD_COND_INITIALIZER;

	lock = fresh;
	idle = none;
	pools = NULL;
	pools_in_use = changed = 0;
	forget_current();
}

/*
 * The segments that a driver's pools, and its reserve for graphs, grow by: a request may take one more than its own
 * bytes fill. An H200 with driver 580 has 32 MiB (tests_py/driver/calls). That is assumed until a pool has reserved
 * something; from then on, it is the greatest common divisor of what was reserved, but not more than 32 MiB unless a
 * pool has grown by more than that explains. So it is a multiple of the driver's, or its own.
 */

#define ASSUMED (UINT64_C(32) << 20)

static uint64_t common; /* divisor of what was reserved; 0: nothing was yet */
static int larger;

static uint64_t divisor(uint64_t a, uint64_t b) {
	while (b != 0) {
		uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

void learn_segment(uint64_t reserved, int grew_beyond) {
	uint64_t seen = __atomic_load_n(&common, __ATOMIC_RELAXED), now = divisor(reserved, seen);

	while (now != seen && !__atomic_compare_exchange_n(&common, &seen, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		now = divisor(reserved, seen);
	if (UNLIKELY(grew_beyond))
		__atomic_store_n(&larger, 1, __ATOMIC_RELAXED);
}

uint64_t segments(uint64_t bytes) {
	uint64_t seen = __atomic_load_n(&common, __ATOMIC_RELAXED);
	uint64_t unit = seen == 0 || __atomic_load_n(&larger, __ATOMIC_RELAXED) ? seen : divisor(ASSUMED, seen);

	if (unit == 0)
		unit = ASSUMED;
	return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}
