package devmgr_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/devices/capturing"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/devices/handover"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestCaptures(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			handover.Captures(t, func(t *testing.T) handover.Capturing {
				d := openDriver(t, "T4", opts)
				t.Cleanup(func() {
					d.requireNothingLeft(t)
					require.NoError(t, d.machine.Close())
				})
				return capturing.New(d.machine)
			})
		})
	}
}

// newCapturing returns a driver whose streams can be captured.
func newCapturing(t *testing.T, opts simulated.Options) (*driver, *capturing.Driver) {
	d := newDriver(t, "T4", opts)
	captures := capturing.New(d.machine)
	d.Injector = faults.NewInjector(captures)
	return d, captures
}

// If the driver cannot report when a graph ends, or another call fails, a captured stream gets no memory, and the
// accounting does not change.
func TestCapturesThatCannotBeFollowed(t *testing.T) {
	d, captures := newCapturing(t, simulated.Options{})
	m := initializedOn(t, d, d, 8)
	stream := newStream(t, d)
	require.NoError(t, captures.BeginCapture(0, stream))
	before := stats(t, m, "GPU:0")
	for _, row := range []struct {
		call   string
		result gpu.Result
		code   status.Code
		text   string
	}{
		{"StreamGetCaptureLife", gpu.ErrorNotSupported, status.Unimplemented,
			"the driver does not report when the graph is destroyed"},
		{"StreamGetCaptureLife", gpu.ErrorUnknown, status.Unknown, "the driver does not report when the graph is " +
			"destroyed"},
		{"StreamGetCaptureInfo", gpu.ErrorUnknown, status.Unknown,
			"is being captured: injected into StreamGetCaptureInfo"},
	} {
		d.SetFaults(func(c faults.Call) error {
			if c.Op == row.call {
				return row.result
			}
			return nil
		})
		must.Fail(t, row.code, must.Err(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0)), row.text)
		require.Equal(t, before, stats(t, m, "GPU:0"))
	}
	d.SetFaults()
	require.NoError(t, m.Free(must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t).Addr))
	require.Zero(t, must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, 0, 0))(t))
	require.NoError(t, captures.DestroyGraph(0, must.OK(captures.EndCapture(0, stream))(t)))
	require.Zero(t, stats(t, m, "GPU:0").CapturedBytes)
}

// The id of a stream that is never destroyed is queried once, by any caller, also if memory is handed over.
func TestTheIDOfALastingStreamIsQueriedOnce(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			m, d := initialized(t, "T4", opts, nil, []float64{8})
			lasting, other := newStream(t, d), newStream(t, d)
			for range 10 {
				block := must.OK(m.AllocateKnowing(0, -1, lasting, devmgr.Uncaptured|devmgr.Lasting, 8*mib, 0))(t)
				require.NoError(t, m.Free(block.Addr))
				block = must.OK(m.AllocateKnowing(0, -1, lasting, 0, 8*mib, 0))(t)
				require.NoError(t, m.Free(block.Addr))
			}
			require.Equal(t, 1, d.CallsOf()["StreamGetID"])
			require.Equal(t, 10, d.CallsOf()["StreamGetCaptureInfo"], "the caller of the others has asked")
			require.NoError(t, m.Free(must.OK(m.AllocateKnowing(0, -1, other, 0, 8*mib, 0))(t).Addr))
			require.Equal(t, 2, d.CallsOf()["StreamGetID"], "the other stream's")
			require.NoError(t, m.Check())
		})
	}
}

// A stream that has blocks turns out to be lasting: it remains the same stream.
func TestAStreamIsFoundToBeLasting(t *testing.T) {
	m, d := initialized(t, "T4", bothTimelines["words"], nil, []float64{8})
	stream := newStream(t, d)
	before := must.OK(m.AllocateKnowing(0, -1, stream, 0, mib, 0))(t)
	other := must.OK(m.Allocate(0, mib, 0))(t)
	require.NoError(t, m.Free(before.Addr))
	waits := d.CallsOf()["StreamWaitValue64"]
	after := must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t)
	require.Equal(t, before.Addr, after.Addr, "its own memory, without a wait")
	require.Equal(t, waits, d.CallsOf()["StreamWaitValue64"])
	require.NoError(t, m.Free(after.Addr))
	require.NoError(t, m.Free(other.Addr))
}

// A stream is destroyed while its work runs on freed memory, and its handle comes again for a stream that is captured
// at once. The id of a captured stream can't be queried, so it might be the old one: it gets none of that memory while
// the work runs, nor does anybody else.
func TestACapturedStreamWithTheHandleOfADestroyedOne(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opts := bothTimelines["words"]
	d, captures := newCapturing(t, opts)
	r := &recycler{driver: d, now: map[gpu.Stream]gpu.Stream{}}
	m := initializedOn(t, d, r, 12)
	old := newStream(t, d)
	block := must.OK(m.AllocateKnowing(0, -1, old, 0, 8*mib, 0))(t)
	slowly(t, d, old, opts)
	fill(t, d, old, block.Addr, 1, 8*mib)
	require.NoError(t, m.FreeOn(block.Addr, old))
	require.NoError(t, d.StreamDestroy(0, old))
	r.now[old] = newStream(t, d)

	require.NoError(t, captures.BeginCapture(0, r.real(old)))
	must.Fail(t, status.ResourceExhausted, must.Err(m.AllocateKnowing(0, -1, old, 0, 8*mib, 0)),
		"work queued in other streams may still use it")
	graph := must.OK(captures.EndCapture(0, r.real(old)))(t, "nothing of ours invalidated it")
	require.NoError(t, captures.DestroyGraph(0, graph))

	all := must.OK(m.AllocateKnowing(0, -1, old, 0, 12*mib, 0))(t)
	fill(t, d, r.real(old), all.Addr, 2, 12*mib)
	require.NoError(t, d.StreamSynchronize(0, r.real(old)))
	requireFilled(t, m, all, 2, 12*mib, "the old stream's work came last")
	require.NoError(t, m.FreeOn(all.Addr, old))
	require.NoError(t, m.Check())
}

// A block of an ended graph is used and freed in the stream that was captured. Another stream gets its memory only
// after that work, each time: the GPU is waited for, because nothing is known of the stream.
func TestBlocksOfAGraphAreHandedOverAfterTheirStreamsWork(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opts := bothTimelines["words"]
	d, captures := newCapturing(t, opts)
	m := initializedOn(t, d, d, 8)
	stream, heir := newStream(t, d), newStream(t, d)
	for range 3 {
		require.NoError(t, captures.BeginCapture(0, stream))
		block := must.OK(m.AllocateKnowing(0, -1, stream, 0, 8*mib, 0))(t)
		require.NoError(t, captures.DestroyGraph(0, must.OK(captures.EndCapture(0, stream))(t)))
		_, err := m.Trim() // which sees that the graph is gone
		require.NoError(t, err)
		slowly(t, d, stream, opts)
		fill(t, d, stream, block.Addr, 1, 8*mib)
		require.NoError(t, m.Free(block.Addr))

		got := must.OK(m.AllocateKnowing(0, -1, heir, devmgr.Lasting, 8*mib, 0))(t)
		fill(t, d, heir, got.Addr, 2, 8*mib)
		require.NoError(t, d.ContextSynchronize(0))
		requireFilled(t, m, got, 2, 8*mib, "the captured stream's work came last")
		require.NoError(t, m.Free(got.Addr))
	}
	require.NoError(t, m.Check())
}

// inSteps runs a test on a machine that executes its work step by step.
func inSteps(t *testing.T, opts simulated.Options, test func(*testing.T, *simulated.Machine)) {
	opts.Stepped = true
	d := newDriver(t, "T4:1GiB", opts)
	test(t, d.machine)
	d.requireNothingLeft(t)
}

// small reports whether a program has few interleavings.
func small(program handover.Program) bool {
	return len(program.Streams) == 2 && len(program.Threads[0]) < 5
}

// Every interleaving of small programs' calls and of the device's progress, with both ways to track that progress. Only
// one goroutine runs at a time, and each new goroutine is expensive under the race detector, so there only the smallest
// programs run.
func TestEveryHandOver(t *testing.T) {
	for name, opts := range map[string]simulated.Options{"words": {}, "events": {NoStreamMemOps: true}} {
		t.Run(name, func(t *testing.T) {
			inSteps(t, opts, func(t *testing.T, machine *simulated.Machine) {
				all := 0
				for _, program := range handover.Programs() {
					if underRace && !small(program) {
						continue
					}
					runs := handover.Exhaust(t, machine, program, handover.How{})
					require.Greater(t, runs, 50, program.Name)
					t.Logf("%7d interleavings: %s", runs, program.Name)
					all += runs
				}
				t.Logf("%7d interleavings in all", all)
			})
		})
	}
}

// The same on a pool that only one stream has used so far, and the smallest program with all interleavings.
func TestEveryFirstHandOver(t *testing.T) {
	inSteps(t, simulated.Options{}, func(t *testing.T, machine *simulated.Machine) {
		for _, program := range handover.Programs() {
			if small(program) {
				runs := handover.Exhaust(t, machine, program, handover.How{Fresh: true})
				t.Logf("%7d interleavings: %s", runs, program.Name)
			}
		}
		if underRace {
			return
		}
		least := handover.Programs()[0]
		runs := handover.Exhaust(t, machine, least, handover.How{Plain: true})
		require.Greater(t, runs, 10_000)
		t.Logf("%7d interleavings, none left out: %s", runs, least.Name)
	})
}
