// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"maps"

	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
)

// pool is an allocator over a device that counts.
type pool interface {
	allocate(o op) error
	free(o op) error
	usage() usage
	largestFree() (largest, reserved uint64)
	peakReserved() uint64
	failure(err error, o op) *Failure // nil if err is not that memory is used up
	alike() (low, high uint64)        // limits under which the pool would have done the same so far, from low to high
	// guess returns a limit that might be the least one, or 0 if nothing is known. short is the size of the request
	// that failed, or 0 if none did.
	guess(short uint64) uint64
	close() error
}

// usage is a pool's memory in bytes.
type usage struct {
	inUse    uint64 // blocks as the pool sizes them
	reserved uint64 // taken from the device
}

func newPool(v variant, limitBytes uint64, card Card, w *workload) (pool, error) {
	if v.policy.pytorch() {
		return newPyTorchPool(v, limitBytes, card, w), nil
	}
	return newBFCPool(v.policy, limitBytes, card, w.blocks)
}

// bfcPool replays on gpuconf's allocator.
type bfcPool struct {
	*bfc.Allocator
	device  *device
	virtual *suballoc.Virtual // nil unless the policy is Virtual
	pinned  *granules         // nil, too, unless it is
	blocks  []bfc.Block       // by block number
	live    uint64
}

func newBFCPool(policy Policy, limitBytes uint64, card Card, blocks int) (*bfcPool, error) {
	p := &bfcPool{device: newDevice(card), blocks: make([]bfc.Block, blocks)}
	opts := bfc.Options{Name: string(policy), GarbageCollect: true}
	var sub bfc.SubAllocator
	var err error
	switch policy {
	case TensorFlow:
		opts.Split.TensorFlow = true
		sub = suballoc.NewRegions(p.device, suballoc.Options{LimitBytes: limitBytes, Growth: true})
	case Virtual:
		p.virtual, err = suballoc.NewVirtual(p.device, suballoc.VirtualOptions{LimitBytes: limitBytes})
		sub = p.virtual
	default:
		sub = suballoc.NewRegions(p.device, suballoc.Options{LimitBytes: limitBytes})
	}
	if err != nil {
		return nil, err
	}
	if p.virtual != nil {
		p.pinned = newGranules(p.virtual)
	}
	if p.Allocator, err = bfc.New(sub, opts); err != nil {
		return nil, errors.Join(err, p.closeRange())
	}
	return p, nil
}

func (p *bfcPool) allocate(o op) error {
	block, err := p.Allocate(o.bytes)
	if err != nil {
		return err
	}
	p.blocks[o.block] = block
	p.live += block.Bytes
	p.pinned.add(block.Addr, block.Bytes)
	return nil
}

func (p *bfcPool) free(o op) error {
	if o.left {
		return nil // it has no private pools
	}
	block := p.blocks[o.block]
	p.live -= block.Bytes
	p.pinned.remove(block.Addr, block.Bytes)
	return p.Free(block.Addr)
}

func (p *bfcPool) usage() usage {
	return usage{inUse: p.live, reserved: p.device.held}
}

func (p *bfcPool) largestFree() (largest, reserved uint64) {
	stats := p.Stats()
	return stats.LargestFreeBlockBytes, stats.BytesReserved
}

func (p *bfcPool) peakReserved() uint64 { return p.Stats().PeakBytesReserved }

func (p *bfcPool) failure(err error, _ op) *Failure {
	var oom *bfc.OutOfMemory
	if !errors.As(err, &oom) {
		return nil
	}
	return &Failure{Cause: oom.Cause.String(), InUse: oom.InUse, Reserved: oom.Reserved, LargestFree: oom.LargestFree}
}

// alike returns only the pool's own limit, on which its layout depends.
func (p *bfcPool) alike() (low, high uint64) {
	limit := p.Stats().BytesLimit
	return limit, limit
}

// guess is the most memory that could not be moved, under Virtual: a pool needs that much, and often not more.
func (p *bfcPool) guess(short uint64) uint64 { return p.pinned.most(short) }

func (p *bfcPool) close() error { return errors.Join(p.Allocator.Close(), p.closeRange()) }

func (p *bfcPool) closeRange() error {
	if p.virtual == nil {
		return nil
	}
	return p.virtual.Close()
}

// pytorchPool replays on the model of PyTorch's allocator.
type pytorchPool struct {
	model    *caching.Allocator
	device   *cachingDevice
	settings caching.Settings
	limit    uint64
	places   []place
	blocks   []*caching.Block // by block number
	live     uint64
	peak     uint64 // of reserved bytes
	start    *recordedStart
	without  map[uint64]bool // workspaces that PyTorch has found no memory for: it goes on without them
}

func newPyTorchPool(v variant, limitBytes uint64, card Card, w *workload) *pytorchPool {
	p := &pytorchPool{device: &cachingDevice{newDevice(card)}, settings: v.settings, limit: limitBytes,
		places: w.places, blocks: make([]*caching.Block, w.blocks), without: maps.Clone(w.without)}
	p.model = caching.New(p.device, caching.Options{Settings: v.settings, TiesByAge: v.byAge, LimitBytes: limitBytes})
	if w.start != nil && v.policy == PyTorch {
		p.start = p.restore(w)
	}
	return p
}

func (p *pytorchPool) allocate(o op) error {
	if p.start != nil && o.old {
		return p.adopt(o)
	}
	if o.workspace > 0 && p.without[o.workspace] {
		p.blocks[o.block] = nil
		return nil
	}
	at := p.places[o.place]
	block, err := p.model.Allocate(caching.Request{Bytes: o.bytes, Stream: at.stream, Pool: at.pool})
	if err != nil && o.workspace > 0 {
		p.blocks[o.block], p.without[o.workspace] = nil, true
		return nil
	}
	if err != nil {
		return err
	}
	p.blocks[o.block] = block
	p.live += block.Bytes
	p.peak = max(p.peak, p.model.Reserved())
	return nil
}

func (p *pytorchPool) free(o op) error {
	if o.left {
		p.model.Leave(p.places[o.place].pool)
		if o.released {
			p.model.ReleaseCached()
		}
		return nil
	}
	if block := p.blocks[o.block]; block != nil { // nil: a workspace that there was no memory for
		p.live -= block.Bytes
		p.model.Free(block)
	}
	return nil
}

func (p *pytorchPool) usage() usage { return usage{inUse: p.live, reserved: p.model.Reserved()} }

func (p *pytorchPool) largestFree() (largest, reserved uint64) {
	return p.model.LargestFree(), p.model.Reserved()
}

func (p *pytorchPool) peakReserved() uint64 { return p.peak }

// failure names the cause in the words of the other policies.
func (p *pytorchPool) failure(_ error, o op) *Failure {
	f := &Failure{InUse: p.live, Reserved: p.model.Reserved(), LargestFree: p.model.LargestFree()}
	cause := bfc.Fragmented
	switch need := p.settings.Round(o.bytes); {
	case need > p.limit:
		cause = bfc.TooLarge
	case need > p.device.free && f.Reserved+need <= p.limit:
		cause = bfc.DeviceFull
	case f.InUse+need > p.limit, f.Reserved-f.InUse < need: // less is cached, and a segment has at least 2 or 20 MiB
		cause = bfc.LimitReached
	}
	f.Cause = cause.String()
	return f
}

func (p *pytorchPool) alike() (low, high uint64) {
	low, high = p.model.Alike()
	if p.start != nil {
		low, high = max(low, p.start.low), min(high, p.start.high)
	}
	return low, high
}

func (p *pytorchPool) guess(uint64) uint64 { return 0 }

func (p *pytorchPool) close() error { return nil }

// cachingDevice is the device that counts, as package caching sees a device.
type cachingDevice struct{ *device }

var _ caching.Device = cachingDevice{}

func (d cachingDevice) MemAlloc(bytes uint64) (addr uint64, ok bool) {
	addr, err := d.device.MemAlloc(bytes)
	return addr, err == nil
}

func (d cachingDevice) MemFree(addr, _ uint64) { _ = d.device.MemFree(addr) }

func (d cachingDevice) MemReserve(uint64, bool) (addr, bytes uint64) {
	return d.reserve(expandableBytes), expandableBytes
}

// expandableBytes is the size of an expandable segment's addresses.
const expandableBytes = mostBytes * 9 / 8

func (d cachingDevice) MemMap(_, bytes uint64) (ok bool) {
	if bytes > d.free {
		return false
	}
	d.free -= bytes
	d.held += bytes
	return true
}

func (d cachingDevice) MemUnmap(_, bytes uint64) {
	d.free += bytes
	d.held -= bytes
}
