// SPDX-License-Identifier: Apache-2.0

package chunks

import (
	"errors"
	"math"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/offheap"
	"gpuconf/gocore/base/status"
)

// Table holds the records of all chunks. A record keeps its number and its address until it is recycled.
type Table struct {
	Records  []Chunk // by number; mapped once at full length: Bins and Index keep a copy of this slice
	fresh    uint32  // records from here on were never used
	warm     uint32  // records from here on may not be committed
	recycled uint32  // last record that was recycled, or None; the others follow along next

	// By chunk; nil but for the TensorFlow rule. Of a free chunk: its first child in its heap (index.go). Of a live
	// one: how many whole 256 bytes were not requested.
	beside []uint32
}

// MostSlack is the largest number of bytes by which a chunk may exceed what was requested of it.
const MostSlack = (math.MaxUint32 - 1) << granularityBits

// TableName names an allocator's table in the error for a host that is out of memory.
const TableName = "an allocator's table"

const (
	fewestRecords = 1024
	warmedRecords = 4096 // are committed together
)

// NewTable makes room for as many chunks as the limit can be cut into, and some fences. Under the TensorFlow rule,
// chunks may exceed what was requested of them by 256 bytes or more.
func NewTable(limitBytes uint64, tensorFlow bool) (t Table, err error) {
	most := min(limitBytes/Granularity+fewestRecords, math.MaxUint32)
	records, err := offheap.MapUpTo[Chunk](TableName, max(int(most), fewestRecords), fewestRecords)
	if err != nil {
		return t, err
	}
	t = Table{Records: records, fresh: None + 1, warm: fewestRecords}
	records[None] = FenceAt(0, None)
	if tensorFlow {
		t.beside, err = offheap.Map[uint32](TableName, len(records))
	}
	return t, err
}

// Unmap ends the table. No record may be used afterwards.
func (t *Table) Unmap() error { return errors.Join(offheap.Unmap(t.Records), offheap.Unmap(t.beside)) }

// Own makes free chunk i, which is in no bins, live: a block of so many requested bytes.
func (t *Table) Own(i uint32, requested, id uint64, by holder.ID) {
	c := &t.Records[i]
	slack := c.bytes - requested
	c.addr |= slack & lowByte
	c.bytes |= stateLive
	c.binPrev, c.binNext = uint32(id>>16), uint32(id)<<16|uint32(by)
	if t.beside != nil {
		t.beside[i] = uint32(slack >> granularityBits)
	}
}

// Requested returns the bytes that the caller requested of a live chunk.
func (t *Table) Requested(i uint32) uint64 {
	c := &t.Records[i]
	requested := c.Bytes() - c.addr&lowByte
	if t.beside != nil {
		requested -= uint64(t.beside[i]) << granularityBits
	}
	return requested
}

// HasFresh reports whether there is a record that was never used, so that the next Take succeeds. It takes one
// comparison.
func (t *Table) HasFresh() bool { return int(t.fresh) < len(t.Records) }

// Used returns the number of records that were ever used. Records from that number on are not in use.
func (t *Table) Used() uint32 { return t.fresh }

// RoomFor makes sure that n calls of Take succeed, so that no step has to be undone for lack of a record.
func (t *Table) RoomFor(n int) error {
	if int(t.fresh)+n <= len(t.Records) {
		return nil
	}
	return t.roomAmongRecycled(n)
}

func (t *Table) roomAmongRecycled(n int) error {
	n -= len(t.Records) - int(t.fresh)
	for i := t.recycled; i != None && n > 0; i = t.Records[i].Next {
		n--
	}
	if n > 0 {
		return status.Errorf(status.ResourceExhausted,
			"the host is out of memory for more than the %d chunks of an allocator's table", len(t.Records))
	}
	return nil
}

// Take returns an unused record. RoomFor was called; the caller sets every field.
func (t *Table) Take() uint32 {
	if i := t.recycled; i != None {
		t.recycled = t.Records[i].Next
		return i
	}
	if t.fresh == t.warm {
		t.warmUp()
	}
	t.fresh++
	return t.fresh - 1
}

func (t *Table) warmUp() {
	t.warm = uint32(min(uint64(t.fresh)+warmedRecords, uint64(len(t.Records))))
	offheap.Warm(t.Records, int(t.fresh), int(t.warm))
}

// Recycle ends the use of a record.
func (t *Table) Recycle(i uint32) {
	t.Records[i] = Chunk{Next: t.recycled}
	t.recycled = i
}

// SplitOff cuts free chunk i after its first bytes and returns the rest, a new chunk that is in no bins yet.
func (t *Table) SplitOff(i uint32, bytes uint64) uint32 {
	r := t.Take()
	records := t.Records
	c, rest := &records[i], &records[r]
	*rest = Chunk{addr: c.addr + bytes, bytes: c.bytes - bytes, Prev: i, Next: c.Next}
	records[c.Next].Prev = r
	c.bytes, c.Next = bytes, r
	return r
}

// Absorb joins free chunk right to its free lower neighbor left. The record of left stays, so a region's first chunk
// is the same record for as long as the region lives.
func (t *Table) Absorb(left, right uint32) {
	records := t.Records
	l, r := &records[left], &records[right]
	l.bytes += r.bytes
	l.Next = r.Next
	records[r.Next].Prev = left
	t.Recycle(right)
}

// Granularity of sizes and addresses, in bytes.
const (
	Granularity     = 256
	granularityBits = 8
)

// None is the number of no chunk, so that zeroed tables are empty. Its record may be read where a link leads nowhere:
// it is never free.
const None uint32 = 0

// A Chunk is one piece of a region. It takes 32 bytes, so that a record never straddles two cache lines: what would
// need more shares a place. The low bytes of the address and of the size, which are multiples of 256, hold the rest of
// a live chunk's last 256 bytes and the state. The links of the free list share their place with the id and the holder,
// since a chunk has either.
//
// Behind the last chunk of a region stands its fence: a record of 0 bytes that is never free. Through it a region finds
// its last chunk, whatever was split or joined there, at no cost to splits and joins.
type Chunk struct {
	addr    uint64 // and in the low byte how many bytes of the last 256 were not requested; 0 unless live
	bytes   uint64 // and in the low byte the state
	Prev    uint32 // neighbor below in the region, or None
	Next    uint32 // neighbor above, at last the fence, which has none; in an unused record the next unused one
	binPrev uint32 // free: list of the class; live: upper 32 bits of the id
	binNext uint32 // free: list of the class; live: lower 16 bits of the id, and the holder
}

// The states. A free chunk's is 0, so that its fields are its address and its size as they are.
const (
	stateFree uint64 = iota
	stateLive
	stateHeld
	stateFence
)

const lowByte = Granularity - 1

// Addr returns the address.
func (c *Chunk) Addr() uint64 { return c.addr &^ lowByte }

// Bytes returns the size.
func (c *Chunk) Bytes() uint64 { return c.bytes &^ lowByte }

// Free reports whether the chunk is free.
func (c *Chunk) Free() bool { return c.bytes&lowByte == stateFree }

// FreeBytes returns the size of a free chunk, and 0 for others. It has no branch: which chunks are free is not
// predictable.
func (c *Chunk) FreeBytes() (bytes uint64) {
	if bytes = c.bytes; bytes&lowByte != stateFree {
		bytes = 0
	}
	return bytes
}

// Fence reports whether the record is a fence.
func (c *Chunk) Fence() bool { return c.bytes&lowByte == stateFence }

// Held reports whether the chunk was freed, but work of several streams may still touch it.
func (c *Chunk) Held() bool { return c.bytes&lowByte == stateHeld }

// Release ends a block: the chunk is free, and in no bins yet.
func (c *Chunk) Release() {
	c.addr &^= lowByte
	c.bytes &^= lowByte
}

// Hold ends a block that work of several streams may still touch.
func (c *Chunk) Hold() {
	c.Release()
	c.bytes |= stateHeld
}

// Shorten gives a free chunk, which is in no bins, fewer bytes.
func (c *Chunk) Shorten(bytes uint64) { c.bytes = bytes }

// IDMask are the bits of an id that a record keeps. At a million allocations a second, an id recurs after nine years.
const IDMask = 1<<48 - 1

// ID returns the id of a live chunk.
func (c *Chunk) ID() uint64 { return uint64(c.binPrev)<<16 | uint64(c.binNext)>>16 }

// Holder returns who holds a live chunk.
func (c *Chunk) Holder() holder.ID { return holder.ID(c.binNext) }

// FreeChunk returns the record of a free chunk without a neighbor below.
func FreeChunk(addr, bytes uint64, next uint32) Chunk {
	return Chunk{addr: addr, bytes: bytes, Next: next}
}

// FenceAt returns the record of a fence behind a chunk.
func FenceAt(addr uint64, last uint32) Chunk { return Chunk{addr: addr, bytes: stateFence, Prev: last} }

// RoundUp returns the chunk size that serves a request. ok is false where that would exceed 2^64.
func RoundUp(bytes uint64) (rounded uint64, ok bool) {
	if bytes > math.MaxUint64-(Granularity-1) {
		return math.MaxUint64, false
	}
	return (bytes + Granularity - 1) &^ (Granularity - 1), true
}
