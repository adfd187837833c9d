/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of addresses that a machine has from the host. They stay mapped until it closes: a stale pointer reads garbage
 * but never faults, and never meets memory of something else. A machine that was opened with cards uses a range that
 * was returned for the next of its size.
 */
#include "driver.h"

#include "../../machine/models/simulator.h"

#include <stdlib.h>
#include <sys/mman.h>

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

void give_range(uint64_t addr) {
	for (struct held *one = m->ranges; one != NULL; one = one->next)
		if (one->range.addr == addr) {
			madvise((void *)(uintptr_t)addr, one->range.bytes, MADV_DONTNEED);
			one->spare = m->cards != NULL;
		}
}

void drop_ranges(void) {
	while (m->ranges != NULL) {
		struct held *gone = m->ranges;
		m->ranges = gone->next;
		munmap((void *)(uintptr_t)gone->range.addr, gone->range.bytes);
		free(gone);
	}
}
