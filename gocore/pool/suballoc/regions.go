// SPDX-License-Identifier: Apache-2.0

package suballoc

import (
	"math"
	"sync"

	"gpuconf/gocore/base/status"
)

// granularity of sizes and addresses, in bytes.
const granularity = 256

const (
	firstGrowthBytes = 2 << 20
	largestBytes     = math.MaxUint64 - (granularity - 1) // the largest multiple of 256

	// backOff is float32 as in TensorFlow: float64 would result in other sizes.
	backOff float32 = 0.9
)

// Upstream is the device. MemAlloc returns an address that is a non-zero multiple of 256, or changes nothing and
// fails.
type Upstream interface {
	MemAlloc(bytes uint64) (addr uint64, err error)
	MemFree(addr uint64) error
}

// Options configure a Regions.
type Options struct {
	LimitBytes uint64 // never more than this is held
	Growth     bool   // take what is needed, doubling from 2 MiB; otherwise take the whole limit at once
}

// Regions obtains regions from an upstream device. The caller owns a region until it calls Release; no region is
// returned to the device automatically.
type Regions struct {
	upstream   Upstream // immutable
	limitBytes uint64   // immutable

	mu         sync.Mutex
	nextBytes  uint64            // guarded by mu; size of the next region, before the limit and the back-off
	takenBytes uint64            // guarded by mu; sum of regions
	lostBytes  uint64            // guarded by mu; released, but the device refused to take it back
	regions    map[uint64]uint64 // guarded by mu; address -> bytes
}

// NewRegions returns a Regions. It takes no memory until the first Extend.
func NewRegions(upstream Upstream, opts Options) *Regions {
	first := opts.LimitBytes
	if opts.Growth {
		first = min(first, firstGrowthBytes)
	}
	return &Regions{
		upstream:   upstream,
		limitBytes: opts.LimitBytes,
		nextBytes:  roundUp(first),
		regions:    make(map[uint64]uint64),
	}
}

// Extend returns a new region of at least atLeast bytes, a multiple of 256.
//
// It fails with ResourceExhausted if the limit or the device does not allow that many. The size of the next region
// stays raised to the request even if the device then refuses, as in TensorFlow.
func (r *Regions) Extend(atLeast uint64) (addr, bytes uint64, err error) {
	if atLeast == 0 || atLeast%granularity != 0 {
		return 0, 0, errAskedFor(atLeast)
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	available := r.availableLocked()
	if atLeast > available {
		return 0, 0, errBeyondLimit(atLeast, available, r.limitBytes)
	}
	raised := false
	for atLeast > r.nextBytes {
		r.nextBytes = double(r.nextBytes)
		raised = true
	}
	addr, bytes, err = r.takeLocked(atLeast, min(r.nextBytes, available))
	if err != nil {
		return 0, 0, err
	}
	if !raised {
		r.nextBytes = double(r.nextBytes)
	}
	r.takenBytes += bytes
	r.regions[addr] = bytes
	return addr, bytes, nil
}

func errAskedFor(bytes uint64) error {
	return status.Errorf(status.InvalidArgument,
		"a region of %d bytes was requested; the size must be a non-zero multiple of %d", bytes, granularity)
}

func errBeyondLimit(bytes, available, limit uint64) error {
	return status.Errorf(status.ResourceExhausted, "%d bytes were requested, but only %d of the limit of %d bytes "+
		"are left", bytes, available, limit)
}

// takeLocked requests bytes from the device and, while it refuses, fewer, but never fewer than atLeast (invariant 4).
func (r *Regions) takeLocked(atLeast, bytes uint64) (addr, got uint64, err error) {
	for {
		addr, err = r.upstream.MemAlloc(bytes)
		if err == nil {
			break
		}
		smaller := shrink(bytes)
		if smaller < atLeast || smaller >= bytes {
			return 0, 0, status.Errorf(status.ResourceExhausted, "the device refused %d bytes: %w", bytes, err)
		}
		bytes = smaller
	}
	if _, live := r.regions[addr]; live || addr == 0 || addr%granularity != 0 {
		return 0, 0, r.disownLocked(addr, bytes, live)
	}
	return addr, bytes, nil
}

// disownLocked returns memory at an unusable address, unless that would free a live region.
func (r *Regions) disownLocked(addr, bytes uint64, live bool) error {
	var err error
	if !live {
		err = r.upstream.MemFree(addr)
	}
	if err != nil {
		r.lostBytes += bytes
		return status.Errorf(status.Internal, "the device returned memory at the unusable address %#x and failed to "+
			"free it: %w", addr, err)
	}
	return status.Errorf(status.Internal, "the device returned memory at the unusable address %#x", addr)
}

// Release returns a whole region that Extend returned. If the device refuses, the caller no longer owns the region,
// but its bytes stay counted against the limit.
func (r *Regions) Release(addr, bytes uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	held, ok := r.regions[addr]
	if !ok || held != bytes {
		return status.Errorf(status.InvalidArgument, "no region of %d bytes at %#x is held", bytes, addr)
	}
	delete(r.regions, addr)
	r.takenBytes -= bytes
	if err := r.upstream.MemFree(addr); err != nil {
		r.lostBytes += bytes
		return status.Errorf(status.Internal, "the device failed to free %d bytes at %#x: %w", bytes, addr, err)
	}
	return nil
}

// AvailableBytes returns how much of the limit is not taken yet, rounded down to 256.
func (r *Regions) AvailableBytes() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.availableLocked()
}

func (r *Regions) availableLocked() uint64 {
	return roundDown(r.limitBytes - r.takenBytes - r.lostBytes)
}

// LimitBytes returns the limit as configured.
func (r *Regions) LimitBytes() uint64 { return r.limitBytes }

// TakenBytes returns the bytes of all regions that the caller owns.
func (r *Regions) TakenBytes() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takenBytes
}

// NextRegionBytes returns the size that the next Extend begins with, before the limit and the back-off are applied:
// TensorFlow's curr_region_allocation_bytes.
func (r *Regions) NextRegionBytes() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nextBytes
}

// shrink is one step of the back-off.
func shrink(bytes uint64) uint64 { return roundUp(uint64(float32(bytes) * backOff)) }

func roundDown(bytes uint64) uint64 { return bytes - bytes%granularity }

// roundUp and double stop at the largest multiple of 256 instead of passing 2^64.
func roundUp(bytes uint64) uint64 {
	if bytes > largestBytes {
		return largestBytes
	}
	return (bytes + granularity - 1) / granularity * granularity
}

func double(bytes uint64) uint64 {
	if bytes > largestBytes/2 {
		return largestBytes
	}
	return 2 * bytes
}
