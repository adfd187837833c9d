package bfc

import "gpuconf/gocore/trace"

// Record begins to record what is done to the allocator's memory as logical GPU number gpu of a recorder. It replaces one that runs.
//
// Entries are made under the allocator's own lock, together with the change that they tell of. So they stand in the order
// of the books: what is not recorded was done before the recording began or after it ended.
func (a *Allocator) Record(r *trace.Recorder, gpu int) error {
	ring, err := r.Ring(gpu, &a.mu) // without the lock: the recorder's comes first
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	a.ring = ring
	return nil
}

// StopRecording ends it and pictures the memory as of the last entry.
func (a *Allocator) StopRecording() MemoryMap {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring = nil
	return a.memoryMapLocked()
}

// recordFreeLocked tells of a block that is about to end. Of one that is freed on no stream in particular the stream is its own.
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
	a.ring.Append(trace.Free, c.Addr, c.Requested, a.streams[s].handle)
}

// failedLocked tells of an allocation that failed, and gives its error back.
func (a *Allocator) failedLocked(s Stream, bytes uint64, err error) error {
	if a.ring != nil {
		var handle uint64
		if int(s) < len(a.streams) {
			handle = a.streams[s].handle
		}
		a.ring.Append(trace.AllocateFailure, 0, bytes, handle)
	}
	return err
}

// recordSegmentLocked tells of memory that has come from the sub-allocator, or goes back to it. What is spare is in no region, so it has gone, though
// it is still mapped.
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
	a.ring.Segments().Append(action, addr, bytes, 0)
}
