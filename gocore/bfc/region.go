package bfc

import (
	"cmp"
	"errors"
	"slices"

	"gpuconf/gocore/chunks"
	"gpuconf/gocore/status"
)

// SubAllocator gives regions and takes them back. The allocator calls it with its mutex held.
type SubAllocator interface {
	// Extend gets one new region of at least atLeast bytes, or fails and changes nothing that the allocator could see.
	// atLeast is a multiple of 256; so must be the address, which is not 0, and the size.
	Extend(atLeast uint64) (addr, bytes uint64, err error)

	// Release gives a whole region back. The allocator has forgotten it, whatever the answer.
	Release(addr, bytes uint64) error

	// AvailableBytes is how much of the limit is not taken yet, rounded down to 256.
	AvailableBytes() uint64

	// LimitBytes never changes. The sizes of all regions together stay below it.
	LimitBytes() uint64
}

// A region is what one Extend gave, or a stretch of a Mapper's range that is mapped.
type region struct {
	addr  uint64
	bytes uint64
	first uint32 // its lowest chunk
	fence uint32 // the record behind its highest chunk: the same for as long as the region lives
}

func (r region) end() uint64 { return r.addr + r.bytes }

// extendLocked asks for a region that can hold bytes. refusal is the sub-allocator's reason when there is none.
func (a *Allocator) extendLocked(bytes uint64) (refusal error) {
	addr, got, err := a.sub.Extend(bytes)
	if err != nil && a.spareBytesLocked() > 0 { // it stands in the way
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

// fitsLocked reports whether memory can be a region: invariants 1, 2 and 11.
func (a *Allocator) fitsLocked(addr, bytes, atLeast uint64) bool {
	fit := addr != 0 && addr%chunks.Granularity == 0 && bytes%chunks.Granularity == 0 && bytes >= atLeast && addr+bytes > addr
	if !fit || bytes > a.limitBytes-a.stats.BytesReserved {
		return false
	}
	at, _ := a.regionAfterLocked(addr)
	return (at == 0 || a.regions[at-1].end() <= addr) && (at == len(a.regions) || addr+bytes <= a.regions[at].addr)
}

func errUnusable(addr, bytes, atLeast uint64) error {
	return status.Errorf(status.Internal,
		"the sub-allocator gave a region that cannot be used: %d bytes at %#x, asked for %d", bytes, addr, atLeast)
}

// regionAfterLocked gives the position of the first region at or above addr, and whether it begins there.
func (a *Allocator) regionAfterLocked(addr uint64) (at int, found bool) {
	return slices.BinarySearchFunc(a.regions, addr, func(r region, addr uint64) int { return cmp.Compare(r.addr, addr) })
}

// addRegionLocked puts memory into the books: none -> free. It gives the position of the region.
func (a *Allocator) addRegionLocked(addr, bytes uint64) (at int) {
	first, fence := a.chunks.Take(), a.chunks.Take()
	a.chunks.Records[first] = chunks.Chunk{Addr: addr, Bytes: bytes, Next: fence}
	a.chunks.Records[fence] = chunks.Chunk{Addr: addr + bytes, Requested: chunks.FenceMark, Prev: first}
	at, _ = a.regionAfterLocked(addr)
	a.regions = slices.Insert(a.regions, at, region{addr: addr, bytes: bytes, first: first, fence: fence})
	a.listLocked(first)
	a.reservedLocked(bytes)
	a.recordSegmentLocked(true, addr, bytes)
	return at
}

// joinRegionsLocked makes regions at and at+1 one, if both are there, lie side by side and belong to the mapper's range. What is
// free where they meet becomes one chunk if stream s may have both parts at once.
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

// meldLocked makes two free neighbours one, which is for stream s if either was.
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

// releaseLocked gives back regions that the books no longer hold. One refusal does not keep the others.
func (a *Allocator) releaseLocked(regions []region) error {
	var errs []error
	for _, r := range regions {
		if err := a.sub.Release(r.addr, r.bytes); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
