/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory a file descriptor exports. Descriptors of different exports may be of one file (a device file), and pass
 * to other processes by sockets and forks. What stays with all copies of a descriptor is the locks of its open file:
 * the exporter locks a byte far behind the end of the file, whose number is that of the memory. The lock ends when the
 * last copy is closed, in whichever process.
 *
 * A lock is not seen from the open file that has it, so the file is opened a second time to look. Where that is not
 * possible (a file without a name), exports are not told apart: see docs/guard.md.
 */
#include "guard.h"

#include "../budget/locks.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST (INT64_C(1) << 48)
#define LAST ((INT64_C(1) << 62) - 1)
enum {
	COPIES = 256,
	MOST_FILES = 16
}; /* exports of one memory, each of which has a lock of its own; files to look through */

static struct file {
	dev_t device;
	ino_t number;
	int descriptor;
} files[MOST_FILES];
static int file_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int still(const struct file *file) {
	struct stat facts;

	return fstat(file->descriptor, &facts) == 0 && facts.st_dev == file->device && facts.st_ino == file->number;
}

/* Keeps one open file of each inode to look through; the program may close it. */
static int remember(int descriptor) {
	struct stat facts;
	int kept = 0;

	if (fstat(descriptor, &facts) != 0)
		return 0;
	HOLD(lock);
	for (int i = 0; i < file_count; i++)
		kept |= still(&files[i]) && files[i].device == facts.st_dev && files[i].number == facts.st_ino;
	if (!kept && file_count < MOST_FILES) {
		struct file one = {facts.st_dev, facts.st_ino, open_again(descriptor)};
		if ((kept = one.descriptor >= 0))
			files[file_count++] = one;
	}
	return kept;
}

uint64_t mark_descriptor(int descriptor, uint64_t id) {
	if (!remember(descriptor))
		return 0;
	while (id == 0) {
		if (getrandom(&id, sizeof id, 0) != sizeof id)
			return 0;
		id = id & (uint64_t)LAST & ~(uint64_t)(COPIES - 1);
		id = id < (uint64_t)FIRST ? 0 : id;
	}
	for (int copy = 0; copy < COPIES; copy++)
		if (lock_byte(descriptor, (int64_t)id + copy))
			return id;
	return 0;
}

/* The lock in a range that the descriptor's own file has: others have those that can be seen from it. */
static int64_t own_lock(int descriptor, int other, int64_t from, int64_t to) {
	int64_t found = from > to ? UNLOCKED : locked_byte(other, from, to), rest;

	if (found < 0 || locked_byte(descriptor, found, found) < 0)
		return found;
	rest = own_lock(descriptor, other, from, found - 1);
	return rest >= 0 ? rest : own_lock(descriptor, other, found + 1, to);
}

uint64_t id_of_descriptor(int descriptor) {
	int other = open_again(descriptor);

	if (other < 0)
		return 0;
	int64_t found = own_lock(descriptor, other, FIRST, LAST);
	close(other);
	return found < 0 ? 0 : (uint64_t)found & ~(uint64_t)(COPIES - 1);
}

int descriptor_lives(uint64_t id) {
	int lives = 0, all = 1;

	HOLD(lock);
	for (int i = 0; i < file_count; i++) {
		all &= still(&files[i]);
		lives |= still(&files[i]) && locked_byte(files[i].descriptor, (int64_t)id, (int64_t)id + COPIES - 1) >= 0;
	}
	return lives || !all;
}

void forget_descriptors(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
}

/*
 * Linear memory that is smaller than a page of 2 MiB shares one with others of its context. A page is charged with the
 * first of them, and returned with the last: the address says which page it is. An H200 with driver 580 counts so: it
 * takes 2 MiB for the first, and nothing for others while they fit; they take whole units of 512 bytes
 * (tests_py/driver/calls/full.py).
 */

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
