// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"slices"
)

// Stats are the allocator's statistics. Block sizes are chunk sizes, as in TensorFlow: Allocate(1) counts 256 bytes.
type Stats struct {
	NumAllocs             uint64 // allocations that succeeded, since ClearStats
	BytesInUse            uint64 // sizes of live blocks
	PeakBytesInUse        uint64 // its maximum, since ClearStats
	LargestAllocSize      uint64 // largest block handed out, since ClearStats
	BytesLimit            uint64 // the sub-allocator's limit
	BytesReserved         uint64 // sizes of regions and spare memory: TensorFlow's pool_bytes
	PeakBytesReserved     uint64 // its maximum, ever
	LargestFreeBlockBytes uint64 // the largest free chunk, including spare memory beside it
	LiveBlocks            uint64 // the number of live blocks
	RequestedBytesInUse   uint64 // requested sizes of the live blocks
	Stitches              uint64 // times that free memory was moved together, ever
	StitchedBytes         uint64 // bytes moved by them
	CapturedBytes         uint64 // in no block, but kept for captures
}

// Totals are monotonic counters, and the values that PyTorch's statistics need in addition to Stats.
type Totals struct {
	Allocs                  uint64 // allocations that succeeded, ever
	AllocatedBytes          uint64 // the sum of their sizes
	Regions                 uint64 // now
	RecentPeakBytesReserved uint64 // the maximum of BytesReserved since ClearStats
}

// Totals returns the current totals.
func (a *Allocator) Totals() Totals {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.totals.Allocs, a.totals.Regions = a.lastID, uint64(len(a.regions))
	return a.totals
}

// Stats returns the current statistics. After Close it still returns the counters.
func (a *Allocator) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	stats := a.stats
	stats.PeakBytesInUse = a.peaks.recent
	stats.NumAllocs, stats.LiveBlocks = a.lastID-a.cleared, uint64(a.index.Count())
	if !a.closed {
		stats.BytesReserved += a.spareBytesLocked()
		stats.CapturedBytes = a.capturedBytesLocked()
		stats.LargestFreeBlockBytes = a.largestWithSpareLocked()
	}
	return stats
}

// Frees returns the number of frees so far. Close counts as one more, so that threads waiting for the next free wake
// up.
func (a *Allocator) Frees() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	frees := a.lastID - uint64(a.index.Count())
	if a.closed {
		frees++
	}
	return frees
}

// BytesInUse returns the bytes in use and their peak. It is cheaper than Stats, because it does not search the
// memory.
func (a *Allocator) BytesInUse() (current, peak uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats.BytesInUse, a.peaks.recent
}

// largestFreeLocked returns the size of the largest free chunk, whichever stream owns it.
func (a *Allocator) largestFreeLocked() (bytes uint64) {
	if !a.shared {
		return a.bins.LargestBytes()
	}
	for s := range a.streams {
		if b := a.streams[s].bins; b != nil {
			bytes = max(bytes, b.LargestBytes())
		}
	}
	return max(bytes, a.cleanBins.LargestBytes())
}

// largestWithSpareLocked is like largestFreeLocked, but counts spare memory as free, together with idle chunks beside
// it.
func (a *Allocator) largestWithSpareLocked() (bytes uint64) {
	bytes = a.largestFreeLocked()
	if a.spareBytesLocked() == 0 {
		return bytes
	}
	var runs []part
	a.mapper.EachSpare(func(addr, bytes uint64) { runs = append(runs, part{addr: addr, end: addr + bytes}) })
	for _, r := range a.regions {
		// Only the first and the last chunk of a region can be adjacent to spare memory.
		for _, i := range []uint32{r.first, a.chunks.Records[r.fence].Prev} {
			if c := &a.chunks.Records[i]; a.idleLocked(i) {
				runs = append(runs, part{addr: c.Addr(), end: c.Addr() + c.Bytes()})
			}
		}
	}
	slices.SortFunc(runs, func(p, q part) int { return cmp.Compare(p.addr, q.addr) })
	var run part
	for _, p := range runs {
		if p.addr > run.end {
			run = p
		}
		run.end = max(run.end, p.end)
		bytes = max(bytes, run.end-run.addr)
	}
	return bytes
}

// ClearStats restarts the count of allocations, and the peaks from the current values. It does not affect
// measurements that StartPeak began.
func (a *Allocator) ClearStats() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleared = a.lastID
	a.stats.LargestAllocSize = 0
	a.peaks.clear(a.stats.BytesInUse)
	a.publishPeakLocked()
	for _, by := range a.seen {
		a.rows[by].peaks.clear(a.rows[by].bytes)
	}
	a.totals.RecentPeakBytesReserved = a.stats.BytesReserved
	if !a.closed {
		a.totals.RecentPeakBytesReserved += a.spareBytesLocked()
	}
}

// reservedLocked counts a new region.
func (a *Allocator) reservedLocked(bytes uint64) {
	a.stats.BytesReserved += bytes
	a.raiseReservedLocked(a.stats.BytesReserved)
}

// raiseReservedLocked raises the peaks of reserved bytes.
func (a *Allocator) raiseReservedLocked(now uint64) {
	a.stats.PeakBytesReserved = max(a.stats.PeakBytesReserved, now)
	a.totals.RecentPeakBytesReserved = max(a.totals.RecentPeakBytesReserved, now)
}

// allocated counts a block and returns the bytes now in use.
func (s *Stats) allocated(bytes, requested uint64) (inUse uint64) {
	s.RequestedBytesInUse += requested
	s.BytesInUse += bytes
	s.LargestAllocSize = max(s.LargestAllocSize, bytes)
	return s.BytesInUse
}

// freed counts a block that is free again, and returns the bytes now in use.
func (s *Stats) freed(bytes, requested uint64) {
	s.RequestedBytesInUse -= requested
	s.BytesInUse -= bytes
}
