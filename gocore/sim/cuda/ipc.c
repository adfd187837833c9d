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
#include "stream.h"

#include "../../machine/cuda/constants.h"
#include "../../lease/budget/budget.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALONE " for cards that no other process shares (gpuconf run --simulate shares them)"

/*
 * The files by which the processes of a job find what another one has exported. A handle is the name of a file in the
 * job's private folder, which is the one of the shared cards. A name has 128 random bits. Nothing is found without it,
 * and other users cannot enter the folder.
 */

enum { NAME_BYTES = 16 };

/* As CUipcMemHandle and CUipcEventHandle. */
struct ipc_handle {
	char kind[8];
	unsigned char name[NAME_BYTES];
	unsigned char zero[40];
};

static const char memory_kind[8] = "gpuconfM", event_kind[8] = "gpuconfE";

/* All or nothing: up to 256 bytes are never interrupted (man 2 getrandom). */
static int fill_random(void *out, size_t bytes) { return getrandom(out, bytes, 0) == (ssize_t)bytes; }

/* A handle of another kind, or one that something has written into, is refused before a file is looked for. */
static int is_handle(const struct ipc_handle *handle, const char kind[8]) {
	static const unsigned char zero[sizeof handle->zero];
	return memcmp(handle->kind, kind, 8) == 0 && memcmp(handle->zero, zero, sizeof zero) == 0;
}

/* A job file returns a descriptor, or -1; the lock is held. The folder was checked when the shared cards were opened:
 * it is this user's alone. */
static int open_folder(void) {
	char folder[sizeof m->shared->path];
	snprintf(folder, sizeof folder, "%s", m->shared->path);
	char *slash = strrchr(folder, '/');
	if (slash == NULL)
		return -1;
	*slash = 0;
	return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static void path_of(const struct ipc_handle *handle, char path[48]) {
	int at = snprintf(path, 48, "ipc-");
	for (int i = 0; i < NAME_BYTES; i++)
		at += snprintf(path + at, 48 - (size_t)at, "%02x", handle->name[i]);
}

/* Without shared cards there is no folder, and so no file. */
static int open_named(const struct ipc_handle *handle, int flags) {
	char path[48];
	int folder = m->shared != NULL ? open_folder() : -1, file;
	if (folder < 0)
		return -1;
	path_of(handle, path);
	file = openat(folder, path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	close(folder);
	return file;
}

/* O_EXCL: a name that is there already would be another's, however unlikely with 128 random bits. */
static int make_job_file(struct ipc_handle *handle, const char kind[8]) {
	*handle = (struct ipc_handle){0};
	memcpy(handle->kind, kind, sizeof handle->kind);
	return fill_random(handle->name, sizeof handle->name) ? open_named(handle, O_CREAT | O_EXCL) : -1;
}

static void remove_job_file(const struct ipc_handle *handle) {
	char path[48];
	int folder = m->shared != NULL ? open_folder() : -1;
	if (folder < 0)
		return;
	path_of(handle, path);
	unlinkat(folder, path, 0);
	close(folder);
}

enum { PAGE = 4096 };

/* What an exporter has. */
struct export {
	struct ipc_handle handle;
	uint64_t share;
};

/* What the file of a handle says: the exporter's descriptor, which file that has to be, and the allocation in it. */
struct memory_note {
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

/* The share is made last, so that what fails before leaves nothing but a file, which is removed. */
static CUresult make_export(struct allocation *memory) {
	const struct context *context = memory->context;
	struct gpu *gpu = &m->gpu[context->gpu];
	struct stat facts;
	if (m->shared == NULL || m->arena_files[context->gpu] <= 0)
		return not_done("cuIpcGetMemHandle" ALONE);
	if (fstat(m->arena_files[context->gpu], &facts) != 0)
		return UNKNOWN;
	struct export *export = calloc(1, sizeof *export);
	int file = export != NULL ? make_job_file(&export->handle, memory_kind) : -1;
	struct memory_note note = {.device = facts.st_dev,
	    .inode = facts.st_ino,
	    .offset = memory->range.addr - gpu->arena,
	    .bytes = memory->range.bytes,
	    .process = getpid(),
	    .descriptor = m->arena_files[context->gpu]};
	card_uuid(context->gpu, note.uuid);
	int numbered = fill_random(&note.share, sizeof note.share) && note.share != 0;
	int written = file >= 0 && write(file, &note, sizeof note) == (ssize_t)sizeof note;
	if (file >= 0)
		close(file);
	if (!written || !numbered || !share_export(gpu, note.share, take_charge(memory))) {
		if (file >= 0)
			remove_job_file(&export->handle);
		free(export);
		return OUT_OF_MEMORY;
	}
	export->share = note.share;
	memory->export = export;
	return SUCCESS;
}

EXPORT CUresult cuIpcGetMemHandle(struct ipc_handle *out, CUdeviceptr addr) {
	REFUSE(ANY_TIME, out == NULL || addr == 0, INVALID_VALUE);
	CALLED(cuIpcGetMemHandle);
	IN_CONTEXT;
	struct allocation **link = &m->allocations;
	FIND(link, !(*link)->gone && inside(addr, 1, (*link)->range));
	if (*link == NULL) /* memory of pools, mappings and imports, too (chelsea0x3b/cudarc#521) */
		return INVALID_VALUE;
	TRY((*link)->export == NULL ? make_export(*link) : SUCCESS);
	*out = (*link)->export->handle;
	return SUCCESS;
}

/* The exporter has freed it. Returns whether an importer may still have it: then its addresses and pages stay. */
int end_export(struct allocation *one) {
	remove_job_file(&one->export->handle);
	leave_export(one->export->share);
	return export_lives(one);
}

int export_lives(const struct allocation *one) { return m->shared != NULL && has_share(m->shared, one->export->share); }

static int read_note(const struct ipc_handle *handle, struct memory_note *note) {
	int file = open_named(handle, 0);
	if (file < 0)
		return 0;
	int whole = read(file, note, sizeof *note) == (ssize_t)sizeof *note;
	close(file);
	return whole;
}

/* Another file may have the place of the exporter's by now, or another process its number. */
static int open_exported(const struct memory_note *note) {
	char path[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", note->process, note->descriptor);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file >= 0 && (fstat(file, &facts) != 0 || facts.st_dev != note->device || facts.st_ino != note->inode)) {
		close(file);
		return -1;
	}
	return file;
}

/* A card has one UUID in all processes of the job, and may have another number in each. */
static int gpu_of(const unsigned char uuid[16]) {
	unsigned char own[16];
	for (int i = 0; i < m->gpus; i++) {
		card_uuid(i, own);
		if (memcmp(own, uuid, sizeof own) == 0)
			return i;
	}
	return -1;
}

/* The addresses stay mapped: a stale pointer reads garbage but never faults. */
static void drop(struct import **link) {
	struct import *gone = TAKE_OUT(link);
	unmap_file(gone->pages);
	leave_export(gone->share);
	free(gone);
}

void end_imports(struct context *context) { DROP_EACH(m->imports, (*link)->context == context, drop); }

/* What one process exports of a card is open in one context of each card (NVIDIA's documentation of
 * cuIpcOpenMemHandle). */
static int elsewhere(const struct context *context, int gpu, int process) {
	for (struct import *one = m->imports; one != NULL; one = one->next)
		if (one->gpu == gpu && one->process == process && one->context != context && one->context->gpu == context->gpu)
			return 1;
	return 0;
}

/* The refusals are in the order in which an importer can find them out; the exporter's process is asked last, as only
 * it may be gone. */
static CUresult import(CUdeviceptr *out, const struct ipc_handle *handle, struct context *context, unsigned flags) {
	struct memory_note note;
	if (m->shared == NULL)
		return not_done("cuIpcOpenMemHandle" ALONE);
	if (!read_note(handle, &note))
		return INVALID_VALUE; /* it was freed, or its process has ended */
	if (note.process == getpid())
		return INVALID_CONTEXT;
	int gpu = gpu_of(note.uuid);
	if (gpu < 0)
		return INVALID_HANDLE; /* CUDA_VISIBLE_DEVICES hides the card */
	if (gpu != context->gpu && !can_access(context->gpu, gpu))
		return PEER_ACCESS_UNSUPPORTED;
	if (elsewhere(context, gpu, note.process))
		return INVALID_CONTEXT;
	int file = open_exported(&note);
	if (file < 0 || !join_export(note.share)) {
		if (file >= 0)
			close(file);
		return INVALID_VALUE;
	}
	struct range pages, range;
	int mapped = map_file(file, note.offset, note.bytes, &pages, &range);
	close(file);
	if (!mapped) {
		leave_export(note.share);
		return OUT_OF_MEMORY;
	}
	if (gpu != context->gpu && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		context->peers |= UINT64_C(1) << gpu;
	ADD(m->imports, .range = range, .pages = pages, .handle = *handle, .context = context, .gpu = gpu,
	    .process = note.process, .count = 1, .share = note.share);
	*out = range.addr;
	return SUCCESS;
}

/* Opened twice in one context, a handle has the same address, and must be closed twice. */
static CUresult open_handle(CUdeviceptr *out, const struct ipc_handle *handle, unsigned flags) {
	IN_CONTEXT;
	struct import **link = &m->imports;
	FIND(link, (*link)->context == context && memcmp(&(*link)->handle, handle, sizeof *handle) == 0);
	if (*link == NULL)
		return import(out, handle, context, flags);
	(*link)->count++;
	*out = (*link)->range.addr;
	return SUCCESS;
}

#define OPENS(function, since) \
	EXPORT CUresult function(CUdeviceptr *out, struct ipc_handle handle, unsigned flags) { \
		REFUSE(ANY_TIME, \
		    out == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !is_handle(&handle, memory_kind), \
		    INVALID_VALUE); \
		CALLED_SINCE(since, cuIpcOpenMemHandle); \
		return open_handle(out, &handle, flags); \
	}
OPENS(cuIpcOpenMemHandle_v2, 11000)
OPENS(cuIpcOpenMemHandle, 0)

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr addr) {
	CALLED(cuIpcCloseMemHandle);
	IN_CONTEXT;
	if (m->lenient)
		wait_idle(context); /* without the lock: what is found before may be gone afterwards */
	struct import **link = &m->imports;
	FIND(link, (*link)->range.addr == addr && (*link)->context == context);
	NEED(*link);
	if (--(*link)->count == 0)
		drop(link);
	return SUCCESS;
}

int within_imports(uint64_t addr, uint64_t bytes) {
	struct import **link = &m->imports;
	FIND(link, inside(addr, bytes, (*link)->range));
	return *link != NULL;
}

int find_import(uint64_t addr, struct place *out) {
	struct import **link = &m->imports, *import;
	FIND(link, inside(addr, 1, (*link)->range));
	if ((import = *link) == NULL)
		return 0;
	*out = (struct place){.access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	    .rdma = 1,
	    .range = import->range,
	    .context = import->context,
	    .gpu = import->gpu,
	    .notes = &import->notes};
	return 1;
}

int count_imports(void) {
	int count = 0;
	for (struct import *one = m->imports; one != NULL; one = one->next)
		count++;
	return count;
}

/*
 * Events that the processes of a job share. Each is a page of such a file that counts its records: how many there
 * were, and up to which one the work is done. A wait is for the last record of that moment. If a process ends with its
 * work undone, no other one waits forever: a wait looks whether the process of the record lives.
 */

enum { LOOKS = 400 }; /* at a record before its process is looked for: 20 ms */

/* Shared. The process that recorded last, by its slot and its number. */
struct page {
	uint64_t recorded, done;
	int32_t slot, process;
	int32_t maker;
};

struct shared_event {
	struct page *page;
	struct ipc_handle handle;
	int references, looks;
};

/* The page outlives its file: processes that have it mapped go on with it. */
static struct shared_event *map_event(int file, const struct ipc_handle *handle) {
	void *at = file >= 0 ? mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
	struct shared_event *new = at != MAP_FAILED ? calloc(1, sizeof *new) : NULL;
	if (file >= 0)
		close(file);
	if (new != NULL)
		*new = (struct shared_event){.page = at, .handle = *handle, .references = 1};
	else if (at != MAP_FAILED)
		munmap(at, PAGE);
	return new;
}

/* A page that the file system has no room for would end the process with SIGBUS. */
struct shared_event *make_shared_event(void) {
	struct ipc_handle handle;
	int file = has_slot(m->shared) ? make_job_file(&handle, event_kind) : -1;
	if (file < 0)
		return NULL;
	if (posix_fallocate(file, 0, PAGE) != 0) {
		close(file);
		file = -1;
	}
	struct shared_event *new = map_event(file, &handle);
	if (new == NULL)
		remove_job_file(&handle);
	else
		new->page->maker = getpid();
	return new;
}

/* The references are this process's; each process has its own mapping of the page. */
struct shared_event *hold_shared(struct shared_event *shared) {
	shared->references++;
	return shared;
}

void drop_shared(struct shared_event *shared) {
	if (--shared->references > 0)
		return;
	munmap(shared->page, PAGE);
	free(shared);
}

void forget_shared(struct shared_event *shared) { remove_job_file(&shared->handle); }

/* Who records is written before the count is raised, so that a wait for the new number finds the right process. */
uint64_t begin_shared(struct shared_event *shared) {
	struct page *page = shared->page;
	__atomic_store_n(&page->slot, m->shared != NULL && has_slot(m->shared) ? m->shared->slot : -1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&page->process, getpid(), __ATOMIC_SEQ_CST);
	return __atomic_add_fetch(&page->recorded, 1, __ATOMIC_SEQ_CST);
}

/* The highest number that is done only grows: records of several streams may end in any order. */
void end_shared(struct shared_event *shared, uint64_t number) {
	uint64_t done = __atomic_load_n(&shared->page->done, __ATOMIC_SEQ_CST);
	while (done < number &&
	       !__atomic_compare_exchange_n(&shared->page->done, &done, number, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

uint64_t last_shared(const struct shared_event *shared) {
	return __atomic_load_n(&shared->page->recorded, __ATOMIC_SEQ_CST);
}

/* Whether the work of a record is done, or never will be. */
int shared_done(struct shared_event *shared, uint64_t number) {
	struct page *page = shared->page;
	if (__atomic_load_n(&page->done, __ATOMIC_SEQ_CST) >= number)
		return 1;
	if (++shared->looks % LOOKS != 0 || m->shared == NULL)
		return 0;
	int slot = __atomic_load_n(&page->slot, __ATOMIC_SEQ_CST),
	    process = __atomic_load_n(&page->process, __ATOMIC_SEQ_CST);
	if (holder_lives(m->shared, slot, (uint32_t)process))
		return 0;
	end_shared(shared, number);
	return 1;
}

EXPORT CUresult cuIpcGetEventHandle(struct ipc_handle *out, CUevent event) {
	REFUSE(ANY_TIME, out == NULL || event == NULL, INVALID_VALUE);
	CALLED(cuIpcGetEventHandle);
	IN_CONTEXT;
	if (event_gone(event) || event->foreign || !event->interprocess)
		return INVALID_HANDLE;
	if (event->shared == NULL)
		return not_done("cuIpcGetEventHandle" ALONE);
	*out = event->shared->handle;
	return SUCCESS;
}

/* It cannot time: the clocks of two processes' records are not compared. */
static CUresult open_event(CUevent *out, const struct ipc_handle *handle, struct context *context) {
	if (m->shared == NULL)
		return not_done("cuIpcOpenEventHandle" ALONE);
	struct shared_event *shared = map_event(open_named(handle, 0), handle);
	if (shared == NULL)
		return INVALID_VALUE; /* it was destroyed */
	if (shared->page->maker == getpid()) {
		drop_shared(shared);
		return INVALID_CONTEXT; /* as of memory; ROCm/hip#1984 */
	}
	*out = add_event(context, 1);
	(*out)->shared = shared;
	(*out)->foreign = 1;
	return SUCCESS;
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, struct ipc_handle handle) {
	REFUSE(ANY_TIME, out == NULL, INVALID_VALUE);
	CALLED(cuIpcOpenEventHandle);
	IN_CONTEXT;
	return is_handle(&handle, event_kind) ? open_event(out, &handle, context) : MAP_FAILED_IN_DRIVER;
}
