// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"gpuconf/gocore/base/trace"
)

const (
	// MostFailures is the most failed allocations of a Timeline.
	MostFailures = 200

	stepsBetween = 1 << 14 // events between two checks of the context
)

// Timeline is what a trace says about one logical GPU. Events are numbered from 0 among those of the GPU; times are
// microseconds since the first of them.
type Timeline struct {
	GPU     int      `json:"gpu"`     // the logical GPU's number
	Holders []uint32 `json:"holders"` // the trace's numbers of who holds memory
	Moments []Moment `json:"moments"` // in the order of time
	Peak    Moment   `json:"peak"`    // the moment with the most memory in use
	Blocks  []Event  `json:"blocks"`  // the blocks that are live at the peak, by address
	// Segments are the addresses and sizes of the pool's memory at the peak, by address. It is empty if the trace has
	// none.
	Segments [][2]uint64 `json:"segments"`
	Sites    []Site      `json:"sites"`        // in order of the first allocation
	Failures []Event     `json:"failures"`     // at most MostFailures, evenly chosen, with the last one
	Failed   int         `json:"num_failures"` // the number of all failed allocations
}

// Moment is the state after an event.
type Moment struct {
	Micros int64    `json:"micros"` // its time
	Event  int      `json:"event"`  // the number of the event; -1: before the first one
	InUse  []uint64 `json:"in_use"` // bytes, for each of Holders
}

// Event is an allocation, or one that failed.
type Event struct {
	Event  int    `json:"event"`   // its number; -1: the block was live before
	Micros int64  `json:"micros"`  // its time
	Addr   uint64 `json:"address"` // the address of the first byte; 0 if the allocation failed
	Bytes  uint64 `json:"nbytes"`  // the requested size
	Size   uint64 `json:"size"`    // the size of the block, as trace.Event.Size returns it
	Holder int    `json:"holder"`  // an index in Timeline.Holders
	Stack  uint32 `json:"stack"`   // the trace's number of the call stack
}

// Site is a call stack that allocates.
type Site struct {
	Stack uint32 `json:"stack"`           // the trace's number of the call stack
	Count uint64 `json:"num_allocs"`      // the number of its allocations
	Total uint64 `json:"allocated_bytes"` // the sum of their requested sizes
}

// Of returns the timeline of each logical GPU, by number, with time in at most so many intervals; or the context's
// error.
func Of(ctx context.Context, events []trace.Event, intervals int) ([]*Timeline, error) {
	builders := map[int]*builder{}
	complete, added := trace.Complete(events)
	for i, e := range complete {
		if i%stepsBetween == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b := builders[e.GPU]
		if b == nil {
			b = newBuilder(e)
			builders[e.GPU] = b
		}
		if i < added {
			b.added++
		}
		b.add(e)
	}
	list := []*Timeline{}
	for _, gpu := range slices.Sorted(maps.Keys(builders)) {
		b := builders[gpu]
		b.sumUp(intervals)
		list = append(list, b.Timeline)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return list, nil
}

// change is one event's change of the memory in use. An event that reuses an address has two.
type change struct {
	// event is an index in builder.events. All blocks that were live before the trace share the last of their events,
	// so that they are one moment.
	event  int32
	begun  int32 // in builder.events: the allocation
	holder int32
	addr   uint64
	bytes  int64 // negative for a free
}

type builder struct {
	*Timeline
	events  []trace.Event // of this GPU
	added   int           // those of them that trace.Complete added; they come first
	peakAt  int32         // in events
	initial int32         // the last of the events that stand for what there was before; -1: there are none
	changes []change
	live    map[uint64]change // the allocations of the live blocks
	holders map[uint32]int32
	sites   map[uint32]int
}

func newBuilder(first trace.Event) *builder {
	return &builder{
		Timeline: &Timeline{
			GPU: first.GPU, Holders: []uint32{}, Moments: []Moment{}, Blocks: []Event{}, Segments: [][2]uint64{},
			Sites: []Site{}, Failures: []Event{},
		},
		initial: -1, live: map[uint64]change{}, holders: map[uint32]int32{}, sites: map[uint32]int{},
	}
}

func (b *builder) add(e trace.Event) {
	number := int32(len(b.events))
	b.events = append(b.events, e)
	if e.Before && number == b.initial+1 {
		b.initial = number
	}
	holder, known := b.holders[e.Holder]
	if !known {
		holder = int32(len(b.Holders))
		b.holders[e.Holder] = holder
		b.Holders = append(b.Holders, e.Holder)
	}
	switch e.Action {
	case trace.Allocate:
		b.count(e)
		b.end(number, e.Addr)
		if e.Bytes > 0 {
			c := change{number, number, holder, e.Addr, int64(e.Size())}
			b.live[e.Addr] = c
			b.changes = append(b.changes, c)
		}
	case trace.Free:
		b.end(number, e.Addr)
	case trace.AllocateFailure:
		b.Failed++
	}
}

// end ends the block at an address, if there is one.
func (b *builder) end(event int32, addr uint64) {
	if c, ok := b.live[addr]; ok {
		delete(b.live, addr)
		b.changes = append(b.changes, change{event, c.begun, c.holder, addr, -c.bytes})
	}
}

func (b *builder) count(e trace.Event) {
	at, known := b.sites[e.Stack]
	if !known {
		at = len(b.Sites)
		b.sites[e.Stack] = at
		b.Sites = append(b.Sites, Site{Stack: e.Stack})
	}
	b.Sites[at].Count++
	b.Sites[at].Total += e.Bytes
}

func (b *builder) event(number int) Event {
	e, shown := b.events[number], b.number(number)
	if number <= int(b.initial) {
		shown = -1
	}
	return Event{shown, b.micros(number), e.Addr, e.Bytes, e.Size(), int(b.holders[e.Holder]), e.Stack}
}

// number returns an event's number as users see it.
func (b *builder) number(event int) int { return max(event-b.added, -1) }

func (b *builder) micros(event int) int64 {
	if event < b.added {
		return 0
	}
	return b.events[event].Micros - b.events[b.added].Micros
}

func (b *builder) sumUp(intervals int) {
	for i := range b.changes {
		b.changes[i].event = max(b.changes[i].event, b.initial)
	}
	b.findMoments(intervals)
	b.findBlocks()
	b.findSegments()
	b.findFailures()
}

func (b *builder) findMoments(intervals int) {
	wanted := b.extremes(intervals)
	inUse := make([]uint64, len(b.Holders))
	b.Peak = Moment{InUse: slices.Clone(inUse)}
	var now int64
	most := int64(-1)
	for at, c := range b.changes {
		inUse[c.holder] += uint64(c.bytes)
		now += c.bytes
		if b.halfway(at) || len(wanted) == 0 || wanted[0] != c.event {
			continue
		}
		wanted = wanted[1:]
		b.Moments = append(b.Moments, Moment{b.micros(int(c.event)), b.number(int(c.event)), slices.Clone(inUse)})
		if now > most {
			most, b.Peak, b.peakAt = now, b.Moments[len(b.Moments)-1], c.event
		}
	}
}

// halfway reports whether a change is the first of two of its event. The state between them is no moment.
func (b *builder) halfway(at int) bool {
	return at+1 < len(b.changes) && b.changes[at+1].event == b.changes[at].event
}

// extremes returns, in order, the events after which an interval has its least and its greatest memory in use, and its
// last one.
func (b *builder) extremes(intervals int) (wanted []int32) {
	length := int32((len(b.events) + intervals - 1) / intervals)
	type state struct {
		bytes int64
		event int32
	}
	var now int64
	var least, most, last state
	begun := false
	note := func() {
		if begun {
			wanted = append(wanted, least.event, most.event, last.event)
		}
	}
	for at, c := range b.changes {
		now += c.bytes
		if b.halfway(at) {
			continue
		}
		if !begun || c.event/length != last.event/length {
			note()
			least, most, begun = state{now, c.event}, state{now, c.event}, true
		}
		last = state{now, c.event}
		if now < least.bytes {
			least = last
		}
		if now > most.bytes {
			most = last
		}
	}
	note()
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

func (b *builder) findBlocks() {
	live := map[uint64]int32{}
	for _, c := range b.changes {
		if c.event > b.peakAt {
			break
		}
		if c.bytes < 0 {
			delete(live, c.addr)
		} else {
			live[c.addr] = c.begun
		}
	}
	for _, event := range live {
		b.Blocks = append(b.Blocks, b.event(int(event)))
	}
	slices.SortFunc(b.Blocks, func(one, other Event) int { return cmp.Compare(one.Addr, other.Addr) })
}

func (b *builder) findSegments() {
	mapped := map[uint64]uint64{} // address: end. Adjacent ranges are joined at the end
	for _, e := range b.events[:min(int(b.peakAt)+1, len(b.events))] {
		switch e.Action {
		case trace.SegmentAlloc, trace.SegmentMap:
			mapped[e.Addr] = e.Addr + e.Bytes
		case trace.SegmentFree, trace.SegmentUnmap:
			unmap(mapped, e.Addr, e.Addr+e.Bytes)
		}
	}
	for _, start := range slices.Sorted(maps.Keys(mapped)) {
		end := mapped[start]
		if n := len(b.Segments); n > 0 && b.Segments[n-1][0]+b.Segments[n-1][1] >= start {
			last := &b.Segments[n-1]
			last[1] = max(last[1], end-last[0])
		} else {
			b.Segments = append(b.Segments, [2]uint64{start, end - start})
		}
	}
}

// unmap removes a range, which may be a part of what was mapped at once.
func unmap(mapped map[uint64]uint64, start, end uint64) {
	if mapped[start] == end {
		delete(mapped, start)
		return
	}
	for low, high := range maps.Clone(mapped) {
		if low >= end || high <= start {
			continue
		}
		delete(mapped, low)
		if low < start {
			mapped[low] = start
		}
		if high > end {
			mapped[end] = high
		}
	}
}

func (b *builder) findFailures() {
	every := (b.Failed + MostFailures - 1) / MostFailures
	left := b.Failed
	for number, e := range b.events {
		if e.Action != trace.AllocateFailure {
			continue
		}
		left--
		if left%every == 0 {
			b.Failures = append(b.Failures, b.event(number))
		}
	}
}
