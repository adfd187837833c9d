/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management. Physical memory lives until neither a handle nor a mapping of it is left, and is charged
 * until then. Multicast bindings and tiles of sparse arrays refer to it like mappings. So do exported descriptors, and
 * what is imported in the job.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

struct physical {
	uint64_t bytes; /* 0 if it was imported: the share has them */
	int card, pools;
	uint64_t references;   /* handles and mappings, and 1 for descriptors; guarded by lock */
	uint64_t share;        /* its number, if it was exported or imported */
	int exported;          /* whether there may be a descriptor */
	struct physical *next; /* of those with a share */
};

int open_exports;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sharing =
    PTHREAD_MUTEX_INITIALIZER; /* while this process begins or ends to hold a share; taken before lock */
static struct physical *shares;

static void link_share(struct physical *physical, uint64_t id) {
	HOLD(lock);
	__atomic_store_n(&physical->share, id, __ATOMIC_RELEASE);
	physical->next = shares;
	shares = physical;
}

static void unlink_locked(struct physical *physical) {
	struct physical **at = &shares;

	while (*at != NULL && *at != physical)
		at = &(*at)->next;
	if (*at != NULL)
		*at = physical->next;
}

/* Returns whether it was the last reference. */
static int count_reference(struct physical *physical, int64_t difference) {
	HOLD(lock);
	physical->references += (uint64_t)difference;
	if (UNLIKELY(physical->references == 0 && physical->share != 0))
		unlink_locked(physical);
	else if (UNLIKELY(physical->exported && physical->references == 1))
		__atomic_store_n(&open_exports, 1, __ATOMIC_RELAXED);
	return physical->references == 0;
}

static void refer_shared(struct physical *physical, int64_t difference) {
	pthread_mutex_lock(&sharing);
	int last = count_reference(physical, difference);
	if (last)
		leave_share(physical->share);
	pthread_mutex_unlock(&sharing);
	if (last)
		free(physical);
}

static void refer(struct physical *physical, int64_t difference) {
	if (UNLIKELY(__atomic_load_n(&physical->share, __ATOMIC_ACQUIRE) != 0)) {
		refer_shared(physical, difference);
		return;
	}
	if (count_reference(physical, difference)) {
		give_for(physical->card, physical->bytes, physical->pools);
		free(physical);
	}
}

/* Memory whose last descriptor has been closed. Whether one is left is asked of the kernel. */
void end_exports(void) {
	for (;;) {
		struct physical *ended = NULL;
		int left = 0;
		pthread_mutex_lock(&lock);
		for (struct physical *one = shares; one != NULL && ended == NULL; one = one->next)
			if (one->exported && one->references == 1) {
				if (descriptor_lives(one->share))
					left = 1;
				else
					ended = one;
			}
		if (ended != NULL)
			ended->exported = 0;
		else
			__atomic_store_n(&open_exports, left, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
		if (ended == NULL)
			return;
		refer(ended, -1);
	}
}

EXPORT CUresult cuMemCreate(
    CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
	CUdevice device;

	TAKES(cuMemCreate, (out, bytes, prop, flags));
	if (prop == NULL || !on_device(&prop->location, &device))
		return INSIDE(real.cuMemCreate(out, bytes, prop, flags)); /* memory of the host */
	int card = card_of_device(device);
	if (card == NO_CARD && may_exist(device) && no_card() == CUDA_ERROR_OUT_OF_MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (card == NO_CARD)
		return INSIDE(real.cuMemCreate(out, bytes, prop, flags)); /* which the driver refuses */
	struct physical *physical = malloc(sizeof *physical);
	if (physical == NULL || !take_or_settle(card, bytes)) {
		free(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*physical = (struct physical){.bytes = bytes, .card = card, .pools = for_pools, .references = 1};
	CUresult result = INSIDE(real.cuMemCreate(out, bytes, prop, flags));
	if (result == CUDA_SUCCESS) {
		struct entry entry = {
		    .kind = HANDLE, .key = *out, .bytes = bytes, .owner = physical, .card = (int8_t)card, .count = 1};
		if (table_add(&entry))
			return CUDA_SUCCESS;
		INSIDE(real.cuMemRelease(*out));
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	give(card, bytes);
	free(physical);
	return result;
}

static void put_back(const struct entry *entry) {
	if (!table_add(entry))
		note("no host memory to record a handle: %llu bytes stay charged", (unsigned long long)entry->bytes);
}

/* A handle that the driver has just given out. */
static void add_handle(CUmemGenericAllocationHandle handle, struct physical *physical) {
	put_back(&(struct entry){.kind = HANDLE,
	    .key = handle,
	    .bytes = physical->bytes,
	    .owner = physical,
	    .card = (int8_t)physical->card,
	    .count = 1});
}

/*
 * Counts how often a handle must be released, and returns 0 if it is not charged. The entry with the new count is
 * written to *entry; it is not in the table any more if the count is 0. The lock is held, so that hold, on another
 * thread, does not look between the steps.
 */
static int count_locked(CUmemGenericAllocationHandle handle, int difference, struct entry *entry) {
	if (!table_remove(HANDLE, handle, entry))
		return 0;
	entry->count += (uint32_t)difference;
	if (entry->count > 0)
		put_back(entry);
	return 1;
}

static int count_handle(CUmemGenericAllocationHandle handle, int difference, struct entry *entry) {
	HOLD(lock);
	return count_locked(handle, difference, entry);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
	struct entry entry;

	GIVES(cuMemRelease, (handle));
	int charged = count_handle(handle, -1, &entry);
	CUresult result = INSIDE(real.cuMemRelease(handle));
	if (!charged)
		return result;
	if (result == CUDA_SUCCESS && entry.count == 0) {
		refer(entry.owner, -1);
		if (UNLIKELY(open_exports))
			end_exports();
	} else if (result != CUDA_SUCCESS && !count_handle(handle, 1, &entry)) {
		entry.count = 1;
		put_back(&entry);
	}
	return result;
}

/*
 * Adds a reference to a handle's memory, before the driver is asked. The lock is held meanwhile: a release on another
 * thread drops the handle's own reference only under it.
 */
static int hold(CUmemGenericAllocationHandle handle, struct physical **physical) {
	struct entry entry;

	HOLD(lock);
	int found = table_find(HANDLE, handle, &entry);
	if (found) {
		*physical = entry.owner;
		(*physical)->references++;
	}
	return found;
}

EXPORT CUresult cuMemMap(
    CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
	struct physical *physical;

	GIVES(cuMemMap, (address, bytes, offset, handle, flags));
	int charged = hold(handle, &physical);
	CUresult result = INSIDE(real.cuMemMap(address, bytes, offset, handle, flags));
	if (!charged)
		return result;
	struct entry entry = {.kind = MAPPING, .key = address, .bytes = bytes, .owner = physical};
	if (result != CUDA_SUCCESS)
		refer(physical, -1);
	else
		put_back(&entry);
	return result;
}

struct range {
	uint64_t from, to;
	struct entry found;
};

static int within(struct entry *entry, void *argument) {
	struct range *range = argument;

	if (entry->kind == MAPPING && entry->key >= range->from && entry->key < range->to)
		range->found = *entry;
	return 0;
}

/* The next mapping from an address on: nearly always one that begins there. */
static int take_mapping(struct range *range, struct entry *out) {
	if (table_remove(MAPPING, range->from, out))
		return 1;
	range->found.present = 0;
	table_each(within, range);
	return range->found.present && table_remove(MAPPING, range->found.key, out);
}

/* The driver unmaps whole mappings only, several at once if they follow each other. */
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
	struct range range = {.from = address, .to = address + bytes};
	struct entry entry, *gone = NULL;
	size_t count = 0;

	GIVES(cuMemUnmap, (address, bytes));
	while (range.from < range.to && take_mapping(&range, &entry)) {
		struct entry *more = realloc(gone, (count + 1) * sizeof *gone);
		if (more == NULL) {
			put_back(&entry);
			break;
		}
		gone = more;
		gone[count++] = entry;
		if (entry.key == range.from)
			range.from += entry.bytes;
	}
	CUresult result = INSIDE(real.cuMemUnmap(address, bytes));
	for (size_t i = 0; i < count; i++)
		if (result == CUDA_SUCCESS)
			refer(gone[i].owner, -1);
		else
			put_back(&gone[i]);
	free(gone);
	if (UNLIKELY(open_exports))
		end_exports();
	return result;
}

static int covers(struct entry *entry, void *argument) {
	struct range *range = argument;

	if (entry->kind == MAPPING && range->from >= entry->key && range->from - entry->key < entry->bytes)
		range->found = *entry;
	return 0;
}

/* Adds a reference to the memory that is mapped at an address. The lock is held. */
static int hold_mapped_locked(CUdeviceptr address, struct physical **physical) {
	struct range range = {.from = address};

	table_each(covers, &range);
	if (range.found.present) {
		*physical = range.found.owner;
		(*physical)->references++;
	}
	return range.found.present;
}

static int hold_mapped(CUdeviceptr address, struct physical **physical) {
	HOLD(lock);
	return hold_mapped_locked(address, physical);
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
	struct physical *physical;
	struct entry entry;

	GIVES(cuMemRetainAllocationHandle, (out, address));
	CUresult result = INSIDE(real.cuMemRetainAllocationHandle(out, address));
	if (result != CUDA_SUCCESS)
		return result;
	HOLD(lock); /* two threads may retain memory of which no handle is left */
	if (!count_locked(*out, 1, &entry) && hold_mapped_locked((CUdeviceptr)(uintptr_t)address, &physical))
		add_handle(*out, physical);
	return result;
}

/* The same number in every process. */
static uint64_t id_of_fabric(const void *handle) {
	const unsigned char *bytes = handle;
	uint64_t id = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < FABRIC_BYTES; i++)
		id = (id ^ bytes[i]) * UINT64_C(0x100000001b3);
	return id | 1; /* no descriptor's */
}

/* The memory belongs to the job from now on. The caller holds it; what was exported before keeps its number. */
static void exported(struct physical *physical, const void *out, int type) {
	HOLD(sharing);
	uint64_t before = physical->share & 1 ? 0 : physical->share;
	uint64_t id = type == CU_MEM_HANDLE_TYPE_FABRIC ? id_of_fabric(out) : mark_descriptor(*(const int *)out, before);

	if (id == 0)
		NOTE_ONCE("an exported descriptor cannot be told apart: what is imported of it is not counted when its "
		          "exporter frees it");
	else if (physical->share == 0 && share(id, physical->card, physical->bytes)) {
		if (physical->pools)
			mark_pools(physical->card, -(int64_t)physical->bytes);
		link_share(physical, id);
	}
	if (id != 0 && physical->share == id && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		HOLD(lock);
		physical->references += !physical->exported;
		physical->exported = 1;
	}
}

EXPORT CUresult cuMemExportToShareableHandle(
    void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags) {
	struct physical *physical;

	GIVES(cuMemExportToShareableHandle, (out, handle, type, flags));
	int charged = hold(handle, &physical);
	CUresult result = INSIDE(real.cuMemExportToShareableHandle(out, handle, type, flags));
	if (charged && result == CUDA_SUCCESS &&
	    (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || type == CU_MEM_HANDLE_TYPE_FABRIC))
		exported(physical, out, type);
	if (charged)
		refer(physical, -1);
	return result;
}

static struct physical *find_share(uint64_t id) {
	struct physical *one;

	HOLD(lock);
	for (one = shares; one != NULL && one->share != id;)
		one = one->next;
	if (one != NULL)
		one->references++;
	return one;
}

/* What a number stands for, with a reference, or NULL: it is not the job's. */
static struct physical *physical_of(uint64_t id) {
	struct physical *one;

	HOLD(sharing);
	if ((one = find_share(id)) != NULL || (one = calloc(1, sizeof *one)) == NULL)
		return one;
	if (!join_share(id)) {
		free(one);
		return NULL;
	}
	*one = (struct physical){.card = NO_CARD, .references = 1};
	link_share(one, id);
	return one;
}

/* The memory is held before the driver is asked, so that the exporter's release does not end it meanwhile. */
EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared, int type) {
	GIVES(cuMemImportFromShareableHandle, (out, shared, type));
	uint64_t id = 0;
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		id = id_of_descriptor((int)(intptr_t)shared);
	else if (type == CU_MEM_HANDLE_TYPE_FABRIC && shared != NULL)
		id = id_of_fabric(shared);
	struct physical *physical = id == 0 ? NULL : physical_of(id);
	CUresult result = INSIDE(real.cuMemImportFromShareableHandle(out, shared, type));
	if (physical == NULL)
		return result;
	struct entry entry = {0};
	if (result != CUDA_SUCCESS ||
	    count_handle(*out, 1, &entry)) /* a driver may return a handle that is there already */
		refer(physical, -1);
	else
		add_handle(*out, physical);
	return result;
}

/* A multicast object's binding, by the object and the offset in it. */
static uint64_t binding(CUmemGenericAllocationHandle multicast, uint64_t at) {
	return multicast * UINT64_C(0x9E3779B97F4A7C15) ^ at;
}

#define BIND(held, call) \
	struct physical *physical; \
	int charged = held; \
	CUresult result = INSIDE(call); \
	if (!charged) \
		return result; \
	struct entry entry = {.kind = BINDING, .key = binding(multicast, at), .bytes = bytes, .owner = physical}; \
	if (result != CUDA_SUCCESS) \
		refer(physical, -1); \
	else \
		put_back(&entry); \
	return result

EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t at,
    CUmemGenericAllocationHandle handle, size_t offset, size_t bytes, unsigned long long flags) {
	GIVES(cuMulticastBindMem, (multicast, at, handle, offset, bytes, flags));
	BIND(hold(handle, &physical), real.cuMulticastBindMem(multicast, at, handle, offset, bytes, flags));
}

EXPORT CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle multicast, CUdevice device, size_t at,
    CUmemGenericAllocationHandle handle, size_t offset, size_t bytes, unsigned long long flags) {
	GIVES(cuMulticastBindMem_v2, (multicast, device, at, handle, offset, bytes, flags));
	BIND(hold(handle, &physical), real.cuMulticastBindMem_v2(multicast, device, at, handle, offset, bytes, flags));
}

EXPORT CUresult cuMulticastBindAddr(
    CUmemGenericAllocationHandle multicast, size_t at, CUdeviceptr address, size_t bytes, unsigned long long flags) {
	GIVES(cuMulticastBindAddr, (multicast, at, address, bytes, flags));
	BIND(hold_mapped(address, &physical), real.cuMulticastBindAddr(multicast, at, address, bytes, flags));
}

EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle multicast, CUdevice device, size_t at,
    CUdeviceptr address, size_t bytes, unsigned long long flags) {
	GIVES(cuMulticastBindAddr_v2, (multicast, device, at, address, bytes, flags));
	BIND(hold_mapped(address, &physical), real.cuMulticastBindAddr_v2(multicast, device, at, address, bytes, flags));
}

EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, size_t at, size_t bytes) {
	struct entry entry;

	GIVES(cuMulticastUnbind, (multicast, device, at, bytes));
	int charged = table_remove(BINDING, binding(multicast, at), &entry);
	CUresult result = INSIDE(real.cuMulticastUnbind(multicast, device, at, bytes));
	if (charged && result == CUDA_SUCCESS)
		refer(entry.owner, -1);
	else if (charged)
		put_back(&entry);
	return result;
}

/* A tile of a sparse array, by the array and the place in it. */
static uint64_t tile(const CUarrayMapInfo *info) {
	uint64_t key =
	    (uint64_t)(uintptr_t)info->resource * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)info->subresource_type;

	if (info->subresource_type == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		return (key * 31 + info->subresource.miptail.layer) * 31 + info->subresource.miptail.offset;
	for (int i = 0; i < 5; i++) /* level, layer and offset */
		key = key * UINT64_C(1000003) + info->subresource.level[i];
	return key;
}

static void drop_tile(const CUarrayMapInfo *info) {
	struct entry entry;

	if (table_remove(BINDING, tile(info), &entry))
		refer(entry.owner, -1);
}

static void tiles_changed(const CUarrayMapInfo *list, unsigned int count) {
	struct physical *physical;

	for (unsigned int i = 0; i < count; i++) {
		drop_tile(&list[i]);
		if (list[i].operation != CU_MEM_OPERATION_TYPE_MAP || !hold(list[i].handle, &physical))
			continue;
		struct entry entry = {.kind = BINDING, .key = tile(&list[i]), .owner = physical};
		put_back(&entry);
	}
}

#define MAPS_ARRAYS(name) \
	EXPORT CUresult name(CUarrayMapInfo *list, unsigned int count, CUstream stream) { \
		GIVES(name, (list, count, stream)); \
		CUresult result = INSIDE(real.name(list, count, stream)); \
		if (result == CUDA_SUCCESS) \
			tiles_changed(list, count); \
		return result; \
	}
MAPS_ARRAYS(cuMemMapArrayAsync)
MAPS_ARRAYS(cuMemMapArrayAsync_ptsz)

void forget_virtual(void) {
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = sharing = fresh;
	shares = NULL;
	open_exports = 0;
}
