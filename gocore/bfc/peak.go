package bfc

// PeakID names a measurement that StartPeak began. It is never used again.
type PeakID uint64

// peaks are independent measurements of the peak of bytes in use, any number of them, overlapping as they like.
//
// An allocation raises one number, running. It is folded into every open measurement when one starts or stops, so the number
// of measurements costs the allocations nothing.
type peaks struct {
	running uint64 // most bytes in use since the last fold
	open    map[PeakID]uint64
	lastID  PeakID
}

func (p *peaks) fold(inUse uint64) {
	for id, peak := range p.open {
		p.open[id] = max(peak, p.running)
	}
	p.running = inUse
}

// StartPeak begins a measurement of the peak of bytes in use.
func (a *Allocator) StartPeak() PeakID {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.peaks
	p.fold(a.stats.BytesInUse)
	if p.open == nil {
		p.open = make(map[PeakID]uint64)
	}
	p.lastID++
	p.open[p.lastID] = a.stats.BytesInUse
	return p.lastID
}

// StopPeak ends a measurement and gives the most bytes that were in use at one time since it began. ok is false for a
// measurement that is not open.
func (a *Allocator) StopPeak(id PeakID) (peakBytes uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.peaks
	p.fold(a.stats.BytesInUse)
	peakBytes, ok = p.open[id]
	delete(p.open, id)
	return peakBytes, ok
}
