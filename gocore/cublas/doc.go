// Package cublas is arithmetic on real GPUs: a gpu.Compute over NVIDIA's cuBLAS. Nothing of CUDA is needed to build, to import or to
// start: the first operation loads the library.
//
// # How the library is found
//
// In this order, each for the major versions that the driver can run and the GPUs are supported by, the newest first:
//
//  1. What the process has loaded already, by PyTorch or CuPy for example.
//  2. The wheels that pip installs, in the folders that the caller names: they are what PyTorch would load later, and two different ones
//     in a process get into each other's way. libcublasLt is loaded before, from the same folder.
//  3. What the loader finds.
//
// The functions that are used stand in one table, symbols.h. One that is newer than cuBLAS 11 may be missing, and then what needs it
// gives status.Unimplemented. Once loaded the library stays, and serves all Libraries of the process.
//
// # The idea
//
// cuBLAS stores matrices by columns. What is stored by rows is, read by columns, the transpose; and the transpose of a product is the
// product of the transposes in the other order. So a product is asked for with its operands swapped, and nothing is moved.
//
// A sum is cublas<t>geam with both factors 1: one rounding, as IEEE 754 wants it, where NaN and infinities go through; and the result
// may be one of the operands. A vector whose elements lie apart is a matrix of one row. A scalar operand is spread over a piece of
// scratch memory, which then serves piece after piece of the sum. There is no int32.
//
// # States
//
//	library  not loaded -> loaded (for good)
//	handle   none -> open (by the first operation in a context) -> none (when the context ends)
//
// # Invariants
//
//  1. A handle is used in the context that it was made in, by one goroutine at a time, and destroyed before that context ends.
//  2. Work is queued in the legacy default stream, which is what memory is allocated for and copies go through. An operation returns when
//     its work is done, whether it failed or not; so its scratch memory is nobody's any more when it goes back.
//  3. All memory of an operation is its caller's: results, and scratch from the logical GPU's pool, within its limit. Its size depends on
//     the operation alone, never on what is free: cuBLAS sums in an order that depends on it.
//  4. The mode is CUBLAS_PEDANTIC_MATH: no TensorFloat-32, no emulation.
//  5. Sizes that a cuBLAS takes as 32 bits never overflow: they go to its 64-bit functions, or are refused.
//
// What cuBLAS takes for itself when a handle is made, some MiB for kernels and a workspace that is then not used, is beside the pools, as
// the context is.
//
// # Locks
//
// A lock of the package guards loading. A Library's mutex guards its list of handles, a handle's own the handle; both are held
// inside the context, the latter while cuBLAS works.
package cublas
