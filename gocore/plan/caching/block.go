// SPDX-License-Identifier: Apache-2.0

package caching

// state is what a block is used for.
type state uint8

const (
	free state = iota
	allocated
	waiting  // freed, but another stream may still use it
	unmapped // addresses of an expandable segment without memory
)

// Block is a part of a segment.
type Block struct {
	Addr, Bytes uint64 // the address of the first byte, and the size

	state      state
	shelf      *shelf
	segment    *segment
	prev, next *Block // neighbors in the segment
	// shelved is the pool's count of searches when the block came onto its shelf. Garbage collection goes by that age.
	shelved uint64
}

// segment is memory from the device or, if it is expandable, a range of addresses.
type segment struct {
	addr, bytes uint64
	expandable  bool
	number      uint64 // increases with each new segment
	head        *Block // the lowest block; cut and join keep the lower one of two
}

// whole reports whether a block is all of its segment.
func (b *Block) whole() bool { return b.prev == nil && b.next == nil }

// cut splits a block in two. b becomes the lower part.
func (a *Allocator) cut(b *Block, bytes uint64) (rest *Block) {
	rest = a.newBlock(Block{Addr: b.Addr + bytes, Bytes: b.Bytes - bytes, state: b.state, shelf: b.shelf,
		segment: b.segment, prev: b, next: b.next})
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.Bytes = rest, bytes
	return rest
}

// join adds the block after b to it.
func (a *Allocator) join(b *Block) {
	next := b.next
	b.Bytes += next.Bytes
	b.next = next.next
	if b.next != nil {
		b.next.prev = b
	}
	a.spare = append(a.spare, next)
}

// settle merges a block that has become free, or unmapped, with neighbors in the same state and puts the result where
// it belongs.
func (a *Allocator) settle(b *Block) *Block {
	if next := b.next; next != nil && next.state == b.state {
		a.remove(next)
		a.join(b)
	}
	if prev := b.prev; prev != nil && prev.state == b.state {
		a.remove(prev)
		a.join(prev)
		b = prev
	}
	a.put(b)
	return b
}

// put inserts a free or an unmapped block into the list of those.
func (a *Allocator) put(b *Block) {
	if b.state == unmapped {
		b.shelf.unmapped.insert(b)
		return
	}
	b.shelved = b.shelf.searches()
	b.shelf.free.insert(b)
}

func (a *Allocator) remove(b *Block) {
	if b.state == unmapped {
		b.shelf.unmapped.remove(b)
		return
	}
	b.shelf.free.remove(b)
}

// newBlock reuses records: a replay makes millions.
func (a *Allocator) newBlock(b Block) *Block {
	n := len(a.spare)
	if n == 0 {
		made := b
		return &made
	}
	reused := a.spare[n-1]
	a.spare = a.spare[:n-1]
	*reused = b
	return reused
}
