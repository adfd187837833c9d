// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/suballoc"
)

// Card describes the GPU below a pool.
type Card struct {
	Name         string // for messages
	MemoryBytes  uint64 // 0: unlimited
	GranuleBytes uint64 // of virtual memory management; 0: 2 MiB
}

const usualGranuleBytes = 2 << 20

// device assigns addresses and counts bytes. It has no memory.
type device struct {
	free, held uint64
	granule    uint64
	next       uint64            // the next address; no address is reused
	sizes      map[uint64]uint64 // by address, or by handle
}

var _ suballoc.VirtualUpstream = (*device)(nil)

func newDevice(card Card) *device {
	d := &device{free: card.MemoryBytes, granule: card.GranuleBytes, next: 1 << 40, sizes: map[uint64]uint64{}}
	if d.free == 0 {
		d.free = math.MaxInt64
	}
	if d.granule == 0 {
		d.granule = usualGranuleBytes
	}
	return d
}

// take counts bytes under a new name, which serves as address or handle.
func (d *device) take(bytes uint64) (name uint64, err error) {
	if bytes > d.free {
		return 0, status.Errorf(status.ResourceExhausted, "%d bytes requested, %d left", bytes, d.free)
	}
	d.free -= bytes
	d.held += bytes
	name = d.reserve(bytes)
	d.sizes[name] = bytes
	return name, nil
}

func (d *device) release(name uint64) error {
	bytes, ok := d.sizes[name]
	if !ok {
		return status.Errorf(status.Internal, "no memory at %#x", name)
	}
	delete(d.sizes, name)
	d.free += bytes
	d.held -= bytes
	return nil
}

// reserve returns an address that is a multiple of the granule.
func (d *device) reserve(bytes uint64) (addr uint64) {
	addr = d.next
	d.next += (bytes/d.granule + 1) * d.granule
	return addr
}

func (d *device) MemAlloc(bytes uint64) (uint64, error)  { return d.take(bytes) }
func (d *device) MemFree(addr uint64) error              { return d.release(addr) }
func (d *device) MemCreate(bytes uint64) (uint64, error) { return d.take(bytes) }
func (d *device) MemRelease(handle uint64) error         { return d.release(handle) }

func (d *device) MemGetAllocationGranularity() (uint64, error)      { return d.granule, nil }
func (d *device) MemAddressReserve(bytes, _ uint64) (uint64, error) { return d.reserve(bytes), nil }
func (d *device) MemAddressFree(_, _ uint64) error                  { return nil }
func (d *device) MemMap(_, _, _ uint64) error                       { return nil }
func (d *device) MemUnmap(_, _ uint64) error                        { return nil }
func (d *device) MemSetAccess(_, _ uint64) error                    { return nil }
