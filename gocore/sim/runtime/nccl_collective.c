/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's collectives and messages. A group of them is one piece of work of its stream, which moves the values through
 * the memory that the ranks share, and waits there for the other ranks. Values above a limit are not moved, as where
 * nothing is computed; the ranks meet all the same.
 */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The arithmetic of NCCL's reductions: in the order of the ranks, so the result is the same each time. Halves are
 * summed as floats. */

enum type { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, TYPES };

int nccl_size(int type) {
	static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}

int nccl_reducible(int type) { return type >= 0 && type < TYPES; }

/* Through memcpy: C gives no other way to read a number's bits. */
static float of_bits(uint32_t bits) {
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint32_t to_bits(float value) {
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float of_bfloat16(uint16_t half) { return of_bits((uint32_t)half << 16); }

/* Rounds to the nearest, and to the even one of two; a NaN stays one. */
static uint16_t to_bfloat16(float value) {
	uint32_t bits = to_bits(value);
	if (value != value)
		return (uint16_t)((bits >> 16) | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Numbers below the smallest normal one are multiples of 2^-24. */
static float of_half(uint16_t half) {
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
	if (exponent == 0)
		return (sign != 0 ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
	return of_bits(sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13);
}

/* Rounds to the nearest, and to the even one of two. */
static uint16_t to_half(float value) {
	uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000;
	float size = of_bits(bits & 0x7fffffff);
	if (value != value)
		return (uint16_t)(sign | 0x7e00);
	if (size >= 65520.0f)
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x1p-14f) /* the sum's fraction is the half's, rounded by the addition */
		return (uint16_t)(sign | (to_bits(size + 0.5f) - to_bits(0.5f)));
	bits &= 0x7fffffff;
	return (uint16_t)(sign | ((bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13));
}

#define SAME(x) (x)
/* A chunk is reduced in parts that stay in the processor's cache. */
enum { PART = 1024 };

#define REDUCTION(name, stored, type, load, store, factor_of) \
	static void name(struct nccl_comm *comm, int op, const struct nccl_factor *own, char *out, size_t count) { \
		type sums[PART], factor = own->used ? factor_of(own) : (type)1; \
		for (size_t at = 0; at < count; at += PART) { \
			size_t many = count - at < PART ? count - at : PART; \
			for (int rank = 0; rank < comm->ranks; rank++) { \
				const stored *from = (const stored *)nccl_slot(comm, rank) + at; \
				for (size_t i = 0; i < many; i++) { \
					type value = load(from[i]); \
					if (own->used) \
						value = (type)(value * factor); \
					if (rank == 0) \
						sums[i] = value; \
					else if (op == NCCL_PRODUCT) \
						sums[i] = (type)(sums[i] * value); \
					else if (op == NCCL_MOST) \
						sums[i] = value > sums[i] || value != value ? value : sums[i]; \
					else if (op == NCCL_LEAST) \
						sums[i] = value < sums[i] || value != value ? value : sums[i]; \
					else \
						sums[i] = (type)(sums[i] + value); \
				} \
			} \
			for (size_t i = 0; i < many; i++) \
				((stored *)out)[at + i] = \
				    (stored)store(op == NCCL_AVERAGE ? (type)(sums[i] / (type)comm->ranks) : sums[i]); \
		} \
	}

/* A factor is of the operation's type: a value, or memory that is read when the sum is made. */
#define FACTOR(name, stored, type, load) \
	static type name(const struct nccl_factor *factor) { \
		stored value; \
		memcpy(&value, factor->on_card ? factor->address : factor->value, sizeof value); \
		return load(value); \
	}

#define NUMBERS(name, stored, type, load, store) \
	FACTOR(name##_factor, stored, type, load) \
	REDUCTION(name, stored, type, load, store, name##_factor)
NUMBERS(int8, int8_t, int8_t, SAME, SAME)
NUMBERS(uint8, uint8_t, uint8_t, SAME, SAME)
NUMBERS(int32, int32_t, int32_t, SAME, SAME)
NUMBERS(uint32, uint32_t, uint32_t, SAME, SAME)
NUMBERS(int64, int64_t, int64_t, SAME, SAME)
NUMBERS(uint64, uint64_t, uint64_t, SAME, SAME)
NUMBERS(halves, uint16_t, float, of_half, to_half)
NUMBERS(floats, float, float, SAME, SAME)
NUMBERS(doubles, double, double, SAME, SAME)
NUMBERS(bfloats, uint16_t, float, of_bfloat16, to_bfloat16)

static void nccl_reduce(
    struct nccl_comm *comm, int type, int op, const struct nccl_factor *factor, char *out, size_t count) {
	static void (*const of_type[TYPES])(struct nccl_comm *, int, const struct nccl_factor *, char *, size_t) = {
	    int8, uint8, int32, uint32, int64, uint64, halves, floats, doubles, bfloats};
	of_type[type](comm, op, factor, out, count);
}

enum kind { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, SEND, RECEIVE };

struct operation {
	enum kind kind;
	const char *from;
	char *to;
	size_t count, done; /* elements; bytes that a message has moved */
	int type, op, peer; /* the root or the other rank */
	struct nccl_factor factor;
};

/* What a group has for one communicator and stream. */
struct batch {
	struct nccl_comm *comm;
	void *stream, *context;
	uint64_t turn; /* 0: of a captured graph, which runs many times */
	int captured, count;
	struct operation *operations;
	struct batch *next;
};

static uint64_t limit = UINT64_MAX;
static void (*captured)(void *batch);
static __thread unsigned depth;
static __thread struct batch *group;

/* Sets how many bytes of an operation are moved at most. */
EXPORT void gpuconf_runtime_collective_limit(uint64_t bytes) { __atomic_store_n(&limit, bytes, __ATOMIC_RELAXED); }

/* Of one rank's part: what each rank passes or gets as a whole is a multiple of it. */
static size_t bytes_of(const struct operation *operation) {
	return operation->count * (size_t)nccl_size(operation->type);
}

/* Whether the values are moved. All ranks have the same limit and size, so they agree. */
static int moves(const struct operation *operation) {
	return bytes_of(operation) <= __atomic_load_n(&limit, __ATOMIC_RELAXED);
}

/* Whether each rank gets a part of its own. */
static int has_parts(const struct operation *operation) {
	return operation->kind == REDUCE_SCATTER || operation->kind == ALL_TO_ALL || operation->kind == SCATTER;
}

/* One chunk: all ranks that have something to say put it into their slots, then all that want to know take it. */
struct chunk {
	size_t at, bytes;
	int whose; /* of the rank that it is for, where there is one */
};

/* What this rank has to say in a chunk; a rank other than the root has nothing in a broadcast. */
static void put(struct nccl_comm *comm, const struct operation *operation, const struct chunk *chunk) {
	size_t offset = chunk->at;
	int root = comm->rank == operation->peer;
	if ((operation->kind == BROADCAST || operation->kind == SCATTER) && !root)
		return;
	if (has_parts(operation))
		offset += (size_t)chunk->whose * bytes_of(operation);
	memcpy(nccl_slot(comm, comm->rank), operation->from + offset, chunk->bytes);
}

/* What this rank wants to know of it, from the slots. */
static void take(struct nccl_comm *comm, const struct operation *operation, const struct chunk *chunk) {
	size_t all = bytes_of(operation), count = chunk->bytes / (size_t)nccl_size(operation->type);
	int root = comm->rank == operation->peer, mine = comm->rank == chunk->whose;
	char *to = operation->to + chunk->at;
	switch (operation->kind) {
	case ALL_REDUCE:
	case REDUCE:
	case REDUCE_SCATTER:
		if (operation->kind == ALL_REDUCE || (operation->kind == REDUCE ? root : mine))
			nccl_reduce(comm, operation->type, operation->op, &operation->factor, to, count);
		break;
	case BROADCAST:
	case SCATTER:
		if (operation->kind == BROADCAST || mine)
			memcpy(to, nccl_slot(comm, operation->peer), chunk->bytes);
		break;
	default: /* each rank's part in its place */
		if (operation->kind == ALL_GATHER || (operation->kind == GATHER && root) ||
		    (operation->kind == ALL_TO_ALL && mine))
			for (int i = 0; i < comm->ranks; i++)
				memcpy(to + (size_t)i * all, nccl_slot(comm, i), chunk->bytes);
	}
}

/* The ranks meet first, also those that move nothing, and then twice for each chunk: when all slots are written, and
 * when all have been read. */
static int collect(struct nccl_comm *comm, const struct operation *operation) {
	int parts = has_parts(operation) ? comm->ranks : 1;
	size_t all = moves(operation) ? bytes_of(operation) : 0;
	int result = nccl_meet(comm, 0);
	for (int whose = 0; whose < parts; whose++)
		for (size_t at = 0; result == SUCCESS && at < all; at += NCCL_CHUNK) {
			struct chunk chunk = {at, all - at < NCCL_CHUNK ? all - at : NCCL_CHUNK, whose};
			put(comm, operation, &chunk);
			result = nccl_meet(comm, 0);
			if (result == SUCCESS)
				take(comm, operation, &chunk);
			if (result == SUCCESS)
				result = nccl_meet(comm, 0);
		}
	return result;
}

static int is_message(const struct operation *operation) {
	return operation->kind == SEND || operation->kind == RECEIVE;
}

/* Moves a part of a message if it is this rank's turn. A message without bytes has one part. Returns 2 when it is
 * moved, 1 after a part. */
static int advance(struct nccl_comm *comm, struct operation *operation) {
	int sends = operation->kind == SEND;
	struct nccl_box *box =
	    sends ? nccl_box(comm, comm->rank, operation->peer) : nccl_box(comm, operation->peer, comm->rank);
	uint32_t full = __atomic_load_n(&box->full, __ATOMIC_ACQUIRE);
	size_t all = moves(operation) ? bytes_of(operation) : 0,
	       part = all - operation->done < NCCL_MAIL ? all - operation->done : NCCL_MAIL;
	if ((full & 1) == (uint32_t)sends)
		return 0;
	memcpy(sends ? box->bytes : operation->to + operation->done, sends ? operation->from + operation->done : box->bytes,
	    part);
	__atomic_store_n(&box->full, full + 1, __ATOMIC_RELEASE);
	operation->done += part;
	return operation->done == all ? 2 : 1;
}

/* All messages of a group advance together: their order is not the same in all ranks. Those between the same ranks stay
 * in order. */
static int exchange(struct nccl_comm *comm, struct operation *operations, int count) {
	int left = 0;
	unsigned idle = 0;
	for (int i = 0; i < count; i++) {
		operations[i].done = 0;
		left += is_message(&operations[i]);
	}
	char *over = left > 0 ? calloc((size_t)count, 1) : NULL;
	if (left > 0 && over == NULL)
		return NCCL_SYSTEM;
	int result = SUCCESS;
	while (left > 0 && result == SUCCESS) {
		int moved = 0;
		for (int i = 0; i < count; i++) {
			int waits = over[i] || !is_message(&operations[i]);
			for (int j = 0; j < i && !waits; j++)
				waits =
				    !over[j] && operations[j].kind == operations[i].kind && operations[j].peer == operations[i].peer;
			int step = waits ? 0 : advance(comm, &operations[i]);
			moved |= step;
			over[i] |= step == 2;
			left -= step == 2;
		}
		idle = moved ? 0 : idle + 1;
		if (idle > 100)
			nanosleep(&(struct timespec){0, idle > 1000 ? 1000000 : 50000}, NULL);
		if (idle > 100 && idle % 50 == 0 && nccl_lost(comm))
			result =
			    idle % 100 == 0 ? NCCL_REMOTE : SUCCESS; /* a rank that has sent all may have left: look again once */
	}
	free(over);
	return result;
}

static void drop(struct batch *batch) {
	free(batch->operations);
	free(batch);
}

/* Work of a stream. Operations of one communicator run in the order of their calls whatever their streams are:
 * comm->lock guards whose turn it is. A captured one has no turn, since its graph may run any number of times. */
static void run(void *argument) {
	struct batch *batch = argument;
	struct nccl_comm *comm = batch->comm;
	pthread_mutex_lock(&comm->lock);
	while (!batch->captured && comm->done + 1 != batch->turn)
		pthread_cond_wait(&comm->turn, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
	int result = comm->error;
	for (int i = 0; i < batch->count && result == SUCCESS; i++)
		if (!is_message(&batch->operations[i]))
			result = collect(comm, &batch->operations[i]);
	if (result == SUCCESS)
		result = exchange(comm, batch->operations, batch->count);
	if (result != SUCCESS)
		__atomic_store_n(&comm->error, result, __ATOMIC_SEQ_CST);
	if (batch->captured)
		return; /* the graph may run again */
	pthread_mutex_lock(&comm->lock);
	comm->done++;
	pthread_cond_broadcast(&comm->turn);
	pthread_mutex_unlock(&comm->lock);
	drop(batch);
}

EXPORT void gpuconf_runtime_collective(void *batch) { run(batch); }

EXPORT void gpuconf_runtime_on_captured_collective(void (*callback)(void *batch)) {
	__atomic_store_n(&captured, callback, __ATOMIC_RELEASE);
}

/* A node of the graph without an effect, if the one who computes the graph's other operations does this work in its
 * turn. */
static void nothing(void *unused) { (void)unused; }

/* In the context of the call, which is current only while the work is queued. */
static int submit(struct batch *batch) {
	void (*tell)(void *) = NULL;
	struct nccl_comm *comm = batch->comm;
	void *before = NULL;
	cuCtxGetCurrent(&before);
	cuCtxSetCurrent(batch->context);
	int result = cuStreamIsCapturing(batch->stream, &batch->captured);
	if (result == SUCCESS) {
		pthread_mutex_lock(&comm->lock);
		batch->turn = batch->captured ? 0 : comm->issued + 1;
		tell = batch->captured ? __atomic_load_n(&captured, __ATOMIC_ACQUIRE) : NULL;
		result = cuLaunchHostFunc(batch->stream, tell != NULL ? nothing : run, batch);
		comm->issued += result == SUCCESS && !batch->captured;
		pthread_mutex_unlock(&comm->lock);
	}
	cuCtxSetCurrent(before);
	if (result != SUCCESS)
		drop(batch);
	else if (tell != NULL)
		tell(batch);
	return result == SUCCESS ? SUCCESS : NCCL_UNHANDLED_CUDA;
}

EXPORT int ncclGroupStart(void) {
	depth++;
	return SUCCESS;
}

/* The outermost end of a group submits all of it, for each communicator and stream one piece of work; the first error
 * is returned. */
EXPORT int ncclGroupEnd(void) {
	int result = SUCCESS;
	if (depth == 0)
		return NCCL_INVALID_USAGE;
	if (--depth > 0)
		return SUCCESS;
	for (struct batch *batch = group, *next; batch != NULL; batch = next) {
		next = batch->next;
		int one = submit(batch);
		result = result == SUCCESS ? one : result;
	}
	group = NULL;
	return result;
}

/* The group is the thread's, so its list needs no lock. */
static struct batch *batch_for(struct nccl_comm *comm, void *stream) {
	struct batch **at = &group;
	while (*at != NULL && ((*at)->comm != comm || (*at)->stream != stream))
		at = &(*at)->next;
	if (*at == NULL && (*at = calloc(1, sizeof **at)) != NULL) {
		(*at)->comm = comm;
		(*at)->stream = stream;
		cuCtxGetCurrent(&(*at)->context);
	}
	return *at;
}

/* An operation outside of a group is a group of its own. */
static int add(const char *name, struct nccl_comm *comm, void *stream, struct operation operation) {
	if (comm == NULL || nccl_size(operation.type) == 0 || operation.peer < 0 || operation.peer >= comm->ranks ||
	    operation.op < 0 || operation.op >= NCCL_OWN + NCCL_MOST_OPERATORS ||
	    (operation.op >= NCCL_OWN && !comm->factors[operation.op - NCCL_OWN].used))
		return NCCL_INVALID_ARGUMENT;
	if (begin() != SUCCESS)
		return NCCL_UNHANDLED_CUDA;
	if ((operation.kind == ALL_REDUCE || operation.kind == REDUCE || operation.kind == REDUCE_SCATTER) &&
	    !nccl_reducible(operation.type)) {
		not_done("a reduction of 8-bit floating-point numbers by NCCL");
		return NCCL_INVALID_ARGUMENT;
	}
	if (operation.op >= NCCL_OWN)
		operation.factor = comm->factors[operation.op - NCCL_OWN];
	if (!moves(&operation) && computes(name) != SUCCESS)
		return NCCL_INVALID_USAGE;
	ncclGroupStart();
	struct batch *batch = batch_for(comm, stream);
	struct operation *more =
	    batch != NULL ? realloc(batch->operations, sizeof *more * (size_t)(batch->count + 1)) : NULL;
	if (more != NULL) {
		batch->operations = more;
		more[batch->count++] = operation;
	}
	int result = ncclGroupEnd();
	return more == NULL ? NCCL_SYSTEM : result;
}

/* COLLECTIVE(function, kind, operator, root, parameters of these two, each with a comma behind it). */
#define COLLECTIVE(name, kind, op, root, ...) \
	EXPORT int name( \
	    const void *from, void *to, size_t count, int type, __VA_ARGS__ struct nccl_comm *comm, void *stream) { \
		return add(#name, comm, stream, (struct operation){kind, from, to, count, 0, type, op, root, {0}}); \
	}
COLLECTIVE(ncclAllReduce, ALL_REDUCE, op, 0, int op, )
COLLECTIVE(ncclReduce, REDUCE, op, root, int op, int root, )
COLLECTIVE(ncclReduceScatter, REDUCE_SCATTER, op, 0, int op, )
COLLECTIVE(ncclBroadcast, BROADCAST, 0, root, int root, )
COLLECTIVE(ncclAllGather, ALL_GATHER, 0, 0, )
COLLECTIVE(ncclAlltoAll, ALL_TO_ALL, 0, 0, )
COLLECTIVE(ncclGather, GATHER, 0, root, int root, )
COLLECTIVE(ncclScatter, SCATTER, 0, root, int root, )

EXPORT int ncclBcast(void *buffer, size_t count, int type, int root, struct nccl_comm *comm, void *stream) {
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

EXPORT int ncclSend(const void *from, size_t count, int type, int peer, struct nccl_comm *comm, void *stream) {
	return add("ncclSend", comm, stream, (struct operation){SEND, from, NULL, count, 0, type, 0, peer, {0}});
}

EXPORT int ncclRecv(void *to, size_t count, int type, int peer, struct nccl_comm *comm, void *stream) {
	return add("ncclRecv", comm, stream, (struct operation){RECEIVE, NULL, to, count, 0, type, 0, peer, {0}});
}
