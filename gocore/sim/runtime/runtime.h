/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the CUDA libraries that PyTorch imports: the CUDA runtime over the simulated driver, and libraries that
 * compute nothing. Memory, streams, events and graphs are the driver's. A launch has no effect, except that it is a
 * node of a graph under capture.
 *
 * It is loaded with RTLD_GLOBAL after the simulated libcuda.so.1, whose functions it uses, and before PyTorch
 * (simulation/stand_ins.py).
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../lease/budget/budget.h"

#define EXPORT __attribute__((visibility("default")))

/* CUDA's numbers: the driver's and the runtime's are equal for these. */
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONFIGURATION = 9, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

struct dim3 {
	unsigned x, y, z;
};

/* cudaIpcMemHandle_t and cudaIpcEventHandle_t, which are the driver's. */
struct ipc_bytes {
	char reserved[64];
};

/* The versions of the libraries that this PyTorch was built for. */
struct versions {
	int cuda, cudnn, nccl, cublas;
};
extern struct versions versions;

/* libraries.c: no thread has these at a fork, so that no child waits for one for ever. None is taken under another one,
 * in this order. */
extern pthread_mutex_t cudnn_lock, kernels_lock, names_lock;

/* Remembers an error for cudaGetLastError, and returns it. */
int keep(int result);

/* Makes the primary context of the thread's device current, unless a context is. */
int begin(void);

/* Ends a function with a refusal if it has not all of its pointers. */
#define NEED(pointers, refusal) \
	do { \
		if (!(pointers)) \
			return (refusal); \
	} while (0)

/* Ends a function with a call that needs a context. */
#define IN_CONTEXT(call) \
	int result = begin(); \
	return keep(result != SUCCESS ? result : (call))

/* Copies in a stream's order. Host memory that is not page-locked is copied before the call returns, as CUDA may. */
int copy_async(void *to, const void *from, size_t bytes, void *stream);

/* The value of an attribute of the current device; 0 if it has none. */
int attribute_here(int attribute);

/* Notes a function that does nothing but return that it is not supported, once for each name. */
void not_done(const char *name);

/* The driver's, but for what streams.c declares. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetErrorString(int result, const char **text);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int room, int device);
int cuDeviceGetUuid(void *uuid, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetPCIBusId(char *text, int room, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuCtxGetDevice(int *device);
int cuCtxSynchronize(void);
int cuCtxEnablePeerAccess(void *context, unsigned flags);
int cuCtxDisablePeerAccess(void *context);
int cuMemAlloc_v2(void **out, size_t bytes);
int cuMemFree_v2(void *address);
int cuMemFreeHost(void *address);
int cuMemcpy(void *to, const void *from, size_t bytes);
int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream);
int cuMemsetD8_v2(void *to, unsigned char value, size_t bytes);
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream);
int cuPointerGetAttribute(void *out, int attribute, const void *address);
int cuStreamCreateWithPriority(void **out, unsigned flags, int priority);
int cuStreamSynchronize(void *stream);
int cuStreamIsCapturing(void *stream, int *status);
int cuStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void **dependencies,
    const void **edges, size_t *count);
int cuStreamUpdateCaptureDependencies(void *stream, void *dependencies, size_t count, unsigned flags);
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
int cuEventCreate(void **out, unsigned flags);
int cuGraphLaunch(void *executable, void *stream);
int cuMemPrefetchAsync(const void *address, size_t bytes, int device, void *stream);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

/* What computes on a card, and the interface by which Python says that it computes instead. The library exports
 * gpuconf_runtime_*. */
/* 1 begins and 0 ends a part of this thread in which the caller computes the values itself. Parts nest. */
void gpuconf_runtime_mark(int on);

/*
 * What Python keeps of this thread, at the address that gpuconf_runtime_mark_address returns. marks is the count of
 * such parts. While PyTorch's kernel for CUDA runs only to allocate, the thread is quiet: copies and fills leave the
 * card's memory as it is, because the CPU computes from what it held before. Nothing has written then what the host
 * reads: such reads are refused, and counted in missed, unless gpuconf_runtime_answer has a value.
 */
enum { QUIET_BUT_READS = 1, QUIET = 2 };
extern __thread struct thread_state {
	int marks, quiet, missed;
} thread_state;
void *gpuconf_runtime_mark_address(void);

/* The address of the count of pieces of work in the queues of all streams, a uint32_t. */
const void *gpuconf_runtime_queued_address(void);

/* Makes memory of a simulated GPU zero. Where that is much, the host need not have it until something is written. */
void gpuconf_runtime_clear(void *memory, size_t bytes);

/* How many launches and library calls computed nothing although their thread was not marked. */
uint64_t gpuconf_runtime_unmarked(void);

/* The name and the count of the nth of their functions, from 0. Returns 1 when there are no more. A kernel's name is as
 * in its source. */
int gpuconf_runtime_unmarked_name(unsigned index, char *name, size_t room, uint64_t *count);

/* Is called at the first such call of each function, or at each one if they are errors, in the thread that calls. NULL:
 * none. */
void gpuconf_runtime_on_unmarked(void (*callback)(const char *name));

/* Whether they are errors: cudaErrorNotSupported, or the library's status for what is not supported. */
void gpuconf_runtime_strict(int on);

/*
 * Is called after each launch of a graph (a cudaGraphExec_t), in the thread that launches; the work may not have run.
 * The launch is not counted then. NULL: none.
 */
void gpuconf_runtime_on_graph_launch(void (*callback)(void *executable));

/*
 * Is called for each group of NCCL's operations under capture, with what gpuconf_runtime_collective takes to do it,
 * whenever the graph's other operations are computed. NULL: the graph does it when it is launched.
 */
void gpuconf_runtime_on_captured_collective(void (*callback)(void *batch));
void gpuconf_runtime_collective(void *batch);

int marked(void);

/* Counts a function, whose name stays, unless the thread is marked. Returns NOT_SUPPORTED if that is an error. */
int computes(const char *function);

/* A copy of a name, which stays. For a name that computes is called with next. */
const char *counted_name(const char *text);

/* The driver's: calls a function before each launch, outside its lock; another value than 0 is the launch's result. */
void gpuconf_simulator_on_launch(int (*hook)(const char *kernel));
const uint32_t *gpuconf_simulator_queued(void);
void gpuconf_simulator_clear(uint64_t addr, uint64_t bytes);

/*
 * Functions of which only some arguments are read, by their place. Integers and addresses are passed alike, each in a
 * register or 8 bytes of the stack, so a0 is the first argument; the upper half of an int has no meaning. None of these
 * functions takes a floating-point number.
 */
#define ARGUMENT __attribute__((unused)) uintptr_t
#define ARGUMENTS \
	ARGUMENT a0, ARGUMENT a1, ARGUMENT a2, ARGUMENT a3, ARGUMENT a4, ARGUMENT a5, ARGUMENT a6, ARGUMENT a7, \
	    ARGUMENT a8, ARGUMENT a9, ARGUMENT a10, ARGUMENT a11, ARGUMENT a12, ARGUMENT a13, ARGUMENT a14, ARGUMENT a15, \
	    ARGUMENT a16, ARGUMENT a17, ARGUMENT a18, ARGUMENT a19, ARGUMENT a20, ARGUMENT a21

/* Writes 0 to a place of the caller's. */
#define NOTHING_TO(type, argument) (*(type *)(argument) = 0)

/* A library's handle: calls follow a stream. */
struct follower {
	void *stream;
	int mode, math;
};

/* Fills results on the card with zeros, in the stream's order: one int that says that a solver succeeded, for each
 * matrix. */
int succeed(const struct follower *handle, uintptr_t info, int64_t count);

/* Allocates a handle or a descriptor of zeros. Returns whether there was memory. */
int make(void **out, size_t bytes);

/* The functions that make and free such a one, and the library's status without memory. */
#define OBJECT(create, destroy, bytes, failure) \
	EXPORT int create(void **out) { return make(out, bytes) ? SUCCESS : (failure); } \
	EXPORT int destroy(void *object) { \
		free(object); \
		return SUCCESS; \
	}

/* A function that keeps an argument in a field of an object, and one that returns it. */
#define FIELD(type, field) __typeof__(((type *)NULL)->field)
#define SETS(name, type, field) \
	EXPORT int name(type *object, FIELD(type, field) value) { \
		object->field = value; \
		return SUCCESS; \
	}
#define GETS(name, type, field) \
	EXPORT int name(const type *object, FIELD(type, field) * value) { \
		*value = object->field; \
		return SUCCESS; \
	}

/* A function that writes 0 to a place of the caller's, a size in bytes for example, and reads no other argument. */
#define SIZED(name, type, place) \
	EXPORT int name(ARGUMENTS) { \
		NOTHING_TO(type, place); \
		return SUCCESS; \
	}

/* The texts of a library's statuses, and one for all others. */
struct status_text {
	int status;
	const char *text;
};
static inline const char *text_of(const struct status_text *texts, size_t count, int status, const char *otherwise) {
	for (size_t i = 0; i < count; i++)
		if (texts[i].status == status)
			return texts[i].text;
	return otherwise;
}
#define TEXT_OF(texts, status, otherwise) text_of(texts, sizeof(texts) / sizeof *(texts), status, otherwise)
#define STATUS_TEXTS(function, otherwise, ...) \
	EXPORT const char *function(int status) { \
		static const struct status_text texts[] = {__VA_ARGS__}; \
		return TEXT_OF(texts, status, otherwise); \
	}

#endif
