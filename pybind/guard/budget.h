/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget file of a job: limits of cards and the use of each process, shared by all processes of the job. python/gpuconf/sharing/_budget.py
 * creates and reads it with the same layout; tests_py/test_guard_budget.py compares the two.
 *
 *     header                     HEADER_BYTES
 *     struct budget_slot[slots]
 *     uint64_t used[cards][slots]
 *     uint64_t pools[cards][slots]     of it, what gpuconf's own pools hold
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
#define BUDGET_VERSION 1
#define HEADER_BYTES 8192
#define MAX_CARDS 64
#define LOCKS (INT64_C(1) << 40) /* byte of slot 0; locks may lie behind the end of a file */
#define ARBITER_LOCK (LOCKS - 1) /* held while a refusal is being decided */
#define LAUNCHER_LOCK (LOCKS - 2)

#define BYTES_BITS 52
#define BYTES_MASK ((UINT64_C(1) << BYTES_BITS) - 1)
#define UNDECIDED (UINT64_C(1) << BYTES_BITS)

struct budget_card {
	uint8_t uuid[16];
	uint64_t flags; /* BUDGET_INSTANCE: the UUID is a MIG instance's */
	uint64_t limit;
	uint64_t peak;    /* of the sum */
	uint64_t refused; /* how many requests */
};

struct budget_header {
	char magic[8];
	uint32_t version, cards, slots;
	uint32_t high; /* slots from here on were never used */
	uint64_t bytes; /* of the file */
	uint64_t created; /* seconds since the epoch */
	uint32_t launcher; /* its pid */
	uint32_t reserved;
	char job[64];
	char parent[4096]; /* the budget file of the job that this one is nested in, or empty */
	struct budget_card card[MAX_CARDS];
};

struct budget_slot {
	uint32_t pid;
	uint32_t reserved;
	char name[24];
};

#define BUDGET_INSTANCE 1

_Static_assert(sizeof(struct budget_header) <= HEADER_BYTES, "the header has room");
_Static_assert(sizeof(struct budget_slot) == 32, "no padding");

#endif
