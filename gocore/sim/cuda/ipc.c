/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process of the job: cuIpcGetMemHandle and what belongs to it. A machine with shared cards has its
 * linear memory in a file without a name. A handle leads to a note of where that file is open, and an importer maps its
 * pages. As with NVIDIA's driver, which shares whole blocks, these may have other small allocations.
 *
 * An exported allocation is a share of the card (gocore/lease/budget). It is charged until its exporter has freed it
 * and every importer has closed it, or their processes have ended, and until then its pages stay.
 *
 * The process that made a handle cannot open it: NVIDIA's driver says "invalid device context" (openucx/ucx#11603,
 * ROCm/hip#1984).
 */
#include "ipc.h"

#include "../../lease/budget/budget.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, LAZY_PEER_ACCESS = 1 };

/* What an exporter has. */
struct export {
	struct ipc_handle handle;
	uint64_t share;
};

/* What the file of a handle says: the exporter's descriptor, which file that has to be, and the allocation in it. */
struct found_memory {
	uint64_t share, device, inode, offset, bytes;
	int32_t process, descriptor;
	unsigned char uuid[16];
};

struct import {
	struct range range, pages;
	struct ipc_handle handle;
	struct context *context;
	int gpu, process, count;
	uint64_t share;
	struct notes notes;
	struct import *next;
};

static int write_note(int file, const struct found_memory *found) {
	int whole = write(file, found, sizeof *found) == (ssize_t)sizeof *found;
	close(file);
	return whole;
}

static CUresult make_export(struct allocation *one) {
	const struct context *context = one->context;
	struct gpu *gpu = &m->gpu[context->gpu];
	struct stat facts;
	if (m->shared == NULL || m->arena_files[context->gpu] <= 0)
		return not_done(
		    "cuIpcGetMemHandle for cards that no other process shares (gpuconf run --simulate shares them)");
	if (fstat(m->arena_files[context->gpu], &facts) != 0)
		return UNKNOWN;
	struct export *export = calloc(1, sizeof *export);
	int file = export != NULL ? make_job_file(&export->handle, memory_kind) : -1;
	struct found_memory found = {.share = random_number(),
	    .device = facts.st_dev,
	    .inode = facts.st_ino,
	    .offset = one->range.addr - gpu->arena,
	    .bytes = one->range.bytes,
	    .process = getpid(),
	    .descriptor = m->arena_files[context->gpu]};
	card_uuid(context->gpu, found.uuid);
	int written = file >= 0 && write_note(file, &found);
	if (!written || found.share == 0 || !share_export(gpu, found.share, take_charge(one))) {
		if (file >= 0)
			remove_job_file(&export->handle);
		free(export);
		return OUT_OF_MEMORY;
	}
	export->share = found.share;
	one->export = export;
	return SUCCESS;
}

EXPORT CUresult cuIpcGetMemHandle(struct ipc_handle *out, CUdeviceptr addr) {
	REFUSE(ANY_TIME, out == NULL || addr == 0, INVALID_VALUE);
	CALLED(cuIpcGetMemHandle);
	IN_CONTEXT({
		struct allocation *one = m->allocations;
		while (one != NULL && (one->gone || !inside(addr, 1, one->range)))
			one = one->next;
		if (result == SUCCESS && one == NULL) /* memory of pools, mappings and imports, too (chelsea0x3b/cudarc#521) */
			result = INVALID_VALUE;
		if (result == SUCCESS && one->export == NULL)
			result = make_export(one);
		if (result == SUCCESS)
			*out = one->export->handle;
	});
}

/* The exporter has freed it. Returns whether an importer may still have it: then its addresses and pages stay. */
int end_export(struct allocation *one) {
	remove_job_file(&one->export->handle);
	leave_export(one->export->share);
	return export_lives(one);
}

int export_lives(const struct allocation *one) { return m->shared != NULL && has_share(m->shared, one->export->share); }

static int read_note(const struct ipc_handle *handle, struct found_memory *found) {
	int file = open_job_file(handle);
	if (file < 0)
		return 0;
	int whole = read(file, found, sizeof *found) == (ssize_t)sizeof *found;
	close(file);
	return whole;
}

/* Another file may have the place of the exporter's by now, or another process its number. */
static int open_exported(const struct found_memory *found) {
	char path[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", found->process, found->descriptor);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file >= 0 && (fstat(file, &facts) != 0 || facts.st_dev != found->device || facts.st_ino != found->inode)) {
		close(file);
		return -1;
	}
	return file;
}

static int gpu_of(const unsigned char uuid[16]) {
	unsigned char own[16];
	for (int i = 0; i < m->gpus; i++) {
		card_uuid(i, own);
		if (memcmp(own, uuid, sizeof own) == 0)
			return i;
	}
	return -1;
}

static CUresult map_import(struct import *new, int file, const struct found_memory *found) {
	uint64_t begin = found->offset / PAGE * PAGE,
	         bytes = (found->offset + found->bytes + PAGE - 1) / PAGE * PAGE - begin;
	uint64_t addr = take_range(bytes, GRANULE, PROT_READ | PROT_WRITE);
	if (addr == 0)
		return OUT_OF_MEMORY;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)begin) ==
	    MAP_FAILED) {
		give_range(addr);
		return OUT_OF_MEMORY;
	}
	new->pages = (struct range){addr, bytes};
	new->range = (struct range){addr + found->offset - begin, found->bytes};
	return SUCCESS;
}

/* The addresses stay mapped: a stale pointer reads garbage but never faults. */
static void drop(struct import **at) {
	struct import *gone = *at;
	mmap((void *)(uintptr_t)gone->pages.addr, gone->pages.bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	give_range(gone->pages.addr);
	leave_export(gone->share);
	*at = gone->next;
	free(gone);
}

void end_imports(struct context *context) {
	for (struct import **at = &m->imports; *at != NULL;)
		if ((*at)->context == context)
			drop(at);
		else
			at = &(*at)->next;
}

/* What one process exports of a card is open in one context of each card (NVIDIA's documentation of
 * cuIpcOpenMemHandle). */
static int elsewhere(const struct context *context, int gpu, int process) {
	for (struct import *one = m->imports; one != NULL; one = one->next)
		if (one->gpu == gpu && one->process == process && one->context != context && one->context->gpu == context->gpu)
			return 1;
	return 0;
}

static CUresult import(CUdeviceptr *out, const struct ipc_handle *handle, struct context *context, unsigned flags) {
	struct found_memory found;
	if (m->shared == NULL)
		return not_done(
		    "cuIpcOpenMemHandle for cards that no other process shares (gpuconf run --simulate shares them)");
	if (!read_note(handle, &found))
		return INVALID_VALUE; /* it was freed, or its process has ended */
	if (found.process == getpid())
		return INVALID_CONTEXT;
	int gpu = gpu_of(found.uuid);
	if (gpu < 0)
		return INVALID_HANDLE; /* CUDA_VISIBLE_DEVICES hides the card */
	if (gpu != context->gpu && !can_access(context->gpu, gpu))
		return PEER_ACCESS_UNSUPPORTED;
	if (elsewhere(context, gpu, found.process))
		return INVALID_CONTEXT;
	int file = open_exported(&found);
	if (file < 0 || !join_export(found.share)) {
		if (file >= 0)
			close(file);
		return INVALID_VALUE;
	}
	struct import *new = calloc(1, sizeof *new);
	*new = (struct import){
	    .handle = *handle, .context = context, .gpu = gpu, .process = found.process, .count = 1, .share = found.share};
	CUresult result = map_import(new, file, &found);
	close(file);
	if (result != SUCCESS) {
		leave_export(found.share);
		free(new);
		return result;
	}
	if (gpu != context->gpu && flags == LAZY_PEER_ACCESS)
		context->peers |= UINT64_C(1) << gpu;
	new->next = m->imports;
	m->imports = new;
	*out = new->range.addr;
	return SUCCESS;
}

static CUresult open_handle(CUdeviceptr *out, const struct ipc_handle *handle, unsigned flags) {
	IN_CONTEXT({
		struct import *one = m->imports;
		while (one != NULL && (one->context != context || memcmp(&one->handle, handle, sizeof *handle) != 0))
			one = one->next;
		if (result == SUCCESS && one != NULL) {
			one->count++;
			*out = one->range.addr;
		} else if (result == SUCCESS) {
			result = import(out, handle, context, flags);
		}
	});
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, struct ipc_handle handle, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || flags != LAZY_PEER_ACCESS || !is_handle(&handle, memory_kind), INVALID_VALUE);
	CALLED_SINCE(11000, cuIpcOpenMemHandle);
	return open_handle(out, &handle, flags);
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *out, struct ipc_handle handle, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || flags != LAZY_PEER_ACCESS || !is_handle(&handle, memory_kind), INVALID_VALUE);
	CALLED(cuIpcOpenMemHandle);
	return open_handle(out, &handle, flags);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr addr) {
	CALLED(cuIpcCloseMemHandle);
	IN_CONTEXT({
		struct import **at = &m->imports;
		while (*at != NULL && ((*at)->range.addr != addr || (*at)->context != context))
			at = &(*at)->next;
		if (result == SUCCESS && *at == NULL)
			result = INVALID_VALUE;
		if (result == SUCCESS && --(*at)->count == 0) {
			if (m->lenient)
				wait_idle(context);
			drop(at);
		}
	});
}

int within_imports(uint64_t addr, uint64_t bytes) {
	for (struct import *one = m->imports; one != NULL; one = one->next)
		if (inside(addr, bytes, one->range))
			return 1;
	return 0;
}

int find_import(uint64_t addr, struct place *out) {
	for (struct import *one = m->imports; one != NULL; one = one->next)
		if (inside(addr, 1, one->range)) {
			*out = (struct place){.access = 3,
			    .rdma = 1,
			    .range = one->range,
			    .context = one->context,
			    .gpu = one->gpu,
			    .notes = &one->notes};
			return 1;
		}
	return 0;
}

int count_imports(void) {
	int count = 0;
	for (struct import *one = m->imports; one != NULL; one = one->next)
		count++;
	return count;
}
