// SPDX-License-Identifier: Apache-2.0

// Package cuda implements gpu.Driver with NVIDIA's CUDA driver, libcuda.so.1. CUDA is not needed to build, import or
// start: Open loads the library when it is called.
//
// # The library
//
// symbols.h lists the functions that are used, with the CUDA version in which each appeared. Functions that every
// driver since CUDA 11.0 has are required. A newer one may be missing; calls that need it then return
// status.Unimplemented (gpu.ErrorNotSupported) and name the version. Once loaded, the library is never unloaded: other
// code in the process may use it.
//
// Without the library, or with a driver that does not work, Open returns status.Unavailable. With a working driver that
// offers no GPU (CUDA_VISIBLE_DEVICES may hide them all), it returns a Driver without devices.
//
// # Contexts
//
// Every device has one primary context, shared by PyTorch, CuPy and everything else built on the CUDA runtime. This
// package retains it and never creates another context. A thread's current context belongs to the code running on that
// thread. So:
//
//  1. A call makes its device's primary context current if it isn't, and restores the thread's current context
//     afterwards, also on failure. Entering and leaving happen in C, within one cgo call, so a goroutine cannot change
//     threads in between. InContext is the exception: it runs Go code, with the goroutine locked to its thread.
//  2. A call returns its own result, even if leaving the context fails. The result may still report a failure of work
//     queued earlier.
//  3. Calls that only take addresses or handles (MemAddressReserve, MemMap, MemUnmap, MemRelease ...) need no context.
//
// # Accounting
//
// CUDA has one address space, so any context can access any device's memory, and a stray copy may destroy the context,
// PyTorch's work included. Other libraries may keep the primary context alive after our last release. To keep the
// promises of package gpu, the Driver therefore tracks its own resources; those of other libraries are not tracked.
//
//  4. A device's reach is what the Driver has allocated there, plus mappings that the device may access. Copies, fills
//     and stream memory operations outside the reach are refused before they get to CUDA.
//  5. An address or handle is removed from the accounting before CUDA is asked to free it, and restored if CUDA
//     refuses. So of two callers that free the same one, only one reaches CUDA.
//  6. The last release of a context, and Close, free all tracked resources that are left: streams, events, page-locked
//     memory and allocations; Close also mappings, handles and reservations.
//  7. Adjacent mappings that the same device may access form one span of its reach; an allocation is always its own
//     span.
//
// Streams are the exception: an untracked stream may belong to another library, and is passed to CUDA as it is.
//
// # What CUDA leaves unspecified
//
//   - cuMemcpyHtoD may return before the copy is done, and cuMemsetD8 nearly always does. The synchronous calls wait.
//   - The range of stream priorities can only be queried in a context. Devices creates none, and reports what NVIDIA's
//     drivers since CUDA 11 have been observed to return: -5 to 0 for compute capability 7.0 and newer, else -2 to 0.
//     The driver clamps priorities to its range, so a wrong bound is harmless.
//   - A MIG instance is named "MIG-..." instead of "GPU-...". It is recognized by having two UUIDs: the card's and the
//     instance's.
//
// # Captures
//
// Other code in the process may capture streams as graphs. While a thread captures in CUDA's global mode, CUDA refuses
// allocations in all threads, because they might be meant to be part of the graph. Our allocations are not: they must
// exist whenever the graph is launched. So such calls, and queries of stream progress, are made in relaxed mode. The
// lifetime of a graph is tracked by a user object that the graph holds. Its destructor only writes a word of C memory
// (calls.c), because CUDA calls it on its own thread and does not allow it to call CUDA.
//
// # Locks
//
// Each Driver has one mutex, which guards its accounting and is never held during a call to CUDA. Calls in progress are
// counted, and the last release of a context waits for them, as does Close. A package-level lock guards loading.
package cuda
