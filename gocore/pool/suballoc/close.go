// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"

	"gpuconf/gocore/base/status"
)

// stray is memory that the device did not take back: a handle that is no longer mapped, or an address from MemAlloc.
type stray struct {
	handle uint64
	addr   uint64 // 0: it is a handle
	bytes  uint64
}

// Close returns everything to the device, including memory that the caller still owns. Later calls fail with
// FailedPrecondition, except another Close, which retries what the device refused.
func (v *Virtual) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	err := errors.Join(v.releaseStraysLocked(), v.unmapAllLocked())
	if v.restBytes != 0 {
		err = errors.Join(err, v.freeRestLocked())
	}
	return errors.Join(err, v.unreserveLocked())
}

// reclaimLocked retries what the device refused: unmapping, and taking memory back.
func (v *Virtual) reclaimLocked() {
	if !v.refused || v.closed {
		return
	}
	v.refused = false
	_ = v.releaseStraysLocked() // what is refused again stays a stray
	for at := 0; at < len(v.slots); {
		_, end := v.handleAtLocked(at)
		if v.slots[at].state == parked {
			_ = v.unmapLocked(at)
		}
		at = end
	}
}

// unmapAllLocked unmaps all granules, adjacent ones in one call.
func (v *Virtual) unmapAllLocked() (err error) {
	for first := 0; first < len(v.slots); first++ {
		end := first
		for end < len(v.slots) && v.slots[end].state != empty {
			end++
		}
		if end == first {
			continue
		}
		err = errors.Join(err, v.unmapRunLocked(first, end))
		first = end
	}
	return err
}

// releaseStraysLocked retries returning what the device refused to take back.
func (v *Virtual) releaseStraysLocked() (err error) {
	strays := v.strays
	v.strays = nil
	for _, s := range strays {
		if s.addr == 0 {
			err = errors.Join(err, v.releaseHandleLocked(loose{s.handle, int(s.bytes / v.granule)}))
			continue
		}
		err = errors.Join(err, v.memFreeLocked(s.addr, s.bytes))
	}
	return err
}

// unreserveLocked frees the range, unless something is still mapped there.
func (v *Virtual) unreserveLocked() error {
	for _, s := range v.slots {
		if s.state != empty {
			return nil // already reported
		}
	}
	v.slots, v.spareIn = nil, nil
	if !v.reserved {
		return nil
	}
	if err := v.upstream.MemAddressFree(v.addr, v.rangeBytes); err != nil {
		return status.Errorf(status.Internal, "the device failed to free the %d bytes of addresses at %#x: %w",
			v.rangeBytes, v.addr, err)
	}
	v.reserved = false
	return nil
}
