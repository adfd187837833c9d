package bfc

import "math/bits"

// Size classes. Up to exactUnits a class is one size, counted in units of 256 bytes. The last 64 classes take all
// larger sizes, one for each power of two: few chunks are that large, since a region is not cut into many
// pieces of 4 GiB, and their lists are sorted, so best fit stays exact.
const (
	exactUnits    = classCount - 64
	exactUnitBits = 24 // bits.Len64(exactUnits)
)

// tieChunks is how many chunks of one size are looked at for the lowest address.
const tieChunks = 4

// class gives the class of a size. Sizes below 256 do not occur.
func class(bytes uint64) uint32 {
	units := bytes >> granularityBits
	if units < exactUnits {
		return uint32(units)
	}
	return exactUnits + uint32(bits.Len64(units)-exactUnitBits)
}

func exact(class uint32) bool { return class < exactUnits }

// binTables is one mapping, of which a page exists once it is touched.
type binTables struct {
	heads    [classCount]uint32 // first chunk of the class; means something only while the class is in nonEmpty
	nonEmpty bitmap
}

// bins holds the free chunks, in a list for each size class.
type bins struct {
	tables  []binTables // one
	t       *binTables  // &tables[0]
	records []chunk     // the chunk table's
	sorted  bool        // lists of exact classes are sorted by address
}

func newBins(records []chunk, sorted bool) (bins, error) {
	tables, err := mapTable[binTables](1)
	if err != nil {
		return bins{}, err
	}
	return bins{tables: tables, t: &tables[0], records: records, sorted: sorted}, nil
}

// insert puts free chunk i into the list of its class.
func (b *bins) insert(i uint32) {
	c := class(b.records[i].bytes)
	if !b.t.nonEmpty.has(c) {
		b.t.nonEmpty.set(c)
		b.link(c, none, i, none)
		return
	}
	before, after := none, b.t.heads[c]
	if b.sorted || !exact(c) {
		before, after = b.place(i, after)
	}
	b.link(c, before, i, after)
}

// place finds the two chunks between which i belongs in a sorted list.
func (b *bins) place(i, head uint32) (before, after uint32) {
	for after = head; after != none && b.less(after, i); after = b.records[after].binNext {
		before = after
	}
	return before, after
}

// less orders by size, then by address.
func (b *bins) less(i, j uint32) bool {
	x, y := &b.records[i], &b.records[j]
	return x.bytes < y.bytes || x.bytes == y.bytes && x.addr < y.addr
}

func (b *bins) link(c, before, i, after uint32) {
	b.records[i].binPrev, b.records[i].binNext = before, after
	if before == none {
		b.t.heads[c] = i
	} else {
		b.records[before].binNext = i
	}
	if after != none {
		b.records[after].binPrev = i
	}
}

// remove takes chunk i out of the list of its class.
func (b *bins) remove(i uint32) {
	r := &b.records[i]
	if r.binNext != none {
		b.records[r.binNext].binPrev = r.binPrev
	}
	if r.binPrev != none {
		b.records[r.binPrev].binNext = r.binNext
		return
	}
	c := class(r.bytes)
	if r.binNext == none {
		b.t.nonEmpty.clear(c)
		return
	}
	b.t.heads[c] = r.binNext
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
	head := b.t.heads[c]
	if b.sorted || !exact(c) || b.records[head].binNext == none {
		return head
	}
	return b.lowest(head)
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

// lowest gives the one with the lowest address among the first few of a list.
func (b *bins) lowest(head uint32) uint32 {
	best, i := head, head
	for range tieChunks - 1 {
		if i = b.records[i].binNext; i == none {
			break
		}
		if b.records[i].addr < b.records[best].addr {
			best = i
		}
	}
	return best
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
