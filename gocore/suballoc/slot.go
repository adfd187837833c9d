// SPDX-License-Identifier: Apache-2.0

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

// emptyLocked counts the empty slots of a stretch.
func (v *Virtual) emptyLocked(first, end int) (n int) {
	for at := first; at < end; at++ {
		if v.slotLocked(at).state == empty {
			n++
		}
	}
	return n
}

// mapLocked maps a handle into an empty slot: empty -> parked. If that fails, the handle is returned to the device.
func (v *Virtual) mapLocked(at int, handle uint64) error {
	if err := v.upstream.MemMap(v.addrOf(at), v.granule, handle); err != nil {
		return errors.Join(err, v.releaseHandleLocked(handle))
	}
	v.slots[at] = slot{handle: handle, state: parked}
	return nil
}

// unmapLocked unmaps one granule: parked -> empty. If the device refuses, the granule stays parked.
func (v *Virtual) unmapLocked(at int) error {
	if err := v.upstream.MemUnmap(v.addrOf(at), v.granule); err != nil {
		v.refused = true
		return v.errUnmap(at, at+1, err)
	}
	return v.vacateLocked(at, at+1)
}

func (v *Virtual) errUnmap(first, end int, err error) error {
	return status.Errorf(status.Internal, "the device failed to unmap %d bytes at %#x: %w", uint64(end-first)*v.granule, v.addrOf(first), err)
}

// vacateLocked empties slots that are no longer mapped, and returns their handles to the device.
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

// releaseHandleLocked returns a granule's handle to the device. If the device refuses, the handle becomes a stray,
// whose bytes stay counted (invariant 6).
func (v *Virtual) releaseHandleLocked(handle uint64) error {
	if err := v.upstream.MemRelease(handle); err != nil {
		v.strays, v.refused = append(v.strays, stray{handle: handle, bytes: v.granule}), true
		return status.Errorf(status.Internal, "the device failed to release %d bytes: %w", v.granule, err)
	}
	v.heldBytes -= v.granule
	return nil
}
