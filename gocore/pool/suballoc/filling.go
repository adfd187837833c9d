// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"
	"slices"

	"gpuconf/gocore/base/status"
)

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
