package timeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/timeline"
	"gpuconf/tests_go/must"
)

const intervals = 1000

// naive is the state of one GPU after each of its events.
type naive struct {
	live  map[uint64]timeline.Event
	inUse []map[uint32]uint64 // by holder, after each event
	total []uint64
	sets  []map[uint64]timeline.Event

	first      map[uint32]uint64 // what there was before
	firstTotal uint64
	firstSet   map[uint64]timeline.Event
}

func replay(events []trace.Event, gpu int) naive {
	n := naive{live: map[uint64]timeline.Event{}}
	holders := map[uint64]uint32{}
	complete, added := trace.Complete(events)
	for i, e := range complete {
		if e.GPU != gpu {
			continue
		}
		number := len(n.total)
		if i < added {
			number = -1
		}
		switch {
		case e.Action == trace.Allocate || e.Action == trace.Free:
			delete(n.live, e.Addr)
			if e.Action == trace.Allocate && e.Bytes > 0 {
				n.live[e.Addr] = timeline.Event{Event: number, Addr: e.Addr, Size: e.Size(), Stack: e.Stack}
				holders[e.Addr] = e.Holder
			}
		}
		sums, total, set := map[uint32]uint64{}, uint64(0), map[uint64]timeline.Event{}
		for addr, block := range n.live {
			sums[holders[addr]] += block.Size
			total += block.Size
			set[addr] = block
		}
		if i < added {
			n.first, n.firstTotal, n.firstSet = sums, total, set
			continue
		}
		n.inUse, n.total, n.sets = append(n.inUse, sums), append(n.total, total), append(n.sets, set)
	}
	return n
}

func TestMomentsAndThePeakAreThoseOfTheTrace(t *testing.T) {
	actions := rapid.SampledFrom([]trace.Action{trace.Allocate, trace.Allocate, trace.Free, trace.AllocateFailure,
		trace.SegmentMap})
	rapid.Check(t, func(t *rapid.T) {
		var events []trace.Event
		for i := range rapid.IntRange(1, 60).Draw(t, "events") {
			events = append(events, trace.Event{
				Micros: int64(1000 + i), Action: actions.Draw(t, "action"), GPU: rapid.IntRange(0, 1).Draw(t, "gpu"),
				Addr: rapid.Uint64Range(1, 8).Draw(t, "address") << 20, Bytes: rapid.Uint64Range(0, 5000).Draw(
					t, "bytes"),
				Holder: rapid.Uint32Range(0, 3).Draw(t, "holder"), Stack: rapid.Uint32Range(0, 3).Draw(t, "stack"),
			})
		}
		lines := must.OK(timeline.Of(context.Background(), events, rapid.IntRange(1, 70).Draw(t, "intervals")))(t)
		for _, line := range lines {
			n := replay(events, line.GPU)
			most, at, set := n.firstTotal, -1, n.firstSet
			for event, total := range n.total {
				if len(n.sets[event]) > 0 && total > most {
					most, at, set = total, event, n.sets[event]
				}
			}
			require.Equal(t, most, sum(line.Peak.InUse))
			if most > 0 {
				require.Equal(t, at, line.Peak.Event)
				require.Len(t, line.Blocks, len(set))
			}
			var size uint64
			for i, block := range line.Blocks {
				want := set[block.Addr]
				require.Equal(t, want.Event, block.Event)
				require.Equal(t, want.Stack, block.Stack)
				require.True(t, i == 0 || line.Blocks[i-1].Addr < block.Addr)
				size += block.Size
			}
			require.Equal(t, most, size)
			for _, moment := range line.Moments {
				for holder, bytes := range moment.InUse {
					want := n.first
					if moment.Event >= 0 {
						want = n.inUse[moment.Event]
					}
					require.Equal(t, want[line.Holders[holder]], bytes)
				}
			}
		}
	})
}

func sum(parts []uint64) (total uint64) {
	for _, part := range parts {
		total += part
	}
	return total
}

// The page of a recording that frees what was there before began at zero, and its peak was too low.
func TestWhatThereWasBeforeIsOneMoment(t *testing.T) {
	const gib = 1 << 30
	lines := must.OK(timeline.Of(context.Background(), []trace.Event{
		{Action: trace.Allocate, Before: true, Addr: 1, Bytes: gib, Block: 2 * gib, Micros: 5},
		{Action: trace.Allocate, Addr: 2, Bytes: gib, Micros: 5},
		{Action: trace.Free, Addr: 3, Bytes: 4 * gib, Micros: 6},
		{Action: trace.Allocate, Addr: 3, Bytes: gib, Micros: 7},
	}, intervals))(t)
	require.Equal(t, uint64(7*gib), sum(lines[0].Peak.InUse))
	require.Equal(t, uint64(6*gib), sum(lines[0].Moments[0].InUse))
	require.Equal(t, []int{-1, -1, 1}, []int{lines[0].Blocks[2].Event, lines[0].Blocks[0].Event,
		lines[0].Blocks[1].Event})
}

func TestALongTraceHasFewMomentsAndItsExtremes(t *testing.T) {
	var events []trace.Event
	for i := range 100_000 {
		events = append(events, trace.Event{Action: trace.Allocate, Addr: 1, Bytes: 256 * uint64(1+i%777)})
	}
	events[40_123].Bytes, events[70_001].Bytes = 256*5000, 0
	lines := must.OK(timeline.Of(context.Background(), events, intervals))(t)
	require.Len(t, lines, 1)
	require.LessOrEqual(t, len(lines[0].Moments), 3*intervals)
	require.Equal(t, 40_123, lines[0].Peak.Event)
	require.Contains(t, lines[0].Moments, timeline.Moment{Event: 70_001, InUse: []uint64{0}})
}

func TestSegmentsAtThePeak(t *testing.T) {
	at := func(action trace.Action, addr, bytes uint64) trace.Event {
		return trace.Event{Action: action, Addr: addr, Bytes: bytes}
	}
	lines := must.OK(timeline.Of(context.Background(), []trace.Event{
		at(trace.SegmentAlloc, 0, 100), at(trace.SegmentMap, 100, 100), at(trace.SegmentMap, 400, 300),
		at(trace.SegmentUnmap, 500, 100),
		at(trace.SegmentAlloc, 1000, 50), at(trace.SegmentFree, 1000, 50), at(trace.Allocate, 0, 10),
		at(trace.SegmentUnmap, 0, 200),
	}, intervals))(t)
	require.Equal(t, [][2]uint64{{0, 200}, {400, 100}, {600, 100}}, lines[0].Segments)
}

func TestFailuresAreFewAndIncludeTheLast(t *testing.T) {
	for _, count := range []int{1, 200, 201, 1000} {
		events := make([]trace.Event, count)
		for i := range events {
			events[i] = trace.Event{Action: trace.AllocateFailure, Bytes: uint64(i)}
		}
		lines := must.OK(timeline.Of(context.Background(), events, intervals))(t)
		require.Equal(t, count, lines[0].Failed)
		require.LessOrEqual(t, len(lines[0].Failures), timeline.MostFailures)
		require.Equal(t, count-1, lines[0].Failures[len(lines[0].Failures)-1].Event)
	}
}

func TestACancelledContextEndsTheWork(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := timeline.Of(ctx, []trace.Event{{Action: trace.Allocate, Addr: 1, Bytes: 1}}, intervals)
	require.ErrorIs(t, err, context.Canceled)
}
