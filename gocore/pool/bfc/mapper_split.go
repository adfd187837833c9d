// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"math"

	"gpuconf/gocore/pool/chunks"
)

// A mapper's handle of several granules can only be moved or released together, so a block that touches a part of it
// would hold all of it. In single mode, no handle lies partly in a block and partly in free memory: before a block
// takes a part of a handle, the handle is split into granules. It is the price of a large step's few calls, and is paid
// once. What a pool can serve, and where, is therefore the same as if every granule had its own handle.
//
// In shared mode free memory may belong to several streams, and nothing is split.

// neverSplit is the value of uncut while there are no handles of several granules.
const neverSplit = math.MaxUint64

func (a *Allocator) hasLarge() bool { return a.uncut != neverSplit }

// splitLocked splits the handle in free chunk i, if there is one, that reaches across an address. Afterwards chunks and
// regions may have other numbers. The memory is back at its place, or, if the device refuses it, no longer the pool's.
func (a *Allocator) splitLocked(i uint32, addr uint64) (split bool, err error) {
	c := a.chunks.Records[i]
	if !a.hasLarge() || a.shared || !a.space.holds(c.Addr()) {
		return false, nil
	}
	end := c.Addr() + c.Bytes()
	_, low := a.mapper.Whole(c.Addr(), addr)
	high, _ := a.mapper.Whole(addr, end)
	if low >= addr || high <= addr || high-low <= a.space.granule || low < c.Addr() || high > end {
		return false, nil
	}
	if err := a.chunks.RoomFor(4); err != nil {
		return false, err
	}
	if err := a.quietLocked(); err != nil {
		return false, err
	}
	at, found := a.regionAfterLocked(low)
	if !found {
		at--
	}
	if err := a.spareLocked(at, i, low, high); err != nil {
		return false, err
	}
	if _, err := a.mapper.Stitch(low, high-low); err != nil {
		return true, err
	}
	a.arriveLocked(low, high-low, a.only)
	return true, nil
}

// splitForLocked splits the handle that a block at the beginning of free chunk i would end in, and returns the chunk's
// new number, or None if the device has refused its memory. If the handle cannot be split, the block takes a part of
// it.
func (a *Allocator) splitForLocked(i uint32, rounded uint64) uint32 {
	c := a.chunks.Records[i]
	split, err := a.splitLocked(i, c.Addr()+rounded)
	if !split {
		return i
	}
	at, found := a.regionAfterLocked(c.Addr())
	switch {
	case err != nil:
		return chunks.None
	case found:
		return a.regions[at].first
	default:
		return a.chunks.Records[c.Prev].Next
	}
}
