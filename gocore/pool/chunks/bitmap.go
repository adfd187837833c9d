// SPDX-License-Identifier: Apache-2.0

package chunks

import (
	"math/bits"

	"gpuconf/gocore/base/invariants"
)

// classCount is what three levels of 64-bit words can tell apart.
const classCount = 1 << 18

const (
	leafWords = classCount / 64
	lowWords  = leafWords / 64

	classesOfLow = 64 * 64 // below a low word
)

// A bitmap is a set of size classes: a tree of words, 64 children each. A bit above the leaves is set if and only if
// the word below is not 0. So the next member is at most two words up and two down.
type bitmap struct {
	leaf [leafWords]uint64
	low  [lowWords]uint64
	top  uint64

	looked int // words that the search under way has looked at; counted in builds with invariants
}

// mostLooks is how many words a search reads at most: two on the way up, the top one, two on the way down.
const mostLooks = 5

// noClass is the result of a search that finds nothing.
const noClass uint32 = classCount

func (b *bitmap) has(class uint32) bool { return b.leaf[class>>6]>>(class&63)&1 != 0 }

// set and clear have no branches: whether a word was or becomes 0 depends on the sizes, and is not predictable.

func (b *bitmap) set(class uint32) {
	b.leaf[class>>6] |= 1 << (class & 63)
	b.low[class>>12] |= 1 << (class >> 6 & 63)
	b.top |= 1 << (class >> 12)
}

func (b *bitmap) clear(class uint32) {
	leaf := b.leaf[class>>6] &^ (1 << (class & 63))
	b.leaf[class>>6] = leaf
	low := b.low[class>>12] &^ (isZero(leaf) << (class >> 6 & 63))
	b.low[class>>12] = low
	b.top &^= isZero(low) << (class >> 12)
}

// isZero returns 1 for 0, and else 0.
func isZero(w uint64) (bit uint64) {
	if w == 0 {
		bit = 1
	}
	return bit
}

// next returns the lowest member at or above class, or noClass.
func (b *bitmap) next(class uint32) uint32 {
	if invariants.Enabled {
		b.looked = 0
		defer b.checkLooks()
	}
	b.look()
	if w := b.leaf[class>>6] >> (class & 63); w != 0 {
		return class + trailing(w)
	}
	b.look()
	if w := b.low[class>>12] & beyond(class>>6); w != 0 {
		return b.firstOfLeaf(class>>12<<6 | trailing(w))
	}
	b.look()
	if w := b.top & beyond(class>>12); w != 0 {
		b.look()
		i := trailing(w)
		return b.firstOfLeaf(i<<6 | trailing(b.low[i&(lowWords-1)]))
	}
	return noClass
}

func (b *bitmap) firstOfLeaf(i uint32) uint32 {
	b.look()
	return i<<6 | trailing(b.leaf[i&(leafWords-1)])
}

// look counts a word.
func (b *bitmap) look() {
	if invariants.Enabled {
		b.looked++
	}
}

func (b *bitmap) checkLooks() {
	invariants.Check(b.looked <= mostLooks, "a search for a free chunk has looked at %d words; %d are the most",
		b.looked, mostLooks)
}

// last returns the highest member, or noClass.
func (b *bitmap) last() uint32 {
	if b.top == 0 {
		return noClass
	}
	i := leading(b.top)
	i = i<<6 | leading(b.low[i])
	return i<<6 | leading(b.leaf[i])
}

// beyond masks the bits above that of i within its word: the child that was just seen is done with.
func beyond(i uint32) uint64 { return ^uint64(1) << (i & 63) }

func trailing(w uint64) uint32 { return uint32(bits.TrailingZeros64(w)) }

func leading(w uint64) uint32 { return uint32(63 - bits.LeadingZeros64(w)) }
