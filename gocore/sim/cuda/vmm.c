/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: reservations, handles, mappings. */
#include "driver.h"

#include "../../machine/cuda/constants.h"
#include "../../machine/models/spec.h"
#include "../../lease/budget/locks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	int type, id;
} location;

typedef struct {
	int type, handle_types;
	location location;
	void *metadata;
	unsigned char compression, rdma; /* for GPUDirect RDMA */
	unsigned char flags[6];
} allocation_prop;

typedef struct {
	location location;
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

static int flags_of(const struct mapping *mapping, int gpu) {
	if ((mapping->access >> gpu & 1) == 0)
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return mapping->writes >> gpu & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
}

/* Of the GPU that has the memory. */
static int access_here(const struct mapping *mapping) { return flags_of(mapping, mapping->handle->memory->gpu); }

int find_mapping(uint64_t addr, struct place *out) {
	for (struct mapping *one = m->mappings; one != NULL; one = one->next)
		if (inside(addr, 1, one->range)) {
			const struct memory *memory = one->handle->memory;
			*out = (struct place){.range = one->range,
			    .gpu = memory->host ? -1 : memory->gpu,
			    .mapped = 1,
			    .rdma = memory->rdma,
			    .access = access_here(one),
			    .handle_types = memory->types,
			    .notes = &one->notes};
			return 1;
		}
	return 0;
}

void count_virtual(int *handle_count, int *mapping_count, int *reservation_count) {
	*handle_count = *mapping_count = *reservation_count = 0;
	for (struct handle *one = m->handles; one != NULL; one = one->next)
		*handle_count += one->held;
	for (struct mapping *one = m->mappings; one != NULL; one = one->next)
		++*mapping_count;
	for (struct reservation *one = m->reservations; one != NULL; one = one->next)
		++*reservation_count;
}

static CUresult check_prop(const allocation_prop *prop) {
	if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type < CU_MEM_LOCATION_TYPE_DEVICE ||
	    prop->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA || prop->compression > 1)
		return INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && prop->location.id != 0)
		return INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return m->vmm ? SUCCESS : NOT_SUPPORTED;
	if (prop->location.id < 0 || prop->location.id >= m->gpus)
		return INVALID_DEVICE;
	return m->gpu[prop->location.id].vmm ? SUCCESS : NOT_SUPPORTED;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const allocation_prop *prop, int option) {
	CALLED(cuMemGetAllocationGranularity);
	if (bytes == NULL || prop == NULL || option < 0 || option > 1)
		return INVALID_VALUE;
	*bytes = GRANULE;
	return m->vmm ? SUCCESS : NOT_SUPPORTED; /* it does not look at the properties */
}

static int overlap(struct range range, uint64_t addr, uint64_t bytes) {
	return range.addr < addr + bytes && addr < range.addr + range.bytes;
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

static void unreserve(struct range range) {
	if (m->to_the_byte)
		give_range(range.addr);
	else
		munmap((void *)(uintptr_t)range.addr, range.bytes);
}

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
	LOCK;
	uint64_t addr = reserve(bytes, alignment);
	if (addr == 0) {
		UNLOCK;
		return OUT_OF_MEMORY;
	}
	struct reservation *new = calloc(1, sizeof *new), **at = &m->reservations;
	while (*at != NULL && (*at)->range.addr < addr)
		at = &(*at)->next;
	*new = (struct reservation){{addr, bytes}, *at};
	*at = new;
	UNLOCK;
	*out = addr;
	return SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes) {
	CALLED(cuMemAddressFree);
	CUresult result = INVALID_VALUE;
	LOCK;
	struct reservation **at = &m->reservations;
	while (*at != NULL && ((*at)->range.addr != addr || (*at)->range.bytes != bytes))
		at = &(*at)->next;
	int busy = 0;
	for (struct mapping *one = m->mappings; one != NULL; one = one->next)
		busy |= overlap(one->range, addr, bytes);
	if (*at != NULL && !busy) {
		struct reservation *gone = *at;
		*at = gone->next;
		unreserve(gone->range);
		free(gone);
		result = SUCCESS;
	}
	UNLOCK;
	return result;
}

static CUhandle add_handle(struct memory *memory) {
	struct handle *new = calloc(1, sizeof *new);
	*new = (struct handle){.memory = memory, .held = 1, .next = m->handles};
	m->handles = new;
	memory->handles++;
	return (CUhandle)(uintptr_t)new;
}

static struct memory *add_memory(struct memory memory) {
	struct memory *new = calloc(1, sizeof *new);
	*new = memory;
	new->next = m->memories;
	m->memories = new;
	return new;
}

/* Each open descriptor that exports memory has a lock on the byte of its offset in the file. */
static int is_exported(const struct memory *memory) {
	return memory->types != 0 && !memory->foreign &&
	       locked_byte(memory->file, (int64_t)memory->offset, (int64_t)memory->offset) >= 0;
}

/* What is exported is charged to the share. */
static void leave_memory(const struct memory *memory) {
	if (memory->share == 0)
		leave_card(&m->gpu[memory->gpu], memory->bytes);
	else
		m->gpu[memory->gpu].used -= memory->bytes;
}

/* The same number in every process that has a descriptor of the memory. */
uint64_t number_of_export(int file, uint64_t offset) {
	struct stat facts;
	uint64_t number = fstat(file, &facts) != 0
	                      ? 0
	                      : (facts.st_ino ^ facts.st_dev << 32) * UINT64_C(0x9e3779b97f4a7c15) + offset / GRANULE;
	return number;
}

static void end_unused(void) {
	for (struct memory **at = &m->memories; *at != NULL;) {
		struct memory *one = *at;
		if (one->handles > 0 || is_exported(one)) {
			at = &one->next;
			continue;
		}
		if (one->foreign)
			close(one->file);
		else
			fallocate(one->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)one->offset, (off_t)one->bytes);
		if (one->share != 0)
			leave_export(one->share);
		if (!one->foreign && !one->host)
			leave_memory(one);
		*at = one->next;
		free(one);
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

EXPORT CUresult cuMemCreate(CUhandle *out, size_t bytes, const allocation_prop *prop, unsigned long long flags) {
	CALLED(cuMemCreate);
	if (out == NULL || prop == NULL || bytes == 0 || bytes % GRANULE != 0 || flags != 0 ||
	    (prop->handle_types & ~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC)) != 0)
		return INVALID_VALUE;
	CUresult result = check_prop(prop);
	if (result != SUCCESS)
		return result;
	if ((prop->handle_types & CU_MEM_HANDLE_TYPE_FABRIC) != 0 && m->lenient)
		return NOT_PERMITTED; /* the process has no channel of an NVLink fabric */
	LOCK;
	int host = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE, number = host ? 0 : prop->location.id;
	struct gpu *gpu = &m->gpu[number];
	exports_closed();
	if (!host && (too_much_unmapped(gpu, number, bytes) || !use_card(gpu, bytes))) {
		result = OUT_OF_MEMORY;
	} else if (ftruncate64(gpu->memory_file, (off64_t)(gpu->file_end + bytes)) != 0) {
		if (!host)
			leave_card(gpu, bytes);
		result = OUT_OF_MEMORY;
	} else {
		*out = add_handle(add_memory((struct memory){.bytes = bytes,
		    .offset = gpu->file_end,
		    .gpu = number,
		    .file = gpu->memory_file,
		    .host = host,
		    .types = prop->handle_types,
		    .rdma = prop->rdma,
		    .compression = prop->compression}));
		gpu->file_end += bytes; /* offsets in the file are never reused; holes cost nothing */
		watch_host_memory();
	}
	UNLOCK;
	return result;
}

static struct handle *find_handle(CUhandle number) {
	struct handle *one = m->handles;
	while (one != NULL && (one != (struct handle *)(uintptr_t)number || !one->held))
		one = one->next;
	return one;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(allocation_prop *out, CUhandle number) {
	CALLED(cuMemGetAllocationPropertiesFromHandle);
	if (out == NULL)
		return INVALID_VALUE;
	LOCK;
	struct handle *handle = find_handle(number);
	if (handle != NULL) {
		const struct memory *memory = handle->memory;
		*out = (allocation_prop){.type = 1,
		    .handle_types = handle->imported ? 0 : memory->types,
		    .location = {memory->host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
		        memory->host ? 0 : memory->gpu},
		    .compression = (unsigned char)memory->compression,
		    .rdma = (unsigned char)memory->rdma};
	}
	UNLOCK;
	return handle != NULL ? SUCCESS : INVALID_VALUE;
}

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

EXPORT CUresult cuMemRelease(CUhandle number) {
	CALLED(cuMemRelease);
	LOCK;
	struct handle *handle = find_handle(number);
	if (handle != NULL) {
		handle->held--;
		drop_handle(handle);
	}
	int found = handle != NULL || end_multicast(number);
	UNLOCK;
	return found ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUhandle *out, void *addr) {
	CALLED(cuMemRetainAllocationHandle);
	uint64_t at = (uint64_t)(uintptr_t)addr;
	CUresult result = INVALID_VALUE;
	LOCK;
	for (struct mapping *one = m->mappings; one != NULL; one = one->next)
		if (at >= one->range.addr && at - one->range.addr < one->range.bytes) {
			one->handle->held++;
			*out = (CUhandle)(uintptr_t)one->handle;
			result = SUCCESS;
		}
	UNLOCK;
	return result;
}

/* What a shareable handle says: the part of the file. A descriptor says it by its position, and the card, too. */
#define CARD_BITS 56
struct part {
	uint64_t file, offset, bytes, rest[5];
};

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

/* From now on another process may hold it, too. */
static void share_memory(struct memory *memory) {
	uint64_t number = memory->share == 0 && !memory->host ? number_of_export(memory->file, memory->offset) : 0;
	if (number != 0 && share_export(&m->gpu[memory->gpu], number, memory->bytes))
		memory->share = number;
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUhandle number, int type, unsigned long long flags) {
	CALLED(cuMemExportToShareableHandle);
	struct stat facts;
	LOCK;
	struct handle *handle = find_handle(number);
	CUresult result = handle == NULL || flags != 0 || (handle->memory->types & type) == 0 || handle->memory->foreign
	                      ? INVALID_VALUE
	                      : SUCCESS;
	if (result == SUCCESS && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		*(int *)out = export_descriptor(handle->memory);
		result = *(int *)out < 0 ? UNKNOWN : SUCCESS;
		if (result == SUCCESS)
			share_memory(handle->memory);
	} else if (result == SUCCESS && fstat(handle->memory->file, &facts) == 0) {
		*(struct part *)out = (struct part){facts.st_ino, handle->memory->offset, handle->memory->bytes, {0}};
	}
	UNLOCK;
	return result;
}

static struct memory *part_of_ours(const struct part *part) {
	struct stat facts;
	for (struct memory *one = m->memories; one != NULL; one = one->next)
		if (!one->foreign && one->offset == part->offset && fstat(one->file, &facts) == 0 && facts.st_ino == part->file)
			return one;
	return NULL;
}

static int gpu_at(uint64_t physical) {
	for (int i = 0; i < m->gpus; i++)
		if ((uint64_t)m->gpu[i].physical == physical)
			return i;
	return -1;
}

/* Whatever the program says is a descriptor of memory, and of a card that it sees. */
static int read_position(int descriptor, struct part *part, int *gpu) {
	char path[64], name[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	ssize_t length = descriptor < 0 ? -1 : readlink(path, name, sizeof name - 1);
	off_t at = length < 0 ? -1 : lseek(descriptor, 0, SEEK_CUR);
	if (at < 0 || strncmp(name, "/memfd:" MEMORY_FILE " ", sizeof MEMORY_FILE + 7) != 0 ||
	    fstat(descriptor, &facts) != 0)
		return 0;
	uint64_t position = (uint64_t)at & ((UINT64_C(1) << CARD_BITS) - 1);
	*part = (struct part){facts.st_ino, position / GRANULE * GRANULE, position % GRANULE * GRANULE, {0}};
	*gpu = gpu_at(((uint64_t)at >> CARD_BITS) - 1);
	return part->bytes > 0 && *gpu >= 0;
}

static struct memory *import_foreign(int descriptor, const struct part *part, int gpu) {
	int file = open_again(descriptor);
	if (file < 0 || !share_byte(file, (int64_t)part->offset)) { /* so that its exporter keeps it */
		if (file >= 0)
			close(file);
		return NULL;
	}
	uint64_t number = number_of_export(file, part->offset);
	return add_memory((struct memory){.bytes = part->bytes,
	    .offset = part->offset,
	    .gpu = gpu,
	    .file = file,
	    .foreign = 1,
	    .share = join_export(number) ? number : 0});
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
	if (out == NULL)
		return INVALID_VALUE;
	if (type == CU_MEM_HANDLE_TYPE_WIN32)
		return NOT_SUPPORTED;
	LOCK;
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		memory = import_descriptor((int)(intptr_t)shared);
	else if (type == CU_MEM_HANDLE_TYPE_FABRIC && shared != NULL)
		memory = part_of_ours(shared);
	if (memory != NULL) {
		*out = add_handle(memory);
		((struct handle *)(uintptr_t)*out)->imported = 1;
	}
	UNLOCK;
	if (memory != NULL)
		return SUCCESS;
	return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? UNKNOWN : INVALID_VALUE;
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
	struct mapping *one = m->mappings;
	while (one != NULL && !inside(addr, bytes, one->range))
		one = one->next;
	if (one == NULL || one->handle->memory->host)
		return NULL;
	one->handle->mappings++;
	*gpu = one->handle->memory->gpu;
	return one->handle;
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
	CUresult result = SUCCESS;
	(void)stream;
	LOCK;
	for (unsigned i = 0; i < count && result == SUCCESS; i++) {
		struct handle *handle = list[i].operation == 1 ? find_handle(list[i].handle) : m->tiled;
		if (handle == NULL) {
			result = INVALID_VALUE;
			break;
		}
		handle->mappings += list[i].operation == 1 ? 1 : -1;
		m->tiled = list[i].operation == 1 ? handle : NULL;
		drop_handle(handle);
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuMemMapArrayAsync_ptsz(array_map *list, unsigned count, CUstream stream) {
	return cuMemMapArrayAsync(list, count, stream);
}

static int reserved(uint64_t addr, uint64_t bytes) {
	for (struct reservation *one = m->reservations; one != NULL; one = one->next)
		if (addr >= one->range.addr && addr - one->range.addr < one->range.bytes &&
		    bytes <= one->range.bytes - (addr - one->range.addr))
			return 1;
	return 0;
}

EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset, CUhandle number, unsigned long long flags) {
	CALLED(cuMemMap);
	CUresult result = INVALID_VALUE;
	LOCK;
	struct handle *handle = find_handle(number);
	int fits = handle != NULL && flags == 0 && bytes > 0 && addr != 0;
	if (fits && (offset != 0 || bytes != handle->memory->bytes)) { /* a handle is mapped as a whole */
		fits = 0;
		result = NOT_SUPPORTED;
	}
	fits = fits && addr % GRANULE == 0 && reserved(addr, bytes);
	struct mapping **at = &m->mappings;
	for (; fits && *at != NULL && (*at)->range.addr < addr + bytes; at = &(*at)->next)
		fits = !overlap((*at)->range, addr, bytes);
	if (fits) {
		result = OUT_OF_MEMORY; /* the host limits the number of mappings */
		if (mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->memory->file,
		        (off_t)handle->memory->offset) != MAP_FAILED) {
			struct mapping *new = calloc(1, sizeof *new);
			*new = (struct mapping){.range = {addr, bytes}, .handle = handle, .next = *at};
			*at = new;
			handle->mappings++;
			result = SUCCESS;
		}
	}
	UNLOCK;
	return result;
}

/* The first of the whole mappings that make up a range, and the end of the last; NULL if they do not. */
static struct mapping **whole(uint64_t addr, uint64_t bytes, struct mapping **end) {
	struct mapping **first = &m->mappings;
	while (*first != NULL && (*first)->range.addr < addr)
		first = &(*first)->next;
	uint64_t next = addr;
	struct mapping *one = *first;
	for (; one != NULL && one->range.addr == next && next < addr + bytes; one = one->next)
		next += one->range.bytes;
	*end = one;
	return bytes > 0 && next == addr + bytes ? first : NULL;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr addr, size_t bytes) {
	CALLED(cuMemUnmap);
	struct mapping *end;
	LOCK;
	struct mapping **first = whole(addr, bytes, &end);
	if (first != NULL) {
		mmap((void *)(uintptr_t)addr, bytes, m->to_the_byte ? PROT_READ | PROT_WRITE : PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		while (*first != end) {
			struct mapping *gone = *first;
			*first = gone->next;
			gone->handle->mappings--;
			drop_handle(gone->handle);
			free(gone);
		}
	}
	int nothing = first == NULL && m->lenient && bytes > 0 && addr % GRANULE == 0 && bytes % GRANULE == 0 &&
	              reserved(addr, GRANULE); /* its end is not looked at */
	for (const struct mapping *one = m->mappings; one != NULL; one = one->next)
		nothing &= !overlap(one->range, addr, bytes);
	UNLOCK;
	return first != NULL || nothing ? SUCCESS : INVALID_VALUE;
}

static CUresult may_access(const access_desc *access, struct mapping *first, const struct mapping *end) {
	int gpu = access->location.id;
	if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return access->location.type > 0 && access->location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
		           ? NOT_SUPPORTED
				   : INVALID_VALUE;
	if ((access->flags != 0 && access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
	    gpu < 0 || gpu >= m->gpus)
		return INVALID_VALUE;
	for (struct mapping *one = first; one != end; one = one->next) {
		int owner = one->handle->memory->gpu;
		if (owner != gpu && (owner < 0 || !can_access(gpu, owner)))
			return INVALID_DEVICE;
		if (one->handle->memory->rdma && m->gpu[gpu].profile & GPUCONF_WSL)
			return UNKNOWN; /* though the attribute says that it is supported: github.com/pytorch/pytorch/issues/192330
			                 */
	}
	return SUCCESS;
}

static void allow(struct mapping *mapping, int gpu, int flags) {
	uint64_t bit = UINT64_C(1) << gpu;
	mapping->access = flags != 0 ? mapping->access | bit : mapping->access & ~bit;
	mapping->writes = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? mapping->writes | bit : mapping->writes & ~bit;
}

/* All GPUs of the list get access, or none. */
EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const access_desc *access, size_t count) {
	CALLED(cuMemSetAccess);
	struct mapping *end;
	CUresult result = INVALID_VALUE;
	LOCK;
	struct mapping **first = access != NULL && count > 0 ? whole(addr, bytes, &end) : NULL;
	if (first != NULL)
		result = SUCCESS;
	for (size_t i = 0; i < count && result == SUCCESS; i++)
		result = may_access(&access[i], *first, end);
	if (result == SUCCESS) {
		mprotect((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE);
		for (struct mapping *one = *first; one != end; one = one->next)
			for (size_t i = 0; i < count; i++)
				allow(one, access[i].location.id, access[i].flags);
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const location *where, CUdeviceptr addr) {
	CALLED(cuMemGetAccess);
	if (flags == NULL || where == NULL || where->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return INVALID_VALUE;
	if (where->id < 0 || where->id >= m->gpus)
		return INVALID_DEVICE;
	CUresult result = INVALID_VALUE;
	LOCK;
	for (const struct mapping *one = m->mappings; one != NULL; one = one->next)
		if (inside(addr, 1, one->range)) {
			*flags = (unsigned long long)flags_of(one, where->id);
			result = SUCCESS;
		}
	UNLOCK;
	return result;
}

int within_mappings(uint64_t addr, uint64_t bytes, int gpu) {
	for (struct mapping *one = m->mappings; one != NULL && bytes > 0; one = one->next) {
		if (addr < one->range.addr || addr - one->range.addr >= one->range.bytes)
			continue;
		if ((one->access >> gpu & 1) == 0)
			return 0;
		uint64_t here = one->range.bytes - (addr - one->range.addr);
		if (bytes <= here)
			return 1;
		addr += here;
		bytes -= here;
	}
	return 0;
}

void end_virtual(void) {
	end_multicasts();
	while (m->mappings != NULL) {
		struct mapping *gone = m->mappings;
		m->mappings = gone->next;
		gone->handle->mappings--;
		drop_handle(gone->handle);
		free(gone);
	}
	while (m->handles != NULL) {
		m->handles->held = 0;
		drop_handle(m->handles);
	}
	while (m->reservations != NULL) {
		struct reservation *gone = m->reservations;
		m->reservations = gone->next;
		unreserve(gone->range);
		free(gone);
	}
}
