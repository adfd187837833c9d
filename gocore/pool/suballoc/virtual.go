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
