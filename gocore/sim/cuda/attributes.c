/* SPDX-License-Identifier: Apache-2.0 */
/* More questions about devices, contexts, streams and events. */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device);

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
	CALLED(cuDeviceComputeCapability);
	if (major == NULL || minor == NULL)
		return INVALID_VALUE;
	if (unknown_device(device))
		return INVALID_DEVICE;
	*major = m->gpu[device].major;
	*minor = m->gpu[device].minor;
	return SUCCESS;
}

/* [domain]:[bus]:[device].[function], without a function, or without a domain and a function. */
static int read_place(const char *text, unsigned place[4]) {
	memset(place, 0, 4 * sizeof *place);
	if (sscanf(text, "%x:%x:%x.%x", &place[0], &place[1], &place[2], &place[3]) >= 3)
		return 1;
	place[0] = 0;
	return sscanf(text, "%x:%x.%x", &place[1], &place[2], &place[3]) >= 2;
}

static int is_place(const char *text) {
	unsigned place[4];
	return read_place(text, place);
}

static int same_place(const char *a, const char *b) {
	unsigned x[4], y[4] = {0};
	if (!read_place(a, x))
		return 0;
	return sscanf(b, "%x:%x:%x.%x", &y[0], &y[1], &y[2], &y[3]) >= 3 && memcmp(x, y, sizeof x) == 0;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *id) {
	CALLED(cuDeviceGetByPCIBusId);
	char own[64];
	if (out == NULL || id == NULL || !is_place(id))
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
	return luid == NULL || mask == NULL ? INVALID_VALUE : unknown_device(device) ? INVALID_DEVICE : NOT_SUPPORTED;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || flags > 1, INVALID_VALUE);
	CALLED(cuStreamCreate);
	return cuStreamCreateWithPriority(out, flags, 0);
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamGetFlags);
	IN_STREAM(handle, {
		result = admits(stream);
		if (stream->capture != NULL) {
			stream->capture->spoiled = 1;
			result = STREAM_CAPTURE_UNSUPPORTED;
		}
		*flags = stream != context->legacy && !stream->blocking;
	});
}

EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
	CALLED(cuStreamGetDevice);
	if (device == NULL)
		return INVALID_VALUE;
	IN_STREAM(handle, *device = stream->context->gpu);
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
		result = SUCCESS;
	if (result == SUCCESS)
		for (*id = 0; one != NULL; one = one->next)
			++*id;
	UNLOCK;
	return result;
}
