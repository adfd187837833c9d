/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams, graphs, and the objects with the same lifetime. Calls that CUDA forbids while a stream is
 * captured fail and invalidate the captures involved. So do calls that a capture does not record, unless the thread has
 * chosen relaxed mode.
 */
#include "stream.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <string.h>

static __thread int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static struct graph *make_graph(struct body *body, int executable) {
	struct graph *graph = calloc(1, sizeof *graph);
	body->holds++;
	graph->body = body;
	graph->executable = executable;
	graph->next = m->graphs;
	m->graphs = graph;
	return graph;
}

static void drop_object(struct object *object, unsigned count) {
	object->references -= count;
	if (object->references == 0)
		object->destroy(object->data);
}

void drop_body(struct body *body) {
	if (--body->holds > 0)
		return;
	for (int i = 0; i < body->object_count; i++)
		drop_object(body->objects[i], 1);
	body->object_count = 0;
}

static void destroy_graph(struct graph *graph) {
	graph->destroyed = 1;
	drop_body(graph->body);
}

static CUresult find_graph(CUgraph handle, int executable) {
	for (struct graph *one = m->graphs; one != NULL; one = one->next)
		if (one == handle)
			return one->executable == executable && !one->destroyed ? SUCCESS : INVALID_VALUE;
	return INVALID_VALUE;
}

int count_graphs(void) {
	int count = 0;
	for (struct graph *one = m->graphs; one != NULL; one = one->next)
		count += !one->destroyed;
	return count;
}

static void end_capture(struct capture *capture) {
	capture->over = 1;
	for (int i = 0; i < capture->member_count; i++)
		capture->members[i]->capture = NULL;
}

void end_captures(void) {
	for (struct capture *one = m->captures; one != NULL; one = one->next)
		if (!one->over)
			end_capture(one);
	for (struct graph *one = m->graphs; one != NULL; one = one->next)
		if (!one->destroyed)
			destroy_graph(one);
}

static CUresult spoil(struct capture *capture, CUresult result) {
	capture->spoiled = 1;
	return result;
}

#define NOT_CAPTURED "memory of a stream that is not captured"

/* Calls that a capture does not record, although the capturing thread may assume that it does. Virtual memory may be
 * managed meanwhile. */
enum { NEED_CONTEXT = 5 }; /* the first of them */
static const char *const unseen[] = {"cuMemAlloc", "cuMemAllocManaged", "cuMemHostAlloc", "cuGraphInstantiate",
    "cuCtxSynchronize", "cuMemFree", "cuMemFreeHost", "cuMemHostRegister", "cuArrayCreate", "cuArray3DCreate",
    "cuMemPoolCreate", "cuMemPoolDestroy", "cuMemPoolTrimTo", "cuMemPoolGetAttribute", "cuMemPoolSetAttribute",
    NOT_CAPTURED, "cuEventQuery", "cuEventSynchronize", "cuStreamQuery", "cuStreamSynchronize", "cuStreamGetId",
    "cuCtxSetLimit", "cuProfilerStart", "cuProfilerStop"};

CUresult forbidden(const char *name) {
	CUresult result = SUCCESS;
	size_t i = 0;
	if (m->captures == NULL)
		return SUCCESS;
	while (i < sizeof unseen / sizeof *unseen && strcmp(unseen[i], name) != 0)
		i++;
	if (i == sizeof unseen / sizeof *unseen || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return SUCCESS;
	struct context *context;
	if (i < NEED_CONTEXT && current_context(&context) == INVALID_CONTEXT)
		return SUCCESS; /* which the call itself says */
	for (struct capture *one = m->captures; one != NULL; one = one->next) {
		int mine = pthread_equal(one->thread, pthread_self());
		if (!one->over &&
		    (mine ? one->mode != CU_STREAM_CAPTURE_MODE_RELAXED
			      : one->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL))
			result = spoil(one, STREAM_CAPTURE_UNSUPPORTED);
	}
	return result;
}

CUresult uncaptured(void) { return forbidden(NOT_CAPTURED); }

CUresult legacy_admitted(struct context *context) {
	CUresult result = SUCCESS;
	for (struct stream *one = all_streams(); one != NULL; one = one->next)
		if (one->context == context && one->blocking && one->capture != NULL)
			result = spoil(one->capture, STREAM_CAPTURE_IMPLICIT);
	return result;
}

/* Is it the legacy stream, and one that it waits for is captured? */
static CUresult legacy_implies(const struct stream *stream) {
	const struct context *context = stream->context;
	for (const struct stream *one = stream == context->legacy ? all_streams() : NULL; one != NULL; one = one->next)
		if (one->context == context && one->blocking && one->capture != NULL)
			return STREAM_CAPTURE_IMPLICIT;
	return SUCCESS;
}

CUresult admits(struct stream *stream) {
	if (stream == stream->context->legacy)
		return legacy_admitted(stream->context);
	return stream->capture != NULL && stream->capture->spoiled ? STREAM_CAPTURE_INVALIDATED : SUCCESS;
}

CUresult observes(struct stream *stream) {
	if (stream->capture != NULL)
		return spoil(stream->capture, STREAM_CAPTURE_UNSUPPORTED);
	return admits(stream);
}

CUresult event_observed(struct event *event) {
	if (event->capture == NULL)
		return SUCCESS;
	return event->capture->over || event->capture->spoiled ? INVALID_VALUE : spoil(event->capture, CAPTURED_EVENT);
}

void take_piece(struct stream *stream, struct work work) {
	struct capture *capture = stream->capture;
	struct body *body = capture->graph->body;
	capture->clocks[stream->member][stream->member]++;
	if (work.kind == MARK)
		return;
	body->pieces = realloc(body->pieces, (size_t)(body->count + 1) * sizeof *body->pieces);
	body->pieces[body->count++] = work;
	add_work_node(body, work.kind);
}

void record_captured(struct event *event, struct stream *stream) {
	event->mark = (struct mark){NULL, 0};
	event->capture = stream->capture;
	memcpy(event->clock, stream->capture->clocks[stream->member], sizeof event->clock);
}

static void join_capture(struct capture *capture, struct stream *stream) {
	stream->capture = capture;
	stream->member = capture->member_count++;
	capture->members[stream->member] = stream;
	capture->clocks[stream->member][stream->member] = 1;
}

CUresult wait_captured(struct stream *stream, struct event *event) {
	struct capture *from = event->capture;
	if (from == NULL && event->mark.stream == NULL && event->shared == NULL)
		return admits(stream); /* it was never recorded */
	if (from == NULL)
		return stream->capture->spoiled ? STREAM_CAPTURE_INVALIDATED : spoil(stream->capture, STREAM_CAPTURE_ISOLATION);
	if (from->over)
		return stream->capture != NULL ? spoil(stream->capture, INVALID_VALUE) : INVALID_VALUE;
	if (stream == stream->context->legacy)
		return spoil(from, STREAM_CAPTURE_IMPLICIT);
	if (stream->capture != NULL && stream->capture != from) {
		stream->capture->spoiled = 1;
		return spoil(from, STREAM_CAPTURE_MERGE);
	}
	if (stream->capture == NULL) {
		if (from->member_count == MAX_MEMBERS)
			return spoil(from, NOT_SUPPORTED);
		join_capture(from, stream);
	}
	int *mine = from->clocks[stream->member];
	for (int i = 0; i < MAX_MEMBERS; i++)
		if (mine[i] < event->clock[i])
			mine[i] = event->clock[i];
	return SUCCESS;
}

/* Destroying a captured stream invalidates its capture. */
void leave_capture(struct stream *stream) {
	struct capture *capture = stream->capture;
	if (capture == NULL)
		return;
	capture->spoiled = 1;
	if (capture->members[0] == stream) {
		end_capture(capture);
		destroy_graph(capture->graph);
	}
	stream->capture = NULL;
}

void run_body(struct stream *stream, struct body *body) {
	for (int i = 0; i < body->count; i++)
		run_work(stream, &body->pieces[i]);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
	REFUSE(STARTED | NO_DEVICE_FOUND, mode == NULL, INVALID_VALUE);
	if (time_of_call() != NO_DEVICE_FOUND) /* the mode is the thread's, and needs no device */
		CALLED(cuThreadExchangeStreamCaptureMode);
	int before = thread_mode;
	thread_mode = *mode; /* whatever it is: NVIDIA's driver does not look, either */
	*mode = before;
	return SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
	REFUSE(ANY_TIME, mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED, INVALID_VALUE);
	CALLED_IN(handle, cuStreamBeginCapture);
	IN_STREAM(handle, {
		if (stream == context->legacy)
			result = legacy_implies(stream) == SUCCESS ? STREAM_CAPTURE_UNSUPPORTED : STREAM_CAPTURE_IMPLICIT;
		else if (stream->capture != NULL)
			result = ILLEGAL_STATE;
		else {
			struct capture *capture = calloc(1, sizeof *capture);
			capture->id = ++m->last_capture;
			capture->mode = mode;
			capture->thread = pthread_self();
			capture->graph = make_graph(calloc(1, sizeof(struct body)), 0);
			capture->next = m->captures;
			m->captures = capture;
			join_capture(capture, stream);
		}
	});
}

static int joined(const struct capture *capture) {
	for (int i = 1; i < capture->member_count; i++)
		if (capture->clocks[0][i] < capture->clocks[i][i])
			return 0;
	return 1;
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
	REFUSE(ANY_TIME, driver_version() < 12040 && graph == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamEndCapture);
	if (graph != NULL)
		*graph = NULL;
	IN_STREAM(handle, {
		struct capture *capture = stream->capture;
		if (capture == NULL)
			result = legacy_implies(stream) == SUCCESS ? ILLEGAL_STATE : STREAM_CAPTURE_IMPLICIT;
		else if (graph == NULL)
			result = INVALID_VALUE;
		else if (capture->members[0] != stream)
			result = spoil(capture, STREAM_CAPTURE_UNMATCHED);
		else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
			result = spoil(capture, STREAM_CAPTURE_WRONG_THREAD);
		else {
			end_capture(capture);
			if (capture->spoiled)
				result = STREAM_CAPTURE_INVALIDATED;
			else if (!joined(capture))
				result = STREAM_CAPTURE_UNJOINED;
			if (result == SUCCESS)
				*graph = capture->graph;
			else
				destroy_graph(capture->graph);
		}
	});
}

static int status_of(const struct capture *capture) {
	if (capture == NULL)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return capture->spoiled ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult info(CUstream handle, int *status, uint64_t *id, CUgraph *graph) {
	IN_STREAM(handle, {
		struct capture *capture = stream->capture;
		*status = status_of(capture);
		if (capture != NULL) {
			if (id != NULL)
				*id = capture->id;
			if (graph != NULL)
				*graph = capture->graph;
		}
		result = legacy_implies(stream);
	});
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream handle, int *status, uint64_t *id) {
	REFUSE(ANY_TIME, status == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamGetCaptureInfo);
	return info(handle, status, id, NULL);
}

/* Work runs in the order of its capture, so what comes next depends on what was captured last. No edge has data. */
static CUresult info_with_dependencies(
    CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **dependencies, size_t *count) {
	CUgraph captured = NULL;
	uint64_t unused;
	CUresult result = info(handle, status, id != NULL ? id : &unused, &captured);
	int any = result == SUCCESS && captured != NULL && captured->body->last_node != NULL;
	if (result == SUCCESS && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph != NULL)
		*graph = captured;
	if (dependencies != NULL)
		*dependencies = any ? &captured->body->last_node : NULL;
	if (count != NULL)
		*count = (size_t)any;
	return result;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(
    CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **dependencies, size_t *count) {
	REFUSE(ANY_TIME, status == NULL, INVALID_VALUE);
	CALLED_IN_SINCE(11030, handle, cuStreamGetCaptureInfo_v2);
	return info_with_dependencies(handle, status, id, graph, dependencies, count);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int *status, uint64_t *id, CUgraph *graph,
    const void **dependencies, const void **edges, size_t *count) {
	REFUSE(ANY_TIME, status == NULL, INVALID_VALUE);
	CALLED_IN_SINCE(12030, handle, cuStreamGetCaptureInfo_v3);
	if (edges != NULL)
		*edges = NULL;
	return info_with_dependencies(handle, status, id, graph, dependencies, count);
}

/* Those nodes come before in any case. */
static CUresult depend(CUstream handle, const void *nodes, size_t count, unsigned flags) {
	if ((count > 0 && nodes == NULL) || flags > 1)
		return INVALID_VALUE;
	IN_STREAM(handle, {
		if (stream->capture == NULL)
			result = ILLEGAL_STATE;
		else if (stream->capture->spoiled)
			result = STREAM_CAPTURE_INVALIDATED;
	});
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream handle, const void *nodes, size_t count, unsigned flags) {
	CALLED_IN_SINCE(11030, handle, cuStreamUpdateCaptureDependencies);
	return depend(handle, nodes, count, flags);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(
    CUstream handle, const void *nodes, const void *edges, size_t count, unsigned flags) {
	CALLED_IN_SINCE(12030, handle, cuStreamUpdateCaptureDependencies);
	return edges != NULL ? NOT_SUPPORTED : depend(handle, nodes, count, flags);
}

EXPORT CUresult cuUserObjectCreate(
    CUuserObject *out, void *data, void (*destroy)(void *), unsigned references, unsigned flags) {
	REFUSE(ANY_TIME, out == NULL || destroy == NULL || references == 0 || flags != 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuUserObjectCreate);
	struct object *object = calloc(1, sizeof *object);
	*object = (struct object){destroy, data, references, NULL};
	*out = object;
	return SUCCESS;
}

EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuUserObjectRelease);
	LOCK;
	CUresult result = count == 0 || count > object->references ? INVALID_VALUE : SUCCESS;
	if (result == SUCCESS)
		drop_object(object, count);
	UNLOCK;
	return result;
}

enum { MOVE = 1 }; /* the caller's references become the graph's */

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuGraphRetainUserObject);
	LOCK;
	CUresult result = find_graph(graph, 0);
	if (result == SUCCESS &&
	    (object == NULL || count == 0 || flags > MOVE || count > (unsigned)(MAX_MEMBERS - graph->body->object_count)))
		result = INVALID_VALUE;
	if (result == SUCCESS && flags != MOVE)
		object->references += count;
	for (unsigned i = 0; i < count && result == SUCCESS; i++)
		graph->body->objects[graph->body->object_count++] = object;
	UNLOCK;
	return result;
}

static unsigned held_by(const struct body *body, const struct object *object) {
	unsigned held = 0;
	for (int i = 0; i < body->object_count; i++)
		held += body->objects[i] == object;
	return held;
}

static void give_up(struct body *body, struct object *object, unsigned count) {
	int kept = 0;
	for (int i = 0; i < body->object_count; i++) {
		if (body->objects[i] == object && count > 0)
			count--;
		else
			body->objects[kept++] = body->objects[i];
	}
	body->object_count = kept;
}

EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuGraphReleaseUserObject);
	LOCK;
	CUresult result = find_graph(graph, 0);
	if (result == SUCCESS && (count == 0 || held_by(graph->body, object) < count))
		result = INVALID_VALUE;
	if (result == SUCCESS) {
		give_up(graph->body, object, count);
		drop_object(object, count);
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status) {
	REFUSE(ANY_TIME, status == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamIsCapturing);
	IN_STREAM(handle, {
		result = legacy_implies(stream);
		*status = status_of(stream->capture);
	});
}

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
	CALLED(cuGraphCreate);
	if (flags != 0 || out == NULL)
		return INVALID_VALUE;
	LOCK;
	*out = make_graph(calloc(1, sizeof(struct body)), 0);
	UNLOCK;
	return SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, uint64_t flags) {
	IN_CONTEXT({
		result = out == NULL ? INVALID_VALUE : find_graph(graph, 0);
		if (result == SUCCESS && graph->body->unusable)
			result = INVALID_VALUE;
		for (const struct graph *one = m->graphs; result == SUCCESS && one != NULL; one = one->next)
			if (one->executable && !one->destroyed && one->body == graph->body && allocates(one->body))
				result = NOT_SUPPORTED; /* a graph that allocates has one executable at a time */
		if (result == SUCCESS) {
			*out = make_graph(graph->body, 1);
			(*out)->frees_on_launch = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
		}
	});
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, void **node, char *text, size_t room) {
	CALLED(cuGraphInstantiate_v1);
	(void)node, (void)text, (void)room;
	return instantiate(out, graph, 0);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, void **node, char *text, size_t room) {
	CALLED(cuGraphInstantiate_v2);
	(void)node, (void)text, (void)room;
	return instantiate(out, graph, 0);
}

struct instantiation {
	uint64_t flags;
	CUstream upload;
	void *node;
	int result;
};

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, struct instantiation *params) {
	REFUSE(ANY_TIME, params == NULL, INVALID_VALUE);
	CALLED_SINCE(12000, cuGraphInstantiateWithParams);
	CUresult result = params->flags > 15 ? INVALID_VALUE : instantiate(out, graph, params->flags);
	if (result == SUCCESS && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
		LOCK;
		result = reserve_graph_memory((*out)->body);
		UNLOCK;
	}
	return result;
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
	CALLED_IN(handle, cuGraphUpload);
	IN_STREAM(handle, {
		result = find_graph(exec, 1);
		if (result == SUCCESS)
			result = reserve_graph_memory(exec->body);
	});
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
	REFUSE(ANY_TIME, flags > 15, INVALID_VALUE);
	CALLED(cuGraphInstantiate);
	return (flags &
	           ~(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)) != 0
	           ? NOT_SUPPORTED
			   : instantiate(out, graph, flags);
}

static CUresult destroy(CUgraph graph, int executable) {
	LOCK;
	CUresult result = find_graph(graph, executable);
	if (result == SUCCESS)
		destroy_graph(graph);
	UNLOCK;
	return result;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
	CALLED(cuGraphDestroy);
	return destroy(graph, 0);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
	CALLED(cuGraphExecDestroy);
	return destroy(exec, 1);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
	CALLED_IN(handle, cuGraphLaunch);
	IN_STREAM(handle, {
		result = stream->capture != NULL ? spoil(stream->capture, STREAM_CAPTURE_UNSUPPORTED) : admits(stream);
		if (result == SUCCESS)
			result = find_graph(exec, 1);
		if (result == SUCCESS)
			result = admit_launch(exec);
		if (result == SUCCESS)
			result = reserve_graph_memory(exec->body);
		if (result == SUCCESS) {
			run_graph_memory(exec->body);
			exec->body->holds++;
			enqueue(stream, (struct work){.kind = GRAPH, .body = exec->body});
		}
	});
}

EXPORT CUresult cuCtxSynchronize(void) {
	CALLED(cuCtxSynchronize);
	IN_CONTEXT({
		for (struct stream *one = all_streams(); result == SUCCESS && one != NULL; one = one->next)
			if (one->context == context && one->capture != NULL)
				result = spoil(one->capture, STREAM_CAPTURE_UNSUPPORTED);
		for (struct stream *one = all_streams(); result == SUCCESS && one != NULL; one = one->next)
			if (one->context == context)
				wait_done(one, one->last);
		if (result == SUCCESS) {
			result = context->sticky;
			pools_synchronized();
		}
	});
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext wanted) {
	CALLED_SINCE(13000, cuCtxSynchronize_v2);
	LOCK;
	struct context *current;
	CUresult refused = wanted == NULL ? current_context(&current) : SUCCESS;
	if (refused != SUCCESS) {
		UNLOCK;
		return refused;
	}
	wanted = wanted == NULL ? current : wanted;
	for (struct stream *one = all_streams(); one != NULL; one = one->next)
		if (one->context == wanted)
			wait_done(one, one->last);
	pools_synchronized();
	CUresult result = wanted->sticky;
	UNLOCK;
	return result;
}
