/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and each thread's stack of them. */
#include "driver.h"

#include <stdlib.h>

#define MAX_DEPTH 32
#define MAX_STACKS 4 /* machines that a thread has contexts of at one time */

/* A stack belongs to one start of one machine; another one's counts as empty. */
static __thread struct stack_of_machine {
	int era, depth;
	struct context *at[MAX_DEPTH];
} stacks[MAX_STACKS], *stack;

static void refresh(void) {
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

int depth_of_thread(void) {
	refresh();
	return stack->depth;
}

CUresult current_context(struct context **out) {
	refresh();
	if (stack->depth == 0)
		return INVALID_CONTEXT;
	*out = stack->at[stack->depth - 1];
	return (*out)->alive ? (*out)->sticky : CONTEXT_IS_DESTROYED;
}

static struct context *make_context(int gpu) {
	struct context *context = calloc(1, sizeof *context);
	__atomic_store_n(&m->only_listed, 0, __ATOMIC_SEQ_CST);
	context->machine = m;
	context->gpu = gpu;
	context->alive = 1;
	context->next = m->contexts;
	m->contexts = context;
	context->legacy = make_stream(context, 0, 0);
	count_context(&m->gpu[gpu], 1);
	return context;
}

/* Frees what a context holds. The structure itself stays, so that use of a stale one is detected. */
void end_context(struct context *context) {
	if (context->alive)
		count_context(&m->gpu[context->gpu], -1);
	context->alive = 0;
	end_peers(context);
	end_streams(context);
	end_memory(context);
}

/*
 * For fake libraries over this one: fakecuda_current returns the thread's current context, and fakecuda_alive whether a context
 * exists.
 */
EXPORT CUcontext fakecuda_current(void) {
	enter_machine();
	refresh();
	return stack->depth > 0 ? stack->at[stack->depth - 1] : NULL;
}

EXPORT int fakecuda_alive(CUcontext context) {
	enter_machine();
	LOCK;
	int alive = context->alive;
	UNLOCK;
	return alive;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
	CALLED(cuDevicePrimaryCtxRetain);
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	LOCK;
	struct gpu *gpu = &m->gpu[device];
	if (gpu->retains++ == 0)
		gpu->primary = make_context(device);
	*out = gpu->primary;
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
	REFUSE(ANY_TIME, flags == NULL || active == NULL, INVALID_VALUE);
	CALLED(cuDevicePrimaryCtxGetState);
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	*flags = 0;
	*active = m->gpu[device].retains > 0;
	return SUCCESS;
}

/* The context stays retained, but empty. */
static CUresult reset(CUdevice device) {
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	LOCK;
	struct gpu *gpu = &m->gpu[device];
	if (gpu->retains > 0) {
		end_memory(gpu->primary);
		end_streams(gpu->primary);
		gpu->primary->legacy = make_stream(gpu->primary, 0, 0);
	}
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
	CALLED(cuDevicePrimaryCtxReset);
	return reset(device);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
	CALLED(cuDevicePrimaryCtxReset_v1);
	return reset(device);
}

static CUresult release(CUdevice device) {
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	CUresult result = INVALID_CONTEXT;
	LOCK;
	struct gpu *gpu = &m->gpu[device];
	if (gpu->retains > 0) {
		result = SUCCESS;
		if (--gpu->retains == 0)
			end_context(gpu->primary);
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
	CALLED(cuDevicePrimaryCtxRelease);
	return release(device);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
	CALLED(cuDevicePrimaryCtxRelease_v1);
	return release(device);
}

/* A green context holds the primary one; here its parts of the GPU are all of it. */
struct green {
	CUdevice device;
};

EXPORT CUresult cuGreenCtxCreate(struct green **out, void *resources, CUdevice device, unsigned flags) {
	CALLED_SINCE(12040, cuGreenCtxCreate);
	(void)resources;
	CUcontext primary;
	CUresult result = flags != 1 ? INVALID_VALUE : cuDevicePrimaryCtxRetain(&primary, device);
	if (result == SUCCESS) {
		*out = malloc(sizeof **out);
		(*out)->device = device;
	}
	return result;
}

EXPORT CUresult cuCtxFromGreenCtx(CUcontext *out, struct green *green) {
	REFUSE(ANY_TIME, out == NULL, INVALID_VALUE);
	CALLED_SINCE(12040, cuCtxFromGreenCtx);
	*out = m->gpu[green->device].primary;
	return SUCCESS;
}

EXPORT CUresult cuGreenCtxDestroy(struct green *green) {
	CALLED_SINCE(12040, cuGreenCtxDestroy);
	CUresult result = release(green->device);
	free(green);
	return result;
}

static CUresult create(CUcontext *out, CUdevice device) {
	if (device < 0 || device >= m->gpus)
		return INVALID_DEVICE;
	refresh();
	if (stack->depth == MAX_DEPTH)
		return INVALID_CONTEXT;
	LOCK;
	*out = make_context(device);
	stack->at[stack->depth++] = *out;
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) {
	CALLED(cuCtxCreate);
	(void)flags;
	return create(out, device);
}

EXPORT CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device) {
	CALLED(cuCtxCreate_v1);
	(void)flags;
	return create(out, device);
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *out, void *affinity, int count, unsigned flags, CUdevice device) {
	CALLED_SINCE(11040, cuCtxCreate_v3);
	(void)affinity, (void)count, (void)flags;
	return create(out, device);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, void *params, unsigned flags, CUdevice device) {
	CALLED_SINCE(12050, cuCtxCreate_v4);
	(void)params, (void)flags;
	return create(out, device);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
	CALLED(cuCtxGetDevice);
	struct context *context;
	CUresult result = current_context(&context);
	if (result == SUCCESS)
		*device = context->gpu;
	return result;
}

/* Limits take no memory here. */
EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
	CALLED(cuCtxSetLimit);
	struct context *context;
	(void)value;
	LOCK;
	CUresult result = current_context(&context);
	UNLOCK;
	return result != SUCCESS || (limit >= 0 && limit <= 2) ? result : INVALID_VALUE;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
	CALLED(cuCtxGetApiVersion);
	*version = 3020;
	return context->alive ? SUCCESS : INVALID_CONTEXT;
}

static CUresult destroy(CUcontext context) {
	LOCK;
	refresh();
	end_context(context);
	if (stack->depth > 0 && stack->at[stack->depth - 1] == context)
		stack->depth--;
	UNLOCK;
	return SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
	REFUSE(ANY_TIME, driver_version() >= 12020 && context == NULL, INVALID_VALUE);
	CALLED(cuCtxDestroy);
	return destroy(context);
}

EXPORT CUresult cuCtxDestroy(CUcontext context) {
	REFUSE(ANY_TIME, driver_version() >= 12020 && context == NULL, INVALID_VALUE);
	CALLED(cuCtxDestroy_v1);
	return destroy(context);
}

EXPORT CUresult cuCtxDetach(CUcontext context) {
	CALLED(cuCtxDetach);
	return destroy(context);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out) {
	CALLED(cuCtxGetCurrent);
	refresh();
	*out = stack->depth > 0 ? stack->at[stack->depth - 1] : NULL;
	return SUCCESS;
}

/* Replaces the top of the stack; NULL removes it. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
	CALLED(cuCtxSetCurrent);
	refresh();
	if (context != NULL && !context->alive)
		return CONTEXT_IS_DESTROYED;
	if (stack->depth > 0)
		stack->depth--;
	if (context != NULL)
		stack->at[stack->depth++] = context;
	return SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
	CALLED(cuCtxPushCurrent);
	refresh();
	if (context == NULL)
		return INVALID_VALUE;
	if (!context->alive)
		return CONTEXT_IS_DESTROYED;
	if (stack->depth == MAX_DEPTH)
		return INVALID_CONTEXT;
	stack->at[stack->depth++] = context;
	return SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out) {
	CALLED(cuCtxPopCurrent);
	refresh();
	if (stack->depth == 0)
		return INVALID_CONTEXT;
	*out = stack->at[--stack->depth];
	return called("cuCtxPopCurrent, when done", 1); /* fails as if work that was queued before had failed */
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	CALLED(cuCtxGetStreamPriorityRange);
	struct context *context;
	LOCK;
	CUresult result = current_context(&context);
	UNLOCK;
	*least = 0;
	*greatest = result == SUCCESS ? m->gpu[context->gpu].greatest_priority : 0;
	return result;
}
