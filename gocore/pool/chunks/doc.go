// SPDX-License-Identifier: Apache-2.0

// Package chunks holds the tables of a best-fit allocator: the records of its chunks, the free ones by size, the live
// ones by address.
//
// It decides nothing. Package bfc splits, joins and hands out chunks; here they are stored and found. All tables lie
// outside the Go heap (package offheap): the garbage collector has nothing to scan, and no operation allocates.
//
// # How a free chunk is found in constant time
//
// Bins are lists by size class (bin.go). Below 63 MiB a class is exactly one size, so the first class at or above the
// request that is not empty holds the best fit. Three levels of 64-bit words find it with at most five loads
// (bin.go). Above, a class holds several sizes, and its list, which is short there, is sorted. So no step grows with
// the number of chunks. Under the TensorFlow rule a class of one size is a heap (index.go): O(log n) on average.
//
// # Ties
//
// Among chunks of one size below 63 MiB the first of the list is taken, and a chunk that is inserted goes in front of
// the first one if it is lower, else behind it. So the chunk that is taken is the lowest of all that were inserted
// since it was, at the price of one comparison: with many chunks, walking along a list costs more than everything else.
// Larger chunks of one size are taken by address. The TensorFlow rule takes the lowest address of all, so that it
// returns TensorFlow's addresses on any trace.
//
// # Invariants
//
//  1. A class's bit is set if and only if the class has chunks; each has the class's size, and its links are mirrored.
//  2. A bit of a summary word is set if and only if the word below it is not 0.
//  3. Classes that hold several sizes are lists sorted by size and then by address. Under the TensorFlow rule the
//     others are heaps with the lowest address on top.
//  4. The index finds each of its chunks, by its address, in one slot, and is at most half full; while it is small,
//     less (mostLive).
//
// # Concurrency
//
// Nothing here is safe for concurrent use. The allocator's lock guards all of it.
package chunks
