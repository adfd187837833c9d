// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"maps"
	"slices"
)

// liveBefore returns an allocation for every block of one GPU that was live before the first of its events: it is
// freed, or live at the end, without having been allocated. Blocks of 0 bytes do not count.
func liveBefore(gpu int, events, liveAtEnd []Event, time int64) (before []Event) {
	live := make(map[uint64]Event, len(liveAtEnd))
	for _, b := range liveAtEnd {
		live[b.Addr] = b
	}
	for i := len(events) - 1; i >= 0; i-- {
		switch e := events[i]; e.Action {
		case Free:
			if e.Bytes > 0 {
				live[e.Addr] = e
			}
		case Allocate:
			delete(live, e.Addr)
		}
	}
	for addr, e := range live {
		b := Event{Micros: time, Action: Allocate, Before: true, GPU: gpu, Addr: addr, Bytes: e.Bytes, Block: e.Block,
			Holder: e.Holder, Stack: e.Stack}
		if e.Block > 0 {
			b.Stream = e.Stream // PyTorch frees a block on its own stream; others may use any
		}
		before = append(before, b)
	}
	slices.SortFunc(before, func(a, b Event) int { return cmp.Compare(a.Addr, b.Addr) })
	return before
}

// Complete adds allocations to a trace so that nothing is freed that was not allocated: such blocks were live before
// the trace began (invariant 3). added is their number. Events keep their order.
func Complete(events []Event) (complete []Event, added int) {
	byGPU := map[int][]Event{}
	for _, e := range events {
		byGPU[e.GPU] = append(byGPU[e.GPU], e)
	}
	for _, gpu := range slices.Sorted(maps.Keys(byGPU)) {
		complete = append(complete, liveBefore(gpu, byGPU[gpu], nil, events[0].Micros)...)
	}
	added = len(complete)
	return append(complete, events...), added
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
