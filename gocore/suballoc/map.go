package suballoc

import (
	"errors"

	"gpuconf/gocore/status"
)

// Map puts memory at addr, a granule's beginning in the range: at least atLeast bytes and at most atMost, in whole granules. There must be none
// of the caller's yet. It fails with ResourceExhausted when the limit or the device does not allow that many, and then
// everything is as before.
func (v *Virtual) Map(addr, atLeast, atMost uint64) (bytes uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, errClosed()
	}
	plan, err := v.planLocked(addr, atLeast, atMost)
	if err != nil {
		return 0, err
	}
	if available := v.limitBytes - v.heldBytes; plan.newBytes > available {
		return 0, status.Errorf(status.ResourceExhausted,
			"%d bytes are needed, but %d of the limit of %d bytes are left", plan.newBytes, available, v.limitBytes)
	}
	v.heldBytes += plan.newBytes // before any is created; fillLocked takes off what it then fails to get
	if err := v.fillLocked(plan); err != nil {
		return 0, err
	}
	for at := plan.first; at < plan.end; at++ {
		if v.slots[at].state == parked {
			v.slots[at].state = owned
		}
	}
	return uint64(plan.end-plan.first) * v.granule, nil
}

// plan is a stretch of slots to be mapped. Pieces that are parked there stay where they are.
type plan struct {
	first, end int // slots
	newBytes   uint64
}

// planLocked finds how far a mapping has to go so that it ends with a piece.
func (v *Virtual) planLocked(addr, atLeast, atMost uint64) (plan, error) {
	offset := addr - v.addr
	room := min(atMost, v.rangeBytes-min(offset, v.rangeBytes)) / v.granule
	want := atLeast / v.granule
	if atLeast%v.granule != 0 {
		want++
	}
	if addr < v.addr || offset%v.granule != 0 || want == 0 || want > room {
		return plan{}, status.Errorf(status.InvalidArgument,
			"%d to %d bytes at %#x do not fit into the range of %d bytes at %#x", atLeast, atMost, addr, v.rangeBytes, v.addr)
	}
	p := plan{first: int(offset / v.granule)}
	p.end = p.first
	for most := p.first + int(room); p.end < p.first+int(want); {
		s := v.slotLocked(p.end)
		switch {
		case s.state == empty:
			p.end++
			p.newBytes += v.granule
		case s.state == parked && p.end+int(s.granules) <= most:
			p.end += int(s.granules)
		default:
			return plan{}, status.Errorf(status.InvalidArgument, "there is memory at %#x already", v.addrOf(p.end))
		}
	}
	return p, nil
}

// slotLocked gives what is in a slot.
func (v *Virtual) slotLocked(at int) piece {
	if at >= len(v.slots) {
		return piece{}
	}
	return v.slots[at]
}

func (v *Virtual) addrOf(slot int) uint64 { return v.addr + uint64(slot)*v.granule }

// fillLocked maps new pieces where there are none and makes the whole stretch accessible. Should a step fail, the steps
// before it are undone, last one first.
func (v *Virtual) fillLocked(p plan) (err error) {
	v.growSlotsLocked(p.end)
	var made []int // slots
	owed := p.newBytes
	for at := p.first; at < p.end && err == nil; {
		granules := v.slots[at].granules
		if v.slots[at].state == empty {
			granules = v.pieceLocked(at, p.end)
			if err = v.mapPieceLocked(at, granules); err == nil {
				made = append(made, at)
			}
			owed -= uint64(granules) * v.granule
		}
		at += int(granules)
	}
	if err == nil {
		err = v.upstream.MemSetAccess(v.addrOf(p.first), uint64(p.end-p.first)*v.granule)
	}
	if err == nil {
		return nil
	}
	v.heldBytes -= owed // was not even tried
	err = status.Errorf(status.ResourceExhausted, "the device refused %d bytes: %w", p.newBytes, err)
	for i := len(made) - 1; i >= 0; i-- {
		err = errors.Join(err, v.unmapPieceLocked(made[i]))
	}
	return err
}

func (v *Virtual) growSlotsLocked(length int) {
	if more := length - len(v.slots); more > 0 {
		v.slots = append(v.slots, make([]piece, more)...)
	}
}
