/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machines of a process, and which one a call is about.
 *
 * A process has one machine of its own, which cuInit starts. The core may open others (simulator.h), make one of them
 * the process's, and bind a thread to one. `m` is the machine of the call that the thread is in: enter_machine sets
 * it, and every function of the driver begins with that.
 *
 * opened_lock guards the list of machines and which one is the process's; it is taken before the lock of any machine,
 * and a fork takes it and then all of those. of_process is read without it, so that calls stay cheap: a machine is
 * taken out of the list, under opened_lock, before it is freed.
 */
#include "stream.h"

#include "../../machine/models/simulator.h"
#include "../../machine/models/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__thread struct machine *m __attribute__((tls_model("initial-exec")));
__thread int works_for_machine __attribute__((tls_model("initial-exec")));
static __thread struct machine *bound_to __attribute__((tls_model("initial-exec")));

static struct machine own = {.lock = PTHREAD_MUTEX_INITIALIZER,
    .progress = PTHREAD_COND_INITIALIZER,
    .era = 1,
    .standard_host = {.gpu = -1},
    .standard_managed = {.gpu = -1}};
static struct machine *of_process = &own;
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a machine's */
static struct machine *opened = &own;                           /* all machines */
static int last_era = 1;

/* A number that no machine and no start of one has had: thread-local stacks of contexts know by it that they are
 * stale. */
int new_era(void) { return __atomic_add_fetch(&last_era, 1, __ATOMIC_SEQ_CST); }

/* While it is held no machine is freed, so one that a monitor's thread looks at stays. */
void hold_machines(void) {
	pthread_mutex_lock(&opened_lock);
	enter_machine();
}

void let_machines_go(void) { pthread_mutex_unlock(&opened_lock); }

void enter_machine(void) { m = bound_to != NULL ? bound_to : __atomic_load_n(&of_process, __ATOMIC_SEQ_CST); }

/* The answer is found once and kept. Two threads that find it at one time find the same. */
int driver_version(void) {
	enter_machine();
	int version = __atomic_load_n(&m->version, __ATOMIC_RELAXED);
	if (version == 0) {
		version = version_of_environment();
		if (version == 0)
			version = FAKECUDA_DEFAULT_VERSION;
		__atomic_store_n(&m->version, version, __ATOMIC_RELAXED);
	}
	return version;
}

/* Injected failures of tests come first, then that the driver must have started, and then what captures forbid. */
CUresult called(const char *name, int needs_start) {
	enter_machine();
	CUresult result = hooks_of_call(name);
	if (result != SUCCESS || !needs_start)
		return result;
	LOCKED_ANYWAY;
	return m->started ? forbidden(name) : NOT_INITIALIZED;
}

/* For the refusals that come before cuInit: each has its own set of moments. */
enum when time_of_call(void) {
	enter_machine();
	LOCKED_ANYWAY;
	if (m->started)
		return STARTED;
	return m->no_device ? NO_DEVICE_FOUND : NOT_CALLED;
}

/*
 * The order matters: contexts first, as they end their streams and all that work could touch; then what refers to
 * memory, then memory; the account of shared cards after all that returns bytes to it; and last what only other
 * processes still had.
 */
void end_machine(void) {
	for (struct context *context = m->contexts; context != NULL; context = context->next)
		if (context->alive)
			end_context(context);
	end_externals();
	end_virtual();
	end_captures();
	end_modules();
	end_pools();
	end_graph_memory();
	end_sharing(); /* after all that returns memory to it */
	end_gone();
	drop_blocks();
}

/* The thread's calls are about this machine until it is bound to another one. Returns the one before. */
static struct machine *bind_machine(struct machine *machine) {
	struct machine *before = bound_to;
	bound_to = machine;
	return before;
}

/* The process's machine, for threads that are bound to none. NULL: its own again. */
static void use_machine(struct machine *machine) {
	pthread_mutex_lock(&opened_lock);
	if (machine != NULL && !machine->kept)
		__atomic_store_n(&machine->only_listed, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&of_process, machine != NULL ? machine : &own, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&opened_lock);
}

static void set_version(int version) { __atomic_store_n(&own.version, version, __ATOMIC_SEQ_CST); }

/* Lists of different types differ only in where their `next` is. */
void free_list(void *first, size_t next) {
	while (first != NULL) {
		char *gone = first;
		memcpy(&first, gone + next, sizeof first);
		free(gone);
	}
}

/* What a machine keeps so that stale handles and addresses are detected. No thread works in it any more. */
static void free_machine(struct machine *machine) {
	drop_ranges();
	drop_memory(machine);
	free_list(machine->streams, offsetof(struct stream, next));
	free_list(machine->retired_streams, offsetof(struct stream, retired_before));
	free_list(machine->events, offsetof(struct event, next));
	free_list(machine->destroyed_events, offsetof(struct event, next));
	free_list(machine->contexts, offsetof(struct context, next));
	free_list(machine->pools, offsetof(struct pool, next));
	free_list(machine->captures, offsetof(struct capture, next));
	free_list(machine->graphs, offsetof(struct graph, next));
	free_modules();
	free((void *)(uintptr_t)machine->cards);
	free(machine->shared_path);
	pthread_mutex_destroy(&machine->lock);
	pthread_cond_destroy(&machine->progress);
	free(machine);
}

/*
 * A program that has started on the process's machine, such as PyTorch, keeps its contexts and addresses until the
 * process ends. So this machine stays when the core closes it, and is the one that the core gets when it opens the same
 * cards again. It is not open to other cards then.
 */
static struct machine *kept;

EXPORT void gpuconf_simulator_keep(void) {
	pthread_mutex_lock(&opened_lock);
	kept = __atomic_load_n(&of_process, __ATOMIC_SEQ_CST);
	kept->kept = 1;
	pthread_mutex_unlock(&opened_lock);
}

/* Whether a machine that the process keeps is what is requested: then it is used again. */
static int is_same(const struct machine *machine, const struct simulator_card *cards, int count,
    const struct simulator_options *options) {
	const char *path = machine->shared_path, *wanted = options->shared_cards;
	return machine->card_count == count && memcmp(machine->cards, cards, (size_t)count * sizeof *cards) == 0 &&
	       (path == NULL || wanted == NULL ? path == wanted : strcmp(path, wanted) == 0);
}

/* Whether it is out of the lists: not if it is kept. No thread that holds the machines has it any more, or gets it. */
static int take_out(struct machine *machine) {
	struct machine *expected = machine, **at = &opened;
	pthread_mutex_lock(&opened_lock);
	int out = !machine->kept;
	if (out) {
		__atomic_compare_exchange_n(&of_process, &expected, &own, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		while (*at != machine)
			at = &(*at)->next;
		*at = machine->next;
	}
	pthread_mutex_unlock(&opened_lock);
	return out;
}

/* The machine ends under its own lock, with the thread bound to it, since `m` must be the machine whose lists are
 * dropped. */
static void close_machine(struct machine *machine) {
	if (!take_out(machine))
		return;
	struct machine *before = bind_machine(machine);
	enter_machine();
	LOCK;
	while (m->checkpoint.in_hand || m->suspended)
		pthread_cond_wait(&m->progress, &m->lock);
	end_machine();
	UNLOCK;
	free_machine(machine);
	bind_machine(before);
	enter_machine();
}

/* Returns NULL and a complaint if it cannot be opened; nothing is left of it then. It is in the list before it
 * starts, so that a fork meanwhile finds its lock. */
static struct machine *open_machine(const struct simulator_card *cards, int count,
    const struct simulator_options *options, char *complaint, size_t room) {
	if (count < 0 || count > MAX_GPUS) {
		snprintf(complaint, room, "cannot simulate %d GPUs; a machine has at most %d", count, MAX_GPUS);
		return NULL;
	}
	pthread_mutex_lock(&opened_lock);
	struct machine *before_it = options->of_process ? kept : NULL;
	pthread_mutex_unlock(&opened_lock);
	if (before_it != NULL) {
		if (is_same(before_it, cards, count, options))
			return before_it;
		snprintf(complaint, room,
		    "a library of this process, such as PyTorch, has started on other simulated GPUs, which it keeps until the "
		    "process "
		    "ends: simulate these in another process");
		return NULL;
	}
	struct machine *machine = calloc(1, sizeof *machine);
	struct simulator_card *copy = calloc((size_t)count + 1, sizeof *copy);
	char *path = options->shared_cards != NULL ? strdup(options->shared_cards) : NULL;
	if (machine == NULL || copy == NULL || (options->shared_cards != NULL && path == NULL)) {
		snprintf(complaint, room, "the host has no memory left");
		free(machine);
		free(copy);
		free(path);
		return NULL;
	}
	if (count > 0)
		memcpy(copy, cards, (size_t)count * sizeof *copy);
	*machine = (struct machine){.era = new_era(),
	    .cards = copy,
	    .card_count = count,
	    .to_the_byte = options->to_the_byte,
	    .lenient = options->lenient,
	    .version = options->version,
	    .opened = 1,
	    .shared_path = path,
	    .standard_host = {.gpu = -1},
	    .standard_managed = {.gpu = -1}};
	pthread_mutex_init(&machine->lock, NULL);
	pthread_cond_init(&machine->progress, NULL);
	pthread_mutex_lock(&opened_lock);
	machine->next = opened;
	opened = machine;
	pthread_mutex_unlock(&opened_lock);
	struct machine *before = bind_machine(machine);
	enter_machine();
	LOCK;
	CUresult result = start();
	int failed = machine->gpus; /* the one that was being made */
	UNLOCK;
	bind_machine(before);
	if (result == SUCCESS || result == NO_DEVICE)
		return machine;
	if (machine->trouble[0] != 0)
		snprintf(complaint, room, "%s", machine->trouble);
	else
		snprintf(complaint, room,
		    "the host refused %d GiB of address space for simulated GPU %d, %s. No memory is used yet. "
		    "Check the limit of address space (ulimit -v), or simulate less memory, such as T4:1GiB",
		    (int)(2 * machine->gpu[failed].total >> 30), failed, view_of(&copy[failed]).name);
	close_machine(machine);
	return NULL;
}

EXPORT const struct gpuconf_simulator *gpuconf_simulator(uint32_t abi) {
	static const struct gpuconf_simulator table = {open_machine, close_machine, bind_machine, use_machine, set_version};
	return abi == GPUCONF_SIMULATOR_ABI ? &table : NULL;
}

/* A child may use the driver, as far as it needs no thread of it. The locks are free there, whatever the threads of
 * streams were doing. */
static void before_fork(void) {
	pthread_mutex_lock(&opened_lock);
	for (struct machine *one = opened; one != NULL; one = one->next)
		pthread_mutex_lock(&one->lock);
	lock_hooks();
}

static void after_fork(void) {
	unlock_hooks();
	for (struct machine *one = opened; one != NULL; one = one->next)
		pthread_mutex_unlock(&one->lock);
	pthread_mutex_unlock(&opened_lock);
}

/* A child that may start the driver has memory of its own: that of shared cards is a file, in which the parent would
 * see what it writes. */
void drop_memory(struct machine *machine) {
	for (int i = 0; i < MAX_GPUS; i++) {
		int *files[] = {&machine->gpu[i].memory_file, &machine->arena_files[i]};
		for (int f = 0; f < 2; f++) {
			if (*files[f] > 0)
				close(*files[f]);
			*files[f] = 0;
		}
		if (machine->arenas[i] != 0)
			munmap((void *)(uintptr_t)machine->arenas[i], machine->arena_bytes[i]);
		machine->arenas[i] = machine->arena_bytes[i] = 0;
	}
}

/* Later drivers of NVIDIA refuse cuInit there, where it was called before. */
static void after_fork_in_child(void) {
	forget_control();
	for (struct machine *one = opened; one != NULL; one = one->next) {
		forget_sharing(one);
		forget_checkpoint(one);
	}
	int usable = TEST_VARIABLE("FORKS") != NULL; /* for tests of what counts a child's calls */
	for (struct machine *one = opened; one != NULL && !usable; one = one->next) {
		one->forked = !one->only_listed && (one->version == 0 || one->version >= 12040 || one->started) &&
		              (one->started || one->no_device);
		if (one->only_listed && one->started)
			drop_memory(one);
		one->started = one->no_device = 0;
	}
	after_fork();
}

__attribute__((constructor)) static void watch_forks(void) {
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
