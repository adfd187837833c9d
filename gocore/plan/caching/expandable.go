// SPDX-License-Identifier: Apache-2.0

package caching

// expand maps memory until a block of an expandable segment is large enough. It returns nil if the device has no more
// memory; what was mapped until then stays, free.
func (a *Allocator) expand(s *shelf, rounded uint64) *Block {
	b := a.candidate(s, rounded)
	if b == nil {
		return nil
	}
	if b.state == unmapped {
		if b = a.mapFrom(b, min(b.Bytes, rounded)); b == nil {
			return nil
		}
	}
	for b.Bytes < rounded {
		next := b.next
		if b = a.mapFrom(next, min(rounded-b.Bytes, next.Bytes)); b == nil {
			return nil
		}
	}
	s.free.remove(b)
	return b
}

// candidate returns the lowest block, free or unmapped, from which on a request fits into free and unmapped addresses.
func (a *Allocator) candidate(s *shelf, rounded uint64) *Block {
	for b := range s.unmapped.from(key{}) {
		if b.prev != nil && b.prev.state == free {
			b = b.prev
		}
		if available(b, rounded) {
			return b
		}
	}
	addr, bytes := a.device.MemReserve(s.stream, s.small)
	if bytes < rounded {
		return nil
	}
	b := a.newSegment(Block{Addr: addr, Bytes: bytes, state: unmapped, shelf: s}, true)
	s.unmapped.insert(b)
	return b
}

func available(b *Block, bytes uint64) bool {
	var found uint64
	for ; b != nil && found < bytes && (b.state == free || b.state == unmapped); b = b.next {
		found += b.Bytes
	}
	return found >= bytes
}

func (a *Allocator) granule(small bool) uint64 {
	if small {
		return smallSegment
	}
	return a.settings.largeSegment()
}

// mapFrom maps whole granules at the beginning of an unmapped block and returns the free block that they are part of
// then, or nil.
func (a *Allocator) mapFrom(b *Block, bytes uint64) *Block {
	bytes = min(roundUp(bytes, a.granule(b.shelf.small)), b.Bytes)
	if !a.device.MemMap(b.Addr, bytes) {
		return nil
	}
	a.reserved += bytes
	b.shelf.unmapped.remove(b)
	if bytes < b.Bytes {
		b.shelf.unmapped.insert(a.cut(b, bytes))
	}
	b.state = free
	return a.settle(b)
}

// unmap unmaps the whole granules of a free block.
func (a *Allocator) unmap(b *Block) {
	from, to := a.granules(b)
	if from >= to {
		return
	}
	b.shelf.free.remove(b)
	if from > b.Addr {
		lower := b
		b = a.cut(b, from-b.Addr)
		a.put(lower)
	}
	if end := b.Addr + b.Bytes; to < end {
		a.put(a.cut(b, to-b.Addr))
	}
	a.device.MemUnmap(from, to-from)
	a.reserved -= to - from
	b.state = unmapped
	if b = a.settle(b); b.whole() {
		b.shelf.unmapped.remove(b) // the addresses go back, too
		a.drop(b)
	}
}

// granules returns the range of the whole granules in a block. It is empty if from >= to.
func (a *Allocator) granules(b *Block) (from, to uint64) {
	granule, base := a.granule(b.shelf.small), b.segment.addr
	return base + roundUp(b.Addr-base, granule), base + (b.Addr+b.Bytes-base)/granule*granule
}
