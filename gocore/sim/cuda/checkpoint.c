/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process checkpoints, since CUDA 12.8: one process suspends another, whose memory leaves the card until it is
 * restored.
 *
 *     RUNNING --lock--> LOCKED --checkpoint--> CHECKPOINTED --restore--> LOCKED --unlock--> RUNNING
 *
 * From cuInit on, a process has a thread that does this, and an open file without a name, by which others reach it: the
 * caller looks for the file in /proc/PID/fd, so that any thread's number will do, and the kernel decides who may. A
 * process that closes all its descriptors, or a child that is forked, cannot be reached.
 *
 * A lock keeps calls that need the machine's lock waiting (LOCK), and returns when the queued work is done. Questions
 * that do not need it are answered. A checkpoint releases what the process has of its cards, contexts included. The
 * bytes themselves stay where they are: a simulated card's memory is the host's. A restore takes all of it again, or
 * nothing.
 *
 * NVIDIA documents the order of states and some of the errors. The rest is what programs have seen: 3 for a process
 * without a context (cuda-checkpoint#10), 801 at the checkpoint on GB10 (#51), 2 at the checkpoint under MIG (#42),
 * managed memory not before driver 580, 304 where /proc is closed.
 */
#include "driver.h"

#include "../../lease/budget/locks.h"
#include "../../machine/models/spec.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_FILE "gpuconf-simulated-control-1" /* with the version of struct control */
enum { LIFE, CALLER };                             /* bytes of the file: the process lives; it has a caller */
enum { LOOK_MS = 10 };                             /* between looks whether the other side lives, or time is up */

enum operation { GET_STATE, GET_THREAD, DO_LOCK, DO_CHECKPOINT, DO_RESTORE, DO_UNLOCK };
static const char *const names[] = {"state", "thread", "lock", "checkpoint", "restore", "unlock"};

/* Shared by the process and who calls it. */
struct control {
	uint32_t asked, answered; /* the numbers of the last request, and of the last one that is done; futexes */
	uint32_t operation, timeout_ms;
	uint32_t called;   /* a caller has not read its answer yet */
	uint32_t orphaned; /* a caller ended before it had */
	int32_t result, value;
};

static struct control *control; /* of this process; NULL: it has none */
static int control_file = -1;

static void sleep_on(uint32_t *word, uint32_t was, int forever) {
	const struct timespec look = {0, LOOK_MS * 1000000L};
	syscall(SYS_futex, word, FUTEX_WAIT, was, forever ? NULL : &look, NULL, 0);
}

static void set_and_wake(uint32_t *word, uint32_t value) {
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int64_t now_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* The process that is suspended. The lock is held without regard to the suspension. */

static int has_context(void) {
	for (const struct context *one = m->contexts; one != NULL; one = one->next)
		if (one->alive)
			return 1;
	return 0;
}

static unsigned profiles(void) {
	unsigned all = 0;
	for (int i = 0; i < m->gpus; i++)
		all |= m->gpu[i].profile;
	return all;
}

/* Returns when all queued work is done, or when it is not after the time; 0 ms: no limit. */
static int drain(uint32_t timeout_ms) {
	int64_t end = now_ms() + timeout_ms;
	while (!streams_idle()) {
		if (timeout_ms > 0 && now_ms() >= end)
			return 0;
		struct timespec look;
		clock_gettime(CLOCK_REALTIME, &look);
		look.tv_nsec += LOOK_MS * 1000000L;
		look.tv_sec += look.tv_nsec / 1000000000;
		look.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&m->progress, &m->lock, &look);
	}
	return 1;
}

static void keep_calls_waiting(void) {
	m->suspended = 1;
	count_as_queued(1);
}

static void let_calls_pass(void) {
	m->suspended = 0;
	count_as_queued(-1);
	pthread_cond_broadcast(&m->progress);
}

static CUresult lock_process(uint32_t timeout_ms) {
	if (m->checkpoint.state != IS_RUNNING)
		return ILLEGAL_STATE;
	if (!has_context())
		return NOT_INITIALIZED;
	if (profiles() & GPUCONF_MPS)
		return NOT_SUPPORTED;
	keep_calls_waiting();
	if (checkpoint_mode("not-ready") || !drain(timeout_ms)) {
		let_calls_pass();
		return NOT_READY;
	}
	m->checkpoint.state = IS_LOCKED;
	return SUCCESS;
}

static CUresult unsuitable(void) {
	if (profiles() & GPUCONF_MIG_CONTAINER)
		return OUT_OF_MEMORY;
	int managed = m->managed_memory != NULL && driver_version() < 13000;
	int shared = m->imports != NULL || m->held_shares != NULL || exports_live();
	int foreign = m->externals != NULL || m->multicasts != NULL;
	return managed || shared || foreign || (profiles() & GPUCONF_AS_UNIFIED) ? NOT_SUPPORTED : SUCCESS;
}

/* What a copy takes on the test's clock: a fixed time, and so many MiB a second. */
static void take_time(const char *direction, uint64_t bytes) {
	long speed = checkpoint_mode(direction), ms = checkpoint_mode("fixed");
	if (speed > 0)
		ms += (long)(bytes / MIB * 1000 / (uint64_t)speed);
	if (ms <= 0)
		return;
	UNLOCK;
	usleep((useconds_t)ms * 1000);
	pthread_mutex_lock(&m->lock);
}

static void count_contexts(int sign) {
	for (const struct context *one = m->contexts; one != NULL; one = one->next)
		if (one->alive)
			count_context(&m->gpu[one->gpu], sign);
}

static void count_managed(int sign) {
	for (int i = 0; i < m->gpus; i++)
		if (m->gpu[i].concurrent)
			mark_managed(&m->gpu[i], sign * (int64_t)m->gpu[i].managed);
}

static uint64_t saved(int gpus) {
	uint64_t sum = 0;
	for (int i = 0; i < gpus; i++)
		sum += m->checkpoint.bytes[i];
	return sum;
}

static CUresult checkpoint(void) {
	if (m->checkpoint.state != IS_LOCKED)
		return ILLEGAL_STATE;
	TRY(unsuitable());
	for (int i = 0; i < m->gpus; i++)
		m->checkpoint.bytes[i] = m->gpu[i].used - m->gpu[i].others;
	take_time("out", saved(m->gpus));
	for (int i = 0; i < m->gpus; i++)
		leave_card(&m->gpu[i], m->checkpoint.bytes[i]);
	count_contexts(-1);
	count_managed(-1);
	m->checkpoint.state = IS_CHECKPOINTED;
	return SUCCESS;
}

static CUresult restore(void) {
	if (m->checkpoint.state != IS_CHECKPOINTED)
		return ILLEGAL_STATE;
	if (m->checkpoint.ruined)
		return OPERATING_SYSTEM;
	int taken = 0;
	while (taken < m->gpus && use_card(&m->gpu[taken], m->checkpoint.bytes[taken]))
		taken++;
	if (taken < m->gpus) {
		while (taken-- > 0)
			leave_card(&m->gpu[taken], m->checkpoint.bytes[taken]);
		m->checkpoint.ruined = checkpoint_mode("ruin") != 0;
		return OUT_OF_MEMORY;
	}
	count_contexts(1);
	count_managed(1);
	take_time("in", saved(m->gpus));
	m->checkpoint.state = IS_LOCKED;
	return SUCCESS;
}

static CUresult unlock_process(void) {
	if (m->checkpoint.state != IS_LOCKED)
		return ILLEGAL_STATE;
	m->checkpoint.state = IS_RUNNING;
	let_calls_pass();
	return SUCCESS;
}

/* What tests want to happen before an operation. */
static void misbehave(enum operation operation) {
	char mode[32];
	snprintf(mode, sizeof mode, "crash-%s", names[operation]);
	if (checkpoint_mode(mode)) { /* this thread has signals blocked */
		kill(getpid(), SIGSEGV);
		pause();
	}
	snprintf(mode, sizeof mode, "hang-%s", names[operation]);
	while (checkpoint_mode(mode))
		pause();
}

static CUresult perform(void) {
	enum operation operation = control->operation;
	misbehave(operation);
	if (control->orphaned && checkpoint_mode("out-of-step"))
		return OPERATING_SYSTEM;
	switch (operation) {
	case GET_STATE:
		control->value = m->checkpoint.state;
		return SUCCESS;
	case GET_THREAD:
		control->value = (int32_t)syscall(SYS_gettid);
		return SUCCESS;
	case DO_LOCK:
		return lock_process(control->timeout_ms);
	case DO_CHECKPOINT:
		return checkpoint();
	case DO_RESTORE:
		return restore();
	case DO_UNLOCK:
		return unlock_process();
	}
	return INVALID_VALUE;
}

static void *serve(void *argument) {
	works_for_machine = 1;
	for (;;) {
		uint32_t asked = __atomic_load_n(&control->asked, __ATOMIC_SEQ_CST);
		if (asked == control->answered) {
			sleep_on(&control->asked, asked, 1);
			continue;
		}
		hold_machines();
		LOCK_ANYWAY;
		let_machines_go();
		m->checkpoint.in_hand = 1; /* close_machine waits */
		control->result = perform();
		m->checkpoint.in_hand = 0;
		pthread_cond_broadcast(&m->progress);
		UNLOCK;
		set_and_wake(&control->answered, asked);
	}
	return argument;
}

/* A process that the host refuses a file or a thread to cannot be suspended, and runs. */
void begin_control(void) {
	pthread_t thread;
	if (control != NULL || driver_version() < 12080)
		return;
	int file = memfd_create(CONTROL_FILE, MFD_CLOEXEC);
	struct control *page = MAP_FAILED;
	if (file >= 0 && ftruncate(file, sizeof *page) == 0 && lock_byte(file, LIFE))
		page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	control = page != MAP_FAILED ? page : NULL;
	if (control != NULL && start_thread(&thread, NULL, serve, NULL) == 0) {
		pthread_detach(thread);
		control_file = file;
		return;
	}
	if (control != NULL)
		munmap(control, sizeof *control);
	control = NULL;
	if (file >= 0)
		close(file);
}

void forget_control(void) {
	if (control == NULL)
		return;
	munmap(control, sizeof *control);
	control = NULL;
	if (is_memory_file(control_file, CONTROL_FILE)) /* a program that closes all files may have another of its number */
		close(control_file);
}

void forget_checkpoint(struct machine *machine) {
	count_as_queued(-machine->suspended);
	machine->suspended = 0;
	memset(&machine->checkpoint, 0, sizeof machine->checkpoint);
}

/* The caller. */

static int opened_control(const char *folder) {
	char path[320];
	int file = -1;
	DIR *list = opendir(folder);
	for (struct dirent *one; list != NULL && file < 0 && (one = readdir(list)) != NULL;) {
		snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
		if (is_memory_link(path, CONTROL_FILE))
			file = open(path, O_RDWR | O_CLOEXEC);
	}
	if (list != NULL)
		closedir(list);
	return file;
}

/* The file has its size before the lock. */
static int has_ended(int file) { return locked_byte(file, LIFE, LIFE) == UNLOCKED; }

static CUresult open_control(int pid, int *file) {
	char folder[32];
	snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
	if (pid <= 0 || access("/proc/self", F_OK) != 0)
		return pid <= 0 ? INVALID_VALUE : OPERATING_SYSTEM;
	DIR *list = opendir(folder);
	if (list == NULL)
		return errno == ENOENT ? INVALID_VALUE : OPERATING_SYSTEM;
	closedir(list);
	*file = opened_control(folder);
	if (*file >= 0 && has_ended(*file)) { /* or it has not begun */
		close(*file);
		*file = -1;
	}
	return *file >= 0 ? SUCCESS : NOT_INITIALIZED;
}

/* Returns 0 if the process has ended before it answered. One that is stopped is waited for, as NVIDIA's driver does. */
static int await_answer(struct control *page, int file) {
	for (;;) {
		uint32_t answered = __atomic_load_n(&page->answered, __ATOMIC_SEQ_CST);
		if (answered == __atomic_load_n(&page->asked, __ATOMIC_SEQ_CST))
			return 1;
		if (has_ended(file))
			return 0;
		sleep_on(&page->answered, answered, 0);
	}
}

static CUresult ask_page(struct control *page, int file, enum operation operation, uint32_t timeout_ms, int *value) {
	while (!lock_byte(file, CALLER)) {
		if (has_ended(file))
			return OPERATING_SYSTEM;
		usleep(1000);
	}
	page->orphaned |= page->called;
	page->called = 1;
	if (!await_answer(page, file))
		return OPERATING_SYSTEM;
	page->operation = operation, page->timeout_ms = timeout_ms;
	set_and_wake(&page->asked, page->asked + 1);
	if (!await_answer(page, file))
		return OPERATING_SYSTEM;
	CUresult result = (CUresult)page->result;
	if (result == SUCCESS && value != NULL)
		*value = page->value;
	page->called = 0;
	return result;
}

static CUresult ask(int pid, enum operation operation, uint32_t timeout_ms, int *value) {
	int file;
	TRY(open_control(pid, &file));
	struct control *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CUresult result = OPERATING_SYSTEM;
	if (page != MAP_FAILED) {
		result = ask_page(page, file, operation, timeout_ms, value);
		munmap(page, sizeof *page);
	}
	close(file);
	return result;
}

/* The arguments: 64 bytes each, of which a version leaves all but its fields zero. */

struct lock_args {
	uint32_t timeout_ms;
	unsigned char reserved[60];
};

struct checkpoint_args {
	uint64_t custom_storage; /* since 13.4 */
	unsigned char reserved[56];
};

struct gpu_pair {
	unsigned char from[16], to[16];
};

struct restore_args {
	const struct gpu_pair *pairs; /* since 13.0 */
	uint32_t count;
	uint32_t padding;
	uint64_t custom_storage; /* since 13.4 */
	unsigned char reserved[40];
};

_Static_assert(sizeof(struct lock_args) == 64 && sizeof(struct checkpoint_args) == 64, "as NVIDIA's");
_Static_assert(sizeof(struct gpu_pair) == 32 && sizeof(struct restore_args) == 64, "as NVIDIA's");

static int is_zero(const void *bytes, size_t count) {
	const unsigned char *at = bytes;
	while (count > 0 && at[count - 1] == 0)
		count--;
	return count == 0;
}

/* Custom storage is refused: the bytes of a simulated card do not move. */
static CUresult check_checkpoint(const struct checkpoint_args *args) {
	if (args == NULL)
		return SUCCESS;
	if (!is_zero(args->reserved, sizeof args->reserved))
		return INVALID_VALUE;
	if (args->custom_storage != 0)
		return driver_version() < 13040 ? INVALID_VALUE : not_done("cuCheckpointProcessCheckpoint to custom storage");
	return SUCCESS;
}

/* All cards of the machine must be there, also those that CUDA_VISIBLE_DEVICES hides (cuda-python#1983). Processes stay
 * on their card. */
static CUresult check_pairs(const struct gpu_pair *pairs, uint32_t count) {
	if (count != (uint32_t)(m->cards != NULL ? m->card_count : m->gpus))
		return INVALID_VALUE;
	for (uint32_t i = 0; i < count; i++)
		if (memcmp(pairs[i].from, pairs[i].to, sizeof pairs[i].from) != 0)
			return not_done("cuCheckpointProcessRestore on other GPUs");
	return SUCCESS;
}

static CUresult check_restore(const struct restore_args *args) {
	if (args == NULL)
		return SUCCESS;
	int version = driver_version();
	if (version < 13000)
		return is_zero(args, sizeof *args) ? SUCCESS : INVALID_VALUE;
	if (args->padding != 0 || !is_zero(args->reserved, sizeof args->reserved))
		return INVALID_VALUE;
	if (args->custom_storage != 0)
		return version < 13040 ? INVALID_VALUE : not_done("cuCheckpointProcessRestore from custom storage");
	if ((args->pairs == NULL) != (args->count == 0))
		return INVALID_VALUE;
	return args->pairs != NULL ? check_pairs(args->pairs, args->count) : SUCCESS;
}

EXPORT CUresult cuCheckpointProcessGetState(int pid, int *state) {
	CALLED_SINCE(12080, cuCheckpointProcessGetState);
	return state == NULL ? INVALID_VALUE : ask(pid, GET_STATE, 0, state);
}

EXPORT CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
	CALLED_SINCE(12080, cuCheckpointProcessGetRestoreThreadId);
	return thread == NULL ? INVALID_VALUE : ask(pid, GET_THREAD, 0, thread);
}

EXPORT CUresult cuCheckpointProcessLock(int pid, const struct lock_args *args) {
	CALLED_SINCE(12080, cuCheckpointProcessLock);
	if (args != NULL && !is_zero(args->reserved, sizeof args->reserved))
		return INVALID_VALUE;
	return ask(pid, DO_LOCK, args != NULL ? args->timeout_ms : 0, NULL);
}

EXPORT CUresult cuCheckpointProcessCheckpoint(int pid, const struct checkpoint_args *args) {
	CALLED_SINCE(12080, cuCheckpointProcessCheckpoint);
	CUresult result = check_checkpoint(args);
	return result == SUCCESS ? ask(pid, DO_CHECKPOINT, 0, NULL) : result;
}

EXPORT CUresult cuCheckpointProcessRestore(int pid, const struct restore_args *args) {
	CALLED_SINCE(12080, cuCheckpointProcessRestore);
	CUresult result = check_restore(args);
	return result == SUCCESS ? ask(pid, DO_RESTORE, 0, NULL) : result;
}

/* Its arguments are reserved in all versions. */
EXPORT CUresult cuCheckpointProcessUnlock(int pid, const void *args) {
	CALLED_SINCE(12080, cuCheckpointProcessUnlock);
	return args != NULL && !is_zero(args, 64) ? INVALID_VALUE : ask(pid, DO_UNLOCK, 0, NULL);
}
