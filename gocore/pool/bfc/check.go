// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
	"gpuconf/gocore/pool/figures"
)

// Check verifies the invariants of the package comment, except 17 to 19, and returns an Internal error that names the
// first broken one by number. It takes time proportional to the number of chunks and holds the mutex.
func (a *Allocator) Check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	c := checker{a: a, records: a.chunks.Records, state: make([]recordState, a.chunks.Used()),
		ids:  make(map[uint64]bool),
		rows: make(map[holder.ID]*UsageRow)}
	for _, check := range []func() error{
		c.regions, c.chunks, c.homes, c.index, c.recycled, c.accounting, c.streams,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// recordState is what a check has found out about a chunk record so far.
type recordState uint8

const (
	unseen recordState = iota
	inRegionFree
	inRegionLive
	fence
	inRegionHeld // freed by its caller, but still in use by other streams
	inClass      // free in a region, and found in bins
	inQueue      // in bins, and found in a stream's queue
	unused
)

// checker is one run of Check. Later checks rely on what earlier ones found.
type checker struct {
	a       *Allocator
	records []chunks.Chunk
	state   []recordState
	ids     map[uint64]bool

	live, free     uint64 // chunks
	listed         uint64 // free chunks found in classes
	inUse, request uint64 // bytes
	rows           map[holder.ID]*UsageRow
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
		if r.addr == 0 || r.addr < end || r.bytes == 0 || r.addr%chunks.Granularity != 0 ||
			r.bytes%chunks.Granularity != 0 || r.end() < r.addr {
			return broken(1, "region of %d bytes at %#x after one that ends at %#x", r.bytes, r.addr, end)
		}
		if c.a.space.holds(r.addr) && (r.addr == end || r.addr%c.a.space.granule != 0 ||
			r.bytes%c.a.space.granule != 0 || !c.a.space.holds(r.end()-1)) {
			return broken(12, "region of %d bytes at %#x in the range at %#x after one that ends at %#x", r.bytes,
				r.addr, c.a.space.addr, end)
		}
		end = r.end()
		sum += r.bytes
	}
	if sum != c.a.stats.BytesReserved {
		return broken(1, "the regions have %d bytes, the counter says %d", sum, c.a.stats.BytesReserved)
	}
	if sum += c.a.spareBytesLocked(); sum > c.a.limitBytes {
		return broken(11, "%d bytes are reserved, the limit is %d", sum, c.a.limitBytes)
	}
	return nil
}

// chunks checks invariants 2, 3, 4 and 10, and collects the sums that the other checks need.
func (c *checker) chunks() error {
	for _, r := range c.a.regions {
		end, before := r.addr, chunks.None
		for i := r.first; i != r.fence; i = c.records[i].Next {
			if i == chunks.None || i >= c.a.chunks.Used() || c.state[i] != unseen {
				return broken(2, "chunk %d of the region at %#x is not a chunk or was seen before", i, r.addr)
			}
			if err := c.chunk(i, before, end); err != nil {
				return err
			}
			end, before = c.records[i].Addr()+c.records[i].Bytes(), i
		}
		if end != r.end() {
			return broken(2, "the chunks of the region at %#x end at %#x, not at %#x", r.addr, end, r.end())
		}
		if f := &c.records[r.fence]; !f.Fence() || f.Addr() != end || f.Bytes() != 0 || f.Prev != before ||
			f.Next != chunks.None {
			return broken(2, "the fence of the region at %#x stands at %#x above %d and has %d bytes", r.addr, f.Addr(),
				f.Prev, f.Bytes())
		}
		c.state[r.fence] = fence
	}
	return nil
}

func (c *checker) chunk(i, before uint32, end uint64) error {
	x := &c.records[i]
	if x.Addr() != end || x.Prev != before || x.Bytes() == 0 || x.Bytes()%chunks.Granularity != 0 || x.Fence() {
		return broken(2, "chunk %d at %#x has %d bytes and lies above %d; expected %#x above %d", i, x.Addr(),
			x.Bytes(), x.Prev, end, before)
	}
	if x.Free() {
		if before != chunks.None && c.records[before].Free() && c.a.homeOf(before) == c.a.homeOf(i) {
			return broken(4, "chunk %d at %#x and the one below are both free", i, x.Addr())
		}
		c.state[i] = inRegionFree
		c.free++
		c.largestFree = max(c.largestFree, x.Bytes())
		return nil
	}
	if x.Held() {
		c.state[i] = inRegionHeld
		return nil
	}
	c.state[i] = inRegionLive
	c.live++
	c.inUse += x.Bytes()
	c.request += c.a.chunks.Requested(i)
	if c.rows[x.Holder()] == nil {
		c.rows[x.Holder()] = &UsageRow{}
	}
	c.rows[x.Holder()].Bytes += x.Bytes()
	c.rows[x.Holder()].Blocks++
	return c.block(i)
}

func (c *checker) block(i uint32) error {
	x := &c.records[i]
	requested := c.a.chunks.Requested(i)
	if requested == 0 || requested > x.Bytes() {
		return broken(3, "block of %d bytes at %#x serves %d", x.Bytes(), x.Addr(), requested)
	}
	if id := x.ID(); id == 0 || id > c.a.lastID || c.ids[id] {
		return broken(3, "block at %#x has id %d, the last one assigned is %d, seen before: %v", x.Addr(), id,
			c.a.lastID, c.ids[id])
	}
	c.ids[x.ID()] = true
	if rounded, ok := chunks.RoundUp(requested); !ok || c.a.split.splits(x.Bytes(), rounded) {
		return broken(10, "block of %d bytes at %#x serves %d: it should have been split", x.Bytes(),
			x.Addr(), requested)
	}
	return nil
}

// homes checks invariant 5 for all bins.
func (c *checker) homes() error {
	homes := map[Stream]*chunks.Bins{clean: &c.a.bins} // in single mode; see homeOf
	if c.a.shared {
		homes = map[Stream]*chunks.Bins{clean: c.a.cleanBins}
		for s := range c.a.streams {
			if b := c.a.streams[s].bins; b != nil {
				homes[Stream(s)] = b
			}
		}
	}
	for home, b := range homes {
		if err := b.Check(func(i uint32) error { return c.inBins(home, i) }); err != nil {
			return err
		}
	}
	if c.listed != c.free {
		return broken(5, "%d chunks are free, %d are in bins", c.free, c.listed)
	}
	return nil
}

// homeOf returns the stream whose bins hold a free chunk. In single mode it is clean for every chunk.
func (a *Allocator) homeOf(i uint32) Stream {
	if a.shared {
		return a.tags[i].stream
	}
	return clean
}

// inBins checks one chunk that is in the bins of home: invariant 5.
func (c *checker) inBins(home Stream, i uint32) error {
	if i >= c.a.chunks.Used() || c.state[i] != inRegionFree {
		return broken(5, "chunk %d in the bins of stream %d is not free, or in bins twice", i, home)
	}
	if owner := c.a.homeOf(i); owner != home {
		return broken(5, "chunk %d of stream %d is in the bins of stream %d", i, owner, home)
	}
	c.state[i] = inClass
	c.listed++
	return nil
}

// index checks invariant 7. The index finds each of its chunks in one slot. So if all of them are live, and there are
// as many as there are live chunks, the index holds exactly the live chunks.
func (c *checker) index() error {
	err := c.a.index.Check(func(i uint32) error {
		if i >= c.a.chunks.Used() || c.state[i] != inRegionLive {
			return broken(7, "the index holds %d, which is not a live chunk", i)
		}
		return nil
	})
	if err == nil && uint64(c.a.index.Count()) != c.live {
		return broken(7, "%d chunks are live, the index holds %d", c.live, c.a.index.Count())
	}
	return err
}

// recycled checks invariant 8.
func (c *checker) recycled() error {
	err := c.a.chunks.EachRecycled(func(i uint32) error {
		if i >= c.a.chunks.Used() || c.state[i] != unseen {
			return broken(8, "unused record %d is in use, or unused twice", i)
		}
		c.state[i] = unused
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range c.state[chunks.None+1:] {
		if s == unseen {
			return broken(8, "record %d is neither in a region nor on the list of unused records", i+1)
		}
	}
	return nil
}

// holders checks the rows of invariant 9.
func (c *checker) holders() error {
	seen := 0
	for by := range c.a.rows {
		r, want := &c.a.rows[by], UsageRow{}
		if sum := c.rows[holder.ID(by)]; sum != nil {
			want = *sum
		}
		if r.bytes != want.Bytes || r.blocks != want.Blocks || r.bytes > 0 && !r.seen {
			return broken(9, "holder %d has %d bytes in %d blocks; its row says %d in %d", by, want.Bytes, want.Blocks,
				r.bytes, r.blocks)
		}
		if r.seen {
			seen++
		}
		if err := r.peaks.check(r.bytes); err != nil {
			return err
		}
	}
	if seen != len(c.a.seen) {
		return broken(9, "%d rows were used, the list has %d", seen, len(c.a.seen))
	}
	return nil
}

func (p *peaks) check(inUse uint64) error {
	if p.recent < inUse || p.running < inUse {
		return broken(9, "a peak (%d, %d) is below the current value (%d)", p.recent, p.running, inUse)
	}
	if p.least > min(p.recent, p.running) {
		return broken(9, "bytes in use may grow to %d without raising a peak (%d, %d)", p.least, p.recent, p.running)
	}
	return nil
}

// published checks the live figures, as a part of invariant 9.
func (c *checker) published() error {
	want := figures.Pool{Limit: c.a.live.Limit, Reserved: c.a.stats.BytesReserved + c.a.spareBytesLocked(),
		Peak: c.a.peaks.recent}
	for by := range c.a.rows {
		want.Libraries[holder.ID(by).Library()] += c.a.rows[by].bytes
	}
	if *c.a.live != want {
		return broken(9, "the published figures %+v differ from the counters %+v", *c.a.live, want)
	}
	return nil
}

// accounting checks invariant 9.
func (c *checker) accounting() error {
	s := &c.a.stats
	if s.BytesInUse != c.inUse || s.RequestedBytesInUse != c.request {
		return broken(9, "%d blocks of %d bytes serve %d; the counters say %d, %d", c.live, c.inUse, c.request,
			s.BytesInUse, s.RequestedBytesInUse)
	}
	if s.PeakBytesReserved < s.BytesReserved+c.a.spareBytesLocked() {
		return broken(9, "the peak of reserved bytes (%d) is below the current value (%d)", s.PeakBytesReserved,
			s.BytesReserved)
	}
	if err := c.a.peaks.check(c.inUse); err != nil {
		return err
	}
	if err := c.published(); err != nil {
		return err
	}
	if err := c.holders(); err != nil {
		return err
	}
	if largest := c.a.largestFreeLocked(); largest != c.largestFree {
		return broken(9, "the largest free chunk has %d bytes, the search says %d", c.largestFree, largest)
	}
	return nil
}

// streams checks invariants 13 to 16.
func (c *checker) streams() error {
	a := c.a
	for s := range a.streams {
		st := &a.streams[s]
		if st.queued > st.marks || st.passed > st.marks || st.state == ended && st.queued != st.marks {
			return broken(15, "stream %d (state %d): %d marks tried, %d queued, %d passed", s, st.state, st.marks,
				st.queued, st.passed)
		}
		for other, mark := range st.follows {
			if mark > a.streams[other].queued {
				return broken(15, "stream %d waits for mark %d of stream %d, which has %d", s, mark, other,
					a.streams[other].queued)
			}
		}
	}
	if !a.shared {
		return nil
	}
	refs := make([]uint64, len(a.streams))
	for s := range a.streams {
		if st := &a.streams[s]; st.state == private {
			refs[st.of]++
		}
	}
	awaited, err := c.uses(refs)
	if err != nil {
		return err
	}
	for s := range a.streams {
		if a.streams[s].refs != refs[s] {
			return broken(16, "stream %d has %d chunks, uses and captures, the counter says %d", s, refs[s],
				a.streams[s].refs)
		}
		if err := c.owned(Stream(s)); err != nil {
			return err
		}
		n, err := c.awaited(Stream(s))
		if err != nil {
			return err
		}
		awaited -= n
	}
	if awaited != 0 {
		return broken(14, "%d uses of held chunks are in no queue", awaited)
	}
	return c.ownedByNobody()
}

// uses checks the lists of uses and counts the references to each stream. awaited is the number of uses of held chunks.
func (c *checker) uses(refs []uint64) (awaited int, err error) {
	a := c.a
	seen := make([]bool, len(a.uses))
	seen[chunks.None] = true
	note := func(u uint32) bool {
		fresh := int(u) < len(seen) && !seen[u]
		if fresh {
			seen[u] = true
		}
		return fresh
	}
	for i, state := range c.state {
		if state != inRegionLive && state != inRegionHeld {
			continue
		}
		t := &a.tags[i]
		refs[t.stream]++
		users := map[Stream]bool{t.stream: true}
		for u := t.uses; u != chunks.None; u = a.uses[u].next {
			if !note(u) || a.uses[u].chunk != uint32(i) || users[a.uses[u].stream] {
				return 0, broken(14, "use %d (%+v) of chunk %d of stream %d", u, a.uses[u], i, t.stream)
			}
			users[a.uses[u].stream] = true
			refs[a.uses[u].stream]++
			if state == inRegionHeld {
				awaited++
			}
		}
		if state == inRegionHeld && len(users) == 1 {
			return 0, broken(14, "held chunk %d has no uses", i)
		}
	}
	for u := a.uses[chunks.None].next; u != chunks.None; u = a.uses[u].next {
		if !note(u) {
			return 0, broken(14, "unused record %d is in use, or on the list twice", u)
		}
	}
	for u, ok := range seen {
		if !ok {
			return 0, broken(14, "use %d is in no list", u)
		}
	}
	return awaited, nil
}

// owned checks a stream's queue of free chunks against its bins.
func (c *checker) owned(s Stream) error {
	a, st := c.a, &c.a.streams[s]
	var bytes, mark uint64
	before := chunks.None
	for i := st.owned.oldest; i != chunks.None; i = a.tags[i].after {
		t := &a.tags[i]
		if c.state[i] != inClass || t.stream != s || t.before != before || t.mark < mark || t.mark > st.nextMark() {
			return broken(13, "chunk %d (%+v, state %d) in the queue of stream %d after %d, which waits for mark %d", i,
				*t, c.state[i], s, before, mark)
		}
		c.state[i] = inQueue
		bytes, mark, before = bytes+c.records[i].Bytes(), t.mark, i
	}
	if st.owned.newest != before || bytes != st.freeBytes {
		return broken(13, "the queue of stream %d ends with %d and has %d bytes; the counters say %d and %d", s, before,
			bytes, st.owned.newest, st.freeBytes)
	}
	return nil
}

// awaited checks a stream's queue of uses and returns its length.
func (c *checker) awaited(s Stream) (length int, err error) {
	a, st := c.a, &c.a.streams[s]
	var mark uint64
	before := chunks.None
	for u := st.awaited.oldest; u != chunks.None; u = a.uses[u].after {
		n := &a.uses[u]
		if c.state[n.chunk] != inRegionHeld || n.stream != s || n.before != before || n.mark < mark ||
			n.mark > st.nextMark() {
			return 0, broken(14, "use %d (%+v) in the queue of stream %d after %d, which waits for mark %d", u, *n, s,
				before, mark)
		}
		length, mark, before = length+1, n.mark, u
	}
	if st.awaited.newest != before {
		return 0, broken(14, "the queue of uses of stream %d ends with %d, not %d", s, before, st.awaited.newest)
	}
	return length, nil
}

// ownedByNobody checks that free chunks in no queue are clean.
func (c *checker) ownedByNobody() error {
	var bytes uint64
	for i, state := range c.state {
		if state != inClass {
			continue
		}
		if c.a.tags[i].stream != clean {
			return broken(13, "free chunk %d of stream %d is in no queue", i, c.a.tags[i].stream)
		}
		bytes += c.records[i].Bytes()
	}
	if bytes != c.a.cleanBytes {
		return broken(13, "%d bytes are clean, the counter says %d", bytes, c.a.cleanBytes)
	}
	return nil
}
