/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of what is charged, in parts with a lock each, so that threads that allocate at one time seldom meet.
 *
 *  1. A part's lock guards all of its entries; no two parts' locks are held at one time.
 *  2. Every entry can be reached from its home without a gap: an entry that goes is replaced by those behind it
 *     (drop).
 *  3. A part is at most half full, so a look ends.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS = 16, SMALLEST = 64 };

struct part {
	pthread_mutex_t lock;
	struct entry *at; /* open addressing; a power of two, at most half full */
	uint64_t room, count;
} __attribute__((aligned(64)));

static struct part parts[PARTS] = {[0 ... PARTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* By multiplication: addresses differ in their middle bits most. The highest four bits choose the part, the lowest
 * the place in it. */
static uint64_t hash(enum kind kind, uint64_t key) {
	uint64_t mixed = (key ^ (uint64_t)kind << 58) * UINT64_C(0x9E3779B97F4A7C15);

	return mixed ^ mixed >> 29;
}

static struct part *part_of(uint64_t number) { return &parts[number >> 60]; }

/* The entry, or the free place where it would be. NULL: the part has no place yet. */
static struct entry *look(const struct part *part, enum kind kind, uint64_t key, uint64_t number) {
	if (part->room == 0)
		return NULL;
	uint64_t i = number & (part->room - 1);
	while (part->at[i].present && (part->at[i].key != key || part->at[i].kind != kind))
		i = (i + 1) & (part->room - 1);
	return &part->at[i];
}

/* Before an entry is added. Without host memory the part stays as it is, and the caller refuses the allocation. */
static int grow(struct part *part) {
	struct part larger = {.room = part->room == 0 ? SMALLEST : 2 * part->room};

	if (2 * (part->count + 1) <= part->room)
		return 1;
	larger.at = calloc(larger.room, sizeof *larger.at);
	if (larger.at == NULL)
		return 0;
	for (uint64_t i = 0; i < part->room; i++)
		if (part->at[i].present)
			*look(&larger, part->at[i].kind, part->at[i].key, hash(part->at[i].kind, part->at[i].key)) = part->at[i];
	free(part->at);
	part->at = larger.at;
	part->room = larger.room;
	return 1;
}

/*
 * An address that is in the table already has been allocated again: its context has ended on another thread, which has
 * not removed the context's entries yet.
 */
int table_add(const struct entry *entry) {
	struct entry before = {0};
	uint64_t number = hash(entry->kind, entry->key);
	struct part *part = part_of(number);

	pthread_mutex_lock(&part->lock);
	int fits = grow(part);
	if (fits) {
		struct entry *at = look(part, entry->kind, entry->key, number);
		part->count += !at->present;
		before = *at;
		*at = *entry;
		at->present = 1;
	}
	pthread_mutex_unlock(&part->lock);
	if (UNLIKELY(before.present) && (before.kind == LINEAR || before.kind == ARRAY || before.kind == MIPMAP))
		give_for(before.card, before.bytes, before.pools);
	if (UNLIKELY(before.present) && before.kind == LINEAR && before.count > 0)
		leave_page(&before);
	return fits;
}

/* Closes the gap, so that every entry can be reached from its place. */
static void drop(struct part *part, struct entry *gone) {
	uint64_t mask = part->room - 1, gap = (uint64_t)(gone - part->at);

	for (uint64_t i = (gap + 1) & mask; part->at[i].present; i = (i + 1) & mask) {
		uint64_t home = hash(part->at[i].kind, part->at[i].key) & mask;
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			part->at[gap] = part->at[i];
			gap = i;
		}
	}
	memset(&part->at[gap], 0, sizeof part->at[gap]);
	part->count--;
}

/* Also for a page of a context that has ended on another thread, which has not removed its entries yet: that is another
 * page. */
int table_use_page(const struct entry *page, uint32_t bytes) {
	uint64_t number = hash(PAGE, page->key);
	struct part *part = part_of(number);
	struct entry before = {0};
	int is_new = -1;

	pthread_mutex_lock(&part->lock);
	if (grow(part)) {
		struct entry *at = look(part, PAGE, page->key, number);
		is_new = !at->present || at->owner != page->owner;
		if (is_new) {
			part->count += !at->present;
			before = *at;
			*at = *page;
			at->present = 1;
		}
		at->count += bytes;
	}
	pthread_mutex_unlock(&part->lock);
	if (UNLIKELY(before.present))
		give(before.card, before.bytes);
	return is_new;
}

/* Returns whether the page is free now. A page of another owner is another page at the same address. */
int table_leave_page(const struct entry *page, uint32_t bytes) {
	uint64_t number = hash(PAGE, page->key);
	struct part *part = part_of(number);

	HOLD(part->lock);
	struct entry *at = look(part, PAGE, page->key, number);
	if (at == NULL || !at->present || at->owner != page->owner || (at->count -= bytes) > 0)
		return 0;
	drop(part, at);
	return 1;
}

/* A copy, since the entry may move as soon as the lock is free. */
static int get(enum kind kind, uint64_t key, struct entry *out, int remove) {
	uint64_t number = hash(kind, key);
	struct part *part = part_of(number);

	HOLD(part->lock);
	struct entry *at = look(part, kind, key, number);
	if (at == NULL || !at->present)
		return 0;
	*out = *at;
	if (remove)
		drop(part, at);
	return 1;
}

int table_remove(enum kind kind, uint64_t key, struct entry *out) { return get(kind, key, out, 1); }

int table_find(enum kind kind, uint64_t key, struct entry *out) { return get(kind, key, out, 0); }

/* One part after the other, with its lock held while the visitor decides whether an entry goes. */
void table_each(int (*visit)(struct entry *entry, void *argument), void *argument) {
	for (int i = 0; i < PARTS; i++) {
		struct part *part = &parts[i];
		HOLD(part->lock);
		for (uint64_t at = 0; at < part->room;) {
			uint64_t before = part->count;
			if (part->at[at].present && visit(&part->at[at], argument))
				drop(part, &part->at[at]);
			at += part->count == before; /* another entry may have come to this place */
		}
	}
}

/* The memory is left behind: a thread of the parent may have been changing it. */
void forget_table(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < PARTS; i++)
		parts[i] = (struct part){.lock = fresh};
}
