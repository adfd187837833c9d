package bfc

import "math/bits"

// classCount is what four levels of 64-bit words can tell apart.
const classCount = 1 << 24

const (
	leafWords = classCount / 64
	lowWords  = leafWords / 64
	midWords  = lowWords / 64
)

// A bitmap is a set of size classes: a tree of words, 64 children each. A bit above the leaves is set if and only if the
// word below is not 0. So the next member is at most three words up and three down.
type bitmap struct {
	leaf [leafWords]uint64
	low  [lowWords]uint64
	mid  [midWords]uint64
	top  uint64
}

// noClass is what a search that finds nothing gives.
const noClass uint32 = classCount

func (b *bitmap) set(class uint32) {
	w, i := &b.leaf[class>>6], class&63
	if old := *w; old != 0 {
		*w = old | 1<<i
		return
	}
	*w = 1 << i
	b.low[class>>12] |= 1 << (class >> 6 & 63)
	b.mid[class>>18] |= 1 << (class >> 12 & 63)
	b.top |= 1 << (class >> 18)
}

func (b *bitmap) clear(class uint32) {
	w := &b.leaf[class>>6]
	if *w &^= 1 << (class & 63); *w != 0 {
		return
	}
	w = &b.low[class>>12]
	if *w &^= 1 << (class >> 6 & 63); *w != 0 {
		return
	}
	w = &b.mid[class>>18]
	if *w &^= 1 << (class >> 12 & 63); *w != 0 {
		return
	}
	b.top &^= 1 << (class >> 18)
}

func (b *bitmap) has(class uint32) bool { return b.leaf[class>>6]>>(class&63)&1 != 0 }

// next gives the lowest member at or above class, or noClass.
func (b *bitmap) next(class uint32) uint32 {
	if w := b.leaf[class>>6] >> (class & 63); w != 0 {
		return class + uint32(bits.TrailingZeros64(w))
	}
	// above(i) masks the bits beyond i: the word that was just seen is done with.
	if w := b.low[class>>12] & above(class>>6); w != 0 {
		return b.firstOfLeaf(class>>12<<6 | trailing(w))
	}
	if w := b.mid[class>>18] & above(class>>12); w != 0 {
		return b.firstOfLow(class>>18<<6 | trailing(w))
	}
	if w := b.top & above(class>>18); w != 0 {
		m := trailing(w)
		return b.firstOfLow(m<<6 | trailing(b.mid[m]))
	}
	return noClass
}

func (b *bitmap) firstOfLow(i uint32) uint32 { return b.firstOfLeaf(i<<6 | trailing(b.low[i])) }

func (b *bitmap) firstOfLeaf(i uint32) uint32 { return i<<6 | trailing(b.leaf[i]) }

// last gives the highest member, or noClass.
func (b *bitmap) last() uint32 {
	if b.top == 0 {
		return noClass
	}
	i := leading(b.top)
	i = i<<6 | leading(b.mid[i])
	i = i<<6 | leading(b.low[i])
	return i<<6 | leading(b.leaf[i])
}

func above(i uint32) uint64 { return ^uint64(1) << (i & 63) }

func trailing(w uint64) uint32 { return uint32(bits.TrailingZeros64(w)) }

func leading(w uint64) uint32 { return uint32(63 - bits.LeadingZeros64(w)) }
