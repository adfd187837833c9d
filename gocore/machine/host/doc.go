// SPDX-License-Identifier: Apache-2.0

// Package host implements the CPU device: it allocates blocks of host memory and does arithmetic on their addresses.
// Simulated GPUs use the same arithmetic, because their device addresses are host addresses.
//
// Floating-point matrix products use gonum. Integer products, which gonum lacks, the smallest products, and sums are
// plain loops.
//
// # Invariants
//
//  1. A block's address is a multiple of 64 and belongs to no other live block.
//  2. A block's memory does not move between Allocate and Free. Small blocks are on the Go heap, whose objects do not
//     move. Large blocks are mapped, because Go ends the process when its heap runs out of memory, whereas mmap returns
//     an error.
//  3. BytesInUse is the sum of the live blocks' sizes. Freed blocks, up to 64 MiB, are kept for later ones and are not
//     in it.
//
// # Locks
//
// Memory has one sync.RWMutex. Changes to the table hold it for writing and copies hold it for reading, so no block is
// freed during a copy. Compute has no state.
package host
