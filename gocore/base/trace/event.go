// SPDX-License-Identifier: Apache-2.0

package trace

import "gpuconf/gocore/base/holder"

// Action is the kind of an event.
type Action uint8

// The actions. The first three are those of RMM's files. The others record where a pool got its memory; plots use them.
const (
	Allocate        Action = iota + 1
	AllocateFailure        // nothing was allocated: Addr is 0
	Free
	SegmentAlloc // the pool has taken a region from the GPU
	SegmentFree
	SegmentMap // the pool has mapped memory into its range of addresses
	SegmentUnmap
	FreeRequested // only in a History: a free that waits for another stream until Free
)

var actionNames = [...]string{"", "allocate", "allocate failure", "free", "segment_alloc", "segment_free",
	"segment_map", "segment_unmap"}

// String returns the name used in files.
func (a Action) String() string {
	if int(a) >= len(actionNames) {
		return ""
	}
	return actionNames[a]
}

// Event is one operation on one logical GPU's memory.
type Event struct {
	Micros int64  // since 1970, or since midnight in a file without dates
	Thread uint64 // 0: unknown
	Action Action // what was done
	Before bool   // whether it stands for a block or a segment that existed when the trace began
	GPU    int    // the logical GPU's number
	Addr   uint64 // the address of the first byte of the block or segment; 0 if an allocation failed
	Bytes  uint64 // the requested size; for a segment, its size
	Block  uint64 // the size of the block that PyTorch's allocator allocated or freed; 0: unknown
	Stream uint64 // CUDA's stream handle; 0 is the default stream
	Holder uint32 // who holds the block: an index in Names.Holders
	Stack  uint32 // the calls that led to an allocation: an index in Names.Stacks
}

// BlockUnit is what pools round sizes up to.
const BlockUnit = 256

// Hidden reports whether an event is not part of the trace, but stands for a segment that there was before.
func (e Event) Hidden() bool { return e.Before && e.Action != Allocate }

// Size returns what a block counts for: what PyTorch used for it or, if that is unknown, its size rounded up as pools
// do.
func (e Event) Size() uint64 {
	if e.Block > 0 {
		return e.Block
	}
	return (e.Bytes + BlockUnit - 1) / BlockUnit * BlockUnit
}

// Block is a live block of memory.
type Block struct {
	Addr, Bytes uint64    // the address of the first byte, and the requested size
	Holder      holder.ID // who requested it
	Site        uint32    // the number of its call site; 0: unknown
}
