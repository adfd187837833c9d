// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"slices"
)

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
