// What a contender offers: a shared object with these functions. A pool is one allocator and the blocks that a trace has taken of
// it. The loop over a trace runs inside, so that no call between languages is in a figure.

#ifndef GPUCONF_BENCHMARKS_PEER_H
#define GPUCONF_BENCHMARKS_PEER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An operation allocates a block or, with 0 bytes, frees it. (tests_go/traces has the same in Go.)
typedef struct {
  uint32_t block;
  uint64_t bytes;
} peer_op;

// What a pool tells of itself, in bytes. 0: it keeps no such book.
typedef struct {
  uint64_t current, peak;  // live, as the pool sizes blocks
  uint64_t reserved;       // the most it took from the device, where it takes more than one stretch
  uint64_t ours;           // host memory of the loop, not of the allocator: one slot for each block
} peer_books;

// The contenders in this object are numbered from 0; NULL ends them. A name may not have a tab; the league is "bare" or "equal".
const char *peer_name(int which);
const char *peer_league(int which);

// A pool of that many bytes for traces with that many blocks; NULL if there is none to be had.
void *peer_open(int which, uint64_t bytes, uint64_t blocks);

// Does operations and gives the nanoseconds they took, or -1 - i if operation i found no memory. addrs, unless NULL, gets the address
// of each operation's block, nanos the time of each, the clock's own included.
int64_t peer_run(void *pool, const peer_op *ops, uint64_t count, uint64_t *addrs, uint32_t *nanos);

void peer_tell(void *pool, peer_books *books);
void peer_close(void *pool);

#ifdef __cplusplus
}
#endif

#endif
