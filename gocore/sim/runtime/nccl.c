/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's communicators (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html): of the ranks of
 * one process, or of processes of this machine. No call waits for other ranks but a split. */
#include "nccl.h"

#include "../../lease/budget/locks.h"
#include "../../machine/models/simulator.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The memory that the ranks of an NCCL communicator share: a file in the folder of the job's cards, or in /dev/shm, of
 * which only what is used takes memory. The last rank that joins removes its name. A rank locks a byte of the file as
 * long as it lives, so the others notice that it has died.
 */

struct member {
	int joined, left, words[2];
};

struct nccl_shared {
	int ranks, joined;
	struct {
		uint32_t arrived, generation;
	} meetings[2];
	struct member members[];
};

/* To pages, so that slots and boxes begin at one. */
static size_t up(size_t bytes) { return (bytes + 4095) & ~(size_t)4095; }

/* The file is: who is in it, a slot for each rank, a box for each pair of ranks. These are the places of the latter
 * two, and the size of all. */
static size_t slots_at(int ranks) { return up(sizeof(struct nccl_shared) + (size_t)ranks * sizeof(struct member)); }

static size_t boxes_at(int ranks) { return slots_at(ranks) + (size_t)ranks * NCCL_CHUNK; }

static size_t size_of(int ranks) { return boxes_at(ranks) + (size_t)ranks * (size_t)ranks * sizeof(struct nccl_box); }

char *nccl_slot(struct nccl_comm *comm, int rank) {
	return (char *)comm->shared + slots_at(comm->ranks) + (size_t)rank * NCCL_CHUNK;
}

/* Two words for each rank, by which a split says its color and its key. */
static int *nccl_word(struct nccl_comm *comm, int rank) { return comm->shared->members[rank].words; }

struct nccl_box *nccl_box(struct nccl_comm *comm, int from, int to) {
	struct nccl_box *boxes = (struct nccl_box *)((char *)comm->shared + boxes_at(comm->ranks));
	return &boxes[(size_t)from * (size_t)comm->ranks + (size_t)to];
}

/* The job's folder is private. In /dev/shm only the id keeps the name from being guessed, and open_of_job refuses a
 * file of another user. */
static void path_of(const struct nccl_id *id, char *path, size_t room) {
	const char *cards = secure_getenv(SHARED_CARDS);
	const char *slash = cards != NULL ? strrchr(cards, '/') : NULL;
	int used =
	    slash != NULL ? snprintf(path, room, "%.*s", (int)(slash - cards), cards) : snprintf(path, room, "/dev/shm");
	used += snprintf(path + used, room - (size_t)used, "/gpuconf-nccl-");
	for (int i = 0; i < 16; i++)
		used += snprintf(path + used, room - (size_t)used, "%02x", (unsigned char)id->bytes[i]);
}

/* The first rank makes it. A file of another user, or one that others may open, is not a job's. */
static int open_of_job(const char *path) {
	struct stat facts;
	int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0 && errno == EEXIST)
		file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (file >= 0 && (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
	                     (facts.st_mode & 077) != 0)) {
		close(file);
		return -1;
	}
	return file;
}

/* The lock on the rank's byte comes before the mapping is shown to others: a rank that has joined and has no lock is
 * dead. Ranks that disagree about their number are refused. */
static int nccl_attach(struct nccl_comm *comm) {
	char path[PATH_MAX];
	int nobody = 0;
	path_of(&comm->id, path, sizeof path);
	comm->file = open_of_job(path);
	if (comm->file < 0)
		return NCCL_SYSTEM;
	size_t bytes = size_of(comm->ranks);
	if (ftruncate(comm->file, (off_t)bytes) != 0 || !lock_byte(comm->file, comm->rank) ||
	    (comm->shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, comm->file, 0)) == MAP_FAILED) {
		int taken = errno == EAGAIN || errno == EACCES; /* by another process that says it is this rank */
		comm->shared = NULL;
		close(comm->file);
		return taken ? NCCL_INVALID_USAGE : NCCL_SYSTEM;
	}
	if (!__atomic_compare_exchange_n(
	        &comm->shared->ranks, &nobody, comm->ranks, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    nobody != comm->ranks) {
		munmap(comm->shared, bytes);
		close(comm->file);
		return NCCL_INVALID_USAGE;
	}
	__atomic_store_n(&comm->shared->members[comm->rank].joined, 1, __ATOMIC_SEQ_CST);
	if (__atomic_add_fetch(&comm->shared->joined, 1, __ATOMIC_SEQ_CST) == comm->ranks)
		unlink(path);
	return SUCCESS;
}

static void nccl_detach(struct nccl_comm *comm) {
	__atomic_store_n(&comm->shared->members[comm->rank].left, 1, __ATOMIC_SEQ_CST);
	munmap(comm->shared, size_of(comm->ranks));
	close(comm->file);
}

/* Whether a rank that had joined is gone, by its own word or because the kernel has dropped its lock. */
int nccl_lost(struct nccl_comm *comm) {
	if (__atomic_load_n(&comm->aborted, __ATOMIC_SEQ_CST))
		return 1;
	for (int i = 0; i < comm->ranks; i++) {
		const struct member *member = &comm->shared->members[i];
		if (i == comm->rank || !__atomic_load_n(&member->joined, __ATOMIC_SEQ_CST))
			continue;
		if (__atomic_load_n(&member->left, __ATOMIC_SEQ_CST) || locked_byte(comm->file, i, i) == UNLOCKED)
			return 1;
	}
	return 0;
}

/* Shared between processes, so without FUTEX_PRIVATE_FLAG (man 2 futex). */
static void futex(uint32_t *word, int operation, uint32_t value, const struct timespec *limit) {
	syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

/* The last rank to arrive starts the next generation and wakes the others, who look every 50 ms whether one of them
 * has died. */
int nccl_meet(struct nccl_comm *comm, int which) {
	static const struct timespec look = {0, 50000000};
	uint32_t *arrived = &comm->shared->meetings[which].arrived, *generation = &comm->shared->meetings[which].generation;
	uint32_t before = __atomic_load_n(generation, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&comm->aborted, __ATOMIC_SEQ_CST))
		return NCCL_REMOTE;
	if (__atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST) == (uint32_t)comm->ranks) {
		__atomic_store_n(arrived, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(generation, before + 1, __ATOMIC_SEQ_CST);
		futex(generation, FUTEX_WAKE, INT_MAX, NULL);
		return SUCCESS;
	}
	while (__atomic_load_n(generation, __ATOMIC_SEQ_CST) == before) {
		futex(generation, FUTEX_WAIT, before, &look);
		/* A rank that has passed this meeting may leave: what it leaves behind is looked at after its leaving. */
		if (nccl_lost(comm) && __atomic_load_n(generation, __ATOMIC_SEQ_CST) == before)
			return NCCL_REMOTE;
	}
	return SUCCESS;
}

EXPORT int ncclGetVersion(int *version) {
	NEED(version, NCCL_INVALID_ARGUMENT);
	*version = versions.nccl;
	return SUCCESS;
}

STATUS_TEXTS(ncclGetErrorString, "unknown result code", {SUCCESS, "no error"},
    {NCCL_UNHANDLED_CUDA, "unhandled cuda error"}, {NCCL_SYSTEM, "unhandled system error"},
    {NCCL_INTERNAL, "internal error"}, {NCCL_INVALID_ARGUMENT, "invalid argument"},
    {NCCL_INVALID_USAGE, "invalid usage"}, {NCCL_REMOTE, "remote process exited or there was a network error"},
    {7, "NCCL operation in progress"})

EXPORT const char *ncclGetLastError(const struct nccl_comm *comm) {
	return comm != NULL && comm->error == NCCL_REMOTE
	           ? "a simulated rank ended or was aborted before it reached this operation"
			   : "";
}

EXPORT int ncclGetUniqueId(struct nccl_id *id) {
	NEED(id, NCCL_INVALID_ARGUMENT);
	memset(id, 0, sizeof *id);
	return getrandom(id, 32, 0) == 32 ? SUCCESS : NCCL_SYSTEM;
}

/* It returns before the other ranks are there; the first operation waits for them. */
EXPORT int ncclCommInitRank(struct nccl_comm **out, int ranks, struct nccl_id id, int rank) {
	if (out == NULL || ranks < 1 || rank < 0 || rank >= ranks)
		return NCCL_INVALID_ARGUMENT;
	if (begin() != SUCCESS)
		return NCCL_UNHANDLED_CUDA;
	struct nccl_comm *comm = calloc(1, sizeof *comm);
	NEED(comm, NCCL_SYSTEM);
	comm->id = id;
	comm->ranks = ranks;
	comm->rank = rank;
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->turn, NULL);
	int result = nccl_attach(comm);
	if (result != SUCCESS) {
		free(comm);
		return result;
	}
	*out = comm;
	return SUCCESS;
}

EXPORT int ncclCommInitRankConfig(struct nccl_comm **out, int ranks, struct nccl_id id, int rank, const void *config) {
	(void)config;
	return ncclCommInitRank(out, ranks, id, rank);
}

EXPORT int ncclCommInitRankScalable(
    struct nccl_comm **out, int ranks, int rank, int count, const struct nccl_id *ids, const void *config) {
	(void)config;
	return ids == NULL || count < 1 ? NCCL_INVALID_ARGUMENT : ncclCommInitRank(out, ranks, ids[0], rank);
}

EXPORT int ncclCommInitAll(struct nccl_comm **out, int count, const int *devices) {
	struct nccl_id id;
	int result = out == NULL || count < 1 ? NCCL_INVALID_ARGUMENT : ncclGetUniqueId(&id);
	(void)devices; /* an operation follows its stream */
	for (int i = 0; result == SUCCESS && i < count; i++)
		result = ncclCommInitRank(&out[i], count, id, i);
	return result;
}

/* Waits until the operations so far are over. */
EXPORT int ncclCommFinalize(struct nccl_comm *comm) {
	NEED(comm, NCCL_INVALID_ARGUMENT);
	HOLD(comm->lock);
	while (comm->done != comm->issued)
		pthread_cond_wait(&comm->turn, &comm->lock);
	return SUCCESS;
}

EXPORT int ncclCommDestroy(struct nccl_comm *comm) {
	if (comm == NULL)
		return SUCCESS;
	ncclCommFinalize(comm);
	nccl_detach(comm);
	pthread_mutex_destroy(&comm->lock);
	pthread_cond_destroy(&comm->turn);
	free(comm);
	return SUCCESS;
}

/* Operations that wait for other ranks end with an error before the memory is unmapped. */
EXPORT int ncclCommAbort(struct nccl_comm *comm) {
	if (comm != NULL)
		__atomic_store_n(&comm->aborted, 1, __ATOMIC_SEQ_CST);
	return ncclCommDestroy(comm);
}

EXPORT int ncclCommRevoke(struct nccl_comm *comm, int flags) {
	(void)flags;
	NEED(comm, NCCL_INVALID_ARGUMENT);
	__atomic_store_n(&comm->aborted, 1, __ATOMIC_SEQ_CST);
	return SUCCESS;
}

#define FACT(name, value) \
	EXPORT int name(const struct nccl_comm *comm, int *out) { \
		if (comm == NULL || out == NULL) \
			return NCCL_INVALID_ARGUMENT; \
		*out = value; \
		return SUCCESS; \
	}
FACT(ncclCommGetAsyncError, __atomic_load_n(&comm->error, __ATOMIC_SEQ_CST))
FACT(ncclCommCount, comm->ranks)
FACT(ncclCommUserRank, comm->rank)

/* The id of a communicator that is made of another: the same in all ranks, by the split's number and color. */
static struct nccl_id derived(const struct nccl_id *from, int number, int color) {
	struct nccl_id id = *from;
	uint64_t words[2];
	memcpy(words, id.bytes, sizeof words);
	for (int i = 0; i < 2; i++) {
		words[i] ^= (uint64_t)(uint32_t)number << 32 | (uint32_t)color;
		for (int j = 0; j < 3; j++) {
			words[i] = (words[i] ^ words[i] >> 31) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)i + 1;
			words[i] ^= words[i] >> 29;
		}
	}
	memcpy(id.bytes, words, sizeof words);
	return id;
}

/* The ranks of a color, in the order of their keys. No color, -1: the rank gets no communicator. */
EXPORT int ncclCommSplit(struct nccl_comm *comm, int color, int key, struct nccl_comm **out, const void *config) {
	int count = 0, rank = 0;
	(void)config;
	if (comm == NULL || out == NULL || color < -1)
		return NCCL_INVALID_ARGUMENT;
	nccl_word(comm, comm->rank)[0] = color;
	nccl_word(comm, comm->rank)[1] = key;
	int number = ++comm->splits, result = nccl_meet(comm, 1);
	for (int i = 0; result == SUCCESS && i < comm->ranks; i++) {
		const int *word = nccl_word(comm, i);
		if (word[0] != color)
			continue;
		count++;
		rank += word[1] < key || (word[1] == key && i < comm->rank);
	}
	if (result == SUCCESS)
		result = nccl_meet(comm, 1);
	*out = NULL;
	return result != SUCCESS || color < 0 ? result
	                                      : ncclCommInitRank(out, count, derived(&comm->id, number, color), rank);
}

EXPORT int ncclCommShrink(
    struct nccl_comm *comm, const int *excluded, int count, struct nccl_comm **out, const void *config, int flags) {
	int rank;
	(void)config, (void)flags;
	if (comm == NULL || out == NULL || excluded == NULL || count < 1 || count >= comm->ranks)
		return NCCL_INVALID_ARGUMENT;
	rank = comm->rank;
	for (int i = 0; i < count; i++) {
		if (excluded[i] == comm->rank)
			return NCCL_INVALID_USAGE;
		rank -= excluded[i] < comm->rank;
	}
	return ncclCommInitRank(out, comm->ranks - count, derived(&comm->id, ++comm->splits, -2), rank);
}

EXPORT int ncclRedOpCreatePreMulSum(int *op, const void *factor, int type, int residence, struct nccl_comm *comm) {
	if (op == NULL || factor == NULL || comm == NULL || !nccl_reducible(type))
		return NCCL_INVALID_ARGUMENT;
	for (int i = 0; i < NCCL_MOST_OPERATORS; i++)
		if (!comm->factors[i].used) {
			comm->factors[i] =
			    (struct nccl_factor){.used = 1, .type = type, .on_card = residence == 0, .address = factor};
			if (residence != 0)
				memcpy(comm->factors[i].value, factor, (size_t)nccl_size(type));
			*op = NCCL_OWN + i;
			return SUCCESS;
		}
	return NCCL_INVALID_USAGE;
}

/* Operations that use it have a copy. */
EXPORT int ncclRedOpDestroy(int op, struct nccl_comm *comm) {
	if (comm == NULL || op < NCCL_OWN || op >= NCCL_OWN + NCCL_MOST_OPERATORS)
		return NCCL_INVALID_ARGUMENT;
	comm->factors[op - NCCL_OWN].used = 0;
	return SUCCESS;
}

EXPORT int ncclMemAlloc(void **out, size_t bytes) {
	int result = begin();
	return result == SUCCESS && cuMemAlloc_v2(out, bytes) == SUCCESS ? SUCCESS : NCCL_UNHANDLED_CUDA;
}

EXPORT int ncclMemFree(void *address) {
	return address == NULL || cuMemFree_v2(address) == SUCCESS ? SUCCESS : NCCL_UNHANDLED_CUDA;
}

/* Registered memory is used as other memory is. */
EXPORT int ncclCommRegister(const struct nccl_comm *comm, void *buffer, size_t bytes, void **handle) {
	(void)bytes;
	NEED(comm && handle, NCCL_INVALID_ARGUMENT);
	*handle = buffer;
	return SUCCESS;
}

EXPORT int ncclCommDeregister(const struct nccl_comm *comm, void *handle) {
	(void)handle;
	return comm == NULL ? NCCL_INVALID_ARGUMENT : SUCCESS;
}
