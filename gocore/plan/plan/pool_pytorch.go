// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/pool/bfc"
)

// pytorchPool replays on the model of PyTorch's allocator.
type pytorchPool struct {
	model    *caching.Allocator
	device   *cachingDevice
	settings caching.Settings
	limit    uint64
	streams  []uint64
	blocks   []*caching.Block // by block number
	live     uint64
	peak     uint64 // of reserved bytes
	start    *recordedStart
}

func newPyTorchPool(v variant, limitBytes uint64, card Card, w *workload) *pytorchPool {
	p := &pytorchPool{device: &cachingDevice{newDevice(card)}, settings: v.settings, limit: limitBytes,
		streams: w.streams, blocks: make([]*caching.Block, w.blocks)}
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
	block, err := p.model.Allocate(caching.Request{Bytes: o.bytes, Stream: p.streams[o.stream]})
	if err != nil {
		return err
	}
	p.blocks[o.block] = block
	p.live += block.Bytes
	p.peak = max(p.peak, p.model.Reserved())
	return nil
}

func (p *pytorchPool) free(o op) error {
	p.live -= p.blocks[o.block].Bytes
	p.model.Free(p.blocks[o.block])
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
