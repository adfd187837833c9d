// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"

	"gpuconf/gocore/base/status"
)

// Stitch makes the caller own a stretch of whole granules in the range throughout. Memory that the caller has there
// stays. Missing handles are created, as far as the limit and the device allow; the others are moved there from
// spare memory elsewhere, or made of what spare handles of other sizes held. It returns how much was moved or replaced.
// If it fails, the error is ResourceExhausted and the caller's memory is as it was; memory that was about to be moved
// may have been returned to the device (invariants 10 and 11).
//
// No device work may use spare memory: the device does not wait for it.
func (v *Virtual) Stitch(addr, bytes uint64) (movedBytes uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, errClosed()
	}
	first, end, err := v.stretchLocked(addr, bytes, bytes)
	if err != nil {
		return 0, err
	}
	f := v.fillingLocked(first, end)
	if err := f.clear(); err != nil {
		return 0, f.undo(err)
	}
	replaced := f.looseBytes()
	d := donors{f: f, at: v.spareEnd}
	f.more = func() bool { return d.take(1) > 0 }
	short := int((f.missing - min(f.missing, v.limitBytes-v.heldBytes+f.looseBytes()) + v.granule - 1) / v.granule)
	if d.take(short) < short && v.restSpare {
		d.refusals = errors.Join(d.refusals, v.freeRestLocked())
	}
	if left, loose := v.limitBytes-v.heldBytes, f.looseBytes(); f.missing > left+loose {
		err = status.Errorf(status.ResourceExhausted, "%d bytes are missing at %#x; %d of the limit of %d bytes are "+
			"left and %d could be moved",
			f.missing, addr, left, v.limitBytes, loose)
		return 0, f.undo(errors.Join(err, d.refusals))
	}
	if err = f.run(); err != nil {
		return 0, errors.Join(err, d.refusals)
	}
	return replaced + v.bytesOf(d.taken), nil
}

// donors visits the spare slots outside a filling, highest first, because an allocator uses low addresses next. It
// unmaps adjacent ones in one call.
type donors struct {
	f        *filling
	at       int // slots below this have not been visited
	taken    int
	refusals error
}

// take makes handles of n granules or more loose: spare -> empty. It returns how many granules they have. What the
// device refuses to unmap stays where it is.
func (d *donors) take(n int) (moved int) {
	v := d.f.v
	for moved < n {
		d.skip()
		if d.at == 0 {
			break
		}
		end := d.at
		for d.at > 0 && moved+end-d.at < n && d.donates(d.at-1) {
			d.at, _ = v.handleAtLocked(d.at - 1)
		}
		if err := v.upstream.MemUnmap(v.addrOf(d.at), v.bytesOf(end-d.at)); err != nil {
			d.refusals = errors.Join(d.refusals, v.errUnmap(d.at, end, err))
			continue
		}
		v.emptyLocked(d.at, end, func(l loose) { d.f.loose = append(d.f.loose, l) })
		moved += end - d.at
	}
	d.taken += moved
	return moved
}

// skip goes down to right above the next spare slot. Most slots are not spare.
func (d *donors) skip() {
	at, v := d.at, d.f.v
	for at > 0 && (v.slots[at-1].state != spare || !d.outside(at-1)) {
		at--
		for at%groupSlots == 0 && at > 0 && !v.mayBeSpareLocked(at-1) {
			at -= groupSlots
		}
	}
	d.at = at
}

func (d *donors) donates(at int) bool { return d.f.v.slots[at].state == spare && d.outside(at) }

func (d *donors) outside(at int) bool { return at < d.f.first || at >= d.f.end }
