/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's mode "segments": PyTorch's own caching allocator, on gpuconf's pools.
 *
 * PyTorch's allocator obtains segments with cudaMalloc and frees them with cudaFree. libc10_cuda.so imports both, and
 * an ELF library calls an imported function through a slot that the loader fills in. Two of these slots are redirected
 * to functions in this file; no other library is changed. (Supplying the segments through a torch.cuda.MemPool was
 * tried first. PyTorch treats a pool that stays entered like a CUDA graph capture that never ends: it released no
 * cached memory under pressure, never reused memory after record_stream(), and did not route autograd's threads.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"
#include "abi.h"

#if defined(__x86_64__)
enum { CALL_SLOT = R_X86_64_JUMP_SLOT, DATA_SLOT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { CALL_SLOT = R_AARCH64_JUMP_SLOT, DATA_SLOT = R_AARCH64_GLOB_DAT };
#endif

enum { CUDA_SUCCESS = 0, CUDA_OUT_OF_MEMORY = 2, CUDA_UNKNOWN = 999 };

static struct {
	int (*get_device)(int *device);
	int (*free)(void *ptr);
	struct torch_stream (*current_stream)(signed char device);
	void *(*stream_handle)(const struct torch_stream *stream);
} torch;

/* A dynamic table of a loaded library. glibc makes the addresses absolute, except where the section is read-only. */
static const void *table(const struct link_map *library, Elf64_Sxword tag, size_t *bytes, Elf64_Sxword size_tag) {
	const char *found = NULL;

	for (const Elf64_Dyn *d = library->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == tag)
			found = (const char *)d->d_un.d_ptr;
		else if (bytes != NULL && d->d_tag == size_tag)
			*bytes = d->d_un.d_val;
	}
	return found != NULL && (uintptr_t)found < library->l_addr ? found + library->l_addr : found;
}

/* The slot of one relocation table through which a library calls an imported function, or NULL. */
static void **slot_in(const struct link_map *library, Elf64_Sxword tag, Elf64_Sxword size_tag, const char *name) {
	size_t bytes = 0;
	const Elf64_Rela *entry = table(library, tag, &bytes, size_tag);
	const Elf64_Sym *symbols = table(library, DT_SYMTAB, NULL, 0);
	const char *names = table(library, DT_STRTAB, NULL, 0);

	for (size_t left = entry != NULL ? bytes / sizeof *entry : 0; left > 0; left--, entry++) {
		unsigned kind = ELF64_R_TYPE(entry->r_info);

		if ((kind == CALL_SLOT || kind == DATA_SLOT) &&
		    strcmp(names + symbols[ELF64_R_SYM(entry->r_info)].st_name, name) == 0)
			return (void **)(library->l_addr + entry->r_offset);
	}
	return NULL;
}

static void **slot_of(const struct link_map *library, const char *name) {
	void **slot = slot_in(library, DT_JMPREL, DT_PLTRELSZ, name);

	return slot != NULL ? slot : slot_in(library, DT_RELA, DT_RELASZ, name);
}

/* Makes the slot's pages writable first: they are read-only in a library linked with -z now. They stay writable. */
int gcgo_redirect(void **slot, void *function) {
	uintptr_t page = (uintptr_t)slot & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	if (mprotect((void *)page, (uintptr_t)(slot + 1) - page, PROT_READ | PROT_WRITE) != 0)
		return 0;
	__atomic_store_n(slot, function, __ATOMIC_RELEASE);
	return 1;
}

/*
 * cudaMalloc for PyTorch's allocator. PyTorch reserves the segment for its current stream, and so does gpuconf. The
 * stream also identifies the logical GPU of autograd's threads, which have no scope. On cudaErrorMemoryAllocation,
 * PyTorch releases cached memory and retries.
 */
static int malloc_segment(void **ptr, size_t size) {
	static __thread size_t
	    injected; /* the size of this thread's injected failure: its retry fails, too, or no failure would be seen */
	struct torch_stream stream;
	int device = 0, result = torch.get_device(&device);

	if (result != CUDA_SUCCESS)
		return result;
	if (injected != 0 && injected == size) {
		injected = 0;
		return CUDA_OUT_OF_MEMORY;
	}
	injected = 0;
	stream = torch.current_stream((signed char)device);
	*ptr = gcgo_malloc_locked(GCGO_TORCH, size, device, torch.stream_handle(&stream));
	if (*ptr != NULL || size == 0)
		return CUDA_SUCCESS;
	if (strstr(gpuconf_last_error(), " out of memory") != NULL) {
		injected = strstr(gpuconf_last_error(), " out of memory, an injected failure") != NULL ? size : 0;
		return CUDA_OUT_OF_MEMORY;
	}
	gcgo_throw(gpuconf_last_error());
	return CUDA_UNKNOWN;
}

/* cudaFree for PyTorch's allocator. Memory that is not gpuconf's goes to the real cudaFree. */
static int free_segment(void *ptr) {
	size_t size;

	if (ptr == NULL || gpuconf_region(ptr, &size) == NULL)
		return torch.free(ptr);
	gpuconf_free(ptr, 0, 0, NULL);
	return CUDA_SUCCESS;
}

/*
 * The address of an imported function, as the loader resolves it for the library. The slot itself may still point to
 * the loader's stub, which would overwrite the slot when called.
 */
static void *import_of(void *library, const char *name) {
	void *found = dlsym(RTLD_DEFAULT, name);

	return found != NULL ? found : dlsym(library, name);
}

int gpuconf_torch_redirect(void) {
	void *opened = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *library;
	void **malloc_slot, **free_slot;

	if (gcgo_refuse())
		return 0;
	if (opened == NULL || dlinfo(opened, RTLD_DI_LINKMAP, &library) != 0)
		return gcgo_fail("mode 'segments' needs PyTorch's libc10_cuda.so, which is not loaded");
	malloc_slot = slot_of(library, "cudaMalloc");
	free_slot = slot_of(library, "cudaFree");
	*(void **)&torch.get_device = import_of(opened, "cudaGetDevice");
	*(void **)&torch.free = import_of(opened, "cudaFree");
	*(void **)&torch.current_stream = dlsym(opened, "_ZN3c104cuda20getCurrentCUDAStreamEa");
	*(void **)&torch.stream_handle = dlsym(opened, "_ZNK3c104cuda10CUDAStream6streamEv");
	if (!malloc_slot || !free_slot || !torch.get_device || !torch.free || !torch.current_stream || !torch.stream_handle)
		return gcgo_fail(
		    "mode 'segments' can't route this PyTorch: its libc10_cuda.so does not call the CUDA runtime as "
		    "a shared library. "
		    "Use mode 'whole'");
	if (!gcgo_redirect(free_slot, (void *)free_segment) || !gcgo_redirect(malloc_slot, (void *)malloc_segment))
		return gcgo_fail(
		    "mode 'segments' can't route PyTorch: the system refuses to make the page of its imports writable");
	return 1;
}
