// SPDX-License-Identifier: Apache-2.0

package caching

import (
	"math/bits"
	"slices"
	"sort"
)

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

// PoolID names a private pool. The zero value is the default pool.
type PoolID [2]uint64

// shelfKey names a shelf.
type shelfKey struct {
	pool   PoolID
	small  bool
	stream uint64
}

// shelf holds the free blocks that may serve the same requests.
type shelf struct {
	shelfKey
	free     ordered // by size, then by the age of the segment if ties go by age, then by address
	unmapped ordered // by address
	counted  *uint64 // searches of the pool's size group
}

func (s *shelf) searches() uint64 { return *s.counted }

// ordered is a sorted list of blocks in classes of keys, 64 to a power of two. Most of them hold few blocks, if any, so
// that few entries are compared and moved.
type ordered struct {
	classes  []class // up to the highest that was ever used
	nonEmpty [classWords]uint64
	by       order
}

const (
	classBits  = 6 // so many bits of a key, behind its leading one, tell classes apart
	classWords = (64-9)<<classBits/64 + 1
)

// classOf returns the number of a key's class. It never decreases from a key to the next.
func classOf(k key) int {
	units := k.first / leastBlock
	shift := max(bits.Len64(units)-classBits-1, 0)
	return shift<<classBits + int(units>>shift)
}

// class is the blocks of a class in runs, each of fewer than mostInRun entries. Only a run that is alone may be
// empty. An entry has its block's place in the order, so that a search stays within a run.
type class struct{ runs [][]entry }

// mostInRun bounds the entries that an insertion moves.
const mostInRun = 128

type order uint8

const (
	sizeAddr order = iota
	sizeAgeAddr
	addrOnly
)

type entry struct {
	key   key
	block *Block
}

type key struct{ first, second, third uint64 }

func (k key) before(other key) bool {
	if k.first != other.first {
		return k.first < other.first
	}
	return k.second < other.second || k.second == other.second && k.third < other.third
}

func (o *ordered) keyOf(b *Block) key {
	switch o.by {
	case addrOnly:
		return key{first: b.Addr}
	case sizeAgeAddr:
		return key{b.Bytes, b.segment.number, b.Addr}
	}
	return key{first: b.Bytes, third: b.Addr}
}

// next returns the number of the first class from c on that is not empty. It may be behind the last one.
func (o *ordered) next(c int) int {
	for word := c / 64; word < classWords; word, c = word+1, 0 {
		if w := o.nonEmpty[word] >> (c % 64); w != 0 {
			return word*64 + c%64 + bits.TrailingZeros64(w)
		}
	}
	return len(o.classes)
}

// at returns the place of the first entry that is not before k. It may be behind the last one of the last run.
func (c class) at(k key) (run, i int) {
	run = sort.Search(len(c.runs)-1, func(run int) bool { r := c.runs[run]; return !r[len(r)-1].key.before(k) })
	entries := c.runs[run]
	return run, sort.Search(len(entries), func(i int) bool { return !entries[i].key.before(k) })
}

func (o *ordered) insert(b *Block) {
	added := entry{o.keyOf(b), b}
	number := classOf(added.key)
	if more := number + 1 - len(o.classes); more > 0 {
		o.classes = append(o.classes, make([]class, more)...)
	}
	o.nonEmpty[number/64] |= 1 << (number % 64)
	c := &o.classes[number]
	if c.runs == nil {
		c.runs = make([][]entry, 1)
	}
	run, i := c.at(added.key)
	entries := append(c.runs[run], entry{})
	copy(entries[i+1:], entries[i:])
	entries[i] = added
	c.runs[run] = entries
	if full := c.runs[run]; len(full) == mostInRun {
		upper := append(make([]entry, 0, mostInRun), full[mostInRun/2:]...)
		clear(full[mostInRun/2:])
		c.runs[run] = full[:mostInRun/2]
		c.runs = slices.Insert(c.runs, run+1, upper)
	}
}

func (o *ordered) remove(b *Block) {
	k := o.keyOf(b)
	number := classOf(k)
	c := &o.classes[number]
	run, i := c.at(k)
	entries := c.runs[run]
	c.runs[run] = append(entries[:i], entries[i+1:]...)
	switch {
	case len(c.runs[run]) > 0:
	case len(c.runs) > 1:
		c.runs = slices.Delete(c.runs, run, run+1)
	default:
		o.nonEmpty[number/64] &^= 1 << (number % 64)
	}
}

// from iterates over the blocks that are not before a place in the order. The list must not change meanwhile.
func (o *ordered) from(k key) func(yield func(*Block) bool) {
	return func(yield func(*Block) bool) {
		for number := o.next(classOf(k)); number < len(o.classes); number = o.next(number + 1) {
			c := o.classes[number]
			for run, i := c.at(k); run < len(c.runs); run, i = run+1, 0 {
				for _, e := range c.runs[run][i:] {
					if !yield(e.block) {
						return
					}
				}
			}
		}
	}
}

// all returns the blocks in order, in a new list.
func (o *ordered) all() []*Block { return slices.Collect(o.from(key{})) }

// last returns the last block, or nil.
func (o *ordered) last() *Block {
	for word := classWords - 1; word >= 0; word-- {
		if w := o.nonEmpty[word]; w != 0 {
			runs := o.classes[word*64+63-bits.LeadingZeros64(w)].runs
			run := runs[len(runs)-1]
			return run[len(run)-1].block
		}
	}
	return nil
}

// ages is what is known of the order in which the restored segments were taken. It matters where ties go by age.
type ages struct {
	order []*segment                         // the oldest first, as far as is known: at i, the one with the number i+1
	older map[*segment]map[*segment]struct{} // by segment, those that are known to be older
}

// mostLearned bounds what one allocation teaches. What is not learned may have to be learned from a wrong address.
const mostLearned = 16

// Learn notes what it says about ages that b, which has just been allocated, serves a request: its segment is older
// than the others with a free block of the size that its free block had.
func (a *Allocator) Learn(b *Block) {
	if a.ties != sizeAgeAddr || !a.restored(b.segment) {
		return
	}
	learned, size := 0, b.Bytes+b.FreeAfter()
	for other := range b.shelf.free.from(key{first: size}) {
		if other.Bytes > size || learned == mostLearned {
			return
		}
		if a.restored(other.segment) && other.segment != b.segment {
			a.ages.note(b.segment, other.segment)
			learned++
		}
	}
}

func (a *Allocator) restored(s *segment) bool { return s.number <= uint64(len(a.ages.order)) }

func (g *ages) note(older, younger *segment) {
	if g.older == nil {
		g.older = map[*segment]map[*segment]struct{}{}
	}
	if g.older[younger] == nil {
		g.older[younger] = map[*segment]struct{}{}
	}
	g.older[younger][older] = struct{}{}
}

// Older makes the segment of the free block at addr older than that of the free block at than, which serves a request
// at present. It reports whether that decides and agrees with everything learned: the blocks have the same size, and
// both segments were restored.
func (a *Allocator) Older(r Request, addr, than uint64) bool {
	rounded := a.settings.Round(r.Bytes)
	var served, other *Block
	for b := range a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream}).free.from(key{first: rounded}) {
		switch b.Addr {
		case than:
			served = b
		case addr:
			other = b
		}
		if served != nil && b.Bytes > served.Bytes {
			break
		}
	}
	if served == nil || other == nil || served.Bytes != other.Bytes || !a.restored(served.segment) ||
		!a.restored(other.segment) {
		return false
	}
	return a.reorder(other.segment, served.segment)
}

// reorder moves a segment before another one, with all between them that are known to be older than it.
func (a *Allocator) reorder(s, before *segment) bool {
	known := a.ages.allOlder(s)
	if _, contradicts := known[before]; contradicts || s.number < before.number {
		return false
	}
	from := before.number - 1
	between := a.ages.order[from:s.number]
	var first, rest []*segment
	for _, other := range between {
		if _, there := known[other]; there || other == s {
			first = append(first, other)
		} else {
			rest = append(rest, other)
		}
	}
	for i, other := range slices.Concat(first, rest) {
		between[i] = other
		a.renumber(other, from+uint64(i)+1)
	}
	return true
}

// allOlder returns the segments that are known to be older than one, through others, too.
func (g *ages) allOlder(s *segment) map[*segment]struct{} {
	older := map[*segment]struct{}{}
	for next := []*segment{s}; len(next) > 0; {
		s, next = next[len(next)-1], next[:len(next)-1]
		for other := range g.older[s] {
			if _, there := older[other]; !there {
				older[other] = struct{}{}
				next = append(next, other)
			}
		}
	}
	return older
}

// renumber changes the number of a segment, which may have been released.
func (a *Allocator) renumber(s *segment, number uint64) {
	if _, there := a.segments[s]; !there {
		s.number = number
		return
	}
	for b := s.head; b != nil; b = b.next {
		if b.state == free {
			b.shelf.free.remove(b)
		}
	}
	s.number = number
	for b := s.head; b != nil; b = b.next {
		if b.state == free {
			b.shelf.free.insert(b)
		}
	}
}
