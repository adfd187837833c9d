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
