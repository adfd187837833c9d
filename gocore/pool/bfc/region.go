// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"errors"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// SubAllocator supplies regions and takes them back. The allocator calls it with its mutex held.
type SubAllocator interface {
	// Extend returns a new region of at least atLeast bytes, or fails and changes nothing that the allocator could
	// observe. atLeast is a multiple of 256. The address and the size must be non-zero multiples of 256.
	Extend(atLeast uint64) (addr, bytes uint64, err error)

	// Release returns a whole region. The allocator no longer uses it, even if Release fails.
	Release(addr, bytes uint64) error

	// AvailableBytes returns how much of the limit is not in use yet, rounded down to 256.
	AvailableBytes() uint64

	// LimitBytes returns the limit, which never changes. The sizes of all regions never add up to more.
	LimitBytes() uint64
}

// A region is the result of one Extend, or a mapped stretch of a Mapper's range.
type region struct {
	addr  uint64
	bytes uint64
	first uint32 // its lowest chunk
	fence uint32 // the record after its highest chunk; it stays the same while the region exists
}

func (r region) end() uint64 { return r.addr + r.bytes }

// extendLocked obtains a region that can hold bytes. refusal is the sub-allocator's reason if there is none.
func (a *Allocator) extendLocked(bytes uint64) (refusal error) {
	addr, got, err := a.sub.Extend(bytes)
	if err != nil && a.spareBytesLocked() > 0 { // spare memory may take up the limit
		refusal := a.quietLocked()
		if refusal == nil {
			refusal = a.dropSpareLocked()
		}
		if refusal != nil {
			return errors.Join(err, refusal)
		}
		addr, got, err = a.sub.Extend(bytes)
	}
	if err != nil {
		return err
	}
	if a.space.touches(addr, got) || !a.fitsLocked(addr, got, bytes) {
		return errors.Join(errUnusable(addr, got, bytes), a.sub.Release(addr, got))
	}
	a.addRegionLocked(addr, got)
	a.notePeakLocked()
	return nil
}

// fitsLocked reports whether memory can become a region: invariants 1, 2 and 11.
func (a *Allocator) fitsLocked(addr, bytes, atLeast uint64) bool {
	fit := addr != 0 && addr%chunks.Granularity == 0 && bytes%chunks.Granularity == 0 && bytes >= atLeast &&
		addr+bytes > addr
	if !fit || bytes > a.limitBytes-a.stats.BytesReserved {
		return false
	}
	at, _ := a.regionAfterLocked(addr)
	return (at == 0 || a.regions[at-1].end() <= addr) && (at == len(a.regions) || addr+bytes <= a.regions[at].addr)
}

func errUnusable(addr, bytes, atLeast uint64) error {
	return status.Errorf(status.Internal,
		"the sub-allocator returned an unusable region: %d bytes at %#x, requested %d", bytes, addr, atLeast)
}

// regionAfterLocked returns the position of the first region at or above addr, and whether it begins there.
func (a *Allocator) regionAfterLocked(addr uint64) (at int, found bool) {
	return slices.BinarySearchFunc(a.regions, addr,
		func(r region, addr uint64) int { return cmp.Compare(r.addr, addr) })
}

// addRegionLocked adds memory to the accounting as a region of one free chunk: none -> free. It returns the region's
// position, in address order (invariant 1).
func (a *Allocator) addRegionLocked(addr, bytes uint64) (at int) {
	first, fence := a.chunks.Take(), a.chunks.Take()
	a.chunks.Records[first] = chunks.FreeChunk(addr, bytes, fence)
	a.chunks.Records[fence] = chunks.FenceAt(addr+bytes, first)
	at, _ = a.regionAfterLocked(addr)
	a.regions = slices.Insert(a.regions, at, region{addr: addr, bytes: bytes, first: first, fence: fence})
	a.listLocked(first)
	a.reservedLocked(bytes)
	a.recordSegmentLocked(true, addr, bytes)
	return at
}

// joinRegionsLocked merges regions at and at+1 if both exist, touch, and belong to the mapper's range (invariant 12).
// Free chunks where they meet become one chunk if stream s may take both at once.
func (a *Allocator) joinRegionsLocked(at int, s Stream) {
	if at < 0 || at+1 >= len(a.regions) {
		return
	}
	l, r := &a.regions[at], a.regions[at+1]
	if l.end() != r.addr || !a.space.holds(l.addr) || !a.space.holds(r.addr) {
		return
	}
	records := a.chunks.Records
	last := records[l.fence].Prev
	records[last].Next, records[r.first].Prev = r.first, last
	a.chunks.Recycle(l.fence)
	l.bytes, l.fence = l.bytes+r.bytes, r.fence
	a.regions = slices.Delete(a.regions, at+1, at+2)
	if a.freeBytesLocked(last, s) > 0 && a.freeBytesLocked(r.first, s) > 0 {
		a.meldLocked(last, r.first, s)
	}
}

// meldLocked merges two free neighbors into one, which stream s owns if it owned either.
func (a *Allocator) meldLocked(i, above uint32, s Stream) {
	var mark uint64
	owned := false
	if a.shared {
		owned = a.tags[i].stream == s || a.tags[above].stream == s
		mark = max(a.tags[i].mark, a.tags[above].mark)
	}
	a.unlistLocked(i)
	a.unlistLocked(above)
	a.chunks.Absorb(i, above)
	if owned {
		a.ownLocked(i, s, mark)
	} else {
		a.listLocked(i)
	}
}

// whollyIdleLocked reports whether the region is one free chunk that no queued work touches.
func (a *Allocator) whollyIdleLocked(r region) bool {
	return a.idleLocked(r.first) && a.chunks.Records[r.first].Next == r.fence
}

// releaseLocked returns regions that are no longer in the accounting. A refusal does not stop it from releasing the
// others.
func (a *Allocator) releaseLocked(regions []region) error {
	var errs []error
	for _, r := range regions {
		if err := a.sub.Release(r.addr, r.bytes); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// SplitRule decides when the unneeded part of a chunk is split off. The zero value splits whenever anything is left,
// so that a block never wastes 256 bytes or more.
type SplitRule struct {
	// TensorFlow splits only if the chunk is at least twice the request, or the rest is at least 128 MiB. Ties go to
	// the lowest address of all. Addresses then match TensorFlow's.
	TensorFlow bool

	// FragmentationFraction, if above 0, replaces the 128 MiB with this fraction of the limit, up to 1 TiB. It must be
	// at most 1 and requires TensorFlow.
	FragmentationFraction float64
}

const tensorFlowSlackBytes = 128 << 20

// splitter is a SplitRule resolved for one limit.
type splitter struct {
	tensorFlow bool
	slackBytes uint64 // TensorFlow: a rest of this many bytes is always split off
}

func newSplitter(rule SplitRule, limitBytes uint64) (splitter, error) {
	fraction := rule.FragmentationFraction
	if !(fraction >= 0 && fraction <= 1) {
		return splitter{}, status.Errorf(status.InvalidArgument, "the fragmentation fraction is %v; it must be from "+
			"0 to 1", fraction)
	}
	if fraction > 0 && !rule.TensorFlow {
		return splitter{}, status.Errorf(status.InvalidArgument,
			"a fragmentation fraction (%v) requires the TensorFlow split rule; exact splitting does not use it",
			fraction)
	}
	s := splitter{tensorFlow: rule.TensorFlow, slackBytes: tensorFlowSlackBytes}
	if fraction > 0 {
		s.slackBytes = limitBytes
		if product := fraction * float64(limitBytes); product < float64(limitBytes) {
			s.slackBytes = uint64(product)
		}
	}
	s.slackBytes = min(s.slackBytes, chunks.MostSlack)
	return s, nil
}

// splits reports whether a chunk of have bytes that serves a request of want <= have bytes must be split (invariant
// 10).
func (s splitter) splits(have, want uint64) bool {
	rest := have - want
	if !s.tensorFlow {
		return rest > 0
	}
	return rest > 0 && (rest >= want || rest >= s.slackBytes)
}

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
