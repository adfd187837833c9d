// SPDX-License-Identifier: Apache-2.0

// Package blas multiplies matrices in host memory with the BLAS of the machine, at its speed: OpenBLAS, MKL, BLIS or
// another library with the C interface (CBLAS). None is needed to build, import or start: the first product that is
// large enough looks for one.
//
// # How the library is found
//
// In this order:
//
//  1. A library that the process has already loaded, for example with NumPy: two libraries would have twice the
//     threads.
//  2. The one that NumPy's wheel contains, and the wheels scipy-openblas64, scipy-openblas32 and mkl, in the folders
//     that the caller passes.
//  3. What the loader finds under the usual names.
//
// A library without a known name of its own, such as the reference BLAS, is slower than gonum and is used only if the
// caller names it.
//
// # Names and integers
//
// Libraries with 64-bit integers mark their functions, as cblas_sgemm64_ (OpenBLAS) or cblas_sgemm_64 (MKL); SciPy's
// builds put scipy_ in front. Names without a mark mostly mean 32-bit integers. symbols in library.c has all
// combinations. Arguments are always passed as 64-bit integers: on x86-64 and arm64 a function with 32-bit parameters
// reads their lower halves. Sizes beyond 31 bits go only to a library whose names promise 64 bits.
//
// # Invariants
//
//  1. A library is never unloaded. A Library that has found one keeps it.
//  2. Whether the library computes a product depends only on its type and sizes, so the same product always has the
//     same result in a process. Another library, version or number of threads may round differently.
//  3. At most as many calls as there are processors run at once: OpenBLAS ends the process when too many threads call
//     it.
//
// # Locks
//
// A Library's mutex guards the search. Nothing is locked while a product is computed.
package blas
