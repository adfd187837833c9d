// SPDX-License-Identifier: Apache-2.0

package bfc

// Spare memory is mapped in the mapper's range, or is a region from its Extend, but belongs to no region of the
// allocator: free -> spare. The next Map that reaches it takes it over, or Stitch moves it. In single mode, queued work
// may still touch it; in shared mode it is clean (invariant 19). It counts as reserved (invariants 1 and 11).

// spareLocked makes part of free chunk i spare. The part consists of whole handles.
func (a *Allocator) spareLocked(at int, i uint32, from, to uint64) error {
	if err := a.chunks.RoomFor(2); err != nil {
		return err
	}
	if err := a.mapper.Spare(from, to-from); err != nil {
		return err
	}
	a.cutLocked(at, i, from, to)
	return nil
}

// startAnewLocked makes all memory spare except the first granule, once no block is live and while there is one
// stream. What an empty pool does next then does not depend on anything it did before: a sequence of requests that
// succeeded once succeeds again, and finds memory mapped where it was mapped last time.
//
// The first granule stays because every sequence needs it first: a pool that keeps becoming empty at a small size
// does nothing here.
func (a *Allocator) startAnewLocked() {
	if a.mapper != nil && a.space.addr != a.space.end && !a.firstOnlyLocked() {
		a.spareAllLocked(a.space.addr + a.space.granule)
		a.publishReservedLocked()
	}
}

// spareAllLocked makes all regions of an empty pool spare, except what lies in the range below keep.
func (a *Allocator) spareAllLocked(keep uint64) {
	for at := len(a.regions) - 1; at >= 0; at-- {
		r := a.regions[at]
		from := r.addr
		if a.space.holds(from) {
			from = max(from, keep)
		}
		switch {
		case from >= r.end():
		case a.space.holds(from):
			_ = a.spareLocked(at, r.first, from, r.end()) // memory that cannot be made spare stays
		case a.mapper.Spare(r.addr, r.bytes) == nil:
			a.forgetLocked(at)
		}
	}
}

// spareRestLocked makes a region from Extend spare if no block lies in it and it holds whole granules' worth of
// bytes, which may be needed now.
func (a *Allocator) spareRestLocked() bool {
	for at, r := range a.regions {
		if !a.space.holds(r.addr) && r.bytes >= a.space.granule && a.whollyIdleLocked(r) &&
			a.mapper.Spare(r.addr, r.bytes) == nil {
			a.forgetLocked(at)
			return true
		}
	}
	return false
}

// restFreedLocked reports whether spareRestLocked could succeed after waiting for queued work.
func (a *Allocator) restFreedLocked() bool {
	for _, r := range a.regions {
		if !a.space.holds(r.addr) && r.bytes >= a.space.granule {
			for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
				if !a.freedLocked(i) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// firstOnlyLocked reports whether the pool consists of its first granule only.
func (a *Allocator) firstOnlyLocked() bool {
	return len(a.regions) == 1 && a.regions[0].addr == a.space.addr && a.regions[0].bytes == a.space.granule
}

// takeSpareLocked returns all spare memory to the allocator: spare -> free.
func (a *Allocator) takeSpareLocked() error {
	if a.spareBytesLocked() == 0 {
		return nil
	}
	var runs []part
	a.mapper.EachSpare(func(addr, bytes uint64) { runs = append(runs, part{addr: addr, end: addr + bytes}) })
	for _, r := range runs {
		if err := a.chunks.RoomFor(2); err != nil {
			return err
		}
		if err := a.mapper.Unspare(r.addr, r.end-r.addr); err != nil {
			return err
		}
		a.arriveLocked(r.addr, r.end-r.addr, noStream)
	}
	return nil
}

// spareBytesLocked returns the size of all spare memory.
func (a *Allocator) spareBytesLocked() uint64 {
	if a.mapper == nil || a.closed {
		return 0
	}
	return a.mapper.SpareBytes()
}

// dropSpareLocked returns spare memory to the device.
func (a *Allocator) dropSpareLocked() error {
	if a.spareBytesLocked() == 0 {
		return nil
	}
	return a.mapper.DropSpare()
}

// notePeakLocked raises the peak of reserved bytes, which include spare memory.
func (a *Allocator) notePeakLocked() {
	a.raiseReservedLocked(a.stats.BytesReserved + a.spareBytesLocked())
}

// forgetLocked removes a wholly free region from the accounting.
func (a *Allocator) forgetLocked(at int) {
	r := a.regions[at]
	a.unlistLocked(r.first)
	a.chunks.Recycle(r.first)
	a.chunks.Recycle(r.fence)
	a.stats.BytesReserved -= r.bytes
	a.recordSegmentLocked(false, r.addr, r.bytes)
	a.regions = append(a.regions[:at], a.regions[at+1:]...)
}
