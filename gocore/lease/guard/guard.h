/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard stands between a program and the CUDA driver, counts the device memory that the program requests, and
 * refuses what does not fit into the budget of its job.
 *
 * It is found because `gpuconf run` puts an empty libcuda.so.1 in front of the loader's search path that needs two
 * libraries: this one, and the real driver. A name is looked up in that order, so a function that is not here is the
 * driver's own.
 *
 *  1. A request is charged before the driver is called. If the driver fails, or the request does not fit, the charge is
 * as it was.
 *  2. An address or handle leaves the table before the driver is asked to free it, and comes back if the driver
 * refuses: another thread may get the same address at once.
 *  3. Calls that the driver makes to its own exported functions come back here, and pass (INSIDE).
 *  4. Memory that the table does not list was not charged (imports, graph memory, a parent's memory): calls for it go
 * to the driver unchanged.
 *  5. Where the guard cannot count, it refuses, or says so in the log file beside the budget. It prints nothing.
 *  6. Nothing runs when the library is loaded except pthread_atfork. A child starts with an empty table and takes a
 * slot of its own.
 *  7. Locks: those of pools and graphs may be held while the table's is taken; all are held for a few instructions.
 * None is held while the driver is called, which may wait for what another thread does next, except where CUDA's
 * devices are first looked up, and while a primary context begins or ends.
 */
#ifndef GPUCONF_GUARD_H
#define GPUCONF_GUARD_H

#include <pthread.h>
#include <stdint.h>

#include "../../machine/cuda/constants.h"
#include "../../machine/cuda/guard_figures.h"
#include "../budget/budget.h"
#include "../budget/gate.h"
#include "functions.h"
#ifdef GPUCONF_GATE
#include "gated.h"
#else
#define GATED_HOOKS(X)
#endif

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* start.c: the driver's own functions; NULL where it has none. */
struct real {
#define FIELD(name, base, version, flag, parameters, arguments) CUresult(*name) parameters;
	ALL_FUNCTIONS(FIELD)
};
extern struct real real;
#ifdef GPUCONF_GATE
extern struct gated {
	GATED_HOOKS(FIELD)
} gated;
#endif
#undef FIELD
void look_again(void);
#define HAS(name) (LIKELY(real.name != NULL) || (look_again(), real.name != NULL))

/* The hooks, each in the file of its subject. */
#define DECLARE(name, base, version, flag, parameters, arguments) CUresult name parameters;
CUDA_HOOKS(DECLARE)
GATED_HOOKS(DECLARE)
NVML_HOOKS(DECLARE)
#undef DECLARE

/* start.c */
extern char folder[4096];           /* of the budget */
int start(void);                    /* whether the guard can count; the reason why not is in the log */
extern unsigned char *same_process; /* 0 in a child */
extern int started;
static inline int ready(void) {
	return LIKELY(__atomic_load_n(&started, __ATOMIC_ACQUIRE) && *same_process) || start();
}

/* Whether the thread is in a call to the driver, whose own calls then pass; and whether the call comes from gpuconf's
 * pools. */
extern __thread int inside __attribute__((tls_model("initial-exec")));
extern __thread int for_pools __attribute__((tls_model("initial-exec")));
#define INSIDE(call) \
	({ \
		inside++; \
		__typeof__(call) result_ = (call); \
		inside--; \
		result_; \
	})

/*
 * gate.c, only in the library of programs that take turns: GATE keeps the thread waiting while the job's gate is
 * closed, and counts it as in a call until the function returns.
 */
#ifdef GPUCONF_GATE
extern struct gate *gate;
extern __thread struct gate_thread *at_gate __attribute__((tls_model("initial-exec")));
int open_gate(const char *folder);
void forget_gate(void);
__attribute__((cold)) struct gate_thread *come_to_gate(void);
__attribute__((cold)) void wait_at_gate(struct gate_thread *mine);
typedef uint64_t __attribute__((may_alias)) calls_and_made;
static inline __attribute__((always_inline)) void pass_gate(struct gate_thread *mine) {
	*(calls_and_made *)&mine->calls += (UINT64_C(1) << 32) + 1;
	__atomic_signal_fence(
	    __ATOMIC_SEQ_CST); /* a barrier of the compiler: gate.h says who issues that of the processor */
	if (UNLIKELY(__atomic_load_n(&gate->closed, __ATOMIC_RELAXED)))
		wait_at_gate(mine);
}
static inline struct gate_thread *enter_gate(void) {
	struct gate_thread *mine = at_gate;

	if (UNLIKELY(mine == NULL))
		mine = come_to_gate();
	pass_gate(mine);
	return mine;
}
static inline __attribute__((always_inline)) void leave_gate(struct gate_thread *const *mine) {
	__atomic_store_n(&(*mine)->calls, (*mine)->calls - 1, __ATOMIC_RELEASE);
}
#define GATE struct gate_thread *mine_ __attribute__((cleanup(leave_gate), unused)) = enter_gate()
#else
#define GATE (void)0
#endif

/* start.c */
#define note budget_note /* one log for both */
#define NOTE_ONCE(...) \
	do { \
		static int noted_; \
		if (!__atomic_exchange_n(&noted_, 1, __ATOMIC_RELAXED)) \
			note(__VA_ARGS__); \
	} while (0)

/* nested.c: a job's budget, and those of the jobs that it is nested in. Cards are indices of cards.c. */
int open_budgets(const char *path);
int place_in_level(int level, const uint8_t uuid[16]); /* -1: the job has no such card */
int budget_levels(void);
int take(int card, uint64_t bytes); /* 1, or 0 if it does not fit */
int take_undecided(int card, uint64_t bytes);
void taken(int card);
int take_anyway(
    int card, uint64_t bytes); /* what the driver has taken already; 0 if the job has no room for the process at all */
void give(int card, uint64_t bytes);
void give_for(int card, uint64_t bytes, int pools);
void mark_pools(int card, int64_t bytes);
void count_contexts(int card, int difference);
void forget_budgets(void);
struct card_use {
	uint64_t limit, left; /* of nested jobs, the smallest limit and the least that is left */
};
void card_use(int card, struct card_use *out);
uint64_t card_limit(int card);
void card_figures(int card, struct card_figures *out);
int card_processes(int card, struct card_process *out, int room); /* returns how many it wrote */

/* cards.c */
void forget_idle(void);

/* Exported memory, by a number. 0: there is no room, or it is not the job's. */
int share(uint64_t id, int card, uint64_t bytes);
int join_share(uint64_t id);
void leave_share(uint64_t id);

/* descriptors.c: the number of what a file descriptor exports stays with it, whichever process has it. */
uint64_t mark_descriptor(int descriptor, uint64_t id); /* id: 0 for a new one; returns it, or 0 */
uint64_t id_of_descriptor(int descriptor);             /* or 0 */
int descriptor_lives(uint64_t id);                     /* as far as can be seen: in doubt it does */
void forget_descriptors(void);

/* cards.c */
enum { MAX_DEVICES = 64, NO_CARD = -1 };
struct card {
	uint8_t uuid[16];
	int place[MAX_NESTED];
};
extern struct card cards[MAX_DEVICES];
int card_of_device(CUdevice device); /* or NO_CARD */
int device_count(void);
int may_exist(CUdevice device);
int on_device(const CUmemLocation *location, CUdevice *device);
CUresult current_device(CUdevice *device);
CUresult no_card(void); /* why a request has none */
void forget_cards(void);

/* table.c: what is charged, by address or handle. */
enum kind { LINEAR, ARRAY, MIPMAP, PAGE, POOLED, HANDLE, MAPPING, BINDING, EXEC };
struct entry {
	uint64_t key, bytes;
	void *owner; /* LINEAR, ARRAY, MIPMAP, PAGE: the context; POOLED: the pool; HANDLE, MAPPING, BINDING: the physical
	                memory */
	uint8_t kind, pools, present;
	int8_t card;
	uint32_t count; /* HANDLE: how often it must be released; LINEAR: what it takes of a page; PAGE: what is taken */
};
int table_add(const struct entry *entry); /* 0 without host memory */
int table_remove(enum kind kind, uint64_t key, struct entry *out);
int table_find(enum kind kind, uint64_t key, struct entry *out);
int table_use_page(const struct entry *page, uint32_t bytes);   /* 1 if it is a new one, -1 without host memory */
int table_leave_page(const struct entry *page, uint32_t bytes); /* 1 if nothing of it is used any more */
void table_each(
    int (*visit)(struct entry *entry, void *argument), void *argument); /* an entry is removed if visit returns 1 */
void forget_table(void);

/* contexts.c */
CUresult current_context(CUdevice device, CUcontext *context);
int device_of_context(CUcontext context, CUdevice *device); /* 0 if it is not known */
int driver_refuses(CUresult reason);
void forget_contexts(void);

/* descriptors.c */
struct small {
	struct entry entry;
	int undecided;
};
int shares_page(uint64_t bytes);
uint64_t part_of_page(uint64_t bytes);
CUresult charge_small(struct small *small, uint64_t bytes);
CUresult end_small(
    struct small *small, CUresult reason, CUresult result, CUdeviceptr address); /* address: 0 if there is none */
int place_in_page(
    struct entry *entry); /* what was charged for it becomes the page's, or goes back; 0: the page does not fit */
void leave_page(const struct entry *entry);

CUresult release_linear(CUdeviceptr address); /* linear.c */

/* linear.c: freeing an address or handle; found takes its entry, if it has one, out of the table, into entry_. */
int find_linear(CUdeviceptr address, struct entry *entry);
void end_free(const struct entry *entry, CUresult result);
#define FREE(found, call) \
	struct entry entry_; \
	int charged_ = found; \
	CUresult result_ = INSIDE(call); \
	end_free(charged_ ? &entry_ : NULL, result_); \
	return result_

/* pools.c */
void learn_segment(uint64_t reserved, int grew_beyond); /* grew_beyond: by more than segments() of the request */
uint64_t segments(uint64_t bytes); /* what a pool grows by at most for a request; UINT64_MAX: too much */

/*
 * pools.c, graphs.c: what the driver reserves on its own account. Settling reads it again and corrects the charge: of
 * all, or of those that the driver is not working on (IDLE), whose figures it does not delay.
 */
extern int pools_in_use, graphs_in_use;
enum settling { ALL, IDLE };
void settle_if_changed(void);
void settle_pools(enum settling which, int trim);
void settle_graphs(enum settling which, int trim);
void pools_changed(void);
void pool_freed(const struct entry *entry);
void forget_pools(void);
void forget_graphs(void);
int take_or_settle(int card, uint64_t bytes); /* as take, after making room if there is none */

static inline uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A product that is too large for 64 bits fits into no budget either. */
static inline uint64_t product(uint64_t a, uint64_t b) {
	uint64_t both;

	return __builtin_mul_overflow(a, b, &both) ? UINT64_MAX : both;
}

/* Enters the current context and its card, if there is one. */
static inline CUresult owner_of_request(struct entry *entry) {
	CUdevice device;
	CUcontext context;
	CUresult result = current_device(&device);

	if (LIKELY(result == CUDA_SUCCESS))
		result = current_context(device, &context);
	entry->owner = result == CUDA_SUCCESS ? context : NULL;
	entry->card = (int8_t)(result == CUDA_SUCCESS ? card_of_device(device) : NO_CARD);
	return result;
}

/* Charges what is about to be allocated in the current context. */
static inline CUresult charge(struct entry *entry) {
	CUresult result = owner_of_request(entry);

	if (LIKELY(result == CUDA_SUCCESS)) {
		if (LIKELY(take_or_settle(entry->card, entry->bytes)))
			return CUDA_SUCCESS;
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	*entry = (struct entry){.kind = entry->kind, .card = NO_CARD};
	return result;
}

/*
 * Charges, calls the driver, and enters what came of it; the call may add to entry.bytes. Where the driver refuses,
 * too, its error is returned.
 */
#define ALLOCATE_CHARGED(its_kind, size, its_key, call, undo) \
	struct entry entry = {.kind = its_kind, .bytes = size, .pools = (uint8_t)for_pools}; \
	CUresult reason = charge(&entry); \
	if (UNLIKELY(reason != CUDA_SUCCESS) && !driver_refuses(reason)) \
		return reason; \
	CUresult result = INSIDE(call); \
	if (LIKELY(result == CUDA_SUCCESS)) { \
		entry.key = (uint64_t)(its_key); \
		if (LIKELY(reason == CUDA_SUCCESS && table_add(&entry))) \
			return CUDA_SUCCESS; \
		undo; \
		result = CUDA_ERROR_OUT_OF_MEMORY; \
	} \
	give(entry.card, entry.bytes); \
	return result

/* vmm.c */
extern int open_exports; /* memory that only descriptors refer to */
void end_exports(void);
void forget_virtual(void);

/* resolver.c */
void learn_addresses(void);

/*
 * The start of a hook: pass if the call comes from the driver itself, and refuse if the driver lacks the function or
 * the guard cannot count. A hook that only gives memory back passes instead of refusing, and so does one that asks,
 * which does not wait at the gate.
 */
#define PASS(name, arguments) \
	if (UNLIKELY(inside)) \
		return real.name != NULL ? real.name arguments : CUDA_ERROR_NOT_SUPPORTED; \
	int counts = ready(); \
	if (!HAS(name)) \
		return CUDA_ERROR_NOT_SUPPORTED; \
	if (UNLIKELY(!counts))
#define TAKES(name, arguments) \
	PASS(name, arguments) \
	return CUDA_ERROR_OUT_OF_MEMORY; \
	GATE
#define ASKS(name, arguments) \
	PASS(name, arguments) \
	return real.name arguments
#define GIVES(name, arguments) \
	ASKS(name, arguments); \
	GATE

#endif
