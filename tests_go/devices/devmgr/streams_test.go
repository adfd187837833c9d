package devmgr_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// gate is work that blocks a stream until open.
type gate struct {
	memory gpu.HostMemory
}

func closedGate(t *testing.T, d *driver, stream gpu.Stream) *gate {
	memory := must.OK(d.MemHostAlloc(0, 8))(t)
	atomic.StoreUint64(&memory.Words[0], 0)
	require.NoError(t, d.StreamWaitValue64(0, stream, memory.Addr, 1))
	return &gate{memory}
}

func (g *gate) open() { atomic.StoreUint64(&g.memory.Words[0], 1) }

func newStream(t *testing.T, d *driver) gpu.Stream {
	return must.OK(d.StreamCreate(0, gpu.StreamNonBlocking, 0))(t)
}

func fill(t *testing.T, d *driver, stream gpu.Stream, addr uint64, value byte, bytes uint64) {
	require.NoError(t, d.MemsetD8Async(0, addr, value, bytes, stream))
}

// requireFilled checks that each byte of a block has a value.
func requireFilled(t *testing.T, m *devmgr.Manager, block bfc.Block, value byte, size uint64, otherwise string) {
	now := make([]byte, size)
	require.NoError(t, m.CopyToHost(block.Addr, block.ID, 0, now))
	require.Equal(t, len(now), bytes.Count(now, []byte{value}), otherwise)
}

// A program that uses one stream, whichever it is, makes no driver call for what its pool has.
func TestOneStreamNeedsNoDriver(t *testing.T) {
	for name, which := range map[string]func(*testing.T, *driver) gpu.Stream{
		"the default stream": func(*testing.T, *driver) gpu.Stream { return gpu.StreamNull },
		"by its other name":  func(*testing.T, *driver) gpu.Stream { return gpu.StreamLegacy },
		"one that it made":   newStream,
	} {
		t.Run(name, func(t *testing.T) {
			m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{10})
			stream := which(t, d)
			first := must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t)
			before := d.CallsOf()
			for range 100 {
				block := must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t)
				require.NoError(t, m.FreeOn(block.Addr, stream))
			}
			after := d.CallsOf()
			for _, look := range []string{"StreamGetID", "StreamGetCaptureInfo"} { // they do not contact the GPU
				delete(after, look)
				delete(before, look)
			}
			require.Equal(t, before, after)
			require.NoError(t, m.Free(first.Addr))
		})
	}
}

// Memory that one stream still writes to is given to another one, which waits: its own writes come last.
func TestMemoryGoesFromStreamToStream(t *testing.T) {
	for name, opts := range map[string]simulated.Options{"words": {}, "events": {NoStreamMemOps: true}} {
		t.Run(name, func(t *testing.T) {
			m, d := initialized(t, "T4", opts, nil, []float64{8})
			require.NoError(t, d.ContextRetain(0), "so that Close does not end the context, and everything with it")
			one, other := newStream(t, d), newStream(t, d)
			block := must.OK(m.AllocateKnowing(0, -1, one, devmgr.Lasting, 8*mib, 0))(t)
			var held *gate
			if !opts.NoStreamMemOps {
				held = closedGate(t, d, one)
			}
			fill(t, d, one, block.Addr, 1, 8*mib)
			require.NoError(t, m.FreeOn(block.Addr, one))

			heir, err := m.AllocateKnowing(0, -1, other, devmgr.Lasting, 8*mib, 0)
			require.NoError(t, err, "the limit leaves no other memory")
			require.Equal(t, block.Addr, heir.Addr)
			fill(t, d, other, heir.Addr, 2, 8*mib)
			if held != nil {
				done := must.OK(d.StreamQuery(0, other))(t)
				require.False(t, done, "the heir's stream waits for the first one's work")
				held.open()
			}
			require.NoError(t, d.StreamSynchronize(0, one))
			require.NoError(t, d.StreamSynchronize(0, other))
			got := make([]byte, 8*mib)
			require.NoError(t, m.CopyToHost(heir.Addr, heir.ID, 0, got))
			for i, b := range got {
				if b != 2 {
					t.Fatalf("byte %d is the first stream's", i)
				}
			}
			require.NoError(t, m.Check())
			require.NoError(t, m.Free(heir.Addr))
			require.NoError(t, m.Close(false))
			if held != nil {
				require.NoError(t, d.MemFreeHost(0, held.memory.Addr))
			}
			require.Equal(t, simulated.Inventory{Retains: 1, Streams: 2}, d.machine.Inventory())
			require.NoError(t, d.ContextRelease(0))
		})
	}
}

// A program that works on one stream, in a pool that another one has used, soon makes no driver call for what its pool
// has. The other stream still gets that memory without a wait of the host, and its writes come last.
func TestOneStreamOfTwoSoonNeedsNoDriver(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			const limit, size = 256, 64 * mib
			m, d := initialized(t, "T4", opts, nil, []float64{limit})
			busy, other := newStream(t, d), newStream(t, d)
			first := must.OK(m.AllocateKnowing(0, -1, other, devmgr.Lasting, mib, 0))(t)
			calls := func(times int) map[string]int {
				before := d.CallsOf()
				for range times {
					block := must.OK(m.AllocateKnowing(0, -1, busy, devmgr.Lasting, size, 0))(t)
					require.NoError(t, m.Free(block.Addr))
				}
				after := d.CallsOf()
				for call, n := range before {
					if after[call] -= n; after[call] == 0 {
						delete(after, call)
					}
				}
				return after
			}
			calls(10)
			looks := map[string]int{"StreamGetCaptureInfo": 1000} // which do not contact the GPU
			require.Equal(t, looks, calls(1000))

			block := must.OK(m.AllocateKnowing(0, -1, busy, devmgr.Lasting, size, 0))(t)
			slowly(t, d, busy, opts)
			fill(t, d, busy, block.Addr, 1, size)
			require.NoError(t, m.Free(block.Addr))
			before := d.CallsOf()
			heir, err := m.AllocateKnowing(0, -1, other, devmgr.Lasting, (limit-1)*mib, 0)
			require.NoError(t, err, "all that the limit leaves")
			for _, wait := range []string{"ContextSynchronize", "StreamSynchronize", "EventSynchronize", "MemGetInfo"} {
				require.Equal(t, before[wait], d.CallsOf()[wait], "%s: the host does not wait", wait)
			}
			fill(t, d, other, heir.Addr, 2, (limit-1)*mib)
			require.NoError(t, d.StreamSynchronize(0, other))
			requireFilled(t, m, heir, 2, (limit-1)*mib, "the busy stream's work came last")
			require.NoError(t, m.Free(heir.Addr))
			require.NoError(t, m.Free(first.Addr))
			require.NoError(t, m.Check())
		})
	}
}

// A block that a second stream uses is not reused before that stream is done with it.
func TestRecordedStreamsHoldABlock(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	reader := newStream(t, d)
	block := must.OK(m.AllocateKnowing(0, -1, gpu.StreamNull, devmgr.Lasting, 4*mib, 0))(t)
	require.NoError(t, m.RecordStream(block.Addr, reader))
	held := closedGate(t, d, reader)
	require.NoError(t, m.Free(block.Addr))

	next := must.OK(m.AllocateKnowing(0, -1, gpu.StreamNull, devmgr.Lasting, 4*mib, 0))(t)
	require.NotEqual(t, block.Addr, next.Addr, "the reader is not done")
	held.open()
	require.NoError(t, d.StreamSynchronize(0, reader))
	third := must.OK(m.AllocateKnowing(0, -1, gpu.StreamNull, devmgr.Lasting, 4*mib, 0))(t)
	require.Equal(t, block.Addr, third.Addr)
	require.NoError(t, m.Free(next.Addr))
	require.NoError(t, m.Free(third.Addr))
}

func TestStreamsOfBlocksThatAreNotLive(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	stream := newStream(t, d)
	block := must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t)
	require.NoError(t, m.FreeOn(block.Addr, stream))
	for name, err := range map[string]error{
		"freed before": m.FreeOn(block.Addr, stream),
		"inside":       m.RecordStream(block.Addr+256, stream),
		"nothing":      m.RecordStream(12345, stream),
	} {
		t.Run(name, func(t *testing.T) { must.Fail(t, status.InvalidArgument, err, "live block") })
	}
}

// Each mark, each wait and each query may fail: the block is obtained in another way, or the error says so, and nothing
// is lost.
func TestStreamCallsMayFail(t *testing.T) {
	for _, opts := range []simulated.Options{{}, {NoStreamMemOps: true}} {
		for n := 0; ; n++ {
			m, d := initialized(t, "T4", opts, nil, []float64{8})
			one, other := newStream(t, d), newStream(t, d)
			calls := d.Calls()
			fired := false
			d.SetFaults(func(c faults.Call) error {
				if c.Index-calls != n {
					return nil
				}
				fired = true
				return gpu.ErrorUnknown
			})
			handOver(t, m, one, other)
			d.SetFaults()
			require.NoError(t, m.Check())
			require.NoError(t, d.StreamSynchronize(0, one))
			require.NoError(t, d.StreamSynchronize(0, other))
			require.NoError(t, m.Close(false))
			if !fired {
				require.Greater(t, n, 3, "some calls were failed")
				break
			}
		}
	}
}

// handOver allocates on one stream and then on another, at most twice, and frees everything.
func handOver(t *testing.T, m *devmgr.Manager, one, other gpu.Stream) {
	for _, stream := range []gpu.Stream{one, other} {
		block, err := m.AllocateKnowing(0, -1, stream, devmgr.Lasting, 8*mib, 0)
		if err != nil {
			block, err = m.AllocateKnowing(0, -1, stream, devmgr.Lasting, 8*mib, 0)
		}
		require.NoError(t, err)
		if m.FreeOn(block.Addr, stream) != nil {
			require.NoError(t, m.FreeOn(block.Addr, stream))
		}
	}
}

// If there is memory that another stream may still use, and that stream cannot be waited for, the error says so.
func TestMemoryThatCannotBeWaitedFor(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	one, other := newStream(t, d), newStream(t, d)
	block := must.OK(m.AllocateKnowing(0, -1, one, devmgr.Lasting, 8*mib, 0))(t)
	held := closedGate(t, d, one)
	require.NoError(t, m.FreeOn(block.Addr, one))
	d.SetFaults(func(c faults.Call) error {
		if c.Op == "StreamWriteValue64" || c.Op == "StreamWaitValue64" {
			return gpu.ErrorUnknown
		}
		return nil
	})
	_, err := m.AllocateKnowing(0, -1, other, devmgr.Lasting, 8*mib, 0)
	must.Fail(t, status.ResourceExhausted, err)
	require.ErrorContains(t, err, "work queued in other streams may still use it, and waiting for them failed "+
		"(CUDA_ERROR_UNKNOWN (999))")
	require.ErrorContains(t, err, "Synchronize those streams")
	d.SetFaults()
	held.open()
	require.NoError(t, d.StreamSynchronize(0, one))
	again := must.OK(m.AllocateKnowing(0, -1, other, devmgr.Lasting, 8*mib, 0))(t)
	require.NoError(t, m.FreeOn(again.Addr, other))
}

// A thread without a scope, such as autograd's workers, runs in the stream of the scope that its work comes from.
func TestAStreamOfItsOwnTellsWhoseMemoryItIs(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{100, 100, 100}, []float64{100})
	first := must.OK(m.StreamOf(0))(t)
	require.Equal(t, gpu.StreamNull, first, "the first of an ordinal gets what no other one claims")
	second := must.OK(m.StreamOf(1))(t)
	require.Greater(t, second, gpu.StreamPerThread)
	require.Equal(t, second, must.OK(m.StreamOf(1))(t))
	third := must.OK(m.StreamOf(2))(t)
	require.NotEqual(t, second, third)

	others := must.OK(d.machine.StreamCreate(0, gpu.StreamNonBlocking, 0))(t)
	for name, row := range map[string]struct {
		ordinal, scope int
		stream         gpu.Stream
		want           int
	}{
		"the stream's GPU":                 {0, -1, second, 1},
		"another stream's GPU":             {0, -1, third, 2},
		"the scope comes first":            {0, 2, second, 2},
		"also the scope of the first":      {0, 0, second, 0},
		"a scope elsewhere counts as none": {0, 3, third, 2},
		"a stream of the program":          {0, -1, others, 0},
		"the null stream":                  {0, -1, gpu.StreamNull, 0},
		"the per-thread stream":            {0, -1, gpu.StreamPerThread, 0},
		"a stream of another ordinal":      {1, -1, second, 3},
	} {
		require.Equal(t, row.want, serving(t, m, row.ordinal, row.scope, row.stream), name)
	}
	block := must.OK(m.AllocateKnowing(0, -1, second, devmgr.Lasting, 1000, 0))(t)
	require.EqualValues(t, 1, stats(t, m, "GPU:1").LiveBlocks)
	require.NoError(t, m.Free(block.Addr))
	must.Fail(t, status.InvalidArgument, must.Err(m.StreamOf(4)))
}

func TestAStreamOfItsOwnHasThePriorityOfItsDevice(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, nil)
	limit, urgent, normal := 100.0, int64(-2), int64(0)
	require.NoError(t, m.Configure(func(s *config.State) error {
		return s.SetLogicalConfigs(config.Arg{Device: s.Physical()[1]},
			config.LogicalConfigs{Items: []config.LogicalConfig{
				{MemoryLimitMiB: &limit, Priority: &normal}, {MemoryLimitMiB: &limit, Priority: &urgent},
			}})
	}))
	must.OK(m.Initialize(nil, "", nil))(t)
	require.Equal(t, -2, must.OK(d.machine.StreamGetPriority(0, must.OK(m.StreamOf(1))(t)))(t))
}

func TestTrimGivesBackWhatNoBlockLiesIn(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{100, 50})
	block, kept := allocate(t, m, 0, 1), allocate(t, m, 1, 1)
	require.EqualValues(t, 150*mib, d.taken(t, 0))
	require.NoError(t, m.Free(block.Addr))
	require.EqualValues(t, 100*mib, must.OK(m.Trim())(t))
	require.EqualValues(t, 50*mib, d.taken(t, 0), "a region with a block stays")
	require.NoError(t, m.Free(kept.Addr))
}

func TestRegionIsTheDriversPieceAroundABlock(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{100})
	first, second := allocate(t, m, 0, 1000), allocate(t, m, 0, 1000)
	start, bytes := must.OK2(m.Region(second.Addr))(t)
	require.Equal(t, first.Addr, start)
	require.EqualValues(t, 100*mib, bytes)
	must.Fail(t, status.InvalidArgument, must.Err2(m.Region(start-1)))
	require.NoError(t, m.Free(first.Addr))
	require.NoError(t, m.Free(second.Addr))
}

func TestRecordStreamWantsALiveBlock(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil)
	stream := must.OK(m.StreamOf(0))(t)
	block := allocate(t, m, 0, 1000)
	require.NoError(t, m.RecordStream(block.Addr, stream))
	must.Fail(t, status.InvalidArgument, m.RecordStream(block.Addr+256, stream))
	require.NoError(t, m.Free(block.Addr))
	must.Fail(t, status.InvalidArgument, m.RecordStream(block.Addr, stream))
}

func TestAFractionIsKeptByTheLimitsOrRefused(t *testing.T) {
	m, _ := initialized(t, "2xT4:8GiB", simulated.Options{}, nil, []float64{1024, 1024}, []float64{8192})
	require.NoError(t, m.RequireFraction(0, 0.25))
	require.NoError(t, m.RequireFraction(1, 1))
	for _, row := range []struct {
		ordinal  int
		fraction float64
	}{{0, 0.2}, {1, 0.999}, {0, 0}} {
		must.Fail(t, status.FailedPrecondition, m.RequireFraction(row.ordinal, row.fraction),
			"gpuconf.configure(limit=")
	}
	must.Fail(t, status.InvalidArgument, m.RequireFraction(2, 0.5))
}
