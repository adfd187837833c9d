// SPDX-License-Identifier: Apache-2.0

package caching

import (
	"cmp"
	"errors"
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
