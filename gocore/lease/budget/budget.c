/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking and giving memory in a budget file (budget.h), without a lock unless a request does not fit.
 *
 * A slot's lock is held by a mapping of the file, made by an open() of its own, which a child does not inherit
 * (MADV_DONTFORK): the kernel drops the lock with the process's memory, at exit, exec and SIGKILL, and nothing that the
 * program does with descriptors touches it. A descriptor could be closed by the program, and would keep the lock alive
 * in children.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "budget.h"
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define BUDGET_NOTE_ONCE(...) \
	do { \
		static int noted_; \
		if (!__atomic_exchange_n(&noted_, 1, __ATOMIC_RELAXED)) \
			budget_note(__VA_ARGS__); \
	} while (0)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
/* A second for others to decide, of which the kernel may keep a process from running for some tens of ms. */
enum { SOON = 400, SOON_NS = 50000, TRIES = SOON + 980, LATER_NS = 1000000 };
enum { SWEEP_MS = 20 };

static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;

uint64_t *word(const struct budget *budget, uint64_t *column, int place, int slot) {
	return &column[(uint64_t)place * budget->file->slots + (uint64_t)slot];
}

static uint64_t file_bytes(const struct budget_header *header) {
	return HEADER_BYTES + header->slots * sizeof(struct budget_slot) + UINT64_C(24) * header->cards * header->slots +
	       SHARES * sizeof(struct budget_share);
}

static const char *refusal(const struct budget_header *header, uint64_t bytes) {
	if (memcmp(header->magic, BUDGET_MAGIC, sizeof header->magic) != 0)
		return "it is not a budget";
	if (header->version != BUDGET_VERSION)
		return "it is of another version of gpuconf";
	if (header->cards > MAX_CARDS || header->slots == 0 || header->slots > MAX_SLOTS || header->size != bytes ||
	    file_bytes(header) != bytes)
		return "its size is wrong";
	if (memchr(header->parent, 0, sizeof header->parent) == NULL)
		return "its parent's path is not terminated";
	return NULL;
}

/* Another open file: of its own locks. */
int reopen_budget(const struct budget *budget) {
	return open(budget->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* Of what was opened again to lock a byte. A child that was forked meanwhile has a copy of the descriptor. */
void unlock_and_close(int file, int64_t byte) {
	if (file < 0)
		return;
	unlock_byte(file, byte);
	close(file);
}

/* Why others could have made the file, or could change it: it or its folder is not this user's alone. */
static const char *stranger(const char *path, const struct stat *file) {
	char folder[4096];
	struct stat facts;
	const char *slash = strrchr(path, '/');

	if (file->st_uid != geteuid())
		return "it belongs to another user";
	if ((file->st_mode & 077) != 0)
		return "other users can open it";
	if (path[0] != '/' || slash == path)
		return "its path is not an absolute one in a folder";
	snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
	if (lstat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode))
		return "its folder is not a folder";
	if (facts.st_uid != geteuid())
		return "its folder belongs to another user";
	return (facts.st_mode & 077) != 0 ? "other users can open its folder" : NULL;
}

/* A file with holes would end the process with SIGBUS where the file system is full. */
static const char *map_budget(const char *path, int file, int only_ours, void **at, size_t *bytes) {
	struct stat facts;
	const char *why = NULL;
	if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode))
		why = "it is not a file";
	else if (only_ours)
		why = stranger(path, &facts);

	if (why != NULL)
		return why;
	*bytes = (size_t)facts.st_size;
	if (facts.st_size < HEADER_BYTES)
		return "it is too short";
	*at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (*at == MAP_FAILED)
		return "it cannot be mapped";
	if ((why = refusal(*at, *bytes)) == NULL && only_ours && posix_fallocate(file, 0, facts.st_size) != 0)
		why = "its file system has no room for it";
	return why;
}

int open_budget(const char *path, int only_ours, struct budget *budget, char *why, size_t room) {
	void *at = MAP_FAILED;
	size_t bytes = 0;
	int file = strlen(path) < sizeof budget->path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;

	if (file < 0) {
		snprintf(
		    why, room, "it cannot be opened: %s", strerror(strlen(path) < sizeof budget->path ? errno : ENAMETOOLONG));
		return 0;
	}
	const char *wrong = map_budget(path, file, only_ours, &at, &bytes);
	close(file);
	if (wrong != NULL) {
		snprintf(why, room, "%s", wrong);
		if (at != MAP_FAILED)
			munmap(at, bytes);
		return 0;
	}
	memset(budget, 0, sizeof *budget);
	snprintf(budget->path, sizeof budget->path, "%s", path);
	budget->file = at;
	budget->slots = (struct budget_slot *)((char *)at + HEADER_BYTES);
	budget->used = (uint64_t *)(budget->slots + budget->file->slots);
	budget->pools = budget->used + (uint64_t)budget->file->cards * budget->file->slots;
	budget->contexts = budget->pools + (uint64_t)budget->file->cards * budget->file->slots;
	budget->shares = (struct budget_share *)(budget->contexts + (uint64_t)budget->file->cards * budget->file->slots);
	budget->slot = -1;
	budget->swept = -SWEEP_MS;
	return 1;
}

/* A child that is forked while a slot is being claimed would keep its lock with a copy of the descriptor. A signal's
 * handler may fork, too. */
static __thread int fork_waited __attribute__((tls_model("initial-exec")));

void budget_before_fork(void) {
	const struct timespec moment = {0, 1000000};

	fork_waited = 0;
	for (int i = 0; i < 100 && !fork_waited; i++)
		if (!(fork_waited = pthread_mutex_trylock(&claiming) == 0))
			nanosleep(&moment, NULL);
}

void budget_after_fork(void) {
	if (fork_waited)
		pthread_mutex_unlock(&claiming);
}

void budget_in_child(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	claiming = fresh;
}

/* The parent's mapping stays in the child unused: its lock does not. */
void forget_budget(struct budget *budget) {
	if (budget->file != NULL)
		munmap(budget->file, budget->file->size);
	budget->file = NULL;
	budget->slot = -1;
}

int place_in_budget(const struct budget *budget, const uint8_t uuid[16]) {
	for (uint32_t i = 0; i < budget->file->cards; i++)
		if (memcmp(budget->file->card[i].uuid, uuid, 16) == 0)
			return (int)i;
	return -1;
}

static void empty_slot(const struct budget *budget, int slot) {
	for (uint32_t place = 0; place < budget->file->cards; place++) {
		__atomic_store_n(word(budget, budget->used, (int)place, slot), 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(word(budget, budget->pools, (int)place, slot), 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(word(budget, budget->contexts, (int)place, slot), 0, __ATOMIC_SEQ_CST);
	}
	end_holder(budget, slot);
	memset(&budget->slots[slot], 0, sizeof budget->slots[slot]);
}

void close_budget(struct budget *budget) {
	if (budget->slot >= 0) {
		empty_slot(budget, budget->slot);
		munmap(budget->lock, PAGE);
	}
	forget_budget(budget);
}

static void name_slot(struct budget_slot *slot) {
	int file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	char name[sizeof slot->name] = "";
	ssize_t got = file < 0 ? 0 : read(file, name, sizeof name - 1);

	if (file >= 0)
		close(file);
	name[got > 0 ? strcspn(name, "\n") : 0] = 0;
	memcpy(slot->name, name, sizeof name);
	__atomic_store_n(&slot->pid, (uint32_t)getpid(), __ATOMIC_RELEASE);
}

/* Slots that name a process are tried last: it is most likely alive. */
static int lock_free_slot(const struct budget *budget, int file) {
	for (int named = 0; named <= 1; named++)
		for (uint32_t i = 0; i < budget->file->slots; i++)
			if ((__atomic_load_n(&budget->slots[i].pid, __ATOMIC_ACQUIRE) != 0) == named && lock_byte(file, LOCKS + i))
				return (int)i;
	return -1;
}

static int claim_slot(struct budget *budget) {
	int file = reopen_budget(budget);
	int slot = file < 0 ? -1 : lock_free_slot(budget, file);
	void *lock = slot < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);

	if (lock == MAP_FAILED || madvise(lock, PAGE, MADV_DONTFORK) != 0) {
		if (file < 0)
			BUDGET_NOTE_ONCE("the budget %s cannot be opened (error %d): allocations are refused", budget->path, errno);
		else
			BUDGET_NOTE_ONCE("the budget %s has no room for this process (%u at most): allocations are refused",
			    budget->path, budget->file->slots);
		if (lock != MAP_FAILED)
			munmap(lock, PAGE);
		if (file >= 0)
			close(file);
		return 0;
	}
	close(file);
	empty_slot(budget, slot);
	name_slot(&budget->slots[slot]);
	uint32_t high = __atomic_load_n(&budget->file->high, __ATOMIC_SEQ_CST);
	while (high <= (uint32_t)slot && !__atomic_compare_exchange_n(&budget->file->high, &high, (uint32_t)slot + 1, 0,
	                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	budget->lock = lock;
	__atomic_store_n(&budget->slot, slot, __ATOMIC_RELEASE);
	return 1;
}

int has_slot(struct budget *budget) {
	if (LIKELY(__atomic_load_n(&budget->slot, __ATOMIC_ACQUIRE) >= 0))
		return 1;
	pthread_mutex_lock(&claiming);
	int claimed = budget->slot >= 0 || claim_slot(budget);
	pthread_mutex_unlock(&claiming);
	return claimed;
}

/* Those behind were never used. */
static uint32_t slots_in_use(const struct budget *budget) {
	uint32_t high = __atomic_load_n(&budget->file->high, __ATOMIC_SEQ_CST), slots = budget->file->slots;
	return high < slots ? high : slots;
}

/* The sum of a card, and whether part of it is undecided. */
static uint64_t sum(const struct budget *budget, int place, int *undecided) {
	uint32_t high = slots_in_use(budget);
	uint64_t total = __atomic_load_n(&budget->file->card[place].shared, __ATOMIC_SEQ_CST), marks = 0;
	const uint64_t *column = word(budget, budget->used, place, 0);

	for (uint32_t i = 0; i < high; i++) {
		uint64_t one = __atomic_load_n(&column[i], __ATOMIC_SEQ_CST);
		total += one & BYTES_MASK;
		marks += one >> BYTES_BITS;
	}
	if (undecided != NULL)
		*undecided = marks > 0;
	return total;
}

static void raise_peak(uint64_t *peak, uint64_t value) {
	uint64_t before = __atomic_load_n(peak, __ATOMIC_RELAXED);

	while (before < value && !__atomic_compare_exchange_n(peak, &before, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* It changes while memory is lent to the job: it is read after a request was added, and use is read after it was
 * lowered. */
static uint64_t limit_of(const struct budget_card *card) { return __atomic_load_n(&card->limit, __ATOMIC_SEQ_CST); }

/* Adds, looks, and takes it back if it is too much. What is taken stays marked as undecided: others may yet refuse it.
 */
static int try_to_take(const struct budget *budget, int place, uint64_t bytes, int *undecided) {
	struct budget_card *card = &budget->file->card[place];
	uint64_t *mine = word(budget, budget->used, place, budget->slot);

	__atomic_fetch_add(mine, UNDECIDED + bytes, __ATOMIC_SEQ_CST);
	uint64_t total = sum(budget, place, NULL);
	if (total <= limit_of(card)) {
		raise_peak(&card->peak, total);
		return 1;
	}
	__atomic_fetch_sub(mine, UNDECIDED + bytes, __ATOMIC_SEQ_CST);
	if (undecided != NULL && sum(budget, place, undecided) + bytes <= limit_of(card))
		*undecided = 1; /* it has been decided meanwhile */
	return 0;
}

int holder_lives(const struct budget *budget, int slot, uint32_t pid) {
	if (slot < 0 || (uint32_t)slot >= budget->file->slots ||
	    __atomic_load_n(&budget->slots[slot].pid, __ATOMIC_ACQUIRE) != pid)
		return 0;
	if (slot == budget->slot)
		return 1;
	int file = reopen_budget(budget);
	int lives = file < 0 || locked_byte(file, LOCKS + slot, LOCKS + slot) != UNLOCKED;
	if (file >= 0)
		close(file);
	return lives;
}

/* Empties the slots whose processes have ended. */
static void sweep(const struct budget *budget, int file) {
	for (uint32_t i = 0; i < slots_in_use(budget); i++) {
		if ((int)i == budget->slot || !lock_byte(file, LOCKS + i))
			continue;
		empty_slot(budget, (int)i);
		unlock_byte(file, LOCKS + i);
	}
}

uint64_t pools_of(const struct budget *budget, int place) {
	uint64_t total = 0;

	for (uint32_t i = 0; i < slots_in_use(budget); i++)
		total += __atomic_load_n(word(budget, budget->pools, place, (int)i), __ATOMIC_RELAXED);
	return total;
}

static void sweep_now(const struct budget *budget) {
	int file = reopen_budget(budget);

	if (file < 0)
		return;
	sweep(budget, file);
	close(file);
}

/*
 * What is left is reported without what dead processes held. They are looked for when others hold anything at all, and
 * not too often: a look is a system call for each process.
 */
uint64_t used_of(struct budget *budget, int place) {
	struct timespec now;
	uint32_t high = slots_in_use(budget);
	uint64_t total = __atomic_load_n(&budget->file->card[place].shared, __ATOMIC_SEQ_CST), of_others = total;
	const uint64_t *used = word(budget, budget->used, place, 0), *pools = word(budget, budget->pools, place, 0);

	for (uint32_t i = 0; i < high; i++) {
		uint64_t one = __atomic_load_n(&used[i], __ATOMIC_SEQ_CST) & BYTES_MASK;
		total += one;
		of_others |= (int)i == budget->slot ? 0 : one | __atomic_load_n(&pools[i], __ATOMIC_RELAXED);
	}
	if (LIKELY(of_others == 0))
		return total;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	int64_t moment = now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000,
	        last = __atomic_load_n(&budget->swept, __ATOMIC_RELAXED);
	if (moment - last < SWEEP_MS ||
	    !__atomic_compare_exchange_n(&budget->swept, &last, moment, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return total;
	sweep_now(budget);
	return sum(budget, place, NULL);
}

/*
 * The decision to refuse. One at a time, so that requests that are refused do not stand in each other's way. If a
 * process holds that lock for too long, because it is stopped, or because it was forked in that moment and has a copy,
 * the last tries go without the lock.
 */
static int decide(const struct budget *budget, int place, uint64_t bytes) {
	const struct timespec soon = {0, SOON_NS}, later = {0, LATER_NS};
	int file = reopen_budget(budget), undecided = 0, taken = 0, swept = 0, mine = 0;

	for (int i = 0; i < TRIES && !taken; i++) {
		mine = mine || file < 0 || lock_byte(file, ARBITER_LOCK) || i >= TRIES - 2;
		if (mine) {
			taken = try_to_take(budget, place, bytes, &undecided);
			if (!taken && !swept && file >= 0) {
				sweep(budget, file);
				swept = 1;
				continue;
			}
			if (taken || !undecided)
				break;
		}
		nanosleep(i < SOON ? &soon : &later, NULL);
	}
	unlock_and_close(file, ARBITER_LOCK);
	return taken;
}

int take_from(struct budget *budget, int place, uint64_t bytes) {
	if (place < 0 || !has_slot(budget))
		return 0;
	struct budget_card *card = &budget->file->card[place];
	if (bytes <= limit_of(card) && (LIKELY(try_to_take(budget, place, bytes, NULL)) || decide(budget, place, bytes)))
		return 1;
	__atomic_fetch_add(&card->refused, 1, __ATOMIC_RELAXED);
	return 0;
}

void give_to(const struct budget *budget, int place, uint64_t bytes) {
	if (place >= 0 && budget->slot >= 0)
		__atomic_fetch_sub(word(budget, budget->used, place, budget->slot), bytes, __ATOMIC_SEQ_CST);
}

/*
 * What a card's peak may be raised to. While anything is undecided the sum may be too large: another process tries to
 * take memory and is about to give it back, or memory that the driver has just reserved for a request is in the sum
 * twice, as the request's and as the pool's. Such a sum counts up to the limit. Sample a few times and keep
 * the minimum.
 */
static uint64_t known_sum(const struct budget *budget, int place) {
	int undecided = 1;
	uint64_t least = UINT64_MAX, limit = limit_of(&budget->file->card[place]);

	for (int look = 0; undecided && look < 64; look++) {
		uint64_t total = sum(budget, place, &undecided);
		least = !undecided || total < least ? total : least;
	}
	return undecided && least > limit ? limit : least;
}

void take_beyond(struct budget *budget, int place, uint64_t bytes) {
	if (place < 0 || !has_slot(budget))
		return;
	__atomic_fetch_add(word(budget, budget->used, place, budget->slot), bytes, __ATOMIC_SEQ_CST);
	if ((bytes & BYTES_MASK) != 0) /* else it is a mark only */
		raise_peak(&budget->file->card[place].peak, known_sum(budget, place));
}

void mark_pools_in(const struct budget *budget, int place, int64_t bytes) {
	if (place >= 0 && budget->slot >= 0)
		__atomic_fetch_add(word(budget, budget->pools, place, budget->slot), (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* The sum of contexts is one of living processes: each end of a context is seen, but not each end of a process. */
void count_contexts_in(struct budget *budget, int place, int64_t difference) {
	uint64_t total = 0;

	if (place < 0 || !has_slot(budget))
		return;
	__atomic_fetch_add(word(budget, budget->contexts, place, budget->slot), (uint64_t)difference, __ATOMIC_SEQ_CST);
	if (difference < 0)
		return;
	sweep_now(budget);
	for (uint32_t i = 0; i < slots_in_use(budget); i++)
		total += __atomic_load_n(word(budget, budget->contexts, place, (int)i), __ATOMIC_SEQ_CST);
	raise_peak(&budget->file->card[place].contexts_peak, total);
}

/* A process with several slots, as one with several machines has, is one of them. */
static void add_process(struct budget_process *out, int *count, int room, const struct budget_process *one) {
	int i = 0;

	while (i < *count && out[i].pid != one->pid)
		i++;
	if (i == room)
		return;
	if (i == *count)
		out[(*count)++] = (struct budget_process){.pid = one->pid};
	out[i].used += one->used;
	out[i].pools += one->pools;
	out[i].contexts += one->contexts;
}

int processes_of(struct budget *budget, int place, struct budget_process *out, int room) {
	int count = 0;

	sweep_now(budget);
	for (uint32_t i = 0; i < slots_in_use(budget); i++) {
		struct budget_process one = {
		    __atomic_load_n(&budget->slots[i].pid, __ATOMIC_ACQUIRE),
		    __atomic_load_n(word(budget, budget->used, place, (int)i), __ATOMIC_SEQ_CST) & BYTES_MASK,
		    __atomic_load_n(word(budget, budget->pools, place, (int)i), __ATOMIC_RELAXED),
		    __atomic_load_n(word(budget, budget->contexts, place, (int)i), __ATOMIC_SEQ_CST),
		};
		if (one.pid != 0)
			add_process(out, &count, room, &one);
	}
	return count;
}
