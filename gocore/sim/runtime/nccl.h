/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of NCCL share. */
#ifndef NCCL_H
#define NCCL_H

#include "runtime.h"

#include <pthread.h>

enum nccl_result {
	NCCL_UNHANDLED_CUDA = 1,
	NCCL_SYSTEM = 2,
	NCCL_INTERNAL = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE = 6
};
enum nccl_operator {
	NCCL_SUM,
	NCCL_PRODUCT,
	NCCL_MOST,
	NCCL_LEAST,
	NCCL_AVERAGE,
	NCCL_OWN /* and above: of ncclRedOpCreatePreMulSum */
};
enum { NCCL_MOST_OPERATORS = 64, NCCL_CHUNK = 256 << 10, NCCL_MAIL = 64 << 10 };

struct nccl_id {
	char bytes[128];
};

/* A factor that is multiplied with each input of a sum. */
struct nccl_factor {
	int used, type, on_card;
	unsigned char value[8];
	const void *address;
};

/* A rank of a communicator, in this process. */
struct nccl_comm {
	struct nccl_id id;
	int ranks, rank, error;
	int aborted, splits;
	struct nccl_shared *shared;
	int file;
	struct nccl_factor factors[NCCL_MOST_OPERATORS];
	pthread_mutex_t lock; /* guards what follows: the operations of one communicator run one after the other, in the
	                         order of their calls */
	pthread_cond_t turn;
	uint64_t issued, done;
};

/* nccl.c: the memory that the ranks share. Functions return a result. */
int nccl_meet(
    struct nccl_comm *comm, int which); /* returns when all ranks have called it; 0 in the streams, 1 on the host */
int nccl_lost(struct nccl_comm *comm);  /* whether a rank has gone, or the communicator is aborted */
char *nccl_slot(struct nccl_comm *comm, int rank); /* of NCCL_CHUNK bytes, which its rank writes */
/* A box of NCCL_MAIL bytes from a rank to another. Each takes one turn: the sender if full is even, the receiver if it
 * is odd. */
struct nccl_box {
	uint32_t full;
	char pad[60], bytes[NCCL_MAIL];
};
struct nccl_box *nccl_box(struct nccl_comm *comm, int from, int to);

/* nccl_collective.c */
int nccl_size(int type); /* bytes of an element; 0 for an unknown type */
int nccl_reducible(int type);

#endif
