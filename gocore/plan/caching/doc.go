// SPDX-License-Identifier: Apache-2.0

// Package caching is a model of PyTorch's caching allocator for CUDA: which address it hands out for a request, and
// when it takes memory from the device and returns it. It holds only numbers, no memory.
//
// # Overview
//
// An Allocator takes segments from a Device and cuts them into blocks. A request is rounded up (Settings.round), served
// by the smallest free block that holds it and that block is split if enough is left (Settings.splits). Freed
// blocks merge with their free neighbors and stay cached. If no free block fits, the allocator asks the device for a
// segment; if the device has no more memory, it releases cached segments and asks again, and fails with
// ErrOutOfMemory after that.
//
// Blocks of 1 MiB or less come from segments of 2 MiB, larger ones from segments of 20 MiB or more; the two never mix.
// Nor do streams, nor the private pools of CUDA graphs and of torch.cuda.MemPool. So every free block belongs to one
// shelf: those of one pool, size group and stream.
//
// With expandable segments (expandable.go), a shelf has one large range of addresses instead, which starts unmapped.
// Memory is mapped at its lowest unmapped addresses, in granules of 2 or 20 MiB.
//
//	free       on its shelf, in the order of size and then address
//	allocated  handed out
//	waiting    freed by the program, still in use by another stream (FreeLater)
//	unmapped   addresses of an expandable segment without memory
//
// # Source
//
// The rules are those of c10/cuda/CUDACachingAllocator.cpp as of PyTorch 2.1 to 2.15, described in PyTorch's "CUDA
// semantics" under "Memory management". They are the same in these versions except for settings that did not exist yet
// (max_non_split_rounding_mb, large_segment_size_mb), which have the older behavior as their default, and for ties:
// PyTorch 2.15 takes the free block of the oldest segment, and 2.11 and earlier the lowest one.
//
// # Invariants
//
//  1. The blocks of a segment are a list in the order of addresses, without gaps, and their sizes add up to the
//     segment's.
//  2. No two neighbors are both free, nor both unmapped.
//  3. A block is on its shelf if and only if it is free, and each shelf is sorted as Options.TiesByAge says.
//  4. Reserved is the sum of the segments' sizes; of an expandable segment, only what is mapped counts.
//
// # Locks
//
// An Allocator has no lock: only one goroutine may use it at a time.
package caching
