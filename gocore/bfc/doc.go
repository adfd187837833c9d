// Package bfc is best fit with coalescing over numbers: it hands out address ranges and never touches what they
// point at. It knows no GPU. A sub-allocator gives it regions and takes them back.
//
// # Nouns
//
// A region is what the sub-allocator gave in one call, or, in a Mapper's range, what it gave side by side. A chunk is a piece of a
// region; chunks cover each region without a gap, and behind the last one stands a fence (chunk.go). A chunk is live (a caller
// has it; then it is also called a block) or free. Every size and address is a multiple of 256.
//
//	none -> free   a region arrives as one free chunk (addRegionLocked), and joins those beside it (joinRegionsLocked)
//	free -> live   Allocate takes the smallest free chunk that fits, and may split the rest off as a new free chunk
//	live -> free   Free; the chunk joins its free neighbours within the region
//	free -> none   a region of one free chunk goes back, or a part of a Mapper's range (trim.go); or every region (Close)
//
// # How an allocation is found in constant time
//
// Free chunks hang in lists by size class (bin.go). Below 63 MiB a class is exactly one size, so the first class at
// or above the request that is not empty holds the best fit; three levels of 64-bit words find it with at most five
// loads (bitmap.go). Above, a class holds several sizes, and its list, which is short there, is sorted. So no step
// grows with the number of chunks. Under the TensorFlow rule a class of one size is a heap (heap.go): O(log n) in the mean.
//
// A block is found by its address in a hash table (index.go). Chunks are 40-byte records that name each other by number
// (chunk.go). All tables are outside the Go heap (table_unsafe.go): the collector has nothing to scan, and an operation
// allocates nothing.
//
// # Ties
//
// Among chunks of the best size the exact rule takes the lowest address of the first four in the list, which bounds the work.
// The TensorFlow rule takes the lowest address of all, so that it gives TensorFlow's addresses on any trace.
//
// # Invariants
//
// Check walks all of them and names the broken one by its number.
//
//  1. Regions are sorted by address, do not overlap, and their sizes sum up to BytesReserved.
//  2. The chunks of a region, from its first one along next to its fence, cover it exactly; prev mirrors next; no link leaves
//     the region.
//  3. A live chunk was asked for at least 1 byte and at most its size, and carries an id that was given once.
//  4. No two neighbours are both free.
//  5. Every free chunk is in its class exactly once, and nothing else is in a class. Classes that hold several sizes are lists
//     sorted by size, and under the TensorFlow rule by address then; its other classes are heaps with the lowest address on top.
//  6. A class's bit is set if and only if the class is not empty; a bit of a summary if and only if the word below is not 0.
//  7. The index finds every live chunk under its address, and holds nothing else.
//  8. Every chunk record is in exactly one region, fences included, or on the list of unused records.
//  9. The books are the sums over the chunks; no peak is below what it is the peak of.
//  10. The slack of a live chunk is one that the split rule lets stand.
//  11. BytesReserved <= BytesLimit.
//  12. Regions in a Mapper's range are whole granules, and no two of them touch. No other region touches the range.
//
// # Locks
//
// Allocator has one mutex; a method whose name ends in Locked needs it. It is held across calls of the sub-allocator,
// which must not call back. There are no goroutines, no timers and no waiting.
package bfc
