// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"slices"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// device answers as the recorded device did: from the segment events between one allocation and the next.
type device struct {
	verdict *Verdict
	stream  uint64            // of the allocation that the model serves
	pending []numbered        // segment events since the last time that the model had requested all
	done    int               // how many of them the model has requested
	first   int               // the first that it has not
	frees   map[release][]int // the others that release memory, by what they release
}

type numbered struct {
	trace.Event
	number int // in the record, from 1; 0: the model has requested it
}

type release struct {
	action      trace.Action
	addr, bytes uint64
}

func (d *device) add(e numbered) {
	if e.Action == trace.SegmentFree || e.Action == trace.SegmentUnmap {
		key := release{e.Action, e.Addr, e.Bytes}
		d.frees[key] = append(d.frees[key], len(d.pending))
	}
	d.pending = append(d.pending, e)
}

// next returns the first event that the model has not requested yet; ok is false if there is none.
func (d *device) next() (e numbered, ok bool) {
	if d.done == len(d.pending) {
		return e, false
	}
	return d.pending[d.first], true
}

// take notes that the model has requested an event.
func (d *device) take(i int) {
	d.pending[i].number = 0
	if d.done++; d.done == len(d.pending) {
		d.pending, d.done, d.first = d.pending[:0], 0, 0
		clear(d.frees)
	}
	for d.first < len(d.pending) && d.pending[d.first].number == 0 {
		d.first++
	}
	d.verdict.SameSegments++
}

var _ caching.Device = (*device)(nil)

// MemAlloc succeeds if the record takes a segment next.
func (d *device) MemAlloc(bytes uint64) (addr uint64, ok bool) {
	next, there := d.next()
	if !there || next.Action != trace.SegmentAlloc {
		return 0, false
	}
	if next.Bytes != bytes {
		d.verdict.differs("event %d: PyTorch took a segment of %d bytes, and the model takes one of %d", next.number,
			next.Bytes, bytes)
		return 0, false
	}
	if !d.sameStream(next) {
		return 0, false
	}
	d.take(d.first)
	return next.Addr, true
}

// MemFree finds the event among those that follow each other: the order within a release is not compared.
func (d *device) MemFree(addr, bytes uint64) { d.match(trace.SegmentFree, addr, bytes) }

func (d *device) MemUnmap(addr, bytes uint64) { d.match(trace.SegmentUnmap, addr, bytes) }

func (d *device) match(action trace.Action, addr, bytes uint64) {
	key := release{action, addr, bytes}
	list := d.frees[key]
	if len(list) == 0 {
		d.verdict.differs("the model releases the %d bytes at %#x, and PyTorch kept them", bytes, addr)
		return
	}
	d.frees[key] = list[1:]
	d.take(list[0])
}

// MemReserve returns the address at which the record maps memory next: a new segment is mapped from its beginning on.
func (d *device) MemReserve(uint64, bool) (addr, bytes uint64) {
	next, there := d.next()
	if !there || next.Action != trace.SegmentMap {
		return 0, 0
	}
	return next.Addr, reservedBytes
}

func (d *device) MemMap(addr, bytes uint64) (ok bool) {
	next, there := d.next()
	if !there || next.Action != trace.SegmentMap {
		return false
	}
	if next.Addr != addr || next.Bytes != bytes {
		d.verdict.differs("event %d: PyTorch mapped %d bytes at %#x, and the model maps %d at %#x", next.number,
			next.Bytes, next.Addr, bytes, addr)
		return false
	}
	if !d.sameStream(next) {
		return false
	}
	d.take(d.first)
	return true
}

// sameStream compares the stream of memory that PyTorch took with that of the allocation that needs it.
func (d *device) sameStream(e numbered) bool {
	if e.Stream != d.stream {
		d.verdict.differs("event %d: PyTorch took memory for stream %#x, and the allocation that needs it is on "+
			"stream %#x", e.number, e.Stream, d.stream)
	}
	return e.Stream == d.stream
}

// mostInRun bounds the entries that an insertion moves.
const mostInRun = 512

// addresses is a sorted set in runs of at most mostInRun, none of them empty.
type addresses struct{ runs [][]uint64 }

// upTo returns the place of the largest address that is not above a limit; ok is false if there is none.
func (a *addresses) upTo(limit uint64) (run, i int, ok bool) {
	run, exact := slices.BinarySearchFunc(a.runs, limit, func(r []uint64, limit uint64) int {
		if r[0] <= limit {
			return -1
		}
		return 1
	})
	if run--; exact || run < 0 {
		return 0, 0, false
	}
	i, exact = slices.BinarySearch(a.runs[run], limit)
	if !exact {
		i--
	}
	return run, i, true
}

func (a *addresses) insert(addr uint64) {
	run, i, ok := a.upTo(addr)
	switch {
	case len(a.runs) == 0:
		a.runs = append(a.runs, []uint64{addr})
		return
	case ok:
		i++
	}
	a.runs[run] = slices.Insert(a.runs[run], i, addr)
	if full := a.runs[run]; len(full) == mostInRun {
		a.runs[run] = full[:mostInRun/2]
		a.runs = slices.Insert(a.runs, run+1, slices.Clone(full[mostInRun/2:]))
	}
}

// remove removes an address that is in the set.
func (a *addresses) remove(addr uint64) {
	run, i, _ := a.upTo(addr)
	if a.runs[run] = slices.Delete(a.runs[run], i, i+1); len(a.runs[run]) == 0 {
		a.runs = slices.Delete(a.runs, run, run+1)
	}
}
