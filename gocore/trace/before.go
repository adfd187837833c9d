package trace

import (
	"cmp"
	"maps"
	"slices"
)

// liveBefore returns an allocation for every block of one GPU that was live before the first of its events: it is
// freed, or live at the end, without having been allocated. Blocks of 0 bytes do not count.
func liveBefore(gpu int, events []Event, liveAtEnd []Block, time int64) (before []Event) {
	live := make(map[uint64]uint64, len(liveAtEnd))
	for _, b := range liveAtEnd {
		live[b.Addr] = b.Bytes
	}
	for i := len(events) - 1; i >= 0; i-- {
		switch e := events[i]; e.Action {
		case Free:
			if e.Bytes > 0 {
				live[e.Addr] = e.Bytes
			}
		case Allocate:
			delete(live, e.Addr)
		}
	}
	for addr, bytes := range live {
		before = append(before, Event{Micros: time, Action: Allocate, GPU: gpu, Addr: addr, Bytes: bytes})
	}
	slices.SortFunc(before, func(a, b Event) int { return cmp.Compare(a.Addr, b.Addr) })
	return before
}

// Complete adds allocations to a trace so that nothing is freed that was not allocated: such blocks were live before
// the trace began. added is their number. Events keep their order.
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
