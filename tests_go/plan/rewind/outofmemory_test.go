package rewind_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/tests_go/must"
)

func isFailure(e trace.Event) bool { return e.Action == trace.AllocateFailure }

// The state at a failed allocation is the one that the allocator had then, whatever was freed, released and allocated
// afterwards.
func TestTheStateAtAFailure(t *testing.T) {
	for _, row := range settingsTable {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(20) {
				steps := 50 + int(seed)*60
				was := run(t, rand.New(rand.NewPCG(seed, 9)), row.settings, steps, false)
				later := run(t, rand.New(rand.NewPCG(seed, 9)), row.settings, steps+300, false)
				failure := trace.Event{Action: trace.AllocateFailure, Bytes: 30 << 20, Stack: 7}
				before := append(slices.Clone(was.Events), failure)
				after := slices.DeleteFunc(slices.Clone(later.Events[len(was.Events):]), isFailure)
				history := &trace.History{Settings: historySettings(row.settings), GPUs: []trace.GPUHistory{
					{Events: slices.Concat(before, after), Segments: later.Segments, FreeAtFailure: 5 << 20},
				}}
				list, err := rewind.OutOfMemories(context.Background(), history, &trace.Recording{Events: before})
				require.NoError(t, err)
				require.Len(t, list, 1)
				found := list[0]
				require.Empty(t, found.Unknown, "seed %d", seed)
				require.Equal(t, []any{len(before), uint64(30 << 20), uint32(7), uint64(5 << 20)},
					[]any{found.Event, found.Requested, found.Stack, found.DeviceFree})
				wanted, wantedBytes := heldIn(was.Segments)
				held, bytes := map[uint64]uint64{}, uint64(0)
				for _, s := range found.Segments {
					at := s.Bytes
					for _, b := range s.Blocks {
						at -= b.Bytes
						if b.Requested > 0 {
							held[b.Addr] = b.Requested
							require.GreaterOrEqual(t, b.Bytes, b.Requested)
						}
					}
					require.Zero(t, at, "the blocks cover the segment")
					bytes += s.Bytes
				}
				require.Equal(t, wanted, held, "seed %d", seed)
				require.Equal(t, wantedBytes, bytes, "seed %d", seed)
			}
		})
	}
}

func heldIn(segments []trace.Segment) (held map[uint64]uint64, bytes uint64) {
	held = map[uint64]uint64{}
	for _, s := range segments {
		bytes += s.Bytes
		for _, b := range s.Blocks {
			if b.Held {
				held[b.Addr] = b.Requested
			}
		}
	}
	return held, bytes
}

// A record that contradicts itself has a reason instead of segments, and one that goes on after a failure has no state.
func TestFailuresWithoutAState(t *testing.T) {
	failure := trace.Event{Action: trace.AllocateFailure, Bytes: 1}
	free := trace.Event{Action: trace.Free, Addr: 1 << 30, Bytes: 512}
	allocation := trace.Event{Action: trace.Allocate, Addr: 1 << 30, Bytes: 512}
	find := func(events ...trace.Event) []*rewind.OutOfMemory {
		list := must.OK(rewind.OutOfMemories(context.Background(),
			&trace.History{GPUs: []trace.GPUHistory{{Events: events}}}, &trace.Recording{Events: events}))(t)
		return list
	}
	require.Contains(t, find(allocation, failure, free)[0].Unknown, "no segment holds it")
	require.Empty(t, find(failure, allocation))
	require.Empty(t, find(failure)[0].Segments)
	require.Empty(t, find(allocation))
}

// A context that has ended stops the computation of the start as well as the replay.
func TestACanceledVerify(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	history := &trace.History{GPUs: []trace.GPUHistory{recorded(t, records(t)[0])}}
	require.ErrorIs(t, must.Err(rewind.Verify(ctx, history)), context.Canceled)
	events := append(slices.Clone(history.GPUs[0].Events), trace.Event{Action: trace.AllocateFailure, Bytes: 1})
	history.GPUs[0].Events = append(slices.Clone(events), trace.Event{Action: trace.Free, Addr: 1, Bytes: 1})
	require.ErrorIs(t, must.Err(rewind.OutOfMemories(ctx, history, &trace.Recording{Events: events})), context.Canceled)
}

// A record with very many mapped ranges takes time about in proportion to them.
func TestManyMappedRanges(t *testing.T) {
	const ranges = 200_000
	events := make([]trace.Event, 0, ranges)
	for i := range uint64(ranges) {
		events = append(events, trace.Event{Action: trace.SegmentUnmap, Addr: 1<<40 + (i*7919%ranges)<<22,
			Bytes: 2 << 20})
	}
	v := verify(t, trace.GPUHistory{Events: events})
	require.Equal(t, ranges, v.Segments)
}
