package bfc

import (
	"errors"
	"math/bits"

	"gpuconf/gocore/offheap"
)

// Size classes. Below exactUnits (63.4 MiB, in units of 256 bytes) a class is one size. Above, there are 64 classes to a power of
// two, in lists sorted by size, so that best fit stays exact. A device has room for few chunks that large, so these lists
// are short. Exact classes up to 4 GiB were tried: their tables are 64 MiB, of which varied large sizes touch
// a new page at almost every step.
const (
	coarseClasses = 2560 // enough for sizes up to 2^64
	exactUnits    = classCount - coarseClasses
	exactBytes    = exactUnits << granularityBits
)

// class gives the class of a size. Sizes below 256 do not occur.
func class(bytes uint64) uint32 {
	units := bytes >> granularityBits
	if units < exactUnits {
		return uint32(units)
	}
	return exactUnits + coarse(units) - coarse(exactUnits)
}

// coarse numbers sizes by their exponent and the six bits that follow the leading one.
func coarse(units uint64) uint32 {
	exponent := uint32(bits.Len64(units) - 1)
	return exponent<<6 | uint32(units>>(exponent-6))&63
}

func exact(class uint32) bool { return class < exactUnits }

// variedRanges of sizes, of a MiB each, make it likely that the others come too. Then all heads get memory at once: 1 MiB.
const variedRanges = 5

// binTables is one mapping, of which a page exists once it is touched.
type binTables struct {
	heads    [classCount]uint32 // first chunk of the class; means something only while the class is in nonEmpty
	nonEmpty bitmap
}

// bins holds the free chunks by size class: a list for each, or, for one size under the TensorFlow rule, a heap.
//
// A list of one size begins with the lowest of those that were inserted since its first one was (doc.go, Ties). Links of record none may
// be written to: nobody reads them.
type bins struct {
	tables  []binTables // one
	t       *binTables  // &tables[0]
	records []chunk     // the chunk table's
	heaps   bool        // exact classes are heaps
	heap    addressHeap // theirs
	ranges  uint64      // of sizes, of which there was a chunk: a bit for each low word of the bitmap
}

func newBins(records []chunk, heaps bool) (b bins, err error) {
	b = bins{records: records, heaps: heaps}
	if b.tables, err = offheap.Map[binTables](tableName, 1); err != nil {
		return b, err
	}
	b.t = &b.tables[0]
	if heaps {
		b.heap, err = newAddressHeap(records)
	}
	return b, err
}

// beside gives empty bins for other chunks of the same table. A chunk is in one of them at most.
func (b *bins) beside() (*bins, error) {
	other := &bins{records: b.records, heaps: b.heaps, heap: b.heap}
	var err error
	if other.tables, err = offheap.Map[binTables](tableName, 1); err != nil {
		return nil, err
	}
	other.t = &other.tables[0]
	return other, nil
}

func (b *bins) unmapBeside() error { return offheap.Unmap(b.tables) }

func (b *bins) unmap() error {
	return errors.Join(offheap.Unmap(b.tables), offheap.Unmap(b.heap.children))
}

// insert puts free chunk i into its class.
func (b *bins) insert(i uint32) {
	r := &b.records[i]
	if b.heaps || r.bytes >= exactBytes {
		b.insertOrdered(i)
		return
	}
	c := uint32(r.bytes>>granularityBits) & (classCount - 1)
	if !b.t.nonEmpty.has(c) {
		b.begin(c)
		b.t.heads[c] = i
		r.binPrev, r.binNext = none, none
		return
	}
	head := b.t.heads[c]
	h := &b.records[head]
	if h.addr < r.addr {
		r.binPrev, r.binNext = head, h.binNext
		b.records[h.binNext].binPrev = i
		h.binNext = i
		return
	}
	r.binPrev, r.binNext = none, head
	h.binPrev = i
	b.t.heads[c] = i
}

// begin notes that a class is no longer empty.
func (b *bins) begin(c uint32) {
	b.t.nonEmpty.set(c)
	if r := uint64(1) << (c / classesOfLow); b.ranges&r == 0 {
		b.ranges |= r
		if bits.OnesCount64(b.ranges) == variedRanges {
			offheap.Warm(b.t.heads[:], 0, classCount)
		}
	}
}

// insertOrdered puts i into a class that has an order.
func (b *bins) insertOrdered(i uint32) {
	c := class(b.records[i].bytes)
	head := none
	if b.t.nonEmpty.has(c) {
		head = b.t.heads[c]
	} else {
		b.begin(c)
	}
	if exact(c) {
		b.t.heads[c] = b.heap.insert(head, i)
		return
	}
	before, after := none, head
	for after != none && b.less(after, i) {
		before, after = after, b.records[after].binNext
	}
	b.link(c, before, i, after)
}

// less is the order of sorted lists: by size, and equal sizes by address.
func (b *bins) less(i, j uint32) bool {
	x, y := &b.records[i], &b.records[j]
	return x.bytes < y.bytes || x.bytes == y.bytes && x.addr < y.addr
}

func (b *bins) link(c, before, i, after uint32) {
	b.records[i].binPrev, b.records[i].binNext = before, after
	b.records[after].binPrev = i
	if before == none {
		b.t.heads[c] = i
	} else {
		b.records[before].binNext = i
	}
}

// remove takes chunk i out of its class.
func (b *bins) remove(i uint32) {
	r := &b.records[i]
	if b.heaps && r.bytes < exactBytes {
		c := class(r.bytes)
		b.setHead(c, b.heap.remove(b.t.heads[c], i))
		return
	}
	b.records[r.binNext].binPrev = r.binPrev
	if r.binPrev != none {
		b.records[r.binPrev].binNext = r.binNext
		return
	}
	b.setHead(class(r.bytes), r.binNext)
}

func (b *bins) setHead(c, head uint32) {
	if head == none {
		b.t.nonEmpty.clear(c)
		return
	}
	b.t.heads[c&(classCount-1)] = head
}

// keepsPlace reports whether chunk i could have another size without leaving its place. So can only large ones, such as the rest of a
// pool, which is cut and joined again and again.
func (b *bins) keepsPlace(i uint32, bytes uint64) bool {
	r := &b.records[i]
	return r.bytes >= exactBytes && bytes >= exactBytes && sameCoarse(r.bytes, bytes) &&
		(r.binPrev == none || b.records[r.binPrev].bytes < bytes) && (r.binNext == none || bytes < b.records[r.binNext].bytes)
}

// sameCoarse reports whether two large sizes are of one class: no bit of the leading seven differs.
func sameCoarse(x, y uint64) bool { return (x^y)>>(bits.Len64(x)-7) == 0 }

// replace gives the place that chunk i keeps with so many bytes to another one, which has them or will.
func (b *bins) replace(i, other uint32, bytes uint64) {
	b.link(class(bytes), b.records[i].binPrev, other, b.records[i].binNext)
}

// bestFit gives the smallest free chunk of at least bytes, or none.
func (b *bins) bestFit(bytes uint64) uint32 {
	c := class(bytes)
	if !exact(c) {
		if i := b.firstAtLeast(c, bytes); i != none {
			return i
		}
		c++
	}
	c = b.t.nonEmpty.next(c)
	if c == noClass {
		return none
	}
	return b.t.heads[c&(classCount-1)]
}

// firstAtLeast looks through the sorted list of a class that holds several sizes.
func (b *bins) firstAtLeast(c uint32, bytes uint64) uint32 {
	if !b.t.nonEmpty.has(c) {
		return none
	}
	i := b.t.heads[c]
	for i != none && b.records[i].bytes < bytes {
		i = b.records[i].binNext
	}
	return i
}

// largestBytes is the size of the largest free chunk, or 0.
func (b *bins) largestBytes() uint64 {
	c := b.t.nonEmpty.last()
	if c == noClass {
		return 0
	}
	i := b.t.heads[c]
	for b.records[i].binNext != none && !exact(c) {
		i = b.records[i].binNext
	}
	return b.records[i].bytes
}
