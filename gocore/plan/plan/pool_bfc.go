// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
)

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
