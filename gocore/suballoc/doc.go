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
// place and gives back any part. Memory comes in granules (2 MiB on today's GPUs), one handle for each. What is left of the limit beside
// whole granules, all of it if the limit is smaller than one, is the rest: one region from MemAlloc, outside the range. So
// every byte of any limit can be had.
//
// What the caller has no use for at the moment it makes spare: that stays mapped, and counts as available. A Map that reaches it takes it
// over and asks nothing of the device. Stitch moves it to where it is missing: the handle is unmapped there and mapped here,
// which makes no copy and needs none, since what is spare holds nothing.
//
//	empty  -> parked   Map, Stitch  mapped, not yet accessible (mapLocked)
//	parked -> owned    Map, Stitch  the whole stretch is accessible: the caller has it
//	parked -> empty    Map, Stitch  undone, since a later step failed (unmapLocked)
//	owned  -> spare    Spare
//	spare  -> owned    Map, Stitch, Unspare
//	spare  -> empty    Stitch: the handle goes elsewhere (donors); DropSpare: it goes back to the device
//	owned  -> empty    Unmap, Release, Close
//	owned  -> parked   Release   the device refused to unmap it
//	none   -> rest     Extend
//	rest  <-> spare    Spare, then Extend for the same size, or Unspare
//	rest   -> none     Release, DropSpare, Close, and Stitch when the rest is spare and its bytes are needed
//	any    -> stray    the device refused to take a handle or the rest back
//
// A granule that stays parked counts against the limit. The next Map that reaches it takes it over. Strays count too. Both are offered to the device
// again when the caller asks what is available, and by Close.
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
//  6. held is the sum of granules, rest and strays: what the device holds for us. What is spare is a part of it, and available.
//  7. No slot lies beyond the range; one that is empty has no handle.
//  8. No handle is mapped twice.
//  9. While there is a rest that is not spare, or a stray that was one, what is left of the limit is whole granules (and less than 256 bytes).
//     Hence there is never a second one, and what the device really takes passes the limit by less than one granule.
//  10. A call that fails leaves what the caller has as it was; it undoes its own steps, last one first. (Not Release and Close: they
//     end the caller's part in any case.) What is spare may have gone back to the device.
//  11. Whether Map, Stitch and Extend serve depends on the caller's memory and the limit alone, as long as the device refuses nothing:
//     not on where what is spare lies.
//
// # What was not done
//
// Larger steps than asked for, doubling say: fewer calls while a pool grows, but a pool that stays near its live peak was worth more.
//
// Handles of several granules, which make a pool grow with fewer calls: a handle can be mapped only as a whole, so one that a small block touches
// can't be moved, and lifetimes that fit into a limit to the byte no longer do. Where a handle's edges lie would depend on what was
// there before, too, and with it whether a request is served (11). The calls are made once, while a pool grows.
//
// Mapping a handle in two places: two blocks could then lie in the same memory. One MemAlloc for each request that is larger than what
// granules can serve: it would need books of its own, where the rest is one number. Unmapping at Map's failure whatever is in the hole, instead of
// parking: a device that refuses once to unmap would then cost its addresses for good.
//
// # Locks
//
// Regions and Virtual have one mutex each, held while the device is asked. They call nothing but their upstream, so they may be
// used under any other lock. Several on one device know nothing of each other: each keeps its own limit. All arithmetic is safe
// up to 2^64-1.
package suballoc
