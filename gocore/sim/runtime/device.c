/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, their properties, contexts and errors of the CUDA runtime
 * (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html and group__CUDART__ERROR.html).
 *
 * The chosen device and the last error are the thread's. A device's primary context is retained at its first use, by
 * whichever thread comes first, and never released: `primary` is read and written without a lock, as all threads
 * write the same.
 */
#include "runtime.h"

#include "../../machine/cuda/constants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 64 };

struct versions versions = {12080, 91002, 22705, 120804};

static __thread int last_error, chosen;

/* The runtime works in the primary context of each device, and keeps it. */
static void *primary[MOST_DEVICES];

/* Called before PyTorch is loaded, so that no thread reads the versions meanwhile. */
EXPORT void gpuconf_runtime_versions(int cuda, int cudnn, int nccl, int cublas) {
	versions = (struct versions){cuda, cudnn, nccl, cublas};
}

int keep(int result) {
	if (result != SUCCESS)
		last_error = result;
	return result;
}

/* The driver says what is wrong with a device that does not exist: here only the list must not be left. */
static int enter(int device) {
	int result = cuInit(0);
	void *context = device >= 0 && device < MOST_DEVICES ? __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE) : NULL;
	if (result == SUCCESS && context == NULL) {
		result = cuDevicePrimaryCtxRetain(&context, device);
		if (result == SUCCESS)
			__atomic_store_n(&primary[device], context, __ATOMIC_RELEASE);
	}
	return result == SUCCESS ? cuCtxSetCurrent(context) : result;
}

/* A context that the program has made current itself is used as it is, as the CUDA runtime does. */
int begin(void) {
	void *context = NULL;
	return cuCtxGetCurrent(&context) == SUCCESS && context != NULL ? SUCCESS : enter(chosen);
}

/* Of the current context's device, and without one of the chosen one. */
int attribute_here(int attribute) {
	int device = chosen, value = 0;
	cuCtxGetDevice(&device);
	return cuDeviceGetAttribute(&value, attribute, device) == SUCCESS ? value : 0;
}

/* Reading it clears it; cudaPeekAtLastError does not. */
EXPORT int cudaGetLastError(void) {
	int result = last_error;
	last_error = SUCCESS;
	return result;
}

EXPORT int cudaPeekAtLastError(void) { return last_error; }

EXPORT const char *cudaGetErrorString(int error) {
	const char *text = NULL;
	if (error == INVALID_CONFIGURATION)
		return "invalid configuration argument";
	return cuGetErrorString(error, &text) == SUCCESS && text != NULL ? text : "unrecognized error code";
}

STATUS_TEXTS(cudaGetErrorName, "unrecognized error code", {SUCCESS, "cudaSuccess"},
    {INVALID_VALUE, "cudaErrorInvalidValue"}, {2, "cudaErrorMemoryAllocation"}, {3, "cudaErrorInitializationError"},
    {INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration"}, {100, "cudaErrorNoDevice"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice"}, {400, "cudaErrorInvalidResourceHandle"}, {600, "cudaErrorNotReady"},
    {700, "cudaErrorIllegalAddress"}, {704, "cudaErrorPeerAccessAlreadyEnabled"},
    {NOT_SUPPORTED, "cudaErrorNotSupported"}, {900, "cudaErrorStreamCaptureUnsupported"},
    {901, "cudaErrorStreamCaptureInvalidated"}, {906, "cudaErrorStreamCaptureImplicit"}, {999, "cudaErrorUnknown"})

EXPORT int cudaDriverGetVersion(int *version) { return keep(cuDriverGetVersion(version)); }

EXPORT int cudaRuntimeGetVersion(int *version) {
	if (version == NULL)
		return keep(INVALID_VALUE);
	*version = versions.cuda;
	return SUCCESS;
}

/* Functions of the driver that need it started, and no context. */
#define STARTED(name, call, ...) \
	EXPORT int name(__VA_ARGS__) { \
		int result = cuInit(0); \
		return keep(result != SUCCESS ? result : (call)); \
	}
STARTED(cudaGetDeviceCount, cuDeviceGetCount(count), int *count)
STARTED(cudaDeviceGetAttribute, cuDeviceGetAttribute(value, attribute, device), int *value, int attribute, int device)
STARTED(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer(can, device, peer), int *can, int device, int peer)

/* The device of the current context, which may be another than was chosen. */
EXPORT int cudaGetDevice(int *device) {
	void *context = NULL;
	if (device == NULL)
		return keep(INVALID_VALUE);
	*device = chosen;
	return cuCtxGetCurrent(&context) == SUCCESS && context != NULL ? keep(cuCtxGetDevice(device)) : SUCCESS;
}

/* From CUDA 12 on it makes the context at once. */
EXPORT int cudaSetDevice(int device) {
	int result = enter(device);
	if (result == SUCCESS)
		chosen = device;
	return keep(result);
}

EXPORT int cudaDeviceGetPCIBusId(char *text, int room, int device) {
	return keep(cuDeviceGetPCIBusId(text, room, device));
}

/* Makes the peer's context, if there is none, and stays in the thread's own. */
static int reach(int peer) {
	void *here = NULL;
	int result = begin();
	if (result == SUCCESS && (result = cuCtxGetCurrent(&here)) == SUCCESS && (result = enter(peer)) == SUCCESS)
		cuCtxSetCurrent(here);
	return result;
}

#define PEER_ACCESS(name, call, ...) \
	EXPORT int name(__VA_ARGS__) { \
		int result = reach(peer); \
		return keep(result != SUCCESS ? result : (call)); \
	}
PEER_ACCESS(cudaDeviceEnablePeerAccess, cuCtxEnablePeerAccess(primary[peer], flags), int peer, unsigned flags)
PEER_ACCESS(cudaDeviceDisablePeerAccess, cuCtxDisablePeerAccess(primary[peer]), int peer)

EXPORT int cudaDeviceSynchronize(void) { IN_CONTEXT(cuCtxSynchronize()); }

/* The name says that the card is simulated, for all who print it; some programs compare names. */
static void name_of(char *name, int room, int device) {
	static const char suffix[] = " (simulated)";
	const char *plain = getenv("GPUCONF_SIMULATE_PLAIN_NAMES");
	cuDeviceGetName(name, room - (int)sizeof suffix, device);
	if (plain == NULL || strcmp(plain, "1") != 0)
		strcat(name, suffix);
}

/* Both layouts begin with the name, the UUID at 256 and the memory at 288. */
static int properties(char *out, size_t bytes, int twelve, int device) {
	static const struct {
		int attribute, bytes, offset[2];
	} fields[] = {
#define PROPERTY(attribute, bytes, in_12, in_13) {CU_DEVICE_ATTRIBUTE_##attribute, bytes, {in_12, in_13}},
#include "properties.h"
#undef PROPERTY
	};
	int count = 0, value, result = cuInit(0);
	size_t total, wide;
	if (result == SUCCESS)
		result = cuDeviceGetCount(&count);
	if (result == SUCCESS && out == NULL)
		result = INVALID_VALUE;
	if (result == SUCCESS && (device < 0 || device >= count))
		result = INVALID_DEVICE;
	if (result != SUCCESS)
		return result;
	memset(out, 0, bytes);
	name_of(out, 256, device);
	cuDeviceGetUuid(out + 256, device);
	cuDeviceTotalMem_v2(&total, device);
	memcpy(out + 288, &total, sizeof total);
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		int offset = fields[i].offset[!twelve];
		if (offset < 0 || cuDeviceGetAttribute(&value, fields[i].attribute, device) != SUCCESS)
			continue;
		wide = (size_t)value;
		memcpy(out + offset, fields[i].bytes == 8 ? (void *)&wide : (void *)&value, (size_t)fields[i].bytes);
	}
	return SUCCESS;
}

EXPORT int cudaGetDeviceProperties_v2(char *out, int device) { return keep(properties(out, 1032, 1, device)); }

/* CUDA 12's function of this name has an older layout, which PyTorch does not use. */
EXPORT int cudaGetDeviceProperties(char *out, int device) {
	return keep(versions.cuda < 13000 ? NOT_SUPPORTED : properties(out, 1008, 0, device));
}

EXPORT int cudaGetDriverEntryPointByVersion(
    const char *symbol, void **function, unsigned version, unsigned long long flags, int *status) {
	return keep(cuGetProcAddress_v2(symbol, function, (int)version, flags, status));
}

EXPORT int cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, int *status) {
	return cudaGetDriverEntryPointByVersion(symbol, function, (unsigned)versions.cuda, flags, status);
}
