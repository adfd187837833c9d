package bfc

import (
	"errors"

	"gpuconf/gocore/chunks"
	"gpuconf/gocore/status"
)

// gap is a run of addresses in the mapper's range in which no block lies: free chunks that may be used, and holes between regions.
type gap struct {
	addr, end uint64
	parts     []part
}

// part is a free chunk, or a hole.
type part struct {
	addr, end uint64
	mapped    bool
}

// target is where a request could lie once what is missing is mapped.
type target struct {
	addr, end uint64 // whole granules
	missing   uint64 // bytes of them in holes
}

// stitchLocked moves free granules to where they make a free chunk of bytes for stream s. It waits for the work that may touch them: of one
// stream after the other, until what is then clean is enough. moved is false if all of it would not be enough, or if refusal says why not.
func (a *Allocator) stitchLocked(bytes uint64, s Stream) (stitched bool, refusal error) {
	if a.mapper == nil || bytes > a.sub.AvailableBytes()+a.stats.BytesReserved-a.stats.BytesInUse {
		return false, nil
	}
	if !a.shared {
		return a.stitchCleanLocked(bytes, s)
	}
	if _, ok := a.targetLocked(bytes, a.freedLocked); !ok && !a.restFreedLocked() {
		return false, nil // no wait would help
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

// stitchOrGrowLocked is stitchLocked, after growth met a refusal. Where the device or a timeline refused, what this has left serves perhaps: memory
// that went back to the device, or spare memory as it lies.
func (a *Allocator) stitchOrGrowLocked(bytes uint64, s Stream, refusal error) (done bool, all error) {
	left := a.sub.AvailableBytes() - a.spareBytesLocked()
	done, err := a.stitchLocked(bytes, s)
	if done {
		return true, nil
	}
	if err != nil {
		refusal = errors.Join(refusal, status.Errorf(status.ResourceExhausted, "free memory could not be moved together: %w", errStitch{err}))
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

// waitForOneLocked waits for the stream that holds most of the memory that nobody else may have, so that few are waited for.
func (a *Allocator) waitForOneLocked() (waited bool, err error) {
	for {
		most := -1
		for s := range a.streams {
			st := &a.streams[s]
			if st.state != private && (st.owned.oldest != chunks.None || st.awaited.oldest != chunks.None) && !st.refuses && (most < 0 || st.freeBytes > a.streams[most].freeBytes) {
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

// stitchCleanLocked is stitchLocked with what needs no wait in shared mode, and one for the only stream otherwise.
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
	if a.spareBytesLocked() >= t.missing { // what the device had to move it had, and refused
		return false, refusal
	}
	if err := a.gatherLocked(t, a.mapper.SpareBytes); err != nil || a.spareBytesLocked() < t.missing {
		return false, errors.Join(refusal, err)
	}
	if err := a.fillLocked(t, s); err != nil { // without anything new
		return false, errors.Join(refusal, err)
	}
	return true, nil
}

// quietLocked waits, while there is one stream, for the work that may touch free memory. In shared mode what is moved is clean.
func (a *Allocator) quietLocked() error {
	if a.shared {
		return nil
	}
	return a.syncLocked()
}

// targetLocked finds where the least has to be mapped to serve bytes, the lowest place of several, among those for which there are
// enough whole granules elsewhere, free or not taken yet. It walks all chunks of the range twice.
func (a *Allocator) targetLocked(bytes uint64, usable func(uint32) bool) (best target, ok bool) {
	supply := a.supplyLocked(usable)
	a.eachGapLocked(usable, func(g gap) {
		if g.end-g.addr < bytes {
			return
		}
		try := func(addr uint64) {
			if addr < g.addr || addr+bytes > g.end {
				return
			}
			t, need := g.targetAt(addr, bytes, a.space.granule)
			if need <= supply && (!ok || t.missing < best.missing) {
				best, ok = t, true
			}
		}
		try(g.addr)
		for _, p := range g.parts {
			if p.mapped {
				try(p.addr)
				try(p.end - min(bytes, p.end))
			}
		}
		if g.end < a.space.end {
			try(g.end - bytes)
		}
	})
	return best, ok
}

// targetAt is what a block at addr would take: need are the granules that no block touches yet.
func (g gap) targetAt(addr, bytes, granule uint64) (t target, need uint64) {
	t.addr = addr / granule * granule
	t.end = (addr + bytes + granule - 1) / granule * granule
	need = t.end - t.addr
	if t.addr < g.addr {
		need -= granule // it is mapped already: the block below touches it
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

// freeGranules is how many bytes the gap has in granules that are mapped and that no block touches.
func (g gap) freeGranules(granule uint64) (bytes uint64) {
	for _, p := range g.parts {
		if from, to := whole(p.addr, p.end, granule); p.mapped {
			bytes += to - from
		}
	}
	return bytes
}

// movableLocked is how many bytes could be brought together in whole granules if all streams were waited for.
func (a *Allocator) movableLocked() uint64 {
	if a.mapper == nil || a.space.addr == a.space.end {
		return 0
	}
	return a.supplyLocked(a.freedLocked)
}

// freedLocked reports whether a chunk is no block, though work may still touch it, and not kept for a capture.
func (a *Allocator) freedLocked(i uint32) bool {
	c := &a.chunks.Records[i]
	return (c.Free() || c.Held()) && !a.capturedLocked(i)
}

// supplyLocked is how much there is in whole granules that are available, or in which all chunks are usable.
func (a *Allocator) supplyLocked(usable func(uint32) bool) (bytes uint64) {
	bytes = a.sub.AvailableBytes() / a.space.granule * a.space.granule
	a.eachGapLocked(usable, func(g gap) { bytes += g.freeGranules(a.space.granule) })
	return bytes
}

// whole gives the part of a stretch that is whole granules.
func whole(addr, end, granule uint64) (from, to uint64) {
	from = (addr + granule - 1) / granule * granule
	return from, max(from, end/granule*granule)
}

// eachGapLocked tells all gaps of the range, by address. The parts are valid during the call.
func (a *Allocator) eachGapLocked(usable func(uint32) bool, tell func(gap)) {
	g := gap{addr: a.space.addr, end: a.space.addr, parts: a.parts[:0]}
	grow := func(end uint64, mapped bool) {
		switch n := len(g.parts); {
		case end == g.end:
		case mapped && n > 0 && g.parts[n-1].mapped:
			g.parts[n-1].end, g.end = end, end
		default:
			g.parts = append(g.parts, part{addr: g.end, end: end, mapped: mapped})
			g.end = end
		}
	}
	for _, r := range a.regions {
		if !a.space.holds(r.addr) {
			continue
		}
		grow(r.addr, false)
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			c := &a.chunks.Records[i]
			if usable(i) {
				grow(c.Addr+c.Bytes, true)
				continue
			}
			tell(g)
			g = gap{addr: c.Addr + c.Bytes, end: c.Addr + c.Bytes, parts: g.parts[:0]}
		}
	}
	grow(a.space.end, false)
	tell(g)
	a.parts = g.parts[:0]
}

// gatherLocked makes so many free granules spare that there is what the target misses, the highest first: a pool
// lies low. None of the target's own are among them.
func (a *Allocator) gatherLocked(t target, there func() uint64) error {
	for at := len(a.regions) - 1; at >= 0; {
		short := t.missing - min(t.missing, there()/a.space.granule*a.space.granule)
		if short == 0 {
			return nil
		}
		i, from, to := a.highestLocked(at, t)
		if i == chunks.None {
			at--
			continue
		}
		from = max(from, to-min(short, to-from))
		if err := a.spareLocked(at, i, from, to); err != nil {
			return err
		}
		at = min(at, len(a.regions)-1)
	}
	return nil
}

// highestLocked gives the highest whole granules of a region that are free and not the target's, in one chunk.
func (a *Allocator) highestLocked(at int, t target) (i uint32, from, to uint64) {
	r := a.regions[at]
	if !a.space.holds(r.addr) {
		return chunks.None, 0, 0
	}
	for i := a.chunks.Records[r.fence].Prev; i != chunks.None; i = a.chunks.Records[i].Prev {
		if !a.idleLocked(i) {
			continue
		}
		c := &a.chunks.Records[i]
		from, to := whole(c.Addr, c.Addr+c.Bytes, a.space.granule)
		if above := max(from, min(t.end, to)); t.addr < to && above < to {
			return i, above, to
		}
		if t.addr < to {
			to = max(from, t.addr)
		}
		if from < to {
			return i, from, to
		}
	}
	return chunks.None, 0, 0
}

// fillLocked maps what is missing in the target and joins it to what is free there.
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

// holesLocked gives the parts of the target that are in no region. The slice is valid until the next gap is looked at.
func (a *Allocator) holesLocked(t target) (holes []part) {
	holes = a.parts[:0]
	at := t.addr
	for _, r := range a.regions {
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

// arriveLocked puts new memory of the range into the books, and joins it with what lies beside it.
func (a *Allocator) arriveLocked(addr, bytes uint64, s Stream) {
	at := a.addRegionLocked(addr, bytes)
	a.joinRegionsLocked(at, s)
	a.joinRegionsLocked(at-1, s)
	a.notePeakLocked()
}

// errStitch is why memory that is free could not be brought together, though there is enough of it.
type errStitch struct{ error }

func (e errStitch) Unwrap() error { return e.error }
