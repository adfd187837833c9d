package bfc

import (
	"errors"

	"gpuconf/gocore/chunks"
	"gpuconf/gocore/status"
)

// Mapper is a SubAllocator with a range of addresses of its own, in which the allocator says where memory goes. So a region
// can grow in place, and regions of the range that come to lie side by side are one. Extend is then asked only for what Map
// cannot give, since less than a granule of the limit is left; its regions lie outside the range.
type Mapper interface {
	SubAllocator

	// Range never changes. Memory in it comes in granules, a multiple of 256 of which addr and bytes are multiples.
	Range() (addr, bytes, granuleBytes uint64)

	// Map puts memory at addr, at least atLeast bytes and at most atMost, or fails and changes nothing that the allocator
	// could see. There is no memory there before.
	Map(addr, atLeast, atMost uint64) (bytes uint64, err error)

	// Stitch makes a stretch of whole granules the allocator's throughout. What it has there stays; what is missing is new, or spare memory
	// that lay elsewhere and is moved. No queued work touches spare memory. If it fails, that changes nothing that the allocator has.
	Stitch(addr, bytes uint64) (movedBytes uint64, err error)

	// Spare takes whole granules that hold no block, or what Extend gave, from the allocator, and leaves them mapped. They are available from
	// then on: Map takes them over where they lie, Stitch moves them, Unspare gives them back to the allocator, and DropSpare
	// gives all to the device.
	Spare(addr, bytes uint64) error
	Unspare(addr, bytes uint64) error
	SpareBytes() uint64
	EachSpare(tell func(addr, bytes uint64)) // by address, what Extend gave last
	DropSpare() error

	// Unmap gives back what it can of a stretch that is mapped throughout and that nobody uses, and tells which part that is:
	// from inclusive, to exclusive, equal if there is none. That part is gone even if there is an error too.
	Unmap(addr, bytes uint64) (from, to uint64, err error)
}

// space is a mapper's range. The zero space holds nothing.
type space struct {
	addr, end uint64
	granule   uint64
}

func mapperOf(sub SubAllocator) (Mapper, space, error) {
	m, ok := sub.(Mapper)
	if !ok {
		return nil, space{granule: chunks.Granularity}, nil
	}
	addr, bytes, granule := m.Range()
	if granule == 0 || granule%chunks.Granularity != 0 || addr%granule != 0 || bytes%granule != 0 || addr+bytes < addr || addr == 0 && bytes > 0 {
		return nil, space{}, status.Errorf(status.InvalidArgument,
			"an allocator cannot use a range of %d bytes at %#x in granules of %d", bytes, addr, granule)
	}
	return m, space{addr: addr, end: addr + bytes, granule: granule}, nil
}

func (s space) holds(addr uint64) bool { return s.addr <= addr && addr < s.end }

func (s space) touches(addr, bytes uint64) bool { return addr < s.end && addr+bytes > s.addr }

// place is where memory could be mapped for a request.
type place struct {
	addr uint64
	need uint64 // bytes to be mapped at least: with free chunks at both ends they serve the request
	room uint64 // bytes that could be mapped
}

// makeRoomLocked is the end of both ladders (doc.go, Stitching), once growth was refused: it moves free memory together for stream s, or gives
// idle memory back and grows again. Afterwards there is a chunk that s may have at once, or all says why not.
func (a *Allocator) makeRoomLocked(bytes uint64, s Stream, refusal error) (all error) {
	done, refusal := a.stitchOrGrowLocked(bytes, s, refusal)
	if done || a.growWithoutFirstGranuleLocked(bytes) {
		return nil
	}
	if !a.collect {
		return refusal
	}
	collected, err := a.collectLocked(bytes)
	if a.atOnceLocked(s, bytes) != chunks.None { // what was waited for is enough
		return nil
	}
	if collected {
		if refusal = a.growAnywayLocked(bytes, s); refusal == nil {
			return nil
		}
	}
	if err != nil { // alone, a refusal stays the value that it is
		refusal = errors.Join(refusal, err)
	}
	return refusal
}

// growWithoutFirstGranuleLocked grows an empty pool that is left with its first granule: what is left of the limit may serve as one
// region, but not as whole granules beside that one.
func (a *Allocator) growWithoutFirstGranuleLocked(bytes uint64) (grown bool) {
	if a.shared || a.index.Count() > 0 || a.mapper == nil || len(a.regions) == 0 {
		return false
	}
	a.spareAllLocked(a.space.addr)
	return a.growAnywayLocked(bytes, a.only) == nil
}

// growLocked gets new memory so that stream s then finds a free chunk that holds bytes.
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

// growAnywayLocked is growLocked, but what is left of the limit may become a region outside of the range though there are whole granules in it,
// which then can't be moved.
func (a *Allocator) growAnywayLocked(bytes uint64, s Stream) (refusal error) {
	if refusal = a.growLocked(bytes, s); refusal == errNoPlace {
		return a.extendLocked(bytes)
	}
	return refusal
}

// Each is one value, since with several streams they are often met and then there is other memory.
var (
	errLimit   = status.Errorf(status.ResourceExhausted, "the limit is reached")
	errNoPlace = status.Errorf(status.ResourceExhausted, "whole granules of what is left of the limit do not serve the request")
)

// mapLocked gets memory at a place. It joins what lies beside it.
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

// moveToLocked is Map where there is spare memory, but not there.
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

// countMovedLocked notes what a Stitch moved.
func (a *Allocator) countMovedLocked(bytes uint64) {
	if bytes > 0 {
		a.stats.Stitches++
		a.stats.StitchedBytes += bytes
	}
}

// placeLocked gives the place where the least has to be mapped to serve bytes on stream s, the lowest of several. ok is false if there is none or the
// limit does not allow it. It goes through all regions of the range; there are many only after many Trims.
func (a *Allocator) placeLocked(bytes uint64, s Stream) (best place, ok bool) {
	if a.mapper == nil {
		return place{}, false
	}
	best.need = a.sub.AvailableBytes()/a.space.granule*a.space.granule + 1
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

// canGrowLocked reports whether the limit allows what a request needs beside what is free already.
func (a *Allocator) canGrowLocked(bytes uint64, s Stream) bool {
	_, ok := a.placeLocked(bytes, s)
	return ok
}

// better gives best, or the hole at addr if that needs less. tail and head are what is free right below and above the hole.
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

// freeBytesLocked is the size of a chunk that is free and that stream s may have at once, else 0.
func (a *Allocator) freeBytesLocked(i uint32, s Stream) uint64 {
	c := &a.chunks.Records[i]
	if c.Free() && (!a.shared || a.tags[i].stream == clean || a.tags[i].stream == s) {
		return c.Bytes
	}
	return 0
}
