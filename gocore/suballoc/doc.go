// Package suballoc gets an allocator its memory: whole regions, taken from a device and given back to it,
// never more than a limit. It knows numbers only; what stands upstream is two calls.
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
// # Invariants
//
//  1. taken + lost <= limit. It is checked before the device is asked, so it cannot be passed even for a moment.
//  2. taken is the sum of the regions that Extend gave and Release did not get.
//  3. Every region's size is a non-zero multiple of 256; bytes of the limit beyond its last multiple of 256 are never used.
//  4. The size asked for falls at every step of the back-off, so Extend ends whatever the device answers.
//     (TensorFlow's loop does not: below 2560 bytes its nine tenths round up to the size they came from.)
//  5. The next region's size never falls, and doubles at most once in an Extend that did not have to raise it to the request.
//
// # Locks
//
// Regions has one mutex, held while the device is asked. It calls nothing but its upstream, so it may be used
// under any other lock. All arithmetic is safe up to 2^64-1.
package suballoc
