package bfc

import (
	"math"

	"gpuconf/gocore/offheap"
	"gpuconf/gocore/status"
)

// none is the number of no chunk, so that zeroed tables are empty. Its record is there to be looked at where a link may lead nowhere: it
// is never free.
const none uint32 = 0

// A chunk is one piece of a region. It is free if and only if requested is 0. The links of the free list share
// their place with the id, since a chunk has either: 40 bytes instead of 48.
//
// Behind the last chunk of a region stands its fence: a record of 0 bytes that is never free. Through it a region finds its
// last chunk, whatever was split or joined there, at no cost to those who split and join.
type chunk struct {
	addr      uint64
	bytes     uint64
	requested uint64 // what the caller asked for; 0: free; or one of the two below
	prev      uint32 // neighbour below in the region, or none
	next      uint32 // neighbour above, a fence at last, which has none; in an unused record the next unused one
	binPrev   uint32 // free: list of the class; live: upper half of the id
	binNext   uint32 // free: list of the class; live: lower half of the id
}

// More than any request.
const (
	fenceMark = math.MaxUint64
	heldMark  = math.MaxUint64 - 1
)

func (c *chunk) free() bool { return c.requested == 0 }

func (c *chunk) fence() bool { return c.requested == fenceMark }

// held reports whether the chunk was freed, but several streams may still work on it.
func (c *chunk) held() bool { return c.requested == heldMark }

func (c *chunk) id() uint64 { return uint64(c.binPrev)<<32 | uint64(c.binNext) }

func (c *chunk) setID(id uint64) { c.binPrev, c.binNext = uint32(id>>32), uint32(id) }

// chunkTable holds the records of all chunks. A record's number stays its own, and its address too, until it is recycled.
type chunkTable struct {
	records  []chunk // mapped once at full length: other tables keep a copy of this slice
	fresh    uint32  // records from here on were never used
	warm     uint32  // records from here on may have no memory behind them
	recycled uint32  // last record given back, or none; the others follow along next
}

// tableName is what the host is out of memory for, in an error.
const tableName = "an allocator's table"

const (
	fewestRecords = 1024
	warmedRecords = 4096 // get their memory together
)

// newChunkTable makes room for as many chunks as the limit can be cut into, and some fences.
func newChunkTable(limitBytes uint64) (chunkTable, error) {
	most := min(limitBytes/granularity+fewestRecords, math.MaxUint32)
	records, err := offheap.MapUpTo[chunk](tableName, max(int(most), fewestRecords), fewestRecords)
	if err == nil {
		records[none].requested = fenceMark
	}
	return chunkTable{records: records, fresh: none + 1, warm: fewestRecords}, err
}

// roomFor makes sure that n more records can be had, so that no step has to be undone for want of one.
func (t *chunkTable) roomFor(n int) error {
	if int(t.fresh)+n <= len(t.records) {
		return nil
	}
	return t.roomAmongRecycled(n)
}

func (t *chunkTable) roomAmongRecycled(n int) error {
	n -= len(t.records) - int(t.fresh)
	for i := t.recycled; i != none && n > 0; i = t.records[i].next {
		n--
	}
	if n > 0 {
		return status.Errorf(status.ResourceExhausted,
			"the host is out of memory for more than the %d chunks of an allocator's table", len(t.records))
	}
	return nil
}

// take gives an unused record. The caller sets every field.
func (t *chunkTable) take() uint32 {
	if i := t.recycled; i != none {
		t.recycled = t.records[i].next
		return i
	}
	if t.fresh == t.warm {
		t.warmUp()
	}
	t.fresh++
	return t.fresh - 1
}

func (t *chunkTable) warmUp() {
	t.warm = uint32(min(uint64(t.fresh)+warmedRecords, uint64(len(t.records))))
	offheap.Warm(t.records, int(t.fresh), int(t.warm))
}

func (t *chunkTable) recycle(i uint32) {
	t.records[i] = chunk{next: t.recycled}
	t.recycled = i
}

// splitOff cuts chunk i after its first bytes and gives the rest, a new chunk that is in no list yet.
func (t *chunkTable) splitOff(i uint32, bytes uint64) uint32 {
	r := t.take()
	c, rest := &t.records[i], &t.records[r]
	*rest = chunk{addr: c.addr + bytes, bytes: c.bytes - bytes, prev: i, next: c.next}
	t.records[c.next].prev = r
	c.bytes, c.next = bytes, r
	return r
}

// absorb joins chunk right to its lower neighbour left. The record of left stays, so a region's first chunk
// is the same record for as long as the region lives.
func (t *chunkTable) absorb(left, right uint32) {
	l, r := &t.records[left], &t.records[right]
	l.bytes += r.bytes
	l.next = r.next
	t.records[r.next].prev = left
	t.recycle(right)
}
