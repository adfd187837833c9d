package devmgr_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

var bothTimelines = map[string]simulated.Options{"words": {}, "events": {NoStreamMemOps: true}}

// recycler is a driver that reuses the handle of a destroyed stream at once, as real drivers do, while its work may
// still run.
type recycler struct {
	*driver
	now map[gpu.Stream]gpu.Stream // by the handle that the process sees
}

func (r *recycler) real(stream gpu.Stream) gpu.Stream {
	if now, ok := r.now[stream]; ok {
		return now
	}
	return stream
}

func (r *recycler) StreamGetID(ordinal int, stream gpu.Stream) (uint64, error) {
	return r.driver.StreamGetID(ordinal, r.real(stream))
}

func (r *recycler) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (uint64, error) {
	return r.driver.StreamGetCaptureInfo(ordinal, r.real(stream))
}

func (r *recycler) StreamGetCaptureLife(ordinal int, stream gpu.Stream) (gpu.CaptureLife, error) {
	return r.driver.StreamGetCaptureLife(ordinal, r.real(stream))
}

func (r *recycler) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return r.driver.StreamWriteValue64(ordinal, r.real(stream), addr, value)
}

func (r *recycler) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return r.driver.StreamWaitValue64(ordinal, r.real(stream), addr, value)
}

func (r *recycler) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	return r.driver.EventRecord(ordinal, event, r.real(stream))
}

func (r *recycler) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	return r.driver.StreamWaitEvent(ordinal, r.real(stream), event)
}

// slowly keeps a stream busy until the gate opens, which happens soon.
func slowly(t *testing.T, d *driver, stream gpu.Stream, opts simulated.Options) {
	if opts.NoStreamMemOps {
		return // no stream can be blocked
	}
	held := closedGate(t, d, stream)
	timer := time.AfterFunc(20*time.Millisecond, held.open)
	t.Cleanup(func() { timer.Stop(); held.open() })
}

// A stream is destroyed while its work runs on freed memory; its handle is reused, or is not. The next user of the
// memory is ordered after that work, and the new stream is not mistaken for the old one.
func TestMemoryOfADestroyedStream(t *testing.T) {
	for name, opts := range bothTimelines {
		for _, again := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: ", and its handle comes again"}[again], func(t *testing.T) {
				d := newDriver(t, "T4", opts)
				r := &recycler{driver: d, now: map[gpu.Stream]gpu.Stream{}}
				m := initializedOn(t, d, r, 8)
				old, heir := newStream(t, d), newStream(t, d)
				block := must.OK(m.AllocateKnowing(0, -1, old, 0, 8*mib, 0))(t)
				slowly(t, d, old, opts)
				fill(t, d, old, block.Addr, 1, 8*mib)
				require.NoError(t, m.FreeOn(block.Addr, old))
				require.NoError(t, d.StreamDestroy(0, old))
				if again {
					r.now[old] = newStream(t, d)
					heir = old
				}
				got := must.OK(m.AllocateKnowing(0, -1, heir, 0, 8*mib, 0))(t, "the limit leaves no other memory")
				fill(t, d, r.real(heir), got.Addr, 2, 8*mib)
				require.NoError(t, d.StreamSynchronize(0, r.real(heir)))
				requireFilled(t, m, got, 2, 8*mib, "the old stream's work came last")
				require.NoError(t, m.FreeOn(got.Addr, heir))
				require.NoError(t, m.Check())
			})
		}
	}
}

// initializedOn returns a Manager over a driver that wraps d's machine; its one logical GPU has a limit in MiB.
func initializedOn(t *testing.T, d *driver, over gpu.Driver, limit float64) *devmgr.Manager {
	m := must.OK(devmgr.New(over, nil))(t)
	t.Cleanup(func() {
		require.NoError(t, m.Close(true))
		d.requireNothingLeft(t)
	})
	require.NoError(t, splitGPU(m, 0, limit))
	must.OK(m.Initialize(nil, "main.py:1 (test)", nil))(t)
	return m
}

// A block outlives the stream that it was allocated on. It can be freed, and its memory is reused.
func TestBlocksOutliveTheirStream(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			m, d := initialized(t, "T4", opts, nil, []float64{8})
			old, heir := newStream(t, d), newStream(t, d)
			block := must.OK(m.AllocateKnowing(0, -1, old, 0, 8*mib, 0))(t)
			fill(t, d, old, block.Addr, 1, 8*mib)
			require.NoError(t, d.StreamDestroy(0, old))
			before := stats(t, m, "GPU:0")
			must.Fail(t, status.InvalidArgument, m.FreeOn(block.Addr, old))
			must.Fail(t, status.InvalidArgument, m.RecordStream(block.Addr, old))
			must.Fail(t, status.InvalidArgument, must.Err(m.AllocateKnowing(0, -1, old, 0, mib, 0)),
				"it was destroyed, or belongs to another device")
			require.Equal(t, before, stats(t, m, "GPU:0"))
			require.NoError(t, m.Check())

			require.NoError(t, m.Free(block.Addr))
			require.NoError(t, m.FreeOn(must.OK(m.AllocateKnowing(0, -1, heir, 0, 8*mib, 0))(t).Addr, heir))
			require.NoError(t, m.Check())
		})
	}
}

// A program may create and destroy any number of streams.
func TestManyStreamsComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			m, d := initialized(t, "T4", opts, nil, []float64{8})
			kept := must.OK(m.Allocate(0, mib, 0))(t)
			for range 10_000 {
				stream := newStream(t, d)
				require.NoError(t, m.FreeOn(must.OK(m.AllocateKnowing(0, -1, stream, 0, 7*mib, 0))(t).Addr, stream))
				require.NoError(t, d.StreamDestroy(0, stream))
			}
			require.NoError(t, m.Free(kept.Addr))
			require.NoError(t, m.Check())
		})
	}
}

// If the GPU cannot be waited for, memory of a destroyed stream is not reused, and the error says why.
func TestADestroyedStreamThatCannotBeWaitedFor(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	old, heir := newStream(t, d), newStream(t, d)
	require.NoError(t, m.FreeOn(must.OK(m.AllocateKnowing(0, -1, old, 0, 8*mib, 0))(t).Addr, old))
	require.NoError(t, d.StreamDestroy(0, old))
	d.SetFaults(func(c faults.Call) error {
		if c.Op == "ContextSynchronize" {
			return gpu.ErrorUnknown
		}
		return nil
	})
	_, err := m.AllocateKnowing(0, -1, heir, 0, 8*mib, 0)
	must.Fail(t, status.ResourceExhausted, err)
	require.ErrorContains(t, err, "work queued in other streams may still use it, and waiting for them failed "+
		"(CUDA_ERROR_UNKNOWN (999))")
	d.SetFaults()
	require.NoError(t, m.FreeOn(must.OK(m.AllocateKnowing(0, -1, heir, 0, 8*mib, 0))(t).Addr, heir))
}

// After Close every call that names a block returns an error, and changes nothing.
func TestFreesAfterClose(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	stream := newStream(t, d)
	block := must.OK(m.AllocateKnowing(0, -1, stream, 0, mib, 0))(t)
	require.NoError(t, m.Close(true))
	for name, err := range map[string]error{
		"Free": m.Free(block.Addr), "FreeID": m.FreeID(block.Addr, block.ID), "FreeOn": m.FreeOn(block.Addr, stream),
		"FreeOn the default stream": m.FreeOn(block.Addr, gpu.StreamNull), "RecordStream": m.RecordStream(
			block.Addr, stream),
	} {
		require.Equal(t, status.FailedPrecondition.String(), status.CodeOf(err).String(), name)
		require.ErrorContains(t, err, "this runtime was reset", name)
	}
	d.requireNothingLeft(t)
}

// deadly is a driver that, as NVIDIA's, must never be given the handle of a destroyed stream: that is a crash.
type deadly struct {
	*driver
	t    *testing.T
	gone map[gpu.Stream]bool
}

func (d *deadly) requireThere(stream gpu.Stream) {
	d.t.Helper()
	require.False(d.t, d.gone[stream], "the driver was given the handle of a stream that was destroyed")
}

func (d *deadly) destroy(stream gpu.Stream) {
	require.NoError(d.t, d.driver.StreamDestroy(0, stream))
	d.gone[stream] = true
}

func (d *deadly) StreamGetID(ordinal int, stream gpu.Stream) (uint64, error) {
	d.requireThere(stream)
	return d.driver.StreamGetID(ordinal, stream)
}

func (d *deadly) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (uint64, error) {
	d.requireThere(stream)
	return d.driver.StreamGetCaptureInfo(ordinal, stream)
}

func (d *deadly) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	d.requireThere(stream)
	return d.driver.StreamWriteValue64(ordinal, stream, addr, value)
}

func (d *deadly) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	d.requireThere(stream)
	return d.driver.StreamWaitValue64(ordinal, stream, addr, value)
}

func (d *deadly) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	d.requireThere(stream)
	return d.driver.EventRecord(ordinal, event, stream)
}

func (d *deadly) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	d.requireThere(stream)
	return d.driver.StreamWaitEvent(ordinal, stream, event)
}

// A random program whose streams come and go, as those of CuPy do. No call gives the driver a handle that is gone.
func TestNoHandleOfADestroyedStreamReachesTheDriver(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				machine := newDriver(t, "T4", opts)
				d := &deadly{driver: machine, t: t, gone: map[gpu.Stream]bool{}}
				m := must.OK(devmgr.New(d, nil))(t)
				require.NoError(t, splitGPU(m, 0, 256))
				must.OK(m.Initialize(nil, "main.py:1 (test)", nil))(t)
				streams, blocks := []gpu.Stream{gpu.StreamNull}, []uint64{}
				which := func() int { return rapid.IntRange(0, len(blocks)-1).Draw(r, "block") }
				r.Repeat(map[string]func(*rapid.T){
					"a stream": func(*rapid.T) { streams = append(streams, newStream(t, machine)) },
					"the end of a stream": func(r *rapid.T) {
						if len(streams) > 1 {
							at := rapid.IntRange(1, len(streams)-1).Draw(r, "stream")
							d.destroy(streams[at])
							streams = slices.Delete(streams, at, at+1)
						}
					},
					"allocate": func(r *rapid.T) {
						bytes := rapid.Uint64Range(1, 128).Draw(r, "MiB") * mib
						stream := rapid.SampledFrom(streams).Draw(r, "stream")
						block, err := m.AllocateKnowing(0, -1, stream, 0, bytes, 0)
						if err == nil {
							blocks = append(blocks, block.Addr)
						}
					},
					"free": func(r *rapid.T) {
						if len(blocks) == 0 {
							return
						}
						at := which()
						if rapid.Bool().Draw(r, "on a stream") {
							require.NoError(t, m.FreeOn(blocks[at], rapid.SampledFrom(streams).Draw(r, "stream")))
						} else {
							require.NoError(t, m.Free(blocks[at]))
						}
						blocks = slices.Delete(blocks, at, at+1)
					},
					"record": func(r *rapid.T) {
						if len(blocks) > 0 {
							require.NoError(
								t, m.RecordStream(blocks[which()], rapid.SampledFrom(streams).Draw(r, "stream")))
						}
					},
					"trim": func(*rapid.T) { _, _ = m.Trim() },
					"":     func(*rapid.T) { require.NoError(t, m.Check()) },
				})
				require.NoError(t, m.Close(true))
			})
		})
	}
}

func TestAHandleThatIsNoStreamIsRefused(t *testing.T) {
	for name, options := range bothTimelines {
		m, d := initialized(t, "T4", options, nil)
		stream, err := d.machine.StreamCreate(0, 0, 0)
		require.NoError(t, err)
		require.NoError(t, d.machine.StreamDestroy(0, stream))
		for _, known := range []devmgr.Known{0, devmgr.Uncaptured} {
			_, err = m.AllocateKnowing(0, -1, stream, known, 1000, 0)
			must.Fail(t, status.InvalidArgument, err)
			const text = "is not a stream of CUDA device 0: it was destroyed, or belongs to another"
			require.ErrorContains(t, err, text, name)
		}
	}
}

// StreamDestroy notes that the handle is gone: the manager destroys the streams that it made.
func (d *deadly) StreamDestroy(ordinal int, stream gpu.Stream) error {
	err := d.driver.StreamDestroy(ordinal, stream)
	d.gone[stream] = err == nil
	return err
}

// A pool's memory may be used in the stream of another logical GPU. That stream ends with the other pool, which may be
// closed first: closing this one leaves it alone.
func TestThePoolOfAStreamIsClosedBeforeAnotherThatUsedIt(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			machine := newDriver(t, "T4", opts)
			d := &deadly{driver: machine, t: t, gone: map[gpu.Stream]bool{}}
			m := must.OK(devmgr.New(d, nil))(t)
			require.NoError(t, splitGPU(m, 0, 64, 64, 64))
			must.OK(m.Initialize(nil, "main.py:1 (test)", nil))(t)
			for of := range 3 {
				stream := must.OK(m.StreamOf(of))(t)
				for number := range 3 {
					block := must.OK(m.AllocateKnowing(0, number, stream, 0, mib, 0))(t)
					fill(t, machine, stream, block.Addr, 1, mib)
					require.NoError(t, m.FreeOn(block.Addr, stream))
				}
			}
			require.NoError(t, m.Check())
			require.NoError(t, m.Close(true))
			machine.requireNothingLeft(t)
		})
	}
}

// The numbers of destroyed streams are ended together, after a wait for the GPU. If that wait fails, the next stream
// tries again: a program that creates and destroys streams does not run out of them because a wait failed once.
func TestDestroyedStreamsThatCouldNotBeEndedAreEndedLater(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	r := &recycler{driver: d, now: map[gpu.Stream]gpu.Stream{}}
	m := initializedOn(t, d, r, 8)
	kept := must.OK(m.Allocate(0, mib, 0))(t)
	handle := newStream(t, d)
	// waits uses a new stream whose handle is the last one's, and returns how often the GPU was waited for.
	waits := func() int {
		before := d.CallsOf()["ContextSynchronize"]
		r.now[handle] = newStream(t, d)
		require.NoError(t, m.RecordStream(kept.Addr, handle))
		return d.CallsOf()["ContextSynchronize"] - before
	}
	for range 3 {
		d.SetFaults(func(c faults.Call) error {
			if c.Op == "ContextSynchronize" {
				return gpu.ErrorUnknown
			}
			return nil
		})
		for streams := 0; waits() == 0; streams++ {
			require.Less(t, streams, 1000)
		}
		require.Positive(t, waits(), "it fails again, and they stay")
		d.SetFaults()
		require.Positive(t, waits())
		require.Zero(t, waits(), "they have ended")
	}
	require.NoError(t, m.Free(kept.Addr))
	require.NoError(t, m.Check())
}
