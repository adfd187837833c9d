/* SPDX-License-Identifier: Apache-2.0 */
/* Memory outside of the arenas (outside.c), and the pools that have most of it. */
#ifndef OUTSIDE_H
#define OUTSIDE_H

#include "driver.h"

#define POOL_FILE "gpuconf-simulated-pool"

struct outside {
	struct range range, pages; /* pages: what is mapped of a file */
	uint64_t offset;           /* of range in the file */
	int gpu;
	enum outside_kind kind;
	struct pool *pool;
	uint64_t at;                /* in what the pool has reserved */
	struct outside *next_there; /* of the pool, in that order */
	struct context *context;
	struct handle *part; /* of external memory */
	struct outside *next;
	struct notes notes;
};

struct outside *add_outside(uint64_t bytes, int gpu, enum outside_kind kind, int flags);
struct outside *add_mapped(int file, uint64_t offset, uint64_t bytes, int gpu, enum outside_kind kind);
void drop_outside(struct outside **at);

/* pools.c */
struct pool *find_pool(struct pool *handle);
void leave_pool(struct outside *gone);
void pool_freed(struct pool *pool);

#endif
