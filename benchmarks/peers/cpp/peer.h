// The interface of a contender: a shared object with these functions. A pool is one allocator and the blocks that a
// trace has allocated from it. The loop over a trace runs inside, so that no figure includes a call between languages.

#ifndef GPUCONF_BENCHMARKS_PEER_H
#define GPUCONF_BENCHMARKS_PEER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An operation allocates a block or, with 0 bytes, frees it. (tests_go/pool/traces has the same in Go.)
typedef struct {
	uint32_t block;
	uint64_t bytes;
} peer_op;

// A pool's own accounting, in bytes. 0: not counted.
typedef struct {
	uint64_t current, peak; // live, as the pool sizes blocks
	uint64_t reserved;      // the maximum it reserved on the device, if it reserves more than one stretch
	uint64_t ours;          // host memory of the loop, not of the allocator: one slot for each block
} peer_counters;

// The contenders in this object are numbered from 0; NULL ends them. A name must not contain a tab; the league is
// "bare", "equal" or, for contenders that run only in the races of threads, "threads".
const char *peer_name(int which);
const char *peer_league(int which);

// Returns a pool of that many bytes for traces with that many blocks, or NULL if it cannot be created.
void *peer_open(int which, uint64_t bytes, uint64_t blocks);

// Executes operations and returns the nanoseconds they took, or -1 - i if operation i found no memory. addrs, unless
// NULL, receives the address of each operation's block, nanos the time of each, including the clock's own.
int64_t peer_run(void *pool, const peer_op *ops, uint64_t count, uint64_t *addrs, uint32_t *nanos);

// Returns the same allocator for another thread, with slots for that many blocks of its own. It is closed like a pool.
// An object without this function takes no part in the races of threads.
void *peer_beside(void *pool, uint64_t blocks);

void peer_count(void *pool, peer_counters *counters);
void peer_close(void *pool);

#ifdef __cplusplus
}
#endif

#endif
