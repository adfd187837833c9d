/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of tests into the simulated CUDA driver: counted calls, injected failures, gates, work step by step, and
 * questions about what is left. A test builds this file with the driver's own and GPUCONF_TEST_HOOKS: the wheel's
 * library exports no fakecuda_* and reads no FAKECUDA_*.
 */
#include "../../../../gocore/sim/cuda/stream.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* Counts the elements of a list of which a condition about `it` holds. */
#define COUNT(count, list, condition) \
	count = 0; \
	for (__typeof__(list) it = (list); it != NULL; it = it->next) \
	count += (condition) != 0

/*
 * fakecuda_live counts objects that were not released: "allocations" (including managed ones), "host", "handles",
 * "mappings", "reservations", "streams", "events", "retains", "graphs", "arrays".
 */
EXPORT int fakecuda_live(const char *what) {
	enter_machine();
	int handles, mappings, reservations, streams, events, retains = 0;
	LOCK;
	count_virtual(&handles, &mappings, &reservations);
	COUNT(streams, m->streams, !it->destroyed && !it->ended && it != it->context->legacy && !it->own);
	COUNT(events, m->events, it->context->alive);
	int graphs, hosts, linear, managed, outside, arrays = count_arrays(), imports = count_imports();
	COUNT(graphs, m->graphs, !it->destroyed);
	COUNT(hosts, m->hosts, !it->gone);
	COUNT(linear, m->allocations, !it->gone);
	COUNT(managed, m->managed_memory, !it->gone);
	COUNT(outside, m->outside, it->kind != GRAPH_MEMORY);
	for (int i = 0; i < m->gpus; i++)
		retains += m->gpu[i].retains;
	UNLOCK;
	const struct {
		const char *name;
		int count;
	} table[] = {{"allocations", linear + managed + outside + imports}, {"host", hosts}, {"handles", handles},
	    {"mappings", mappings}, {"reservations", reservations}, {"streams", streams}, {"events", events},
	    {"retains", retains}, {"graphs", graphs}, {"arrays", arrays}};
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
	IN_STREAM(handle);
	CUresult result = SUCCESS;
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
	return result;
}

/* fakecuda_current returns the thread's current context, alive or not, for fake libraries over this one. */
EXPORT CUcontext fakecuda_current(void) {
	struct context *context = NULL;
	enter_machine();
	current_context(&context);
	return context;
}

/* For tests that try every order: no work runs but what fakecuda_step runs. A call that waits for work never returns.
 */
EXPORT void fakecuda_hold(void) {
	enter_machine();
	LOCK;
	m->stepped = 1;
	UNLOCK;
}

/* Whether a stream's next piece of work could run now. A wait for a word could if the word is there. */
static int steppable(const struct stream *stream) {
	const struct piece *next = stream->head;
	if (next == NULL || !is_ready(next))
		return 0;
	if (next->work.kind == AWAIT)
		return shared_done(next->work.shared, next->work.value);
	return next->work.kind != WAIT_WORD || word_holds(&next->work);
}

/* fakecuda_steppable lists the streams of a GPU whose next piece of work could run now, the newest first, and returns
 * how many. */
EXPORT int fakecuda_steppable(int gpu, uint64_t *streams, int room) {
	int found = 0;
	enter_machine();
	LOCK;
	for (struct stream *one = m->streams; one != NULL && found < room; one = one->next)
		if (one->context->gpu == gpu && steppable(one))
			streams[found++] = one == one->context->legacy ? 0 : (uint64_t)(uintptr_t)one;
	UNLOCK;
	return found;
}

/* fakecuda_step runs the next piece of a stream's work. It returns 0 if none could run now. */
EXPORT int fakecuda_step(int gpu, uint64_t handle) {
	int ran = 0;
	enter_machine();
	LOCK;
	for (struct stream *one = m->streams; one != NULL && !ran; one = one->next) {
		uint64_t name = one == one->context->legacy ? 0 : (uint64_t)(uintptr_t)one;
		ran = one->context->gpu == gpu && name == handle && steppable(one);
		if (ran)
			run_next(one);
	}
	UNLOCK;
	return ran;
}

#define MAX_ALIASES 512

/* With FAKECUDA_ALIASES the resolver returns other addresses than dlsym, as a driver may have entries of its own: one
 * jump for each function, always the same. */
void *hooks_entry(void *function) {
	static struct {
		void *function;
		unsigned char code[24];
	} *aliases;
	static int count;
	void *found = NULL;
	if (TEST_VARIABLE("ALIASES") == NULL)
		return function;
	LOCKED;
	if (aliases == NULL)
		aliases = mmap(NULL, MAX_ALIASES * sizeof *aliases, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < count; i++)
		if (aliases[i].function == function)
			found = aliases[i].code;
	if (found == NULL && count < MAX_ALIASES) {
#if defined(__x86_64__)
		const unsigned char jump[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* mov rax, function; jmp rax */
		const int operand = 2;
#else
		const unsigned char jump[] = {
		    0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6, 0, 0, 0, 0, 0, 0, 0, 0}; /* ldr x16, +8; br x16; function */
		const int operand = 8;
#endif
		found = aliases[count].code;
		aliases[count].function = function;
		memcpy(aliases[count].code, jump, sizeof jump);
		memcpy(aliases[count].code + operand, &function, sizeof function);
		__builtin___clear_cache((char *)found, (char *)found + sizeof aliases->code);
		count++;
	}
	return found;
}

/* The machine of FAKECUDA_*: GPUs that are alike. */

static uint64_t number_from(const char *value, uint64_t otherwise) {
	return value != NULL && *value != 0 ? strtoull(value, NULL, 10) : otherwise;
}

static int lacks(const char *what) {
	const char *list = TEST_VARIABLE("WITHOUT");
	return list != NULL && strstr(list, what) != NULL;
}

int hooks_machine(void) {
	m->lenient = number_from(TEST_VARIABLE("LENIENT"), 0) != 0;
	m->overfull = TEST_VARIABLE("OVERFULL") != NULL;
	m->segment = number_from(TEST_VARIABLE("SEGMENT"), 0);
	return (int)number_from(TEST_VARIABLE("GPUS"), 1);
}

void hooks_gpu(struct gpu *gpu) {
	gpu->total = number_from(TEST_VARIABLE("MEMORY"), 1024 * MIB);
	gpu->major = 9, gpu->minor = 0;
	gpu->vmm = !lacks("vmm");
	gpu->memops = !lacks("memops");
	gpu->greatest_priority = lacks("priorities") ? 0 : -5;
	gpu->managed_memory = !lacks("managed");
	gpu->concurrent = gpu->managed_memory && !lacks("concurrent");
	gpu->multiprocessors = 132;
	gpu->bus = 0x1a + 0x10 * gpu->physical;
}
