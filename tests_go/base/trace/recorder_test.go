package trace_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/tests_go/must"
)

func newRecorder(t require.TestingT, capacity int) *trace.Recorder {
	return must.OK(trace.NewRecorder(capacity, nil))(t)
}

func ringOf(t require.TestingT, r *trace.Recorder, gpu int) *trace.Ring {
	return must.OK(r.Ring(gpu, &sync.Mutex{}))(t)
}

// recorded stops a recording and returns its events. A second call returns the same.
func recorded(t require.TestingT, r *trace.Recorder, live map[int][]trace.Block) trace.Recording {
	r.Stop(live)
	recording := must.OK(r.Recording(context.Background()))(t)
	r.Stop(nil) // a second one changes nothing
	require.Equal(t, recording, must.OK(r.Recording(context.Background()))(t))
	require.NoError(t, r.Close())
	return recording
}

func record(ring *trace.Ring, action trace.Action, addr, bytes uint64) {
	ring.Append(action, addr, bytes, 0, 0, 0)
}

func TestRecordingTellsWhatWasDone(t *testing.T) {
	before := time.Now().UnixMicro()
	r := newRecorder(t, 10)
	ring := ringOf(t, r, 2)
	require.Same(t, ring, ringOf(t, r, 2), "one ring for a GPU")
	ring.Append(trace.Allocate, 0x100, 5, 7, holder.Of(holder.Torch, 0), 0)
	ring.Append(trace.AllocateFailure, 0, 6, 8, 0, 0)
	ring.Append(trace.Free, 0x100, 5, 9, holder.Of(holder.Torch, 0), 0)
	all, lost := r.Count()
	require.Equal(t, []uint64{3, 0}, []uint64{all, lost})
	recording := recorded(t, r, nil)
	after := time.Now().UnixMicro()
	require.Zero(t, recording.Lost)
	want := []trace.Event{
		{Action: trace.Allocate, GPU: 2, Addr: 0x100, Bytes: 5, Stream: 7, Holder: 1},
		{Action: trace.AllocateFailure, GPU: 2, Bytes: 6, Stream: 8, Holder: 2},
		{Action: trace.Free, GPU: 2, Addr: 0x100, Bytes: 5, Stream: 9, Holder: 1},
	}
	last := before - 1
	for i := range recording.Events {
		e := &recording.Events[i]
		require.GreaterOrEqual(t, e.Micros, last-1, "microseconds are cut off")
		last = e.Micros
		e.Micros, e.Thread = 0, 0
	}
	require.LessOrEqual(t, last, after)
	require.Equal(t, want, recording.Events)
	require.Equal(t, trace.Names{Holders: []trace.Holder{{}, {Library: "torch"}, {Library: "c"}},
		Stacks: []trace.Stack{nil}}, recording.Names)

	_, err := r.Recording(context.Background())
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err), "it was given up")
	must.Fail(t, status.FailedPrecondition, must.Err(r.Ring(0, &sync.Mutex{})))
	record(ring, trace.Free, 1, 1) // not recorded
}

func TestFullRingKeepsTheNewest(t *testing.T) {
	for capacity := 1; capacity <= 5; capacity++ {
		for n := range 13 {
			r := newRecorder(t, capacity)
			ring := ringOf(t, r, 0)
			for i := range n {
				record(ring, trace.AllocateFailure, 0, uint64(i))
			}
			all, lost := r.Count()
			require.EqualValues(t, n, all)
			require.EqualValues(t, max(n-capacity, 0), lost)
			recording := recorded(t, r, nil)
			require.Equal(t, lost, recording.Lost)
			require.Len(t, recording.Events, min(n, capacity))
			for i, e := range recording.Events {
				require.EqualValues(t, max(n-capacity, 0)+i, e.Bytes)
			}
		}
	}
}

func TestCapacitiesThatCannotBe(t *testing.T) {
	for _, capacity := range []int{0, -1, trace.MostEvents + 1} {
		_, err := trace.NewRecorder(capacity, nil)
		require.ErrorContains(t, err, "a recording can keep 1 to")
		must.Fail(t, status.InvalidArgument, err)
	}
	r := newRecorder(t, trace.MostEvents)
	record(ringOf(t, r, 0), trace.AllocateFailure, 0, 1)
	recording := recorded(t, r, nil)
	require.Len(t, recording.Events, 1)
}

func TestAppendMakesNoGoMemory(t *testing.T) {
	r := newRecorder(t, 100)
	ring := ringOf(t, r, 0)
	require.Zero(t, testing.AllocsPerRun(1000, func() { record(ring, trace.Allocate, 0x100, 1) }))
	require.NoError(t, r.Close())
}

func TestEachThreadHasItsNumber(t *testing.T) {
	r := newRecorder(t, 100)
	ring := ringOf(t, r, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	record(ring, trace.AllocateFailure, 0, 1)
	record(ring, trace.AllocateFailure, 0, 1)
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // another thread: this one is locked. It ends with the goroutine
		record(ring, trace.AllocateFailure, 0, 2)
		close(done)
	}()
	<-done
	recording := recorded(t, r, nil)
	first, second, other := recording.Events[0].Thread, recording.Events[1].Thread, recording.Events[2].Thread
	require.NotZero(t, first)
	require.Equal(t, first, second)
	require.NotZero(t, other)
	require.NotEqual(t, first, other)
}

// Sixteen threads change the accounting of two GPUs. In any order, a GPU's events have the order of its changes.
func TestThreadsRecord(t *testing.T) {
	const threads, each = 16, 2000
	r := newRecorder(t, threads*each)
	var accounting [2]sync.Mutex
	var next [2]uint64 // guarded by accounting
	var group sync.WaitGroup
	for i := range threads {
		ring := must.OK(r.Ring(i%2, &accounting[i%2]))(t)
		group.Go(func() {
			for range each {
				accounting[i%2].Lock()
				next[i%2]++
				ring.Append(trace.AllocateFailure, 0, next[i%2], uint64(i), 0, 0)
				accounting[i%2].Unlock()
			}
		})
	}
	group.Wait()
	recording := recorded(t, r, nil)
	require.Zero(t, recording.Lost)
	require.Len(t, recording.Events, threads*each)
	var seen [2]uint64
	var micros int64
	for _, e := range recording.Events {
		seen[e.GPU]++
		require.Equal(t, seen[e.GPU], e.Bytes)
		require.LessOrEqual(t, micros, e.Micros)
		micros = e.Micros
	}
}

// A recording is consistent in itself, whatever was live when it started and however much the ring has lost.
func TestBlocksThatWereLiveBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		unseen := rapid.IntRange(0, 20).Draw(t, "before the recording")
		seen := rapid.IntRange(0, 40).Draw(t, "during it")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r := newRecorder(t, capacity)
		ring := ringOf(t, r, 0)
		live := map[uint64]uint64{}
		after := []map[uint64]uint64{{}} // the live blocks after each recorded step
		for i := range unseen + seen {
			addr := 1 + random.Uint64N(6)
			action, bytes := trace.Free, live[addr]
			if bytes == 0 {
				action, bytes = trace.Allocate, 1+random.Uint64N(100)
				live[addr] = bytes
			} else {
				delete(live, addr)
			}
			if i >= unseen {
				record(ring, action, addr, bytes)
				after = append(after, clone(live))
			} else {
				after[0] = clone(live)
			}
		}
		var blocks []trace.Block
		for addr, bytes := range live {
			blocks = append(blocks, trace.Block{Addr: addr, Bytes: bytes})
		}
		recording := recorded(t, r, map[int][]trace.Block{0: blocks})
		began := len(after) - 1 - min(seen, capacity)
		now := map[uint64]uint64{}
		extra := len(recording.Events) - min(seen, capacity)
		for i, e := range recording.Events {
			if e.Action == trace.Allocate {
				require.NotContains(t, now, e.Addr)
				now[e.Addr] = e.Bytes
			} else {
				require.Equal(t, now[e.Addr], e.Bytes)
				delete(now, e.Addr)
			}
			if i+1 >= extra {
				require.Equal(t, after[began+i+1-extra], now)
			}
		}
		require.Equal(t, live, now)

		complete, added := trace.Complete(recording.Events)
		require.Zero(t, added)
		require.Equal(t, recording.Events, append([]trace.Event(nil), complete...))
	})
}

func clone(m map[uint64]uint64) map[uint64]uint64 {
	c := map[uint64]uint64{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

func TestCompleteAddsWhatIsOnlyFreed(t *testing.T) {
	events := []trace.Event{
		{Micros: 5, Action: trace.Free, Addr: 2, Bytes: 20, GPU: 1},
		{Micros: 6, Action: trace.Allocate, Addr: 2, Bytes: 30, GPU: 1},
		{Micros: 7, Action: trace.Free, Addr: 1, Bytes: 10, GPU: 1},
		{Micros: 8, Action: trace.Free, Addr: 1, Bytes: 11},
		{Micros: 9, Action: trace.Free, Addr: 3}, // of an unknown block
	}
	complete, added := trace.Complete(events)
	require.Equal(t, 3, added)
	require.Equal(t, append([]trace.Event{
		{Micros: 5, Action: trace.Allocate, Before: true, Addr: 1, Bytes: 11},
		{Micros: 5, Action: trace.Allocate, Before: true, Addr: 1, Bytes: 10, GPU: 1},
		{Micros: 5, Action: trace.Allocate, Before: true, Addr: 2, Bytes: 20, GPU: 1},
	}, events...), complete)
}

// Each distinct stack is stored once. A block that was live throughout has its stack, too.
func TestStacksOfARecording(t *testing.T) {
	var site uint32
	sites := trace.NewSites(func() uint32 { return site })
	r := must.OK(trace.NewRecorder(2, sites))(t)
	ring := ringOf(t, r, 0)
	require.Same(t, sites, ring.Sites())
	inner := trace.Frame{File: "a.py", Line: 3, Function: "f"}
	outer := trace.Frame{File: "b.py", Line: 1, Function: "<module>"}
	one := sites.Add("a.py\x003\x00f\x00b.py\x001\x00<module>\x00")
	two := sites.Add("b.py\x001\x00<module>\x00")
	require.NotZero(t, one)
	require.NotEqual(t, one, two)
	require.Equal(t, one, sites.Add("a.py\x003\x00f\x00b.py\x001\x00<module>\x00"))
	for _, malformed := range []string{"", "a", "a\x003\x00", "a\x00x\x00f\x00"} {
		require.Zero(t, sites.Add(malformed))
	}
	require.Equal(t, trace.Stack{inner, outer}, sites.Stack(one))
	require.Nil(t, sites.Stack(two+1))
	require.Nil(t, trace.NewSites(nil).Stack(one), "a number of another recording")

	for i, number := range []uint32{one, two, one, 0} { // the first two are overwritten
		site = number
		require.Equal(t, number, ring.Site())
		ring.Append(trace.Allocate, uint64(i+1)<<8, 5, 0, 0, ring.Site())
	}
	recording := recorded(t, r, map[int][]trace.Block{0: {
		{Addr: 0x100, Bytes: 5, Site: one}, {Addr: 0x200, Bytes: 5, Site: two}, {Addr: 0x300, Bytes: 5, Site: one},
		{Addr: 0x400, Bytes: 5}, {Addr: 0x500, Bytes: 5, Site: two + 1},
	}})
	stacks := map[uint64]trace.Stack{}
	for _, e := range recording.Events {
		stacks[e.Addr] = recording.Names.Stacks[e.Stack]
	}
	require.Equal(t, map[uint64]trace.Stack{0x100: {inner, outer}, 0x200: {outer}, 0x300: {inner, outer}, 0x400: nil,
		0x500: nil}, stacks)
	require.Len(t, recording.Names.Stacks, 3)

	found, ok := trace.Stack{{File: "/x/site-packages/torch/nn.py"}, {File: "/usr/lib/python3.12/runpy.py"}, inner,
		outer}.CallSite()
	require.True(t, ok)
	require.Equal(t, "a.py:3 (f)", found.String())
	found, _ = trace.Stack{{File: "<frozen runpy>", Line: 1, Function: "g"}}.CallSite()
	require.Equal(t, "<frozen runpy>:1 (g)", found.String())
	_, ok = trace.Stack(nil).CallSite()
	require.False(t, ok)
}

func BenchmarkAppend(b *testing.B) {
	r := must.OK(trace.NewRecorder(1<<16, nil))(b)
	ring := must.OK(r.Ring(0, &sync.Mutex{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		ring.Append(trace.Allocate, 4096, 256, 0, 0, 0)
	}
	require.NoError(b, r.Close())
}
