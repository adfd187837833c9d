// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// Trim releases memory that no block touches: in a Mapper's range, every part that the mapper takes back; elsewhere,
// whole regions. Everything else stays as it is, live blocks above all. An error reports what could not be released.
//
// With a Timeline, Trim waits for the queued work that may touch such memory. Without one, the caller must make sure
// that there is none.
func (a *Allocator) Trim() (releasedBytes uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, a.errClosed()
	}
	refusal := a.syncLocked()
	if refusal != nil && !a.shared {
		return 0, refusal
	}
	releasedBytes, err = a.trimLocked()
	a.publishReservedLocked()
	return releasedBytes, errors.Join(refusal, err)
}

// syncLocked waits until no work touches free memory, as far as the device can be waited for. It holds the mutex, so
// other threads wait too.
func (a *Allocator) syncLocked() (err error) {
	if a.timeline == nil || a.only == noStream && !a.shared {
		return nil
	}
	if !a.shared {
		return a.syncStreamLocked(a.only)
	}
	for range 2 { // memory that the first pass let go may belong to a stream visited before
		for s := range a.streams {
			if st := &a.streams[s]; st.state != private && (st.owned.oldest != chunks.None ||
				st.awaited.oldest != chunks.None) {
				err = errors.Join(err, a.syncStreamLocked(Stream(s)))
			}
		}
	}
	return err
}

// syncStreamLocked waits until everything queued in a stream is done.
func (a *Allocator) syncStreamLocked(s Stream) error {
	st := &a.streams[s]
	if st.state == open && (!a.shared || a.needsMarkLocked(st)) {
		if err := a.markLocked(s); err != nil {
			return err
		}
	}
	if st.passed < st.queued {
		if err := a.timeline.Sync(s, st.queued); err != nil {
			return errSync(a.name, s, err)
		}
	}
	st.passed = max(st.passed, st.queued)
	a.reapLocked(s)
	return nil
}

// settleLocked waits, before Close, until everything queued so far in the allocator's streams is done: work on free
// memory, as in syncLocked, work on live blocks, and the timeline's own marks and waits. Close frees the memory even if
// a stream cannot be waited for.
func (a *Allocator) settleLocked() {
	if a.timeline == nil {
		return
	}
	all := false // whether the device has been waited for
	for s := range a.streams {
		st := &a.streams[s]
		used := Stream(s) == a.only || st.bins != nil || st.marks > 0
		if used && st.state == open && !a.timeline.Lasting(Stream(s)) {
			all = all || a.syncAllLocked(Stream(s)) == nil
			continue
		}
		if used && st.state == open && a.queueMarkLocked(Stream(s)) != nil {
			continue
		}
		if st.queued > st.passed {
			_ = a.timeline.Sync(Stream(s), st.queued)
		}
	}
}

func errSync(name string, s Stream, err error) error {
	return status.Errorf(status.Unknown, "allocator %s could not wait for stream %d: %w", name, s, err)
}

func (a *Allocator) trimLocked() (releasedBytes uint64, err error) {
	before := a.stats.BytesReserved + a.spareBytesLocked()
	err = errors.Join(a.releaseLocked(a.takeIdleLocked()), a.dropSpareLocked())
	for at := 0; at < len(a.regions); {
		var refusal error
		at, refusal = a.trimRegionLocked(at)
		err = errors.Join(err, refusal)
	}
	return before - a.stats.BytesReserved - a.spareBytesLocked(), err
}

// takeIdleLocked removes wholly free regions from the accounting, except those in a Mapper's range, and returns them.
func (a *Allocator) takeIdleLocked() (idle []region) {
	a.regions = slices.DeleteFunc(a.regions, func(r region) bool {
		if !a.whollyIdleLocked(r) || a.space.holds(r.addr) {
			return false
		}
		idle = append(idle, r)
		a.unlistLocked(r.first)
		a.chunks.Recycle(r.first)
		a.chunks.Recycle(r.fence)
		a.stats.BytesReserved -= r.bytes
		a.recordSegmentLocked(false, r.addr, r.bytes)
		return true
	})
	return idle
}

// trimRegionLocked releases the lowest part of a region that the mapper takes back. next is the position of the
// region above that part.
func (a *Allocator) trimRegionLocked(at int) (next int, err error) {
	r := a.regions[at]
	if !a.space.holds(r.addr) {
		return at + 1, nil
	}
	for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
		c := &a.chunks.Records[i]
		if !a.idleLocked(i) || c.Bytes() < a.space.granule || a.chunks.RoomFor(2) != nil {
			continue
		}
		from, to, err := a.mapper.Unmap(c.Addr(), c.Bytes())
		switch {
		case from < to && (from < c.Addr() || to > c.Addr()+c.Bytes()):
			return at + 1, errors.Join(err, errUnusable(from, to-from, c.Bytes()))
		case from < to:
			return a.cutLocked(at, i, from, to), err
		case err != nil:
			return at + 1, err
		}
	}
	return at + 1, nil
}

// cutLocked removes part of free chunk i from the accounting: free -> none. Its region becomes two regions, one or
// none; the part is whole granules (invariant 12). next is the position of the region above the part.
func (a *Allocator) cutLocked(at int, i uint32, from, to uint64) (next int) {
	r, c := a.regions[at], a.chunks.Records[i]
	a.unlistLocked(i)
	a.drained = max(a.drained, to)
	below, above := c.Prev, c.Next
	if to < c.Addr()+c.Bytes() {
		above = a.chunks.SplitOff(i, to-c.Addr())
		a.listLocked(above)
	}
	a.chunks.Records[above].Prev = chunks.None
	if from > c.Addr() {
		below = i
		a.chunks.Records[i].Shorten(from - c.Addr())
		a.listLocked(i)
	} else {
		a.chunks.Recycle(i)
	}
	var parts []region
	if below != chunks.None {
		fence := a.chunks.Take()
		a.chunks.Records[fence] = chunks.FenceAt(from, below)
		a.chunks.Records[below].Next = fence
		parts = append(parts, region{addr: r.addr, bytes: from - r.addr, first: r.first, fence: fence})
	}
	next = at + len(parts)
	if above != r.fence {
		parts = append(parts, region{addr: to, bytes: r.end() - to, first: above, fence: r.fence})
	} else {
		a.chunks.Recycle(r.fence)
	}
	a.regions = slices.Replace(a.regions, at, at+1, parts...)
	a.stats.BytesReserved -= to - from
	a.recordSegmentLocked(false, from, to-from)
	return next
}

// collectLocked releases idle memory if that makes room for bytes. Like TensorFlow, it releases all of it: one region
// then replaces many fragments.
func (a *Allocator) collectLocked(bytes uint64) (collected bool, err error) {
	available := a.sub.AvailableBytes()
	if bytes > available+a.stats.BytesReserved-a.stats.BytesInUse {
		return false, nil
	}
	if a.shared || a.idleBytesLocked() > 0 {
		err = a.syncLocked()
	}
	idle := a.idleBytesLocked()
	if idle == 0 || bytes > available+idle || err != nil && !a.shared {
		return false, err
	}
	releasedBytes, refusal := a.trimLocked()
	return releasedBytes > 0, errors.Join(err, refusal)
}

// idleBytesLocked returns the most that Trim could release without waiting.
func (a *Allocator) idleBytesLocked() (bytes uint64) {
	for _, r := range a.regions {
		switch {
		case a.whollyIdleLocked(r):
			bytes += r.bytes
		case a.space.holds(r.addr):
			for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
				if free := a.freeBytesLocked(i, noStream); free >= a.space.granule {
					from, to := a.wholeLocked(a.chunks.Records[i].Addr(), a.chunks.Records[i].Addr()+free)
					bytes += to - from
				}
			}
		}
	}
	return bytes
}
