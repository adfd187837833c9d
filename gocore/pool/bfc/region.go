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
