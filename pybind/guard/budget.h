/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget file of a job: limits of cards and the use of each process, shared by all processes of the job. python/gpuconf/sharing/_budget.py
 * creates and reads it with the same layout; tests_py/test_guard_budget.py compares the two.
 *
 *     header                     HEADER_BYTES
 *     struct budget_slot[slots]
 *     uint64_t used[cards][slots]
 *     uint64_t pools[cards][slots]     of it, what gpuconf's own pools hold
 *     uint64_t contexts[cards][slots]  how many contexts of the driver the process has made and not ended
 *     struct budget_share[SHARES]      memory that was exported (shares.c): it belongs to no single process
 *
 * A slot belongs to the process that holds the OFD lock on byte LOCKS + slot of the file. Only that process writes the slot, except that
 * a process that gets the lock of a dead one's slot may empty it. Nothing else is locked to take memory: a process adds to its own word first
 * and then looks at the sum of all of them, so two that race cannot both pass.
 *
 * A word of used holds the bytes in its low bits and, above them, how many of its additions are not yet decided. A sum that is too large only
 * because of undecided additions is looked at again.
 */
#ifndef GPUCONF_GUARD_BUDGET_H
#define GPUCONF_GUARD_BUDGET_H

#include <stdint.h>

#define BUDGET_MAGIC "GCBUDGET"
#define BUDGET_VERSION 2 /* 2: contexts, and what is shared */
#define HEADER_BYTES 12288
#define MAX_CARDS 64
#define MAX_SLOTS 1024
#define SHARES 1024
#define LOCKS (INT64_C(1) << 40) /* byte of slot 0; locks may lie behind the end of a file */
#define ARBITER_LOCK (LOCKS - 1) /* held while a refusal is being decided */
#define LAUNCHER_LOCK (LOCKS - 2)
#define SHARES_LOCK (LOCKS - 3) /* held while the shares are changed */

#define BYTES_BITS 52
#define BYTES_MASK ((UINT64_C(1) << BYTES_BITS) - 1)
#define UNDECIDED (UINT64_C(1) << BYTES_BITS)

struct budget_card {
	uint8_t uuid[16];
	uint64_t flags; /* BUDGET_INSTANCE: the UUID is a MIG instance's */
	uint64_t limit;
	uint64_t peak;    /* of the sum */
	uint64_t refused; /* how many requests */
	uint64_t shared;        /* the sum of the shares */
	uint64_t contexts_peak; /* of the sum of living processes */
};

struct budget_header {
	char magic[8];
	uint32_t version, cards, slots;
	uint32_t high; /* slots from here on were never used */
	uint64_t bytes; /* of the file */
	uint64_t created; /* seconds since the epoch */
	uint32_t launcher; /* its pid */
	uint32_t shares;   /* shares from here on were never used */
	char job[64];
	char parent[4096]; /* the budget file of the job that this one is nested in, or empty */
	struct budget_card card[MAX_CARDS];
};

struct budget_slot {
	uint32_t pid;
	uint32_t reserved;
	char name[24];
};

/* Written under SHARES_LOCK. It ends with its last holder. */
struct budget_share {
	uint64_t id; /* 0: free */
	uint64_t bytes;
	uint32_t card, reserved;
	uint64_t holders[MAX_SLOTS / 64]; /* a bit for each slot */
};

#define BUDGET_INSTANCE 1

_Static_assert(sizeof(struct budget_header) <= HEADER_BYTES, "the header has room");
_Static_assert(sizeof(struct budget_slot) == 32, "no padding");
_Static_assert(sizeof(struct budget_share) == 24 + MAX_SLOTS / 8, "no padding");

/* An open budget, of budget.c and shares.c. */
struct budget {
	char path[4096];
	struct budget_header *file;
	struct budget_slot *slots;
	uint64_t *used, *pools, *contexts;
	struct budget_share *shares;
	int slot; /* -1: none yet */
	void *lock; /* the mapping that holds the slot's lock */
	int64_t swept; /* when dead processes were looked for last, in ms */
};
extern struct budget budgets[];
uint64_t *word(const struct budget *budget, uint64_t *column, int place, int slot);
int lock_byte(int file, int64_t byte);
int has_slot(struct budget *budget);
void end_holder(const struct budget *budget, int slot); /* shares.c: of all shares */

#endif
