/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear memory that is smaller than a page of 2 MiB shares one with others of its context. A page is charged with the
 * first of them, and returned with the last: the address says which page it is. An H200 with driver 580 counts so: it
 * takes 2 MiB for the first, and nothing for others while they fit; they take whole units of 512 bytes
 * (tests_py/driver/calls/full.py).
 */
#include "guard.h"

#define PAGE_BYTES (UINT64_C(2) << 20)
#define UNIT UINT64_C(512)

uint64_t part_of_page(uint64_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

/* gpuconf's own pools are counted apart: what they have is never shared. */
int shares_page(uint64_t bytes) {
	return bytes > 0 && bytes < PAGE_BYTES && part_of_page(bytes) < PAGE_BYTES && !for_pools;
}

static struct entry page_of(const struct entry *small) {
	return (struct entry){
	    .kind = PAGE, .key = small->key / PAGE_BYTES, .bytes = PAGE_BYTES, .owner = small->owner, .card = small->card};
}

struct search {
	void *owner;
	uint64_t bytes;
	int found;
};

static int look_for_room(struct entry *entry, void *argument) {
	struct search *search = argument;

	if (entry->kind == PAGE && entry->owner == search->owner && entry->count + search->bytes <= PAGE_BYTES)
		search->found = 1;
	return 0;
}

/* The table is looked through only where there is no room for a page more. */
static int has_room_in_a_page(const struct entry *entry) {
	struct search search = {entry->owner, entry->count, 0};
	struct card_use use;

	card_use(entry->card, &use);
	if (LIKELY(use.left >= PAGE_BYTES))
		return 0;
	table_each(look_for_room, &search);
	return search.found;
}

/* A page more, or none if one that is charged has as much free as the request needs: if that is not in one piece, the
 * request is undone. */
CUresult charge_small(struct small *small, uint64_t bytes) {
	struct entry *entry = &small->entry;

	*small = (struct small){.entry = {.kind = LINEAR, .count = (uint32_t)part_of_page(bytes)}};
	CUresult result = owner_of_request(entry);
	if (result != CUDA_SUCCESS)
		return result;
	if (UNLIKELY(has_room_in_a_page(entry)) && take(entry->card, 0))
		return CUDA_SUCCESS;
	entry->bytes = PAGE_BYTES;
	if (LIKELY(small->undecided = take_undecided(entry->card, PAGE_BYTES)) || take_or_settle(entry->card, PAGE_BYTES))
		return CUDA_SUCCESS;
	entry->bytes = 0;
	entry->card = NO_CARD;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

int place_in_page(struct entry *entry) {
	struct entry page = page_of(entry);
	int is_new = table_use_page(&page, entry->count);

	if (is_new < 0)
		return 0;
	if (is_new && entry->bytes == 0 && !take_or_settle(entry->card, PAGE_BYTES)) {
		table_leave_page(&page, entry->count);
		return 0;
	}
	if (!is_new)
		give(entry->card, entry->bytes);
	entry->bytes = 0;
	return 1;
}

void leave_page(const struct entry *entry) {
	struct entry page = page_of(entry);

	if (table_leave_page(&page, entry->count))
		give(entry->card, PAGE_BYTES);
}

/* What the driver does not take back stays charged until its context ends. */
static void keep(struct entry *entry) {
	struct entry page = page_of(entry);

	NOTE_ONCE("the driver could not free memory beyond the limit: it stays charged");
	if (table_use_page(&page, entry->count) > 0)
		take_anyway(entry->card, PAGE_BYTES);
	table_add(entry);
}

CUresult end_small(struct small *small, CUresult reason, CUresult result, CUdeviceptr address) {
	struct entry *entry = &small->entry;
	int placed = 0;

	entry->key = address;
	if (LIKELY(result == CUDA_SUCCESS)) {
		placed = reason == CUDA_SUCCESS && place_in_page(entry);
		if (UNLIKELY(!placed || !table_add(entry)))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (LIKELY(small->undecided))
		taken(entry->card);
	if (LIKELY(result == CUDA_SUCCESS))
		return result;
	int released = address == 0 || release_linear(address) == CUDA_SUCCESS;
	if (placed)
		leave_page(entry);
	give(entry->card, entry->bytes);
	entry->bytes = 0;
	if (!released && reason == CUDA_SUCCESS)
		keep(entry);
	return result;
}
