/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by stream.c and capture.c. */
#ifndef STREAM_H
#define STREAM_H

#include "driver.h"

#define MAX_MEMBERS 8

struct mark {
	struct stream *stream;
	uint64_t seq;
};

struct piece {
	struct work work;
	uint64_t seq;
	struct mark *after;
	int after_count;
	struct piece *next;
};

struct stream {
	struct context *context;
	uint64_t id;
	int blocking, priority;
	int own; /* whether it is a thread's per-thread default stream in the context */
	pthread_t thread;
	int destroyed; /* its handle is no longer valid */
	int ended;     /* its context has ended: the queue is dropped */
	int worker, running;
	uint64_t last, done; /* numbers of the work queued last and done last */
	struct piece *head, **tail;
	struct capture *capture; /* the capture that records it */
	int member;              /* its index there */
	struct stream *next, *retired_before;
};

struct event {
	struct context *context;
	struct mark mark;
	struct capture *capture; /* where it was recorded, if during a capture */
	int clock[MAX_MEMBERS];
	int untimed, interprocess;
	struct shared_event *shared; /* NULL: this process has it alone */
	int foreign;                 /* another process has made it */
	uint64_t when;               /* ns: when the work before the record was done */
	struct event *next;
};

/*
 * A capture, and then the graph that it became. Bodies are shared by graphs, executables and launches. Like streams
 * they are never freed, so that use of stale handles is detected.
 */
struct object {
	void (*destroy)(void *);
	void *data;
	unsigned references;
	struct object *next;
};

struct body {
	int holds;
	struct work *pieces;
	int count;
	struct object *objects[MAX_MEMBERS];
	int object_count;
	int unusable;                   /* a node's address names no memory */
	struct node *nodes, *last_node; /* graphmemory.c */
};

struct graph {
	struct body *body;
	int executable, destroyed;
	int frees_on_launch; /* what it allocated before */
	struct graph *next;
};

struct capture {
	uint64_t id;
	int mode, spoiled, over;
	pthread_t thread;
	struct stream *members[MAX_MEMBERS]; /* the first is where it began */
	int clocks[MAX_MEMBERS][MAX_MEMBERS];
	int member_count;
	struct graph *graph;
	struct capture *next;
};

struct event *add_event(struct context *context, int untimed); /* stream.c */
int event_gone(const struct event *event);

/* graphmemory.c */
CUresult reserve_graph_memory(struct body *body);
CUresult admit_launch(const struct graph *exec); /* not while it still has what it allocated */
int allocates(const struct body *body);
void add_event_node(struct body *body, int waits);
void run_graph_memory(struct body *body);
void add_work_node(struct body *body, enum work_kind kind);

/* The lock is held. */
CUresult admits(struct stream *stream);   /* may work be queued in it? */
CUresult observes(struct stream *stream); /* may its state be queried? */
CUresult event_observed(struct event *event);
void take_piece(struct stream *stream, struct work work);
void record_captured(struct event *event, struct stream *stream);
CUresult wait_captured(struct stream *stream, struct event *event);
void leave_capture(struct stream *stream);
void run_body(struct stream *stream, struct body *body);
void drop_body(struct body *body);
void run_work(struct stream *stream, struct work *work);
extern struct stream *all_streams(void);
int is_ready(const struct piece *piece); /* the work that it waits for is done */
void run_next(struct stream *stream);    /* the first piece of its queue, in the calling thread */

/* memops.c: what a wait in a stream waits for, and a write; the word has work->bytes. */
int word_holds(const struct work *work);
void write_word(const struct work *work);

/* A default stream is the current context's; for others no context need be current. */
CUresult stream_and_context(CUstream handle, struct stream **stream, struct context **context);

/* IN_STREAM is LOCKED, with the stream of a handle and its context. For a wrong handle the function returns why. */
#define IN_STREAM(handle) \
	struct context *context; \
	struct stream *stream; \
	LOCKED; \
	TRY(stream_and_context(handle, &stream, &context))

#endif
