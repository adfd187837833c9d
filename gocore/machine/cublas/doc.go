// SPDX-License-Identifier: Apache-2.0

// Package cublas does arithmetic on real GPUs: it implements gpu.Compute with NVIDIA's cuBLAS. CUDA is not needed to
// build, import or start: the first operation loads the library.
//
// # How the library is found
//
// In this order; each step tries the major versions that the driver can run and that support the GPUs, newest first:
//
//  1. A library that the process has already loaded, for example with PyTorch or CuPy.
//  2. The wheels that pip installs, in the folders that the caller passes: PyTorch would load these later, and two
//     different versions in a process conflict. libcublasLt is loaded first, from the same folder.
//  3. What the loader finds.
//
// symbols.h lists the functions that are used. One that is newer than cuBLAS 11 may be missing; operations that need it
// then return status.Unimplemented. Once loaded, the library is never unloaded, and all Libraries of the process share
// it.
//
// # How operations map to cuBLAS
//
// cuBLAS matrices are column-major. A row-major matrix read as column-major is its transpose, and the transpose of a
// product is the product of the transposes in reverse order. So a product is computed with its operands swapped,
// without copying anything.
//
// A sum is cublas<t>geam with both factors 1: it rounds once, as IEEE 754 requires, and propagates NaN and infinities;
// the result may be one of the operands. A strided vector is a matrix of one row. A scalar operand is repeated in a
// block of scratch memory, which every piece of the sum uses. There is no int32.
//
// # States
//
//	library  not loaded -> loaded (never unloaded)
//	handle   none -> open (by the first operation in a context) -> none (when the context ends)
//
// # Invariants
//
//  1. A handle is used in the context in which it was created, by one goroutine at a time, and destroyed before that
//     context ends.
//  2. Work is queued in the legacy default stream, for which memory is allocated and which copies use. An operation
//     returns when its work is done, even on failure; so its scratch memory is not in use when it is freed.
//  3. All memory of an operation comes from its caller: results, and scratch from the logical GPU's pool, within its
//     limit. The size of the scratch depends only on the operation, never on free memory, because cuBLAS's order of
//     summation depends on it.
//  4. The mode is CUBLAS_PEDANTIC_MATH: no TensorFloat-32, no emulation.
//  5. Sizes beyond 32 bits never overflow: they go to the 64-bit functions of cuBLAS, or are refused.
//
// The memory that cuBLAS allocates itself when a handle is created (some MiB for kernels, and a workspace that is then
// unused) is outside the pools, like the context.
//
// # Locks
//
// A package-level lock guards loading. A Library's mutex guards its list of handles, and each handle has its own mutex;
// both are held inside the context, the latter while cuBLAS works.
package cublas
