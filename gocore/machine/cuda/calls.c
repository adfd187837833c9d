// SPDX-License-Identifier: Apache-2.0
// go:build cgo && linux && (amd64 || arm64)

#include "calls.h"

#include "constants.h"
#include "library.h"

#include <stdlib.h>

/* BOUND binds a machine to the thread until the end of the block. */
#define BOUND(machine) \
	__attribute__((cleanup(simulated_unbind))) const struct simulated_binding bound_ = simulated_bind(machine)

/* CALL calls a function of the table, or returns MISSING if the driver lacks it. */
#define CALL(field, ...) (cuda.field != NULL ? cuda.field(__VA_ARGS__) : MISSING(field))

/* IN calls a function with context current on the thread. It returns the call's own result. */
#define IN(context, field, ...) IN_DO(context, CALL(field, __VA_ARGS__))

#define IN_DO(context, call) \
	__extension__({ \
		struct cuda_visit visit_; \
		CUresult result_ = enter((CUcontext)(uintptr_t)(context), &visit_); \
		if (result_ == 0) { \
			result_ = (call); \
			leave(&visit_); \
		} \
		result_; \
	})

static CUresult enter(CUcontext context, struct cuda_visit *visit) {
	visit->context = context;
	visit->pushed = 0;
	CUresult result = cuda.cuCtxGetCurrent(&visit->caller);
	if (result != 0 || visit->caller == context)
		return result;
	result = cuda.cuCtxPushCurrent(context);
	visit->pushed = result == 0;
	return result;
}

/*
 * Any function may return a failure of work queued earlier although it succeeded itself. So after a failure, check the
 * current context to see whether to try again. Setting the caller's context is the last resort. If that fails too, the
 * call's own result is still returned: the caller must know whether the call succeeded.
 */
static void leave(const struct cuda_visit *visit) {
	CUcontext now;
	for (int tries = visit->pushed ? 2 : 0; tries > 0; tries--) {
		if (cuda.cuCtxPopCurrent(&now) == 0 || (cuda.cuCtxGetCurrent(&now) == 0 && now != visit->context))
			return;
	}
	if (visit->pushed)
		(void)cuda.cuCtxSetCurrent(visit->caller);
}

/*
 * CUDA may refuse allocations and queries of progress while any thread captures a stream, in case the caller expects
 * them to be captured too. Ours are not meant to be: they are made in relaxed mode, and the thread's mode is restored
 * afterwards.
 */
#define RELAXED(call) \
	__extension__({ \
		int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; \
		CUresult answer_ = cuda.cuThreadExchangeStreamCaptureMode(&mode_); \
		if (answer_ == 0) { \
			answer_ = (call); \
			if (cuda.cuThreadExchangeStreamCaptureMode(&mode_) != 0) \
				(void)cuda.cuThreadExchangeStreamCaptureMode(&mode_); /* its result reports an earlier failure */ \
		} \
		answer_; \
	})

#define IN_RELAXED(context, field, ...) IN_DO(context, RELAXED(CALL(field, __VA_ARGS__)))

static CUstream stream_of(uint64_t number) { return (CUstream)(uintptr_t)number; }
static CUevent event_of(uint64_t number) { return (CUevent)(uintptr_t)number; }
static void *pointer_of(uint64_t number) { return (void *)(uintptr_t)number; }

/* A synchronous call may return before its work is done; done waits for it, in the legacy default stream. */
static CUresult done(CUresult queued) { return queued != 0 ? queued : cuda.cuStreamSynchronize(NULL); }

#define DEFINE(name, parameters, call) \
	CUresult cudacall_##name parameters { \
		BOUND(machine); \
		return call; \
	}
CUDACALLS(DEFINE)
#undef DEFINE

#define PINNED_ON(device) \
	(CUmemAllocationProp) { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, device} }

#define DEFINE(name, parameters, type, call) \
	struct cuda_answer cudacall_##name parameters { \
		BOUND(machine); \
		type output = 0, *out = &output; \
		CUresult result = call; \
		return (struct cuda_answer){result, (uint64_t)(intptr_t)output, 0}; \
	}
CUDAANSWERS(DEFINE)
#undef DEFINE

CUresult cudacall_enter(void *machine, uint64_t context, struct cuda_visit *visit) {
	visit->binding = simulated_bind(machine);
	CUresult result = enter((CUcontext)(uintptr_t)context, visit);
	if (result != 0)
		simulated_unbind(&visit->binding);
	return result;
}

void cudacall_leave(const struct cuda_visit *visit) {
	leave(visit);
	simulated_unbind(&visit->binding);
}

/* An attribute that an old driver does not know is a feature that it does not support. */
static int supports(CUdevice device, int attribute) {
	int value = 0;
	return cuda.cuDeviceGetAttribute(&value, attribute, device) == 0 && value != 0;
}

struct cuda_answer cudacall_granularity(void *machine, CUdevice device) {
	BOUND(machine);
	CUmemAllocationProp prop = PINNED_ON(device);
	size_t minimum = 0, recommended = 0;
	CUresult result = cuda.cuMemGetAllocationGranularity(&minimum, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (result == 0)
		result = cuda.cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	return (struct cuda_answer){result, minimum, recommended};
}

CUresult cudacall_describe(void *machine, int ordinal, struct cuda_description *out) {
	BOUND(machine);
	CUresult result = cuda.cuDeviceGet(&out->device, ordinal);
	CUdevice device = out->device;
	if (result == 0)
		result = cuda.cuDeviceGetName(out->name, (int)sizeof out->name, device);
	if (result == 0)
		result = cuda.cuDeviceGetPCIBusId(out->pci_bus_id, (int)sizeof out->pci_bus_id, device);
	if (result == 0)
		result = cuda.cuDeviceGetUuid(&out->uuid, device);
	if (result == 0)
		result = cuda.cuDeviceTotalMem(&out->total_bytes, device);
	if (result == 0)
		result = cuda.cuDeviceGetAttribute(&out->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	if (result == 0)
		result = cuda.cuDeviceGetAttribute(&out->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	if (result == 0)
		result = cuda.cuDeviceGetAttribute(&out->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	if (result == 0 && cuda.cuDeviceGetUuid_v2 != NULL) {
		result = cuda.cuDeviceGetUuid_v2(&out->instance, device);
		out->has_instance = result == 0;
	}
	if (result != 0)
		return result;
	out->stream_priorities = supports(device, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
	out->virtual_memory = supports(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	out->stream_mem_ops = cuda.cuStreamWriteValue64 != NULL && cuda.cuStreamWaitValue64 != NULL &&
	                      supports(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
	out->managed = supports(device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
	out->oversubscribes = out->managed && supports(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
	out->integrated = supports(device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
	out->host_page_tables = supports(device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	if (out->virtual_memory) {
		struct cuda_answer granularity = cudacall_granularity(machine, device);
		out->granularity = granularity.value;
		result = granularity.result;
	}
	return result;
}

int cudacall_can_access(void *machine, CUdevice device, CUdevice memory) {
	BOUND(machine);
	int can = 0;
	return cuda.cuDeviceCanAccessPeer(&can, device, memory) == 0 && can;
}

CUresult cudacall_set_access(
    void *machine, uint64_t context, const CUdevice *devices, int count, uint64_t addr, uint64_t bytes) {
	BOUND(machine);
	CUmemAccessDesc access[CUDACALL_MOST_DEVICES];
	for (int i = 0; i < count; i++)
		access[i] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, devices[i]}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return IN_RELAXED(context, cuMemSetAccess, addr, bytes, access, (size_t)count);
}

struct cuda_answer cudacall_mem_info(void *machine, uint64_t context) {
	BOUND(machine);
	size_t free = 0, total = 0;
	CUresult result = IN(context, cuMemGetInfo, &free, &total);
	return (struct cuda_answer){result, free, total};
}

struct cuda_memory cudacall_host_alloc(void *machine, uint64_t context, uint64_t bytes) {
	BOUND(machine);
	void *memory = NULL;
	CUresult result =
	    IN_RELAXED(context, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	return (struct cuda_memory){result, memory};
}

struct cuda_answer cudacall_capture_info(void *machine, uint64_t context, uint64_t stream) {
	BOUND(machine);
	int status = CU_STREAM_CAPTURE_STATUS_NONE;
	uint64_t id = 0;
	CUresult result = IN(context, cuStreamGetCaptureInfo, stream_of(stream), &status, &id);
	return (struct cuda_answer){result, status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : id, 0};
}

void *cudacall_capture_info_function(void) { return (void *)cuda.cuStreamGetCaptureInfo; }

/* The driver calls this from its own thread. It must not call CUDA. */
static void end_life(void *life) { __atomic_store_n((int32_t *)life, 1, __ATOMIC_SEQ_CST); }

/* The graph holds a user object, which is destroyed with the graph and everything made from it. */
static CUresult hold(CUstream stream, int32_t *life) {
	int status = CU_STREAM_CAPTURE_STATUS_NONE;
	uint64_t id;
	CUgraph graph = NULL;
	CUuserObject object = NULL;
	/* Not the dependencies: where their edges have data, as between overlapping kernels, a query of them alone is an
	 * error. */
	CUresult result = CALL(cuStreamGetCaptureInfo_v2, stream, &status, &id, &graph, NULL, NULL);
	if (result == 0 && status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		result = STREAM_CAPTURE_INVALIDATED;
	if (result == 0)
		result = CALL(cuUserObjectCreate, &object, life, end_life, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	if (result != 0)
		return result;
	result = CALL(cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
	if (result != 0 && CALL(cuUserObjectRelease, object, 1) != 0)
		(void)CALL(cuUserObjectRelease, object, 1);
	return result;
}

struct cuda_memory cudacall_capture_life(void *machine, uint64_t context, uint64_t stream) {
	BOUND(machine);
	int32_t *life = calloc(1, sizeof *life);
	if (life == NULL)
		return (struct cuda_memory){OUT_OF_HOST_MEMORY, NULL};
	CUresult result = IN_DO(context, hold(stream_of(stream), life));
	return (struct cuda_memory){result, life}; /* after a failure the word is leaked: the driver may still write it */
}
