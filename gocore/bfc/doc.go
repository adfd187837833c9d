// Package bfc is best fit with coalescing over numbers: it hands out address ranges and never touches what they
// point at. It knows no GPU. A sub-allocator gives it regions and takes them back.
//
// # Nouns
//
// A region is what the sub-allocator gave in one call, or, in a Mapper's range, what it gave side by side. A chunk is a piece of a
// region; chunks cover each region without a gap, and behind the last one stands a fence (chunks.Chunk). A chunk is live (a caller
// has it; then it is also called a block) or free. Every size and address is a multiple of 256.
//
//	none -> free   a region arrives as one free chunk (addRegionLocked), and joins those beside it (joinRegionsLocked)
//	free -> live   Allocate takes the smallest free chunk that fits, and may split the rest off as a new free chunk
//	live -> free   Free; the chunk joins its free neighbours within the region
//	free -> none   a region of one free chunk goes back, or a part of a Mapper's range (trim.go); or every region (Close)
//	free -> spare  a part of a Mapper's range that is to be moved, or all of an empty pool: mapped, and in no region (mapper_spare.go)
//	spare -> free  new memory is mapped over it, or it is moved to where some is missing
//
// # Files
//
// Chunks are stored and found by package chunks, in constant time; here they are split, joined and handed out. The files are of three
// groups. Those named mapper are about memory that grows in place and is moved. Those named streams are about several streams, and
// about captures. The rest is the allocator itself.
//
// # Memory that grows in place
//
// A Mapper is a sub-allocator with a range of addresses of its own (mapper_grow.go). New memory then goes to the hole where least of
// it is needed beside what is free at its ends, so a pool grows at its end, and what Trim gave back is filled in first. Regions
// that meet are joined.
//
// # Stitching
//
// A Mapper can move whole granules that no block touches (mapper_stitch.go). So a request fails only if too few of them are left, not because they lie
// apart. A gap is a run of addresses without a block: free chunks, and holes between regions. Of all places in all gaps the request goes to the one where
// the least is missing, the lowest of several; what is missing there is taken from what the limit leaves, and else from free chunks elsewhere,
// the highest granules first. What comes out is an ordinary region: freeing it and asking again takes no call of the device. In order, an allocation tries:
//
//  1. free chunks: its stream's, anybody's, what has become so, what follows anyway
//  2. growth, where the least has to be mapped
//  3. in shared mode another's free chunks, with a wait in the device
//  4. stitching, after the host has waited for the streams whose work may touch what is moved, one after the other until it is enough
//  5. giving back what is idle, if Options.GarbageCollect allows it, and growth again
//
// A request is not rounded up to granules, however large, and small ones have no place of their own. Either was measured: blocks that share
// the granules at their ends need 2.3 to 3.3 % more than is live under the law of random sizes up to 64 MiB, whole granules 2.9 %
// at best. Nor does best fit look for gaps instead of free chunks, which would make every placement a matter of the live blocks alone: it
// fits into slightly less memory, and moves memory for 40 % of large requests where this does for 2 %.
//
// The range of addresses is eight times the limit. It is used up only if live blocks cut all of it into gaps shorter than the request, of which
// there would have to be one in each eighth of it at least.
//
// # A pool that goes empty
//
// While there is one stream, a pool whose last block is freed makes all its memory spare, but for the first granule (mapper_spare.go): the books are those of a new
// pool, and the memory stays mapped where it is. What happens from then on depends on the calls alone: which chunk is taken, what is mapped
// and what is moved follow from the books, and whether the mapper can do it follows from the books and the limit (suballoc's invariant 11). So a sequence of
// requests that was served once, from empty to empty, is served each time, whatever was served in between, in no more memory
// than the limit: unless the device itself refuses. Under a pool that keeps its pieces the same sequence can pass twice and then fail,
// since the pieces that one round leaves are not those that it found.
//
// The first granule may stay in the books because any sequence begins by mapping it; if a request needs it gone, it goes (growWithoutFirstGranuleLocked).
//
// If the first round moved nothing, the others make no call of the device: what they map is there. With memory that was moved a round may
// move it again each time. A pool that never goes empty keeps its pieces as they are, and its iterations end at none.
//
// # Streams
//
// A device works through its streams side by side, so memory that was freed on one may still be in use by its queued work. While
// there is one stream, the device's order is the order of the calls, and nothing has to be known (single mode). The second one
// that is used turns the mode to shared, for good. Then free memory is somebody's: each stream has bins of its own, and there is
// one more set for what is clean: nobody's work touches it. A table of tags beside the chunks says whose each is, and a
// Timeline tells how far the device is.
//
//	live  -> free, owned   Free; the stream may have it again at once, others once it has passed the mark in the tag
//	live  -> held          Free of a block that other streams use: nobody may have it
//	held  -> free, owned   those streams have passed their marks (letGoLocked)
//	owned -> clean         the stream has passed its mark (reapLocked)
//	owned, held -> owned   another stream waits for all whose work may touch it, and then owns it (mergeLocked)
//	owned, clean -> live   Allocate
//
// Marks are queued in a stream only when another one wants memory, or after 64 MiB of frees. An allocation looks at its stream's own
// memory, then at clean memory, then at what has become clean or what the stream comes after anyway; then it gets new memory; then it
// takes another's and makes its stream wait; then it stitches, where it can. It fails only if no run of free neighbours, whosever they are, is large
// enough, or if waiting failed. The steps before new memory take time in proportion to the number of streams, but for runs of several owners' neighbours:
// to find one, all chunks are walked, which happens when no single chunk fits although enough is free. Before new memory that is done only as
// often as the allocations since the last walk pay for it, eight steps each: what it could find is then new memory, or waited for.
//
// Free neighbours of different owners stay apart, or one owner's fresh mark would lock up the other's memory. What was never
// used is no exception in a pool that was there before the second stream was: it is the first one's, until that has
// passed one mark.
//
// # Captures
//
// What is captured of a stream as a graph has an owner of its own, until nothing of the graph is left (streams_capture.go). It is a stream of
// the books that the timeline never hears of: its next mark is never queued, so what is its own is nobody else's, and no wait is queued in
// the captured stream: where a capture needs others' memory, the host waits.
//
// # Invariants
//
// Check walks all of them and names the broken one by its number.
//
//  1. Regions are sorted by address, do not overlap, and their sizes and what is spare sum up to BytesReserved.
//  2. The chunks of a region, from its first one along next to its fence, cover it exactly; prev mirrors next; no link leaves
//     the region.
//  3. A live chunk was asked for at least 1 byte and at most its size, and carries an id that was given once.
//  4. No two neighbours are both free, unless in shared mode they are different streams'.
//  5. Every free chunk is in bins exactly once, in shared mode in those of the stream that its tag names; nothing else is in bins.
//  6. Bins and index keep the invariants of package chunks.
//  7. The index holds every live chunk, and nothing else.
//  8. Every chunk record is in exactly one region, fences included, or on the list of unused records.
//  9. The books are the sums over the chunks; no peak is below what it is the peak of.
//  10. The slack of a live chunk is one that the split rule lets stand.
//  11. BytesReserved <= BytesLimit, spare memory included.
//  12. Regions in a Mapper's range are whole granules, and no two of them touch. No other region touches the range.
//
// In shared mode, but for 15:
//
//  13. Every free chunk that is not clean is in its stream's queue once, and nothing else is. Marks in a queue never fall, and none
//     is beyond the stream's next mark.
//  14. A use is in the list of one live or held chunk, whose stream is another, once for each stream; a held chunk has some. Uses of held
//     chunks are in their streams' queues, as in 13.
//  15. The last mark that a stream has queued or passed is not beyond the last that was tried, and nobody waits for one that was not
//     queued. Of a stream that has ended the last one tried was queued.
//  16. A stream's refs are the live and held chunks allocated on it, the uses of it and the captures of it; while it has any, its number
//     is not given again.
//  17. Memory is handed out to a stream only if all work that may still touch it is known to be done, or comes before whatever
//     is queued in that stream from now on; to a capture only if it is known to be done. (Check cannot see this one.)
//  18. What belongs to a capture, free memory included, is handed out to that capture only, while it lasts. (Nor this one.)
//  19. No work touches spare memory, in shared mode; before, only that of the only stream does. (Nor this one.)
//
// # What was not done
//
// Tags within the chunk records: the table beside them costs a memory access more in shared mode, but one stream's operations
// stay as fast as before. Freeing a block on another stream as a promise that its own stream's work is done: FreeOn asks for no
// such promise. Joining a stream's memory with clean memory beside it when it is freed: one small block would keep a whole pool
// from the other streams.
//
// # Locks
//
// Allocator has one mutex (lock_amd64.go); a method whose name ends in Locked needs it. It is held across calls of the sub-allocator and the
// timeline, which must not call back, and around each change and its entry in a recording (record.go), whose recorder's mutex comes
// before it. Trim, and what Options.GarbageCollect allows, wait for the device with it held. There are
// no goroutines and no timers.
package bfc
