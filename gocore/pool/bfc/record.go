// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/offheap"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/chunks"
)

// Record starts recording the allocator's operations as logical GPU number gpu of a recorder. It replaces a running
// recording.
//
// Entries are appended under the allocator's lock, together with the change that they describe, so they are in the
// order of the changes. Operations that are missing were done before the recording began or after it ended.
func (a *Allocator) Record(r *trace.Recorder, gpu int) error {
	ring, err := r.Ring(gpu, &a.mu) // without the lock: the recorder's is acquired first
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	if err := a.dropSitesLocked(); err != nil {
		return err
	}
	if ring.Sites() != nil {
		if a.sites, err = offheap.Map[uint32](chunks.TableName, len(a.chunks.Records)); err != nil {
			return err
		}
	}
	a.ring = ring
	return nil
}

// StopRecording stops recording and returns a map of the memory as of the last entry.
func (a *Allocator) StopRecording() MemoryMap {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring = nil
	m := a.memoryMapLocked()
	_ = a.dropSitesLocked() // a table that cannot be unmapped is leaked
	return m
}

func (a *Allocator) dropSitesLocked() error {
	sites := a.sites
	a.sites = nil
	if sites == nil {
		return nil
	}
	return offheap.Unmap(sites)
}

// recordAllocationLocked records a new block and, if the recording has stacks, notes its site.
func (a *Allocator) recordAllocationLocked(i uint32, s Stream) {
	c := &a.chunks.Records[i]
	site := a.ring.Site()
	if a.sites != nil {
		a.sites[i] = site
	}
	a.ring.Append(trace.Allocate, c.Addr(), a.chunks.Requested(i), a.streams[s].handle, c.Holder(), site)
}

// siteLocked returns the site of a live block; 0 if it is unknown.
func (a *Allocator) siteLocked(i uint32) uint32 {
	if a.sites == nil {
		return 0
	}
	return a.sites[i]
}

// recordFreeLocked records that a block is about to be freed. If no stream is given, it records the block's own
// stream.
func (a *Allocator) recordFreeLocked(at int, s Stream) {
	i := a.index.At(at)
	switch {
	case s != noStream:
	case a.shared:
		s = a.tags[i].stream
	default:
		s = a.only
	}
	c := &a.chunks.Records[i]
	a.ring.Append(trace.Free, c.Addr(), a.chunks.Requested(i), a.streams[s].handle, c.Holder(), 0)
}

// failedLocked records that an allocation failed, and returns err.
func (a *Allocator) failedLocked(s Stream, bytes uint64, by holder.ID, err error) error {
	if a.ring != nil {
		var handle uint64
		if int(s) < len(a.streams) {
			handle = a.streams[s].handle
		}
		a.ring.Append(trace.AllocateFailure, 0, bytes, handle, by, a.ring.Site())
	}
	return err
}

// recordSegmentLocked records memory that the sub-allocator supplied, or that goes back to it. Spare memory counts as
// gone, although it is still mapped, because it is in no region.
func (a *Allocator) recordSegmentLocked(comes bool, addr, bytes uint64) {
	if a.ring == nil {
		return
	}
	action := trace.SegmentFree
	switch mapped := a.space.holds(addr); {
	case mapped && comes:
		action = trace.SegmentMap
	case mapped:
		action = trace.SegmentUnmap
	case comes:
		action = trace.SegmentAlloc
	}
	a.ring.Segments().Append(action, addr, bytes, 0, 0, 0)
}
