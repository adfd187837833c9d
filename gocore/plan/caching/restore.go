// SPDX-License-Identifier: Apache-2.0

package caching

import (
	"cmp"
	"slices"
)

// Segment describes memory that an allocator holds.
type Segment struct {
	Addr, Bytes uint64  // the address of the first byte, and the size; of an expandable one, also of what is unmapped
	Stream      uint64  // the stream that its blocks are for
	Pool        PoolID  // the zero value is the default pool
	Small       bool    // whether it is for blocks of at most 1 MiB
	Expandable  bool    // whether memory is mapped into it as needed; pieces without memory are Unmapped
	Pieces      []Piece // in the order of addresses, without gaps; no two neighbors are both free, nor both unmapped
}

// Piece describes a block of a Segment.
type Piece struct {
	Addr, Bytes uint64 // the address of the first byte, and the size
	Allocated   bool   // whether it is a block that is allocated or Waiting; if false and not Unmapped, it is free
	Waiting     bool   // freed, but another stream may still use it; only if Allocated
	Unmapped    bool   // without memory; only in an expandable segment
}

// Restore adds a segment as another allocator left it. It returns the allocated blocks in the order of addresses.
func (a *Allocator) Restore(s Segment) (blocks []*Block) {
	a.numbers++
	made := &segment{addr: s.Addr, bytes: s.Bytes, expandable: s.Expandable, number: a.numbers}
	a.segments[made] = struct{}{}
	a.ages.order = append(a.ages.order, made)
	var prev *Block
	for _, piece := range s.Pieces {
		b := a.newBlock(Block{Addr: piece.Addr, Bytes: piece.Bytes, shelf: a.shelf(shelfKey{s.Pool, s.Small, s.Stream}),
			segment: made, prev: prev})
		if prev == nil {
			made.head = b
		} else {
			prev.next = b
		}
		prev = b
		switch {
		case piece.Allocated:
			b.state = allocated
			if piece.Waiting {
				b.state = waiting
			}
			blocks = append(blocks, b)
		case piece.Unmapped:
			b.state = unmapped
			a.put(b)
		default:
			a.put(b)
		}
		if !piece.Unmapped {
			a.reserved += piece.Bytes
		}
	}
	return blocks
}

// Segments returns all segments in the order of addresses.
func (a *Allocator) Segments() (segments []Segment) {
	for s := range a.segments {
		shelf := s.head.shelf
		made := Segment{Addr: s.addr, Bytes: s.bytes, Stream: shelf.stream, Pool: shelf.pool, Small: shelf.small,
			Expandable: s.expandable}
		for b := s.head; b != nil; b = b.next {
			made.Pieces = append(made.Pieces, Piece{
				Addr: b.Addr, Bytes: b.Bytes, Allocated: b.state == allocated || b.state == waiting,
				Waiting: b.state == waiting, Unmapped: b.state == unmapped,
			})
		}
		segments = append(segments, made)
	}
	slices.SortFunc(segments, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	return segments
}

// Fit returns the address that a request would get without memory from the device, or 0.
func (a *Allocator) Fit(r Request) uint64 {
	rounded := a.settings.Round(r.Bytes)
	b := a.bestFit(a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream}), rounded)
	if b == nil || a.settings.oversize(rounded, b.Bytes) {
		return 0
	}
	return b.Addr
}

// AllocateIn serves a request from the free block at an address as if the block had just been taken from the device. It
// fails with ErrOutOfMemory if there is no such block or the device would have provided another size.
func (a *Allocator) AllocateIn(addr, bytes uint64) (*Block, error) {
	rounded := a.settings.Round(bytes)
	for _, s := range a.order {
		for _, b := range s.free.all() {
			if b.Addr == addr && (b.segment.expandable || b.whole() && b.Bytes == a.settings.segmentFor(rounded)) &&
				b.Bytes >= rounded {
				s.free.remove(b)
				return a.take(b, rounded), nil
			}
		}
	}
	return nil, ErrOutOfMemory
}

// LargestFree returns the size of the largest free block.
func (a *Allocator) LargestFree() (bytes uint64) {
	for _, s := range a.order {
		if b := s.free.last(); b != nil {
			bytes = max(bytes, b.Bytes)
		}
	}
	return bytes
}

// Extend makes an allocated block larger or smaller at the cost of the free block behind it, which must be there and
// keep some bytes.
func (a *Allocator) Extend(b *Block, bytes uint64) {
	rest := b.next
	a.remove(rest)
	end := rest.Addr + rest.Bytes
	b.Bytes = bytes
	rest.Addr = b.Addr + bytes
	rest.Bytes = end - rest.Addr
	a.put(rest)
}

// FreeAfter returns the size of the free block behind a block, or 0.
func (b *Block) FreeAfter() uint64 {
	if b.next == nil || b.next.state != free {
		return 0
	}
	return b.next.Bytes
}

// Range is a range of addresses.
type Range struct {
	Addr, Bytes uint64 // the address of the first byte, and the size
}

// Releasable returns what ReleaseCached would release, in the order of addresses.
func (a *Allocator) Releasable() (ranges []Range) {
	for _, s := range a.order {
		if s.pool != (PoolID{}) && !a.left[s.pool] {
			continue
		}
		for _, b := range s.free.all() {
			if b.segment.expandable {
				if from, to := a.granules(b); from < to {
					ranges = append(ranges, Range{from, to - from})
				}
			} else if b.whole() {
				ranges = append(ranges, Range{b.Addr, b.Bytes})
			}
		}
	}
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Addr, b.Addr) })
	return ranges
}

// ReleaseAt releases the cached segment at an address, of any pool. It reports false if there is none, or blocks of it
// are allocated.
func (a *Allocator) ReleaseAt(addr uint64) bool {
	for _, s := range a.order {
		for _, b := range s.free.all() {
			if b.Addr == addr && b.whole() && !b.segment.expandable {
				a.release(b)
				return true
			}
		}
	}
	return false
}

// Stream returns the stream that a block is for.
func (b *Block) Stream() uint64 { return b.shelf.stream }

// Before returns the allocated block before b in its segment, or nil.
func (b *Block) Before() *Block {
	if b.prev == nil || b.prev.state == free || b.prev.state == unmapped {
		return nil
	}
	return b.prev
}
