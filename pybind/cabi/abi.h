/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the C files of this package and Go; the public part is gpuconf.h. */
#ifndef GPUCONF_ABI_INTERNAL_H
#define GPUCONF_ABI_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../python/gpuconf/include/gpuconf.h"

/* The scope of a thread that has not entered one; take.go documents the word. */
#define GPUCONF_NO_SCOPE (-1)

void gcgo_scope_write(int64_t logical);
int64_t gcgo_scope_read(void);

/* The address of the driver's cuStreamGetCaptureInfo, 0 for none. */
void gcgo_capture_info_write(uintptr_t function);

/* The address of the function for cuda.TellIdle. */
uintptr_t gcgo_idle_function(void);

/* process.State.Generation, and whether a panic stopped the core; written by Go. */
extern uint32_t gcgo_generation;
extern int gcgo_stopped;

/* What gcgo_take allocated. */
struct gcgo_taken {
	uint64_t address, id;
	int32_t gpu;  /* the logical GPU's number */
	bool noticed; /* whether notices are pending */
};

/* The libraries of package holder. A holder is a library and the thread's tag. */
enum gcgo_library { GCGO_C, GCGO_GPUCONF, GCGO_TORCH, GCGO_CUPY, GCGO_NUMBA, GCGO_LIBRARY_BITS = 3 };

/* gocore/base/holder's Other, the last of the tags. */
enum { GCGO_OTHER_TAG = (1 << (16 - GCGO_LIBRARY_BITS)) - 1 };

/* Bits of devmgr.Known. */
enum { GCGO_UNCAPTURED = 1, GCGO_LASTING = 2 };

/* c10::cuda::CUDAStream: two bytes of device type and index, and an id. C++ returns it in registers, as C does. */
struct torch_stream {
	int16_t device;
	int64_t id;
};

/* lasting.c: whether a stream is certainly one that PyTorch never destroys. */
bool gcgo_torch_lasting(void *stream, int device);

/* The calling thread's tag: a number that package holder interned, 0 for none. */
void gcgo_tag_write(uint16_t tag);
uint16_t gcgo_tag_read(void);

/* tag.c: the tag of a thread without one, which may be one of PyTorch's for the backward pass; and after each
 * change of a thread's tag. */
uint16_t gcgo_backward_tag(void);
void gcgo_tag_written(uint16_t tag);

/* gpuconf_malloc for a library. The caller holds no lock that a thread may wait for while it holds the GIL. */
void *gcgo_malloc_for(enum gcgo_library library, size_t size, int device, void *stream);

/* The same for a caller that may hold such a lock. */
void *gcgo_malloc_locked(enum gcgo_library library, size_t size, int device, void *stream);

/* stack.c: whether a recording wants stacks, and noting the calling thread's. */
extern int gcgo_stacks;
void gcgo_note_stack(int acquire);

/* The number of the stack that was noted last, for the allocation that follows. */
void gcgo_site_write(uint32_t site);
uint32_t gcgo_site_read(void);

int gpuconf_python_stacks_begin(const char *hide);
void gpuconf_python_stacks_end(void);

/* segments.c: lets a pointer of a loaded library point to another function. Returns 0 if the system refuses to make it
 * writable. */
int gcgo_redirect(void **slot, void *function);

/*
 * torch.c: counts the requests to PyTorch's own allocator, or no longer, among the allocations of which one
 * fails. Returns 1, or 0 on failure. And how often the function that counts was called, to check that PyTorch calls it.
 */
int gpuconf_torch_count(int on);
uint64_t gpuconf_torch_seen(void);

void gcgo_set_error(const char *text);

/* Sets the error and returns 0, which is a failure in the C API. */
int gcgo_fail(const char *text);

/* Begins a call: clears the thread's last error. Returns 1, with the error set, if Go must not be entered. */
int gcgo_refuse(void);

/* Whether a call may enter Go (GCGO_NONE) or why it must not; then text receives the reason. */
enum gcgo_refusal { GCGO_NONE, GCGO_FORKED, GCGO_FEW_THREADS };
enum gcgo_refusal gcgo_refusal(char *text, size_t room);

/* threads.c: if gcgo_few_threads is not 0, gcgo_find_threads returns whether a call must be refused, and writes the
 * reason. */
extern int gcgo_few_threads;
int gcgo_find_threads(char *text, size_t room);

/* Returns how many threads can be started beside the reserve, at most wanted. It starts them, and they end at once. */
int gcgo_try_threads(int wanted);

/* Throws the C++ exception that PyTorch converts to its Python error. Returns only if no C++ runtime is loaded. */
void gcgo_throw(const char *text);

#endif
