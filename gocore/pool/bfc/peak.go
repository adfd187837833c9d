// SPDX-License-Identifier: Apache-2.0

package bfc

import "sort"

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
