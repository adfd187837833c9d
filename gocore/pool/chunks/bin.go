// SPDX-License-Identifier: Apache-2.0

package chunks

import (
	"math/bits"

	"gpuconf/gocore/base/invariants"
	"gpuconf/gocore/base/offheap"
)

// Size classes. Below exactUnits (63.4 MiB, in units of 256 bytes) a class is one size. Above, there are 64 classes to
// a power of two, in lists sorted by size, so that best fit stays exact. A device has room for few chunks that large,
// so these lists are short. Exact classes up to 4 GiB were tried: their tables are 64 MiB, of which varied large sizes
// touch a new page at almost every step.
const (
	coarseClasses = 2560 // enough for sizes up to 2^64
	exactUnits    = classCount - coarseClasses
	exactBytes    = exactUnits << granularityBits
)

// class returns the class of a size. Sizes below 256 do not occur.
func class(bytes uint64) uint32 {
	units := bytes >> granularityBits
	if units < exactUnits {
		return uint32(units)
	}
	return coarseClass(bytes)
}

// coarseClass is class for sizes of at least exactBytes.
func coarseClass(bytes uint64) uint32 {
	return exactUnits + coarse(bytes>>granularityBits) - coarse(exactUnits)
}

// coarse numbers sizes by their exponent and the six bits that follow the leading one.
func coarse(units uint64) uint32 {
	exponent := uint32(bits.Len64(units) - 1)
	return exponent<<6 | uint32(units>>((exponent-6)&63))&63
}

func exact(class uint32) bool { return class < exactUnits }

// variedRanges is in how many ranges of a MiB sizes must have been seen to expect all others too. Then all heads are
// committed at once: 1 MiB.
const variedRanges = 5

// binTables is one mapping. A page of it exists once it is touched.
type binTables struct {
	heads    [classCount]uint32 // first chunk of the class; means something only while the class is in nonEmpty
	nonEmpty bitmap
}

// Bins holds free chunks by size class: a list for each, or, for one size under the TensorFlow rule, a heap.
//
// A list of one size begins with the lowest of those that were inserted since its first one was (doc.go, Ties). The
// links of record None may be written: they are never read.
type Bins struct {
	tables  []binTables // one
	t       *binTables  // &tables[0]
	records []Chunk     // the Table's
	heaps   bool        // exact classes are heaps
	heap    addressHeap // theirs
	ranges  uint64      // of sizes, of which there was a chunk: a bit for each low word of the bitmap
}

// NewBins makes empty bins over a Table. Under the TensorFlow rule, chunks of one size are ordered by address.
func NewBins(t *Table) (b Bins, err error) {
	b = Bins{records: t.Records, heaps: t.beside != nil, heap: addressHeap{records: t.Records, children: t.beside}}
	if b.tables, err = offheap.Map[binTables](TableName, 1); err != nil {
		return b, err
	}
	b.t = &b.tables[0]
	return b, nil
}

// Beside returns empty bins for other chunks of the same table. A chunk is in at most one of them.
func (b *Bins) Beside() (*Bins, error) {
	other := &Bins{records: b.records, heaps: b.heaps, heap: b.heap}
	var err error
	if other.tables, err = offheap.Map[binTables](TableName, 1); err != nil {
		return nil, err
	}
	other.t = &other.tables[0]
	return other, nil
}

// UnmapBeside ends bins that Beside returned.
func (b *Bins) UnmapBeside() error { return offheap.Unmap(b.tables) }

// Unmap ends bins that NewBins returned, after those beside them.
func (b *Bins) Unmap() error { return offheap.Unmap(b.tables) }

// Insert puts free chunk i into its class. Whether it is lower than the class's first chunk is not predictable, so
// there is no branch for that: record None takes the write that one of two branches would leave out.
func (b *Bins) Insert(i uint32) {
	records, t := b.records, b.t
	r := &records[i]
	if b.heaps || r.bytes >= exactBytes {
		b.insertOrdered(i)
		return
	}
	c := uint32(r.bytes>>granularityBits) & (classCount - 1)
	if !t.nonEmpty.has(c) {
		r.binPrev, r.binNext = None, None
		t.heads[c] = i
		b.begin(c)
		return
	}
	head := t.heads[c]
	h := &records[head]
	behind := isLess(h.addr, r.addr)
	before, after := choose(behind, head, None), choose(behind, h.binNext, head)
	r.binPrev, r.binNext = before, after
	records[before].binNext = i
	records[after].binPrev = i
	t.heads[c] = choose(behind, head, i)
}

// isLess returns 1 if x is less than y, and else 0.
func isLess(x, y uint64) (bit uint32) {
	if x < y {
		bit = 1
	}
	return bit
}

// choose returns x if bit is 1, and y if it is 0.
func choose(bit, x, y uint32) uint32 { return y ^ (x^y)&-bit }

// begin notes that a class is no longer empty.
func (b *Bins) begin(c uint32) {
	b.t.nonEmpty.set(c)
	if r := uint64(1) << (c / classesOfLow); b.ranges&r == 0 {
		b.ranges |= r
		if bits.OnesCount64(b.ranges) == variedRanges {
			offheap.Warm(b.t.heads[:], 0, classCount)
		}
	}
}

// insertOrdered puts i into a class that has an order.
func (b *Bins) insertOrdered(i uint32) {
	c := class(b.records[i].bytes)
	head := None
	if b.t.nonEmpty.has(c) {
		head = b.t.heads[c]
	} else {
		b.begin(c)
	}
	if exact(c) {
		b.t.heads[c] = b.heap.insert(head, i)
		return
	}
	before, after := None, head
	for after != None && b.less(after, i) {
		before, after = after, b.records[after].binNext
	}
	b.link(c, before, i, after)
}

// less is the order of sorted lists: by size, and equal sizes by address.
func (b *Bins) less(i, j uint32) bool {
	x, y := &b.records[i], &b.records[j]
	return x.bytes < y.bytes || x.bytes == y.bytes && x.addr < y.addr
}

func (b *Bins) link(c, before, i, after uint32) {
	b.records[i].binPrev, b.records[i].binNext = before, after
	b.records[after].binPrev = i
	if before == None {
		b.t.heads[c] = i
	} else {
		b.records[before].binNext = i
	}
}

// Remove takes chunk i out of its class. Like Insert, it does not branch on whether the chunk is the first one.
func (b *Bins) Remove(i uint32) {
	records, t := b.records, b.t
	r := &records[i]
	c := class(r.bytes) & (classCount - 1)
	if b.heaps && exact(c) {
		b.setHead(c, b.heap.remove(t.heads[c], i))
		return
	}
	before, after := r.binPrev, r.binNext
	if before|after == None {
		t.nonEmpty.clear(c)
		return
	}
	records[before].binNext = after
	records[after].binPrev = before
	t.heads[c] = choose(isLess(uint64(before), 1), after, t.heads[c])
}

func (b *Bins) setHead(c, head uint32) {
	if head == None {
		b.t.nonEmpty.clear(c)
		return
	}
	b.t.heads[c] = head
}

// KeepsPlace reports whether chunk i could have another size without leaving its place. Only large chunks can, such as
// the rest of a pool, which is split and joined again and again.
func (b *Bins) KeepsPlace(i uint32, bytes uint64) bool {
	r := &b.records[i]
	return r.bytes >= exactBytes && bytes >= exactBytes && sameCoarse(r.bytes, bytes) &&
		(r.binPrev == None || b.records[r.binPrev].bytes < bytes) &&
		(r.binNext == None || bytes < b.records[r.binNext].bytes)
}

// sameCoarse reports whether two large sizes are of one class: no bit of the leading seven differs.
func sameCoarse(x, y uint64) bool { return (x^y)>>((bits.Len64(x)-7)&63) == 0 }

// Replace puts another chunk, which has or will have so many bytes, in the place of chunk i. KeepsPlace(i, bytes) held.
func (b *Bins) Replace(i, other uint32, bytes uint64) {
	records := b.records
	before, after := records[i].binPrev, records[i].binNext
	records[other].binPrev, records[other].binNext = before, after
	records[after].binPrev = other
	if before == None {
		b.t.heads[coarseClass(bytes)&(classCount-1)] = other
	} else {
		records[before].binNext = other
	}
}

// BestFit returns the smallest chunk of at least bytes, or None.
func (b *Bins) BestFit(bytes uint64) uint32 {
	c := class(bytes)
	if !exact(c) {
		if i := b.firstAtLeast(c, bytes); i != None {
			return i
		}
		c++
	}
	c = b.t.nonEmpty.next(c)
	if c == noClass {
		return None
	}
	return b.t.heads[c&(classCount-1)]
}

// firstAtLeast looks through the sorted list of a class that holds several sizes.
func (b *Bins) firstAtLeast(c uint32, bytes uint64) uint32 {
	if !b.t.nonEmpty.has(c) {
		return None
	}
	i := b.t.heads[c]
	for i != None && b.records[i].bytes < bytes {
		i = b.records[i].binNext
	}
	return i
}

// LargestBytes returns the size of the largest chunk, or 0.
func (b *Bins) LargestBytes() uint64 {
	c := b.t.nonEmpty.last()
	if c == noClass {
		return 0
	}
	i := b.t.heads[c]
	for b.records[i].binNext != None && !exact(c) {
		i = b.records[i].binNext
	}
	return b.records[i].bytes
}

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
