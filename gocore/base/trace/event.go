// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"context"
	"slices"

	"gpuconf/gocore/base/holder"
)

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
	PoolLeft      // the last graph of a private pool is gone; Addr is that of memory of the pool
	FreeRequested // only in a History: a free that waits for another stream until Free
)

var actionNames = [...]string{"", "allocate", "allocate failure", "free", "segment_alloc", "segment_free",
	"segment_map", "segment_unmap", "pool_left"}

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
	Pool   uint32 // the private pool of PyTorch's allocator that it belongs to, as PoolNumber has it; 0: none
	GPU    int    // the logical GPU's number
	Addr   uint64 // the address of the first byte of the block or segment; 0 if an allocation failed
	Bytes  uint64 // the requested size; for a segment, its size
	Block  uint64 // the size of the block that PyTorch's allocator allocated or freed; 0: unknown
	Stream uint64 // CUDA's stream handle; 0 is the default stream
	Holder uint32 // who holds the block: an index in Names.Holders
	Stack  uint32 // the calls that led to an allocation: an index in Names.Stacks
}

// PoolNumber numbers PyTorch's names of pools, which are (n, 0) for a graph's and (0, n) for a program's own.
func PoolNumber(name [2]uint64) uint32 {
	if name[0] > 0 {
		return uint32(2 * name[0])
	}
	return uint32(2*name[1] + min(name[1], 1))
}

// PoolName returns PyTorch's name of the event's pool; 0, 0: the default pool.
func (e Event) PoolName() [2]uint64 {
	if e.Pool%2 == 0 {
		return [2]uint64{uint64(e.Pool / 2), 0}
	}
	return [2]uint64{0, uint64(e.Pool / 2)}
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

// location is where a block is: on a GPU, at an address.
type location struct {
	gpu  int
	addr uint64
}

// liveBefore returns an allocation for every block that was live before the first of the events, by GPU and address: it
// is freed, or live at the end, without having been allocated. Blocks of 0 bytes do not count.
func liveBefore(events, liveAtEnd []Event, time int64) (before []Event) {
	live := make(map[location]Event, len(liveAtEnd))
	for _, b := range liveAtEnd {
		live[location{b.GPU, b.Addr}] = b
	}
	for i := len(events) - 1; i >= 0; i-- {
		switch e := &events[i]; e.Action {
		case Free:
			if e.Bytes > 0 {
				live[location{e.GPU, e.Addr}] = *e
			}
		case Allocate:
			delete(live, location{e.GPU, e.Addr})
		}
	}
	for at, e := range live {
		b := Event{Micros: time, Action: Allocate, Before: true, GPU: at.gpu, Addr: at.addr, Bytes: e.Bytes,
			Block: e.Block, Holder: e.Holder, Stack: e.Stack}
		if e.Block > 0 {
			b.Stream = e.Stream // PyTorch frees a block on its own stream; others may use any
		}
		before = append(before, b)
	}
	slices.SortFunc(before, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Addr, b.Addr))
	})
	return before
}

// Complete adds allocations to a trace so that nothing is freed that was not allocated: such blocks were live before
// the trace began (invariant 3). added is their number. Events keep their order. If there are none, the result is
// events.
func Complete(events []Event) (complete []Event, added int) {
	if len(events) == 0 {
		return nil, 0
	}
	before := liveBefore(events, nil, events[0].Micros)
	if len(before) == 0 {
		return events, 0
	}
	return append(before, events...), len(before)
}

// CountHidden returns how many events are hidden. They come first.
func CountHidden(events []Event) (count int) {
	for _, e := range events {
		if e.Hidden() {
			count++
		}
	}
	return count
}

// FinalFailures returns the failed allocations that end a GPU's part of a trace, after which only memory is freed:
// their places, from 1, by GPU.
func FinalFailures(events []Event) map[int]int {
	final := map[int]int{}
	for i, e := range events {
		switch e.Action {
		case AllocateFailure:
			final[e.GPU] = i + 1
		case Allocate:
			delete(final, e.GPU)
		}
	}
	return final
}

// merged merges lists that are each in order of time. Among equal times, events of an earlier list come first.
func merged(ctx context.Context, lists [][]Event) ([]Event, error) {
	switch len(lists) {
	case 0:
		return nil, nil
	case 1:
		return lists[0], nil
	}
	left, err := merged(ctx, lists[:len(lists)/2])
	if err != nil {
		return nil, err
	}
	right, err := merged(ctx, lists[len(lists)/2:])
	if err != nil || len(left) == 0 {
		return right, err
	}
	if len(right) == 0 {
		return left, nil
	}
	both := make([]Event, 0, len(left)+len(right))
	for len(left) > 0 && len(right) > 0 {
		if len(both)%stepsBetween == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if right[0].Micros < left[0].Micros {
			both, right = append(both, right[0]), right[1:]
		} else {
			both, left = append(both, left[0]), left[1:]
		}
	}
	return append(append(both, left...), right...), nil
}
