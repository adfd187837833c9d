// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"
	"slices"

	"gpuconf/gocore/base/status"
)

// slot is one granule of the range: empty, or a part of a handle that is mapped there.
type slot struct {
	handle uint64
	before uint32 // granules of the handle below this one
	size   uint32 // granules of the handle; 0 if the slot is empty
	state  slotState
}

type slotState uint8

const (
	empty  slotState = iota
	owned            // the caller owns it
	spare            // mapped and accessible, without an owner: Map takes it over, Stitch moves it
	parked           // mapped, without an owner: not yet accessible, or the device refused to unmap it
)

// slotLocked returns the contents of a slot.
func (v *Virtual) slotLocked(at int) slot {
	if at >= len(v.slots) {
		return slot{}
	}
	return v.slots[at]
}

func (v *Virtual) addrOf(at int) uint64 { return v.addr + uint64(at)*v.granule }

func (v *Virtual) growSlotsLocked(length int) {
	if more := length - len(v.slots); more > 0 {
		v.slots = append(v.slots, make([]slot, more)...)
	}
}

// handleAtLocked returns the slots of the handle that is mapped at a slot, or the slot itself if it is empty.
func (v *Virtual) handleAtLocked(at int) (first, end int) {
	s := v.slotLocked(at)
	if s.state == empty {
		return at, at + 1
	}
	first = at - int(s.before)
	return first, first + int(s.size)
}

// mapLocked maps a handle into empty slots: empty -> parked. If that fails, the handle is returned to the device.
func (v *Virtual) mapLocked(first, end int, handle uint64) error {
	bytes := v.bytesOf(end - first)
	if err := v.upstream.MemMap(v.addrOf(first), bytes, handle); err != nil {
		return errors.Join(err, v.releaseHandleLocked(loose{handle, end - first}))
	}
	for at := first; at < end; at++ {
		v.slots[at] = slot{handle: handle, before: uint32(at - first), size: uint32(end - first), state: parked}
	}
	return nil
}

func (v *Virtual) bytesOf(granules int) uint64 { return uint64(granules) * v.granule }

// unmapLocked unmaps the handle that begins at a slot: parked -> empty. If the device refuses, it stays parked.
func (v *Virtual) unmapLocked(first int) error {
	_, end := v.handleAtLocked(first)
	if err := v.upstream.MemUnmap(v.addrOf(first), v.bytesOf(end-first)); err != nil {
		v.refused = true
		return v.errUnmap(first, end, err)
	}
	return v.vacateLocked(first, end)
}

func (v *Virtual) errUnmap(first, end int, err error) error {
	return status.Errorf(status.Internal, "the device failed to unmap %d bytes at %#x: %w", v.bytesOf(end-first),
		v.addrOf(first), err)
}

// vacateLocked empties the slots of whole handles that are no longer mapped, and returns the handles to the device.
func (v *Virtual) vacateLocked(first, end int) (err error) {
	v.emptyLocked(first, end, func(l loose) { err = errors.Join(err, v.releaseHandleLocked(l)) })
	return err
}

// emptyLocked empties the slots of whole handles that are no longer mapped. give gets the handles, by address.
func (v *Virtual) emptyLocked(first, end int, give func(loose)) {
	for at := first; at < end; {
		s := v.slots[at]
		if s.state == empty {
			at++
			continue
		}
		if s.state == spare {
			v.spareBytes -= v.bytesOf(int(s.size))
		}
		clear(v.slots[at : at+int(s.size)])
		give(loose{s.handle, int(s.size)})
		at += int(s.size)
	}
}

// releaseHandleLocked returns a handle to the device. If the device refuses, the handle becomes a stray, whose bytes
// stay counted (invariant 6).
func (v *Virtual) releaseHandleLocked(l loose) error {
	bytes := v.bytesOf(l.granules)
	if err := v.upstream.MemRelease(l.handle); err != nil {
		v.strays, v.refused = append(v.strays, stray{handle: l.handle, bytes: bytes}), true
		return status.Errorf(status.Internal, "the device failed to release %d bytes: %w", bytes, err)
	}
	v.heldBytes -= bytes
	return nil
}

// A handle is mapped as a whole, and mapping costs per handle, so large steps take large handles. But a block that
// touches a handle prevents it from being moved. So the last granule of a step, in which a block may end, has its own
// handle, and the allocator replaces a large handle by granules before a block takes a part of it: it makes it spare
// and calls Stitch. The first granule of the range has its own handle too, because an empty pool keeps it.
const (
	usualHandleBytes = 64 << 20  // of a large step
	usualStepBytes   = 512 << 20 // the least large step
)

// loose is a handle that is mapped nowhere, but counted in heldBytes.
type loose struct {
	handle   uint64
	granules int
}

// cut returns where the handle ends that begins at a slot of a hole. Large handles end at multiples of their size, so
// that later stretches there have most edges in common.
func (v *Virtual) cut(at, hole, end int) int {
	if !v.large(hole, end) || at == 0 || at == end-1 {
		return at + 1
	}
	return min(end-1, (at/v.handleGranules+1)*v.handleGranules)
}

// Whole returns the part of a stretch of the range that consists of whole handles; from is to if there is none. The
// stretch is mapped throughout.
func (v *Virtual) Whole(addr, end uint64) (from, to uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if addr < v.addr || end > v.addr+v.rangeBytes || addr >= end {
		return addr, addr
	}
	first, last := v.wholeLocked(int((addr-v.addr+v.granule-1)/v.granule), int((end-v.addr)/v.granule))
	return v.addrOf(first), v.addrOf(last)
}

// wholeLocked leaves out of a stretch of slots the handles at its ends that lie in it only in part.
func (v *Virtual) wholeLocked(first, end int) (from, to int) {
	if first >= end {
		return first, first
	}
	if low, high := v.handleAtLocked(first); low < first {
		first = high
	}
	if low, high := v.handleAtLocked(end - 1); high > end {
		end = low
	}
	return first, max(first, end)
}

// large reports whether a hole gets large handles. It may begin behind the first granule, which an empty pool keeps:
// the same request then gets the same handles.
func (v *Virtual) large(hole, end int) bool {
	if hole == 1 {
		hole = 0
	}
	return end-hole >= v.stepGranules
}

// LargeBytes returns the least size of a stretch that gets large handles.
func (v *Virtual) LargeBytes() uint64 { return v.bytesOf(v.stepGranules - 1) }

// filling makes the caller own a stretch of slots throughout. Its pieces get handles taken from elsewhere, or new
// ones.
type filling struct {
	v          *Virtual
	first, end int
	pieces     []piece     // where handles are missing, by address
	missing    uint64      // their bytes
	loose      []loose     // to be mapped
	more       func() bool // makes another handle loose when the device creates no new one; nil: not possible
	made       []int       // the first slots of the pieces that were filled
}

// piece is the slots of one handle.
type piece struct{ first, end int }

// fillingLocked begins a filling. There is one at a time, which reuses the lists of the one before it.
func (v *Virtual) fillingLocked(first, end int) *filling {
	f := &v.filling
	*f = filling{v: v, first: first, end: end, loose: f.loose[:0], made: f.made[:0], pieces: f.pieces[:0]}
	for at := first; at < end; at++ {
		hole := at
		for at < end && v.slotLocked(at).state != owned {
			at++
		}
		f.cut(hole, at)
	}
	return f
}

// cut divides into pieces what is missing in a hole. Handles that lie in it stay.
func (f *filling) cut(hole, end int) {
	v := f.v
	for at := hole; at < end; {
		run := at
		for at < end && (v.slotLocked(at).state == empty || v.crossesLocked(at, hole, end)) {
			at++
		}
		for run < at {
			p := piece{run, min(at, v.cut(run, hole, end))}
			f.pieces, f.missing = append(f.pieces, p), f.missing+v.bytesOf(p.end-p.first)
			run = p.end
		}
		for at < end && v.slotLocked(at).state != empty && !v.crossesLocked(at, hole, end) {
			at++
		}
	}
}

// crossesLocked reports whether the handle at a slot of a hole has to be replaced: a large one, where the hole has only
// a part of it or would not get large ones.
func (v *Virtual) crossesLocked(at, hole, end int) bool {
	first, above := v.handleAtLocked(at)
	return above-first > 1 && (first < hole || above > end || !v.large(hole, end))
}

// eachCrossed calls visit for each handle that has to be replaced. visit may empty its slots.
func (f *filling) eachCrossed(visit func(piece) error) (err error) {
	v, above := f.v, 0
	for _, p := range f.pieces {
		for at := max(p.first, above); at < p.end && err == nil; at = above {
			var first int
			if first, above = v.handleAtLocked(at); v.slotLocked(at).state != empty {
				err = visit(piece{first, above})
			}
		}
	}
	return err
}

// run fills the stretch. If a step fails, it undoes its steps, last one first, and leaves the caller's memory as it was
// (invariant 10).
func (f *filling) run() (err error) {
	v := f.v
	v.growSlotsLocked(f.end)
	err = f.clear()
	for _, p := range f.pieces {
		if err == nil {
			err = f.fill(p)
		}
	}
	if err == nil {
		err = f.open()
	}
	if err != nil {
		return f.undo(err)
	}
	for at := f.first; at < f.end; at++ {
		if v.slots[at].state == spare {
			v.spareBytes -= v.granule
		}
		v.slots[at].state = owned
	}
	for f.giveBack() { // handles of another size
	}
	return nil
}

// open makes accessible what is parked.
func (f *filling) open() error {
	v, from, to := f.v, f.end, f.first
	for at := f.first; at < f.end; at++ {
		if v.slots[at].state == parked {
			from, to = min(from, at), at+1
		}
	}
	if from >= to {
		return nil
	}
	return v.upstream.MemSetAccess(v.addrOf(from), v.bytesOf(to-from))
}

// clear makes the handles loose that have to be replaced.
func (f *filling) clear() error {
	return f.eachCrossed(func(p piece) error {
		if err := f.v.upstream.MemUnmap(f.v.addrOf(p.first), f.v.bytesOf(p.end-p.first)); err != nil {
			return f.v.errUnmap(p.first, p.end, err)
		}
		f.v.emptyLocked(p.first, p.end, func(l loose) { f.loose = append(f.loose, l) })
		return nil
	})
}

// fill maps a handle where a piece is: empty -> parked.
func (f *filling) fill(p piece) error {
	handle, err := f.take(p.end - p.first)
	if err != nil {
		return err
	}
	if err := f.v.mapLocked(p.first, p.end, handle); err != nil {
		return err
	}
	f.made = append(f.made, p.first)
	return nil
}

// take returns a handle of a size: a loose one, or a new one. If necessary it releases loose ones of other sizes for
// it.
func (f *filling) take(granules int) (handle uint64, err error) {
	for {
		for i, l := range slices.Backward(f.loose) {
			if l.granules == granules {
				f.loose = slices.Delete(f.loose, i, i+1)
				return l.handle, nil
			}
		}
		handle, err := f.v.createLocked(granules)
		if err == nil {
			return handle, nil
		}
		if !f.giveBack() && (f.more == nil || !f.more()) {
			return 0, err
		}
	}
}

// giveBack releases a loose handle. If the device refuses, it is a stray.
func (f *filling) giveBack() bool {
	last := len(f.loose) - 1
	if last < 0 {
		return false
	}
	l := f.loose[last]
	f.loose = f.loose[:last]
	_ = f.v.releaseHandleLocked(l)
	return true
}

// looseBytes returns the size of all loose handles.
func (f *filling) looseBytes() (bytes uint64) {
	for _, l := range f.loose {
		bytes += f.v.bytesOf(l.granules)
	}
	return bytes
}

// createLocked creates a handle within the limit. It counts the bytes before it calls the device (invariant 1).
func (v *Virtual) createLocked(granules int) (handle uint64, err error) {
	bytes := v.bytesOf(granules)
	if bytes > v.limitBytes-v.heldBytes {
		return 0, status.Errorf(status.ResourceExhausted, "the limit of %d bytes is reached", v.limitBytes)
	}
	v.heldBytes += bytes
	if handle, err = v.upstream.MemCreate(bytes); err != nil {
		v.heldBytes -= bytes
	}
	return handle, err
}

func (f *filling) undo(err error) error {
	v := f.v
	err = status.Errorf(status.ResourceExhausted, "the device refused memory for %d bytes at %#x: %w",
		v.bytesOf(f.end-f.first), v.addrOf(f.first), err)
	for i := len(f.made) - 1; i >= 0; i-- {
		err = errors.Join(err, v.unmapLocked(f.made[i]))
	}
	for _, l := range f.loose {
		err = errors.Join(err, v.releaseHandleLocked(l))
	}
	return err
}
