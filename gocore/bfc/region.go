package bfc

import (
	"cmp"
	"errors"
	"slices"

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

// A region is what one Extend gave.
type region struct {
	addr  uint64
	bytes uint64
	first uint32 // its lowest chunk: the same record for as long as the region lives
}

func (r region) end() uint64 { return r.addr + r.bytes }

// extendLocked asks for a region that can hold bytes. refusal is the sub-allocator's reason when there is none.
func (a *Allocator) extendLocked(bytes uint64) (refusal error) {
	addr, got, err := a.sub.Extend(bytes)
	if err != nil {
		return err
	}
	if err := a.checkRegionLocked(addr, got, bytes); err != nil {
		return errors.Join(err, a.sub.Release(addr, got))
	}
	a.addRegionLocked(addr, got)
	return nil
}

// checkRegionLocked refuses a region that would break invariants 1, 2 or 11.
func (a *Allocator) checkRegionLocked(addr, bytes, atLeast uint64) error {
	fit := addr != 0 && addr%granularity == 0 && bytes%granularity == 0 && bytes >= atLeast && addr+bytes > addr
	if fit && bytes <= a.limitBytes-a.stats.BytesReserved {
		at, _ := a.regionAfterLocked(addr)
		if (at == 0 || a.regions[at-1].end() <= addr) && (at == len(a.regions) || addr+bytes <= a.regions[at].addr) {
			return nil
		}
	}
	return status.Errorf(status.Internal,
		"the sub-allocator gave a region that cannot be used: %d bytes at %#x, asked for %d", bytes, addr, atLeast)
}

// regionAfterLocked gives the position of the first region at or above addr, and whether it begins there.
func (a *Allocator) regionAfterLocked(addr uint64) (at int, found bool) {
	return slices.BinarySearchFunc(a.regions, addr, func(r region, addr uint64) int { return cmp.Compare(r.addr, addr) })
}

func (a *Allocator) addRegionLocked(addr, bytes uint64) {
	first := a.chunks.take()
	a.chunks.records[first] = chunk{addr: addr, bytes: bytes}
	at, _ := a.regionAfterLocked(addr)
	a.regions = slices.Insert(a.regions, at, region{addr: addr, bytes: bytes, first: first})
	a.bins.insert(first)
	a.stats.reserved(bytes)
}

// whollyFreeLocked reports whether the region is one free chunk.
func (a *Allocator) whollyFreeLocked(r region) bool {
	c := &a.chunks.records[r.first]
	return c.free() && c.next == none
}

// collectLocked gives back every wholly free region, in address order, if that makes a region of bytes possible. It is
// all of them, as in TensorFlow: one region that replaces many fragments less.
func (a *Allocator) collectLocked(bytes uint64) (collected bool, err error) {
	var idleBytes uint64
	for _, r := range a.regions {
		if a.whollyFreeLocked(r) {
			idleBytes += r.bytes
		}
	}
	if idleBytes == 0 || bytes > a.sub.AvailableBytes()+idleBytes {
		return false, nil
	}
	var idle []region
	a.regions = slices.DeleteFunc(a.regions, func(r region) bool {
		if !a.whollyFreeLocked(r) {
			return false
		}
		idle = append(idle, r)
		a.bins.remove(r.first)
		a.chunks.recycle(r.first)
		a.stats.BytesReserved -= r.bytes
		return true
	})
	return true, a.releaseLocked(idle)
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
