// SPDX-License-Identifier: Apache-2.0

package caching

import (
	"math/bits"
	"slices"
	"sort"
)

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
