// SPDX-License-Identifier: Apache-2.0

package chunks

import (
	"math"

	"gpuconf/gocore/base/holder"
)

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
