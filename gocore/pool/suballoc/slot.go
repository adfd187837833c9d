// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"

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
