// SPDX-License-Identifier: Apache-2.0

package suballoc

// A handle is mapped as a whole, and mapping costs per handle, so large steps take large handles. But a block that
// touches a handle prevents it from being moved. So the last granule of a step, in which a block may end, has its own
// handle, and the allocator replaces a large handle by granules before a block takes a part of it: it makes it spare
// and calls Stitch. The first granule of the range has its own handle too, because an empty pool keeps it.
const (
	usualHandleBytes = 64 << 20  // of a large step
	usualStepBytes   = 512 << 20 // the least large step
)

// loose is a handle that is mapped nowhere, but counted in heldBytes.
type loose struct {
	handle   uint64
	granules int
}

// cut returns where the handle ends that begins at a slot of a hole. Large handles end at multiples of their size, so
// that later stretches there have most edges in common.
func (v *Virtual) cut(at, hole, end int) int {
	if !v.large(hole, end) || at == 0 || at == end-1 {
		return at + 1
	}
	return min(end-1, (at/v.handleGranules+1)*v.handleGranules)
}

// Whole returns the part of a stretch of the range that consists of whole handles; from is to if there is none. The
// stretch is mapped throughout.
func (v *Virtual) Whole(addr, end uint64) (from, to uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if addr < v.addr || end > v.addr+v.rangeBytes || addr >= end {
		return addr, addr
	}
	first, last := v.wholeLocked(int((addr-v.addr+v.granule-1)/v.granule), int((end-v.addr)/v.granule))
	return v.addrOf(first), v.addrOf(last)
}

// wholeLocked leaves out of a stretch of slots the handles at its ends that lie in it only in part.
func (v *Virtual) wholeLocked(first, end int) (from, to int) {
	if first >= end {
		return first, first
	}
	if low, high := v.handleAtLocked(first); low < first {
		first = high
	}
	if low, high := v.handleAtLocked(end - 1); high > end {
		end = low
	}
	return first, max(first, end)
}

// large reports whether a hole gets large handles. It may begin behind the first granule, which an empty pool keeps:
// the same request then gets the same handles.
func (v *Virtual) large(hole, end int) bool {
	if hole == 1 {
		hole = 0
	}
	return end-hole >= v.stepGranules
}

// LargeBytes returns the least size of a stretch that gets large handles.
func (v *Virtual) LargeBytes() uint64 { return v.bytesOf(v.stepGranules - 1) }
