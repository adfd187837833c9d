package drivertest

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// Capturer is a driver with which a test can capture streams and launch graphs, as other code of a process would: in
// CUDA's global mode, from the calling thread. Graphs and executables are identified by its own numbers.
type Capturer interface {
	BeginCapture(ordinal int, stream gpu.Stream) error
	EndCapture(ordinal int, stream gpu.Stream) (graph uint64, err error)
	GraphPieces(ordinal int, graph uint64) int // pieces of work, without events
	Instantiate(ordinal int, graph uint64) (exec uint64, err error)
	Launch(ordinal int, exec uint64, stream gpu.Stream) error
	DestroyGraph(ordinal int, graph uint64) error
	DestroyExec(ordinal int, exec uint64) error
}

type capturing struct {
	fixture
	Capturer
}

// captured runs a check on a retained device whose streams the test can capture.
func captured(check func(*testing.T, capturing)) func(*testing.T, fixture) {
	return func(t *testing.T, f fixture) {
		capturer, ok := f.Driver.(Capturer)
		if !ok {
			t.Skip("the test can't capture streams of this driver")
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		check(t, capturing{f.retain(t), capturer})
	}
}

// begin captures a stream; end returns the executable, which lives until the test ends.
func (c capturing) begin(t *testing.T, stream gpu.Stream) (end func() (exec uint64)) {
	t.Helper()
	require.NoError(t, c.BeginCapture(c.ordinal, stream))
	return func() uint64 {
		t.Helper()
		graph := attempt.Get(c.EndCapture(c.ordinal, stream))
		exec := attempt.Get(c.Instantiate(c.ordinal, graph))
		require.NoError(t, c.DestroyGraph(c.ordinal, graph))
		t.Cleanup(func() { require.NoError(t, c.DestroyExec(c.ordinal, exec)) })
		return exec
	}
}

func (c capturing) capture(t *testing.T, stream gpu.Stream) uint64 {
	t.Helper()
	return attempt.Get(c.StreamGetCaptureInfo(c.ordinal, stream))
}

func capturedWorkIsDoneByLaunches(t *testing.T, c capturing) {
	addr := c.alloc(t, mib)
	stream, other := c.stream(t, gpu.StreamNonBlocking), c.stream(t, gpu.StreamNonBlocking)
	require.NoError(t, c.MemsetD8(c.ordinal, addr, 1, mib))
	require.Zero(t, c.capture(t, stream))
	end := c.begin(t, stream)
	require.NotZero(t, c.capture(t, stream))
	require.Zero(t, c.capture(t, other))
	require.NoError(t, c.MemsetD8Async(c.ordinal, addr, 2, mib/2, stream))
	require.NoError(t, c.MemcpyDtoDAsync(c.ordinal, addr+mib/2, addr, mib/2, stream))
	exec := end()
	require.Zero(t, c.capture(t, stream))
	require.NoError(t, c.StreamSynchronize(c.ordinal, stream))
	require.Equal(t, []byte{1}, c.read(t, addr, 1), "captured work was done")
	for range 2 {
		require.NoError(t, c.MemsetD8Async(c.ordinal, addr, 3, mib, other))
		require.NoError(t, c.Launch(c.ordinal, exec, other))
		require.NoError(t, c.StreamSynchronize(c.ordinal, other))
		require.Equal(t, []byte{2, 2}, c.read(t, addr+mib/2-1, 2))
	}
	require.ErrorIs(t, c.BeginCapture(c.ordinal, gpu.StreamNull), gpu.ErrorStreamCaptureUnsupported)
	first, second := c.twoCaptures(t, stream)
	require.NotEqual(t, first, second)
}

// twoCaptures returns the numbers of two captures of one stream.
func (c capturing) twoCaptures(t *testing.T, stream gpu.Stream) (first, second uint64) {
	t.Helper()
	for _, id := range []*uint64{&first, &second} {
		end := c.begin(t, stream)
		*id = c.capture(t, stream)
		end()
	}
	return first, second
}

func offencesSpoilACapture(t *testing.T, c capturing) {
	addr := c.alloc(t, mib)
	event, outside := c.event(t), c.event(t)
	other := c.stream(t, gpu.StreamNonBlocking)
	require.NoError(t, c.EventRecord(c.ordinal, outside, other))
	stream, blocking := c.stream(t, gpu.StreamNonBlocking), c.stream(t, gpu.StreamDefault)
	for name, offence := range map[string]func(gpu.Stream) error{
		"StreamSynchronize":  func(s gpu.Stream) error { return c.StreamSynchronize(c.ordinal, s) },
		"StreamQuery":        func(s gpu.Stream) error { _, err := c.StreamQuery(c.ordinal, s); return err },
		"EventQuery":         func(gpu.Stream) error { _, err := c.EventQuery(c.ordinal, event); return err },
		"EventSynchronize":   func(gpu.Stream) error { return c.EventSynchronize(c.ordinal, event) },
		"ContextSynchronize": func(gpu.Stream) error { return c.ContextSynchronize(c.ordinal) },
		"StreamGetID":        func(s gpu.Stream) error { return c.idOf(s) },
		"a wait for an event from outside": func(s gpu.Stream) error {
			return c.StreamWaitEvent(c.ordinal, s, outside)
		},
	} {
		c.spoils(t, stream, event, name, offence)
	}
	for name, offence := range map[string]func(gpu.Stream) error{
		"work in the legacy stream": func(gpu.Stream) error {
			return c.MemsetD8Async(c.ordinal, addr, 1, 1,
				gpu.StreamNull)
		},
		"a copy that waits": func(gpu.Stream) error {
			return c.MemcpyDtoH(c.ordinal,
				make([]byte, 1), addr)
		},
		"a fill that waits": func(gpu.Stream) error { return c.MemsetD8(c.ordinal, addr, 1, 1) },
		"a mark in the legacy stream": func(gpu.Stream) error {
			return c.EventRecord(c.ordinal, outside,
				gpu.StreamNull)
		},
		"a wait for the legacy stream": func(gpu.Stream) error {
			return c.StreamSynchronize(c.ordinal,
				gpu.StreamLegacy)
		},
	} {
		c.spoils(t, blocking, event, name, offence)
	}

	end := c.begin(t, blocking)
	_, err := c.StreamGetCaptureInfo(c.ordinal, gpu.StreamNull)
	require.ErrorIs(t, err, gpu.ErrorStreamCaptureImplicit)
	end()
	end = c.begin(t, stream)
	require.NoError(t, c.MemsetD8(c.ordinal, addr, 1, 1), "the legacy stream and a captured one that is not blocking")
	require.Zero(t, c.capture(t, gpu.StreamNull))
	end()
}

// spoils captures a stream and an event, makes a call that must be refused, and checks that the capture is invalid.
func (c capturing) spoils(t *testing.T, stream gpu.Stream, event gpu.Event, name string,
	offence func(gpu.Stream) error) {
	t.Helper()
	require.NoError(t, c.BeginCapture(c.ordinal, stream))
	require.NoError(t, c.EventRecord(c.ordinal, event, stream))
	var result gpu.Result
	require.ErrorAs(t, offence(stream), &result, name)
	require.GreaterOrEqual(t, result, gpu.ErrorStreamCaptureUnsupported, name)
	require.LessOrEqual(t, result, gpu.ErrorCapturedEvent, name)
	_, err := c.EndCapture(c.ordinal, stream)
	require.ErrorIs(t, err, gpu.ErrorStreamCaptureInvalidated, name)
	require.NoError(t, c.StreamSynchronize(c.ordinal, stream), "the stream works again")
}

func capturesGoFromStreamToStream(t *testing.T, c capturing) {
	addr := c.alloc(t, mib)
	first, second, apart := c.stream(t, gpu.StreamNonBlocking), c.stream(t, gpu.StreamNonBlocking),
		c.stream(t, gpu.StreamNonBlocking)
	event := c.event(t)
	fork := func() {
		require.NoError(t, c.EventRecord(c.ordinal, event, first))
		require.NoError(t, c.StreamWaitEvent(c.ordinal, second, event))
		require.Equal(t, c.capture(t, first), c.capture(t, second))
		require.NoError(t, c.MemsetD8Async(c.ordinal, addr, 7, 1, second))
		require.NoError(t, c.EventRecord(c.ordinal, event, second))
	}
	end := c.begin(t, first)
	fork()
	require.NoError(t, c.StreamWaitEvent(c.ordinal, first, event))
	exec := end()
	require.Zero(t, c.capture(t, second))
	require.NoError(t, c.Launch(c.ordinal, exec, apart))
	require.NoError(t, c.StreamSynchronize(c.ordinal, apart))
	require.Equal(t, []byte{7}, c.read(t, addr, 1))

	require.NoError(t, c.BeginCapture(c.ordinal, first))
	fork()
	_, err := c.EndCapture(c.ordinal, first)
	require.ErrorIs(t, err, gpu.ErrorStreamCaptureUnjoined)
	require.Zero(t, c.capture(t, second))

	require.NoError(t, c.BeginCapture(c.ordinal, first))
	require.NoError(t, c.BeginCapture(c.ordinal, apart))
	fork()
	require.ErrorIs(t, c.StreamWaitEvent(c.ordinal, apart, event), gpu.ErrorStreamCaptureMerge)
	for _, stream := range []gpu.Stream{first, apart} {
		_, err := c.EndCapture(c.ordinal, stream)
		require.ErrorIs(t, err, gpu.ErrorStreamCaptureInvalidated)
	}
}

func memoryDisturbsNoCapture(t *testing.T, c capturing) {
	stream, other := c.stream(t, gpu.StreamDefault), c.stream(t, gpu.StreamNonBlocking)
	event := c.event(t)
	require.NoError(t, c.EventRecord(c.ordinal, event, other))
	end := c.begin(t, stream)
	addr := attempt.Get(c.MemAlloc(c.ordinal, mib))
	host := attempt.Get(c.MemHostAlloc(c.ordinal, 4096))
	require.NoError(t, c.MemsetD8Async(c.ordinal, addr, 1, mib, other))
	require.NoError(t, c.EventRecord(c.ordinal, event, other))
	require.NoError(t, c.EventSynchronize(c.ordinal, event))
	require.True(t, attempt.Get(c.EventQuery(c.ordinal, event)))
	require.NoError(t, c.StreamSynchronize(c.ordinal, other))
	require.False(t, c.busy(t, other))
	if c.devices[c.ordinal].StreamMemOps {
		require.NoError(t, c.StreamWriteValue64(c.ordinal, other, host.Addr, 1))
		require.NoError(t, c.StreamSynchronize(c.ordinal, other))
	}
	if c.devices[c.ordinal].VMM {
		memoryWithoutAddress(t, c)
	}
	if c.devices[c.ordinal].Managed {
		managed := attempt.Get(c.MemAllocManaged(c.ordinal, mib))
		require.NoError(t, c.MemFree(c.ordinal, managed))
	}
	require.NoError(t, c.MemFreeHost(c.ordinal, host.Addr))
	require.NoError(t, c.MemFree(c.ordinal, addr))
	c.free(t)
	if err := c.idOf(other); err != nil {
		require.ErrorIs(t, err, gpu.ErrorNotSupported)
	}
	end()
}

func (c capturing) idOf(stream gpu.Stream) error {
	_, err := c.StreamGetID(c.ordinal, stream)
	return err
}

func memoryWithoutAddress(t *testing.T, c capturing) {
	granule, _, err := c.MemGetAllocationGranularity(c.ordinal)
	require.NoError(t, err)
	addr := attempt.Get(c.MemAddressReserve(granule, 0))
	handle := attempt.Get(c.MemCreate(c.ordinal, granule))
	require.NoError(t, c.MemMap(addr, granule, handle))
	require.NoError(t, c.MemSetAccess(c.ordinal, addr, granule))
	require.NoError(t, c.MemUnmap(addr, granule))
	require.NoError(t, c.MemRelease(handle))
	require.NoError(t, c.MemAddressFree(addr, granule))
}

func graphsLiveAsLongAsTheirLaunches(t *testing.T, c capturing) {
	stream, other := c.stream(t, gpu.StreamNonBlocking), c.stream(t, gpu.StreamNonBlocking)
	life := func() gpu.CaptureLife {
		life, err := c.StreamGetCaptureLife(c.ordinal, stream)
		if errors.Is(err, gpu.ErrorNotSupported) {
			t.Skip("the driver has no lives of graphs")
		}
		require.NoError(t, err)
		return life
	}
	require.NoError(t, c.BeginCapture(c.ordinal, stream))
	one, same := life(), life()
	graph := attempt.Get(c.EndCapture(c.ordinal, stream))
	exec := attempt.Get(c.Instantiate(c.ordinal, graph))
	require.NoError(t, c.DestroyGraph(c.ordinal, graph))
	require.False(t, one.Ended())
	release := func() {}
	if c.devices[c.ordinal].StreamMemOps {
		release = c.hold(t, other)
	}
	require.NoError(t, c.Launch(c.ordinal, exec, other))
	require.NoError(t, c.DestroyExec(c.ordinal, exec))
	if c.devices[c.ordinal].StreamMemOps {
		require.False(t, one.Ended(), "a launch is not done")
	}
	release()
	eventually(t, one.Ended, "nothing of the graph is left")
	eventually(t, same.Ended, "nothing of the graph is left")
	require.True(t, one.Ended(), "it stays so")

	require.NoError(t, c.BeginCapture(c.ordinal, stream))
	failed := life()
	_, err := c.StreamQuery(c.ordinal, stream)
	require.Error(t, err)
	_, err = c.EndCapture(c.ordinal, stream)
	require.ErrorIs(t, err, gpu.ErrorStreamCaptureInvalidated)
	eventually(t, failed.Ended, "the capture has come to nothing")
	_, err = c.StreamGetCaptureLife(c.ordinal, stream)
	require.Error(t, err, "it is not captured")
}

func aContextWaitsForDestroyedStreams(t *testing.T, f fixture) {
	addr := f.alloc(t, mib)
	for i := range 20 {
		stream := attempt.Get(f.StreamCreate(f.ordinal, gpu.StreamNonBlocking, 0))
		require.NoError(t, f.MemsetD8Async(f.ordinal, addr, byte(i), mib, stream))
		require.NoError(t, f.StreamDestroy(f.ordinal, stream))
		require.NoError(t, f.ContextSynchronize(f.ordinal))
		require.Equal(t, []byte{byte(i)}, f.read(t, addr+mib-1, 1))
	}
}
