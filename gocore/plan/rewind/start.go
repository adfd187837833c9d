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
