/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of other processes. A pool that was made for descriptors has its memory in a file, and a descriptor is that
 * file, open once more. An imported pool allocates nothing: it only gives the addresses of what its maker has allocated
 * and described.
 *
 * From its first export on, all that a pool reserves is a share of the card, which ends with the last process that has
 * the pool.
 */
#include "outside.h"

#include "../../lease/budget/locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTOR = 1 }; /* CUmemAllocationHandleType */

/* As CUmemPoolPtrExportData. */
struct description {
	uint64_t device, inode, offset, bytes, rest[4];
};

/* The position of a descriptor names the card. */
static int export_pool(struct pool *pool) {
	int descriptor = open_again(pool->file);
	if (descriptor >= 0 && lseek(descriptor, m->gpu[pool->gpu].physical + 1, SEEK_SET) < 0) {
		close(descriptor);
		return -1;
	}
	uint64_t number = pool->share == 0 && descriptor >= 0 ? number_of_export(pool->file, 0) : 0;
	if (number != 0 && share_export(&m->gpu[pool->gpu], number, pool->reserved))
		pool->share = number;
	return descriptor;
}

EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, struct pool *handle, int type, unsigned long long flags) {
	CALLED_SINCE(11020, cuMemPoolExportToShareableHandle);
	if (out == NULL || flags != 0 || type != DESCRIPTOR)
		return INVALID_VALUE;
	LOCK;
	struct pool *pool = find_pool(handle);
	CUresult result = pool == NULL || pool->file <= 0 || pool->imported ? INVALID_VALUE : SUCCESS;
	if (result == SUCCESS) {
		int descriptor = export_pool(pool);
		result = descriptor < 0 ? OPERATING_SYSTEM : SUCCESS;
		if (result == SUCCESS)
			*(int *)out = descriptor;
	}
	UNLOCK;
	return result;
}

/* The card of a descriptor that a pool was exported as, or -1. */
static int card_of(int descriptor) {
	static const char wanted[] = "/memfd:" POOL_FILE " ";
	char path[64], name[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	if (descriptor < 0 || readlink(path, name, sizeof name) < (ssize_t)sizeof wanted - 1 ||
	    memcmp(name, wanted, sizeof wanted - 1) != 0)
		return -1;
	off_t at = lseek(descriptor, 0, SEEK_CUR);
	for (int i = 0; i < m->gpus; i++)
		if (at == m->gpu[i].physical + 1)
			return i;
	return -1;
}

/* A descriptor is passed by value, in place of the pointer. */
EXPORT CUresult cuMemPoolImportFromShareableHandle(
    struct pool **out, void *handle, int type, unsigned long long flags) {
	CALLED_SINCE(11020, cuMemPoolImportFromShareableHandle);
	if (out == NULL || type != DESCRIPTOR || flags != 0)
		return INVALID_VALUE;
	LOCK;
	int gpu = card_of((int)(intptr_t)handle), file = gpu >= 0 ? open_again((int)(intptr_t)handle) : -1;
	if (file >= 0) {
		struct pool *new = calloc(1, sizeof *new);
		uint64_t number = number_of_export(file, 0);
		*new = (struct pool){
		    .gpu = gpu, .imported = 1, .file = file, .share = join_export(number) ? number : 0, .next = m->pools};
		m->pools = new;
		*out = new;
	}
	UNLOCK;
	return file >= 0 ? SUCCESS : UNKNOWN;
}

static int describe(int file, struct description *out) {
	struct stat facts;
	int known = fstat(file, &facts) == 0;
	*out = (struct description){.device = known ? facts.st_dev : 0,
	    .inode = known ? facts.st_ino : 0,
	    .bytes = known ? (uint64_t)facts.st_size : 0};
	return known;
}

EXPORT CUresult cuMemPoolExportPointer(struct description *out, CUdeviceptr addr) {
	CALLED_SINCE(11020, cuMemPoolExportPointer);
	CUresult result = INVALID_VALUE;
	LOCK;
	struct outside *one = m->outside;
	while (one != NULL && one->range.addr != addr)
		one = one->next;
	if (out != NULL && one != NULL && one->kind == POOL_MEMORY && one->pool->file > 0 && !one->pool->imported &&
	    describe(one->pool->file, out)) {
		out->offset = one->offset, out->bytes = one->range.bytes;
		result = SUCCESS;
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *out, struct pool *handle, const struct description *described) {
	CALLED_SINCE(11020, cuMemPoolImportPointer);
	if (out == NULL || described == NULL)
		return INVALID_VALUE;
	struct description file;
	LOCK;
	struct pool *pool = find_pool(handle);
	CUresult result = pool == NULL || !pool->imported || !describe(pool->file, &file) ? INVALID_VALUE : SUCCESS;
	if (result == SUCCESS &&
	    (described->device != file.device || described->inode != file.inode || described->bytes == 0 ||
	        described->offset > file.bytes || described->bytes > file.bytes - described->offset))
		result = INVALID_VALUE;
	if (result == SUCCESS) {
		struct outside *new = add_mapped(pool->file, described->offset, described->bytes, pool->gpu, POOL_MEMORY);
		result = new == NULL ? OUT_OF_MEMORY : SUCCESS;
		if (new != NULL) {
			new->pool = pool;
			pool->used += described->bytes;
			*out = new->range.addr;
		}
	}
	UNLOCK;
	return result;
}
