/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory, page-locked memory, and synchronous copies
 * (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html).
 *
 * Linear memory is a part of its GPU's arena: one range of host addresses, of which blocks.c chooses the place. The
 * card is charged for it in pages of 2 MiB. What is smaller than a page lies with others of its context in one, which
 * is charged once. The machine's lock guards all lists. Always:
 *
 *  1. m->allocations is in the order of the addresses, and no two overlap.
 *  2. Of the small allocations in one page exactly one has the page's charge, unless a machine counts to the byte.
 *  3. An allocation that is `gone` was freed here and is still open in another process: it keeps its place and its
 *     pages, and no call finds it.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* How finely a card counts what is requested, where it does not count pages. */
static uint64_t unit(void) { return m->to_the_byte ? 256 : 512; }

uint64_t charge(uint64_t bytes) { return (bytes + unit() - 1) / unit() * unit(); }

/* What is smaller than a page of 2 MiB lies in one of its context with others. */
static int is_small(uint64_t bytes) { return charge(bytes) < GRANULE; }

/* Those of a page are charged for the page together. So were an H200's counted (tests_py/driver/calls/full.py). */
static int shares_charge(uint64_t bytes) { return is_small(bytes) && !m->to_the_byte; }

static uint64_t page_of(uint64_t addr) { return addr / GRANULE; }

uint64_t to_pages(uint64_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

/* What an allocation takes of the card where it has its pages alone. */
uint64_t pages(uint64_t bytes) { return m->to_the_byte ? charge(bytes) : to_pages(bytes); }

/* Written so that no sum overflows: a program may pass any address and size. */
int inside(uint64_t addr, uint64_t bytes, struct range range) {
	return addr >= range.addr && addr - range.addr <= range.bytes && bytes <= range.bytes - (addr - range.addr);
}

/* Whether a range lies in one element: a copy over two that are adjacent is a mistake here. */
static int inside_list(uint64_t addr, uint64_t bytes, const struct allocation *list) {
	for (; list != NULL; list = list->next)
		if (!list->gone && inside(addr, bytes, list->range))
			return 1;
	return 0;
}

/* Page-locked memory, whether the driver has allocated it or the program has registered it. */
int within_host(uint64_t addr, uint64_t bytes) {
	return inside_list(addr, bytes, m->hosts) || inside_list(addr, bytes, m->registered);
}

/* There is one address space: a context can access the linear memory of every device. */
int within(uint64_t addr, uint64_t bytes, int gpu) {
	return inside_list(addr, bytes, m->allocations) || inside_list(addr, bytes, m->managed_memory) ||
	       within_host(addr, bytes) || within_outside(addr, bytes, gpu) || within_imports(addr, bytes) ||
	       within_mappings(addr, bytes, gpu);
}

static void drop_gone(void);

/* First fit: the lowest hole of the arena. The list is in address order. */
static struct allocation **lowest_hole(int gpu, uint64_t bytes, uint64_t *addr) {
	struct allocation **at = &m->allocations;
	*addr = m->gpu[gpu].arena;
	for (; *at != NULL; at = &(*at)->next) {
		if ((*at)->context->gpu != gpu)
			continue;
		if ((*at)->range.addr >= *addr + bytes)
			break;
		*addr = to_pages((*at)->range.addr + (*at)->range.bytes);
	}
	return at;
}

/* A hole in a page of the context that has small allocations already; NULL if there is none. */
static struct allocation **hole_in_page(const struct context *context, uint64_t bytes, uint64_t *addr) {
	uint64_t page = UINT64_MAX;
	*addr = 0;
	struct allocation **behind = NULL; /* the last one of the page: others than small ones may follow it */
	for (struct allocation **at = &m->allocations; *at != NULL; at = &(*at)->next) {
		struct allocation *one = *at;
		if (one->context != context || !is_small(one->range.bytes))
			continue;
		if (page_of(one->range.addr) != page) {
			if (page != UINT64_MAX && *addr + bytes <= (page + 1) * GRANULE)
				return behind;
			page = page_of(one->range.addr);
			*addr = page * GRANULE;
		}
		if (one->range.addr >= *addr + bytes)
			return at;
		*addr = one->range.addr + charge(one->range.bytes);
		behind = &one->next;
	}
	return page != UINT64_MAX && *addr + bytes <= (page + 1) * GRANULE ? behind : NULL;
}

/* The first allocation in a page, but for one. */
static struct allocation *in_page(uint64_t page, const struct allocation *but) {
	struct allocation *other = m->allocations;
	while (other != NULL && (other == but || page_of(other->range.addr) != page))
		other = other->next;
	return other;
}

/* An export is a share of the card, and must have its page's charge itself: it takes that over from whichever
 * allocation of the page has it. */
uint64_t take_charge(struct allocation *one) {
	for (struct allocation *other = m->allocations; other != NULL && one->charged == 0; other = other->next)
		if (other->context->gpu == one->context->gpu && page_of(other->range.addr) == page_of(one->range.addr) &&
		    other->export == NULL) {
			one->charged = other->charged;
			other->charged = other == one ? one->charged : 0;
		}
	return one->charged;
}

/* Address space is reserved when the machine starts; the host may count memory that is readable and writable as in use.
 */
int commit(const struct gpu *gpu, uint64_t begin, uint64_t end) {
	int file = m->arena_files[gpu - m->gpu];
	struct stat facts;
	if (file > 0 && (fstat(file, &facts) != 0 || ((uint64_t)facts.st_size < end - gpu->arena &&
	                                                 ftruncate64(file, (off64_t)(end - gpu->arena)) != 0)))
		return 0;
	return mprotect((void *)(uintptr_t)begin, end - begin, PROT_READ | PROT_WRITE) == 0;
}

/* For an arena that is used from its lowest address on. */
static int commit_until(struct gpu *gpu, uint64_t end) {
	end = (end + GRANULE - 1) / GRANULE * GRANULE;
	if (end > gpu->committed && !commit(gpu, gpu->committed, end))
		return 0;
	gpu->committed = end > gpu->committed ? end : gpu->committed;
	return 1;
}

/* Returns where an allocation enters the list, and its address; NULL: there is no place for it. */
static struct allocation **place(struct gpu *gpu, uint64_t bytes, uint64_t *addr, struct block **block) {
	int number = (int)(gpu - m->gpu);
	*block = NULL;
	if (!m->has_blocks) {
		struct allocation **at = lowest_hole(number, to_pages(bytes), addr);
		int fits = *addr + bytes <= gpu->arena + m->arena_bytes[number];
		return fits && commit_until(gpu, *addr + bytes) ? at : NULL;
	}
	*addr = take_place(number, to_pages(bytes), block);
	if (*addr == 0 || !commit_block(gpu, *block))
		return NULL;
	struct allocation **at = &m->allocations;
	while (*at != NULL && (*at)->range.addr < *addr)
		at = &(*at)->next;
	return at;
}

/* The card is charged before a place is looked for, since blocks are made in the latter; what cannot be placed
 * returns its charge. */
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
	CALLED(cuMemAlloc);
	IN_CONTEXT;
	if (bytes == 0 || out == NULL)
		return INVALID_VALUE;
	struct gpu *gpu = &m->gpu[context->gpu];
	struct block *block = NULL;
	uint64_t addr = 0;
	drop_gone();
	if (bytes > gpu->total + gpu->spill)
		return OUT_OF_MEMORY;
	struct allocation **link = is_small(bytes) ? hole_in_page(context, charge(bytes), &addr) : NULL;
	uint64_t charged = link != NULL && shares_charge(bytes) ? 0 : pages(bytes);
	const struct allocation *mate = link != NULL ? in_page(page_of(addr), NULL) : NULL;
	if (!use_card(gpu, charged))
		return OUT_OF_MEMORY;
	if (link == NULL && (link = place(gpu, bytes, &addr, &block)) == NULL) {
		leave_card(gpu, charged);
		return OUT_OF_MEMORY;
	}
	block = mate != NULL ? mate->block : block;
	ADD(*link, .range = {addr, bytes}, .context = context, .charged = charged, .block = block);
	if (block != NULL)
		enter_block(block, mate != NULL ? 0 : to_pages(bytes));
	*out = addr;
	watch_host_memory();
	return SUCCESS;
}

/* Takes an allocation out of the list and its block; its pages and its charge are the caller's. */
static void drop(struct allocation **link) {
	struct allocation *gone = TAKE_OUT(link);
	if (gone->block != NULL) { /* what it shares its page with keeps the place */
		int shared = is_small(gone->range.bytes) && in_page(page_of(gone->range.addr), NULL) != NULL;
		leave_block(gone->block, shared ? 0 : to_pages(gone->range.bytes));
	}
	free(gone);
}

/* Pages of a file are punched out of it, and others dropped: both read as zeros. No allocation has both. Returns 0
 * where neither is possible. */
static int give_back(uint64_t from, uint64_t to) {
	void *at = (void *)(uintptr_t)from;
	return madvise(at, to - from, MADV_REMOVE) == 0 || (errno == EINVAL && madvise(at, to - from, MADV_DONTNEED) == 0);
}

/* Makes memory zero. From a size on its pages go back to the host, and come again only where something is written. */
EXPORT void gpuconf_simulator_clear(uint64_t addr, uint64_t bytes) {
	enum { LARGE = 4 << 20 }; /* pages that come again take several times as long to write as those that stayed */
	uint64_t end = addr + bytes, from = (addr + LARGEST_PAGE - 1) / LARGEST_PAGE * LARGEST_PAGE,
	         to = end / LARGEST_PAGE * LARGEST_PAGE;
	if (bytes < LARGE || !give_back(from, to))
		from = to = end;
	memset((void *)(uintptr_t)addr, 0, from - addr);
	memset((void *)(uintptr_t)to, 0, end - to);
}

/* The pages of an allocation, with those that it shares with memory which is free: they go back to the host. A page
 * that a live one has stays. */
static void drop_pages(const struct allocation *gone) {
	enum { PAGE = 4096 };
	const struct gpu *gpu = &m->gpu[gone->context->gpu];
	uint64_t begin = gone->range.addr, end = begin + gone->range.bytes, before = gpu->arena, behind = UINT64_MAX;
	for (const struct allocation *one = m->allocations; one != NULL; one = one->next) {
		if (one->context->gpu != gone->context->gpu || one == gone)
			continue;
		if (one->range.addr > begin) {
			behind = one->range.addr;
			break;
		}
		before = one->range.addr + one->range.bytes;
	}
	uint64_t from = begin / PAGE * PAGE, to = (end + PAGE - 1) / PAGE * PAGE;
	from += from < before ? PAGE : 0;
	to -= to > behind ? PAGE : 0;
	int file = m->arena_files[gone->context->gpu];
	if (to > from && file > 0)
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(from - gpu->arena), (off_t)(to - from));
	else if (to > from)
		madvise((void *)(uintptr_t)from, to - from, MADV_DONTNEED);
}

static void drop_with_pages(struct allocation **link) {
	drop_pages(*link);
	free((*link)->export);
	drop(link);
}

/* What another process has imported keeps its place and its pages until that is over, and stays in the list. */
static void drop_device(struct allocation **link) {
	struct allocation *memory = *link;
	uint64_t bytes = memory->charged;
	struct allocation *other = NULL; /* of its page, which it then keeps */
	if (memory->export == NULL && bytes > 0 && shares_charge(memory->range.bytes))
		other = in_page(page_of(memory->range.addr), memory);
	if (other != NULL) {
		other->charged = bytes;
		bytes = 0;
	}
	if (memory->export != NULL) {
		m->gpu[memory->context->gpu].used -= bytes; /* the share has the charge */
		memory->gone = end_export(memory);
	} else {
		leave_card(&m->gpu[memory->context->gpu], bytes);
	}
	if (!memory->gone)
		drop_with_pages(link);
}

/* The machine ends, and with it what other processes still have open of it. */
void end_gone(void) {
	while (m->allocations != NULL) {
		free(m->allocations->export);
		drop(&m->allocations);
	}
}

/* Looks which of what was freed no other process has open any more. Nothing says so by itself: an importer may have
 * ended. */
static void drop_gone(void) {
	if (m->shared == NULL)
		return;
	DROP_EACH(m->allocations, (*link)->gone && !export_lives(*link), drop_with_pages);
}

/* Page-locked memory stays mapped: a stale pointer reads garbage but never faults. */
static void drop_host(struct allocation **link) {
	give_range((*link)->range.addr);
	drop(link);
}

/* All that a context owns. Its streams have ended, so no work uses it. */
void end_memory(struct context *context) {
	DROP_EACH(m->allocations, (*link)->context == context && !(*link)->gone, drop_device);
	DROP_EACH(m->managed_memory, (*link)->context == context, drop_managed);
	end_outside(context);
	end_imports(context);
	end_registered(context);
	end_arrays(context);
	DROP_EACH(m->hosts, (*link)->context == context, drop_host);
}

/* Any context is accepted, whichever device the address is on, and none need be current. */
static CUresult release(struct allocation **list, uint64_t addr, void (*drop_one)(struct allocation **)) {
	struct context *context;
	LOCKED;
	struct allocation **link = list;
	FIND(link, !(*link)->gone && (*link)->range.addr == addr);
	CUresult result = current_context(&context);
	if (result != SUCCESS && result != INVALID_CONTEXT)
		return result;
	NEED(*link);
	if (result == INVALID_CONTEXT)
		context = (*link)->context;
	if (m->lenient) {
		wait_idle(context);
		link = list; /* the list may have changed meanwhile */
		FIND(link, !(*link)->gone && (*link)->range.addr == addr);
		NEED(*link);
	}
	drop_one(link);
	return SUCCESS;
}

/* Linear memory and managed memory have one function to free them. */
CUresult free_linear(uint64_t addr) {
	CUresult result = release(&m->allocations, addr, drop_device);
	return result == INVALID_VALUE ? release(&m->managed_memory, addr, drop_managed) : result;
}

/* The kinds of memory are tried in turn. Each looks its address up under a lock of its own, as free_linear waits for
 * work. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr addr) {
	CALLED(cuMemFree);
	if (addr == 0)
		return SUCCESS;
	CUresult result = free_linear(addr);
	if (result == INVALID_VALUE) {
		LOCK;
		result = free_outside(addr);
		UNLOCK;
	}
	return result;
}

/* As drivers may, it calls functions that it exports. */
EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
	CALLED(cuMemAllocPitch);
	if (out == NULL || pitch == NULL || (element != 4 && element != 8 && element != 16))
		return INVALID_VALUE;
	CUcontext context;
	TRY(usable_context(&context));
	*pitch = (width + 511) / 512 * 512;
	return width == 0 || height == 0 ? INVALID_VALUE : cuMemAlloc_v2(out, *pitch * height);
}

EXPORT CUresult cuMemFreeHost(void *memory) {
	CALLED(cuMemFreeHost);
	if (memory == NULL)
		return SUCCESS;
	return release(&m->hosts, (uint64_t)(uintptr_t)memory, drop_host);
}

/* Host memory cannot be refused by a card: only the host's address space bounds it, and a size that no host has is
 * refused first. */
EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
	CALLED(cuMemHostAlloc);
	IN_CONTEXT;
	if (out == NULL || flags > (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
		return INVALID_VALUE;
	*out = NULL;
	if (bytes == 0)
		return SUCCESS;
	uint64_t addr = bytes > (UINT64_C(1) << 40) ? 0 : take_range(bytes, 4096, PROT_READ | PROT_WRITE);
	if (addr == 0)
		return OUT_OF_MEMORY;
	*out = (void *)(uintptr_t)addr;
	ADD(m->hosts, .range = {addr, bytes}, .context = context, .flags = flags);
	return SUCCESS;
}

/* What other processes have closed or freed since is looked at first, and also in a thread without a context. */
EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
	CALLED(cuMemGetInfo);
	struct context *context;
	LOCKED;
	CUresult result = current_context(&context);
	exports_closed();
	drop_gone();
	if (result != SUCCESS)
		return result;
	if (total != NULL)
		*total = m->gpu[context->gpu].total;
	if (available != NULL) /* overfull: as WSL2 says of memory beyond the card's, where the difference wraps around */
		*available = m->overfull ? 0 - (size_t)(16 << 20) : free_bytes(&m->gpu[context->gpu]);
	return SUCCESS;
}

/* The form of CUDA 2 with numbers of 32 bits: more than these hold is said as the largest. */
EXPORT CUresult cuMemGetInfo(unsigned *available, unsigned *total) {
	size_t wide_available = 0, wide_total = 0;
	TRY(cuMemGetInfo_v2(&wide_available, &wide_total));
	NEED(available && total);
	*available = wide_available > UINT32_MAX ? UINT32_MAX : (unsigned)wide_available;
	*total = wide_total > UINT32_MAX ? UINT32_MAX : (unsigned)wide_total;
	return SUCCESS;
}

/* A copy or fill in the legacy stream. Unless wait is set, it may still run when the call returns. */
static CUresult legacy(struct work work, int from_host, int wait) {
	IN_CONTEXT;
	CUresult result = legacy_admitted(context);
	if (result != SUCCESS || work.bytes == 0)
		return result;
	if ((work.kind == COPY && work.src == 0) || work.dst == 0 ||
	    (!work.to_pageable && !within(work.dst, work.bytes, context->gpu)) ||
	    (work.kind == COPY && !from_host && !within(work.src, work.bytes, context->gpu)))
		return INVALID_VALUE;
	if (from_host) { /* pageable memory is staged */
		work.staged = malloc(work.bytes);
		memcpy(work.staged, (const void *)(uintptr_t)work.src, work.bytes);
	}
	uint64_t seq = enqueue(context->legacy, work);
	if (!wait)
		return SUCCESS;
	wait_done(context->legacy, seq);
	return context->sticky;
}

/* It returns before the copy: the source is staged, so that the program may change it. */
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes) {
	CALLED(cuMemcpyHtoD);
	return legacy((struct work){.kind = COPY, .dst = dst, .src = (uint64_t)(uintptr_t)src, .bytes = bytes}, 1, 0);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes) {
	CALLED(cuMemcpyDtoH);
	return legacy(
	    (struct work){.kind = COPY, .dst = (uint64_t)(uintptr_t)dst, .src = src, .bytes = bytes, .to_pageable = 1}, 0,
	    1);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
	CALLED(cuMemcpyDtoD);
	return legacy((struct work){.kind = COPY, .dst = dst, .src = src, .bytes = bytes}, 0, 0);
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t bytes) {
	CALLED(cuMemsetD8);
	return legacy((struct work){.kind = FILL, .dst = dst, .value = value, .bytes = bytes}, 0, 0);
}
