package devmgr_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/must"
)

// The id of a stream that is never destroyed is queried once, by any caller, also if memory is handed over.
func TestTheIDOfALastingStreamIsQueriedOnce(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			m, d := initialized(t, "T4", opts, nil, []float64{8})
			lasting, other := newStream(t, d), newStream(t, d)
			for range 10 {
				block := must.OK(m.AllocateKnowing(0, -1, lasting, devmgr.Uncaptured|devmgr.Lasting, 8*mib, 0))(t)
				require.NoError(t, m.Free(block.Addr))
				block = must.OK(m.AllocateOn(0, -1, lasting, 8*mib, 0))(t)
				require.NoError(t, m.Free(block.Addr))
			}
			require.Equal(t, 1, d.CallsOf()["StreamGetID"])
			require.Equal(t, 10, d.CallsOf()["StreamGetCaptureInfo"], "the caller of the others has asked")
			require.NoError(t, m.Free(must.OK(m.AllocateOn(0, -1, other, 8*mib, 0))(t).Addr))
			require.Equal(t, 2, d.CallsOf()["StreamGetID"], "the other stream's")
			require.NoError(t, m.Check())
		})
	}
}

// A stream that has blocks turns out to be lasting: it remains the same stream.
func TestAStreamIsFoundToBeLasting(t *testing.T) {
	m, d := initialized(t, "T4", bothTimelines["words"], nil, []float64{8})
	stream := newStream(t, d)
	before := must.OK(m.AllocateOn(0, -1, stream, mib, 0))(t)
	other := must.OK(m.Allocate(0, mib))(t)
	require.NoError(t, m.Free(before.Addr))
	waits := d.CallsOf()["StreamWaitValue64"]
	after := must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t)
	require.Equal(t, before.Addr, after.Addr, "its own memory, without a wait")
	require.Equal(t, waits, d.CallsOf()["StreamWaitValue64"])
	require.NoError(t, m.Free(after.Addr))
	require.NoError(t, m.Free(other.Addr))
	require.NoError(t, m.Check())
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
	block := must.OK(m.AllocateOn(0, -1, old, 8*mib, 0))(t)
	slowly(t, d, old, opts)
	fill(t, d, old, block.Addr, 1, 8*mib)
	require.NoError(t, m.FreeOn(block.Addr, old))
	require.NoError(t, d.StreamDestroy(0, old))
	r.now[old] = newStream(t, d)

	require.NoError(t, captures.BeginCapture(0, r.real(old)))
	must.Fail(t, status.ResourceExhausted, must.Err(m.AllocateOn(0, -1, old, 8*mib, 0)),
		"work queued in other streams may still use it")
	graph := must.OK(captures.EndCapture(0, r.real(old)))(t, "nothing of ours invalidated it")
	require.NoError(t, captures.DestroyGraph(0, graph))

	all := must.OK(m.AllocateOn(0, -1, old, 12*mib, 0))(t)
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
		block := must.OK(m.AllocateOn(0, -1, stream, 8*mib, 0))(t)
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
