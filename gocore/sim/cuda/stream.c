/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: queues of work, each with its own thread while it has work. Work waits for other work, as the legacy
 * stream's rules and events require, given as pairs of a stream and a number in it. Streams and events are never freed,
 * so that use of a stale handle is detected.
 */
#include "stream.h"

#include "../../machine/cuda/constants.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How many pieces of work all queues hold. Python computes at once what a card's stream would later, and reads without
 * a call whether it has to wait. A process that is suspended has to. */
static uint32_t queued;

void count_as_queued(int difference) { __atomic_add_fetch(&queued, (uint32_t)difference, __ATOMIC_RELEASE); }

EXPORT const uint32_t *gpuconf_simulator_queued(void) { return &queued; }

struct stream *all_streams(void) { return m->streams; }

/*
 * Streams that have ended, and those that are destroyed and have no work, leave the list, else each walk through it
 * would take longer with every stream that a program has used. They keep their next: who waits in the middle of a walk
 * may have come to one of them.
 */
static void retire_streams(void) {
	for (struct stream **at = &m->streams; *at != NULL;) {
		struct stream *one = *at;
		if ((one->destroyed || one->ended) && one->head == NULL && !one->worker) {
			*at = one->next;
			one->retired_before = m->retired_streams;
			m->retired_streams = one;
		} else {
			at = &one->next;
		}
	}
}

struct stream *make_stream(struct context *context, int blocking, int priority) {
	retire_streams();
	struct stream *stream = calloc(1, sizeof *stream);
	stream->context = context;
	stream->blocking = blocking;
	stream->priority = priority;
	stream->id = ++m->last_stream;
	stream->tail = &stream->head;
	stream->next = m->streams;
	m->streams = stream;
	return stream;
}

void count_streams(int *stream_count, int *event_count) {
	*stream_count = *event_count = 0;
	for (struct stream *one = m->streams; one != NULL; one = one->next)
		*stream_count += !one->destroyed && !one->ended && one != one->context->legacy && !one->own;
	for (struct event *one = m->events; one != NULL; one = one->next)
		*event_count += one->context->alive;
}

static struct stream *per_thread(struct context *context) {
	for (struct stream *one = m->streams; one != NULL; one = one->next)
		if (one->own && one->context == context && pthread_equal(one->thread, pthread_self()))
			return one;
	struct stream *stream = make_stream(context, 1, 0);
	stream->own = 1;
	stream->thread = pthread_self();
	return stream;
}

/* Once, to stderr: here the program goes on. */
static void note_destroyed(void) {
	static int noted;
	if (m->cards_of_environment && !__atomic_exchange_n(&noted, 1, __ATOMIC_RELAXED))
		fputs("gpuconf: the program uses the handle of a CUDA stream that it has destroyed: with an H200's driver, "
		      "such a call ends the process\n",
		    stderr);
}

static CUresult find_stream(CUstream handle, struct context *context, struct stream **out) {
	switch ((uintptr_t)handle) {
	case 0:
	case 1:
		*out = context->legacy;
		return SUCCESS;
	case 2:
		*out = per_thread(context);
		return SUCCESS;
	}
	/* PyTorch makes 32 streams at a time, and a driver finds one in the same time however many there are. */
	for (struct stream *one = m->streams; m->found != handle && one != NULL; one = one->next)
		if (one == handle)
			m->found = one;
	for (struct stream *one = m->retired_streams; m->found != handle && one != NULL; one = one->retired_before)
		if (one == handle)
			m->found = one;
	if (m->found == handle && m->found->destroyed)
		note_destroyed();
	if (m->found != handle || m->found->destroyed || m->found->ended)
		return INVALID_HANDLE;
	*out = m->found;
	return SUCCESS;
}

CUresult stream_and_context(CUstream handle, struct stream **stream, struct context **context) {
	*context = NULL;
	CUresult result = (uintptr_t)handle > 2 ? SUCCESS : current_context(context);
	if (result == SUCCESS)
		result = find_stream(handle, *context, stream);
	if (result == SUCCESS && *context == NULL) {
		*context = (*stream)->context;
		result = (*context)->sticky;
	}
	return result;
}

static int do_left_work(void);

static int finished(struct mark mark) {
	return mark.stream == NULL || mark.stream->ended || mark.stream->done >= mark.seq;
}

static int ready(const struct piece *piece) {
	for (int i = 0; i < piece->after_count; i++)
		if (!finished(piece->after[i]))
			return 0;
	return 1;
}

/* Memory that was freed or unmapped before its work runs is a mistake of the caller, and ends the context. */
static int touchable_by(struct stream *stream, uint64_t addr, uint64_t bytes, int gpu) {
	int yes = within(addr, bytes, gpu);
	if (!yes)
		stream->context->sticky = ILLEGAL_ADDRESS;
	return yes;
}

static int touchable(struct stream *stream, uint64_t addr, uint64_t bytes) {
	return touchable_by(stream, addr, bytes, stream->context->gpu);
}

static void pause_unlocked(unsigned us) {
	UNLOCK;
	usleep(us);
	LOCK_ANYWAY;
}

static void run_copy(struct stream *stream, struct work *work) {
	const void *from = work->staged != NULL ? work->staged : (const void *)(uintptr_t)work->src;
	if ((work->to_pageable || touchable(stream, work->dst, work->bytes)) &&
	    (work->staged != NULL || touchable(stream, work->src, work->bytes)))
		memmove((void *)(uintptr_t)work->dst, from, work->bytes);
}

static void run_wait(struct stream *stream, struct work *work) {
	while (!stream->ended && touchable(stream, work->dst, work->bytes)) {
		if (word_holds(work))
			return;
		if (!do_left_work())
			pause_unlocked(50);
	}
}

static void run_await(struct stream *stream, struct work *work) {
	while (!stream->ended && !shared_done(work->shared, work->value))
		if (!do_left_work())
			pause_unlocked(50);
}

static void run_kernel(struct stream *stream, struct work *work) {
	for (int i = 0; i < MAX_TOUCHED; i++)
		if (work->touched[i].bytes > 0 && !touchable_by(stream, work->touched[i].addr, work->touched[i].bytes,
		                                      work->touched_by[i] > 0 ? work->touched_by[i] - 1 : stream->context->gpu))
			return;
	work->kernel(work->staged);
}

static uint64_t now_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void run_work(struct stream *stream, struct work *work) {
	if ((work->kind == COPY || work->kind == FILL || work->kind == KERNEL) && m->delay_us > 0)
		pause_unlocked(m->delay_us);
	if (stream->ended)
		return;
	switch (work->kind) {
	case MARK:
		if (work->src != 0)
			((struct event *)(uintptr_t)work->src)->when = now_ns();
		return;
	case COPY:
		run_copy(stream, work);
		return;
	case FILL:
		if (!touchable(stream, work->dst, work->bytes))
			return;
		if (work->value == 0)
			gpuconf_simulator_clear(work->dst, work->bytes);
		else
			memset((void *)(uintptr_t)work->dst, (int)work->value, work->bytes);
		return;
	case WRITE_WORD:
		if (touchable(stream, work->dst, work->bytes))
			write_word(work);
		return;
	case WAIT_WORD:
		run_wait(stream, work);
		return;
	case KERNEL:
		run_kernel(stream, work);
		return;
	case GRAPH:
		run_body(stream, work->body);
		return;
	case SIGNAL: /* done_with */
		return;
	case AWAIT:
		run_await(stream, work);
	}
}

/* Work that was done, or that is dropped with its context: another process waits for its signal. */
static void done_with(struct work *work) {
	free(work->staged);
	if (work->kind == SIGNAL)
		end_shared(work->shared, work->value);
	if (work->shared != NULL)
		drop_shared(work->shared);
}

static void drop_head(struct stream *stream) {
	struct piece *gone = stream->head;
	stream->head = gone->next;
	if (stream->head == NULL)
		stream->tail = &stream->head;
	done_with(&gone->work);
	if (gone->work.kind == GRAPH)
		drop_body(gone->work.body);
	free(gone->after);
	free(gone);
	__atomic_sub_fetch(&queued, 1, __ATOMIC_RELEASE);
}

static void run_head(struct stream *stream) {
	stream->running = 1;
	if (!stream->ended && stream->context->sticky == SUCCESS)
		run_work(stream, &stream->head->work);
	stream->running = 0;
	stream->done = stream->head->seq;
	drop_head(stream);
	pthread_cond_broadcast(&m->progress);
}

/* A worker ends when the queue is empty; the next work starts another. */
static void *run_queue(void *argument) {
	struct stream *stream = argument;
	m = stream->context->machine;
	works_for_machine = 1;
	LOCK;
	while (stream->head != NULL) {
		if (!stream->ended && !ready(stream->head))
			pthread_cond_wait(&m->progress, &m->lock);
		else
			run_head(stream);
	}
	stream->worker = 0;
	pthread_cond_broadcast(&m->progress);
	UNLOCK;
	return NULL;
}

static void run_one(struct stream *stream) {
	stream->worker = 1;
	run_head(stream);
	stream->worker = 0;
}

/*
 * Where the host refuses a thread, those who wait for work or ask for it do it: one piece at a time. Returns 0 if there
 * is none. On a machine that runs step by step only the work of a context that has ended is theirs: it is dropped.
 */
static int do_left_work(void) {
	int left = 0;
	for (struct stream *one = m->left_work ? m->streams : NULL; one != NULL; one = one->next) {
		if (one->head == NULL || one->worker)
			continue;
		left = 1;
		if (one->ended || (!m->stepped && ready(one->head))) {
			run_one(one);
			return 1;
		}
	}
	m->left_work = left;
	return 0;
}

/* Signals are for the program's threads: one that they all block waits for sigwait. */
int start_thread(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int failed = pthread_create(thread, how, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed;
}

static void start_worker(struct stream *stream) {
	pthread_t thread;
	stream->worker = 1;
	if (!m->stepped && start_thread(&thread, NULL, run_queue, stream) == 0) {
		pthread_detach(thread);
	} else {
		stream->worker = 0;
		m->left_work = 1;
	}
}

static void depend(struct piece *piece, struct mark mark) {
	if (finished(mark))
		return;
	piece->after = realloc(piece->after, (size_t)(piece->after_count + 1) * sizeof *piece->after);
	piece->after[piece->after_count++] = mark;
}

/* Whether no work that is queued comes before new work of the stream. */
static int nothing_before(struct stream *stream, struct mark other) {
	struct stream *legacy = stream->context->legacy;
	if (stream->head != NULL || stream->worker || !finished(other))
		return 0;
	if (stream != legacy)
		return !stream->blocking || finished((struct mark){legacy, legacy->last});
	for (struct stream *one = m->streams; one != NULL; one = one->next)
		if (one->context == stream->context && one->blocking && !finished((struct mark){one, one->last}))
			return 0;
	return 1;
}

/*
 * Work that nothing delays is done by the thread that queues it: a GPU may be that fast, and a thread for each copy
 * costs more than the copy. Host functions are not, since they may take the locks of the thread that queues them. Nor
 * is any work of a test's machine, which looks for memory that is freed too early.
 */
static int at_once(struct stream *stream, const struct work *work, struct mark other) {
	int brief = work->kind == MARK || work->kind == COPY || work->kind == FILL || work->kind == WRITE_WORD ||
	            work->kind == SIGNAL;
	return brief && m->cards != NULL && m->delay_us == 0 && !m->stepped && nothing_before(stream, other);
}

static uint64_t do_now(struct stream *stream, struct work *work) {
	stream->last++;
	if (!stream->ended && stream->context->sticky == SUCCESS)
		run_work(stream, work);
	stream->done = stream->last;
	done_with(work);
	pthread_cond_broadcast(&m->progress);
	return stream->last;
}

static uint64_t enqueue_after(struct stream *stream, struct work work, struct mark other) {
	if (stream->capture != NULL) {
		take_piece(stream, work);
		return 0;
	}
	if (at_once(stream, &work, other))
		return do_now(stream, &work);
	struct piece *piece = calloc(1, sizeof *piece);
	struct stream *legacy = stream->context->legacy;
	piece->work = work;
	piece->seq = ++stream->last;
	depend(piece, other);
	if (stream == legacy) {
		for (struct stream *one = m->streams; one != NULL; one = one->next)
			if (one->context == stream->context && one->blocking)
				depend(piece, (struct mark){one, one->last});
	} else if (stream->blocking) {
		depend(piece, (struct mark){legacy, legacy->last});
	}
	*stream->tail = piece;
	stream->tail = &piece->next;
	__atomic_add_fetch(&queued, 1, __ATOMIC_RELEASE);
	if (!stream->worker)
		start_worker(stream);
	return piece->seq;
}

uint64_t enqueue(struct stream *stream, struct work work) {
	return enqueue_after(stream, work, (struct mark){NULL, 0});
}

void wait_done(struct stream *stream, uint64_t seq) {
	while (!finished((struct mark){stream, seq}))
		if (!do_left_work())
			pthread_cond_wait(&m->progress, &m->lock);
	wait_while_suspended();
}

int streams_idle(void) {
	while (do_left_work())
		;
	for (const struct stream *one = m->streams; one != NULL; one = one->next)
		if (one->head != NULL || one->worker)
			return 0;
	return 1;
}

/* Returns when all work of the context that is queued by now is done. */
void wait_idle(struct context *context) {
	for (struct stream *one = m->streams; one != NULL; one = one->next)
		if (one->context == context)
			wait_done(one, one->last);
}

/* Returns when no thread works in the context any more. */
void end_streams(struct context *context) {
	for (struct stream *one = m->streams; one != NULL; one = one->next) {
		if (one->context == context) {
			leave_capture(one);
			one->ended = 1;
		}
	}
	pthread_cond_broadcast(&m->progress);
	for (struct stream *one = m->streams; one != NULL; one = one->next)
		while (one->context == context && (one->worker || one->head != NULL))
			if (!do_left_work())
				pthread_cond_wait(&m->progress, &m->lock);
	wait_while_suspended();
}

#ifdef GPUCONF_TEST_HOOKS

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
	if (next == NULL || !ready(next))
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
			run_one(one);
	}
	UNLOCK;
	return ran;
}

#endif

static CUresult create_stream(CUstream *out, unsigned flags, int priority) {
	IN_CONTEXT({
		int greatest = m->gpu[context->gpu].greatest_priority;
		if (priority > 0)
			priority = 0;
		*out = make_stream(context, flags == 0, priority < greatest ? greatest : priority);
	});
}

/* Without a context that can have the stream, NVIDIA's driver leaves a handle that no stream has, and not that of the
 * default stream. */
EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
	static struct stream none;
	REFUSE(ANY_TIME, out == NULL || flags > 1, INVALID_VALUE);
	CALLED(cuStreamCreateWithPriority);
	CUresult result = create_stream(out, flags, priority);
	if (result != SUCCESS)
		*out = &none;
	return result;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
	REFUSE(ANY_TIME, handle == NULL, INVALID_HANDLE);
	CALLED_IN(handle, cuStreamDestroy);
	IN_STREAM(handle, {
		if ((uintptr_t)handle <= 2)
			result = INVALID_HANDLE;
		else {
			leave_capture(stream);
			stream->destroyed = 1;
		}
	});
}

EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority) {
	REFUSE(ANY_TIME, priority == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamGetPriority);
	IN_STREAM(handle, {
		result = admits(stream);
		*priority = stream->priority;
	});
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *out) {
	REFUSE(ANY_TIME, out == NULL, INVALID_VALUE);
	REFUSE(NOT_STARTED, driver_version() >= 12050 && handle != NULL, INVALID_HANDLE);
	CALLED_IN(handle, cuStreamGetCtx);
	IN_STREAM(handle, {
		result = admits(stream);
		*out = stream->context;
	});
}

/* What is wrong with a stream or an event is said before CALLED. */
#define SAY_FIRST(refusal) \
	do { \
		enter_machine(); \
		CUresult refused_ = (refusal); \
		if (refused_ != SUCCESS) \
			return refused_; \
	} while (0)

/* A question about a captured stream spoils its own capture, before it would spoil those of other streams. */
static CUresult stream_refused(CUstream handle) {
	struct context *context = NULL;
	struct stream *stream = NULL;
	LOCK;
	CUresult result = SUCCESS;
	if (m->started && ((uintptr_t)handle > 2 || current_context(&context) == SUCCESS))
		result = find_stream(handle, context, &stream);
	if (result == SUCCESS && stream != NULL && (stream->capture != NULL || stream == stream->context->legacy))
		result = observes(stream);
	UNLOCK;
	return result;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)handle > 2, INVALID_HANDLE);
	SAY_FIRST(stream_refused(handle));
	CALLED(cuStreamSynchronize);
	IN_STREAM(handle, {
		result = observes(stream);
		if (result == SUCCESS) {
			if (!nothing_before(stream, (struct mark){NULL, 0}))
				wait_done(stream, enqueue(stream, (struct work){.kind = MARK}));
			result = context->sticky;
			pools_synchronized();
		}
	});
}

/* The forms with a per-thread default stream. */
CUstream own_stream(CUstream handle) { return handle != NULL ? handle : (CUstream)(uintptr_t)2; }

static int idle(struct stream *stream) {
	while (do_left_work())
		;
	if (stream == stream->context->legacy)
		for (struct stream *one = m->streams; one != NULL; one = one->next)
			if (one->context == stream->context && one->blocking && one->done < one->last)
				return 0;
	return stream->done == stream->last;
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)handle > 2, INVALID_HANDLE);
	SAY_FIRST(stream_refused(handle));
	CALLED(cuStreamQuery);
	IN_STREAM(handle, {
		result = observes(stream);
		if (result == SUCCESS)
			result = idle(stream) ? context->sticky : NOT_READY;
	});
}

/* Where the list of events that are not destroyed has one, or its end. */
static struct event **event_link(const struct event *event) {
	struct event **at = &m->events;
	while (*at != NULL && *at != event)
		at = &(*at)->next;
	return at;
}

int event_gone(const struct event *event) {
	const struct event *one = *event_link(event);
	return one == NULL || !one->context->alive;
}

CUresult cuEventRecord(CUevent event, CUstream handle);

enum { EXTERNAL = 1 };

/* A node about an event of other streams: only a capture makes one. */
static CUresult external(struct stream *stream, int waits) {
	CUresult result = stream->capture == NULL ? ILLEGAL_STATE : admits(stream);
	if (result == SUCCESS)
		add_event_node(stream->capture->graph->body, waits);
	return result;
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
	CALLED_IN(handle, cuEventRecordWithFlags);
	if (flags > EXTERNAL)
		return INVALID_VALUE;
	if (flags == 0)
		return cuEventRecord(event, handle);
	IN_STREAM(handle, result = event_gone(event) ? INVALID_HANDLE : external(stream, 0));
}

/* For an event that there is not. */
static CUresult wait_refused(struct stream *stream) {
	CUresult result = admits(stream);
	if (result == SUCCESS && stream->capture != NULL)
		stream->capture->spoiled = 1;
	return result == SUCCESS ? INVALID_HANDLE : result;
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
	CALLED_IN(handle, cuStreamWaitEvent);
	IN_STREAM(handle, {
		if (event_gone(event))
			result = wait_refused(stream);
		else if (flags > 1)
			result = INVALID_VALUE;
		else if (flags == EXTERNAL)
			result = external(stream, 1);
		else if (stream->capture != NULL || event->capture != NULL)
			result = wait_captured(stream, event);
		else if ((result = admits(stream)) == SUCCESS && event->shared != NULL &&
		         !shared_done(event->shared, last_shared(event->shared)))
			enqueue(
			    stream, (struct work){
			                .kind = AWAIT, .shared = hold_shared(event->shared), .value = last_shared(event->shared)});
		else if (result == SUCCESS)
			enqueue_after(stream, (struct work){.kind = MARK}, event->mark);
	});
}

struct event *add_event(struct context *context, int untimed) {
	struct event *event = calloc(1, sizeof *event);
	event->context = context;
	event->untimed = untimed;
	event->next = m->events;
	m->events = event;
	return event;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags) {
	CALLED(cuEventCreate);
	IN_CONTEXT({
		if (out == NULL || flags > 7 ||
		    (flags & (CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) == CU_EVENT_INTERPROCESS)
			result = INVALID_VALUE;
		int shares = result == SUCCESS && (flags & CU_EVENT_INTERPROCESS) != 0 && m->shared != NULL;
		struct shared_event *shared = shares ? make_shared_event() : NULL;
		if (shares && shared == NULL)
			result = OUT_OF_MEMORY;
		if (result == SUCCESS) {
			*out = add_event(context, (flags & CU_EVENT_DISABLE_TIMING) != 0);
			(*out)->interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
			(*out)->shared = shared;
		}
	});
}

/* IN_EVENT runs a body with a valid event and its context, under the lock. No context need be current. */
#define IN_EVENT(event, ...) \
	LOCK; \
	CUresult result = event_gone(event) ? INVALID_HANDLE : SUCCESS; \
	struct context *context = result == SUCCESS ? event->context : NULL; \
	if (result == SUCCESS && !context->alive) \
		result = CONTEXT_IS_DESTROYED; \
	if (result == SUCCESS) { \
		__VA_ARGS__; \
	} \
	UNLOCK; \
	return result

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
	REFUSE(NOT_STARTED, 1, event == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuEventDestroy);
	IN_EVENT(event, {
		*event_link(event) = event->next;
		event->next = m->destroyed_events;
		m->destroyed_events = event;
		if (event->shared != NULL && !event->foreign)
			forget_shared(event->shared);
		if (event->shared != NULL)
			drop_shared(event->shared);
		event->shared = NULL;
	});
}

static void record_shared(struct event *event, struct stream *stream) {
	uint64_t number = begin_shared(event->shared);
	event->capture = NULL;
	event->mark = (struct mark){
	    stream, enqueue(stream, (struct work){.kind = SIGNAL, .shared = hold_shared(event->shared), .value = number})};
}

/* Other processes record it, too. */
static void wait_shared(struct event *event) {
	struct shared_event *shared = hold_shared(event->shared);
	uint64_t number = last_shared(shared);
	while (!shared_done(shared, number))
		if (!do_left_work())
			pause_unlocked(50);
	drop_shared(shared);
	wait_while_suspended();
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
	CALLED_IN(handle, cuEventRecord);
	IN_STREAM(handle, {
		if ((result = admits(stream)) != SUCCESS)
			;
		else if (event_gone(event) || event->context != stream->context)
			result = INVALID_HANDLE;
		else if (stream->capture != NULL)
			record_captured(event, stream);
		else if (event->shared != NULL)
			record_shared(event, stream);
		else
			event->capture = NULL,
			event->mark = (struct mark){stream,
			    enqueue(stream, (struct work){.kind = MARK, .src = event->untimed ? 0 : (uint64_t)(uintptr_t)event})};
	});
}

/* What is wrong with an event itself is said before what captures forbid. */
static CUresult event_refused(CUevent event) {
	LOCK;
	CUresult result = !m->started ? SUCCESS : event_gone(event) ? INVALID_HANDLE : event_observed(event);
	UNLOCK;
	return result;
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
	REFUSE(NOT_STARTED, 1, event == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	SAY_FIRST(event_refused(event));
	CALLED(cuEventSynchronize);
	IN_EVENT(event, {
		result = event_observed(event);
		if (result == SUCCESS) {
			if (event->shared != NULL)
				wait_shared(event);
			else
				wait_done(event->mark.stream, event->mark.seq);
			result = context->sticky;
			pools_synchronized();
		}
	});
}

EXPORT CUresult cuEventQuery(CUevent event) {
	REFUSE(NOT_STARTED, 1, event == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	SAY_FIRST(event_refused(event));
	CALLED(cuEventQuery);
	IN_EVENT(event, {
		while (do_left_work())
			;
		result = event_observed(event);
		if (result == SUCCESS)
			result =
			    (event->shared != NULL ? shared_done(event->shared, last_shared(event->shared)) : finished(event->mark))
			        ? context->sticky
			        : NOT_READY;
	});
}

static CUresult timed(struct event *event) {
	if (event_gone(event) || event->untimed || (event->mark.stream == NULL && event->capture == NULL))
		return INVALID_HANDLE;
	CUresult result = event_observed(event);
	if (result == SUCCESS && !finished(event->mark))
		result = NOT_READY;
	return result;
}

/* The host's time: it says nothing about a GPU's speed. */
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
	REFUSE(NOT_STARTED, 1, from == NULL || to == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuEventElapsedTime);
	IN_EVENT(from, {
		while (do_left_work())
			;
		result = ms == NULL ? INVALID_HANDLE : timed(from);
		if (result == SUCCESS)
			result = timed(to);
		if (result == SUCCESS && to->context->gpu != from->context->gpu)
			result = INVALID_HANDLE; /* GPUs have no common clock */
		if (result == SUCCESS)
			result = context->sticky;
		if (result == SUCCESS)
			*ms = (float)((double)(int64_t)(to->when - from->when) / 1e6);
	});
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) {
	REFUSE(NOT_STARTED, 1, from == NULL || to == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED_SINCE(12080, cuEventElapsedTime_v2);
	return cuEventElapsedTime(ms, from, to);
}

EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
	REFUSE(ANY_TIME, id == NULL, INVALID_VALUE);
	CALLED_IN_SINCE(12000, handle, cuStreamGetId);
	IN_STREAM(handle, {
		result = stream->capture != NULL ? observes(stream) : SUCCESS;
		*id = result == SUCCESS ? stream->id : 0;
	});
}

/* The device's side of a copy is checked, and what comes from the host is staged. */
static CUresult copy_checked(struct work *work, int from_host, int gpu) {
	if (!within(from_host ? work->dst : work->src, work->bytes, gpu))
		return INVALID_VALUE;
	if (from_host) {
		work->staged = malloc(work->bytes);
		memcpy(work->staged, (const void *)(uintptr_t)work->src, work->bytes);
	}
	return SUCCESS;
}

/*
 * A copy or fill in a stream. CUDA also accepts host memory that is not page-locked, and may copy it at once or later;
 * here it is refused, or copied at once (FAKECUDA_LENIENT).
 */
static CUresult queue_in(struct stream *stream, struct work work, int dst_host, int src_host) {
	int gpu = stream->context->gpu;
	int pageable = (dst_host && !within_host(work.dst, work.bytes)) || (src_host && !within_host(work.src, work.bytes));
	if (work.kind == FILL && stream->capture != NULL && !within(work.dst, work.bytes, gpu)) {
		stream->capture->graph->body->unusable = 1; /* which an instantiation finds */
		enqueue(stream, work);
		return SUCCESS;
	}
	if (work.dst == 0 || (work.kind == COPY && work.src == 0) || (pageable && !m->lenient))
		return INVALID_VALUE;
	if (pageable) {
		work.to_pageable = dst_host;
		CUresult result = copy_checked(&work, src_host, gpu);
		if (result != SUCCESS)
			return result;
		wait_done(stream, enqueue(stream, work));
		return stream->context->sticky;
	}
	if (!within(work.dst, work.bytes, gpu) || (work.kind == COPY && !within(work.src, work.bytes, gpu)))
		return INVALID_VALUE;
	enqueue(stream, work);
	return SUCCESS;
}

static CUresult queue(CUstream handle, struct work work, int dst_host, int src_host) {
	IN_STREAM(handle, {
		if ((result = admits(stream)) == SUCCESS && work.bytes > 0)
			result = queue_in(stream, work, dst_host, src_host);
	});
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
	CALLED(cuMemcpyHtoDAsync);
	return queue(
	    stream, (struct work){.kind = COPY, .dst = dst, .src = (uint64_t)(uintptr_t)src, .bytes = bytes}, 0, 1);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
	CALLED(cuMemcpyDtoHAsync);
	return queue(
	    stream, (struct work){.kind = COPY, .dst = (uint64_t)(uintptr_t)dst, .src = src, .bytes = bytes}, 1, 0);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
	CALLED(cuMemcpyDtoDAsync);
	return queue(stream, (struct work){.kind = COPY, .dst = dst, .src = src, .bytes = bytes}, 0, 0);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream) {
	CALLED_IN(stream, cuMemsetD8Async);
	return queue(stream, (struct work){.kind = FILL, .dst = dst, .value = value, .bytes = bytes}, 0, 0);
}
