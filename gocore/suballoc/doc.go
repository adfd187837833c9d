// Package suballoc gets an allocator its memory: whole regions, taken from a device and given back to it,
// never more than a limit. It knows numbers only; what stands upstream is a few calls.
//
// # Regions
//
// Regions takes memory as TensorFlow's GPU pools do. Without growth it asks for the whole limit at the
// first Extend. With growth it begins at 2 MiB and doubles. Either way a device that refuses is asked again for
// nine tenths, until it agrees or the next size would not serve the request.
//
// A region is in one of three states, and each call is a transition:
//
//	none -> taken    Extend    the device gave it; its bytes count against the limit
//	taken -> none    Release   the device took it back
//	taken -> lost    Release   the device refused to take it back; its bytes count against the limit for
//	                           good, since the device still holds them
//
// # Virtual
//
// Virtual reserves one range of addresses and puts physical memory into it where its caller says, so that a pool grows in
// place and gives back any part. Memory comes in granules (2 MiB on today's GPUs), one handle for each, or for 16 of
// them where that many are wanted at once; a handle and where it is mapped are a piece. What is left of the limit beside
// whole granules, all of it if the limit is smaller than one, is the rest: one region from MemAlloc, outside the range. So
// every byte of any limit can be had.
//
//	empty  -> parked   Map       created and mapped, not yet accessible (mapPieceLocked)
//	parked -> owned    Map       the whole stretch is accessible: the caller has it
//	parked -> empty    Map       undone, since a later step failed (unmapPieceLocked)
//	owned  -> empty    Unmap, Release, Close
//	owned  -> parked   Release   the device refused to unmap it
//	none   -> rest     Extend
//	rest   -> none     Release, Close
//	any    -> stray    the device refused to take a handle or the rest back
//
// A piece that stays parked counts against the limit. The next Map that reaches it takes it over. Strays count too, until a
// Close gets rid of them.
//
// # Invariants
//
// Of Regions:
//
//  1. taken + lost <= limit, and for Virtual held <= limit. It is counted before the device is asked, so it cannot be passed
//     even for a moment.
//  2. taken is the sum of the regions that Extend gave and Release did not get.
//  3. Every region's size is a non-zero multiple of 256; bytes of the limit beyond its last multiple of 256 are never used.
//  4. The size asked for falls at every step of the back-off, so Extend ends whatever the device answers.
//     (TensorFlow's loop does not: below 2560 bytes its nine tenths round up to the size they came from.)
//  5. The next region's size never falls, and doubles at most once in an Extend that did not have to raise it to the request.
//
// Of Virtual, which Check walks together with 1:
//
//  6. held is the sum of pieces, rest and strays: what the device holds for us.
//  7. Every slot of the range is empty, or the first or a later granule of one piece; no piece leaves the range.
//  8. No handle is mapped twice.
//  9. While there is a rest, or a stray that was one, what is left of the limit is whole granules (and less than 256 bytes).
//     Hence there is never a second one, and what the device really takes passes the limit by less than one granule.
//  10. A call that fails leaves what the caller has as it was; it undoes its own steps, last one first. (Not Release and Close: they
//     end the caller's part in any case.)
//
// # What was not done
//
// Larger steps than asked for, doubling say: fewer calls while a pool grows, but a pool that stays near its live peak was worth more;
// large pieces make up for most of it. One MemAlloc for each request that is larger than what granules can serve: it would
// need books of its own, where the rest is one number. Unmapping at Map's failure whatever is in the hole, instead of parking: a
// device that refuses once to unmap would then cost its addresses for good.
//
// # Locks
//
// Regions and Virtual have one mutex each, held while the device is asked. They call nothing but their upstream, so they may be
// used under any other lock. Several on one device know nothing of each other: each keeps its own limit. All arithmetic is safe
// up to 2^64-1.
package suballoc
