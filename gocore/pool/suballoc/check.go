// SPDX-License-Identifier: Apache-2.0

package suballoc

import "gpuconf/gocore/base/status"

// Check verifies the invariants of Virtual, except 10 and 11, and returns an Internal error that names the first
// broken one by number.
func (v *Virtual) Check() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	sum, spareBytes, err := v.checkSlotsLocked()
	if err != nil {
		return err
	}
	sum += v.restBytes
	rest := v.restBytes != 0 && !v.restSpare
	if v.restSpare {
		spareBytes += v.restBytes
	}
	for _, s := range v.strays {
		sum += s.bytes
		rest = rest || s.addr != 0
	}
	if v.heldBytes > v.limitBytes {
		return broken(1, "%d bytes are held, the limit is %d", v.heldBytes, v.limitBytes)
	}
	if sum != v.heldBytes || spareBytes != v.spareBytes {
		return broken(6, "granules, rest and strays have %d bytes, %d of them spare; the counters say %d and %d",
			sum, spareBytes, v.heldBytes, v.spareBytes)
	}
	if rest && !v.restSpare && v.availableLocked()%v.granule != 0 {
		return broken(9, "the rest is taken, and %d bytes are left", v.availableLocked())
	}
	return nil
}

// checkSlotsLocked checks invariants 7 and 8 and returns the total size of the granules, and of the spare ones.
func (v *Virtual) checkSlotsLocked() (sum, spareBytes uint64, err error) {
	if bytes := uint64(len(v.slots)) * v.granule; bytes > v.rangeBytes {
		return 0, 0, broken(7, "there are slots for %d bytes, the range has %d", bytes, v.rangeBytes)
	}
	handles := map[uint64]bool{}
	for at, s := range v.slots {
		if s.state == empty {
			if s != (slot{}) {
				return 0, 0, broken(7, "slot %d is empty and holds handle %#x", at, s.handle)
			}
			continue
		}
		if s.before == 0 && handles[s.handle] {
			return 0, 0, broken(8, "handle %#x is mapped twice, once at %#x", s.handle, v.addrOf(at))
		}
		handles[s.handle] = true
		sum += v.granule
		first, end := v.handleAtLocked(at)
		if first < 0 || end > len(v.slots) || at >= end {
			return 0, 0, broken(8, "handle %#x lies in slots %d to %d of %d", s.handle, first, end, len(v.slots))
		}
		if want := (slot{handle: s.handle, before: 0, size: s.size, state: s.state}); v.slots[first] != want {
			return 0, 0, broken(8, "handle %#x lies in slots %d to %d, which differ in state or handle",
				s.handle, first, end)
		}
		if s.state == spare {
			if !v.mayBeSpareLocked(at) {
				return 0, 0, broken(7, "slot %d is spare, and no slot of its group should be", at)
			}
			spareBytes += v.granule
		}
	}
	return sum, spareBytes, nil
}

func broken(invariant int, format string, args ...any) error {
	return status.Errorf(status.Internal, "invariant %d of suballoc is broken: %w", invariant,
		status.Errorf(status.Internal, format, args...))
}
