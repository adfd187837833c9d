package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// slot is one granule of the range: empty, or a handle that is mapped there.
type slot struct {
	handle uint64
	state  slotState
}

type slotState uint8

const (
	empty  slotState = iota
	owned            // the caller has it
	spare            // mapped and accessible, and nobody's: Map takes it over, Stitch moves it
	parked           // mapped, and nobody's: the device refused to unmap it
)

// slotLocked gives what is in a slot.
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

// emptyLocked counts the empty slots of a stretch.
func (v *Virtual) emptyLocked(first, end int) (n int) {
	for at := first; at < end; at++ {
		if v.slotLocked(at).state == empty {
			n++
		}
	}
	return n
}

// mapLocked puts a handle into an empty slot: empty -> parked. If that fails the handle goes back to the device.
func (v *Virtual) mapLocked(at int, handle uint64) error {
	if err := v.upstream.MemMap(v.addrOf(at), v.granule, handle); err != nil {
		return errors.Join(err, v.releaseHandleLocked(handle))
	}
	v.slots[at] = slot{handle: handle, state: parked}
	return nil
}

// unmapLocked takes one granule away: parked -> empty. If the device refuses to unmap it, it stays parked.
func (v *Virtual) unmapLocked(at int) error {
	if err := v.upstream.MemUnmap(v.addrOf(at), v.granule); err != nil {
		v.refused = true
		return v.errUnmap(at, at+1, err)
	}
	return v.vacateLocked(at, at+1)
}

func (v *Virtual) errUnmap(first, end int, err error) error {
	return status.Errorf(status.Internal, "the device did not unmap %d bytes at %#x: %w", uint64(end-first)*v.granule, v.addrOf(first), err)
}

// vacateLocked gives back the handles of slots that are not mapped any more.
func (v *Virtual) vacateLocked(first, end int) (err error) {
	for at := first; at < end; at++ {
		s := v.slots[at]
		v.slots[at] = slot{}
		if s.state == spare {
			v.spareBytes -= v.granule
		}
		if s.state != empty {
			err = errors.Join(err, v.releaseHandleLocked(s.handle))
		}
	}
	return err
}

// releaseHandleLocked gives a granule's handle back. If the device refuses, it is a stray, whose bytes stay on the books.
func (v *Virtual) releaseHandleLocked(handle uint64) error {
	if err := v.upstream.MemRelease(handle); err != nil {
		v.strays, v.refused = append(v.strays, stray{handle: handle, bytes: v.granule}), true
		return status.Errorf(status.Internal, "the device did not take back %d bytes: %w", v.granule, err)
	}
	v.heldBytes -= v.granule
	return nil
}
