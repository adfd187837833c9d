// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/figures"
)

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
