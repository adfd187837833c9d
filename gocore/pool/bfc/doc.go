// SPDX-License-Identifier: Apache-2.0

// Package bfc implements a best-fit-with-coalescing memory allocator over plain address ranges.
//
// It never touches the memory it manages and knows nothing about GPUs. A SubAllocator supplies regions of
// addresses and takes them back; an Allocator divides them into blocks.
//
// # Terms
//
// Every address and size is a multiple of 256 bytes.
//
//   - A region is what the sub-allocator returned from one call or, in a Mapper's range, from several calls
//     whose memory is adjacent.
//   - A chunk is a piece of a region. Chunks cover each region without gaps, and a fence record follows the
//     last one (chunks.Chunk).
//   - A chunk is live if a caller holds it; a live chunk is also called a block. Otherwise it is free or, with
//     several streams, held (see Streams).
//   - A granule is the unit in which a Mapper maps memory. A large step gets handles of several granules, which are
//     split into granules before a block takes a part of one (mapper_grow.go).
//   - Spare memory is mapped but belongs to no region (mapper_grow.go).
//
// Memory moves between these states:
//
//	none  -> free   a new region is one free chunk (addRegionLocked), merged with adjacent regions (joinRegionsLocked)
//	free  -> live   Allocate takes the smallest free chunk that fits, and may split the rest off as a new free chunk
//	live  -> free   Free; the chunk is merged with its free neighbors in the region
//	free  -> none   a region that is one free chunk, or part of a Mapper's range, is released (region.go);
//	                or every region is (Close)
//	free  -> spare  part of a Mapper's range is about to be moved, or the whole pool is empty (mapper_grow.go)
//	spare -> free   new memory is mapped over it, or it is moved to where memory is missing
//
// # Files
//
// Package chunks stores chunks and finds them in constant time; this package splits, merges and allocates
// them. Files named mapper_* cover memory that grows in place and is moved. Files named streams_* cover
// several streams, and captures. The other files are the allocator itself.
//
// # Memory that grows in place
//
// A Mapper is a SubAllocator with its own range of addresses (mapper_grow.go). A request maps memory into the
// hole that needs the least new memory in addition to the free memory at its ends. A pool therefore grows at
// its end, and memory released by Trim is filled in first. Adjacent regions are merged.
//
// # Stitching
//
// A Mapper can also move whole granules that no block touches (mapper_stitch.go), so a request fails only if
// there are too few of them, not because they are scattered. A gap is a run of addresses without a block: free
// chunks, and holes between regions. Among all positions in all gaps, the allocator picks the one that misses
// the least memory, the lowest address on a tie. It takes the missing memory from what is left of the limit,
// then from free chunks elsewhere, highest granules first. The result is an ordinary region: freeing the block
// and requesting it again makes no device call.
//
// An allocation tries, in this order:
//
//  1. free chunks: the stream's own, clean ones, ones that have become clean since, and those of streams
//     that it already waits for
//  2. growth, where the least memory has to be mapped
//  3. in shared mode, another stream's free chunks, with a wait on the device
//  4. stitching, after the host has waited for the streams whose work may touch the granules to be moved, one
//     stream at a time until enough memory is clean
//  5. if Options.GarbageCollect is set, releasing idle memory and growing again
//
// Requests are not rounded up to granules, however large, and small requests have no separate area. Both
// alternatives were measured. With random sizes up to 64 MiB, blocks that share the granules at their ends need
// 2.3 to 3.3 % more memory than is live; whole granules need 2.9 % more at best.
//
// Best fit searches free chunks, not gaps. Searching gaps would make every placement a function of the live
// blocks alone. It needs slightly less memory, but it moves memory for 40 % of large requests, compared with
// 2 % here.
//
// The range of addresses is eight times the limit. It is exhausted only if live blocks cut all of it into gaps
// shorter than the request, which takes at least one live block in each eighth of the range.
//
// # An empty pool
//
// While there is one stream, a pool whose last block is freed makes all its memory spare except the first
// granule (mapper_grow.go). Its accounting is then that of a new pool, while the memory stays mapped where it
// is. From there, which chunk is taken, what is mapped and what is moved follow from the accounting; whether the
// mapper can do it follows from the accounting and the limit (suballoc's invariant 11). So a sequence of requests
// that succeeded once, from empty to empty, succeeds every time, whatever ran in between and without exceeding
// the limit, unless the device itself refuses. In a pool that keeps its chunks as they are, the same sequence can
// succeed twice and then fail, because each round leaves different fragments than it found.
//
// The first granule may stay because every sequence begins by mapping it. If a request needs it released, it is
// (growWithoutFirstGranuleLocked).
//
// If the first round moved nothing, later rounds make no device calls, because all they need is already mapped.
// If it moved memory, each later round may move it again. A pool that never becomes empty keeps its chunks as
// they are, and repeated iterations settle at no device calls.
//
// # Streams
//
// A device runs its streams concurrently, so memory freed on one stream may still be in use by work queued there.
// With one stream, the device runs work in the order of the calls, and nothing has to be tracked (single mode).
// The first use of a second stream switches to shared mode, permanently. Free memory then has an owner: each
// stream has its own bins, and one more set of bins holds clean memory, which no queued work touches. A table of
// tags beside the chunks records each chunk's owner, and a Timeline reports how far the device has progressed.
//
// A mark is a numbered point in a stream. A stream has passed a mark once all work queued before it is done.
//
//	live        -> free, owned  Free; its stream may reuse it at once, other streams once it has passed the tag's mark
//	live        -> held         Free of a block that other streams use; no stream may have it
//	held        -> free, owned  those other streams have passed their marks (letGoLocked)
//	owned       -> clean        the owner has passed the mark (reapLocked)
//	owned, held -> owned        another stream waits for all work that may touch it, and becomes its owner
//	                            (mergeLocked)
//	owned, clean -> live        Allocate
//
// An allocation looks at its stream's own memory, then at clean memory; what it finds there serves it at once. Then it
// looks at memory that has become clean or whose owner the stream already waits for. Next it gets new memory. Then it
// takes another stream's memory and makes its own stream wait. Last, it stitches if it can. It fails only if no run of
// free neighbors, of any owner, is large enough, or if waiting failed.
//
// A mark is a driver call, so it is queued only if memory may be wanted: in all other streams when a request is not
// served at once, and after each 64 MiB of frees, so that later requests find memory of passed work. The latter ends
// when every request has been served at once while as much as the limit was freed, and begins again with the next
// one that is not. A job that works on one stream of several thus makes no driver calls for memory that the pool has.
// The request after such a time finds only clean memory without a wait; the mark that it queues serves the ones after
// it.
//
// A stream that is not lasting (Timeline) may have been destroyed whenever no call names it. Its marks are queued only
// in calls that name it, so its memory is clean later than a lasting stream's. If such memory is the last resort, the
// host waits for the whole device in place of a mark, and then all streams that are not lasting have passed one. A
// request of a capture must not wait like that, which would invalidate the capture: it fails.
//
// The steps before new memory take time proportional to the number of streams, with one exception: finding a run
// of neighbors with several owners walks all chunks. That is needed when no single chunk fits although enough
// memory is free. Before new memory is tried, the walk runs only as often as the allocations since the last walk
// pay for it, at eight steps each. What a skipped walk would have found is then replaced by new memory, or
// waited for.
//
// Free neighbors with different owners are not merged, because one owner's recent mark would lock up the other's
// memory. Memory that was never used is no exception in a pool older than its second stream: it belongs to the
// first stream until that has passed one mark.
//
// # Captures
//
// Work captured from a stream as a graph has its own owner until nothing of the graph is left
// (streams_capture.go). The accounting treats it as a stream, but the timeline does not know it: its next mark is
// never queued, so no other stream gets its memory. No wait is queued in the captured stream either: if a capture
// needs another stream's memory, the host waits.
//
// # Holders
//
// Each block counts for a holder, which is a library and a tag (package holder). Its chunk record keeps the holder
// beside the id, and the allocator has a row of counters for each holder, by number (stats.go). Rows change together
// with the statistics, so they add up to them at any time. The table of rows grows when a new holder comes, not before,
// and an allocation by a holder without a row leaves the fast path for that.
//
// # Invariants
//
// Check verifies them all, except 17 to 19, and reports the first broken one by its number. Comments in the code
// refer to them by these numbers.
//
//  1. Regions are sorted by address and do not overlap. Their sizes and the spare memory add up to BytesReserved.
//  2. The chunks of a region, from the first along next to the fence, cover it exactly. prev mirrors next, and no
//     link leaves the region.
//  3. A live chunk's requested size is at least 1 byte and at most the chunk's size. Its id was assigned only once.
//  4. No two neighbors are both free, unless, in shared mode, different streams own them.
//  5. Every free chunk is in bins exactly once; in shared mode, in the bins of the stream that its tag names.
//     Nothing else is in bins.
//  6. Bins and index keep the invariants of package chunks.
//  7. The index holds every live chunk and nothing else.
//  8. Every chunk record is in exactly one region, fences included, or on the list of unused records.
//  9. The counters, those of each holder's row too, equal the sums over the chunks. No peak is below the current value
//     of what it measures.
//  10. The slack of a live chunk is one that the split rule permits.
//  11. BytesReserved, including spare memory, does not exceed BytesLimit.
//  12. Regions in a Mapper's range consist of whole granules, and no two of them touch. No other region overlaps
//     the range.
//
// In shared mode (15 holds in single mode too):
//
//  13. Every free chunk that is not clean is in its stream's queue exactly once, and nothing else is. Marks in a queue
//     never decrease, and none is beyond the stream's next mark.
//  14. A use is in the list of one live or held chunk that was allocated on a different stream; a chunk has at most one
//     use per stream, and a held chunk has at least one. Uses of held chunks are in their streams' queues, as in 13.
//  15. The last mark that a stream has queued or passed is not beyond the last one that was tried. No stream waits
//     for a mark that was not queued. The last mark tried on an ended stream was queued.
//  16. A stream's refs count the live and held chunks allocated on it, its uses, and its captures. Its number is not
//     reused while refs is above 0.
//  17. Memory is given to a stream only if all work that may still touch it is known to be done or is ordered before
//     everything queued in that stream from then on; to a capture, only if that work is known to be done. (Check
//     cannot verify this.)
//  18. While a capture lasts, memory that belongs to it, free memory included, is given to that capture only. (Nor
//     this.)
//  19. In shared mode, no work touches spare memory; in single mode, only the work of the one stream does. (Nor this.)
//
// # Rejected alternatives
//
//   - Tags inside the chunk records. The separate table costs one more memory access in shared mode, but
//     operations on one stream stay as fast as before.
//   - Treating a free on another stream as a promise that the block's own stream has finished with it. FreeOn does
//     not require such a promise.
//   - Merging a stream's memory with adjacent clean memory when it is freed. One small block would keep a whole
//     pool from the other streams.
//
// # Locks
//
// An Allocator has one mutex; methods whose names end in Locked require it. It is held across calls of the
// sub-allocator and the timeline, which must not call back, and around each change together with its entry in a
// recording (record.go). The recorder's mutex is acquired before it. Trim, Close, and the collection that
// Options.GarbageCollect enables, wait for the device while holding it. There are no goroutines and no timers.
//
// The fast paths of AllocateFor and Free, which call nothing outside this package and package chunks, unlock without
// defer: it would be 5 % of their time. A panic there, which means a broken invariant, leaves the mutex locked, so the
// allocator must not be used afterwards. The process's gate sees to that (pybind/process/gate.go).
package bfc
