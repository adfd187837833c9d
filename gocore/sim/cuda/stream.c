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

/* The newest stream is the first of the list. Numbers are never used twice in a machine, as cuStreamGetId promises. */
struct stream *make_stream(struct context *context, int blocking, int priority) {
	retire_streams();
	struct stream *stream =
	    ADD(m->streams, .context = context, .blocking = blocking, .priority = priority, .id = ++m->last_stream);
	stream->tail = &stream->head;
	return stream;
}

/* The default stream of a thread in a context, which is made at its first use and is blocking, as cudaStreamPerThread
 * is. */
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

/* Handles 0 and 1 are the legacy stream, 2 the thread's own: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD of cuda.h. Any
 * other is looked for by its address, and not read before it was found. */
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

/* A handle that names a stream brings its own context, whether or not that is current; a default stream needs the
 * current one. */
CUresult stream_and_context(CUstream handle, struct stream **stream, struct context **context) {
	*context = NULL;
	if ((uintptr_t)handle <= 2) {
		TRY(current_context(context));
		return find_stream(handle, *context, stream);
	}
	TRY(find_stream(handle, NULL, stream));
	*context = (*stream)->context;
	return (*context)->sticky;
}

static int do_left_work(void);

/* Whether the work up to a mark is done. No stream: there is no work to wait for. */
static int finished(struct mark mark) {
	return mark.stream == NULL || mark.stream->ended || mark.stream->done >= mark.seq;
}

/* Whether all that a piece of work waits for is done. */
int is_ready(const struct piece *piece) {
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

/* Another thread's call is let through. What the caller has read under the lock may be different afterwards. */
static void pause_unlocked(unsigned us) {
	UNLOCK;
	usleep(us);
	LOCK_ANYWAY;
}

/* Memory that the caller has staged, or waits for itself, is not looked up: it is not the driver's. */
static void run_copy(struct stream *stream, struct work *work) {
	const void *from = work->staged != NULL ? work->staged : (const void *)(uintptr_t)work->src;
	if ((work->to_pageable || touchable(stream, work->dst, work->bytes)) &&
	    (work->staged != NULL || touchable(stream, work->src, work->bytes)))
		memmove((void *)(uintptr_t)work->dst, from, work->bytes);
}

/* A wait for a word in memory. It is looked at again and again, since who writes it makes no call. */
static void run_wait(struct stream *stream, struct work *work) {
	while (!stream->ended && touchable(stream, work->dst, work->bytes)) {
		if (word_holds(work))
			return;
		if (!do_left_work())
			pause_unlocked(50);
	}
}

/* The same for an event of another process. */
static void run_await(struct stream *stream, struct work *work) {
	while (!stream->ended && !shared_done(work->shared, work->value))
		if (!do_left_work())
			pause_unlocked(50);
}

/* All that it touches is looked at first, so that it does nothing where it would fail. */
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

/* Under the lock, which a wait, a delay and a host function let go. The stream may end meanwhile: its work is dropped
 * then. */
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

/* Dependencies and staged bytes go with the piece. */
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

/* Failed work leaves its error in the context; what is queued behind it is dropped and not run, as after a fault on a
 * card. */
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
		if (!stream->ended && !is_ready(stream->head))
			pthread_cond_wait(&m->progress, &m->lock);
		else
			run_head(stream);
	}
	stream->worker = 0;
	pthread_cond_broadcast(&m->progress);
	UNLOCK;
	return NULL;
}

/* The worker's flag keeps others from the queue while the work waits without the lock. */
void run_next(struct stream *stream) {
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
		if (one->ended || (!m->stepped && is_ready(one->head))) {
			run_next(one);
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

/* The caller has the lock, so the thread does not look at the stream before its flag is set. Without a thread the
 * work is left to those who wait for it. */
static void start_worker(struct stream *stream) {
	pthread_t thread;
	stream->worker = !m->stepped && start_thread(&thread, NULL, run_queue, stream) == 0;
	if (stream->worker)
		pthread_detach(thread);
	else
		m->left_work = 1;
}

/* Only work that is not done yet is remembered. */
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

/* Work without a queue: it has a number all the same, for events that are recorded behind it. */
static uint64_t do_now(struct stream *stream, struct work *work) {
	stream->last++;
	if (!stream->ended && stream->context->sticky == SUCCESS)
		run_work(stream, work);
	stream->done = stream->last;
	done_with(work);
	pthread_cond_broadcast(&m->progress);
	return stream->last;
}

/* The order that CUDA gives the legacy stream: its work waits for that of all blocking streams of its context, and
 * theirs for its. Non-blocking streams have no part in that. `other` is an event's mark besides. */
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

/* The lock is free while it waits. */
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

/* A priority out of range is brought into it, as CUDA documents; a smaller number is more urgent. */
static CUresult create_stream(CUstream *out, unsigned flags, int priority) {
	IN_CONTEXT;
	int greatest = m->gpu[context->gpu].greatest_priority;
	if (priority > 0)
		priority = 0;
	*out = make_stream(context, flags == 0, priority < greatest ? greatest : priority);
	return SUCCESS;
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

/* Its work goes on, as CUDA documents; only the handle is invalid from now on. A default stream cannot be destroyed. */
EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
	REFUSE(ANY_TIME, handle == NULL, INVALID_HANDLE);
	CALLED_IN(handle, cuStreamDestroy);
	IN_STREAM(handle);
	if ((uintptr_t)handle <= 2)
		return INVALID_HANDLE;
	leave_capture(stream);
	stream->destroyed = 1;
	return SUCCESS;
}

EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority) {
	REFUSE(ANY_TIME, priority == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamGetPriority);
	IN_STREAM(handle);
	*priority = stream->priority;
	return admits(stream);
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *out) {
	REFUSE(ANY_TIME, out == NULL, INVALID_VALUE);
	REFUSE(NOT_STARTED, driver_version() >= 12050 && handle != NULL, INVALID_HANDLE);
	CALLED_IN(handle, cuStreamGetCtx);
	IN_STREAM(handle);
	*out = stream->context;
	return admits(stream);
}

/* What is wrong with a stream or an event is said before CALLED. */
#define SAY_FIRST(refusal) \
	do { \
		enter_machine(); \
		TRY(refusal); \
	} while (0)

/* A question about a captured stream spoils its own capture, before it would spoil those of other streams. */
static CUresult stream_refused(CUstream handle) {
	struct context *context = NULL;
	struct stream *stream = NULL;
	LOCKED;
	CUresult result = SUCCESS;
	if (m->started && ((uintptr_t)handle > 2 || current_context(&context) == SUCCESS))
		result = find_stream(handle, context, &stream);
	if (result == SUCCESS && stream != NULL && (stream->capture != NULL || stream == stream->context->legacy))
		result = observes(stream);
	return result;
}

/* What is wrong comes first, then what captures forbid. A stream that has nothing to do is not given work for it. */
EXPORT CUresult cuStreamSynchronize(CUstream handle) {
	REFUSE(NO_DEVICE_FOUND, (uintptr_t)handle > 2, INVALID_HANDLE);
	SAY_FIRST(stream_refused(handle));
	CALLED(cuStreamSynchronize);
	IN_STREAM(handle);
	TRY(observes(stream));
	if (!nothing_before(stream, (struct mark){NULL, 0}))
		wait_done(stream, enqueue(stream, (struct work){.kind = MARK}));
	pools_synchronized();
	return context->sticky;
}

/* The forms with a per-thread default stream. */
CUstream own_stream(CUstream handle) { return handle != NULL ? handle : (CUstream)(uintptr_t)2; }

/* Of the legacy stream also the blocking ones of its context count, since its next work would wait for them. */
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
	IN_STREAM(handle);
	TRY(observes(stream));
	return idle(stream) ? context->sticky : NOT_READY;
}

/* Where the list of events that are not destroyed has one, or its end. */
static struct event **event_link(const struct event *event) {
	struct event **link = &m->events;
	FIND(link, *link == event);
	return link;
}

int event_gone(const struct event *event) { return *event_link(event) == NULL || !event->context->alive; }

CUresult cuEventRecord(CUevent event, CUstream handle);

/* A node about an event of other streams: only a capture makes one. */
static CUresult external(struct stream *stream, int waits) {
	TRY(stream->capture == NULL ? ILLEGAL_STATE : admits(stream));
	add_event_node(stream->capture->graph->body, waits);
	return SUCCESS;
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
	CALLED_IN(handle, cuEventRecordWithFlags);
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return INVALID_VALUE;
	if (flags == 0)
		return cuEventRecord(event, handle);
	IN_STREAM(handle);
	return event_gone(event) ? INVALID_HANDLE : external(stream, 0);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
	CALLED_IN(handle, cuStreamWaitEvent);
	IN_STREAM(handle);
	if (event_gone(event)) {
		TRY(admits(stream));
		if (stream->capture != NULL)
			stream->capture->spoiled = 1;
		return INVALID_HANDLE;
	}
	if (flags > CU_EVENT_WAIT_EXTERNAL)
		return INVALID_VALUE;
	if (flags == CU_EVENT_WAIT_EXTERNAL)
		return external(stream, 1);
	if (stream->capture != NULL || event->capture != NULL)
		return wait_captured(stream, event);
	TRY(admits(stream));
	uint64_t record = event->shared != NULL ? last_shared(event->shared) : 0;
	if (event->shared != NULL && !shared_done(event->shared, record))
		enqueue(stream, (struct work){.kind = AWAIT, .shared = hold_shared(event->shared), .value = record});
	else
		enqueue_after(stream, (struct work){.kind = MARK}, event->mark);
	return SUCCESS;
}

/* It was never recorded: a wait for it ends at once. */
struct event *add_event(struct context *context, int untimed) {
	return ADD(m->events, .context = context, .untimed = untimed);
}

/* An event that processes share cannot time, as CUDA requires. Without shared cards it is one of this process alone. */
EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags) {
	const unsigned all = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	CALLED(cuEventCreate);
	IN_CONTEXT;
	int untimed = (flags & CU_EVENT_DISABLE_TIMING) != 0, interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
	if (out == NULL || flags > all || (interprocess && !untimed))
		return INVALID_VALUE;
	int shares = interprocess && m->shared != NULL;
	struct shared_event *shared = shares ? make_shared_event() : NULL;
	if (shares && shared == NULL)
		return OUT_OF_MEMORY;
	*out = add_event(context, untimed);
	(*out)->interprocess = interprocess;
	(*out)->shared = shared;
	return SUCCESS;
}

/* IN_EVENT is LOCKED, with a valid event, whose context lives. No context need be current. */
#define IN_EVENT(event) \
	LOCKED; \
	do { \
		if (event_gone(event)) \
			return INVALID_HANDLE; \
	} while (0)

/* Waits for it that are queued have its mark, so the event may go before its work is done. */
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
	REFUSE(NOT_STARTED, 1, event == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuEventDestroy);
	IN_EVENT(event);
	*event_link(event) = event->next;
	event->next = m->destroyed_events;
	m->destroyed_events = event;
	if (event->shared != NULL && !event->foreign)
		forget_shared(event->shared);
	if (event->shared != NULL)
		drop_shared(event->shared);
	event->shared = NULL;
	return SUCCESS;
}

/* The record's number is taken at once and signalled when the stream comes to it, so that another process's wait is
 * for this record or a later one. */
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

/* A record replaces the one before; who waits for that has its mark already. */
EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
	CALLED_IN(handle, cuEventRecord);
	IN_STREAM(handle);
	TRY(admits(stream));
	if (event_gone(event) || event->context != stream->context)
		return INVALID_HANDLE;
	if (stream->capture != NULL) {
		record_captured(event, stream);
	} else if (event->shared != NULL) {
		record_shared(event, stream);
	} else {
		uint64_t timed = event->untimed ? 0 : (uint64_t)(uintptr_t)event;
		event->capture = NULL;
		event->mark = (struct mark){stream, enqueue(stream, (struct work){.kind = MARK, .src = timed})};
	}
	return SUCCESS;
}

/* What is wrong with an event itself is said before what captures forbid. */
static CUresult event_refused(CUevent event) {
	LOCKED;
	if (!m->started)
		return SUCCESS;
	return event_gone(event) ? INVALID_HANDLE : event_observed(event);
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
	REFUSE(NOT_STARTED, 1, event == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	SAY_FIRST(event_refused(event));
	CALLED(cuEventSynchronize);
	IN_EVENT(event);
	struct context *context = event->context;
	TRY(event_observed(event));
	if (event->shared != NULL)
		wait_shared(event);
	else
		wait_done(event->mark.stream, event->mark.seq);
	pools_synchronized();
	return context->sticky;
}

EXPORT CUresult cuEventQuery(CUevent event) {
	REFUSE(NOT_STARTED, 1, event == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	SAY_FIRST(event_refused(event));
	CALLED(cuEventQuery);
	IN_EVENT(event);
	struct context *context = event->context;
	while (do_left_work())
		;
	TRY(event_observed(event));
	int done = event->shared != NULL ? shared_done(event->shared, last_shared(event->shared)) : finished(event->mark);
	return done ? context->sticky : NOT_READY;
}

/* Events that time can be taken between: recorded, with time, and done. */
static CUresult timed(struct event *event) {
	if (event_gone(event) || event->untimed || (event->mark.stream == NULL && event->capture == NULL))
		return INVALID_HANDLE;
	TRY(event_observed(event));
	return finished(event->mark) ? SUCCESS : NOT_READY;
}

/* The host's time: it says nothing about a GPU's speed. */
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
	REFUSE(NOT_STARTED, 1, from == NULL || to == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED(cuEventElapsedTime);
	IN_EVENT(from);
	struct context *context = from->context;
	while (do_left_work())
		;
	TRY(ms == NULL ? INVALID_HANDLE : timed(from));
	TRY(timed(to));
	if (to->context->gpu != from->context->gpu)
		return INVALID_HANDLE; /* GPUs have no common clock */
	TRY(context->sticky);
	*ms = (float)((double)(int64_t)(to->when - from->when) / 1e6);
	return SUCCESS;
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) {
	REFUSE(NOT_STARTED, 1, from == NULL || to == NULL ? INVALID_HANDLE : INVALID_CONTEXT);
	CALLED_SINCE(12080, cuEventElapsedTime_v2);
	return cuEventElapsedTime(ms, from, to);
}

EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
	REFUSE(ANY_TIME, id == NULL, INVALID_VALUE);
	CALLED_IN_SINCE(12000, handle, cuStreamGetId);
	IN_STREAM(handle);
	CUresult result = stream->capture != NULL ? observes(stream) : SUCCESS;
	*id = result == SUCCESS ? stream->id : 0;
	return result;
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
	if (!pageable) {
		if (!within(work.dst, work.bytes, gpu) || (work.kind == COPY && !within(work.src, work.bytes, gpu)))
			return INVALID_VALUE;
		enqueue(stream, work);
		return SUCCESS;
	}
	if (!within(src_host ? work.dst : work.src, work.bytes, gpu)) /* the device's side */
		return INVALID_VALUE;
	if (src_host) {
		work.staged = malloc(work.bytes);
		memcpy(work.staged, (const void *)(uintptr_t)work.src, work.bytes);
	}
	work.to_pageable = dst_host;
	wait_done(stream, enqueue(stream, work));
	return stream->context->sticky;
}

/* A copy of no bytes is checked for its stream, and does nothing. */
static CUresult queue(CUstream handle, struct work work, int dst_host, int src_host) {
	IN_STREAM(handle);
	CUresult result = admits(stream);
	return result == SUCCESS && work.bytes > 0 ? queue_in(stream, work, dst_host, src_host) : result;
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
