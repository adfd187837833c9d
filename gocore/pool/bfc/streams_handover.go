// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/chunks"
)

// allocateSharedLocked serves a request on stream s in shared mode. It tries, in this order: the stream's own free
// memory, clean memory, memory that has become clean, memory that the stream is ordered after anyway; new memory;
// another stream's memory, with a wait. Each step keeps invariant 17.
func (a *Allocator) allocateSharedLocked(s Stream, bytes, rounded uint64, by holder.ID) (Block, error) {
	a.named = s
	defer func() { a.named = noStream }()
	a.markIfWorthLocked(s)
	i := a.atOnceLocked(s, rounded)
	if i == chunks.None {
		i = a.withoutWaitLocked(s, rounded)
	}
	if i == chunks.None {
		refusal := a.growLocked(rounded, s)
		if refusal == nil {
			i = a.atOnceLocked(s, rounded)
		} else {
			i, refusal = a.lastResortLocked(s, rounded, refusal)
		}
		a.publishReservedLocked()
		if i == chunks.None {
			return Block{}, a.failedLocked(s, bytes, by, a.outOfMemoryLocked(s, bytes, rounded, refusal))
		}
	}
	return a.takeSharedLocked(i, s, bytes, rounded, by), nil
}

// atOnceLocked returns a free chunk that stream s may take at once, in either mode.
func (a *Allocator) atOnceLocked(s Stream, bytes uint64) uint32 {
	if !a.shared {
		return a.bins.BestFit(bytes)
	}
	if i := a.streams[s].bins.BestFit(bytes); i != chunks.None {
		return i
	}
	return a.cleanBins.BestFit(bytes)
}

// withoutWaitLocked returns a free chunk that stream s need not wait for, although it has none at once. From here on,
// marks are worth their calls (countFreedLocked).
func (a *Allocator) withoutWaitLocked(s Stream, bytes uint64) uint32 {
	a.calm = 0
	for other := range a.streams {
		a.reapLocked(Stream(other))
	}
	if i := a.atOnceLocked(s, bytes); i != chunks.None {
		return i
	}
	if a.markOthersLocked(s) {
		if i := a.atOnceLocked(s, bytes); i != chunks.None {
			return i
		}
	}
	if i, _ := a.anothersLocked(s, bytes, false); i != chunks.None {
		return i
	}
	if a.streams[s].freeBytes+a.cleanBytes < bytes || !a.mayWalkLocked() {
		return chunks.None
	}
	i, _ := a.claimLocked(s, bytes, false)
	return i
}

// mayWalkLocked reports whether allocations since the last walk over all chunks have paid for it. If free memory is
// in small pieces with many owners, nearly every request would walk without result, although other memory serves it, at
// the price of new memory or a wait.
func (a *Allocator) mayWalkLocked() bool {
	return a.walked <= shortWalk || a.walked <= stepsForEach*(a.lastID-a.walkedID)
}

const (
	shortWalk    = 64 // a walk of this many steps is free
	stepsForEach = 8  // steps that each allocation pays for
)

// markOthersLocked marks the streams whose memory another stream needs now, so that the allocator can find out when
// they have passed. A stream without work passes its mark at once.
func (a *Allocator) markOthersLocked(s Stream) (marked bool) {
	for other := range a.streams {
		st := &a.streams[other]
		if Stream(other) == s || st.state != open || !a.needsMarkLocked(st) || !a.existsLocked(Stream(other)) ||
			a.queueMarkLocked(Stream(other)) != nil {
			continue
		}
		a.reapLocked(Stream(other))
		marked = true
	}
	return marked
}

// reapLocked makes a stream's free memory clean once the device has passed its mark, and ends the stream's uses of
// held chunks (invariants 13, 14 and 17).
func (a *Allocator) reapLocked(s Stream) {
	st := &a.streams[s]
	if st.state == private || st.owned.oldest == chunks.None && st.awaited.oldest == chunks.None {
		return
	}
	st.passed = max(st.passed, min(a.timeline.Passed(s), st.marks))
	for st.owned.oldest != chunks.None && a.tags[st.owned.oldest].mark <= st.passed {
		i := st.owned.oldest
		a.unlistLocked(i)
		a.cleanLocked(i)
	}
	for st.awaited.oldest != chunks.None && a.uses[st.awaited.oldest].mark <= st.passed {
		i := a.uses[st.awaited.oldest].chunk
		a.dropUseLocked(st.awaited.oldest)
		if a.tags[i].uses == chunks.None {
			a.letGoLocked(i)
		}
	}
}

// letGoLocked releases a held chunk that other streams no longer use: held -> free. It returns the chunk that
// results.
func (a *Allocator) letGoLocked(i uint32) uint32 {
	t := a.tags[i]
	st := &a.streams[t.stream]
	a.chunks.Records[i].Release()
	st.refs--
	if t.mark <= st.passed {
		return a.cleanLocked(i)
	}
	return a.ownLocked(i, t.stream, t.mark)
}

// orderedLocked reports whether work that stream s queues from now on is ordered after a mark of another stream or,
// if waits is set, can be made so. Invariant 17 rests on it.
func (a *Allocator) orderedLocked(s, other Stream, mark uint64, waits bool) bool {
	return other == s || other == clean || mark <= a.streams[other].passed || mark <= a.followsLocked(s, other) ||
		waits && !a.streams[other].refuses && a.streams[other].state != private
}

// anothersLocked returns the smallest free chunk of another stream that fits. If waits is set, it makes s wait for
// that stream; err then says why streams could not be waited for.
func (a *Allocator) anothersLocked(s Stream, bytes uint64, waits bool) (best uint32, err error) {
	for {
		best = chunks.None
		for other := range a.streams {
			st := &a.streams[other]
			if Stream(other) == s || st.bins == nil || st.freeBytes < bytes {
				continue
			}
			i := st.bins.BestFit(bytes)
			if i != chunks.None && a.orderedLocked(s, Stream(other), a.tags[i].mark, waits) &&
				(best == chunks.None || a.smallerLocked(i, best)) {
				best = i
			}
		}
		if best == chunks.None || !waits {
			return best, err
		}
		refusal := a.orderAfterLocked(s, a.tags[best].stream, a.tags[best].mark)
		if refusal == nil {
			return best, nil
		}
		err = errors.Join(err, refusal)
	}
}

func (a *Allocator) smallerLocked(i, j uint32) bool {
	x, y := &a.chunks.Records[i], &a.chunks.Records[j]
	return x.Bytes() < y.Bytes() || x.Bytes() == y.Bytes() && x.Addr() < y.Addr()
}

// orderAfterLocked makes stream s wait for a mark of another stream, if necessary. If that fails, the rest of the
// search skips the other stream.
func (a *Allocator) orderAfterLocked(s, other Stream, mark uint64) error {
	if a.orderedLocked(s, other, mark, false) {
		return nil
	}
	err := a.followLocked(s, other, mark)
	a.streams[other].refuses = err != nil
	return err
}

// lastResortLocked looks for memory that costs a wait, after growth was refused. If there is none, it returns all
// reasons, including refusal.
func (a *Allocator) lastResortLocked(s Stream, bytes uint64, refusal error) (uint32, error) {
	for other := range a.streams {
		a.streams[other].refuses = false
	}
	i, err := a.anothersLocked(s, bytes, true)
	if i != chunks.None {
		return i, nil
	}
	i, more := a.claimLocked(s, bytes, true)
	if i != chunks.None {
		return i, nil
	}
	if refusal = a.makeRoomLocked(bytes, s, errors.Join(refusal, err, more)); refusal != nil {
		return chunks.None, refusal
	}
	return a.atOnceLocked(s, bytes), nil
}

// window is a run of neighbors that are free or held.
type window struct {
	first, last uint32
	bytes       uint64
}

// claimLocked merges neighbors of several owners into one chunk that s may take at once.
func (a *Allocator) claimLocked(s Stream, bytes uint64, waits bool) (i uint32, err error) {
	for {
		w := a.windowLocked(s, bytes, waits)
		if w.first == chunks.None {
			return chunks.None, err
		}
		if refusal := a.orderWindowLocked(s, w); refusal != nil {
			err = errors.Join(err, refusal)
			continue // without the stream that could not be waited for
		}
		return a.mergeLocked(s, w), nil
	}
}

// windowLocked returns the smallest run that is large enough and that s may take, the lowest address on a tie. It
// walks all chunks.
func (a *Allocator) windowLocked(s Stream, bytes uint64, waits bool) (best window) {
	records := a.chunks.Records
	a.walked, a.walkedID = 0, a.lastID
	for _, r := range a.regions {
		w := window{first: r.first}
		for i := r.first; i != r.fence; i = records[i].Next {
			a.walked++
			if !a.haveableLocked(i, s, waits) {
				w = window{first: records[i].Next}
				continue
			}
			w.last = i
			w.bytes += records[i].Bytes()
			for w.bytes-records[w.first].Bytes() >= bytes {
				w.bytes -= records[w.first].Bytes()
				w.first = records[w.first].Next
			}
			if w.bytes >= bytes && (best.first == chunks.None || w.bytes < best.bytes) {
				best = w
			}
		}
	}
	return best
}

// haveableLocked reports whether stream s may take chunk i; with waits, whether it may after waiting for other
// streams (invariant 17).
func (a *Allocator) haveableLocked(i uint32, s Stream, waits bool) bool {
	if c := &a.chunks.Records[i]; !c.Free() && !c.Held() {
		return false
	}
	t := &a.tags[i]
	for u := a.heldUsesLocked(i); u != chunks.None; u = a.uses[u].next {
		if !a.orderedLocked(s, a.uses[u].stream, a.uses[u].mark, waits) {
			return false
		}
	}
	return a.orderedLocked(s, t.stream, t.mark, waits)
}

// heldUsesLocked returns the list of uses that a free or held chunk waits for.
func (a *Allocator) heldUsesLocked(i uint32) uint32 {
	if a.chunks.Records[i].Held() {
		return a.tags[i].uses
	}
	return chunks.None
}

// orderWindowLocked makes stream s wait for all streams whose work may still touch the window (invariant 17).
func (a *Allocator) orderWindowLocked(s Stream, w window) error {
	for i := w.first; ; i = a.chunks.Records[i].Next {
		if err := a.orderAfterLocked(s, a.tags[i].stream, a.tags[i].mark); err != nil {
			return err
		}
		for u := a.heldUsesLocked(i); u != chunks.None; u = a.uses[u].next {
			if err := a.orderAfterLocked(s, a.uses[u].stream, a.uses[u].mark); err != nil {
				return err
			}
		}
		if i == w.last {
			return nil
		}
	}
}

// mergeLocked turns the window into one free chunk of stream s. The next mark of s comes after everything that s
// waits for.
func (a *Allocator) mergeLocked(s Stream, w window) uint32 {
	records := a.chunks.Records
	for i := w.first; ; i = records[i].Next {
		if records[i].Held() {
			for a.tags[i].uses != chunks.None {
				a.dropUseLocked(a.tags[i].uses)
			}
			a.streams[a.tags[i].stream].refs--
			records[i].Release()
		} else {
			a.unlistLocked(i)
		}
		if i == w.last {
			break
		}
	}
	for absorbed := w.first; absorbed != w.last; {
		absorbed = records[w.first].Next
		a.chunks.Absorb(w.first, absorbed)
	}
	return a.ownLocked(w.first, s, a.streams[s].nextMark())
}
