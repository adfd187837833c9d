package suballoc

import (
	"errors"
	"sync"

	"gpuconf/gocore/status"
)

// VirtualUpstream is a device with virtual memory management: addresses and physical memory are taken apart. Methods are
// named after the CUDA driver's calls. MemAlloc and MemFree serve what is less than a granule.
type VirtualUpstream interface {
	Upstream

	// MemGetAllocationGranularity tells what physical memory and mappings come in multiples of: a multiple of 256.
	MemGetAllocationGranularity() (bytes uint64, err error)

	// MemAddressReserve takes a range of addresses with nothing behind it.
	MemAddressReserve(bytes, alignment uint64) (addr uint64, err error)
	MemAddressFree(addr, bytes uint64) error

	// MemCreate takes physical memory. MemRelease gives the handle back; the memory stays while it is mapped.
	MemCreate(bytes uint64) (handle uint64, err error)
	MemRelease(handle uint64) error

	// MemMap puts a whole handle at addr. MemUnmap takes whole mappings away.
	MemMap(addr, bytes, handle uint64) error
	MemUnmap(addr, bytes uint64) error

	// MemSetAccess lets the device use a range of whole mappings.
	MemSetAccess(addr, bytes uint64) error
}

// VirtualOptions say how much may be taken, and where.
type VirtualOptions struct {
	LimitBytes uint64 // never more than this is held
	RangeBytes uint64 // of addresses; 0: eight times the limit
}

const (
	rangePerLimit  = 8
	mostRangeBytes = 1 << 46 // half of what 47 bits can tell apart
	rangeTries     = 8       // each for half of what was refused
)

// Virtual puts physical memory into one range of addresses, where its caller says. The caller owns what it got until it
// gives it back by Unmap or Release; nothing is given back on its own but by Close.
type Virtual struct {
	upstream   VirtualUpstream // immutable
	limitBytes uint64          // immutable
	granule    uint64          // immutable; of the range; 0: it has none
	addr       uint64          // immutable; of the range
	rangeBytes uint64          // immutable; 0: the limit is below one granule

	mu         sync.Mutex
	closed     bool   // guarded by mu, as are all below
	slots      []slot // one for each granule of the range, up to the highest that was ever mapped
	heldBytes  uint64 // what the device holds for us: granules, strays and the rest
	spareBytes uint64 // of that, what is mapped but nobody's
	restAddr   uint64 // what MemAlloc gave, 0: nothing
	restBytes  uint64
	restSpare  bool    // the rest is nobody's
	strays     []stray // given back, but the device refused to take it
	refused    bool    // there are strays, or parked slots
	reserved   bool    // the range is ours
}

// NewVirtual reserves the addresses, which takes no memory.
func NewVirtual(upstream VirtualUpstream, opts VirtualOptions) (*Virtual, error) {
	granule, err := upstream.MemGetAllocationGranularity()
	if err != nil {
		return nil, status.Errorf(status.Unknown, "the device did not tell its granularity: %w", err)
	}
	if granule == 0 || granule%granularity != 0 {
		return nil, status.Errorf(status.Internal, "the device's granularity is %d bytes; a multiple of %d was due", granule, granularity)
	}
	v := &Virtual{upstream: upstream, limitBytes: opts.LimitBytes, granule: granule}
	if opts.LimitBytes < granule {
		return v, nil
	}
	if err := v.reserve(rangeBytes(opts, granule)); err != nil {
		return nil, err
	}
	return v, nil
}

// rangeBytes is how many addresses to ask for: whole granules, at least one.
func rangeBytes(opts VirtualOptions, granule uint64) uint64 {
	bytes := opts.RangeBytes
	if bytes == 0 {
		bytes = min(opts.LimitBytes, mostRangeBytes/rangePerLimit) * rangePerLimit
	}
	return max(min(bytes, mostRangeBytes)/granule, 1) * granule
}

// reserve takes the range, or a smaller one that the device grants.
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
		return status.Errorf(status.ResourceExhausted, "the device reserved no addresses, not even %d bytes: %w", bytes, err)
	}
	if v.addr == 0 || v.addr%v.granule != 0 || v.addr+bytes < v.addr {
		err = v.upstream.MemAddressFree(v.addr, bytes)
		return errors.Join(status.Errorf(status.Internal, "the device reserved %d bytes at %#x, which cannot be used", bytes, v.addr), err)
	}
	v.rangeBytes, v.reserved = bytes, true
	return nil
}

// Range is where Map puts memory, and in which units. It has no bytes if the limit is below one granule.
func (v *Virtual) Range() (addr, bytes, granuleBytes uint64) { return v.addr, v.rangeBytes, v.granule }

// AvailableBytes is what of the limit the caller does not have yet, rounded down to 256: what is spare counts as available. What the device
// refused to take back is offered to it again.
func (v *Virtual) AvailableBytes() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reclaimLocked()
	return v.availableLocked()
}

func (v *Virtual) availableLocked() uint64 {
	return roundDown(v.limitBytes - (v.heldBytes - v.spareBytes))
}

// LimitBytes is the limit as it was given.
func (v *Virtual) LimitBytes() uint64 { return v.limitBytes }

// HeldBytes is what the device holds for the pool, strays included.
func (v *Virtual) HeldBytes() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.heldBytes
}

func errClosed() error {
	return status.Errorf(status.FailedPrecondition, "the pool's virtual memory is closed")
}
