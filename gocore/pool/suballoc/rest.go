// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"

	"gpuconf/gocore/base/status"
)

// Extend returns what Map cannot supply, when the limit leaves less than a granule beside whole ones: everything that
// is left, as one region outside the range. It refuses requests that whole granules could serve.
func (v *Virtual) Extend(atLeast uint64) (addr, bytes uint64, err error) {
	if atLeast == 0 || atLeast%granularity != 0 {
		return 0, 0, errAskedFor(atLeast)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, 0, errClosed()
	}
	available := v.availableLocked()
	if atLeast > available {
		return 0, 0, errBeyondLimit(atLeast, available, v.limitBytes)
	}
	if (atLeast-1)/v.granule < available/v.granule {
		return 0, 0, status.Errorf(status.ResourceExhausted, "no place for %d bytes is left in the range of %d "+
			"bytes of addresses", atLeast, v.rangeBytes)
	}
	if v.restSpare && v.restBytes == available {
		v.restSpare = false
		v.spareBytes -= available
		return v.restAddr, available, nil
	}
	if v.restSpare || available > v.limitBytes-v.heldBytes {
		return 0, 0, status.Errorf(status.ResourceExhausted, "%d bytes of the limit of %d are spare memory, which "+
			"must be released first", v.spareBytes, v.limitBytes)
	}
	v.heldBytes += available
	if addr, err = v.upstream.MemAlloc(available); err != nil {
		v.heldBytes -= available
		return 0, 0, status.Errorf(status.ResourceExhausted, "the device refused %d bytes: %w", available, err)
	}
	v.restAddr, v.restBytes = addr, available
	if addr == 0 || addr%granularity != 0 {
		return 0, 0,
			errors.Join(status.Errorf(status.Internal, "the device returned memory at the unusable address %#x", addr),
				v.freeRestLocked())
	}
	return addr, available, nil
}

// isRestLocked reports whether a stretch is the rest, and owned by the caller.
func (v *Virtual) isRestLocked(addr, bytes uint64) bool {
	return v.restBytes != 0 && !v.restSpare && addr == v.restAddr && bytes == v.restBytes
}

// freeRestLocked returns the rest to the device: rest -> none.
func (v *Virtual) freeRestLocked() error {
	addr, bytes := v.restAddr, v.restBytes
	if v.restSpare {
		v.spareBytes -= bytes
	}
	v.restAddr, v.restBytes, v.restSpare = 0, 0, false
	return v.memFreeLocked(addr, bytes)
}

// memFreeLocked frees memory from MemAlloc. If the device refuses, it becomes a stray.
func (v *Virtual) memFreeLocked(addr, bytes uint64) error {
	if err := v.upstream.MemFree(addr); err != nil {
		v.strays, v.refused = append(v.strays, stray{addr: addr, bytes: bytes}), true
		return status.Errorf(status.Internal, "the device failed to free %d bytes at %#x: %w", bytes, addr, err)
	}
	v.heldBytes -= bytes
	return nil
}
