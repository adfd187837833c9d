/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the ranks of an NCCL communicator share: a file in the folder of the job's cards, or in /dev/shm, of
 * which only what is used takes memory. The last rank that joins removes its name. A rank locks a byte of the file as
 * long as it lives, so the others notice that it has died.
 */
#include "nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../lease/budget/locks.h"
#include "../../machine/models/simulator.h"

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

static size_t up(size_t bytes) { return (bytes + 4095) & ~(size_t)4095; }

static size_t slots_at(int ranks) { return up(sizeof(struct nccl_shared) + (size_t)ranks * sizeof(struct member)); }

static size_t boxes_at(int ranks) { return slots_at(ranks) + (size_t)ranks * NCCL_CHUNK; }

static size_t size_of(int ranks) { return boxes_at(ranks) + (size_t)ranks * (size_t)ranks * sizeof(struct nccl_box); }

char *nccl_slot(struct nccl_comm *comm, int rank) {
	return (char *)comm->shared + slots_at(comm->ranks) + (size_t)rank * NCCL_CHUNK;
}

int *nccl_word(struct nccl_comm *comm, int rank) { return comm->shared->members[rank].words; }

struct nccl_box *nccl_box(struct nccl_comm *comm, int from, int to) {
	struct nccl_box *boxes = (struct nccl_box *)((char *)comm->shared + boxes_at(comm->ranks));
	return &boxes[(size_t)from * (size_t)comm->ranks + (size_t)to];
}

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

int nccl_attach(struct nccl_comm *comm) {
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

void nccl_detach(struct nccl_comm *comm) {
	__atomic_store_n(&comm->shared->members[comm->rank].left, 1, __ATOMIC_SEQ_CST);
	munmap(comm->shared, size_of(comm->ranks));
	close(comm->file);
}

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

static void futex(uint32_t *word, int operation, uint32_t value, const struct timespec *limit) {
	syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

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
