package rewind

import (
	"slices"

	"gpuconf/gocore/caching"
	"gpuconf/gocore/trace"
)

// device answers as the recorded device did: from the segment events between one allocation and the next.
type device struct {
	verdict *Verdict
	pending []numbered // segment events that the model has not requested yet
}

type numbered struct {
	trace.Event
	number int // in the record, from 1
}

var _ caching.Device = (*device)(nil)

// MemAlloc succeeds if the record takes a segment next.
func (d *device) MemAlloc(bytes uint64) (addr uint64, ok bool) {
	if len(d.pending) == 0 || d.pending[0].Action != trace.SegmentAlloc {
		return 0, false
	}
	next := d.pending[0]
	d.pending = d.pending[1:]
	if next.Bytes != bytes {
		d.verdict.differs("event %d: PyTorch took a segment of %d bytes, and the model takes one of %d", next.number, next.Bytes, bytes)
		return 0, false
	}
	d.verdict.SameSegments++
	return next.Addr, true
}

// MemFree finds the event among those that follow each other: the order within a release is not compared.
func (d *device) MemFree(addr, bytes uint64) { d.match(trace.SegmentFree, addr, bytes) }

func (d *device) MemUnmap(addr, bytes uint64) { d.match(trace.SegmentUnmap, addr, bytes) }

func (d *device) match(action trace.Action, addr, bytes uint64) {
	i := slices.IndexFunc(d.pending, func(e numbered) bool { return e.Action == action && e.Addr == addr && e.Bytes == bytes })
	if i < 0 {
		d.verdict.differs("the model releases the %d bytes at %#x, and PyTorch kept them", bytes, addr)
		return
	}
	d.pending = slices.Delete(d.pending, i, i+1)
	d.verdict.SameSegments++
}

// MemReserve returns the address at which the record maps memory next: a new segment is mapped from its beginning on.
func (d *device) MemReserve(uint64, bool) (addr, bytes uint64) {
	if len(d.pending) == 0 || d.pending[0].Action != trace.SegmentMap {
		return 0, 0
	}
	return d.pending[0].Addr, reservedBytes
}

func (d *device) MemMap(addr, bytes uint64) (ok bool) {
	if len(d.pending) == 0 || d.pending[0].Action != trace.SegmentMap {
		return false
	}
	next := d.pending[0]
	d.pending = d.pending[1:]
	if next.Addr != addr || next.Bytes != bytes {
		d.verdict.differs("event %d: PyTorch mapped %d bytes at %#x, and the model maps %d at %#x", next.number, next.Bytes, next.Addr, bytes, addr)
		return false
	}
	d.verdict.SameSegments++
	return true
}
