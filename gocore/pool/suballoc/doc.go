// SPDX-License-Identifier: Apache-2.0

// Package suballoc obtains memory for an allocator: whole regions, taken from a device and returned to it, never
// more than a limit. It works on numbers only; the device is an interface of a few calls.
//
// # Regions
//
// Regions takes memory as TensorFlow's GPU pools do. Without growth, the first Extend requests the whole limit. With
// growth, it begins at 2 MiB and doubles. In both cases, if the device refuses, Regions retries
// with nine tenths of the size, until the device accepts or the next size would no longer serve the request.
//
// A region is in one of three states, and each call is a transition:
//
//	none  -> taken   Extend    the device returned it; its bytes count against the limit
//	taken -> none    Release   the device took it back
//	taken -> lost    Release   the device refused to take it back; its bytes count against the limit permanently,
//	                           because the device still holds them
//
// # Virtual
//
// Virtual reserves one range of addresses and maps physical memory where its caller says, so that a pool can grow in
// place and return any part. Memory comes in granules (2 MiB on current GPUs), with one handle each, except that a step
// of 512 MiB or more takes handles of up to 64 MiB (filling.go): mapping costs per handle. The part of the limit that
// whole granules leave over, or all of a limit below one granule, is the rest: one region from MemAlloc, outside the
// range. So every byte of any limit is usable.
//
// Memory that the caller does not need at the moment becomes spare: it stays mapped, and counts as available. A Map
// that reaches it takes it over without a device call. Stitch moves it to where memory is missing: it unmaps the
// handle and maps it again at the new address. Nothing is copied, since spare memory has no contents to keep.
//
//	empty  -> parked   Map, Stitch: mapped, not yet accessible (mapLocked)
//	parked -> owned    Map, Stitch: the whole stretch is accessible and belongs to the caller
//	parked -> empty    Map, Stitch: undone, because a later step failed (unmapLocked)
//	owned  -> spare    Spare
//	spare  -> owned    Map, Stitch, Unspare
//	spare  -> empty    Stitch: the handle is moved elsewhere (donors) or replaced (clear); DropSpare: it is
//	                   returned to the device
//	owned  -> empty    Unmap, Release, Close
//	owned  -> parked   Release: the device refused to unmap it
//	none   -> rest     Extend
//	rest  <-> spare    Spare, then Extend for the same size, or Unspare
//	rest   -> none     Release, DropSpare, Close, and Stitch if the rest is spare and its bytes are needed
//	any    -> stray    the device refused to take back a handle or the rest
//
// A granule that stays parked counts against the limit, and the next Map that reaches it takes it over. Strays count
// too. AvailableBytes and Close try again to return both to the device.
//
// # Invariants
//
// Of Regions:
//
//  1. taken + lost <= limit; for Virtual, held <= limit. Bytes are counted before the device is called, so the limit
//     is not exceeded even for a moment.
//  2. taken is the sum of the regions that Extend returned and Release has not received.
//  3. Every region's size is a non-zero multiple of 256. Bytes of the limit beyond its last multiple of 256 are never
//     used.
//  4. The requested size decreases at every step of the back-off, so Extend ends whatever the device answers.
//     (TensorFlow's loop does not: below 2560 bytes, nine tenths round up to the same size.)
//  5. The next region's size never decreases. It doubles at most once in an Extend that did not have to raise it to
//     the request.
//
// Of Virtual, which Check verifies together with 1 (except 10 and 11):
//
//  6. held, what the device holds for this pool, is the sum of granules, rest and strays. Spare memory is part of it,
//     and is available.
//  7. No slot lies beyond the range; an empty slot has no handle.
//  8. No handle is mapped twice. The granules of a handle are adjacent and in one state.
//  9. While there is a rest that is not spare, or a stray that was one, what is left of the limit is whole granules
//     plus less than 256 bytes. So there is never a second rest, and what the device really allocates exceeds the limit
//     by less than one granule.
//  10. A call that fails leaves the caller's memory as it was: it undoes its own steps, last one first. (Release and
//     Close are exceptions: they end the caller's ownership in any case.) Spare memory may have been returned to the
//     device.
//  11. As long as the device refuses nothing, whether Map, Stitch and Extend succeed depends only on the caller's
//     memory
//     and the limit, not on where spare memory lies.
//
// # Rejected alternatives
//
//   - Growing by more than was requested, such as doubling. A growing pool would make fewer calls, but a pool that
//     stays close to its live peak is worth more.
//   - Handles of several granules that stay. A handle can only be mapped as a whole, so one that a small block touches
//     could not be moved, and MiniMalloc's problems would need 1 to 3 % more memory. Whether a request succeeds (11)
//     would depend on where the edges of earlier handles lie. So large handles are replaced by granules before that.
//   - Large handles for smaller steps. Blocks of such sizes are often followed by smaller ones at the same place, and
//     each split waits for the device once.
//   - Mapping a handle in two places. Two blocks could then share the same memory.
//   - One MemAlloc for each request larger than the granules can serve. It would need its own accounting, while the
//     rest is one number.
//   - Unmapping on failure whatever Map finds in the hole, instead of parking. A device that refuses to unmap once
//     would then cost its addresses permanently.
//
// # Locks
//
// Regions and Virtual have one mutex each, held while the device is called. They call only their upstream, so they
// may be used under any other lock. Several of them on one device are independent: each keeps its own limit. All
// arithmetic is safe up to 2^64-1.
package suballoc
