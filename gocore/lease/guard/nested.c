/* SPDX-License-Identifier: Apache-2.0 */
/* A job's budget and those of the jobs that it is nested in: what is taken is taken from each of them, or from none. */
#include "guard.h"

static struct budget budgets[MAX_NESTED];
static int levels;

int open_budgets(const char *path) {
	char why[256];

	for (levels = 0; *path != 0; levels++) {
		if (levels == MAX_NESTED) {
			note("jobs are nested more than %d deep: allocations are refused", MAX_NESTED);
			return 0;
		}
		if (!open_budget(path, 0, &budgets[levels], why, sizeof why)) {
			note("the budget %s cannot be used (%s): allocations are refused", path, why);
			return 0;
		}
		path = budgets[levels].file->parent;
	}
	return 1;
}

void forget_budgets(void) {
	for (int i = 0; i < levels; i++)
		forget_budget(&budgets[i]);
	budget_in_child();
	levels = 0;
}

int budget_levels(void) { return levels; }

int place_in_level(int level, const uint8_t uuid[16]) { return place_in_budget(&budgets[level], uuid); }

/* As take, but undecided until taken() is called: another's request that does not fit meanwhile is not refused at once.
 */
int take_undecided(int card, uint64_t bytes) {
	if (card == NO_CARD)
		return 0;
	for (int level = 0; level < levels; level++) {
		if (LIKELY(take_from(&budgets[level], cards[card].place[level], bytes)))
			continue;
		while (--level >= 0)
			give_to(&budgets[level], cards[card].place[level], UNDECIDED + bytes);
		return 0;
	}
	if (UNLIKELY(for_pools))
		mark_pools(card, (int64_t)bytes);
	return 1;
}

void taken(int card) {
	for (int level = 0; level < levels; level++)
		give_to(&budgets[level], cards[card].place[level], UNDECIDED);
}

int take(int card, uint64_t bytes) {
	if (UNLIKELY(!take_undecided(card, bytes)))
		return 0;
	taken(card);
	return 1;
}

int take_anyway(int card, uint64_t bytes) {
	for (int level = 0; card != NO_CARD && level < levels; level++)
		if (cards[card].place[level] >= 0 && !has_slot(&budgets[level]))
			return 0;
	for (int level = 0; card != NO_CARD && level < levels; level++)
		take_beyond(&budgets[level], cards[card].place[level], bytes);
	return 1;
}

void give_for(int card, uint64_t bytes, int pools) {
	for (int level = 0; card != NO_CARD && level < levels; level++)
		give_to(&budgets[level], cards[card].place[level], bytes);
	if (UNLIKELY(pools))
		mark_pools(card, -(int64_t)bytes);
}

void give(int card, uint64_t bytes) { give_for(card, bytes, for_pools); }

void mark_pools(int card, int64_t bytes) {
	for (int level = 0; card != NO_CARD && level < levels; level++)
		mark_pools_in(&budgets[level], cards[card].place[level], bytes);
}

void count_contexts(int card, int difference) {
	for (int level = 0; card != NO_CARD && level < levels; level++)
		count_contexts_in(&budgets[level], cards[card].place[level], difference);
}

static uint64_t size_of(const struct budget_card *card) { return card->most != 0 ? card->most : card->limit; }

/* The limit of card_use alone: cuDeviceTotalMem, which programs call often, needs nothing else. */
uint64_t card_limit(int card) {
	uint64_t least = UINT64_MAX;
	for (int level = 0; card != NO_CARD && level < levels; level++) {
		int place = cards[card].place[level];
		if (place >= 0)
			least = smaller(least, size_of(&budgets[level].file->card[place]));
	}
	return least;
}

void card_use(int card, struct card_use *out) {
	*out = (struct card_use){
	    card_limit(card), card == NO_CARD ? 0 : UINT64_MAX}; /* allocations on an unknown card are refused */
	for (int level = 0; card != NO_CARD && level < levels; level++) {
		int place = cards[card].place[level];
		if (place < 0) {
			out->left = 0; /* not one of the job's cards */
			continue;
		}
		uint64_t limit = budgets[level].file->card[place].limit, used = used_of(&budgets[level], place);
		out->left = smaller(out->left, used < limit ? limit - used : 0);
	}
}

/* Other processes take and give meanwhile: what the pools hold is never more than what is used. Returns the level. */
static int tightest(int card, struct card_figures *out) {
	int tightest = 0;

	*out = (struct card_figures){.left = UINT64_MAX};
	for (int level = 0; level < levels; level++) {
		int place = cards[card].place[level];
		uint64_t limit = budgets[level].file->card[place].limit, used = used_of(&budgets[level], place);
		uint64_t left = used < limit ? limit - used : 0;
		if (left >= out->left)
			continue;
		uint64_t pools = smaller(pools_of(&budgets[level], place), used);
		*out = (struct card_figures){limit, pools, used - pools, left};
		tightest = level;
	}
	return tightest;
}

void card_figures(int card, struct card_figures *out) { tightest(card, out); }

int card_processes(int card, struct card_process *out, int room) {
	struct budget_process all[MAX_SLOTS];
	struct card_figures figures;
	int level = tightest(card, &figures), written = 0;
	int count = processes_of(&budgets[level], cards[card].place[level], all, MAX_SLOTS);

	for (int i = 0; i < count && written < room; i++)
		if (all[i].used > 0)
			out[written++] = (struct card_process){all[i].pid, all[i].used};
	return written;
}

/* Exported memory: while the charge is in both places, others that find no room look again. */
int share(uint64_t id, int card, uint64_t bytes) {
	int done = 0, fits = 1;

	for (; done < levels && fits; done++) {
		struct budget *budget = &budgets[done];
		int place = cards[card].place[done];
		if (place < 0)
			continue;
		take_beyond(budget, place, UNDECIDED);
		fits = add_share(budget, id, place, bytes);
	}
	for (int level = 0; level < done; level++) {
		struct budget *budget = &budgets[level];
		int place = cards[card].place[level];
		if (place < 0)
			continue;
		if (!fits)
			leave_share_in(budget, id);
		give_to(budget, place, UNDECIDED + (fits ? bytes : 0));
	}
	if (!fits)
		NOTE_ONCE(
		    "more than %d exports: what is imported of the others is not counted when its exporter frees it", SHARES);
	return fits;
}

int join_share(uint64_t id) {
	int joined = 0;

	for (int level = 0; level < levels; level++)
		joined |= join_share_in(&budgets[level], id);
	return joined;
}

void leave_share(uint64_t id) {
	for (int level = 0; level < levels; level++)
		leave_share_in(&budgets[level], id);
}
