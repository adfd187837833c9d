package bfc

import (
	"errors"

	"gpuconf/gocore/status"
)

// Check walks every invariant of the package comment and gives an Internal error that names the first broken one by
// number. It takes time in proportion to the number of chunks and holds the mutex.
func (a *Allocator) Check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	c := checker{a: a, records: a.chunks.records, state: make([]recordState, a.chunks.fresh), ids: make(map[uint64]bool)}
	for _, check := range []func() error{
		c.regions, c.chunks, c.homes, c.index, c.recycled, c.books, c.streams,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// recordState is what a check has found out about a chunk record.
type recordState uint8

const (
	unseen recordState = iota
	inRegionFree
	inRegionLive
	fence
	inRegionHeld // freed, but not free
	inClass      // and free in a region
	inQueue      // and in a class
	unused
)

// checker is one run of Check. Later checks rely on what earlier ones found.
type checker struct {
	a       *Allocator
	records []chunk
	state   []recordState
	ids     map[uint64]bool

	home Stream // whose bins are looked at
	b    *bins

	live, free     uint64 // chunks
	listed         uint64 // free chunks found in classes
	inUse, request uint64 // bytes
	largestFree    uint64
}

func broken(invariant int, format string, args ...any) error {
	return status.Errorf(status.Internal, "invariant %d of bfc is broken: %w", invariant,
		status.Errorf(status.Internal, format, args...))
}

// regions checks invariants 1, 11 and 12.
func (c *checker) regions() error {
	var sum, end uint64
	for _, r := range c.a.regions {
		if r.addr == 0 || r.addr < end || r.bytes == 0 || r.addr%granularity != 0 || r.bytes%granularity != 0 || r.end() < r.addr {
			return broken(1, "region of %d bytes at %#x after one that ends at %#x", r.bytes, r.addr, end)
		}
		if c.a.space.holds(r.addr) && (r.addr == end || r.addr%c.a.space.granule != 0 || r.bytes%c.a.space.granule != 0 || !c.a.space.holds(r.end()-1)) {
			return broken(12, "region of %d bytes at %#x in the range at %#x after one that ends at %#x", r.bytes, r.addr, c.a.space.addr, end)
		}
		end = r.end()
		sum += r.bytes
	}
	if sum != c.a.stats.BytesReserved {
		return broken(1, "the regions have %d bytes, the books say %d", sum, c.a.stats.BytesReserved)
	}
	if sum += c.a.spareBytesLocked(); sum > c.a.limitBytes {
		return broken(11, "%d bytes are reserved, the limit is %d", sum, c.a.limitBytes)
	}
	return nil
}

// chunks checks invariants 2, 3, 4 and 10, and adds up for the others.
func (c *checker) chunks() error {
	for _, r := range c.a.regions {
		end, before := r.addr, none
		for i := r.first; i != r.fence; i = c.records[i].next {
			if i == none || i >= c.a.chunks.fresh || c.state[i] != unseen {
				return broken(2, "chunk %d of the region at %#x is no chunk or was seen before", i, r.addr)
			}
			if err := c.chunk(i, before, end); err != nil {
				return err
			}
			end, before = c.records[i].addr+c.records[i].bytes, i
		}
		if end != r.end() {
			return broken(2, "the chunks of the region at %#x end at %#x, not at %#x", r.addr, end, r.end())
		}
		if f := &c.records[r.fence]; !f.fence() || f.addr != end || f.bytes != 0 || f.prev != before || f.next != none {
			return broken(2, "the fence of the region at %#x stands at %#x above %d and has %d bytes", r.addr, f.addr, f.prev, f.bytes)
		}
		c.state[r.fence] = fence
	}
	return nil
}

func (c *checker) chunk(i, before uint32, end uint64) error {
	x := &c.records[i]
	if x.addr != end || x.prev != before || x.bytes == 0 || x.bytes%granularity != 0 || x.fence() {
		return broken(2, "chunk %d at %#x has %d bytes and lies above %d; %#x above %d was due", i, x.addr, x.bytes, x.prev, end, before)
	}
	if x.free() {
		if before != none && c.records[before].free() && c.a.homeOf(before) == c.a.homeOf(i) {
			return broken(4, "chunk %d at %#x and the one below are both free", i, x.addr)
		}
		c.state[i] = inRegionFree
		c.free++
		c.largestFree = max(c.largestFree, x.bytes)
		return nil
	}
	if x.held() {
		c.state[i] = inRegionHeld
		return nil
	}
	c.state[i] = inRegionLive
	c.live++
	c.inUse += x.bytes
	c.request += x.requested
	return c.block(i)
}

func (c *checker) block(i uint32) error {
	x := &c.records[i]
	if x.requested > x.bytes {
		return broken(3, "block of %d bytes at %#x serves %d", x.bytes, x.addr, x.requested)
	}
	if id := x.id(); id == 0 || id > c.a.lastID || c.ids[id] {
		return broken(3, "block at %#x has id %d, the last one given is %d, seen before: %v", x.addr, id, c.a.lastID, c.ids[id])
	}
	c.ids[x.id()] = true
	if rounded, ok := roundUp(x.requested); !ok || c.a.split.splits(x.bytes, rounded) {
		return broken(10, "block of %d bytes at %#x serves %d: it should have been split", x.bytes, x.addr, x.requested)
	}
	return nil
}

// homes checks invariant 5 for all bins.
func (c *checker) homes() error {
	homes := map[Stream]*bins{clean: &c.a.bins} // in single mode; see homeOf
	if c.a.shared {
		homes = map[Stream]*bins{clean: c.a.cleanBins}
		for s := range c.a.streams {
			if b := c.a.streams[s].bins; b != nil {
				homes[Stream(s)] = b
			}
		}
	}
	for s, b := range homes {
		c.home, c.b = s, b
		if err := errors.Join(c.summaries(), c.classes()); err != nil {
			return err
		}
	}
	if c.listed != c.free {
		return broken(5, "%d chunks are free, %d are in classes", c.free, c.listed)
	}
	return nil
}

// homeOf tells whose bins a free chunk hangs in; in single mode there is one answer.
func (a *Allocator) homeOf(i uint32) Stream {
	if a.shared {
		return a.tags[i].stream
	}
	return clean
}

// summaries checks the second half of invariant 6.
func (c *checker) summaries() error {
	b := &c.b.t.nonEmpty
	for i, w := range b.low {
		leaves := b.leaf[i<<6 : i<<6+64]
		var any uint64
		for _, leaf := range leaves {
			any |= leaf
		}
		for j, leaf := range leaves {
			if any|w == 0 {
				break // as most of them
			}
			if (leaf != 0) != (w>>j&1 != 0) {
				return broken(6, "leaf word %d is %#x, its bit says otherwise", i<<6+j, leaf)
			}
		}
		if (w != 0) != (b.top>>i&1 != 0) {
			return broken(6, "low word %d is %#x, its bit says otherwise", i, w)
		}
	}
	return nil
}

// classes checks the first halves of invariants 5 and 6: a set bit with chunks in its class for each, each of them free and of this home.
func (c *checker) classes() error {
	b := c.b
	for k := uint32(0); k < classCount; k++ {
		if k = b.t.nonEmpty.next(k); k == noClass {
			break
		}
		head := b.t.heads[k]
		if head == none {
			return broken(6, "class %d is marked but empty", k)
		}
		walk := c.list
		if b.heaps && exact(k) {
			walk = c.heap
		}
		if err := walk(k, head); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) list(k, head uint32) error {
	before := none
	for i := head; i != none; i = c.records[i].binNext {
		if err := c.member(k, i, before); err != nil {
			return err
		}
		if before != none && !exact(k) && c.b.less(i, before) {
			return broken(5, "chunks %d and %d in the list of class %d are out of order", before, i, k)
		}
		before = i
	}
	return nil
}

// heap walks a heap; todo holds the chunks whose children are still to be seen.
func (c *checker) heap(k, root uint32) error {
	if err := c.member(k, root, none); err != nil {
		return err
	}
	for todo := []uint32{root}; len(todo) > 0; {
		parent := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		before := parent
		for i := c.b.heap.children[parent]; i != none; i = c.records[i].binNext {
			if err := c.member(k, i, before); err != nil {
				return err
			}
			if c.b.less(i, parent) {
				return broken(5, "chunk %d in the heap of class %d lies below its parent %d", i, k, parent)
			}
			before = i
			todo = append(todo, i)
		}
	}
	return nil
}

// member checks one chunk of class k that is linked behind before.
func (c *checker) member(k, i, before uint32) error {
	if i >= c.a.chunks.fresh || c.state[i] != inRegionFree {
		return broken(5, "chunk %d in class %d is not free, or in a class twice", i, k)
	}
	if home := c.a.homeOf(i); home != c.home {
		return broken(5, "chunk %d is in the bins of stream %d and says %d", i, c.home, home)
	}
	c.state[i] = inClass
	c.listed++
	if x := &c.records[i]; x.binPrev != before || class(x.bytes) != k {
		return broken(5, "chunk %d of %d bytes in class %d comes after %d, not %d", i, x.bytes, k, x.binPrev, before)
	}
	return nil
}

// index checks invariant 7. As many slots as live chunks, each found where it is, means: every live chunk, once.
func (c *checker) index() error {
	x := &c.a.index
	var held uint64
	for at, s := range x.slots {
		if s.chunk == none {
			continue
		}
		held++
		if s.chunk >= c.a.chunks.fresh || c.state[s.chunk] != inRegionLive {
			return broken(7, "the index holds %d, which is no live chunk", s.chunk)
		}
		addr := c.records[s.chunk].addr
		if found, ok := x.find(addr); !ok || found != at {
			return broken(7, "the chunk at %#x is in slot %d; looking for it gave %d, %v", addr, at, found, ok)
		}
	}
	if held != c.live || uint64(x.live) != c.live || 2*held > uint64(len(x.slots)) {
		return broken(7, "%d chunks are live; %d of %d slots are held, %d counted", c.live, held, len(x.slots), x.live)
	}
	return nil
}

// recycled checks invariant 8.
func (c *checker) recycled() error {
	for i := c.a.chunks.recycled; i != none; i = c.records[i].next {
		if i >= c.a.chunks.fresh || c.state[i] != unseen {
			return broken(8, "unused record %d is in use, or unused twice", i)
		}
		c.state[i] = unused
	}
	for i, s := range c.state[none+1:] {
		if s == unseen {
			return broken(8, "record %d is nowhere", i+1)
		}
	}
	return nil
}

// books checks invariant 9.
func (c *checker) books() error {
	s := &c.a.stats
	if s.BytesInUse != c.inUse || s.RequestedBytesInUse != c.request {
		return broken(9, "%d blocks of %d bytes serve %d; the books say %d, %d", c.live, c.inUse, c.request, s.BytesInUse, s.RequestedBytesInUse)
	}
	if s.PeakBytesInUse < c.inUse || s.PeakBytesReserved < s.BytesReserved+c.a.spareBytesLocked() || c.a.peaks.running < c.inUse {
		return broken(9, "a peak (%d, %d, %d) is below what it is the peak of (%d, %d)",
			s.PeakBytesInUse, s.PeakBytesReserved, c.a.peaks.running, c.inUse, s.BytesReserved)
	}
	if least := c.a.peaks.least; least > min(s.PeakBytesInUse, c.a.peaks.running) {
		return broken(9, "what is in use may grow to %d unseen, beyond a peak (%d, %d)", least, s.PeakBytesInUse, c.a.peaks.running)
	}
	if largest := c.a.largestFreeLocked(); largest != c.largestFree {
		return broken(9, "the largest free chunk has %d bytes, the search says %d", c.largestFree, largest)
	}
	return nil
}
