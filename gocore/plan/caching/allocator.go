// SPDX-License-Identifier: Apache-2.0

package caching

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrOutOfMemory means that neither cached blocks nor the device have the memory that a request needs.
var ErrOutOfMemory = errors.New("out of memory")

// Device provides memory. It reports with ok false that it has none left.
type Device interface {
	MemAlloc(bytes uint64) (addr uint64, ok bool)
	MemFree(addr, bytes uint64)
	// MemReserve reserves addresses for an expandable segment, without memory. A Device that has no such segments
	// returns 0.
	MemReserve(stream uint64, small bool) (addr, bytes uint64)
	MemMap(addr, bytes uint64) (ok bool)
	MemUnmap(addr, bytes uint64)
}

// Options configure an Allocator.
type Options struct {
	Settings Settings // of PYTORCH_CUDA_ALLOC_CONF
	// TiesByAge prefers, among free blocks of one size, one in the oldest segment, as PyTorch does since 2.15. Without
	// it, the block at the lowest address is taken.
	TiesByAge  bool
	LimitBytes uint64 // as torch.cuda.set_per_process_memory_fraction sets it; 0: none
}

// Request describes an allocation.
type Request struct {
	Bytes  uint64 // the size, before it is rounded
	Stream uint64 // the stream that the block is allocated on
	Pool   PoolID // a private pool; the zero value is the default pool
}

// Allocator is the caching allocator of one device.
type Allocator struct {
	device   Device
	settings Settings
	limit    uint64 // 0: none
	ties     order
	reserved uint64
	granted  uint64 // the most that would have been reserved with a request that the limit allowed
	refused  uint64 // the least, with one that it did not allow
	numbers  uint64 // the newest segment's number
	ages     ages   // of the restored segments, which have the numbers from 1 on

	shelves  map[shelfKey]*shelf
	recent   [2]*shelf // that was used last, of large blocks and of small ones: most requests find theirs here
	order    []*shelf  // as PyTorch walks them: by pool, large before small, then by stream
	searches map[shelfKey]*uint64
	left     map[PoolID]bool // private pools whose graphs are gone
	segments map[*segment]struct{}
	spare    []*Block
}

// New returns an Allocator without segments.
func New(device Device, options Options) *Allocator {
	ties := sizeAddr
	if options.TiesByAge {
		ties = sizeAgeAddr
	}
	return &Allocator{
		ties: ties, device: device, settings: options.Settings, limit: options.LimitBytes, refused: math.MaxUint64,
		shelves: map[shelfKey]*shelf{}, searches: map[shelfKey]*uint64{}, segments: map[*segment]struct{}{},
		left: map[PoolID]bool{},
	}
}

// Reserved returns the bytes taken from the device.
func (a *Allocator) Reserved() uint64 { return a.reserved }

// Alike returns the limits under which the allocator would have done the same so far, from low to high.
func (a *Allocator) Alike() (low, high uint64) {
	if a.settings.GarbageThreshold > 0 {
		return a.limit, a.limit
	}
	return a.granted, a.refused - 1
}

// Allocate serves a request. It fails with ErrOutOfMemory.
func (a *Allocator) Allocate(r Request) (*Block, error) {
	rounded := a.settings.Round(r.Bytes)
	shelf := a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream})
	b := a.fit(shelf, rounded)
	if b == nil {
		if b = a.grow(shelf, rounded); b == nil {
			return nil, ErrOutOfMemory
		}
	}
	return a.take(b, rounded), nil
}

// AllocateNew serves a request with memory from the device, even if a free block holds it. It fails with
// ErrOutOfMemory.
func (a *Allocator) AllocateNew(r Request) (*Block, error) {
	rounded := a.settings.Round(r.Bytes)
	b := a.newMemory(a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream}), rounded)
	if b == nil {
		return nil, ErrOutOfMemory
	}
	return a.take(b, rounded), nil
}

// take hands out a block that is on no shelf, and puts the rest of it back.
func (a *Allocator) take(b *Block, rounded uint64) *Block {
	if rest := b.Bytes - rounded; a.settings.splits(b.shelf.small, rounded, rest) {
		a.put(a.cut(b, rounded))
	}
	b.state = allocated
	return b
}

// grow gets a new block from the device, and releases cached memory if the device has no more.
func (a *Allocator) grow(s *shelf, rounded uint64) *Block {
	if a.collects() {
		a.collectGarbage()
	}
	if b := a.newMemory(s, rounded); b != nil {
		return b
	}
	if a.releaseOversize(s, rounded) {
		if b := a.newMemory(s, rounded); b != nil {
			return b
		}
	}
	a.ReleaseCached()
	return a.newMemory(s, rounded)
}

// newMemory takes a segment, or maps memory of an expandable one.
func (a *Allocator) newMemory(s *shelf, rounded uint64) *Block {
	bytes := a.settings.segmentFor(rounded)
	if a.limit > 0 && a.reserved+bytes > a.limit {
		a.refused = min(a.refused, a.reserved+bytes)
		return nil
	}
	a.granted = max(a.granted, a.reserved+bytes)
	if a.settings.ExpandableSegments {
		return a.expand(s, rounded)
	}
	addr, ok := a.device.MemAlloc(bytes)
	if !ok {
		return nil
	}
	a.reserved += bytes
	return a.newSegment(Block{Addr: addr, Bytes: bytes, shelf: s}, false)
}

// newSegment adds a segment that is one block.
func (a *Allocator) newSegment(whole Block, expandable bool) *Block {
	a.numbers++
	whole.segment = &segment{addr: whole.Addr, bytes: whole.Bytes, expandable: expandable, number: a.numbers}
	whole.segment.head = a.newBlock(whole)
	a.segments[whole.segment] = struct{}{}
	return whole.segment.head
}

// Free returns an allocated or waiting block to its shelf.
func (a *Allocator) Free(b *Block) {
	b.state = free
	a.settle(b)
}

// FreeLater records that the program has freed a block that another stream still uses. It is free after Free.
func (a *Allocator) FreeLater(b *Block) { b.state = waiting }

func (a *Allocator) shelf(key shelfKey) *shelf {
	recent := &a.recent[0]
	if key.small {
		recent = &a.recent[1]
	}
	if *recent == nil || (*recent).shelfKey != key {
		*recent = a.shelfOf(key)
	}
	return *recent
}

// shelfOf finds a shelf, or makes it.
func (a *Allocator) shelfOf(key shelfKey) *shelf {
	if s := a.shelves[key]; s != nil {
		return s
	}
	group := shelfKey{pool: key.pool, small: key.small}
	if a.searches[group] == nil {
		a.searches[group] = new(uint64)
	}
	s := &shelf{shelfKey: key, free: ordered{by: a.ties}, unmapped: ordered{by: addrOnly}, counted: a.searches[group]}
	a.shelves[key] = s
	i, _ := slices.BinarySearchFunc(a.order, s, byWalk)
	a.order = slices.Insert(a.order, i, s)
	return s
}

// byWalk orders shelves as PyTorch walks them.
func byWalk(a, b *shelf) int {
	switch {
	case a.pool != b.pool:
		return slices.Compare(a.pool[:], b.pool[:])
	case a.small != b.small:
		if b.small {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.stream, b.stream)
}

// fit takes the free block that serves a request from its shelf, or returns nil.
func (a *Allocator) fit(s *shelf, rounded uint64) *Block {
	if a.collects() {
		*s.counted++
	}
	b := a.bestFit(s, rounded)
	if b == nil || a.settings.oversize(rounded, b.Bytes) {
		return nil
	}
	s.free.remove(b)
	return b
}

// bestFit returns the smallest block that is large enough, and of several the lowest.
func (a *Allocator) bestFit(s *shelf, rounded uint64) (best *Block) {
	for b := range s.free.from(key{first: rounded}) {
		switch {
		case b.segment.expandable && !a.settings.ExpandableSegments:
			continue // expandable segments have been turned off: they only get blocks back
		case best == nil:
			best = b
			if !a.settings.ExpandableSegments || !best.segment.expandable {
				return best
			}
		// The size of a block that can grow is the size that it can grow to. It is taken only if no block is smaller
		// than that.
		case room(b) < room(best):
			best = b
			if !best.segment.expandable {
				return best
			}
		default:
			return best
		}
	}
	return best
}

// room is the size that a block can grow to.
func room(b *Block) uint64 {
	if b.next != nil && b.next.state == unmapped {
		return b.Bytes + b.next.Bytes
	}
	return b.Bytes
}

// ReleaseCached releases every segment without allocated blocks, and the unused granules of expandable ones, as
// torch.cuda.empty_cache() does. Private pools keep theirs: PyTorch waits until the graphs that use them are gone,
// which Leave says.
func (a *Allocator) ReleaseCached() {
	for _, s := range a.order {
		if s.pool != (PoolID{}) && !a.left[s.pool] {
			continue
		}
		for _, b := range s.free.all() {
			if b.segment.expandable {
				a.unmap(b)
			} else if b.whole() {
				a.release(b)
			}
		}
	}
}

// Leave lets ReleaseCached release what a private pool has, too: nothing uses the pool any more.
func (a *Allocator) Leave(pool PoolID) { a.left[pool] = true }

// release releases a segment that is one free block.
func (a *Allocator) release(b *Block) {
	b.shelf.free.remove(b)
	a.device.MemFree(b.Addr, b.Bytes)
	a.reserved -= b.Bytes
	a.drop(b)
}

// drop forgets a segment that is one block.
func (a *Allocator) drop(b *Block) {
	delete(a.segments, b.segment)
	a.spare = append(a.spare, b)
}

// ReleaseOversize releases what an allocation that finds no memory releases first.
func (a *Allocator) ReleaseOversize(r Request) {
	rounded := a.settings.Round(r.Bytes)
	a.releaseOversize(a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream}), rounded)
}

// releaseOversize releases cached blocks that may not be split: one that is large enough for the request, or as many of
// the largest as are together. It reports whether the request may fit now.
func (a *Allocator) releaseOversize(s *shelf, rounded uint64) bool {
	if a.settings.MaxSplitBytes == 0 {
		return false
	}
	target := max(rounded, a.settings.MaxSplitBytes)
	for b := range s.free.from(key{first: target}) {
		if b.segment.expandable {
			return false
		}
		a.release(b)
		return true
	}
	var released uint64
	for released < target {
		b := s.free.last()
		if b == nil || b.Bytes < a.settings.MaxSplitBytes || b.segment.expandable {
			break
		}
		released += b.Bytes
		a.release(b)
	}
	return released >= target
}

// collects reports whether cached blocks are released by age. That needs a limit.
func (a *Allocator) collects() bool { return a.limit > 0 && a.settings.GarbageThreshold > 0 }

// collectGarbage releases cached segments that have not been used for longest until the reserved memory is below the
// threshold.
func (a *Allocator) collectGarbage() {
	threshold := uint64(a.settings.GarbageThreshold * float64(a.limit))
	if a.reserved <= threshold {
		return
	}
	target := a.reserved - threshold
	var candidates []*Block
	var age uint64
	for _, s := range a.order {
		if s.pool != (PoolID{}) || s.small {
			continue
		}
		for _, b := range s.free.all() {
			if b.whole() {
				candidates = append(candidates, b)
				age += s.searches() - b.shelved
			}
		}
	}
	var collected uint64
	for collected < target && len(candidates) > 0 {
		mean := float64(age) / float64(len(candidates))
		var younger []*Block
		for _, b := range candidates {
			old := b.shelf.searches() - b.shelved
			if float64(old) < mean {
				younger = append(younger, b)
				continue
			}
			collected += b.Bytes
			age -= old
			a.release(b)
		}
		if len(younger) == len(candidates) {
			return
		}
		candidates = younger
	}
}

// Check returns an error that names the first broken invariant. Its time is proportional to the number of blocks.
func (a *Allocator) Check() error {
	var reserved uint64
	shelved := map[*Block]bool{}
	for _, s := range a.order {
		for _, list := range []*ordered{&s.free, &s.unmapped} {
			var before *Block
			for _, b := range list.all() {
				if before != nil && !list.keyOf(before).before(list.keyOf(b)) {
					return fmt.Errorf("the blocks at %#x and %#x are out of order", before.Addr, b.Addr)
				}
				if b.shelf != s || (b.state == unmapped) != (list == &s.unmapped) ||
					b.state != free && b.state != unmapped {
					return fmt.Errorf("the block at %#x is on the wrong shelf", b.Addr)
				}
				before, shelved[b] = b, true
			}
		}
	}
	for s := range a.segments {
		at := s.addr
		var before *Block
		for b := s.head; b != nil; before, b = b, b.next {
			switch {
			case b.Addr != at || b.Bytes == 0 || b.prev != before || b.segment != s:
				return fmt.Errorf("the segment at %#x has a gap at %#x", s.addr, at)
			case before != nil && before.state == b.state && (b.state == free || b.state == unmapped):
				return fmt.Errorf("the blocks at %#x and %#x are not merged", before.Addr, b.Addr)
			case (b.state == free || b.state == unmapped) != shelved[b]:
				return fmt.Errorf("the block at %#x is free and on no shelf, or the other way round", b.Addr)
			}
			at += b.Bytes
			if b.state != unmapped {
				reserved += b.Bytes
			}
		}
		if at != s.addr+s.bytes {
			return fmt.Errorf("the blocks of the segment at %#x have %d bytes, not %d", s.addr, at-s.addr, s.bytes)
		}
	}
	if reserved != a.reserved {
		return fmt.Errorf("the segments have %d bytes, and %d are counted", reserved, a.reserved)
	}
	return nil
}
