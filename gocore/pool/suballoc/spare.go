// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"

	"gpuconf/gocore/base/status"
)

// Spare ends the caller's ownership of a stretch of whole handles, or of the rest, but leaves the memory mapped: the
// next Map that reaches it takes it over, and it counts as available. It does not call the device.
func (v *Virtual) Spare(addr, bytes uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed()
	}
	if v.isRestLocked(addr, bytes) {
		v.restSpare = true
		v.spareBytes += bytes
		return nil
	}
	first, end, err := v.exactlyLocked(addr, bytes)
	if err != nil {
		return err
	}
	if v.spareBytes == 0 {
		clear(v.spareIn)
		v.spareEnd = 0
	}
	if more := len(v.slots)/groupSlots + 1 - len(v.spareIn); more > 0 {
		v.spareIn = append(v.spareIn, make([]bool, more)...)
	}
	for at := first; at < end; at++ {
		v.slots[at].state = spare
		v.spareIn[at/groupSlots] = true
	}
	v.spareBytes += bytes
	v.spareEnd = max(v.spareEnd, end)
	return nil
}

// groupSlots is how many slots a search for spare memory skips at once.
const groupSlots = 64

func (v *Virtual) mayBeSpareLocked(at int) bool {
	group := at / groupSlots
	return group < len(v.spareIn) && v.spareIn[group]
}

// Unspare makes the caller own a stretch that is spare throughout, or the spare rest, again.
func (v *Virtual) Unspare(addr, bytes uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed()
	}
	if v.restSpare && addr == v.restAddr && bytes == v.restBytes {
		v.restSpare = false
		v.spareBytes -= bytes
		return nil
	}
	first, end, err := v.stretchLocked(addr, bytes, bytes)
	if err != nil {
		return err
	}
	for at := first; at < end; at++ {
		if v.slotLocked(at).state != spare {
			return status.Errorf(status.InvalidArgument, "the memory at %#x is not spare", v.addrOf(at))
		}
	}
	if from, to := v.wholeLocked(first, end); from != first || to != end {
		return status.Errorf(status.InvalidArgument, "the %d bytes at %#x are no whole handles", bytes, addr)
	}
	for at := first; at < end; at++ {
		v.slots[at].state = owned
	}
	v.spareBytes -= bytes
	return nil
}

// SpareBytes returns how much memory is spare.
func (v *Virtual) SpareBytes() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.spareBytes
}

// EachSpare calls visit for each stretch of spare memory, by address; a spare rest comes last. The function must not
// call back.
func (v *Virtual) EachSpare(visit func(addr, bytes uint64)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.spareBytes == 0 {
		return
	}
	v.eachSpareLocked(func(first, end int) { visit(v.addrOf(first), uint64(end-first)*v.granule) })
	if v.restSpare {
		visit(v.restAddr, v.restBytes)
	}
}

func (v *Virtual) eachSpareLocked(visit func(first, end int)) {
	for first := 0; first < len(v.slots); first++ {
		if !v.mayBeSpareLocked(first) {
			first |= groupSlots - 1
			continue
		}
		end := first
		for end < len(v.slots) && v.slots[end].state == spare {
			end++
		}
		if end > first {
			visit(first, end)
			first = end
		}
	}
}

// DropSpare returns spare memory to the device. What the device refuses to unmap stays spare. No device work may use
// spare memory.
func (v *Virtual) DropSpare() (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed()
	}
	if v.spareBytes == 0 {
		return nil
	}
	v.eachSpareLocked(func(first, end int) { err = errors.Join(err, v.unmapRunLocked(first, end)) })
	if v.restSpare {
		err = errors.Join(err, v.freeRestLocked())
	}
	return err
}

// unmapRunLocked unmaps adjacent slots and returns their handles.
func (v *Virtual) unmapRunLocked(first, end int) error {
	if err := v.upstream.MemUnmap(v.addrOf(first), uint64(end-first)*v.granule); err != nil {
		return v.errUnmap(first, end, err)
	}
	return v.vacateLocked(first, end)
}
