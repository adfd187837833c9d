// SPDX-License-Identifier: Apache-2.0

package caching

import "slices"

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

// mostInRun bounds the entries that an insertion moves.
const mostInRun = 128

// ordered is a sorted list of blocks in runs, each of at most mostInRun entries and none empty. An entry has its
// block's place in the order, so that a search stays within a run.
type ordered struct {
	runs [][]entry
	by   order
}

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

// at returns the place of the first entry that is not before k. It may be behind the last run.
func (o *ordered) at(k key) (run, i int) {
	low, high := 0, len(o.runs)
	for low < high {
		middle := (low + high) / 2
		if r := o.runs[middle]; r[len(r)-1].key.before(k) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	run = low
	if run == len(o.runs) {
		return run, 0
	}
	entries := o.runs[run]
	low, high = 0, len(entries)
	for low < high {
		middle := (low + high) / 2
		if entries[middle].key.before(k) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return run, low
}

func (o *ordered) insert(b *Block) {
	added := entry{o.keyOf(b), b}
	run, i := o.at(added.key)
	if run == len(o.runs) {
		if run == 0 {
			o.runs = append(o.runs, append(make([]entry, 0, mostInRun), added))
			return
		}
		run--
		i = len(o.runs[run])
	}
	o.runs[run] = slices.Insert(o.runs[run], i, added)
	if full := o.runs[run]; len(full) == mostInRun {
		upper := append(make([]entry, 0, mostInRun), full[mostInRun/2:]...)
		clear(full[mostInRun/2:])
		o.runs[run] = full[:mostInRun/2]
		o.runs = slices.Insert(o.runs, run+1, upper)
	}
}

func (o *ordered) remove(b *Block) {
	run, i := o.at(o.keyOf(b))
	o.runs[run] = slices.Delete(o.runs[run], i, i+1)
	if len(o.runs[run]) == 0 {
		o.runs = slices.Delete(o.runs, run, run+1)
	}
}

// from iterates over the blocks that are not before a place in the order. The list must not change meanwhile.
func (o *ordered) from(k key) func(yield func(*Block) bool) {
	return func(yield func(*Block) bool) {
		run, i := o.at(k)
		for ; run < len(o.runs); run, i = run+1, 0 {
			for _, e := range o.runs[run][i:] {
				if !yield(e.block) {
					return
				}
			}
		}
	}
}

// all returns the blocks in order, in a new list.
func (o *ordered) all() (blocks []*Block) {
	for _, run := range o.runs {
		for _, e := range run {
			blocks = append(blocks, e.block)
		}
	}
	return blocks
}

// last returns the last block, or nil.
func (o *ordered) last() *Block {
	if len(o.runs) == 0 {
		return nil
	}
	run := o.runs[len(o.runs)-1]
	return run[len(run)-1].block
}
