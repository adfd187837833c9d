/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory ends with a context, and how many contexts there are. While a device has only one context, an allocation
 * belongs to it without asking the driver, which would cost a call each time.
 */
#include "guard.h"

#include <stdlib.h>

struct context {
	CUcontext handle;
	CUdevice device;
	int own; /* made by cuCtxCreate, not the primary one */
	struct context *next;
};

static struct context *contexts;
static struct sole {
	CUcontext handle; /* NULL: none is known */
	int several;
} of_device[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int has_primary[MAX_DEVICES]; /* whether it is among the counted contexts; guarded by lock */
static pthread_mutex_t primary[MAX_DEVICES] = {
    [0 ... MAX_DEVICES - 1] = PTHREAD_MUTEX_INITIALIZER}; /* while one begins or ends */

static void count_primary(CUdevice device, int there) {
	if (device < 0 || device >= MAX_DEVICES)
		return;
	pthread_mutex_lock(&lock);
	int difference = there - has_primary[device];
	has_primary[device] = there;
	pthread_mutex_unlock(&lock);
	if (difference != 0)
		count_contexts(card_of_device(device), difference);
}

static void learn(CUcontext handle, CUdevice device, int own) {
	int more = 0;

	if (device < 0 || device >= MAX_DEVICES)
		return;
	pthread_mutex_lock(&lock);
	struct context *one = contexts;
	while (one != NULL && one->handle != handle)
		one = one->next;
	if (one == NULL && (one = malloc(sizeof *one)) != NULL) {
		*one = (struct context){handle, device, own, contexts};
		contexts = one;
		if (own || (of_device[device].handle != NULL &&
		               of_device[device].handle != handle)) /* the primary one may be there unseen */
			of_device[device].several = 1;
		__atomic_store_n(&of_device[device].handle, handle, __ATOMIC_RELEASE);
		more = own;
	}
	pthread_mutex_unlock(&lock);
	if (more)
		count_contexts(card_of_device(device), 1);
	if (!own) /* it is the primary one, or a green one in it */
		count_primary(device, 1);
}

/* Forgets a context, and returns what was known of it; its handle may be used again for another. */
static struct context unlearn(CUcontext handle) {
	struct context known = {0};

	pthread_mutex_lock(&lock);
	for (struct context **at = &contexts; *at != NULL; at = &(*at)->next)
		if ((*at)->handle == handle) {
			struct context *gone = *at;
			known = *gone;
			*at = gone->next;
			if (of_device[gone->device].handle == handle)
				of_device[gone->device].handle = NULL;
			free(gone);
			break;
		}
	pthread_mutex_unlock(&lock);
	if (known.own)
		count_contexts(card_of_device(known.device), -1);
	return known;
}

CUresult current_context(CUdevice device, CUcontext *context) {
	*context = __atomic_load_n(&of_device[device].handle, __ATOMIC_ACQUIRE);
	if (LIKELY(*context != NULL && !__atomic_load_n(&of_device[device].several, __ATOMIC_RELAXED)))
		return CUDA_SUCCESS;
	*context = NULL;
	if (real.cuCtxGetCurrent == NULL)
		return CUDA_SUCCESS;
	CUresult result = INSIDE(real.cuCtxGetCurrent(context));
	if (result == CUDA_SUCCESS && *context != NULL)
		learn(*context, device, 0);
	return result;
}

int device_of_context(CUcontext context, CUdevice *device) {
	HOLD(lock);
	struct context *one = contexts;
	while (one != NULL && one->handle != context)
		one = one->next;
	if (one != NULL)
		*device = one->device;
	return one != NULL;
}

/* Whether the driver itself refuses a request that was not charged, for want of a device or a context: its error is the
 * right one then. */
int driver_refuses(CUresult reason) {
	CUcontext context = NULL;

	if (reason == CUDA_ERROR_NOT_INITIALIZED || reason == CUDA_ERROR_NO_DEVICE || reason == CUDA_ERROR_INVALID_CONTEXT)
		return 1;
	return real.cuCtxGetCurrent != NULL && INSIDE(real.cuCtxGetCurrent(&context)) == CUDA_SUCCESS && context == NULL;
}

static int is_of_context(const struct entry *entry) {
	return entry->kind == LINEAR || entry->kind == ARRAY || entry->kind == MIPMAP || entry->kind == PAGE;
}

static int ended_with(struct entry *entry, void *context) {
	if (entry->owner != context || !is_of_context(entry))
		return 0;
	give_for(entry->card, entry->bytes, entry->pools);
	return 1;
}

static void ended(CUcontext handle) {
	if (handle == NULL)
		return;
	table_each(ended_with, handle);
	unlearn(handle);
	pools_changed();
}

struct move {
	void *from, *to;
};

static int change_owner(struct entry *entry, void *argument) {
	const struct move *move = argument;

	if (entry->owner == move->from && is_of_context(entry))
		entry->owner = move->to;
	return 0;
}

/*
 * Destroys a context. Meanwhile its memory belongs to no handle, because another thread may get the same handle as soon
 * as the driver has destroyed the context. The memory can still be found by its address.
 */
static CUresult destroy(CUresult (*driver)(CUcontext), CUcontext handle) {
	struct move move = {handle, &move};
	struct context known;

	if (handle == NULL)
		return INSIDE(driver(handle));
	table_each(change_owner, &move);
	known = unlearn(handle);
	CUresult result = INSIDE(driver(handle));
	if (result == CUDA_SUCCESS) {
		table_each(ended_with, &move);
		pools_changed();
	} else {
		move = (struct move){&move, handle};
		table_each(change_owner, &move);
		if (known.handle != NULL)
			learn(handle, known.device, known.own);
	}
	return result;
}

/* The primary context, and handles that the driver gave out for it (green contexts). */
static void primary_ended(CUdevice device) {
	for (;;) {
		CUcontext handle = NULL;
		pthread_mutex_lock(&lock);
		for (struct context *one = contexts; one != NULL; one = one->next)
			if (one->device == device && !one->own)
				handle = one->handle;
		pthread_mutex_unlock(&lock);
		if (handle == NULL)
			break;
		ended(handle);
	}
	count_primary(device, 0);
	pools_changed();
}

/* Others may hold the primary context without our knowing: the driver says whether it is still there. */
static int is_active(CUdevice device, int otherwise) {
	unsigned int flags;
	int active;

	if (real.cuDevicePrimaryCtxGetState == NULL ||
	    INSIDE(real.cuDevicePrimaryCtxGetState(device, &flags, &active)) != CUDA_SUCCESS)
		return otherwise;
	return active;
}

static void released(CUdevice device) {
	if (!is_active(device, 1))
		primary_ended(device);
}

/* What was in the context is gone, and perhaps the context. */
static void was_reset(CUdevice device) {
	primary_ended(device);
	count_primary(device, is_active(device, 0));
}

/* It held the primary context of a device; each device is looked at. */
static void green_ended(void) {
	for (CUdevice device = 0; device < device_count(); device++) {
		pthread_mutex_lock(&primary[device]);
		released(device);
		pthread_mutex_unlock(&primary[device]);
	}
}

/* The last detach ends a context; then the driver does not know it any more. */
static void detached(CUcontext context) {
	unsigned int version;

	if (real.cuCtxGetApiVersion != NULL && INSIDE(real.cuCtxGetApiVersion(context, &version)) != CUDA_SUCCESS)
		ended(context);
}

/* A hook that only learns that the driver has done something. */
#define AFTER(name, parameters, arguments, learned) \
	EXPORT CUresult name parameters { \
		GIVES(name, arguments); \
		CUresult result = INSIDE(real.name arguments); \
		if (result == CUDA_SUCCESS) \
			learned; \
		return result; \
	}

AFTER(cuCtxCreate, (CUcontext * out, unsigned int flags, CUdevice device), (out, flags, device), learn(*out, device, 1))
AFTER(cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice device), (out, flags, device),
    learn(*out, device, 1))
AFTER(cuCtxCreate_v3, (CUcontext * out, void *affinity, int count, unsigned int flags, CUdevice device),
    (out, affinity, count, flags, device), learn(*out, device, 1))
AFTER(cuCtxCreate_v4, (CUcontext * out, void *params, unsigned int flags, CUdevice device),
    (out, params, flags, device), learn(*out, device, 1))
AFTER(cuCtxDetach, (CUcontext context), (context), detached(context))
AFTER(cuGreenCtxCreate, (CUgreenCtx * out, void *resources, CUdevice device, unsigned int flags),
    (out, resources, device, flags), count_primary(device, 1))
AFTER(cuGreenCtxDestroy, (CUgreenCtx context), (context), green_ended())
AFTER(cuDevicePrimaryCtxReset, (CUdevice device), (device), was_reset(device))
AFTER(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), was_reset(device))

static void limit_set(int limit, size_t value) {
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		NOTE_ONCE(
		    "the heap of malloc() on the device was set to %zu bytes (cuCtxSetLimit), which are not counted", value);
}

AFTER(cuCtxSetLimit, (int limit, size_t value), (limit, value), limit_set(limit, value))

#define DESTROY(name) \
	EXPORT CUresult name(CUcontext context) { \
		GIVES(name, (context)); \
		return destroy(real.name, context); \
	}

DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* Another thread must not retain the primary context before it is known whether it has ended. */
#define PRIMARY(name, parameters, arguments, learned) \
	EXPORT CUresult name parameters { \
		GIVES(name, arguments); \
		pthread_mutex_t *its = &primary[(unsigned int)device % MAX_DEVICES]; \
		pthread_mutex_lock(its); \
		CUresult result = INSIDE(real.name arguments); \
		if (result == CUDA_SUCCESS) \
			learned; \
		pthread_mutex_unlock(its); \
		return result; \
	}

PRIMARY(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device), learn(*out, device, 0))
PRIMARY(cuDevicePrimaryCtxRelease, (CUdevice device), (device), released(device))
PRIMARY(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), released(device))

/* The list is left behind: a thread of the parent may have been changing it. */
void forget_contexts(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	contexts = NULL;
	for (int i = 0; i < MAX_DEVICES; i++) {
		of_device[i] = (struct sole){0};
		has_primary[i] = 0;
	}
	for (int i = 0; i < MAX_DEVICES; i++)
		primary[i] = fresh;
}
