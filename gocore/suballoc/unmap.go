package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// Unmap gives back the pieces that lie wholly within a stretch of the caller's memory, from one address up to another. That part is no
// longer the caller's, even if the device then refused to take some of it back. If the device refuses to unmap it, nothing changes.
//
// No work of the device may use the memory: the device does not wait for that.
func (v *Virtual) Unmap(addr, bytes uint64) (from, to uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, 0, errClosed()
	}
	first, end, err := v.wholeLocked(addr, bytes)
	if err != nil || first == end {
		return 0, 0, err
	}
	from, to = v.addrOf(first), v.addrOf(end)
	if err := v.upstream.MemUnmap(from, to-from); err != nil {
		return 0, 0, status.Errorf(status.Internal, "the device did not unmap %d bytes at %#x: %w", to-from, from, err)
	}
	return from, to, v.vacateAllLocked(first, end)
}

// vacateAllLocked gives back the handles of a stretch of slots that is not mapped any more.
func (v *Virtual) vacateAllLocked(first, end int) (err error) {
	for at := first; at < end; {
		granules := int(max(v.slots[at].granules, 1))
		if v.slots[at].state != empty {
			err = errors.Join(err, v.vacateLocked(at))
		}
		at += granules
	}
	return err
}

// wholeLocked gives the slots of the pieces that lie wholly within a stretch, which must be the caller's throughout.
func (v *Virtual) wholeLocked(addr, bytes uint64) (first, end int, err error) {
	offset := addr - v.addr
	if addr < v.addr || offset > v.rangeBytes || bytes > v.rangeBytes-offset {
		return 0, 0, errNotOwned(addr, bytes)
	}
	first, last := int((offset+v.granule-1)/v.granule), int((offset+bytes)/v.granule)
	for first < last && v.slotLocked(first).state == continuation {
		first++
	}
	for end = first; end < last; {
		s := v.slotLocked(end)
		if s.state != owned {
			return 0, 0, errNotOwned(addr, bytes)
		}
		if end+int(s.granules) > last {
			break
		}
		end += int(s.granules)
	}
	return first, max(first, end), nil
}

func errNotOwned(addr, bytes uint64) error {
	return status.Errorf(status.InvalidArgument, "no memory is held throughout the %d bytes at %#x", bytes, addr)
}

// Release gives back a whole region: what Extend gave, or a stretch of the range from the beginning of a piece to the end of one.
// It is gone whatever the answer; what the device refused to take stays on the books.
func (v *Virtual) Release(addr, bytes uint64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed()
	}
	if v.restBytes != 0 && addr == v.restAddr && bytes == v.restBytes {
		return v.freeRestLocked()
	}
	first, end, err := v.wholeLocked(addr, bytes)
	if err != nil {
		return err
	}
	if bytes == 0 || v.addrOf(first) != addr || v.addrOf(end) != addr+bytes {
		return errNotOwned(addr, bytes)
	}
	if err := v.upstream.MemUnmap(addr, bytes); err != nil {
		for at := first; at < end; at += int(v.slots[at].granules) {
			v.slots[at].state = parked
		}
		return status.Errorf(status.Internal, "the device did not unmap %d bytes at %#x: %w", bytes, addr, err)
	}
	return v.vacateAllLocked(first, end)
}
