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

// A mapper's handle of several granules can only be moved or released together, so a block that touches a part of it
// would hold all of it. In single mode, no handle lies partly in a block and partly in free memory: before a block
// takes a part of a handle, the handle is split into granules. It is the price of a large step's few calls, and is paid
// once. What a pool can serve, and where, is therefore the same as if every granule had its own handle.
//
// In shared mode free memory may belong to several streams, and nothing is split.

// neverSplit is the value of uncut while there are no handles of several granules.
const neverSplit = math.MaxUint64

func (a *Allocator) hasLarge() bool { return a.uncut != neverSplit }

// splitLocked splits the handle in free chunk i, if there is one, that reaches across an address. Afterwards chunks and
// regions may have other numbers. The memory is back at its place, or, if the device refuses it, no longer the pool's.
func (a *Allocator) splitLocked(i uint32, addr uint64) (split bool, err error) {
	c := a.chunks.Records[i]
	if !a.hasLarge() || a.shared || !a.space.holds(c.Addr()) {
		return false, nil
	}
	end := c.Addr() + c.Bytes()
	_, low := a.mapper.Whole(c.Addr(), addr)
	high, _ := a.mapper.Whole(addr, end)
	if low >= addr || high <= addr || high-low <= a.space.granule || low < c.Addr() || high > end {
		return false, nil
	}
	if err := a.chunks.RoomFor(4); err != nil {
		return false, err
	}
	if err := a.quietLocked(); err != nil {
		return false, err
	}
	at, found := a.regionAfterLocked(low)
	if !found {
		at--
	}
	if err := a.spareLocked(at, i, low, high); err != nil {
		return false, err
	}
	if _, err := a.mapper.Stitch(low, high-low); err != nil {
		return true, err
	}
	a.arriveLocked(low, high-low, a.only)
	return true, nil
}

// splitForLocked splits the handle that a block at the beginning of free chunk i would end in, and returns the chunk's
// new number, or None if the device has refused its memory. If the handle cannot be split, the block takes a part of
// it.
func (a *Allocator) splitForLocked(i uint32, rounded uint64) uint32 {
	c := a.chunks.Records[i]
	split, err := a.splitLocked(i, c.Addr()+rounded)
	if !split {
		return i
	}
	at, found := a.regionAfterLocked(c.Addr())
	switch {
	case err != nil:
		return chunks.None
	case found:
		return a.regions[at].first
	default:
		return a.chunks.Records[c.Prev].Next
	}
}

// Spare memory is mapped in the mapper's range, or is a region from its Extend, but belongs to no region of the
// allocator: free -> spare. The next Map that reaches it takes it over, or Stitch moves it. In single mode, queued work
// may still touch it; in shared mode it is clean (invariant 19). It counts as reserved (invariants 1 and 11).

// spareLocked makes part of free chunk i spare. The part consists of whole handles.
func (a *Allocator) spareLocked(at int, i uint32, from, to uint64) error {
	if err := a.chunks.RoomFor(2); err != nil {
		return err
	}
	if err := a.mapper.Spare(from, to-from); err != nil {
		return err
	}
	a.cutLocked(at, i, from, to)
	return nil
}

// startAnewLocked makes all memory spare except the first granule, once no block is live and while there is one
// stream. What an empty pool does next then does not depend on anything it did before: a sequence of requests that
// succeeded once succeeds again, and finds memory mapped where it was mapped last time.
//
// The first granule stays because every sequence needs it first: a pool that keeps becoming empty at a small size
// does nothing here.
func (a *Allocator) startAnewLocked() {
	if a.mapper != nil && a.space.addr != a.space.end && !a.firstOnlyLocked() {
		a.spareAllLocked(a.space.addr + a.space.granule)
		a.publishReservedLocked()
	}
}

// spareAllLocked makes all regions of an empty pool spare, except what lies in the range below keep.
func (a *Allocator) spareAllLocked(keep uint64) {
	for at := len(a.regions) - 1; at >= 0; at-- {
		r := a.regions[at]
		from := r.addr
		if a.space.holds(from) {
			from = max(from, keep)
		}
		switch {
		case from >= r.end():
		case a.space.holds(from):
			_ = a.spareLocked(at, r.first, from, r.end()) // memory that cannot be made spare stays
		case a.mapper.Spare(r.addr, r.bytes) == nil:
			a.forgetLocked(at)
		}
	}
}

// spareRestLocked makes a region from Extend spare if no block lies in it and it holds whole granules' worth of
// bytes, which may be needed now.
func (a *Allocator) spareRestLocked() bool {
	for at, r := range a.regions {
		if !a.space.holds(r.addr) && r.bytes >= a.space.granule && a.whollyIdleLocked(r) &&
			a.mapper.Spare(r.addr, r.bytes) == nil {
			a.forgetLocked(at)
			return true
		}
	}
	return false
}

// restFreedLocked reports whether spareRestLocked could succeed after waiting for queued work.
func (a *Allocator) restFreedLocked() bool {
	for _, r := range a.regions {
		if !a.space.holds(r.addr) && r.bytes >= a.space.granule {
			for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
				if !a.freedLocked(i) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// firstOnlyLocked reports whether the pool consists of its first granule only.
func (a *Allocator) firstOnlyLocked() bool {
	return len(a.regions) == 1 && a.regions[0].addr == a.space.addr && a.regions[0].bytes == a.space.granule
}

// takeSpareLocked returns all spare memory to the allocator: spare -> free.
func (a *Allocator) takeSpareLocked() error {
	if a.spareBytesLocked() == 0 {
		return nil
	}
	var runs []part
	a.mapper.EachSpare(func(addr, bytes uint64) { runs = append(runs, part{addr: addr, end: addr + bytes}) })
	for _, r := range runs {
		if err := a.chunks.RoomFor(2); err != nil {
			return err
		}
		if err := a.mapper.Unspare(r.addr, r.end-r.addr); err != nil {
			return err
		}
		a.arriveLocked(r.addr, r.end-r.addr, noStream)
	}
	return nil
}

// spareBytesLocked returns the size of all spare memory.
func (a *Allocator) spareBytesLocked() uint64 {
	if a.mapper == nil || a.closed {
		return 0
	}
	return a.mapper.SpareBytes()
}

// dropSpareLocked returns spare memory to the device.
func (a *Allocator) dropSpareLocked() error {
	if a.spareBytesLocked() == 0 {
		return nil
	}
	return a.mapper.DropSpare()
}

// notePeakLocked raises the peak of reserved bytes, which include spare memory.
func (a *Allocator) notePeakLocked() {
	a.raiseReservedLocked(a.stats.BytesReserved + a.spareBytesLocked())
}

// forgetLocked removes a wholly free region from the accounting.
func (a *Allocator) forgetLocked(at int) {
	r := a.regions[at]
	a.unlistLocked(r.first)
	a.chunks.Recycle(r.first)
	a.chunks.Recycle(r.fence)
	a.stats.BytesReserved -= r.bytes
	a.recordSegmentLocked(false, r.addr, r.bytes)
	a.regions = append(a.regions[:at], a.regions[at+1:]...)
}
