package devmgr_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func startRecording(t testing.TB, m *devmgr.Manager, capacity int) *trace.Recorder {
	r := must.OK(trace.NewRecorder(capacity, nil))(t)
	require.NoError(t, m.Record(r))
	return r
}

// stopRecording returns the events without the fields that differ between runs.
func stopRecording(t testing.TB, m *devmgr.Manager, r *trace.Recorder) (events []trace.Event, lost uint64) {
	live, _ := m.StopRecording()
	r.Stop(live)
	recording := must.OK(r.Recording(context.Background()))(t)
	require.NoError(t, r.Close())
	for _, e := range recording.Events {
		e.Micros, e.Thread, e.Holder = 0, 0, 0
		events = append(events, e)
	}
	return events, recording.Lost
}

func TestEveryWayToAllocateAndFreeIsRecorded(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{8, 8}, []float64{8})
	stream := must.OK(d.machine.StreamCreate(0, 0, 0))(t)
	before := must.OK(m.Allocate(0, 999, 0))(t)
	r := startRecording(t, m, 100)

	plain := must.OK(m.Allocate(0, 1, 0))(t)
	routed := must.OK(m.AllocateKnowing(0, 1, stream, 0, 300, 0))(t)
	kept := must.OK(m.AllocateKnowing(1, -1, gpu.StreamNull, 0, 5000, 0))(t)
	must.Fail(t, status.ResourceExhausted, must.Err(m.Allocate(1, 9*mib, 0)))
	_, err := m.Allocate(1, 0, 0) // nothing happens
	require.NoError(t, err)
	must.Fail(t, status.InvalidArgument, must.Err(m.Allocate(9, 1, 0)))
	require.NoError(t, m.FreeID(plain.Addr, plain.ID))
	must.Fail(t, status.InvalidArgument, m.Free(plain.Addr))
	must.Fail(t, status.InvalidArgument, m.FreeID(before.Addr, 99))
	require.NoError(t, m.FreeOn(routed.Addr, stream))
	require.NoError(t, m.Free(before.Addr))

	events, lost := stopRecording(t, m, r)
	require.Zero(t, lost)
	require.ElementsMatch(t, []trace.Event{
		{Action: trace.Allocate, Before: true, Addr: before.Addr, Bytes: 999},
		{Action: trace.Allocate, Addr: plain.Addr, Bytes: 1},
		{Action: trace.SegmentAlloc, GPU: 1, Addr: routed.Addr, Bytes: 8 * mib},
		{Action: trace.Allocate, GPU: 1, Addr: routed.Addr, Bytes: 300, Stream: uint64(stream)},
		{Action: trace.SegmentAlloc, GPU: 2, Addr: kept.Addr, Bytes: 8 * mib},
		{Action: trace.Allocate, GPU: 2, Addr: kept.Addr, Bytes: 5000},
		{Action: trace.AllocateFailure, GPU: 1, Bytes: 9 * mib},
		{Action: trace.Free, Addr: plain.Addr, Bytes: 1},
		{Action: trace.Free, GPU: 1, Addr: routed.Addr, Bytes: 300, Stream: uint64(stream)},
		{Action: trace.Free, Addr: before.Addr, Bytes: 999},
	}, events)
	require.Equal(t, trace.Allocate, events[0].Action)
	require.Equal(t, before.Addr, events[0].Addr, "what was live before comes first")

	require.NoError(t, m.Free(kept.Addr)) // no longer recorded
	require.NoError(t, d.machine.StreamDestroy(0, stream))
}

func TestMemoryOfTheGPUIsRecorded(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, nil)
	require.NoError(t, setGrowth(m, 0))
	must.OK(m.Initialize(nil, "here", nil))(t)
	r := startRecording(t, m, 100)
	block := must.OK(m.Allocate(0, 3*mib, 0))(t)
	require.NoError(t, m.Free(block.Addr))
	must.OK(m.Trim())(t)
	events, _ := stopRecording(t, m, r)
	require.Equal(t, []trace.Event{
		{Action: trace.SegmentMap, Addr: block.Addr, Bytes: 4 * mib},
		{Action: trace.Allocate, Addr: block.Addr, Bytes: 3 * mib},
		{Action: trace.Free, Addr: block.Addr, Bytes: 3 * mib},
		{Action: trace.SegmentUnmap, Addr: block.Addr + 2*mib, Bytes: 2 * mib}, // an empty pool makes it spare
		{Action: trace.SegmentUnmap, Addr: block.Addr, Bytes: 2 * mib},
	}, events)
}

func TestRegionsThatGoBackAreRecorded(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	r := startRecording(t, m, 100)
	block := must.OK(m.Allocate(0, 1000, 0))(t)
	require.NoError(t, m.Free(block.Addr))
	must.OK(m.Trim())(t)
	events, _ := stopRecording(t, m, r)
	require.Equal(t, []trace.Event{
		{Action: trace.SegmentAlloc, Addr: block.Addr, Bytes: 8 * mib},
		{Action: trace.Allocate, Addr: block.Addr, Bytes: 1000},
		{Action: trace.Free, Addr: block.Addr, Bytes: 1000},
		{Action: trace.SegmentFree, Addr: block.Addr, Bytes: 8 * mib},
	}, events)
}

func TestPoolsThatComeLaterAreRecordedToo(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, nil)
	r := startRecording(t, m, 2)
	must.OK(m.Initialize(nil, "here", nil))(t)
	for range 2 {
		require.NoError(t, m.Free(must.OK(m.Allocate(0, 1000, 0))(t).Addr))
		_, _, err := m.Join(config.Options{AllowGrowth: true}, nil, "there", nil) // replaces the pools
		require.NoError(t, err)
	}
	all, lost := r.Count()
	require.EqualValues(t, 4, all)
	require.EqualValues(t, 2, lost)
	_, lost = stopRecording(t, m, r)
	require.GreaterOrEqual(t, lost, uint64(2), "and perhaps a segment")
}

func TestRecordingOnAClosedManager(t *testing.T) {
	m := must.OK(devmgr.New(nil, nil))(t)
	require.NoError(t, m.Close(false))
	must.Fail(t, status.FailedPrecondition, m.Record(must.OK(trace.NewRecorder(1, nil))(t)))
}

func TestRecordingMakesNoGoMemory(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	r := startRecording(t, m, 50)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		block, err := m.Allocate(0, 1000, 0)
		if err == nil {
			err = m.FreeID(block.Addr, block.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}))
	stopRecording(t, m, r)
}

// Sixteen threads allocate and free while recordings start and stop. Each recording is consistent: it frees only what
// was allocated, allocates only what is not live, and its live blocks at the end are the live blocks.
func TestThreadsAreRecorded(t *testing.T) {
	const threads, rounds = 16, 400
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{64, 64})
	for range 5 {
		old := must.OK(m.Allocate(0, 777, 0))(t)
		r := startRecording(t, m, threads*rounds*2+1000)
		var group sync.WaitGroup
		for i := range threads {
			group.Go(func() {
				var held []uint64
				for n := range rounds {
					block, err := m.Allocate(i%2, uint64(1+n*100), 0)
					if err != nil {
						t.Error(err)
						return
					}
					held = append(held, block.Addr)
					if n%3 > 0 {
						err = m.Free(held[0])
						held = held[1:]
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
				for _, addr := range held {
					if err := m.Free(addr); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		events, lost := stopRecording(t, m, r)
		require.Zero(t, lost)
		live := [2]map[uint64]uint64{{}, {}}
		allocations := 0
		for _, e := range events {
			switch e.Action {
			case trace.Allocate:
				require.NotContains(t, live[e.GPU], e.Addr)
				live[e.GPU][e.Addr] = e.Bytes
				allocations++
			case trace.Free:
				require.Equal(t, live[e.GPU][e.Addr], e.Bytes)
				delete(live[e.GPU], e.Addr)
			}
		}
		require.Equal(t, threads*rounds+1, allocations)
		require.Equal(t, [2]map[uint64]uint64{{old.Addr: 777}, {}}, live)
		require.NoError(t, m.Free(old.Addr))
	}
}

// A recording that starts in the middle of an allocation waits for its end: the block was live before, and so was its
// region.
func TestARecordingBeginsBetweenTwoChanges(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{64})
	entered, proceed := make(chan struct{}), make(chan struct{})
	d.beforeMemAlloc = func() { close(entered); <-proceed }
	allocated, recorded := make(chan bfc.Block), make(chan error)
	go func() {
		block, err := m.Allocate(0, 1000, 0)
		if err != nil {
			t.Error(err)
		}
		allocated <- block
	}()
	<-entered
	r := must.OK(trace.NewRecorder(10, nil))(t)
	go func() { recorded <- m.Record(r) }()
	select {
	case err := <-recorded:
		t.Errorf("a recording began within an allocation (%v)", err)
		recorded = nil
	case <-time.After(50 * time.Millisecond): // all that can be observed is that it waits
	}
	close(proceed)
	block := <-allocated
	if recorded != nil {
		require.NoError(t, <-recorded)
	}
	require.NoError(t, m.Free(block.Addr))
	events, _ := stopRecording(t, m, r)
	require.Equal(t, []trace.Event{
		{Action: trace.Allocate, Before: true, Addr: block.Addr, Bytes: 1000},
		{Action: trace.Free, Addr: block.Addr, Bytes: 1000},
	}, events)
}

// A recording that starts and stops while threads work contains everything done in between, and nothing else: each free
// is of a live block, no block is allocated twice, and its live blocks at the end are the live blocks.
func TestRecordingsBeginAndEndAmidWork(t *testing.T) {
	const threads, recordings, pairs = 4, 100, 20_000
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{64})
	stop := make(chan struct{})
	// pairs that may be made before the next recording: no more than it can hold, however long this thread has to wait
	var left atomic.Int64
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				runtime.Gosched()
				if left.Add(-1) < 0 {
					continue
				}
				block, err := m.Allocate(0, 1000, 0)
				if err == nil {
					err = m.Free(block.Addr)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer group.Wait()
	defer close(stop)
	for range recordings {
		left.Store(pairs)
		r := startRecording(t, m, 3*pairs)
		for range 20 {
			_, _ = r.Count() // while they append
			runtime.Gosched()
		}
		live, pools := m.StopRecording()
		r.Stop(live)
		recording := must.OK(r.Recording(context.Background()))(t)
		require.NoError(t, r.Close())
		require.Zero(t, recording.Lost)
		now := map[uint64]uint64{}
		for _, e := range recording.Events {
			switch e.Action {
			case trace.Allocate:
				require.NotContains(t, now, e.Addr)
				now[e.Addr] = e.Bytes
			case trace.Free:
				require.Contains(t, now, e.Addr)
				require.Equal(t, now[e.Addr], e.Bytes)
				delete(now, e.Addr)
			}
		}
		pictured := map[uint64]uint64{}
		for _, region := range pools[0].Regions {
			for _, c := range region.Chunks {
				if !c.Free {
					pictured[c.Addr] = c.Requested
				}
			}
		}
		require.Equal(t, pictured, now)
	}
}
