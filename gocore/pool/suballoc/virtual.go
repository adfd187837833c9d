// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"errors"
	"sync"

	"gpuconf/gocore/base/status"
)

// VirtualUpstream is a device with virtual memory management: it reserves addresses and creates physical memory
// separately. Methods are named after the CUDA driver's calls. MemAlloc and MemFree serve what is less than a
// granule.
type VirtualUpstream interface {
	Upstream

	// MemGetAllocationGranularity returns the unit of physical memory and mappings: a multiple of 256.
	MemGetAllocationGranularity() (bytes uint64, err error)

	// MemAddressReserve reserves a range of addresses without memory.
	MemAddressReserve(bytes, alignment uint64) (addr uint64, err error)
	MemAddressFree(addr, bytes uint64) error

	// MemCreate allocates physical memory. MemRelease releases the handle; the memory stays while it is mapped.
	MemCreate(bytes uint64) (handle uint64, err error)
	MemRelease(handle uint64) error

	// MemMap maps a whole handle at addr. MemUnmap removes whole mappings.
	MemMap(addr, bytes, handle uint64) error
	MemUnmap(addr, bytes uint64) error

	// MemSetAccess gives the device access to a range of whole mappings.
	MemSetAccess(addr, bytes uint64) error
}

// VirtualOptions configure a Virtual.
type VirtualOptions struct {
	LimitBytes  uint64 // never more than this is held
	RangeBytes  uint64 // of addresses; 0: eight times the limit
	StepBytes   uint64 // a stretch of so many bytes gets large handles; 0: 512 MiB
	HandleBytes uint64 // the size of a large handle; 0: 64 MiB
}

const (
	rangePerLimit  = 8
	mostRangeBytes = 1 << 46 // half of a 47-bit address space
	rangeTries     = 8       // each for half of the size that was refused
)

// Virtual maps physical memory into one range of addresses, where its caller says. The caller owns the memory until
// it returns it by Unmap or Release. Only Close returns memory that the caller did not return.
type Virtual struct {
	upstream   VirtualUpstream // immutable
	limitBytes uint64          // immutable
	granule    uint64          // immutable; of the range
	addr       uint64          // immutable; of the range
	rangeBytes uint64          // immutable; 0: the limit is below one granule

	stepGranules   int // immutable; a stretch of so many granules gets large handles
	handleGranules int // immutable; of a large handle

	mu         sync.Mutex
	closed     bool   // guarded by mu, as are all fields below
	slots      []slot // one for each granule of the range, up to the highest that was ever mapped
	heldBytes  uint64 // what the device holds for us: granules, strays and the rest
	spareBytes uint64 // of that, mapped but without an owner
	spareIn    []bool // for each group of slots: whether one may be spare
	spareEnd   int    // no slot from here on is spare
	restAddr   uint64 // the rest, from MemAlloc; 0: none
	restBytes  uint64
	restSpare  bool    // the rest has no owner
	strays     []stray // released, but the device refused to take it back
	refused    bool    // there are strays, or parked slots
	reserved   bool    // the range is still reserved
	filling    filling // the last one
}

// NewVirtual reserves the addresses. It allocates no memory.
func NewVirtual(upstream VirtualUpstream, opts VirtualOptions) (*Virtual, error) {
	granule, err := upstream.MemGetAllocationGranularity()
	if err != nil {
		return nil, status.Errorf(status.Unknown, "could not query the device's granularity: %w", err)
	}
	if granule == 0 || granule%granularity != 0 {
		return nil, status.Errorf(status.Internal, "the device's granularity is %d bytes; expected a multiple of %d",
			granule, granularity)
	}
	v := &Virtual{upstream: upstream, limitBytes: opts.LimitBytes, granule: granule}
	v.handleGranules = int(max(or(opts.HandleBytes, usualHandleBytes)/granule, 1))
	v.stepGranules = max(int(or(opts.StepBytes, usualStepBytes)/granule), v.handleGranules+1)
	if opts.LimitBytes < granule {
		return v, nil
	}
	if err := v.reserve(rangeBytes(opts, granule)); err != nil {
		return nil, err
	}
	return v, nil
}

func or(bytes, usual uint64) uint64 {
	if bytes == 0 {
		return usual
	}
	return bytes
}

// rangeBytes returns the size of the range to reserve: whole granules, at least one.
func rangeBytes(opts VirtualOptions, granule uint64) uint64 {
	bytes := opts.RangeBytes
	if bytes == 0 {
		bytes = min(opts.LimitBytes, mostRangeBytes/rangePerLimit) * rangePerLimit
	}
	return max(min(bytes, mostRangeBytes)/granule, 1) * granule
}

// reserve reserves the range, or a smaller one if the device refuses.
func (v *Virtual) reserve(bytes uint64) (err error) {
	for range rangeTries {
		if v.addr, err = v.upstream.MemAddressReserve(bytes, v.granule); err == nil {
			break
		}
		if bytes < 2*v.granule {
			break
		}
		bytes = bytes / 2 / v.granule * v.granule
	}
	if err != nil {
		return status.Errorf(status.ResourceExhausted, "the device refused to reserve a range of addresses, even "+
			"one of %d bytes: %w", bytes, err)
	}
	if v.addr == 0 || v.addr%v.granule != 0 || v.addr+bytes < v.addr {
		err = v.upstream.MemAddressFree(v.addr, bytes)
		return errors.Join(status.Errorf(status.Internal, "the device reserved an unusable range of %d bytes at %#x",
			bytes, v.addr), err)
	}
	v.rangeBytes, v.reserved = bytes, true
	return nil
}

// Range returns the range in which Map maps memory, and the granule size. It is empty if the limit is below one
// granule.
func (v *Virtual) Range() (addr, bytes, granuleBytes uint64) { return v.addr, v.rangeBytes, v.granule }

// AvailableBytes returns how much of the limit the caller does not own yet, rounded down to 256; spare memory counts
// as available. It first retries returning what the device refused to take back.
func (v *Virtual) AvailableBytes() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reclaimLocked()
	return v.availableLocked()
}

func (v *Virtual) availableLocked() uint64 {
	return roundDown(v.limitBytes - (v.heldBytes - v.spareBytes))
}

// LimitBytes returns the limit as configured.
func (v *Virtual) LimitBytes() uint64 { return v.limitBytes }

// HeldBytes returns what the device holds for the pool, strays included.
func (v *Virtual) HeldBytes() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.heldBytes
}

func errClosed() error {
	return status.Errorf(status.FailedPrecondition, "the pool's virtual memory is closed")
}

// Map maps memory at addr, which is the beginning of a granule in the range: at least atLeast and at most atMost
// bytes, in whole granules. The caller must own no memory there yet; spare memory there is taken over. If the limit
// or the device does not allow it, Map fails with ResourceExhausted and leaves the caller's memory as it was
// (invariant 10). It also fails if spare memory
// there is in handles that have to be replaced, which only Stitch does: queued work may still touch it.
func (v *Virtual) Map(addr, atLeast, atMost uint64) (bytes uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, errClosed()
	}
	first, end, err := v.stretchLocked(addr, atLeast, atMost)
	if err != nil {
		return 0, err
	}
	for at := first; at < end; at++ {
		if v.slotLocked(at).state == owned {
			return 0, status.Errorf(status.InvalidArgument, "memory is already mapped at %#x", v.addrOf(at))
		}
	}
	f := v.fillingLocked(first, end)
	left := v.limitBytes - v.heldBytes
	if err := f.eachCrossed(func(p piece) error {
		left += v.bytesOf(p.end - p.first)
		if v.slots[p.first].state == spare {
			return status.Errorf(status.ResourceExhausted, "%d bytes of spare memory at %#x have to be replaced",
				v.bytesOf(p.end-p.first), v.addrOf(p.first))
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if f.missing > left {
		return 0, status.Errorf(status.ResourceExhausted,
			"%d bytes are needed, but only %d of the limit of %d bytes are left", f.missing, left, v.limitBytes)
	}
	return v.bytesOf(end - first), f.run()
}

// stretchLocked returns the slots from addr on that hold atLeast bytes.
func (v *Virtual) stretchLocked(addr, atLeast, atMost uint64) (first, end int, err error) {
	offset := addr - v.addr
	room := uint64(0)
	if v.granule > 0 {
		room = min(atMost, v.rangeBytes-min(offset, v.rangeBytes)) / v.granule
	}
	want := atLeast / v.granule
	if atLeast%v.granule != 0 {
		want++
	}
	if addr < v.addr || offset%v.granule != 0 || want == 0 || want > room {
		return 0, 0, status.Errorf(status.InvalidArgument,
			"%d to %d bytes at %#x do not fit into the range of %d bytes at %#x", atLeast, atMost, addr,
			v.rangeBytes, v.addr)
	}
	first = int(offset / v.granule)
	return first, first + int(want), nil
}

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
