package bfc

import "gpuconf/gocore/figures"

// Publish writes the allocator's figures to a place that others read, now and at each change, until Close or the next call; nil
// ends it. The place must stay valid until then.
func (a *Allocator) Publish(place *figures.Pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place == nil || a.closed {
		place = new(figures.Pool)
	}
	a.live = place
	a.live.Limit, a.live.InUse, a.live.Peak = a.limitBytes, a.stats.BytesInUse, a.peaks.recent
	a.publishReservedLocked()
}

// publishReservedLocked follows a change of the reserved memory.
func (a *Allocator) publishReservedLocked() {
	a.live.Reserved = a.stats.BytesReserved
	if !a.closed {
		a.live.Reserved += a.spareBytesLocked()
	}
}
