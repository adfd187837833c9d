// SPDX-License-Identifier: Apache-2.0

package suballoc

import "gpuconf/gocore/base/status"

// Map maps memory at addr, which is the beginning of a granule in the range: at least atLeast and at most atMost
// bytes, in whole granules. The caller must own no memory there yet; spare memory there is taken over. If the limit
// or the device does not allow it, Map fails with ResourceExhausted and leaves the caller's memory as it was
// (invariant 10). It also fails if spare memory
// there is in handles that have to be replaced, which only Stitch does: queued work may still touch it.
func (v *Virtual) Map(addr, atLeast, atMost uint64) (bytes uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, errClosed()
	}
	first, end, err := v.stretchLocked(addr, atLeast, atMost)
	if err != nil {
		return 0, err
	}
	for at := first; at < end; at++ {
		if v.slotLocked(at).state == owned {
			return 0, status.Errorf(status.InvalidArgument, "memory is already mapped at %#x", v.addrOf(at))
		}
	}
	f := v.fillingLocked(first, end)
	left := v.limitBytes - v.heldBytes
	if err := f.eachCrossed(func(p piece) error {
		left += v.bytesOf(p.end - p.first)
		if v.slots[p.first].state == spare {
			return status.Errorf(status.ResourceExhausted, "%d bytes of spare memory at %#x have to be replaced",
				v.bytesOf(p.end-p.first), v.addrOf(p.first))
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if f.missing > left {
		return 0, status.Errorf(status.ResourceExhausted,
			"%d bytes are needed, but only %d of the limit of %d bytes are left", f.missing, left, v.limitBytes)
	}
	return v.bytesOf(end - first), f.run()
}

// stretchLocked returns the slots from addr on that hold atLeast bytes.
func (v *Virtual) stretchLocked(addr, atLeast, atMost uint64) (first, end int, err error) {
	offset := addr - v.addr
	room := uint64(0)
	if v.granule > 0 {
		room = min(atMost, v.rangeBytes-min(offset, v.rangeBytes)) / v.granule
	}
	want := atLeast / v.granule
	if atLeast%v.granule != 0 {
		want++
	}
	if addr < v.addr || offset%v.granule != 0 || want == 0 || want > room {
		return 0, 0, status.Errorf(status.InvalidArgument,
			"%d to %d bytes at %#x do not fit into the range of %d bytes at %#x", atLeast, atMost, addr,
			v.rangeBytes, v.addr)
	}
	first = int(offset / v.granule)
	return first, first + int(want), nil
}
