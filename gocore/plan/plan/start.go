// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"

	"gpuconf/gocore/plan/caching"
)

// recordedStart is what PyTorch's allocator had before the first event of a recording, in a pool that starts with it.
type recordedStart struct {
	blocks    []*caching.Block // of the first ops
	next      int              // the first of them that no op has
	fits      bool             // under the limit
	low, high uint64           // the limits under which the pool would have started in the same way
}

// restore gives the model the recorded segments. If they are more than the limit, what is cached is released first, as
// PyTorch would have done earlier.
func (p *pytorchPool) restore(w *workload) *recordedStart {
	s := &recordedStart{fits: true, high: math.MaxUint64}
	blocks := map[uint64]*caching.Block{}
	for _, segment := range w.start {
		for _, b := range p.model.Restore(segment) {
			blocks[b.Addr] = b
		}
		p.device.adopt(segment)
	}
	for _, addr := range w.addrs {
		s.blocks = append(s.blocks, blocks[addr])
	}
	memory := p.device.free
	limit := memory
	if p.limit > 0 {
		limit = min(limit, p.limit)
	}
	if s.low = p.model.Reserved(); s.low > limit {
		s.high = s.low - 1
		p.model.ReleaseCached()
		s.low = p.model.Reserved()
	}
	if s.low > limit {
		s.fits, s.high, s.low = false, s.low-1, 0
	}
	p.device.free = memory - min(memory, p.device.held)
	p.peak = p.model.Reserved()
	return s
}

// adopt takes the block of an op that allocates what was live before.
func (p *pytorchPool) adopt(o op) error {
	block := p.start.blocks[p.start.next]
	p.start.next++
	p.blocks[o.block] = block
	p.live += block.Bytes
	if !p.start.fits {
		return caching.ErrOutOfMemory
	}
	return nil
}

// adopt counts a segment that the device provided earlier, and keeps later ones away from its addresses.
func (d cachingDevice) adopt(s caching.Segment) {
	for _, piece := range s.Pieces {
		if !piece.Unmapped {
			d.held += piece.Bytes
		}
	}
	if !s.Expandable {
		d.sizes[s.Addr] = s.Bytes
	}
	d.next = max(d.next, ((s.Addr+s.Bytes)/d.granule+1)*d.granule)
}
