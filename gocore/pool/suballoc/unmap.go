// SPDX-License-Identifier: Apache-2.0

package suballoc

import "gpuconf/gocore/base/status"

// Unmap returns to the device the handles that lie wholly within a stretch of the caller's memory, from inclusive,
// to exclusive. The caller no longer owns that part, even if the device then refuses to take some of it back. If the
// device refuses to unmap it, nothing changes.
//
// No device work may use the memory: the device does not wait for it.
func (v *Virtual) Unmap(addr, bytes uint64) (from, to uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, 0, errClosed()
	}
	first, end, err := v.granulesLocked(addr, bytes)
	if first, end = v.wholeLocked(first, end); err != nil || first == end {
		return 0, 0, err
	}
	from, to = v.addrOf(first), v.addrOf(end)
	if err := v.upstream.MemUnmap(from, to-from); err != nil {
		return 0, 0, v.errUnmap(first, end, err)
	}
	return from, to, v.vacateLocked(first, end)
}

// granulesLocked returns the slots that lie wholly within a stretch, which the caller must own.
func (v *Virtual) granulesLocked(addr, bytes uint64) (first, end int, err error) {
	offset := addr - v.addr
	if addr < v.addr || offset > v.rangeBytes || bytes > v.rangeBytes-offset {
		return 0, 0, errNotOwned(addr, bytes)
	}
	first, end = int((offset+v.granule-1)/v.granule), int((offset+bytes)/v.granule)
	for at := first; at < end; at++ {
		if v.slotLocked(at).state != owned {
			return 0, 0, errNotOwned(addr, bytes)
		}
	}
	return first, max(first, end), nil
}

// exactlyLocked returns the slots that make up a stretch exactly, in whole handles. The caller must own it.
func (v *Virtual) exactlyLocked(addr, bytes uint64) (first, end int, err error) {
	if first, end, err = v.granulesLocked(addr, bytes); err == nil {
		first, end = v.wholeLocked(first, end)
	}
	if err == nil && (bytes == 0 || v.addrOf(first) != addr || v.addrOf(end) != addr+bytes) {
		err = errNotOwned(addr, bytes)
	}
	return first, end, err
}

func errNotOwned(addr, bytes uint64) error {
	return status.Errorf(status.InvalidArgument, "the caller does not own all of the %d bytes at %#x", bytes, addr)
}

// Release returns a whole region to the device: one from Extend, or a stretch of whole granules of the range. The
// caller no longer owns it, even if Release fails; bytes that the device refused to take back stay counted.
func (v *Virtual) Release(addr, bytes uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed()
	}
	if v.isRestLocked(addr, bytes) {
		return v.freeRestLocked()
	}
	first, end, err := v.exactlyLocked(addr, bytes)
	if err != nil {
		return err
	}
	if err := v.upstream.MemUnmap(addr, bytes); err != nil {
		for at := first; at < end; at++ {
			v.slots[at].state = parked
		}
		v.refused = true
		return v.errUnmap(first, end, err)
	}
	return v.vacateLocked(first, end)
}
