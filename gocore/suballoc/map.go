// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// Map maps memory at addr, which is the beginning of a granule in the range: at least atLeast and at most atMost
// bytes, in whole granules. The caller must own no memory there yet; spare memory there is taken over. If the limit
// or the device does not allow it, Map fails with ResourceExhausted and leaves the caller's memory as it was
// (invariant 10).
func (v *Virtual) Map(addr, atLeast, atMost uint64) (bytes uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, errClosed()
	}
	first, end, err := v.stretchLocked(addr, atLeast, atMost)
	if err != nil {
		return 0, err
	}
	for at := first; at < end; at++ {
		if v.slotLocked(at).state == owned {
			return 0, status.Errorf(status.InvalidArgument, "memory is already mapped at %#x", v.addrOf(at))
		}
	}
	missing := uint64(v.emptyLocked(first, end)) * v.granule
	if left := v.limitBytes - v.heldBytes; missing > left {
		return 0, status.Errorf(status.ResourceExhausted,
			"%d bytes are needed, but only %d of the limit of %d bytes are left", missing, left, v.limitBytes)
	}
	f := v.fillingLocked(first, end)
	return uint64(end-first) * v.granule, f.run()
}

// stretchLocked returns the slots from addr on that hold atLeast bytes.
func (v *Virtual) stretchLocked(addr, atLeast, atMost uint64) (first, end int, err error) {
	offset := addr - v.addr
	room := uint64(0)
	if v.granule > 0 {
		room = min(atMost, v.rangeBytes-min(offset, v.rangeBytes)) / v.granule
	}
	want := atLeast / v.granule
	if atLeast%v.granule != 0 {
		want++
	}
	if addr < v.addr || offset%v.granule != 0 || want == 0 || want > room {
		return 0, 0, status.Errorf(status.InvalidArgument,
			"%d to %d bytes at %#x do not fit into the range of %d bytes at %#x", atLeast, atMost, addr, v.rangeBytes, v.addr)
	}
	first = int(offset / v.granule)
	return first, first + int(want), nil
}

// filling makes the caller own a stretch of slots throughout. Empty slots get handles taken from elsewhere, or new
// ones.
type filling struct {
	v          *Virtual
	first, end int
	loose      []uint64    // handles that are mapped nowhere, but counted in heldBytes
	more       func() bool // makes another handle loose when the device creates no new one; nil: not possible
	made       []int       // slots that were filled
}

// fillingLocked begins a filling. There is one at a time, which reuses the lists of the one before it.
func (v *Virtual) fillingLocked(first, end int) *filling {
	f := &v.filling
	*f = filling{v: v, first: first, end: end, loose: f.loose[:0], made: f.made[:0]}
	return f
}

// run fills the stretch. If a step fails, it undoes its steps, last one first, and leaves the caller's memory as it was (invariant 10).
func (f *filling) run() (err error) {
	v := f.v
	v.growSlotsLocked(f.end)
	from, to := f.end, f.first // slots to be made accessible
	for at := f.first; at < f.end && err == nil; at++ {
		if v.slots[at].state == empty {
			err = f.fill(at)
		}
		if v.slots[at].state == parked {
			from, to = min(from, at), at+1
		}
	}
	if err == nil && from < to {
		err = v.upstream.MemSetAccess(v.addrOf(from), uint64(to-from)*v.granule)
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
	return nil
}

// fill maps a handle into a slot: empty -> parked.
func (f *filling) fill(at int) error {
	v := f.v
	if len(f.loose) == 0 {
		handle, err := v.createLocked()
		if err != nil && (f.more == nil || !f.more()) {
			return err
		}
		if err == nil {
			f.loose = append(f.loose, handle)
		}
	}
	handle := f.loose[len(f.loose)-1]
	f.loose = f.loose[:len(f.loose)-1]
	if err := v.mapLocked(at, handle); err != nil {
		return err
	}
	f.made = append(f.made, at)
	return nil
}

// createLocked creates a granule within the limit. It counts the bytes before it calls the device (invariant 1).
func (v *Virtual) createLocked() (handle uint64, err error) {
	if v.granule > v.limitBytes-v.heldBytes {
		return 0, status.Errorf(status.ResourceExhausted, "the limit of %d bytes is reached", v.limitBytes)
	}
	v.heldBytes += v.granule
	if handle, err = v.upstream.MemCreate(v.granule); err != nil {
		v.heldBytes -= v.granule
	}
	return handle, err
}

func (f *filling) undo(err error) error {
	v := f.v
	err = status.Errorf(status.ResourceExhausted, "the device refused memory for %d bytes at %#x: %w",
		uint64(f.end-f.first)*v.granule, v.addrOf(f.first), err)
	for i := len(f.made) - 1; i >= 0; i-- {
		err = errors.Join(err, v.unmapLocked(f.made[i]))
	}
	for _, handle := range f.loose {
		err = errors.Join(err, v.releaseHandleLocked(handle))
	}
	return err
}
