/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: reservations, handles, mappings
 * (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html).
 *
 * A handle refers to memory, and memory is a part of its GPU's file, so that it can be mapped at any address and sent
 * to another process. The machine's lock guards all of it. Always:
 *
 *  1. Reservations and mappings are in the order of their addresses, no two of a kind overlap, and each mapping lies
 *     in a reservation.
 *  2. A handle lives while it is held or mapped, and memory while it has a handle or an open descriptor.
 *     memory->handles counts its handles.
 *  3. Memory of a GPU is charged to it in full from cuMemCreate to its end; what is exported is charged to the share
 *     instead, and what was imported is not charged here.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"
#include "../../machine/models/spec.h"
#include "../../lease/budget/locks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The region of reservations: usually below libraries and stacks, and where ThreadSanitizer lets a program map. It has
 * 512 GiB; what does not fit there lies where the kernel puts it.
 */
#define FIRST_RESERVATION UINT64_C(0x7e8000000000)
#define LAST_RESERVATION UINT64_C(0x7f0000000000)

typedef struct {
	int type, handle_types;
	struct location location;
	void *metadata;
	unsigned char compression, rdma; /* for GPUDirect RDMA */
	unsigned char flags[6];
} allocation_prop;

typedef struct {
	struct location location;
	int flags;
} access_desc;

/* Physical memory: a part of a file. It lives until no handle of any process refers to it, and no descriptor that
 * exports it is open. */
struct memory {
	uint64_t bytes, offset;
	int gpu, file;
	int host;    /* it is not on the GPU, though in its file */
	int foreign; /* of another process's GPU, which counts it there */
	int types;   /* of shareable handles */
	int compression;
	int handles;
	uint64_t share; /* its number among what is exported on shared cards, or 0 */
	struct memory *next;
	int rdma;
};

struct handle {
	struct memory *memory;
	int held, mappings, imported;
	struct handle *next;
};

struct mapping {
	struct range range;
	struct handle *handle;
	uint64_t access, writes; /* a bit for each GPU */
	struct mapping *next;
	struct notes notes;
};

struct reservation { /* in order of their addresses */
	struct range range;
	struct reservation *next;
};

/* What a GPU may do with a mapping, as cuMemGetAccess says it. */
static int flags_of(const struct mapping *mapping, int gpu) {
	if ((mapping->access >> gpu & 1) == 0)
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return mapping->writes >> gpu & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
}

int find_mapping(uint64_t addr, struct place *out) {
	for (struct mapping *mapping = m->mappings; mapping != NULL; mapping = mapping->next)
		if (inside(addr, 1, mapping->range)) {
			const struct memory *memory = mapping->handle->memory;
			*out = (struct place){.range = mapping->range,
			    .gpu = memory->host ? -1 : memory->gpu,
			    .mapped = 1,
			    .rdma = memory->rdma,
			    .access = flags_of(mapping, memory->gpu), /* of the GPU that has the memory */
			    .handle_types = memory->types,
			    .notes = &mapping->notes};
			return 1;
		}
	return 0;
}

/* For tests, which look for what a program has left. */
void count_virtual(int *handle_count, int *mapping_count, int *reservation_count) {
	*handle_count = *mapping_count = *reservation_count = 0;
	for (struct handle *one = m->handles; one != NULL; one = one->next)
		*handle_count += one->held;
	for (struct mapping *one = m->mappings; one != NULL; one = one->next)
		++*mapping_count;
	for (struct reservation *one = m->reservations; one != NULL; one = one->next)
		++*reservation_count;
}

/* Memory of the host lies in the file of the first GPU, and is not charged to it. */
static CUresult check_prop(const allocation_prop *prop) {
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type < CU_MEM_LOCATION_TYPE_DEVICE ||
	    prop->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA || prop->compression > 1)
		return INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && prop->location.id != 0)
		return INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return m->vmm ? SUCCESS : NOT_SUPPORTED;
	KNOWN(prop->location.id);
	return m->gpu[prop->location.id].vmm ? SUCCESS : NOT_SUPPORTED;
}

/* A card's large page of 2 MiB, as the minimum and as what is recommended. */
EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const allocation_prop *prop, int option) {
	CALLED(cuMemGetAllocationGranularity);
	if (bytes == NULL || prop == NULL || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
	    option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return INVALID_VALUE;
	*bytes = GRANULE;
	return m->vmm ? SUCCESS : NOT_SUPPORTED; /* it does not look at the properties */
}

static int overlap(struct range range, uint64_t addr, uint64_t bytes) {
	return range.addr < addr + bytes && addr < range.addr + range.bytes;
}

static int is_mapped(uint64_t addr, uint64_t bytes) {
	for (const struct mapping *mapping = m->mappings; mapping != NULL; mapping = mapping->next)
		if (overlap(mapping->range, addr, bytes))
			return 1;
	return 0;
}

/*
 * Strictly, an address that is not mapped faults, and so does one of a reservation that was freed. A reservation takes
 * the first place of its region where it fits, whatever threads and libraries have mapped meanwhile. So only a later
 * reservation uses the addresses of a freed one again, as with NVIDIA's driver.
 */
static uint64_t reserve(uint64_t bytes, uint64_t alignment) {
	if (m->to_the_byte)
		return take_range(bytes, alignment, PROT_NONE);
	if (alignment < LARGEST_PAGE)
		alignment = LARGEST_PAGE;
	uint64_t addr = (FIRST_RESERVATION + alignment - 1) / alignment * alignment;
	for (const struct reservation *one = m->reservations; one != NULL; one = one->next)
		if (overlap(one->range, addr, bytes))
			addr = (one->range.addr + one->range.bytes + alignment - 1) / alignment * alignment;
	addr = map_from(addr, LAST_RESERVATION, bytes, alignment, PROT_NONE);
	return addr != 0 ? addr : map_anywhere(bytes, alignment, PROT_NONE);
}

/* A machine that counts to the byte has its ranges from the list that it uses again. */
static void drop_reservation(struct reservation **link) {
	struct reservation *gone = TAKE_OUT(link);
	if (m->to_the_byte)
		give_range(gone->range.addr);
	else
		munmap((void *)(uintptr_t)gone->range.addr, gone->range.bytes);
	free(gone);
}

/* A hint is looked at only as far as that it is aligned: CUDA promises no more. */
EXPORT CUresult cuMemAddressReserve(
    CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
	CALLED(cuMemAddressReserve);
	uint64_t unit = m->lenient ? GRANULE : 4096; /* CUDA promises no more than pages, and gives more */
	if (!m->vmm)
		return NOT_SUPPORTED;
	if (out == NULL || bytes == 0 || bytes % unit != 0 || hint % unit != 0 || flags != 0 ||
	    (alignment & (alignment - 1)) != 0)
		return INVALID_VALUE;
	if (alignment < unit)
		alignment = unit;
	if (bytes > (UINT64_C(1) << 46) || alignment > (UINT64_C(1) << 46))
		return OUT_OF_MEMORY;
	LOCKED;
	uint64_t addr = reserve(bytes, alignment);
	if (addr == 0)
		return OUT_OF_MEMORY;
	struct reservation **link = &m->reservations;
	FIND(link, (*link)->range.addr >= addr);
	ADD(*link, .range = {addr, bytes});
	*out = addr;
	return SUCCESS;
}

/* Exactly what was reserved, and nothing of it mapped. */
EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes) {
	CALLED(cuMemAddressFree);
	LOCKED;
	struct reservation **link = &m->reservations;
	FIND(link, (*link)->range.addr == addr && (*link)->range.bytes == bytes);
	if (*link == NULL || is_mapped(addr, bytes))
		return INVALID_VALUE;
	drop_reservation(link);
	return SUCCESS;
}

/* The number of a handle is its address; it is looked up in the list before it is used as one. */
static CUhandle add_handle(struct memory *memory) {
	memory->handles++;
	return (CUhandle)(uintptr_t)ADD(m->handles, .memory = memory, .held = 1);
}

/* Each open descriptor that exports memory has a lock on the byte of its offset in the file. */
static int is_exported(const struct memory *memory) {
	return memory->types != 0 && !memory->foreign &&
	       locked_byte(memory->file, (int64_t)memory->offset, (int64_t)memory->offset) >= 0;
}

/* The same number in every process that has a descriptor of the memory. */
uint64_t number_of_export(int file, uint64_t offset) {
	struct stat facts;
	if (fstat(file, &facts) != 0)
		return 0;
	return (facts.st_ino ^ facts.st_dev << 32) * UINT64_C(0x9e3779b97f4a7c15) + offset / GRANULE;
}

/* What no handle and no descriptor has any more. The bytes are punched out of the file, and its offsets are not used
 * again: a stale descriptor finds nothing. */
static void end_unused(void) {
	for (struct memory **link = &m->memories; *link != NULL;) {
		struct memory *gone = *link;
		if (gone->handles > 0 || is_exported(gone)) {
			link = &gone->next;
			continue;
		}
		if (gone->foreign)
			close(gone->file);
		else
			fallocate(gone->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)gone->offset, (off_t)gone->bytes);
		if (gone->share != 0)
			leave_export(gone->share);
		if (!gone->foreign && !gone->host && gone->share != 0) /* what is exported is charged to the share */
			m->gpu[gone->gpu].used -= gone->bytes;
		else if (!gone->foreign && !gone->host)
			leave_card(&m->gpu[gone->gpu], gone->bytes);
		*link = gone->next;
		free(gone);
	}
}

/* Descriptors are closed without a call of the driver's library. */
void exports_closed(void) {
	if (m->has_exports)
		end_unused();
}

int exports_live(void) {
	exports_closed();
	for (const struct memory *one = m->memories; one != NULL; one = one->next)
		if (one->foreign || is_exported(one))
			return 1;
	return 0;
}

/*
 * A card without a limit still holds no more than its size in memory that is mapped nowhere. PyTorch reserves 9/8 of a
 * card for a segment, fills it before it maps anything, and up to 2.6 reads beyond its end if the card never refuses.
 */
static int too_much_unmapped(const struct gpu *gpu, int number, uint64_t bytes) {
	if (gpu->spill != NO_LIMIT)
		return 0;
	for (struct handle *handle = m->handles; handle != NULL; handle = handle->next)
		if (handle->mappings == 0 && !handle->memory->host && handle->memory->gpu == number)
			bytes += handle->memory->bytes;
	return bytes > gpu->total;
}

/* All that is refused comes before the card is charged; then the file grows, which may fail, too. */
EXPORT CUresult cuMemCreate(CUhandle *out, size_t bytes, const allocation_prop *prop, unsigned long long flags) {
	CALLED(cuMemCreate);
	if (out == NULL || prop == NULL || bytes == 0 || bytes % GRANULE != 0 || flags != 0 ||
	    (prop->handle_types & ~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC)) != 0)
		return INVALID_VALUE;
	TRY(check_prop(prop));
	if ((prop->handle_types & CU_MEM_HANDLE_TYPE_FABRIC) != 0 && m->lenient)
		return NOT_PERMITTED; /* the process has no channel of an NVLink fabric */
	LOCKED;
	int host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE, number = host ? 0 : prop->location.id;
	struct gpu *gpu = &m->gpu[number];
	exports_closed();
	if (!host && (too_much_unmapped(gpu, number, bytes) || !use_card(gpu, bytes)))
		return OUT_OF_MEMORY;
	if (ftruncate64(gpu->memory_file, (off64_t)(gpu->file_end + bytes)) != 0) {
		if (!host)
			leave_card(gpu, bytes);
		return OUT_OF_MEMORY;
	}
	*out = add_handle(ADD(m->memories, .bytes = bytes, .offset = gpu->file_end, .gpu = number, .file = gpu->memory_file,
	    .host = host, .types = prop->handle_types, .rdma = prop->rdma, .compression = prop->compression));
	gpu->file_end += bytes; /* offsets in the file are never reused; holes cost nothing */
	watch_host_memory();
	return SUCCESS;
}

/* A handle that was released is not valid, although its mappings keep it. */
static struct handle *find_handle(CUhandle number) {
	struct handle **link = &m->handles;
	FIND(link, *link == (struct handle *)(uintptr_t)number && (*link)->held);
	return *link;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(allocation_prop *out, CUhandle number) {
	CALLED(cuMemGetAllocationPropertiesFromHandle);
	NEED(out);
	LOCKED;
	const struct handle *handle = find_handle(number);
	NEED(handle);
	const struct memory *memory = handle->memory;
	*out = (allocation_prop){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .handle_types = handle->imported ? 0 : memory->types,
	    .location = {memory->host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
	        memory->host ? 0 : memory->gpu},
	    .compression = (unsigned char)memory->compression,
	    .rdma = (unsigned char)memory->rdma};
	return SUCCESS;
}

/* Memory is looked at when its last handle goes; a descriptor may still have it then. */
static void drop_handle(struct handle *handle) {
	if (handle->held || handle->mappings > 0)
		return;
	struct handle **at = &m->handles;
	while (*at != handle)
		at = &(*at)->next;
	*at = handle->next;
	if (--handle->memory->handles == 0)
		end_unused();
	free(handle);
}

/* Multicast objects have handles, too. */
EXPORT CUresult cuMemRelease(CUhandle number) {
	CALLED(cuMemRelease);
	LOCKED;
	struct handle *handle = find_handle(number);
	if (handle == NULL)
		return end_multicast(number) ? SUCCESS : INVALID_VALUE;
	handle->held--;
	drop_handle(handle);
	return SUCCESS;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUhandle *out, void *addr) {
	CALLED(cuMemRetainAllocationHandle);
	LOCKED;
	struct mapping **link = &m->mappings;
	FIND(link, inside((uint64_t)(uintptr_t)addr, 1, (*link)->range));
	NEED(*link);
	(*link)->handle->held++;
	*out = (CUhandle)(uintptr_t)(*link)->handle;
	return SUCCESS;
}

/* What a shareable handle says: the part of the file. A descriptor says it by its position, and the card, too. */
#define CARD_BITS 56
struct part {
	uint64_t file, offset, bytes, rest[5];
};

/* Each descriptor is the file opened anew, with a lock of its own, which shows the exporter that it is open, and with
 * a position that says which part it is. */
static int export_descriptor(const struct memory *memory) {
	int descriptor = open_again(memory->file);
	off_t position =
	    (off_t)((memory->offset + memory->bytes / GRANULE) | (uint64_t)(m->gpu[memory->gpu].physical + 1) << CARD_BITS);
	m->has_exports = 1;
	if (descriptor >= 0 &&
	    (!share_byte(descriptor, (int64_t)memory->offset) || lseek(descriptor, position, SEEK_SET) < 0)) {
		close(descriptor);
		return -1;
	}
	return descriptor;
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUhandle number, int type, unsigned long long flags) {
	CALLED(cuMemExportToShareableHandle);
	struct stat facts;
	LOCKED;
	struct handle *handle = find_handle(number);
	if (handle == NULL || flags != 0 || (handle->memory->types & type) == 0 || handle->memory->foreign)
		return INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		if (fstat(handle->memory->file, &facts) == 0)
			*(struct part *)out = (struct part){facts.st_ino, handle->memory->offset, handle->memory->bytes, {0}};
		return SUCCESS;
	}
	*(int *)out = export_descriptor(handle->memory);
	if (*(int *)out < 0)
		return UNKNOWN;
	struct memory *memory = handle->memory; /* from now on another process may hold it, too */
	uint64_t share = memory->share == 0 && !memory->host ? number_of_export(memory->file, memory->offset) : 0;
	if (share != 0 && share_export(&m->gpu[memory->gpu], share, memory->bytes))
		memory->share = share;
	return SUCCESS;
}

/* The same memory, where a process imports what it has exported itself. */
static struct memory *part_of_ours(const struct part *part) {
	struct stat facts;
	struct memory **link = &m->memories;
	FIND(link, !(*link)->foreign && (*link)->offset == part->offset && fstat((*link)->file, &facts) == 0 &&
	               facts.st_ino == part->file);
	return *link;
}

/* Whatever the program says is a descriptor of memory, and of a card that it sees. */
static int read_position(int descriptor, struct part *part, int *gpu) {
	struct stat facts;
	off_t at = is_memory_file(descriptor, MEMORY_FILE) ? lseek(descriptor, 0, SEEK_CUR) : -1;
	if (at < 0 || fstat(descriptor, &facts) != 0)
		return 0;
	uint64_t position = (uint64_t)at & ((UINT64_C(1) << CARD_BITS) - 1);
	*part = (struct part){facts.st_ino, position / GRANULE * GRANULE, position % GRANULE * GRANULE, {0}};
	for (*gpu = 0; *gpu < m->gpus; ++*gpu)
		if ((uint64_t)m->gpu[*gpu].physical + 1 == (uint64_t)at >> CARD_BITS)
			return part->bytes > 0;
	return 0;
}

/* The exporter counts the bytes; here the memory is a view of its file. */
static struct memory *import_foreign(int descriptor, const struct part *part, int gpu) {
	int file = open_again(descriptor);
	if (file < 0 || !share_byte(file, (int64_t)part->offset)) { /* so that its exporter keeps it */
		if (file >= 0)
			close(file);
		return NULL;
	}
	uint64_t number = number_of_export(file, part->offset);
	return ADD(m->memories, .bytes = part->bytes, .offset = part->offset, .gpu = gpu, .file = file, .foreign = 1,
	    .share = join_export(number) ? number : 0);
}

static struct memory *import_descriptor(int descriptor) {
	struct part part;
	int gpu;
	if (!read_position(descriptor, &part, &gpu))
		return NULL;
	struct memory *ours = part_of_ours(&part);
	return ours != NULL ? ours : import_foreign(descriptor, &part, gpu);
}

/* A descriptor is passed by value, in place of the pointer. A fabric handle of another process is not modeled. */
EXPORT CUresult cuMemImportFromShareableHandle(CUhandle *out, void *shared, int type) {
	CALLED(cuMemImportFromShareableHandle);
	struct memory *memory = NULL;
	NEED(out);
	if (type == CU_MEM_HANDLE_TYPE_WIN32)
		return NOT_SUPPORTED;
	LOCKED;
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		memory = import_descriptor((int)(intptr_t)shared);
	else if (type == CU_MEM_HANDLE_TYPE_FABRIC && shared != NULL)
		memory = part_of_ours(shared);
	if (memory == NULL)
		return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? UNKNOWN : INVALID_VALUE;
	*out = add_handle(memory);
	((struct handle *)(uintptr_t)*out)->imported = 1;
	return SUCCESS;
}

struct handle *import_part(int descriptor, uint64_t *bytes) {
	struct memory *memory = import_descriptor(descriptor);
	if (memory == NULL)
		return NULL;
	struct handle *handle = (struct handle *)(uintptr_t)add_handle(memory);
	handle->held = 0, handle->mappings = 1;
	*bytes = memory->bytes;
	return handle;
}

/* A reference more. */
int file_of_part(struct handle *handle, uint64_t *offset, int *gpu) {
	handle->mappings++;
	*offset = handle->memory->offset;
	*gpu = handle->memory->gpu;
	return handle->memory->file;
}

/* For multicast.c: a reference more to memory of a GPU. NULL if there is none, or not all of it. */
struct handle *hold_part(CUhandle number, uint64_t offset, uint64_t bytes, int *gpu) {
	struct handle *handle = find_handle(number);
	if (handle == NULL || handle->memory->host || offset > handle->memory->bytes ||
	    bytes > handle->memory->bytes - offset)
		return NULL;
	handle->mappings++;
	*gpu = handle->memory->gpu;
	return handle;
}

struct handle *hold_mapped(uint64_t addr, uint64_t bytes, int *gpu) {
	struct mapping **link = &m->mappings;
	FIND(link, inside(addr, bytes, (*link)->range));
	if (*link == NULL || (*link)->handle->memory->host)
		return NULL;
	(*link)->handle->mappings++;
	*gpu = (*link)->handle->memory->gpu;
	return (*link)->handle;
}

void release_part(struct handle *handle) {
	handle->mappings--;
	drop_handle(handle);
}

/* Sparse arrays refer to memory, one at a time; which part of which is not modeled. */

typedef struct {
	int resource_type;
	void *resource;
	int subresource_type;
	unsigned long long subresource[4];
	int operation, handle_type;
	CUhandle handle;
	unsigned long long offset;
	unsigned device_mask, flags, reserved[2];
} array_map;

EXPORT CUresult cuMemMapArrayAsync(array_map *list, unsigned count, CUstream stream) {
	REFUSE(ANY_TIME, list == NULL || count == 0, INVALID_VALUE);
	CALLED_IN_SINCE(11010, stream, cuMemMapArrayAsync);
	(void)stream;
	LOCKED;
	for (unsigned i = 0; i < count; i++) {
		int maps = list[i].operation == CU_MEM_OPERATION_TYPE_MAP;
		struct handle *handle = maps ? find_handle(list[i].handle) : m->tiled;
		NEED(handle);
		handle->mappings += maps ? 1 : -1;
		m->tiled = maps ? handle : NULL;
		drop_handle(handle);
	}
	return SUCCESS;
}

EXPORT CUresult cuMemMapArrayAsync_ptsz(array_map *list, unsigned count, CUstream stream) {
	return cuMemMapArrayAsync(list, count, stream);
}

static int reserved(uint64_t addr, uint64_t bytes) {
	struct reservation **link = &m->reservations;
	FIND(link, addr - (*link)->range.addr < (*link)->range.bytes && inside(addr, bytes, (*link)->range));
	return *link != NULL;
}

/* Nothing can access it until cuMemSetAccess. */
EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset, CUhandle number, unsigned long long flags) {
	CALLED(cuMemMap);
	LOCKED;
	struct handle *handle = find_handle(number);
	if (handle == NULL || flags != 0 || bytes == 0 || addr == 0)
		return INVALID_VALUE;
	if (offset != 0 || bytes != handle->memory->bytes) /* a handle is mapped as a whole */
		return NOT_SUPPORTED;
	if (addr % GRANULE != 0 || !reserved(addr, bytes) || is_mapped(addr, bytes))
		return INVALID_VALUE;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->memory->file,
	        (off_t)handle->memory->offset) == MAP_FAILED)
		return OUT_OF_MEMORY; /* the host limits the number of mappings */
	struct mapping **link = &m->mappings;
	FIND(link, (*link)->range.addr > addr);
	ADD(*link, .range = {addr, bytes}, .handle = handle);
	handle->mappings++;
	return SUCCESS;
}

static void drop_mapping(struct mapping **link) {
	struct mapping *gone = TAKE_OUT(link);
	gone->handle->mappings--;
	drop_handle(gone->handle);
	free(gone);
}

/* The first of the whole mappings that make up a range, and the end of the last; NULL if they do not. */
static struct mapping **whole(uint64_t addr, uint64_t bytes, struct mapping **end) {
	struct mapping **first = &m->mappings;
	FIND(first, (*first)->range.addr >= addr);
	uint64_t next = addr;
	struct mapping *mapping = *first;
	for (; mapping != NULL && mapping->range.addr == next && next < addr + bytes; mapping = mapping->next)
		next += mapping->range.bytes;
	*end = mapping;
	return bytes > 0 && next == addr + bytes ? first : NULL;
}

/* Whole mappings only. The addresses stay reserved, and fault as before. */
EXPORT CUresult cuMemUnmap(CUdeviceptr addr, size_t bytes) {
	CALLED(cuMemUnmap);
	struct mapping *end;
	LOCKED;
	struct mapping **first = whole(addr, bytes, &end);
	if (first == NULL) { /* in reserved addresses where nothing is mapped, whose end NVIDIA's driver does not look at */
		int nothing = m->lenient && bytes > 0 && addr % GRANULE == 0 && bytes % GRANULE == 0 &&
		              reserved(addr, GRANULE) && !is_mapped(addr, bytes);
		return nothing ? SUCCESS : INVALID_VALUE;
	}
	mmap((void *)(uintptr_t)addr, bytes, m->to_the_byte ? PROT_READ | PROT_WRITE : PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	while (*first != end)
		drop_mapping(first);
	return SUCCESS;
}

/* The refusals by one GPU of a list, for mappings from first up to end. */
static CUresult may_access(const access_desc *access, struct mapping *first, const struct mapping *end) {
	int gpu = access->location.id, type = access->location.type;
	if (type != CU_MEM_LOCATION_TYPE_DEVICE)
		return type > CU_MEM_LOCATION_TYPE_INVALID && type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ? NOT_SUPPORTED
		                                                                                             : INVALID_VALUE;
	if ((access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
	    unknown_device(gpu))
		return INVALID_VALUE;
	for (struct mapping *mapping = first; mapping != end; mapping = mapping->next) {
		int owner = mapping->handle->memory->gpu;
		if (owner != gpu && (owner < 0 || !can_access(gpu, owner)))
			return INVALID_DEVICE;
		/* Though the attribute says that it is supported: github.com/pytorch/pytorch/issues/192330. */
		if (mapping->handle->memory->rdma && m->gpu[gpu].profile & GPUCONF_WSL)
			return UNKNOWN;
	}
	return SUCCESS;
}

/* Access is a bit for each GPU, and to write one more. */
static void allow(struct mapping *mapping, int gpu, int flags) {
	uint64_t bit = UINT64_C(1) << gpu;
	mapping->access = flags != 0 ? mapping->access | bit : mapping->access & ~bit;
	mapping->writes = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? mapping->writes | bit : mapping->writes & ~bit;
}

/* All GPUs of the list get access, or none. */
EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const access_desc *access, size_t count) {
	CALLED(cuMemSetAccess);
	struct mapping *end;
	LOCKED;
	struct mapping **first = access != NULL && count > 0 ? whole(addr, bytes, &end) : NULL;
	NEED(first);
	for (size_t i = 0; i < count; i++)
		TRY(may_access(&access[i], *first, end));
	mprotect((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE);
	for (struct mapping *mapping = *first; mapping != end; mapping = mapping->next)
		for (size_t i = 0; i < count; i++)
			allow(mapping, access[i].location.id, access[i].flags);
	return SUCCESS;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const struct location *where, CUdeviceptr addr) {
	CALLED(cuMemGetAccess);
	if (flags == NULL || where == NULL || where->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return INVALID_VALUE;
	KNOWN(where->id);
	LOCKED;
	struct mapping **link = &m->mappings;
	FIND(link, inside(addr, 1, (*link)->range));
	NEED(*link);
	*flags = (unsigned long long)flags_of(*link, where->id);
	return SUCCESS;
}

/* A range may lie in several mappings that are adjacent, as one allocation of PyTorch's expandable segments does. */
int within_mappings(uint64_t addr, uint64_t bytes, int gpu) {
	for (struct mapping *mapping = m->mappings; mapping != NULL && bytes > 0; mapping = mapping->next) {
		if (!inside(addr, 1, mapping->range))
			continue;
		if ((mapping->access >> gpu & 1) == 0)
			return 0;
		uint64_t here = mapping->range.bytes - (addr - mapping->range.addr);
		if (bytes <= here)
			return 1;
		addr += here;
		bytes -= here;
	}
	return 0;
}

/* Mappings first, since they hold handles, and then what is held. */
void end_virtual(void) {
	end_multicasts();
	while (m->mappings != NULL)
		drop_mapping(&m->mappings);
	while (m->handles != NULL) {
		m->handles->held = 0;
		drop_handle(m->handles);
	}
	while (m->reservations != NULL)
		drop_reservation(&m->reservations);
}
