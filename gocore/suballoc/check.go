package suballoc

import "gpuconf/gocore/status"

// Check walks the invariants of Virtual and gives an Internal error that names the first broken one by number.
func (v *Virtual) Check() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	sum, err := v.checkSlotsLocked()
	if err != nil {
		return err
	}
	sum += v.restBytes
	rest := v.restBytes != 0
	for _, s := range v.strays {
		sum += s.bytes
		rest = rest || s.addr != 0
	}
	if v.heldBytes > v.limitBytes {
		return broken(1, "%d bytes are held, the limit is %d", v.heldBytes, v.limitBytes)
	}
	if sum != v.heldBytes {
		return broken(6, "pieces, rest and strays have %d bytes, the books say %d", sum, v.heldBytes)
	}
	if rest && v.availableLocked()%v.granule != 0 {
		return broken(9, "the rest is taken, and %d bytes are left", v.availableLocked())
	}
	return nil
}

// checkSlotsLocked checks invariants 7 and 8 and gives the sum of the pieces.
func (v *Virtual) checkSlotsLocked() (sum uint64, err error) {
	handles := map[uint64]bool{}
	for at := 0; at < len(v.slots); {
		p := v.slots[at]
		if p.state == empty {
			at++
			continue
		}
		end := at + int(p.granules)
		if p.state == continuation || p.granules == 0 || end > len(v.slots) || uint64(end)*v.granule > v.rangeBytes {
			return 0, broken(7, "slot %d of %d holds %+v", at, len(v.slots), p)
		}
		for i := at + 1; i < end; i++ {
			if v.slots[i] != (piece{state: continuation}) {
				return 0, broken(7, "slot %d belongs to the piece in %d and holds %+v", i, at, v.slots[i])
			}
		}
		if handles[p.handle] {
			return 0, broken(8, "handle %#x is mapped twice, once at %#x", p.handle, v.addrOf(at))
		}
		handles[p.handle] = true
		sum += uint64(p.granules) * v.granule
		at = end
	}
	return sum, nil
}

func broken(invariant int, format string, args ...any) error {
	return status.Errorf(status.Internal, "invariant %d of suballoc is broken: %w", invariant,
		status.Errorf(status.Internal, format, args...))
}
