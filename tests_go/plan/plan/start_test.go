package plan_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/plan/plan"
)

// PyTorch had a segment of 20 MiB with a block of 10 before the first event. The plan goes on in that segment: a block
// of 8 MiB fits into the rest of it. Without the segment each of them would take one of its own.
func TestAPlanGoesOnWithTheSegmentsThatPyTorchHad(t *testing.T) {
	const addr = 1 << 41
	start := []caching.Segment{{Addr: addr, Bytes: 20 * mib, Pieces: []caching.Piece{
		{Addr: addr, Bytes: 10 * mib, Allocated: true}, {Addr: addr + 10*mib, Bytes: 10 * mib}}}}
	events := []trace.Event{
		{Action: trace.Allocate, Addr: addr, Bytes: 10 * mib, Before: true},
		{Action: trace.Allocate, Addr: addr + 10*mib, Bytes: 8 * mib, Micros: 1},
		{Action: trace.Free, Addr: addr, Bytes: 10 * mib, Micros: 2},
	}
	card := plan.Card{MemoryBytes: 30 * mib}
	pytorch := func(limit uint64, starts map[int][]caching.Segment) *plan.Result {
		results := finish(t, events, plan.Request{LimitBytes: limit, Starts: starts, Card: card,
			Policies: []plan.Policy{plan.PyTorch}}).Results()
		require.Len(t, results, 1)
		return results[0]
	}
	starts := map[int][]caching.Segment{0: start}
	r := pytorch(20*mib, starts)
	require.True(t, *r.Fits)
	require.Equal(t, 18*mib, r.Measure.PeakInUse)
	require.Equal(t, 20*mib, r.Measure.PeakReserved)
	require.Equal(t, 20*mib, r.LeastLimit)
	r = pytorch(19*mib, starts)
	require.False(t, *r.Fits, "what is in use cannot be released")
	require.Equal(t, 20*mib, r.LeastLimit)

	alone := pytorch(20*mib, nil)
	require.False(t, *alone.Fits)
	require.Equal(t, 30*mib, alone.LeastLimit)
	start[0].Pool = caching.PoolID{1, 0}
	require.Equal(t, 40*mib, pytorch(20*mib, starts).LeastLimit, "what a graph's pool has left serves nobody else")

	start[0].Pool = caching.PoolID{}
	events = append(events, trace.Event{Action: trace.Allocate, Addr: 1 << 42, Bytes: 16 * mib, Micros: 3})
	r = pytorch(64*mib, starts)
	require.False(t, *r.Fits)
	require.Equal(t, "device full", r.Failure.Cause, "the card has 10 MiB beside the segment")
}

// Three graphs each take 15 MiB and free it: each pool keeps its own. A replay in one pool needed 15 MiB for all three.
// Once PyTorch released a segment of a pool, nothing uses that pool any more, and the card has its memory again.
func TestPrivatePoolsAreKeptApart(t *testing.T) {
	events := func(left bool) (events []trace.Event) {
		for graph := range uint64(3) {
			e := trace.Event{Action: trace.Allocate, Addr: (graph + 1) << 41, Bytes: 15 * mib,
				Pool: trace.PoolNumber([2]uint64{graph + 1, 0}), Micros: int64(len(events))}
			events = append(events, e)
			e.Action = trace.Free
			if events = append(events, e); left {
				e.Action = trace.SegmentFree
				events = append(events, e)
			}
		}
		return events
	}
	for _, policy := range []plan.Policy{plan.PyTorch, plan.PyTorchExpandable} {
		require.GreaterOrEqual(t, one(t, events(false), policy, 0, plan.Card{}).LeastLimit, 45*mib, policy)
		require.LessOrEqual(t, one(t, events(true), policy, 0, plan.Card{}).LeastLimit, 20*mib, policy)
	}
}

// What a pool releases, the card has again.
func TestReleasedMemoryIsTheCards(t *testing.T) {
	const m = int64(mib)
	for _, policy := range []plan.Policy{plan.PyTorch, plan.TensorFlow, plan.Virtual} {
		r := one(t, script(32*m, -1, 48*m, -2, 40*m), policy, 64*mib, plan.Card{MemoryBytes: 64 * mib})
		require.True(t, *r.Fits, policy)
	}
}

// A chart of a job of any length has at most 400 points, and none is lost.
func TestATimelineHasAtMost400Points(t *testing.T) {
	for _, count := range []int{1, 399, 400, 401, 800, 801} {
		steps := make([]int64, count)
		for i := range steps {
			steps[i] = int64(mib)
		}
		timeline := one(t, script(steps...), plan.Regions, uint64(count)*mib, plan.Card{}).Measure.Timeline
		require.LessOrEqual(t, len(timeline), 400, count)
		require.GreaterOrEqual(t, len(timeline), min(count, 200), count)
		require.Equal(t, int64(count-1), timeline[len(timeline)-1].Micros)
		require.Equal(t, uint64(count)*mib, timeline[len(timeline)-1].InUse)
	}
}

func TestACardWithGranulesThatNoDriverHas(t *testing.T) {
	job, err := plan.New(context.Background(), script(1000), plan.Request{LimitBytes: mib, Card: plan.Card{
		GranuleBytes: 1000}, Policies: []plan.Policy{plan.Virtual}})
	require.NoError(t, err)
	require.ErrorContains(t, job.Determine(context.Background(), 0), "the device's granularity is 1000 bytes")
}
