package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// Spare makes a stretch of whole granules, or what Extend gave, nobody's, though it stays mapped: the caller's no longer, it is there for
// the next Map that reaches it, and counts as available. It asks nothing of the device.
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
	for at := first; at < end; at++ {
		v.slots[at].state = spare
	}
	v.spareBytes += bytes
	return nil
}

// Unspare makes a stretch that is spare throughout, or the rest, the caller's again.
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
	for at := first; at < end; at++ {
		v.slots[at].state = owned
	}
	v.spareBytes -= bytes
	return nil
}

// SpareBytes is how much is spare.
func (v *Virtual) SpareBytes() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.spareBytes
}

// EachSpare tells where what is spare lies, by address, as far as one stretch of it goes; what Extend gave comes last. The function
// must not call back.
func (v *Virtual) EachSpare(tell func(addr, bytes uint64)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.spareBytes == 0 {
		return
	}
	v.eachSpareLocked(func(first, end int) { tell(v.addrOf(first), uint64(end-first)*v.granule) })
	if v.restSpare {
		tell(v.restAddr, v.restBytes)
	}
}

func (v *Virtual) eachSpareLocked(tell func(first, end int)) {
	for first := 0; first < len(v.slots); first++ {
		end := first
		for end < len(v.slots) && v.slots[end].state == spare {
			end++
		}
		if end > first {
			tell(first, end)
			first = end
		}
	}
}

// DropSpare gives what is spare back to the device. What that refuses to unmap stays spare. No work of the device may use it.
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

// unmapRunLocked takes away slots that lie side by side.
func (v *Virtual) unmapRunLocked(first, end int) error {
	if err := v.upstream.MemUnmap(v.addrOf(first), uint64(end-first)*v.granule); err != nil {
		return v.errUnmap(first, end, err)
	}
	return v.vacateLocked(first, end)
}
