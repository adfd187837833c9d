/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of tests: counted calls, injected failures, gates, and questions about what is left. Only a build with
 * GPUCONF_TEST_HOOKS has them (tests_go/machine/fakecuda): the wheel's library exports no fakecuda_* and reads no
 * FAKECUDA_*.
 */
#include "stream.h"

#ifdef GPUCONF_TEST_HOOKS

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAMES = 1024, MAX_FAULTS = 32 };

/*
 * Guards the counters, the faults and the gate. It is separate from the machine's lock, so that a call can be counted
 * while another one waits inside that.
 */
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	const char *at; /* where the name was in memory when it was first counted */
	char name[64];
	unsigned long count;
} counts[MAX_NAMES];
static unsigned long fired;
static char fired_name[64];
static struct fault {
	char name[64]; /* "*" is any call */
	unsigned long left;
	int result;
	int armed;
} faults[MAX_FAULTS];
static int faults_armed; /* how many of them; without any, a call takes no lock */

static void arm(int difference) { __atomic_add_fetch(&faults_armed, difference, __ATOMIC_SEQ_CST); }

EXPORT void fakecuda_fail(const char *name, unsigned long nth, int result);

void lock_hooks(void) { pthread_mutex_lock(&counters_lock); }

void unlock_hooks(void) { pthread_mutex_unlock(&counters_lock); }

long checkpoint_mode(const char *word) {
	size_t length = strlen(word);
	for (const char *at = TEST_VARIABLE("CHECKPOINT"); at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, length) == 0 && strchr(",=", at[length]) != NULL) /* or its end */
			return at[length] == '=' ? atol(at + length + 1) : 1;
	}
	return 0;
}

/* The failures in the environment apply once per process. */
static pthread_once_t environ_read = PTHREAD_ONCE_INIT;

static void read_faults(void) {
	const char *list = TEST_VARIABLE("FAIL");
	char name[64];
	unsigned long nth;
	int result, used;
	while (list != NULL && sscanf(list, " %63[^:]:%lu:%d%n", name, &nth, &result, &used) == 3) {
		fakecuda_fail(name, nth, result);
		list += used;
		list += *list == ',';
	}
}

/*
 * The place depends on where the name is in memory, so that a call costs the same whichever functions were called
 * before. One name at two addresses has two places.
 */
static unsigned place_of(const char *name) {
	return (unsigned)(((uintptr_t)name * UINT64_C(0x9E3779B97F4A7C15)) >> 54) % MAX_NAMES;
}

static void count_in(unsigned at) { __atomic_add_fetch(&counts[at].count, 1, __ATOMIC_RELAXED); }

static void count_locked(const char *name) {
	unsigned at = place_of(name);
	for (int tries = 0; tries < MAX_NAMES; tries++, at = (at + 1) % MAX_NAMES) {
		if (counts[at].name[0] == 0) {
			snprintf(counts[at].name, sizeof counts[at].name, "%s", name);
			__atomic_store_n(&counts[at].at, name, __ATOMIC_RELEASE);
		}
		if (strcmp(counts[at].name, name) == 0) {
			count_in(at);
			return;
		}
	}
}

static CUresult fail_locked(const char *name) {
	CUresult result = SUCCESS;
	for (int i = 0; faults_armed > 0 && i < MAX_FAULTS && result == SUCCESS; i++) {
		struct fault *fault = &faults[i];
		if (!fault->armed || (strcmp(fault->name, "*") != 0 && strcmp(fault->name, name) != 0))
			continue;
		if (fault->left-- == 0) {
			fault->armed = 0;
			arm(-1);
			fired++;
			snprintf(fired_name, sizeof fired_name, "%s", name);
			if (fault->result < 0)
				kill(getpid(), -fault->result);
			result = (CUresult)fault->result;
		}
	}
	return result;
}

/* Most calls take no lock: their name has its place, and nothing is to fail. */
static CUresult count_and_fail(const char *name) {
	CUresult result = SUCCESS;
	pthread_once(&environ_read, read_faults);
	unsigned at = place_of(name);
	int has_place = __atomic_load_n(&counts[at].at, __ATOMIC_ACQUIRE) == name;
	if (has_place)
		count_in(at);
	if (has_place && __atomic_load_n(&faults_armed, __ATOMIC_RELAXED) == 0)
		return SUCCESS;
	pthread_mutex_lock(&counters_lock);
	if (!has_place)
		count_locked(name);
	result = fail_locked(name);
	pthread_mutex_unlock(&counters_lock);
	return result;
}

/* A closed gate: calls of that name wait in front of it, as a launch waits when the queue of its stream is full. */
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static char gate[64];
static int waiting, first_only, held;

static void set_gate(const char *name, int first) {
	pthread_mutex_lock(&counters_lock);
	snprintf(gate, sizeof gate, "%s", name);
	first_only = first;
	held = 0;
	pthread_cond_broadcast(&gate_opened); /* those that wait look whether they still have to */
	pthread_mutex_unlock(&counters_lock);
}

/* fakecuda_gate closes the gate for calls of a name; "" opens it. */
EXPORT void fakecuda_gate(const char *name) { set_gate(name, 0); }

/* fakecuda_gate_first closes the gate for the next call of a name; later ones pass. */
EXPORT void fakecuda_gate_first(const char *name) { set_gate(name, 1); }

/* fakecuda_waiting counts the calls that wait. */
EXPORT int fakecuda_waiting(void) { return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST); }

static void wait_at_the_gate(const char *name) {
	if (__atomic_load_n(&gate[0], __ATOMIC_RELAXED) == 0)
		return;
	pthread_mutex_lock(&counters_lock);
	int passes = strcmp(gate, name) != 0 || (first_only && held);
	held = held || !passes;
	waiting += !passes;
	while (!passes && strcmp(gate, name) == 0)
		pthread_cond_wait(&gate_opened, &counters_lock);
	waiting -= !passes;
	pthread_mutex_unlock(&counters_lock);
}

CUresult hooks_of_call(const char *name) {
	CUresult result = count_and_fail(name);
	wait_at_the_gate(name);
	return result;
}

/* fakecuda_called counts a call of a library over this one, and returns its injected failure, if any. */
EXPORT int fakecuda_called(const char *name) { return called(name, 0); }

/* fakecuda_fail makes a call of that name fail once, the nth from now on; "*" counts calls of any name. A negative
 * result sends that signal. */
EXPORT void fakecuda_fail(const char *name, unsigned long nth, int result) {
	pthread_mutex_lock(&counters_lock);
	for (int i = 0; i < MAX_FAULTS; i++) {
		if (faults[i].armed)
			continue;
		snprintf(faults[i].name, sizeof faults[i].name, "%s", name);
		faults[i].left = nth;
		faults[i].result = result;
		faults[i].armed = 1;
		arm(1);
		break;
	}
	pthread_mutex_unlock(&counters_lock);
}

/* fakecuda_fired counts the injected failures that have happened. */
EXPORT unsigned long fakecuda_fired(void) {
	pthread_mutex_lock(&counters_lock);
	unsigned long answer = fired;
	pthread_mutex_unlock(&counters_lock);
	return answer;
}

/* fakecuda_fired_name returns the call that failed last. */
EXPORT const char *fakecuda_fired_name(void) { return fired_name; }

/* fakecuda_count counts the calls of a name, or of all names ("*"), including failed ones. */
EXPORT unsigned long fakecuda_count(const char *name) {
	unsigned long answer = 0;
	pthread_mutex_lock(&counters_lock);
	for (int i = 0; i < MAX_NAMES; i++)
		if (strcmp(name, "*") == 0 || strcmp(counts[i].name, name) == 0)
			answer += __atomic_load_n(&counts[i].count, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&counters_lock);
	return answer;
}

/* fakecuda_clear removes all injected failures. */
EXPORT void fakecuda_clear(void) {
	pthread_mutex_lock(&counters_lock);
	memset(faults, 0, sizeof faults);
	arm(-faults_armed);
	pthread_mutex_unlock(&counters_lock);
}

/* fakecuda_delay delays each copy and fill in a stream. */
EXPORT void fakecuda_delay(unsigned us) {
	enter_machine();
	LOCK;
	m->delay_us = us;
	UNLOCK;
}

/*
 * fakecuda_live counts objects that were not released: "allocations" (including managed ones), "host", "handles",
 * "mappings", "reservations", "streams", "events", "retains", "graphs", "arrays".
 */
EXPORT int fakecuda_live(const char *what) {
	enter_machine();
	int handles, mappings, reservations, streams, events, retains = 0, graphs;
	LOCK;
	count_virtual(&handles, &mappings, &reservations);
	count_streams(&streams, &events);
	graphs = count_graphs();
	for (int i = 0; i < m->gpus; i++)
		retains += m->gpu[i].retains;
	int allocations = count_list(m->allocations) + count_list(m->managed_memory) + count_outside() + count_imports(),
	    arrays = count_arrays(), hosts = count_list(m->hosts);
	UNLOCK;
	const struct {
		const char *name;
		int count;
	} table[] = {{"allocations", allocations}, {"host", hosts}, {"handles", handles}, {"mappings", mappings},
	    {"reservations", reservations}, {"streams", streams}, {"events", events}, {"retains", retains},
	    {"graphs", graphs}, {"arrays", arrays}};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].name, what) == 0)
			return table[i].count;
	return -1;
}

/* fakecuda_restart acts like a new process: all state is dropped, and cuInit reads the environment again. */
EXPORT void fakecuda_restart(void) {
	enter_machine();
	fakecuda_clear();
	LOCK;
	end_machine();
	for (int i = 0; i < m->gpus; i++) {
		m->gpu[i].retains = 0;
		m->gpu[i].primary = NULL;
	}
	if (m->cards_of_environment) {
		free((void *)(uintptr_t)m->cards);
		m->cards = NULL;
		m->cards_of_environment = m->card_count = 0;
		drop_memory(m);
	}
	m->version = 0;
	m->started = m->no_device = m->forked = m->gpus = 0;
	m->delay_us = 0;
	forget_checkpoint(m);
	m->era = new_era();
	UNLOCK;
}

/* fakecuda_graph_pieces returns the number of nodes of a graph. */
EXPORT int fakecuda_graph_pieces(CUgraph graph) { return graph->body->count; }

/* fakecuda_alive says whether a context exists, for fake libraries over this one. */
EXPORT int fakecuda_alive(CUcontext context) {
	enter_machine();
	LOCK;
	int alive = context->alive;
	UNLOCK;
	return alive;
}

/*
 * For fake libraries over this one, such as tests_go/machine/fakecublas: fakecuda_launch queues a kernel in a stream of
 * the current context. It takes ownership of the argument, which must come from malloc. touched is MAX_TOUCHED ranges
 * of device memory, which must be accessible to the kernel now and when it runs; empty ranges are ignored.
 */
EXPORT CUresult fakecuda_launch(CUstream handle, void (*kernel)(void *), void *argument, const struct range *touched) {
	struct work work = {.kind = KERNEL, .kernel = kernel, .staged = argument};
	memcpy(work.touched, touched, sizeof work.touched);
	IN_STREAM(handle, {
		for (int i = 0; i < MAX_TOUCHED; i++)
			if (touched[i].bytes > 0 &&
			    (!within(touched[i].addr, touched[i].bytes, context->gpu) || within_host(touched[i].addr, 1)))
				result = ILLEGAL_ADDRESS;
		if (result == SUCCESS)
			result = admits(stream);
		if (result == SUCCESS)
			enqueue(stream, work);
		else
			free(argument);
	});
}

#endif
