// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"
	"math"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// Mapper is a SubAllocator with its own range of addresses, in which the allocator decides where memory is mapped. A
// region can therefore grow in place, and adjacent regions of the range are merged. Extend is then called only for
// what Map cannot supply, when less than a granule of the limit is left; its regions lie outside the range.
type Mapper interface {
	SubAllocator

	// Range returns the range, which never changes. Memory in it is mapped in granules. A granule is a multiple of 256,
	// and addr and bytes are multiples of it.
	Range() (addr, bytes, granuleBytes uint64)

	// Map maps memory at addr, at least atLeast and at most atMost bytes. No memory of the allocator is mapped there
	// before. If it fails, nothing changes for the allocator.
	Map(addr, atLeast, atMost uint64) (bytes uint64, err error)

	// Stitch makes a stretch of whole granules belong to the allocator throughout. Memory that it already has there
	// stays. The rest is filled with new memory, or with spare memory moved from elsewhere; no queued work may touch
	// spare memory. If it fails, nothing changes for the allocator.
	Stitch(addr, bytes uint64) (movedBytes uint64, err error)

	// A handle is one granule, or several that can only be moved or released together. Whole returns the part of a
	// mapped stretch that consists of whole handles; from is to if there is none. LargeBytes is the least Map or Stitch
	// that takes handles of several granules. The last granule of what it maps has its own handle, and so has the first
	// one of the range.
	Whole(addr, end uint64) (from, to uint64)
	LargeBytes() uint64

	// Spare takes whole handles without a block, or a region from Extend, from the allocator and leaves them mapped.
	// They count as available from then on: Map takes them over where they are, Stitch moves them, Unspare returns them
	// to the allocator, and DropSpare returns all of them to the device.
	Spare(addr, bytes uint64) error
	Unspare(addr, bytes uint64) error
	SpareBytes() uint64
	EachSpare(visit func(addr, bytes uint64)) // by address, a region from Extend last
	DropSpare() error

	// Unmap releases what it can of a stretch that is mapped throughout and unused. It returns the part that it
	// released: from inclusive, to exclusive, equal if there is none. That part is released even if err is not nil.
	Unmap(addr, bytes uint64) (from, to uint64, err error)
}

// space is a mapper's range. The zero space contains no address.
type space struct {
	addr, end uint64
	granule   uint64
	large     uint64 // Mapper.LargeBytes
}

func mapperOf(sub SubAllocator) (Mapper, space, error) {
	m, ok := sub.(Mapper)
	if !ok {
		return nil, space{granule: chunks.Granularity, large: math.MaxUint64}, nil
	}
	addr, bytes, granule := m.Range()
	if granule == 0 || granule%chunks.Granularity != 0 || addr%granule != 0 || bytes%granule != 0 ||
		addr+bytes < addr || addr == 0 && bytes > 0 {
		return nil, space{}, status.Errorf(status.InvalidArgument,
			"an allocator cannot use a range of %d bytes at %#x in granules of %d", bytes, addr, granule)
	}
	return m, space{addr: addr, end: addr + bytes, granule: granule, large: m.LargeBytes()}, nil
}

func (s space) holds(addr uint64) bool { return s.addr <= addr && addr < s.end }

func (s space) touches(addr, bytes uint64) bool { return addr < s.end && addr+bytes > s.addr }

// place is where memory could be mapped for a request.
type place struct {
	addr uint64
	need uint64 // the fewest bytes to map: together with the free chunks at both ends they serve the request
	room uint64 // bytes that could be mapped
}

// makeRoomLocked ends both ladders of allocation (doc.go, Stitching), after growth was refused: it stitches free
// memory together for stream s, or releases idle memory and grows again. Afterwards there is a chunk that s may take
// at once, or all contains every reason why not.
func (a *Allocator) makeRoomLocked(bytes uint64, s Stream, refusal error) (all error) {
	done, refusal := a.stitchOrGrowLocked(bytes, s, refusal)
	if done || a.growWithoutFirstGranuleLocked(bytes) {
		return nil
	}
	if !a.collect {
		return refusal
	}
	collected, err := a.collectLocked(bytes)
	if a.atOnceLocked(s, bytes) != chunks.None { // waiting alone freed enough
		return nil
	}
	if collected {
		if refusal = a.growAnywayLocked(bytes, s); refusal == nil {
			return nil
		}
	}
	if err != nil { // errors.Join would hide the identity of a single refusal, such as errLimit
		refusal = errors.Join(refusal, err)
	}
	return refusal
}

// growWithoutFirstGranuleLocked grows an empty pool that still has its first granule: without that granule, what is
// left of the limit may serve as one region, although it cannot as whole granules beside it.
func (a *Allocator) growWithoutFirstGranuleLocked(bytes uint64) (grown bool) {
	if a.shared || a.index.Count() > 0 || a.mapper == nil || len(a.regions) == 0 {
		return false
	}
	a.spareAllLocked(a.space.addr)
	return a.growAnywayLocked(bytes, a.only) == nil
}

// growLocked obtains new memory, so that stream s then finds a free chunk of at least bytes. It never exceeds the
// limit (invariant 11).
func (a *Allocator) growLocked(bytes uint64, s Stream) (refusal error) {
	if p, ok := a.placeLocked(bytes, s); ok {
		return a.mapLocked(p, s)
	}
	switch available := a.sub.AvailableBytes(); {
	case bytes > available:
		return errLimit
	case a.space.addr != a.space.end && available >= a.space.granule:
		return errNoPlace
	default:
		return a.extendLocked(bytes)
	}
}

// growAnywayLocked is like growLocked, but may turn what is left of the limit into a region outside the range even if
// it contains whole granules. Such a region cannot be moved.
func (a *Allocator) growAnywayLocked(bytes uint64, s Stream) (refusal error) {
	if refusal = a.growLocked(bytes, s); refusal == errNoPlace {
		return a.extendLocked(bytes)
	}
	return refusal
}

// Each is a single value: with several streams these refusals are frequent, and other memory then serves the request.
var (
	errLimit   = status.Errorf(status.ResourceExhausted, "the limit is reached")
	errNoPlace = status.Errorf(status.ResourceExhausted, "the whole granules left under the limit cannot serve the "+
		"request")
)

// mapLocked maps memory at a place and merges it with its neighbors (invariant 12).
func (a *Allocator) mapLocked(p place, s Stream) (refusal error) {
	got, err := a.mapper.Map(p.addr, p.need, p.room)
	if err != nil && a.mapper.SpareBytes() > 0 {
		got, err = a.moveToLocked(p)
	}
	if err != nil {
		return err
	}
	if got > p.room || got%a.space.granule != 0 || !a.fitsLocked(p.addr, got, p.need) {
		_, _, err := a.mapper.Unmap(p.addr, got)
		return errors.Join(errUnusable(p.addr, got, p.need), err)
	}
	a.arriveLocked(p.addr, got, s)
	return nil
}

// moveToLocked is like Map for a place without enough spare memory, when there is spare memory elsewhere.
func (a *Allocator) moveToLocked(p place) (bytes uint64, err error) {
	if err := a.quietLocked(); err != nil {
		return 0, err
	}
	bytes = (p.need + a.space.granule - 1) / a.space.granule * a.space.granule
	moved, err := a.mapper.Stitch(p.addr, bytes)
	if err == nil {
		a.countMovedLocked(moved)
	}
	return bytes, err
}

// countMovedLocked counts the bytes that a Stitch moved.
func (a *Allocator) countMovedLocked(bytes uint64) {
	if bytes > 0 {
		a.stats.Stitches++
		a.stats.StitchedBytes += bytes
	}
}

// placeLocked returns the place where the least memory has to be mapped to serve bytes on stream s, the lowest
// address on a tie. ok is false if there is none or the limit does not allow it. It visits all regions of the range;
// there are many only after many Trims.
func (a *Allocator) placeLocked(bytes uint64, s Stream) (best place, ok bool) {
	if a.mapper == nil {
		return place{}, false
	}
	best.need = a.sub.AvailableBytes()/a.space.granule*a.space.granule + 1
	if best.need == 1 && !a.shared {
		return place{}, false // no chunk is large enough, so something would have to be mapped
	}
	below, tail := a.space.addr, uint64(0)
	for _, r := range a.regions {
		if a.space.holds(r.addr) {
			best = better(best, below, r.addr-below, bytes, tail, a.freeBytesLocked(r.first, s))
			below, tail = r.end(), a.freeBytesLocked(a.chunks.Records[r.fence].Prev, s)
		}
	}
	best = better(best, below, a.space.end-below, bytes, tail, 0)
	return best, best.addr != 0
}

// canGrowLocked reports whether the limit allows what a request needs in addition to free memory.
func (a *Allocator) canGrowLocked(bytes uint64, s Stream) bool {
	_, ok := a.placeLocked(bytes, s)
	return ok
}

// better returns best, or the hole at addr if that needs less. tail and head are the free bytes right below and above
// the hole.
func better(best place, addr, room, bytes, tail, head uint64) place {
	need := bytes - min(bytes, tail)
	if need > room {
		if need-room > head {
			return best
		}
		need = room
	}
	if need >= best.need {
		return best
	}
	return place{addr: addr, need: need, room: room}
}

// freeBytesLocked returns the size of chunk i if it is free and stream s may take it at once, else 0.
func (a *Allocator) freeBytesLocked(i uint32, s Stream) uint64 {
	if a.shared && a.tags[i].stream != clean && a.tags[i].stream != s {
		return 0
	}
	return a.chunks.Records[i].FreeBytes()
}
