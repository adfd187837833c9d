// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// lived is a block that was allocated when the record began.
type lived struct {
	addr, requested uint64
	bytes           uint64 // 0: not known yet
	waiting         bool   // freed by the program already
}

// start is the state before the first event.
type start struct {
	segments []*area
}

// area is a segment, or what is mapped of an expandable one.
type area struct {
	trace.Segment         // without Blocks
	mapped        []span  // of an expandable one, in the order of addresses
	blocks        []lived // in the order of addresses
}

type span struct{ from, to uint64 }

// startOf undoes the events, the newest first.
func startOf(ctx context.Context, gpu trace.GPUHistory, settings *caching.Settings) (*start, error) {
	live, err := liveAtStart(ctx, gpu, settings)
	if err != nil {
		return nil, err
	}
	areas, err := areasAtStart(ctx, gpu, settings)
	if err != nil {
		return nil, err
	}
	for _, block := range live {
		a := areaAt(areas, block.addr)
		if a == nil {
			return nil, inconsistentf("the block at %#x was allocated when the record began, but no segment holds it",
				block.addr)
		}
		a.blocks = append(a.blocks, block)
	}
	return &start{segments: areas}, nil
}

// backward iterates over events, the newest first, and ends early when the context does: its user checks that
// afterwards.
func backward(ctx context.Context, events []trace.Event) iter.Seq2[int, trace.Event] {
	return func(yield func(int, trace.Event) bool) {
		for i := len(events) - 1; i >= 0; i-- {
			if i%stepsBetween == 0 && ctx.Err() != nil || !yield(i, events[i]) {
				return
			}
		}
	}
}

// liveAtStart returns the blocks in the order of addresses.
func liveAtStart(ctx context.Context, gpu trace.GPUHistory, settings *caching.Settings) ([]lived, error) {
	live := map[uint64]lived{}
	// Early versions of PyTorch record some sizes rounded, and others not.
	same := func(a, b uint64) bool { return settings.Round(a) == settings.Round(b) }
	for _, s := range gpu.Segments {
		for _, b := range s.Blocks {
			if b.Held {
				live[b.Addr] = lived{addr: b.Addr, requested: b.Requested, bytes: b.Bytes, waiting: b.Waiting}
			}
		}
	}
	for i, e := range backward(ctx, gpu.Events) {
		block, there := live[e.Addr]
		switch e.Action {
		case trace.Allocate:
			if !there {
				return nil, inconsistentf("event %d: the block that is allocated at %#x is neither freed later nor "+
					"there at the end", i+1, e.Addr)
			}
			if !same(block.requested, e.Bytes) {
				return nil, inconsistentf("event %d: %d bytes are allocated at %#x, and later the block has %d", i+1,
					e.Bytes, e.Addr, block.requested)
			}
			delete(live, e.Addr)
		case trace.FreeRequested:
			if !there || !block.waiting {
				return nil, inconsistentf("event %d: the block at %#x is freed, but allocated afterwards", i+1, e.Addr)
			}
			if !same(block.requested, e.Bytes) {
				return nil, inconsistentf("event %d: %d bytes are freed at %#x, and later the block has %d", i+1,
					e.Bytes, e.Addr, block.requested)
			}
			block.waiting = false
			live[e.Addr] = block
		case trace.Free:
			if there {
				return nil, inconsistentf("event %d: the block at %#x is freed, but allocated afterwards", i+1, e.Addr)
			}
			live[e.Addr] = lived{addr: e.Addr, requested: e.Bytes, waiting: true}
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	list := make([]lived, 0, len(live))
	for _, block := range live {
		list = append(list, block)
	}
	slices.SortFunc(list, func(a, b lived) int { return cmp.Compare(a.addr, b.addr) })
	return list, nil
}

// areasAtStart returns the segments in the order of addresses. An expandable segment is one area.
func areasAtStart(ctx context.Context, gpu trace.GPUHistory, settings *caching.Settings) ([]*area, error) {
	segments := map[uint64]trace.Segment{}
	for _, s := range gpu.Segments {
		s.Blocks = nil
		if !s.Expandable {
			segments[s.Addr] = s
		}
	}
	for i, e := range backward(ctx, gpu.Events) {
		s := trace.Segment{Addr: e.Addr, Bytes: e.Bytes, Stream: e.Stream}
		switch e.Action {
		case trace.SegmentAlloc:
			if segments[e.Addr].Bytes != e.Bytes {
				return nil, inconsistentf("event %d: the segment of %d bytes that is taken at %#x is neither "+
					"released nor there at the end", i+1, e.Bytes, e.Addr)
			}
			delete(segments, e.Addr)
		case trace.SegmentFree:
			if gpu.Pools != nil {
				s.Pool = gpu.Pools[i]
			}
			if _, there := segments[e.Addr]; there {
				return nil, inconsistentf("event %d: the segment at %#x is released, but there afterwards", i+1, e.Addr)
			}
			s.Small = e.Bytes <= smallSegment
			segments[e.Addr] = s
		}
	}
	areas, err := expandableAtStart(ctx, gpu, settings)
	if err != nil {
		return nil, err
	}
	for _, s := range segments {
		areas = append(areas, &area{Segment: s})
	}
	slices.SortFunc(areas, func(a, b *area) int { return cmp.Compare(a.Addr, b.Addr) })
	for i, a := range areas[min(1, len(areas)):] {
		if before := areas[i]; before.Addr+before.Bytes > a.Addr {
			return nil, inconsistentf("the segments at %#x and %#x overlap", before.Addr, a.Addr)
		}
	}
	return areas, nil
}

func areaAt(areas []*area, addr uint64) *area {
	i, there := slices.BinarySearchFunc(areas, addr,
		func(a *area, addr uint64) int { return cmp.Compare(a.Addr, addr) })
	if !there {
		i--
	}
	if i < 0 || addr-areas[i].Addr >= areas[i].Bytes {
		return nil
	}
	return areas[i]
}

const smallSegment = 2 << 20

// mostUnsplit is the most that PyTorch leaves at the end of a large block.
const mostUnsplit = 1 << 20

// measure finds the sizes of the blocks that were live at the beginning. Those for which the record allows several get
// the smallest. unsure has, by address, how much larger they may be.
func (s *start) measure(settings *caching.Settings, events []trace.Event) (unsure map[uint64]uint64, err error) {
	open := map[uint64]uint64{} // address to smallest size
	for _, a := range s.segments {
		for i := range a.blocks {
			b := &a.blocks[i]
			end := a.end(b.addr)
			if i+1 < len(a.blocks) {
				end = min(end, a.blocks[i+1].addr)
			}
			least, room := settings.Round(b.requested), end-b.addr
			if b.bytes == 0 {
				b.bytes = least
				switch rest := room - least; {
				case least > room, settings.ExpandableSegments && a.Expandable, a.Small:
				case rest <= mostUnsplit || settings.Unsplit(least):
					b.bytes = room // no free block is that small, so the rest is part of this one
				default:
					open[b.addr] = least
				}
			}
			if b.bytes > room || b.bytes < b.requested {
				return nil, inconsistentf("the block of %d bytes at %#x, allocated when the record began, does not "+
					"fit into the %d bytes there", b.requested, b.addr, room)
			}
		}
	}
	s.resolve(open, events)
	unsure = map[uint64]uint64{}
	for addr := range open {
		unsure[addr] = mostUnsplit
	}
	return unsure, nil
}

// resolve goes through the events for the first allocation right behind each open block while it lives: it begins where
// the block ends.
func (s *start) resolve(open map[uint64]uint64, events []trace.Event) {
	addrs := make([]uint64, 0, len(open))
	for addr := range open {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	for _, e := range events {
		switch e.Action {
		case trace.Free:
			if i, there := slices.BinarySearch(addrs, e.Addr); there {
				addrs = slices.Delete(addrs, i, i+1)
			}
		case trace.Allocate:
			i, _ := slices.BinarySearch(addrs, e.Addr)
			if i == 0 {
				continue
			}
			addr := addrs[i-1]
			if bytes := e.Addr - addr; bytes >= open[addr] && bytes-open[addr] <= mostUnsplit {
				s.block(addr).bytes = bytes
				delete(open, addr)
				addrs = slices.Delete(addrs, i-1, i)
			}
		}
	}
}

func (s *start) block(addr uint64) *lived {
	a := areaAt(s.segments, addr)
	i, _ := slices.BinarySearchFunc(a.blocks, addr, func(b lived, addr uint64) int { return cmp.Compare(b.addr, addr) })
	return &a.blocks[i]
}

// end returns where the memory ends that begins at addr or before.
func (a *area) end(addr uint64) uint64 {
	if !a.Expandable {
		return a.Addr + a.Bytes
	}
	for _, m := range a.mapped {
		if addr >= m.from && addr < m.to {
			return m.to
		}
	}
	return addr
}
