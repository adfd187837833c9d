/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver calls for Go: one cgo call each. A call that needs a context makes it current and restores the thread's
 * previous context. Handles are numbers, because Go must not hold foreign pointers.
 *
 * machine is a simulated one (library.h), which is bound to the thread for the time of the call; NULL for the loaded
 * driver's own.
 */
#ifndef GPUCONF_CUDA_CALLS_H
#define GPUCONF_CUDA_CALLS_H

#include "cuda_abi.h"
#include "library.h"

#pragma GCC visibility push(hidden)

/* A result and the call's outputs. It is returned by value, so that Go allocates nothing for it. */
struct cuda_answer {
	CUresult result;
	uint64_t value, second;
};

struct cuda_memory {
	CUresult result;
	void *memory;
};

/* A visit to another context. */
struct cuda_visit {
	CUcontext caller, context;
	int pushed;
	struct simulated_binding binding;
};

struct cuda_description {
	CUdevice device;
	char name[256];
	char pci_bus_id[32];
	CUuuid uuid;     /* the card's */
	CUuuid instance; /* the MIG instance's if has_instance, else the card's */
	int has_instance;
	size_t total_bytes;
	int major, minor, multiprocessors;
	int stream_priorities, virtual_memory, stream_mem_ops, managed, oversubscribes, integrated, host_page_tables;
	uint64_t granularity; /* the minimum, of virtual memory; 0 if not supported */
};

/*
 * The calls that only pass their arguments on: the name, the parameters, and the call, in the words of calls.c. Copies
 * from the device are always done when cuMemcpyDtoH returns; the other synchronous ones are waited for.
 */
#define CUDACALLS(X) \
	X(init, (void *machine), cuda.cuInit(0)) \
	X(release, (void *machine, CUdevice device), cuda.cuDevicePrimaryCtxRelease(device)) \
	X(address_free, (void *machine, uint64_t addr, uint64_t bytes), RELAXED(cuda.cuMemAddressFree(addr, bytes))) \
	X(mem_release, (void *machine, uint64_t handle), RELAXED(cuda.cuMemRelease(handle))) \
	X(mem_map, (void *machine, uint64_t addr, uint64_t bytes, uint64_t handle), \
	    RELAXED(cuda.cuMemMap(addr, bytes, 0, handle, 0))) \
	X(mem_unmap, (void *machine, uint64_t addr, uint64_t bytes), RELAXED(cuda.cuMemUnmap(addr, bytes))) \
	X(mem_free, (void *machine, uint64_t context, uint64_t addr), IN_RELAXED(context, cuMemFree, addr)) \
	X(copy_to, (void *machine, uint64_t context, uint64_t dst, const void *src, uint64_t bytes), \
	    IN_DO(context, RELAXED(done(cuda.cuMemcpyHtoD(dst, src, bytes))))) \
	X(copy_from, (void *machine, uint64_t context, void *dst, uint64_t src, uint64_t bytes), \
	    IN_RELAXED(context, cuMemcpyDtoH, dst, src, bytes)) \
	X(fill, (void *machine, uint64_t context, uint64_t dst, uint8_t value, uint64_t bytes), \
	    IN_DO(context, RELAXED(done(cuda.cuMemsetD8(dst, value, bytes))))) \
	X(copy_from_async, (void *machine, uint64_t context, uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream), \
	    IN(context, cuMemcpyDtoHAsync, pointer_of(dst), src, bytes, stream_of(stream))) \
	X(copy_within_async, \
	    (void *machine, uint64_t context, uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream), \
	    IN(context, cuMemcpyDtoDAsync, dst, src, bytes, stream_of(stream))) \
	X(fill_async, (void *machine, uint64_t context, uint64_t dst, uint8_t value, uint64_t bytes, uint64_t stream), \
	    IN(context, cuMemsetD8Async, dst, value, bytes, stream_of(stream))) \
	X(host_free, (void *machine, uint64_t context, uint64_t addr), \
	    IN_RELAXED(context, cuMemFreeHost, pointer_of(addr))) \
	X(stream_destroy, (void *machine, uint64_t context, uint64_t stream), \
	    IN(context, cuStreamDestroy, stream_of(stream))) \
	X(stream_synchronize, (void *machine, uint64_t context, uint64_t stream), \
	    IN_RELAXED(context, cuStreamSynchronize, stream_of(stream))) \
	X(stream_query, (void *machine, uint64_t context, uint64_t stream), \
	    IN_RELAXED(context, cuStreamQuery, stream_of(stream))) \
	X(stream_wait_event, (void *machine, uint64_t context, uint64_t stream, uint64_t event), \
	    IN(context, cuStreamWaitEvent, stream_of(stream), event_of(event), 0)) \
	X(stream_write, (void *machine, uint64_t context, uint64_t stream, uint64_t addr, uint64_t value), \
	    IN(context, cuStreamWriteValue64, stream_of(stream), addr, value, STREAM_WRITE_VALUE_DEFAULT)) \
	X(stream_wait, (void *machine, uint64_t context, uint64_t stream, uint64_t addr, uint64_t value), \
	    IN(context, cuStreamWaitValue64, stream_of(stream), addr, value, CU_STREAM_WAIT_VALUE_GEQ)) \
	X(event_destroy, (void *machine, uint64_t context, uint64_t event), IN(context, cuEventDestroy, event_of(event))) \
	X(event_record, (void *machine, uint64_t context, uint64_t event, uint64_t stream), \
	    IN(context, cuEventRecord, event_of(event), stream_of(stream))) \
	X(event_synchronize, (void *machine, uint64_t context, uint64_t event), \
	    IN_RELAXED(context, cuEventSynchronize, event_of(event))) \
	X(event_query, (void *machine, uint64_t context, uint64_t event), \
	    IN_RELAXED(context, cuEventQuery, event_of(event))) \
	X(context_synchronize, (void *machine, uint64_t context), IN_DO(context, RELAXED(cuda.cuCtxSynchronize())))

#define PROTOTYPE(name, parameters, call) CUresult cudacall_##name parameters;
CUDACALLS(PROTOTYPE)
#undef PROTOTYPE

/* The calls that have an output: the name, the parameters, the output's type, and the call, which stores it in *out. */
#define CUDAANSWERS(X) \
	X(device_count, (void *machine), int, cuda.cuDeviceGetCount(out)) \
	X(retain, (void *machine, CUdevice device), CUcontext, cuda.cuDevicePrimaryCtxRetain(out, device)) \
	X(address_reserve, (void *machine, uint64_t bytes, uint64_t alignment), CUdeviceptr, \
	    RELAXED(cuda.cuMemAddressReserve(out, bytes, alignment, 0, 0))) \
	X(mem_create, (void *machine, uint64_t context, CUdevice device, uint64_t bytes), CUmemGenericAllocationHandle, \
	    IN_RELAXED(context, cuMemCreate, out, bytes, &PINNED_ON(device), 0)) \
	X(mem_alloc, (void *machine, uint64_t context, uint64_t bytes), CUdeviceptr, \
	    IN_RELAXED(context, cuMemAlloc, out, bytes)) \
	X(mem_alloc_managed, (void *machine, uint64_t context, uint64_t bytes), CUdeviceptr, \
	    IN_RELAXED(context, cuMemAllocManaged, out, bytes, CU_MEM_ATTACH_GLOBAL)) \
	X(stream_create, (void *machine, uint64_t context, unsigned int flags, int priority), CUstream, \
	    IN(context, cuStreamCreateWithPriority, out, flags, priority)) \
	X(stream_id, (void *machine, uint64_t context, uint64_t stream), unsigned long long, \
	    IN_RELAXED(context, cuStreamGetId, stream_of(stream), out)) \
	X(stream_priority, (void *machine, uint64_t context, uint64_t stream), int, \
	    IN(context, cuStreamGetPriority, stream_of(stream), out)) \
	X(event_create, (void *machine, uint64_t context), CUevent, \
	    IN(context, cuEventCreate, out, CU_EVENT_DISABLE_TIMING))

#define PROTOTYPE(name, parameters, type, call) struct cuda_answer cudacall_##name parameters;
CUDAANSWERS(PROTOTYPE)
#undef PROTOTYPE

/* Calls without a context. */
CUresult cudacall_describe(void *machine, int ordinal, struct cuda_description *out);
struct cuda_answer cudacall_granularity(void *machine, CUdevice device);

/* Enter a context and leave it, on the same thread. */
CUresult cudacall_enter(void *machine, uint64_t context, struct cuda_visit *visit);
void cudacall_leave(const struct cuda_visit *visit);

/* Calls with a context. */
struct cuda_answer cudacall_mem_info(void *machine, uint64_t context);
struct cuda_memory cudacall_host_alloc(void *machine, uint64_t context, uint64_t bytes);
#define CUDACALL_MOST_DEVICES 64
/* Whether a device can access another one's memory; 0 if the driver cannot say. */
int cudacall_can_access(void *machine, CUdevice device, CUdevice memory);
CUresult cudacall_set_access(
    void *machine, uint64_t context, const CUdevice *devices, int count, uint64_t addr, uint64_t bytes);
struct cuda_answer cudacall_capture_info(void *machine, uint64_t context, uint64_t stream); /* the id, 0 for none */
void *cudacall_capture_info_function(void);
struct cuda_memory cudacall_capture_life(void *machine, uint64_t context,
    uint64_t stream); /* a word that becomes 1 when the graph's lifetime ends; free it then */

#pragma GCC visibility pop

#endif
