/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, each thread's stack of them, and their limits
 * (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html and group__CUDA__PRIMARY__CTX.html).
 *
 * A context is never freed while its machine is open: `alive` says whether it is one. A primary context lives again
 * when it is retained anew, and keeps its address, as NVIDIA's does. The machine's lock guards contexts; a stack is
 * its thread's alone and needs none.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"
#include "../../machine/models/models.h"

#include <stdlib.h>

static void set_default_limits(struct context *context);

#define MAX_DEPTH 32
#define PRIMARY_FLAGS (unsigned)(CU_CTX_FLAGS_MASK & ~CU_CTX_MAP_HOST) /* all map the host's memory */
#define MAX_STACKS 4 /* machines that a thread has contexts of at one time */

/* A stack belongs to one start of one machine; another one's counts as empty. */
static __thread struct stack_of_machine {
	int era, depth;
	struct context *at[MAX_DEPTH];
} stacks[MAX_STACKS];
/* The one that the last call used. It is found without a call of the loader, as the stacks would be. */
static __thread struct stack_of_machine *stack __attribute__((tls_model("initial-exec")));

/* Points `stack` to the thread's stack for the machine that the call entered. A machine that has none there takes an
 * empty one, else the first, whose contexts are not current any more then. */
static void refresh(void) {
	if (stack != NULL && stack->era == m->era)
		return;
	struct stack_of_machine *unused = &stacks[0];
	for (stack = stacks; stack < stacks + MAX_STACKS; stack++) {
		if (stack->era == m->era)
			return;
		if (stack->depth == 0)
			unused = stack;
	}
	stack = unused;
	stack->era = m->era, stack->depth = 0;
}

/* The context that a call works in, or why there is none: no context, one that was destroyed, or the error of failed
 * work, which stays with its context for good. */
CUresult current_context(struct context **out) {
	refresh();
	if (stack->depth == 0)
		return INVALID_CONTEXT;
	*out = stack->at[stack->depth - 1];
	return (*out)->alive ? (*out)->sticky : CONTEXT_IS_DESTROYED;
}

CUresult usable_context(struct context **out) {
	LOCKED;
	return current_context(out);
}

/* How the host waits: one of the values of the mask, of which not all combinations are one. */
static int is_schedule(unsigned flags) {
	return (flags & CU_CTX_SCHED_MASK) <= CU_CTX_SCHED_YIELD ||
	       (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC;
}

/* It takes memory of its card where the profile says so. */
static CUresult begin_context(struct context *context) {
	struct gpu *gpu = &m->gpu[context->gpu];
	if (!use_card(gpu, gpu->context_bytes))
		return OUT_OF_MEMORY;
	context->alive = 1;
	context->sticky = SUCCESS;
	context->cache_config = 0;
	set_default_limits(context);
	context->legacy = make_stream(context, 0, 0);
	count_context(gpu, 1);
	return SUCCESS;
}

static CUresult make_context(struct context **out, int gpu) {
	struct context *context = calloc(1, sizeof *context);
	__atomic_store_n(&m->only_listed, 0, __ATOMIC_SEQ_CST);
	context->machine = m;
	context->gpu = gpu;
	CUresult result = begin_context(context);
	if (result != SUCCESS) {
		free(context);
		return result;
	}
	context->next = m->contexts;
	m->contexts = context;
	*out = context;
	return SUCCESS;
}

/* Frees what a context holds. The structure itself stays, so that use of a stale one is detected. */
void end_context(struct context *context) {
	struct gpu *gpu = &m->gpu[context->gpu];
	if (context->alive) {
		count_context(gpu, -1);
		leave_card(gpu, gpu->context_bytes);
	}
	context->alive = 0;
	end_peers(context);
	end_streams(context);
	end_memory(context);
}

#ifdef GPUCONF_TEST_HOOKS
/* fakecuda_depth returns how many contexts are on the calling thread's stack. */
EXPORT int fakecuda_depth(void) {
	enter_machine();
	refresh();
	return stack->depth;
}
#endif

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
	CALLED(cuDevicePrimaryCtxRetain);
	NEEDS(out, device);
	LOCKED;
	struct gpu *gpu = &m->gpu[device];
	if (gpu->primary == NULL)
		TRY(make_context(&gpu->primary, device));
	else if (!gpu->primary->alive)
		TRY(begin_context(gpu->primary));
	gpu->retains++;
	gpu->primary->primary = 1;
	gpu->primary->flags = gpu->primary_flags | CU_CTX_MAP_HOST;
	*out = gpu->primary;
	return SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
	REFUSE(ANY_TIME, flags == NULL || active == NULL, INVALID_VALUE);
	CALLED(cuDevicePrimaryCtxGetState);
	KNOWN(device);
	LOCKED;
	*flags = m->gpu[device].primary_flags;
	*active = m->gpu[device].primary != NULL && m->gpu[device].primary->alive;
	return SUCCESS;
}

/* A function whose second form does the same. */
#define TWO_FORMS(name, parameters, call) \
	EXPORT CUresult name##_v2 parameters { \
		CALLED(name); \
		return call; \
	} \
	EXPORT CUresult name parameters { \
		CALLED(name##_v1); \
		return call; \
	}

/* The flags of a primary context can be set before it is made and while it lives. */
static CUresult set_flags(CUdevice device, unsigned flags) {
	KNOWN(device);
	if ((flags & ~PRIMARY_FLAGS) != 0 || !is_schedule(flags))
		return INVALID_VALUE;
	LOCKED;
	struct gpu *gpu = &m->gpu[device];
	gpu->primary_flags = flags;
	if (gpu->primary != NULL && gpu->primary->alive)
		gpu->primary->flags = flags | CU_CTX_MAP_HOST;
	return SUCCESS;
}

TWO_FORMS(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned flags), set_flags(device, flags))

/* It stays retained, but nothing can be done in it until it is retained once more. */
static CUresult reset(CUdevice device) {
	KNOWN(device);
	LOCKED;
	struct gpu *gpu = &m->gpu[device];
	if (gpu->primary != NULL && gpu->primary->alive)
		end_context(gpu->primary);
	return SUCCESS;
}

TWO_FORMS(cuDevicePrimaryCtxReset, (CUdevice device), reset(device))

/* The last release ends the context, and the flags fall to their defaults. */
static CUresult release(CUdevice device) {
	KNOWN(device);
	LOCKED;
	struct gpu *gpu = &m->gpu[device];
	if (gpu->retains == 0)
		return INVALID_CONTEXT;
	if (--gpu->retains > 0)
		return SUCCESS;
	if (gpu->primary->alive)
		end_context(gpu->primary);
	gpu->primary_flags = 0;
	return SUCCESS;
}

TWO_FORMS(cuDevicePrimaryCtxRelease, (CUdevice device), release(device))

/* A green context holds the primary one; here its parts of the GPU are all of it. */
struct green {
	CUdevice device;
};

EXPORT CUresult cuGreenCtxCreate(struct green **out, void *resources, CUdevice device, unsigned flags) {
	CALLED_SINCE(12040, cuGreenCtxCreate);
	(void)resources;
	CUcontext primary;
	TRY(flags != 1 ? INVALID_VALUE : cuDevicePrimaryCtxRetain(&primary, device));
	*out = malloc(sizeof **out);
	(*out)->device = device;
	return SUCCESS;
}

EXPORT CUresult cuCtxFromGreenCtx(CUcontext *out, struct green *green) {
	REFUSE(ANY_TIME, out == NULL, INVALID_VALUE);
	CALLED_SINCE(12040, cuCtxFromGreenCtx);
	*out = m->gpu[green->device].primary;
	return SUCCESS;
}

EXPORT CUresult cuGreenCtxDestroy(struct green *green) {
	CALLED_SINCE(12040, cuGreenCtxDestroy);
	if (green == NULL)
		return INVALID_CONTEXT;
	CUresult result = release(green->device);
	free(green);
	return result;
}

/* A new context is current in the calling thread at once. A full stack is refused before anything is made. */
static CUresult create(CUcontext *out, unsigned flags, CUdevice device) {
	if (out == NULL || (flags & ~(PRIMARY_FLAGS | CU_CTX_MAP_HOST)) != 0 || !is_schedule(flags))
		return INVALID_VALUE;
	KNOWN(device);
	refresh();
	if (stack->depth == MAX_DEPTH)
		return INVALID_CONTEXT;
	LOCKED;
	TRY(make_context(out, device));
	(*out)->flags = flags;
	stack->at[stack->depth++] = *out;
	return SUCCESS;
}

TWO_FORMS(cuCtxCreate, (CUcontext * out, unsigned flags, CUdevice device), create(out, flags, device))

EXPORT CUresult cuCtxCreate_v3(CUcontext *out, void *affinity, int count, unsigned flags, CUdevice device) {
	CALLED_SINCE(11040, cuCtxCreate_v3);
	(void)affinity, (void)count;
	return create(out, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, void *params, unsigned flags, CUdevice device) {
	CALLED_SINCE(12050, cuCtxCreate_v4);
	(void)params;
	return create(out, flags, device);
}

/* Of the context at the top whatever its state, but for one that was destroyed: failed work does not hide the device.
 */
EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
	CALLED(cuCtxGetDevice);
	NEED(device);
	refresh();
	if (stack->depth == 0)
		return INVALID_CONTEXT;
	const struct context *context = stack->at[stack->depth - 1];
	if (!context->alive && !context->primary)
		return CONTEXT_IS_DESTROYED;
	*device = context->gpu;
	return SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
	CALLED(cuCtxGetApiVersion);
	NEED(version);
	TRY(context == NULL ? usable_context(&context) : SUCCESS);
	*version = 3020;
	return context->alive ? SUCCESS : INVALID_CONTEXT;
}

/* It may be current in other threads. They find out by `alive`; only the own stack is popped, as CUDA documents. */
static CUresult destroy(CUcontext context) {
	if (context == NULL || context->primary)
		return INVALID_CONTEXT;
	if (!context->alive)
		return CONTEXT_IS_DESTROYED;
	LOCKED;
	refresh();
	end_context(context);
	if (stack->depth > 0 && stack->at[stack->depth - 1] == context)
		stack->depth--;
	return SUCCESS;
}

#define DESTROYS(function, name) \
	EXPORT CUresult function(CUcontext context) { \
		REFUSE(ANY_TIME, driver_version() >= 12020 && context == NULL, INVALID_VALUE); \
		CALLED(name); \
		return destroy(context); \
	}
DESTROYS(cuCtxDestroy_v2, cuCtxDestroy)
DESTROYS(cuCtxDestroy, cuCtxDestroy_v1)

EXPORT CUresult cuCtxDetach(CUcontext context) {
	CALLED(cuCtxDetach);
	NEED(context);
	return destroy(context);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out) {
	CALLED(cuCtxGetCurrent);
	NEED(out);
	refresh();
	*out = stack->depth > 0 ? stack->at[stack->depth - 1] : NULL;
	return SUCCESS;
}

/* Replaces the top of the stack; NULL removes it. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
	CALLED(cuCtxSetCurrent);
	refresh();
	if (context != NULL && !context->alive && !context->primary)
		return CONTEXT_IS_DESTROYED;
	if (stack->depth > 0)
		stack->depth--;
	if (context != NULL)
		stack->at[stack->depth++] = context;
	return SUCCESS;
}

/* A primary context may be pushed while it is not alive: it may be retained again. */
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
	CALLED(cuCtxPushCurrent);
	refresh();
	NEED(context);
	if (!context->alive && !context->primary)
		return CONTEXT_IS_DESTROYED;
	if (stack->depth == MAX_DEPTH)
		return INVALID_CONTEXT;
	stack->at[stack->depth++] = context;
	return SUCCESS;
}

/* The stack changes even where an error of earlier work is returned. */
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out) {
	CALLED(cuCtxPopCurrent);
	refresh();
	if (stack->depth == 0)
		return INVALID_CONTEXT;
	stack->depth--;
	if (out != NULL)
		*out = stack->at[stack->depth];
	return called("cuCtxPopCurrent, when done", 1); /* fails as if work that was queued before had failed */
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	CALLED(cuCtxGetStreamPriorityRange);
	struct context *context;
	CUresult result = usable_context(&context);
	if (least != NULL)
		*least = 0;
	if (greatest != NULL)
		*greatest = result == SUCCESS ? m->gpu[context->gpu].greatest_priority : 0;
	return result;
}

/*
 * Limits and other settings of contexts. They are kept and returned, and take no memory here. How a card rounds and
 * bounds them was recorded on an H200 with driver 580 (tests_py/driver/calls).
 */

/* The part of L2 that can be set aside is counted in sixteenths. */
static uint64_t slice_of_l2(const struct context *context) { return (uint64_t)m->gpu[context->gpu].l2_bytes / 16; }

/* The values of an H200 with driver 580. Those that depend on the card follow its size here. */
static void set_default_limits(struct context *context) {
	const struct gpu *gpu = &m->gpu[context->gpu];
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = (size_t)gpu->multiprocessors * 65536;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * MIB;
	context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
	context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = gpu->major >= 9 ? 64 : 128;
	context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = gpu->major >= 8 ? 3 * slice_of_l2(context) : 0;
	context->limits[CU_LIMIT_SHMEM_SIZE] = (size_t)gpu->limits->shared_bytes_of_block;
}

static size_t between(size_t value, size_t least, size_t most) {
	if (value < least)
		return least;
	return value < most ? value : most;
}

/* Limits that the driver's version or the card does not have. SHMEM_SIZE and those after it came with CUDA 12; a
 * Hopper card has no synchronization depth any more. */
static CUresult known(const struct context *context, int limit) {
	if (limit < 0 || limit > CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED)
		return INVALID_VALUE;
	int old = driver_version() < 12000;
	if (limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED ||
	    (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && !old && m->gpu[context->gpu].major >= 9) ||
	    (limit >= CU_LIMIT_SHMEM_SIZE && old))
		return UNSUPPORTED_LIMIT;
	return SUCCESS;
}

/* A card rounds a limit to what it can do, and refuses what is out of reach: which of both was recorded for each. */
static CUresult set(struct context *context, int limit, size_t value) {
	uint64_t slice = slice_of_l2(context);
	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		if (value > 512 << 10)
			return INVALID_VALUE;
		value = (value + 15) / 16 * 16;
		break;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		value = between(value, 512 << 10, (size_t)1 << 31);
		break;
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		value = between(value, 4 * MIB, m->gpu[context->gpu].total);
		break;
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
		value = between(value, 32, 599186);
		break;
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		if (value > 128)
			return INVALID_VALUE;
		break;
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
		if (value > 10 * slice || (slice == 0 && value > 0))
			return INVALID_VALUE;
		value = slice == 0 ? 0 : (value + slice - 1) / slice * slice;
		break;
	case CU_LIMIT_SHMEM_SIZE:
	case CU_LIMIT_CIG_ENABLED:
		return NOT_PERMITTED;
	}
	context->limits[limit] = value;
	return SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
	CALLED(cuCtxSetLimit);
	IN_CONTEXT;
	TRY(known(context, limit));
	return set(context, limit, value);
}

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit) {
	CALLED(cuCtxGetLimit);
	IN_CONTEXT;
	TRY(value == NULL ? INVALID_VALUE : known(context, limit));
	*value = context->limits[limit];
	return SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
	REFUSE(ANY_TIME, flags == NULL, INVALID_VALUE);
	CALLED(cuCtxGetFlags);
	IN_CONTEXT;
	*flags = context->flags;
	return SUCCESS;
}

/* What is not about waiting, local memory or synchronous copies is accepted, and not kept. */
EXPORT CUresult cuCtxSetFlags(unsigned flags) {
	CALLED_SINCE(12010, cuCtxSetFlags);
	if (flags > CU_CTX_FLAGS_MASK || !is_schedule(flags))
		return INVALID_VALUE;
	IN_CONTEXT;
	context->flags = (flags & ~(CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)) | CU_CTX_MAP_HOST;
	return SUCCESS;
}

EXPORT CUresult cuCtxGetCacheConfig(int *config) {
	CALLED(cuCtxGetCacheConfig);
	NEED(config);
	IN_CONTEXT;
	*config = context->cache_config;
	return SUCCESS;
}

EXPORT CUresult cuCtxSetCacheConfig(int config) {
	CALLED(cuCtxSetCacheConfig);
	IN_CONTEXT;
	if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
		return INVALID_VALUE;
	context->cache_config = config;
	return SUCCESS;
}

/* Newer GPUs have banks of four bytes only. */
EXPORT CUresult cuCtxGetSharedMemConfig(int *config) {
	CALLED(cuCtxGetSharedMemConfig);
	NEED(config);
	IN_CONTEXT;
	*config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return SUCCESS;
}

EXPORT CUresult cuCtxSetSharedMemConfig(int config) {
	CALLED(cuCtxSetSharedMemConfig);
	IN_CONTEXT;
	return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
	           ? INVALID_VALUE
			   : SUCCESS;
}

/* Only the multi-process service gives contexts a part of the multiprocessors. */
EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, int type, CUdevice device) {
	CALLED_SINCE(11040, cuDeviceGetExecAffinitySupport);
	(void)type;
	NEEDS(supported, device);
	*supported = 0;
	return SUCCESS;
}

EXPORT CUresult cuCtxGetExecAffinity(int *affinity, int type) {
	CALLED_SINCE(11040, cuCtxGetExecAffinity);
	NEED(affinity);
	IN_CONTEXT;
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return UNSUPPORTED_EXEC_AFFINITY;
	affinity[0] = type;
	affinity[1] = m->gpu[context->gpu].multiprocessors;
	return SUCCESS;
}

/* What other devices write is there at once. */
EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
	CALLED_SINCE(11030, cuFlushGPUDirectRDMAWrites);
	IN_CONTEXT;
	return target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	               (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	                   scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES)
	           ? INVALID_VALUE
			   : SUCCESS;
}

/* There is no cache to reset, and no profiler to start. */
#define ACCEPTED(name, since) \
	EXPORT CUresult name(void) { \
		CALLED_SINCE(since, name); \
		IN_CONTEXT; \
		return SUCCESS; \
	}
ACCEPTED(cuCtxResetPersistingL2Cache, 11000)
ACCEPTED(cuProfilerStart, 0)
ACCEPTED(cuProfilerStop, 0)
