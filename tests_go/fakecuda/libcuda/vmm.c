/* Virtual memory management: reservations, handles, mappings. */
#include "fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
	int type, id;
} location;

typedef struct {
	int type, handle_types;
	location location;
	void *metadata;
	unsigned char flags[8];
} allocation_prop;

typedef struct {
	location location;
	int flags;
} access_desc;

struct handle {
	uint64_t bytes, offset;
	int gpu, held, mappings;
	int host; /* it is not on the GPU, though in its file */
	struct handle *next;
};

struct mapping {
	struct range range;
	struct handle *handle;
	unsigned access; /* a bit for each GPU */
	struct mapping *next;
};

struct reservation {
	struct range range;
	struct reservation *next;
};

static struct handle *handles;
static struct mapping *mappings; /* in address order */
static struct reservation *reservations;

void count_virtual(int *handle_count, int *mapping_count, int *reservation_count) {
	*handle_count = *mapping_count = *reservation_count = 0;
	for (struct handle *one = handles; one != NULL; one = one->next)
		*handle_count += one->held;
	for (struct mapping *one = mappings; one != NULL; one = one->next)
		++*mapping_count;
	for (struct reservation *one = reservations; one != NULL; one = one->next)
		++*reservation_count;
}

static CUresult check_prop(const allocation_prop *prop) {
	if (prop->type != 1 || prop->location.type < 1 || prop->location.type > 3)
		return INVALID_VALUE;
	if (prop->location.type != 1)
		return fake.vmm ? SUCCESS : NOT_SUPPORTED;
	if (prop->location.id < 0 || prop->location.id >= fake.gpus)
		return INVALID_DEVICE;
	return fake.vmm ? SUCCESS : NOT_SUPPORTED;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const allocation_prop *prop, int option) {
	CALLED(cuMemGetAllocationGranularity);
	*bytes = GRANULE;
	return option == 0 || option == 1 ? check_prop(prop) : INVALID_VALUE;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
	CALLED(cuMemAddressReserve);
	(void)hint;
	if (!fake.vmm)
		return NOT_SUPPORTED;
	if (bytes == 0 || bytes % 4096 != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
		return INVALID_VALUE;
	if (alignment == 0)
		alignment = 4096; /* CUDA promises no more than pages */
	if (bytes > (UINT64_C(1) << 46) || alignment > (UINT64_C(1) << 46))
		return OUT_OF_MEMORY;
	const int flags_none = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *got = mmap(NULL, bytes + alignment, PROT_NONE, flags_none, -1, 0);
	if (got == MAP_FAILED)
		return OUT_OF_MEMORY;
	uint64_t begin = (uint64_t)(uintptr_t)got, addr = (begin + alignment - 1) / alignment * alignment;
	if (addr > begin)
		munmap(got, addr - begin);
	munmap((void *)(uintptr_t)(addr + bytes), begin + alignment - addr);
	LOCK;
	struct reservation *new = calloc(1, sizeof *new);
	*new = (struct reservation){{addr, bytes}, reservations};
	reservations = new;
	UNLOCK;
	*out = addr;
	return SUCCESS;
}

static int overlap(struct range range, uint64_t addr, uint64_t bytes) {
	return range.addr < addr + bytes && addr < range.addr + range.bytes;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes) {
	CALLED(cuMemAddressFree);
	CUresult result = INVALID_VALUE;
	LOCK;
	struct reservation **at = &reservations;
	while (*at != NULL && ((*at)->range.addr != addr || (*at)->range.bytes != bytes))
		at = &(*at)->next;
	int busy = 0;
	for (struct mapping *one = mappings; one != NULL; one = one->next)
		busy |= overlap(one->range, addr, bytes);
	if (*at != NULL && !busy) {
		struct reservation *gone = *at;
		*at = gone->next;
		munmap((void *)(uintptr_t)addr, bytes);
		free(gone);
		result = SUCCESS;
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuMemCreate(CUhandle *out, size_t bytes, const allocation_prop *prop, unsigned long long flags) {
	CALLED(cuMemCreate);
	CUresult result = check_prop(prop);
	if (result != SUCCESS)
		return result;
	if (bytes == 0 || bytes % GRANULE != 0 || flags != 0 || prop->handle_types != 0)
		return INVALID_VALUE;
	LOCK;
	int host = prop->location.type != 1, number = host ? 0 : prop->location.id;
	struct gpu *gpu = &fake.gpu[number];
	if ((!host && bytes > gpu->total - gpu->used) || ftruncate64(gpu->memory_file, (off64_t)(gpu->file_end + bytes)) != 0) {
		result = OUT_OF_MEMORY;
	} else {
		struct handle *new = calloc(1, sizeof *new);
		*new = (struct handle){bytes, gpu->file_end, number, 1, 0, host, handles};
		handles = new;
		gpu->file_end += bytes; /* offsets in the file are never reused; holes cost nothing */
		gpu->used += host ? 0 : bytes;
		*out = (CUhandle)(uintptr_t)new;
	}
	UNLOCK;
	return result;
}

static struct handle *find_handle(CUhandle number) {
	struct handle *one = handles;
	while (one != NULL && (one != (struct handle *)(uintptr_t)number || !one->held))
		one = one->next;
	return one;
}

static void drop_handle(struct handle *handle) {
	if (handle->held || handle->mappings > 0)
		return;
	struct gpu *gpu = &fake.gpu[handle->gpu];
	if (!handle->host) /* an imported handle's memory is another's */
		fallocate(gpu->memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle->offset, (off_t)handle->bytes);
	gpu->used -= handle->host ? 0 : handle->bytes;
	struct handle **at = &handles;
	while (*at != handle)
		at = &(*at)->next;
	*at = handle->next;
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
	UNLOCK;
	return handle != NULL ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUhandle *out, void *addr) {
	CALLED(cuMemRetainAllocationHandle);
	uint64_t at = (uint64_t)(uintptr_t)addr;
	CUresult result = INVALID_VALUE;
	LOCK;
	for (struct mapping *one = mappings; one != NULL; one = one->next)
		if (at >= one->range.addr && at - one->range.addr < one->range.bytes) {
			one->handle->held++;
			*out = (CUhandle)(uintptr_t)one->handle;
			result = SUCCESS;
		}
	UNLOCK;
	return result;
}

/* A file descriptor is not modeled: the handle is the number itself, in this process. The imported handle refers to the same memory. */
EXPORT CUresult cuMemExportToShareableHandle(void *out, CUhandle number, int type, unsigned long long flags) {
	CALLED(cuMemExportToShareableHandle);
	(void)type, (void)flags;
	*(CUhandle *)out = number;
	return SUCCESS;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUhandle *out, void *shared, int type) {
	CALLED(cuMemImportFromShareableHandle);
	(void)type;
	LOCK;
	struct handle *from = find_handle(*(CUhandle *)shared);
	if (from != NULL) {
		struct handle *new = calloc(1, sizeof *new);
		*new = (struct handle){from->bytes, from->offset, from->gpu, 1, 0, 1, handles};
		handles = new;
		*out = (CUhandle)(uintptr_t)new;
	}
	UNLOCK;
	return from != NULL ? SUCCESS : INVALID_VALUE;
}

/* Multicast objects and sparse arrays refer to memory, one at a time; which part of which is not modeled. */
#if FAKECUDA_VERSION >= 12010
static struct handle *bound;

EXPORT CUresult cuMulticastCreate(CUhandle *out, const void *prop) {
	CALLED(cuMulticastCreate);
	(void)prop;
	*out = (CUhandle)(uintptr_t)malloc(1);
	return SUCCESS;
}

EXPORT CUresult cuMulticastBindMem(CUhandle multicast, size_t at, CUhandle number, size_t offset, size_t bytes, unsigned long long flags) {
	CALLED(cuMulticastBindMem);
	(void)multicast, (void)at, (void)offset, (void)bytes, (void)flags;
	LOCK;
	struct handle *handle = find_handle(number);
	if (handle != NULL) {
		handle->mappings++;
		bound = handle;
	}
	UNLOCK;
	return handle != NULL ? SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuMulticastBindAddr(CUhandle multicast, size_t at, CUdeviceptr addr, size_t bytes, unsigned long long flags) {
	CALLED(cuMulticastBindAddr);
	(void)multicast, (void)at, (void)flags;
	LOCK;
	struct mapping *one = mappings;
	while (one != NULL && (addr < one->range.addr || addr + bytes > one->range.addr + one->range.bytes))
		one = one->next;
	if (one != NULL) {
		one->handle->mappings++;
		bound = one->handle;
	}
	UNLOCK;
	return one != NULL ? SUCCESS : INVALID_VALUE;
}

#if FAKECUDA_VERSION >= 13010
EXPORT CUresult cuMulticastBindMem_v2(CUhandle multicast, CUdevice device, size_t at, CUhandle number, size_t offset, size_t bytes, unsigned long long flags) {
	return device < 0 || device >= fake.gpus ? INVALID_DEVICE : cuMulticastBindMem(multicast, at, number, offset, bytes, flags);
}

EXPORT CUresult cuMulticastBindAddr_v2(CUhandle multicast, CUdevice device, size_t at, CUdeviceptr addr, size_t bytes, unsigned long long flags) {
	return device < 0 || device >= fake.gpus ? INVALID_DEVICE : cuMulticastBindAddr(multicast, at, addr, bytes, flags);
}
#endif

EXPORT CUresult cuMulticastUnbind(CUhandle multicast, CUdevice device, size_t at, size_t bytes) {
	CALLED(cuMulticastUnbind);
	(void)multicast, (void)device, (void)at, (void)bytes;
	LOCK;
	struct handle *handle = bound;
	bound = NULL;
	if (handle != NULL) {
		handle->mappings--;
		drop_handle(handle);
	}
	UNLOCK;
	return handle != NULL ? SUCCESS : INVALID_VALUE;
}
#endif

#if FAKECUDA_VERSION >= 11010
static struct handle *tiled;

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
	CALLED(cuMemMapArrayAsync);
	CUresult result = SUCCESS;
	(void)stream;
	LOCK;
	for (unsigned i = 0; i < count && result == SUCCESS; i++) {
		struct handle *handle = list[i].operation == 1 ? find_handle(list[i].handle) : tiled;
		if (handle == NULL) {
			result = INVALID_VALUE;
			break;
		}
		handle->mappings += list[i].operation == 1 ? 1 : -1;
		tiled = list[i].operation == 1 ? handle : NULL;
		drop_handle(handle);
	}
	UNLOCK;
	return result;
}

EXPORT CUresult cuMemMapArrayAsync_ptsz(array_map *list, unsigned count, CUstream stream) { return cuMemMapArrayAsync(list, count, stream); }
#endif

static int reserved(uint64_t addr, uint64_t bytes) {
	for (struct reservation *one = reservations; one != NULL; one = one->next)
		if (addr >= one->range.addr && addr - one->range.addr < one->range.bytes && bytes <= one->range.bytes - (addr - one->range.addr))
			return 1;
	return 0;
}

EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset, CUhandle number, unsigned long long flags) {
	CALLED(cuMemMap);
	CUresult result = INVALID_VALUE;
	LOCK;
	struct handle *handle = find_handle(number);
	int fits = handle != NULL && offset == 0 && flags == 0 && bytes > 0 && bytes % GRANULE == 0 && addr % GRANULE == 0 &&
	           bytes <= handle->bytes && reserved(addr, bytes);
	struct mapping **at = &mappings;
	for (; fits && *at != NULL && (*at)->range.addr < addr + bytes; at = &(*at)->next)
		fits = !overlap((*at)->range, addr, bytes);
	if (fits) {
		result = UNKNOWN;
		if (mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fake.gpu[handle->gpu].memory_file,
		         (off_t)handle->offset) != MAP_FAILED) {
			struct mapping *new = calloc(1, sizeof *new);
			*new = (struct mapping){{addr, bytes}, handle, 0, *at};
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
	struct mapping **first = &mappings;
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
		mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		while (*first != end) {
			struct mapping *gone = *first;
			*first = gone->next;
			gone->handle->mappings--;
			drop_handle(gone->handle);
			free(gone);
		}
	}
	UNLOCK;
	return first != NULL ? SUCCESS : INVALID_VALUE;
}

/* A GPU cannot access another one's memory: there is no peer access. */
EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const access_desc *access, size_t count) {
	CALLED(cuMemSetAccess);
	struct mapping *end;
	CUresult result = INVALID_VALUE;
	LOCK;
	struct mapping **first = count == 1 && access->location.type == 1 && access->flags == 3 ? whole(addr, bytes, &end) : NULL;
	if (first != NULL) {
		result = access->location.id < fake.gpus ? SUCCESS : INVALID_DEVICE;
		for (struct mapping *one = *first; one != end; one = one->next)
			if (one->handle->gpu != access->location.id)
				result = INVALID_DEVICE;
	}
	if (result == SUCCESS) {
		mprotect((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE);
		for (struct mapping *one = *first; one != end; one = one->next)
			one->access |= 1U << access->location.id;
	}
	UNLOCK;
	return result;
}

int within_mappings(uint64_t addr, uint64_t bytes, int gpu) {
	for (struct mapping *one = mappings; one != NULL && bytes > 0; one = one->next) {
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
	while (mappings != NULL) {
		struct mapping *gone = mappings;
		mappings = gone->next;
		gone->handle->mappings--;
		drop_handle(gone->handle);
		free(gone);
	}
	while (handles != NULL) {
		handles->held = 0;
		drop_handle(handles);
	}
	while (reservations != NULL) {
		struct reservation *gone = reservations;
		reservations = gone->next;
		munmap((void *)(uintptr_t)gone->range.addr, gone->range.bytes);
		free(gone);
	}
}
