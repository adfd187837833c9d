package bfc

import "sort"

// PeakID identifies a measurement that StartPeak began. It is never reused.
type PeakID uint64

// peaks holds independent measurements of the peak of bytes in use. There may be any number of them, and they may
// overlap.
//
// An allocation raises a single number, running, which is folded into the open measurements when one starts or stops.
// A later measurement has seen no higher peak than an earlier one, so a fold raises only the latest ones. Those have
// equal peaks from then on and form one level. A fold therefore takes one step for each level that it ends, and a
// stop takes a binary search.
type peaks struct {
	running uint64 // most bytes in use since the last fold
	least   uint64 // the lower of the two peaks that an allocation may raise: running and stats.PeakBytesInUse
	levels  []level
	open    map[PeakID]struct{}
	lastID  PeakID
}

// level is the peak of all measurements from first up to the next level's first. Peaks decrease from level to level.
type level struct {
	first PeakID
	peak  uint64
}

func (p *peaks) fold(inUse uint64) {
	p.raise(p.running)
	p.running, p.least = inUse, inUse
}

// raisePeaksLocked updates the peaks when bytes in use exceed peaks.least (invariant 9).
func (a *Allocator) raisePeaksLocked() {
	now := a.stats.BytesInUse
	a.stats.PeakBytesInUse, a.peaks.running = max(a.stats.PeakBytesInUse, now), max(a.peaks.running, now)
	a.peaks.least = min(a.stats.PeakBytesInUse, a.peaks.running)
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

// StartPeak begins a measurement of the peak of bytes in use.
func (a *Allocator) StartPeak() PeakID {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.peaks
	p.fold(a.stats.BytesInUse)
	if p.open == nil {
		p.open = make(map[PeakID]struct{})
	}
	p.lastID++
	p.open[p.lastID] = struct{}{}
	p.levels = append(p.levels, level{p.lastID, a.stats.BytesInUse})
	p.raise(a.stats.BytesInUse)
	return p.lastID
}

// StopPeak ends a measurement and returns the most bytes that were in use at one time since it began. ok is false if
// the measurement is not open.
func (a *Allocator) StopPeak(id PeakID) (peakBytes uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.peaks
	p.fold(a.stats.BytesInUse)
	if _, ok = p.open[id]; !ok {
		return 0, false
	}
	peakBytes = p.levels[p.levelOf(id)].peak
	delete(p.open, id)
	if len(p.levels) > 2*len(p.open) {
		p.dropEmptyLevels()
	}
	return peakBytes, true
}

func (p *peaks) levelOf(id PeakID) int {
	return sort.Search(len(p.levels), func(i int) bool { return p.levels[i].first > id }) - 1
}

// dropEmptyLevels removes the levels without an open measurement. What remains is at most one level for each open measurement.
func (p *peaks) dropEmptyLevels() {
	used := make([]bool, len(p.levels))
	open := make(map[PeakID]struct{}, len(p.open)) // a new map: iterating one that was large once stays slow
	for id := range p.open {
		used[p.levelOf(id)] = true
		open[id] = struct{}{}
	}
	p.open = open
	kept := p.levels[:0]
	for i, l := range p.levels {
		if used[i] {
			kept = append(kept, l)
		}
	}
	p.levels = kept
}
