/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows of an address (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__UNIFIED.html). The
 * lists are searched in turn, under the lock: linear, managed and page-locked memory, and then what other files have.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <string.h>

/* What was freed is not found, though another process may still have it. */
static int find_in(const uint64_t addr, struct allocation *list, struct place *out) {
	for (; list != NULL; list = list->next)
		if (!list->gone && inside(addr, 1, list->range)) {
			*out = (struct place){.access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			    .range = list->range,
			    .context = list->context,
			    .gpu = list->context->gpu,
			    .notes = &list->notes};
			return 1;
		}
	return 0;
}

/* The range that a page table has of it. */
static struct range whole_pages(struct range range, uint64_t page) {
	uint64_t begin = range.addr / page * page, end = (range.addr + range.bytes + page - 1) / page * page;
	return (struct range){begin, end - begin};
}

/* Device memory is mapped in pages of 2 MiB, what the program registers in the host's; what the driver allocates of
 * the host begins a mapping of its own. */
int find_place(uint64_t addr, struct place *out) {
	if (find_in(addr, m->allocations, out)) {
		out->linear = out->rdma = 1;
		out->mapping = whole_pages(out->range, GRANULE);
		return 1;
	}
	if (find_in(addr, m->managed_memory, out)) {
		out->managed = 1;
		out->mapping = whole_pages(out->range, GRANULE);
		return 1;
	}
	if (find_in(addr, m->hosts, out)) {
		out->gpu = -1;
		out->mapping = (struct range){out->range.addr, (out->range.bytes + GRANULE - 1) / GRANULE * GRANULE};
		return 1;
	}
	if (find_in(addr, m->registered, out)) {
		out->gpu = -1;
		out->mapping = whole_pages(out->range, 4096);
		return 1;
	}
	return find_import(addr, out) || find_outside(addr, out) || find_mapping(addr, out);
}

enum { LAST_ATTRIBUTE = CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE };
#define NO_DEVICE_NUMBER (-2)

/* Bytes of each attribute's value, by its number in CUpointer_attribute; 0 is no attribute. Tokens are a struct of
 * 16. */
static const unsigned char sizes[LAST_ATTRIBUTE + 1] = {
    0, 8, 4, 8, 8, 16, 1, 8, 4, 4, 1, 8, 8, 4, 8, 1, 4, 8, 8, 8, 8, 1};

static void put(void *out, int attribute, uint64_t value) {
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		memset(out, 0, 16);
	else
		memcpy(out, &value, sizes[attribute]); /* little-endian */
}

/* The device that other attributes are about: page-locked memory has its context's. */
static int ordinal(const struct place *place) {
	if (place->gpu >= 0)
		return place->gpu;
	return place->context != NULL ? place->context->gpu : 0;
}

/* A number for each allocation, in the order of the requests: programs only compare them. */
static uint64_t buffer(struct notes *notes) {
	if (notes->buffer == 0)
		notes->buffer = ++m->last_buffer;
	return notes->buffer;
}

/* What the place does not have. Tokens are for other devices' drivers, and no driver makes them any more. */
static int lacks(const struct place *place, int attribute) {
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 1;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return place->access == 0;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return place->gpu >= 0 && !place->managed;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return driver_version() < 12080;
	}
	return 0;
}

/* All values at once: a list by attribute is shorter than a case for each, and none of them costs more than a load. */
static CUresult attribute_of(const struct place *place, int attribute, uint64_t addr, uint64_t *value) {
	struct range mapping = place->mapping.bytes > 0 ? place->mapping : place->range;
	const uint64_t values[LAST_ATTRIBUTE + 1] = {
	    [CU_POINTER_ATTRIBUTE_CONTEXT] =
	        (uint64_t)(uintptr_t)place->context, /* memory of pools and mappings has none */
	    [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = place->gpu < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
	    [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = addr,
	    [CU_POINTER_ATTRIBUTE_HOST_POINTER] = addr,
	    [CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] =
	        place->notes != NULL && place->notes->sync_memops != 0 ? place->notes->sync_memops > 0 : place->managed,
	    [CU_POINTER_ATTRIBUTE_IS_MANAGED] = (uint64_t)place->managed,
	    [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = (uint64_t)ordinal(place),
	    [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = (uint64_t)place->linear,
	    [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = place->range.addr,
	    [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = place->range.bytes,
	    [CU_POINTER_ATTRIBUTE_MAPPED] = 1,
	    [CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = (uint64_t)place->handle_types,
	    [CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = (uint64_t)place->rdma,
	    [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = (uint64_t)place->access,
	    [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = (uint64_t)(uintptr_t)place->pool,
	    [CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = mapping.bytes,
	    [CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = mapping.addr,
	    [CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE] = (uint64_t)place->linear,
	};
	*value = attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID
	             ? buffer(place->notes)
	             : values[attribute];
	return lacks(place, attribute) ? INVALID_VALUE : SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr addr) {
	CALLED(cuPointerGetAttribute);
	if (out == NULL || attribute < CU_POINTER_ATTRIBUTE_CONTEXT || attribute > LAST_ATTRIBUTE)
		return INVALID_VALUE;
	struct place place;
	uint64_t value = 0;
	LOCKED;
	TRY(find_place(addr, &place) ? attribute_of(&place, attribute, addr, &value) : INVALID_VALUE);
	put(out, attribute, value);
	return SUCCESS;
}

/* Other than the function for one attribute, it has an answer for every address. */
EXPORT CUresult cuPointerGetAttributes(unsigned count, const int *attributes, void **out, CUdeviceptr addr) {
	CALLED(cuPointerGetAttributes);
	if (attributes == NULL || out == NULL || count == 0)
		return INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if (out[i] == NULL || attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] > LAST_ATTRIBUTE)
			return INVALID_VALUE;
	struct place place;
	LOCKED;
	int known = find_place(addr, &place);
	for (unsigned i = 0; i < count; i++) {
		uint64_t value = 0;
		if (known && attribute_of(&place, attributes[i], addr, &value) != SUCCESS)
			value = 0;
		if (!known && (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
		                  attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE))
			continue;
		if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			value = (uint64_t)NO_DEVICE_NUMBER;
		if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			value = addr;
		put(out[i], attributes[i], value);
	}
	return SUCCESS;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr addr) {
	CALLED(cuPointerSetAttribute);
	struct place place;
	if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return INVALID_VALUE;
	LOCKED;
	if (!find_place(addr, &place) || place.gpu < 0)
		return INVALID_VALUE;
	place.notes->sync_memops = *(const unsigned *)value != 0 ? 1 : -1;
	return SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr addr) {
	REFUSE(ANY_TIME, base == NULL && bytes == NULL, SUCCESS);
	CALLED(cuMemGetAddressRange);
	struct place place;
	IN_CONTEXT;
	if (!find_place(addr, &place) || (place.mapped && place.access == 0))
		return NOT_FOUND;
	if (base != NULL)
		*base = place.range.addr;
	if (bytes != NULL)
		*bytes = place.range.bytes;
	return SUCCESS;
}
