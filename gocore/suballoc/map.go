package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// Map puts memory at addr, a granule's beginning in the range: at least atLeast bytes and at most atMost, in whole granules. There must be none
// of the caller's yet; what is spare there is taken over. It fails with ResourceExhausted when the limit or the device does
// not allow that many, and then the caller has what it had.
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
			return 0, status.Errorf(status.InvalidArgument, "there is memory at %#x already", v.addrOf(at))
		}
	}
	missing := uint64(v.emptyLocked(first, end)) * v.granule
	if left := v.limitBytes - v.heldBytes; missing > left {
		return 0, status.Errorf(status.ResourceExhausted,
			"%d bytes are needed, but %d of the limit of %d bytes are left", missing, left, v.limitBytes)
	}
	f := filling{v: v, first: first, end: end}
	return uint64(end-first) * v.granule, f.run()
}

// stretchLocked gives the slots from addr on that have atLeast bytes.
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

// filling makes a stretch of slots the caller's throughout: what is empty gets handles that were taken from elsewhere, or new ones.
type filling struct {
	v          *Virtual
	first, end int
	loose      []uint64    // handles that are mapped nowhere, on the books
	more       func() bool // finds another loose handle, when the device makes no new one; nil: there is none
	made       []int       // slots
}

// run does it, or undoes what it did, last one first, and leaves the caller what it had.
func (f *filling) run() (err error) {
	v := f.v
	v.growSlotsLocked(f.end)
	from, to := f.end, f.first // what is to be made accessible
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

// fill maps a handle: empty -> parked.
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

// createLocked makes a granule, within the limit. It counts before there is any.
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
