/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams, graphs, and the objects with the same lifetime, as
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html and group__CUDA__GRAPH.html there document
 * them. Calls that CUDA forbids while a stream is captured fail and invalidate the captures involved. So do calls
 * that a capture does not record, unless the thread has chosen relaxed mode.
 *
 * A capture's streams are its members. Which work of one member comes before which of another is kept as vector
 * clocks: clocks[i][j] is the last piece of member j that member i's next piece comes after. So a wait for an event
 * is a maximum of two vectors, and a capture is joined when the first member's vector has reached every other
 * member's own count.
 *
 * The machine's lock guards all of it but thread_mode, which is its thread's. Always:
 *
 *  1. A stream's capture is not over, and has the stream as members[stream->member].
 *  2. A body's holds are the graphs, executables and queued launches that have it; with the last one the references
 *     to user objects end, and the body itself stays, so that a stale handle is detected.
 *  3. A spoiled capture stays so until cuStreamEndCapture, which drops its graph.
 */
#include "stream.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <string.h>

static __thread int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* A graph or an executable: both are a hold on a body. */
static struct graph *make_graph(struct body *body, int executable) {
	body->holds++;
	return ADD(m->graphs, .body = body, .executable = executable);
}

/* The program's destructor runs under the lock, as CUDA forbids it to call CUDA (cuUserObjectCreate). */
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

/* Graphs are never freed: an address that is in the list is a graph's, and whether it still is a valid one it says
 * itself. */
static CUresult find_graph(CUgraph handle, int executable) {
	struct graph **link = &m->graphs;
	FIND(link, *link == handle);
	return *link != NULL && handle->executable == executable && !handle->destroyed ? SUCCESS : INVALID_VALUE;
}

/* Its streams run their work again. The graph is the caller's to give out or to drop. */
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

/* What was captured is of no use any more; the caller returns why. */
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

/*
 * Whether a call of this name would make the thread believe in what a capture has not recorded. In global mode every
 * thread is forbidden that, in thread-local mode the capturing one, and in relaxed mode none:
 * cuThreadExchangeStreamCaptureMode. All captures that forbid it are spoiled, not only the first.
 */
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
	for (struct capture *capture = m->captures; capture != NULL; capture = capture->next) {
		int mine = pthread_equal(capture->thread, pthread_self()),
		    forbids_me = mine && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED,
		    forbids_all =
		        !mine && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
		if (!capture->over && (forbids_me || forbids_all))
			result = spoil(capture, STREAM_CAPTURE_UNSUPPORTED);
	}
	return result;
}

CUresult uncaptured(void) { return forbidden(NOT_CAPTURED); }

/* The legacy stream waits for all blocking streams of its context, which a captured one cannot let it: its use spoils
 * every such capture. */
CUresult legacy_admitted(struct context *context) {
	CUresult result = SUCCESS;
	for (struct stream *stream = all_streams(); stream != NULL; stream = stream->next)
		if (stream->context == context && stream->blocking && stream->capture != NULL)
			result = spoil(stream->capture, STREAM_CAPTURE_IMPLICIT);
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

/* The check before work enters a stream. */
CUresult admits(struct stream *stream) {
	if (stream == stream->context->legacy)
		return legacy_admitted(stream->context);
	return stream->capture != NULL && stream->capture->spoiled ? STREAM_CAPTURE_INVALIDATED : SUCCESS;
}

/* The check before a stream's state is read: a captured one has no state, as its work does not run. */
CUresult observes(struct stream *stream) {
	if (stream->capture != NULL)
		return spoil(stream->capture, STREAM_CAPTURE_UNSUPPORTED);
	return admits(stream);
}

/* The same for an event that was recorded in a capture. After the capture it is an event that was never recorded. */
CUresult event_observed(struct event *event) {
	if (event->capture == NULL)
		return SUCCESS;
	return event->capture->over || event->capture->spoiled ? INVALID_VALUE : spoil(event->capture, CAPTURED_EVENT);
}

/* Work that a captured stream is given becomes a piece of the body, and a node. A mark is neither: only the order
 * counts, which the clock has. */
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

/* The event remembers the order up to here, and no mark of a queue: nothing was queued. */
void record_captured(struct event *event, struct stream *stream) {
	event->mark = (struct mark){NULL, 0};
	event->capture = stream->capture;
	memcpy(event->clock, stream->capture->clocks[stream->member], sizeof event->clock);
}

/* The member count is bounded by who calls this: cuStreamBeginCapture is the first, wait_captured checks. */
static void join_capture(struct capture *capture, struct stream *stream) {
	stream->capture = capture;
	stream->member = capture->member_count++;
	capture->members[stream->member] = stream;
	capture->clocks[stream->member][stream->member] = 1;
}

/* A wait for an event of a capture takes the stream into that capture. An event of no capture, waited for in a
 * captured stream, would be an edge out of the graph: CUDA calls it isolation. */
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

/* In the order in which it was captured. That is one of the orders that the edges allow. */
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
	IN_STREAM(handle);
	if (stream == context->legacy)
		return legacy_implies(stream) == SUCCESS ? STREAM_CAPTURE_UNSUPPORTED : STREAM_CAPTURE_IMPLICIT;
	if (stream->capture != NULL)
		return ILLEGAL_STATE;
	struct capture *capture = ADD(m->captures, .id = ++m->last_capture, .mode = mode, .thread = pthread_self(),
	    .graph = make_graph(calloc(1, sizeof(struct body)), 0));
	join_capture(capture, stream);
	return SUCCESS;
}

/* All work of the other members comes before what the first member would do next. cuStreamEndCapture requires it, as
 * the end would lose the rest. */
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
	IN_STREAM(handle);
	struct capture *capture = stream->capture;
	if (capture == NULL)
		return legacy_implies(stream) == SUCCESS ? ILLEGAL_STATE : STREAM_CAPTURE_IMPLICIT;
	NEED(graph);
	if (capture->members[0] != stream)
		return spoil(capture, STREAM_CAPTURE_UNMATCHED);
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
		return spoil(capture, STREAM_CAPTURE_WRONG_THREAD);
	end_capture(capture);
	if (!capture->spoiled && joined(capture)) {
		*graph = capture->graph;
		return SUCCESS;
	}
	destroy_graph(capture->graph);
	return capture->spoiled ? STREAM_CAPTURE_INVALIDATED : STREAM_CAPTURE_UNJOINED;
}

/* The status that programs read: PyTorch asks at each allocation. */
static int status_of(const struct capture *capture) {
	if (capture == NULL)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return capture->spoiled ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult info(CUstream handle, int *status, uint64_t *id, CUgraph *graph) {
	IN_STREAM(handle);
	struct capture *capture = stream->capture;
	*status = status_of(capture);
	if (capture != NULL && id != NULL)
		*id = capture->id;
	if (capture != NULL && graph != NULL)
		*graph = capture->graph;
	return legacy_implies(stream);
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
	if ((count > 0 && nodes == NULL) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return INVALID_VALUE;
	IN_STREAM(handle);
	if (stream->capture == NULL)
		return ILLEGAL_STATE;
	return stream->capture->spoiled ? STREAM_CAPTURE_INVALIDATED : SUCCESS;
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
	REFUSE(ANY_TIME, out == NULL || destroy == NULL || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
	    INVALID_VALUE);
	CALLED_SINCE(11030, cuUserObjectCreate);
	struct object *object = calloc(1, sizeof *object);
	*object = (struct object){destroy, data, references, NULL};
	*out = object;
	return SUCCESS;
}

/* The last reference calls the program's destructor. */
EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuUserObjectRelease);
	LOCKED;
	if (count == 0 || count > object->references)
		return INVALID_VALUE;
	drop_object(object, count);
	return SUCCESS;
}

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuGraphRetainUserObject);
	LOCKED;
	if (find_graph(graph, 0) != SUCCESS || object == NULL || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE ||
	    count > (unsigned)(MAX_MEMBERS - graph->body->object_count))
		return INVALID_VALUE;
	if (flags != CU_GRAPH_USER_OBJECT_MOVE) /* else the caller's references become the graph's */
		object->references += count;
	for (unsigned i = 0; i < count; i++)
		graph->body->objects[graph->body->object_count++] = object;
	return SUCCESS;
}

/* As many references as are released must be the graph's, or nothing changes. */
EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
	REFUSE(NOT_STARTED, 1, INVALID_VALUE);
	CALLED_SINCE(11030, cuGraphReleaseUserObject);
	LOCKED;
	if (find_graph(graph, 0) != SUCCESS || count == 0)
		return INVALID_VALUE;
	struct body *body = graph->body;
	unsigned held = 0, left = count;
	int kept = 0;
	for (int i = 0; i < body->object_count; i++)
		held += body->objects[i] == object;
	if (held < count)
		return INVALID_VALUE;
	for (int i = 0; i < body->object_count; i++)
		if (body->objects[i] == object && left > 0)
			left--;
		else
			body->objects[kept++] = body->objects[i];
	body->object_count = kept;
	drop_object(object, count);
	return SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status) {
	REFUSE(ANY_TIME, status == NULL, INVALID_VALUE);
	CALLED_IN(handle, cuStreamIsCapturing);
	IN_STREAM(handle);
	*status = status_of(stream->capture);
	return legacy_implies(stream);
}

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
	CALLED(cuGraphCreate);
	if (flags != 0 || out == NULL)
		return INVALID_VALUE;
	LOCKED;
	*out = make_graph(calloc(1, sizeof(struct body)), 0);
	return SUCCESS;
}

/* An executable shares the graph's body: nodes that are added to the graph later are in it, too, which CUDA's are
 * not. */
static CUresult instantiate(CUgraphExec *out, CUgraph graph, uint64_t flags) {
	IN_CONTEXT;
	if (out == NULL || find_graph(graph, 0) != SUCCESS || graph->body->unusable)
		return INVALID_VALUE;
	for (const struct graph *exec = m->graphs; exec != NULL; exec = exec->next)
		if (exec->executable && !exec->destroyed && exec->body == graph->body && allocates(exec->body))
			return NOT_SUPPORTED; /* a graph that allocates has one executable at a time */
	*out = make_graph(graph->body, 1);
	(*out)->frees_on_launch = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
	return SUCCESS;
}

#define INSTANTIATES(function, name) \
	EXPORT CUresult function(CUgraphExec *out, CUgraph graph, void **node, char *text, size_t room) { \
		CALLED(name); \
		(void)node, (void)text, (void)room; \
		return instantiate(out, graph, 0); \
	}
INSTANTIATES(cuGraphInstantiate, cuGraphInstantiate_v1)
INSTANTIATES(cuGraphInstantiate_v2, cuGraphInstantiate_v2)

enum {
	ALL_INSTANTIATE_FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
	CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
};

struct instantiation {
	uint64_t flags;
	CUstream upload;
	void *node;
	int result;
};

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, struct instantiation *params) {
	REFUSE(ANY_TIME, params == NULL, INVALID_VALUE);
	CALLED_SINCE(12000, cuGraphInstantiateWithParams);
	CUresult result = params->flags > ALL_INSTANTIATE_FLAGS ? INVALID_VALUE : instantiate(out, graph, params->flags);
	if (result != SUCCESS || (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0)
		return result;
	LOCKED;
	return reserve_graph_memory((*out)->body);
}

/* What a card would do at the upload, beside copying the nodes: take the memory that the graph allocates. */
EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
	CALLED_IN(handle, cuGraphUpload);
	IN_STREAM(handle);
	CUresult result = find_graph(exec, 1);
	return result == SUCCESS ? reserve_graph_memory(exec->body) : result;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
	const uint64_t done =
	    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	REFUSE(ANY_TIME, flags > ALL_INSTANTIATE_FLAGS, INVALID_VALUE);
	CALLED(cuGraphInstantiate);
	return (flags & ~done) != 0 ? NOT_SUPPORTED : instantiate(out, graph, flags);
}

static CUresult destroy(CUgraph graph, int executable) {
	LOCKED;
	TRY(find_graph(graph, executable));
	destroy_graph(graph);
	return SUCCESS;
}

#define DESTROYS(name, executable) \
	EXPORT CUresult name(CUgraph graph) { \
		CALLED(name); \
		return destroy(graph, executable); \
	}
DESTROYS(cuGraphDestroy, 0)
DESTROYS(cuGraphExecDestroy, 1)

/* Each launch is a hold on the body: the executable may be destroyed while it runs. */
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
	CALLED_IN(handle, cuGraphLaunch);
	IN_STREAM(handle);
	TRY(stream->capture != NULL ? spoil(stream->capture, STREAM_CAPTURE_UNSUPPORTED) : admits(stream));
	TRY(find_graph(exec, 1));
	TRY(admit_launch(exec));
	TRY(reserve_graph_memory(exec->body));
	run_graph_memory(exec->body);
	exec->body->holds++;
	enqueue(stream, (struct work){.kind = GRAPH, .body = exec->body});
	return SUCCESS;
}

/* It waits in the streams' order, and the lock is free meanwhile. Streams that other threads make while it waits are
 * at the front of the list, where it does not come any more. */
EXPORT CUresult cuCtxSynchronize(void) {
	CALLED(cuCtxSynchronize);
	IN_CONTEXT;
	for (struct stream *stream = all_streams(); stream != NULL; stream = stream->next)
		if (stream->context == context && stream->capture != NULL)
			return spoil(stream->capture, STREAM_CAPTURE_UNSUPPORTED);
	wait_idle(context);
	pools_synchronized();
	return context->sticky;
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext wanted) {
	CALLED_SINCE(13000, cuCtxSynchronize_v2);
	LOCKED;
	CUresult refused = wanted == NULL ? current_context(&wanted) : SUCCESS;
	if (refused != SUCCESS)
		return refused;
	wait_idle(wanted);
	pools_synchronized();
	return wanted->sticky;
}
