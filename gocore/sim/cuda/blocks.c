/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where linear memory lies. PyTorch takes the lowest of the free blocks that fit equally well, so how much it reserves
 * depends on the driver's addresses. NVIDIA does not document them. With these rules, 1,376 of 1,397 allocations of
 * random sequences lie at the place in their block that an H200's driver gave them
 * (benchmarks/accuracy/drawn/addresses.py, tests_py/simulation/test_addresses.py):
 *
 *  - The driver takes addresses in blocks of whole 32 MiB, downwards: from the highest hole between blocks that is
 * larger than what it takes.
 *  - An allocation lies in the newest block that has a hole for it, there in the smallest such hole, and of those in
 * the lowest.
 *  - A block without allocations is returned.
 *  - 416 MiB below the first block are the driver's own. When cuDNN starts, what it loads goes there, and that becomes
 * the newest block: so it was in the programs of benchmarks/accuracy/drawn.
 */
#include "driver.h"

#include "../../machine/models/simulator.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ROOM_FOR_KERNELS (13 * BLOCK)

struct block {
	struct range range;
	int gpu, allocations;
	uint64_t used;
	struct block *older;
	struct block *below; /* the next of the same GPU, downwards */
	int committed;       /* it is readable and writable */
};

static uint64_t end_of(struct range range) { return range.addr + range.bytes; }

/* The smallest hole of a block; 0: none is large enough. The list is in address order; a page of small allocations is
 * full. */
static uint64_t best_hole(const struct block *block, uint64_t bytes) {
	uint64_t best = UINT64_MAX, found = 0, end = block->range.addr;
	for (const struct allocation *one = m->allocations;; one = one->next) {
		if (one != NULL && one->range.addr < block->range.addr)
			continue;
		int last = one == NULL || one->range.addr >= end_of(block->range);
		uint64_t next = last ? end_of(block->range) : one->range.addr / GRANULE * GRANULE;
		if (next > end && next - end >= bytes && next - end < best) {
			best = next - end;
			found = end;
		}
		if (last)
			return found;
		uint64_t behind = next + to_pages(one->range.bytes);
		end = behind > end ? behind : end;
	}
}

/* The place of a block, from above; 0: there is none. Between two blocks stays a page, unless only an exact hole is
 * left. */
static uint64_t place_of_block(const struct gpu *gpu, int number, uint64_t bytes, uint64_t gap, struct block ***link) {
	uint64_t top = gpu->arena + m->arena_bytes[number];
	top -= top % BLOCK;
	for (*link = &m->highest[number];; *link = &(**link)->below) {
		const struct block *next = **link;
		uint64_t bottom = next != NULL ? end_of(next->range) : gpu->arena;
		if (top >= bottom + bytes + gap)
			return top - bytes;
		if (next == NULL)
			return 0;
		top = next->range.addr;
	}
}

/* It counts as an allocation, so that the block is not returned. A small card has no such room. */
static void keep_room_for_kernels(int number) {
	struct block *first = m->highest[number], *room;
	if (m->arena_bytes[number] < 8 * ROOM_FOR_KERNELS || first->range.addr < m->gpu[number].arena + ROOM_FOR_KERNELS ||
	    (room = calloc(1, sizeof *room)) == NULL)
		return;
	*room = (struct block){{first->range.addr - ROOM_FOR_KERNELS, ROOM_FOR_KERNELS}, number, 1, 0, NULL, NULL, 0};
	first->below = m->room_for_kernels[number] = room;
}

/* Called when cuDNN starts (runtime/cudnn.c): the room becomes the newest block of its GPU. */
EXPORT void gpuconf_simulator_with_kernels(void) {
	struct context *context;
	hold_machines();
	LOCK_ANYWAY;
	struct block **room = current_context(&context) == SUCCESS ? &m->room_for_kernels[context->gpu] : NULL;
	if (room != NULL && *room != NULL) {
		(*room)->older = m->newest;
		m->newest = *room;
		*room = NULL;
	}
	UNLOCK;
	let_machines_go();
}

/* Whole units of 32 MiB with a page between blocks; where no hole is that large, exactly what is requested. */
static struct block *new_block(int number, uint64_t bytes) {
	const struct gpu *gpu = &m->gpu[number];
	struct block **link, *new;
	uint64_t whole = (bytes + BLOCK - 1) / BLOCK * BLOCK, addr = place_of_block(gpu, number, whole, GRANULE, &link);
	if (addr == 0) {
		whole = bytes;
		addr = place_of_block(gpu, number, whole, 0, &link);
	}
	if (addr == 0 || (new = calloc(1, sizeof *new)) == NULL)
		return NULL;
	*new = (struct block){{addr, whole}, number, 0, 0, m->newest, *link, 0};
	*link = m->newest = new;
	if (m->highest[number] == new && new->below == NULL)
		keep_room_for_kernels(number);
	return new;
}

/* The newest block first. A block of which less is free than requested is passed over without a look at its holes. */
uint64_t take_place(int gpu, uint64_t bytes, struct block **of) {
	for (struct block *one = m->newest; one != NULL; one = one->older) {
		uint64_t addr = one->gpu == gpu && one->range.bytes - one->used >= bytes ? best_hole(one, bytes) : 0;
		if (addr != 0) {
			*of = one;
			return addr;
		}
	}
	*of = new_block(gpu, bytes);
	return *of != NULL ? (*of)->range.addr : 0;
}

int commit_block(const struct gpu *gpu, struct block *block) {
	uint64_t end = end_of(block->range);
	block->committed = block->committed || end <= gpu->committed || commit(gpu, block->range.addr, end);
	return block->committed;
}

void enter_block(struct block *block, uint64_t bytes) {
	block->allocations++;
	block->used += bytes;
}

static void cut(struct block **link, const struct block *gone, int by_age) {
	while (*link != gone)
		link = by_age ? &(*link)->older : &(*link)->below;
	*link = by_age ? gone->older : gone->below;
}

void leave_block(struct block *block, uint64_t bytes) {
	block->used -= bytes;
	if (--block->allocations > 0)
		return;
	struct block **highest = &m->highest[block->gpu], **room = &m->room_for_kernels[block->gpu];
	cut(&m->newest, block, 1);
	cut(highest, block, 0);
	free(block);
	if (*highest != NULL && *highest == *room && (*room)->below == NULL) { /* it is kept below a first block */
		free(*room);
		*highest = *room = NULL;
	}
}

void drop_blocks(void) {
	for (int i = 0; i < MAX_GPUS; i++) {
		free_list(m->highest[i], offsetof(struct block, below));
		m->highest[i] = m->room_for_kernels[i] = NULL;
	}
	m->newest = NULL;
}

/*
 * Blocks lie at the end of the arena. A shared card's memory is a file, so RLIMIT_FSIZE applies.
 * That is looked up when the cards start, since a look is a call of the system.
 */
void choose_blocks(void) {
	struct rlimit limit;
	m->has_blocks = m->shared == NULL || getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY;
}

/*
 * Ranges of addresses that a machine has from the host. They stay mapped until it closes: a stale pointer reads garbage
 * but never faults, and never meets memory of something else. A machine that was opened with cards uses a range that
 * was returned for the next of its size.
 */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define FIRST_PLACE \
	UINT64_C(0x700000000000) /* below libraries and stacks, above what the kernel gives to a small program */
#define LAST_PLACE UINT64_C(0x780000000000)
#define STEP (UINT64_C(1) << 30)

struct held {
	struct range range;
	int spare;
	struct held *next;
};

/* Anywhere, trimmed to the alignment. */
uint64_t map_anywhere(uint64_t bytes, uint64_t alignment, int access) {
	void *got = mmap(NULL, bytes + alignment, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (got == MAP_FAILED)
		return 0;
	uint64_t begin = (uint64_t)(uintptr_t)got, addr = (begin + alignment - 1) / alignment * alignment;
	if (addr > begin)
		munmap(got, addr - begin);
	if (addr < begin + alignment)
		munmap((void *)(uintptr_t)(addr + bytes), begin + alignment - addr);
	return addr;
}

/* Maps at the first free place from an address on and below another one, which it tries in steps. 0: there is none. */
uint64_t map_from(uint64_t addr, uint64_t last, uint64_t bytes, uint64_t alignment, int access) {
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	for (; bytes < last && addr<last - bytes; addr += alignment> STEP ? alignment : STEP) {
		void *got = mmap((void *)(uintptr_t)addr, bytes, access, flags, -1, 0);
		if (got == (void *)(uintptr_t)addr)
			return addr;
		if (got != MAP_FAILED) /* an old kernel takes the address as a hint */
			munmap(got, bytes);
	}
	return 0;
}

/* From a cursor on, so that the same calls return the same addresses in every process. */
uint64_t map_in_order(uint64_t bytes, uint64_t alignment, int access) {
	if (m->next_place == 0)
		m->next_place = FIRST_PLACE;
	uint64_t addr =
	    map_from((m->next_place + alignment - 1) / alignment * alignment, LAST_PLACE, bytes, alignment, access);
	if (addr == 0)
		return map_anywhere(bytes, alignment, access);
	m->next_place = addr + bytes;
	return addr;
}

/* Ranges are multiples of the host's largest page, so that one may be dropped without its neighbours. */
uint64_t take_range(uint64_t bytes, uint64_t alignment, int access) {
	if (bytes == 0 || bytes > (UINT64_C(1) << 46) || alignment > (UINT64_C(1) << 46))
		return 0;
	bytes = (bytes + LARGEST_PAGE - 1) / LARGEST_PAGE * LARGEST_PAGE;
	alignment = alignment < LARGEST_PAGE ? LARGEST_PAGE : alignment;
	for (struct held *one = m->ranges; one != NULL; one = one->next)
		if (one->spare && one->range.bytes == bytes && one->range.addr % alignment == 0 &&
		    (access == PROT_NONE || mprotect((void *)(uintptr_t)one->range.addr, bytes, access) == 0)) {
			one->spare = 0;
			return one->range.addr;
		}
	uint64_t addr = m->cards != NULL ? map_in_order(bytes, alignment, access) : map_anywhere(bytes, alignment, access);
	struct held *new = addr != 0 ? calloc(1, sizeof *new) : NULL;
	if (new == NULL)
		return 0;
	*new = (struct held){{addr, bytes}, 0, m->ranges};
	m->ranges = new;
	return addr;
}

/* The pages go back to the host, and the addresses stay the machine's. */
void give_range(uint64_t addr) {
	for (struct held *one = m->ranges; one != NULL; one = one->next)
		if (one->range.addr == addr) {
			madvise((void *)(uintptr_t)addr, one->range.bytes, MADV_DONTNEED);
			one->spare = m->cards != NULL;
		}
}

/* Only when the machine is closed: until then a stale pointer must not meet other memory. */
void drop_ranges(void) {
	while (m->ranges != NULL) {
		struct held *gone = m->ranges;
		m->ranges = gone->next;
		munmap((void *)(uintptr_t)gone->range.addr, gone->range.bytes);
		free(gone);
	}
}
