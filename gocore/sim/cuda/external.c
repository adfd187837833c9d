/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External memory: a descriptor that this driver has exported is imported and mapped. What other interfaces export,
 * such as Vulkan's and Direct3D's memory and all semaphores, does not exist here: it is refused and noted by its name.
 */
#include "driver.h"

#include "../../machine/cuda/constants.h"

#include <stdlib.h>
#include <unistd.h>

struct external {
	struct handle *part;
	uint64_t bytes;
	struct external *next;
};

/* As CUDA_EXTERNAL_MEMORY_HANDLE_DESC and CUDA_EXTERNAL_MEMORY_BUFFER_DESC. */
struct handle_description {
	int type;
	union {
		int descriptor;
		const void *pointers[2];
	} handle;
	unsigned long long bytes;
	unsigned flags, reserved[16];
};

struct buffer_description {
	unsigned long long offset, bytes;
	unsigned flags, reserved[16];
};

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static const char *const memory_names[] = {
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32] = "cuImportExternalMemory of a Windows handle",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT] = "cuImportExternalMemory of a Windows KMT handle",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP] = "cuImportExternalMemory of a Direct3D 12 heap",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE] = "cuImportExternalMemory of a Direct3D 12 resource",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE] = "cuImportExternalMemory of a Direct3D 11 resource",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT] = "cuImportExternalMemory of a Direct3D 11 KMT resource",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF] = "cuImportExternalMemory of an NvSciBuf object",
    [CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD] = "cuImportExternalMemory of a DMA-BUF descriptor",
};
static const char *const semaphore_names[] = {
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD] = "cuImportExternalSemaphore of a descriptor",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32] = "cuImportExternalSemaphore of a Windows handle",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT] = "cuImportExternalSemaphore of a Windows KMT handle",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE] = "cuImportExternalSemaphore of a Direct3D 12 fence",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE] = "cuImportExternalSemaphore of a Direct3D 11 fence",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC] = "cuImportExternalSemaphore of an NvSciSync object",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX] = "cuImportExternalSemaphore of a Direct3D 11 keyed mutex",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT] =
        "cuImportExternalSemaphore of a Direct3D 11 KMT keyed mutex",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD] =
        "cuImportExternalSemaphore of a timeline semaphore's descriptor",
    [CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32] =
        "cuImportExternalSemaphore of a timeline semaphore's Windows handle",
};

/* What CUDA knows and the simulator has not is noted by its name, so that a user sees why; any other number is
 * invalid. */
static CUresult refuse(const char *const *names, int count, int type) {
	return type > 0 && type < count && names[type] != NULL ? not_done(names[type]) : INVALID_VALUE;
}

/* A part of the memory may be requested, and never more than there is. */
static CUresult import(struct external **out, const struct handle_description *wanted) {
	uint64_t bytes;
	struct handle *part = import_part(wanted->handle.descriptor, &bytes);
	NEED(part);
	if (wanted->bytes == 0 || wanted->bytes > bytes) {
		release_part(part);
		return INVALID_VALUE;
	}
	*out = ADD(m->externals, .part = part, .bytes = wanted->bytes);
	close(wanted->handle.descriptor); /* it is the driver's from now on */
	return SUCCESS;
}

EXPORT CUresult cuImportExternalMemory(struct external **out, const struct handle_description *wanted) {
	CALLED(cuImportExternalMemory);
	if (out == NULL || wanted == NULL || (wanted->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED) != 0)
		return INVALID_VALUE;
	if (wanted->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return refuse(memory_names, COUNT(memory_names), wanted->type);
	IN_CONTEXT;
	return import(out, wanted);
}

/* Each call maps anew, at an address of its own, and is a reference to the memory. */
EXPORT CUresult cuExternalMemoryGetMappedBuffer(
    CUdeviceptr *out, struct external *handle, const struct buffer_description *wanted) {
	CALLED(cuExternalMemoryGetMappedBuffer);
	if (out == NULL || wanted == NULL || wanted->flags != 0 || wanted->bytes == 0)
		return INVALID_VALUE;
	IN_CONTEXT;
	struct external **link = &m->externals;
	FIND(link, *link == handle);
	if (*link == NULL)
		return INVALID_HANDLE;
	if (wanted->offset > handle->bytes || wanted->bytes > handle->bytes - wanted->offset)
		return INVALID_VALUE;
	uint64_t offset;
	int gpu, file = file_of_part(handle->part, &offset, &gpu);
	struct outside *new = add_mapped(file, offset + wanted->offset, wanted->bytes, gpu, EXTERNAL_MEMORY);
	if (new == NULL) {
		release_part(handle->part);
		return OUT_OF_MEMORY;
	}
	new->part = handle->part;
	new->context = context;
	*out = new->range.addr;
	return SUCCESS;
}

static void drop(struct external **link) {
	struct external *gone = TAKE_OUT(link);
	release_part(gone->part);
	free(gone);
}

/* What is mapped of it stays until it is freed. */
EXPORT CUresult cuDestroyExternalMemory(struct external *handle) {
	CALLED(cuDestroyExternalMemory);
	LOCKED;
	struct external **link = &m->externals;
	FIND(link, *link == handle);
	if (*link == NULL)
		return INVALID_HANDLE;
	drop(link);
	return SUCCESS;
}

void end_externals(void) {
	while (m->externals != NULL)
		drop(&m->externals);
}

EXPORT CUresult cuImportExternalSemaphore(void **out, const struct handle_description *wanted) {
	CALLED(cuImportExternalSemaphore);
	return out == NULL || wanted == NULL ? INVALID_VALUE
	                                     : refuse(semaphore_names, COUNT(semaphore_names), wanted->type);
}
