package rewind_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/tests_go/must"
)

const gib, mib = 1 << 30, 1 << 20

// A difference names the event by its number in the record, from 1, and says what differs.
func TestADifferenceNamesItsEvent(t *testing.T) {
	original := recorded(t, "testdata/cnn.json.gz")
	taken := slices.IndexFunc(original.Events, func(e trace.Event) bool { return e.Action == trace.SegmentAlloc })
	alter := func(i int, change func(e *trace.Event)) string {
		altered := original
		altered.Events = slices.Clone(original.Events)
		change(&altered.Events[i])
		return verify(t, altered).Difference
	}
	require.Equal(t, fmt.Sprintf("event %d: PyTorch took memory for stream 0x7, and the allocation that needs it is "+
		"on stream 0x0", taken+1), alter(taken, func(e *trace.Event) { e.Stream = 7 }))
	freed := slices.IndexFunc(original.Events, func(e trace.Event) bool { return e.Action == trace.Free })
	require.Contains(t, alter(freed, func(e *trace.Event) { e.Stream = 7 }),
		fmt.Sprintf("event %d: the block at %#x is freed on stream 0x7", freed+1, original.Events[freed].Addr))
}

// Segments that overlap contradict each other.
func TestOverlappingSegmentsDiffer(t *testing.T) {
	v := verify(t, trace.GPUHistory{Segments: []trace.Segment{
		{Addr: gib, Bytes: 20 * mib}, {Addr: gib + 2*mib, Bytes: 20 * mib},
	}})
	require.Equal(t, "GPU 0: the segments at 0x40000000 and 0x40200000 overlap", v.Difference)
	v = verify(t, trace.GPUHistory{Segments: []trace.Segment{
		{Addr: gib, Bytes: 20 * mib}, {Addr: gib + 20*mib, Bytes: 20 * mib},
	}})
	require.Empty(t, v.Difference)
}

// A snapshot does not say how its PyTorch breaks ties. Whatever is assumed first, both ways are tried.
func TestBothWaysToBreakTiesAreTried(t *testing.T) {
	for _, byAge := range []bool{false, true} {
		history := run(t, rand.New(rand.NewPCG(1, 4)), caching.Settings{}, 5000, true)
		v := must.OK(rewind.Verify(context.Background(),
			&trace.History{Settings: trace.HistorySettings{TiesByAge: byAge}, GPUs: []trace.GPUHistory{history}}))(t)
		require.Empty(t, v.Difference)
	}
}

// The pools that a snapshot names are those of its events: a free segment of one pool serves no other.
func TestEventsHaveTheirPools(t *testing.T) {
	d := &recorder{memory: 4 * gib, next: 1 << 40, random: rand.New(rand.NewPCG(1, 5)), owners: map[uint64]uint64{}}
	model := caching.New(d, caching.Options{LimitBytes: 3 * gib})
	type held struct {
		block *caching.Block
		bytes uint64
		pool  [2]uint64
	}
	var pools [][2]uint64
	var live []held
	note := func(pool [2]uint64) {
		for len(pools) < len(d.events) {
			pools = append(pools, pool)
		}
	}
	graphs := [][2]uint64{{}, {0, 1}, {0, 2}}
	for i := range 600 {
		if i%3 == 2 {
			n := d.random.IntN(len(live))
			h := live[n]
			live = slices.Delete(live, n, n+1)
			d.note(trace.FreeRequested, h.block.Addr, h.bytes)
			d.note(trace.Free, h.block.Addr, h.bytes)
			note(h.pool)
			model.Free(h.block)
			continue
		}
		h := held{bytes: (1 + d.random.Uint64N(12)) * mib, pool: graphs[d.random.IntN(len(graphs))]}

		h.block = must.OK(model.Allocate(caching.Request{Bytes: h.bytes, Pool: h.pool}))(t)
		d.note(trace.Allocate, h.block.Addr, h.bytes)
		note(h.pool)
		live = append(live, h)
	}
	history := trace.GPUHistory{Events: d.events, Pools: pools, Segments: segmentsOf(model, live, nil,
		func(h held) (uint64, uint64) { return h.block.Addr, h.bytes })}
	v := verify(t, history)
	require.Empty(t, v.Difference)
	require.Equal(t, v.Allocations, v.SameAddress)
	cut := len(history.Events) / 2
	history.Events, history.Pools = history.Events[cut:], history.Pools[cut:]
	v = verify(t, history)
	require.Empty(t, v.Difference)
	require.Positive(t, v.SameAddress)
	history.Pools = slices.Concat(history.Pools[1:], history.Pools[:1])
	require.NotEmpty(t, verify(t, history).Difference, "pools of other events")
}

// A private pool keeps its segments. So a segment that was released is the default pool's, although one of a private
// pool has its address at the end.
func TestASegmentOfAPrivatePoolAtAnAddressThatIsUsedAgain(t *testing.T) {
	const private, again = 1 << 40, 2 << 40
	whole := func(action trace.Action, addr, bytes uint64) trace.Event {
		return trace.Event{Action: action, Addr: addr, Bytes: bytes}
	}
	events := []trace.Event{
		whole(trace.SegmentAlloc, private, 12*mib), whole(trace.Allocate, private, 12*mib),
		whole(trace.FreeRequested, private, 12*mib), whole(trace.Free, private, 12*mib),
		whole(trace.SegmentAlloc, again, 16*mib), whole(trace.Allocate, again, 16*mib),
		whole(trace.FreeRequested, again, 16*mib), whole(trace.Free, again, 16*mib),
		// 11 MiB would fit into the private pool's 12.
		whole(trace.Allocate, again, 11*mib),
		whole(trace.FreeRequested, again, 11*mib), whole(trace.Free, again, 11*mib),
		whole(trace.SegmentFree, again, 16*mib),
		whole(trace.SegmentAlloc, again, 14*mib), whole(trace.Allocate, again, 14*mib),
	}
	pool := [2]uint64{0, 1}
	v := verify(t, trace.GPUHistory{Events: events, Segments: []trace.Segment{
		{Addr: private, Bytes: 12 * mib, Pool: pool, Blocks: []trace.HeldBlock{{Addr: private, Bytes: 12 * mib}}},
		{Addr: again, Bytes: 14 * mib, Pool: pool,
			Blocks: []trace.HeldBlock{{Addr: again, Bytes: 14 * mib, Requested: 14 * mib, Held: true}}},
	}})
	require.Empty(t, v.Difference)
	require.Equal(t, v.Allocations, v.SameAddress)
	require.Equal(t, v.Segments, v.SameSegments)
}

// Blocks that may not be split are released first. Only if that is not enough does PyTorch wait for other streams and
// release everything.
func TestOversizeBlocksAreReleasedFirst(t *testing.T) {
	const big, mid, small, late, served = 1 << 40, 2 << 40, 3 << 40, 4 << 40, 5 << 40
	oversize := func(addr, bytes uint64) []trace.Event {
		return []trace.Event{{Action: trace.SegmentAlloc, Addr: addr, Bytes: bytes},
			{Action: trace.Allocate, Addr: addr, Bytes: bytes}}
	}
	events := slices.Concat(oversize(big, 60*mib), oversize(mid, 40*mib), oversize(late, 50*mib), []trace.Event{
		{Action: trace.SegmentAlloc, Addr: small, Bytes: 2 * mib},
		{Action: trace.Allocate, Addr: small, Bytes: 512},
		{Action: trace.FreeRequested, Addr: small, Bytes: 512},
		{Action: trace.Free, Addr: small, Bytes: 512},
		{Action: trace.FreeRequested, Addr: big, Bytes: 60 * mib},
		{Action: trace.Free, Addr: big, Bytes: 60 * mib},
		{Action: trace.FreeRequested, Addr: mid, Bytes: 40 * mib},
		{Action: trace.Free, Addr: mid, Bytes: 40 * mib},
		{Action: trace.FreeRequested, Addr: late, Bytes: 50 * mib}, // another stream still uses it
		// A request of 100 MiB, for which the device has no memory.
		{Action: trace.SegmentFree, Addr: big, Bytes: 60 * mib},
		{Action: trace.SegmentFree, Addr: mid, Bytes: 40 * mib},
		{Action: trace.Free, Addr: late, Bytes: 50 * mib},
		{Action: trace.SegmentFree, Addr: late, Bytes: 50 * mib},
		{Action: trace.SegmentFree, Addr: small, Bytes: 2 * mib},
	}, oversize(served, 100*mib))
	v := must.OK(rewind.Verify(context.Background(), &trace.History{
		Settings: trace.HistorySettings{MaxSplitBytes: 32 * mib},
		GPUs: []trace.GPUHistory{{Events: events, Segments: []trace.Segment{{Addr: served, Bytes: 100 * mib,
			Blocks: []trace.HeldBlock{{Addr: served, Bytes: 100 * mib, Requested: 100 * mib, Held: true}}}}}},
	}))(t)
	require.Empty(t, v.Difference)
	require.Equal(t, v.Segments, v.SameSegments)
}

// endsAfter is a context that has ended once it has been looked at a number of times.
type endsAfter struct {
	context.Context
	looks int
}

func (c *endsAfter) Err() error {
	if c.looks--; c.looks >= 0 {
		return nil
	}
	return context.Canceled
}

// A context that ends is the error, at whatever step and whatever kind of segments a record has, and not a difference.
func TestACanceledVerifyOfEveryKind(t *testing.T) {
	for _, row := range settingsTable {
		history := run(t, rand.New(rand.NewPCG(1, 6)), row.settings, 3000, false)
		history.Events = history.Events[len(history.Events)/2:]
		recorded := &trace.History{Settings: historySettings(row.settings), GPUs: []trace.GPUHistory{history}}
		whole := must.OK(rewind.Verify(context.Background(), recorded))(t)
		for looks := 0; ; looks++ {
			verdict, err := rewind.Verify(&endsAfter{context.Background(), looks}, recorded)
			if err == nil {
				require.Equal(t, whole, verdict, "%s: it was not canceled", row.name)
				require.Positive(t, looks)
				break
			}
			require.ErrorIs(t, err, context.Canceled, "%s, after %d looks", row.name, looks)
		}
	}
}

// Complete adds the sizes of blocks, which a request alone does not determine, and the segments before the first event.
func TestCompleteFindsBlocksAndTheStart(t *testing.T) {
	const old, taken = 1 << 40, 2 << 40
	events := []trace.Event{
		{Action: trace.Allocate, Addr: old, Bytes: 600},
		{Action: trace.SegmentAlloc, Addr: taken, Bytes: 20 * mib},
		{Action: trace.Allocate, Addr: taken, Bytes: 19*mib + 1}, // what is left is too small to be split off
		{Action: trace.FreeRequested, Addr: old, Bytes: 600},
		{Action: trace.Free, Addr: old, Bytes: 600},
		{Action: trace.Allocate, Addr: old, Bytes: 700},
	}
	history := &trace.History{GPUs: []trace.GPUHistory{{}, {Events: events, Segments: []trace.Segment{
		{Addr: old, Bytes: 2 * mib, Small: true, Blocks: []trace.HeldBlock{
			{Addr: old, Bytes: 1024, Requested: 700, Held: true}, {Addr: old + 1024, Bytes: 2*mib - 1024}}},
		{Addr: taken, Bytes: 20 * mib, Blocks: []trace.HeldBlock{
			{Addr: taken, Bytes: 20 * mib, Requested: 19*mib + 1, Held: true}}},
	}}}}
	recording := &trace.Recording{Events: []trace.Event{
		{Action: trace.Allocate, Addr: 3 << 40, Bytes: 5, GPU: 1, Before: true},
	}}
	for _, e := range events {
		if e.GPU = 1; e.Action != trace.FreeRequested {
			recording.Events = append(recording.Events, e)
		}
	}
	list := must.OK(rewind.Complete(context.Background(), history, recording))(t)
	require.Len(t, list, 1, "nothing is known of a GPU without events and segments")
	require.Equal(t, []any{1, uint64(22 * mib), "", ""},
		[]any{list[0].GPU, list[0].PeakReserved, list[0].Unknown, list[0].Differs})
	require.Len(t, list[0].Start, 1)
	require.Equal(t, uint64(old), list[0].Start[0].Addr)
	var blocks []uint64
	for _, e := range recording.Events {
		if e.Action == trace.Allocate && !e.Before || e.Action == trace.Free {
			blocks = append(blocks, e.Block)
		}
	}
	require.Equal(t, []uint64{1024, 20 * mib, 1024, 1024}, blocks)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, must.Err(rewind.Complete(ctx, history, recording)), context.Canceled)
}
