/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of memory that streams write, and wait for
 * (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEMOP.html). A word is read and written atomically,
 * since kernels are not the only ones who use it: the host polls it.
 */
#include "stream.h"

#include "../../machine/cuda/constants.h"

enum { MOST_OPERATIONS = 256 };

/* Atomic: a program on the host writes it at any time. */
static uint64_t read_word(const struct work *work) {
	const void *at = (const void *)(uintptr_t)work->dst;
	return work->bytes == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_SEQ_CST)
	                        : __atomic_load_n((const uint64_t *)at, __ATOMIC_SEQ_CST);
}

void write_word(const struct work *work) {
	void *at = (void *)(uintptr_t)work->dst;
	if (work->bytes == 4)
		__atomic_store_n((uint32_t *)at, (uint32_t)work->value, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n((uint64_t *)at, work->value, __ATOMIC_SEQ_CST);
}

/* "Greater" is meant cyclically, so that a counter may wrap around. */
int word_holds(const struct work *work) {
	int narrow = work->bytes == sizeof(uint32_t);
	uint64_t word = read_word(work), all = narrow ? UINT32_MAX : UINT64_MAX;
	switch (work->src) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return word == (work->value & all);
	case CU_STREAM_WAIT_VALUE_AND:
		return (word & work->value) != 0;
	case CU_STREAM_WAIT_VALUE_NOR:
		return (~(word | work->value) & all) != 0;
	}
	return narrow ? (int32_t)((uint32_t)word - (uint32_t)work->value) >= 0 : (int64_t)(word - work->value) >= 0;
}

/* A flush of remote writes needs a device attribute that no card has here. */
static CUresult check(const struct work *work, unsigned flags, int gpu) {
	if (!m->gpu[gpu].memops || (work->kind == WAIT_WORD && (flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0))
		return NOT_SUPPORTED;
	if (flags > (work->kind == WAIT_WORD ? CU_STREAM_WAIT_VALUE_NOR : 0) || work->dst % work->bytes != 0 ||
	    !within(work->dst, work->bytes, gpu))
		return INVALID_VALUE;
	return SUCCESS;
}

/* The flags of a wait say how the word is compared; those of a write are 0. */
static CUresult queue_word(CUstream handle, struct work work, unsigned flags) {
	work.src = flags;
	IN_STREAM(handle);
	TRY(check(&work, flags, context->gpu));
	TRY(admits(stream));
	enqueue(stream, work);
	return SUCCESS;
}

#define WORD(function, what, type) \
	EXPORT CUresult function##_v2(CUstream handle, CUdeviceptr addr, type value, unsigned flags) { \
		CALLED_IN_SINCE(11070, handle, function); \
		return queue_word( \
		    handle, (struct work){.kind = what, .dst = addr, .bytes = sizeof value, .value = value}, flags); \
	} \
	EXPORT CUresult function##_v2_ptsz(CUstream handle, CUdeviceptr addr, type value, unsigned flags) { \
		return function##_v2(own_stream(handle), addr, value, flags); \
	}
WORD(cuStreamWriteValue32, WRITE_WORD, uint32_t)
WORD(cuStreamWriteValue64, WRITE_WORD, uint64_t)
WORD(cuStreamWaitValue32, WAIT_WORD, uint32_t)
WORD(cuStreamWaitValue64, WAIT_WORD, uint64_t)

struct operation {
	unsigned kind;
	CUdeviceptr addr;
	uint64_t value;
	unsigned flags;
	uint64_t rest[2];
};

static struct work work_of(const struct operation *operation) {
	int waits = operation->kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation->kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
	return (struct work){.kind = waits ? WAIT_WORD : WRITE_WORD,
	    .dst = operation->addr,
	    .src = operation->flags,
	    .bytes = operation->kind <= CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8,
	    .value = operation->value};
}

/* Writes of other devices are there at once, and work of a stream is in order. */
static int has_no_work(const struct operation *operation) {
	return operation->kind == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES || operation->kind == CU_STREAM_MEM_OP_BARRIER;
}

/* All of them, or none. */
EXPORT CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned count, const struct operation *list, unsigned flags) {
	CALLED_IN_SINCE(11070, handle, cuStreamBatchMemOp);
	_Static_assert(sizeof *list == 48, "as in CUDA's union");
	if (count > MOST_OPERATIONS || (count > 0 && list == NULL) || flags != 0)
		return INVALID_VALUE;
	IN_STREAM(handle);
	for (unsigned i = 0; i < count; i++) {
		struct work work = work_of(&list[i]);
		if (list[i].kind < CU_STREAM_MEM_OP_WAIT_VALUE_32 || list[i].kind > CU_STREAM_MEM_OP_BARRIER)
			return INVALID_VALUE;
		if (!has_no_work(&list[i]))
			TRY(check(&work, list[i].flags, context->gpu));
	}
	TRY(admits(stream));
	for (unsigned i = 0; i < count; i++)
		if (!has_no_work(&list[i]))
			enqueue(stream, work_of(&list[i]));
	return SUCCESS;
}
