/* SPDX-License-Identifier: Apache-2.0 */
/* More questions about devices, contexts, streams and events. */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device);
CUresult cuEventRecord(CUevent event, CUstream stream);

static int unknown(CUdevice device) { return device < 0 || device >= m->gpus; }

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
	CALLED(cuDeviceComputeCapability);
	if (major == NULL || minor == NULL)
		return INVALID_VALUE;
	if (unknown(device))
		return INVALID_DEVICE;
	*major = m->gpu[device].major;
	*minor = m->gpu[device].minor;
	return SUCCESS;
}

static int same_place(const char *a, const char *b) {
	unsigned x[4] = {0}, y[4] = {0};
	if (sscanf(a, "%x:%x:%x.%x", &x[0], &x[1], &x[2], &x[3]) < 3 && sscanf(a, "%x:%x.%x", &x[1], &x[2], &x[3]) < 2)
		return 0;
	return sscanf(b, "%x:%x:%x.%x", &y[0], &y[1], &y[2], &y[3]) >= 3 && memcmp(x, y, sizeof x) == 0;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *id) {
	CALLED(cuDeviceGetByPCIBusId);
	char own[64];
	if (out == NULL || id == NULL)
		return INVALID_VALUE;
	for (int i = 0; i < m->gpus; i++)
		if (cuDeviceGetPCIBusId(own, sizeof own, i) == SUCCESS && same_place(id, own)) {
			*out = i;
			return SUCCESS;
		}
	return INVALID_DEVICE;
}

/* Only Windows has them. */
EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
	CALLED(cuDeviceGetLuid);
	return luid == NULL || mask == NULL ? INVALID_VALUE : unknown(device) ? INVALID_DEVICE : NOT_SUPPORTED;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || flags > 1, INVALID_VALUE);
	CALLED(cuStreamCreate);
	return out == NULL ? INVALID_VALUE : cuStreamCreateWithPriority(out, flags, 0);
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)handle > 2, INVALID_HANDLE);
	CALLED(cuStreamGetFlags);
	if (flags == NULL)
		return INVALID_VALUE;
	IN_STREAM(handle, *flags = stream != context->legacy && !stream->blocking);
}

EXPORT CUresult cuStreamGetFlags_ptsz(CUstream handle, unsigned *flags) { return cuStreamGetFlags(own_stream(handle), flags); }

EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
	CALLED(cuStreamGetDevice);
	if (device == NULL)
		return INVALID_VALUE;
	IN_STREAM(handle, *device = stream->context->gpu);
}

EXPORT CUresult cuStreamGetDevice_ptsz(CUstream handle, CUdevice *device) { return cuStreamGetDevice(own_stream(handle), device); }

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)stream > 2, INVALID_HANDLE);
	CALLED(cuEventRecordWithFlags);
	return flags > 1 ? INVALID_VALUE : cuEventRecord(event, stream);
}

EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) { return cuEventRecordWithFlags(event, own_stream(stream), flags); }

/* The defaults of NVIDIA's driver: of the stack, of printf's queue, of the heap, of nested launches. */
EXPORT CUresult cuCtxGetLimit(size_t *value, int limit) {
	CALLED(cuCtxGetLimit);
	static const size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};
	struct context *context;
	LOCK;
	CUresult result = current_context(&context);
	if (result == SUCCESS && value == NULL)
		result = INVALID_VALUE;
	if (result == SUCCESS && (limit < 0 || (size_t)limit >= sizeof limits / sizeof *limits))
		result = UNSUPPORTED_LIMIT;
	if (result == SUCCESS)
		*value = limits[limit];
	UNLOCK;
	return result;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED(cuCtxGetFlags);
	struct context *context;
	LOCK;
	CUresult result = current_context(&context);
	if (result == SUCCESS && flags == NULL)
		result = INVALID_VALUE;
	if (result == SUCCESS)
		*flags = 0;
	UNLOCK;
	return result;
}

EXPORT CUresult cuCtxGetCacheConfig(int *config) {
	CALLED(cuCtxGetCacheConfig);
	struct context *context;
	LOCK;
	CUresult result = current_context(&context);
	if (result == SUCCESS && config == NULL)
		result = INVALID_VALUE;
	if (result == SUCCESS)
		*config = 0;
	UNLOCK;
	return result;
}

EXPORT CUresult cuCtxSetCacheConfig(int config) {
	CALLED(cuCtxSetCacheConfig);
	struct context *context;
	LOCK;
	CUresult result = current_context(&context);
	UNLOCK;
	return result == SUCCESS && (config < 0 || config > 3) ? INVALID_VALUE : result;
}

/* A context's number is its place in the order in which they were made. */
EXPORT CUresult cuCtxGetId(struct context *asked, unsigned long long *id) {
	REFUSE(ANY_TIME, id == NULL, INVALID_VALUE);
	CALLED(cuCtxGetId);
	struct context *context = asked;
	LOCK;
	CUresult result = asked == NULL ? current_context(&context) : INVALID_CONTEXT;
	const struct context *one = m->contexts;
	while (one != NULL && one != context)
		one = one->next;
	if (one != NULL && one->alive)
		result = id == NULL ? INVALID_VALUE : SUCCESS;
	if (result == SUCCESS)
		for (*id = 0; one != NULL; one = one->next)
			++*id;
	UNLOCK;
	return result;
}
