/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A budget file: limits of cards and the use of each process, shared by all processes of a job. The guard keeps the
 * job's limits in one, and the simulator the memory of simulated cards, whose limit is their size.
 * python/gpuconf/jobs/budget_file.py creates and reads it, by a module that pybind/build/generate_tables.py writes
 * from this header: its constants and structs are the layout.
 *
 *     header                     HEADER_BYTES
 *     struct budget_slot[slots]
 *     uint64_t used[cards][slots]
 *     uint64_t pools[cards][slots]     of it, what gpuconf's own pools hold; of simulated cards, managed memory, which
 *                                      gives way to other use
 *     uint64_t contexts[cards][slots]  how many contexts of the driver the process has made and not ended
 *     struct budget_share[SHARES]      memory that was exported (shares.c): it belongs to no single process
 *
 * A slot belongs to the process that holds the OFD lock on byte LOCKS + slot of the file. Only that process writes the
 * slot, except that a process that gets the lock of a dead one's slot may empty it. Nothing else is locked to take
 * memory: a process adds to its own word first and then looks at the sum of all of them, so two that race cannot both
 * pass.
 *
 * A word of used holds the bytes in its low bits and, above them, how many of its additions are not yet decided. A sum
 * that is too large only because of undecided additions is looked at again.
 */
#ifndef GPUCONF_BUDGET_H
#define GPUCONF_BUDGET_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_MAGIC "GCBUDGET"
#define BUDGET_VERSION 3 /* 2: contexts, and what is shared; 3: lent memory */
#define HEADER_BYTES 12288
#define MAX_CARDS 64
#define MAX_SLOTS 1024
#define SHARES 1024
#define MAX_NESTED 8             /* budgets of which one is the parent of the other */
#define LOCKS (INT64_C(1) << 40) /* byte of slot 0; locks may lie behind the end of a file */
#define ARBITER_LOCK (LOCKS - 1) /* held while a refusal is being decided */
#define LAUNCHER_LOCK (LOCKS - 2)
#define SHARES_LOCK (LOCKS - 3) /* held while the shares are changed */

#define BYTES_BITS 52
#define BYTES_MASK ((UINT64_C(1) << BYTES_BITS) - 1)
#define UNDECIDED (UINT64_C(1) << BYTES_BITS)

struct budget_card {
	uint8_t uuid[16];
	uint64_t flags;         /* BUDGET_INSTANCE: the UUID is a MIG instance's */
	uint64_t limit;         /* changes while memory is lent to the job */
	uint64_t most;          /* what it becomes at most, the size of the card for programs; 0: it does not change */
	uint64_t peak;          /* of the sum */
	uint64_t refused;       /* how many requests */
	uint64_t shared;        /* the sum of the shares */
	uint64_t contexts_peak; /* of the sum of living processes */
};

struct budget_header {
	char magic[8];
	uint32_t version, cards, slots;
	uint32_t high;     /* slots from here on were never used */
	uint64_t size;     /* of the file, in bytes */
	uint64_t created;  /* seconds since the epoch */
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
	uint64_t id;   /* 0: free */
	uint64_t size; /* bytes */
	uint32_t card, reserved;
	uint64_t holders[MAX_SLOTS / 64]; /* a bit for each slot */
};

#define BUDGET_INSTANCE 1

_Static_assert(sizeof(struct budget_header) <= HEADER_BYTES, "the header has room");
_Static_assert(sizeof(struct budget_slot) == 32, "no padding");
_Static_assert(sizeof(struct budget_share) == 24 + MAX_SLOTS / 8, "no padding");

/* An open budget. Its functions take a card's place in the file, -1 for a card that it does not have, and may be called
 * by any thread. */
struct budget {
	char path[4096];
	struct budget_header *file;
	struct budget_slot *slots;
	uint64_t *used, *pools, *contexts;
	struct budget_share *shares;
	int slot;      /* -1: none yet */
	void *lock;    /* the mapping that holds the slot's lock */
	int64_t swept; /* when dead processes were looked for last, in ms */
};

/* HOLD has a mutex until the end of the block that it stands in, however that is left. */
static inline void let_go(pthread_mutex_t **mutex) { pthread_mutex_unlock(*mutex); }
#define HOLD(mutex) \
	__attribute__((cleanup(let_go), unused)) pthread_mutex_t *held_ = &(mutex); \
	pthread_mutex_lock(held_)

/* What cannot be returned to a caller: each library that this is compiled into has a log. */
__attribute__((format(printf, 1, 2))) void budget_note(const char *format, ...);

/*
 * Returns 0, and says in why what is wrong, if the file cannot be opened or is no budget. With only_ours, also if
 * another user owns it or its folder, or can open them. The first request takes a slot.
 */
int open_budget(const char *path, int only_ours, struct budget *budget, char *why, size_t room);
void close_budget(struct budget *budget);  /* gives all memory and the slot back */
void forget_budget(struct budget *budget); /* in a child: what is its parent's stays */
int place_in_budget(const struct budget *budget, const uint8_t uuid[16]);
int has_slot(struct budget *budget); /* takes one; 0 if there is none */

/* take_from returns 1, or 0 if it does not fit. What was taken is undecided, until give_to gives UNDECIDED back: others
 * may yet refuse it. */
int take_from(struct budget *budget, int place, uint64_t bytes);
void give_to(const struct budget *budget, int place, uint64_t bytes);
void take_beyond(struct budget *budget, int place, uint64_t bytes); /* what is taken already, whatever the limit */
void mark_pools_in(const struct budget *budget, int place, int64_t bytes);
void count_contexts_in(struct budget *budget, int place, int64_t difference);
uint64_t used_of(struct budget *budget, int place); /* of living processes, and what is shared */
uint64_t pools_of(const struct budget *budget, int place);

int holder_lives(const struct budget *budget, int slot, uint32_t pid); /* whether this process still has the slot */

struct budget_process {
	uint32_t pid;
	uint64_t used, pools, contexts;
};
int processes_of(struct budget *budget, int place, struct budget_process *out,
    int room); /* those that live; returns how many it wrote */

/*
 * shares.c: memory that was exported, by a number. share_in moves its charge from the process to the share, which
 * join_share_in and leave_share_in hold and leave. They return 0 if there is no room, or no such share.
 */
int share_in(struct budget *budget, uint64_t id, int place, uint64_t bytes);
int join_share_in(struct budget *budget, uint64_t id);
void leave_share_in(const struct budget *budget, uint64_t id);
int add_share(struct budget *budget, uint64_t id, int place, uint64_t bytes); /* without the process's own charge */
void grow_share_in(
    struct budget *budget, uint64_t id, int place, uint64_t bytes); /* by what the process has taken from the card */
void shrink_share_in(const struct budget *budget, uint64_t id, uint64_t bytes);
int has_share(const struct budget *budget, uint64_t id);

/* Around a fork: a child that is forked while a slot is being claimed would keep its lock. */
void budget_before_fork(void);
void budget_after_fork(void);
void budget_in_child(void);

/* Between budget.c and shares.c */
uint64_t *word(const struct budget *budget, uint64_t *column, int place, int slot);
int reopen_budget(const struct budget *budget);
void unlock_and_close(int file, int64_t byte);
void end_holder(const struct budget *budget, int slot);

#endif
