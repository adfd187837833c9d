/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External memory: a descriptor that this driver has exported is imported and mapped. What other interfaces export,
 * such as Vulkan's and Direct3D's memory and all semaphores, does not exist here: it is refused and noted by its name.
 */
#include "driver.h"

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

enum { OPAQUE_DESCRIPTOR = 1, DEDICATED = 1 };

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static const char *const memory_names[] = {
    [2] = "cuImportExternalMemory of a Windows handle",
    [3] = "cuImportExternalMemory of a Windows KMT handle",
    [4] = "cuImportExternalMemory of a Direct3D 12 heap",
    [5] = "cuImportExternalMemory of a Direct3D 12 resource",
    [6] = "cuImportExternalMemory of a Direct3D 11 resource",
    [7] = "cuImportExternalMemory of a Direct3D 11 KMT resource",
    [8] = "cuImportExternalMemory of an NvSciBuf object",
    [9] = "cuImportExternalMemory of a DMA-BUF descriptor",
};
static const char *const semaphore_names[] = {
    [1] = "cuImportExternalSemaphore of a descriptor",
    [2] = "cuImportExternalSemaphore of a Windows handle",
    [3] = "cuImportExternalSemaphore of a Windows KMT handle",
    [4] = "cuImportExternalSemaphore of a Direct3D 12 fence",
    [5] = "cuImportExternalSemaphore of a Direct3D 11 fence",
    [6] = "cuImportExternalSemaphore of an NvSciSync object",
    [7] = "cuImportExternalSemaphore of a Direct3D 11 keyed mutex",
    [8] = "cuImportExternalSemaphore of a Direct3D 11 KMT keyed mutex",
    [9] = "cuImportExternalSemaphore of a timeline semaphore's descriptor",
    [10] = "cuImportExternalSemaphore of a timeline semaphore's Windows handle",
};

static CUresult refuse(const char *const *names, int count, int type) {
	return type > 0 && type < count && names[type] != NULL ? not_done(names[type]) : INVALID_VALUE;
}

static CUresult import(struct external **out, const struct handle_description *wanted) {
	uint64_t bytes;
	struct handle *part = import_part(wanted->handle.descriptor, &bytes);
	if (part == NULL)
		return INVALID_VALUE;
	struct external *new = wanted->bytes > 0 && wanted->bytes <= bytes ? calloc(1, sizeof *new) : NULL;
	if (new == NULL) {
		release_part(part);
		return INVALID_VALUE;
	}
	*new = (struct external){.part = part, .bytes = wanted->bytes, .next = m->externals};
	m->externals = *out = new;
	close(wanted->handle.descriptor); /* it is the driver's from now on */
	return SUCCESS;
}

EXPORT CUresult cuImportExternalMemory(struct external **out, const struct handle_description *wanted) {
	CALLED(cuImportExternalMemory);
	if (out == NULL || wanted == NULL || (wanted->flags & ~(unsigned)DEDICATED) != 0)
		return INVALID_VALUE;
	if (wanted->type != OPAQUE_DESCRIPTOR)
		return refuse(memory_names, COUNT(memory_names), wanted->type);
	IN_CONTEXT(result = import(out, wanted));
}

static struct external **find(const struct external *external) {
	struct external **at = &m->externals;
	while (*at != NULL && *at != external)
		at = &(*at)->next;
	return at;
}

EXPORT CUresult cuExternalMemoryGetMappedBuffer(
    CUdeviceptr *out, struct external *handle, const struct buffer_description *wanted) {
	CALLED(cuExternalMemoryGetMappedBuffer);
	if (out == NULL || wanted == NULL || wanted->flags != 0 || wanted->bytes == 0)
		return INVALID_VALUE;
	IN_CONTEXT({
		const struct external *external = *find(handle);
		if (external == NULL)
			result = INVALID_HANDLE;
		else if (wanted->offset > external->bytes || wanted->bytes > external->bytes - wanted->offset)
			result = INVALID_VALUE;
		if (result == SUCCESS) {
			uint64_t offset;
			int gpu, file = file_of_part(external->part, &offset, &gpu);
			struct outside *new = add_mapped(file, offset + wanted->offset, wanted->bytes, gpu, EXTERNAL_MEMORY);
			if (new == NULL) {
				release_part(external->part);
				result = OUT_OF_MEMORY;
			} else {
				new->part = external->part;
				new->context = context;
				*out = new->range.addr;
			}
		}
	});
}

static void drop(struct external **at) {
	struct external *gone = *at;
	*at = gone->next;
	release_part(gone->part);
	free(gone);
}

/* What is mapped of it stays until it is freed. */
EXPORT CUresult cuDestroyExternalMemory(struct external *handle) {
	CALLED(cuDestroyExternalMemory);
	LOCK;
	struct external **at = find(handle);
	CUresult result = *at == NULL ? INVALID_HANDLE : SUCCESS;
	if (result == SUCCESS)
		drop(at);
	UNLOCK;
	return result;
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
