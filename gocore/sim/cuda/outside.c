/* SPDX-License-Identifier: Apache-2.0 */
/* Memory outside of the arenas: of pools, of graphs, CUDA 2's 32-bit addresses, and what is mapped of external memory.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* Memory of a pool is accessible to the pool's GPU and to those that cuMemPoolSetAccess names, whether or not peer
 * access is enabled. */
static int may_access(const struct outside *one, int gpu) {
	return one->pool == NULL || one->pool->gpu < 0 || one->pool->gpu == gpu || (one->pool->granted >> gpu & 1);
}

/* The first range that has it decides: no two overlap. */
int within_outside(uint64_t addr, uint64_t bytes, int gpu) {
	struct outside **link = &m->outside;
	FIND(link, inside(addr, bytes, (*link)->range));
	return *link != NULL && may_access(*link, gpu);
}

int find_outside(uint64_t addr, struct place *out) {
	struct outside **link = &m->outside, *memory;
	FIND(link, inside(addr, 1, (*link)->range));
	if ((memory = *link) == NULL)
		return 0;
	*out = (struct place){.access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	    .range = memory->range,
	    .context = memory->context,
	    .gpu = memory->gpu,
	    .pool = memory->pool,
	    .notes = &memory->notes};
	return 1;
}

/* Addresses below 4 GiB come from the kernel at each call, since the machine's own range is above them. */
struct outside *add_outside(uint64_t bytes, int gpu, enum outside_kind kind, int flags) {
	const int access = PROT_READ | PROT_WRITE;
	uint64_t addr = kind != LOW_MEMORY ? take_range(bytes, GRANULE, access) : 0;
	if (kind == LOW_MEMORY && bytes > 0) {
		void *low = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
		addr = low == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)low;
	}
	if (addr == 0)
		return NULL;
	watch_host_memory();
	return ADD(m->outside, .range = {addr, bytes}, .gpu = gpu, .kind = kind);
}

/* A graph's addresses are fixed before it runs; its bytes are charged to the GPU's reserve for graphs. */
uint64_t add_graph_memory(uint64_t bytes, int gpu) {
	struct outside *new = add_outside(bytes, gpu, GRAPH_MEMORY, 0);
	return new == NULL ? 0 : new->range.addr;
}

/* The kernel shows the file as "/memfd:NAME (deleted)". */
int is_memory_link(const char *path, const char *name) {
	char target[64] = "";
	size_t length = strlen(name);
	return readlink(path, target, sizeof target - 1) >= 0 && strncmp(target, "/memfd:", 7) == 0 &&
	       strncmp(target + 7, name, length) == 0 && target[7 + length] == ' ';
}

int is_memory_file(int descriptor, const char *name) {
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	return descriptor >= 0 && is_memory_link(path, name);
}

int map_file(int file, uint64_t offset, uint64_t bytes, struct range *pages, struct range *range) {
	uint64_t begin = offset / PAGE * PAGE, length = (offset + bytes + PAGE - 1) / PAGE * PAGE - begin;
	uint64_t addr = take_range(length, GRANULE, PROT_READ | PROT_WRITE);
	if (addr == 0)
		return 0;
	if (mmap((void *)(uintptr_t)addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)begin) ==
	    MAP_FAILED) {
		give_range(addr);
		return 0;
	}
	*pages = (struct range){addr, length};
	*range = (struct range){addr + offset - begin, bytes};
	return 1;
}

void unmap_file(struct range pages) {
	mmap((void *)(uintptr_t)pages.addr, pages.bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	give_range(pages.addr);
}

struct outside *add_mapped(int file, uint64_t offset, uint64_t bytes, int gpu, enum outside_kind kind) {
	struct range pages, range;
	if (!map_file(file, offset, bytes, &pages, &range))
		return NULL;
	watch_host_memory();
	return ADD(m->outside, .range = range, .pages = pages, .offset = offset, .gpu = gpu, .kind = kind);
}

/* What is mapped of a file goes back to it, and what a pool of this process has there, to the host. */
static void unmap(const struct outside *gone) {
	const struct pool *pool = gone->pool;
	if (pool != NULL && pool->file > 0 && !pool->imported)
		fallocate(
		    pool->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)gone->offset, (off_t)gone->pages.bytes);
	unmap_file(gone->pages);
	if (gone->part != NULL)
		release_part(gone->part);
}

/* It stays mapped: a stale pointer reads garbage but never faults. */
void drop_outside(struct outside **link) {
	struct outside *gone = TAKE_OUT(link);
	if (gone->pages.bytes > 0)
		unmap(gone);
	else
		give_range(gone->range.addr);
	if (gone->kind == POOL_MEMORY)
		leave_pool(gone);
	if (gone->kind == LOW_MEMORY) {
		leave_card(&m->gpu[gone->gpu], pages(gone->range.bytes));
		munmap((void *)(uintptr_t)gone->range.addr, gone->range.bytes); /* there is little of it */
	}
	free(gone);
}

void end_outside(struct context *context) {
	DROP_EACH(m->outside, (*link)->context != NULL && (*link)->context == context, drop_outside);
}

/* A graph's memory stays where it is: the graph may run again. */
CUresult free_outside(uint64_t addr) {
	struct outside **link = &m->outside;
	FIND(link, (*link)->range.addr == addr);
	NEED(*link);
	if ((*link)->kind == GRAPH_MEMORY)
		return graph_memory_freed(addr);
	struct pool *pool = (*link)->pool;
	drop_outside(link);
	if (pool != NULL)
		pool_freed(pool);
	return SUCCESS;
}
