// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"
	"math"

	"gpuconf/gocore/base/invariants"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// gap is a run of addresses in the mapper's range without a block: usable free chunks, and holes between regions.
type gap struct {
	addr, end uint64
	mapped    uint64 // bytes
	parts     []part
}

// part is a free chunk, or a hole.
type part struct {
	addr, end uint64
	mapped    bool
}

// target is where a request could be placed once what is missing is mapped.
type target struct {
	addr, end uint64 // whole granules
	missing   uint64 // how much of it lies in holes
}

// stitchLocked moves free granules together into a free chunk of bytes for stream s. It first waits for the work that
// may touch them, one stream at a time, until enough memory is clean (invariant 19). stitched is false if all of it
// would not be enough, or for the reason in refusal.
func (a *Allocator) stitchLocked(bytes uint64, s Stream) (stitched bool, refusal error) {
	if a.mapper == nil || bytes > a.sub.AvailableBytes()+a.stats.BytesReserved-a.stats.BytesInUse {
		return false, nil
	}
	if !a.shared {
		return a.stitchCleanLocked(bytes, s)
	}
	if _, ok := a.targetLocked(bytes, a.freedLocked); !ok && !a.restFreedLocked() {
		return false, nil // waiting would not help
	}
	for s := range a.streams {
		a.streams[s].refuses = false
	}
	for {
		stitched, err := a.stitchCleanLocked(bytes, s)
		if refusal = errors.Join(refusal, err); stitched || err != nil {
			return stitched, refusal
		}
		waited, err := a.waitForOneLocked()
		if refusal = errors.Join(refusal, err); !waited {
			return false, refusal
		}
	}
}

// stitchOrGrowLocked is like stitchLocked, after growth was refused. If the device or a timeline refuses the
// stitching too, what it has changed by then may still serve the request: memory that was returned to the device, or
// spare memory where it is.
func (a *Allocator) stitchOrGrowLocked(bytes uint64, s Stream, refusal error) (done bool, all error) {
	left := a.sub.AvailableBytes() - a.spareBytesLocked()
	done, err := a.stitchLocked(bytes, s)
	if done {
		return true, nil
	}
	if err != nil {
		refusal = errors.Join(refusal, status.Errorf(status.ResourceExhausted,
			"free memory could not be moved together: %w", errStitch{err}))
		if a.sub.AvailableBytes()-a.spareBytesLocked() > left && a.growLocked(bytes, s) == nil {
			return true, nil
		}
	}
	if errors.Is(refusal, errNoPlace) {
		if err = a.extendLocked(bytes); err == nil {
			return true, nil
		}
		if refusal == errNoPlace {
			refusal = err
		} else {
			refusal = errors.Join(refusal, err)
		}
	}
	if refusal == errLimit || a.spareBytesLocked() == 0 {
		return false, refusal
	}
	if err := a.takeSpareLocked(); err != nil {
		return false, errors.Join(refusal, err)
	}
	return a.homeLocked(clean).BestFit(bytes) != chunks.None, refusal
}

// waitForOneLocked waits for the stream that owns the most memory no other stream may use, so that few streams are
// waited for.
func (a *Allocator) waitForOneLocked() (waited bool, err error) {
	for {
		most := -1
		for s := range a.streams {
			st := &a.streams[s]
			if st.state != private && (st.owned.oldest != chunks.None || st.awaited.oldest != chunks.None) &&
				!st.refuses && (most < 0 || st.freeBytes > a.streams[most].freeBytes) {
				most = s
			}
		}
		if most < 0 {
			return false, err
		}
		st := &a.streams[most]
		refusal := a.syncStreamLocked(Stream(most))
		if refusal == nil {
			return true, err
		}
		st.refuses = true
		err = errors.Join(err, refusal)
	}
}

// stitchCleanLocked is like stitchLocked, but uses only memory that needs no wait in shared mode. In single mode it
// waits for the one stream.
func (a *Allocator) stitchCleanLocked(bytes uint64, s Stream) (stitched bool, refusal error) {
	t, ok := a.targetLocked(bytes, a.idleLocked)
	if !ok && a.spareRestLocked() {
		t, ok = a.targetLocked(bytes, a.idleLocked)
	}
	if !ok {
		return false, nil
	}
	if refusal = a.quietLocked(); refusal != nil {
		return false, refusal
	}
	if refusal = a.gatherLocked(t, a.sub.AvailableBytes); refusal != nil {
		return false, refusal
	}
	if refusal = a.fillLocked(t, s); refusal == nil {
		return true, nil
	}
	if a.spareBytesLocked() >= t.missing { // the device had enough to move, and refused
		return false, refusal
	}
	if err := a.gatherLocked(t, a.mapper.SpareBytes); err != nil || a.spareBytesLocked() < t.missing {
		return false, errors.Join(refusal, err)
	}
	if err := a.fillLocked(t, s); err != nil { // this time without new memory
		return false, errors.Join(refusal, err)
	}
	return true, nil
}

// quietLocked waits, in single mode, for the work that may touch free memory. In shared mode only clean memory is
// moved (invariant 19).
func (a *Allocator) quietLocked() error {
	if a.shared {
		return nil
	}
	return a.syncLocked()
}

// targetLocked returns the target that misses the least memory to serve bytes, the lowest address on a tie, among
// those for which enough whole granules are elsewhere, free or not yet reserved. No usable chunk is large enough.
func (a *Allocator) targetLocked(bytes uint64, usable func(uint32) bool) (best target, ok bool) {
	most := bytes + 2*a.space.granule // no target needs more
	n := nearest{bytes: bytes, space: a.space, supply: a.supplyLocked(usable, most)}
	if a.shared {
		a.eachGapLocked(usable, n.visit)
		return n.best, n.found
	}
	a.eachGapAtHoleLocked(&n)
	if invariants.Enabled {
		all := nearest{bytes: bytes, space: a.space, supply: a.supplyLocked(usable, math.MaxUint64)}
		a.eachGapLocked(usable, all.visit)
		invariants.Check(all.best == n.best && all.found == n.found, "the target for %d bytes is %+v beside holes, "+
			"and %+v anywhere", bytes, n.best, all.best)
	}
	return n.best, n.found
}

// nearest is the search for a target, gap by gap.
type nearest struct {
	bytes, supply uint64
	space         space
	best          target
	found         bool
}

// mayBeBetter reports whether a gap in which so much is mapped may have a target that misses less than the best one.
func (n *nearest) mayBeBetter(mapped uint64) bool {
	return !n.found || n.bytes-min(n.bytes, mapped) < n.best.missing
}

func (n *nearest) visit(g gap) bool {
	if g.end-g.addr < n.bytes || !n.mayBeBetter(g.mapped) {
		return true
	}
	n.try(g, g.addr)
	for _, p := range g.parts {
		if p.mapped {
			n.try(g, p.addr)
			n.try(g, p.end-min(n.bytes, p.end))
		}
	}
	if g.end < n.space.end {
		n.try(g, g.end-n.bytes)
	}
	return true
}

func (n *nearest) try(g gap, addr uint64) {
	if addr < g.addr || addr+n.bytes > g.end {
		return
	}
	t, need := g.targetAt(addr, n.bytes, n.space.granule)
	if need <= n.supply && (!n.found || t.missing < n.best.missing) {
		n.best, n.found = t, true
	}
}

// targetAt returns the target of a block at addr. need is the size of its granules that no block touches yet.
func (g gap) targetAt(addr, bytes, granule uint64) (t target, need uint64) {
	t.addr = down(addr, granule)
	t.end = down(addr+bytes+granule-1, granule)
	need = t.end - t.addr
	if t.addr < g.addr {
		need -= granule // already mapped: the block below touches it
	}
	if t.end > g.end && need > 0 {
		need -= granule
	}
	for _, p := range g.parts {
		if !p.mapped && p.addr < t.end && t.addr < p.end {
			t.missing += min(p.end, t.end) - max(p.addr, t.addr)
		}
	}
	return t, need
}

// movableLocked returns how many bytes could be moved together in whole granules after waiting for all streams.
func (a *Allocator) movableLocked() uint64 {
	if a.mapper == nil || a.space.addr == a.space.end {
		return 0
	}
	return a.supplyLocked(a.freedLocked, math.MaxUint64)
}

// freedLocked reports whether a chunk is free or held, though work may still touch it, and not kept for a capture
// (invariant 18).
func (a *Allocator) freedLocked(i uint32) bool {
	c := &a.chunks.Records[i]
	return (c.Free() || c.Held()) && !a.capturedLocked(i)
}

// supplyLocked returns how many bytes there are in whole granules that are available, or in which all chunks are
// usable. It stops counting at enough.
func (a *Allocator) supplyLocked(usable func(uint32) bool, enough uint64) (bytes uint64) {
	bytes = down(a.sub.AvailableBytes(), a.space.granule)
	if a.shared || bytes >= enough {
		return bytes + a.walkSupplyLocked(usable, enough-min(enough, bytes))
	}
	large := a.largeSupplyLocked(enough - bytes)
	if invariants.Enabled {
		all := a.walkSupplyLocked(usable, math.MaxUint64)
		invariants.Check(large <= all, "%d bytes of large chunks can be moved, but only %d in all", large, all)
	}
	if bytes+large >= enough {
		return bytes + large
	}
	return bytes + a.walkSupplyLocked(usable, enough-bytes)
}

// walkSupplyLocked is supplyLocked for chunks.
func (a *Allocator) walkSupplyLocked(usable func(uint32) bool, enough uint64) (bytes uint64) {
	for _, r := range a.regions {
		if !a.space.holds(r.addr) {
			continue
		}
		from := r.addr // of the usable chunks below chunk i
		for i := r.first; bytes < enough; i = a.chunks.Records[i].Next {
			if i != r.fence && usable(i) {
				continue
			}
			c := &a.chunks.Records[i]
			if from < c.Addr() {
				first, end := a.wholeLocked(from, c.Addr())
				bytes += end - first
			}
			if i == r.fence {
				break
			}
			from = c.Addr() + c.Bytes()
		}
	}
	return bytes
}

// largeSupplyLocked is supplyLocked for chunks in single mode, where no two neighbors are free. It begins with large
// ones, of which few are enough, and may count less than there is: one chunk of each size.
func (a *Allocator) largeSupplyLocked(enough uint64) (bytes uint64) {
	for end := a.bins.LargestBytes() + chunks.Granularity; end > a.space.granule && bytes < enough; {
		begin := max(end/2&^(chunks.Granularity-1), a.space.granule)
		for i := a.bins.BestFit(begin); i != chunks.None && bytes < enough; {
			c := &a.chunks.Records[i]
			if c.Bytes() >= end {
				break
			}
			if a.space.holds(c.Addr()) {
				first, end := a.wholeLocked(c.Addr(), c.Addr()+c.Bytes())
				bytes += end - first
			}
			i = a.bins.BestFit(c.Bytes() + chunks.Granularity)
		}
		end = begin
	}
	return bytes
}

// wholeLocked returns the part of a free stretch that can be moved: whole granules, and in shared mode whole handles.
// In single mode a handle is split where necessary (mapper_grow.go).
func (a *Allocator) wholeLocked(addr, end uint64) (from, to uint64) {
	from = down(addr+a.space.granule-1, a.space.granule)
	to = max(from, down(end, a.space.granule))
	if a.shared && a.hasLarge() && from < to {
		return a.mapper.Whole(from, to)
	}
	return from, to
}

// down rounds down to a multiple of the granule. It divides only if the granule is no power of two: a division takes as
// long as all the rest of a step of a search.
func down(addr, granule uint64) uint64 {
	if granule&(granule-1) == 0 {
		return addr &^ (granule - 1)
	}
	return addr / granule * granule
}

// eachGapLocked calls visit for all gaps of the range, by address, until it returns false. The parts are valid during
// the call.
func (a *Allocator) eachGapLocked(usable func(uint32) bool, visit func(gap) bool) {
	g := gap{addr: a.space.addr, end: a.space.addr, parts: a.parts[:0]}
	for _, r := range a.regions {
		if !a.space.holds(r.addr) {
			continue
		}
		g.grow(r.addr, false)
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			c := &a.chunks.Records[i]
			if usable(i) {
				g.grow(c.Addr()+c.Bytes(), true)
				continue
			}
			if g.addr < g.end && !visit(g) {
				a.parts = g.parts[:0]
				return
			}
			g = gap{addr: c.Addr() + c.Bytes(), end: c.Addr() + c.Bytes(), parts: g.parts[:0]}
		}
	}
	g.grow(a.space.end, false)
	visit(g)
	a.parts = g.parts[:0]
}

// eachGapAtHoleLocked is like eachGapLocked in single mode, but visits only gaps that contain a hole, are large enough
// for a request, and may have a better target than the best one so far. It looks at two chunks of each region, because
// there no two neighbors are free (invariant 4).
func (a *Allocator) eachGapAtHoleLocked(n *nearest) {
	records := a.chunks.Records
	tail, below := a.space.addr, 0 // where the gap begins, and the region in which it does, from 1
	mapped := uint64(0)            // bytes of the gap so far
	end := func(at int, to uint64) {
		g := gap{addr: tail, end: tail, parts: a.parts[:0]}
		if below > 0 {
			g.grow(a.regions[below-1].end(), true)
		}
		for _, r := range a.regions[below:at] {
			if a.space.holds(r.addr) { // a region that is one free chunk
				g.grow(r.addr, false)
				g.grow(r.end(), true)
			}
		}
		if at < len(a.regions) {
			g.grow(a.regions[at].addr, false)
			g.grow(to, true)
		} else {
			g.grow(to, false)
		}
		n.visit(g)
		a.parts = g.parts[:0]
	}
	for at := range a.regions {
		r := &a.regions[at]
		head := records[r.first].FreeBytes()
		if !a.space.holds(r.addr) {
			continue
		}
		mapped += head
		if head == r.bytes {
			continue
		}
		if to := r.addr + head; to-tail >= n.bytes && n.mayBeBetter(mapped) {
			end(at, to)
		}
		mapped = records[records[r.fence].Prev].FreeBytes()
		tail, below = r.end()-mapped, at+1
	}
	if a.space.end-tail >= n.bytes && n.mayBeBetter(mapped) {
		end(len(a.regions), a.space.end)
	}
}

// grow extends the gap up to end.
func (g *gap) grow(end uint64, mapped bool) {
	if mapped {
		g.mapped += end - g.end
	}
	switch n := len(g.parts); {
	case end == g.end:
	case mapped && n > 0 && g.parts[n-1].mapped:
		g.parts[n-1].end, g.end = end, end
	default:
		g.parts = append(g.parts, part{addr: g.end, end: end, mapped: mapped})
		g.end = end
	}
}

// gatherLocked makes free granules spare until they cover what the target misses, the highest first, so that the pool
// stays low. It never takes granules of the target itself.
func (a *Allocator) gatherLocked(t target, there func() uint64) error {
	have := there()
	at := len(a.regions) - 1
	if !a.shared {
		at, _ = a.regionAfterLocked(a.drained + 1)
		at--
	}
	for ; ; at = min(at, len(a.regions)-1) {
		short := t.missing - min(t.missing, down(have, a.space.granule))
		if short == 0 {
			return nil
		}
		var i uint32
		var from, to uint64
		at, i, from, to = a.highestLocked(at, t)
		if invariants.Enabled {
			_, highest, _, _ := a.highestLocked(len(a.regions)-1, t)
			invariants.Check(i == highest, "chunk %d is the highest one below %#x, and %d anywhere", i, a.drained,
				highest)
		}
		if i == chunks.None {
			return nil
		}
		from = max(from, to-min(short, to-from))
		split, err := a.splitLocked(i, from)
		if !split && err == nil {
			split, err = a.splitLocked(i, to)
		}
		if err != nil {
			return err
		}
		if split {
			at = len(a.regions) - 1
			continue
		}
		if err := a.spareLocked(at, i, from, to); err != nil {
			return err
		}
		a.drained = max(from, t.end)
		have += to - from
	}
}

// highestLocked returns the highest whole granules that are free, outside the target and in one chunk, of a region and
// those below it, and the position of the one that they are in.
func (a *Allocator) highestLocked(at int, t target) (in int, i uint32, from, to uint64) {
	records, granule := a.chunks.Records, a.space.granule
	for ; at >= 0; at-- {
		r := &a.regions[at]
		if !a.space.holds(r.addr) {
			continue
		}
		for i := records[r.fence].Prev; i != chunks.None; i = records[i].Prev {
			c := &records[i]
			if c.FreeBytes() < granule || a.freeBytesLocked(i, clean) == 0 { // as nearly always: predictable
				continue
			}
			addr, end := c.Addr(), c.Addr()+c.Bytes()
			if from, to := a.wholeLocked(max(addr, t.end), end); from < to {
				return at, i, from, to
			}
			if from, to := a.wholeLocked(addr, min(end, t.addr)); from < to {
				return at, i, from, to
			}
		}
	}
	return 0, chunks.None, 0, 0
}

// fillLocked maps what is missing in the target and merges it with the free chunks there.
func (a *Allocator) fillLocked(t target, s Stream) error {
	holes := a.holesLocked(t)
	if err := a.chunks.RoomFor(2*len(holes) + 3); err != nil {
		return err
	}
	moved, err := a.mapper.Stitch(t.addr, t.end-t.addr)
	if err != nil {
		return err
	}
	a.countMovedLocked(moved)
	for _, h := range holes {
		a.arriveLocked(h.addr, h.end-h.addr, s)
	}
	return nil
}

// holesLocked returns the parts of the target that are in no region. The slice is valid until the next gap is
// visited.
func (a *Allocator) holesLocked(t target) (holes []part) {
	holes = a.parts[:0]
	at := t.addr
	above, _ := a.regionAfterLocked(at)
	for _, r := range a.regions[max(above-1, 0):] {
		if !a.space.holds(r.addr) || r.end() <= at {
			continue
		}
		if r.addr >= t.end {
			break
		}
		if r.addr > at {
			holes = append(holes, part{addr: at, end: r.addr})
		}
		at = r.end()
	}
	if at < t.end {
		holes = append(holes, part{addr: at, end: t.end})
	}
	a.parts = holes
	return holes
}

// arriveLocked adds new memory of the range to the accounting and merges it with its neighbors (invariants 1 and 12).
func (a *Allocator) arriveLocked(addr, bytes uint64, s Stream) {
	if bytes >= a.space.large {
		a.uncut = 2 * a.space.granule
	}
	a.drained = max(a.drained, addr)
	at := a.addRegionLocked(addr, bytes)
	a.joinRegionsLocked(at, s)
	a.joinRegionsLocked(at-1, s)
	a.notePeakLocked()
}

// errStitch is the reason why free memory could not be moved together although there was enough of it.
type errStitch struct{ error }

func (e errStitch) Unwrap() error { return e.error }
