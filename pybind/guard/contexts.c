/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory ends with a context. While a device has only one context, an allocation belongs to it without asking the driver, which
 * would cost a call each time.
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

static void learn(CUcontext handle, CUdevice device, int own)
{
	if (device < 0 || device >= MAX_DEVICES)
		return;
	pthread_mutex_lock(&lock);
	struct context *one = contexts;
	while (one != NULL && one->handle != handle)
		one = one->next;
	if (one == NULL && (one = malloc(sizeof *one)) != NULL) {
		*one = (struct context){handle, device, own, contexts};
		contexts = one;
		if (own || (of_device[device].handle != NULL && of_device[device].handle != handle)) /* the primary one may be there unseen */
			of_device[device].several = 1;
		of_device[device].handle = handle;
	}
	pthread_mutex_unlock(&lock);
}

/* Forgets a context, and returns its device; its handle may be used again for another. */
static void unlearn(CUcontext handle)
{
	pthread_mutex_lock(&lock);
	for (struct context **at = &contexts; *at != NULL; at = &(*at)->next)
		if ((*at)->handle == handle) {
			struct context *gone = *at;
			*at = gone->next;
			if (of_device[gone->device].handle == handle)
				of_device[gone->device].handle = NULL;
			free(gone);
			break;
		}
	pthread_mutex_unlock(&lock);
}

CUresult current_context(CUdevice device, CUcontext *context)
{
	*context = of_device[device].handle;
	if (LIKELY(*context != NULL && !of_device[device].several))
		return CUDA_SUCCESS;
	*context = NULL;
	if (real.cuCtxGetCurrent == NULL)
		return CUDA_SUCCESS;
	CUresult result = INSIDE(real.cuCtxGetCurrent(context));
	if (result == CUDA_SUCCESS && *context != NULL)
		learn(*context, device, 0);
	return result;
}

int device_of_context(CUcontext context, CUdevice *device)
{
	pthread_mutex_lock(&lock);
	struct context *one = contexts;
	while (one != NULL && one->handle != context)
		one = one->next;
	if (one != NULL)
		*device = one->device;
	pthread_mutex_unlock(&lock);
	return one != NULL;
}

static int ended_with(struct entry *entry, void *context)
{
	if (entry->owner != context || (entry->kind != LINEAR && entry->kind != ARRAY && entry->kind != MIPMAP))
		return 0;
	give_for(entry->card, entry->bytes, entry->pools);
	return 1;
}

static void ended(CUcontext handle)
{
	if (handle == NULL)
		return;
	table_each(ended_with, handle);
	unlearn(handle);
	pools_changed();
}

/* The primary context, and handles that the driver gave out for it (green contexts). */
static void primary_ended(CUdevice device)
{
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
	pools_changed();
}

/* Others may hold the primary context without our knowing: the driver says whether it is still there. */
static void released(CUdevice device)
{
	unsigned int flags;
	int active = 1;

	if (real.cuDevicePrimaryCtxGetState != NULL && INSIDE(real.cuDevicePrimaryCtxGetState(device, &flags, &active)) == CUDA_SUCCESS && !active)
		primary_ended(device);
}

/* It held the primary context of a device; each device is looked at. */
static void green_ended(void)
{
	for (CUdevice device = 0; device < device_count(); device++)
		released(device);
}

/* The last detach ends a context; then the driver does not know it any more. */
static void detached(CUcontext context)
{
	unsigned int version;

	if (real.cuCtxGetApiVersion != NULL && INSIDE(real.cuCtxGetApiVersion(context, &version)) != CUDA_SUCCESS)
		ended(context);
}

/* A hook that only learns that the driver has done something. */
#define AFTER(name, parameters, arguments, learned) \
	EXPORT CUresult name parameters \
	{ \
		GIVES(name, arguments); \
		CUresult result = INSIDE(real.name arguments); \
		if (result == CUDA_SUCCESS) \
			learned; \
		return result; \
	}

AFTER(cuCtxCreate, (CUcontext * out, unsigned int flags, CUdevice device), (out, flags, device), learn(*out, device, 1))
AFTER(cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice device), (out, flags, device), learn(*out, device, 1))
AFTER(cuCtxCreate_v3, (CUcontext * out, void *affinity, int count, unsigned int flags, CUdevice device), (out, affinity, count, flags, device), learn(*out, device, 1))
AFTER(cuCtxCreate_v4, (CUcontext * out, void *params, unsigned int flags, CUdevice device), (out, params, flags, device), learn(*out, device, 1))
AFTER(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device), learn(*out, device, 0))
AFTER(cuCtxDestroy, (CUcontext context), (context), ended(context))
AFTER(cuCtxDestroy_v2, (CUcontext context), (context), ended(context))
AFTER(cuCtxDetach, (CUcontext context), (context), detached(context))
AFTER(cuGreenCtxDestroy, (CUgreenCtx context), (context), green_ended())
AFTER(cuDevicePrimaryCtxRelease, (CUdevice device), (device), released(device))
AFTER(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), released(device))
AFTER(cuDevicePrimaryCtxReset, (CUdevice device), (device), primary_ended(device))
AFTER(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), primary_ended(device))

/* The list is left behind: a thread of the parent may have been changing it. */
void forget_contexts(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	contexts = NULL;
	for (int i = 0; i < MAX_DEVICES; i++)
		of_device[i] = (struct sole){0};
}
