package chunks

import (
	"math"

	"gpuconf/gocore/holder"
)

// None is the number of no chunk, so that zeroed tables are empty. Its record may be read where a link leads nowhere: it is never free.
const None uint32 = 0

// A Chunk is one piece of a region. It is free if and only if Requested is 0. The links of the free list share their place
// with the id and the holder, since a chunk has either: 40 bytes instead of 48.
//
// Behind the last chunk of a region stands its fence: a record of 0 bytes that is never free. Through it a region finds its
// last chunk, whatever was split or joined there, at no cost to splits and joins.
type Chunk struct {
	Addr      uint64
	Bytes     uint64
	Requested uint64 // the bytes that the caller requested; 0: free; or FenceMark or HeldMark
	Prev      uint32 // neighbor below in the region, or None
	Next      uint32 // neighbor above, at last the fence, which has none; in an unused record the next unused one
	binPrev   uint32 // free: list of the class; live: upper 32 bits of the id
	binNext   uint32 // free: list of the class; live: lower 16 bits of the id, and the holder
}

// Values of Requested that are larger than any request.
const (
	FenceMark = math.MaxUint64
	HeldMark  = math.MaxUint64 - 1
)

// Free reports whether the chunk is free.
func (c *Chunk) Free() bool { return c.Requested == 0 }

// Fence reports whether the record is a fence.
func (c *Chunk) Fence() bool { return c.Requested == FenceMark }

// Held reports whether the chunk was freed, but work of several streams may still touch it.
func (c *Chunk) Held() bool { return c.Requested == HeldMark }

// IDMask are the bits of an id that a record keeps. At a million allocations a second, an id recurs after nine years.
const IDMask = 1<<48 - 1

// ID returns the id of a live chunk.
func (c *Chunk) ID() uint64 { return uint64(c.binPrev)<<16 | uint64(c.binNext)>>16 }

// Holder returns who holds a live chunk.
func (c *Chunk) Holder() holder.ID { return holder.ID(c.binNext) }

// Own sets the id and the holder of a live chunk.
func (c *Chunk) Own(id uint64, by holder.ID) {
	c.binPrev, c.binNext = uint32(id>>16), uint32(id)<<16|uint32(by)
}
