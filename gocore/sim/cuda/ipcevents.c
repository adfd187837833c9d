/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that the processes of a job share. Each is a page of a file (ipc.h) that counts its records: how many there
 * were, and up to which one the work is done. A wait is for the last record of that moment. If a process ends with its
 * work undone, no other one waits forever: a wait looks whether the process of the record lives.
 */
#include "ipc.h"
#include "stream.h"

#include "../../lease/budget/budget.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, LOOKS = 400 }; /* at a record before its process is looked for: 20 ms */

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

uint64_t begin_shared(struct shared_event *shared) {
	struct page *page = shared->page;
	__atomic_store_n(&page->slot, m->shared != NULL && has_slot(m->shared) ? m->shared->slot : -1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&page->process, getpid(), __ATOMIC_SEQ_CST);
	return __atomic_add_fetch(&page->recorded, 1, __ATOMIC_SEQ_CST);
}

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
	IN_CONTEXT({
		if (event_gone(event) || event->foreign || !event->interprocess)
			result = INVALID_HANDLE;
		if (result == SUCCESS && event->shared == NULL)
			result = not_done(
			    "cuIpcGetEventHandle for cards that no other process shares (gpuconf run --simulate shares them)");
		if (result == SUCCESS)
			*out = event->shared->handle;
	});
}

static CUresult open_event(CUevent *out, const struct ipc_handle *handle, struct context *context) {
	if (m->shared == NULL)
		return not_done(
		    "cuIpcOpenEventHandle for cards that no other process shares (gpuconf run --simulate shares them)");
	struct shared_event *shared = map_event(open_job_file(handle), handle);
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
	IN_CONTEXT(result = is_handle(&handle, event_kind) ? open_event(out, &handle, context) : MAP_FAILED_IN_DRIVER);
}
