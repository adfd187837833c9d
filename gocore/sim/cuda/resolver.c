/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program asks of the driver itself: its functions by name and version (cuGetProcAddress), those that are
 * another one under an older name, and the names and texts of errors.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_THREAD_STREAM 2

/* The forms of each base name, in the order of their versions. */
enum streams { ANY, LEGACY, PER_THREAD };
static const struct form {
	const char *base, *exported;
	int version;
	enum streams streams;
} forms[] = {
#define FORM(base, exported, version, streams) {#base, #exported, version, streams},
#define UNRESOLVED(exported) {"", #exported, 0, ANY},
#include "functions.h"
};

/* The library stays loaded, and so may its handle. Looking for itself takes the loader as long as a hundred names. */
static void *exported_as(const char *name) {
	static void *library;
	void *known = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
	Dl_info self;
	if (known == NULL && dladdr((void *)enter_machine, &self) != 0) {
		known = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		__atomic_store_n(&library, known, __ATOMIC_RELEASE);
	}
	return known != NULL ? dlsym(known, name) : NULL;
}

enum found { FOUND, UNKNOWN_NAME, VERSION_TOO_OLD };

/*
 * The newest form that the driver has in the requested version, which may be above the driver's own; a negative one is
 * the newest. Exported names with a suffix are not base names. A form that the build hides is missing: an older one
 * does not stand in for it. Functions that a build adds are there in every version.
 */
static enum found find(const char *symbol, void **function, int version, uint64_t flags) {
	enum found found = UNKNOWN_NAME;
	enum streams unwanted = flags & PER_THREAD_STREAM ? LEGACY : PER_THREAD;
	int driver = driver_version(), added = strncmp(symbol, "cu", 2) == 0 && strchr(symbol, '_') == NULL;
	void *newest = NULL;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		const struct form *form = &forms[i];
		if (added && strcmp(form->exported, symbol) == 0)
			added = 0;
		if (strcmp(form->base, symbol) != 0 || *symbol == '\0' || form->version > driver)
			continue;
		void *there = exported_as(form->exported);
		if (there != NULL && found == UNKNOWN_NAME)
			found = VERSION_TOO_OLD;
		if (form->streams != unwanted && (unsigned)form->version <= (unsigned)version)
			newest = there;
	}
	if (added)
		newest = exported_as(symbol);
	if (newest == NULL)
		return found;
	*function = hooks_entry(newest);
	return FOUND;
}

/* Works before cuInit, too. The first form of the query leaves the pointer alone where it finds nothing, the second one
 * sets it to NULL. */
static CUresult resolve(const char *symbol, void **function, int version, uint64_t flags, enum found *found) {
	TRY(called("cuGetProcAddress", 0));
	if (symbol == NULL || flags > 3)
		return INVALID_VALUE;
	if (driver_version() >= 13000 && version > driver_version()) /* older drivers answer as for their own version */
		return INVALID_VALUE;
	*found = find(symbol, function, version, flags);
	return SUCCESS;
}

/* Without a status to write, what is not found is an error. */
EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
	enum found found = UNKNOWN_NAME;
	void *answer = NULL;
	TRY(driver_version() < 11030 ? not_done("cuGetProcAddress") : resolve(symbol, &answer, version, flags, &found));
	if (found != FOUND)
		return NOT_FOUND;
	NEED(function);
	*function = answer;
	return SUCCESS;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
	enum found found = UNKNOWN_NAME;
	void *answer = NULL;
	CUresult result = INVALID_VALUE;
	if (driver_version() < 12000)
		result = not_done("cuGetProcAddress_v2");
	else if (function != NULL)
		result = resolve(symbol, &answer, version, flags, &found);
	if (result == INVALID_VALUE && symbol != NULL && flags <= 3 && status != NULL)
		*status = 0;
	if (result == SUCCESS) {
		*function = answer;
		if (status != NULL)
			*status = (int)found;
	}
	return result;
}

/*
 * Functions that are another one with the thread's own default stream, and old forms with the arguments of the new
 * ones. Old forms with addresses of 32 bits have no memory here that they could name, so they are not done.
 */

struct copy3d;
struct function;
struct instantiation;
struct operation;

#define SAME(name, other, parameters, arguments) \
	CUresult other parameters; \
	EXPORT CUresult name parameters { return other arguments; }

SAME(cuEventDestroy, cuEventDestroy_v2, (CUevent event), (event))
SAME(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream), (stream))
SAME(cuMemHostRegister, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))

SAME(cuEventRecord_ptsz, cuEventRecord, (CUevent event, CUstream stream), (event, own_stream(stream)))
SAME(cuStreamQuery_ptsz, cuStreamQuery, (CUstream stream), (own_stream(stream)))
SAME(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
    (own_stream(stream), event, flags))
SAME(cuStreamGetCtx_ptsz, cuStreamGetCtx, (CUstream stream, CUcontext *out), (own_stream(stream), out))
SAME(cuStreamGetId_ptsz, cuStreamGetId, (CUstream stream, unsigned long long *out), (own_stream(stream), out))
SAME(cuStreamGetPriority_ptsz, cuStreamGetPriority, (CUstream stream, int *out), (own_stream(stream), out))
SAME(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, (CUstream stream, int mode), (own_stream(stream), mode))
SAME(cuStreamEndCapture_ptsz, cuStreamEndCapture, (CUstream stream, CUgraph *graph), (own_stream(stream), graph))

SAME(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemsetD8Async_ptsz, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream),
    (to, value, bytes, own_stream(stream)))
SAME(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync, (CUdeviceptr addr, size_t bytes, CUdevice device, CUstream stream),
    (addr, bytes, device, own_stream(stream)))
SAME(cuStreamGetFlags_ptsz, cuStreamGetFlags, (CUstream handle, unsigned *flags), (own_stream(handle), flags))
SAME(cuStreamGetDevice_ptsz, cuStreamGetDevice, (CUstream handle, CUdevice *device), (own_stream(handle), device))
SAME(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2,
    (CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **dependencies, size_t *count),
    (own_stream(handle), status, id, graph, dependencies, count))
SAME(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3,
    (CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **dependencies, const void **edges,
        size_t *count),
    (own_stream(handle), status, id, graph, dependencies, edges, count))
SAME(cuStreamIsCapturing_ptsz, cuStreamIsCapturing, (CUstream handle, int *status), (own_stream(handle), status))
SAME(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams,
    (CUgraphExec * out, CUgraph graph, struct instantiation *params), (out, graph, params))
SAME(cuGraphUpload_ptsz, cuGraphUpload, (CUgraphExec exec, CUstream handle), (exec, own_stream(handle)))
SAME(cuGraphLaunch_ptsz, cuGraphLaunch, (CUgraphExec exec, CUstream handle), (exec, own_stream(handle)))
SAME(cuMemcpyAsync_ptsz, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, own_stream(stream)))
SAME(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync,
    (CUdeviceptr to, struct context *to_context, CUdeviceptr from, struct context *from_context, size_t bytes,
        CUstream stream),
    (to, to_context, from, from_context, bytes, own_stream(stream)))
SAME(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync, (const struct copy3d *copy, CUstream stream),
    (copy, own_stream(stream)))
SAME(cuLaunchKernel_ptsz, cuLaunchKernel,
    (struct function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
        unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **extra),
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, own_stream(stream), arguments, extra))
SAME(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel,
    (struct function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
        unsigned block_z, unsigned shared, CUstream stream, void **arguments),
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, own_stream(stream), arguments))
SAME(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp_v2,
    (CUstream handle, unsigned count, const struct operation *list, unsigned flags),
    (own_stream(handle), count, list, flags))
SAME(cuStreamSynchronize_ptsz, cuStreamSynchronize, (CUstream handle), (own_stream(handle)))
SAME(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, (CUevent event, CUstream handle, unsigned flags),
    (event, own_stream(handle), flags))
SAME(cuMemAllocAsync_ptsz, cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream stream),
    (out, bytes, own_stream(stream)))
SAME(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync,
    (CUdeviceptr * out, size_t bytes, struct pool *pool, CUstream stream), (out, bytes, pool, own_stream(stream)))
SAME(cuMemFreeAsync_ptsz, cuMemFreeAsync, (CUdeviceptr addr, CUstream stream), (addr, own_stream(stream)))

/* Names and texts of errors. */

static const struct error {
	int number, since; /* the first driver version of those recorded that knows it */
	const char *name, *text;
} errors[] = {
#define ERROR(number, since, name, text) {number, since, #name, text},
#include "errors.h"
};

/* What a driver of this version does not know has neither a name nor a text. */
static const struct error unknown = {0, 0, NULL, NULL};

/* A driver's texts do not change, so one list serves all versions. */
static const struct error *find_error(int number) {
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].number == number && errors[i].since <= driver_version())
			return &errors[i];
	return &unknown;
}

#define OF_ERROR(function, field) \
	EXPORT CUresult function(int number, const char **field) { \
		if (field == NULL) \
			return INVALID_VALUE; \
		const struct error *error = find_error(number); \
		*field = error->field; \
		return error != &unknown ? SUCCESS : INVALID_VALUE; \
	}
OF_ERROR(cuGetErrorName, name)
OF_ERROR(cuGetErrorString, text)

/*
 * The tables are not public, and the simulator has none. NVIDIA's driver answers so for an identifier that it does not
 * know. NVIDIA's CUDA runtime requests them at its start, and then fails with an error that names nothing, as in CuPy.
 */
EXPORT CUresult cuGetExportTable(const void **table, const unsigned char *identifier) {
	static int said;
	CUresult result = called("cuGetExportTable", 0);
	(void)table, (void)identifier;
	if (result == SUCCESS && !__atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
		fprintf(stderr, "gpuconf: NVIDIA's CUDA runtime, which this program contains or loads, does not start on "
		                "simulated GPUs: it requests "
		                "cuGetExportTable of the driver, which is not documented. docs/simulation.md names the "
		                "libraries that run\n");
	return result != SUCCESS ? result : INVALID_VALUE;
}
