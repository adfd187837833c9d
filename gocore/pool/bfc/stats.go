// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"slices"
	"sort"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/figures"
)

// Stats are the allocator's statistics, as Python's users see them: reset_memory_stats is ClearStats. Block sizes are
// chunk sizes, as in TensorFlow: Allocate(1) counts 256 bytes. What is reserved is regions and spare memory,
// TensorFlow's pool_bytes; the largest free block includes spare memory beside it.
type Stats struct {
	NumAllocs           uint64 `py:"num_allocs"`             // allocations since the last reset_memory_stats
	LiveBlocks          uint64 `py:"live_blocks"`            // allocations not yet freed
	BytesInUse          uint64 `py:"bytes_in_use"`           // size of the live blocks, in multiples of 256
	RequestedBytesInUse uint64 `py:"requested_bytes_in_use"` // total requested size of the live blocks
	PeakBytesInUse      uint64 `py:"peak_bytes_in_use"`      // the maximum of bytes_in_use since reset_memory_stats
	LargestAllocSize    uint64 `py:"largest_alloc_size"`     // the largest block since the last reset_memory_stats
	BytesLimit          uint64 `py:"bytes_limit"`            // the hard limit
	BytesReserved       uint64 `py:"bytes_reserved"`         // memory that the pool has reserved on the GPU
	PeakBytesReserved   uint64 `py:"peak_bytes_reserved"`    // the maximum of bytes_reserved
	// the largest contiguous free block in the reserved memory
	LargestFreeBlockBytes uint64 `py:"largest_free_block_bytes"`
	// Times that fragmented free memory was remapped to be contiguous for a request that no free block could serve.
	Stitches      uint64 `py:"stitches"`
	StitchedBytes uint64 `py:"stitched_bytes"` // bytes remapped by these
	CapturedBytes uint64 `py:"captured_bytes"` // freed memory that captured CUDA graphs keep until they are destroyed
}

// Totals are monotonic counters, and the values that PyTorch's statistics need in addition to Stats.
type Totals struct {
	Allocs                  uint64 `py:"allocs"`                     // allocations since the pool was made
	AllocatedBytes          uint64 `py:"allocated_bytes"`            // the sum of their sizes
	Regions                 uint64 `py:"regions"`                    // of reserved memory
	RecentPeakBytesReserved uint64 `py:"recent_peak_bytes_reserved"` // since the last reset_memory_stats
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

// UsageRow is the memory of one library under one tag.
type UsageRow struct {
	// "torch", "cupy", "numba", "gpuconf" for buffers and tensors, "c" for gpuconf_malloc.
	Library   holder.Library `py:"library"`
	Tag       holder.Tag     `py:"tag"`               // "" for untagged memory
	Bytes     uint64         `py:"bytes_in_use"`      // total size of the live blocks, each a multiple of 256
	PeakBytes uint64         `py:"peak_bytes_in_use"` // the maximum of bytes_in_use since the last reset_memory_stats
	Blocks    uint64         `py:"live_blocks"`       // allocations not yet freed
}

// Usage is the memory in use on one logical GPU, by library and tag. The rows add up to it, but for the peaks, which
// may have been reached at different times.
type Usage struct {
	Bytes     uint64     `py:"bytes_in_use"`      // as in MemoryStats
	PeakBytes uint64     `py:"peak_bytes_in_use"` // as in MemoryStats, or of a measurement
	Blocks    uint64     `py:"live_blocks"`       // allocations not yet freed
	Rows      []UsageRow `py:"rows"`              // one for each library and tag
}

// row counts the blocks of one holder (invariant 9).
type row struct {
	bytes  uint64
	blocks uint64
	peaks  peaks
	seen   bool // it is in Allocator.seen
}

// allocated counts a block and returns the bytes now in use.
func (r *row) allocated(bytes uint64) (inUse uint64) {
	r.blocks++
	r.bytes += bytes
	return r.bytes
}

func (r *row) freed(bytes uint64) {
	r.blocks--
	r.bytes -= bytes
}

func (r *row) row(by holder.ID) UsageRow {
	return UsageRow{by.Library(), by.Tag(), r.bytes, r.peaks.recent, r.blocks}
}

// roomForHolderLocked makes sure that a holder has a row.
func (a *Allocator) roomForHolderLocked(by holder.ID) {
	if int(by) >= len(a.rows) {
		a.rows = append(a.rows, make([]row, int(by)+1-len(a.rows))...)
	}
}

// raiseRowLocked updates the peaks of a holder's row. Its first allocation always gets here.
func (a *Allocator) raiseRowLocked(by holder.ID) {
	r := &a.rows[by]
	if !r.seen {
		r.seen = true
		a.seen = append(a.seen, by)
		if len(a.open.ids) > 0 {
			r.peaks.levels = []level{{first: 1}} // of all measurements that are open
		}
	}
	r.peaks.reach(r.bytes)
}

// Usage returns the memory in use by holder, with the peaks since ClearStats.
func (a *Allocator) Usage() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usageLocked()
}

func (a *Allocator) usageLocked() Usage {
	u := Usage{Bytes: a.stats.BytesInUse, PeakBytes: a.peaks.recent, Blocks: uint64(a.index.Count())}
	for _, by := range a.seen {
		if row := a.rows[by].row(by); row.PeakBytes > 0 {
			u.Rows = append(u.Rows, row)
		}
	}
	return u
}

// PeakID identifies a measurement that StartPeak began. It is never reused.
type PeakID uint64

// peaks are the maxima of one number of bytes in use: since ClearStats, and in each open measurement. There may be any
// number of measurements, and they may overlap.
//
// An allocation raises running, which is folded into the open measurements when one starts or stops. A later
// measurement has seen no higher peak than an earlier one, so a fold raises only the latest ones. Those have equal
// peaks from then on and form one level. A fold therefore takes one step for each level that it ends, and a stop takes
// a binary search.
type peaks struct {
	recent  uint64 // since ClearStats
	running uint64 // since the last fold
	least   uint64 // the lower of the two: bytes in use may grow to it without raising a peak
	levels  []level
}

// level is the peak of all measurements from first up to the next level's first. Peaks decrease from level to level.
type level struct {
	first PeakID
	peak  uint64
}

// measurements are the open ones.
type measurements struct {
	ids    map[PeakID]struct{}
	lastID PeakID
}

// reach raises the peaks, when the bytes in use exceed least (invariant 9).
func (p *peaks) reach(inUse uint64) {
	p.recent, p.running = max(p.recent, inUse), max(p.running, inUse)
	p.least = min(p.recent, p.running)
}

// clear restarts recent.
func (p *peaks) clear(inUse uint64) { p.recent, p.least = inUse, inUse }

func (p *peaks) fold(inUse uint64) {
	p.raise(p.running)
	p.running, p.least = inUse, inUse
}

// raise raises every lower peak to peak.
func (p *peaks) raise(peak uint64) {
	n := len(p.levels)
	for n > 0 && p.levels[n-1].peak <= peak {
		n--
	}
	if n < len(p.levels) {
		p.levels = append(p.levels[:n], level{p.levels[n].first, peak})
	}
}

func (p *peaks) start(id PeakID, inUse uint64) {
	p.fold(inUse)
	p.levels = append(p.levels, level{id, inUse})
	p.raise(inUse)
}

// stop returns the peak of an open measurement.
func (p *peaks) stop(id PeakID, inUse uint64) uint64 {
	p.fold(inUse)
	return p.levels[p.levelOf(id)].peak
}

// StartPeak begins a measurement of the peaks of bytes in use, and returns what is in use now.
func (a *Allocator) StartPeak() (PeakID, Usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open.ids == nil {
		a.open.ids = make(map[PeakID]struct{})
	}
	a.open.lastID++
	id := a.open.lastID
	a.open.ids[id] = struct{}{}
	a.peaks.start(id, a.stats.BytesInUse)
	for _, by := range a.seen {
		a.rows[by].peaks.start(id, a.rows[by].bytes)
	}
	return id, a.usageLocked()
}

// StopPeak ends a measurement. It returns what is in use now, with the most bytes that were in use at one time since
// the measurement began as peaks. ok is false if the measurement is not open.
func (a *Allocator) StopPeak(id PeakID) (u Usage, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok = a.open.ids[id]; !ok {
		return Usage{}, false
	}
	u = a.usageLocked()
	u.PeakBytes = a.peaks.stop(id, a.stats.BytesInUse)
	u.Rows = u.Rows[:0]
	for _, by := range a.seen {
		r := &a.rows[by]
		row := r.row(by)
		if row.PeakBytes = r.peaks.stop(id, r.bytes); row.PeakBytes > 0 {
			u.Rows = append(u.Rows, row)
		}
	}
	delete(a.open.ids, id)
	a.forgetLevelsLocked()
	return u, true
}

func (p *peaks) levelOf(id PeakID) int {
	return sort.Search(len(p.levels), func(i int) bool { return p.levels[i].first > id }) - 1
}

// forgetLevelsLocked removes levels without an open measurement, once they are the majority.
func (a *Allocator) forgetLevelsLocked() {
	if len(a.peaks.levels) > 2*len(a.open.ids) {
		open := make(map[PeakID]struct{}, len(a.open.ids)) // a new map: iterating one that was large once stays slow
		for id := range a.open.ids {
			open[id] = struct{}{}
		}
		a.open.ids = open
		a.peaks.dropEmptyLevels(open)
	}
	for _, by := range a.seen {
		if p := &a.rows[by].peaks; len(p.levels) > 2*len(a.open.ids) {
			p.dropEmptyLevels(a.open.ids)
		}
	}
}

// dropEmptyLevels removes the levels without an open measurement. What remains is at most one level for each open
// measurement.
func (p *peaks) dropEmptyLevels(open map[PeakID]struct{}) {
	used := make([]bool, len(p.levels))
	for id := range open {
		used[p.levelOf(id)] = true
	}
	kept := p.levels[:0]
	for i, l := range p.levels {
		if used[i] {
			kept = append(kept, l)
		}
	}
	p.levels = kept
}

// Publish writes the allocator's figures to a place that others read, now and at each change, until Close or the next
// call; nil ends it. The place must stay valid until then.
func (a *Allocator) Publish(place *figures.Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place == nil || a.closed {
		place = new(figures.Pool)
	}
	a.live = place
	*a.live = figures.Pool{Limit: a.limitBytes, Peak: a.peaks.recent}
	for by := range a.rows {
		a.live.Libraries[holder.ID(by).Library()] += a.rows[by].bytes
	}
	a.publishReservedLocked()
}

// publishReservedLocked follows a change of the reserved memory.
func (a *Allocator) publishReservedLocked() {
	a.live.Reserved = a.stats.BytesReserved
	if !a.closed {
		a.live.Reserved += a.spareBytesLocked()
	}
}

// publishAllocatedLocked counts a new block in the published figures.
func (a *Allocator) publishAllocatedLocked(by holder.ID, bytes uint64) {
	a.live.Libraries[by.Library()] += bytes
}

// publishFreedLocked counts a block that was freed.
func (a *Allocator) publishFreedLocked(by holder.ID, bytes uint64) {
	a.live.Libraries[by.Library()] -= bytes
}

// publishPeakLocked follows a change of the peak.
func (a *Allocator) publishPeakLocked() { a.live.Peak = a.peaks.recent }
