package bfc

// Spare memory is mapped in the mapper's range, or was its rest, and is in no region: free -> spare. It comes back by the next Map
// that reaches it, or by being moved. While there is one stream its queued work may still touch it; in shared mode it is clean.

// spareLocked makes a part of free chunk i, whole granules, spare.
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

// startAnewLocked makes all memory spare, but for the first granule, once no block is live and while there is one stream. So what an empty
// pool does next depends on nothing that it did before: a sequence of requests that was served once is served again,
// and where it wants memory there is memory from the last time.
//
// The first granule stays since whatever comes first needs it: a pool that goes empty again and again at a small size does nothing here.
func (a *Allocator) startAnewLocked() {
	if a.mapper != nil && a.space.addr != a.space.end && !a.firstOnlyLocked() {
		a.spareAllLocked(a.space.addr + a.space.granule)
	}
}

// spareAllLocked makes all regions of an empty pool spare, but for what lies in the range below keep.
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
			_ = a.spareLocked(at, r.first, from, r.end()) // what can't be spare stays
		case a.mapper.Spare(r.addr, r.bytes) == nil:
			a.forgetLocked(at)
		}
	}
}

// spareRestLocked makes what Extend gave spare if no block lies in it: it may have taken granules that are wanted now.
func (a *Allocator) spareRestLocked() bool {
	for at, r := range a.regions {
		if !a.space.holds(r.addr) && r.bytes >= a.space.granule && a.whollyIdleLocked(r) && a.mapper.Spare(r.addr, r.bytes) == nil {
			a.forgetLocked(at)
			return true
		}
	}
	return false
}

// restFreedLocked reports whether it could, once work was waited for.
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

// firstOnlyLocked reports whether the first granule is all there is.
func (a *Allocator) firstOnlyLocked() bool {
	return len(a.regions) == 1 && a.regions[0].addr == a.space.addr && a.regions[0].bytes == a.space.granule
}

// takeSpareLocked makes all spare memory the allocator's again.
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

// spareBytesLocked is how much is spare.
func (a *Allocator) spareBytesLocked() uint64 {
	if a.mapper == nil || a.closed {
		return 0
	}
	return a.mapper.SpareBytes()
}

// dropSpareLocked gives spare memory back to the device.
func (a *Allocator) dropSpareLocked() error {
	if a.spareBytesLocked() == 0 {
		return nil
	}
	return a.mapper.DropSpare()
}

// notePeakLocked raises the peak of what is reserved: what is spare is.
func (a *Allocator) notePeakLocked() {
	a.raiseReservedLocked(a.stats.BytesReserved + a.spareBytesLocked())
}

// forgetLocked takes a wholly free region out of the books.
func (a *Allocator) forgetLocked(at int) {
	r := a.regions[at]
	a.unlistLocked(r.first)
	a.chunks.Recycle(r.first)
	a.chunks.Recycle(r.fence)
	a.stats.BytesReserved -= r.bytes
	a.recordSegmentLocked(false, r.addr, r.bytes)
	a.regions = append(a.regions[:at], a.regions[at+1:]...)
}
