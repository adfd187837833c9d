/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was exported belongs to every process of the job that refers to it: the one that made it, and those that
 * have imported it. Its charge is moved from the word of a process to the card's sum of shares, and ends with the last
 * holder, at its release or its death.
 *
 * The sum is computed anew at each change, so a process that ends in the midst of one leaves nothing behind.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "budget.h"
#include "locks.h"

#include <string.h>
#include <time.h>

enum { TRIES = 2000, TRY_NS = 100000 }; /* 0.2 s: a process may be stopped while it has the lock */

static int lock_shares(const struct budget *budget) {
	const struct timespec moment = {0, TRY_NS};
	int file = reopen_budget(budget);

	for (int i = 0; file >= 0 && i < TRIES && !lock_byte(file, SHARES_LOCK); i++)
		nanosleep(&moment, NULL);
	return file;
}

static uint64_t bit(int slot) { return UINT64_C(1) << (slot % 64); }

static uint32_t used_shares(const struct budget *budget) {
	return budget->file->shares < SHARES ? budget->file->shares : SHARES;
}

/* Ends the shares that no process holds, and adds up the others. */
static void recount(const struct budget *budget) {
	uint64_t sums[MAX_CARDS] = {0};

	for (uint32_t i = 0; i < used_shares(budget); i++) {
		struct budget_share *one = &budget->shares[i];
		uint64_t held = 0;
		for (int part = 0; part < MAX_SLOTS / 64; part++)
			held |= one->holders[part];
		if (held == 0)
			one->id = 0;
		if (one->id != 0 && one->card < MAX_CARDS)
			sums[one->card] += one->size;
	}
	for (uint32_t place = 0; place < budget->file->cards; place++)
		__atomic_store_n(&budget->file->card[place].shared, sums[place], __ATOMIC_SEQ_CST);
}

static struct budget_share *find(const struct budget *budget, uint64_t id) {
	for (uint32_t i = 0; i < used_shares(budget); i++)
		if (budget->shares[i].id == id)
			return &budget->shares[i];
	return NULL;
}

static struct budget_share *new_share(const struct budget *budget) {
	struct budget_share *one = find(budget, 0);

	if (one == NULL && budget->file->shares < SHARES)
		one = &budget->shares[budget->file->shares++];
	return one;
}

int add_share(struct budget *budget, uint64_t id, int place, uint64_t bytes) {
	int file = lock_shares(budget);
	struct budget_share *one = new_share(budget);

	if (one != NULL) {
		*one = (struct budget_share){.size = bytes, .card = (uint32_t)place};
		one->holders[budget->slot / 64] = bit(budget->slot);
		one->id = id;
		recount(budget);
	}
	unlock_and_close(file, SHARES_LOCK);
	return one != NULL;
}

static int join(struct budget *budget, uint64_t id) {
	int file = lock_shares(budget);
	struct budget_share *one = find(budget, id);

	if (one != NULL)
		one->holders[budget->slot / 64] |= bit(budget->slot);
	unlock_and_close(file, SHARES_LOCK);
	return one != NULL;
}

void leave_share_in(const struct budget *budget, uint64_t id) {
	if (budget->slot < 0)
		return;
	int file = lock_shares(budget);
	struct budget_share *one = find(budget, id);

	if (one != NULL) {
		one->holders[budget->slot / 64] &= ~bit(budget->slot);
		recount(budget);
	}
	unlock_and_close(file, SHARES_LOCK);
}

int has_share(const struct budget *budget, uint64_t id) { return find(budget, id) != NULL; }

int join_share_in(struct budget *budget, uint64_t id) {
	return has_share(budget, id) && has_slot(budget) && join(budget, id);
}

/* While the charge is in both places, others that find no room look again. */
int share_in(struct budget *budget, uint64_t id, int place, uint64_t bytes) {
	uint64_t *mine = word(budget, budget->used, place, budget->slot);

	__atomic_fetch_add(mine, UNDECIDED, __ATOMIC_SEQ_CST);
	int fits = add_share(budget, id, place, bytes);
	__atomic_fetch_sub(mine, UNDECIDED + (fits ? bytes : 0), __ATOMIC_SEQ_CST);
	return fits;
}

void grow_share_in(struct budget *budget, uint64_t id, int place, uint64_t bytes) {
	uint64_t *mine = word(budget, budget->used, place, budget->slot);

	__atomic_fetch_add(mine, UNDECIDED, __ATOMIC_SEQ_CST);
	int file = lock_shares(budget);
	struct budget_share *one = find(budget, id);
	if (one != NULL) {
		one->size += bytes;
		recount(budget);
	}
	unlock_and_close(file, SHARES_LOCK);
	__atomic_fetch_sub(mine, UNDECIDED + (one != NULL ? bytes : 0), __ATOMIC_SEQ_CST);
}

void shrink_share_in(const struct budget *budget, uint64_t id, uint64_t bytes) {
	int file = lock_shares(budget);
	struct budget_share *one = find(budget, id);

	if (one != NULL && one->size >= bytes) {
		one->size -= bytes;
		recount(budget);
	}
	unlock_and_close(file, SHARES_LOCK);
}

void end_holder(const struct budget *budget, int slot) {
	if (used_shares(budget) == 0)
		return;
	int file = lock_shares(budget);
	for (uint32_t i = 0; i < used_shares(budget); i++)
		budget->shares[i].holders[slot / 64] &= ~bit(slot);
	recount(budget);
	unlock_and_close(file, SHARES_LOCK);
}
